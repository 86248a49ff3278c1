//! The rules of a queue.

use core::time::Duration;

/// The order in which waiters are served.
/// ```
/// use flowgate::{ConcurrencyLimit, Order};
///
/// let limit = ConcurrencyLimit::new(10);
/// limit.queue().set_order(Order::adaptive_lifo()).set_max_waiters(1000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// First in, first out. New requests do not overtake.
    #[default]
    Fifo,
    /// Last in, first out: under overload, some waiters are served in time, where all would be late in order of arrival. A
    /// full queue refuses the oldest waiter, not the new caller.
    Lifo,
    /// [`Fifo`](Self::Fifo) while the queue is sometimes empty, [`Lifo`](Self::Lifo) while it has not been empty for longer than
    /// `after`. A full queue refuses the oldest waiter, in both phases.
    ///
    /// Facebook calls this *adaptive LIFO* ([Fail at Scale](https://queue.acm.org/detail.cfm?id=2839461), ACM Queue 13(8),
    /// 2015).
    AdaptiveLifo {
        /// How long there must have been waiters.
        after: Duration,
    },
    /// New requests take what is available, ahead of all waiters. Waiters are served in order of arrival. Throughput is
    /// higher where permits are held briefly, but a large request can wait forever.
    Barging,
}

impl Order {
    /// Returns adaptive LIFO with the usual interval of 100 ms.
    ///
    /// ```
    /// use flowgate::Order;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Order::adaptive_lifo(), Order::AdaptiveLifo { after: Duration::from_millis(100) });
    /// ```
    #[must_use]
    pub const fn adaptive_lifo() -> Self {
        Self::AdaptiveLifo {
            after: Duration::from_millis(100),
        }
    }

    /// Whether a full queue refuses its oldest waiter, and not the new caller.
    pub(super) fn evicts_oldest(self) -> bool {
        matches!(self, Self::Lifo | Self::AdaptiveLifo { .. })
    }
}

/// The punctuality of waits, and what it may cost.
/// ```
/// use flowgate::{LeakyBucket, Precision};
///
/// let pace = LeakyBucket::new("10000/s".parse()?);
/// pace.queue().set_precision(Precision::Strict); // it has a processor to itself
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// Waits end on whole milliseconds, so that many of them share a wake-up.
    Coarse,
    /// Waits are accurate to a few microseconds. The queue measures how late wake-ups are on this machine. It wakes the next
    /// waiter that much earlier, by at most 0.1 ms and at most a quarter of its wait. The waiter spends the rest awake,
    /// mostly a few microseconds.
    #[default]
    Normal,
    /// Waits are accurate to a fraction of a microsecond: the next waiter is woken early, and watches the clock for the rest.
    /// That takes a share of a processor which grows with the rate, and blocks a runtime's thread for those microseconds.
    Strict,
}

/// The instant from which the distance to the next grant is counted.
///
/// ```text
///                 ├───────┼───────┼───────┼───────┤  due
///   Scheduled     │     x │ x     │ x     │     x    late wake-ups do not move what follows: the
///                                                    rate holds, two can be closer together
///   AtLeast       │     x ├─────── x ├─────── x      they do: never closer together, the
///                                                    rate sags by as much as they are late
/// ```
/// ```
/// use flowgate::{LeakyBucket, Spacing};
///
/// let polite = LeakyBucket::new("1000/s".parse()?);
/// let first = polite.acquire().spacing(Spacing::AtLeast).block()?;
/// let second = polite.acquire().spacing(Spacing::AtLeast).block()?;
/// assert!(second.at().as_nanos() - first.at().as_nanos() >= 1_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spacing {
    /// From the scheduled time of a grant. However late a waiter wakes up, no grant is lost.
    #[default]
    Scheduled,
    /// From the instant at which a waiter really returned, which only the waiter itself can determine. The waiter has to look
    /// for its grant itself. If it has not looked one second after it was woken, it loses its place to those behind it. It
    /// enters the queue again when it looks.
    AtLeast,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) order: Order,
    pub(super) precision: Precision,
    pub(super) max_waiters: u32,
    /// `None`: without a bound.
    pub(super) max_units: Option<u64>,
    pub(super) max_wait_ns: u64,
}

impl Settings {
    pub(super) const fn new() -> Self {
        Self {
            order: Order::Fifo,
            precision: Precision::Normal,
            max_waiters: 1_000_000,
            max_units: None,
            max_wait_ns: u64::MAX,
        }
    }
}
