//! The decaying bucket against the exponential function, computed to 120 bits from its series.
//!
//! `FLOWGATE_OPS` sets how many operations the histories have (100,000 unless it is set).

use crate::effort::number;
use flowgate::{DecayingBucket, Limiter, ManualClock, Timestamp};
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const MOST: u64 = (1 << 32) - 1;

fn bucket(capacity: u64, half_life_ns: u64) -> DecayingBucket {
    DecayingBucket::builder(capacity, Duration::from_nanos(half_life_ns))
        .clock(ManualClock::new())
        .build()
        .expect("in range")
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// Numbers from 0 to 1 with so many bits behind the point.
const BITS: u32 = 120;
/// Levels, in units, with so many.
const LEVEL_BITS: u32 = 80;

/// a · b, both with their bits behind the point, with those of `a`; rounded down.
fn times(a: u128, b: u128) -> u128 {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let ((left1, left0), (right1, right0)) = (halves(a1 * b0), halves(a0 * b1));
    let (carried, lowest) = halves(a0 * b0);
    let (carry, middle) = halves(carried + left0 + right0);
    let high = a1 * b1 + left1 + right1 + carry;
    (high << (128 - BITS)) | (((middle << 64) | lowest) >> BITS)
}

/// ln 2 = Σ 1 / (k · 2^k).
fn ln_2() -> u128 {
    (1..BITS)
        .map(|k| (1_u128 << (BITS - k)) / u128::from(k))
        .sum()
}

/// 2^(−elapsed / half-life) by Σ (−x)^k / k!, right to some 2⁻¹¹⁰.
fn remaining(ln_2: u128, elapsed_ns: u64, half_life_ns: u64) -> u128 {
    let halvings = elapsed_ns / half_life_ns;
    if halvings >= u64::from(BITS) {
        return 0;
    }
    let (mut fraction, mut rest) = (0_u128, u128::from(elapsed_ns % half_life_ns));
    for _ in 0..BITS {
        rest *= 2;
        let bit = u128::from(rest >= u128::from(half_life_ns));
        rest -= bit * u128::from(half_life_ns);
        fraction = fraction << 1 | bit;
    }
    let x = times(ln_2, fraction);
    let (mut sum, mut term) = (1_u128 << BITS, 1_u128 << BITS);
    for k in (1..).step_by(2) {
        term = times(term, x) / k;
        sum -= term;
        term = times(term, x) / (k + 1);
        sum += term;
        if term == 0 {
            break;
        }
    }
    sum >> halvings
}

/// The level as it truly is, never rounded and never empty, and as it would be had nothing come back.
struct Model {
    ln_2: u128,
    half_life_ns: u64,
    time_ns: u64,
    level: u128,
    gross: u128,
}

impl Model {
    fn new(half_life_ns: u64) -> Self {
        Self {
            ln_2: ln_2(),
            half_life_ns,
            time_ns: 0,
            level: 0,
            gross: 0,
        }
    }

    /// Level and gross at the limiter's time.
    fn at(&self, now_ns: u64) -> (u128, u128) {
        let elapsed_ns = now_ns.saturating_sub(self.time_ns);
        let part = remaining(self.ln_2, elapsed_ns, self.half_life_ns);
        (times(self.level, part), times(self.gross, part))
    }

    fn pour(&mut self, now_ns: u64, n: u64) {
        (self.level, self.gross) = self.at(now_ns);
        self.time_ns = self.time_ns.max(now_ns);
        self.level += u128::from(n) << LEVEL_BITS;
        self.gross += u128::from(n) << LEVEL_BITS;
    }

    /// Takes out what is left of `n` units of `taken_ns`.
    fn give_back(&mut self, now_ns: u64, n: u64, taken_ns: u64) {
        (self.level, self.gross) = self.at(now_ns);
        self.time_ns = self.time_ns.max(now_ns);
        let age_ns = self.time_ns.saturating_sub(taken_ns);
        let part = remaining(self.ln_2, age_ns, self.half_life_ns);
        self.level = self
            .level
            .saturating_sub(times(u128::from(n) << LEVEL_BITS, part));
    }
}

/// A tick of a bucket of this capacity, in units.
fn tick(capacity: u64) -> u128 {
    let bits = 64 - capacity.leading_zeros();
    1 << (LEVEL_BITS - 32.min(48 - bits))
}

/// SplitMix64: enough to draw histories, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Of a random number of bits, at least 1.
    fn any(&mut self, most: u64) -> u64 {
        let bits = self.below(64);
        (self.next() >> bits) % most + 1
    }

    fn of<const N: usize>(&mut self, choices: [u64; N]) -> u64 {
        choices[self.below(N as u64) as usize]
    }

    fn step(&mut self, now_ns: u64, half_life_ns: u64) -> u64 {
        let part = self.below(half_life_ns);
        match self.below(16) {
            0 => now_ns.saturating_sub(part),
            1 => now_ns.saturating_sub(half_life_ns.saturating_mul(4)),
            2..=5 => now_ns.saturating_add(part / 1000),
            6..=9 => now_ns.saturating_add(part / 8),
            10 => now_ns.saturating_add(part),
            11 => now_ns.saturating_add(half_life_ns),
            12 => now_ns.saturating_add(half_life_ns.saturating_mul(self.below(60))),
            13 if self.below(40) == 0 => self.of([0, u64::MAX, u64::MAX - 1, u64::MAX / 2]),
            _ => now_ns.saturating_add(self.below(2)),
        }
    }
}

