use super::ConcurrencyLimit;
use super::slots::MOST;
use crate::clock::{Clock, clock_setting};
use crate::quota::QuotaError;

/// Settings of a [`ConcurrencyLimit`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
///
/// ```
/// use flowgate::{ConcurrencyLimit, ManualClock};
///
/// let limit = ConcurrencyLimit::builder(10).clock(ManualClock::new()).build()?;
/// assert_eq!(limit.available(), 10);
///
/// let error = ConcurrencyLimit::builder(u32::MAX).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a concurrency limit of 4294967295 is out of range: 0 to 2147483647",
/// );
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct ConcurrencyLimitBuilder {
    pub(super) limit: u32,
    pub(super) clock: Option<Clock>,
}

impl ConcurrencyLimitBuilder {
    clock_setting!("for deadlines, and for nothing else");

    /// Builds the limit, with all permits free.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the limit is above 2³¹ − 1.
    pub fn build(self) -> Result<ConcurrencyLimit, QuotaError> {
        let limit = check(self.limit)?;
        Ok(ConcurrencyLimit::with_clock(
            limit,
            self.clock.unwrap_or_default(),
        ))
    }
}

/// Returns `limit`, if there can be a limit as large as that.
pub(crate) fn check(limit: u32) -> Result<u32, QuotaError> {
    QuotaError::in_range("a concurrency limit", limit.into(), 0, MOST.into())?;
    Ok(limit)
}
