use super::codel::Shedding;
use super::{Codel, Order, Precision, Supply, active};
use crate::clock::saturating_nanos;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

/// The waiters of a limiter, and the rules by which they are served.
///
/// `queue()` of every limiter returns this view. All rules can be changed at any time. The new rules hold from then on.
///
/// Joining, leaving and being served cost the same for any number of waiters. A deadline adds the logarithm of the number of
/// waits with a deadline in the process. A change of the quota looks at every waiter.
///
/// | rule | default |
/// |---|---|
/// | [`set_order`](Self::set_order) | [`Order::Fifo`] |
/// | [`set_precision`](Self::set_precision) | [`Precision::Normal`] |
/// | [`set_max_waiters`](Self::set_max_waiters) | 1,000,000 |
/// | [`set_max_units`](Self::set_max_units), [`set_max_wait`](Self::set_max_wait) | without a bound |
/// | [`set_codel`](Self::set_codel) | sheds no waiters |
///
/// ```
/// use flowgate::{Order, TokenBucket};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::new("100/s".parse()?);
/// limiter.queue().set_order(Order::Lifo).set_max_wait(Duration::from_millis(500));
/// assert!(limiter.queue().is_empty());
/// # Ok::<_, flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy)]
pub struct WaitQueue<'a>(&'a dyn Supply);

impl<'a> WaitQueue<'a> {
    pub(crate) fn new(supply: &'a dyn Supply) -> Self {
        Self(supply)
    }

