//! flowgate's other limiters, each as its setup says: one builder a type.

use core::time::Duration;

use flowgate::{
    ApproximateWindow, DecayingBucket, FixedWindow, LeakyBucket, ManualClock, SegmentedWindow,
    SlidingWindow, Striped, Timestamp, TokenBucket, WarmUp,
};

use super::{Any, BucketSubject, Capabilities, Subject, answer};
use crate::promise::{Anchor, Kind};
use crate::script::{Op, Outcome, Setup, Step};

/// The cold factor of [`warm_up`].
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::script::{Op, Outcome, Retry, Setup, Step};
/// use flowgate_testkit::subject::{COLD_FACTOR, warm_up};
/// use std::time::Duration;
///
/// // Cold, a unit takes that many times as long as it does later on.
/// warm_up(&Setup::of(Kind::NextPays, Quota::per_hour(3600)), &mut |subject| {
///     let now = Step { at_ns: 0, op: Op::Try { n: 1 } };
///     assert_eq!(subject.step(&now), Outcome::Admitted);
///     let Outcome::Refused(Retry::After(wait)) = subject.step(&now) else {
///         panic!("the next one pays");
///     };
///     assert!(wait > Duration::from_secs(1) && wait <= COLD_FACTOR * Duration::from_secs(1));
/// });
/// ```
pub const COLD_FACTOR: u32 = 3;

const HOUR: Duration = Duration::from_secs(3_600);

type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);

fn stopped() -> ManualClock {
    ManualClock::new()
}

/// Builds a [`LeakyBucket`] with the quota's burst for its slack: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::leaky_bucket, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
///
/// # Panics
///
/// If it cannot be built as `setup` says; so do all that follow.
pub fn leaky_bucket(setup: &Setup, test: Test<'_>) {
    let builder = LeakyBucket::builder(setup.quota).clock(stopped());
    let bucket = builder.build().expect("the setup is in range");
    test(&mut BucketSubject::new(&bucket));
}

/// Builds a [`Striped`] token bucket that is asked at explicit times, which empties its stripes: a
/// [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::striped, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn striped(setup: &Setup, test: Test<'_>) {
    let bucket = setup.token_bucket().expect("the setup is in range");
    let striped = Striped::with_stripes(bucket, 1);
    test(&mut BucketSubject::new(&striped));
}

/// Builds a [`Striped`] token bucket that is asked by its clock, as long as it is only asked for tokens: a
/// [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::striped_by_its_clock;
///
/// // What is taken from a stripe has no date, so C2 holds but for that.
/// for contract in [Contract::C1, Contract::C3, Contract::C4, Contract::C5, Contract::C8] {
///     assert!(check_contract(Kind::Bucket, &striped_by_its_clock, contract, 20).is_ok());
/// }
/// ```
pub fn striped_by_its_clock(setup: &Setup, test: Test<'_>) {
    let time = stopped();
    let bucket = TokenBucket::builder(setup.quota).clock(&time);
    let bucket = bucket.build().expect("the setup is in range");
    let striped = Striped::with_stripes(bucket, 1);
    test(&mut ByItsClock(&striped, time));
}

/// Builds a [`FixedWindow`], aligned if the setup promises that: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::{Anchor, Kind};
/// use flowgate_testkit::{conformance, subject};
///
/// for anchor in [Anchor::FirstGrant, Anchor::Aligned(0)] {
///     let report = conformance::check(Kind::Window(anchor), &subject::fixed_window, 20);
///     assert!(report.findings.is_empty(), "{report}");
/// }
/// ```
pub fn fixed_window(setup: &Setup, test: Test<'_>) {
    let mut builder = FixedWindow::builder(setup.quota).clock(stopped());
    if let Kind::Window(Anchor::Aligned(at_ns)) = setup.kind {
        builder = builder.align(Timestamp::from_nanos(at_ns));
    }
    test(&mut Windowed(
        &builder.build().expect("the setup is in range"),
    ));
}

/// Builds a [`FixedWindow`] that reads the clock only when its count is used up, which promises what
/// an interpolated one does: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Approximate, &subject::clock_free_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn clock_free_window(setup: &Setup, test: Test<'_>) {
    let builder = FixedWindow::builder(setup.quota)
        .clock(stopped())
        .clock_free();
    test(&mut Windowed(
        &builder.build().expect("the setup is in range"),
    ));
}

