//! The decisions of the limiters other than `TokenBucket`: admit and refuse.

use std::cell::Cell;
use std::time::Duration;

use flowgate::{
    ApproximateWindow, DecayingBucket, DualTokenBucket, FixedWindow, Keyed, KeyedAlgorithm,
    KeyedBuilder, LeakyBucket, Leased, Limiter, PayAfter, Quota, Quotas, SegmentedWindow,
    SlidingWindow, Sometimes, Timestamp, TokenBucket, Unlimited, WarmUp,
};

use crate::{BURST, Operation, operation, quota};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// More than a run asks for, little enough for every window and its ring.
const AMPLE: u64 = 200_000;

const KEY: u64 = 7;

/// A decision with the type's own verb.
macro_rules! acquire {
    ($name:expr, $limiter:expr) => {
        operation($name, $limiter, |limiter, _| limiter.try_acquire().is_ok())
    };
}

/// On the clock that a user gets. No window ends and no admission leaves one while these run, so that
/// they take the same path however slowly they are counted.
pub fn on_default_clock() -> Vec<Operation> {
    let bucket = || quota(1_000, SECOND, BURST);
    let one = || quota(1, HOUR, 1);
    // Enough to share, whatever the number of processors.
    let scarce = || quota(1, HOUR, 10_000);
    vec![
        acquire!("unlimited_admit", Unlimited::new()),
        acquire!("leaky_bucket_admit", LeakyBucket::new(bucket())),
        acquire!("leaky_bucket_refuse", full(LeakyBucket::new(one()))),
        acquire!("pay_after_admit", pay_after(bucket())),
        acquire!("pay_after_refuse", full(pay_after(one()))),
        acquire!("dual_token_bucket_admit", dual(bucket())),
        acquire!("dual_token_bucket_refuse", full(dual(one()))),
        // Cold, and as it rests at every call for longer than a permit costs, it stays so.
        acquire!("warm_up_admit_cold", warm_up(1_000_000_000, SECOND)),
        acquire!("warm_up_refuse", full(warm_up(1, HOUR))),
        acquire!("decaying_bucket_admit", decaying(BURST)),
        acquire!("decaying_bucket_refuse", full(decaying(1))),
        acquire!("leased_admit", leased(AMPLE)),
        acquire!("leased_refuse", full(leased(1))),
        // A count of 18 bits and a window of 33: 64 bits hold them.
        acquire!("fixed_window_admit", fixed(AMPLE, 8 * SECOND)),
        acquire!("fixed_window_refuse", full(fixed(1, HOUR))),
        acquire!("fixed_window_wide_admit", fixed(BURST, HOUR)),
        acquire!("fixed_window_wide_refuse", full(fixed(AMPLE, HOUR))),
        acquire!("clock_free_window_admit", clock_free(AMPLE, 8 * SECOND)),
        acquire!("clock_free_window_refuse", full(clock_free(1, HOUR))),
        acquire!("approximate_window_admit", approximate(AMPLE)),
        acquire!("approximate_window_refuse", full(approximate(1))),
        acquire!("segmented_window_1_admit", segmented(AMPLE, 1)),
        acquire!("segmented_window_1_refuse", full(segmented(1, 1))),
        acquire!("segmented_window_10_admit", segmented(AMPLE, 10)),
        acquire!("segmented_window_10_refuse", full(segmented(1, 10))),
        acquire!("sliding_window_admit", sliding(AMPLE, HOUR)),
        acquire!("sliding_window_refuse", full(sliding(100, HOUR))),
        acquire!("striped_admit", TokenBucket::new(bucket()).striped()),
        acquire!("striped_refuse", full(TokenBucket::new(scarce()).striped())),
        keyed("keyed_bucket_admit", Keyed::token_bucket(bucket())),
        keyed("keyed_bucket_refuse", Keyed::token_bucket(one())),
        keyed(
            "keyed_dual_bucket_admit",
            Keyed::dual_token_bucket(pair(AMPLE)),
        ),
        keyed(
            "keyed_dual_bucket_refuse",
            Keyed::dual_token_bucket(pair(1)),
        ),
        of_key(
            "keyed_bucket_snapshot",
            Keyed::token_bucket(bucket()),
            |limits| limits.snapshot(&KEY).remaining > 0,
        ),
        of_key(
            "keyed_bucket_peek",
            Keyed::token_bucket(bucket()),
            |limits| limits.peek_n(&KEY, 1).is_ok(),
        ),
        silent("sometimes_first_silent", Sometimes::builder().build()),
        silent(
            "sometimes_every_silent",
            Sometimes::builder().every(u64::MAX).build(),
        ),
        silent(
            "sometimes_interval_silent",
            Sometimes::builder().interval(HOUR).build(),
        ),
    ]
}

