//! Periodic bursts of requests.

use std::fmt;
use std::time::Duration;

use flowgate::Quota;

/// Bursts of `size` requests with the quota's rate on average.
///
/// ```text
///  R(t) ┤        ╭───    each burst comes when its first request
///       ┤   ╭────╯       would have been scheduled at a constant rate
///       ┼───╯
///       0   size/rate ▶ t
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bursts {
    quota: Quota,
    /// At least 1.
    size: u64,
}

impl Bursts {
    pub(crate) fn new(quota: Quota, size: u64) -> Bursts {
        let size = size.max(1);
        Bursts { quota, size }
    }

    pub(crate) fn scheduled(&self, index: u64) -> Option<Duration> {
        self.quota.offset_of(index - index % self.size)
    }

    /// Returns `requests` rounded down to whole bursts, at least one burst.
    pub(crate) fn whole(&self, requests: u64) -> u64 {
        (requests - requests % self.size).max(self.size)
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl fmt::Display for Bursts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in bursts of {}", self.quota, self.size)
    }
}
