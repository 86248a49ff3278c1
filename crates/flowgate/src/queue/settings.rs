//! How a queue is kept.

use core::time::Duration;

/// Who of those in the queue is next.
/// ```
/// use flowgate::{ConcurrencyLimit, Order};
/// use std::time::Duration;
///
/// let limit = ConcurrencyLimit::new(10);
/// limit.queue().set_order(Order::AdaptiveLifo { after: Duration::from_millis(100) }).set_max_waiters(1000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// Who came first. Newcomers do not overtake.
    #[default]
    Fifo,
    /// Who came last: under overload some are served in time, where in order of coming everybody would be late.
    /// A full queue sends away the oldest waiter, not the new caller.
    Lifo,
    /// [`Fifo`](Self::Fifo) while the queue is sometimes empty, [`Lifo`](Self::Lifo) while it has not been for
    /// `after` (Facebook's *adaptive LIFO*).
    AdaptiveLifo {
        /// How long there has to have been somebody in the queue.
        after: Duration,
    },
    /// Newcomers take what there is, past everybody in the queue; those are served in order of coming. More goes
    /// through where slots are held briefly, and a large request can wait for ever.
    Barging,
}

/// How punctual a wait is, and what it may cost.
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
    /// On whole milliseconds, so that many waits share a wake-up.
    Coarse,
    /// To some microseconds: the queue learns how late wake-ups are here, has whoever is next woken so much earlier (0.1 ms
    /// and a quarter of its wait at the most), and what is then left, mostly a few microseconds, is waited for awake.
    #[default]
    Normal,
    /// To a fraction of a microsecond: whoever is next is woken early, and watches the clock for the rest. That takes
    /// a part of a processor which grows with the rate, and blocks a runtime's thread for those
    /// microseconds.
    Strict,
}

/// What the distance to the next grant is counted from.
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
    /// From the instant at which a grant was due. However late a waiter wakes up, no turn is lost.
    #[default]
    Scheduled,
    /// From the instant at which a waiter really returned, which only itself can tell. The waiter has to look for its
    /// grant itself: if it has not looked one second after it was woken, it loses its place to those behind it, and enters
    /// the queue anew when it looks.
    AtLeast,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) order: Order,
    pub(super) precision: Precision,
    pub(super) max_waiters: u32,
    /// None: without a bound.
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
