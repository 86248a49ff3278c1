//! The step, the bits and the cells of two buckets, against the exact buckets of both quotas.

use super::super::super::entry::TICK_BITS;
use super::*;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

fn quotas(text: &str) -> Quotas {
    text.parse().expect("quotas")
}

fn terms(text: &str) -> Terms {
    let terms = Dual::terms(&quotas(text)).expect("it fits");
    assert!(Dual::is_sound(&terms), "{text}");
    terms
}

fn ticks(ns: u64) -> u128 {
    u128::from(ns) << TICK_BITS
}

/// Pairs as they are in use, and others that are not: the slower one first, the same twice, one alone, and units with more of
/// their bits.
const PAIRS: [&str; 12] = [
    "10/s burst 5; 1000/day",
    "1000/day; 10/s burst 5",
    "100/min burst 20; 5000/day",
    "10/s; 300/min",
    "300/min; 10/s",
    "100/s; 10000/h",
    "1/s burst 5; 1000/min burst 3",
    "7/s burst 3; 7/s burst 3",
    "999/s burst 40; 99991/h burst 500",
    "5/min; 1000/30d",
    "3/y burst 1; 2/s",
    "2/s units 10; 3/min units 10",
];

/// By how much a unit of each quota costs too much, in parts of the quota's price, first the long one's.
fn errors(text: &str) -> [f64; 2] {
    let (in_order, _) = in_order(&quotas(text));
    let all = sides(&terms(text));
    core::array::from_fn(|index| {
        let asked = Asked::new(&in_order[index]);
        (all[index].unit as f64) * (asked.units as f64) / (asked.ticks as f64) - 1.0
    })
}

/// What [`Keyed`](crate::Keyed) says of some pairs.
#[test]
fn c8_the_rates_of_usual_pairs_are_kept_as_the_documentation_says() {
    for (text, most) in [
        ("10/s burst 5; 1000/day", 0.000_2),
        ("100/min burst 20; 5000/day", 0.000_2),
        ("10/s; 300/min", 0.000_1),
        ("100/s; 10000/h", 0.001_3),
        ("100/s; 100000/day", 0.005),
        ("1000/s; 10000/min", 0.005),
        ("100/s; 1000000/day burst 500000", 0.015_7),
    ] {
        let errors = errors(text);
        assert!(
            errors.iter().all(|error| (0.0..=most).contains(error)),
            "{text}: {errors:?}"
        );
    }
}

/// An exact bucket: its arrival time in parts of a tick, of which `units` make one.
struct Exact {
    asked: Asked,
    time: u128,
}

impl Exact {
    /// Takes `n` units if it holds them.
    fn take(&mut self, now: u128, n: u64) -> bool {
        let now = now * self.asked.units;
        let next = self.time.max(now) + u128::from(n) * self.asked.ticks;
        let takes = next <= now + u128::from(self.asked.burst) * self.asked.ticks;
        if takes {
            self.time = next;
        }
        takes
    }
}

/// A bucket whose units cost as much as those of a side, with nothing rounded and no grain more than its burst.
struct Slower {
    unit: u128,
    burst: u64,
    time: u128,
}

impl Slower {
    fn next(&self, now: u128, n: u64) -> u128 {
        self.time.max(now) + u128::from(n) * self.unit
    }

    fn takes(&self, now: u128, n: u64) -> bool {
        self.next(now, n) <= now + u128::from(self.burst) * self.unit
    }
}

