//! What the tests share.

use flowgate::ManualClock;
use flowgate_server::{
    Config, DecideLimits, DecideServer, DecisionTime, Descriptor, DescriptorEntry, Door,
    LimitDecision, Reloader,
};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Limits on a clock that the test sets. It begins at the beginning of a year.
pub struct Bench {
    pub limits: DecideLimits,
    pub clock: ManualClock,
}

/// A descriptor, as `user=alice path=/a`.
pub fn entries(text: &str) -> Vec<DescriptorEntry<'_>> {
    text.split_whitespace()
        .map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            DescriptorEntry {
                key,
                value: value.as_bytes(),
            }
        })
        .collect()
}

impl Bench {
    pub fn new(text: &str) -> Self {
        let clock = ManualClock::new();
        // 1970 has 365 days, so this is the beginning of a year, and not of a week or a month of 30 days.
        clock.advance(Duration::from_secs(365 * 86_400));
        let config = Config::parse("test.yaml", text).unwrap();
        let limits = DecideLimits::new(&config, &DecisionTime::from_epoch(&clock)).unwrap();
        Self { limits, clock }
    }

    /// Asks with one descriptor and one hit. Returns whether it is refused.
    pub fn is_over(&self, domain: &str, descriptor: &str) -> bool {
        self.ask(domain, &[descriptor], 1, |decision| decision.is_over)
    }

    /// Asks `times` times with one descriptor, and returns how often it is admitted.
    pub fn admitted(&self, domain: &str, descriptor: &str, times: usize) -> usize {
        (0..times)
            .filter(|_| !self.is_over(domain, descriptor))
            .count()
    }

    pub fn ask<T>(
        &self,
        domain: &str,
        descriptors: &[&str],
        hits: u64,
        look: impl FnOnce(&LimitDecision<'_>) -> T,
    ) -> T {
        let all: Vec<_> = descriptors.iter().map(|text| entries(text)).collect();
        let of = |entries| Descriptor {
            entries,
            ..Descriptor::default()
        };
        let descriptors: Vec<_> = all.iter().map(|entries| of(entries)).collect();
        look(&now(self.limits.decide(domain, &descriptors, hits)).unwrap())
    }
}

/// Returns what a future is ready with. Limits in memory are decided immediately.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A server on free ports, ended when dropped.
pub struct Running {
    pub resp: SocketAddr,
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub admin: SocketAddr,
    pub reloader: Reloader,
    end: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Running {
    pub fn new(text: &str, set: impl FnOnce(DecideServer) -> DecideServer) -> Self {
        let config = Config::parse("test.yaml", text).unwrap();
        let limits = DecideLimits::new(&config, &DecisionTime::system()).unwrap();
        Self::of(set(DecideServer::new(limits)))
    }

    pub fn of(server: DecideServer) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), server)
    }

    /// A server whose gRPC door has this address.
    pub fn at(grpc: SocketAddr, mut server: DecideServer) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let resp = server.listen(Door::Resp, free).unwrap();
        let http = server.listen(Door::Http, free).unwrap();
        let grpc = server.listen(Door::Grpc, grpc).unwrap();
        let admin = server.listen(Door::Admin, free).unwrap();
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let (end, ended) = oneshot::channel();
        let reloader = server.reloader();
        runtime.spawn(server.run(async { drop(ended.await) }));
        let (end, runtime) = (Some(end), Some(runtime));
        Self {
            resp,
            http,
            grpc,
            admin,
            reloader,
            end,
            runtime,
        }
    }

    /// Tells the server to end.
    pub fn end(&mut self) {
        drop(self.end.take());
    }

    /// Sends bytes to the door of RESP, says that no more will come, and returns all answers.
    pub fn resp(&self, input: &[u8]) -> String {
        let mut stream = connect(self.resp);
        // The server may close before it has read everything.
        let _ = stream.write_all(input);
        let _ = stream.shutdown(Shutdown::Write);
        rest(stream)
    }

    /// Sends a request that says `connection: close`, and returns the answer.
    pub fn http(&self, request: &str) -> String {
        answer(self.http, request)
    }

    /// Asks the door of operators, and returns the answer.
    pub fn admin(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        answer(self.admin, &request)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A program that `ci/engines.sh` brings.
pub fn program(name: &str) -> Option<PathBuf> {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/engines");
    let program = engines.join(name);
    if !program.exists() {
        println!("{name} is not here: ci/engines.sh");
        return None;
    }
    Some(program)
}

/// Runs a script of this folder. Returns the lines of JSON that it prints.
pub fn printed(mut interpreter: Command, script: &str, arguments: &[&str]) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let output = interpreter
        .arg(folder.join(script))
        .args(arguments)
        .output();
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let values = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    values.collect()
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a request, and returns the answer.
pub fn answer(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    // The server may answer before it has read everything.
    let _ = stream.write_all(request.as_bytes());
    rest(stream)
}

/// Reads until the server closes.
fn rest(mut stream: TcpStream) -> String {
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    String::from_utf8_lossy(&answers).into_owned()
}

/// Connects. A read that takes a minute fails.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}
