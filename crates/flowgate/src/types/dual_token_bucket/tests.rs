//! The step and the bits of its state against the exact oracle.

use super::DualTokenBucket;
use super::parameters::Parameters;
use crate::algorithm::dual_token_bucket::{self as algorithm, State};
use crate::clock::{ManualClock, Timestamp};
use crate::limiter::{At, Reservation};
use crate::quota::Quotas;
use crate::store::cell::{MovingBase as _, Parameters as _};
use crate::verdict::Denied;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use flowgate_testkit::oracle::DualOracle;
use flowgate_testkit::promise::{Promise, TimedGrant};
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
use num_rational::BigRational;
use proptest::prelude::*;

/// Full at all times.
const FULL: State = State([0; 2]);

/// A limiter at explicit times.
struct Bench {
    limiter: DualTokenBucket,
    /// How often the base has moved.
    moves: u32,
}

impl Bench {
    fn new(quotas: &str) -> Self {
        let quotas = quotas.parse().expect("quotas");
        Self {
            limiter: DualTokenBucket::builder(quotas)
                .clock(ManualClock::new())
                .build()
                .expect("every pair is accepted"),
            moves: 0,
        }
    }

    fn seen(&self) -> (Parameters, State) {
        self.limiter.engine.cell.view_state()
    }

    fn at(&self, ns: u64) -> At<'_, DualTokenBucket> {
        self.limiter.at(Timestamp::from_nanos(ns))
    }

    fn try_acquire_at(&self, at_ns: u64, n: u64) -> bool {
        self.at(at_ns).try_acquire_n(n).is_ok()
    }

    fn try_acquire(&mut self, at_ns: u64, n: u64) -> Result<(), Denied> {
        self.at(at_ns).try_acquire_n(n)
    }

    /// The time from which the units may be used; none if there is no such time.
    fn reserve(&mut self, at_ns: u64, n: u64) -> Option<u64> {
        let base_ns = self.seen().0.base_ns;
        let reserved = self.at(at_ns).reserve_n(n).ok()?;
        let told_ns = reserved.at().as_nanos();
        self.moves += u32::from(self.seen().0.base_ns != base_ns);
        Some(told_ns)
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let base_ns = self.seen().0.base_ns;
        let at = self.at(step.at_ns);
        let refused = |denied: Denied| {
            OperationOutcome::Refused(match denied.retry_after() {
                Some(wait) => Retry::After(wait),
                None => Retry::Never,
            })
        };
        let outcome = match step.op {
            Op::Try { n } => at
                .try_acquire_n(n)
                .map_or_else(refused, |()| OperationOutcome::Admitted),
            Op::Reserve { n, within_ns } => {
                let reserved = match within_ns {
                    Some(ns) => at.reserve_n_within(n, Duration::from_nanos(ns)),
                    None => at.reserve_n(n),
                };
                let promised = |reserved: Reservation<'_>| OperationOutcome::Promised {
                    at_ns: reserved.at().as_nanos(),
                };
                reserved.map_or_else(refused, promised)
            }
            Op::TakeUpTo { n } => OperationOutcome::Took(at.take_up_to(n)),
            Op::Refund { n } => OperationOutcome::Back(at.refund(n)),
            Op::Available => OperationOutcome::Holds(at.available()),
            _ => OperationOutcome::Skipped,
        };
        // A refund may move it nearer; that is not counted.
        let is_moved = !matches!(step.op, Op::Refund { .. }) && self.seen().0.base_ns != base_ns;
        self.moves += u32::from(is_moved);
        outcome
    }
}

fn full_after_ns(parameters: &Parameters, state: State, now_ns: u64) -> u128 {
    algorithm::full_at_ns(&parameters.buckets, state).saturating_sub(now_ns.into())
}

fn is_exact(parameters: &Parameters) -> bool {
    parameters.shares.iter().all(|share| share.grain == 0)
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => default,
    }
}

/// A number from 1 to `most` of any order of magnitude.
fn of_any_size(random: &mut fastrand::Rng, most: u64) -> u64 {
    let bits = 64 - most.leading_zeros();
    (random.u64(..) >> (64 - random.u32(1..=bits))).clamp(1, most)
}

