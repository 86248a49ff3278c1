//! Detects which HTTP/2 streams have begun, from the frames that are written.
//!
//! A server limits the number of concurrent streams. A request beyond that limit waits inside the HTTP/2 library. So a
//! request counts as sent when its HEADERS frame is written, not when it is handed over:
//!
//! ```text
//!  ╭─ length ─╮ type flags ╭─ stream ─╮
//!  │ 24 bits  │  1  │     │ 31 bits  │ payload …         type 1 is HEADERS
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stamp::{Departures, Stamp};
use super::wire::Transport;

/// Bytes that a client writes before its first frame: `PRI * HTTP/2.0␍␊␍␊SM␍␊␍␊`.
const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// Position in the bytes that a client writes.
struct Frames {
    /// Bytes until the next frame begins.
    skip: usize,
    head: [u8; FRAME_HEAD_BYTES],
    /// Number of known bytes of `head`.
    known: usize,
}

impl Frames {
    fn from_the_preface_on() -> Frames {
        Frames {
            skip: PREFACE_BYTES,
            head: [0; FRAME_HEAD_BYTES],
            known: 0,
        }
    }

    /// Reads on, and calls `on_headers` with the stream of each HEADERS frame.
    fn read(&mut self, mut bytes: &[u8], mut on_headers: impl FnMut(u32)) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let wanted = (FRAME_HEAD_BYTES - self.known).min(bytes.len());
            let (head, rest) = bytes.split_at(wanted);
            self.head[self.known..self.known + wanted].copy_from_slice(head);
            self.known += wanted;
            bytes = rest;
            if self.known < FRAME_HEAD_BYTES {
                return;
            }
            self.known = 0;
            let [a, b, c, kind, _, stream @ ..] = self.head;
            self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind == HEADERS {
                // The top bit is reserved.
                on_headers(u32::from_be_bytes(stream) & (u32::MAX >> 1));
            }
        }
    }
}

/// Requests of one connection whose HEADERS frame is not written yet, oldest first. They are written in this order.
#[derive(Default)]
pub(super) struct Unsent(RefCell<VecDeque<(u32, Stamp)>>);

impl Unsent {
    pub(super) fn add(&self, stream: u32, stamp: &Stamp) {
        self.0.borrow_mut().push_back((stream, stamp.clone()));
    }

    pub(super) fn remove(&self, stream: u32) -> Option<Stamp> {
        let mut streams = self.0.borrow_mut();
        let place = streams.iter().position(|&(other, _)| other == stream)?;
        streams.remove(place).map(|(_, stamp)| stamp)
    }
}

/// Transport that stamps requests when their HEADERS frame is written.
pub(super) struct Watched {
    transport: Transport,
    departures: Rc<Departures>,
    unsent: Rc<Unsent>,
    frames: Frames,
}

impl Watched {
    /// Wraps a transport on which nothing of HTTP/2 was written yet.
    pub(super) fn new(
        transport: Transport,
        departures: Rc<Departures>,
        unsent: Rc<Unsent>,
    ) -> Watched {
        Watched {
            transport,
            departures,
            unsent,
            frames: Frames::from_the_preface_on(),
        }
    }

    fn write<'a>(
        &mut self,
        slices: impl Iterator<Item = &'a [u8]>,
        write: impl FnOnce(Pin<&mut Transport>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Watched {
            transport,
            departures,
            unsent,
            frames,
        } = self;
        departures.watch(
            || write(Pin::new(transport)),
            |outcome, began| {
                let Poll::Ready(Ok(mut written)) = *outcome else {
                    return;
                };
                for slice in slices {
                    let part = &slice[..written.min(slice.len())];
                    written -= part.len();
                    frames.read(part, |stream| {
                        if let Some(stamp) = unsent.remove(stream) {
                            began(&stamp);
                        }
                    });
                }
            },
        )
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write([bytes].into_iter(), |transport| {
            transport.poll_write(context, bytes)
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(slices.iter().map(|slice| &**slice), |transport| {
            transport.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(payload).unwrap().to_be_bytes();
        let mut bytes = vec![a, b, c, kind, 0];
        bytes.extend(stream.to_be_bytes());
        // Payloads that would be HEADERS frames, were they read as frames.
        bytes.extend([0, 0, 0, HEADERS, 0].iter().cycle().take(payload));
        bytes
    }

    #[test]
    fn headers_are_found_however_the_bytes_are_cut() {
        let mut bytes = vec![HEADERS; PREFACE_BYTES];
        for (kind, stream, payload) in [
            (4, 0, 18),
            (HEADERS, 1, 40),
            (0, 1, 70_000),
            (HEADERS, 3 | 1 << 31, 0),
            (8, 0, 4),
            (HEADERS, 5, 1),
        ] {
            bytes.extend(frame(kind, stream, payload));
        }
        for cut in [1, 2, 8, 9, 10, 33, 1000, bytes.len()] {
            let (mut frames, mut found) = (Frames::from_the_preface_on(), Vec::new());
            for part in bytes.chunks(cut) {
                frames.read(part, |stream| found.push(stream));
            }
            assert_eq!(found, [1, 3, 5], "in pieces of {cut}");
        }
    }
}
