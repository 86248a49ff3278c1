use crate::FleetError;
use crate::terms::Terms;
use flowgate::Quota;
use std::sync::Arc;
use std::time::Duration;

/// By how much the leases of a limit may exceed it.
///
/// A process holds tokens in advance, and spends them later. So in an interval of length t, all processes together can be admitted b + r·t
/// and what they held when it began, where b is the burst and r the rate. An overshoot is the most that they may hold together.
///
/// A larger overshoot means fewer calls. When n processes use the limit up, they make about n·r/overshoot calls per second together, and up to
/// twice as many when they want more than that. The [guide](crate::guide#leases) has a table.
///
/// ```
/// use flowgate_fleet::{Fleet, Overshoot};
///
/// let fleet = Fleet::local().nodes(8).open()?;
/// let limit = || fleet.limit("api", "1000/s burst 1000".parse().expect("a quota"));
/// assert!(limit().leased(Overshoot::percent(20)).build().is_ok()); // 200 tokens, 25 for each node
///
/// let error = limit().leased(Overshoot::tokens(50)).build().unwrap_err();
/// assert!(error.to_string().contains("Overshoot::tokens(80)"), "{error}");
/// # Ok::<_, flowgate_fleet::FleetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overshoot(Size);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Percent(u32),
    Tokens(u64),
    None,
}

impl Overshoot {
    /// Returns an overshoot of this part of the burst, in percent.
    pub const fn percent(percent: u32) -> Self {
        Self(Size::Percent(percent))
    }

    /// Returns an overshoot of this many tokens.
    pub const fn tokens(tokens: u64) -> Self {
        Self(Size::Tokens(tokens))
    }

    /// Returns no overshoot: the store keeps a smaller bucket.
    ///
    /// At most half of the burst is held in advance, and the store's bucket is smaller by that.
    ///
    /// All processes together are never admitted more than b + r·t. They can be admitted less: after a rest, one process may get only half of
    /// the burst immediately.
    pub const fn none() -> Self {
        Self(Size::None)
    }
}

/// A node must be able to hold this many units in advance. With fewer, nearly each decision would cost a call.
const LEAST_HELD: u64 = 10;
/// The most units that a limiter can hold in one lease.
const MOST_HELD: u64 = (1 << 22) - 1;
/// The number of processes if it is not stated.
const NODES: u32 = 4;
/// The bounds of the length of a lease.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);
/// A lease is at least this many time-outs long: an answer that comes just in time is worth having.
const TIMEOUTS: u32 = 4;
/// How much two clocks may differ in their speed, in parts per million: 200 of drift, 500 of slewing, and a reserve.
const DRIFT_PPM: u32 = 1_000;

/// What the terms of leases follow from, beside the quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lender {
    pub(crate) overshoot: Overshoot,
    pub(crate) nodes: Option<u32>,
    pub(crate) timeout: Duration,
}

impl Lender {
    /// Returns the terms of leases of a limit with this quota.
    ///
    /// # Errors
    ///
    /// Leases cannot keep the overshoot.
    pub(crate) fn lending(&self, quota: Quota, terms: Terms) -> Result<Arc<Lending>, FleetError> {
        let Self {
            overshoot,
            nodes,
            timeout,
        } = *self;
        Lending::of(overshoot, terms, quota.scale(), nodes, timeout).map(Arc::new)
    }
}

/// The most that leases of any quota so far have had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostLent {
    /// The limit, and the bucket that the store keeps.
    burst: u64,
    kept: u64,
    ahead: u64,
    fastest: Terms,
    /// The longest lease, and the longest time that units wait before it.
    length: Duration,
    waits: Duration,
    /// What all processes may hold together. `None`: only the length bounds it.
    held: Option<u64>,
    /// Leases of several rates have been in use.
    is_mixed: bool,
}

