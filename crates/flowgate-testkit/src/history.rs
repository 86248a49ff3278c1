//! Real threads, judged afterwards.
//!
//! A thread knows when it called and when the answer came, not when the limiter decided. So a
//! history is a list of intervals, and it is condemned only if *no* choice of instants within them
//! would keep the promise: a finding is a proof. (The other way round it is exact for one unit at a
//! time at a whole burst; where costs differ, a history may be let off that has no valid choice.)
//!
//! ```
//! use flowgate::Quota;
//! use flowgate_testkit::history::{Event, check};
//!
//! let quota = Quota::per_second(1_000_000_000).burst(2); // one per ns
//! let event = |invoked_ns, returned_ns| Event { invoked_ns, returned_ns, n: 1, admitted: true };
//! // Three within [5, 6]: room for 2 + 1.
//! assert!(check(quota, &[event(5, 6), event(5, 6), event(5, 6)]).is_ok());
//! // A fourth cannot be explained, whenever within those intervals each was decided.
//! assert!(check(quota, &[event(5, 6), event(5, 6), event(5, 6), event(6, 6)]).is_err());
//! ```

use flowgate::Quota;

use crate::promise::Broken;
use crate::rate::Rate;

/// One call as its thread saw it.
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
    /// The limiter's clock, read before the call.
    pub invoked_ns: u64,
    /// The same clock, read after it.
    pub returned_ns: u64,
    /// The cost, in units.
    pub n: u64,
    /// Whether it was granted.
    pub admitted: bool,
}

/// Whether the admissions of `events`, in any order, can have kept burst + rate · t; O(n log n).
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
/// The interval in which more calls began *and* ended than the promise has room for, by the widest
/// margin.
pub fn check(quota: Quota, events: &[Event]) -> Result<(), Broken> {
    let rate = Rate::of(quota);
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
        demand.open(start, rate.accrual * i128::from(event.invoked_ns));
        demand.add_to_first(start + 1, rate.cost(event.n));
        let (most, from) = demand.greatest();
        let excess = most - rate.accrual * i128::from(event.returned_ns) - rate.full;
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
    let span = rate.accrual * i128::from(to_ns - from_ns);
    let allowed = u128::try_from((rate.full + span) / rate.price).unwrap_or(0);
    Err(Broken {
        from_ns,
        to_ns,
        admitted,
        allowed,
    })
}

/// Numbers of which a prefix can be raised, and the greatest found, in O(log n).
struct Maxima {
    /// A heap-shaped tree: the greatest below a node, without what was added above it.
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

    /// Lets the number at `index` take part, at `base` plus what was added to it before.
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

    #[test]
    fn an_empty_history_is_fine() {
        assert_eq!(check(Quota::per_second(1), &[]), Ok(()));
    }
}
