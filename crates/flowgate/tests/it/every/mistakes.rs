//! Mistakes that other limiters have made, each with a test that flowgate's token bucket does not
//! make it.
//!
//! A comment names where the mistake was seen. Those that take a type which does not exist yet are
//! left for it:
//!
//! - Keys: state that is never evicted, or whose eviction grants credit (.NET #124557, #133110).
//! - Adaptive concurrency: a gradient limiter panics when latency falls, a partition strands a waiter
//!   (congestion-limiter 0.1.0).
//!
//! Others stand with the type that does not make them: windows whose late reset wipes another thread's, or whose log is out
//! of order, in their own tests; several limits of which an earlier one stays charged when a later one refuses (.NET chained,
//! milvus #25597) in `gate.rs`; waiters that give up and stay charged (resilience4j, uber-go/ratelimit #73), a cancelled
//! head that holds the others to its old time, newcomers that overtake 1000 times of 1000 (throttle-net 2.0.0) in
//! `waiting.rs`; a permit lost when a woken waiter is cancelled in `concurrency_limit.rs`.

use flowgate::{Carry, Denied, ManualClock, Quota, Refill, Reservation, Timestamp, TokenBucket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NS: Duration = Duration::from_nanos(1);
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SECOND;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn bucket(text: &str) -> TokenBucket {
    with(text, |builder| builder)
}

fn with(
    text: &str,
    settings: impl FnOnce(flowgate::TokenBucketBuilder) -> flowgate::TokenBucketBuilder,
) -> TokenBucket {
    settings(TokenBucket::builder(quota(text)).clock(ManualClock::new()))
        .build()
        .expect("a limiter")
}

const fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// How many of `polls` are admitted, one every `step_ns` from the origin.
fn polled(bucket: &TokenBucket, step_ns: u64, polls: u64) -> u64 {
    (0..polls)
        .filter(|poll| bucket.at(at(poll * step_ns)).try_acquire().is_ok())
        .count() as u64
}

/// What `threads` admit together when each runs `each`.
fn raced(threads: usize, each: impl Fn() -> u64 + Sync) -> u64 {
    let (admitted, start) = (AtomicU64::new(0), Barrier::new(threads));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                admitted.fetch_add(each(), Ordering::Relaxed);
            });
        }
    });
    admitted.into_inner()
}

fn retry_after(verdict: Result<(), Denied>) -> Option<Duration> {
    verdict.expect_err("more than there is").retry_after()
}

// Idle time is paid twice: the time of the last refill stands still while the bucket is full.

#[test]
fn c1_a_rest_is_not_paid_again_after_a_drain() {
    // juju/ratelimit #30, celery/kombu #680: (quota, rest, taken, later, admitted then).
    let table = [
        ("20/s burst 100", 5 * SECOND, 100, 0, 0),
        ("1/s burst 10", 10 * SECOND, 10, 100 * MS, 0),
        ("1/s burst 10", 10 * SECOND, 10, SECOND, 1),
        ("2/s burst 2", 100 * SECOND, 2, 0, 0),
    ];
    for (quota, rest_ns, taken, later_ns, then) in table {
        let bucket = bucket(quota);
        assert_eq!(bucket.at(at(rest_ns)).take_up_to(u64::MAX), taken);
        let later = bucket.at(at(rest_ns + later_ns));
        assert_eq!(later.take_up_to(u64::MAX), then, "{quota}");
    }
}

#[test]
fn c1_a_rest_while_nearly_full_fills_and_no_more() {
    // throttlecrab 0.4.40 clamps to the wrong bound: 17 at once, 16 said to remain.
    let bucket = bucket("1/s burst 10");
    bucket.at(at(0)).try_acquire().expect("10 are there");
    let rested = bucket.at(at(8_900 * MS));
    assert_eq!(rested.snapshot().remaining, 10);
    assert_eq!((0..30).filter(|_| rested.try_acquire().is_ok()).count(), 10);
}