/// Builds a [`SlidingWindow`]: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Sliding, &subject::sliding_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn sliding_window(setup: &Setup, test: Test<'_>) {
    let builder = SlidingWindow::builder(setup.quota).clock(stopped());
    test(&mut Windowed(
        &builder.build().expect("the setup is in range"),
    ));
}

/// Builds a [`SegmentedWindow`] with as many segments as the setup promises, or as the window has
/// nanoseconds: a [`Build`](super::Build). Nothing for another kind of promise.
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let kind = Kind::Segmented { segments: 10 };
/// let report = conformance::check(kind, &subject::segmented_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn segmented_window(setup: &Setup, test: Test<'_>) {
    let Kind::Segmented { segments } = setup.kind else {
        return;
    };
    let period_ns = u64::try_from(setup.quota.period().as_nanos()).unwrap_or(u64::MAX);
    let builder = SegmentedWindow::builder(setup.quota)
        .clock(stopped())
        .segments(segments.min(period_ns));
    test(&mut Windowed(
        &builder.build().expect("the setup is in range"),
    ));
}

/// Builds an [`ApproximateWindow`]: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Approximate, &subject::approximate_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn approximate_window(setup: &Setup, test: Test<'_>) {
    let builder = ApproximateWindow::builder(setup.quota).clock(stopped());
    test(&mut Windowed(
        &builder.build().expect("the setup is in range"),
    ));
}

/// Builds a [`WarmUp`] that warms up in three of the quota's periods, or in an hour if that is
/// less: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::NextPays, &subject::warm_up, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn warm_up(setup: &Setup, test: Test<'_>) {
    let builder = WarmUp::builder(setup.quota)
        .clock(stopped())
        .warm_up(HOUR.min(setup.quota.period() * 3))
        .cold_factor(COLD_FACTOR);
    test(&mut Any(&builder.build().expect("the setup is in range")));
}

/// Builds a [`DecayingBucket`] with the quota's limit for its capacity and its period for the
/// half-life: a [`Build`](super::Build).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Decaying, &subject::decaying_bucket, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn decaying_bucket(setup: &Setup, test: Test<'_>) {
    let capacity = setup.quota.count() * setup.quota.scale();
    let builder = DecayingBucket::builder(capacity, setup.quota.period()).clock(stopped());
    test(&mut Any(&builder.build().expect("the setup is in range")));
}

/// A striped bucket under test, and the clock that it reads if it has to.
struct ByItsClock<'a>(&'a Striped<TokenBucket>, ManualClock);

impl Subject for ByItsClock<'_> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            take_up_to: true,
            refund: true,
            retry_after: true,
            ..Capabilities::default()
        }
    }

    fn step(&mut self, step: &Step) -> Outcome {
        let Self(striped, time) = self;
        time.set(Timestamp::from_nanos(step.at_ns));
        match step.op {
            Op::Try { n } => answer(striped.try_acquire_n(n)),
            Op::TakeUpTo { n } => Outcome::Took(striped.take_up_to(n)),
            Op::Refund { n } => Outcome::Back(striped.refund(n)),
            _ => Outcome::Skipped,
        }
    }
}

/// A window under test, with what all windows can do.
struct Windowed<'a, L>(&'a L);

macro_rules! windowed {
    ($($window:ty),+) => {$(
        impl Subject for Windowed<'_, $window> {
            fn capabilities(&self) -> Capabilities {
                Capabilities {
                    costs: true,
                    take_up_to: true,
                    refund: true,
                    available: true,
                    retry_after: true,
                    ..Capabilities::default()
                }
            }

            fn step(&mut self, step: &Step) -> Outcome {
                let at = self.0.at(Timestamp::from_nanos(step.at_ns));
                match step.op {
                    Op::Try { n } => answer(at.try_acquire_n(n)),
                    Op::TakeUpTo { n } => Outcome::Took(at.take_up_to(n)),
                    Op::Refund { n } => Outcome::Back(at.refund(n)),
                    Op::Available => Outcome::Holds(at.available()),
                    _ => Outcome::Skipped,
                }
            }
        }
    )+};
}

windowed!(
    FixedWindow,
    SlidingWindow,
    SegmentedWindow,
    ApproximateWindow
);