fn operations() -> u64 {
    number("FLOWGATE_OPS", 100_000)
}

#[test]
fn c1_c2_c3_c4_c5_agrees_with_the_exponential_function() {
    const EACH: u64 = 100;
    let mut draw = Draw(1);
    let (mut granted, mut refused, mut worst) = (0_u64, 0_u64, 0.0_f64);
    for _ in 0..operations().div_ceil(EACH) {
        let any = draw.any(MOST);
        let capacity = draw.of([1, 2, 3, 10, 1000, 65_535, 1 << 20, MOST, any]);
        let any = draw.any(i64::MAX as u64);
        let half_life = draw.of([1, 2, 3, 1000, 1_000_000_000, i64::MAX as u64, any, any]);
        let (limiter, mut model) = (bucket(capacity, half_life), Model::new(half_life));
        let full = u128::from(capacity) << LEVEL_BITS;
        // What was given up of it altogether: less than a tick, and a thought for how that decays.
        let forgotten = tick(capacity) + tick(capacity) / 8;
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let (mut now, mut told) = (draw.of([0, 0, any]), None);
        for _ in 0..EACH {
            // Now and then to the very instant that somebody was told.
            now = match told.take() {
                Some(then) if draw.below(2) == 0 => then,
                _ => draw.step(now, half_life),
            };
            let view = limiter.at(at(now));
            let some = draw.any(capacity);
            let n = draw.of([0, 1, 1, some, some / 4, capacity, capacity + 1, u64::MAX]);
            match draw.below(8) {
                0 => {
                    let units = view.take_up_to(n);
                    if units > 0 {
                        model.pour(now, units);
                        taken.push((model.time_ns, units));
                    }
                    assert!(model.at(now).0 <= full + forgotten || units == 0);
                }
                1 if !taken.is_empty() => {
                    let (then, units) = taken.swap_remove(draw.below(taken.len() as u64) as usize);
                    let back = view.refund(units, at(then));
                    assert!(back == units || back == 0, "{back} of {units} came back");
                    if back == units {
                        model.give_back(now, units, then);
                    }
                }
                _ => match view.try_acquire_n(n) {
                    Ok(()) if n == 0 => {}
                    Ok(()) => {
                        model.pour(now, n);
                        taken.push((model.time_ns, n));
                        let level = model.level;
                        assert!(
                            level <= full + forgotten,
                            "{n} admitted at {now}: over by {}",
                            level - full
                        );
                        granted += 1;
                    }
                    Err(denied) if n > capacity => assert!(denied.is_never()),
                    Err(denied) => {
                        let (level, gross) = model.at(now);
                        // Of each unit poured in, 4 ticks are the most that all roundings together leave.
                        let error =
                            gross / (1 << LEVEL_BITS) * tick(capacity) * 4 + tick(capacity) * 4;
                        let wanted = level + (u128::from(n) << LEVEL_BITS);
                        assert!(
                            wanted + error > full,
                            "{n} refused at {now} with room for it"
                        );
                        worst = worst.max(full.saturating_sub(wanted) as f64 / error as f64);
                        refused += 1;
                        let wait = denied.retry_after().expect("it fits").as_nanos();
                        told = u64::try_from(u128::from(now) + wait).ok();
                        if let Some(then) = told {
                            assert!(
                                limiter.at(at(then)).available() >= n,
                                "{n} not after {wait}"
                            );
                            assert!(
                                limiter.at(at(then - 1)).available() < n,
                                "{n} before {wait}"
                            );
                        }
                    }
                },
            }
            let seen = view.snapshot();
            assert_eq!((seen.limit, seen.remaining), (capacity, view.available()));
            assert_eq!(seen.reset_after.is_zero(), seen.remaining == capacity);
        }
    }
    println!("{granted} granted, {refused} refused; of the error allowed, {worst:.3} was used");
    assert!(granted > operations() / 10 && refused > operations() / 10);
}

