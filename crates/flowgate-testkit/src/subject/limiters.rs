//! flowgate's other limiters, each by its setup: one builder per type.

use core::time::Duration;

use flowgate::{
    ApproximateWindow, Clock, DecayingBucket, DualTokenBucket, FixedWindow, LeakyBucket,
    ManualClock, PayAfter, Quota, QuotaError, Quotas, SegmentedWindow, SlidingWindow, Striped,
    Timestamp, TokenBucket, WarmUp,
};

use super::operations::{Explicit, OwnClock};
use super::{BucketSubject, Subject};
use crate::draw::LARGEST_CHANGED;
use crate::promise::{Anchor, Kind};
use crate::rate::Rate;
use crate::script::Setup;

/// Cold factor of [`warm_up`].
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
/// use flowgate_testkit::subject::{COLD_FACTOR, warm_up};
/// use std::time::Duration;
///
/// // Cold, a unit takes this many times as long.
/// warm_up(&Setup::of(Kind::NextPays, Quota::per_hour(3600)), &mut |subject| {
///     let now = Step { at_ns: 0, op: Op::Try { n: 1 } };
///     assert_eq!(subject.step(&now), OperationOutcome::Admitted);
///     let OperationOutcome::Refused(Retry::After(wait)) = subject.step(&now) else {
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

/// Builds a [`LeakyBucket`] with the quota's burst as its slack: a [`BuildSubject`](super::BuildSubject).
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
/// Panics if it cannot be built by `setup`; so do all that follow.
pub fn leaky_bucket(setup: &Setup, test: Test<'_>) {
    let bucket = leaky(setup, stopped()).expect("the setup is in range");
    test(&mut BucketSubject::new(&bucket));
}

/// Builds a [`Striped`] token bucket at explicit times: a [`BuildSubject`](super::BuildSubject).
///
/// Explicit times empty its stripes.
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
    test(&mut BucketSubject::new(striped.get_ref()));
}

/// Builds a [`Striped`] token bucket on its own clock: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::striped_by_its_clock;
///
/// // Taking from a stripe has no timestamp, so C2 holds up to 1/8 of the burst.
/// assert!(check_contract(Kind::Bucket, &striped_by_its_clock, Contract::C2, 20).is_ok());
/// ```
pub fn striped_by_its_clock(setup: &Setup, test: Test<'_>) {
    let time = stopped();
    let bucket = TokenBucket::builder(setup.quota).clock(&time);
    let bucket = bucket.build().expect("the setup is in range");
    let striped = Striped::with_stripes(bucket, 1);
    let eighth = an_eighth(setup);
    let undated = if striped.is_shared() { eighth } else { 0 };
    test(&mut OwnClock::striped(&striped, time, eighth, undated));
}

/// Builds a [`Striped`] leaky bucket at explicit times: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::striped_leaky_bucket, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn striped_leaky_bucket(setup: &Setup, test: Test<'_>) {
    let bucket = leaky(setup, stopped()).expect("the setup is in range");
    test(&mut BucketSubject::new(
        Striped::with_stripes(bucket, 1).get_ref(),
    ));
}

/// Builds a [`Striped`] leaky bucket on its own clock: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::striped_leaky_bucket_by_its_clock;
///
/// let build = &striped_leaky_bucket_by_its_clock;
/// assert!(check_contract(Kind::Bucket, build, Contract::C1, 20).is_ok());
/// ```
pub fn striped_leaky_bucket_by_its_clock(setup: &Setup, test: Test<'_>) {
    let time = stopped();
    let bucket = leaky(setup, &time).expect("the setup is in range");
    let striped = Striped::with_stripes(bucket, 1);
    let eighth = an_eighth(setup);
    let undated = if striped.is_shared() { eighth } else { 0 };
    test(&mut OwnClock::striped(&striped, time, eighth, undated));
}

/// Builds a [`Striped`] fixed window at explicit times: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::promise::{Anchor, Kind};
/// use flowgate_testkit::{conformance, subject};
///
/// let kind = Kind::Window(Anchor::FirstGrant);
/// let report = conformance::check(kind, &subject::striped_fixed_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn striped_fixed_window(setup: &Setup, test: Test<'_>) {
    let window = fixed(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&Striped::with_stripes(window, 1)));
}

