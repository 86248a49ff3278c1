//! Connections that report when each request was written.
//!
//! ```text
//!  Connector ── open ──▶ Connection ── Http1 ─────────────╮
//!      │                     ╰──────── Http2 ── Watched ──┤
//!      ╰── Tls                                            ▼
//!                      Transport: plain, or TLS over ── Wire ──▶ socket
//! ```
//!
//! The timestamp of a request is taken below TLS, where bytes are handed to the kernel. Handshakes are complete before
//! a request begins, so their writes are never attributed to a request.

mod anchored;
mod answer;
mod coding;
mod connector;
mod frames;
mod http1;
mod http2;
mod insecure;
mod message;
mod peer;
mod proxy;
mod stamp;
mod tls;
mod trunk;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt;

use hyper::{StatusCode, Version};

pub use coding::ContentCoding;
pub use connector::{ConnectOptions, HttpVersion};
pub use peer::{HostAddress, Peer, Via};
pub use proxy::HttpProxy;
pub use tls::{ClientIdentity, TlsError, Trust};

pub(crate) use answer::Head;
pub(crate) use connector::Connector;
pub(crate) use message::Message;
pub(crate) use stamp::Stamp;
pub(crate) use trunk::Trunk;

use crate::clock_offset::SecondOfDay;
use crate::failure::Failure;
use http1::Http1;
use http2::Http2;

/// Maximum size of a response head. A longer head is treated as not being HTTP.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// An HTTP/1.1 connection, or a handle on a shared HTTP/2 connection.
pub(crate) struct Connection(Kind);

enum Kind {
    Http1(Box<Http1>),
    Http2(Http2),
}

/// A response: what is kept of its head, and the length of the discarded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
    /// Time at the server, if it sent a `Date`.
    pub(crate) date: Option<SecondOfDay>,
    /// How the body is compressed.
    pub(crate) coding: Option<ContentCoding>,
}

/// The body of a compressed response.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) coding: ContentCoding,
    pub(crate) bytes: Vec<u8>,
    /// Whether these are all bytes. A long body is not kept.
    pub(crate) is_whole: bool,
}

impl Answer {
    /// Creates a response of which only this is known.
    pub(crate) fn new(status: StatusCode, bytes: u64) -> Answer {
        Answer {
            status,
            bytes,
            date: None,
            coding: None,
        }
    }
}

impl Body {
    /// Maximum size of a body that is kept.
    const MAX: usize = 8 << 20;

    fn new(coding: ContentCoding) -> Body {
        Body {
            coding,
            bytes: Vec::new(),
            is_whole: true,
        }
    }

    /// Adds bytes, unless there are too many.
    fn add(&mut self, bytes: &[u8]) {
        self.is_whole &= self.bytes.len() + bytes.len() <= Body::MAX;
        match self.is_whole {
            true => self.bytes.extend_from_slice(bytes),
            false => self.bytes = Vec::new(),
        }
    }
}

impl Connection {
    /// Sends one request, reads its response to the end, and discards the body.
    ///
    /// `stamp` records when the request was sent, and stays unchanged if no byte was sent. The caller must arm it, or
    /// mark this as another try, in advance.
    ///
    /// After an error, or when dropped midway, [`is_open`](Connection::is_open) reports whether the connection is still
    /// usable: never with HTTP/1.1, usually with HTTP/2.
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

    /// Like [`round_trip`](Connection::round_trip), and keeps the head of the response; HTTP/1.1 only.
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

    /// Returns the compressed body of the last response, if bodies are [collected](Connector::collecting).
    pub(crate) fn take_body(&mut self) -> Option<Body> {
        let body = match &mut self.0 {
            Kind::Http1(connection) => connection.body.take(),
            Kind::Http2(connection) => connection.body.take(),
        };
        // A response to HEAD, or 304, says how a body would be compressed.
        body.filter(|body| !(body.is_whole && body.bytes.is_empty()))
    }

    /// Returns whether another request may be sent, as far as is known.
    pub(crate) async fn is_open(&mut self) -> bool {
        match &mut self.0 {
            Kind::Http1(connection) => connection.is_open(),
            Kind::Http2(connection) => connection.is_open().await,
        }
    }

    /// Completes when the server closes the connection, or sends unrequested data.
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

    /// Returns the HTTP version of the connection.
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
