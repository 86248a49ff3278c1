use crate::clock::{Clock, Timestamp};

/// The time at which a wait fails, for [`Acquire::by`](crate::Acquire::by), made from an instant.
///
/// | made of | on a limiter with | is |
/// |---|---|---|
/// | [`Timestamp`] | any clock | that instant of the limiter's clock |
/// | [`std::time::Instant`] | [`Clock::system`], [`Clock::os`] | the same instant |
/// | | `Clock::tokio` | the instant that tokio calls so: `tokio::time::Instant::from_std` |
/// | | [`Clock::custom`] | what [`Source::timestamp_of`](crate::Source::timestamp_of) returns |
/// | | [`ManualClock`](crate::ManualClock) | refused by a panic |
/// | `tokio::time::Instant` (feature `tokio`) | all of them | as its `into_std()` |
///
/// ```
/// use flowgate::LeakyBucket;
/// use std::time::{Duration, Instant};
///
/// let limiter = LeakyBucket::new("1000/s".parse()?);
/// let deadline = Instant::now() + Duration::from_secs(10); // for a whole request
/// limiter.acquire().by(deadline).block()?;
/// limiter.acquire().by(deadline).block()?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Under a manual clock
///
/// A [`ManualClock`](crate::ManualClock) stands still while real time goes on. No instant of one is an instant of the other,
/// so there is no deadline. A guess would be another one in each run of a test.
///
/// Code that is tested with such a clock uses [`within`](crate::Acquire::within), or the limiter's clock:
/// `limiter.clock().now() + timeout`. Both mean the same on every clock. [`Clock::timestamp_of`] returns whether a clock
/// knows an instant.
///
/// # Under tokio's paused clock
///
/// There, `tokio::time::Instant` is an instant of the paused clock, and so is a `std` instant that was made from it. A
/// limiter on `Clock::tokio` uses the same clock. A limiter on any other clock does not know that time is paused: its
/// deadlines pass in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    At(Timestamp),
    #[cfg(feature = "std")]
    Instant(std::time::Instant),
}

impl Deadline {
    /// Returns the deadline on `clock`; `None` if the clock does not know such an instant.
    pub(crate) fn on(self, clock: &Clock) -> Option<Timestamp> {
        #[cfg(not(feature = "std"))]
        let _ = clock;
        match self.0 {
            Kind::At(timestamp) => Some(timestamp),
            #[cfg(feature = "std")]
            Kind::Instant(instant) => clock.timestamp_of(instant),
        }
    }
}

impl From<Timestamp> for Deadline {
    fn from(timestamp: Timestamp) -> Self {
        Self(Kind::At(timestamp))
    }
}

#[cfg(feature = "std")]
impl From<std::time::Instant> for Deadline {
    fn from(instant: std::time::Instant) -> Self {
        Self(Kind::Instant(instant))
    }
}

#[cfg(all(feature = "tokio", not(any(flowgate_loom, flowgate_shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
impl From<tokio::time::Instant> for Deadline {
    fn from(instant: tokio::time::Instant) -> Self {
        instant.into_std().into()
    }
}
