//! Bounds (C1, never over-admits): how many units may be admitted in every interval.
//!
//! This module knows no algorithm. It counts in a finished list of grants.

mod changing;
mod decaying;
pub(crate) mod in_flight;
mod next_pays;
mod pay_after;
mod windows;

use core::fmt;

use changing::{Decided, Era};
use flowgate::{Carry, Quota};

use crate::allowance::Allowance;
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, PrintedTime, Setup, Step};

/// Units granted at a time.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::{TimedGrant, Promise};
///
/// // Three per microsecond, one at a time: each exact time is a third of a nanosecond before the rounded one.
/// let promise = Promise::bucket(Quota::per_second(3_000_000).burst(1));
/// let told = |at_ns| TimedGrant { rounded: true, ..TimedGrant::new(at_ns, 1) };
/// assert!(promise.check(&[told(334), told(667), told(1000)]).is_ok());
/// assert!(promise.check(&[TimedGrant::new(334, 1), TimedGrant::new(667, 1)]).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedGrant {
    /// Time of the grant, in nanoseconds.
    pub at_ns: u64,
    /// Number of units.
    pub n: u64,
    /// Whether the time was rounded up to a whole nanosecond.
    ///
    /// The grant then counts less than a nanosecond earlier, because rates would drift otherwise.
    pub rounded: bool,
}

impl TimedGrant {
    /// Creates a grant of `n` units at exactly `at_ns`.
    pub fn new(at_ns: u64, n: u64) -> Self {
        Self {
            at_ns,
            n,
            rounded: false,
        }
    }
}

/// Kind of bound of a limiter, for any quota.
///
/// For windows, the quota's count (in units) is the *limit*, and its period the length. Windows are half-open, \[t, t +
/// length).
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::{Anchor, TimedGrant, Kind, Promise};
///
/// // Two at the end of a second, and two at the start of the next one.
/// let second = 1_000_000_000;
/// let grants = [TimedGrant::new(second - 1, 2), TimedGrant::new(second, 2)];
/// let is_kept = |kind| Promise::new(kind, Quota::per_second(2)).check(&grants).is_ok();
/// assert!(is_kept(Kind::Window(Anchor::Aligned(0))));
/// assert!(!is_kept(Kind::Sliding));
/// assert!(!is_kept(Kind::Approximate)); // three, that would allow
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At most burst + rate × *t* in every interval of length *t*: token and leaky buckets.
    Bucket,
    /// At most the limit in each of a chain of windows: fixed windows.
    Window(Anchor),
    /// At most the limit in *every* window.
    Sliding,
    /// Like `Sliding`, but a unit may take up to one segment longer to return.
    Segmented {
        /// Number of segments of a window.
        segments: u64,
    },
    /// At most 2 × limit − 1 in every window: interpolated windows.
    Approximate,
    /// The cost of a grant flows in, at the rate or more slowly, before the next grant.
    NextPays,
    /// A level never exceeds the limit. It halves in each period, and each unit raises it by one.
    Decaying,
    /// At most burst + the largest request + rate × *t*: a bucket with debt.
    PayAfter,
    /// At most the limit in flight: a grant is held until it is released. The quota's period is ignored.
    InFlight,
}

/// Start of the windows of a [`Kind::Window`].
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::{Anchor, TimedGrant, Kind, Promise};
///
/// let grants = [TimedGrant::new(999_999_999, 2), TimedGrant::new(1_000_000_000, 2)];
/// let is_kept = |anchor| {
///     let promise = Promise::new(Kind::Window(anchor), Quota::per_second(2));
///     promise.check(&grants).is_ok()
/// };
/// assert!(is_kept(Anchor::Aligned(0)));
/// assert!(!is_kept(Anchor::FirstGrant)); // its window lasts for another second
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// With the first grant after the previous window has ended.
    FirstGrant,
    /// At this time, in nanoseconds, and any whole number of windows before or after it.
    Aligned(u64),
}

impl Kind {
    /// Returns whether its quota may have a burst.
    ///
    /// ```
    /// # use flowgate_testkit::promise::Kind;
    /// assert!(Kind::Bucket.has_burst());
    /// assert!(!Kind::Sliding.has_burst()); // the quota's count is all that there is at once
    /// ```
    pub fn has_burst(self) -> bool {
        matches!(self, Self::Bucket | Self::PayAfter)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket => write!(f, "a bucket"),
            Self::Window(Anchor::FirstGrant) => {
                write!(f, "windows, each from its first grant on")
            }
            Self::Window(Anchor::Aligned(ns)) => {
                write!(f, "windows aligned to {}", PrintedTime(*ns))
            }
            Self::Sliding => write!(f, "every window"),
            Self::Segmented { segments } => write!(f, "every window, in {segments} segments"),
            Self::Approximate => write!(f, "every window, approximately"),
            Self::NextPays => write!(f, "the next one pays"),
            Self::Decaying => write!(f, "a level that halves"),
            Self::PayAfter => write!(f, "a bucket whose next caller pays"),
            Self::InFlight => write!(f, "in flight"),
        }
    }
}

