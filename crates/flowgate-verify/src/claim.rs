use std::error::Error;
use std::fmt;
use std::str::FromStr;

use flowgate::{Quota, QuotaError};
use serde::{Serialize, Serializer};

use crate::{Alignment, Kind};

/// What somebody says of a limiter: `100/s burst 20`, or with its kind, `sliding 100/s`.
///
/// Without a kind it says that at most burst + rate · w are admitted in any w, whatever it is that sees to that. With a
/// kind, it also says that it is one of that kind:
///
/// | text | kind | the most that is admitted |
/// |---|---|---|
/// | `token 100/s burst 20` | token bucket | burst + rate · w in any w |
/// | `queue 100/s burst 20` | leaky queue | the same; all but the first wait |
/// | `fixed 100/s` | fixed window | the limit in each window, so twice that in a span of one window |
/// | `sliding 100/s` | sliding window | the limit in every window |
/// | `approximate 100/s` | sliding counter | twice the limit, less one, in any window |
///
/// # Examples
///
/// ```
/// use flowgate_verify::Claim;
///
/// let claim: Claim = "sliding 100/s".parse()?;
/// assert_eq!(claim.to_string(), "sliding 100/s");
/// assert_eq!(
///     "bucket 100/s".parse::<Claim>().unwrap_err().to_string(),
///     "\"bucket\" is no kind of limiter: token, queue, fixed, sliding, approximate"
/// );
/// # Ok::<(), flowgate_verify::ClaimError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Of what kind it is said to be, if that is said.
    pub kind: Option<ClaimedKind>,
    /// Rate and burst of buckets and queues; limit and window of windows.
    pub quota: Quota,
}

/// A kind of limiter, as a [`Claim`] names it.
///
/// ```
/// use flowgate_verify::{Claim, ClaimedKind};
///
/// let claim: Claim = "queue 100/s burst 20".parse()?;
/// assert_eq!(claim.kind, Some(ClaimedKind::Queue));
/// assert_eq!(claim.quota, "100/s burst 20".parse()?);
/// assert_eq!(ClaimedKind::Approximate.to_string(), "approximate");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaimedKind {
    /// A token bucket.
    Token,
    /// A leaky bucket in which those over the rate wait.
    Queue,
    /// A fixed window, with the first request or on the clock.
    Fixed,
    /// A window that holds everywhere.
    Sliding,
    /// A sliding window estimated from two counters.
    Approximate,
}

impl ClaimedKind {
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

    /// Whether what looks like `kind` is what is claimed.
    pub(crate) fn is(self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Token, Kind::TokenBucket)
                | (Self::Queue, Kind::LeakyQueue)
                | (
                    Self::Fixed,
                    Kind::FixedWindow(Alignment::FirstRequest | Alignment::Clock)
                )
                | (Self::Sliding, Kind::SlidingLog | Kind::SegmentedWindow(_))
                | (Self::Approximate, Kind::SlidingCounter)
        )
    }

    /// Whether the quota is a limit in a window.
    pub(crate) fn is_window(self) -> bool {
        matches!(self, Self::Fixed | Self::Sliding | Self::Approximate)
    }
}

impl fmt::Display for ClaimedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Quota> for Claim {
    fn from(quota: Quota) -> Self {
        Self { kind: None, quota }
    }
}

impl FromStr for Claim {
    type Err = ClaimError;

    fn from_str(text: &str) -> Result<Self, ClaimError> {
        let text = text.trim();
        let named = text.starts_with(|first: char| first.is_ascii_alphabetic());
        if !named {
            return Ok(Self::from(text.parse::<Quota>()?));
        }
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let kind = ClaimedKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| ClaimError::Kind(name.to_owned()))?;
        let quota: Quota = rest.parse()?;
        if kind.is_window() && quota.explicit_burst().is_some() {
            return Err(ClaimError::Burst(kind));
        }
        Ok(Self {
            kind: Some(kind),
            quota,
        })
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = self.kind {
            write!(f, "{kind} ")?;
        }
        write!(f, "{}", self.quota)
    }
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What was wrong with the text of a [`Claim`].
///
/// ```
/// use flowgate_verify::{Claim, ClaimError, ClaimedKind};
///
/// let error = "sliding 100/s burst 20".parse::<Claim>().unwrap_err();
/// assert_eq!(error, ClaimError::Burst(ClaimedKind::Sliding)); // a window has none
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimError {
    /// It begins with a word that is no kind of limiter.
    Kind(String),
    /// What follows is no quota.
    Quota(QuotaError),
    /// Windows have no burst beside their limit.
    Burst(ClaimedKind),
}

impl From<QuotaError> for ClaimError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(name) => {
                let kinds = ClaimedKind::ALL.map(ClaimedKind::name).join(", ");
                write!(f, "{name:?} is no kind of limiter: {kinds}")
            }
            Self::Quota(error) => error.fmt(f),
            Self::Burst(kind) => {
                write!(
                    f,
                    "a {kind} window has a limit and no burst: \"{kind} 100/s\""
                )
            }
        }
    }
}

impl Error for ClaimError {}
