//! Returns all of a cancelled reservation, although later ones exist.
//!
//! Later reservations keep their times. If the cancelled one is returned in full, a new caller uses it at the very time
//! of a later reservation: together more than the burst. Returning nothing is just as common, and starves callers.
//! Returning the amount minus everything reserved since violates the bound too, when several reservations are cancelled
//! one after another.
//!
//! Detected by: C5 (sound refunds). Use instead: [`flowgate::Reservation::cancel`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that returns too much when a reservation is cancelled.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::blind_cancel::BlindCancel;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = BlindCancel::new(Quota::per_second(1).burst(2));
/// let mut at_second = |second: u64, op| bucket.step(&Step { at_ns: second * 1_000_000_000, op });
/// let reserve = Op::Reserve { n: 2, within_ns: None };
/// at_second(0, reserve);
/// assert_eq!(at_second(0, reserve), OperationOutcome::Promised { at_ns: 2_000_000_000 });
/// assert_eq!(at_second(0, Op::Cancel { pick: 0 }), OperationOutcome::Back(2));
/// // At the time of the other reservation, a new caller gets two as well: four in one burst of two.
/// assert_eq!(at_second(2, Op::Try { n: 2 }), OperationOutcome::Admitted);
/// ```
#[derive(Clone, Debug)]
pub struct BlindCancel {
    rate: Rate,
    /// The arrival time, in grains.
    full_at: i128,
    held: Vec<u64>,
}

impl BlindCancel {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            full_at: 0,
            held: Vec::new(),
        }
    }
}

impl Subject for BlindCancel {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reserve: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = i128::from(step.at_ns) * self.rate.accrual;
        match step.op {
            Op::Try { n } if n <= self.rate.burst_units => {
                let next = self.full_at.max(now) + self.rate.cost(n);
                let enough = n == 0 || next <= now + self.rate.full;
                if enough && n > 0 {
                    self.full_at = next;
                }
                verdict(enough)
            }
            Op::Reserve { n, within_ns } if n <= self.rate.burst_units => {
                let next = self.full_at.max(now) + self.rate.cost(n);
                let wait_ns = self.rate.wait_ns(next - self.rate.full - now);
                let Ok(at_ns) = u64::try_from(i128::from(step.at_ns) + wait_ns) else {
                    return verdict(false);
                };
                if within_ns.is_some_and(|within_ns| wait_ns > i128::from(within_ns)) {
                    return verdict(false);
                }
                self.full_at = next;
                self.held.push(n);
                OperationOutcome::Promised { at_ns }
            }
            Op::Cancel { pick } if !self.held.is_empty() => {
                let n = self.held.remove(pick % self.held.len());
                // The mistake: others were told a time that counts on this.
                self.full_at -= self.rate.cost(n).min(self.full_at - now).max(0);
                OperationOutcome::Back(n)
            }
            Op::Try { .. } | Op::Reserve { .. } => verdict(false),
            _ => OperationOutcome::Skipped,
        }
    }
}
