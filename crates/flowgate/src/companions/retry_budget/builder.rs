use super::RetryBudget;
use super::balance::{MAX_CAPACITY, MAX_PER_SECOND, MAX_SHARE_PERMILLE};
use crate::clock::{Clock, clock_setting};
use crate::quota::QuotaError;

/// Builder of a [`RetryBudget`].
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`share_permille`](Self::share_permille) | 100: one retry for ten requests |
/// | [`min_per_second`](Self::min_per_second) | 1 |
/// | [`capacity`](Self::capacity) | 100 |
///
/// ```
/// use flowgate::RetryBudget;
///
/// // One retry for five requests, ten more in a second, and at most 50 saved up.
/// let budget = RetryBudget::builder().share_permille(200).min_per_second(10).capacity(50).build()?;
/// assert_eq!(budget.balance(), 50);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct RetryBudgetBuilder {
    clock: Option<Clock>,
    share_permille: u32,
    min_per_second: u32,
    capacity: u32,
}

impl RetryBudgetBuilder {
    pub(super) const fn new() -> Self {
        Self {
            clock: None,
            share_permille: 100,
            min_per_second: 1,
            capacity: 100,
        }
    }

    clock_setting!("for the retries per second");

    /// Sets the retries that each deposit adds, in per mille: 0 to 1000 (default: 100).
    pub fn share_permille(mut self, permille: u32) -> Self {
        self.share_permille = permille;
        self
    }

    /// Sets the retries per second without any deposit, 0 to 1,000,000 (default: 1).
    pub fn min_per_second(mut self, retries: u32) -> Self {
        self.min_per_second = retries;
        self
    }

    /// Sets the most retries that the budget saves up, 1 to 1,000,000,000 (default: 100).
    pub fn capacity(mut self, retries: u32) -> Self {
        self.capacity = retries;
        self
    }

    /// Builds the budget, which is full at first.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if a setting is out of the range that its method states.
    ///
    /// ```
    /// # use flowgate::RetryBudget;
    /// let error = RetryBudget::builder().share_permille(1001).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a share of retries in per mille of 1001 is out of range: 0 to 1000");
    /// ```
    pub fn build(self) -> Result<RetryBudget, QuotaError> {
        let share_permille = share_permille(self.share_permille)?;
        let min_per_second = min_per_second(self.min_per_second)?;
        let capacity = capacity(self.capacity)?;
        let clock = self.clock.unwrap_or_default();
        Ok(RetryBudget::with(
            share_permille,
            min_per_second,
            capacity,
            clock,
        ))
    }
}

pub(super) fn share_permille(permille: u32) -> Result<u64, QuotaError> {
    let what = "a share of retries in per mille";
    QuotaError::in_range(what, permille.into(), 0, MAX_SHARE_PERMILLE)
}

pub(super) fn min_per_second(retries: u32) -> Result<u64, QuotaError> {
    let what = "a minimum of retries per second";
    QuotaError::in_range(what, retries.into(), 0, MAX_PER_SECOND)
}

pub(super) fn capacity(retries: u32) -> Result<u64, QuotaError> {
    QuotaError::in_range("a capacity in retries", retries.into(), 1, MAX_CAPACITY)
}