/// At times that the caller supplies, because the path depends on them.
pub fn at_given_times() -> Vec<Operation> {
    // A permit per nanosecond. A warm-up's worth is stored, which costs half as much again; it is taken
    // at the beginning, and paid when this begins.
    let warm = warm_up(1_000_000_000, SECOND);
    let stored = SECOND.as_nanos() as u64;
    let paid_ns = stored + stored / 2;
    warm.at(Timestamp::ORIGIN)
        .try_acquire_n(stored)
        .expect("nothing is owed");
    vec![
        at_each("warm_up_admit_warm", paid_ns, 1, warm, |limiter, now| {
            limiter.at(now).try_acquire().is_ok()
        }),
        // From the hundredth on, one leaves as another comes.
        at_each(
            "sliding_window_steady",
            0,
            10,
            sliding(100, Duration::from_micros(1)),
            |limiter, now| limiter.at(now).try_acquire().is_ok(),
        ),
        // 50 in the window: it is never full, and admissions leave it all the time.
        at_each(
            "sliding_window_half_full",
            0,
            20,
            sliding(100, Duration::from_micros(1)),
            |limiter, now| limiter.at(now).try_acquire().is_ok(),
        ),
    ]
}

/// An operation at `first_ns`, and then at one instant `step_ns` after the other.
fn at_each<L: 'static>(
    name: &'static str,
    first_ns: u64,
    step_ns: u64,
    limiter: L,
    run: impl Fn(&L, Timestamp) -> bool + 'static,
) -> Operation {
    let state = (limiter, Cell::new(first_ns));
    operation(name, state, move |(limiter, now_ns), _| {
        let now = now_ns.get();
        now_ns.set(now + step_ns);
        run(limiter, Timestamp::from_nanos(now))
    })
}

/// Decisions on a key that is known.
fn keyed<A: KeyedAlgorithm>(name: &'static str, limits: KeyedBuilder<A>) -> Operation {
    of_key(name, limits, |limits| limits.try_acquire(&KEY).is_ok())
}

/// An operation on a key that is known.
fn of_key<A: KeyedAlgorithm>(
    name: &'static str,
    limits: KeyedBuilder<A>,
    run: impl Fn(&Keyed<A>) -> bool + 'static,
) -> Operation {
    let limits = limits.seed([1, 2]).capacity(1_000);
    let limits = limits.expect("the quota can be kept");
    // It has an entry from now on.
    limits.try_acquire(&KEY).expect("it is new");
    operation(name, limits, move |limits, _| run(limits))
}

/// Two quotas that a key has room for.
fn pair(burst: u64) -> Quotas {
    let quotas = [(10, SECOND), (10_000, 24 * HOUR)];
    let [fast, slow] = quotas.map(|(count, period)| quota(count, period, burst));
    Quotas::two(fast, slow).expect("they fit")
}

fn silent(name: &'static str, sometimes: Sometimes) -> Operation {
    // The first call speaks.
    sometimes.check();
    operation(name, sometimes, |sometimes, _| sometimes.check().is_some())
}

fn full<L: Limiter>(limiter: L) -> L {
    while limiter.try_acquire().is_ok() {}
    limiter
}

fn window(limit: u64, window: Duration) -> Quota {
    Quota::new(limit, window).expect("the quota can be kept")
}

fn pay_after(quota: Quota) -> PayAfter {
    TokenBucket::new(quota).pay_after()
}

/// A quota, and one per day that is never the one to decide.
fn dual(quota: Quota) -> DualTokenBucket {
    let day = window(1_000_000_000, 24 * HOUR);
    DualTokenBucket::new(Quotas::two(quota, day).expect("they fit"))
}

fn warm_up(count: u64, period: Duration) -> WarmUp {
    WarmUp::new(window(count, period), SECOND).expect("the warm-up can be kept")
}

fn decaying(capacity: u64) -> DecayingBucket {
    DecayingBucket::new(capacity, HOUR).expect("the capacity is in range")
}

fn leased(units: u64) -> Leased {
    let limiter = Leased::new(units).expect("the limit is in range");
    let now = limiter.clock().now();
    limiter.filler().grant(units, now + HOUR);
    limiter
}

fn fixed(limit: u64, period: Duration) -> FixedWindow {
    FixedWindow::new(window(limit, period)).expect("the limit fits")
}

fn clock_free(limit: u64, period: Duration) -> FixedWindow {
    FixedWindow::builder(window(limit, period))
        .clock_free()
        .build()
        .expect("the limit fits")
}

fn approximate(limit: u64) -> ApproximateWindow {
    ApproximateWindow::new(window(limit, HOUR)).expect("the limit fits")
}

fn segmented(limit: u64, segments: u64) -> SegmentedWindow {
    SegmentedWindow::builder(window(limit, HOUR))
        .segments(segments)
        .build()
        .expect("the limit fits")
}

fn sliding(limit: u64, period: Duration) -> SlidingWindow {
    SlidingWindow::new(window(limit, period)).expect("the limit fits")
}
