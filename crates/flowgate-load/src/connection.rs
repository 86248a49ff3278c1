//! One HTTP/1.1 connection, driven by whoever uses it, and stamped at the write itself.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::Failure;

/// The most that a connection buffers of an answer's head; a longer head is not HTTP that we can
/// read.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// When the first byte of the current request was written; `None` until then.
///
/// The worker clears it before each request; the first write after that fills it.
pub(crate) type SentAt = Rc<Cell<Option<Instant>>>;

/// An open connection: hyper's two halves in one place, so that a request is written by the task
/// that sends it, without waiting for another task to be scheduled.
pub(crate) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<StampedStream, Full<Bytes>>>>,
    is_closed: bool,
}

impl Connection {
    /// Connects to `address`; the first write of every request is dated in `sent_at`.
    pub(crate) async fn open(address: SocketAddr, sent_at: SentAt) -> Result<Connection, Failure> {
        let refuse = |error: io::Error| Failure::of_connecting(&error);
        let stream = TcpStream::connect(address).await.map_err(refuse)?;
        // A request goes out when it is due, not when the kernel has gathered enough of them.
        stream.set_nodelay(true).map_err(refuse)?;
        let stream = StampedStream {
            inner: TokioIo::new(stream),
            sent_at,
        };
        let (requests, driver) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(stream)
            .await
            .map_err(|_| Failure::Connect)?;
        Ok(Connection {
            requests,
            driver: Box::pin(driver),
            is_closed: false,
        })
    }

    /// Sends one request and reads its answer to the end, discarding the body.
    ///
    /// After an error, or when dropped midway, the connection is of no further use.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<StatusCode, Failure> {
        let requests = &mut self.requests;
        let mut exchange = pin!(async move {
            requests.ready().await?;
            let mut response = requests.send_request(request).await?;
            while let Some(frame) = response.frame().await {
                frame?;
            }
            Ok(response.status())
        });
        loop {
            tokio::select! {
                // First the request is handed to the driver, then the driver writes it.
                biased;
                outcome = &mut exchange => {
                    return outcome.map_err(|error: hyper::Error| Failure::of_exchange(&error));
                }
                // The exchange learns of the driver's end, and of its error, by itself.
                _ = &mut self.driver, if !self.is_closed => self.is_closed = true,
            }
        }
    }

    /// Whether another request may be sent, as far as is known by now.
    pub(crate) async fn is_open(&mut self) -> bool {
        poll_fn(|context| {
            if !self.is_closed && self.driver.as_mut().poll(context).is_ready() {
                self.is_closed = true;
            }
            Poll::Ready(!self.is_closed && !self.requests.is_closed())
        })
        .await
    }

    /// Completes when the server closes the connection, or sends something that nobody asked for.
    /// Cancel safe.
    pub(crate) async fn closed(&mut self) {
        if !self.is_closed {
            let _ = self.driver.as_mut().await;
            self.is_closed = true;
        }
    }
}

/// A stream that notes when the first byte of a request is handed to the kernel.
struct StampedStream {
    inner: TokioIo<TcpStream>,
    sent_at: SentAt,
}

impl StampedStream {
    /// Writes, and dates the write with the instant before it if it is a request's first.
    fn stamp(
        &mut self,
        write: impl FnOnce(Pin<&mut TokioIo<TcpStream>>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.sent_at.get().is_some() {
            return write(Pin::new(&mut self.inner));
        }
        let before = Instant::now();
        let outcome = write(Pin::new(&mut self.inner));
        if matches!(outcome, Poll::Ready(Ok(_))) {
            self.sent_at.set(Some(before));
        }
        outcome
    }
}

impl Write for StampedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stamp(|stream| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stamp(|stream| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl Read for StampedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}
