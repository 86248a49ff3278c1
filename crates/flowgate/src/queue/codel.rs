//! Controlled delay: which waiters are shed while a queue persists.

use crate::clock::saturating_nanos;
use crate::quota::QuotaError;
use core::time::Duration;

/// CoDel (*controlled delay*) for services: a queue that persists sheds waiters.
///
/// A queue that is empty now and then absorbs bursts. A queue that persists only makes every caller late. CoDel detects that by
/// the least delay in an interval, and then refuses waiters that have waited too long, instead of granting them.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `target` | 5 ms | an acceptable delay in the queue |
/// | `interval` | 100 ms | how long the delay may be above `target` |
///
/// ```
/// use flowgate::{Codel, ConcurrencyLimit};
/// use std::time::Duration;
///
/// let limit = ConcurrencyLimit::new(20);
/// limit.queue().set_codel(Codel::default());
///
/// // For operations of 200 ms, a delay of 5 ms is no overload yet.
/// let codel = Codel::new(Duration::from_millis(100), Duration::from_secs(2))?;
/// limit.queue().set_codel(codel);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Algorithm
///
/// The delay of a waiter is the time from its arrival to its grant. An interval begins with the first grant after the end of the
/// interval before.
///
/// - The queue is overloaded if the least delay of the last interval was above `target`.
/// - While the queue is overloaded, it refuses each waiter whose delay is above 2 × `target` when that waiter could be granted.
///   The refusal is [`Denied::is_shed`](crate::Denied::is_shed).
/// - Otherwise, a waiter has its own timeout ([`Acquire::within`](crate::Acquire::within)).
/// - The first waiter of an interval is never shed.
///
/// That is the rule of folly's [`Codel`](https://github.com/facebook/folly/blob/main/folly/executors/Codel.cpp). Ben Maurer
/// describes its purpose in [Fail at Scale](https://queue.acm.org/detail.cfm?id=2839461) (ACM Queue 13(8), 2015). It is not the
/// rule of RFC 8289, which drops packets at growing rates.
///
/// Two definitions make the rule independent of the queue's [`Order`](crate::Order):
///
/// - The least delay is that of the oldest waiter at each grant. In FIFO order, the oldest waiter is the one that is granted.
/// - An empty queue counts as a delay of 0.
///
/// Each grant costs a constant number of integer operations. The only clock is that of the limit.
///
/// > **Limit:** `target` has to fit the operations. If each takes 200 ms, waiters are rarely granted within 5 ms, and the default
/// > sheds almost always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codel {
    target_ns: u64,
    interval_ns: u64,
}

impl Codel {
    /// Creates a rule with these settings.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `target` is 0, if `interval` is not longer than `target`, or if `interval` is above 584 years.
    pub fn new(target: Duration, interval: Duration) -> Result<Self, QuotaError> {
        let what = "an interval in nanoseconds";
        let interval_ns = QuotaError::in_range(what, saturating_nanos(interval), 2, u64::MAX - 1)?;
        let what = "a target in nanoseconds";
        let target_ns = QuotaError::in_range(what, saturating_nanos(target), 1, interval_ns - 1)?;
        Ok(Self {
            target_ns,
            interval_ns,
        })
    }

    /// Returns the acceptable delay.
    pub fn target(&self) -> Duration {
        Duration::from_nanos(self.target_ns)
    }

    /// Returns the interval in which the least delay is taken.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }
}

/// A target of 5 ms in an interval of 100 ms.
impl Default for Codel {
    fn default() -> Self {
        Self {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
        }
    }
}

/// A [`Codel`] at work in one queue.
#[derive(Debug)]
pub(super) struct Shedding {
    pub(super) codel: Codel,
    /// When the rule was set. It is not known how long waiters had waited before.
    since_ns: u64,
    /// The end of the interval.
    end_ns: u64,
    /// The least delay in the interval.
    least_ns: u64,
    is_overloaded: bool,
}

impl Shedding {
    pub(super) fn new(codel: Codel, now_ns: u64) -> Self {
        Self {
            codel,
            since_ns: now_ns,
            end_ns: now_ns,
            least_ns: 0,
            is_overloaded: false,
        }
    }

    /// Notes that the queue was empty.
    pub(super) fn note_empty(&mut self) {
        self.least_ns = 0;
    }

    /// Decides whether a waiter that came at `came_ns`, and could be granted at `at_ns`, is shed. The oldest waiter came at
    /// `oldest_ns`.
    pub(super) fn sheds(&mut self, at_ns: u64, came_ns: u64, oldest_ns: u64) -> bool {
        let delay_ns = |came_ns: u64| at_ns.saturating_sub(came_ns.max(self.since_ns));
        let (delay_ns, longest_ns) = (delay_ns(came_ns), delay_ns(oldest_ns));
        let target_ns = self.codel.target_ns;
        if at_ns > self.end_ns {
            self.is_overloaded = self.least_ns > target_ns;
            self.end_ns = at_ns.saturating_add(self.codel.interval_ns);
            self.least_ns = longest_ns;
            return false;
        }
        self.least_ns = self.least_ns.min(longest_ns);
        self.is_overloaded && delay_ns > target_ns.saturating_mul(2)
    }
}
