//! Two exact token buckets that decide together, in fractions.
//!
//! Each bucket is the textbook one: a level in units, and its time. An operation takes from both or from neither.
//! flowgate stores two arrival times in one word instead.

use core::time::Duration;

use flowgate::{Quota, Quotas};
use num_rational::BigRational;

use crate::script::{Op, OperationOutcome, Retry, Step};

/// The exact limiter of one or two quotas.
///
/// Pass it the same [`Step`]s as the limiter under test, and compare the answers. It tries, takes up to, reserves,
/// refunds and reports the available units. It skips the other operations.
///
/// ```
/// use flowgate_testkit::oracle::DualOracle;
/// use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
/// use std::time::Duration;
///
/// let mut oracle = DualOracle::new(&"10/s burst 2; 3/min".parse()?);
/// let mut act = |at_ns, op| oracle.step(&Step { at_ns, op });
/// assert_eq!(act(0, Op::Try { n: 2 }), OperationOutcome::Admitted);
/// // The first quota admits 2 after 200 ms, the second one after 20 s.
/// let refused = act(0, Op::Try { n: 2 });
/// assert_eq!(refused, OperationOutcome::Refused(Retry::After(Duration::from_secs(20))));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DualOracle {
    buckets: Vec<Bucket>,
    /// The latest time of a reservation; 0 for none.
    last_told_ns: u64,
}

#[derive(Clone, Debug)]
struct Bucket {
    /// Units per nanosecond. The denominator is the price of a unit, the numerator the ticks of a nanosecond.
    rate: BigRational,
    burst: BigRational,
    burst_units: u64,
    level: BigRational,
    /// Time of `level`.
    since: BigRational,
}

fn whole(value: impl Into<u128>) -> BigRational {
    BigRational::from_integer(value.into().into())
}

/// Returns `value` as a number of nanoseconds or units, if it is not negative and below 2⁶⁴.
fn number(value: &BigRational) -> Option<u64> {
    u64::try_from(value.to_integer()).ok()
}

impl Bucket {
    fn new(quota: &Quota) -> Self {
        let units = u128::from(quota.count()) * u128::from(quota.scale());
        let burst_units = quota.max_burst() * quota.scale();
        Self {
            rate: whole(units) / whole(quota.period().as_nanos()),
            burst: whole(burst_units),
            burst_units,
            level: whole(burst_units),
            since: whole(0_u32),
        }
    }

    /// Returns the level at `time`. Before the time of the level, the line runs backward.
    fn level_at(&self, time: &BigRational) -> BigRational {
        let level = &self.level + &self.rate * (time - &self.since);
        level.min(self.burst.clone())
    }

    fn take(&mut self, time: &BigRational, n: u64) {
        let level = self.level_at(time);
        if *time > self.since || level == self.burst {
            self.level = level;
            self.since = time.clone();
        }
        self.level -= whole(n);
    }

    /// Returns the first time, from `now` on, at which there are `n` units without other callers.
    fn time_of(&self, now: &BigRational, n: u64) -> BigRational {
        let missing = whole(n) - self.level_at(now);
        if missing <= whole(0_u32) {
            return now.clone();
        }
        now + missing / &self.rate
    }

    /// Returns `time`, rounded up to whole ticks; the rate's numerator is the number of ticks per nanosecond.
    fn tick_at(&self, time: &BigRational) -> BigRational {
        let ticks_per_ns = BigRational::from_integer(self.rate.numer().clone());
        (time * &ticks_per_ns).ceil() / ticks_per_ns
    }

    fn units_at(&self, now: &BigRational) -> u64 {
        number(&self.level_at(now).floor()).unwrap_or(0)
    }

    /// Returns how many units more there are after a refund of `n`.
    fn give_back(&mut self, now: &BigRational, n: u64) -> u64 {
        let before = self.units_at(now);
        let level = self.level_at(now);
        if level < self.burst {
            self.level = (level + whole(n)).min(self.burst.clone());
            self.since = now.clone();
        }
        self.units_at(now) - before
    }
}

