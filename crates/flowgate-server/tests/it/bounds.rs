//! What clients may use: each bound, and that the others are served meanwhile.

use crate::support::{Running, connect};
use flowgate_server::{Config, ServerBounds};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: &str =
    "{domain: api, descriptors: [{key: user, quota: 3/day, name: users, capacity: 100}]}";
const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
/// A time that a test waits for.
const SHORT: Duration = Duration::from_millis(50);

fn running(bounds: ServerBounds) -> Running {
    Running::new(LIMITS, |server| server.bounds(bounds))
}

fn begun(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(bytes).unwrap();
    stream
}

/// Reads as many bytes as a short answer has, so that the connection is known to be served.
fn is_served(stream: &mut TcpStream) {
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

/// Returns what arrives before the server closes. A client that still sends may see a reset.
fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        let is_closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind());
        assert!(is_closed, "not closed: {error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn connections_beyond_all_places_wait_for_one() {
    let server = running(ServerBounds {
        connections: 2,
        ..ServerBounds::default()
    });
    let mut first = connect(server.resp);
    is_served(&mut first);
    let mut second = connect(server.resp);
    is_served(&mut second);
    let mut waiting = begun(server.resp, b"PING\r\n");
    waiting.set_read_timeout(Some(SHORT)).unwrap();
    let unanswered = waiting.read(&mut [0; 7]).unwrap_err();
    assert!([ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&unanswered.kind()));
    // Operators are not kept out.
    assert!(
        server
            .admin("/metrics")
            .contains("flowgate_connections{door=\"resp\"} 2\n")
    );
    drop(first);
    waiting
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    waiting.read_exact(&mut [0; 7]).unwrap();
}

#[test]
fn a_head_has_less_time_than_an_idle_connection() {
    let server = running(ServerBounds {
        head_time: SHORT,
        ..ServerBounds::default()
    });
    let mut idle = begun(server.http, GET);
    let mut silent = connect(server.http);
    // One byte after the other, of a first and of a second head.
    for before in [&b""[..], GET] {
        let mut slow = begun(server.http, before);
        let sending = slow.try_clone().unwrap();
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut sending = sending;
                for byte in b"GET /healthz HTTP/1.1\r\nx: ".iter().chain([&b'y'; 5000]) {
                    if sending.write_all(&[*byte]).is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                panic!("the server reads on");
            });
            until_closed(&mut slow);
        });
    }
    // Those that have begun nothing are still served.
    for stream in [&mut idle, &mut silent] {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .unwrap();
        assert!(until_closed(stream).ends_with("\r\n\r\nok\n"));
    }
}

#[test]
fn idle_connections_are_closed_at_all_doors() {
    let server = running(ServerBounds {
        idle_time: SHORT,
        command_time: SHORT,
        ..ServerBounds::default()
    });
    for (address, sent, expected) in [
        (server.resp, &b""[..], ""),
        (server.resp, b"PING\r\n", "+PONG\r\n"),
        (server.http, b"", ""),
        (server.admin, b"", ""),
    ] {
        assert_eq!(until_closed(&mut begun(address, sent)), expected);
    }
    let answer = until_closed(&mut begun(server.http, GET));
    assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
    // The beginning of HTTP/2 is not a request: the server says goodbye (GOAWAY, type 7).
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let answer = until_closed(&mut begun(server.http, preface));
    assert!(answer.contains("\0\0\x08\x07\0\0\0\0\0"), "{answer:?}");
}

