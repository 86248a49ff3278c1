//! [`Striped`] and [`Batch`]: what they promise, on a manual clock. What the schedules of threads can do is explored by
//! the models of `word::shared`, and by `safety/threads.rs`.

use flowgate::{
    Batch, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Striped, Timestamp, TokenBucket,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// One token in 10 ns, with 2,560 at once: five to a handful of four stripes.
const QUOTA: &str = "100000000/s burst 2560";
const BURST: u64 = 2_560;
/// The most that all stripes together are issued.
const SHARED: u64 = BURST / 8;

fn at_rest() -> (ManualClock, TokenBucket) {
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(1_000_000_000));
    let quota: Quota = QUOTA.parse().unwrap();
    let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
    (time, bucket)
}

fn striped() -> (ManualClock, Striped<TokenBucket>) {
    let (time, bucket) = at_rest();
    let striped = Striped::with_stripes(bucket, 4);
    assert!(striped.is_shared());
    (time, striped)
}

/// Does it on threads with numbers that follow each other, so that each has a stripe of its own.
fn on_each_stripe<T: Send>(count: usize, does: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let does = &does;
    (0..count)
        .map(|index| thread::scope(|scope| scope.spawn(|| does(index)).join().unwrap()))
        .collect()
}

fn admitted(limiter: &dyn Limiter, tries: u64) -> u64 {
    (0..tries)
        .map(|_| u64::from(limiter.try_acquire().is_ok()))
        .sum()
}

#[test]
fn c1_c2_a_burst_is_a_burst() {
    let (time, hot) = striped();
    assert_eq!(admitted(&hot, BURST + 100), BURST);
    let denied = hot.try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(10)));
    time.advance(Duration::from_nanos(9));
    assert_eq!(
        hot.try_acquire().unwrap_err().retry_after(),
        Some(Duration::from_nanos(1))
    );
    time.advance(Duration::from_nanos(1));
    assert!(hot.try_acquire().is_ok());
    assert!(hot.try_acquire().is_err());
}

#[test]
fn c1_the_largest_requests_are_paid_in_full() {
    let time = ManualClock::new();
    let quota = "1000000000/s burst 18446744073709551615".parse().unwrap();
    let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
    let hot = Striped::with_stripes(bucket, 1);
    assert!(hot.try_acquire_n(u64::MAX - 3000).is_ok());
    assert!(hot.try_acquire_n(u64::MAX - 3000).is_err());
    assert_eq!(hot.available(), 3000);
}

/// All that it admits is admitted by the limiter alone, too; and what it refuses that one might admit, if it has been
/// full, but no more than stripes are issued.
#[test]
fn c1_c2_it_differs_from_the_limiter_alone_by_no_more_than_it_shares() {
    let mut most_wasted = 0;
    for seed in 0..200 {
        let (time, hot) = striped();
        let (_, alone) = at_rest();
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            time.advance(Duration::from_nanos(match random.u32(..20) {
                0 => random.u64(..100_000),
                1..5 => random.u64(..500),
                _ => random.u64(..30),
            }));
            let now = time.now();
            match random.u32(..100) {
                0 => {
                    let n = random.u64(..BURST);
                    // What had been refused to the one only may be missing to it.
                    assert!(hot.refund(n) <= n);
                    alone.at(now).refund(n);
                }
                1 => {
                    let wasted = alone.at(now).available() - hot.available();
                    most_wasted = most_wasted.max(wasted);
                    assert!(wasted <= SHARED, "seed {seed}: {wasted} wasted");
                }
                _ => {
                    let n = match random.u32(..50) {
                        0 => random.u64(..=BURST),
                        1..10 => random.u64(..20),
                        _ => 1,
                    };
                    let has = alone.at(now).available();
                    if hot.try_acquire_n(n).is_ok() {
                        assert!(has >= n, "seed {seed}: over: {n} of {has}");
                        alone.at(now).try_acquire_n(n).unwrap();
                    } else {
                        assert!(has < n + SHARED, "seed {seed}: {n} of {has} refused");
                    }
                }
            }
        }
    }
    assert!(most_wasted > 0, "the bound was never tried");
}

