use core::fmt;
use core::ops::Add;
use core::time::Duration;

/// Instant of a [`Clock`](crate::Clock), in nanoseconds since that clock's origin.
///
/// 64 bits of nanoseconds last for 584 years. Arithmetic saturates, and never panics. Do not compare instants of different
/// clocks. The types do not prevent it.
///
/// ```
/// use flowgate::Timestamp;
/// use std::time::Duration;
///
/// let t = Timestamp::from_nanos(1_500);
/// assert_eq!((t + Duration::from_micros(1)).as_nanos(), 2_500);
/// assert_eq!(t.saturating_duration_since(Timestamp::from_nanos(500)), Duration::from_micros(1));
/// assert_eq!(t.saturating_duration_since(Timestamp::from_nanos(9_000)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);
    /// The last representable instant, 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates the instant `nanos` nanoseconds after the clock's origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if `earlier` is not earlier.
    ///
    /// ```
    /// # use flowgate::Timestamp;
    /// # use std::time::Duration;
    /// let (early, late) = (Timestamp::from_nanos(3), Timestamp::from_nanos(5));
    /// assert_eq!(late.saturating_duration_since(early), Duration::from_nanos(2));
    /// assert_eq!(early.saturating_duration_since(late), Duration::ZERO);
    /// ```
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at [`Timestamp::MAX`].
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(duration)))
    }
}

/// A duration in nanoseconds. A duration of 584 years or more counts as the largest number.
#[inline(always)]
pub(crate) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}
