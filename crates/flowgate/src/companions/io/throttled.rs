use super::ahead::Ahead;
use crate::companions::payer::Payer;
use crate::limiter::Limiter;
use core::fmt;
use core::ops::Deref;

/// The largest chunk in bytes, unless [`Throttled::chunk`] sets another.
const MAX_CHUNK: u64 = 64 * 1024;

/// The least number of chunks in a burst.
const CHUNKS_PER_BURST: u64 = 8;

/// Reader or writer that **shares the bandwidth of a limiter**.
///
/// A byte is a unit of the limiter. In any interval, no more bytes pass than the limiter admits. All readers and writers that
/// wait for the same limiter get the same share.
///
/// ```text
///   reader ── Throttled ──╮
///   writer ── Throttled ──┼── one limiter: "10MiB/s", one line
///   socket ── Throttled ──╯
/// ```
///
/// ```
/// use flowgate::{Throttled, TokenBucket};
/// use std::io;
/// use std::sync::Arc;
///
/// let bandwidth = Arc::new(TokenBucket::new("10MiB/s burst 256KiB".parse()?));
/// let mut downloads = Vec::new();
/// for from in [&b"one source"[..], &b"another"[..]] {
///     let mut from = Throttled::new(from, Arc::clone(&bandwidth));
///     downloads.push(std::thread::spawn(move || io::copy(&mut from, &mut io::sink())));
/// }
/// for download in downloads {
///     println!("{} bytes", download.join().unwrap()?);
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// `Throttled` implements [`Read`](std::io::Read) and [`Write`](std::io::Write) of the standard library, which block the
/// thread. With the features `tokio` and `futures-io` it also implements the asynchronous traits of these crates.
///
/// A [`TokenBucket`](crate::TokenBucket) of `"10MiB/s"` has a burst of 10 MiB, unless the text of the quota sets another. Both
/// directions of a socket count together. To limit each direction, split the socket.
///
/// # Chunks
///
/// A call passes at most one chunk, and waits once in the queue for it. By default, a chunk is 1/8 of the largest amount that
/// the limiter can grant in one decision, and at most 64 KiB. [`chunk`](Self::chunk) sets another size.
///
/// So an amount larger than the burst is split and never refused, also if the burst is reduced later. Callers of `read` and
/// `write` have to expect partial results anyway.
///
/// # Fairness
///
/// Chunks are granted in the order of the limiter's queue. So all waiters that always want more get one chunk each, round by
/// round: the same number of bytes, to within one chunk. Tokens that are available without a wait go to the first caller.
///
/// A caller that asks for less than a chunk at a time gets a smaller share. Put a [`BufReader`](std::io::BufReader) or
/// [`BufWriter`](std::io::BufWriter) around it. Other users of the limiter wait in the same queue.
///
/// # Guarantees
///
/// The bound of the limiter holds for the bytes ([never over-admits, C1](crate::guide::guarantees)). Bytes that are read count
/// when they are handed to the caller. Bytes that are written count when they are handed to the writer. Their time is that of
/// their grant.
///
/// - The source sees a read earlier, by at most one chunk.
/// - A caller that wakes up late passes its bytes later than the time of their grant, by at most one chunk. The same holds for
///   a caller that gives up a write after its grant and writes later.
/// - Tokens for bytes that the writer does not take are returned, except for those that have been refilled since their grant. A
///   [`WarmUp`](crate::WarmUp) gets them back only if it has made no other grant since.
///
/// # Errors
///
/// - Errors of the reader or writer. They cost no tokens.
/// - Refusals of the limiter, if it was [closed](crate::WaitQueue::close) or its queue is full. Their kind is
///   [`Other`](std::io::ErrorKind::Other), and they contain the [`Denied`](crate::Denied). Bytes that were read by then are
///   kept for the next call.
///
/// # Cancel safety
///
/// A read that is given up loses no bytes. A write that is given up has written no bytes. Both keep their place in the queue
/// for the next call. To leave the queue, shut the writer down or drop the `Throttled`.
pub struct Throttled<T, P: Deref<Target: Limiter>> {
    pub(super) inner: T,
    pub(super) payer: Payer<P, 2>,
    pub(super) ahead: Ahead,
    chunk: Chunk,
}

