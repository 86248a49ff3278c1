//! [`Striped`] beside the limiter alone, for the limiters and settings that `types/striped.rs` does not try this way:
//! it admits nothing that the other would not, and refuses more by no more than it shares.
//!
//! `FLOWGATE_OPS` sets how many operations each makes (100,000 unless it is set), `FLOWGATE_SEED` where they begin.

use crate::effort::number;
use flowgate::{
    Carry, FixedWindow, LeakyBucket, ManualClock, OneWord, Quota, Refill, Striped, Timestamp,
    TokenBucket,
};
use std::time::Duration;

/// What all stripes together are issued at the most is an eighth of this.
const BURST: u64 = 2_560;
const STRIPES: usize = 4;
/// Operations with one limiter.
const RUN: u64 = 2_000;

/// What is compared.
struct Pair<L> {
    time: ManualClock,
    hot: Striped<L>,
    alone: L,
    /// The most that a quota in force has allowed at once.
    burst: u64,
}

/// The verbs that the two have in common, of the one alone at an explicit time.
trait Verbs: OneWord + Sized {
    fn set(&self, quota: Quota);
    fn give_back(&self, n: u64) -> u64;
    fn up_to(&self, n: u64) -> u64;
}

impl Verbs for TokenBucket {
    fn set(&self, quota: Quota) {
        self.set_quota_with(quota, Carry::Kept);
    }

    fn give_back(&self, n: u64) -> u64 {
        self.refund(n)
    }

    fn up_to(&self, n: u64) -> u64 {
        self.take_up_to(n)
    }
}

impl Verbs for LeakyBucket {
    fn set(&self, quota: Quota) {
        self.set_quota(quota).unwrap();
    }

    fn give_back(&self, n: u64) -> u64 {
        self.refund(n)
    }

    fn up_to(&self, n: u64) -> u64 {
        self.take_up_to(n)
    }
}

impl Verbs for FixedWindow {
    fn set(&self, quota: Quota) {
        self.set_quota(quota).expect("in range");
    }

    fn give_back(&self, n: u64) -> u64 {
        self.refund(n)
    }

    fn up_to(&self, n: u64) -> u64 {
        self.take_up_to(n)
    }
}

impl<L: Verbs> Pair<L> {
    fn new(build: impl Fn(&ManualClock) -> L) -> Self {
        let time = ManualClock::new();
        time.set(Timestamp::from_nanos(1_000_000_000));
        let hot = Striped::with_stripes(build(&time), STRIPES);
        assert!(hot.is_shared());
        let alone = build(&time);
        Self {
            time,
            hot,
            alone,
            burst: BURST,
        }
    }

    fn shared(&self) -> u64 {
        self.burst / 8
    }

    /// What the one alone has more.
    fn wasted(&self) -> u64 {
        let (has, hot) = (self.alone.available(), self.hot.get_ref().available());
        assert!(hot <= has, "over: {hot} of {has}");
        assert!(has - hot <= self.shared(), "{has} and {hot}");
        has - hot
    }

    fn take(&self, n: u64) {
        let has = self.alone.available();
        let answer = match n {
            1 => self.hot.try_acquire(),
            _ => self.hot.try_acquire_n(n),
        };
        match answer {
            Ok(()) => {
                assert!(has >= n, "over: {n} of {has}");
                assert!(self.alone.try_acquire_n(n).is_ok());
            }
            Err(denied) if denied.is_never() => assert!(self.alone.try_acquire_n(n).is_err()),
            Err(denied) => {
                assert!(has < n + self.shared(), "{n} of {has} refused");
                self.waits(n, denied.retry_after().expect("it is known"));
            }
        }
    }

    /// Contract C3, of the striped one: nobody acts meanwhile.
    fn waits(&self, n: u64, wait: Duration) {
        assert!(wait > Duration::ZERO);
        let hot = self.hot.get_ref();
        assert_eq!(hot.try_acquire_n(n).unwrap_err().retry_after(), Some(wait));
    }
}