fn draw_quota(random: &mut fastrand::Rng, units: u64) -> String {
    let period = random
        .choice(["s", "7s", "min", "h", "day", "30d"])
        .expect("a choice");
    let count = of_any_size(random, 1_000_000_000);
    let burst = match random.u32(0..3) {
        0 => String::new(),
        1 => format!(" burst {}", of_any_size(random, 1_000_000_000)),
        _ => format!(" burst {}", of_any_size(random, 10)),
    };
    format!("{count}/{period}{burst} units {units}")
}

fn draw_quotas(random: &mut fastrand::Rng) -> String {
    loop {
        let units = if random.u32(0..4) == 0 {
            1 + random.u64(0..1_000)
        } else {
            1
        };
        let mut quotas = draw_quota(random, units);
        if random.u32(0..10) > 0 {
            quotas = format!("{quotas}; {}", draw_quota(random, units));
        }
        if quotas.parse::<Quotas>().is_ok() {
            return quotas;
        }
    }
}

/// Draws what to do next, mostly near the time at which it changes what is answered.
fn draw_step(random: &mut fastrand::Rng, at_ns: &mut u64, bench: &Bench) -> Step {
    let (parameters, state) = bench.seen();
    let most = parameters.limit();
    let n = match random.u32(0..8) {
        0..3 => 1,
        3 => 0,
        4 => most,
        5 => most.saturating_add(random.u64(0..2)),
        6 => algorithm::available(&parameters.buckets, state, *at_ns)
            .saturating_add(random.u64(0..2)),
        _ => of_any_size(random, most),
    };
    let wait_ns = match parameters.take(state, *at_ns, n) {
        Err(denied) => denied.retry_after().map_or(0, |wait| wait.as_nanos()),
        Ok(_) => full_after_ns(&parameters, state, *at_ns),
    };
    let wait_ns = u64::try_from(wait_ns).unwrap_or(u64::MAX);
    *at_ns = match random.u32(0..8) {
        0..3 => *at_ns,
        3 => at_ns.saturating_add(wait_ns),
        4 => at_ns.saturating_add(wait_ns.saturating_sub(1)),
        5 => at_ns.saturating_add(random.u64(0..=wait_ns.max(1))),
        6 => at_ns.saturating_add(of_any_size(random, 1 << 50)),
        _ => *at_ns,
    };
    let stale_ns = match random.u32(0..8) {
        0 => of_any_size(random, 1 << 40),
        _ => 0,
    };
    let op = match random.u32(0..16) {
        0..9 => Op::Try { n },
        9 => Op::Reserve { n, within_ns: None },
        10 => Op::Reserve {
            n,
            within_ns: Some(random.u64(0..=wait_ns)),
        },
        11 => Op::TakeUpTo { n },
        12 => Op::Available,
        _ => Op::Refund { n },
    };
    Step {
        at_ns: match op {
            // Never before the newest decision.
            Op::Refund { .. } => *at_ns,
            _ => at_ns.saturating_sub(stale_ns),
        },
        op,
    }
}

