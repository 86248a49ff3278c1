//! HTTP/2: concurrent requests on one connection, each timestamped when it is really sent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use h2::server::{Connection as ServerConnection, SendResponse};
use h2::{Reason, RecvStream};
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Version};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::timeout;

use super::server::{GOOD, Issuer, Server, Stream, http1, wait_for_the_end};
use super::{Log, connector, get, post, run, settle};
use crate::connection::{Answer, Connection, HttpVersion, Message, Stamp, Trunk};
use crate::failure::Failure;

type Accepted = ServerConnection<Box<dyn Stream>, Bytes>;

async fn accept(stream: Box<dyn Stream>, most_streams: u32) -> Option<Accepted> {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(most_streams);
    builder.handshake(stream).await.ok()
}

/// Reads a request to its end. Responds with two bytes more than it received.
async fn answer(request: Request<RecvStream>, mut response: SendResponse<Bytes>) -> Option<Parts> {
    let (head, mut body) = request.into_parts();
    let mut len = 0;
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        len += data.len();
    }
    let mut body = response.send_response(Response::new(()), false).ok()?;
    body.send_data(vec![0; len + 2].into(), true).ok()?;
    Some(head)
}

/// A server that responds to every request immediately.
pub(super) async fn answer_all(stream: Box<dyn Stream>) {
    let Some(mut connection) = accept(stream, 100).await else {
        return;
    };
    while let Some(Ok((request, response))) = connection.accept().await {
        spawn_local(answer(request, response));
    }
}

/// A server that allows a number of streams, and delays every response until it is told to continue.
struct Held {
    most_streams: u32,
    answers: Semaphore,
    now: Cell<usize>,
    most: Cell<usize>,
    heads: RefCell<Vec<Parts>>,
}

impl Held {
    fn new(most_streams: u32) -> Rc<Held> {
        Rc::new(Held {
            most_streams,
            answers: Semaphore::new(0),
            now: Cell::new(0),
            most: Cell::new(0),
            heads: RefCell::default(),
        })
    }

    async fn serve(self: Rc<Held>, stream: Box<dyn Stream>) {
        let Some(mut connection) = accept(stream, self.most_streams).await else {
            return;
        };
        while let Some(Ok((request, response))) = connection.accept().await {
            let held = self.clone();
            held.now.set(held.now.get() + 1);
            held.most.set(held.most.get().max(held.now.get()));
            spawn_local(async move {
                held.answers.acquire().await.unwrap().forget();
                // Before the response leaves, because the client may use the free stream immediately.
                held.now.set(held.now.get() - 1);
                let head = answer(request, response).await;
                held.heads.borrow_mut().extend(head);
            });
        }
    }

    async fn start(self: &Rc<Held>) -> Server {
        let held = self.clone();
        Server::start(None, move |stream| held.clone().serve(stream)).await
    }
}

async fn open(server: &Server) -> Connection {
    connector(&server.url("http"), HttpVersion::Http2)
        .open(server.address)
        .await
        .unwrap()
}

fn ok(bytes: u64) -> Result<Answer, Failure> {
    let status = StatusCode::OK;
    Ok(Answer::new(status, bytes))
}

#[test]
fn many_requests_share_one_connection_within_the_servers_limit() {
    run(async {
        let held = Held::new(3);
        let server = held.start().await;
        let connection = open(&server).await;
        assert_eq!(connection.version(), Version::HTTP_2);
        let log = Log::default();
        let mut users = JoinSet::new();
        for k in 0..10 {
            let (mut handle, stamp) = (connection.share().unwrap(), log.stamp(k));
            users.spawn_local(async move {
                let answer = handle.round_trip(&get("/"), &stamp).await;
                assert!(stamp.sent().is_some());
                answer
            });
        }
        settle().await;
        // Requests that wait for a stream are not sent, although they were handed over.
        assert_eq!(log.names(), [0, 1, 2]);
        held.answers.add_permits(2);
        settle().await;
        assert_eq!(log.names(), [0, 1, 2, 3, 4]);
        held.answers.add_permits(8);
        for answer in users.join_all().await {
            assert_eq!(answer, ok(2));
        }
        assert_eq!(log.names(), Vec::from_iter(0..10));
        assert_eq!((server.connections.get(), held.most.get()), (1, 3));
    });
}

#[test]
fn encrypted_streams_share_a_connection_too() {
    run(async {
        let tls = Issuer::new("ours").server(&GOOD, &["h2"]);
        let server = Server::start(Some(tls), answer_all).await;
        let connector = connector(&server.url("https"), HttpVersion::Http2);
        let connection = connector.open(server.address).await.unwrap();
        let mut users = JoinSet::new();
        for k in 0..20_u64 {
            let mut handle = connection.share().unwrap();
            users.spawn_local(async move {
                let stamp = Stamp::default();
                // Some larger than every window.
                let body = vec![0; usize::try_from(k).unwrap() * 50_000];
                assert_eq!(
                    handle.round_trip(&post("/", body), &stamp).await,
                    ok(k * 50_000 + 2)
                );
                assert!(stamp.sent().is_some());
            });
        }
        users.join_all().await;
        assert_eq!(server.connections.get(), 1);
    });
}

