use super::Sometimes;
use super::tally::{Policy, Tally};
use crate::clock::Clock;
use crate::primitive::const_unless_loom;
use core::time::Duration;

/// A [`Sometimes`] in the making; everything but the clock can be set in a constant.
///
/// ```
/// use flowgate::Sometimes;
/// use std::time::Duration;
///
/// static RETRIES: Sometimes = Sometimes::builder()
///     .first(3)
///     .every(1000)
///     .interval(Duration::from_secs(60))
///     .build();
/// assert_eq!(RETRIES.check(), Some(0));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct SometimesBuilder {
    pub(super) policy: Policy,
    pub(super) clock: Option<Clock>,
}

impl SometimesBuilder {
    /// The first `n` calls speak. The very first does even if this is 0.
    pub const fn first(mut self, n: u64) -> Self {
        self.policy.first = n;
        self
    }

    /// The first call and every `n`-th after it speak: for 100, calls 1, 101, 201. None for 0.
    pub const fn every(mut self, n: u64) -> Self {
        self.policy.every = n;
        self
    }

    /// A call speaks if the last that did, for whatever reason, was this long ago. Not set, or zero: no call
    /// speaks because of the time. Longer than 584 years is as long as that. An interval that would end at
    /// [`Timestamp::MAX`](crate::Timestamp::MAX) or later never ends.
    pub const fn interval(mut self, interval: Duration) -> Self {
        let ns = interval.as_nanos();
        self.policy.interval_ns = if ns < u64::MAX as u128 {
            ns as u64
        } else {
            u64::MAX
        };
        self
    }

    /// The clock that intervals are measured by.
    ///
    /// It is [`Clock::system`] unless it is set. Without the feature `std` there is no default: for a builder
    /// without a clock no time passes.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    const_unless_loom! {
        /// For one place in the code, or one kind of event.
        #[must_use]
        pub const fn build(self) -> Sometimes {
            Sometimes { settings: self, tally: Tally::new() }
        }
    }

    pub(super) const fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn now_ns(&self) -> u64 {
        match &self.clock {
            Some(clock) => clock.now().as_nanos(),
            #[cfg(feature = "std")]
            None => Clock::system().now().as_nanos(),
            #[cfg(not(feature = "std"))]
            None => 0,
        }
    }
}
