//! Running the real binary, and servers that misbehave.

#[cfg(unix)]
mod daemon;
#[cfg(feature = "fleet")]
#[expect(dead_code, reason = "other tests stop the store and start it again")]
pub mod engine;
#[cfg(unix)]
pub mod nginx;
#[cfg(unix)]
pub mod tinyproxy;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
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

/// Sends a signal to a process; SIGINT is what a terminal's Ctrl-C sends.
#[cfg(unix)]
pub fn signal(id: u32, name: &str) {
    let status = Command::new("kill").args([name, &id.to_string()]).status();
    assert!(status.expect("kill runs").success());
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

/// `flowgate serve` on a free port; ended when dropped.
pub struct Serve {
    process: Child,
    stderr: BufReader<ChildStderr>,
    /// What it said when it began.
    pub line: String,
    pub url: String,
}

impl Serve {
    /// With this limiter, and these arguments beside.
    pub fn start(limiter: &str, arguments: &[&str]) -> Serve {
        let mut process = flowgate(&["serve", "--listen", "0", "--limiter", limiter])
            .args(arguments)
            .spawn()
            .expect("the binary runs");
        let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("UTF-8");
        let url = line
            .strip_prefix("listening on ")
            .and_then(|rest| rest.split(',').next())
            .unwrap_or_else(|| panic!("{line}"))
            .to_owned();
        Serve {
            process,
            stderr,
            line,
            url,
        }
    }

    /// A connection of its own.
    pub fn connect(&self) -> Client {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let stream = TcpStream::connect(address).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("not zero");
        Client(stream)
    }

    /// Asks it to end, as Ctrl-C does; says its exit code and its last words.
    #[cfg(unix)]
    pub fn interrupt(mut self) -> (Option<i32>, String) {
        signal(self.process.id(), "-INT");
        let exit = self.process.wait().expect("it ends");
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("UTF-8");
        (exit.code(), rest)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // Both fail, harmlessly, when it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An HTTP/1.1 connection.
pub struct Client(TcpStream);

impl Client {
    /// Asks, and returns the status and the head of the answer; none if the connection is closed instead.
    pub fn get(&mut self, fields: &str) -> Option<(u16, String)> {
        let request = format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        self.0.write_all(request.as_bytes()).ok()?;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match self.0.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return None,
            }
        }
        let head = String::from_utf8(head).expect("ASCII").to_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut body = vec![0; field(&head, "content-length")?.parse().ok()?];
        self.0.read_exact(&mut body).ok()?;
        Some((status, head))
    }

    /// The statuses of so many answers.
    pub fn statuses(&mut self, count: usize) -> Vec<u16> {
        let answers = (0..count).map_while(|_| self.get(""));
        answers.map(|(status, _)| status).collect()
    }
}

/// The value of a field in a head of small letters.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}
