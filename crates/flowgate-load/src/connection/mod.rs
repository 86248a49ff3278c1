//! Connections, which say when each request left them.
//!
//! ```text
//!  Connector ── open ──▶ Connection ── Http1 ─────────────╮
//!      │                     ╰──────── Http2 ── Watched ──┤
//!      ╰── Tls                                            ▼
//!                      Transport: plain, or TLS over ── Wire ──▶ socket
//! ```
//!
//! The date of a request is taken beneath TLS, where bytes are handed to the kernel. Handshakes are
//! over before a request begins, so their writes are never taken for a request's.

mod answer;
mod connector;
mod frames;
mod http1;
mod http2;
mod insecure;
mod message;
mod stamp;
mod tls;
mod trunk;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt;

use hyper::{StatusCode, Version};

pub use connector::{ConnectOptions, HttpVersion};
pub use tls::{TlsError, Trust};

pub(crate) use answer::Head;
pub(crate) use connector::Connector;
pub(crate) use message::Message;
pub(crate) use stamp::Stamp;
pub(crate) use trunk::Trunk;

use crate::failure::Failure;
use http1::Http1;
use http2::Http2;

/// The most that a connection buffers of an answer's head; a longer head is not HTTP that we can
/// read.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// An HTTP/1.1 connection, or a handle on an HTTP/2 connection that several users share.
pub(crate) struct Connection(Kind);

enum Kind {
    Http1(Box<Http1>),
    Http2(Http2),
}

/// What came back: the status, and how long the body was that was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
}

impl Connection {
    /// Sends one request and reads its answer to the end, discarding the body as it comes. `stamp`
    /// tells when the request was sent, and remains as it is when not a byte of it was. It must be
    /// armed, or told that this is another try.
    ///
    /// After an error, or when dropped midway, [`is_open`](Connection::is_open) says whether the
    /// connection is of any further use: of HTTP/1.1 never, of HTTP/2 mostly.
    pub(crate) async fn round_trip(
        &mut self,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<Answer, Failure> {
        match &mut self.0 {
            Kind::Http1(connection) => connection.round_trip(message, stamp).await,
            Kind::Http2(connection) => connection.round_trip(message, stamp).await,
        }
    }

    /// The same, and keeps the head of the answer; HTTP/1.1 only.
    pub(crate) async fn ask(
        &mut self,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<(Answer, Head), Failure> {
        match &mut self.0 {
            Kind::Http1(connection) => connection.ask(message, stamp).await,
            Kind::Http2(_) => Err(Failure::NotHttp),
        }
    }

    /// Whether another request may be sent, as far as is known by now.
    pub(crate) async fn is_open(&mut self) -> bool {
        match &mut self.0 {
            Kind::Http1(connection) => connection.is_open(),
            Kind::Http2(connection) => connection.is_open().await,
        }
    }

    /// Completes when the server closes the connection, or sends something that nobody asked for.
    /// Cancel safe.
    pub(crate) async fn closed(&mut self) {
        match &mut self.0 {
            Kind::Http1(connection) => connection.closed().await,
            Kind::Http2(connection) => connection.closed().await,
        }
    }

    /// Another handle on the same connection, for another user; HTTP/2 only. The connection closes
    /// when the last handle is dropped.
    pub(crate) fn share(&self) -> Option<Connection> {
        match &self.0 {
            Kind::Http1(_) => None,
            Kind::Http2(connection) => Some(Connection(Kind::Http2(connection.share()))),
        }
    }

    /// What is spoken on it.
    pub(crate) fn version(&self) -> Version {
        match &self.0 {
            Kind::Http1(_) => Version::HTTP_11,
            Kind::Http2(_) => Version::HTTP_2,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.version()).finish()
    }
}
