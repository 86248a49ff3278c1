//! What a limiter answers when it does not say yes.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// A refusal: the operation may not go ahead now, and nothing was taken.
///
/// It knows when to come back, and computes that only when asked, so a refusal costs no division.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let limiter =
///     TokenBucket::builder("10/s burst 2".parse()?).clock(&ManualClock::new()).build()?;
/// limiter.try_acquire_n(2)?;
///
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// assert_eq!(denied.to_string(), "over the limit; retry after 100ms");
///
/// let denied = limiter.try_acquire_n(3).unwrap_err();
/// assert!(denied.is_never());
/// assert_eq!(denied.retry_after(), None);
/// assert_eq!(denied.to_string(), "3 can never be granted: the most at once is 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Denied(Reason);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Later {
        missing: [u64; 2],
        ticks_per_ns: NonZeroU64,
    },
    Never {
        asked: u64,
        most: u64,
    },
    /// Not before the clock's last instant.
    TooLate,
}

impl Denied {
    /// `missing` ticks, of which `ticks_per_ns` (not 0) make a nanosecond, have to pass first.
    #[inline]
    pub(crate) fn later(missing: u128, ticks_per_ns: u64) -> Self {
        let ticks_per_ns = NonZeroU64::new(ticks_per_ns).unwrap_or(NonZeroU64::MIN);
        Self(Reason::Later {
            missing: [missing as u64, (missing >> 64) as u64],
            ticks_per_ns,
        })
    }

    pub(crate) fn never(asked: u64, most: u64) -> Self {
        Self(Reason::Never { asked, most })
    }

    /// A turn that would come after the end of time.
    pub(crate) fn too_late() -> Self {
        Self(Reason::TooLate)
    }

    /// The least time to wait: the same request, made by the same means, is granted after exactly this
    /// long and refused a nanosecond earlier, if nobody else takes anything meanwhile.
    ///
    /// `None` if no time is known, which is when the request [can never](Self::is_never) be granted.
    /// Rounded up to whole nanoseconds. Until then anybody may be served first: a retry after this
    /// long is not a place in a line.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.0 {
            Reason::Later {
                missing: [low, high],
                ticks_per_ns,
            } => {
                let missing = u128::from(low) | u128::from(high) << 64;
                Some(duration_from_nanos(
                    missing.div_ceil(u128::from(ticks_per_ns.get())),
                ))
            }
            Reason::Never { .. } | Reason::TooLate => None,
        }
    }

    /// Whether the request can never be granted, however long one waits: it asks for more than the
    /// limit allows at once (ask for less, or [`overdraw`](crate::TokenBucket::overdraw)), or the line of
    /// reservations reaches beyond what the clock can count, which is 584 years.
    pub fn is_never(&self) -> bool {
        matches!(self.0, Reason::Never { .. } | Reason::TooLate)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Never { asked, most } => {
                write!(
                    f,
                    "{asked} can never be granted: the most at once is {most}"
                )
            }
            Reason::TooLate => {
                f.write_str("its turn would come after the end of time, in 584 years")
            }
            Reason::Later { .. } => {
                let wait = self.retry_after().unwrap_or_default();
                write!(f, "over the limit; retry after {wait:?}")
            }
        }
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Denied({self})")
    }
}

impl core::error::Error for Denied {}

/// Any number of nanoseconds that a limiter can come up with; `Duration` holds 2⁹³.
pub(crate) fn duration_from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}