#[test]
fn c1_after_a_rest_evenly_spaced_stays_evenly_spaced() {
    // A crawler's leaky queue without max(now): after 10 s idle at 10/s, 100 at once.
    let bucket = bucket("10/s burst 1");
    assert!(bucket.at(at(0)).try_acquire().is_ok());
    assert_eq!(bucket.at(at(10 * SECOND)).take_up_to(100), 1);
    let told = bucket.at(at(10 * SECOND)).reserve().expect("one fits").at();
    assert_eq!(told, at(10_100 * MS));
}

// A clock that runs backward, or that was read before somebody else's, mints tokens.

#[test]
fn c4_a_stale_time_between_two_mints_nothing() {
    // golang/go #56287, #23145, tikv/pd #10745, cadence #6030.
    let bucket = bucket("10/s burst 1");
    let admitted = (0..1_000)
        .filter(|call| {
            bucket
                .at(at(SECOND - call % 2 * 100 * MS))
                .try_acquire()
                .is_ok()
        })
        .count();
    assert_eq!(admitted, 1);
}

#[test]
fn c4_a_clock_that_steps_back_does_not_fill_the_bucket() {
    // bsm/ratelimit, and a sampler's bucket on the wall clock: the unsigned difference wraps to
    // 1.8·10¹⁹.
    let bucket = bucket("10/s burst 5");
    assert_eq!(bucket.at(at(HOUR)).take_up_to(9), 5);
    for back_ns in [1, SECOND, HOUR] {
        assert_eq!(bucket.at(at(HOUR - back_ns)).available(), 0);
    }
    // Nor does it cost anything once the time is reached again.
    assert_eq!(bucket.at(at(HOUR + 100 * MS)).take_up_to(9), 1);
}

#[test]
fn c4_racing_clocks_admit_what_the_latest_allows() {
    // The same with threads: each decides with a time of its own, up to 1 s apart.
    let bucket = bucket("1000/s burst 10");
    let clock_ns = AtomicU64::new(0);
    let admitted = raced(4, || {
        let mut admitted = 0;
        for call in 0..5_000 {
            let latest_ns = clock_ns.fetch_add(10_000, Ordering::Relaxed);
            let stale_ns = latest_ns.saturating_sub(call % 3 * 500 * MS);
            admitted += u64::from(bucket.at(at(stale_ns)).try_acquire().is_ok());
        }
        admitted
    });
    let last_ns = clock_ns.into_inner() - 10_000;
    assert!(admitted <= 10 + last_ns / MS, "{admitted} by {last_ns} ns");
}

// The fraction of a token is thrown away at each refill, so who polls fast starves.

#[test]
fn c8_the_rate_is_reached_however_fast_it_is_polled() {
    let table = [
        // ratelimit 2.0.0: 51 to 55 % of the rate.
        ("1/s burst 2", 1_900, 1_600_000),
        ("1/min burst 2", 114_000, 800_000),
        ("10/h burst 2", 684_000, 800_000),
        // A bucket that floors what it writes back: 714/s.
        ("1000/s burst 100", 700_000, 20_000),
        // firecracker #3370, dotnet/runtime #74056 (half the rate), Guava #3552 (never the full
        // one).
        ("3/s burst 2", 333_333_333, 1_000),
        ("10/s burst 5", 66_666_667, 1_000),
        ("999999937/d burst 2", 7, 100_000),
    ];
    for (text, step_ns, polls) in table {
        let quota = quota(text);
        // The bucket is full at the first poll and never again: nothing is lost.
        let last_ns = u128::from((polls - 1) * step_ns);
        let flowed = last_ns * u128::from(quota.count()) / quota.period().as_nanos();
        let admitted = u128::from(polled(&bucket(text), step_ns, polls));
        assert_eq!(admitted, u128::from(quota.max_burst()) + flowed, "{text}");
    }
}