/// Bound on the grants of a limiter.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::{TimedGrant, Kind, Promise};
///
/// let two_per_second = Promise::new(Kind::Sliding, Quota::per_second(2));
/// let at_ms = |ms: u64| TimedGrant::new(ms * 1_000_000, 1);
/// assert!(two_per_second.check(&[at_ms(0), at_ms(900), at_ms(1000)]).is_ok());
/// let broken = two_per_second.check(&[at_ms(0), at_ms(900), at_ms(950)]).unwrap_err();
/// assert_eq!((broken.admitted, broken.allowed), (3, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The kind of bound.
    pub kind: Kind,
    /// The numbers of the bound.
    pub quota: Quota,
    /// Additional units that a bucket may admit: the largest overdraft.
    pub overdrawn: u64,
}

/// Interval in which more was admitted than the bound allows.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::{Broken, TimedGrant, Promise};
///
/// let promise = Promise::bucket(Quota::per_second(1).burst(3));
/// let grants = [TimedGrant::new(0, 3), TimedGrant::new(1_500_000_000, 2)];
/// let broken: Broken = promise.check(&grants).unwrap_err();
/// assert_eq!(broken.to_string(), "from 0s to 1.5s 5 were admitted, 4 allowed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Time of the first grant in the interval, in nanoseconds.
    pub from_ns: u64,
    /// Time of the last grant in the interval, in nanoseconds.
    pub to_ns: u64,
    /// Units admitted in the interval.
    pub admitted: u128,
    /// Units allowed in the interval, rounded down.
    pub allowed: u128,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from_ns,
            to_ns,
            admitted,
            allowed,
        } = self;
        let from = PrintedTime(*from_ns);
        match to_ns - from_ns {
            0 => write!(f, "at {from}")?,
            _ => write!(f, "from {from} to {}", PrintedTime(*to_ns))?,
        }
        write!(f, " {admitted} were admitted, {allowed} allowed")
    }
}

impl Promise {
    /// Creates a bound of this kind.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::promise::{TimedGrant, Kind, Promise};
    ///
    /// let promise = Promise::new(Kind::Approximate, Quota::per_second(5));
    /// assert!(promise.check(&[TimedGrant::new(0, 9)]).is_ok()); // 2 · 5 - 1
    /// assert!(promise.check(&[TimedGrant::new(0, 10)]).is_err());
    /// ```
    pub fn new(kind: Kind, quota: Quota) -> Self {
        Self {
            kind,
            quota,
            overdrawn: 0,
        }
    }

    /// Creates the bound of a token bucket.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::promise::{Kind, Promise};
    ///
    /// let quota = Quota::per_second(1).burst(3);
    /// assert_eq!(Promise::bucket(quota), Promise::new(Kind::Bucket, quota));
    /// ```
    pub fn bucket(quota: Quota) -> Self {
        Self::new(Kind::Bucket, quota)
    }

    /// Checks every interval, in O(n log n).
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::promise::{TimedGrant, Promise};
    ///
    /// let promise = Promise::bucket(Quota::per_second(1).burst(3));
    /// let at_second = |second: u64, n| TimedGrant::new(second * 1_000_000_000, n);
    /// assert!(promise.check(&[at_second(0, 3), at_second(1, 1), at_second(2, 1)]).is_ok());
    /// assert!(promise.check(&[at_second(0, 3), at_second(1, 2)]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an interval that exceeds the bound, the one with the largest excess if that is defined.
    pub fn check(&self, grants: &[TimedGrant]) -> Result<(), Broken> {
        let mut grants = grants.to_vec();
        grants.sort_by_key(|grant| (grant.at_ns, !grant.rounded));
        let rate = Rate::of(self.quota);
        let limit = rate.limit_units;
        match self.kind {
            Kind::Bucket => check_bucket(&rate, self.overdrawn, &grants),
            Kind::Window(anchor) => windows::chain(limit, rate.period_ns, anchor, &grants),
            Kind::Sliding | Kind::Segmented { .. } => {
                windows::every(limit, rate.period_ns, &grants)
            }
            Kind::Approximate => {
                let most = (2 * limit).saturating_sub(1);
                windows::every(most, rate.period_ns, &grants)
            }
            Kind::NextPays => next_pays::check(&rate, &grants),
            Kind::Decaying => decaying::check(limit, rate.period_ns, &grants),
            Kind::PayAfter => {
                let largest = grants.iter().map(|grant| grant.n).max().unwrap_or(0);
                check_bucket(&rate, largest, &grants)
            }
            // None of these is given back.
            Kind::InFlight => windows::every(limit, u64::MAX, &grants),
        }
    }

