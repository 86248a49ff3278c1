//! Judges histories with changes of quota: every pair of grants, by the limiter's own time.
//!
//! It is slow, and hard to get wrong. All quotas of a history count the same units.

use flowgate::Refill;
use num_rational::BigRational;

use super::{Anchor, Broken, Kind, TimedGrant, decaying};
use crate::rate::Rate;

/// A quota with its refill, and the time from which it is current.
#[derive(Clone, Copy)]
pub(super) struct Era {
    pub since_ns: u64,
    pub rate: Rate,
    pub refill: Refill,
    /// End of a period of an interval refill,
    pub ends_ns: u64,
    /// and start of the first one.
    pub begun_ns: i128,
    /// Units that the change itself adds.
    pub added: u64,
}

impl Era {
    /// Returns the time by which tokens have flowed in at `at_ns`, which is not before the era began.
    fn limiter_ns(&self, at_ns: u64) -> i128 {
        if self.refill != Refill::Interval {
            return i128::from(at_ns);
        }
        let since = i128::from(at_ns) - i128::from(self.ends_ns);
        let period = i128::from(self.rate.period_ns);
        (i128::from(at_ns) - since.rem_euclid(period)).max(self.begun_ns)
    }
}

/// A grant, and the era in which it was decided: a later one than that of its time, if it was asked
/// for at a time before a change.
#[derive(Clone, Copy)]
pub(super) struct Decided {
    pub grant: TimedGrant,
    pub era: usize,
    /// The era in which the deciding limiter was built. A handover builds another limiter, which knows no earlier
    /// quota.
    pub built: usize,
}

/// Checks `grants`, which are in order of time.
pub(super) fn check(
    kind: Kind,
    eras: &[Era],
    overdrawn: u64,
    grants: &[Decided],
) -> Result<(), Broken> {
    let once = |limit: u128| limit;
    let twice = |limit: u128| 2 * limit;
    let twice_less_one = |limit: u128| (2 * limit).saturating_sub(1);
    match kind {
        Kind::Bucket => buckets(eras, overdrawn, grants),
        Kind::PayAfter => {
            let largest = grants.iter().map(|decided| decided.grant.n).max();
            buckets(eras, largest.unwrap_or(0), grants)
        }
        Kind::Window(Anchor::FirstGrant) => {
            spans(eras, twice_less_one, grants)?;
            // Where a window begins is not known, but an instant is in one.
            cells(eras, grants, |_, at_ns| at_ns.into())
        }
        Kind::Window(Anchor::Aligned(begins_ns)) => {
            spans(eras, twice, grants)?;
            cells(eras, grants, |rate, at_ns| {
                let since = i128::from(at_ns) - i128::from(begins_ns);
                since.div_euclid(rate.period_ns.into())
            })
        }
        Kind::Sliding | Kind::Segmented { .. } => spans(eras, once, grants),
        Kind::Approximate => spans(eras, twice_less_one, grants),
        Kind::NextPays => next_pays(eras, grants),
        Kind::Decaying => levels(eras, grants),
        // What is in flight has no time: `in_flight` checks it.
        Kind::InFlight => Ok(()),
    }
}

/// Checks that no more was admitted between the two times than allowed.
fn within(from_ns: u64, to_ns: u64, admitted: u128, allowed: u128) -> Result<(), Broken> {
    if admitted <= allowed {
        return Ok(());
    }
    Err(Broken {
        from_ns,
        to_ns,
        admitted,
        allowed,
    })
}

/// Returns the last era that had begun by `at_ns`.
fn era_at(eras: &[Era], at_ns: u64) -> usize {
    eras.partition_point(|era| era.since_ns <= at_ns)
        .saturating_sub(1)
}

/// Returns the end of the era with this index.
fn until_ns(eras: &[Era], index: usize) -> u64 {
    eras.get(index + 1).map_or(u64::MAX, |next| next.since_ns)
}