/// Builds a [`Striped`] fixed window on its own clock: a [`BuildSubject`](super::BuildSubject).
///
/// Taking from a stripe has no timestamp, so no chain of windows contains all grants. The remaining bound is that of
/// two windows.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::striped_fixed_window_by_its_clock;
///
/// let build = &striped_fixed_window_by_its_clock;
/// assert!(check_contract(Kind::Approximate, build, Contract::C1, 20).is_ok());
/// ```
pub fn striped_fixed_window_by_its_clock(setup: &Setup, test: Test<'_>) {
    let time = stopped();
    let window = fixed(setup, &time).expect("the setup is in range");
    let striped = Striped::with_stripes(window, 1);
    let eighth = an_eighth(setup);
    let undated = if striped.is_shared() { eighth } else { 0 };
    test(&mut OwnClock::striped(&striped, time, eighth, undated));
}

/// Returns what a [`Striped`] limiter may refuse needlessly.
fn an_eighth(setup: &Setup) -> u64 {
    let rate = Rate::of(setup.quota);
    let most = match setup.kind {
        Kind::Bucket => rate.burst_units,
        _ => u64::try_from(rate.limit_units).unwrap_or(u64::MAX),
    };
    most / 8
}

/// Builds a [`PayAfter`] whose maximum debt is the burst: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::PayAfter, &subject::pay_after, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn pay_after(setup: &Setup, test: Test<'_>) {
    let limiter = paid_after(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&limiter));
}

/// Builds a [`DualTokenBucket`] with the same quota twice: a [`BuildSubject`](super::BuildSubject).
///
/// Its bound is that of a token bucket. Builds nothing if the quota is not exact.
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::dual_token_bucket, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn dual_token_bucket(setup: &Setup, test: Test<'_>) {
    if let Some(quotas) = twice(setup.quota) {
        let limiter = dual(quotas, stopped());
        test(&mut Explicit(&limiter));
    }
}

/// Builds a [`DualTokenBucket`] with the same quota twice, on its own clock.
///
/// A [`BuildSubject`](super::BuildSubject). Builds nothing if the quota is not exact.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::dual_token_bucket_by_its_clock;
///
/// let build = &dual_token_bucket_by_its_clock;
/// assert!(check_contract(Kind::Bucket, build, Contract::C1, 20).is_ok());
/// ```
pub fn dual_token_bucket_by_its_clock(setup: &Setup, test: Test<'_>) {
    if let Some(quotas) = twice(setup.quota) {
        let time = stopped();
        let limiter = dual(quotas, &time);
        test(&mut OwnClock::new(&limiter, time));
    }
}

/// Builds a [`FixedWindow`], aligned if the setup requires that: a [`BuildSubject`](super::BuildSubject).
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
    let window = fixed(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&window));
}

/// Builds a [`FixedWindow`] that reads the clock only when its count is used up.
///
/// A [`BuildSubject`](super::BuildSubject). Its bound is that of an interpolated window.
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
    test(&mut Explicit(
        &builder.build().expect("the setup is in range"),
    ));
}

/// Builds a [`SlidingWindow`]: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Sliding, &subject::sliding_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn sliding_window(setup: &Setup, test: Test<'_>) {
    let window = sliding(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&window));
}

/// Builds a [`SegmentedWindow`] with the segments of the setup: a [`BuildSubject`](super::BuildSubject).
///
/// It has at most as many segments as the window has nanoseconds. Builds nothing for another kind of bound.
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
    if let Kind::Segmented { segments } = setup.kind {
        let window = segmented(setup, segments, stopped()).expect("the setup is in range");
        test(&mut Explicit(&window));
    }
}

/// Builds an [`ApproximateWindow`]: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Approximate, &subject::approximate_window, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn approximate_window(setup: &Setup, test: Test<'_>) {
    let window = approximate(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&window));
}

/// Builds a [`WarmUp`]: a [`BuildSubject`](super::BuildSubject).
///
/// It warms up in three of the quota's periods, but at most one hour.
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::NextPays, &subject::warm_up, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn warm_up(setup: &Setup, test: Test<'_>) {
    let limiter = warming(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&limiter));
}

/// Builds a [`DecayingBucket`]: a [`BuildSubject`](super::BuildSubject).
///
/// Its capacity is the quota's limit, and its half-life the quota's period.
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Decaying, &subject::decaying_bucket, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn decaying_bucket(setup: &Setup, test: Test<'_>) {
    let bucket = decaying(setup, stopped()).expect("the setup is in range");
    test(&mut Explicit(&bucket));
}

