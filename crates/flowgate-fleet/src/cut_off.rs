use crate::FleetError;
use crate::record::Record;
use crate::terms::Kind;
use flowgate::{Clock, FixedWindow, Keyed, Quota, TokenBucket};
use std::sync::{RwLock, RwLockReadGuard};

/// What a limit decides by while the store cannot be reached.
///
/// It is used only for requests that the store has not answered. A refusal of the store stays a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutOff {
    /// This process admits its share: the first number of the second number of equal parts, of the rate and of the burst.
    ///
    /// If every process of a fleet of 8 has `Share(1, 8)`, they admit the limit together, and no more. A share of less than one
    /// token admits nothing. The share of a [window](crate::Fleet::window) is a part of its count, in windows of this process.
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
pub(crate) struct Alone {
    cut_off: CutOff,
    shares: RwLock<Shares>,
}

#[derive(Debug)]
struct Shares {
    /// `None`: no share has been a token or more yet.
    table: Option<Table>,
    /// The share is less than one token just now.
    is_none: bool,
}

#[derive(Debug)]
enum Table {
    Buckets(Box<Keyed<TokenBucket>>),
    Windows(Box<Keyed<FixedWindow>>),
}

impl Alone {
    #[cfg(test)]
    pub(crate) fn new(
        cut_off: CutOff,
        quota: Quota,
        clock: &Clock,
        capacity: usize,
    ) -> Result<Self, FleetError> {
        Self::of_kind(Kind::Bucket, cut_off, quota, clock, capacity)
    }

    pub(crate) fn of_kind(
        kind: Kind,
        cut_off: CutOff,
        quota: Quota,
        clock: &Clock,
        capacity: usize,
    ) -> Result<Self, FleetError> {
        let share = share_of(kind, cut_off, quota)?;
        let table = share.map(|share| Table::new(kind, share, clock, capacity));
        Ok(Self {
            cut_off,
            shares: RwLock::new(Shares {
                is_none: share.is_none(),
                table: table.transpose()?,
            }),
        })
    }

    /// Replaces the quota of which this process has a share. What the share has admitted still counts.
    ///
    /// # Errors
    ///
    /// No limiter can keep the new share. Nothing is changed.
    pub(crate) fn set_quota(
        &self,
        kind: Kind,
        quota: Quota,
        clock: &Clock,
        capacity: usize,
    ) -> Result<(), FleetError> {
        let share = share_of(kind, self.cut_off, quota)?;
        let mut shares = self
            .shares
            .write()
            .unwrap_or_else(|error| error.into_inner());
        match (share, &shares.table) {
            (None, _) => {}
            (Some(share), Some(table)) => table.set_quota(share)?,
            (Some(share), None) => {
                shares.table = Some(Table::new(kind, share, clock, capacity)?);
            }
        }
        shares.is_none = share.is_none();
        Ok(())
    }

    fn shares(&self) -> RwLockReadGuard<'_, Shares> {
        self.shares
            .read()
            .unwrap_or_else(|error| error.into_inner())
    }

    pub(crate) fn cut_off(&self) -> CutOff {
        self.cut_off
    }

    /// Returns whether nothing is admitted, whatever is asked.
    pub(crate) fn is_closed(&self) -> bool {
        match self.cut_off {
            CutOff::Deny => true,
            CutOff::Admit => false,
            CutOff::Share(..) => self.shares().is_none,
        }
    }

    /// Decides on `n` units of the key of this record.
    pub(crate) fn admits(&self, record: Record, n: u64) -> bool {
        match self.cut_off {
            CutOff::Deny => false,
            CutOff::Admit => true,
            CutOff::Share(..) => match &*self.shares() {
                Shares { is_none: true, .. } | Shares { table: None, .. } => false,
                Shares {
                    table: Some(table), ..
                } => match table {
                    Table::Buckets(shares) => shares.try_acquire_n(&record, n).is_ok(),
                    Table::Windows(shares) => shares.try_acquire_n(&record, n).is_ok(),
                },
            },
        }
    }

    /// Returns `n` units that were admitted, and not used.
    pub(crate) fn refund(&self, record: Record, n: u64) {
        match &self.shares().table {
            Some(Table::Buckets(shares)) => drop(shares.refund(&record, n)),
            Some(Table::Windows(shares)) => drop(shares.refund(&record, n)),
            None => {}
        }
    }

    /// Takes up to `n` units for the key of this record, and returns how many.
    pub(crate) fn take_up_to(&self, record: Record, n: u64) -> u64 {
        match self.cut_off {
            CutOff::Deny => 0,
            CutOff::Admit => n,
            CutOff::Share(..) => match &*self.shares() {
                Shares { is_none: true, .. } | Shares { table: None, .. } => 0,
                Shares {
                    table: Some(table), ..
                } => match table {
                    Table::Buckets(shares) => shares.take_up_to(&record, n),
                    Table::Windows(shares) => shares.take_up_to(&record, n),
                },
            },
        }
    }
}