/// Each answer is the oracle's, to the unit and to the nanosecond. `FLOWGATE_OPS` sets how many operations (10⁵ unless it is
/// set), `FLOWGATE_SEED` where to begin.
#[test]
fn c1_c2_c3_c4_c5_c8_every_answer_is_the_oracles() {
    let operations = number("FLOWGATE_OPS", 100_000);
    let seed = number("FLOWGATE_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut done, mut admitted, mut refused, mut told, mut back, mut moves) = (0, 0, 0, 0, 0, 0);
    while done < operations {
        let quotas = draw_quotas(&mut random);
        let mut bench = Bench::new(&quotas);
        if !is_exact(&bench.seen().0) {
            continue;
        }
        let mut oracle = DualOracle::new(&quotas.parse().expect("quotas"));
        let mut at_ns = random.u64(..) >> random.u32(0..64);
        for _ in 0..60 {
            let step = draw_step(&mut random, &mut at_ns, &bench);
            let before = bench.seen().1;
            let right = oracle.step(&step);
            let got = bench.step(&step);
            assert_eq!(got, right, "{quotas}: {step} (seed {seed}, after {done})");
            let (parameters, state) = bench.seen();
            let full_ns = full_after_ns(&parameters, state, step.at_ns);
            assert_eq!(
                full_ns,
                oracle.full_after_ns(step.at_ns),
                "{quotas}: {step}"
            );
            done += 1;
            match got {
                OperationOutcome::Admitted => admitted += 1,
                OperationOutcome::Refused(_) => {
                    assert_eq!(state, before, "a refusal changed something");
                    refused += 1;
                }
                OperationOutcome::Promised { at_ns } => told += u64::from(at_ns > step.at_ns),
                OperationOutcome::Back(n) => back += u64::from(n > 0),
                _ => {}
            }
        }
        moves += bench.moves;
    }
    std::println!(
        "{done} operations, seed {seed}: {admitted} admitted, {refused} refused, {told} told to wait, {back} gave back, \
         {moves} moves of the base"
    );
    let often = operations / 100;
    assert!(admitted > often && refused > often && told > often && back > often);
    assert!(u64::from(moves) > operations / 1_000);
}

fn whole(value: impl Into<u128>) -> BigRational {
    BigRational::from_integer(value.into().into())
}

/// Where the two take more bits than there are, a grant may cost up to a grain more, which is less than a millionth of a unit,
/// and never less; a refusal changes nothing.
#[test]
fn c8_what_is_rounded_is_rounded_up_by_less_than_a_grain_for_each_grant() {
    let pairs = [
        "999983/s; 999999937/30d",
        "999999937/s burst 1000000000; 999999937/day burst 1000000000",
    ];
    for quotas in pairs {
        let mut bench = Bench::new(quotas);
        let mut random = fastrand::Rng::with_seed(3);
        let mut at_ns = 1_000_000_000_000_u64;
        let (mut moved, mut rounded) = (0, 0);
        for _ in 0..20_000 {
            at_ns += random.u64(0..3_000);
            let (parameters, before) = bench.seen();
            let n = 1 + random.u64(0..5);
            let exact = algorithm::take(&parameters.buckets, before, at_ns, n);
            let got = bench.try_acquire(at_ns, n);
            let after = bench.seen().1;
            let exact = match (exact, got) {
                (Ok(exact), Ok(())) => exact,
                (Err(_), Err(_)) => before,
                (exact, got) => panic!("{quotas}: {got:?} where the step says {exact:?}"),
            };
            for index in 0..2 {
                let grain = 1_u128 << parameters.shares[index].grain;
                assert!(
                    parameters.buckets[index].unit_ticks >> parameters.shares[index].grain
                        > 1_000_000
                );
                let more = after.0[index]
                    .checked_sub(exact.0[index])
                    .expect("never less");
                assert!(more < grain, "{quotas}: {more} of {grain}");
                rounded += u32::from(more > 0);
            }
            moved += u32::from(after != before);
        }
        assert!(
            moved > 1_000 && rounded > 1_000,
            "{quotas}: {moved}, {rounded}"
        );
    }
}

proptest! {
    #[test]
    fn words_hold_the_parameters(
        seed: u64,
        base_ns: u64,
        since_ns: u64,
        epoch: u64,
    ) {
        let quotas = draw_quotas(&mut fastrand::Rng::with_seed(seed));
        let quotas: Quotas = quotas.parse().expect("quotas");
        let parameters = Parameters { base_ns, since_ns, epoch, ..Parameters::new(&quotas) };
        prop_assert_eq!(Parameters::from_words(parameters.to_words()), parameters);
    }
}

#[test]
fn words_hold_the_largest_scale_and_the_coarsest_grain() {
    for quotas in [
        "1/s burst 2 units 4294967296; 1/min burst 3 units 4294967296",
        "2147483648/ns; 2147483648/ns",
        "1/292y burst 1073741824; 1/292y burst 1073741824",
    ] {
        let parameters = Parameters::new(&quotas.parse().expect("quotas"));
        assert_eq!(
            Parameters::from_words(parameters.to_words()),
            parameters,
            "{quotas}"
        );
    }
}

#[test]
fn the_base_follows_reservations_to_the_end_of_time() {
    let mut bench = Bench::new("10/s burst 5; 10/day");
    let (mut count, mut last_ns) = (0_u64, 0);
    // For 13 years.
    for _ in 0..50_000 {
        let at_ns = bench.reserve(0, 1).expect("a time");
        count += 1;
        let exact = match count {
            ..=5 => 0,
            6..=10 => (u128::from(count) - 5) * 100_000_000,
            _ => (u128::from(count) - 10) * 8_640_000_000_000,
        };
        assert_eq!(u128::from(at_ns), exact, "after {count}");
        last_ns = at_ns;
    }
    assert!(bench.moves >= 2, "the base moved {} times", bench.moves);
    assert!(bench.try_acquire(last_ns, 1).is_err());
    assert!(bench.try_acquire(last_ns + 8_640_000_000_000, 1).is_ok());

    let mut bench = Bench::new("1/y burst 5; 1/h");
    while bench.reserve(0, 1).is_some() {}
    let denied = bench.try_acquire(u64::MAX, 1).expect_err("no time is left");
    assert!(denied.retry_after() > Some(Duration::ZERO));
}

/// No arrival time is before the last time at which a bucket was empty: so both fit beside one base, however far ahead the
/// last reservation lies, and none is raised when the base moves.
#[test]
fn the_arrival_times_stay_together() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..2_000 {
        let quotas = draw_quotas(&mut random);
        let mut bench = Bench::new(&quotas);
        let mut at_ns = random.u64(..) >> random.u32(0..64);
        for _ in 0..20 {
            let step = draw_step(&mut random, &mut at_ns, &bench);
            bench.step(&step);
            let (parameters, state) = bench.seen();
            let horizon_ns = algorithm::horizon_ns(&parameters.buckets, state);
            for (tat, bucket) in state.0.iter().zip(&parameters.buckets) {
                assert!(
                    *tat >= bucket.ticks_in(horizon_ns.into()),
                    "{quotas}: {step}"
                );
            }
        }
    }
}