/// Returns what flows in from the clock's origin until `at_ns`.
fn flowed(eras: &[Era], at_ns: u64) -> BigRational {
    let mut sum = BigRational::from_integer(0.into());
    for (index, era) in eras.iter().enumerate() {
        let until_ns = until_ns(eras, index);
        let ns =
            era.limiter_ns(at_ns.min(until_ns).max(era.since_ns)) - era.limiter_ns(era.since_ns);
        sum += BigRational::new(era.rate.accrual.into(), era.rate.price.into())
            * BigRational::from_integer(ns.into());
    }
    sum
}

/// In every interval, at most the largest current burst, what the changes add, and the refill.
fn buckets(eras: &[Era], overdrawn: u64, grants: &[Decided]) -> Result<(), Broken> {
    let flowed: Vec<_> = grants
        .iter()
        .map(|decided| flowed(eras, decided.grant.at_ns))
        .collect();
    for (first, Decided { grant: from, .. }) in grants.iter().enumerate() {
        let mut admitted = 0;
        for (last, Decided { grant: to, .. }) in grants.iter().enumerate().skip(first) {
            admitted += u128::from(to.n);
            let in_force = eras.iter().enumerate().filter(|(index, era)| {
                let until_ns = until_ns(eras, *index);
                era.since_ns <= to.at_ns && from.at_ns <= until_ns
            });
            let bursts = in_force.map(|(_, era)| era.rate.burst_units);
            let added = eras
                .iter()
                .filter(|era| (from.at_ns..=to.at_ns).contains(&era.since_ns))
                .map(|era| u128::from(era.added));
            let at_most =
                u128::from(bursts.max().unwrap_or(0)) + u128::from(overdrawn) + added.sum::<u128>();
            if admitted <= at_most {
                continue;
            }
            let flowed = (&flowed[last] - &flowed[first]).floor().to_integer();
            let allowed = at_most.saturating_add(u128::try_from(flowed).unwrap_or(u128::MAX));
            within(from.at_ns, to.at_ns, admitted, allowed)?;
        }
    }
    Ok(())
}

/// Returns the eras of the times of `grants`, from the first to the last.
fn eras_in_time<'a>(eras: &'a [Era], grants: &[Decided]) -> &'a [Era] {
    let (first, last) = span_in_time(eras, grants);
    &eras[first..=last]
}

/// Returns the eras of a run of grants: from that of the first time to the latest decision.
fn eras_of<'a>(eras: &'a [Era], grants: &[Decided]) -> &'a [Era] {
    let (first, last) = span_in_time(eras, grants);
    let decided = grants.iter().map(|decided| decided.era).max();
    &eras[first..=decided.unwrap_or(0).max(last)]
}

/// Returns the first and the last era of the times of `grants`.
fn span_in_time(eras: &[Era], grants: &[Decided]) -> (usize, usize) {
    let times = |decided: &Decided| {
        let at_ns = decided.grant.at_ns;
        // At the very instant of a change, both quotas count.
        let before = eras.partition_point(|era| era.since_ns < at_ns);
        let [first, last] = [before.saturating_sub(1), era_at(eras, at_ns)];
        (first.max(decided.built), last.max(decided.built))
    };
    let first = grants.iter().map(|decided| times(decided).0).min();
    let last = grants.iter().map(|decided| times(decided).1).max();
    (first.unwrap_or(0), last.unwrap_or(0))
}

fn largest_limit(eras: &[Era]) -> u128 {
    let limits = eras.iter().map(|era| era.rate.limit_units);
    limits.max().unwrap_or(0)
}

/// At most `most` of the largest limit in every interval of the shortest window, of the quotas of that time. Which
/// quota decided a grant does not matter.
fn spans(eras: &[Era], most: fn(u128) -> u128, grants: &[Decided]) -> Result<(), Broken> {
    for (first, Decided { grant: from, .. }) in grants.iter().enumerate() {
        let mut admitted = 0;
        for (last, Decided { grant: to, .. }) in grants.iter().enumerate().skip(first) {
            let eras = eras_in_time(eras, &grants[first..=last]);
            let windows = eras.iter().map(|era| era.rate.period_ns);
            if to.at_ns - from.at_ns >= windows.min().unwrap_or(0) {
                break;
            }
            admitted += u128::from(to.n);
            let allowed = most(largest_limit(eras));
            within(from.at_ns, to.at_ns, admitted, allowed)?;
        }
    }
    Ok(())
}