#[test]
fn c8_whole_intervals_keep_their_remainder() {
    // A bucket of 3 per s that adds whole seconds and forgets the rest: asked at 1.9 s, it loses
    // 0.9 s.
    let bucket = with("3/s burst 5", |builder| {
        builder.initial_tokens(0).refill(Refill::Interval)
    });
    let table = [
        (0, 0),
        (1_000, 3),
        (1_000, 0),
        (1_900, 0),
        (2_000, 3),
        (2_999, 0),
        (5_000, 5),
        (5_000, 0),
    ];
    for (ms, taken) in table {
        assert_eq!(bucket.at(at(ms * MS)).take_up_to(9), taken, "at {ms} ms");
    }
    // Its own vector, which loses nothing.
    let bucket = with("3/s burst 5", |builder| {
        builder.initial_tokens(0).refill(Refill::Interval)
    });
    for (second, n, admitted) in [(0, 1, 0), (1, 3, 3), (1, 1, 0), (3, 5, 5), (3, 1, 0)] {
        let now = bucket.at(at(second * SECOND));
        assert_eq!(now.take_up_to(n), admitted, "{n} at {second} s");
    }
}

// The interval is cut to a unit of the clock, so the rate is another, or none.

#[test]
fn c8_no_rate_is_cut_to_whole_units_of_a_clock() {
    let rates: [u64; 13] = [
        80_000, // Guava #5290: 83,333/s.
        300_000,
        900_000,
        1_500_000, // Guava: unlimited above 1,000,000/s; others clamp to it without a word.
        1_001,     // Sentinel #1615: 1001 to 2004 per second stay at 1000, more is unlimited.
        1_500,
        1_999,
        2_005,
        600, // throttle-kit 2.1.2: 1000/s.
        5_000,
        600_000_000, // governor 0.10.4: 1,000,000,000/s.
        3,
        7, // uber-go/ratelimit: whole nanoseconds.
    ];
    for rate in rates {
        let bucket = bucket(&format!("{rate}/s burst 1"));
        for k in 0..50_000_u64 {
            let told = bucket.at(at(0)).reserve().expect("one fits").at();
            let due_ns = u128::from(k * SECOND).div_ceil(u128::from(rate));
            assert_eq!(u128::from(told.as_nanos()), due_ns, "{k} of {rate}/s");
        }
    }
}

#[test]
fn c8_a_burst_of_one_is_not_one_per_second() {
    // An early bucket of folly's kind that keeps time in whole seconds.
    assert_eq!(polled(&bucket("100/s burst 1"), MS, 1_000), 100);
}

#[test]
fn c1_c8_a_burst_far_larger_than_the_rate_is_whole() {
    // governor 0.10.4: 145,984 of a million, as the tolerance overflows.
    let bucket = bucket("1/day burst 1000000");
    let admitted = (0..1_000_100).filter(|_| bucket.try_acquire().is_ok());
    assert_eq!(admitted.count(), 1_000_000);
}

// 0/0 or infinity in the arithmetic of the configuration leaves the limiter wide open, or shut.

#[test]
fn c8_what_is_no_quota_is_refused_when_it_is_built() {
    // Guava #2730, #6475, #1791, #2231, golang/go #71154, Jaeger's Update(max 0).
    for text in [
        "0/s",
        "1/0s",
        "0/0s",
        "1/s burst 0",
        "-1/s",
        "1/-1s",
        "inf/s",
        "NaN/s",
        "1e400/s",
        "0.000000000000000001/s",
        "18446744073709551616/s",
        "1/s burst 18446744073709551615",
    ] {
        assert!(text.parse::<Quota>().is_err(), "{text}");
    }
    assert!(Quota::new(0, Duration::from_secs(1)).is_err());
    assert!(Quota::new(1, Duration::ZERO).is_err());
    assert!(Quota::new(1, Duration::MAX).is_err());
    assert!(Quota::per_second(1).try_burst(0).is_err());
    assert!(Quota::per_second(1).units_per_token(0).is_err());
}

#[test]
fn c8_a_limiter_changed_to_what_is_no_quota_stays_as_it_was() {
    let bucket = bucket("10/s burst 5");
    bucket.take_up_to(3);
    assert!(bucket.set_rate(0, Duration::from_secs(1)).is_err());
    assert!(bucket.set_rate(1, Duration::ZERO).is_err());
    assert!(bucket.set_burst(0).is_err());
    assert_eq!(bucket.quota(), quota("10/s burst 5"));
    assert_eq!(bucket.available(), 2);
}

