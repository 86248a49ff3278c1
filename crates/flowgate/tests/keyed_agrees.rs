//! A keyed limiter beside one limiter for each key: the same answers, whatever the times.

use flowgate::{
    Denied, FixedWindow, Keyed, KeyedAlgorithm, KeyedBuilder, KeyedCounts, LeakyBucket,
    ManualClock, Quota, SegmentedWindow, Timestamp, TokenBucket,
};
use std::any::TypeId;
use std::collections::HashMap;

/// Optimised, as in `ci/test`'s second run, there is time for more: ten million in all.
const OPERATIONS: u32 = if cfg!(debug_assertions) {
    30_000
} else {
    1_000_000
};

/// A limiter for one key.
trait Single: KeyedAlgorithm {
    fn single(quota: Quota, clock: &ManualClock) -> Self;
    fn keyed(quota: Quota) -> KeyedBuilder<Self>;
    fn try_n(&self, now: Timestamp, n: u64) -> Result<(), Denied>;
    fn refund(&self, now: Timestamp, n: u64) -> u64;
    fn left(&self, now: Timestamp) -> u64;
}

macro_rules! single {
    ($limiter:ident, $keyed:ident $(, $setting:ident = $value:expr)?) => {
        impl Single for $limiter {
            fn single(quota: Quota, clock: &ManualClock) -> Self {
                $limiter::builder(quota).clock(clock)$(.$setting($value))?.build().unwrap()
            }

            fn keyed(quota: Quota) -> KeyedBuilder<Self> {
                Keyed::$keyed(quota)
            }

            fn try_n(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
                self.at(now).try_acquire_n(n)
            }

            fn refund(&self, now: Timestamp, n: u64) -> u64 {
                self.at(now).refund(n)
            }

            fn left(&self, now: Timestamp) -> u64 {
                self.at(now).available()
            }
        }
    };
}

single!(TokenBucket, token_bucket);
single!(LeakyBucket, leaky_bucket);
single!(FixedWindow, fixed_window);
single!(SegmentedWindow, segmented_window, segments = 1);

/// The next time: the same, a little later, about as much as a token takes, long after, or earlier.
fn step(random: &mut fastrand::Rng, now_ns: u64, token_ns: u64) -> u64 {
    match random.u32(..20) {
        0..6 => now_ns,
        6..10 => now_ns + random.u64(..1000),
        10..16 => now_ns + random.u64(..token_ns * 2),
        16..18 => now_ns + random.u64(..token_ns * 50),
        18 => now_ns + token_ns * random.u64(..100),
        _ => now_ns.saturating_sub(random.u64(..token_ns * 3)),
    }
}

/// Asks both about random keys at random times. There are so few that nobody ever makes way for another, and no slot is used
/// again, so that a clock that runs back finds all keys as they were.
fn agree<L: Single>(quota: &str, keys: u64, seed: u64) {
    let quota: Quota = quota.parse().unwrap();
    let clock = ManualClock::new();
    let keyed = L::keyed(quota)
        .clock(&clock)
        .seed([1, 2])
        .capacity(10_000)
        .unwrap();
    let mut singles: HashMap<u64, L> = HashMap::new();
    let mut random = fastrand::Rng::with_seed(seed);
    let token_ns = (quota.period().as_nanos() as u64 / quota.count()).max(1);
    let mut now_ns = 1_000_000_000_u64;
    let is_segmented = TypeId::of::<L>() == TypeId::of::<SegmentedWindow>();
    let (mut newest_ns, mut admitted) = (0, 0_u64);
    for operation in 0..OPERATIONS {
        now_ns = step(&mut random, now_ns, token_ns).min(u64::MAX / 2);
        let now = Timestamp::from_nanos(now_ns);
        newest_ns = newest_ns.max(now_ns);
        let key = random.u64(..keys);
        let single = singles
            .entry(key)
            .or_insert_with(|| L::single(quota, &clock));
        let at = keyed.at(now);
        let n = match random.u32(..10) {
            0..7 => 1,
            7..9 => random.u64(..quota.max_burst() + 2),
            _ => 0,
        };
        let told = format!("{quota}, operation {operation}, key {key}, n {n}, at {now_ns}");
        assert_eq!(at.available(&key), single.left(now), "available, {told}");
        // What can come back depends on the latest time that there has been, for any key.
        if random.u32(..12) == 0 && now_ns == newest_ns {
            let expected = single.refund(now, n);
            // Of a segmented window, more can come back here: what came before the newest segment is known as well.
            let n = if is_segmented { expected } else { n };
            assert_eq!(at.refund(&key, n), expected, "refund, {told}");
            continue;
        }
        let peeked = at.peek_n(&key, n).map_err(|denied| denied.retry_after());
        let taken = at.try_acquire_n(&key, n);
        let expected = single.try_n(now, n);
        assert_eq!(
            taken.is_ok(),
            expected.is_ok(),
            "{told}: {taken:?}, not {expected:?}"
        );
        assert_eq!(
            peeked,
            taken.map_err(|denied| denied.retry_after()),
            "peek, {told}"
        );
        if let (Err(taken), Err(expected)) = (taken, expected) {
            assert_eq!(taken.to_string(), expected.to_string(), "{told}");
        }
        admitted += u64::from(taken.is_ok() && n > 0);
    }
    assert_eq!(keyed.counts(), KeyedCounts::default());
    assert!(admitted > u64::from(OPERATIONS) / 20, "{admitted} admitted");
}

#[test]
fn c1_c2_c3_c4_c5_token_buckets_answer_as_one_for_each_key() {
    // A token costs a whole number of 1/4096 ns.
    agree::<TokenBucket>("1000/s burst 5", 100, 1);
    agree::<TokenBucket>("100/min burst 20", 1_000, 2);
    agree::<TokenBucket>("40960000/s burst 1000", 50, 3);
    agree::<TokenBucket>("3/day burst 2", 10, 4);
}

#[test]
fn c1_c2_c3_c4_c5_leaky_buckets_answer_as_one_for_each_key() {
    agree::<LeakyBucket>("1000/s", 100, 5);
    agree::<LeakyBucket>("6/min burst 3", 100, 6);
}

#[test]
fn c1_c2_c3_c4_c5_fixed_windows_answer_as_one_for_each_key() {
    agree::<FixedWindow>("100/s", 100, 7);
    agree::<FixedWindow>("4095/min", 10, 8);
}

#[test]
fn c1_c2_c3_c4_c5_segmented_windows_answer_as_one_for_each_key() {
    agree::<SegmentedWindow>("100/s", 100, 9);
    agree::<SegmentedWindow>("5/10ms", 100, 10);
}