/// At most the largest limit of that time in each window. `number` returns the index of a window in the chain of one
/// quota, or in what a change leaves of it.
fn cells(
    eras: &[Era],
    grants: &[Decided],
    number: impl Fn(&Rate, u64) -> i128,
) -> Result<(), Broken> {
    // A grant at the instant of a change is of the era in which it was decided.
    let window = |Decided { grant, era, built }: &Decided| {
        let era = (*era).min(era_at(eras, grant.at_ns)).max(*built);
        (era, number(&eras[era].rate, grant.at_ns))
    };
    for (first, from) in grants.iter().enumerate() {
        let inside = grants[first..]
            .iter()
            .filter(|to| window(to) == window(from));
        let inside: Vec<Decided> = inside.copied().collect();
        let admitted = inside
            .iter()
            .map(|decided| u128::from(decided.grant.n))
            .sum();
        let allowed = largest_limit(eras_in_time(eras, &inside));
        let last = inside.last().unwrap_or(from);
        within(from.grant.at_ns, last.grant.at_ns, admitted, allowed)?;
    }
    Ok(())
}

/// The cost of a grant, at the cheaper of the rates of its time and of its decision, has passed before the next one.
fn next_pays(eras: &[Era], grants: &[Decided]) -> Result<(), Broken> {
    for pair in grants.windows(2) {
        let [from, to] = [pair[0].grant, pair[1].grant];
        let eras = eras_of(eras, &pair[..1]);
        let span_ns = i128::from(to.at_ns - from.at_ns);
        let allowed = |era: &Era| era.rate.accrual * span_ns / era.rate.price;
        let allowed = eras.iter().map(allowed).max().unwrap_or(0);
        let allowed = u128::try_from(allowed).unwrap_or(0);
        within(from.at_ns, to.at_ns, from.n.into(), allowed)?;
    }
    Ok(())
}