#[test]
fn c4_a_tiny_rate_stays_a_rate() {
    // golang/go #71154: the wait overflows and the limiter jams open.
    let bucket = bucket("1/292y burst 1");
    assert!(bucket.at(at(0)).try_acquire().is_ok());
    let denied = bucket.at(at(0)).try_acquire().expect_err("none is left");
    let wait = denied.retry_after().expect("a time");
    assert_eq!(wait, Duration::from_secs(292 * 365 * 86_400));
    assert!(bucket.at(at(i64::MAX as u64)).try_acquire().is_ok());
}

// A long rest, a large n or a large time overflows.

#[test]
fn c4_a_long_rest_fills_and_no_more() {
    // bucket4j #51 (12 h), bsm/ratelimit (5 h at a million per second), .NET (32-bit ticks).
    for rest_ns in [
        5 * HOUR,
        12 * HOUR,
        u64::from(u32::MAX) * MS,
        100 * 365 * 24 * HOUR,
        i64::MAX as u64,
        u64::MAX,
    ] {
        let bucket = bucket("1000000/s");
        assert_eq!(bucket.at(at(0)).take_up_to(u64::MAX), 1_000_000);
        let rested = bucket.at(at(rest_ns));
        assert_eq!(rested.take_up_to(u64::MAX), 1_000_000, "{rest_ns} ns");
        assert!(rested.try_acquire().is_err());
    }
}

#[test]
fn c4_the_first_call_may_come_at_any_time() {
    // (now − 0) · rate overflows at the first use; microseconds since 1970 do not fit 53 bits.
    for now_ns in [
        0,
        1,
        1 << 53,
        (1 << 53) + 1,
        1_700_000_000 * SECOND,
        u64::MAX,
    ] {
        let bucket = bucket("999999999/s burst 3");
        assert_eq!(bucket.at(at(now_ns)).take_up_to(9), 3, "at {now_ns} ns");
    }
    // One nanosecond is one nanosecond, long after 1970.
    let bucket = bucket("1/ns burst 1");
    let told = [0, 1, 2].map(|_| {
        let now = bucket.at(at(1_700_000_000 * SECOND));
        now.reserve().expect("one fits").at().as_nanos() - 1_700_000_000 * SECOND
    });
    assert_eq!(told, [0, 1, 2]);
}

#[test]
fn c4_no_amount_overflows() {
    // Java's semaphore permits, .NET's queue limit, kept in 32 bits and added to.
    let bucket = bucket("10/s burst 5");
    bucket.take_up_to(2);
    for n in [6, 1 << 31, 1 << 32, 1 << 63, u64::MAX] {
        assert!(bucket.try_acquire_n(n).expect_err("above").is_never());
        assert!(bucket.reserve_n(n).expect_err("above").is_never());
    }
    assert!(bucket.overdraw(u64::MAX).expect_err("above").is_never());
    assert_eq!(bucket.available(), 3);
    assert_eq!(bucket.refund(u64::MAX), 2);
    assert_eq!(bucket.available(), 5);
}

// A refund loses tokens, or invents them.

#[test]
fn c5_a_reservation_for_now_comes_back_whole_a_moment_later() {
    // x/time/rate restores nothing (model-hotel #976).
    let bucket = bucket("10/s burst 5");
    let reservation = bucket.at(at(0)).reserve_n(5).expect("5 are there");
    assert_eq!(reservation.cancel_at(at(0) + NS), 5);
    assert_eq!(bucket.at(at(0) + NS).available(), 5);
}

#[test]
fn c5_a_reservation_cancelled_in_the_middle_comes_back_whole() {
    // golang/go #56924: 4 instead of 6. #69419 alike.
    let bucket = bucket("10/s burst 20");
    let _kept = bucket.at(at(0)).reserve_n(15).expect("20 are there");
    let unused = bucket.at(at(100 * MS)).reserve_n(10).expect("10 fit");
    let _kept = bucket.at(at(200 * MS)).reserve_n(2).expect("2 fit");
    assert_eq!(unused.cancel_at(at(300 * MS)), 10);
    assert_eq!(bucket.at(at(300 * MS)).available(), 6);
}

