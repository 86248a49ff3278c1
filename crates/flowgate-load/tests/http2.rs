//! Whole runs over HTTP/2, on counts alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use flowgate::Quota;
use flowgate_load::{HttpVersion, Plan, Schedule, Stop, Target};
use hyper::Response;
use hyper::body::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

/// An HTTP/2 server on a thread that ends with the process.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Takes leave of each connection after so many requests.
    fn start(requests_per_connection: usize) -> Server {
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(serve(stream, requests_per_connection));
                }
            });
        });
        Server {
            address: told.recv().unwrap(),
            connections,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(stream: TcpStream, most_requests: usize) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    let mut count = 0;
    while let Some(request) = connection.accept().await {
        let (_, mut response) = request?;
        count += 1;
        if count == most_requests {
            connection.graceful_shutdown();
        }
        let mut body = response.send_response(Response::new(()), false)?;
        body.send_data(Bytes::from_static(b"ok\n"), true)?;
    }
    Ok(())
}

fn plan(server: &Server, connections: usize, streams: usize) -> Plan {
    let target = Target::parse(&format!("http://{}/", server.address)).unwrap();
    let schedule = Schedule::of(Quota::per_second(500), 100).unwrap();
    let mut plan = Plan::new(target, schedule);
    plan.connections = NonZeroUsize::new(connections).unwrap();
    plan.streams = NonZeroUsize::new(streams).unwrap();
    plan.connect.version = HttpVersion::Http2;
    plan
}

#[test]
fn streams_share_their_connection() {
    let server = Server::start(usize::MAX);
    let report = flowgate_load::run(plan(&server, 2, 10), &Stop::new()).unwrap();
    let statuses = &report.counts.statuses;
    assert_eq!((report.counts.sent, statuses.success), (100, 100));
    assert!(report.counts.failures.is_empty());
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_takes_leave_is_connected_to_again() {
    let server = Server::start(20);
    let report = flowgate_load::run(plan(&server, 1, 5), &Stop::new()).unwrap();
    let failed: u64 = report.counts.failures.values().sum();
    assert_eq!(report.counts.statuses.success + failed, 100);
    // The requests that a server's leave-taking catches on their way are answered all the same.
    assert_eq!(failed, 0, "{:?}", report.counts.failures);
    assert!(server.connections() >= 5, "{}", server.connections());
}
