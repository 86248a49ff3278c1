//! The state of one rule's keys: the place that a store takes.

use super::DecisionTime;
use crate::config::Allows;
use crate::decision::DescriptorEntry;
use flowgate::{
    Denied, DualTokenBucket, FixedWindow, Keyed, KeyedBuilder, KeyedError, LeakyBucket, Limiter,
    LimiterKind, Policy, Quota, SegmentedWindow, Snapshot, TokenBucket,
};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};

/// A limit for each key, in memory of fixed size.
#[derive(Debug)]
pub(crate) enum Table {
    Token(Keyed<TokenBucket>),
    Dual(Keyed<DualTokenBucket>),
    Leaky(Keyed<LeakyBucket>),
    Window(Keyed<FixedWindow>),
    Segmented(Keyed<SegmentedWindow>),
}

/// What a table begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys<'a> {
    /// No keys, and room for this many.
    None { capacity: usize },
    /// Those of another table's [export](Table::export).
    Export(&'a [u8]),
}

/// Values that the configuration leaves open. They are hashed with their lengths, so that no two lists are alike.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'a> {
    /// The entries that are open.
    Path {
        entries: &'a [DescriptorEntry<'a>],
        open: &'a [bool],
    },
    /// The value of the only open entry.
    Value(&'a [u8]),
    /// No entry is open.
    Nothing,
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut add = |value: &[u8]| {
            state.write_usize(value.len());
            state.write(value);
        };
        match self {
            Self::Path { entries, open } => {
                for (entry, _) in entries.iter().zip(*open).filter(|(_, open)| **open) {
                    add(entry.value);
                }
            }
            Self::Value(value) => add(value),
            Self::Nothing => {}
        }
    }
}

impl<'a> Key<'a> {
    /// Returns the key as a store knows it: the only open value, or several, each after its length in four bytes.
    pub(crate) fn bytes(&self) -> Cow<'a, [u8]> {
        let Self::Path { entries, open } = self else {
            return match self {
                Self::Value(value) => Cow::Borrowed(value),
                _ => Cow::Borrowed(&[]),
            };
        };
        let is_open = |(entry, open): (&'a DescriptorEntry<'a>, &bool)| open.then_some(entry.value);
        let mut values = entries.iter().zip(*open).filter_map(is_open);
        match (values.next(), values.next()) {
            (None, _) => Cow::Borrowed(&[]),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let mut bytes = Vec::new();
                for value in [first, second].into_iter().chain(values) {
                    // A request is smaller than 4 GiB.
                    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
                    bytes.extend_from_slice(value);
                }
                Cow::Owned(bytes)
            }
        }
    }
}

macro_rules! each {
    ($table:expr, $limits:ident => $answer:expr) => {
        match $table {
            Table::Token($limits) => $answer,
            Table::Dual($limits) => $answer,
            Table::Leaky($limits) => $answer,
            Table::Window($limits) => $answer,
            Table::Segmented($limits) => $answer,
        }
    };
}

/// With the key's own quota, if the table can keep it.
macro_rules! own {
    ($table:expr, $own:expr, $limits:ident => $answer:expr) => {
        own!($table, $own, $limits => $answer, Token, Leaky, Window, Segmented)
    };
    ($table:expr, $own:expr, $limits:ident => $answer:expr, $($kind:ident),*) => {
        match $table {
            Table::Dual($limits) => $answer,
            $(Table::$kind($limits) => match $own.and_then(|own| $limits.with(own).ok()) {
                Some($limits) => $answer,
                None => $answer,
            },)*
        }
    };
}

impl Table {
    /// Builds a table. `None` if such a rule needs none.
    pub(crate) fn new(
        allows: &Allows,
        keys: Keys<'_>,
        time: &DecisionTime,
    ) -> Result<Option<Self>, KeyedError> {
        let (kind, quota) = match *allows {
            Allows::Everything | Allows::Nothing { .. } => return Ok(None),
            Allows::TwoQuotas(quotas) => {
                let limits = built(Keyed::dual_token_bucket(quotas), keys, time)?;
                return Ok(Some(Self::Dual(limits)));
            }
            Allows::Windows { count, unit } => (
                LimiterKind::Aligned,
                Quota::new(count.into(), unit.length())?,
            ),
            Allows::Quota { kind, quota } => (kind, quota),
        };
        let fixed = Keyed::fixed_window(quota);
        Ok(Some(match kind {
            LimiterKind::Leaky => Self::Leaky(built(Keyed::leaky_bucket(quota), keys, time)?),
            LimiterKind::Fixed => Self::Window(built(fixed, keys, time)?),
            LimiterKind::Aligned => Self::Window(built(time.align(fixed), keys, time)?),
            LimiterKind::Segmented => {
                Self::Segmented(built(Keyed::segmented_window(quota), keys, time)?)
            }
            // A configuration can name no other kind.
            _ => Self::Token(built(Keyed::token_bucket(quota), keys, time)?),
        }))
    }

