//! Connections to real servers on the loopback interface: counts, texts and orders, never times.

mod http1;
mod http2;
mod server;
mod tls;

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::timeout;

use super::{ConnectOptions, Connector, HttpVersion, Message, Stamp, Trust};
use crate::target::Target;

/// Runs a test with its servers on one thread, and ends it if it hangs.
fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap();
    runtime
        .block_on(async { timeout(Duration::from_secs(20), test).await })
        .expect("the test hangs");
}

fn options(version: HttpVersion, trust: Trust) -> ConnectOptions {
    ConnectOptions {
        version,
        trust,
        ..ConnectOptions::default()
    }
}

fn connector(url: &str, version: HttpVersion) -> Connector {
    let target = Target::parse(url).unwrap();
    Connector::new(&target, &options(version, Trust::Anyone)).unwrap()
}

fn get(path: &str) -> Message {
    post(path, Bytes::new())
}

fn post(path: &str, body: impl Into<Bytes>) -> Message {
    let request = Request::builder()
        .uri(path)
        .header(HOST, "localhost:1234")
        .body(body.into())
        .unwrap();
    Message::new(request)
}

/// Stamps that write their names into one list as they are filled.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<usize>>>);

impl Log {
    fn stamp(&self, name: usize) -> Stamp {
        let log = self.clone();
        Stamp::new(move |_| log.0.borrow_mut().push(name))
    }

    fn names(&self) -> Vec<usize> {
        self.0.borrow().clone()
    }
}

/// Lets every task run until none has anything left to do but wait for the network, many times over.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