/// Stripes as adversaries: filled while there is plenty, kept until the bucket is full again, and emptied at once.
#[test]
fn c1_who_hoards_and_then_spends_at_once_gets_no_more_than_a_burst() {
    let (time, hot) = striped();
    on_each_stripe(4, |_| admitted(&hot, 30));
    time.advance(Duration::from_secs(1));
    let hoarded = on_each_stripe(4, |_| admitted(&hot, 20));
    let rest = admitted(&hot, 2 * BURST);
    assert_eq!(hoarded.iter().sum::<u64>(), 80);
    assert!(80 + rest <= BURST, "{rest} after 80");
    assert!(80 + rest >= BURST - SHARED, "{rest} after 80");
    time.advance(Duration::from_nanos(10 * SHARED));
    assert_eq!(hot.available(), SHARED);
}

#[test]
fn c2_one_thread_finds_what_others_hold() {
    let (_, hot) = striped();
    let taken: u64 = on_each_stripe(4, |_| admitted(&hot, 50)).iter().sum();
    assert_eq!(admitted(&hot, 2 * BURST), BURST - taken);
    assert_eq!(hot.available(), 0);
}

#[test]
fn c2_much_at_once_is_gathered_from_all_stripes() {
    let (_, hot) = striped();
    let taken: u64 = on_each_stripe(4, |_| admitted(&hot, 50)).iter().sum();
    assert!(hot.try_acquire_n(BURST - taken + 1).is_err());
    assert!(hot.try_acquire_n(BURST - taken).is_ok());
    assert!(hot.try_acquire_n(BURST + 1).unwrap_err().is_never());
}

/// Whoever is left alone gets all of the rate.
#[test]
fn c2_threads_that_have_gone_keep_nothing() {
    let (time, hot) = striped();
    on_each_stripe(64, |_| admitted(&hot, 30));
    let before = hot.available();
    let alone = admitted(&hot, BURST);
    assert_eq!(alone, before);
    let mut more = 0;
    for _ in 0..10_000 {
        time.advance(Duration::from_nanos(10));
        more += admitted(&hot, 1);
    }
    assert_eq!(more, 10_000);
}

#[test]
fn every_verb_counts_what_stripes_hold() {
    let (_, hot) = striped();
    let taken: u64 = on_each_stripe(4, |_| admitted(&hot, 50)).iter().sum();
    let left = BURST - taken;
    let snapshot = hot.snapshot();
    assert_eq!((snapshot.limit, snapshot.remaining), (BURST, left));
    assert_eq!(snapshot.reset_after, Duration::from_nanos(10 * taken));

    assert_eq!(hot.refund(20), 20);
    assert_eq!(hot.available(), left + 20);
    assert_eq!(hot.take_up_to(20), 20);
    let _kept = hot.get_ref().reserve_n(left).unwrap();
    let late = hot.get_ref().reserve().unwrap();
    assert_eq!(late.at(), hot.clock().now() + Duration::from_nanos(10));
    assert_eq!(late.cancel(), 1);
    assert_eq!(hot.take_up_to(10), 0);
    hot.get_ref().overdraw(5).unwrap();
    assert_eq!(
        hot.try_acquire().unwrap_err().retry_after(),
        Some(Duration::from_nanos(60))
    );
}

/// Refused a moment ago, so that a stripe knows that there is nothing.
#[test]
fn c5_what_is_given_back_can_be_had_at_once() {
    let (_, hot) = striped();
    assert_eq!(admitted(&hot, 2 * BURST), BURST);
    assert!(hot.try_acquire().is_err());
    assert_eq!(hot.refund(1), 1);
    assert!(hot.try_acquire().is_ok());
    assert!(hot.try_acquire().is_err());
    let reservation = hot.get_ref().reserve().unwrap();
    assert_eq!(
        hot.try_acquire().unwrap_err().retry_after(),
        Some(Duration::from_nanos(20)),
        "the reservation comes first"
    );
    reservation.cancel();
    assert_eq!(
        hot.try_acquire().unwrap_err().retry_after(),
        Some(Duration::from_nanos(10))
    );
}