    /// Returns whether never refusing needlessly (C2) requires the last of `grants`.
    ///
    /// That is so if the bound holds with that grant. A type that may be stricter than its bound is judged by its
    /// documentation: one more segment, the previous window in full, or a millionth of the limit. `None` if its
    /// documentation does not decide.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::promise::{TimedGrant, Kind, Promise};
    ///
    /// let promise = Promise::new(Kind::Sliding, Quota::per_second(2));
    /// let second = 1_000_000_000;
    /// assert_eq!(promise.must_grant(&[TimedGrant::new(0, 2), TimedGrant::new(second, 1)]), Some(true));
    /// assert_eq!(promise.must_grant(&[TimedGrant::new(0, 2), TimedGrant::new(second - 1, 1)]), Some(false));
    /// // An interpolated window may still count what came a whole window before.
    /// let promise = Promise::new(Kind::Approximate, Quota::per_second(2));
    /// assert_eq!(promise.must_grant(&[TimedGrant::new(0, 2), TimedGrant::new(second, 1)]), Some(false));
    /// ```
    pub fn must_grant(&self, grants: &[TimedGrant]) -> Option<bool> {
        let rate = Rate::of(self.quota);
        let mut grants = grants.to_vec();
        let now_ns = grants.last()?.at_ns;
        let window_ns = match self.kind {
            Kind::Bucket | Kind::Window(_) | Kind::Sliding | Kind::InFlight => {
                return Some(self.check(&grants).is_ok());
            }
            Kind::PayAfter => {
                grants.sort_by_key(|grant| grant.at_ns);
                return Some(pay_after::must_grant(&rate, &grants));
            }
            Kind::Segmented { segments } => {
                let segments = segments.clamp(1, rate.period_ns);
                let segment_ns = rate.period_ns.div_ceil(segments);
                segment_ns.saturating_mul(segments.saturating_add(1))
            }
            Kind::Approximate => rate.period_ns.saturating_mul(2),
            Kind::Decaying => {
                grants.sort_by_key(|grant| grant.at_ns);
                let has_room = decaying::has_room(rate.limit_units, rate.period_ns, &grants);
                return Some(has_room);
            }
            Kind::NextPays => return None,
        };
        let counts = |grant: &&TimedGrant| now_ns.saturating_sub(grant.at_ns) < window_ns;
        let recent = grants.iter().filter(counts);
        Some(recent.map(|grant| u128::from(grant.n)).sum::<u128>() <= rate.limit_units)
    }
}

/// At most burst + `overdrawn` + rate × length in every interval.
fn check_bucket(rate: &Rate, overdrawn: u64, grants: &[TimedGrant]) -> Result<(), Broken> {
    Allowance::of(*rate).plus(overdrawn).check(grants)
}

/// Returns the grants of a history.
///
/// A reservation counts at its granted time, and not at all once it is cancelled. A refund is subtracted from the
/// newest grants whose time has come.
///
/// ```
/// use flowgate_testkit::promise::{TimedGrant, grants};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
///
/// let at = |at_ns, op, outcome| (Step { at_ns, op }, outcome);
/// let reserve = Op::Reserve { n: 1, within_ns: None };
/// let trace = [
///     at(10, Op::Try { n: 2 }, OperationOutcome::Admitted),
///     at(10, reserve, OperationOutcome::Promised { at_ns: 50 }),
///     at(20, Op::Cancel { pick: 0 }, OperationOutcome::Back(1)), // the reservation
///     at(30, Op::Refund { n: 1 }, OperationOutcome::Back(1)), // one of the two
/// ];
/// assert_eq!(grants(&trace), [TimedGrant::new(10, 1)]);
/// ```
pub fn grants(trace: &[(Step, OperationOutcome)]) -> Vec<TimedGrant> {
    let mut grants = Standing::after(trace).grants;
    grants.retain(|grant| grant.n > 0);
    grants
}