/// The level after each grant is at most the limit; it decays by the current half-life.
fn levels(eras: &[Era], grants: &[Decided]) -> Result<(), Broken> {
    let (mut level, mut last_ns) = (0.0_f64, 0);
    for decided in grants {
        let TimedGrant { at_ns, n, .. } = decided.grant;
        let half_lives = eras.iter().enumerate().map(|(index, era)| {
            let until_ns = until_ns(eras, index);
            let ns = at_ns
                .min(until_ns)
                .saturating_sub(era.since_ns.max(last_ns));
            ns as f64 / era.rate.period_ns as f64
        });
        level = level * (-half_lives.sum::<f64>()).exp2() + n as f64;
        last_ns = at_ns;
        let limit = largest_limit(eras_of(eras, &[*decided]));
        if level > decaying::most(limit) {
            return Err(Broken {
                from_ns: at_ns,
                to_ns: at_ns,
                admitted: level.ceil() as u128,
                allowed: limit,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Promise;
    use core::time::Duration;
    use flowgate::Quota;

    fn eras(quotas: &[(u64, Quota)]) -> Vec<Era> {
        let era = |&(since_ns, quota)| Era {
            since_ns,
            rate: Rate::of(quota),
            added: 0,
            refill: Refill::Continuous,
            ends_ns: 0,
            begun_ns: i128::MIN,
        };
        quotas.iter().map(era).collect()
    }

    fn at(at_ns: u64, n: u64, era: usize) -> Decided {
        Decided {
            grant: TimedGrant::new(at_ns, n),
            era,
            built: 0,
        }
    }

    fn per_10_ns(limit: u64) -> Quota {
        Quota::new(limit, Duration::from_nanos(10)).expect("in range")
    }

    #[test]
    fn c1_it_agrees_with_the_plain_checks_where_nothing_changes() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut broken = 0;
        for _ in 0..4_000 {
            let bucket = Quota::per_second(rng.u64(1..4) * 250_000_000).burst(rng.u64(1..5));
            let window = per_10_ns(rng.u64(2..6));
            let mut grants: Vec<_> = (0..rng.usize(1..8))
                .map(|_| at(rng.u64(0..20), rng.u64(1..4), 0))
                .collect();
            grants.sort_by_key(|decided| decided.grant.at_ns);
            let plain: Vec<_> = grants.iter().map(|decided| decided.grant).collect();
            for (kind, quota) in [
                (Kind::Bucket, bucket),
                (Kind::PayAfter, bucket),
                (Kind::Sliding, window),
                (Kind::Approximate, window),
                (Kind::Window(Anchor::Aligned(3)), window),
                (Kind::NextPays, window),
                (Kind::Decaying, window),
            ] {
                let quick = Promise::new(kind, quota).check(&plain).is_ok();
                let slow = check(kind, &eras(&[(0, quota), (7, quota)]), 0, &grants).is_ok();
                assert_eq!(quick, slow, "{kind} {quota} {plain:?}");
                broken += u32::from(!slow);
            }
        }
        assert!(broken > 5_000, "{broken}");
    }

    #[test]
    fn c1_a_grant_behind_a_change_counts_at_its_own_time() {
        let (fast, slow) = (
            Quota::per_second(10).burst(10),
            Quota::per_hour(1).burst(10),
        );
        let eras = eras(&[(0, fast), (1_000_000_000, slow)]);
        let grants = |second: u64| [at(0, 10, 0), at(second * 1_000_000_000, 9, 1)];
        assert!(check(Kind::Bucket, &eras, 0, &grants(1)).is_ok());
        assert!(check(Kind::Bucket, &eras, 0, &grants(0)).is_err());
    }

    #[test]
    fn c1_a_reset_adds_one_burst_and_not_the_debt() {
        let quota = Quota::per_hour(1).burst(5);
        let mut eras = eras(&[(0, quota), (0, quota), (0, quota)]);
        for era in &mut eras[1..] {
            era.added = 5;
        }
        let overdrafts = [at(0, 10, 0), at(0, 10, 1), at(0, 10, 2)];
        let broken = check(Kind::Bucket, &eras, 10, &overdrafts).unwrap_err();
        assert_eq!((broken.admitted, broken.allowed), (30, 25));
    }

    /// The limiter that a handover builds has the current quota at all times.
    #[test]
    fn c1_a_grant_after_a_handover_is_judged_by_no_earlier_quota() {
        let eras = eras(&[(0, per_10_ns(3)), (20, per_10_ns(4))]);
        let after = |built| {
            [
                at(5, 1, 0),
                Decided {
                    built,
                    ..at(7, 3, 1)
                },
            ]
        };
        assert!(check(Kind::Sliding, &eras, 0, &after(0)).is_err());
        assert!(check(Kind::Sliding, &eras, 0, &after(1)).is_ok());
    }

    #[test]
    fn c1_windows_are_judged_by_the_shortest_and_the_largest_limit() {
        let eras = eras(&[
            (0, per_10_ns(3)),
            (
                20,
                Quota::new(4, Duration::from_nanos(5)).expect("in range"),
            ),
        ]);
        let judged = |kind, grants: &[Decided]| check(kind, &eras, 0, grants).is_ok();
        let anchored = Kind::Window(Anchor::FirstGrant);
        // At 5, three by the first quota; and again, after the change.
        let twice = [at(5, 3, 0), at(5, 3, 1)];
        assert!(!judged(Kind::Sliding, &twice));
        assert!(!judged(anchored, &twice));
        // Up to 2 · 3 - 1, by whatever quota it was decided.
        assert!(!judged(anchored, &[at(5, 3, 0), at(6, 3, 1)]));
        assert!(judged(anchored, &[at(5, 3, 0), at(6, 2, 1)]));
        assert!(!judged(Kind::Window(Anchor::Aligned(0)), &twice));
        assert!(!judged(Kind::Decaying, &twice));
        assert!(!judged(Kind::NextPays, &twice));
        // Across the change.
        assert!(judged(Kind::Sliding, &[at(16, 3, 0), at(21, 4, 1)]));
        assert!(!judged(Kind::Sliding, &[at(16, 3, 0), at(20, 4, 1)]));
        assert!(!judged(anchored, &[at(16, 3, 0), at(20, 5, 1)]));
    }
}
