//! The exact token bucket in its textbook form.
//!
//! The state is a level and its time. Tokens flow in between, and an overflow is lost. Integers of sufficient
//! resolution make it exact. flowgate stores one arrival time instead. The two share no formula for a decision, so one
//! can check the other.
//!
//! ```text
//!   level, in grains
//!   full ┤       ╭────────╮            1 unit = price grains
//!        │     ╱          │ −n·price   accrual grains flow in per ns
//!        │   ╱            ╰╮
//!      0 ┼─╱────────────────┼──▶ time
//!        │  accrual per ns   ╲ a reservation or an overdraft goes below zero
//! ```
//!
//! What a cancelled reservation returns is defined in `giving_back`.

mod dual;
mod giving_back;

pub use dual::DualOracle;

use core::time::Duration;

use flowgate::{Carry, Quota, Refill};
use num_rational::BigRational;

use self::giving_back::{GivenBack, Held};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Retry, Setup, Step};

/// No grain lies later than this many grains after the clock's origin; a larger debt is cut.
const END_OF_TIME: i128 = (1 << 96) + (1 << 94);

/// Maximum number of grains of a bucket or a debt that can be represented exactly.
const MOST_GRAINS: i128 = 1 << 93;

/// The exact token bucket.
///
/// Pass it the same [`Step`]s as the limiter under test, and compare the answers.
///
/// For a `now` before the level's time, the oracle runs the same line backward: a stale caller sees less, and adds no
/// credit. Before a change of quota, the line has the old rate. Before the previous change, the level counts as zero.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::oracle::Oracle;
/// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
///
/// let mut oracle = Oracle::new(&Setup::new(Quota::per_second(10).burst(2)));
/// let take_two = |at_ns| Step { at_ns, op: Op::Try { n: 2 } };
/// assert_eq!(oracle.step(&take_two(0)), OperationOutcome::Admitted);
/// assert_ne!(oracle.step(&take_two(199_999_999)), OperationOutcome::Admitted);
/// assert_eq!(oracle.step(&take_two(200_000_000)), OperationOutcome::Admitted);
/// ```
#[derive(Clone, Debug)]
pub struct Oracle {
    quota: Quota,
    rate: Rate,
    refill: Refill,
    /// A period of an interval refill ends here.
    anchor_ns: u64,
    /// Whether changes keep the end of the periods.
    is_aligned: bool,
    /// Start of the first period of an interval refill. It may lie before the clock's origin.
    begun_ns: i128,
    /// Grains; negative while there is debt.
    level: i128,
    /// Time of `level`, in nanoseconds.
    since_ns: i128,
    /// Configured maximum debt, in units.
    max_debt: Option<u64>,
    /// The latest time that a caller has supplied; see [`newest_decided_ns`](Self::newest_decided_ns).
    newest_ns: u64,
    /// The interval before the last change of quota.
    past: Option<Past>,
    held: Vec<Held>,
    given_back: GivenBack,
}

/// State before the last change of quota.
#[derive(Clone, Debug)]
struct Past {
    /// Time of the change.
    until_ns: u64,
    /// Time of the previous change; earlier times are unknown.
    since_ns: u64,
    flow: Flow,
    /// When tokens flowed in last: at the change, or when the bucket was full before it; in grains of that rate.
    filled: i128,
}

impl Oracle {
    /// Creates a bucket by `setup`.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::oracle::Oracle;
    /// use flowgate_testkit::script::Setup;
    ///
    /// let setup = Setup { initial_tokens: Some(3), ..Setup::new(Quota::per_second(10)) };
    /// assert_eq!(Oracle::new(&setup).available(0), 3);
    /// ```
    pub fn new(setup: &Setup) -> Self {
        let rate = Rate::of(setup.quota);
        let level = setup
            .initial_tokens
            .map_or(rate.full, |units| rate.cost(units));
        let mut oracle = Self {
            quota: setup.quota,
            rate,
            refill: setup.refill,
            anchor_ns: setup.aligned_ns.unwrap_or(setup.built_ns),
            is_aligned: setup.aligned_ns.is_some(),
            begun_ns: 0,
            level,
            since_ns: 0,
            max_debt: setup.max_debt,
            newest_ns: 0,
            past: None,
            held: Vec::new(),
            given_back: GivenBack::default(),
        };
        if oracle.is_aligned {
            oracle.begun_ns = oracle.flow().ended(setup.built_ns);
        }
        // What is full is full at any time.
        oracle.since_ns = match level == rate.full {
            true => oracle.begun_ns.min(0),
            false => oracle.limiter_time(setup.built_ns),
        };
        oracle
    }

