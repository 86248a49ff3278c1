//! What the scripts do, as functions. They are compared with each other in a real store.

use crate::call::{Call, GiveBack, Reply, Run, Seen};
use crate::terms::MOST;
use std::fmt;

/// The record of a bucket that has debt: `debt:time:count:period`. A full bucket has none.
///
/// Once the debt was lowered by more than what flows back, by a [reset](Self::reset) or by units that were given back,
/// `:void:reset` follows, and `:from,to,parts` for each [`Given`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    debt: u64,
    pub(crate) at_us: u64,
    pub(crate) count: u64,
    pub(crate) period: u64,
    /// What was seen by then is void: the debt was lowered. 0: it was not.
    pub(crate) void_us: u64,
    /// When there was a reset; 0: there was none.
    pub(crate) reset_us: u64,
    /// What was given back a short while ago, the oldest first; without parts: nothing.
    given: [Given; MOST_GIVEN],
}

/// Units that were taken, and given back, from under others that had been taken since.
///
/// What was taken in between lies lower than it seems, by these parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) from_us: u64,
    pub(crate) to_us: u64,
    pub(crate) parts: u64,
}

/// A record has as many of these. If there are more, the oldest become one, which counts too much and never too little.
const MOST_GIVEN: usize = 6;
/// What was taken longer ago than this is not given back.
const GIVEN_BACK_US: u64 = 600_000_000;

impl Given {
    /// Returns one that counts at least as much as both.
    fn or(self, other: Self) -> Self {
        Self {
            from_us: self.from_us.min(other.from_us),
            to_us: self.to_us.max(other.to_us),
            parts: self.parts.saturating_add(other.parts).min(MOST as u64 - 1),
        }
    }
}

impl Bucket {
    /// Carries out `call` at `now_us`. Returns the reply, and the record to store; `None`: the one that there was stays.
    pub(crate) fn take(stored: Option<Self>, now_us: u64, call: &Call) -> (Reply, Option<Self>) {
        let terms = call.terms;
        let (count, period, full) = (terms.count, terms.period, terms.burst * terms.period);
        let mut debt = stored.map_or(0, |bucket| {
            let debt = left(bucket.debt, bucket.at_us, bucket.count, now_us);
            converted(debt, bucket.period, period)
        });
        let mut changed = stored.is_some_and(|bucket| {
            bucket.at_us > now_us || (bucket.count, bucket.period) != (count, period)
        });
        let (void_us, reset_us, given) = stored.map_or_else(Default::default, |bucket| {
            (bucket.void_us, bucket.reset_us, bucket.given)
        });
        let mut seen = left(call.seen.debt, call.seen.at_us, count, now_us);
        if void_us > 0 && call.seen.at_us <= void_us {
            seen = 0;
        }
        let healed = seen.saturating_sub(debt);
        debt += healed;
        changed |= healed > 0;
        let taken = call.runs.iter().map(|run| {
            let cost = run.units * period;
            let taken = run.times.min(full.saturating_sub(debt) / cost);
            let taken = if taken < run.least { 0 } else { taken };
            debt += taken * cost;
            changed |= taken > 0;
            taken
        });
        let taken = taken.collect();
        let at_us = now_us;
        let reply = Reply {
            seen: Seen {
                debt,
                at_us,
                ..Seen::default()
            },
            healed,
            reset_us,
            taken,
        };
        let bucket = Self {
            debt,
            at_us,
            count,
            period,
            void_us,
            reset_us,
            given,
        };
        (reply, (changed && debt > 0).then_some(bucket))
    }

    /// Carries out all of `calls`, of which each has one run. If one of them cannot take its run, none of them does.
    pub(crate) fn take_all(
        stored: &[Option<Self>],
        now_us: u64,
        calls: &[Call],
    ) -> Vec<(Reply, Option<Self>)> {
        let take = |(stored, call): (&Option<Self>, &Call)| Self::take(*stored, now_us, call);
        let taken: Vec<_> = stored.iter().zip(calls).map(take).collect();
        if taken.iter().all(|(reply, _)| reply.taken == [1]) {
            return taken;
        }
        let nothing = |call: &Call| Call {
            runs: call
                .runs
                .iter()
                .map(|run| Run { times: 0, ..*run })
                .collect(),
            ..call.clone()
        };
        let calls: Vec<Call> = calls.iter().map(nothing).collect();
        stored.iter().zip(&calls).map(take).collect()
    }

