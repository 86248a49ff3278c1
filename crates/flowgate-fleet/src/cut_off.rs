use crate::FleetError;
use crate::record::Record;
use flowgate::{Clock, Keyed, Quota, TokenBucket};

/// What a limit decides by while the store cannot be reached.
///
/// It is used only for requests that the store has not answered. A refusal of the store stays a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutOff {
    /// This process admits its share: the first number of the second number of equal parts, of the rate and of the burst.
    ///
    /// If every process of a fleet of 8 has `Share(1, 8)`, they admit the limit together, and no more. A share of less than one
    /// token admits nothing.
    Share(u32, u32),
    /// Nothing is admitted.
    Deny,
    /// Everything is admitted. The limit does not hold.
    Admit,
}

/// The limits of a process that is on its own, for each key.
///
/// They live as long as the limit. A connection that comes and goes gains no more than the share's own rate.
#[derive(Debug)]
pub(crate) enum Alone {
    Share(Box<Keyed<TokenBucket>>),
    Deny,
    Admit,
}

impl Alone {
    pub(crate) fn new(
        cut_off: CutOff,
        quota: Quota,
        clock: &Clock,
        capacity: usize,
    ) -> Result<Self, FleetError> {
        let (of, nodes) = match cut_off {
            CutOff::Deny => return Ok(Self::Deny),
            CutOff::Admit => return Ok(Self::Admit),
            CutOff::Share(of, nodes) => (of, nodes),
        };
        if of == 0 || of > nodes {
            return Err(FleetError::Share { of, nodes });
        }
        // Rounded down: together the shares are never more than the limit.
        let burst = u128::from(quota.max_burst()) * u128::from(of) / u128::from(nodes);
        let Ok(burst @ 1..) = u64::try_from(burst) else {
            return Ok(Self::Deny);
        };
        let count = quota.count().saturating_mul(of.into());
        let share = Quota::new(count, quota.period().saturating_mul(nodes))
            .and_then(|rate| rate.units_per_token(quota.scale()))
            .and_then(|rate| rate.try_burst(burst))
            .map_err(|error| FleetError::Quota(Box::new(error)))?;
        let share = Keyed::token_bucket(share).clock(clock.clone());
        let share = share.capacity(capacity);
        let share = share.map_err(|error| FleetError::Keys(Box::new(error)))?;
        Ok(Self::Share(Box::new(share)))
    }

    /// Decides on `n` units of the key of this record.
    pub(crate) fn admits(&self, record: Record, n: u64) -> bool {
        match self {
            Self::Share(shares) => shares.try_acquire_n(&record, n).is_ok(),
            Self::Deny => false,
            Self::Admit => true,
        }
    }

    /// Returns `n` units that were admitted, and not used.
    pub(crate) fn refund(&self, record: Record, n: u64) {
        if let Self::Share(shares) = self {
            shares.refund(&record, n);
        }
    }

    /// Takes up to `n` units for the key of this record, and returns how many.
    pub(crate) fn take_up_to(&self, record: Record, n: u64) -> u64 {
        match self {
            Self::Share(shares) => shares.take_up_to(&record, n),
            Self::Deny => 0,
            Self::Admit => n,
        }
    }
}