impl DualOracle {
    /// Creates full buckets for these quotas.
    ///
    /// ```
    /// use flowgate_testkit::oracle::DualOracle;
    ///
    /// let oracle = DualOracle::new(&"10/s; 3/min".parse()?);
    /// assert_eq!(oracle.available(0), 3);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn new(quotas: &Quotas) -> Self {
        Self {
            buckets: quotas.as_slice().iter().map(Bucket::new).collect(),
            last_told_ns: 0,
        }
    }

    /// Performs `step`, and returns the correct answer.
    ///
    /// ```
    /// use flowgate_testkit::oracle::DualOracle;
    /// use flowgate_testkit::script::{Op, OperationOutcome, Step};
    ///
    /// let mut oracle = DualOracle::new(&"10/s burst 1; 3/min".parse()?);
    /// let mut reserve = |n| oracle.step(&Step { at_ns: 0, op: Op::Reserve { n, within_ns: None } });
    /// let at_ns = [1, 1, 1, 1].map(reserve);
    /// let told = [0, 100_000_000, 200_000_000, 20_000_000_000].map(|at_ns| OperationOutcome::Promised { at_ns });
    /// assert_eq!(at_ns, told);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn step(&mut self, step: &Step) -> OperationOutcome {
        let (at_ns, now) = (step.at_ns, whole(step.at_ns));
        match step.op {
            Op::Try { n } => self.try_acquire(&now, n),
            Op::TakeUpTo { n } => {
                let n = n.min(self.available(at_ns));
                self.take(&now, n);
                OperationOutcome::Took(n)
            }
            Op::Reserve { n, within_ns } => self.reserve(at_ns, &now, n, within_ns),
            Op::Refund { n } => OperationOutcome::Back(self.refund(at_ns, &now, n)),
            Op::Available => OperationOutcome::Holds(self.available(at_ns)),
            _ => OperationOutcome::Skipped,
        }
    }

    /// Returns the units that both buckets hold at `at_ns`.
    ///
    /// ```
    /// use flowgate_testkit::oracle::DualOracle;
    /// use flowgate_testkit::script::{Op, Step};
    ///
    /// let mut oracle = DualOracle::new(&"10/s burst 2; 3/min".parse()?);
    /// oracle.step(&Step { at_ns: 0, op: Op::Try { n: 2 } });
    /// assert_eq!([0, 99_999_999, 100_000_000].map(|at_ns| oracle.available(at_ns)), [0, 0, 1]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn available(&self, at_ns: u64) -> u64 {
        let units = self
            .buckets
            .iter()
            .map(|bucket| bucket.units_at(&whole(at_ns)));
        units.min().unwrap_or(0)
    }

    /// Returns the nanoseconds until both buckets are full without other callers, rounded up.
    ///
    /// ```
    /// use flowgate_testkit::oracle::DualOracle;
    /// use flowgate_testkit::script::{Op, Step};
    ///
    /// let mut oracle = DualOracle::new(&"10/s; 3/min".parse()?);
    /// oracle.step(&Step { at_ns: 0, op: Op::Try { n: 1 } });
    /// assert_eq!(oracle.full_after_ns(5_000_000_000), 15_000_000_000);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn full_after_ns(&self, at_ns: u64) -> u128 {
        let now = whole(at_ns);
        let full_at = |bucket: &Bucket| bucket.time_of(&now, bucket.burst_units);
        let last = self.buckets.iter().map(full_at).max();
        let wait = last.map_or(whole(0_u32), |last| last - &now);
        u128::try_from(wait.ceil().to_integer()).unwrap_or(u128::MAX)
    }

    fn most(&self) -> u64 {
        let bursts = self.buckets.iter().map(|bucket| bucket.burst_units);
        bursts.min().unwrap_or(0)
    }

    /// Returns the first time at which both have `n` units.
    fn time_of(&self, now: &BigRational, n: u64) -> BigRational {
        let times = self.buckets.iter().map(|bucket| bucket.time_of(now, n));
        times.max().unwrap_or_else(|| now.clone())
    }

    fn take(&mut self, now: &BigRational, n: u64) {
        if n > 0 {
            for bucket in &mut self.buckets {
                bucket.take(now, n);
            }
        }
    }

    fn try_acquire(&mut self, now: &BigRational, n: u64) -> OperationOutcome {
        if n > self.most() {
            return OperationOutcome::Refused(Retry::Never);
        }
        let wait = self.time_of(now, n) - now;
        if n > 0 && wait > whole(0_u32) {
            return OperationOutcome::Refused(Retry::After(duration(&wait)));
        }
        self.take(now, n);
        OperationOutcome::Admitted
    }

    fn reserve(
        &mut self,
        at_ns: u64,
        now: &BigRational,
        n: u64,
        within_ns: Option<u64>,
    ) -> OperationOutcome {
        if n > self.most() {
            return OperationOutcome::Refused(Retry::Never);
        }
        let time = match n {
            0 => now.clone(),
            _ => self.time_of(now, n),
        };
        let Some(told_ns) = number(&time.ceil()) else {
            return OperationOutcome::Refused(Retry::Never);
        };
        let wait_ns = told_ns - at_ns;
        if let Some(most_ns) = within_ns.filter(|&most_ns| wait_ns > most_ns) {
            return OperationOutcome::Refused(Retry::After(Duration::from_nanos(
                wait_ns - most_ns,
            )));
        }
        if n > 0 {
            for bucket in &mut self.buckets {
                // A bucket that was full by then is charged at its next tick.
                bucket.take(&bucket.tick_at(&time), n);
            }
        }
        if wait_ns > 0 {
            self.last_told_ns = self.last_told_ns.max(told_ns);
        }
        OperationOutcome::Promised { at_ns: told_ns }
    }

    /// Treats the newest `n` units as never taken; no effect while a caller may still wait for its time.
    fn refund(&mut self, at_ns: u64, now: &BigRational, n: u64) -> u64 {
        if self.last_told_ns > 0 && at_ns <= self.last_told_ns {
            return 0;
        }
        let back = self
            .buckets
            .iter_mut()
            .map(|bucket| bucket.give_back(now, n));
        back.max().unwrap_or(0)
    }
}