    /// Returns the current rate in the oracle's own units.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::oracle::Oracle;
    /// use flowgate_testkit::script::Setup;
    ///
    /// let oracle = Oracle::new(&Setup::new(Quota::per_second(10).burst(2)));
    /// assert_eq!(oracle.rate().burst_units, 2);
    /// ```
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Returns the number of reservations that were made and not cancelled.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::oracle::Oracle;
    /// use flowgate_testkit::script::{Op, Setup, Step};
    ///
    /// let mut oracle = Oracle::new(&Setup::new(Quota::per_second(10).burst(2)));
    /// let mut act = |op| oracle.step(&Step { at_ns: 0, op });
    /// act(Op::Reserve { n: 1, within_ns: None });
    /// act(Op::Reserve { n: 2, within_ns: None });
    /// act(Op::Cancel { pick: 0 });
    /// assert_eq!(oracle.held(), 1);
    /// ```
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the available units at `at_ns`.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::oracle::Oracle;
    /// use flowgate_testkit::script::{Op, Setup, Step};
    ///
    /// let mut oracle = Oracle::new(&Setup::new(Quota::per_second(10).burst(2)));
    /// oracle.step(&Step { at_ns: 0, op: Op::Try { n: 2 } });
    /// assert_eq!([0, 99_999_999, 100_000_000].map(|at_ns| oracle.available(at_ns)), [0, 0, 1]);
    /// ```
    pub fn available(&self, at_ns: u64) -> u64 {
        self.units_at(self.seen_at(at_ns))
    }

    /// Performs `step`, and returns the correct answer.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::oracle::Oracle;
    /// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
    ///
    /// let mut oracle = Oracle::new(&Setup::new(Quota::per_second(10).burst(2)));
    /// let mut act = |op| oracle.step(&Step { at_ns: 0, op });
    /// assert_eq!(act(Op::TakeUpTo { n: 5 }), OperationOutcome::Took(2));
    /// assert_eq!(act(Op::Reserve { n: 1, within_ns: None }), OperationOutcome::Promised { at_ns: 100_000_000 });
    /// assert_eq!(act(Op::Cancel { pick: 0 }), OperationOutcome::Back(1));
    /// ```
    pub fn step(&mut self, step: &Step) -> OperationOutcome {
        if matches!(step.op, Op::Cancel { .. }) && self.held.is_empty() {
            return OperationOutcome::Skipped;
        }
        let at_ns = step.at_ns;
        let most_overdrawn = self.rate.burst_units.saturating_add(self.debt_units());
        let decides = match step.op {
            Op::Available | Op::Overdraw { n: 0 } => false,
            Op::Try { n } | Op::Reserve { n, .. } => n <= self.rate.burst_units,
            Op::Overdraw { n } => n <= most_overdrawn,
            _ => true,
        };
        if decides {
            self.newest_ns = self.newest_ns.max(at_ns);
        }
        let now = self.seen_at(at_ns);
        match step.op {
            Op::Try { n } => self.try_acquire(at_ns, now, n),
            Op::TakeUpTo { n } => {
                let n = n.min(self.units_at(now));
                self.take(now, n);
                OperationOutcome::Took(n)
            }
            Op::Overdraw { n } => self.overdraw(at_ns, now, n),
            Op::Reserve { n, within_ns } => self.reserve(at_ns, now, n, within_ns),
            Op::Cancel { pick } => self.cancel(at_ns, pick),
            Op::Refund { n } => self.refund(at_ns, n),
            Op::Available => OperationOutcome::Holds(self.units_at(now)),
            Op::SetQuota { quota, carry } => {
                self.change(at_ns, quota, self.refill, carry);
                OperationOutcome::Changed
            }
            Op::SetRefill { refill } => {
                self.change(at_ns, self.quota, refill, Carry::Kept);
                OperationOutcome::Changed
            }
            // The model has no queue.
            Op::Wait { .. } | Op::GiveUp { .. } | Op::HandOver { .. } => OperationOutcome::Skipped,
        }
    }

