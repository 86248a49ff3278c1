//! Reads the next free time twice in one attempt.
//!
//! A queue stores the next free time. A call reads that time to compute its wait, reads it again for the
//! compare-and-swap that advances it, and uses the wait of the first reading. The swap succeeds because its expected
//! value is fresh, but the wait does not belong to it. Two callers leave at the same time.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead:
//! [`flowgate::LeakyBucket`], which computes the wait from the value that was swapped.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Threads that wait for a grant; no time passes.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::read_twice::ReadTwice;
///
/// // One every 10 ns, and two threads.
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
    grants: Vec<TimedGrant>,
}

/// The next step of a thread.
#[derive(Clone, Copy, Debug)]
enum At {
    Read,
    ReadAgain { slot_ns: u64 },
    Swap { slot_ns: u64, seen_ns: u64 },
}

impl ReadTwice {
    /// Creates a queue of one per `interval_ns`, called repeatedly by `threads` threads.
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
                self.grants.push(TimedGrant::new(slot_ns, 1));
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

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
