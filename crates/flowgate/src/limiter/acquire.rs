//! A wait for a rate limiter, which is held by reference or by [`Arc`](alloc::sync::Arc).

use super::any::{Limiter, sealed::Sealed};
use crate::clock::{Clock, Timestamp};
use crate::queue::{Acquirable, Acquire, Grant, Spacing, Turn};
use crate::verdict::Denied;
use core::ops::Deref;
use core::task::{Poll, Waker};

impl<P: Deref<Target: Limiter>> Acquirable for P {
    type Granted = Grant;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Grant, Denied>> {
        turn.poll((**self).supply().0, waker)
    }

    fn abandon(&mut self, turn: &mut Turn) {
        turn.abandon((**self).supply().0);
    }

    fn clock_of_deadlines(&self) -> &Clock {
        (**self).supply().0.clock()
    }
}

impl<P: Deref<Target: Limiter>> Acquire<P> {
    /// Treats the request as made at `then`, if that time has passed.
    ///
    /// A grant that was possible since `then` gets the time at which it was possible. This is for work on a schedule that must
    /// not shift when the worker is late: pass [`Grant::at`] of the previous grant.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let first = limiter.acquire().block()?;
    /// std::thread::sleep(Duration::from_millis(3)); // work that takes too long
    /// let second = limiter.acquire().since(first.at()).block()?;
    /// assert_eq!(second.at(), first.at() + Duration::from_millis(1)); // due long since
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(mut self, then: Timestamp) -> Self {
        self.turn.since_ns = Some(then.as_nanos());
        self
    }

    /// Sets what the gap to the next grant is measured from.
    ///
    /// It is either the scheduled time of this grant, or the time at which its caller really received it.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, Spacing};
    /// use std::time::Duration;
    ///
    /// // However late this thread is woken: never two within a millisecond.
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let first = limiter.acquire().spacing(Spacing::AtLeast).block()?;
    /// let second = limiter.acquire().spacing(Spacing::AtLeast).block()?;
    /// assert!(second.at() >= first.at() + Duration::from_millis(1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn spacing(mut self, spacing: Spacing) -> Self {
        self.turn.spacing = spacing;
        self
    }
}