/// The error of one more rounding each nanosecond does not add up without end.
#[test]
fn c2_roundings_do_not_add_up() {
    let half_life = 10_000;
    let (limiter, mut model) = (bucket(1000, half_life), Model::new(half_life));
    for now in 0..100_000 {
        if limiter.at(at(now)).try_acquire().is_ok() {
            model.pour(now, 1);
        } else {
            let (level, _) = model.at(now);
            let error = 1000 * 2 * tick(1000);
            assert!(
                level + (1 << LEVEL_BITS) + error > 1000 << LEVEL_BITS,
                "at {now}"
            );
        }
    }
}

/// In the steady state a bucket gives capacity · ln 2 per half-life.
#[test]
fn c1_the_steady_rate_is_the_capacity_times_ln_2_per_half_life() {
    let limiter = bucket(1000, 1_000_000);
    let admitted: u64 = (0..20_000_000_u64)
        .step_by(100)
        .map(|now| limiter.at(at(now)).take_up_to(1000))
        .sum();
    // 1000 at once and 19.9999 · 693.147…
    assert!((14_800..=14_863).contains(&admitted), "{admitted}");
}

/// Where the waits come from is integers alone, so these are the same on every machine. They are also
/// exactly ⌈10⁹ · log₂(1000 / (1000 − n))⌉, and for the last, with a tick of 2⁻³² in place of 1000 − n.
#[test]
fn c3_waits_are_the_same_to_the_bit_everywhere() {
    let limiter = bucket(1000, 1_000_000_000);
    limiter.at(at(0)).try_acquire_n(1000).expect("room");
    let table: [(u64, u64); 10] = [
        (1, 1443417),
        (2, 2888280),
        (10, 14499570),
        (100, 152003094),
        (250, 415037500),
        (333, 584241334),
        (500, 1000000000),
        (750, 2000000000),
        (999, 9965784285),
        (1000, 41965784285),
    ];
    for (n, wait_ns) in table {
        let denied = limiter.at(at(0)).try_acquire_n(n).expect_err("full");
        assert_eq!(
            denied.retry_after(),
            Some(Duration::from_nanos(wait_ns)),
            "{n}"
        );
    }
    let limiter = bucket(7, 3);
    let admitted: Vec<_> = (0..24)
        .map(|now| limiter.at(at(now)).take_up_to(7))
        .collect();
    assert_eq!(
        admitted,
        [
            7, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1
        ]
    );
}

#[test]
fn whole_half_lives_halve() {
    for (capacity, half_life) in [
        (8, 1),
        (64, 3),
        (1 << 20, 1_000_000_007),
        (1 << 31, 1 << 40),
    ] {
        let limiter = bucket(capacity, half_life);
        limiter.at(at(5)).try_acquire_n(capacity).expect("room");
        for halvings in 0..=capacity.ilog2() {
            let now = at(5 + half_life * u64::from(halvings));
            assert_eq!(
                limiter.at(now).available(),
                capacity - (capacity >> halvings)
            );
        }
    }
}

#[test]
fn c4_a_rest_of_any_length_empties_it() {
    for capacity in [1, 100, MOST] {
        let limiter = bucket(capacity, 1_000_000_000);
        limiter.at(at(0)).try_acquire_n(capacity).expect("room");
        let reset_after = limiter.at(at(0)).snapshot().reset_after;
        assert!(reset_after <= 48 * S, "{reset_after:?}");
        let then = at(0) + reset_after;
        assert_eq!(limiter.at(then).available(), capacity);
        assert_eq!(
            limiter.at(at(then.as_nanos() - 1)).available(),
            capacity - 1
        );
        assert_eq!(limiter.at(Timestamp::MAX).try_acquire_n(capacity), Ok(()));
    }
}

