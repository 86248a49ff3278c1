//! What the script does, as a function. The two are compared with each other in a real store.

use crate::call::{Call, Reply, Seen};
use crate::terms::MOST;
use std::fmt;

/// The record of a bucket that has debt: `debt:time:count:period`. A full bucket has none. After a [reset](Self::reset), its time follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    debt: u64,
    pub(crate) at_us: u64,
    pub(crate) count: u64,
    pub(crate) period: u64,
    /// What was seen by then is forgiven; 0: there was no reset.
    pub(crate) reset_us: u64,
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
        let reset_us = stored.map_or(0, |bucket| bucket.reset_us);
        let mut seen = left(call.seen.debt, call.seen.at_us, count, now_us);
        if reset_us > 0 && call.seen.at_us <= reset_us {
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
            taken,
        };
        let bucket = Self {
            debt,
            at_us,
            count,
            period,
            reset_us,
        };
        (reply, (changed && debt > 0).then_some(bucket))
    }

    /// Reads the text of a record. Returns `None` if it is none of these.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<u64> = text
            .split(':')
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()?;
        let (debt, at_us, count, period, reset_us) = match parts[..] {
            [debt, at_us, count, period] => (debt, at_us, count, period, 0),
            [debt, at_us, count, period, reset_us] => (debt, at_us, count, period, reset_us),
            _ => return None,
        };
        (count > 0 && period > 0).then_some(Self {
            debt,
            at_us,
            count,
            period,
            reset_us,
        })
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
            reset_us: now_us,
        }
    }

    /// Returns for how many milliseconds a store may keep this, which it got within the last 10 s.
    pub(crate) fn paid_ms(&self) -> std::ops::RangeInclusive<i64> {
        let paid_ms = (self.debt as f64 / self.count as f64 / 1_000.0).ceil() as i64;
        paid_ms + 1..=paid_ms + 10_000
    }
}

/// Returns what is left of a debt. If the clock was set back, nothing flows back.
pub(crate) fn left(debt: u64, at_us: u64, count: u64, now_us: u64) -> u64 {
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
            reset_us,
        } = self;
        write!(f, "{debt}:{at_us}:{count}:{period}")?;
        if *reset_us > 0 {
            write!(f, ":{reset_us}")?;
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
}