    /// Returns the time by which tokens have flowed in: all of it, or up to the last end of a period, but not before
    /// the first period.
    fn limiter_time(&self, at_ns: u64) -> i128 {
        self.flow().limiter_time(at_ns)
    }

    /// Returns how tokens flow in.
    fn flow(&self) -> Flow {
        Flow {
            refill: self.refill,
            rate: self.rate,
            anchor_ns: self.anchor_ns,
            begun_ns: self.begun_ns,
        }
    }

    /// Returns the time of a caller at `at_ns`. Before the last change, that is the change, minus what flowed in
    /// between.
    fn seen_at(&self, at_ns: u64) -> Seen {
        let since_ns = self.past.as_ref().map_or(0, |past| past.until_ns);
        Seen {
            time: self.limiter_time(at_ns.max(since_ns)),
            missing: self.missing_at(at_ns),
        }
    }

    /// Returns what flowed in from `at_ns` until the last change, if it is before that.
    fn missing_at(&self, at_ns: u64) -> i128 {
        let Some(past) = self.past.as_ref().filter(|past| at_ns < past.until_ns) else {
            return 0;
        };
        let known_ns = at_ns.max(past.since_ns);
        let time = past.flow.limiter_time(known_ns);
        let flowed = (past.filled - time * past.flow.rate.accrual).max(0);
        let missing = scaled_up(
            flowed,
            self.rate.scale_price(),
            past.flow.rate.scale_price(),
        );
        match at_ns < past.since_ns {
            true => missing.saturating_add(self.rate.full + self.rate.cost(self.debt_units())),
            false => missing,
        }
    }

    /// Returns the level at `time`. Before `since_ns` the line runs backward.
    fn level_at(&self, time: i128) -> i128 {
        (self.level + self.rate.accrual * (time - self.since_ns)).min(self.rate.full)
    }

    fn level_seen(&self, now: Seen) -> i128 {
        self.level_at(now.time).saturating_sub(now.missing)
    }

    fn units_at(&self, now: Seen) -> u64 {
        u64::try_from(self.level_seen(now).max(0) / self.rate.price).unwrap_or(u64::MAX)
    }

    fn take(&mut self, now: Seen, n: u64) {
        if n == 0 {
            return;
        }
        // What flows over is lost. An earlier `now` leaves the line where it is, unless the
        // bucket is full even there.
        let level = self.level_at(now.time);
        if now.time > self.since_ns || level == self.rate.full {
            self.level = level;
            self.since_ns = now.time;
        }
        self.level -= self.rate.cost(n);
    }

    /// Returns the shortest wait from `at_ns` until the level is `wanted` grains, without other callers.
    fn wait_until(&self, at_ns: u64, now: Seen, wanted: i128) -> i128 {
        if self.level_seen(now) >= wanted {
            return 0;
        }
        let missing = wanted - self.level_at(now.time);
        if missing <= 0 {
            // Before the last change: the level only rises until then.
            let (mut early_ns, mut late_ns) = (
                at_ns,
                self.past.as_ref().map_or(at_ns, |past| past.until_ns),
            );
            while early_ns + 1 < late_ns {
                let ns = early_ns + (late_ns - early_ns) / 2;
                match self.level_seen(self.seen_at(ns)) >= wanted {
                    true => late_ns = ns,
                    false => early_ns = ns,
                }
            }
            return i128::from(late_ns - at_ns);
        }
        let mut due = now.time + self.rate.wait_ns(missing);
        let anchor = i128::from(self.anchor_ns);
        if self.refill == Refill::Interval && due > self.begun_ns.min(0) {
            let ends = due + (anchor - due).rem_euclid(i128::from(self.rate.period_ns));
            due = if due <= self.begun_ns {
                ends.min(self.begun_ns)
            } else {
                ends
            };
        }
        due - i128::from(at_ns)
    }

