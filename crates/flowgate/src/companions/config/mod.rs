//! Limiters as text, as in configuration files and on command lines.

mod error;
mod keyed;

pub use error::LimiterConfigError;
pub use keyed::{AnyKeyed, KeyedLimiterConfig};

use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::quota::{Quota, QuotaError, Quotas, Reason as QuotaReason};
use crate::types::approximate_window::ApproximateWindow;
use crate::types::dual_token_bucket::DualTokenBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::sliding_window::SlidingWindow;
use crate::types::token_bucket::TokenBucket;
use crate::types::unlimited::Unlimited;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;
use error::Reason;

/// Text configuration of a rate limiter: its kind and its quotas.
///
/// The option `--limiter` of the command has the same form. With the feature `serde`, configuration files can contain it.
///
/// | text | limiter |
/// |---|---|
/// | `token 10/s burst 20` | [`TokenBucket`] |
/// | `token 10/s burst 20; 1000/day` | [`DualTokenBucket`] |
/// | `leaky 10/s` | [`LeakyBucket`] |
/// | `sliding 100/min` | [`SlidingWindow`] |
/// | `segmented 100/min` | [`SegmentedWindow`] |
/// | `fixed 100/min` | [`FixedWindow`], anchored at its first grant |
/// | `aligned 100/min` | [`FixedWindow`] that begins at the full minute, UTC |
/// | `approximate 100/min` | [`ApproximateWindow`] |
/// | `unlimited` | [`Unlimited`] |
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
/// limiter.set_quotas(reloaded.quotas().expect("a window has one"))?;
/// assert_eq!(limiter.available(), 199);
/// assert_eq!(reloaded.to_string(), "segmented 200/min");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// > **Limit:** A `sliding` limiter has memory for the limit in its text, so `set_quotas` cannot raise that limit. Build a new
/// > limiter, or use [`SlidingWindowBuilder::max_limit`](crate::SlidingWindowBuilder::max_limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimiterConfig {
    kind: LimiterKind,
    /// `None`: it is unlimited.
    quotas: Option<Quotas>,
}

/// Kind of limiter of a [`LimiterConfig`].
///
/// ```
/// use flowgate::LimiterKind;
///
/// assert_eq!(LimiterKind::ALL[0].name(), "token");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimiterKind {
    /// `token`: a [`TokenBucket`], or a [`DualTokenBucket`] if there are two quotas.
    Token,
    /// `leaky`: a [`LeakyBucket`].
    Leaky,
    /// `sliding`: a [`SlidingWindow`].
    Sliding,
    /// `segmented`: a [`SegmentedWindow`].
    Segmented,
    /// `fixed`: a [`FixedWindow`].
    Fixed,
    /// `aligned`: a [`FixedWindow`] with windows aligned to midnight UTC, 1970-01-01.
    ///
    /// Each window begins a whole number of windows after that time. It cannot be built without the feature `std`.
    Aligned,
    /// `approximate`: an [`ApproximateWindow`].
    Approximate,
    /// `unlimited`: an [`Unlimited`]; it has no quota.
    Unlimited,
}

impl LimiterKind {
    /// All kinds that have a quota.
    pub const ALL: [Self; 7] = [
        Self::Token,
        Self::Leaky,
        Self::Sliding,
        Self::Segmented,
        Self::Fixed,
        Self::Aligned,
        Self::Approximate,
    ];

    /// Returns the name of the kind in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Leaky => "leaky",
            Self::Sliding => "sliding",
            Self::Segmented => "segmented",
            Self::Fixed => "fixed",
            Self::Aligned => "aligned",
            Self::Approximate => "approximate",
            Self::Unlimited => "unlimited",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().chain([Self::Unlimited]);
        all.into_iter().find(|kind| kind.name() == name)
    }
}

impl LimiterConfig {
    /// Creates a configuration. [`build`](Self::build) checks whether the kind accepts these quotas.
    pub fn new(kind: LimiterKind, quotas: impl Into<Quotas>) -> Self {
        Self {
            kind,
            quotas: Some(quotas.into()),
        }
    }

    /// Creates the configuration of an [`Unlimited`].
    ///
    /// ```
    /// use flowgate::LimiterConfig;
    ///
    /// assert_eq!(LimiterConfig::unlimited(), "unlimited".parse()?);
    /// assert!(LimiterConfig::unlimited().build()?.try_acquire_n(1_000_000).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn unlimited() -> Self {
        Self {
            kind: LimiterKind::Unlimited,
            quotas: None,
        }
    }

    /// Returns the kind of limiter.
    pub const fn kind(&self) -> LimiterKind {
        self.kind
    }

    /// Returns the one or two quotas; `None` if the limiter is unlimited.
    pub const fn quotas(&self) -> Option<Quotas> {
        self.quotas
    }

    /// Builds the limiter on the default clock.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if a limiter of this kind does not accept these quotas. A window has no burst, only `token` takes
    /// two quotas, and `unlimited` takes none.
    #[cfg(feature = "std")]
    pub fn build(&self) -> Result<Arc<dyn Limiter>, QuotaError> {
        self.build_on(Clock::default())
    }

    /// Builds the limiter on `clock`.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the cases of [`build`](Self::build).
    pub fn build_on(&self, clock: impl Into<Clock>) -> Result<Arc<dyn Limiter>, QuotaError> {
        let clock = clock.into();
        let Some(quotas) = self.quotas else {
            return Ok(Arc::new(Unlimited::with_clock(clock)));
        };
        if let (LimiterKind::Token, [_, _]) = (self.kind, quotas.as_slice()) {
            return Ok(Arc::new(
                DualTokenBucket::builder(quotas).clock(clock).build()?,
            ));
        }
        let quota: Quota = quotas.only()?;
        Ok(match self.kind {
            LimiterKind::Unlimited => return Err(QuotaError::new(QuotaReason::NOT_BY_QUOTA)),
            LimiterKind::Token => Arc::new(TokenBucket::builder(quota).clock(clock).build()?),
            LimiterKind::Leaky => Arc::new(LeakyBucket::builder(quota).clock(clock).build()?),
            LimiterKind::Sliding => Arc::new(SlidingWindow::builder(quota).clock(clock).build()?),
            LimiterKind::Segmented => {
                Arc::new(SegmentedWindow::builder(quota).clock(clock).build()?)
            }
            LimiterKind::Fixed => Arc::new(FixedWindow::builder(quota).clock(clock).build()?),
            #[cfg(feature = "std")]
            LimiterKind::Aligned => {
                let builder = FixedWindow::builder(quota).clock(clock);
                Arc::new(builder.align_to_wall(0).build()?)
            }
            #[cfg(not(feature = "std"))]
            LimiterKind::Aligned => {
                return Err(QuotaError::new(crate::quota::Reason::NO_WALL_CLOCK));
            }
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
        match (kind, rest.is_empty()) {
            (LimiterKind::Unlimited, true) => return Ok(Self::unlimited()),
            (LimiterKind::Unlimited, false) => return Err(error(Reason::QuotaOfUnlimited)),
            (_, true) => return Err(error(Reason::QuotaMissing)),
            (_, false) => {}
        }
        let quotas = rest
            .parse::<Quotas>()
            .map_err(|why| error(Reason::Quota(Box::new(why))))?;
        Ok(Self::new(kind, quotas))
    }
}

impl fmt::Display for LimiterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.quotas {
            Some(quotas) => write!(f, " {quotas}"),
            None => Ok(()),
        }
    }
}
