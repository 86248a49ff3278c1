//! `flowgate decide` as a command: its file, its addresses, its end.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
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
            ["--http", "0", "--admin", &address],
            "is in use: end that server, or write another port",
        ),
        (
            ["--http", "0.0.0.0:0", "--resp", "none"],
            "is open to other machines, without encryption: add --cert and --key, or --plain",
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

/// A server, what it writes to standard error, and its addresses.
#[cfg(unix)]
struct Server {
    process: Ending,
    said: mpsc::Receiver<String>,
    resp: String,
    admin: String,
}

#[cfg(unix)]
impl Server {
    fn new(file: &Path) -> Server {
        let arguments = "--rls none --http none --resp 0 --admin 0".split(' ');
        let arguments: Vec<_> = arguments.collect();
        let process = flowgate(&[&["decide", file.to_str().unwrap()][..], &arguments].concat())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Ending(process);
        let lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let listening = line(&said);
        let after = |what: &str| {
            let (_, rest) = listening.split_once(what).expect("an address");
            let end = rest.find([';', ',', '/']).expect("more");
            rest[..end].to_owned()
        };
        Server {
            process,
            resp: after("RESP on "),
            admin: after("admin on http://"),
            said,
        }
    }

    /// The next line on standard error.
    fn line(&self) -> String {
        line(&self.said)
    }

    fn ask(&self) -> String {
        exchange(&self.resp, "FG.ASK api.user a\r\nQUIT\r\n")
    }

    fn loads(&self) -> [String; 2] {
        let get = "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let page = exchange(&self.admin, get);
        ["ok", "error"].map(|result| {
            let line = format!("flowgate_configuration_loads_total{{result=\"{result}\"}} ");
            let find = |text: &str| Some(text.strip_prefix(&line)?.to_owned());
            page.lines().find_map(find).expect("such a line")
        })
    }
}

#[cfg(unix)]
fn line(said: &mpsc::Receiver<String>) -> String {
    said.recv_timeout(Duration::from_secs(60)).expect("a line")
}

#[cfg(unix)]
fn exchange(address: &str, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[cfg(unix)]
#[test]
fn it_answers_reads_its_file_again_and_ends() {
    let file = Limits::new("runs", GOOD);
    let mut server = Server::new(&file.0);
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    fs::write(&file.0, GOOD.replace("3/day", "1/dya")).unwrap();
    crate::support::signal(server.process.0.id(), "-HUP");
    assert!(server.line().ends_with("; the limits stay as they are"));
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:1\r\n"));
    assert_eq!(server.loads(), ["1", "1"]);
    fs::write(&file.0, GOOD.replace("3/day", "5/day")).unwrap();
    crate::support::signal(server.process.0.id(), "-HUP");
    assert_eq!(server.line(), "read the files again; limits: 1");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:5\r\n:2\r\n"));
    assert_eq!(server.loads(), ["2", "1"]);
    crate::support::signal(server.process.0.id(), "-TERM");
    assert_eq!(server.process.0.wait().unwrap().code(), Some(0));
}

/// Kubernetes mounts a ConfigMap as links, and swaps one of them.
#[cfg(unix)]
#[test]
fn a_file_that_changes_is_read_without_a_signal() {
    use std::os::unix::fs::symlink;

    let folder = format!("flowgate-decide-links-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    let put = |name: &str, text: &str| {
        let version = folder.0.join(name);
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("limits.yaml"), text).unwrap();
        let [data, next] = ["..data", "..data_next"].map(|name| folder.0.join(name));
        symlink(name, &next).unwrap();
        fs::rename(next, data).unwrap();
    };
    put("..1", GOOD);
    let file = folder.0.join("limits.yaml");
    symlink("..data/limits.yaml", &file).unwrap();
    let server = Server::new(&file);
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    put("..2", &GOOD.replace("3/day", "5/day"));
    assert_eq!(server.line(), "read the files again; limits: 1");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:5\r\n:3\r\n"));
    put("..3", "domain: api\ndescriptors:\n  - kez: user\n");
    let line = server.line();
    let what =
        "limits.yaml:3:5: unknown key `kez`; did you mean `key`?; the limits stay as they are";
    assert!(line.ends_with(what), "{line}");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:5\r\n:2\r\n"));
    assert_eq!(server.loads(), ["2", "1"]);
}

/// A folder that is removed when dropped.
#[cfg(unix)]
struct Folder(PathBuf);

#[cfg(unix)]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