    fn refused(&self, at_ns: u64, now: Seen, wanted: i128) -> OperationOutcome {
        OperationOutcome::Refused(Retry::After(duration(self.wait_until(at_ns, now, wanted))))
    }

    fn try_acquire(&mut self, at_ns: u64, now: Seen, n: u64) -> OperationOutcome {
        if n == 0 {
            return OperationOutcome::Admitted;
        }
        if n > self.rate.burst_units {
            return OperationOutcome::Refused(Retry::Never);
        }
        let cost = self.rate.cost(n);
        if self.level_seen(now) < cost {
            return self.refused(at_ns, now, cost);
        }
        self.take(now, n);
        OperationOutcome::Admitted
    }

    /// Returns the maximum debt in units: the configured one, or the burst, but at most what can be represented.
    fn debt_units(&self) -> u64 {
        let most = u64::try_from((MOST_GRAINS - 1) / self.rate.price).unwrap_or(u64::MAX);
        self.max_debt.unwrap_or(self.rate.burst_units).min(most)
    }

    fn overdraw(&mut self, at_ns: u64, now: Seen, n: u64) -> OperationOutcome {
        if n == 0 {
            return OperationOutcome::Admitted;
        }
        if n > self.rate.burst_units.saturating_add(self.debt_units()) {
            return OperationOutcome::Refused(Retry::Never);
        }
        // Out of debt before, and not too deep in it after.
        let wanted = (self.rate.cost(n) - self.rate.cost(self.debt_units())).max(0);
        if self.level_seen(now) < wanted {
            return self.refused(at_ns, now, wanted);
        }
        self.take(now, n);
        OperationOutcome::Admitted
    }

    fn reserve(
        &mut self,
        at_ns: u64,
        now: Seen,
        n: u64,
        within_ns: Option<u64>,
    ) -> OperationOutcome {
        if n > self.rate.burst_units {
            return OperationOutcome::Refused(Retry::Never);
        }
        let wait = if n == 0 {
            0
        } else {
            self.wait_until(at_ns, now, self.rate.cost(n))
        };
        let Ok(told_ns) = u64::try_from(i128::from(at_ns) + wait) else {
            return OperationOutcome::Refused(Retry::Never);
        };
        if let Some(most) = within_ns.map(i128::from).filter(|&most| wait > most) {
            return OperationOutcome::Refused(Retry::After(duration(wait - most)));
        }
        self.take(now, n);
        let before_ns = self.given_back.last_told_ns;
        if wait > 0 {
            self.given_back.note_told(n, told_ns);
        }
        let last_told = (wait > 0 && before_ns < told_ns).then_some((told_ns, before_ns));
        self.held.push(
            self.given_back
                .hold(n, self.rate.scale, self.full_at(), last_told),
        );
        OperationOutcome::Promised { at_ns: told_ns }
    }

    /// Returns when the bucket is full again without other callers, in grains since the clock's origin.
    fn full_at(&self) -> i128 {
        self.since_ns * self.rate.accrual + self.rate.full - self.level
    }

    /// Returns the latest time of a decision whose tokens have not flowed in again by then. Nothing is returned, and no
    /// change of quota is applied, before that time.
    fn newest_decided_ns(&self, at_ns: u64) -> u64 {
        let full_ns = -(-self.full_at()).div_euclid(self.rate.accrual);
        let decided_ns = match self.refill {
            Refill::Interval => u64::MAX,
            _ => u64::try_from(full_ns.max(0)).unwrap_or(u64::MAX),
        };
        let since_ns = self.past.as_ref().map_or(0, |past| past.until_ns);
        self.newest_ns.min(decided_ns).max(at_ns).max(since_ns)
    }