impl MostLent {
    pub(crate) fn of(lending: &Lending) -> Self {
        Self {
            burst: lending.limit.burst,
            kept: lending.terms.burst,
            ahead: lending.ahead,
            fastest: lending.limit,
            length: lending.length,
            waits: lending.ahead_for(),
            held: lending.held,
            is_mixed: false,
        }
    }

    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            burst: self.burst.max(other.burst),
            kept: self.kept.max(other.kept),
            ahead: self.ahead.max(other.ahead),
            fastest: self.fastest.faster(other.fastest),
            length: self.length.max(other.length),
            waits: self.waits.max(other.waits),
            held: self.held.zip(other.held).map(|(one, other)| one.max(other)),
            is_mixed: self.is_mixed || other.is_mixed || {
                let rate = |terms: Terms| (terms.count, terms.period);
                rate(self.fastest) != rate(other.fastest)
            },
        }
    }

    /// Returns the largest burst and the largest rate.
    pub(crate) fn limit(&self) -> Terms {
        Terms {
            burst: self.burst,
            ..self.fastest
        }
    }

    /// Returns by how much leases may exceed the limit.
    ///
    /// A process with a smaller rate waits longer for what it has reserved, and then holds it for the length of a lease.
    pub(crate) fn over(&self) -> u64 {
        let waits = if self.is_mixed {
            self.waits
        } else {
            Duration::ZERO
        };
        let by_time = self.fastest.flow(self.length + waits);
        let by_time = u64::try_from(by_time).unwrap_or(u64::MAX);
        let overshoot = self.held.map_or(by_time, |held| held.min(by_time));
        self.kept
            .saturating_add(overshoot)
            .saturating_sub(self.burst)
    }

    /// Returns what a store can forget: its bucket, and what is reserved.
    pub(crate) fn forgotten(&self) -> u64 {
        self.kept.saturating_add(self.ahead)
    }
}

/// The terms of the leases of a limit: how long, and how much.
///
/// Tokens that were debited before an interval, and are spent in it, are the overshoot. There are at most `nodes · most` of them, and at
/// most what flows in within the length of a lease. One of the two is at most what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lending {
    /// The limit.
    pub(crate) limit: Terms,
    /// The bucket that the store keeps. It is smaller if the limit is not to be exceeded.
    pub(crate) terms: Terms,
    /// No token is spent later than this after the store has debited it, by any clock.
    pub(crate) length: Duration,
    /// For how long a lease can be spent by the clock of this process, from the moment at which it was asked for.
    pub(crate) spent_for: Duration,
    /// The most units that this process holds and has asked for. No request can take more.
    pub(crate) most: u64,
    /// The most units that it asks for while no request needs more.
    pub(crate) usual: u64,
    /// The most units that all processes hold together, and so by how much they may exceed the store's bucket.
    pub(crate) overshoot: u64,
    /// What each process may hold, times the processes, if that bounds the overshoot.
    pub(crate) held: Option<u64>,
    /// The most units that all processes reserve together before they have flowed in. 0: they reserve nothing.
    pub(crate) ahead: u64,
    /// The most units that a process asks for while others wait, too.
    pub(crate) turn: u64,
    /// How many processes there are, as far as is known.
    pub(crate) nodes: u32,
}

impl Lending {
    /// Returns the terms of leases that keep `overshoot`, if `nodes` share a bucket of `terms`, in which a token is `scale` units, and an
    /// answer of the store takes at most `timeout`.
    pub(crate) fn of(
        overshoot: Overshoot,
        terms: Terms,
        scale: u64,
        nodes: Option<u32>,
        timeout: Duration,
    ) -> Result<Self, FleetError> {
        let wanted = match overshoot.0 {
            Size::Percent(percent) => u128::from(terms.burst) * u128::from(percent) / 100,
            Size::Tokens(tokens) => u128::from(tokens) * u128::from(scale),
            Size::None => u128::from(terms.burst / 2),
        };
        let shortest = slowed(slowed(SHORTEST.max(timeout * TIMEOUTS)));
        let for_all = u128::from(LEAST_HELD) * u128::from(scale) * u128::from(nodes.unwrap_or(1));
        let is_timed = wanted >= for_all.max(terms.flow(shortest));
        if !is_timed && (nodes.is_none() || wanted < for_all) {
            let least = if nodes.is_some() {
                for_all
            } else {
                for_all.max(terms.flow(shortest))
            };
            let least = u64::try_from(least.div_ceil(scale.into())).unwrap_or(u64::MAX);
            return Err(if overshoot.0 == Size::None {
                FleetError::NoOvershoot {
                    burst: least.saturating_mul(2),
                }
            } else {
                FleetError::Overshoot { least }
            });
        }
        let longest = slowed(slowed(LONGEST)).max(shortest);
        let length = if is_timed {
            terms.time_of(wanted).min(longest)
        } else {
            longest
        };
        let within = |units: u128| u64::try_from(units).unwrap_or(u64::MAX).min(MOST_HELD);
        let (held, held_of_all) = match nodes {
            Some(nodes) if !is_timed => {
                let held = within(wanted / u128::from(nodes));
                (held, Some(held.saturating_mul(nodes.into())))
            }
            _ => (MOST_HELD, None),
        };
        let overshoot_of = terms.flow(length);
        let overshoot_of = held_of_all.map_or(overshoot_of, |held| overshoot_of.min(held.into()));
        let overshoot_of = u64::try_from(overshoot_of).unwrap_or(u64::MAX);
        let burst = match overshoot.0 {
            Size::None => terms.burst - overshoot_of,
            _ => terms.burst,
        };
        let most = held.min(burst);
        let nodes = nodes.unwrap_or(NODES);
        let share = (burst / u64::from(nodes)).max(1);
        let usual = within(terms.flow(length).div_ceil(2)).min(most).min(share);
        let (limit, terms) = (terms, Terms { burst, ..terms });
        let ahead = overshoot_of.min(terms.room());
        // One more turn than there are processes: none finds less room than it needs.
        let turn = Some((ahead / (u64::from(nodes) + 1)).min(usual));
        let turn = turn.filter(|turn| *turn >= scale);
        Ok(Self {
            limit,
            terms,
            length,
            spent_for: quickened(quickened(length)),
            most,
            usual,
            overshoot: overshoot_of,
            held: held_of_all,
            ahead: turn.map_or(0, |_| ahead),
            turn: turn.unwrap_or(usual),
            nodes,
        })
    }

