//! HTTP/1.1: one request at a time, exactly timestamped.

use std::future::pending;
use std::time::Duration;

use hyper::{StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::server::{Server, http1, wait_for_the_end};
use super::{Log, connector, get, post, run, settle};
use crate::connection::{Body, ContentCoding, HttpVersion, Stamp, Trunk};
use crate::failure::Failure;

#[test]
fn every_request_is_stamped_once_and_in_order() {
    run(async {
        let server = Server::start(None, http1).await;
        let connector = connector(&server.url("http"), HttpVersion::Http1);
        let mut connection = connector.open(server.address).await.unwrap();
        assert!(connection.share().is_none());
        assert_eq!(connection.version(), Version::HTTP_11);
        let log = Log::default();
        for k in 0..5 {
            let stamp = log.stamp(k);
            // Larger than what the kernel takes in one call: several writes.
            let body = vec![0; k * 1_000_000];
            let answer = connection.round_trip(&post("/", body), &stamp).await;
            let (status, bytes) = (StatusCode::OK, k as u64 * 1_000_000 + 2);
            let answer = answer.unwrap();
            assert_eq!((answer.status, answer.bytes), (status, bytes));
            assert!(answer.date.is_some(), "the server sends one");
            assert!(connection.is_open().await);
        }
        assert_eq!(log.names(), [0, 1, 2, 3, 4]);
        assert_eq!(server.connections.get(), 1);
    });
}

#[test]
fn a_connection_given_up_midway_is_not_open() {
    run(async {
        let silent = Server::tcp(|stream| async move {
            let _stream = stream;
            pending::<()>().await;
        })
        .await;
        let connector = connector(&silent.url("http"), HttpVersion::Http1);
        let mut connection = connector.open(silent.address).await.unwrap();
        assert!(connection.is_open().await);
        let stamp = Stamp::default();
        let message = get("/");
        let exchange = connection.round_trip(&message, &stamp);
        timeout(Duration::from_millis(20), exchange)
            .await
            .unwrap_err();
        assert!(stamp.sent().is_some());
        assert!(!connection.is_open().await);
    });
}

#[test]
fn a_server_that_closes_is_noticed_before_the_next_request() {
    run(async {
        let server = Server::tcp(|mut stream| async move {
            let _ = stream.shutdown().await;
        })
        .await;
        let connector = connector(&server.url("http"), HttpVersion::Http1);
        let mut connection = connector.open(server.address).await.unwrap();
        connection.closed().await;
        assert!(!connection.is_open().await);
        let stamp = Stamp::default();
        let answer = connection.round_trip(&get("/"), &stamp).await;
        assert_eq!((answer, stamp.sent()), (Err(Failure::Closed), None));
    });
}

#[test]
fn garbage_is_a_failure() {
    run(async {
        let server = Server::tcp(|mut stream| async move {
            let _ = stream.read(&mut [0; 100]).await;
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
            wait_for_the_end(stream).await;
        })
        .await;
        let connector = connector(&server.url("http"), HttpVersion::Http1);
        let mut connection = connector.open(server.address).await.unwrap();
        let answer = connection.round_trip(&get("/"), &Stamp::default()).await;
        assert_eq!(answer, Err(Failure::NotHttp));
        assert!(!connection.is_open().await);
    });
}

#[test]
fn users_of_a_trunk_get_a_connection_each() {
    run(async {
        let server = Server::start(None, http1).await;
        let connector = connector(&server.url("http"), HttpVersion::Http1);
        let first = connector.open(server.address).await.unwrap();
        let trunk = Trunk::beginning_with(first, connector, server.address.into());
        let mut connections = Vec::new();
        for _ in 0..3 {
            connections.push(trunk.connect().await.unwrap());
        }
        settle().await;
        assert_eq!(server.connections.get(), 3);
    });
}

#[test]
fn a_compressed_body_is_kept_if_it_is_asked_for_and_there_is_one() {
    run(async {
        let chunked = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        let none = "HTTP/1.1 304 Not Modified\r\ncontent-encoding: gzip\r\n\r\n";
        let plain = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let server = Server::tcp(move |mut stream| async move {
            for answer in [chunked, none, plain] {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        })
        .await;
        for collects in [true, false] {
            let connector = connector(&server.url("http"), HttpVersion::Http1);
            let connector = connector.collecting(collects);
            let mut connection = connector.open(server.address).await.unwrap();
            let (message, stamp) = (get("/"), Stamp::default());
            let answer = connection.round_trip(&message, &stamp).await.unwrap();
            let expected = (3, Some(ContentCoding::Gzip));
            assert_eq!((answer.bytes, answer.coding), expected);
            let body = connection.take_body().map(|body| body.bytes);
            assert_eq!(body, collects.then(|| b"abc".to_vec()));
            for (status, coding) in [(304, expected.1), (200, None)] {
                let answer = connection.round_trip(&message, &stamp).await.unwrap();
                assert_eq!((answer.status.as_u16(), answer.coding), (status, coding));
                assert!(connection.take_body().is_none());
            }
        }
    });
}

#[test]
fn a_long_body_is_not_kept() {
    let mut body = Body::new(ContentCoding::Gzip);
    for _ in 0..3 {
        body.add(&vec![0; Body::MAX / 2]);
    }
    body.add(b"more");
    assert!(!body.is_whole && body.bytes.is_empty());
}
