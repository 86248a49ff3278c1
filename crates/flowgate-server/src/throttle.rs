//! The keys of `CL.THROTTLE`: the quota is in the request.

use crate::counts::Outcome;
use crate::limits::{DecideLimits, DecisionTime, Keys, built};
use flowgate::{Keyed, KeyedError, Quota, Timestamp, TokenBucket};
use std::time::Duration;

/// Token buckets whose quota the caller names.
#[derive(Debug)]
pub(crate) struct Throttle(Keyed<TokenBucket>);

/// redis-cell's answer, in its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttled {
    pub(crate) is_limited: bool,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) reset_after: Duration,
}

/// A quota as a request names it: `max_burst`, `count` and the period.
pub(crate) type Named = (u64, u64, Duration);

/// The quota of a connection's last request. Most clients name one quota again and again.
#[derive(Debug, Default)]
pub(crate) struct LastQuota(Option<(Named, Quota)>);

impl LastQuota {
    fn get(&mut self, named: Named) -> Result<Quota, KeyedError> {
        if let Some((last, quota)) = self.0
            && last == named
        {
            return Ok(quota);
        }
        let (max_burst, count, period) = named;
        let quota = Quota::new(count, period)?.try_burst(max_burst.saturating_add(1))?;
        self.0 = Some((named, quota));
        Ok(quota)
    }
}

impl Throttle {
    pub(crate) fn new(keys: Keys<'_>, time: &DecisionTime) -> Result<Self, KeyedError> {
        // Every request names its own.
        let builder = Keyed::token_bucket(Quota::per_second(1));
        built(builder, keys, time).map(Self)
    }

    /// Takes `n` tokens of `key`, whose bucket has this quota.
    pub(crate) fn take(
        &self,
        now: Timestamp,
        key: &[u8],
        quota: Quota,
        n: u64,
    ) -> Result<Throttled, KeyedError> {
        // The key is hashed once.
        let key = self.0.key(key).with(quota)?;
        let key = key.at(now);
        let taken = match n {
            0 => Ok(()),
            n => key.try_acquire_n(n),
        };
        let seen = key.snapshot();
        Ok(Throttled {
            is_limited: taken.is_err(),
            limit: seen.limit,
            remaining: seen.remaining,
            retry_after: taken.err().and_then(|denied| denied.retry_after()),
            reset_after: seen.reset_after,
        })
    }

    /// Returns what is known about the keys.
    pub(crate) fn export(&self) -> Vec<u8> {
        self.0.export()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl DecideLimits {
    /// Decides as [`Throttle::take`] does, and counts it. The bucket holds `max_burst` + 1, and gains `count` in each period. A request
    /// for no tokens is not counted.
    pub(crate) fn throttle(
        &self,
        key: &[u8],
        named: Named,
        last: &mut LastQuota,
        n: u64,
    ) -> Result<Throttled, KeyedError> {
        let begun = self.time().clock().now();
        let told = self.throttle.take(begun, key, last.get(named)?, n)?;
        if n > 0 {
            self.counts().throttled(match told.is_limited {
                true => Outcome::Refused,
                false => Outcome::Taken,
            });
        }
        self.took(begun);
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::LastQuota;
    use std::time::Duration;

    #[test]
    fn each_quota_is_that_of_its_request() {
        let mut last = LastQuota::default();
        let second = Duration::from_secs(1);
        for named in [
            (9, 1, second),
            (9, 1, second),
            (8, 1, second),
            (8, 2, second),
            (8, 2, 2 * second),
        ] {
            let quota = last.get(named).unwrap();
            let rate = (quota.max_burst() - 1, quota.count(), quota.period());
            assert_eq!(rate, named);
        }
        // A mistake leaves the last one.
        assert!(last.get((1, 0, second)).is_err());
        assert_eq!(last.get((8, 2, 2 * second)).unwrap().max_burst(), 9);
    }
}
