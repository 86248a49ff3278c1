//! One HTTP/2 connection with many requests in flight.
//!
//! This module uses the library below hyper directly, because only that reveals which stream a request uses. Without
//! the stream, the time at which a delayed request was written is unknown.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use h2::client::SendRequest;
use h2::{Ping, RecvStream};
use hyper::body::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, DATE, HOST, HeaderName, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Uri, Version};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use super::frames::{Unsent, Watched};
use super::message::Message;
use super::stamp::{Departures, Stamp};
use super::wire::Transport;
use super::{Answer, Body, ContentCoding, MAX_HEAD_BYTES};
use crate::clock_offset::SecondOfDay;
use crate::failure::Failure;

/// How much of a response body a server may send before the client reads it.
///
/// Bodies are discarded as they arrive, so this memory is used only briefly. Smaller windows would make the server
/// wait.
const STREAM_WINDOW: u32 = 2 << 20;
/// The same for all streams of a connection together.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Headers that describe an HTTP/1.1 connection, and that HTTP/2 forbids.
const OF_THE_CONNECTION: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Handle of one user on a connection. The connection closes when its last handle is dropped.
pub(super) struct Http2 {
    requests: SendRequest<Bytes>,
    shared: Rc<Shared>,
    /// Compressed body of the last response, if bodies are kept.
    pub(super) body: Option<Body>,
}

/// State shared by all handles on a connection.
struct Shared {
    scheme: Scheme,
    authority: Authority,
    /// Whether compressed bodies are kept.
    collects: bool,
    unsent: Rc<Unsent>,
    departures: Rc<Departures>,
    end: Rc<End>,
    driver: AbortHandle,
}

/// The end of a connection, and its cause.
#[derive(Default)]
struct End {
    is_here: Cell<bool>,
    failure: Cell<Option<Failure>>,
    came: Notify,
}