#[test]
fn c1_c5_what_has_flowed_in_by_itself_does_not_come_back_twice() {
    // (a later caller's ms and amount, ms of cancelling, how much comes back, tokens then)
    let table = [
        // Full at 7 s, whoever cancels.
        (8_000, 3, 9_000, 0, 3),
        // Without what is cancelled it would have been full at 5 s, and hold 4.5 at 6 s.
        (5_500, 1, 6_000, 1, 4),
        (3_000, 1, 4_000, 2, 3),
    ];
    for (later_ms, taken, cancelled_ms, back, left) in table {
        let bucket = bucket("1/s burst 5");
        bucket.at(at(0)).take_up_to(5);
        let unused = bucket.at(at(0)).reserve_n(2).expect("2 fit");
        assert_eq!(bucket.at(at(later_ms * MS)).take_up_to(taken), taken);
        let now = at(cancelled_ms * MS);
        assert_eq!(unused.cancel_at(now), back, "at {cancelled_ms} ms");
        assert_eq!(bucket.at(now).available(), left, "at {cancelled_ms} ms");
    }
}

#[test]
fn c5_a_chain_is_rewound_without_a_nanosecond_left_over() {
    // gocryptotrader #2363: told times that do not divide evenly break the chain.
    for text in ["3/s burst 1", "7/min burst 1", "999999937/s burst 2"] {
        let bucket = bucket(text);
        bucket.take_up_to(u64::MAX);
        let full_after = bucket.snapshot().reset_after;
        let chain: Vec<_> = (0..100)
            .map(|_| bucket.reserve().expect("one fits"))
            .collect();
        let back: u64 = chain.into_iter().rev().map(Reservation::cancel).sum();
        assert_eq!(back, 100, "{text}");
        assert_eq!(bucket.snapshot().reset_after, full_after, "{text}");
    }
}

#[test]
fn c5_a_flood_of_reservations_looked_at_and_cancelled_leaves_no_debt() {
    // model-hotel #977: 15 to 282 tokens below zero after 2000.
    let bucket = bucket("1/s burst 5");
    bucket.take_up_to(5);
    for _ in 0..2_000 {
        let told = bucket.reserve().expect("one fits");
        assert_eq!(told.at(), at(SECOND));
        assert_eq!(told.cancel(), 1);
    }
    assert_eq!(bucket.snapshot().reset_after, Duration::from_secs(5));
}

#[test]
fn c1_c5_what_was_refused_changes_nothing() {
    // golang/go #52584: a failed reservation moves the state. async-rate-limiter 1.1.0: after 100
    // that timed out the next waits for 10.1 s.
    let bucket = bucket("10/s burst 1");
    bucket.take_up_to(1);
    for _ in 0..100 {
        assert!(bucket.reserve_within(Duration::ZERO).is_err());
        assert!(bucket.reserve_within(Duration::from_millis(99)).is_err());
        assert!(bucket.reserve_n(2).is_err());
        assert!(bucket.try_acquire().is_err());
        assert!(bucket.overdraw(3).is_err());
        assert_eq!(bucket.take_up_to(0), 0);
    }
    assert_eq!(
        bucket.reserve().expect("one fits").at(),
        at(100 * MS),
        "the turn of the first that stays"
    );
}

#[test]
fn c1_a_refused_oversize_wipes_nothing() {
    // gcra 0.6.0: exhausted, then a cost of 100, then 1 is allowed again.
    let bucket = bucket("1/s burst 10");
    bucket.take_up_to(10);
    assert!(bucket.try_acquire_n(100).is_err());
    assert!(bucket.try_acquire().is_err());
}

#[test]
fn c5_a_refund_fills_and_no_more() {
    // bsm/ratelimit's Undo in two threads; bucket4j #417: less than nothing, taken, adds.
    let bucket = bucket("1/h burst 5");
    bucket.take_up_to(3);
    assert_eq!(raced(4, || bucket.refund(2)), 3);
    assert_eq!(bucket.available(), 5);
}