    /// Returns the terms that a call states: a larger burst, so that units can be taken before they have flowed in.
    pub(crate) fn stated(&self) -> Terms {
        Terms {
            burst: self.terms.burst + self.ahead,
            ..self.terms
        }
    }

    /// Returns how many units have not flowed in yet, with this debt, in parts.
    pub(crate) fn not_yet(&self, debt: u64) -> u64 {
        let full = self.terms.burst * self.terms.period;
        debt.saturating_sub(full).div_ceil(self.terms.period)
    }

    /// Returns how many units others had reserved before `taken` units were, after which this is the debt, in parts.
    pub(crate) fn of_others(&self, debt: u64, taken: u64) -> u64 {
        self.not_yet(debt).saturating_sub(taken)
    }

    /// Returns the next turn of a process whose last one was `turn`, if others have reserved so much.
    ///
    /// If m processes take equal turns, each of them comes to a part of m + 1: there may be more of them than was said. If
    /// their turns differ, they come closer each time.
    pub(crate) fn turn_among(&self, others: u64, turn: u64) -> u64 {
        let [ahead, others, of_it] = [self.ahead, others, turn].map(u128::from);
        let part = ahead * of_it / (others + 2 * of_it);
        u64::try_from(part).unwrap_or(u64::MAX).clamp(1, self.turn)
    }

    /// Returns the longest time that units are reserved for, rounded up.
    pub(crate) fn ahead_for(&self) -> Duration {
        let one = Duration::from_micros(1);
        let is_none = self.ahead == 0;
        if is_none {
            Duration::ZERO
        } else {
            self.terms.time_of(self.ahead.into()) + one
        }
    }
}

/// The time that a clock may show while `time` passes by another one, rounded up.
pub(crate) fn slowed(time: Duration) -> Duration {
    let ppm = 1_000_000 + u128::from(DRIFT_PPM);
    nanos((time.as_nanos() * ppm).div_ceil(1_000_000))
}