    /// Gives back what has not flowed back yet of units that were taken.
    ///
    /// They are on top of the debt at that time, and flow back after it.
    pub(crate) fn give_back(
        stored: Option<Self>,
        now_us: u64,
        back: &GiveBack,
    ) -> (Reply, Option<Self>) {
        let (count, period) = (back.terms.count, back.terms.period);
        let reply = |debt: u64, parts: u64| Reply {
            seen: Seen {
                debt,
                at_us: now_us,
                began_us: 0,
            },
            taken: vec![parts],
            ..Reply::default()
        };
        let Some(bucket) = stored else {
            return (reply(0, 0), None);
        };
        let debt = converted(bucket.debt_at(now_us), bucket.period, period);
        let is_same = (bucket.count, bucket.period) == (count, period);
        let taken_us = back.taken.at_us;
        // What was given back since, of units that had been taken before these, was below them.
        let is_below = |given: &&Given| (given.from_us..=given.to_us).contains(&taken_us);
        let below = bucket.given.iter().filter(is_below);
        let below = below.map(|given| given.parts).fold(0, u64::saturating_add);
        let owed = left(back.taken.debt, taken_us, count, now_us).saturating_sub(below);
        let parts = owed.min(back.units * period);
        let is_late = taken_us > now_us || taken_us + GIVEN_BACK_US < now_us;
        let was_reset = bucket.reset_us > 0 && bucket.reset_us >= taken_us;
        // A store that has forgotten them has less debt than that.
        if !is_same || is_late || was_reset || debt < owed || parts == 0 {
            return (reply(debt, 0), None);
        }
        let mut given = bucket.recently_given(now_us);
        if debt > owed {
            given.push(Given {
                from_us: taken_us,
                to_us: now_us,
                parts,
            });
        }
        let bucket = Self {
            debt: debt - parts,
            at_us: now_us,
            void_us: now_us,
            ..bucket
        };
        (reply(bucket.debt, parts), Some(bucket.with_given(given)))
    }

    fn recently_given(&self, now_us: u64) -> Vec<Given> {
        let is_recent = |given: &Given| given.parts > 0 && given.to_us + GIVEN_BACK_US >= now_us;
        self.given.into_iter().filter(is_recent).collect()
    }

    fn with_given(mut self, mut given: Vec<Given>) -> Self {
        if given.len() > MOST_GIVEN {
            let oldest = given.remove(0);
            given[0] = given[0].or(oldest);
        }
        given.resize(MOST_GIVEN, Given::default());
        self.given.copy_from_slice(&given);
        self
    }

    /// Reads the text of a record. Returns `None` if it is none of these.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let mut number = || words.next()?.parse().ok();
        let (debt, at_us, count, period) = (number()?, number()?, number()?, number()?);
        let void_us = words.next().map_or(Some(0), |word| word.parse().ok())?;
        let reset_us = words.next().map_or(Some(0), |word| word.parse().ok())?;
        let given = words.map(|word| {
            let mut numbers = word.splitn(3, ',').map(|number| number.parse().ok());
            Some(Given {
                from_us: numbers.next()??,
                to_us: numbers.next()??,
                parts: numbers.next()??,
            })
        });
        let given: Vec<Given> = given.collect::<Option<_>>()?;
        let bucket = Self {
            debt,
            at_us,
            count,
            period,
            void_us,
            reset_us,
            given: Default::default(),
        };
        let is_one = count > 0 && period > 0 && given.len() <= MOST_GIVEN;
        is_one.then(|| bucket.with_given(given))
    }

    /// Returns whether it has nothing but the time of a reset, of a limit of any kind.
    pub(crate) fn is_mark(&self) -> bool {
        self.reset_us > 0 && (self.debt, self.count, self.period) == (0, 1, 1)
    }

    /// Returns what is left of the debt, in parts.
    pub(crate) fn debt_at(&self, now_us: u64) -> u64 {
        left(self.debt, self.at_us, self.count, now_us)
    }

    /// Returns whether nothing is left of the debt.
    pub(crate) fn is_paid(&self, now_us: u64) -> bool {
        self.debt_at(now_us) == 0
    }
}

#[cfg(test)]
impl Bucket {
    /// Returns the record after a reset, for which no quota has to be known.
    pub(crate) fn reset(now_us: u64) -> Self {
        Self {
            debt: 0,
            at_us: now_us,
            count: 1,
            period: 1,
            void_us: now_us,
            reset_us: now_us,
            given: Default::default(),
        }
    }

    /// Returns this record with the marks of units that were given back, at least once.
    pub(crate) fn given_back(self, given: Given) -> Self {
        let all = [self.recently_given(0), vec![given]].concat();
        let bucket = Self {
            void_us: given.to_us,
            ..self
        };
        bucket.with_given(all)
    }

    /// Returns this record as it was before `parts` were given back.
    pub(crate) fn before(self, parts: u64) -> Self {
        Self {
            debt: self.debt + parts,
            ..self
        }
    }

