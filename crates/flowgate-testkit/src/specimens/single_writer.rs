//! A channel for a single writer, used by a hundred.
//!
//! The channel of admissions is declared to have one writer, which lets it leave out the
//! compare-and-swap on its tail: look for room, write the entry, move the tail. Two writers see the
//! same room, write into the same place, and one of the entries is lost.
//!
//! Every schedule of a few steps is tried by [`interleave`](crate::interleave), which finds it.
//! Instead: [`flowgate::SlidingWindow`], where one compare-and-swap claims the entry and admits.

use crate::interleave::Machine;
use crate::promise::Grant;

/// Threads that write; no time passes.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::specimens::single_writer::SingleWriter;
///
/// // Room for one, and two threads.
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
    /// The place that each thread has seen to be free.
    threads: Vec<Option<usize>>,
    grants: Vec<Grant>,
}

impl SingleWriter {
    /// `limit` in a window, asked by so many threads, again and again.
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
        self.grants.push(Grant::new(0, 1));
        Some(format!("thread {thread}: writes to place {place}, admits"))
    }

    fn grants(&self) -> &[Grant] {
        &self.grants
    }
}
