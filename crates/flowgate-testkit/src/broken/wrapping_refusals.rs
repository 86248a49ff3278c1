//! Counts refused calls too, until the counter wraps.
//!
//! Every call adds 1, whether or not it is admitted. After enough refusals within one window (2³² minus the limit for a
//! common counter), the counter is back at 0 and admits the limit again. An attacker that is refused only has to
//! continue.
//!
//! The counter here has two bits, so that the history is readable. [`interleave`](crate::interleave) detects it by
//! trying every schedule, although one thread is enough. Use instead: [`flowgate::FixedWindow`], in which a refusal
//! writes nothing.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// One thread, and a counter of a few bits; no time passes.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::wrapping_refusals::WrappingRefusals;
///
/// // One in a window, counted in two bits.
/// let mut window = WrappingRefusals::new(1, 2);
/// for _ in 0..5 {
///     println!("{}", window.step(0).expect("it can always be asked"));
/// }
/// assert_eq!(window.grants().len(), 2); // the first and the fifth
/// ```
#[derive(Clone, Debug)]
pub struct WrappingRefusals {
    limit: u64,
    bits: u32,
    count: u64,
    grants: Vec<TimedGrant>,
}

impl WrappingRefusals {
    /// Creates a limit of `limit` in a window, counted in `bits` bits.
    pub fn new(limit: u64, bits: u32) -> Self {
        Self {
            limit,
            bits,
            count: 0,
            grants: Vec::new(),
        }
    }
}

impl Machine for WrappingRefusals {
    fn threads(&self) -> usize {
        1
    }

    fn step(&mut self, _thread: usize) -> Option<String> {
        let before = self.count;
        // The mistake: before it is known whether the call is admitted.
        self.count = (before + 1) % (1 << self.bits);
        let verdict = if before < self.limit {
            self.grants.push(TimedGrant::new(0, 1));
            "admits"
        } else {
            "refuses"
        };
        Some(format!(
            "adds 1 to the count, {} now, {verdict}",
            self.count
        ))
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