impl Table {
    fn new(kind: Kind, share: Quota, clock: &Clock, capacity: usize) -> Result<Self, FleetError> {
        let table = match kind {
            Kind::Bucket => {
                let shares = Keyed::token_bucket(share).clock(clock.clone());
                let shares = shares.capacity(capacity);
                shares.map(|shares| Self::Buckets(Box::new(shares)))
            }
            _ => {
                let shares = Keyed::fixed_window(share).clock(clock.clone());
                let shares = shares.capacity(capacity);
                shares.map(|shares| Self::Windows(Box::new(shares)))
            }
        };
        table.map_err(|error| FleetError::Keys(Box::new(error)))
    }

    fn set_quota(&self, share: Quota) -> Result<(), FleetError> {
        let changed = match self {
            Self::Buckets(shares) => shares.set_quota(share),
            Self::Windows(shares) => shares.set_quota(share),
        };
        changed.map_err(|error| FleetError::Keys(Box::new(error)))
    }
}

/// Returns the quota of the share of a process. `None`: it admits nothing, or everything, or its share is less than one token.
fn share_of(kind: Kind, cut_off: CutOff, quota: Quota) -> Result<Option<Quota>, FleetError> {
    let CutOff::Share(of, nodes) = cut_off else {
        return Ok(None);
    };
    if of == 0 || of > nodes {
        return Err(FleetError::Share { of, nodes });
    }
    // Rounded down: together the shares are never more than the limit.
    let part = |units: u64| u128::from(units) * u128::from(of) / u128::from(nodes);
    let error = |error| FleetError::Quota(Box::new(error));
    let share = match kind {
        Kind::Bucket => {
            let Ok(burst @ 1..) = u64::try_from(part(quota.max_burst())) else {
                return Ok(None);
            };
            let count = quota.count().saturating_mul(of.into());
            let share = Quota::new(count, quota.period().saturating_mul(nodes));
            share
                .and_then(|rate| rate.units_per_token(quota.scale()))
                .and_then(|rate| rate.try_burst(burst))
        }
        _ => {
            let Ok(count @ 1..) = u64::try_from(part(quota.count())) else {
                return Ok(None);
            };
            let share = Quota::new(count, quota.period());
            share.and_then(|share| share.units_per_token(quota.scale()))
        }
    };
    share.map(Some).map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate::ManualClock;
    use std::time::Duration;

    fn alone(kind: Kind, quota: &str, nodes: u32) -> (ManualClock, Alone) {
        let time = ManualClock::new();
        let quota = quota.parse().expect("a quota");
        let cut_off = CutOff::Share(1, nodes);
        let alone = Alone::of_kind(kind, cut_off, quota, &Clock::from(&time), 1);
        (time, alone.expect("a share"))
    }

    fn admitted(alone: &Alone, times: u32) -> usize {
        let record = Record::of("api", b"");
        (0..times).filter(|_| alone.admits(record, 1)).count()
    }

    #[test]
    fn c1_the_share_of_a_window_is_a_window() {
        let (time, alone) = alone(Kind::AlignedWindow, "9/10s", 4);
        assert_eq!(admitted(&alone, 9), 2);
        time.advance(Duration::from_nanos(9_999_999_999));
        assert_eq!(admitted(&alone, 9), 0);
        // An end is rounded up, in a table of keys.
        time.advance(Duration::from_micros(1));
        assert_eq!(admitted(&alone, 9), 2);
    }

    #[test]
    fn c1_a_new_quota_changes_a_share_and_forgives_nothing() {
        for kind in [Kind::Bucket, Kind::Window] {
            let (time, alone) = alone(kind, "8/h", 4);
            assert_eq!(admitted(&alone, 9), 2);
            let set = |quota: &str| {
                let quota = quota.parse().expect("a quota");
                alone.set_quota(kind, quota, &Clock::from(&time), 1)
            };
            set("12/h").expect("a share");
            assert_eq!(admitted(&alone, 9), 1);
            // Less than a token, and back.
            set("3/h").expect("none");
            assert!(alone.is_closed());
            assert_eq!(admitted(&alone, 9), 0);
            set("12/h").expect("a share");
            assert_eq!(admitted(&alone, 9), 0);
        }
    }
}
