//! Refused calls are counted too, until the counter wraps.
//!
//! Every call adds 1, whether it is admitted or not. After enough refusals within one window, 2³²
//! less the limit for a usual counter, it is back at 0 and admits a second helping. An attacker who
//! is refused has only to go on.
//!
//! The counter here has two bits, so that the history can be read. Every schedule is tried by
//! [`interleave`](crate::interleave), though it takes only one thread. Instead:
//! [`flowgate::FixedWindow`], where a refusal writes nothing.

use crate::interleave::Machine;
use crate::promise::Grant;

/// One thread and a counter of so many bits; no time passes.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::specimens::wrapping_refusals::WrappingRefusals;
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
    grants: Vec<Grant>,
}

impl WrappingRefusals {
    /// `limit` in a window.
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
            self.grants.push(Grant::new(0, 1));
            "admits"
        } else {
            "refuses"
        };
        Some(format!(
            "adds 1 to the count, {} now, {verdict}",
            self.count
        ))
    }

    fn grants(&self) -> &[Grant] {
        &self.grants
    }
}