// Check, then act.

#[test]
fn c1_racing_threads_share_what_there_is() {
    // Sentinel #957, #1620, #628, Django REST framework #5181: each sees room, all take it. Two
    // callers that both subtract below zero wrap to full; a queue that reads its state twice
    // hands one slot out twice.
    for _ in 0..20 {
        let all_ways = bucket("1/h burst 100");
        let admitted = raced(6, || {
            let mut admitted = 0;
            for call in 0..40 {
                admitted += match call % 3 {
                    0 => u64::from(all_ways.try_acquire().is_ok()),
                    1 => all_ways.take_up_to(3),
                    _ => 2 * u64::from(all_ways.reserve_n_within(2, Duration::ZERO).is_ok()),
                };
            }
            admitted
        });
        assert_eq!(admitted, 100);
        assert_eq!(all_ways.available(), 0);
    }
}

#[test]
fn c1_racing_threads_are_told_different_times() {
    let bucket = bucket("1000/s burst 1");
    let told = std::sync::Mutex::new(Vec::new());
    raced(4, || {
        for _ in 0..100 {
            let at = bucket.reserve().expect("one fits").at();
            told.lock().expect("not poisoned").push(at);
        }
        0
    });
    let mut told = told.into_inner().expect("not poisoned");
    told.sort();
    assert!(told.iter().copied().eq((0..400).map(|ms| at(ms * MS))));
}

// Whoever refills dies, or lags. flowgate has no such thread: tokens follow from the time.

#[test]
fn c2_a_lowered_limit_goes_on_refilling() {
    // resilience4j #2489: the timer throws, and nothing is refilled for ever.
    for refill in [Refill::Continuous, Refill::Interval] {
        let bucket = with("10/s", |builder| builder.refill(refill));
        bucket.at(at(0)).take_up_to(10);
        bucket.at(at(0)).set_quota(quota("2/s")).unwrap();
        for second in 1..10 {
            let now = bucket.at(at(second * SECOND));
            assert_eq!(now.take_up_to(9), 2, "{refill:?}, {second} s");
        }
    }
}

#[test]
fn c2_periods_longer_than_a_second_come_round() {
    // HAProxy #1196: counters with a period over 1 s never rotate.
    for (text, period_ns) in [("4/10s", 10 * SECOND), ("4/h", HOUR), ("4/30d", 720 * HOUR)] {
        for refill in [Refill::Continuous, Refill::Interval] {
            let bucket = with(text, |builder| builder.refill(refill));
            for period in 0..5 {
                let now = bucket.at(at(period * period_ns));
                assert_eq!(now.take_up_to(9), 4, "{text}, {refill:?}, {period}");
            }
        }
    }
}

// The wait that a refusal tells is wrong: a whole period, cut, for a full bucket, or missing.

#[test]
fn c3_retry_after_is_the_least_wait() {
    use Refill::{Continuous, Interval};
    // (quota, refill, taken, asked, wait in ns)
    let table = [
        // dotnet/runtime #92557 and its own table, which adds n per whole 20 s.
        ("1/20s burst 2", Interval, 2, 2, 40 * SECOND),
        ("2/20s burst 2", Interval, 2, 2, 20 * SECOND),
        ("100/20s burst 2", Interval, 2, 2, 20 * SECOND),
        ("1/20s burst 3", Interval, 2, 3, 40 * SECOND),
        // bucket4j rounds down, and so comes back too early.
        ("3/s", Continuous, 3, 1, 333_333_334),
        ("3/s", Continuous, 3, 2, 666_666_667),
        ("3/s", Continuous, 3, 3, SECOND),
        // ratelimit_meter #36 tells when the bucket is full, here 10 s.
        ("1/s burst 10", Continuous, 10, 1, SECOND),
        ("1/s burst 10", Continuous, 4, 7, SECOND),
        ("999999937/d", Continuous, 999_999_937, 1, 86_401),
    ];
    for (text, refill, taken, asked, wait_ns) in table {
        let bucket = with(text, |builder| builder.refill(refill));
        let try_at = |ns| bucket.at(at(ns)).try_acquire_n(asked);
        bucket
            .at(at(0))
            .try_acquire_n(taken)
            .expect("a full bucket");
        let wait = retry_after(try_at(0));
        assert_eq!(wait, Some(Duration::from_nanos(wait_ns)), "{text}");
        assert_eq!(retry_after(try_at(wait_ns - 1)), Some(NS), "{text}");
        assert!(try_at(wait_ns).is_ok(), "{text}");
    }
}