/// What each bucket holds at `ns`, in tokens; it can be negative.
fn tokens(parameters: &Parameters, state: State, ns: u128) -> [BigRational; 2] {
    [0, 1].map(|index| {
        let bucket = &parameters.buckets[index];
        let level = whole(bucket.ticks_in(ns) + bucket.burst_ticks()) - whole(state.0[index]);
        let full = whole(bucket.burst_ticks());
        let token = whole(bucket.unit_ticks) * whole(parameters.units_per_token);
        level.min(full) / token
    })
}

/// A change keeps the tokens of each bucket, up to its new burst, less than two ticks off, and never adds any; what flows in
/// before the last reservation does so at the slower rate.
#[test]
fn c1_c8_a_change_of_quotas_keeps_the_tokens() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut kept, mut clipped, mut ahead) = (0, 0, 0);
    for _ in 0..20_000 {
        let (before, after) = loop {
            let pair = (draw_quotas(&mut random), draw_quotas(&mut random));
            if pair.0.contains(';') && pair.1.contains(';') {
                break pair;
            }
        };
        let mut bench = Bench::new(&before);
        let mut at_ns = random.u64(..) >> random.u32(1..64);
        for _ in 0..5 {
            let step = draw_step(&mut random, &mut at_ns, &bench);
            bench.step(&step);
        }
        let (old, state) = bench.seen();
        let new = Parameters::new(&after.parse().expect("quotas"));
        let restated = algorithm::restated(
            (&old.buckets, old.units_per_token),
            (&new.buckets, new.units_per_token),
            state,
            at_ns,
        );
        // Right after the last grant, or now.
        let held = |ns| {
            tokens(&old, state, ns)
                .iter()
                .all(|held| *held >= whole(0_u32))
        };
        let mut then_ns = u128::from(at_ns);
        if !held(then_ns) {
            let mut late_ns = 1_u128 << 66;
            while then_ns + 1 < late_ns {
                let ns = then_ns.midpoint(late_ns);
                if held(ns) { late_ns = ns } else { then_ns = ns }
            }
            then_ns = late_ns;
            ahead += 1;
        }
        let (was, is) = (
            tokens(&old, state, then_ns),
            tokens(&new, restated, then_ns),
        );
        for index in 0..2 {
            let (bucket, old_bucket) = (&new.buckets[index], &old.buckets[index]);
            let token =
                |bucket: &algorithm::Bucket, scale: u64| whole(bucket.unit_ticks) * whole(scale);
            let new_token = token(bucket, new.units_per_token);
            let rate = whole(bucket.ticks_per_ns) / &new_token;
            let old_rate = whole(old_bucket.ticks_per_ns) / token(old_bucket, old.units_per_token);
            let too_much = (old_rate - rate).max(whole(0_u32)) * whole(then_ns - u128::from(at_ns));
            let full = whole(bucket.burst_ticks()) / &new_token;
            let exact = (&was[index] - too_much).max(whole(0_u32)).min(full.clone());
            let tick = whole(1_u32) / new_token;
            assert!(is[index] <= exact, "{before} to {after}: tokens were added");
            assert!(
                &exact - &is[index] < tick * whole(2_u32),
                "{before} to {after}: tokens were lost"
            );
            kept += u32::from(exact < full);
            clipped += u32::from(was[index] > full);
        }
    }
    assert!(
        kept > 1_000 && clipped > 500 && ahead > 500,
        "{kept}, {clipped}, {ahead}"
    );
}

