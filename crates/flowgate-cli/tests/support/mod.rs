//! Running the real binary, and servers that misbehave.

#![allow(dead_code)] // Each test file uses its own part.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// `flowgate` with these arguments, ready to run.
pub fn flowgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Exit code, standard output and standard error.
pub fn finished(output: Output) -> (i32, String, String) {
    (
        output
            .status
            .code()
            .expect("ended by itself, not by a signal"),
        String::from_utf8(output.stdout).expect("UTF-8"),
        String::from_utf8(output.stderr).expect("UTF-8"),
    )
}

/// Runs `flowgate` to its end.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    finished(flowgate(arguments).output().expect("the binary runs"))
}

/// The number after `word` in the line that begins with `line`.
pub fn number(report: &str, line: &str, word: &str) -> u64 {
    let line = report
        .lines()
        .find(|text| text.starts_with(line))
        .unwrap_or_else(|| panic!("no line {line:?} in:\n{report}"));
    let mut words = line.split_whitespace();
    words.find(|text| *text == word);
    let number = words
        .next()
        .unwrap_or_else(|| panic!("nothing after {word:?} in {line:?}"));
    number
        .parse()
        .unwrap_or_else(|_| panic!("{number:?} after {word:?} in {line:?}"))
}

/// A server that hands each connection to `serve`, with the connection's number, until `serve`
/// answers `false`. Then it stops listening. Returns its URL.
pub fn server(serve: impl Fn(TcpStream, usize) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for number in 0.. {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            // Whatever goes wrong here, no test waits for ever.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            if !serve(stream, number) {
                return;
            }
        }
    });
    url
}

/// Reads one request without a body; `false` at the end of the stream.
pub fn read_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => request.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// Answers every request on the connection with these bytes, in a thread of its own.
pub fn answer_with(mut stream: TcpStream, answer: &'static [u8]) {
    thread::spawn(move || {
        while read_request(&mut stream) {
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    });
}

/// Hangs up after the first request, without an answer.
pub fn hang_up(mut stream: TcpStream) {
    thread::spawn(move || {
        read_request(&mut stream);
        let _ = stream.shutdown(Shutdown::Both);
    });
}