#[test]
fn another_quota_takes_back_what_stripes_hold() {
    let (time, hot) = striped();
    on_each_stripe(4, |_| admitted(&hot, 50));
    hot.set_quota("100000000/s burst 100".parse().unwrap())
        .unwrap();
    assert!(!hot.is_shared(), "a hundred are too few to share");
    assert_eq!(admitted(&hot, BURST), 100);
    hot.set_quota("1000000000/s burst 25600".parse().unwrap())
        .unwrap();
    assert!(hot.is_shared());
    assert_eq!(admitted(&hot, BURST), 0);
    time.advance(Duration::from_secs(1));
    assert_eq!(admitted(&hot, 30_000), 25_600);
}

/// Tokens of ten units, and then of a hundred, for stripes that have been filled with the old ones.
#[test]
fn another_division_of_tokens_is_noticed() {
    let time = ManualClock::new();
    let of = |units| {
        "1000/s burst 100000"
            .parse::<Quota>()
            .unwrap()
            .units_per_token(units)
    };
    let bucket = TokenBucket::builder(of(10).unwrap())
        .clock(&time)
        .build()
        .unwrap();
    let hot = Striped::with_stripes(bucket, 4);
    assert_eq!(admitted(&hot, 1_000), 1_000);
    assert_eq!(hot.available(), 990_000);
    hot.set_quota(of(100).unwrap()).unwrap();
    assert_eq!(hot.available(), 9_900_000);
    assert_eq!(admitted(&hot, 1_000), 1_000);
    assert_eq!(hot.available(), 9_800_000);
}

#[test]
fn c6_nobody_overtakes_from_a_stripe() {
    let (time, hot) = striped();
    let taken: u64 = on_each_stripe(4, |_| admitted(&hot, 50)).iter().sum();
    let mut waits = Box::pin(hot.acquire().n(BURST).into_future());
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    assert!(waits.as_mut().poll(&mut context).is_pending());
    assert_eq!(on_each_stripe(4, |_| admitted(&hot, 5)), [0; 4]);
    time.advance(Duration::from_nanos(10 * taken));
    assert!(waits.as_mut().poll(&mut context).is_ready());
    time.advance(Duration::from_nanos(100));
    assert_eq!(admitted(&hot, 20), 10);
}

#[test]
fn waits_that_need_not_wait_are_served_from_a_stripe() {
    let (_, hot) = striped();
    for _ in 0..100 {
        hot.acquire().block().unwrap();
    }
    assert_eq!(hot.available(), BURST - 100);
}

#[test]
fn c4_a_clock_that_runs_backward_or_leaps_mints_nothing() {
    for leap in [1, 1_000_000_000_000, u64::MAX] {
        let (time, hot) = striped();
        assert_eq!(admitted(&hot, BURST), BURST);
        time.set(Timestamp::from_nanos(0));
        assert_eq!(admitted(&hot, 10), 0);
        time.set(Timestamp::from_nanos(leap));
        let first = admitted(&hot, 2 * BURST);
        assert!(first <= BURST, "{first} at {leap}");
        assert_eq!(admitted(&hot, 10), 0);
    }
}

#[test]
fn what_is_too_little_to_share_is_the_limiter_alone() {
    for quota in ["100/s burst 511", "999999937/s burst 1000000"] {
        let quota: Quota = quota.parse().unwrap();
        let time = ManualClock::new();
        let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
        let hot = Striped::with_stripes(bucket, 4);
        assert!(!hot.is_shared(), "{quota}");
        assert_eq!(admitted(&hot, 2_000_000), quota.max_burst());
    }
}

#[test]
fn stripes_are_a_power_of_two_within_bounds() {
    let stripes = |asked| Striped::with_stripes(at_rest().1, asked).stripes();
    assert_eq!([0, 1, 3, 64, 1_000_000].map(stripes), [1, 1, 4, 64, 64]);
}

#[test]
fn the_limiter_comes_back_with_what_stripes_held() {
    let (_, hot) = striped();
    let taken: u64 = on_each_stripe(4, |_| admitted(&hot, 50)).iter().sum();
    let alone = hot.into_inner();
    assert_eq!(admitted(&alone, 2 * BURST), BURST - taken);
}

