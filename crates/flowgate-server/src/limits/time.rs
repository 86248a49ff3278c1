use flowgate::{Clock, FixedWindow, KeyedBuilder, Timestamp};

/// The clock of the limits, and where windows begin.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_server::DecisionTime;
///
/// let server = DecisionTime::system();
/// let clock = ManualClock::new();
/// let test = DecisionTime::from_epoch(&clock); // the clock shows the time since 1970
/// # drop((server, test));
/// ```
#[derive(Clone, Debug)]
pub struct DecisionTime {
    clock: Clock,
    /// `None`: by the wall clock.
    epoch: Option<Timestamp>,
}

impl DecisionTime {
    /// Returns the system's clock, with windows aligned to Unix time.
    pub fn system() -> Self {
        Self {
            clock: Clock::system(),
            epoch: None,
        }
    }

    /// Returns a clock whose origin is the beginning of 1970, for tests.
    pub fn from_epoch(clock: impl Into<Clock>) -> Self {
        Self {
            clock: clock.into(),
            epoch: Some(Timestamp::ORIGIN),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn align(&self, windows: KeyedBuilder<FixedWindow>) -> KeyedBuilder<FixedWindow> {
        match self.epoch {
            Some(epoch) => windows.align(epoch),
            None => windows.align_to_wall(0),
        }
    }
}
