//! Judges what real threads observed.
//!
//! A thread knows when it called and when the call returned, not when the limiter decided. So a history is a list of
//! intervals. The check reports a violation only if *no* choice of decision times keeps the bound: a finding is a
//! proof. The converse is exact for single units of a whole burst. With different costs, the check may accept a history
//! without a valid choice.
//!
//! ```
//! use flowgate::Quota;
//! use flowgate_testkit::history::{Event, check};
//!
//! let quota = Quota::per_second(1_000_000_000).burst(2); // one per ns
//! let event = |invoked_ns, returned_ns| Event { invoked_ns, returned_ns, n: 1, admitted: true };
//! // Three within [5, 6]: allowed are 2 + 1.
//! assert!(check(quota, &[event(5, 6), event(5, 6), event(5, 6)]).is_ok());
//! // With a fourth, no choice of decision times is valid.
//! assert!(check(quota, &[event(5, 6), event(5, 6), event(5, 6), event(6, 6)]).is_err());
//! ```

use flowgate::Quota;

use crate::promise::Broken;
use crate::rate::{Rate, greatest_common_divisor};

/// One call, as its thread observed it.
///
/// ```
/// use flowgate::{Clock, Quota, TokenBucket};
/// use flowgate_testkit::history::{Event, check};
/// use std::thread;
///
/// let (quota, clock) = (Quota::per_second(1000).burst(5), Clock::system());
/// let bucket = TokenBucket::builder(quota).clock(clock.clone()).build()?;
/// let seen = || {
///     let invoked_ns = clock.now().as_nanos();
///     let admitted = bucket.try_acquire().is_ok();
///     Event { invoked_ns, returned_ns: clock.now().as_nanos(), n: 1, admitted }
/// };
/// let events: Vec<Event> = thread::scope(|scope| {
///     let threads = [(); 2].map(|()| scope.spawn(|| (0..100).map(|_| seen()).collect::<Vec<_>>()));
///     threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
/// });
/// assert!(check(quota, &events).is_ok());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Limiter's clock before the call, in nanoseconds.
    pub invoked_ns: u64,
    /// Limiter's clock after the call, in nanoseconds.
    pub returned_ns: u64,
    /// Cost, in units.
    pub n: u64,
    /// Whether the call was granted.
    pub admitted: bool,
}

/// Change of quota, as its thread observed it.
///
/// ```
/// use flowgate::{Clock, Quota, TokenBucket};
/// use flowgate_testkit::history::Change;
///
/// let (bucket, clock) = (TokenBucket::new(Quota::per_second(10)), Clock::system());
/// let quota = Quota::per_second(20);
/// let invoked_ns = clock.now().as_nanos();
/// bucket.set_quota(quota)?;
/// let change = Change { invoked_ns, returned_ns: clock.now().as_nanos(), quota };
/// assert!(change.invoked_ns <= change.returned_ns);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Limiter's clock before the call, in nanoseconds.
    pub invoked_ns: u64,
    /// Limiter's clock after the call, in nanoseconds.
    pub returned_ns: u64,
    /// The new quota. All quotas of a history count the same units.
    pub quota: Quota,
}

/// Checks whether some order of the admissions keeps burst + rate × t, in O(n log n).
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::history::{Event, check};
///
/// let quota = Quota::per_second(1).burst(2);
/// let within_a_microsecond = Event { invoked_ns: 0, returned_ns: 1000, n: 3, admitted: true };
/// let broken = check(quota, &[within_a_microsecond]).unwrap_err();
/// assert_eq!((broken.admitted, broken.allowed), (3, 2));
///
/// let refused = Event { admitted: false, ..within_a_microsecond };
/// assert!(check(quota, &[refused]).is_ok());
/// ```
///
/// # Errors
///
/// Returns the interval with the largest excess: more calls began *and* ended in it than the bound allows.
pub fn check(quota: Quota, events: &[Event]) -> Result<(), Broken> {
    check_changing(quota, &[], events)
}