#[test]
fn c4_a_clock_that_runs_backward_adds_no_credit() {
    let limiter = bucket(10, 1_000_000_000);
    limiter
        .at(at(9_000_000_000))
        .try_acquire_n(10)
        .expect("room");
    for now in [8_999_999_999, 0, 5_000_000_000] {
        assert_eq!(limiter.at(at(now)).available(), 0);
        limiter.at(at(now)).set(10, S).expect("the same");
    }
    let denied = limiter
        .at(at(8_000_000_000))
        .try_acquire_n(5)
        .expect_err("full");
    assert_eq!(denied.retry_after(), Some(2 * S));
    assert_eq!(limiter.at(at(10_000_000_000)).available(), 5);
}

#[test]
fn c4_nothing_panics_on_any_number() {
    let edges = [0, 1, 2, MOST, MOST + 1, 1 << 63, u64::MAX - 1, u64::MAX];
    for (capacity, half_life) in [
        (1, 1),
        (MOST, 1),
        (1, i64::MAX as u64),
        (MOST, i64::MAX as u64),
    ] {
        let limiter = bucket(capacity, half_life);
        for now in edges.into_iter().chain(edges.into_iter().rev()) {
            let view = limiter.at(at(now));
            for n in edges {
                let _ = view.try_acquire_n(n).map_err(|denied| denied.retry_after());
                let _ = view.take_up_to(n);
                let _ = view.refund(n, at(now / 2));
                let _ = view.refund(n / 2, at(n));
                let _ = view.snapshot();
            }
            view.set(1, S).expect("in range");
            view.set(MOST, S).expect("in range");
            view.set(capacity, Duration::from_nanos(half_life))
                .expect("in range");
        }
    }
}

#[test]
fn c5_what_comes_back_is_what_is_left_of_it() {
    let limiter = bucket(100, 1000);
    limiter.at(at(0)).try_acquire_n(40).expect("room");
    limiter.at(at(1000)).try_acquire_n(40).expect("room");
    // 20 of the first and 40 of the second are left.
    assert_eq!(limiter.at(at(1000)).available(), 40);
    assert_eq!(limiter.at(at(1000)).refund(40, at(0)), 40);
    assert_eq!(limiter.at(at(1000)).available(), 60);
    // Of what nobody took, no more comes out than there is.
    assert_eq!(limiter.at(at(2000)).refund(80, at(1000)), 40);
    assert_eq!(limiter.at(at(2000)).available(), 100);
    assert_eq!(limiter.at(at(2000)).refund(1, at(2000)), 0);
    // A time that is yet to come, or older than memory.
    limiter.at(at(2000)).try_acquire_n(8).expect("room");
    assert_eq!(limiter.at(at(3000)).refund(8, Timestamp::MAX), 8);
    assert_eq!(limiter.at(at(3000)).available(), 100);
    limiter.at(at(100_000)).try_acquire_n(8).expect("room");
    assert_eq!(limiter.at(at(100_000)).refund(8, at(0)), 0);
    assert_eq!(limiter.at(at(100_000)).available(), 92);
}

#[test]
fn c1_a_change_keeps_the_level() {
    let limiter = bucket(1000, 1_000_000_000);
    limiter.at(at(0)).try_acquire_n(1000).expect("room");
    // 1000 to 500 by the old half-life, 500 to 250 by the new.
    limiter
        .at(at(1_000_000_000))
        .set(2000, 2 * S)
        .expect("in range");
    assert_eq!(limiter.at(at(1_000_000_000)).available(), 1500);
    assert_eq!(limiter.at(at(3_000_000_000)).available(), 1750);
    assert_eq!((limiter.capacity(), limiter.half_life()), (2000, 2 * S));
    // A level far above the new capacity is not forgotten.
    limiter
        .at(at(3_000_000_000))
        .set(MOST, S)
        .expect("in range");
    limiter
        .at(at(3_000_000_000))
        .try_acquire_n(1 << 31)
        .expect("room");
    limiter.at(at(3_000_000_000)).set(1, S).expect("in range");
    let denied = limiter
        .at(at(3_000_000_000))
        .try_acquire()
        .expect_err("full");
    // 2³¹ and 250 units, until less than a tick is left; room for which leaves 16 bits behind the point.
    let wait = denied.retry_after().expect("it fits");
    assert!((47 * S..48 * S).contains(&wait), "{wait:?}");
    let then = at(3_000_000_000) + wait;
    assert_eq!(limiter.at(at(then.as_nanos() - 1)).available(), 0);
    assert_eq!(limiter.at(then).try_acquire(), Ok(()));
}