/// The two operations that pay for bytes.
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// How many bytes are granted in one decision.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chunk {
    /// So small that no chunk takes a large part of the burst.
    Fair,
    /// At most this number of bytes.
    Bytes(u64),
}

impl<T, P: Deref<Target: Limiter>> Throttled<T, P> {
    /// Creates a reader or writer whose bytes wait for `limiter`.
    ///
    /// `limiter` is a reference or an [`Arc`](alloc::sync::Arc).
    pub fn new(inner: T, limiter: P) -> Self {
        Self {
            inner,
            payer: Payer::new(limiter),
            ahead: Ahead::default(),
            chunk: Chunk::Fair,
        }
    }

    /// Sets the largest number of bytes per call; 0 counts as 1.
    ///
    /// A call never passes more than the limiter can grant in one decision. Smaller chunks share more evenly, larger chunks
    /// cost less.
    ///
    /// ```
    /// # use flowgate::{Throttled, TokenBucket};
    /// # use std::io::Write;
    /// let bandwidth = TokenBucket::new("1GB/s".parse()?);
    /// let mut file = Throttled::new(Vec::new(), &bandwidth).chunk(1000);
    /// assert_eq!(file.write(&[0; 4000])?, 1000); // one turn; `write_all` takes four
    /// assert_eq!(file.get_ref().len(), 1000);
    /// assert_eq!(file.into_inner(), [0; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn chunk(mut self, bytes: u64) -> Self {
        self.chunk = Chunk::Bytes(bytes.max(1));
        self
    }

    /// Returns the limiter.
    pub fn limiter(&self) -> &P::Target {
        self.payer.limiter()
    }

    /// Returns the reader or writer inside.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns the reader or writer inside. Bytes that pass there are not limited.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Returns the bytes that have been read and wait for their grant.
    ///
    /// ```
    /// # use flowgate::{Throttled, TokenBucket};
    /// # use std::io::Read;
    /// let bandwidth = TokenBucket::new("1GB/s".parse()?);
    /// let mut file = Throttled::new(&b"abcdef"[..], &bandwidth);
    /// bandwidth.queue().close();
    /// assert!(file.read(&mut [0; 4]).is_err());
    /// assert_eq!(file.read_ahead(), b"abcd"); // nothing that was read is lost
    /// assert_eq!(file.into_inner(), b"ef");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_ahead(&self) -> &[u8] {
        self.ahead.bytes()
    }

    /// Returns the reader or writer inside, and leaves the queue.
    ///
    /// Bytes that have been [read ahead](Self::read_ahead) are lost.
    pub fn into_inner(self) -> T {
        self.inner
    }

    pub(super) fn portion(&self) -> Chunk {
        self.chunk
    }

    /// Returns how many of `bytes` a call passes.
    pub(super) fn at_once(&self, bytes: usize) -> usize {
        let most = self.chunk.of(self.limiter().snapshot().limit);
        bytes.min(usize::try_from(most).unwrap_or(usize::MAX))
    }
}

impl Chunk {
    /// Returns the chunk size, if the limiter can grant `limit` units in one decision.
    pub(super) fn of(self, limit: u64) -> u64 {
        match self {
            Self::Fair => (limit / CHUNKS_PER_BURST).clamp(1, MAX_CHUNK),
            Self::Bytes(bytes) => bytes.min(limit).max(1),
        }
    }
}

impl<T: fmt::Debug, P: Deref<Target: Limiter>> fmt::Debug for Throttled<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled")
            .field("inner", &self.inner)
            .field("limiter", &self.limiter())
            .field("read_ahead", &self.read_ahead().len())
            .finish_non_exhaustive()
    }
}