/// Returns how much can be refunded at `at_ns` after `trace`.
///
/// That is what had its time by then, and was not returned yet.
///
/// ```
/// use flowgate_testkit::promise::refundable;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
///
/// let trace = [
///     (Step { at_ns: 10, op: Op::Try { n: 2 } }, OperationOutcome::Admitted),
///     (Step { at_ns: 20, op: Op::Refund { n: 1 } }, OperationOutcome::Back(1)),
/// ];
/// assert_eq!([5, 30].map(|at_ns| refundable(&trace, at_ns)), [0, 1]);
/// ```
pub fn refundable(trace: &[(Step, OperationOutcome)], at_ns: u64) -> u64 {
    let grants = Standing::after(trace).grants;
    let used = grants.iter().filter(|grant| grant.at_ns <= at_ns);
    used.fold(0, |sum: u64, grant| sum.saturating_add(grant.n))
}

/// Returns whether every refund was covered by a grant, and nothing was returned twice.
///
/// ```
/// use flowgate_testkit::promise::refunds_are_honest;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
///
/// let took_one = (Step { at_ns: 10, op: Op::Try { n: 1 } }, OperationOutcome::Admitted);
/// let refund = |n| (Step { at_ns: 20, op: Op::Refund { n } }, OperationOutcome::Back(1));
/// assert!(refunds_are_honest(&[took_one, refund(1)]));
/// assert!(!refunds_are_honest(&[took_one, refund(2)])); // of one
/// ```
pub fn refunds_are_honest(trace: &[(Step, OperationOutcome)]) -> bool {
    Standing::after(trace).honest
}

/// All grants, with the remaining units of each.
struct Standing {
    grants: Vec<TimedGrant>,
    /// Number of changes of quota before each grant, and before the deciding limiter was built.
    changes: Vec<(usize, usize)>,
    honest: bool,
}

impl Standing {
    fn after(trace: &[(Step, OperationOutcome)]) -> Self {
        let mut grants: Vec<TimedGrant> = Vec::new();
        let (mut changes, mut changed, mut built) = (Vec::new(), 0, 0);
        let mut held: Vec<(usize, u64)> = Vec::new();
        let mut honest = true;
        for (step, outcome) in trace {
            let at_ns = step.at_ns;
            match (step.op, outcome) {
                (
                    Op::Try { n } | Op::Overdraw { n } | Op::Wait { n },
                    OperationOutcome::Admitted,
                ) => {
                    grants.push(TimedGrant::new(at_ns, n));
                }
                (Op::TakeUpTo { .. }, OperationOutcome::Took(n)) => {
                    grants.push(TimedGrant::new(at_ns, *n))
                }
                (Op::Reserve { n, .. }, OperationOutcome::Promised { at_ns: told_ns }) => {
                    held.push((grants.len(), n));
                    grants.push(TimedGrant {
                        at_ns: *told_ns,
                        n,
                        rounded: *told_ns > at_ns,
                    });
                }
                (Op::Cancel { pick }, OperationOutcome::Back(_)) if !held.is_empty() => {
                    let (index, n) = held.remove(pick % held.len());
                    honest &= grants[index].n == n;
                    grants[index].n = 0;
                }
                (Op::Refund { n: mut claimed }, OperationOutcome::Back(back)) => {
                    let mut back = *back;
                    for grant in grants.iter_mut().rev().filter(|grant| grant.at_ns <= at_ns) {
                        claimed -= claimed.min(grant.n);
                        let off = back.min(grant.n);
                        grant.n -= off;
                        back -= off;
                    }
                    honest &= claimed == 0;
                }
                (op, OperationOutcome::Changed | OperationOutcome::HandedOver)
                    if op.new_quota().is_some() =>
                {
                    changed += 1;
                }
                _ => {}
            }
            if *outcome == OperationOutcome::HandedOver {
                built = changed;
            }
            changes.resize(grants.len(), (changed, built));
        }
        Self {
            grants,
            changes,
            honest,
        }
    }
}

