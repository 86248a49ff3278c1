use super::ahead::Ahead;
use crate::companions::payer::Payer;
use crate::limiter::Limiter;
use core::fmt;
use core::ops::Deref;

/// The most that is taken in one turn unless [`Throttled::chunk`] says otherwise.
const MAX_CHUNK: u64 = 64 * 1024;

/// How many chunks a burst is at least.
const CHUNKS_PER_BURST: u64 = 8;

/// **A reader or a writer whose bytes are tokens of a limiter**: no more of them pass in any time than that admits, and
/// all who share it get the same share.
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
/// It is [`Read`](std::io::Read) and [`Write`](std::io::Write) of the standard library, which block their thread, and
/// with the features `tokio` and `futures-io` the asynchronous traits of these. A byte is a unit of the limiter's
/// quota, so a [`TokenBucket`](crate::TokenBucket) of `"10MiB/s"` has a burst of 10 MiB unless the text says otherwise.
/// Both directions of a socket count together; split it to limit them each.
///
/// # Chunks
///
/// A call passes at most a chunk, and takes one turn in the queue for it: an eighth of what the limiter can grant at once,
/// and 64 KiB at most, or what [`chunk`](Self::chunk) says. So an amount larger than the burst is split, as callers of
/// `read` and `write` have to expect anyway, and never refused; also if the burst is made smaller meanwhile.
///
/// # Fairness
///
/// Turns come in the order of the limiter's queue, so those who wait and always want more get one chunk each, round by
/// round: the same bytes, to a chunk. What can be had without a wait goes to who comes first. Who asks for less than a
/// chunk at a time gets as much less; put a [`BufReader`](std::io::BufReader) or [`BufWriter`](std::io::BufWriter)
/// around it. Other users of the limiter wait in the same queue.
///
/// # What is promised
///
/// The limiter's own promise (C1), for bytes: those read as they are handed to the caller, those written as they are
/// handed to the writer, dated at their turn. A read is ahead of that by a chunk, as the source sees it. Who wakes up
/// late for a turn passes its bytes later than they are dated, a chunk at the most; so does who asked for a write, gave
/// up, and later writes after all. What a writer does not take comes back, except for what has flowed in again since
/// its turn, and at a [`WarmUp`](crate::WarmUp) only if nobody has had another turn since.
///
/// # Errors
///
/// Those of the reader or writer, which cost nothing, and the limiter's refusals, which come when it was
/// [closed](crate::WaitQueue::close) or its queue is full: of the kind [`Other`](std::io::ErrorKind::Other), with the
/// [`Denied`](crate::Denied) inside. What had been read by then is kept for the next call.
///
/// # Cancel safety
///
/// A read that is given up loses no bytes. A write that is given up has written none. Either keeps its place in the queue
/// for the next call; shutting down or dropping the whole leaves the queue.
pub struct Throttled<T, P>
where
    P: Deref,
    P::Target: Limiter,
{
    pub(super) inner: T,
    pub(super) payer: Payer<P, 2>,
    pub(super) ahead: Ahead,
    chunk: Chunk,
}

/// The two things that are paid for.
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// How much goes in one turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chunk {
    /// So small that no turn takes a large part of the burst.
    Fair,
    /// At most so many bytes.
    Bytes(u64),
}

impl<T, P> Throttled<T, P>
where
    P: Deref,
    P::Target: Limiter,
{
    /// Has what passes `inner` wait for `limiter`, which is held by a reference or an [`Arc`](alloc::sync::Arc).
    pub fn new(inner: T, limiter: P) -> Self {
        Self {
            inner,
            payer: Payer::new(limiter),
            ahead: Ahead::default(),
            chunk: Chunk::Fair,
        }
    }

    /// Passes at most `bytes` in one turn, and no more than the limiter can grant at once; 0 is 1. Smaller ones share
    /// more evenly, larger ones cost less.
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

    /// The limiter.
    pub fn limiter(&self) -> &P::Target {
        self.payer.limiter()
    }

    /// The reader or writer inside.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The reader or writer inside. What passes there waits for nothing.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// What has been read, and waits for its turn.
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

    /// The reader or writer inside. What has been [read ahead](Self::read_ahead) is lost. Leaves the queue.
    pub fn into_inner(self) -> T {
        self.inner
    }

    pub(super) fn portion(&self) -> Chunk {
        self.chunk
    }

    /// How many of `bytes` go in one turn.
    pub(super) fn at_once(&self, bytes: usize) -> usize {
        let most = self.chunk.of(self.limiter().snapshot().limit);
        bytes.min(usize::try_from(most).unwrap_or(usize::MAX))
    }
}

impl Chunk {
    /// The most of a turn, where the limiter can grant `limit` units at once.
    pub(super) fn of(self, limit: u64) -> u64 {
        match self {
            Self::Fair => (limit / CHUNKS_PER_BURST).clamp(1, MAX_CHUNK),
            Self::Bytes(bytes) => bytes.min(limit).max(1),
        }
    }
}

impl<T, P> fmt::Debug for Throttled<T, P>
where
    T: fmt::Debug,
    P: Deref,
    P::Target: Limiter,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled")
            .field("inner", &self.inner)
            .field("limiter", &self.limiter())
            .field("read_ahead", &self.read_ahead().len())
            .finish_non_exhaustive()
    }
}