/// What is admitted, both exact buckets admit. What is refused, one of two refuses in which units cost what they do here.
#[test]
fn c1_c2_c3_decisions_are_between_those_of_the_quotas_and_of_slightly_slower_ones() {
    let mut random = fastrand::Rng::with_seed(1);
    for text in PAIRS {
        let terms = terms(text);
        let (in_order, _) = in_order(&quotas(text));
        let all = sides(&terms);
        let mut admitted = 0;
        for start in [0, 7_654_321_987, 1 << 62] {
            let mut exact = in_order.map(|quota| Exact {
                asked: Asked::new(&quota),
                time: 0,
            });
            let mut slower: [_; 2] = core::array::from_fn(|index| Slower {
                unit: all[index].unit,
                burst: in_order[index].burst_units(),
                time: 0,
            });
            let (mut state, mut now_ns) = (0, start);
            let mut ask_again = None;
            for _ in 0..3_000 {
                if now_ns >> 63 != 0 {
                    break;
                }
                let side = all[random.usize(..2)];
                let units_ns = |units: u128| ((units * side.unit) >> TICK_BITS) as u64 + 2;
                // Often at the very first time that is told, which is when a rounding would show.
                let again = ask_again.take().filter(|_| random.bool());
                now_ns += match random.u32(..40) {
                    _ if again.is_some() => 0,
                    0..20 => 0,
                    20..25 => random.u64(..3),
                    25..38 => random.u64(..units_ns(2)),
                    38 => random.u64(..units_ns(20)),
                    _ => random.u64(..units_ns(u128::from(terms.most)) * 2),
                };
                let mut n = random.u64(1..=terms.most.min(4));
                if let Some((first_ns, same)) = again {
                    (now_ns, n) = (first_ns, same);
                }
                let now = ticks(now_ns);
                let slower_ones_take = slower.iter().all(|bucket| bucket.takes(now, n));
                match Dual::take(state, now, n, &terms) {
                    Ok(next) => {
                        admitted += 1;
                        for bucket in &mut exact {
                            assert!(bucket.take(now, n), "{text}: {n} too many at {now_ns} ns");
                        }
                        for bucket in &mut slower {
                            bucket.time = bucket.next(now, n);
                        }
                        let left = Dual::left(state, now, &terms);
                        assert!(
                            left >= n && left - n == Dual::left(next, now, &terms),
                            "{text}"
                        );
                        state = next;
                    }
                    Err(missing) => {
                        assert!(
                            !slower_ones_take,
                            "{text}: {n} refused in vain at {now_ns} ns"
                        );
                        assert!(Dual::left(state, now, &terms) < n, "{text}");
                        let wait_ns = missing.div_ceil(TICKS_PER_NS.into()) as u64;
                        let later = |ns: u64| Dual::take(state, ticks(now_ns + ns), n, &terms);
                        assert!(
                            later(wait_ns).is_ok() && later(wait_ns - 1).is_err(),
                            "{text}"
                        );
                        ask_again = Some((now_ns + wait_ns, n));
                    }
                }
                // It matters until both are full, and up to a long grain longer.
                let full = read(state, &terms).last();
                let grain = 1 << Layout::of(&terms).long;
                assert!((full..full + grain).contains(&state), "{text}");
            }
        }
        assert!(admitted > 500, "{text}: {admitted}");
    }
}

/// Whatever the grain, a whole burst can be taken unit by unit in one instant, and no more.
#[test]
fn c1_c2_a_burst_is_there_in_one_instant_and_nothing_after_it() {
    for text in PAIRS {
        let terms = terms(text);
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..50 {
            let digits = random.u32(20..63);
            let now = ticks(random.u64(..1 << digits));
            let mut state = 0;
            for n in 0..terms.most.min(1_000) {
                let next = Dual::take(state, now, 1, &terms);
                state = next.unwrap_or_else(|_| panic!("{text}: unit {n}"));
            }
            assert_eq!(
                terms.most > 1_000,
                Dual::take(state, now, 1, &terms).is_ok()
            );
            assert!(Dual::take(0, now, terms.most, &terms).is_ok(), "{text}");
            assert_eq!(Dual::left(0, now, &terms), terms.most, "{text}");
        }
    }
}

/// Times that are whole grains come back as they were, in whichever order, up to the ends of what they may be apart.
#[test]
fn c1_times_are_kept_in_either_order() {
    let mut random = fastrand::Rng::with_seed(3);
    for text in PAIRS {
        let terms = terms(text);
        let [long, short] = sides(&terms);
        for _ in 0..2_000 {
            let granted = random.u128(..1 << 76);
            let time = |side: &Side, random: &mut fastrand::Rng| {
                let after = match random.u32(..4) {
                    0 => 0,
                    1 => side.depth,
                    _ => random.u128(..=side.depth),
                };
                rounded_up(granted + after, side.grain)
            };
            let pair = Pair {
                long: time(&long, &mut random),
                short: time(&short, &mut random),
            };
            let state = written(pair, &terms);
            assert!(state <= MOST_STATE);
            assert_eq!(read(state, &terms), pair, "{text}");
            let cell = written_cell(pair, &terms);
            let known = read_cell(cell, &terms);
            for (known, exact, side) in [
                (known.long, pair.long, long),
                (known.short, pair.short, short),
            ] {
                let most = 1 << (side.grain + COARSER);
                assert!(known >= exact && known - exact < most, "{text}");
            }
        }
    }
}

/// A refusal by one quota costs the other nothing, whichever it is.
#[test]
fn c1_what_one_refuses_is_not_taken_from_the_other() {
    for text in ["2/s; 3/min", "3/min; 2/s"] {
        let terms = terms(text);
        let taken = Dual::take(0, ticks(0), 2, &terms).expect("the burst of the first");
        // In a second the peak is full again, and one is left of the sustained quota.
        let later = ticks(2_000_000_000);
        assert!(Dual::take(taken, later, 2, &terms).is_err());
        assert_eq!(Dual::left(taken, later, &terms), 1);
        let all = Dual::take(taken, later, 1, &terms).expect("the last of the minute");
        let peak = read(all, &terms).short;
        assert!(
            peak < later + ticks(510_000_000),
            "one unit of it: half a second"
        );
    }
}

