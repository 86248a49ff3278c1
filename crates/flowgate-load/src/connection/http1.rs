//! One HTTP/1.1 connection, driven by its user: one write per request, one read per response.
//!
//! This module implements only what a load needs of HTTP/1.1, because only that is fast enough. Requests are bytes
//! prepared in advance; responses are read to their end and discarded.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answer::{Head, Reader};
use super::message::Message;
use super::stamp::{Departures, Stamp};
use super::wire::Transport;
use super::{Answer, Body};
use crate::failure::Failure;

/// Size of the first read buffer.
const READ_BYTES: usize = 16 * 1024;

pub(super) struct Http1 {
    transport: Transport,
    departures: Rc<Departures>,
    /// The unused bytes are those from `start` to `end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    is_closed: bool,
    /// Whether compressed bodies are kept.
    collects: bool,
    /// That of the last response.
    pub(super) body: Option<Body>,
}

/// A request that is being written.
struct Writing<'a> {
    bytes: &'a [u8],
    is_flushed: bool,
    /// Why the rest could not be written; the response may have arrived before.
    failure: Option<Failure>,
}

impl Http1 {
    pub(super) fn new(transport: Transport, departures: Rc<Departures>, collects: bool) -> Http1 {
        Http1 {
            transport,
            departures,
            input: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            is_closed: false,
            collects,
            body: None,
        }
    }

    pub(super) async fn round_trip(
        &mut self,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<Answer, Failure> {
        let mut reader = Reader::new(message.wants_a_head());
        self.exchange(message, stamp, &mut reader).await?;
        Ok(reader.answer())
    }

    /// Like `round_trip`, and keeps the head of the response.
    pub(super) async fn ask(
        &mut self,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<(Answer, Head), Failure> {
        let mut reader = Reader::keeping_head(message.wants_a_head());
        self.exchange(message, stamp, &mut reader).await?;
        let answer = reader.answer();
        let head = reader.into_head().ok_or(Failure::NotHttp)?;
        Ok((answer, head))
    }

    async fn exchange(
        &mut self,
        message: &Message,
        stamp: &Stamp,
        reader: &mut Reader,
    ) -> Result<(), Failure> {
        if !self.is_open() {
            return Err(Failure::Closed);
        }
        // Until the response is complete, because the caller may drop the future midway.
        self.is_closed = true;
        self.body = None;
        if self.collects {
            reader.collect();
        }
        let mut writing = Writing {
            bytes: message.bytes(),
            is_flushed: false,
            failure: None,
        };
        self.departures.waits(stamp);
        let outcome = poll_fn(|context| self.poll(context, &mut writing, reader)).await;
        self.departures.forget(stamp);
        outcome?;
        self.body = reader.take_body();
        // Remaining bytes are unrequested, and a partly written request leaves the server waiting.
        let is_clean = self.start == self.end && writing.bytes.is_empty();
        self.is_closed = !(reader.keeps_alive() && is_clean);
        Ok(())
    }

    /// Writes and reads as far as possible.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        writing: &mut Writing<'_>,
        reader: &mut Reader,
    ) -> Poll<Result<(), Failure>> {
        if writing.failure.is_none() {
            writing.failure = self
                .write(context, writing)
                .err()
                .map(|error| Failure::of_exchange(&error));
        }
        loop {
            self.start += reader.read(&self.input[self.start..self.end])?;
            if reader.is_done() {
                return Poll::Ready(Ok(()));
            }
            match ready!(self.fill(context)) {
                Ok(0) => {
                    return Poll::Ready(
                        reader
                            .closed()
                            .map_err(|failure| writing.failure.unwrap_or(failure)),
                    );
                }
                Ok(_) => {}
                Err(error) => {
                    return Poll::Ready(Err(writing
                        .failure
                        .unwrap_or(Failure::of_exchange(&error))));
                }
            }
        }
    }

    fn write(&mut self, context: &mut Context<'_>, writing: &mut Writing<'_>) -> io::Result<()> {
        while !writing.bytes.is_empty() {
            match Pin::new(&mut self.transport).poll_write(context, writing.bytes)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => writing.bytes = &writing.bytes[written..],
                Poll::Pending => return Ok(()),
            }
        }
        // Bytes that TLS has not passed on yet.
        if !writing.is_flushed {
            writing.is_flushed = Pin::new(&mut self.transport)
                .poll_flush(context)?
                .is_ready();
        }
        Ok(())
    }

    /// Reads more bytes. Returns their number.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.input.len() {
            // The unused bytes are a part of a head, and a head is not longer than that.
            self.input.resize(2 * self.end, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.end..]);
        let outcome = Pin::new(&mut self.transport).poll_read(context, &mut buffer);
        let read = buffer.filled().len();
        self.end += read;
        outcome.map_ok(|()| read)
    }

    /// Returns whether another request may be sent, as far as is known.
    pub(super) fn is_open(&mut self) -> bool {
        if !self.is_closed {
            let mut context = Context::from_waker(std::task::Waker::noop());
            // Any data that arrives now is unrequested.
            self.is_closed = self.fill(&mut context).is_ready();
        }
        !self.is_closed
    }

    /// Completes when the server closes the connection, or sends unrequested data. Cancel safe.
    pub(super) async fn closed(&mut self) {
        if !self.is_closed {
            let _ = poll_fn(|context| self.fill(context)).await;
            self.is_closed = true;
        }
    }
}
