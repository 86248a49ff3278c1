use super::error::{LimiterConfigError, Reason};
use super::{LimiterConfig, LimiterKind};
use crate::clock::Clock;
use crate::keyed::{Keyed, KeyedAlgorithm, KeyedBuilder, KeyedError};
use crate::limiter::Limiter;
#[cfg(not(feature = "std"))]
use crate::quota::QuotaError;
use crate::quota::Quotas;
use crate::types::dual_token_bucket::DualTokenBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::token_bucket::TokenBucket;
use crate::types::unlimited::Unlimited;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::str::FromStr;

/// The first word of the text of a limit for each key.
pub(super) const KEYED: &str = "keyed";

/// Text configuration of a limit for each key: `keyed`, and a [`LimiterConfig`].
///
/// The kinds are `token`, `leaky`, `fixed`, `aligned`, `segmented` and `unlimited`.
///
/// ```
/// use flowgate::KeyedLimiterConfig;
///
/// let config: KeyedLimiterConfig = "keyed token 10/s burst 20".parse()?;
/// let tenants = config.build(10_000)?;
/// tenants.try_acquire("alice")?;
/// assert_eq!(tenants.key("alice").available(), 19);
///
/// let off: KeyedLimiterConfig = "keyed unlimited".parse()?;
/// let tenants = off.build(10_000)?; // the same type
/// assert!((0..1000).all(|_| tenants.try_acquire("alice").is_ok()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyedLimiterConfig(LimiterConfig);

/// [`Keyed`] limiter of any kind.
///
/// Match on it to call methods that only one kind has, or to pass it to a layer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyKeyed {
    /// Of a `token` configuration with one quota.
    TokenBucket(Arc<Keyed<TokenBucket>>),
    /// Of a `token` configuration with two quotas.
    DualTokenBucket(Arc<Keyed<DualTokenBucket>>),
    /// Of a `leaky` configuration.
    LeakyBucket(Arc<Keyed<LeakyBucket>>),
    /// Of a `fixed` or `aligned` configuration.
    FixedWindow(Arc<Keyed<FixedWindow>>),
    /// Of a `segmented` configuration.
    SegmentedWindow(Arc<Keyed<SegmentedWindow>>),
    /// Of an `unlimited` configuration.
    Unlimited(Arc<Keyed<Unlimited>>),
}

macro_rules! each {
    ($keyed:expr, $limits:ident => $answer:expr) => {
        match $keyed {
            AnyKeyed::TokenBucket($limits) => $answer,
            AnyKeyed::DualTokenBucket($limits) => $answer,
            AnyKeyed::LeakyBucket($limits) => $answer,
            AnyKeyed::FixedWindow($limits) => $answer,
            AnyKeyed::SegmentedWindow($limits) => $answer,
            AnyKeyed::Unlimited($limits) => $answer,
        }
    };
}

impl KeyedLimiterConfig {
    /// Returns the configuration of each key's limiter.
    pub const fn each(&self) -> LimiterConfig {
        self.0
    }

    /// Builds the limiter on the default clock, with capacity for `keys` active keys.
    ///
    /// # Errors
    ///
    /// Returns the [`KeyedError`] of [`KeyedBuilder::capacity`](crate::KeyedBuilder::capacity). It also returns [`KeyedError`]
    /// if limiters of this kind do not accept these quotas.
    #[cfg(feature = "std")]
    pub fn build(&self, keys: usize) -> Result<AnyKeyed, KeyedError> {
        self.build_on(Clock::default(), keys)
    }

