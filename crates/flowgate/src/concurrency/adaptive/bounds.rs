//! The range of a limit.

use super::fine_limit::FineLimit;
use crate::quota::QuotaError;

/// From `min` to `max`, which is not below `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: FineLimit,
    pub(super) max: FineLimit,
}

impl Bounds {
    pub(super) fn new(min: FineLimit, max: FineLimit) -> Result<Self, QuotaError> {
        let what = "a largest limit in 65536ths of a permit";
        QuotaError::in_range(what, max.parts(), min.parts(), FineLimit::LARGEST.parts())?;
        Ok(Self { min, max })
    }

    pub(super) fn clamp(self, limit: FineLimit) -> FineLimit {
        limit.clamp(self.min, self.max)
    }
}