/// Builds the limiter of the setup's kind on a manual clock: a [`BuildSubject`](super::BuildSubject).
///
/// The steps set the clock forward and back. A step at the end of time uses that explicit time, and does not set the
/// clock. Callers may wait. Builds nothing for [`Kind::InFlight`].
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
/// use flowgate_testkit::subject::by_its_clock;
///
/// by_its_clock(&Setup::of(Kind::Sliding, Quota::per_second(2)), &mut |window| {
///     let mut act = |at_ns, op| window.step(&Step { at_ns, op });
///     assert_eq!(act(0, Op::Wait { n: 2 }), OperationOutcome::Admitted);
///     assert_eq!(act(0, Op::Wait { n: 2 }), OperationOutcome::Waits);
///     assert_eq!(act(999_999_999, Op::GiveUp { pick: 0 }), OperationOutcome::GaveUp);
///     assert_eq!(act(1_000_000_000, Op::Try { n: 2 }), OperationOutcome::Admitted);
/// });
/// ```
///
/// # Panics
///
/// Panics if it cannot be built by `setup`.
pub fn by_its_clock(setup: &Setup, test: Test<'_>) {
    let time = stopped();
    by_its_clock_if_in_range(setup, &time, test).expect("the setup is in range");
}

fn by_its_clock_if_in_range(
    setup: &Setup,
    time: &ManualClock,
    test: Test<'_>,
) -> Result<(), QuotaError> {
    let own = time.clone();
    match setup.kind {
        Kind::Bucket => test(&mut OwnClock::new(
            &TokenBucket::builder(setup.quota).clock(time).build()?,
            own,
        )),
        Kind::PayAfter => test(&mut OwnClock::new(&paid_after(setup, time)?, own)),
        Kind::Window(_) => test(&mut OwnClock::new(&fixed(setup, time)?, own)),
        Kind::Sliding => test(&mut OwnClock::new(&sliding(setup, time)?, own)),
        Kind::Segmented { segments } => {
            test(&mut OwnClock::new(&segmented(setup, segments, time)?, own));
        }
        Kind::Approximate => test(&mut OwnClock::new(&approximate(setup, time)?, own)),
        Kind::NextPays => test(&mut OwnClock::new(&warming(setup, time)?, own)),
        Kind::Decaying => test(&mut OwnClock::new(&decaying(setup, time)?, own)),
        Kind::InFlight => {}
    }
    Ok(())
}

/// Returns the same quota twice, if that is exact.
pub(super) fn twice(quota: Quota) -> Option<Quotas> {
    Quotas::two(quota, quota).ok().filter(Quotas::is_exact)
}

fn dual(quotas: Quotas, clock: impl Into<Clock>) -> DualTokenBucket {
    let built = DualTokenBucket::builder(quotas).clock(clock).build();
    built.expect("every pair is accepted")
}

fn leaky(setup: &Setup, clock: impl Into<Clock>) -> Result<LeakyBucket, QuotaError> {
    LeakyBucket::builder(setup.quota).clock(clock).build()
}

fn paid_after(setup: &Setup, clock: impl Into<Clock>) -> Result<PayAfter, QuotaError> {
    let bucket = TokenBucket::builder(setup.quota).clock(clock).build()?;
    Ok(bucket.pay_after())
}

fn fixed(setup: &Setup, clock: impl Into<Clock>) -> Result<FixedWindow, QuotaError> {
    let builder = FixedWindow::builder(setup.quota).clock(clock);
    match setup.kind {
        Kind::Window(Anchor::Aligned(at_ns)) => builder.align(Timestamp::from_nanos(at_ns)),
        _ => builder,
    }
    .build()
}

fn sliding(setup: &Setup, clock: impl Into<Clock>) -> Result<SlidingWindow, QuotaError> {
    let limit = setup.quota.count() * setup.quota.scale();
    SlidingWindow::builder(setup.quota)
        .max_limit(limit.max(LARGEST_CHANGED))
        .clock(clock)
        .build()
}

fn segmented(
    setup: &Setup,
    segments: u64,
    clock: impl Into<Clock>,
) -> Result<SegmentedWindow, QuotaError> {
    SegmentedWindow::builder(setup.quota)
        .clock(clock)
        .segments(segments.min(Rate::of(setup.quota).period_ns))
        .build()
}

fn approximate(setup: &Setup, clock: impl Into<Clock>) -> Result<ApproximateWindow, QuotaError> {
    ApproximateWindow::builder(setup.quota).clock(clock).build()
}

fn warming(setup: &Setup, clock: impl Into<Clock>) -> Result<WarmUp, QuotaError> {
    WarmUp::builder(setup.quota)
        .clock(clock)
        .warm_up(HOUR.min(setup.quota.period() * 3))
        .cold_factor(COLD_FACTOR)
        .build()
}

fn decaying(setup: &Setup, clock: impl Into<Clock>) -> Result<DecayingBucket, QuotaError> {
    let capacity = setup.quota.count() * setup.quota.scale();
    DecayingBucket::builder(capacity, setup.quota.period())
        .clock(clock)
        .build()
}