    /// Builds the limiter on `clock`, with capacity for `keys` active keys.
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] in the cases of [`build`](Self::build).
    pub fn build_on(&self, clock: impl Into<Clock>, keys: usize) -> Result<AnyKeyed, KeyedError> {
        let clock = clock.into();
        let Some(quotas) = self.0.quotas() else {
            return Ok(AnyKeyed::Unlimited(built(Keyed::unlimited(), clock, keys)?));
        };
        if let (LimiterKind::Token, [_, _]) = (self.0.kind(), quotas.as_slice()) {
            let limits = built(Keyed::dual_token_bucket(quotas), clock, keys)?;
            return Ok(AnyKeyed::DualTokenBucket(limits));
        }
        let quota = quotas.only()?;
        Ok(match self.0.kind() {
            LimiterKind::Leaky => {
                AnyKeyed::LeakyBucket(built(Keyed::leaky_bucket(quota), clock, keys)?)
            }
            LimiterKind::Fixed => {
                AnyKeyed::FixedWindow(built(Keyed::fixed_window(quota), clock, keys)?)
            }
            #[cfg(feature = "std")]
            LimiterKind::Aligned => {
                let windows = Keyed::fixed_window(quota).align_to_wall(0);
                AnyKeyed::FixedWindow(built(windows, clock, keys)?)
            }
            #[cfg(not(feature = "std"))]
            LimiterKind::Aligned => {
                return Err(QuotaError::new(crate::quota::Reason::NO_WALL_CLOCK).into());
            }
            LimiterKind::Segmented => {
                AnyKeyed::SegmentedWindow(built(Keyed::segmented_window(quota), clock, keys)?)
            }
            // Kinds that are not available for each key are refused when the text is read.
            _ => AnyKeyed::TokenBucket(built(Keyed::token_bucket(quota), clock, keys)?),
        })
    }
}

fn built<A: KeyedAlgorithm>(
    builder: KeyedBuilder<A>,
    clock: Clock,
    keys: usize,
) -> Result<Arc<Keyed<A>>, KeyedError> {
    Ok(Arc::new(builder.clock(clock).capacity(keys)?))
}

impl AnyKeyed {
    /// Returns the limiter of one key.
    pub fn key(&self, key: &(impl Hash + ?Sized)) -> Arc<dyn Limiter> {
        each!(self, limits => Arc::new(limits.key_owned(key)))
    }

    /// Acquires one token of `key`.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available.
    pub fn try_acquire(&self, key: &(impl Hash + ?Sized)) -> Result<(), Denied> {
        each!(self, limits => limits.try_acquire(key))
    }

    /// Reads the memory of `keys` ahead, as [`Keyed::prefetch`] does.
    pub fn prefetch(&self, keys: &[impl Hash]) {
        each!(self, limits => limits.prefetch(keys))
    }

    /// Returns the clock that the limiter decides by.
    pub fn clock(&self) -> &Clock {
        each!(self, limits => limits.clock())
    }

    /// Replaces the quotas of each key. An `unlimited` limiter does not change.
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`], and changes nothing, if limiters of this kind do not accept these quotas.
    pub fn set_quotas(&self, quotas: Quotas) -> Result<(), KeyedError> {
        match self {
            Self::DualTokenBucket(limits) => limits.set_quotas(quotas),
            Self::TokenBucket(limits) => limits.set_quota(quotas.only()?),
            Self::LeakyBucket(limits) => limits.set_quota(quotas.only()?),
            Self::FixedWindow(limits) => limits.set_quota(quotas.only()?),
            Self::SegmentedWindow(limits) => limits.set_quota(quotas.only()?),
            Self::Unlimited(_) => Ok(()),
        }
    }
}

impl FromStr for KeyedLimiterConfig {
    type Err = LimiterConfigError;

    fn from_str(text: &str) -> Result<Self, LimiterConfigError> {
        let text = text.trim();
        let error = |reason| LimiterConfigError::new(text, reason);
        let Some((KEYED, each)) = text.split_once(char::is_whitespace) else {
            return Err(error(Reason::NotKeyed));
        };
        let each: LimiterConfig = each.parse()?;
        match each.kind() {
            LimiterKind::Sliding | LimiterKind::Approximate => {
                Err(error(Reason::NotForKeys(each.kind())))
            }
            _ => Ok(Self(each)),
        }
    }
}

impl fmt::Display for KeyedLimiterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEYED} {}", self.0)
    }
}