/// Checks a history with changes of quota: at most the largest burst + ∫ rate.
///
/// `changes` are in order, and do not overlap. During a change, the faster rate counts. A call at an explicit time has
/// that time at both ends of its event. So a thread that read the clock before a change is judged by the limiter's own
/// time.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::history::{Change, Event, check_changing};
///
/// let (fast, slow) = (Quota::per_second(1_000_000_000).burst(5), Quota::per_hour(1).burst(5));
/// let change = Change { invoked_ns: 10, returned_ns: 12, quota: slow };
/// let took = |at_ns, n| Event { invoked_ns: at_ns, returned_ns: at_ns, n, admitted: true };
/// // A burst at 2, and the refill at 1 per ns until 10, or 12.
/// assert!(check_changing(fast, &[change], &[took(2, 5), took(20, 5)]).is_ok());
/// // Not again at 2, by a caller that read the clock then and calls after the change.
/// assert!(check_changing(fast, &[change], &[took(2, 5), took(2, 4)]).is_err());
/// ```
///
/// # Errors
///
/// Returns the interval with the largest excess, as [`check`] does.
pub fn check_changing(quota: Quota, changes: &[Change], events: &[Event]) -> Result<(), Broken> {
    let rate = Inflow::new(quota, changes);
    let mut admitted: Vec<&Event> = events.iter().filter(|event| event.admitted).collect();
    let mut starts: Vec<u64> = admitted.iter().map(|event| event.invoked_ns).collect();
    starts.sort_unstable();
    starts.dedup();
    admitted.sort_unstable_by_key(|event| event.returned_ns);

    // For each start s: what was called at or after s and has returned by now, less what flows in
    // until s, so that the greatest one, less what flows in from zero to now, is the worst
    // interval.
    let mut demand = Maxima::new(starts.len());
    let mut worst: Option<(i128, usize, u64)> = None;
    for event in &admitted {
        let start = starts.partition_point(|start| *start < event.invoked_ns);
        demand.open(start, rate.until(event.invoked_ns));
        demand.add_to_first(start + 1, rate.price.saturating_mul(event.n.into()));
        let (most, from) = demand.greatest();
        let excess = most - rate.until(event.returned_ns) - rate.full;
        if excess > worst.map_or(0, |(excess, ..)| excess) {
            worst = Some((excess, from, event.returned_ns));
        }
    }
    let Some((_, from, to_ns)) = worst else {
        return Ok(());
    };
    let from_ns = starts[from];
    let inside = |event: &&&Event| event.invoked_ns >= from_ns && event.returned_ns <= to_ns;
    let admitted = admitted
        .iter()
        .filter(inside)
        .map(|event| u128::from(event.n))
        .sum();
    let span = rate.until(to_ns) - rate.until(from_ns);
    let allowed = u128::try_from((rate.full + span) / rate.price).unwrap_or(0);
    Err(Broken {
        from_ns,
        to_ns,
        admitted,
        allowed,
    })
}

/// Refill in the grains that all quotas of a history share.
struct Inflow {
    /// Start of a piece, refill before it, and refill per nanosecond in it.
    pieces: Vec<(u64, i128, i128)>,
    /// A unit.
    price: i128,
    /// The largest burst.
    full: i128,
}

impl Inflow {
    fn new(quota: Quota, changes: &[Change]) -> Self {
        let rates: Vec<Rate> = [quota]
            .into_iter()
            .chain(changes.iter().map(|change| change.quota))
            .map(Rate::of)
            .collect();
        let mut prices: Vec<i128> = rates.iter().map(|rate| rate.price).collect();
        prices.sort_unstable();
        prices.dedup();
        // A multiple of each price.
        let price = prices
            .into_iter()
            .reduce(least_common_multiple)
            .unwrap_or(1);
        let per_ns = |index: usize| rates[index].accrual * (price / rates[index].price);
        let mut pieces = vec![(0, 0, per_ns(0))];
        let mut from = |at_ns: u64, per_ns: i128| {
            let (since_ns, before, old) = pieces[pieces.len() - 1];
            let before = before + old * i128::from(at_ns - since_ns);
            pieces.push((at_ns, before, per_ns));
        };
        for (index, change) in changes.iter().enumerate() {
            from(change.invoked_ns, per_ns(index).max(per_ns(index + 1)));
            from(change.returned_ns, per_ns(index + 1));
        }
        let largest = rates.iter().map(|rate| rate.burst_units).max().unwrap_or(0);
        Self {
            pieces,
            price,
            full: price.saturating_mul(largest.into()),
        }
    }

    /// Returns the refill from the clock's origin until `at_ns`.
    fn until(&self, at_ns: u64) -> i128 {
        let piece = self.pieces.partition_point(|piece| piece.0 <= at_ns);
        let (since_ns, before, per_ns) = self.pieces[piece.saturating_sub(1)];
        before + per_ns * i128::from(at_ns - since_ns)
    }
}

fn least_common_multiple(a: i128, b: i128) -> i128 {
    a / greatest_common_divisor(a, b) * b
}

/// Numbers with prefix increments and maximum queries in O(log n).
struct Maxima {
    /// A heap-shaped tree: the maximum below a node, without what was added above it.
    greatest: Vec<i128>,
    added: Vec<i128>,
    leaves: usize,
    open: Vec<bool>,
}

impl Maxima {
    const NONE: i128 = i128::MIN / 4;

    fn new(len: usize) -> Self {
        let leaves = len.next_power_of_two();
        Self {
            greatest: vec![Self::NONE; 2 * leaves],
            added: vec![0; 2 * leaves],
            leaves,
            open: vec![false; leaves],
        }
    }

    /// Activates the number at `index`: `base` plus what was added to it before.
    fn open(&mut self, index: usize, base: i128) {
        if !core::mem::replace(&mut self.open[index], true) {
            let mut node = index + self.leaves;
            self.greatest[node] = base + self.added[node];
            while node > 1 {
                node /= 2;
                self.settle(node);
            }
        }
    }