#[test]
fn a_command_and_a_body_have_a_time() {
    let server = running(ServerBounds {
        command_time: SHORT,
        ..ServerBounds::default()
    });
    let mut slow = begun(server.resp, b"*2\r\n$4\r\nECHO\r\n$9\r\nabc");
    assert_eq!(until_closed(&mut slow), "");
    let body = "POST /json HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{";
    let answer = until_closed(&mut begun(server.http, body.as_bytes()));
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

/// A client that asks and asks, and reads nothing, is no longer read from, and then closed.
#[test]
fn answers_that_are_not_read_are_bounded_and_end_the_connection() {
    let server = running(ServerBounds {
        command_time: Duration::from_millis(300),
        ..ServerBounds::default()
    });
    let echo = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}\r\n", "x".repeat(60_000));
    let get = GET.repeat(1000);
    for (address, asked) in [(server.resp, echo.as_bytes()), (server.http, &get[..])] {
        let mut stream = connect(address);
        let mut sent = 0_usize;
        let error = loop {
            match stream.write(asked) {
                Ok(written) => sent += written,
                Err(error) => break error,
            }
            // What buffers of the system hold, and not what a server could.
            assert!(sent < 200_000_000, "the server reads on");
        };
        let is_closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind());
        assert!(is_closed, "{error}");
    }
    is_served(&mut connect(server.resp));
}

#[test]
fn what_is_too_large_is_refused_and_not_kept() {
    let server = running(ServerBounds::default());
    let words = format!("*65\r\n{}", "$1\r\na\r\n".repeat(65));
    for (sent, what) in [
        (words.as_str(), "-ERR Protocol error: too many words\r\n"),
        (
            "*2\r\n$4\r\nECHO\r\n$65537\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        ("*1000000000\r\n", "-ERR Protocol error: too many words\r\n"),
    ] {
        assert_eq!(server.resp(sent.as_bytes()), what);
    }
    let inline = "x".repeat(5_000);
    assert!(
        server
            .resp(inline.as_bytes())
            .starts_with("-ERR Protocol error: too big inline")
    );
    let head = format!(
        "GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n",
        "y".repeat(70_000)
    );
    assert!(server.http(&head).starts_with("HTTP/1.1 431 "));
    // Neither is read: one says how long it will be, and the other does not.
    let declared =
        "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 65537\r\n\r\n";
    assert!(server.http(declared).starts_with("HTTP/1.1 413 "));
    let chunks = format!("10000\r\n{}\r\n", "x".repeat(65_536)).repeat(2);
    let chunked = format!(
        "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"
    );
    assert!(server.http(&chunked).starts_with("HTTP/1.1 413 "));
    is_served(&mut connect(server.resp));
}

#[test]
fn a_configuration_that_is_too_large_is_not_read() {
    let path = std::env::temp_dir().join(format!("flowgate-large-{}.yaml", std::process::id()));
    let text = format!("{LIMITS}\n#{}", "x".repeat(4 << 20));
    std::fs::write(&path, &text).unwrap();
    let problem = Config::read([&path]).unwrap_err();
    std::fs::write(&path, &text[..4 << 20]).unwrap();
    let fits = Config::read([&path]);
    std::fs::remove_file(&path).unwrap();
    assert!(
        problem
            .to_string()
            .ends_with(": larger than 4 MiB; write several files")
    );
    assert_eq!(fits.unwrap().len(), 1);
}

/// Slow and rude clients, more than there are places for: the others are served meanwhile.
#[test]
fn others_are_served_during_a_flood() {
    let server = running(ServerBounds {
        connections_per_address: 60,
        command_time: Duration::from_secs(2),
        ..ServerBounds::default()
    });
    let until = Instant::now() + Duration::from_secs(1);
    thread::scope(|threads| {
        for flood in 0..6 {
            let (server, address) = (&server, if flood < 3 { server.resp } else { server.http });
            threads.spawn(move || {
                let mut kept = Vec::new();
                while Instant::now() < until {
                    let mut stream = connect(address);
                    let rude: &[u8] = match flood % 3 {
                        0 => b"*2\r\n$4\r\nECHO\r\n$60000\r\nx",
                        1 => b"\0\xff\r\n\r\n",
                        _ => b"P",
                    };
                    let _ = stream.write_all(rude);
                    kept.push(stream);
                    // Eight of each flood are kept: 48, and so there is room for others.
                    if kept.len() > 8 {
                        kept.remove(0);
                    }
                    let _ = server;
                }
            });
        }
        let mut served = 0;
        while Instant::now() < until {
            served += usize::from(server.resp(b"PING\r\n") == "+PONG\r\n");
            let page = server.admin("/readyz");
            assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        }
        assert!(served > 0);
    });
}