/// The time that passes at least while a clock shows `time`, rounded down.
pub(crate) fn quickened(time: Duration) -> Duration {
    let ppm = 1_000_000 + u128::from(DRIFT_PPM);
    nanos(time.as_nanos() * 1_000_000 / ppm)
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lending(
        quota: &str,
        overshoot: Overshoot,
        nodes: Option<u32>,
        timeout_ms: u64,
    ) -> Result<Lending, FleetError> {
        let quota: flowgate::Quota = quota.parse().expect("a quota");
        let terms = Terms::of(quota).expect("it is exact");
        let timeout = Duration::from_millis(timeout_ms);
        Lending::of(overshoot, terms, quota.scale(), nodes, timeout)
    }

    #[test]
    fn an_overshoot_is_kept_by_the_length_of_leases_or_by_what_each_node_holds() {
        let quota = "100000/s burst 10000";
        // 5,000 tokens flow in within 50 ms, which bears answers of 12 ms.
        let timed = lending(quota, Overshoot::percent(50), Some(4), 12).unwrap();
        assert_eq!(timed.length, Duration::from_millis(50));
        assert_eq!(
            (timed.overshoot, timed.usual, timed.most),
            (5_000, 2_500, 10_000)
        );
        // But not answers of 50 ms.
        let counted = lending(quota, Overshoot::percent(50), Some(4), 50).unwrap();
        assert_eq!(
            (counted.overshoot, counted.usual, counted.most),
            (5_000, 1_250, 1_250)
        );
        let counted = lending(quota, Overshoot::percent(5), Some(8), 50).unwrap();
        assert_eq!((counted.overshoot, counted.most), (496, 62));
        assert_eq!(counted.terms.burst, 10_000);
        // Leases are not longer than a second.
        let slow = lending("100/min burst 100", Overshoot::percent(100), None, 50).unwrap();
        assert_eq!((slow.overshoot, slow.usual), (2, 1));
        assert!(slow.length > LONGEST && slow.spent_for <= LONGEST);
    }

    #[test]
    fn turns_are_equal_parts_of_the_overshoot_and_become_equal() {
        let quota = "100000/s burst 10000";
        let lending = lending(quota, Overshoot::percent(50), Some(4), 12).unwrap();
        assert_eq!((lending.ahead, lending.turn), (5_000, 1_000));
        assert_eq!(lending.stated().burst, 15_000);
        assert_eq!(lending.ahead_for(), Duration::from_micros(50_001));
        // 16 processes, of which one has a large turn.
        let mut turns = [20; 16];
        turns[0] = 1_000;
        for _ in 0..200 {
            for at in 0..turns.len() {
                let others = turns.iter().sum::<u64>() - turns[at];
                turns[at] = lending.turn_among(others, turns[at]);
            }
        }
        assert!(
            turns.iter().all(|turn| (280..=305).contains(turn)),
            "{turns:?}"
        );
        // A process that is alone takes the largest.
        assert_eq!(lending.turn_among(0, 1), 1_000);
    }

    #[test]
    fn nothing_is_reserved_where_a_turn_is_less_than_a_token_or_the_store_could_not_count_it() {
        let slow = lending("400/day", Overshoot::percent(50), Some(4), 50).unwrap();
        assert_eq!((slow.ahead, slow.stated()), (0, slow.terms));
        let quota = |burst: u64| format!("1000/s burst {burst}");
        let terms = |burst| Terms::of(quota(burst).parse().expect("a quota"));
        let most = terms(u64::MAX / 1_000).unwrap_err();
        for room in [0, 10, 100, 1_000_000] {
            let large = quota(most - room);
            let large = lending(&large, Overshoot::tokens(1_000), Some(4), 50).unwrap();
            assert!(large.ahead <= room);
            assert!(terms(large.stated().burst).is_ok());
        }
    }

    #[test]
    fn an_overshoot_of_none_is_taken_from_the_burst() {
        let quota = "100000/s burst 10000";
        for (nodes, timeout_ms) in [(None, 12), (Some(8), 50)] {
            let exact = lending(quota, Overshoot::none(), nodes, timeout_ms).unwrap();
            assert_eq!(exact.terms.burst + exact.overshoot, 10_000);
            assert_eq!(exact.overshoot, 5_000);
        }
    }

    #[test]
    fn an_overshoot_that_cannot_be_kept_is_refused_with_the_least_that_can() {
        let quotas = [
            "100000/s burst 10000",
            "100/s burst 100 units 7",
            "1/s burst 3",
            "3/day",
        ];
        for quota in quotas {
            for nodes in [None, Some(1), Some(8), Some(1_000)] {
                let of = |overshoot| lending(quota, overshoot, nodes, 50);
                let Err(FleetError::Overshoot { least }) = of(Overshoot::tokens(0)) else {
                    panic!("{quota}");
                };
                let kept = of(Overshoot::tokens(least)).unwrap();
                assert!(kept.overshoot <= least * 7);
                assert!(matches!(
                    of(Overshoot::tokens(least - 1)),
                    Err(FleetError::Overshoot { least: same }) if same == least
                ));
            }
        }
        let least = match lending("50/s", Overshoot::none(), Some(8), 50) {
            Err(FleetError::NoOvershoot { burst }) => burst,
            other => panic!("{other:?}"),
        };
        assert_eq!(least, 160);
        let quota = format!("50/s burst {least}");
        assert!(lending(&quota, Overshoot::none(), Some(8), 50).is_ok());
    }
}