/// Rounds up to whole nanoseconds.
fn duration(wait: &BigRational) -> Duration {
    let ns = u128::try_from(wait.ceil().to_integer()).unwrap_or(u128::MAX);
    let secs = u64::try_from(ns / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(secs, (ns % 1_000_000_000) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;
    use crate::script::Setup;

    /// With one quota, or the same one twice, it equals the other oracle.
    #[test]
    fn one_quota_is_the_token_bucket() {
        let quota: Quota = "7/3s burst 5".parse().expect("a quota");
        let mut rng = fastrand::Rng::with_seed(7);
        for number in [1, 2] {
            let quotas = Quotas::new([quota].repeat(number)).expect("in range");
            let (mut dual, mut single) =
                (DualOracle::new(&quotas), Oracle::new(&Setup::new(quota)));
            let mut at_ns = 0;
            for _ in 0..1_000 {
                at_ns += rng.u64(0..1_000_000_000);
                let n = rng.u64(0..7);
                let op = match rng.u32(0..5) {
                    0 => Op::Reserve {
                        n,
                        within_ns: Some(1_000_000_000),
                    },
                    1 => Op::TakeUpTo { n },
                    2 => Op::Available,
                    _ => Op::Try { n },
                };
                let step = Step {
                    at_ns: at_ns.saturating_sub(rng.u64(0..500_000_000)),
                    op,
                };
                assert_eq!(dual.step(&step), single.step(&step), "{step:?}");
            }
        }
    }
}