    /// Applies the old rate until now, then continues with the new one.
    fn change(&mut self, at_ns: u64, quota: Quota, refill: Refill, carry: Carry) {
        let old = self.rate;
        let new = Rate::of(quota);
        let at_ns = self.newest_decided_ns(at_ns);
        let level = self.level_at(self.limiter_time(at_ns));
        let full_at = self.full_at();
        self.past = Some(Past {
            until_ns: at_ns,
            since_ns: self.past.as_ref().map_or(0, |past| past.until_ns),
            flow: self.flow(),
            filled: full_at.min(self.limiter_time(at_ns) * old.accrual),
        });

        if refill != self.refill || new.period_ns != old.period_ns {
            // At the clock's last instant, a nanosecond before.
            self.begun_ns = i128::from(at_ns.min(u64::MAX - 1));
            if !self.is_aligned {
                self.anchor_ns = at_ns;
            }
        }
        (self.quota, self.rate, self.refill) = (quota, new, refill);
        let now = self.limiter_time(at_ns);
        let token = (new.scale_price(), old.scale_price());
        // What is added, whatever the level is.
        let gift = match carry {
            Carry::Reset => new.full,
            Carry::Additive => (new.full - scaled_up(old.full, token.0, token.1)).max(0),
            _ => 0,
        };
        // Toward refusing, by less than one grain of the new rate.
        let level = match carry {
            Carry::Proportional if level > 0 => scaled_down(level, new.full, old.full),
            _ => scaled_down(level, token.0, token.1),
        };
        self.level = (level + gift)
            .min(new.full)
            .max((now - self.begun_ns.min(0)) * new.accrual + new.full - END_OF_TIME);
        // Nobody comes before who was told a time: until then there is nothing, and then what is added.
        let last_told_ns = self.given_back.last_told_ns;
        if at_ns < last_told_ns {
            let until = i128::from(last_told_ns) - now;
            self.level = self.level.min(gift - new.accrual * until);
        }
        self.since_ns = now;
        let is_comparable = matches!(carry, Carry::Kept | Carry::Additive);
        self.given_back
            .note_change(at_ns, (old, full_at), (new, self.full_at()), is_comparable);
        if carry == Carry::Additive && at_ns < last_told_ns {
            self.given_back.leave_hole(at_ns, gift);
        }
    }
}

/// A caller's time, as seen by the level.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Limiter time.
    time: i128,
    /// In grains; what flowed in only later.
    missing: i128,
}

/// How tokens flow in.
#[derive(Clone, Copy, Debug)]
struct Flow {
    refill: Refill,
    rate: Rate,
    anchor_ns: u64,
    begun_ns: i128,
}

impl Flow {
    /// Returns the last end of a period; one is at the anchor.
    fn ended(&self, at_ns: u64) -> i128 {
        let since = i128::from(at_ns) - i128::from(self.anchor_ns);
        i128::from(at_ns) - since.rem_euclid(i128::from(self.rate.period_ns))
    }

    fn limiter_time(&self, at_ns: u64) -> i128 {
        let at = i128::from(at_ns);
        if self.refill != Refill::Interval {
            at
        } else if at < self.begun_ns {
            self.ended(at_ns).max(0)
        } else {
            self.ended(at_ns).max(self.begun_ns)
        }
    }
}

/// Returns `grains` · `by` / `per`, rounded down.
fn scaled_down(grains: i128, by: i128, per: i128) -> i128 {
    let exact = BigRational::from_integer(grains.into()) * BigRational::new(by.into(), per.into());
    // More than any bucket or debt holds, where it does not fit.
    let beyond = i128::MAX / 4 * grains.signum();
    i128::try_from(exact.floor().to_integer()).unwrap_or(beyond)
}

/// Returns `grains` · `by` / `per`, rounded up.
fn scaled_up(grains: i128, by: i128, per: i128) -> i128 {
    -scaled_down(-grains, by, per)
}

fn duration(ns: i128) -> Duration {
    const SECOND: i128 = 1_000_000_000;
    let seconds = u64::try_from(ns / SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, u32::try_from(ns % SECOND).unwrap_or(0))
}