    /// Returns the number of waiters.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::task::{Context, Waker};
    /// # use std::{future::Future, pin::pin};
    /// let limiter = LeakyBucket::new("1/min".parse()?);
    /// limiter.try_acquire()?;
    /// let mut wait = pin!(limiter.acquire());
    /// # let poll = |wait: std::pin::Pin<&mut flowgate::Acquire<&LeakyBucket>>| {
    /// #     wait.poll(&mut Context::from_waker(Waker::noop()))
    /// # };
    /// assert_eq!(limiter.queue().len(), 0); // nobody has polled it
    /// assert!(poll(wait.as_mut()).is_pending());
    /// assert_eq!((limiter.queue().len(), limiter.queue().units()), (1, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(self) -> usize {
        self.0.queue().waiters()
    }

    /// Returns whether there are no waiters.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the number of units that all waiters ask for together.
    pub fn units(self) -> u128 {
        self.active().lock().waiters.units()
    }

    /// Sets the order in which waiters are served.
    pub fn set_order(self, order: Order) -> Self {
        self.change(|rules| rules.order = order)
    }

    /// Sets the punctuality of waits.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, Precision};
    ///
    /// let metronome = LeakyBucket::new("1000/s".parse()?);
    /// metronome.queue().set_precision(Precision::Strict);
    /// metronome.acquire().block()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_precision(self, precision: Precision) -> Self {
        self.change(|rules| rules.precision = precision)
    }

    /// Sets the maximum number of waiters: 0 to 4,294,967,294.
    ///
    /// A caller that would exceed it is refused with [`is_queue_full`](crate::Denied::is_queue_full). Under [`Order::Lifo`] and
    /// [`Order::AdaptiveLifo`], the new caller enters, and the oldest waiter is refused instead. A new maximum removes no waiters
    /// from the queue.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// let limiter = LeakyBucket::new("1/min".parse()?);
    /// limiter.queue().set_max_waiters(0); // as if there were no queue
    /// limiter.acquire().block()?;
    /// assert!(limiter.acquire().block().unwrap_err().is_queue_full());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_max_waiters(self, waiters: usize) -> Self {
        let waiters = u32::try_from(waiters).unwrap_or(u32::MAX);
        self.change(|rules| rules.max_waiters = waiters)
    }

    /// Sets the maximum number of units that all waiters ask for together.
    ///
    /// A caller that would exceed it is refused as with [`set_max_waiters`](Self::set_max_waiters).
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let bandwidth = TokenBucket::new("1GB/day".parse()?);
    /// bandwidth.queue().set_max_units(500_000); // of what is in memory until its turn comes
    /// bandwidth.acquire().n(1_000_000_000).block()?;
    /// assert!(bandwidth.acquire().n(600_000).block().unwrap_err().is_queue_full());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_max_units(self, units: u64) -> Self {
        self.change(|rules| rules.max_units = Some(units))
    }

    /// Sets the maximum wait of a new caller.
    ///
    /// A caller that is known to wait longer is refused with [`is_queue_full`](crate::Denied::is_queue_full).
    pub fn set_max_wait(self, wait: Duration) -> Self {
        let wait_ns = saturating_nanos(wait);
        self.change(|rules| rules.max_wait_ns = wait_ns)
    }

    /// Sets the rule by which a queue that persists sheds waiters (default: none). `None` turns it off.
    ///
    /// A waiter that has waited too long by that rule is refused when it could be granted. It gets
    /// [`is_shed`](crate::Denied::is_shed). The units go to the next waiter.
    ///
    /// CoDel is for limits whose waits are not known in advance: a [`ConcurrencyLimit`](crate::ConcurrencyLimit), an
    /// [`AdaptiveLimit`](crate::AdaptiveLimit), or a [`Gate`](crate::Gate) that contains one. A rate limiter computes the wait of
    /// a new caller. [`set_max_wait`](Self::set_max_wait) refuses the caller before it waits.
    ///
    /// ```
    /// use flowgate::{Codel, ConcurrencyLimit, Order};
    ///
    /// let limit = ConcurrencyLimit::new(20);
    /// limit.queue().set_order(Order::adaptive_lifo()).set_codel(Codel::default());
    /// limit.queue().set_codel(None); // sheds no waiters
    /// ```
    pub fn set_codel(self, codel: impl Into<Option<Codel>>) -> Self {
        let codel = codel.into();
        self.change_state(|state, now_ns| {
            state.shedding = codel.map(|codel| Box::new(Shedding::new(codel, now_ns)));
        })
    }

    /// Closes the limiter for good.
    ///
    /// All waiters are refused with [`is_closed`](crate::Denied::is_closed), and so are all later calls that acquire
    /// something, by whichever method. What was granted can still be returned.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("100/s".parse()?);
    /// limiter.queue().close(); // the service shuts down
    /// assert!(limiter.queue().is_closed());
    /// assert!(limiter.try_acquire().unwrap_err().is_closed());
    /// assert!(limiter.acquire().block().unwrap_err().is_closed());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(self) {
        let active = self.active();
        let mut state = active.lock();
        state.close(self.0);
        active.end(state);
    }

    /// Returns whether the limiter has been [closed](Self::close).
    pub fn is_closed(self) -> bool {
        self.active().lock().is_closed
    }

    fn change(self, change: impl FnOnce(&mut super::settings::Settings)) -> Self {
        self.change_state(|state, _| change(&mut state.settings))
    }

    fn change_state(self, change: impl FnOnce(&mut active::State, u64)) -> Self {
        let active = self.active();
        let now_ns = self.0.clock().now().as_nanos();
        let mut state = active.lock();
        change(&mut state, now_ns);
        state.announce(self.0);
        state.reorder(self.0, now_ns);
        let state = active.serve(state, self.0, now_ns, None);
        active.end(state);
        self
    }

    fn active(self) -> &'a Arc<active::ActiveQueue> {
        self.0.queue().active(self.0)
    }
}

impl fmt::Debug for WaitQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.active().lock();
        f.debug_struct("WaitQueue")
            .field("waiters", &state.waiters.waiters())
            .field("units", &state.waiters.units())
            .field("is_closed", &state.is_closed)
            .field("rules", &state.settings)
            .field(
                "codel",
                &state.shedding.as_ref().map(|shedding| shedding.codel),
            )
            .finish()
    }
}