#[test]
fn c3_retry_after_counts_the_part_of_a_token_that_is_there() {
    // bucket4j #88: the whole time of one is told when most of it has passed. #71: as is in
    // intervals.
    for refill in [Refill::Continuous, Refill::Interval] {
        let bucket = with("1/s", |builder| builder.refill(refill));
        assert!(bucket.at(at(0)).try_acquire().is_ok());
        let wait = retry_after(bucket.at(at(900 * MS)).try_acquire());
        assert_eq!(wait, Some(Duration::from_millis(100)), "{refill:?}");
    }
}

#[test]
fn c3_what_can_never_be_granted_tells_no_wait() {
    // throttlecrab 0.4.40: 30 of a burst of 10 is told 20 s, each time again. bucket4j #220.
    let bucket = bucket("1/s burst 10");
    for second in [0, 20, 40] {
        let denied = bucket.at(at(second * SECOND)).try_acquire_n(30);
        let denied = denied.expect_err("30 of 10");
        assert!(denied.is_never());
        assert_eq!(denied.retry_after(), None);
    }
}

#[test]
fn c3_patience_and_wait_are_compared_in_one_unit() {
    // A leaky queue compares its time-out in milliseconds with a wait in microseconds.
    let wait = Duration::from_millis(100);
    let bucket = bucket("10/s burst 1");
    bucket.take_up_to(1);
    let denied = bucket.reserve_within(wait - NS).expect_err("too short");
    assert_eq!(denied.retry_after(), Some(NS));
    assert_eq!(
        bucket.reserve_within(wait).expect("just so").at(),
        at(100 * MS)
    );
}

// What is said to remain is not what remains.

#[test]
fn c3_remaining_falls_to_nothing() {
    // throttle-kit 2.1.2: 1 to 5, rising.
    let bucket = bucket("1/h burst 5");
    let remaining = [4, 3, 2, 1, 0, 0].map(|expected| {
        let _ = bucket.try_acquire();
        (bucket.snapshot().remaining, expected)
    });
    assert!(remaining.iter().all(|(got, expected)| got == expected));
}

// A burst of 0 jams for ever, and a burst stays behind when the rate moves.

#[test]
fn c2_every_quota_that_is_accepted_admits() {
    // temporal #10327, go-gitlab #1837, draino #15: burst 0. Jaeger's samplers: less than 1 per
    // second never has one.
    for text in ["0.1/s", "1/30d", "0.001/s", "1/292y", "1/ns"] {
        let bucket = bucket(text);
        assert!(bucket.quota().max_burst() >= 1);
        assert!(bucket.try_acquire().is_ok(), "{text}");
    }
    let yields_none = quota("3/day").burst_for(Duration::from_secs(1));
    assert_eq!(yields_none.expect("a burst").max_burst(), 1);
}

#[test]
fn c1_a_quota_moves_its_burst_and_a_rate_does_not() {
    // golang/go #23575: who sets a limit expects its burst to follow. Here each is said.
    let bucket = bucket("10/s");
    bucket.set_quota(quota("20/s")).unwrap();
    assert_eq!(bucket.quota().max_burst(), 20);
    let rate = bucket.set_rate(30, Duration::from_secs(1));
    rate.expect("a rate");
    assert_eq!(bucket.quota(), quota("30/s burst 20"));
}

#[test]
fn c2_a_new_limiter_admits_at_once() {
    // A sampler's bucket starts empty though it says full; Guava's starts at 0;
    // simple-rate-limiter 1.0.0's new(1, 4) refuses its first call.
    for text in ["1/4s", "4/s", "100/s burst 20", "1/day"] {
        let fresh = bucket(text);
        let burst = fresh.quota().max_burst();
        assert_eq!(fresh.take_up_to(u64::MAX), burst, "{text}");
    }
    // On the system's clock as well.
    assert!(TokenBucket::new(quota("1/4s")).try_acquire().is_ok());
}