#[test]
fn a_leaky_bucket_with_slack_is_shared() {
    let time = ManualClock::new();
    let bucket = LeakyBucket::builder("100000000/s".parse().unwrap())
        .clock(&time)
        .slack(BURST - 1)
        .build();
    let hot = Striped::with_stripes(bucket.unwrap(), 4);
    assert!(hot.is_shared());
    assert_eq!(admitted(&hot, 2 * BURST), BURST);
}

/// What was put into a stripe in one window and is taken in the next counts in the next.
#[test]
fn c1_a_window_counts_what_stripes_spend_in_it() {
    let time = ManualClock::new();
    let quota: Quota = "2560/s".parse().unwrap();
    let window = FixedWindow::builder(quota).clock(&time).build().unwrap();
    let hot = Striped::with_stripes(window, 4);
    assert!(hot.is_shared());
    on_each_stripe(4, |_| admitted(&hot, 50));
    time.advance(Duration::from_secs(1));
    let hoarded: u64 = on_each_stripe(4, |_| admitted(&hot, 20)).iter().sum();
    let rest = admitted(&hot, 2 * BURST);
    assert!(hoarded + rest <= BURST, "{hoarded} and {rest}");
    assert!(hoarded + rest >= BURST - SHARED, "{hoarded} and {rest}");
    let denied = hot.try_acquire().unwrap_err();
    time.advance(denied.retry_after().unwrap());
    assert_eq!(admitted(&hot, 2 * BURST), BURST);
}

#[test]
fn c5_a_batch_gives_back_what_is_left() {
    let (_, bucket) = at_rest();
    let bucket = Arc::new(bucket);
    let mut batch = Batch::new(Arc::clone(&bucket), 64);
    assert_eq!(batch.left(), 0);
    for _ in 0..10 {
        batch.try_acquire().unwrap();
    }
    assert_eq!((batch.left(), bucket.available()), (54, BURST - 64));
    batch.try_acquire_n(100).unwrap();
    assert_eq!((batch.left(), bucket.available()), (18, BURST - 128));
    assert!(batch.try_acquire_n(BURST + 1000).unwrap_err().is_never());
    assert_eq!(batch.left(), 18);
    drop(batch);
    assert_eq!(bucket.available(), BURST - 110);
}

#[test]
fn c3_a_batch_says_when() {
    let (time, bucket) = at_rest();
    assert_eq!(bucket.take_up_to(BURST - 3), BURST - 3);
    let mut batch = Batch::new(&bucket, 64);
    assert_eq!((0..10).filter(|_| batch.try_acquire().is_ok()).count(), 3);
    let wait = batch.try_acquire_n(5).unwrap_err().retry_after().unwrap();
    assert_eq!(wait, Duration::from_nanos(50));
    time.advance(wait - Duration::from_nanos(1));
    assert!(batch.try_acquire_n(5).is_err());
    time.advance(Duration::from_nanos(1));
    assert!(batch.try_acquire_n(5).is_ok());
}

#[test]
fn behind_dyn_it_is_a_limiter_like_any_other() {
    let (time, hot) = striped();
    let limiter: Arc<dyn Limiter> = Arc::new(hot);
    assert!(limiter.peek().is_ok());
    assert_eq!(admitted(&*limiter, 2 * BURST), BURST);
    assert!(limiter.peek().is_err());
    assert!(limiter.try_reserve_n(1).unwrap().is_ok());
    assert_eq!(limiter.try_acquire_n(0), Ok(()));
    time.advance(Duration::from_nanos(20));
    assert_eq!(limiter.available(), 1);
}

/// A stripe is spent, then the clock is set back, and only then somebody finds it spent.
#[test]
fn c1_c4_what_was_spent_before_the_clock_was_set_back_was_not_spent_after_it() {
    let (time, hot) = striped();
    on_each_stripe(4, |_| admitted(&hot, 30));
    let before = time.now();
    // Full again, as far as stripes leave room.
    time.advance(Duration::from_secs(1));
    let late = time.now();
    let held = on_each_stripe(4, |_| admitted(&hot, 5)).iter().sum::<u64>();
    time.set(before);
    // Takes everything back.
    assert!(hot.available() < BURST);
    time.set(late);
    let rest = admitted(&hot, 2 * BURST);
    assert!(held + rest <= BURST, "{held} and {rest} at one instant");
}