#[test]
fn c1_c5_nothing_taken_before_a_change_comes_back() {
    let hour = 3600 * S;
    let limiter = bucket(100, 1_000_000_000);
    limiter.at(at(0)).try_acquire_n(60).expect("empty");
    let view = limiter.at(at(10_000_000_000));
    view.try_acquire_n(99).expect("60 have decayed");
    view.set(100, hour).expect("in range");
    // By the new half-life nearly all of the 60 would be left.
    assert_eq!(view.refund(60, at(0)), 0);
    assert_eq!(view.try_acquire_n(60).map_err(|_| ()), Err(()));
    // What was taken at the instant of the change has decayed by the new half-life alone.
    assert_eq!(view.refund(9, at(9_999_999_999)), 0);
    assert_eq!(view.refund(9, at(10_000_000_000)), 9);
    view.try_acquire_n(9).expect("given back");
    let later = limiter.at(at(10_000_000_000 + 3_600_000_000_000));
    assert_eq!(later.refund(9, at(10_000_000_000)), 9);
}

#[test]
fn c4_a_change_by_a_clock_that_runs_backward_adds_no_credit() {
    let time = ManualClock::new();
    time.set(at(1000));
    time.set(at(0));
    let half_life = Duration::from_nanos(16);
    let limiter = DecayingBucket::builder(8, half_life).clock(&time).build();
    let limiter = limiter.expect("in range");
    limiter.try_acquire_n(8).expect("empty");
    limiter.set(8, half_life).expect("in range");
    assert_eq!(limiter.available(), 0);
    assert!(limiter.try_acquire().is_err());
}

#[test]
fn c1_threads_at_one_instant_share_the_capacity() {
    let limiter = bucket(1000, 1_000_000_000);
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..1000).filter(|_| limiter.try_acquire().is_ok()).count()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    assert_eq!(admitted, 1000);
}

#[test]
fn settings_out_of_range_name_value_and_range() {
    let limiter = bucket(5, 5);
    for (capacity, half_life, message) in [
        (0, S, "a capacity of 0 is out of range: 1 to 4294967295"),
        (
            MOST + 1,
            S,
            "a capacity of 4294967296 is out of range: 1 to 4294967295",
        ),
        (
            1,
            Duration::ZERO,
            "a half-life in nanoseconds of 0 is out of range: 1 to 9223372036854775807",
        ),
        (
            1,
            Duration::MAX,
            "a half-life in nanoseconds of 18446744073709551615 is out of range: 1 to 9223372036854775807",
        ),
    ] {
        let error = DecayingBucket::new(capacity, half_life).expect_err("out of range");
        assert_eq!(error.to_string(), message);
        assert_eq!(limiter.set(capacity, half_life), Err(error));
    }
    assert_eq!((limiter.capacity(), limiter.half_life().as_nanos()), (5, 5));
}

#[test]
fn any_limiter_decides_like_its_own_type() {
    let time = ManualClock::new();
    let limiter = DecayingBucket::builder(4, S)
        .clock(&time)
        .build()
        .expect("in range");
    let any: &dyn Limiter = &limiter;
    assert!(any.try_acquire().is_ok());
    assert!(any.try_acquire_n(3).is_ok());
    assert!(any.try_reserve_n(1).is_none());
    assert_eq!((any.available(), any.snapshot().limit), (0, 4));
    assert!(any.try_acquire_n_at(at(1_000_000_000), 2).is_ok());
    time.advance(S);
    assert_eq!(any.available(), 0);
    assert_eq!(any.clock().now(), at(1_000_000_000));
}