#[test]
fn c5_what_is_given_back_is_there_in_both_and_no_more_than_was_taken() {
    let mut random = fastrand::Rng::with_seed(4);
    for text in PAIRS {
        let terms = terms(text);
        for _ in 0..200 {
            let now = ticks(random.u64(..1 << 60));
            let n = random.u64(1..=terms.most);
            let state = Dual::take(0, now, n, &terms).expect("it is full");
            assert_eq!(Dual::give_back(state, now, n + 5, &terms).1, n, "{text}");
            let less = random.u64(..=n);
            let (next, back) = Dual::give_back(state, now, less, &terms);
            assert_eq!(back, less, "{text}");
            assert_eq!(next, if less == 0 { state } else { next });
            let kept = n - less;
            assert_eq!(Dual::left(next, now, &terms), terms.most - kept, "{text}");
            if kept > 0 {
                assert_eq!(Ok(next), Dual::take(0, now, kept, &terms), "{text}");
            }
            // Unseen, right after it: all of it comes back.
            let undone = Dual::take_back(state, now, now, n, &terms);
            assert_eq!(Dual::left(undone, now, &terms), terms.most, "{text}");
        }
    }
}

#[test]
fn c1_c7_a_cell_holds_no_less_of_either_quota_and_hardly_more() {
    let mut random = fastrand::Rng::with_seed(5);
    for text in PAIRS {
        let terms = terms(text);
        let most = |one: u128, other: u128| read(one, &terms).max(read(other, &terms));
        for _ in 0..300 {
            let now = ticks(random.u64(..1 << 60));
            let [one, other] = core::array::from_fn(|_| {
                let now = now + ticks(random.u64(..5_000_000_000));
                Dual::take(0, now, random.u64(1..=terms.most), &terms).expect("it is full")
            });
            let cells = [one, other].map(|state| Dual::to_cell(state, &terms));
            let known = |cell| Dual::from_cell(cell, now, &terms, &terms);
            for (cell, state) in cells.into_iter().zip([one, other]) {
                let known = known(cell);
                assert_eq!(most(known, state), read(known, &terms), "{text}");
                assert!(Dual::free_at(cell, &terms) >= read(state, &terms).last());
                let [long, short] = sides(&terms);
                let slack_of = |side: &Side| (2 << (side.grain + COARSER)) / side.unit + 1;
                let hardly = slack_of(&long).max(slack_of(&short)) as u64;
                let lefts = [known, state].map(|state| Dual::left(state, now, &terms));
                assert!(
                    lefts[0] <= lefts[1] && lefts[1] - lefts[0] <= hardly,
                    "{text}: {lefts:?}"
                );
            }
            let join = known(Dual::join(cells[0], cells[1], &terms));
            assert_eq!(
                read(join, &terms),
                most(known(cells[0]), known(cells[1])),
                "{text}"
            );
            let meet = known(Dual::meet(cells[0], cells[1], &terms));
            for cell in cells {
                assert_eq!(most(meet, known(cell)), read(known(cell), &terms), "{text}");
            }
            assert_eq!(Dual::join(cells[0], 0, &terms), cells[0]);
            assert_eq!(Dual::meet(cells[0], 0, &terms), 0);
        }
    }
}

/// What is owed stays owed, in units of each quota, whichever of the two is the long one before and after.
#[test]
fn c1_a_change_of_quotas_forgives_neither_debt() {
    let mut random = fastrand::Rng::with_seed(6);
    for text in PAIRS {
        for next in PAIRS {
            let (from, to) = (terms(text), terms(next));
            let odd = Terms {
                reading: Reading::of_table(1),
                ..to
            };
            let now = ticks(random.u64(..1 << 60));
            let n = random.u64(1..=from.most);
            let state = Dual::take(0, now, n, &from).expect("it is full");
            let at = now + ticks(random.u64(..1_000_000_000));
            let change = Change { from, to: odd, at };
            let owed = |state, terms: &Terms| {
                let (pair, sides) = (read(state, terms), sides(terms));
                let owed = [(pair.long, sides[0]), (pair.short, sides[1])]
                    .map(|(time, side)| time.saturating_sub(at) as f64 / side.unit as f64);
                match Layout::of(terms).is_swapped {
                    true => [owed[1], owed[0]],
                    false => owed,
                }
            };
            let before = owed(state, &from);
            let cell = Dual::updated(Dual::to_cell(state, &from), &change, at);
            assert!(Dual::is_current(cell, &odd));
            for restated in [
                change.restated::<Dual>(state, at),
                change.restated::<Dual>(state, at + ticks(77)),
                Dual::from_cell(cell, at, &odd, &odd),
            ] {
                let after = owed(restated, &odd);
                for (before, after) in before.into_iter().zip(after) {
                    assert!(
                        after >= before * 0.999_999_999,
                        "{text} to {next}: {before} {after}"
                    );
                }
            }
        }
    }
}

