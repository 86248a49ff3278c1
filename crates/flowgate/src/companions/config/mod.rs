//! Limiters as text, as in configuration files and on command lines.

mod error;
mod keyed;

pub use error::LimiterConfigError;
pub use keyed::{AnyKeyed, KeyedLimiterConfig};

use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::quota::{Quota, QuotaError, Quotas};
use crate::types::approximate_window::ApproximateWindow;
use crate::types::dual_token_bucket::DualTokenBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::sliding_window::SlidingWindow;
use crate::types::token_bucket::TokenBucket;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;
use error::Reason;

/// A rate limiter as text: its kind, and what it allows.
///
/// The command's `--limiter` has the same form. With the feature `serde` it is read from configuration files, and written to
/// them.
///
/// | text | limiter |
/// |---|---|
/// | `token 10/s burst 20` | [`TokenBucket`] |
/// | `token 10/s burst 20; 1000/day` | [`DualTokenBucket`] |
/// | `leaky 10/s` | [`LeakyBucket`] |
/// | `sliding 100/min` | [`SlidingWindow`] |
/// | `segmented 100/min` | [`SegmentedWindow`] |
/// | `fixed 100/min` | [`FixedWindow`], anchored at its first grant |
/// | `approximate 100/min` | [`ApproximateWindow`] |
///
/// ```
/// use flowgate::{LimiterConfig, Limiter};
/// use std::sync::Arc;
///
/// let config: LimiterConfig = "segmented 100/min".parse()?;
/// let limiter: Arc<dyn Limiter> = config.build()?;
/// limiter.try_acquire()?;
/// assert_eq!(limiter.available(), 99);
///
/// // After the configuration has changed, for a limiter of the same kind:
/// let reloaded: LimiterConfig = "segmented 200 per minute".parse()?;
/// limiter.set_quota(reloaded.quotas().as_slice()[0])?;
/// assert_eq!(limiter.available(), 199);
/// assert_eq!(reloaded.to_string(), "segmented 200/min");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// > **Limit:** A `sliding` limiter has memory for the limit in its text, so `set_quota` cannot raise that limit. Build a new
/// > limiter, or use [`SlidingWindowBuilder::max_limit`](crate::SlidingWindowBuilder::max_limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimiterConfig {
    kind: LimiterKind,
    quotas: Quotas,
}

/// Which limiter a [`LimiterConfig`] is for.
///
/// ```
/// use flowgate::LimiterKind;
///
/// assert_eq!(LimiterKind::ALL[0].name(), "token");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimiterKind {
    /// `token`: a [`TokenBucket`], or a [`DualTokenBucket`] where there are two quotas.
    Token,
    /// `leaky`: a [`LeakyBucket`].
    Leaky,
    /// `sliding`: a [`SlidingWindow`].
    Sliding,
    /// `segmented`: a [`SegmentedWindow`].
    Segmented,
    /// `fixed`: a [`FixedWindow`].
    Fixed,
    /// `approximate`: an [`ApproximateWindow`].
    Approximate,
}

impl LimiterKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Token,
        Self::Leaky,
        Self::Sliding,
        Self::Segmented,
        Self::Fixed,
        Self::Approximate,
    ];

    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Leaky => "leaky",
            Self::Sliding => "sliding",
            Self::Segmented => "segmented",
            Self::Fixed => "fixed",
            Self::Approximate => "approximate",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl LimiterConfig {
    /// For a limiter of this kind. Whether it can have these quotas, [`build`](Self::build) says.
    pub fn new(kind: LimiterKind, quotas: impl Into<Quotas>) -> Self {
        Self {
            kind,
            quotas: quotas.into(),
        }
    }

    /// Which limiter.
    pub const fn kind(&self) -> LimiterKind {
        self.kind
    }

    /// What it allows: one quota, or two.
    pub const fn quotas(&self) -> Quotas {
        self.quotas
    }

    /// The limiter, on the default clock.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if a limiter of this kind cannot have these quotas: a window has no burst, and only `token` takes
    /// two.
    #[cfg(feature = "std")]
    pub fn build(&self) -> Result<Arc<dyn Limiter>, QuotaError> {
        self.build_on(Clock::default())
    }

    /// The limiter, on this clock.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_on(&self, clock: impl Into<Clock>) -> Result<Arc<dyn Limiter>, QuotaError> {
        let clock = clock.into();
        if let (LimiterKind::Token, [_, _]) = (self.kind, self.quotas.as_slice()) {
            return Ok(Arc::new(
                DualTokenBucket::builder(self.quotas).clock(clock).build()?,
            ));
        }
        let quota: Quota = self.quotas.only()?;
        Ok(match self.kind {
            LimiterKind::Token => Arc::new(TokenBucket::builder(quota).clock(clock).build()?),
            LimiterKind::Leaky => Arc::new(LeakyBucket::builder(quota).clock(clock).build()?),
            LimiterKind::Sliding => Arc::new(SlidingWindow::builder(quota).clock(clock).build()?),
            LimiterKind::Segmented => {
                Arc::new(SegmentedWindow::builder(quota).clock(clock).build()?)
            }
            LimiterKind::Fixed => Arc::new(FixedWindow::builder(quota).clock(clock).build()?),
            LimiterKind::Approximate => {
                Arc::new(ApproximateWindow::builder(quota).clock(clock).build()?)
            }
        })
    }
}

impl FromStr for LimiterConfig {
    type Err = LimiterConfigError;

    fn from_str(text: &str) -> Result<Self, LimiterConfigError> {
        let text = text.trim();
        let error = |reason| LimiterConfigError::new(text, reason);
        let (name, rest) = match text.split_once(char::is_whitespace) {
            Some((name, rest)) => (name, rest.trim_start()),
            None => (text, ""),
        };
        let Some(kind) = LimiterKind::named(name) else {
            return Err(error(match text.parse::<Quotas>() {
                Ok(_) => Reason::NameMissing,
                Err(_) if name == keyed::KEYED => Reason::Keyed,
                Err(_) => Reason::UnknownName(name.into()),
            }));
        };
        if rest.is_empty() {
            return Err(error(Reason::QuotaMissing));
        }
        let quotas = rest
            .parse()
            .map_err(|why| error(Reason::Quota(Box::new(why))))?;
        Ok(Self { kind, quotas })
    }
}

impl fmt::Display for LimiterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.quotas)
    }
}
