use crate::fleet::FleetLimitBuilder;
use crate::terms::Kind;
use crate::{CutOff, FleetError, FleetKeyed, FleetLimit};

/// Settings of windows of a [`Fleet`](crate::Fleet): of a [`FleetLimit`] or a [`FleetKeyed`].
///
/// [`Fleet::window`](crate::Fleet::window) and [`Fleet::keyed_window`](crate::Fleet::keyed_window) return it.
#[derive(Debug)]
pub struct FleetWindowBuilder<'a, L>(FleetLimitBuilder<'a, L>);

impl<'a, L> FleetWindowBuilder<'a, L> {
    pub(crate) fn new(mut limit: FleetLimitBuilder<'a, L>) -> Self {
        limit.kind = Kind::Window;
        Self(limit)
    }

    /// Sets what this process decides by while the store cannot be reached; see
    /// [`FleetLimitBuilder::when_cut_off`](crate::FleetLimitBuilder::when_cut_off).
    ///
    /// The share of a process is a part of the count, in windows that begin with the first admission of this process alone.
    #[must_use]
    pub fn when_cut_off(self, cut_off: CutOff) -> Self {
        Self(self.0.when_cut_off(cut_off))
    }

    /// Aligns windows to the store's clock.
    ///
    /// A window begins when the store's Unix time is a multiple of the period. Minutes, hours and days then begin with those of UTC. Windows follow each other without a gap, whether there are requests or not.
    /// The clocks of the processes do not count.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{CutOff, Fleet};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new(); // it begins at 0
    /// let fleet = Fleet::local().clock(&time).open()?;
    /// let minute = fleet.window("minute", "2/min".parse()?).align_to_wall().when_cut_off(CutOff::Deny).build()?;
    ///
    /// time.advance(Duration::from_secs(59));
    /// assert!(minute.ask().n(2).block().is_ok());
    /// assert_eq!(minute.ask().block().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn align_to_wall(mut self) -> Self {
        self.0.kind = Kind::AlignedWindow;
        self
    }
}

impl FleetWindowBuilder<'_, FleetLimit> {
    /// Builds a strict limit: the store decides on each request.
    ///
    /// # Errors
    ///
    /// - [`FleetError::NoCutOff`] if neither [`nodes`](crate::FleetBuilder::nodes) nor [`when_cut_off`](Self::when_cut_off) was called;
    /// - [`FleetError::Share`] if the share of this process is none, or more than everything;
    /// - [`FleetError::Quota`] and [`FleetError::Keys`] if no limiter can keep that share;
    /// - [`FleetError::WindowBurst`] if the quota has a burst;
    /// - [`FleetError::WindowPeriod`] and [`FleetError::WindowCount`] if the store cannot count the window exactly;
    /// - [`FleetError::OtherQuota`] if a limit of this name is in use in this fleet, with another quota, or one that is no such window.
    pub fn build(self) -> Result<FleetLimit, FleetError> {
        self.0.strict().map(FleetLimit)
    }
}

impl FleetWindowBuilder<'_, FleetKeyed> {
    /// Sets how many keys this process remembers (default: 100,000); see
    /// [`FleetLimitBuilder::capacity`](crate::FleetLimitBuilder::capacity).
    #[must_use]
    pub fn capacity(self, keys: usize) -> Self {
        Self(self.0.capacity(keys))
    }

    /// Builds a strict limit for each key: the store decides on each request.
    ///
    /// # Errors
    ///
    /// The same as for a [`FleetLimit`].
    pub fn build(self) -> Result<FleetKeyed, FleetError> {
        let question = self.0.strict()?;
        Ok(FleetKeyed { question })
    }
}