#[test]
fn a_second_quota_starts_full_and_leaves_without_a_trace() {
    let parameters = |quotas: &str| Parameters::new(&quotas.parse().expect("quotas"));
    let (one, two) = (
        parameters("10/s burst 5"),
        parameters("10/s burst 5; 4/min"),
    );
    let (first, ns) = (
        algorithm::take(&one.buckets, FULL, 7_000, 3).expect("it is full"),
        7_000,
    );
    let changed = algorithm::restated((&one.buckets, 1), (&two.buckets, 1), first, ns);
    assert_eq!(algorithm::available(&two.buckets, changed, ns), 2);
    let taken = algorithm::take(&two.buckets, changed, ns, 2).expect("2 are left");
    let later_ns = ns + 500_000_000;
    let shortage = algorithm::take(&two.buckets, taken, later_ns, 4).expect_err("2 are left");
    assert_eq!(shortage.quota, 1);
    let back = algorithm::restated((&two.buckets, 1), (&one.buckets, 1), taken, later_ns);
    assert_eq!(algorithm::available(&one.buckets, back, later_ns), 5);
}

/// The refusal names the quota that takes the longest.
#[test]
fn c3_a_refusal_names_the_quota() {
    let mut bench = Bench::new("10/s burst 5; 7/min");
    bench.try_acquire(0, 5).expect("it is full");
    let denied = bench.try_acquire(0, 1).expect_err("the peak is used up");
    assert_eq!(
        (denied.limit(), denied.retry_after()),
        (Some(0), Some(Duration::from_millis(100)))
    );
    bench.try_acquire(1_000_000_000, 2).expect("2 are left");
    let denied = bench
        .try_acquire(1_000_000_000, 1)
        .expect_err("the minute is used up");
    assert_eq!(denied.limit(), Some(1));
    let denied = bench.try_acquire(0, 6).expect_err("the peak's burst is 5");
    assert_eq!((denied.is_never(), denied.limit()), (true, Some(0)));
    let mut other = Bench::new("7/min; 10/s burst 8");
    let denied = other
        .try_acquire(0, 8)
        .expect_err("the minute's burst is 7");
    assert_eq!(
        denied.to_string(),
        "8 can never be granted: the maximum is 7"
    );
}

/// Whoever waits behind others is told no more than it takes, and exactly that if all ask for one.
#[test]
fn c3_the_delay_behind_others_is_what_it_takes() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..2_000 {
        let quotas = draw_quotas(&mut random);
        let mut bench = Bench::new(&quotas);
        if !is_exact(&bench.seen().0) {
            continue;
        }
        let at_ns = random.u64(..) >> random.u32(20..64);
        let most = bench.seen().0.limit();
        let _ = bench.try_acquire(at_ns, of_any_size(&mut random, most));
        let (parameters, state) = bench.seen();
        let ahead: [u64; 5] = core::array::from_fn(|_| of_any_size(&mut random, most));
        let n = of_any_size(&mut random, most);
        let sum = ahead.iter().map(|&n| u128::from(n)).sum();
        let delay = algorithm::delay(&parameters.buckets, state, at_ns, sum, n);
        for n in ahead {
            bench.reserve(at_ns, n);
        }
        if let Some(told_ns) = bench.reserve(at_ns, n) {
            let told = delay.err().map_or(0, |shortage| shortage.ticks);
            assert_eq!(told, u128::from(told_ns - at_ns), "{quotas}");
        }
    }
}