/// `quota` of one of some kinds, with a burst that is shared, or not.
fn compare<L: Verbs>(
    seed: u64,
    build: impl Fn(&ManualClock) -> L,
    quota: impl Fn(&mut fastrand::Rng) -> (Quota, u64),
    step_ns: u64,
) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pair = Pair::new(build);
    let mut most_wasted = 0;
    for _ in 0..RUN {
        pair.time
            .advance(Duration::from_nanos(match random.u32(..20) {
                0 => random.u64(..5_000 * step_ns),
                1..5 => random.u64(..50 * step_ns),
                _ => random.u64(..3 * step_ns),
            }));
        match random.u32(..200) {
            0 => {
                let (quota, burst) = quota(&mut random);
                pair.burst = pair.burst.max(burst);
                pair.hot.get_ref().set(quota);
                pair.alone.set(quota);
            }
            1 => {
                let n = random.u64(..BURST);
                let hot = pair.hot.get_ref().give_back(n);
                // What was refused to the one only is given back to the other as well.
                let alone = pair.alone.give_back(n);
                assert!(hot <= n && alone <= n);
            }
            2 => {
                let n = random.u64(..BURST);
                let took = pair.hot.get_ref().up_to(n);
                assert!(pair.alone.available() >= took, "over: {took}");
                assert_eq!(pair.alone.up_to(took), took);
            }
            3..6 => most_wasted = most_wasted.max(pair.wasted()),
            _ => pair.take(match random.u32(..50) {
                0 => random.u64(..=BURST),
                1..10 => random.u64(..20),
                _ => 1,
            }),
        }
    }
    most_wasted
}

fn explore(seed_by: u64, compare: impl Fn(u64) -> u64) {
    let first = number("FLOWGATE_SEED", 1);
    let mut most_wasted = 0;
    for run in 0..number("FLOWGATE_OPS", 100_000).div_ceil(RUN) {
        let seed = (first + run) << 8 | seed_by;
        most_wasted = most_wasted.max(compare(seed));
    }
    println!("{most_wasted} wasted at the most");
}

fn quota_of(random: &mut fastrand::Rng) -> (Quota, u64) {
    let rate = [50_000_000, 100_000_000, 200_000_000][random.usize(..3)];
    let burst = [100, BURST, BURST, 2 * BURST][random.usize(..4)];
    (Quota::per_second(rate).burst(burst), burst)
}

#[test]
fn c1_c2_a_token_bucket_whose_quota_changes() {
    explore(0, |seed| {
        let build = |time: &ManualClock| {
            let quota = Quota::per_second(100_000_000).burst(BURST);
            TokenBucket::builder(quota)
                .clock(time)
                .build()
                .expect("in range")
        };
        compare(seed, build, quota_of, 10)
    });
}

#[test]
fn c1_c2_a_token_bucket_that_is_filled_in_intervals() {
    explore(1, |seed| {
        let quota = Quota::new(1_000, Duration::from_micros(10)).expect("in range");
        let build = |time: &ManualClock| {
            let bucket = TokenBucket::builder(quota.burst(BURST)).clock(time);
            bucket.refill(Refill::Interval).build().expect("in range")
        };
        let other = |random: &mut fastrand::Rng| {
            let burst = [100, BURST, 2 * BURST][random.usize(..3)];
            (quota.burst(burst), burst)
        };
        compare(seed, build, other, 10)
    });
}

#[test]
fn c1_c2_a_leaky_bucket_with_slack() {
    explore(2, |seed| {
        let build = |time: &ManualClock| {
            let quota = Quota::per_second(100_000_000);
            let bucket = LeakyBucket::builder(quota).clock(time).slack(BURST - 1);
            bucket.build().expect("in range")
        };
        compare(seed, build, quota_of, 10)
    });
}

#[test]
fn c1_c2_a_fixed_window_that_is_aligned() {
    explore(3, |seed| {
        let window = |limit| Quota::new(limit, Duration::from_micros(25)).expect("in range");
        let build = |time: &ManualClock| {
            let builder = FixedWindow::builder(window(BURST)).align(Timestamp::from_nanos(0));
            builder.clock(time).build().expect("in range")
        };
        let other = |random: &mut fastrand::Rng| {
            let limit = [100, BURST, 2 * BURST][random.usize(..3)];
            (window(limit), limit)
        };
        compare(seed, build, other, 10)
    });
}
