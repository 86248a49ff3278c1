use std::error::Error;
use std::fmt;
use std::str::FromStr;

use flowgate::{Quota, QuotaError};
use serde::{Serialize, Serializer};

use crate::{Alignment, DetectedKind};

/// Limit that a limiter should have: `100/s burst 20`, or with an algorithm, `sliding 100/s`.
///
/// Without an algorithm, at most `burst + rate × w` requests may be admitted in any interval of length *w*. With an
/// algorithm, the limiter must also use that algorithm:
///
/// | text | algorithm | most requests admitted |
/// |---|---|---|
/// | `token 100/s burst 20` | token bucket | burst + rate × *w* in any interval *w* |
/// | `queue 100/s burst 20` | leaky queue | the same; all but the first wait |
/// | `fixed 100/s` | fixed window | the limit in each window, so twice that across a boundary |
/// | `sliding 100/s` | sliding window | the limit in every window |
/// | `approximate 100/s` | sliding window of two counters | twice the limit, minus one, in any window |
///
/// # Examples
///
/// ```
/// use flowgate_verify::ExpectedLimit;
///
/// let expected: ExpectedLimit = "sliding 100/s".parse()?;
/// assert_eq!(expected.to_string(), "sliding 100/s");
/// assert_eq!(
///     "bucket 100/s".parse::<ExpectedLimit>().unwrap_err().to_string(),
///     "\"bucket\" is not an algorithm: write one of token, queue, fixed, sliding, approximate"
/// );
/// # Ok::<(), flowgate_verify::ExpectedLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedLimit {
    /// Expected algorithm; `None` if any algorithm is accepted.
    pub kind: Option<ExpectedKind>,
    /// Rate and burst of buckets and queues; limit and length of windows.
    pub quota: Quota,
}

/// Algorithm that an [`ExpectedLimit`] names.
///
/// ```
/// use flowgate_verify::{ExpectedLimit, ExpectedKind};
///
/// let expected: ExpectedLimit = "queue 100/s burst 20".parse()?;
/// assert_eq!(expected.kind, Some(ExpectedKind::Queue));
/// assert_eq!(expected.quota, "100/s burst 20".parse()?);
/// assert_eq!(ExpectedKind::Approximate.to_string(), "approximate");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpectedKind {
    /// Token bucket.
    Token,
    /// Leaky bucket in which requests over the rate wait.
    Queue,
    /// Fixed window, aligned to the first request or to the clock.
    Fixed,
    /// Sliding window: the limit holds in every window.
    Sliding,
    /// Sliding window estimated from two counters.
    Approximate,
}

impl ExpectedKind {
    const ALL: [Self; 5] = [
        Self::Token,
        Self::Queue,
        Self::Fixed,
        Self::Sliding,
        Self::Approximate,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Queue => "queue",
            Self::Fixed => "fixed",
            Self::Sliding => "sliding",
            Self::Approximate => "approximate",
        }
    }

    /// Returns whether the detected `kind` is this algorithm.
    pub(crate) fn is(self, kind: DetectedKind) -> bool {
        matches!(
            (self, kind),
            (Self::Token, DetectedKind::TokenBucket)
                | (Self::Queue, DetectedKind::LeakyQueue)
                | (
                    Self::Fixed,
                    DetectedKind::FixedWindow(Alignment::FirstRequest | Alignment::Clock)
                )
                | (
                    Self::Sliding,
                    DetectedKind::SlidingLog | DetectedKind::SegmentedWindow(_)
                )
                | (Self::Approximate, DetectedKind::SlidingCounter)
        )
    }

    /// Returns whether the quota is a limit in a window.
    pub(crate) fn is_window(self) -> bool {
        matches!(self, Self::Fixed | Self::Sliding | Self::Approximate)
    }
}

impl fmt::Display for ExpectedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Quota> for ExpectedLimit {
    fn from(quota: Quota) -> Self {
        Self { kind: None, quota }
    }
}

impl FromStr for ExpectedLimit {
    type Err = ExpectedLimitError;

    fn from_str(text: &str) -> Result<Self, ExpectedLimitError> {
        let text = text.trim();
        let named = text.starts_with(|first: char| first.is_ascii_alphabetic());
        if !named {
            return Ok(Self::from(text.parse::<Quota>()?));
        }
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let kind = ExpectedKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| ExpectedLimitError::DetectedKind(name.to_owned()))?;
        let quota: Quota = rest.parse()?;
        if kind.is_window() && quota.explicit_burst().is_some() {
            return Err(ExpectedLimitError::Burst(kind));
        }
        Ok(Self {
            kind: Some(kind),
            quota,
        })
    }
}

impl fmt::Display for ExpectedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = self.kind {
            write!(f, "{kind} ")?;
        }
        write!(f, "{}", self.quota)
    }
}

impl Serialize for ExpectedLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Error of parsing an [`ExpectedLimit`].
///
/// ```
/// use flowgate_verify::{ExpectedLimit, ExpectedLimitError, ExpectedKind};
///
/// let error = "sliding 100/s burst 20".parse::<ExpectedLimit>().unwrap_err();
/// assert_eq!(error, ExpectedLimitError::Burst(ExpectedKind::Sliding)); // a window has none
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedLimitError {
    /// The first word is not an algorithm.
    DetectedKind(String),
    /// The rest is not a quota.
    Quota(QuotaError),
    /// A window has no burst in addition to its limit.
    Burst(ExpectedKind),
}

impl From<QuotaError> for ExpectedLimitError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

impl fmt::Display for ExpectedLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DetectedKind(name) => {
                let kinds = ExpectedKind::ALL.map(ExpectedKind::name).join(", ");
                write!(f, "{name:?} is not an algorithm: write one of {kinds}")
            }
            Self::Quota(error) => error.fmt(f),
            Self::Burst(kind) => {
                write!(f, "a {kind} window has no burst: write '{kind} 100/s'")
            }
        }
    }
}

impl Error for ExpectedLimitError {}