/// Checks a history, including changes of quota, by the limiter's own time.
///
/// A grant counts at the time of its request. A quota is current from the time of its change, or from the newest time
/// requested before, if that is later. The bound across changes depends on the kind:
///
/// - Buckets: in every interval, the largest current burst + ∫ rate. Each [`Carry::Reset`] adds one burst of the new
///   quota; each [`Carry::Additive`] or [`Carry::Proportional`] adds the growth of the burst.
/// - Sliding windows: the largest limit, in every interval of the shortest current window.
/// - Fixed windows from the first grant, and interpolated windows: 2 × limit − 1 in such an interval.
/// - Aligned windows: 2 × limit in such an interval, and the limit in each window.
/// - `NextPays`: a grant costs the rate at which it was taken.
/// - `Decaying`: by the current half-life, up to the larger limit.
///
/// If a limiter counts a stale time as a later one, pass a history with raised times. No reservation may lie after a
/// change, because its time does not move with the rate.
///
/// ```
/// use flowgate::{Carry, Quota};
/// use flowgate_testkit::promise::check_trace;
/// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
///
/// let setup = Setup::new(Quota::per_hour(1).burst(2));
/// let at_second = |second: u64, op| Step { at_ns: second * 1_000_000_000, op };
/// let faster = Op::SetQuota { quota: Quota::per_second(1).burst(2), carry: Carry::Kept };
/// let trace = |second| [
///     (at_second(0, Op::Try { n: 2 }), OperationOutcome::Admitted),
///     (at_second(60, faster), OperationOutcome::Changed),
///     (at_second(second, Op::Try { n: 1 }), OperationOutcome::Admitted),
/// ];
/// assert!(check_trace(&setup, &trace(60)).is_err()); // in that minute, at one an hour
/// assert!(check_trace(&setup, &trace(61)).is_ok());
/// ```
///
/// # Errors
///
/// Returns the interval with the violation.
pub fn check_trace(setup: &Setup, trace: &[(Step, OperationOutcome)]) -> Result<(), Broken> {
    if setup.kind == Kind::InFlight {
        return in_flight::check(setup, trace);
    }
    let overdrawn = trace
        .iter()
        .map(|(step, outcome)| match (step.op, outcome) {
            (Op::Overdraw { n }, OperationOutcome::Admitted) => n,
            _ => 0,
        });
    let overdrawn = overdrawn.max().unwrap_or(0);
    let eras = eras(setup, trace);
    // A wait that was given up unseen may have opened a window.
    let waits = trace
        .iter()
        .any(|(_, outcome)| *outcome == OperationOutcome::Waits);
    if eras.len() == 1 && !waits {
        return Promise {
            overdrawn,
            ..setup.promise()
        }
        .check(&grants(trace));
    }
    let Standing {
        grants, changes, ..
    } = Standing::after(trace);
    let decided = grants.into_iter().zip(changes);
    let mut decided: Vec<_> = decided
        .filter(|(grant, _)| grant.n > 0)
        .map(|(grant, (era, built))| Decided { grant, era, built })
        .collect();
    decided.sort_by_key(|decided| decided.grant.at_ns);
    changing::check(setup.kind, &eras, overdrawn, &decided)
}

/// Returns the quotas of a history, and when each became current.
fn eras(setup: &Setup, trace: &[(Step, OperationOutcome)]) -> Vec<Era> {
    let mut current = Era {
        since_ns: 0,
        rate: Rate::of(setup.quota),
        refill: setup.refill,
        ends_ns: setup.aligned_ns.unwrap_or(setup.built_ns),
        begun_ns: i128::MIN,
        added: 0,
    };
    let mut eras = vec![current];
    let mut newest_ns = 0;
    for (step, outcome) in trace {
        newest_ns = newest_ns.max(step.at_ns);
        let (rate, refill, carry) = match (step.op, outcome) {
            (Op::SetQuota { quota, carry }, OperationOutcome::Changed) => {
                (Rate::of(quota), current.refill, carry)
            }
            (Op::HandOver { quota: Some(quota) }, OperationOutcome::HandedOver) => {
                (Rate::of(quota), current.refill, Carry::Kept)
            }
            (Op::SetRefill { refill }, OperationOutcome::Changed) => {
                (current.rate, refill, Carry::Kept)
            }
            _ => continue,
        };
        if (rate.period_ns, refill) != (current.rate.period_ns, current.refill) {
            current.begun_ns = i128::from(newest_ns);
            if setup.aligned_ns.is_none() {
                current.ends_ns = newest_ns;
            }
        }
        current = Era {
            since_ns: newest_ns,
            rate,
            refill,
            added: match carry {
                Carry::Kept => 0,
                Carry::Reset => rate.burst_units,
                _ => rate.burst_units.saturating_sub(current.rate.burst_units),
            },
            ..current
        };
        eras.push(current);
    }
    eras
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ns: u64, n: u64) -> TimedGrant {
        TimedGrant::new(at_ns, n)
    }

    #[test]
    fn c1_one_too_many_is_found_and_named() {
        let promise = Promise::bucket(Quota::per_second(1_000_000_000).burst(3));
        assert_eq!(promise.check(&[at(0, 3), at(1, 1), at(10, 3)]), Ok(()));
        assert_eq!(
            promise.check(&[at(0, 1), at(10, 3), at(11, 2), at(30, 1)]),
            Err(Broken {
                from_ns: 10,
                to_ns: 11,
                admitted: 5,
                allowed: 4
            }),
        );
    }
}
