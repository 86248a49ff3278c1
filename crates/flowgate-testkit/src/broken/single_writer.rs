//! A single-writer channel, used by a hundred threads.
//!
//! The channel of admissions is declared to have one writer, so it omits the compare-and-swap on its tail: check for
//! space, write the entry, move the tail. Two writers find the same space and write to the same position, so one of the
//! entries is lost.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead:
//! [`flowgate::SlidingWindow`], in which one compare-and-swap claims the entry and admits.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Threads that write; no time passes.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::single_writer::SingleWriter;
///
/// // A limit of one, and two threads.
/// let mut channel = SingleWriter::new(1, 2);
/// for thread in [0, 1, 0, 1] {
///     println!("{}", channel.step(thread).expect("it has something to do"));
/// }
/// assert_eq!(channel.grants().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct SingleWriter {
    limit: usize,
    tail: usize,
    /// The free position that each thread has found.
    threads: Vec<Option<usize>>,
    grants: Vec<TimedGrant>,
}

impl SingleWriter {
    /// Creates a limit of `limit` in a window, called repeatedly by `threads` threads.
    pub fn new(limit: usize, threads: usize) -> Self {
        Self {
            limit,
            tail: 0,
            threads: vec![None; threads],
            grants: Vec::new(),
        }
    }
}

impl Machine for SingleWriter {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        let Some(place) = self.threads[thread].take() else {
            if self.tail >= self.limit {
                return None;
            }
            self.threads[thread] = Some(self.tail);
            return Some(format!("thread {thread}: sees room at place {}", self.tail));
        };
        // The mistake: another may have written there.
        self.tail = place + 1;
        self.grants.push(TimedGrant::new(0, 1));
        Some(format!("thread {thread}: writes to place {place}, admits"))
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
