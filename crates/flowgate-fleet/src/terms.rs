use crate::FleetError;
use flowgate::Quota;
use std::time::Duration;

/// Integers below this one are exact in the store's numbers, which are doubles.
pub(crate) const MOST: u128 = 1 << 53;

/// A quota in the store's integers.
///
/// Of a bucket, one unit is `period` parts, and `count` parts flow back per microsecond. Of a window, `count` units are admitted in
/// `period` microseconds. So both have a rate of `count / period` units per microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    pub(crate) period: u64,
    /// Units of a full bucket, or of a window.
    pub(crate) burst: u64,
    /// The same by the quota, if a call states another burst.
    pub(crate) quota_burst: u64,
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A token bucket.
    #[default]
    Bucket,
    /// Windows, each of which begins with its first admission.
    Window,
    /// Windows that begin when the store's Unix time is a multiple of their length.
    AlignedWindow,
}

/// The longest window, in microseconds: twice as much after any time of this century is still exact.
const LONGEST_WINDOW_US: u64 = 1 << 51;

impl Kind {
    pub(crate) fn is_window(self) -> bool {
        self != Self::Bucket
    }

    /// Returns when a window of `period` ends that began at `began_us`.
    pub(crate) fn end_us(self, began_us: u64, period: u64) -> u64 {
        match self {
            Self::AlignedWindow => began_us - began_us % period + period,
            _ => began_us + period,
        }
    }
}

impl Terms {
    /// Returns the quota in lowest terms, or the largest burst that the store can count exactly at this rate.
    pub(crate) fn of(quota: Quota) -> Result<Self, u64> {
        let scale = u128::from(quota.scale());
        let per_period = u128::from(quota.count()) * scale * 1_000;
        let period_ns = quota.period().as_nanos();
        let common = greatest_common_divisor(per_period, period_ns);
        let (count, period) = (per_period / common, period_ns / common);
        // A debt is at most a full bucket. The store adds one unit to it, or what flows back in a microsecond.
        let most = MOST.saturating_sub(count.max(period)) / period / scale;
        let burst = u128::from(quota.max_burst());
        if burst > most {
            return Err(u64::try_from(most).unwrap_or(u64::MAX));
        }
        let whole = |value: u128| u64::try_from(value).expect("it is below 2^53");
        Ok(Self {
            kind: Kind::Bucket,
            count: whole(count),
            period: whole(period),
            burst: whole(burst * scale),
            quota_burst: whole(burst * scale),
        })
    }

    /// Returns the terms of windows of this quota.
    pub(crate) fn of_window(quota: Quota, kind: Kind) -> Result<Self, FleetError> {
        if let Some(burst) = quota.explicit_burst() {
            return Err(FleetError::WindowBurst { burst });
        }
        let nanos = quota.period().as_nanos();
        let longest = u128::from(LONGEST_WINDOW_US) * 1_000;
        if !nanos.is_multiple_of(1_000) || nanos > longest {
            return Err(FleetError::WindowPeriod(quota.period()));
        }
        let units = u128::from(quota.count()) * u128::from(quota.scale());
        if units >= MOST {
            let most = (MOST - 1) / u128::from(quota.scale());
            return Err(FleetError::WindowCount { most: most as u64 });
        }
        Ok(Self {
            kind,
            count: units as u64,
            period: (nanos / 1_000) as u64,
            burst: units as u64,
            quota_burst: units as u64,
        })
    }

    /// Returns the terms of `quota` for a limit of this kind.
    pub(crate) fn of_kind(quota: Quota, kind: Kind) -> Result<Self, FleetError> {
        match kind {
            Kind::Bucket => Self::of(quota).map_err(|most| FleetError::Burst { most }),
            _ => Self::of_window(quota, kind),
        }
    }

    /// Returns the burst and the rate that bound a limit of these terms in every interval.
    ///
    /// An interval shorter than a window can have a part of two.
    pub(crate) fn bound(self) -> Self {
        let burst = match self.kind {
            Kind::Bucket => self.burst,
            _ => self.burst.saturating_mul(2),
        };
        Self { burst, ..self }
    }

    /// Returns those of the two with the larger rate.
    pub(crate) fn faster(self, other: Self) -> Self {
        let of = |this: Self, that: Self| u128::from(this.count) * u128::from(that.period);
        match of(other, self) > of(self, other) {
            true => other,
            false => self,
        }
    }

