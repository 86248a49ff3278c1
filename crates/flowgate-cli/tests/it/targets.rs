//! `flowgate load --targets`: requests of files, as servers receive them.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::{finished, flowgate, number, run, server};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that hands over each request: its first line, its header fields that begin with `x-`, and its body.
fn recorder() -> (String, Receiver<String>) {
    let (arrived, arrival) = channel();
    let url = server(move |stream, _| {
        let arrived = arrived.clone();
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            while let Some(request) = read(&mut stream) {
                let _ = arrived.send(request);
                if stream.get_mut().write_all(OK).is_err() {
                    return;
                }
            }
        });
        true
    });
    (url, arrival)
}

fn read(stream: &mut impl BufRead) -> Option<String> {
    let (mut shown, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().ok()?;
        }
        if shown.is_empty() {
            shown += line.trim_end_matches(" HTTP/1.1");
        } else if line.starts_with("x-") {
            shown += &format!(" | {line}");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    if length > 0 {
        shown += &format!(" | {}", String::from_utf8_lossy(&body));
    }
    Some(shown)
}

/// A folder for the files of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("flowgate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sorted(arrival: &Receiver<String>) -> Vec<String> {
    let mut arrived: Vec<_> = arrival.try_iter().collect();
    arrived.sort();
    arrived
}

#[test]
fn an_http_file_reaches_several_servers_with_its_variables() {
    let ((one, at_one), (other, at_other)) = (recorder(), recorder());
    let folder = Folder::new("http-file");
    folder.write("order.json", r#"{"user": "{{name}}"}"#);
    let users = folder.write("users.csv", "id,name\n7,\"Doe, Ann\"\n8,Bob\n");
    let file = folder.write(
        "shop.http",
        &format!(
            "@one = {one}\n@other = {other}\n
### List
# @weight 2
GET {{{{one}}}}users/{{{{id}}}}
X-Trace: a

### Order
POST {{{{other}}}}orders
X-User: {{{{id}}}}

<@ ./order.json
"
        ),
    );
    let run_for = ["load", "-q", "500", "-n", "12", "--max-errors", "0"];
    let files = ["--targets", &file, "--variables", &users, "-H", "X-All: 1"];
    let (_, out, err) = run(&[&run_for[..], &files].concat());
    assert_eq!(err, "");
    assert_eq!(number(&out, "status", "2xx"), 12, "{out}");
    assert!(out.contains("users/7 and 3 others on 2 servers"), "{out}");
    let list = |id| format!("GET /users/{id} | x-trace: a | x-all: 1");
    let expected = [7, 7, 7, 7, 8, 8, 8, 8].map(list);
    assert_eq!(sorted(&at_one), expected);
    let order =
        |id, name| format!("POST /orders | x-user: {id} | x-all: 1 | {{\"user\": \"{name}\"}}");
    let (ann, bob) = (order(7, "Doe, Ann"), order(8, "Bob"));
    assert_eq!(sorted(&at_other), [ann.clone(), ann, bob.clone(), bob]);
}

#[test]
fn vegeta_targets_and_json_lines_are_read_from_standard_input() {
    let (url, arrival) = recorder();
    let folder = Folder::new("vegeta");
    let body = folder.write("body.txt", "from a file");
    let vegeta = format!("# two\nGET {url}a\nX-One: 1\n\nPOST {url}b\n@{body}\n");
    let json = format!("{{\"method\":\"PUT\",\"url\":\"{url}c\",\"body\":\"aGVsbG8=\"}}\n");
    for (text, requests, expected) in [
        (
            vegeta,
            "2",
            vec!["GET /a | x-one: 1", "POST /b | from a file"],
        ),
        (json, "1", vec!["PUT /c | hello"]),
    ] {
        let mut process = flowgate(&["load", "--targets", "-", "-n", requests]);
        let mut process = process.stdin(std::process::Stdio::piped()).spawn().unwrap();
        process
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let (exit, out, err) = finished(process.wait_with_output().unwrap());
        assert_eq!((exit, err.as_str()), (0, ""), "{out}");
        assert_eq!(sorted(&arrival), expected);
    }
}

#[test]
fn forms_are_encoded() {
    let (url, arrival) = recorder();
    let folder = Folder::new("form");
    let file = folder.write("cat.png", "meow");
    let (exit, out, err) = run(&["load", &url, "-n", "1", "--form", "a=b c", "--form", "d=&"]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert_eq!(sorted(&arrival), ["POST / | a=b%20c&d=%26"]);
    let with_file = format!("cat=@{file}");
    let (exit, _, err) = run(&["load", &url, "-n", "1", "-m", "put", "--form", &with_file]);
    assert_eq!((exit, err.as_str()), (0, ""));
    let request = sorted(&arrival).remove(0);
    assert!(
        request.starts_with("PUT / | --flowgate-form-0\r\n"),
        "{request}"
    );
    assert!(
        request.contains("name=\"cat\"; filename=\"cat.png\"\r\n"),
        "{request}"
    );
    assert!(
        request.ends_with("\r\n\r\nmeow\r\n--flowgate-form-0--\r\n"),
        "{request}"
    );
}

#[test]
fn each_host_of_a_file_that_is_not_this_machine_needs_a_word() {
    let folder = Folder::new("own");
    let file = folder.write(
        "targets.txt",
        "GET http://127.0.0.1:1/\nGET http://192.0.2.7/\nGET http://192.0.2.8/\n",
    );
    let load = ["load", "-q", "1", "-n", "1", "--targets", &file];
    for (own, host) in [
        (&[][..], "192.0.2.7"),
        (&["--own", "192.0.2.7"], "192.0.2.8"),
    ] {
        let (exit, out, err) = run(&[&load[..], own].concat());
        let expected = format!(
            "flowgate: --targets: {host} is not this machine: if the host is yours, add --own {host}\n"
        );
        assert_eq!((exit, out.as_str(), err), (2, "", expected));
    }
}

#[test]
fn what_is_wrong_with_a_file_is_one_line() {
    let folder = Folder::new("holes");
    let hole = folder.write(
        "hole.http",
        "GET http://127.0.0.1:1/\n\n###\nGET {{base}}/\n",
    );
    let fine = folder.write("fine.txt", "GET http://127.0.0.1:1/\n");
    let rows = folder.write("rows.csv", "id\n");
    let cases: [(&[&str], &str); 7] = [
        (
            &["--targets", &hole],
            "hole.http: line 4: the variable {{base}} is not defined: write",
        ),
        (
            &["--targets", &fine, "--variables", &rows],
            "rows.csv: contains no row: write",
        ),
        (
            &["--targets", &fine, "--targets-format", "json"],
            "fine.txt: line 1: not a request: ",
        ),
        (&["--variables", &rows], "--targets"),
        (
            &["--targets", &fine, "http://127.0.0.1:1/"],
            "cannot be used with",
        ),
        (
            &["--targets", "-", "--variables", "-"],
            "only one input can be standard input",
        ),
        (&["--form", "a", "http://127.0.0.1:1/"], "write NAME=VALUE"),
    ];
    for (arguments, expected) in cases {
        let (exit, out, err) = run(&[&["load", "-n", "1"], arguments].concat());
        assert_eq!((exit, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}