    fn settle(&mut self, node: usize) {
        self.greatest[node] =
            self.greatest[2 * node].max(self.greatest[2 * node + 1]) + self.added[node];
    }

    fn add_to_first(&mut self, len: usize, amount: i128) {
        self.add(1, 0, self.leaves, len, amount);
    }

    fn add(&mut self, node: usize, from: usize, to: usize, end: usize, amount: i128) {
        if from >= end {
            return;
        }
        if to <= end {
            self.added[node] += amount;
            self.greatest[node] += amount;
            return;
        }
        let middle = usize::midpoint(from, to);
        self.add(2 * node, from, middle, end, amount);
        self.add(2 * node + 1, middle, to, end, amount);
        self.settle(node);
    }

    fn greatest(&self) -> (i128, usize) {
        let mut node = 1;
        while node < self.leaves {
            let left = self.greatest[2 * node] >= self.greatest[2 * node + 1];
            node = 2 * node + usize::from(!left);
        }
        (self.greatest[1], node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in O(n³).
    fn slowly(quota: Quota, events: &[Event]) -> bool {
        let rate = Rate::of(quota);
        events.iter().all(|from| {
            events.iter().all(|to| {
                let inside = events.iter().filter(|event| {
                    event.admitted
                        && event.invoked_ns >= from.invoked_ns
                        && event.returned_ns <= to.returned_ns
                });
                let used: i128 = inside.map(|event| rate.cost(event.n)).sum();
                let span = i128::from(to.returned_ns) - i128::from(from.invoked_ns);
                span < 0 || used <= rate.full + rate.accrual * span
            })
        })
    }

    #[test]
    fn c1_the_quick_check_agrees_with_the_definition() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut condemned = 0;
        for _ in 0..3_000 {
            let quota = Quota::per_second(rng.u64(1..4) * 500_000_000).burst(rng.u64(1..6));
            let events: Vec<Event> = (0..rng.usize(1..12))
                .map(|_| {
                    let invoked_ns = rng.u64(0..12);
                    let returned_ns = invoked_ns + rng.u64(0..5);
                    Event {
                        invoked_ns,
                        returned_ns,
                        n: rng.u64(1..4),
                        admitted: rng.u8(..8) > 0,
                    }
                })
                .collect();
            let quick = check(quota, &events);
            assert_eq!(quick.is_ok(), slowly(quota, &events), "{quota} {events:?}");
            if let Err(broken) = quick {
                condemned += 1;
                assert!(broken.admitted > broken.allowed, "{broken}");
            }
        }
        assert!(
            (500..2_500).contains(&condemned),
            "{condemned} of 3000 condemned"
        );
    }

    /// The fast check and the slow one of the suite agree on changes that take no time.
    #[test]
    fn c1_c4_the_quick_check_agrees_with_the_suite_across_changes() {
        use crate::promise::check_trace;
        use crate::script::{Op, OperationOutcome, Setup, Step};

        let mut rng = fastrand::Rng::with_seed(9);
        let mut condemned = 0;
        for _ in 0..2_000 {
            let burst = rng.u64(3..12);
            let mut quota = || Quota::per_second(rng.u64(1..5) * 250_000_000).burst(burst);
            let (first, second) = (quota(), quota());
            let change_ns = rng.u64(1..10);
            let mut takes = |era: usize, count: usize| -> Vec<(usize, u64, u64)> {
                let most_ns = if era == 0 { change_ns } else { 20 };
                (0..count)
                    .map(|_| (era, rng.u64(0..=most_ns), rng.u64(1..4)))
                    .collect()
            };
            let takes = [takes(0, 4), takes(1, 4)].concat();
            let step = |at_ns, op| Step { at_ns, op };
            let mut trace: Vec<_> = takes
                .iter()
                .map(|(_, at_ns, n)| (step(*at_ns, Op::Try { n: *n }), OperationOutcome::Admitted))
                .collect();
            let change = Op::SetQuota {
                quota: second,
                carry: flowgate::Carry::Kept,
            };
            trace.insert(4, (step(change_ns, change), OperationOutcome::Changed));
            let events: Vec<_> = takes
                .iter()
                .map(|&(_, at_ns, n)| Event {
                    invoked_ns: at_ns,
                    returned_ns: at_ns,
                    n,
                    admitted: true,
                })
                .collect();
            let change = Change {
                invoked_ns: change_ns,
                returned_ns: change_ns,
                quota: second,
            };
            let quick = check_changing(first, &[change], &events).is_ok();
            let slow = check_trace(&Setup::new(first), &trace).is_ok();
            assert_eq!(quick, slow, "{first} {second} at {change_ns}: {events:?}");
            condemned += u32::from(!slow);
        }
        assert!((200..1_900).contains(&condemned), "{condemned} of 2000");
    }

    #[test]
    fn an_empty_history_is_fine() {
        assert_eq!(check(Quota::per_second(1), &[]), Ok(()));
    }
}