    /// Returns whether both are of one quota, whatever bursts their calls state.
    #[cfg(feature = "server")]
    pub(crate) fn is_same_quota(&self, other: &Self) -> bool {
        let of = |terms: &Self| (terms.kind, terms.count, terms.period, terms.quota_burst);
        of(self) == of(other)
    }

    /// Returns the largest burst that a call may state, so that the store still counts exactly.
    pub(crate) fn most_burst(&self) -> u64 {
        let most = (MOST - u128::from(self.count.max(self.period))) / u128::from(self.period);
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Returns by how many units a debt may exceed a full bucket, so that the store still counts it exactly.
    pub(crate) fn room(&self) -> u64 {
        self.most_burst() - self.burst
    }

    /// Returns the microseconds until `n` units can be taken from a bucket, with this debt, in parts.
    pub(crate) fn wait_us(&self, debt: u64, n: u64) -> u64 {
        let [debt, n, period, burst, count] =
            [debt, n, self.period, self.burst, self.count].map(u128::from);
        let missing = (debt + n * period).saturating_sub(burst * period);
        u64::try_from(missing.div_ceil(count)).unwrap_or(u64::MAX)
    }

    /// Returns the units that flow back within `time`, rounded up.
    pub(crate) fn flow(&self, time: Duration) -> u128 {
        let parts = time.as_nanos() * u128::from(self.count);
        parts.div_ceil(u128::from(self.period) * 1_000)
    }

    /// Returns the time within which `units` flow back, rounded down.
    pub(crate) fn time_of(&self, units: u128) -> Duration {
        let nanos = units * u128::from(self.period) * 1_000 / u128::from(self.count);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(quota: &str) -> Result<Terms, u64> {
        Terms::of(quota.parse().expect("a quota"))
    }

    #[test]
    fn a_quota_is_in_lowest_terms() {
        let of = |count, period, burst| {
            Ok(Terms {
                kind: Kind::Bucket,
                count,
                period,
                burst,
                quota_burst: burst,
            })
        };
        assert_eq!(terms("100000/s burst 10000"), of(1, 10, 10_000));
        assert_eq!(terms("3/day"), of(1, 28_800_000_000, 3));
        // Three per microsecond flow back whole.
        assert_eq!(terms("3000000/s burst 5"), of(3, 1, 5));
    }

    #[test]
    fn a_burst_that_the_store_cannot_count_is_refused_with_the_largest_that_it_can() {
        let of = |burst: u64| terms(&format!("999999937/day burst {burst}"));
        let most = of(1_000_000).unwrap_err();
        assert!(of(most).is_ok());
        assert_eq!(of(most + 1), Err(most));
    }

    #[test]
    fn a_window_is_in_whole_microseconds_and_has_no_burst() {
        let of = |quota: &str| {
            let quota = quota.parse().expect("a quota");
            Terms::of_window(quota, Kind::Window).map_err(|error| error.to_string())
        };
        let hour = of("1000/h units 3").expect("it is exact");
        assert_eq!((hour.burst, hour.period), (3_000, 3_600_000_000));
        for (quota, hint) in [
            ("10/s burst 10", "burst 10"),
            ("1/1500ns", "1.5µs"),
            ("1/100y", "71 years"),
        ] {
            let error = of(quota).expect_err(quota);
            assert!(error.contains(hint), "{error}");
        }
        let large = Quota::new(1 << 53, Duration::from_secs(1 << 23)).expect("a quota");
        let error = Terms::of_window(large, Kind::Window).expect_err("too many");
        assert!(error.to_string().contains("9007199254740991"), "{error}");
    }

    #[test]
    fn an_aligned_window_ends_at_a_multiple_of_its_length() {
        let ends = [0, 1, 59, 60, 61].map(|began| Kind::AlignedWindow.end_us(began, 60));
        assert_eq!(ends, [60, 60, 60, 120, 120]);
        assert_eq!(Kind::Window.end_us(59, 60), 119);
    }

    #[test]
    fn a_wait_is_rounded_up_to_microseconds() {
        let terms = terms("3000000/s burst 5").expect("it fits");
        assert_eq!(terms.wait_us(5, 1), 1);
        assert_eq!(terms.wait_us(5, 4), 2);
        assert_eq!(terms.wait_us(0, 5), 0);
    }
}
