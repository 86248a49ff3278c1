//! Decodes compressed bodies beside the run, to count what they contain.
//!
//! ```text
//!  workers ── a body, when its response has been timed ──▶ at most 64 MiB ──▶ decoding thread ──▶ Decoded
//! ```
//!
//! A response is complete, and counted, before its body is decoded. If the thread is too slow, bodies are skipped.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use brotli_decompressor::Decompressor;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;
use serde::{Deserialize, Serialize};

use crate::connection::{Body, ContentCoding};

/// Maximum size of all bodies that wait, and of one that is decoded.
const MAX_BYTES: usize = 64 << 20;
/// How long bodies are decoded after the run.
const AFTER: Duration = Duration::from_secs(5);
/// Size of the buffers of a decoder.
const BUFFER: usize = 4096;

/// What came of decoding compressed bodies; see [`Plan::decode`](crate::Plan::decode).
///
/// # Examples
///
/// ```
/// use flowgate_load::Decoded;
///
/// let decoded = Decoded { bodies: 10, wire_bytes: 2_000, bytes: 9_000, ..Decoded::default() };
/// assert_eq!((decoded.broken, decoded.skipped), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decoded {
    /// Bodies that were decoded.
    pub bodies: u64,
    /// Their bytes before decoding.
    pub wire_bytes: u64,
    /// Their bytes after decoding.
    pub bytes: u64,
    /// Bodies that could not be decoded.
    pub broken: u64,
    /// Bodies that were not decoded: too many or too large, or in an unknown coding.
    pub skipped: u64,
}

impl Decoded {
    /// Returns all of its counts.
    pub(crate) fn numbers(self) -> [u64; 5] {
        [
            self.bodies,
            self.wire_bytes,
            self.bytes,
            self.broken,
            self.skipped,
        ]
    }

    /// Returns the sum with that of another run.
    pub(crate) fn plus(self, other: Decoded) -> Decoded {
        Decoded {
            bodies: self.bodies + other.bodies,
            wire_bytes: self.wire_bytes + other.wire_bytes,
            bytes: self.bytes + other.bytes,
            broken: self.broken + other.broken,
            skipped: self.skipped + other.skipped,
        }
    }
}

/// The decoding thread.
pub(crate) struct Decoder {
    bodies: Bodies,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Decoded>,
}

/// Where workers put bodies. Never blocks.
#[derive(Clone)]
pub(crate) struct Bodies {
    queue: Sender<Body>,
    /// Bytes that wait.
    waiting: Arc<AtomicUsize>,
    skipped: Arc<AtomicU64>,
}

impl Decoder {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a thread.
    pub(crate) fn start() -> io::Result<Decoder> {
        let (queue, received) = channel();
        let (waiting, is_over) = (Arc::default(), Arc::default());
        let (left, over) = (Arc::clone(&waiting), Arc::clone(&is_over));
        let thread = thread::Builder::new().name("flowgate-load-decode".to_owned());
        let thread = thread.spawn(move || decode_all(&received, &left, &over))?;
        Ok(Decoder {
            bodies: Bodies {
                queue,
                waiting,
                skipped: Arc::default(),
            },
            is_over,
            thread,
        })
    }

    pub(crate) fn bodies(&self) -> Bodies {
        self.bodies.clone()
    }

    /// Decodes what waits, for a short time. All other handles must be gone. Blocks.
    pub(crate) fn finish(self) -> Decoded {
        self.is_over.store(true, Ordering::Relaxed);
        let Bodies { queue, skipped, .. } = self.bodies;
        drop(queue);
        let mut decoded = self
            .thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        decoded.skipped += skipped.load(Ordering::Relaxed);
        decoded
    }
}

