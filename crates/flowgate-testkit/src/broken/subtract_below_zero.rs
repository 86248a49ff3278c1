//! Two callers find enough, both subtract, and the result wraps.
//!
//! A bucket checks the allowance and then subtracts. Each step is atomic, the pair is not. Two callers find one token,
//! both take it, the unsigned allowance wraps to 2⁶⁴ − 1, and the next refill clamps that to a *full* bucket.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead:
//! [`flowgate::TokenBucket`], in which check and subtraction are one compare-and-swap.

use flowgate::Quota;

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Threads that take from an allowance; no time passes.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::subtract_below_zero::SubtractBelowZero;
///
/// // One token, and two threads.
/// let mut bucket = SubtractBelowZero::new(Quota::per_second(1), 2);
/// for thread in [0, 1, 0, 1, 0, 1] {
///     println!("{}", bucket.step(thread).expect("it has something to do"));
/// }
/// assert_eq!(bucket.grants().len(), 2);
/// // The rest is the largest possible number.
/// assert_eq!(bucket.step(0).as_deref(), Some("thread 0: clamps the allowance, 1 now"));
/// ```
#[derive(Clone, Debug)]
pub struct SubtractBelowZero {
    most: u64,
    allowance: u64,
    threads: Vec<At>,
    grants: Vec<TimedGrant>,
}

/// The next step of a thread.
#[derive(Clone, Copy, Debug)]
enum At {
    Clamp,
    Look,
    Subtract,
}

impl SubtractBelowZero {
    /// Creates a full bucket for `quota`, called repeatedly by `threads` threads.
    pub fn new(quota: Quota, threads: usize) -> Self {
        let most = quota.max_burst();
        Self {
            most,
            allowance: most,
            threads: vec![At::Clamp; threads],
            grants: Vec::new(),
        }
    }
}

impl Machine for SubtractBelowZero {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        match self.threads[thread] {
            At::Clamp => {
                self.allowance = self.allowance.min(self.most);
                self.threads[thread] = At::Look;
                Some(format!(
                    "thread {thread}: clamps the allowance, {} now",
                    self.allowance
                ))
            }
            At::Look if self.allowance == 0 => None,
            At::Look => {
                self.threads[thread] = At::Subtract;
                Some(format!("thread {thread}: sees {}, enough", self.allowance))
            }
            At::Subtract => {
                // The mistake: what was seen may be gone.
                self.allowance = self.allowance.wrapping_sub(1);
                self.threads[thread] = At::Clamp;
                self.grants.push(TimedGrant::new(0, 1));
                Some(format!(
                    "thread {thread}: subtracts 1, {} now, admits",
                    self.allowance
                ))
            }
        }
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