    /// Returns for how many milliseconds a store may keep this, which it got within the last 10 s.
    pub(crate) fn paid_ms(&self) -> std::ops::RangeInclusive<i64> {
        let paid_ms = (self.debt as f64 / self.count as f64 / 1_000.0).ceil() as i64;
        paid_ms + 1..=paid_ms + 10_000
    }
}

/// Returns what is left of a debt. If the clock was set back, nothing flows back.
fn left(debt: u64, at_us: u64, count: u64, now_us: u64) -> u64 {
    let passed = u128::from(now_us.saturating_sub(at_us));
    let paid = passed * u128::from(count);
    u64::try_from(paid).map_or(0, |paid| debt.saturating_sub(paid))
}

/// Returns `debt` in parts of which a unit has `new` in place of `old`: by the arithmetic of the script, never less than exact.
fn converted(debt: u64, old: u64, new: u64) -> u64 {
    if old == new {
        return debt;
    }
    let (units, rest) = (debt / old, debt % old);
    let rest = rest as f64 / old as f64 * new as f64;
    let rest = (rest + rest / 2_f64.powi(50)).ceil();
    let debt = u128::from(units) * u128::from(new) + rest as u128;
    debt.min(MOST - 1) as u64
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            debt,
            at_us,
            count,
            period,
            void_us,
            reset_us,
            given,
        } = self;
        write!(f, "{debt}:{at_us}:{count}:{period}")?;
        if *void_us > 0 {
            write!(f, ":{void_us}:{reset_us}")?;
        }
        for Given {
            from_us,
            to_us,
            parts,
        } in given.iter().filter(|given| given.parts > 0)
        {
            write!(f, ":{from_us},{to_us},{parts}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Run;
    use crate::record::Record;
    use crate::terms::Terms;

    fn call(quota: &str, units: u64) -> Call {
        Call {
            record: Record::of("api", b""),
            terms: Terms::of(quota.parse().expect("a quota")).expect("it is exact"),
            seen: Seen::default(),
            runs: vec![Run::of(1, units)],
        }
    }

    /// Takes from what is stored, and stores it. Returns whether the units were there.
    fn take(stored: &mut Option<Bucket>, now_us: u64, call: &Call) -> bool {
        let (reply, bucket) = Bucket::take(*stored, now_us, call);
        *stored = bucket.or(*stored);
        reply.taken == [1]
    }

    #[test]
    fn c1_c2_a_new_quota_holds_from_the_first_call_that_states_it_even_if_that_is_refused() {
        let mut stored = None;
        assert!(take(&mut stored, 0, &call("1/day", 1)));
        let new = call("1000/s burst 1", 1);
        assert!(!take(&mut stored, 0, &new));
        // At the old rate, this would take a day.
        assert!(take(&mut stored, 1_000, &new));
    }

    #[test]
    fn c1_a_smaller_burst_forgives_nothing_that_was_taken_from_a_larger_one() {
        let (large, small) = (call("10/s burst 100", 100), call("10/s burst 10", 1));
        let mut stored = None;
        assert!(take(&mut stored, 0, &large));
        assert!(!take(&mut stored, 0, &small));
        let rest = call("10/s burst 100", 1);
        assert!(!take(&mut stored, 0, &rest));
        assert!(!take(&mut stored, 9_099_999, &small));
        assert!(take(&mut stored, 9_100_000, &small));
    }

    #[test]
    fn c1_another_unit_of_debt_is_never_less_than_exact_and_hardly_more() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1_000_000 {
            let mut below = |bits: u32| {
                let bits = random.u32(1..=bits);
                random.u64(1..=1 << bits)
            };
            let (old, new, debt) = (below(46), below(46), below(52));
            let exact = (u128::from(debt) * u128::from(new)).div_ceil(old.into());
            let converted = u128::from(converted(debt, old, new));
            let exact = exact.min(MOST - 1);
            assert!(
                (exact..=exact + 1).contains(&converted),
                "{debt} of {old} in {new}: {converted}, not {exact}"
            );
        }
    }

    #[test]
    fn c1_a_reminder_of_a_debt_above_the_own_burst_counts_in_full() {
        let mut small = call("10/s burst 10", 1);
        let period = small.terms.period;
        small.seen = Seen {
            debt: 100 * period,
            ..Seen::default()
        };
        let (reply, _) = Bucket::take(None, 0, &small);
        assert_eq!((reply.healed, reply.taken), (100 * period, vec![0]));
    }

    #[test]
    fn c4_a_clock_that_was_set_back_pays_nothing_and_blocks_nothing() {
        let mut stored = None;
        let one = call("1/s burst 2", 1);
        assert!(take(&mut stored, 3_600_000_000, &one));
        assert!(take(&mut stored, 0, &one));
        assert!(!take(&mut stored, 999_999, &one));
        assert!(take(&mut stored, 1_000_000, &one));
    }

    #[test]
    fn c1_a_store_that_has_forgotten_is_reminded_and_one_that_has_not_is_not_changed() {
        let mut stored = None;
        let mut one = call("1/s burst 10", 1);
        assert!(take(&mut stored, 0, &call("1/s burst 10", 8)));
        one.seen = stored
            .map(|bucket| Seen {
                debt: bucket.debt,
                ..Seen::default()
            })
            .expect("a debt");
        let (kept, _) = Bucket::take(stored, 1_000_000, &one);
        assert_eq!(kept.healed, 0);
        let (reminded, _) = Bucket::take(None, 1_000_000, &one);
        assert_eq!((reminded.healed, reminded.seen), (7_000_000, kept.seen));
    }

    #[test]
    fn a_reset_forgives_what_was_seen_before_it_and_nothing_that_was_taken_since() {
        let mut full = call("1/s burst 10", 10);
        let (before, _) = Bucket::take(None, 5, &full);
        full.seen = before.seen;
        let mut stored = Some(Bucket::reset(5));
        assert!(take(&mut stored, 6, &full));
        // Another process remembers what was taken before, and the debt of now is above it.
        assert!(!take(&mut stored, 7, &full));
        let (late, _) = Bucket::take(stored, 4_000_000, &full);
        assert_eq!((late.healed, late.taken), (0, vec![0]));
    }

    /// Gives back units that `call` has taken with this reply.
    fn give_back(stored: &mut Option<Bucket>, now_us: u64, call: &Call, taken: Seen) -> u64 {
        let back = GiveBack {
            record: call.record,
            terms: call.terms,
            units: call.runs[0].units,
            taken,
        };
        let (reply, bucket) = Bucket::give_back(*stored, now_us, &back);
        *stored = bucket.or(*stored);
        reply.taken[0] / call.terms.period
    }

    #[test]
    fn c1_what_lies_above_units_that_are_given_back_flows_back_sooner_and_is_not_given_back_then() {
        let (mut stored, five) = (None, call("1/s burst 10", 5));
        let [lower, upper] = [0; 2].map(|now_us| {
            let (reply, bucket) = Bucket::take(stored, now_us, &five);
            stored = bucket;
            reply.seen
        });
        // Of the lower five, four are still there after a second. Of the upper five, one is, four seconds later.
        assert_eq!(give_back(&mut stored, 1_000_000, &five, lower), 4);
        assert!(take(&mut stored, 5_000_000, &call("1/s burst 10", 9)));
        assert_eq!(give_back(&mut stored, 5_000_000, &five, upper), 1);
        assert!(take(&mut stored, 5_000_000, &call("1/s burst 10", 1)));
        assert!(!take(&mut stored, 5_000_000, &call("1/s burst 10", 1)));
    }

    #[test]
    fn units_are_given_back_to_a_record_that_has_them_and_to_no_other() {
        let five = call("10/day burst 10", 5);
        let (taken, bucket) = Bucket::take(None, 7, &five);
        let gives =
            |mut stored: Option<Bucket>, now_us| give_back(&mut stored, now_us, &five, taken.seen);
        assert_eq!(gives(bucket, 8), 4, "a part of the fifth has flowed back");
        assert_eq!(gives(bucket, 7), 5);
        assert_eq!(gives(None, 8), 0, "it is forgotten");
        assert_eq!(gives(Some(Bucket::reset(7)), 8), 0);
        assert_eq!(gives(bucket, 6), 0, "the clock was set back");
        let (_, other) = Bucket::take(bucket, 7, &call("20/day burst 20", 1));
        assert_eq!(gives(other, 8), 0, "another quota");
        let (_, fewer) = Bucket::take(None, 7, &call("10/day burst 10", 1));
        assert_eq!(gives(fewer, 8), 0, "it has forgotten them");
        assert_eq!(gives(bucket, 600_000_008), 0, "too late");
    }

    #[test]
    fn what_was_seen_before_units_were_given_back_is_no_reminder() {
        let mut five = call("10/day burst 10", 5);
        let (taken, mut stored) = Bucket::take(None, 7, &five);
        assert_eq!(give_back(&mut stored, 7, &five, taken.seen), 5);
        five.seen = taken.seen;
        let (reply, _) = Bucket::take(stored, 8, &five);
        assert_eq!((reply.healed, reply.taken), (0, vec![1]));
        let (reply, _) = Bucket::take(None, 8, &five);
        assert!(reply.healed > 0, "the mark is lost with the record");
    }
}
