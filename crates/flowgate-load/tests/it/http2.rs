//! Whole runs over HTTP/2, on counts alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use flowgate::Quota;
use flowgate_load::{HttpVersion, Plan, Progress, Schedule, Stop, Target};
use h2::Reason;
use hyper::Response;
use hyper::body::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

/// An HTTP/2 server on a thread that ends with the process.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// What becomes of a connection.
#[derive(Clone, Copy)]
enum Habit {
    /// Leave is taken after so many requests.
    Requests(usize),
    /// It is given up with the first request, which gets no answer.
    GivenUp,
    /// It is closed immediately.
    Closed,
}

impl Server {
    /// Takes leave of each connection after so many requests.
    fn start(requests_per_connection: usize) -> Server {
        Server::by(move |_| Habit::Requests(requests_per_connection))
    }

    /// Does this with each connection, which are counted from 0.
    fn by(habit: impl Fn(usize) -> Habit + Send + 'static) -> Server {
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    match habit(count.fetch_add(1, Ordering::Relaxed)) {
                        Habit::Requests(most) => drop(tokio::spawn(serve(stream, most))),
                        Habit::GivenUp => drop(tokio::spawn(give_up(stream))),
                        Habit::Closed => drop(stream),
                    }
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

async fn give_up(stream: TcpStream) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    let _unanswered = connection.accept().await;
    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    while let Some(request) = connection.accept().await {
        request?;
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
    // The requests that a server's leave-taking catches in flight are answered all the same.
    assert_eq!(failed, 0, "{:?}", report.counts.failures);
    assert!(server.connections() >= 5, "{}", server.connections());
}

#[test]
fn a_request_that_is_sent_once_more_counts_once() {
    let server = Server::by(|connection| match connection {
        0 => Habit::GivenUp,
        _ => Habit::Requests(usize::MAX),
    });
    let mut last = Progress::default();
    let plan = plan(&server, 1, 1);
    let report = flowgate_load::run_watched(plan, &Stop::new(), |progress| {
        last = progress.clone();
    });
    let report = report.unwrap();
    let counts = &report.counts;
    assert_eq!(
        (counts.resent, counts.sent, counts.unsent),
        (1, 100, 0),
        "{report}"
    );
    assert_eq!(counts.statuses.success, 100, "{report}");
    assert_eq!((report.lag.samples, report.service.samples), (100, 100));
    let slots = &report.timeline.slots;
    assert_eq!(slots.iter().map(|slot| slot.sent).sum::<u64>(), 100);
    assert_eq!((last.sent, last.in_flight), (100, 0));
}

#[test]
fn no_thread_rounds_its_connections_up() {
    for (connections, streams, threads, requests) in
        [(3, 10, 2, 100), (5, 7, 4, 100), (3, 10, 2, 25)]
    {
        let server = Server::start(usize::MAX);
        let mut plan = plan(&server, connections, streams);
        plan.pace = Schedule::of(Quota::per_second(500), requests)
            .unwrap()
            .into();
        plan.threads = NonZeroUsize::new(threads);
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        let used = report.connections;
        assert_eq!(report.counts.statuses.success, requests, "{report}");
        assert_eq!(server.connections(), connections, "{report}");
        assert_eq!(used.connections, connections as u64, "{report}");
        assert!(used.allowed <= (connections * streams) as u64, "{report}");
    }
}

#[test]
fn a_connection_that_does_not_open_is_missing_once() {
    let server = Server::by(|connection| match connection {
        0 => Habit::Requests(usize::MAX),
        _ => Habit::Closed,
    });
    let report = flowgate_load::run(plan(&server, 2, 5), &Stop::new()).unwrap();
    assert_eq!(report.connections.missing, 1, "{report}");
    assert!(report.connections.why_missing.is_some(), "{report}");
}