/// A time before the change is not known to be one at which anything was there.
#[test]
fn c4_nothing_is_granted_before_the_last_change() {
    let (from, to) = (terms("10/s; 100/min"), terms("20/s; 50/min"));
    let at = ticks(5_000_000_000);
    let change = Change { from, to, at };
    let missing = Dual::take_before(0, at - ticks(3), 1, &change);
    assert_eq!(missing, Err(ticks(3)));
    assert_eq!(Dual::left_before(0, at - ticks(3), &change), 0);
}

#[test]
fn c1_c4_a_clock_with_another_origin_finds_no_less_owed() {
    for text in PAIRS {
        let terms = terms(text);
        let (now, then) = (ticks(1 << 50), ticks(12_345));
        let state = Dual::take(0, now, 1, &terms).expect("it is full");
        let carried = Dual::carry(state, now, then, &terms);
        for (after, before) in [
            (read(carried, &terms).long, read(state, &terms).long),
            (read(carried, &terms).short, read(state, &terms).short),
        ] {
            assert!(after - then >= before - now, "{text}");
        }
        let cell = Dual::carry_cell(Dual::to_cell(state, &terms), now, then, &terms);
        assert!(Dual::free_at(cell, &terms) - then >= read(state, &terms).last() - now);
        assert_eq!(Dual::carry(state, state, then, &terms), 0, "{text}");
    }
}

/// Of a pair that does not fit, a burst is to blame, and the one that the error names fits.
#[test]
fn c8_a_pair_that_does_not_fit_is_refused_with_the_largest_burst_that_does() {
    let error = Dual::terms(&quotas("1000/s; 10000000/day")).unwrap_err();
    let told = error.to_string();
    let what = "the burst of one of two quotas of a keyed limiter, at these rates, of 10000000 is out of range: 1 to ";
    let most = told.strip_prefix(what).unwrap_or_else(|| panic!("{told}"));
    let most: u64 = most.parse().unwrap();
    assert!(most > 10_000);
    let with_burst = |burst| Dual::terms(&quotas(&format!("1000/s; 10000000/day burst {burst}")));
    assert!(with_burst(most).is_ok() && with_burst(most + 1).is_err());

    let error = Dual::terms(&quotas("5000000000/s burst 1; 2/s burst 1")).unwrap_err();
    let told = error.to_string();
    let what = "the rate of one of two quotas of a keyed limiter, in units per second,";
    assert_eq!(
        told,
        format!("{what} of 5000000000 is out of range: 1 to {MOST_PER_SECOND}")
    );
}

#[test]
fn every_pair_of_rates_fits_with_bursts_of_1() {
    let rates = [
        format!("{MOST_PER_SECOND}/s burst 1"),
        "999999/s burst 1".into(),
        "1/s burst 1".into(),
        "1/min burst 1".into(),
        "1/30d burst 1".into(),
        "1/100y burst 1".into(),
    ];
    for first in &rates {
        for second in &rates {
            let text = format!("{first}; {second}");
            assert!(Dual::terms(&quotas(&text)).is_ok(), "{text}");
        }
    }
}

/// Whoever has a table's seed can write any terms into an export.
#[test]
fn c4_terms_that_no_pair_comes_down_to_are_not_sound() {
    let good = terms("10/s burst 5; 1000/day");
    let bad: Vec<Terms> = [
        Terms { unit: 0, ..good },
        Terms {
            unit: good.unit >> 64,
            ..good
        },
        Terms { span: 0, ..good },
        Terms {
            span: u128::MAX,
            ..good
        },
        Terms { most: 0, ..good },
        Terms {
            most: u64::MAX,
            ..good
        },
        Terms {
            count_bits: 0,
            ..good
        },
        Terms {
            count_bits: u32::MAX,
            ..good
        },
        Terms {
            count_bits: good.count_bits | 1 << 17,
            ..good
        },
        Terms {
            count_bits: good.count_bits & !0xff00,
            ..good
        },
    ]
    .into();
    for terms in bad {
        assert!(!Dual::is_sound(&terms), "{terms:?}");
    }
}
