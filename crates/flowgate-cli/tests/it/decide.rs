//! `flowgate decide` as a command: its file, its addresses, its end.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{flowgate, run};

/// A file that is removed when dropped.
struct Limits(PathBuf);

impl Limits {
    fn new(name: &str, text: &str) -> Limits {
        let name = format!("flowgate-decide-{}-{name}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Limits(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A process that is ended when dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const GOOD: &str = "{domain: api, descriptors: [{key: user, quota: 3/day, capacity: 100}]}";

#[test]
fn a_file_is_checked() {
    let good = Limits::new("good", GOOD);
    let (code, output, _) = run(&["decide", good.path(), "--check"]);
    assert_eq!(code, 0);
    assert!(output.starts_with("ok: 1 limit, "), "{output}");

    let bad = Limits::new("bad", "domain: api\ndescriptors:\n  - kez: user\n");
    let (code, _, error) = run(&["decide", bad.path(), "--check"]);
    let path = bad.path();
    let expected = format!("flowgate: {path}:3:5: unknown key `kez`; did you mean `key`?\n");
    assert_eq!((code, error), (2, expected));

    let (code, _, error) = run(&["decide", "/no/such/file.yaml"]);
    assert_eq!(code, 1);
    assert!(
        error.starts_with("flowgate: /no/such/file.yaml: cannot read it: "),
        "{error}"
    );
}

#[test]
fn addresses_that_cannot_be_used_are_told_in_one_line() {
    let file = Limits::new("addresses", GOOD);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, expected) in [
        (
            ["--http", &address, "--resp", "none"],
            "is in use: end that server, or write another port",
        ),
        (
            ["--http", "0.0.0.0:0", "--resp", "none"],
            "is open to other machines, without encryption: add --plain",
        ),
        (
            ["--http", "none", "--resp", "none"],
            "no door: write --rls 8081, --http 8080, or --resp 6380",
        ),
    ] {
        let decide = ["decide", file.path(), "--rls", "none"];
        let (code, _, error) = run(&[&decide[..], &arguments].concat());
        assert_eq!(code, 2, "{error}");
        assert!(
            error.contains(expected) && error.lines().count() == 1,
            "{error}"
        );
    }
}

#[cfg(unix)]
#[test]
fn it_answers_reads_its_file_again_and_ends() {
    let file = Limits::new("runs", GOOD);
    let doors = ["--rls", "0", "--http", "none", "--resp", "0"];
    let process = flowgate(&[&["decide", file.path()][..], &doors].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut process = Ending(process);
    let mut said = BufReader::new(process.0.stderr.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        line
    };
    let listening = line();
    let (_, rest) = listening.split_once("RESP on ").expect("an address");
    let address = rest.split(';').next().unwrap().to_owned();
    let ask = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.write_all(b"FG.ASK api.user a\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    fs::write(&file.0, GOOD.replace("3/day", "1/dya")).unwrap();
    crate::support::signal(process.0.id(), "-HUP");
    assert!(line().ends_with("; the limits stay as they are\n"));
    assert!(ask().starts_with("*5\r\n:0\r\n:3\r\n:1\r\n"));
    fs::write(&file.0, GOOD.replace("3/day", "5/day")).unwrap();
    crate::support::signal(process.0.id(), "-HUP");
    assert_eq!(line(), "read the files again; limits: 1\n");
    assert!(ask().starts_with("*5\r\n:0\r\n:5\r\n:2\r\n"));
    crate::support::signal(process.0.id(), "-TERM");
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}
