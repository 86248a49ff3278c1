//! Reads the next free slot twice in one round.
//!
//! A queue of slots: a call reads when the next one is free to work out its wait, reads it again for
//! the compare-and-swap that moves it on, and waits for the first of the two. The swap succeeds, as
//! what it expects is fresh; the wait does not belong to it. Two callers leave at the same instant.
//!
//! Every schedule of a few steps is tried by [`interleave`](crate::interleave), which finds it.
//! Instead: [`flowgate::LeakyBucket`], where what is told comes from the value that was swapped.

use crate::interleave::Machine;
use crate::promise::Grant;

/// Threads that wait for their turn; no time passes.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::specimens::read_twice::ReadTwice;
///
/// // A slot each 10 ns, and two threads.
/// let mut queue = ReadTwice::new(10, 2);
/// for thread in [0, 1, 1, 1, 0, 0] {
///     println!("{}", queue.step(thread).expect("it has something to do"));
/// }
/// let times: Vec<_> = queue.grants().iter().map(|grant| grant.at_ns).collect();
/// assert_eq!(times, [0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct ReadTwice {
    interval_ns: u64,
    next_ns: u64,
    threads: Vec<At>,
    grants: Vec<Grant>,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum At {
    Read,
    ReadAgain { slot_ns: u64 },
    Swap { slot_ns: u64, seen_ns: u64 },
}

impl ReadTwice {
    /// One each `interval_ns`, asked by so many threads, again and again.
    pub fn new(interval_ns: u64, threads: usize) -> Self {
        Self {
            interval_ns,
            next_ns: 0,
            threads: vec![At::Read; threads],
            grants: Vec::new(),
        }
    }
}

impl Machine for ReadTwice {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        let next_ns = self.next_ns;
        let (at, done) = match self.threads[thread] {
            At::Read => (
                At::ReadAgain { slot_ns: next_ns },
                format!("reads the next slot, {next_ns}ns, and will wait for it"),
            ),
            At::ReadAgain { slot_ns } => (
                At::Swap {
                    slot_ns,
                    seen_ns: next_ns,
                },
                format!("reads the next slot again, {next_ns}ns"),
            ),
            At::Swap { seen_ns, .. } if seen_ns != next_ns => {
                (At::Read, "fails to move it on, starts again".into())
            }
            At::Swap { slot_ns, .. } => {
                self.next_ns += self.interval_ns;
                // The mistake: it is `seen_ns` that is taken.
                self.grants.push(Grant::new(slot_ns, 1));
                let next_ns = self.next_ns;
                (
                    At::Read,
                    format!("moves it on to {next_ns}ns, goes at {slot_ns}ns"),
                )
            }
        };
        self.threads[thread] = at;
        Some(format!("thread {thread}: {done}"))
    }

    fn grants(&self) -> &[Grant] {
        &self.grants
    }
}