#[test]
fn a_request_is_put_into_the_form_of_http2() {
    run(async {
        let held = Held::new(10);
        held.answers.add_permits(2);
        let server = held.start().await;
        let mut connection = open(&server).await;
        let mut request = Request::builder()
            .uri("/a?b=c")
            .header("host", "localhost:1234")
            .body(Bytes::from_static(b"123"))
            .unwrap();
        for (name, value) in [
            ("connection", "keep-alive, x-hop"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("te", "gzip"),
            ("x-mine", "yes"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let message = Message::new(request);
        assert_eq!(
            connection.round_trip(&message, &Stamp::default()).await,
            ok(5)
        );
        let message = Message::new(Request::new(Bytes::new()));
        assert_eq!(
            connection.round_trip(&message, &Stamp::default()).await,
            ok(2)
        );

        let heads = held.heads.borrow();
        assert_eq!(heads[0].uri, "http://localhost:1234/a?b=c");
        let mut names: Vec<_> = heads[0].headers.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "x-mine"]);
        assert_eq!(heads[0].headers["content-length"], "3");
        assert_eq!(heads[1].uri, server.url("http").as_str());
        assert!(heads[1].headers.is_empty());
    });
}

#[test]
fn a_reset_stream_fails_alone() {
    run(async {
        let server = Server::start(None, |stream| async {
            let mut connection = accept(stream, 10).await.unwrap();
            let mut count = 0;
            while let Some(Ok((request, mut response))) = connection.accept().await {
                count += 1;
                match count {
                    1 => response.send_reset(Reason::REFUSED_STREAM),
                    2 => {
                        // In the middle of the body.
                        let mut body = response.send_response(Response::new(()), false).unwrap();
                        body.send_data("begun".into(), false).unwrap();
                        body.send_reset(Reason::INTERNAL_ERROR);
                    }
                    3 => response.send_reset(Reason::HTTP_1_1_REQUIRED),
                    _ => drop(spawn_local(answer(request, response))),
                }
            }
        })
        .await;
        let mut connection = open(&server).await;
        for expected in [
            Err(Failure::StreamReset),
            Err(Failure::StreamReset),
            Err(Failure::NotHttp2),
            ok(2),
        ] {
            let stamp = Stamp::default();
            let answer = connection.round_trip(&get("/"), &stamp).await;
            assert_eq!(answer, expected);
            assert!(stamp.sent().is_some());
            assert!(connection.is_open().await);
        }
        assert_eq!(server.connections.get(), 1);
    });
}

#[test]
fn goaway_ends_a_connection_without_a_panic() {
    run(async {
        // The first connection is closed gracefully after one answer, the second abruptly.
        let count = Cell::new(0);
        let server = Server::start(None, move |stream| {
            count.set(count.get() + 1);
            let is_graceful = count.get() == 1;
            async move {
                let mut connection = accept(stream, 10).await.unwrap();
                let (request, response) = connection.accept().await.unwrap().unwrap();
                if is_graceful {
                    spawn_local(answer(request, response));
                    connection.graceful_shutdown();
                } else {
                    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
                while let Some(Ok(_)) = connection.accept().await {}
            }
        })
        .await;

        let mut connection = open(&server).await;
        let mut other = connection.share().unwrap();
        let answer = connection.round_trip(&get("/"), &Stamp::default()).await;
        assert_eq!(answer, ok(2));
        other.closed().await;
        for handle in [&mut connection, &mut other] {
            assert!(!handle.is_open().await);
            let stamp = Stamp::default();
            let answer = handle.round_trip(&get("/"), &stamp).await;
            assert!(
                matches!(answer, Err(Failure::GoAway | Failure::Closed)),
                "{answer:?}"
            );
            assert_eq!(stamp.sent(), None);
        }

        let mut connection = open(&server).await;
        let answer = connection.round_trip(&get("/"), &Stamp::default()).await;
        assert_eq!(answer, Err(Failure::GoAway));
        assert!(!connection.is_open().await);
    });
}

#[test]
fn a_server_that_hangs_up_fails_all_streams_of_the_connection() {
    run(async {
        let server = Server::start(None, |stream| async {
            let mut connection = accept(stream, 10).await.unwrap();
            let mut pending = Vec::new();
            for _ in 0..3 {
                pending.push(connection.accept().await);
            }
        })
        .await;
        let connection = open(&server).await;
        let mut users = JoinSet::new();
        for _ in 0..3 {
            let mut handle = connection.share().unwrap();
            users.spawn_local(async move {
                let answer = handle.round_trip(&get("/"), &Stamp::default()).await;
                (answer, handle.is_open().await)
            });
        }
        for outcome in users.join_all().await {
            assert!(
                matches!(outcome, (Err(Failure::Closed | Failure::Reset), false)),
                "{outcome:?}"
            );
        }
    });
}

#[test]
fn a_server_that_does_not_speak_http2_is_found_out_when_connecting() {
    run(async {
        let old = Server::start(None, http1).await;
        let garbage = Server::tcp(|mut stream| async move {
            let _ = stream.write_all(&[b'x'; 100]).await;
            wait_for_the_end(stream).await;
        })
        .await;
        for server in [old, garbage] {
            let connector = connector(&server.url("http"), HttpVersion::Http2);
            let failure = connector.open(server.address).await.unwrap_err();
            assert_eq!(failure, Failure::NotHttp2);
            assert_eq!(failure.to_string(), "server does not speak HTTP/2");
        }
    });
}

#[test]
fn a_request_given_up_leaves_the_connection_and_its_stamp_to_others() {
    run(async {
        let held = Held::new(1);
        let server = held.start().await;
        let mut first = open(&server).await;
        let mut second = first.share().unwrap();
        let log = Log::default();
        let (one, two) = (log.stamp(1), log.stamp(2));
        // The second waits for the only stream until it gives up, unsent.
        let moment = Duration::from_millis(20);
        let message = get("/");
        let outcomes = tokio::join!(
            timeout(moment * 2, first.round_trip(&message, &one)),
            timeout(moment, second.round_trip(&message, &two)),
        );
        assert!(outcomes.0.is_err() && outcomes.1.is_err());
        assert_eq!(log.names(), [1]);
        assert!(first.is_open().await && second.is_open().await);
        held.answers.add_permits(10);
        settle().await;
        assert_eq!((log.names(), two.sent()), (vec![1], None));
        two.arm();
        assert_eq!(second.round_trip(&get("/"), &two).await, ok(2));
        one.arm();
        assert_eq!(first.round_trip(&get("/"), &one).await, ok(2));
        assert_eq!(log.names(), [1, 2, 1]);
        assert_eq!(server.connections.get(), 1);
    });
}

#[test]
fn a_request_that_is_tried_again_was_sent_the_first_time() {
    run(async {
        let held = Held::new(1);
        held.answers.add_permits(2);
        let server = held.start().await;
        let mut connection = open(&server).await;
        let log = Log::default();
        let stamp = log.stamp(1);
        stamp.arm();
        assert_eq!(connection.round_trip(&get("/"), &stamp).await, ok(2));
        let first = stamp.sent();
        assert!(first.is_some() && stamp.has_left());
        stamp.again();
        assert!(!stamp.has_left());
        assert_eq!(connection.round_trip(&get("/"), &stamp).await, ok(2));
        assert!(stamp.has_left());
        assert_eq!((log.names(), stamp.sent()), (vec![1], first));
    });
}

#[test]
fn users_of_a_trunk_share_a_connection_and_open_a_new_one_together() {
    run(async {
        let hang_up = Rc::new(Notify::new());
        let server = Server::start(None, {
            let hang_up = hang_up.clone();
            move |stream| {
                let hang_up = hang_up.clone();
                async move {
                    tokio::select! {
                        () = answer_all(stream) => {}
                        () = hang_up.notified() => {}
                    }
                }
            }
        })
        .await;
        let connector = connector(&server.url("http"), HttpVersion::Http2);
        let first = connector.open(server.address).await.unwrap();
        let trunk = Trunk::beginning_with(first, connector, server.address.into());
        let trunk = Rc::new(trunk);
        for round in 1..=2 {
            let mut users = JoinSet::new();
            for _ in 0..5 {
                let trunk = trunk.clone();
                users.spawn_local(async move {
                    let mut handle = trunk.connect().await.unwrap();
                    assert_eq!(handle.round_trip(&get("/"), &Stamp::default()).await, ok(2));
                    handle
                });
            }
            let mut handles = users.join_all().await;
            assert_eq!(server.connections.get(), round);
            hang_up.notify_one();
            for handle in &mut handles {
                handle.closed().await;
            }
        }
    });
}

#[test]
fn the_connection_closes_with_its_last_handle() {
    run(async {
        let server = Server::start(None, answer_all).await;
        let connection = open(&server).await;
        let other = connection.share().unwrap();
        drop(connection);
        settle().await;
        assert_eq!(server.open.get(), 1);
        drop(other);
        while server.open.get() > 0 {
            tokio::task::yield_now().await;
        }
    });
}
