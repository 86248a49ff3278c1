//! Two callers clamp the same excess, each by subtracting it.
//!
//! What flowed in has raised the allowance above its maximum. A caller sees by how much and takes
//! that off; so does another, who saw the same. The allowance is then below the maximum by what was
//! taken off twice, though nobody was admitted.
//!
//! Every schedule of a few steps is tried by [`interleave`](crate::interleave), which finds it.
//! Instead: [`flowgate::TokenBucket`], whose one time needs no clamp of its own.

use crate::interleave::Machine;
use crate::promise::Grant;

/// Threads that clamp an allowance into which too much has flowed.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::specimens::double_clamp::DoubleClamp;
///
/// // A bucket of two has one too many, and two threads are to take that off.
/// let mut bucket = DoubleClamp::new(2, 1, 2);
/// for thread in [0, 1, 0, 1] {
///     bucket.step(thread);
/// }
/// assert_eq!(bucket.lost().as_deref(), Some("1 of 2 are lost, and nothing was admitted"));
/// ```
#[derive(Clone, Debug)]
pub struct DoubleClamp {
    most: u64,
    allowance: u64,
    threads: Vec<At>,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Look,
    Subtract(u64),
    Done,
}

impl DoubleClamp {
    /// A bucket of `most` with `excess` on top, clamped by so many threads, once each.
    pub fn new(most: u64, excess: u64, threads: usize) -> Self {
        Self {
            most,
            allowance: most + excess,
            threads: vec![At::Look; threads],
        }
    }

    /// What is missing though nothing was taken.
    pub fn lost(&self) -> Option<String> {
        let done = self.threads.iter().all(|at| *at == At::Done);
        let lost = self.most.saturating_sub(self.allowance);
        (done && lost > 0)
            .then(|| format!("{lost} of {} are lost, and nothing was admitted", self.most))
    }
}

impl Machine for DoubleClamp {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        match self.threads[thread] {
            At::Look => {
                let excess = self.allowance.saturating_sub(self.most);
                self.threads[thread] = if excess > 0 {
                    At::Subtract(excess)
                } else {
                    At::Done
                };
                Some(format!(
                    "thread {thread}: sees {}, {excess} too many",
                    self.allowance
                ))
            }
            At::Subtract(excess) => {
                // The mistake: another may have done so.
                self.allowance = self.allowance.wrapping_sub(excess);
                self.threads[thread] = At::Done;
                Some(format!(
                    "thread {thread}: subtracts {excess}, {} now",
                    self.allowance
                ))
            }
            At::Done => None,
        }
    }

    fn grants(&self) -> &[Grant] {
        &[]
    }
}