    /// Takes `n` tokens, or none.
    pub(crate) fn take(&self, key: &Key<'_>, n: u64, own: Option<Quota>) -> Result<(), Denied> {
        own!(self, own, limits => limits.try_acquire_n(key, n))
    }

    /// Returns what [`take`](Self::take) would return.
    pub(crate) fn look(&self, key: &Key<'_>, n: u64, own: Option<Quota>) -> Result<(), Denied> {
        own!(self, own, limits => limits.peek_n(key, n))
    }

    /// Gives back what was just taken.
    pub(crate) fn give_back(&self, key: &Key<'_>, n: u64, own: Option<Quota>) {
        own!(self, own, limits => _ = limits.refund(key, n));
    }

    /// Forgets what was taken of a key, so that it is full.
    pub(crate) fn reset(&self, key: &Key<'_>) {
        each!(self, limits => limits.reset(key));
    }

    /// Returns whether nothing is missing from a key, in either of two quotas.
    pub(crate) fn is_full(&self, key: &Key<'_>) -> bool {
        let is_full = |seen: &Snapshot| seen.remaining == seen.limit;
        self.limiter(key, |limiter| match limiter.quota_states() {
            Some(each) => each.iter().all(|state| is_full(&state.snapshot)),
            None => is_full(&limiter.snapshot()),
        })
    }

    pub(crate) fn snapshot(&self, key: &Key<'_>, own: Option<Quota>) -> Snapshot {
        own!(self, own, limits => limits.snapshot(key))
    }

    /// Returns the quota of keys without their own. `None` for two quotas.
    pub(crate) fn policy(&self) -> Option<Policy> {
        match self {
            Self::Token(limits) => Some(limits.policy()),
            Self::Dual(_) => None,
            Self::Leaky(limits) => Some(limits.policy()),
            Self::Window(limits) => Some(limits.policy()),
            Self::Segmented(limits) => Some(limits.policy()),
        }
    }

    /// Calls `look` with the key as a limiter.
    pub(crate) fn limiter<T>(&self, key: &Key<'_>, look: impl FnOnce(&dyn Limiter) -> T) -> T {
        each!(self, limits => look(&limits.key(key)))
    }

    /// Puts other quotas into force. What was taken stays taken.
    pub(crate) fn set_quotas(&self, allows: &Allows) -> Result<(), KeyedError> {
        let quota = match (*allows, self) {
            (Allows::TwoQuotas(quotas), Self::Dual(limits)) => return limits.set_quotas(quotas),
            (Allows::Windows { count, unit }, _) => Quota::new(count.into(), unit.length())?,
            (Allows::Quota { quota, .. }, _) => quota,
            _ => return Ok(()),
        };
        match self {
            // Two quotas stay two.
            Self::Dual(_) => Ok(()),
            Self::Token(limits) => limits.set_quota(quota),
            Self::Leaky(limits) => limits.set_quota(quota),
            Self::Window(limits) => limits.set_quota(quota),
            Self::Segmented(limits) => limits.set_quota(quota),
        }
    }

    /// Returns what is known about the keys. Decisions that are made meanwhile may be missing.
    pub(crate) fn export(&self) -> Vec<u8> {
        each!(self, limits => limits.export())
    }

    pub(crate) fn capacity(&self) -> usize {
        each!(self, limits => limits.capacity())
    }

    /// Returns the number of keys that are not full. It reads every entry.
    pub(crate) fn len(&self) -> usize {
        each!(self, limits => limits.len())
    }

    /// Returns how many keys were evicted for others.
    pub(crate) fn evicted(&self) -> u64 {
        each!(self, limits => limits.counts().evicted)
    }

    pub(crate) fn bytes(&self) -> usize {
        each!(self, limits => limits.bytes())
    }
}

/// Builds the keys of a limit.
pub(crate) fn built<A: flowgate::KeyedAlgorithm>(
    builder: KeyedBuilder<A>,
    keys: Keys<'_>,
    time: &DecisionTime,
) -> Result<Keyed<A>, KeyedError> {
    // Nothing waits here: a request is decided now.
    let builder = builder.clock(time.clock().clone()).max_waiting_keys(0);
    match keys {
        Keys::None { capacity } => builder.capacity(capacity),
        Keys::Export(export) => builder.import(export),
    }
}