/// Taking from a stripe reads no clock. So by the time of a clock that is set back, more than a burst can be admitted in an
/// interval; by limiter time it cannot.
#[test]
fn c1_c4_what_a_stripe_holds_when_the_clock_is_set_back_counts_at_the_latest_time() {
    let time = ManualClock::new();
    let quota: Quota = "6453201/h burst 6453201".parse().unwrap();
    let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
    let hot = Striped::with_stripes(bucket, 1);
    hot.try_acquire_n(6_453_200).unwrap();
    // Full again. Who asks twice within a millisecond is given a stripe.
    time.set(Timestamp::from_nanos(81_539_935_000_000));
    hot.try_acquire().unwrap();
    time.advance(Duration::from_millis(1));
    hot.try_acquire().unwrap();
    time.set(Timestamp::from_nanos(300));
    let eighth = quota.max_burst() / 8;
    let back = admitted(&hot, eighth + 1);
    assert!((2..=eighth).contains(&back), "{back}");
    time.set(Timestamp::from_nanos(81_539_936_000_000));
    let rest = hot.take_up_to(u64::MAX);
    // In that millisecond, 1.79 tokens flow in.
    assert!(
        2 + back + rest <= quota.max_burst() + 1,
        "{back} and {rest}"
    );
}

/// The wait for a token is noted, and then parts of one are taken.
#[test]
fn c3_a_part_of_a_token_that_is_taken_makes_the_wait_longer() {
    let time = ManualClock::new();
    let quota: Quota = "100000000/s burst 2560".parse().unwrap();
    let quota = quota.units_per_token(10).unwrap();
    let bucket = TokenBucket::builder(quota).clock(&time).build().unwrap();
    let hot = Striped::with_stripes(bucket, 4);
    assert_eq!(admitted(&hot, 2 * BURST), BURST);
    let wait = |limiter: &Striped<TokenBucket>| limiter.try_acquire().unwrap_err().retry_after();
    assert_eq!(wait(&hot), Some(Duration::from_nanos(10)));
    time.advance(Duration::from_nanos(5));
    assert_eq!(wait(&hot), Some(Duration::from_nanos(5)));
    hot.try_acquire_n(3).unwrap();
    assert_eq!(wait(&hot), Some(Duration::from_nanos(8)));
}

#[test]
fn c1_a_batch_knows_what_its_units_were() {
    let time = ManualClock::new();
    let of = |units| {
        let quota: Quota = "1000/s burst 100".parse().unwrap();
        quota.units_per_token(units).unwrap()
    };
    for (before, after) in [(10, 100), (100, 10)] {
        let bucket = TokenBucket::builder(of(before)).clock(&time);
        let bucket = bucket.build().unwrap();
        let mut batch = Batch::new(&bucket, 20 * before);
        batch.try_acquire().unwrap();
        bucket.set_quota(of(after)).unwrap();
        let mut total = 1;
        for _ in 0..1000 {
            total += u64::from(batch.try_acquire().is_ok());
        }
        drop(batch);
        total += admitted(&bucket, 1000);
        assert_eq!(total, 100, "{before} units, and then {after}");
    }
}

/// What is put back when the bucket has long been full again is not there twice.
#[test]
fn c1_c5_a_batch_gives_back_only_what_there_is_room_for() {
    let (time, bucket) = at_rest();
    let mut batch = Batch::new(&bucket, 64);
    batch.try_acquire().unwrap();
    time.advance(Duration::from_secs(1));
    let first = admitted(&bucket, 2 * BURST);
    drop(batch);
    let more = admitted(&bucket, 2 * BURST);
    assert!(first + more <= BURST, "{first} and {more} at one instant");

    let time = ManualClock::new();
    let quota: Quota = "2560/s".parse().unwrap();
    let window = FixedWindow::builder(quota).clock(&time).build().unwrap();
    let mut batch = Batch::new(&window, 64);
    batch.try_acquire().unwrap();
    time.advance(Duration::from_secs(1));
    let first = admitted(&window, 2 * BURST);
    drop(batch);
    let more = admitted(&window, 2 * BURST);
    assert!(first + more <= BURST, "{first} and {more} in one window");
}
