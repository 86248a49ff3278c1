//! Every step against Guava's definitions, in fractions: permits, nanoseconds, and none of the integer tricks.

use super::WarmUp;
use super::parameters::Parameters;
use crate::algorithm::warm_up::State;
use crate::clock::{ManualClock, Timestamp};
use crate::quota::Quota;
use core::cmp::Ordering;
use core::ops::{Add, Div, Mul, Sub};
use core::time::Duration;
use num_rational::BigRational;

/// A fraction that is never shortened: that is what takes the time, and these live for one step.
#[derive(Clone, Debug)]
struct Fraction(BigRational);

fn whole(value: impl Into<u128>) -> Fraction {
    Fraction(BigRational::from_integer(value.into().into()))
}

fn ratio(numerator: impl Into<u128>, denominator: impl Into<u128>) -> Fraction {
    whole(numerator) / whole(denominator)
}

impl Fraction {
    fn ceil(&self) -> Fraction {
        Fraction(self.0.ceil())
    }

    fn min(self, other: Fraction) -> Fraction {
        if other < self { other } else { self }
    }

    fn max(self, other: Fraction) -> Fraction {
        if other > self { other } else { self }
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, Fraction(b): &Self) -> Option<Ordering> {
        let a = &self.0;
        (a.numer() * b.denom()).partial_cmp(&(b.numer() * a.denom()))
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, |$a:ident, $b:ident| $numer:expr, $denom:expr) => {
        impl $trait for &Fraction {
            type Output = Fraction;

            fn $method(self, other: Self) -> Fraction {
                let ($a, $b) = (&self.0, &other.0);
                Fraction(BigRational::new_raw($numer, $denom))
            }
        }

        impl $trait for Fraction {
            type Output = Fraction;

            fn $method(self, other: Self) -> Fraction {
                $trait::$method(&self, &other)
            }
        }
    };
}

operator!(
    Add,
    add,
    |a, b| a.numer() * b.denom() + b.numer() * a.denom(),
    a.denom() * b.denom()
);
operator!(
    Sub,
    sub,
    |a, b| a.numer() * b.denom() - b.numer() * a.denom(),
    a.denom() * b.denom()
);
operator!(
    Mul,
    mul,
    |a, b| a.numer() * b.numer(),
    a.denom() * b.denom()
);
// By more than 0.
operator!(
    Div,
    div,
    |a, b| a.numer() * b.denom(),
    a.denom() * b.numer()
);

/// `SmoothWarmingUp`, as it is written there. Times are in nanoseconds.
struct Guava {
    stable_interval: Fraction,
    cold_interval: Fraction,
    warm_up: Fraction,
    threshold: Fraction,
    max: Fraction,
}

#[derive(Clone, Debug)]
struct Permits {
    next_free: Fraction,
    stored: Fraction,
}

impl Guava {
    fn new(parameters: &Parameters) -> Self {
        let ticks_per_ns = parameters.ticks_per_ns;
        let stable_interval = ratio(parameters.curve.unit_ticks, ticks_per_ns);
        let cold_interval = &stable_interval * &whole(parameters.curve.cold_factor);
        let warm_up = ratio(parameters.curve.warm_up_ticks, ticks_per_ns);
        let threshold = &warm_up / &(&whole(2_u32) * &stable_interval);
        let max =
            &threshold + &(&(&whole(2_u32) * &warm_up) / &(&stable_interval + &cold_interval));
        Self {
            stable_interval,
            cold_interval,
            warm_up,
            threshold,
            max,
        }
    }

    /// What a state means.
    fn permits(&self, parameters: &Parameters, state: State) -> Permits {
        let unit = u128::from(parameters.curve.stored_per_tick())
            * u128::from(parameters.curve.unit_ticks);
        Permits {
            next_free: ratio(state.next_free, parameters.ticks_per_ns),
            stored: ratio(state.stored, unit),
        }
    }

    /// `resync`
    fn settled(&self, permits: &Permits, now_ns: u64) -> Permits {
        let now = whole(now_ns);
        if now <= permits.next_free {
            return permits.clone();
        }
        let stored = if self.warm_up == whole(0_u32) {
            whole(0_u32)
        } else {
            let cool_down_interval = &self.warm_up / &self.max;
            let stored = &permits.stored + &(&(&now - &permits.next_free) / &cool_down_interval);
            stored.min(self.max.clone())
        };
        Permits {
            next_free: now,
            stored,
        }
    }

    /// `reserveEarliestAvailable`
    fn spent(&self, permits: &Permits, n: u64) -> Permits {
        let n = whole(n);
        let drawn = permits.stored.clone().min(n.clone());
        let fresh = &n - &drawn;
        let above = (&permits.stored - &self.threshold).max(whole(0_u32));
        let above_drawn = above.clone().min(drawn.clone());
        let slope = if self.max == self.threshold {
            whole(0_u32)
        } else {
            &(&self.cold_interval - &self.stable_interval) / &(&self.max - &self.threshold)
        };
        let interval = |above: &Fraction| &self.stable_interval + &(above * &slope);
        let mean = (interval(&above) + interval(&(&above - &above_drawn))) / whole(2_u32);
        let level = &(&drawn - &above_drawn) + &fresh;
        let cost = &(&above_drawn * &mean) + &(&level * &self.stable_interval);
        Permits {
            next_free: &permits.next_free + &cost,
            stored: &permits.stored - &drawn,
        }
    }
}

