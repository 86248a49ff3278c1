//! One key of a table that other keys use as well: one builder per type. Each can export its table and continue with
//! the import.

use flowgate::{
    DualTokenBucket, FixedWindow, Keyed, KeyedAlgorithm, KeyedBuilder, ManualClock, Quota, Quotas,
    Timestamp,
};

use super::{Capabilities, Subject, answer};
use crate::promise::{Anchor, Kind};
use crate::script::{Op, OperationOutcome, Setup, Step};

type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);

/// The key under test. The others are smaller.
const KEY: u64 = 1_000;
/// Few enough that each keeps its entry: an evicted key may be refused needlessly.
const OTHERS: u64 = 20;
const CAPACITY: usize = 100;
/// Makes each run reproducible.
const SEED: [u64; 2] = [1, 2];

/// Builds a [`Keyed`] token bucket: a [`BuildSubject`](super::BuildSubject).
///
/// Builds nothing for a quota that it refuses, whose full bucket would take centuries to refill.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_token_bucket;
///
/// let judged = check_contract(Kind::Bucket, &keyed_token_bucket, Contract::C1, 20);
/// assert!(judged.is_ok());
/// ```
pub fn keyed_token_bucket(setup: &Setup, test: Test<'_>) {
    one_key(by_one(Keyed::token_bucket), setup, false, test);
}

/// Builds a [`Keyed`] leaky bucket with the quota's burst as its slack: a [`BuildSubject`](super::BuildSubject).
///
/// Builds nothing for a quota that it refuses, whose full bucket would take centuries to refill.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_leaky_bucket;
///
/// let judged = check_contract(Kind::Bucket, &keyed_leaky_bucket, Contract::C3, 20);
/// assert!(judged.is_ok());
/// ```
pub fn keyed_leaky_bucket(setup: &Setup, test: Test<'_>) {
    one_key(by_one(Keyed::leaky_bucket), setup, false, test);
}

/// Builds a [`Keyed`] fixed window, aligned if the setup's kind is: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::{Anchor, Kind};
/// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
/// use flowgate_testkit::subject::keyed_fixed_window;
///
/// let setup = Setup::of(Kind::Window(Anchor::FirstGrant), Quota::per_second(2));
/// keyed_fixed_window(&setup, &mut |key| {
///     let mut take_two = |at_ns| key.step(&Step { at_ns, op: Op::Try { n: 2 } });
///     assert_eq!(take_two(0), OperationOutcome::Admitted);
///     assert_ne!(take_two(999_999_999), OperationOutcome::Admitted);
///     assert_eq!(take_two(1_000_000_000), OperationOutcome::Admitted);
/// });
/// ```
pub fn keyed_fixed_window(setup: &Setup, test: Test<'_>) {
    one_key(by_window(setup.kind), setup, false, test);
}

/// Builds a [`Keyed`] segmented window of one segment: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::conformance;
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_segmented_window;
///
/// let kind = Kind::Segmented { segments: 1 };
/// let report = conformance::check(kind, &keyed_segmented_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn keyed_segmented_window(setup: &Setup, test: Test<'_>) {
    one_key(by_one(Keyed::segmented_window), setup, false, test);
}

/// Builds the [`Keyed`] limiter of the setup's kind on a manual clock: a [`BuildSubject`](super::BuildSubject).
///
/// The steps set the clock forward and back. A step at the end of time uses that explicit time, and does not set the
/// clock. The kinds are token bucket, fixed window and segmented window of one segment; it builds nothing for others.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_by_its_clock;
///
/// let judged = check_contract(Kind::Bucket, &keyed_by_its_clock, Contract::C1, 20);
/// assert!(judged.is_ok());
/// ```
pub fn keyed_by_its_clock(setup: &Setup, test: Test<'_>) {
    match setup.kind {
        Kind::Bucket => one_key(by_one(Keyed::token_bucket), setup, true, test),
        Kind::Window(_) => one_key(by_window(setup.kind), setup, true, test),
        Kind::Segmented { segments: 1 } => {
            one_key(by_one(Keyed::segmented_window), setup, true, test);
        }
        _ => {}
    }
}

/// Builds a [`Keyed`] dual token bucket with the same quota twice: a [`BuildSubject`](super::BuildSubject).
///
/// Builds nothing for a quota that it refuses. Its bound is that of a token bucket, but its rate is slightly lower. So
/// C2 (never refuses needlessly) and C8 (exact rates) do not hold to the nanosecond; C1, C3, C4 and C5 do.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_dual_token_bucket;
///
/// let judged = check_contract(Kind::Bucket, &keyed_dual_token_bucket, Contract::C1, 20);
/// assert!(judged.is_ok());
/// ```
pub fn keyed_dual_token_bucket(setup: &Setup, test: Test<'_>) {
    one_key(by_two(), setup, false, test);
}

/// Builds a [`Keyed`] dual token bucket with the same quota twice, on its own clock.
///
/// A [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_dual_token_bucket_by_its_clock;
///
/// let build = &keyed_dual_token_bucket_by_its_clock;
/// assert!(check_contract(Kind::Bucket, build, Contract::C1, 20).is_ok());
/// ```
pub fn keyed_dual_token_bucket_by_its_clock(setup: &Setup, test: Test<'_>) {
    one_key(by_two(), setup, true, test);
}