impl Bodies {
    /// Passes a body on, or counts it as skipped.
    pub(crate) fn offer(&self, body: Body) {
        let size = body.bytes.len();
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        if body.is_whole && before.saturating_add(size) <= MAX_BYTES {
            // The thread lives as long as this handle.
            let _ = self.queue.send(body);
        } else {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn decode_all(received: &Receiver<Body>, waiting: &AtomicUsize, is_over: &AtomicBool) -> Decoded {
    let mut decoded = Decoded::default();
    let mut until: Option<Instant> = None;
    for body in received {
        waiting.fetch_sub(body.bytes.len(), Ordering::Relaxed);
        if is_over.load(Ordering::Relaxed) {
            let until = *until.get_or_insert_with(|| Instant::now() + AFTER);
            if Instant::now() >= until {
                decoded.skipped += 1;
                continue;
            }
        }
        match decoded_len(&body) {
            Ok(Some(bytes)) => {
                decoded.bodies += 1;
                decoded.wire_bytes += body.bytes.len() as u64;
                decoded.bytes += bytes;
            }
            Ok(None) => decoded.skipped += 1,
            Err(_) => decoded.broken += 1,
        }
    }
    decoded
}

/// Returns the length of a body after decoding; `None` if it is too long, or in an unknown coding.
fn decoded_len(body: &Body) -> io::Result<Option<u64>> {
    let bytes = &body.bytes[..];
    let mut reader: Box<dyn Read + '_> = match body.coding {
        ContentCoding::Gzip => Box::new(MultiGzDecoder::new(bytes)),
        ContentCoding::Deflate => Box::new(ZlibDecoder::new(bytes)),
        ContentCoding::Brotli => Box::new(Decompressor::new(bytes, BUFFER)),
        ContentCoding::Zstd => Box::new(StreamingDecoder::new(bytes).map_err(io::Error::other)?),
        ContentCoding::Other => return Ok(None),
    };
    let most = MAX_BYTES as u64;
    let len = io::copy(&mut reader.by_ref().take(most + 1), &mut io::sink())?;
    Ok((len <= most).then_some(len))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn body(coding: ContentCoding, bytes: Vec<u8>) -> Body {
        Body {
            coding,
            bytes,
            is_whole: true,
        }
    }

    #[test]
    fn every_coding_that_is_asked_for_is_decoded() {
        let text = b"hello hello hello hello".repeat(50);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).unwrap();
        let zstd = compress_to_vec(&text[..], CompressionLevel::Fastest);
        let len = text.len() as u64;
        for (coding, bytes, expected) in [
            (ContentCoding::Gzip, gzip(&text), len),
            // Several members are one body.
            (
                ContentCoding::Gzip,
                [gzip(&text), gzip(b"x")].concat(),
                len + 1,
            ),
            (ContentCoding::Deflate, zlib.finish().unwrap(), len),
            (ContentCoding::Zstd, zstd, len),
            (ContentCoding::Brotli, b"\x0b\x02\x80hello\x03".to_vec(), 5),
        ] {
            let decoded = decoded_len(&body(coding, bytes.clone())).unwrap();
            assert_eq!(decoded, Some(expected), "{coding}");
            let cut = body(coding, bytes[..bytes.len() - 1].to_vec());
            assert!(decoded_len(&cut).is_err(), "{coding} that ends early");
            assert!(decoded_len(&body(coding, b"no such thing".to_vec())).is_err());
        }
    }

    #[test]
    fn what_is_not_decoded_is_counted() {
        let decoder = Decoder::start().unwrap();
        let bodies = decoder.bodies();
        bodies.offer(body(ContentCoding::Gzip, gzip(b"abc")));
        bodies.offer(body(ContentCoding::Gzip, b"abc".to_vec()));
        bodies.offer(body(ContentCoding::Other, b"abc".to_vec()));
        bodies.offer(Body {
            is_whole: false,
            ..body(ContentCoding::Gzip, Vec::new())
        });
        // More than it may be, from little.
        bodies.offer(body(ContentCoding::Gzip, gzip(&vec![0; MAX_BYTES + 1])));
        drop(bodies);
        let decoded = decoder.finish();
        assert_eq!((decoded.bodies, decoded.bytes), (1, 3));
        assert_eq!(decoded.wire_bytes, gzip(b"abc").len() as u64);
        assert_eq!((decoded.broken, decoded.skipped), (1, 3));
    }
}