impl Http2 {
    /// Starts HTTP/2 on a fresh transport, and waits for the server's settings.
    pub(super) async fn open(
        transport: Transport,
        departures: Rc<Departures>,
        scheme: Scheme,
        authority: Authority,
        collects: bool,
    ) -> Result<Http2, Failure> {
        let unsent = Rc::new(Unsent::default());
        let watched = Watched::new(transport, departures.clone(), unsent.clone());
        let (requests, mut connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Fits: the limit is 64 KiB.
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .handshake(watched)
            .await
            .map_err(|error| Failure::of_http2(&error))?;
        let ping_pong = connection.ping_pong();
        let end = Rc::new(End::default());
        let driver = spawn_local({
            let end = end.clone();
            async move { end.comes(connection.await) }
        });
        let opened = Http2 {
            requests,
            body: None,
            shared: Rc::new(Shared {
                scheme,
                authority,
                collects,
                unsent,
                departures,
                end,
                driver: driver.abort_handle(),
            }),
        };
        // The first frame of a server holds its settings. So they are known when it answers a ping: the number of
        // streams it allows, and that it supports HTTP/2 at all.
        if let Some(mut ping_pong) = ping_pong
            && ping_pong.ping(Ping::opaque()).await.is_err()
        {
            let is_agreed = opened.shared.scheme == Scheme::HTTPS;
            return Err(match opened.shared.end.reason().await {
                // Some servers that do not support HTTP/2 respond like this.
                Failure::Closed | Failure::Reset if !is_agreed => Failure::NotHttp2,
                failure => failure,
            });
        }
        Ok(opened)
    }

    /// Returns another handle on the same connection.
    pub(super) fn share(&self) -> Http2 {
        Http2 {
            requests: self.requests.clone(),
            shared: self.shared.clone(),
            body: None,
        }
    }

    pub(super) async fn round_trip(
        &mut self,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<Answer, Failure> {
        let shared = self.shared.clone();
        let fail = |error| shared.failure(error);
        let (head, body) = shared.translate(message)?;
        poll_fn(|context| self.requests.poll_ready(context))
            .await
            .map_err(fail)?;
        let (response, mut upload) = self
            .requests
            .send_request(head, body.is_empty())
            .map_err(fail)?;
        let _departure = shared.departs(response.stream_id().as_u32(), stamp);
        if !body.is_empty() {
            // If a server stops an upload, it sends a response or a failure.
            let _ = upload.send_data(body, true);
        }
        let (head, body) = response.await.map_err(fail)?.into_parts();
        let date = head.headers.get(DATE);
        let coding = head.headers.get(CONTENT_ENCODING);
        let coding = coding.and_then(|coding| ContentCoding::parse(coding.as_bytes()));
        self.body = coding.filter(|_| shared.collects).map(Body::new);
        let bytes = discard(body, self.body.as_mut()).await.map_err(fail)?;
        Ok(Answer {
            date: date.and_then(|date| SecondOfDay::parse(date.as_bytes())),
            coding,
            ..Answer::new(head.status, bytes)
        })
    }

    pub(super) async fn is_open(&mut self) -> bool {
        poll_fn(|context| {
            // Waiting for a stream does not make the handle unusable.
            let has_failed = matches!(self.requests.poll_ready(context), Poll::Ready(Err(_)));
            Poll::Ready(!has_failed && !self.shared.end.is_here.get())
        })
        .await
    }

    pub(super) async fn closed(&mut self) {
        self.shared.end.reached().await;
    }
}

/// Reads a body to its end, and keeps it if it is to be `kept`. Returns its length.
async fn discard(mut body: RecvStream, mut kept: Option<&mut Body>) -> Result<u64, h2::Error> {
    let mut bytes = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        let len = data.len();
        bytes += len as u64;
        if let Some(kept) = &mut kept {
            kept.add(&data);
        }
        body.flow_control().release_capacity(len)?;
    }
    body.trailers().await?;
    Ok(bytes)
}

impl Shared {
    /// Returns the request in the form that HTTP/2 needs: a full URI instead of `Host`, and no connection headers.
    fn translate(&self, message: &Message) -> Result<(Request<()>, Bytes), Failure> {
        let (mut head, body) = message.request().clone().into_parts();
        for name in OF_THE_CONNECTION {
            head.headers.remove(name);
        }
        if head.headers.get(TE).is_some_and(|te| te != "trailers") {
            head.headers.remove(TE);
        }
        if !body.is_empty() && !head.headers.contains_key(CONTENT_LENGTH) {
            head.headers.insert(CONTENT_LENGTH, body.len().into());
        }
        let host = head.headers.remove(HOST);
        let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let mut uri = head.uri.into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(host.unwrap_or_else(|| self.authority.clone()));
        head.uri = Uri::from_parts(uri).map_err(|_| Failure::Broken)?;
        head.version = Version::HTTP_2;
        Ok((Request::from_parts(head, ()), body))
    }

    /// Returns the kind of failure of one request: that of the connection, if the connection ended.
    fn failure(&self, error: h2::Error) -> Failure {
        match Failure::of_http2(&error) {
            Failure::Closed => self.end.failure.get().unwrap_or(Failure::Closed),
            failure => failure,
        }
    }

    /// Registers the stamp for the stream's first frame, until the guard is dropped.
    fn departs<'a>(&'a self, stream: u32, stamp: &'a Stamp) -> Departure<'a> {
        self.unsent.add(stream, stamp);
        Departure {
            shared: self,
            stream,
            stamp,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Otherwise the driver would wait until the last requests are written, to a server that may never read them.
        self.driver.abort();
    }
}

/// A request in flight. When it is abandoned, its stamp may be used for another.
struct Departure<'a> {
    shared: &'a Shared,
    stream: u32,
    stamp: &'a Stamp,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        if !self.stamp.has_left() {
            self.shared.unsent.remove(self.stream);
            self.shared.departures.forget(self.stamp);
        }
    }
}

impl End {
    fn comes(&self, outcome: Result<(), h2::Error>) {
        self.failure.set(Some(match outcome {
            Ok(()) => Failure::Closed,
            Err(error) => Failure::of_http2(&error),
        }));
        self.is_here.set(true);
        self.came.notify_waiters();
    }

    async fn reached(&self) {
        while !self.is_here.get() {
            self.came.notified().await;
        }
    }

    async fn reason(&self) -> Failure {
        self.reached().await;
        self.failure.get().unwrap_or(Failure::Closed)
    }
}