// Refused traffic is counted, so who keeps asking is never served.

#[test]
fn c2_asking_all_the_time_costs_nothing() {
    // HAProxy #1224, #1277. A window counter that counts refusals wraps to 0, and admits.
    let bucket = bucket("10/s burst 5");
    assert_eq!(bucket.at(at(0)).take_up_to(5), 5);
    for call in 0..100_000 {
        assert!(bucket.at(at(call * 999)).try_acquire().is_err());
    }
    assert!(bucket.at(at(100 * MS)).try_acquire().is_ok());
}

// "At most N in any window" is expected of a bucket, which lets up to 2 N through.

/// The most that a caller who takes all there is gets in a window of 1 s, its end excluded, after
/// a rest.
fn most_in_a_second(text: &str) -> u64 {
    let bucket = bucket(text);
    (0..1_000)
        .map(|ms| bucket.at(at(ms * MS)).take_up_to(u64::MAX))
        .sum()
}

#[test]
fn c1_the_most_in_a_window_is_burst_and_rate() {
    // bucket4j #128, redis_rate #24, governor #219, Guava #5372. The type's docs say so, and what
    // to write instead.
    assert_eq!(most_in_a_second("100/s"), 199);
    assert_eq!(most_in_a_second("50/s"), 99, "halve both");
    assert_eq!(most_in_a_second("100/s burst 1"), 100, "evenly spaced");
}

// A change of rate is paid retroactively.

#[test]
fn c1_a_change_of_rate_is_not_retroactive() {
    // (quota, new quota, idle, tokens): ratelimit 2.0.0 gives 10,000; an interval bucket that
    // does not settle at the old rate first, up to 3,540.
    let table = [
        ("1/s burst 100000", "1000/s burst 100000", 10 * SECOND, 10),
        ("1/h burst 100000", "1/s burst 100000", HOUR / 60 * 59, 0),
        (
            "1000/s burst 100000",
            "1/s burst 100000",
            10 * SECOND,
            10_000,
        ),
    ];
    for (before, after, idle_ns, tokens) in table {
        for refill in [Refill::Continuous, Refill::Interval] {
            let bucket = with(before, |builder| builder.initial_tokens(0).refill(refill));
            let now = bucket.at(at(idle_ns));
            now.set_quota(quota(after)).unwrap();
            assert_eq!(now.available(), tokens, "{before} to {after}, {refill:?}");
        }
    }
}

#[test]
fn c1_a_change_takes_the_time_that_the_rest_takes() {
    // Setters that read the real clock though the rest is handed a `now`.
    let changes: [fn(&TokenBucket); 3] = [
        |bucket: &TokenBucket| bucket.set_quota(quota("1000/s burst 10")).unwrap(),
        |bucket| bucket.set_quota_with(quota("1000/s burst 10"), Carry::Kept),
        |bucket| {
            bucket
                .set_rate(1_000, Duration::from_secs(1))
                .expect("a rate")
        },
    ];
    for change in changes {
        // Decided by times of the caller's, far ahead of the bucket's own clock.
        let bucket = bucket("1/s burst 10");
        assert_eq!(bucket.at(at(HOUR)).take_up_to(10), 10);
        change(&bucket);
        assert_eq!(bucket.at(at(HOUR)).available(), 0);
        assert_eq!(bucket.at(at(HOUR + MS)).available(), 1);
    }
}

#[test]
fn c1_an_update_in_quick_succession_gives_no_second_burst() {
    let bucket = bucket("1/h burst 10");
    bucket.take_up_to(10);
    for _ in 0..100 {
        bucket.set_quota(quota("1/h burst 20")).unwrap();
        bucket.set_quota(quota("1/h burst 10")).unwrap();
        bucket.set_quota_with(quota("2/h burst 10"), Carry::Proportional);
    }
    assert_eq!(bucket.available(), 0);
}