/// At least `exact`, and by less than `step` more.
fn assert_rounded_up(what: &str, got: &Fraction, exact: &Fraction, step: &Fraction) {
    assert!(got >= exact, "{what}: {got:?} is less than {exact:?}");
    assert!(
        (got - exact) < *step,
        "{what}: {got:?} is {step:?} or more over {exact:?}"
    );
}

fn seen(limiter: &WarmUp) -> (Parameters, State) {
    limiter.engine.cell.view_state()
}

/// One unit of what is stored is kept to this, and a tick, in permits and nanoseconds.
fn steps(parameters: &Parameters) -> (Fraction, Fraction) {
    let unit =
        u128::from(parameters.curve.stored_per_tick()) * u128::from(parameters.curve.unit_ticks);
    (
        ratio(1_u128 << parameters.grain, unit),
        ratio(1_u32, parameters.ticks_per_ns),
    )
}

fn assert_step(before: (Parameters, State), after: State, now_ns: u64, n: u64) -> Fraction {
    let (parameters, before) = before;
    let guava = Guava::new(&parameters);
    let settled = guava.settled(&guava.permits(&parameters, before), now_ns);
    let exact = guava.spent(&settled, n);
    let got = guava.permits(&parameters, after);
    let (grain, tick) = steps(&parameters);
    assert!(
        grain < ratio(1_u32, 512_u32),
        "a grain of {grain:?} permits"
    );
    // What is past the last instant may as well be right after it.
    if got.next_free != whole(1_u128 << 64) {
        assert_rounded_up("next free", &got.next_free, &exact.next_free, &tick);
    }
    assert_rounded_up("stored", &got.stored, &exact.stored, &grain);
    settled.next_free
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => default,
    }
}

/// A number below `end` of any order of magnitude.
fn of_any_size(random: &mut fastrand::Rng, end: u64) -> u64 {
    let bits = random.u32(0..=64);
    random.u64(..).checked_shr(bits).unwrap_or(0) % end.max(1)
}

fn draw_quota(random: &mut fastrand::Rng) -> Quota {
    let count = 1 + of_any_size(random, 1_000_000_000);
    let period_s = *random.choice(&[1, 60, 3_600, 86_400]).expect("a choice");
    Quota::new(count, Duration::from_secs(period_s))
        .and_then(|quota| quota.try_burst(1_000_000_000))
        .expect("a quota within the range")
}

fn draw_limiter(random: &mut fastrand::Rng, begin_ns: u64) -> WarmUp {
    loop {
        let cold_factor = match random.u32(0..4) {
            0 => 3,
            1 => random.u32(1..=12),
            2 => 1 + (random.u32(..) >> random.u32(0..32)) / 2,
            _ => random.u32(2..5),
        };
        let warm_up = Duration::from_nanos(of_any_size(random, 1 << 50));
        let built = WarmUp::builder(draw_quota(random))
            .warm_up(warm_up)
            .cold_factor(cold_factor)
            .clock(ManualClock::new())
            .build();
        if let Ok(limiter) = built {
            let _ = limiter.at(Timestamp::from_nanos(begin_ns)).try_acquire();
            return limiter;
        }
    }
}