/// A caller whose clock stands before the change finds nothing there.
#[test]
fn c4_before_a_change_of_quotas_there_is_nothing() {
    let mut bench = Bench::new("10/s burst 5; 1000/day");
    bench
        .at(1_000)
        .set_quotas("10/s burst 5; 2000/day".parse().expect("quotas"));
    let denied = bench.try_acquire(400, 5).expect_err("before the change");
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(600)));
    bench.try_acquire(1_000, 5).expect("it is full");
    let denied = bench.try_acquire(400, 1).expect_err("before the change");
    assert_eq!(
        denied.retry_after(),
        Some(Duration::from_nanos(100_000_600))
    );
    assert_eq!(bench.try_acquire(400, 0), Ok(()));
}

/// What was granted or reserved and is still held.
struct Held<'a> {
    reservation: Reservation<'a>,
    /// Of its grant.
    index: usize,
}

/// Whatever comes back of what is cancelled or refunded, what stays keeps both bounds; and the last reservation comes back whole.
#[test]
fn c1_c5_what_is_cancelled_breaks_neither_bound() {
    let mut random = fastrand::Rng::with_seed(23);
    let (mut whole_back, mut part_back, mut none_back) = (0, 0, 0);
    for _ in 0..3_000 {
        let quotas = draw_quotas(&mut random);
        let bench = Bench::new(&quotas);
        if !is_exact(&bench.seen().0) {
            continue;
        }
        let most = bench.seen().0.limit();
        let mut at_ns = random.u64(..) >> random.u32(20..64);
        // What was granted, when, and how much of it stays; and who may still cancel.
        let mut grants: Vec<TimedGrant> = Vec::new();
        let mut held: Vec<Held<'_>> = Vec::new();
        let mut known_from = 0;
        for _ in 0..40 {
            let (parameters, state) = bench.seen();
            let n = of_any_size(&mut random, most);
            let wait_ns = match parameters.take(state, at_ns, n) {
                Err(denied) => denied.retry_after().map_or(0, |wait| wait.as_nanos()),
                Ok(_) => full_after_ns(&parameters, state, at_ns),
            };
            let wait_ns = u64::try_from(wait_ns).unwrap_or(u64::MAX / 4);
            if random.bool() {
                at_ns = at_ns.saturating_add(random.u64(0..=wait_ns.max(1)));
            }
            match random.u32(0..6) {
                0..2 => {
                    if bench.try_acquire_at(at_ns, n) {
                        grants.push(TimedGrant::new(at_ns, n));
                    }
                }
                2..4 => {
                    if let Ok(reservation) = bench.at(at_ns).reserve_n(n) {
                        grants.push(TimedGrant {
                            rounded: true,
                            ..TimedGrant::new(reservation.at().as_nanos(), n)
                        });
                        held.push(Held {
                            reservation,
                            index: grants.len() - 1,
                        });
                    }
                }
                _ if held.is_empty() => {}
                _ => {
                    let is_last = random.bool();
                    let pick = match is_last {
                        true => held.len() - 1,
                        false => random.usize(0..held.len()),
                    };
                    let Held { reservation, index } = held.remove(pick);
                    let units = reservation.units();
                    let back = reservation.cancel_at(Timestamp::from_nanos(at_ns));
                    assert!(back <= units, "{quotas}: {back} of {units}");
                    let is_newest = index + 1 == grants.len();
                    if is_newest && index >= known_from {
                        assert_eq!(back, units, "{quotas}: nothing was taken since");
                    }
                    if !is_newest && back > 0 {
                        // What was granted before is not undone any more.
                        known_from = grants.len();
                    }
                    match back {
                        0 => none_back += 1,
                        all if all == units => whole_back += 1,
                        _ => part_back += 1,
                    }
                    grants[index].n -= back;
                    if index + 1 == grants.len() {
                        grants.pop();
                    }
                }
            }
            let mut in_order = grants.clone();
            in_order.sort_by_key(|grant| grant.at_ns);
            for quota in quotas.split(';') {
                let promise = Promise::bucket(quota.trim().parse().expect("a quota"));
                let kept = promise.check(&in_order);
                assert!(kept.is_ok(), "{quotas}: {kept:?}, of {in_order:?}");
            }
        }
    }
    std::println!("{whole_back} wholly, {part_back} in part, {none_back} not at all");
    assert!(whole_back > 1_000 && part_back > 10 && none_back > 100);
}