fn one_key<A: KeyedAlgorithm>(made: Made<A>, setup: &Setup, own_clock: bool, test: Test<'_>) {
    let time = ManualClock::new();
    let limits = (made.builder)(setup.quota).map(|builder| builder.clock(&time).seed(SEED));
    let Some(Ok(limits)) = limits.map(|builder| builder.capacity(CAPACITY)) else {
        return;
    };
    test(&mut OneKey {
        made,
        quota: setup.quota,
        limits,
        time,
        own_clock,
        steps: 0,
    });
}

/// How a table is built from a quota, and how the quota is replaced. Both may fail.
struct Made<A: KeyedAlgorithm> {
    builder: Box<dyn Fn(Quota) -> Option<KeyedBuilder<A>>>,
    replace: fn(&Keyed<A>, Quota) -> bool,
}

fn by_one<A: KeyedAlgorithm<Quota = Quota>>(builder: fn(Quota) -> KeyedBuilder<A>) -> Made<A> {
    Made {
        builder: Box::new(move |quota| Some(builder(quota))),
        replace: |limits, quota| limits.set_quota(quota).is_ok(),
    }
}

fn by_window(kind: Kind) -> Made<FixedWindow> {
    let builder = move |quota| match kind {
        Kind::Window(Anchor::Aligned(begins_ns)) => {
            let begins = Timestamp::from_nanos(begins_ns);
            Keyed::fixed_window(quota).align(begins)
        }
        _ => Keyed::fixed_window(quota),
    };
    Made {
        builder: Box::new(move |quota| Some(builder(quota))),
        replace: |limits, quota| limits.set_quota(quota).is_ok(),
    }
}

/// The same quota twice.
fn by_two() -> Made<DualTokenBucket> {
    let twice = |quota| Quotas::two(quota, quota).ok();
    Made {
        builder: Box::new(move |quota| twice(quota).map(Keyed::dual_token_bucket)),
        replace: move |limits, quota| {
            Quotas::two(quota, quota).is_ok_and(|quotas| limits.set_quotas(quotas).is_ok())
        },
    }
}

/// A key under test.
struct OneKey<A: KeyedAlgorithm> {
    made: Made<A>,
    quota: Quota,
    limits: Keyed<A>,
    /// The clock of changes of quota and handovers.
    time: ManualClock,
    /// Whether all other operations use that clock too, or explicit times.
    own_clock: bool,
    steps: u64,
}

/// Operations on a key, of the table or of its view at a time.
macro_rules! act {
    ($limits:expr, $op:expr) => {
        match $op {
            Op::Try { n } => answer($limits.try_acquire_n(&KEY, n)),
            Op::TakeUpTo { n } => OperationOutcome::Took($limits.take_up_to(&KEY, n)),
            Op::Refund { n } => OperationOutcome::Back($limits.refund(&KEY, n)),
            Op::Available => OperationOutcome::Holds($limits.available(&KEY)),
            _ => OperationOutcome::Skipped,
        }
    };
}

impl<A: KeyedAlgorithm> OneKey<A> {
    /// # Panics
    ///
    /// Panics if an import with the same quota fails.
    fn hand_over(&mut self, quota: Option<Quota>) -> OperationOutcome {
        let file = self.limits.export();
        let next = quota.unwrap_or(self.quota);
        let Some(builder) = (self.made.builder)(next) else {
            return OperationOutcome::Skipped;
        };
        match (builder.clock(&self.time).import(&file), quota) {
            (Ok(limits), _) => {
                (self.limits, self.quota) = (limits, next);
                OperationOutcome::HandedOver
            }
            (Err(_), Some(_)) => OperationOutcome::Skipped,
            (Err(error), None) => panic!("{error}"),
        }
    }
}

impl<A: KeyedAlgorithm> Subject for OneKey<A> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            take_up_to: true,
            refund: true,
            available: true,
            retry_after: true,
            set_quota: true,
            own_clock: self.own_clock,
            hand_over: true,
            ..Capabilities::NONE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = Timestamp::from_nanos(step.at_ns);
        if self.own_clock && now == Timestamp::MAX {
            return act!(self.limits.at(now), step.op);
        }
        self.steps += 1;
        // Another key takes all that it has, at every step; nobody asks what comes of it.
        let other = self.steps % OTHERS;
        if self.own_clock {
            self.time.set(now);
            self.limits.take_up_to(&other, u64::MAX);
        } else {
            self.limits.at(now).take_up_to(&other, u64::MAX);
        }
        match step.op {
            Op::SetQuota { quota, .. } => {
                self.time.set(now);
                if !(self.made.replace)(&self.limits, quota) {
                    return OperationOutcome::Skipped;
                }
                self.quota = quota;
                OperationOutcome::Changed
            }
            Op::HandOver { quota } => {
                self.time.set(now);
                self.hand_over(quota)
            }
            op if self.own_clock => act!(self.limits, op),
            op => act!(self.limits.at(now), op),
        }
    }
}