/// Never less than the definition, over it by less than is said, and a refusal changes nothing. `FLOWGATE_OPS` sets how
/// many operations (10⁵ unless it is set), `FLOWGATE_SEED` where to begin.
#[test]
fn c1_c2_c3_c8_every_step_is_guavas_rounded_up_once() {
    let operations = number("FLOWGATE_OPS", 100_000);
    let seed = number("FLOWGATE_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut done = 0;
    let (mut granted, mut above, mut grained) = (0_u64, 0_u64, 0_u64);
    while done < operations {
        let mut now_ns = of_any_size(&mut random, u64::MAX);
        let limiter = draw_limiter(&mut random, now_ns);
        for _ in 0..40 {
            done += 1;
            let before = seen(&limiter);
            let (parameters, state) = before;
            let missing_ns = parameters
                .ns(state.next_free)
                .saturating_sub(u128::from(now_ns));
            let missing_ns = u64::try_from(missing_ns).unwrap_or(u64::MAX);
            let warm_up_ns = parameters.curve.warm_up_ticks / parameters.ticks_per_ns;
            now_ns = match random.u32(0..8) {
                0..4 => now_ns.saturating_add(missing_ns),
                4 => now_ns.saturating_add(missing_ns.saturating_sub(1)),
                5 => now_ns
                    .saturating_add(missing_ns)
                    .saturating_add(of_any_size(
                        &mut random,
                        warm_up_ns.saturating_mul(2).max(2),
                    )),
                6 => now_ns.saturating_add(of_any_size(&mut random, 1 << 40)),
                _ => now_ns.saturating_sub(of_any_size(&mut random, 1 << 40)),
            };
            let n = match random.u32(0..3) {
                0 => 1,
                1 => 1 + of_any_size(&mut random, 1_000),
                _ => 1 + of_any_size(&mut random, parameters.burst_units),
            };
            let at = limiter.at(Timestamp::from_nanos(now_ns));
            if random.u32(0..4) == 0 {
                let Ok(reservation) = at.reserve_n(n) else {
                    assert!(parameters.ns(state.next_free) > u128::from(u64::MAX));
                    break;
                };
                let turn = assert_step(before, seen(&limiter).1, now_ns, n);
                assert_eq!(whole(reservation.at().as_nanos()), turn.ceil());
            } else if let Err(denied) = at.try_acquire_n(n) {
                assert_eq!(seen(&limiter).1, state, "a refusal wrote");
                let wait = denied.retry_after().expect("n is within the burst");
                let exact = ratio(state.next_free, parameters.ticks_per_ns) - whole(now_ns);
                assert!(exact > whole(0_u32), "refused for nothing");
                assert_eq!(whole(wait.as_nanos()), exact.ceil());
                continue;
            } else if parameters.now(now_ns) < state.next_free {
                panic!("granted before its time");
            } else {
                assert_step(before, seen(&limiter).1, now_ns, n);
            }
            granted += 1;
            above += u64::from(2 * state.stored > parameters.curve.full());
            grained += u64::from(parameters.grain > 0);
            if random.u32(0..16) == 0 {
                let quota = draw_quota(&mut random);
                change(&limiter, quota);
            }
        }
    }
    println!(
        "{done} operations, seed {seed}: {granted} granted, {above} half cold, {grained} with grains"
    );
    assert!(granted > operations / 4 && above > operations / 20 && grained > operations / 50);
}

/// Keeps the debt as a time and the part of the store that is full, both rounded up; or refuses and changes nothing.
fn change(limiter: &WarmUp, quota: Quota) {
    let (old, state) = seen(limiter);
    let changed = limiter.set_quota(quota);
    let (new, restated) = seen(limiter);
    if changed.is_err() {
        assert_eq!(restated, state, "a refused change wrote");
        assert_eq!(new.epoch, old.epoch);
        return;
    }
    assert_eq!(new.epoch, old.epoch + 1);
    let ((old_guava, new_guava), (grain, tick)) =
        ((Guava::new(&old), Guava::new(&new)), steps(&new));
    let was = old_guava.permits(&old, state);
    let is = new_guava.permits(&new, restated);
    if is.next_free != whole(1_u128 << 64) {
        assert_rounded_up("next free", &is.next_free, &was.next_free, &tick);
    }
    if old_guava.max > whole(0_u32) {
        // A tick of what is stored is the least that it can be rescaled to.
        let exact = &(&was.stored * &new_guava.max) / &old_guava.max;
        let least = ratio(1_u32, new.curve.stored_per_tick()) / whole(new.curve.unit_ticks);
        assert_rounded_up("stored", &is.stored, &exact, &(grain + least));
    }
}

#[test]
fn the_base_follows_the_next_free_time_and_loses_nothing() {
    // 2³⁰ ticks per nanosecond or so: 64 bits of them are 18 seconds.
    let quota = Quota::per_second(999_999_937).burst(1_000_000_000);
    let limiter = WarmUp::builder(quota)
        .clock(ManualClock::new())
        .build()
        .expect("a limiter");
    let mut base = seen(&limiter).0.base_ns;
    let mut moves = 0;
    for k in 0..100_u64 {
        let reservation = limiter
            .at(Timestamp::ORIGIN)
            .reserve_n(1_000_000_000)
            .expect("a turn");
        let exact = (u128::from(k) * 1_000_000_000 * 1_000_000_000).div_ceil(999_999_937);
        assert_eq!(u128::from(reservation.at().as_nanos()), exact, "after {k}");
        moves += u32::from(seen(&limiter).0.base_ns != base);
        base = seen(&limiter).0.base_ns;
    }
    assert!(moves >= 5, "the base moved {moves} times");
}

#[test]
fn the_end_of_time_is_never_reached() {
    let limiter = WarmUp::builder(Quota::per_day(1).burst(100_000))
        .warm_up(Duration::from_secs(86_400))
        .clock(ManualClock::new())
        .build()
        .expect("a limiter");
    let last = limiter.at(Timestamp::MAX);
    assert_eq!(last.try_acquire_n(100_000), Ok(()));
    assert!(last.try_acquire().is_err());
    assert!(last.reserve().expect_err("no time is left").is_never());
    assert_eq!(limiter.at(Timestamp::ORIGIN).available(), 0);
}
