use super::Sometimes;
use super::tally::{Policy, Tally};
use crate::clock::Clock;
use crate::primitive::const_unless_loom;
use core::time::Duration;

/// Builder of a [`Sometimes`]; every setting except the clock is `const`.
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
    /// Picks the first `n` calls. The very first call is picked even if `n` is 0.
    pub const fn first(mut self, n: u64) -> Self {
        self.policy.first = n;
        self
    }

    /// Picks the first call and every `n`-th after it.
    ///
    /// For 100, it picks the calls 1, 101, 201 and so on. For 0, it picks none.
    pub const fn every(mut self, n: u64) -> Self {
        self.policy.every = n;
        self
    }

    /// Picks a call if the last picked call was at least `interval` ago.
    ///
    /// If `interval` is zero or not set, no call is picked because of the time. An interval longer than 584 years counts as 584
    /// years. An interval that would end at [`Timestamp::MAX`](crate::Timestamp::MAX) or later never ends.
    pub const fn interval(mut self, interval: Duration) -> Self {
        let ns = interval.as_nanos();
        self.policy.interval_ns = if ns < u64::MAX as u128 {
            ns as u64
        } else {
            u64::MAX
        };
        self
    }

    /// Sets the clock that measures intervals (default: [`Clock::system`]).
    ///
    /// Without the feature `std` there is no default: without a clock, no time passes.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    const_unless_loom! {
        /// Builds the sampler, for one place in the code or one kind of event.
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
