//! Random times with exponentially distributed gaps.

use std::fmt;

use flowgate::Quota;

use crate::error::ScheduleError;
use crate::schedule::period_ns;

/// Maximum number of requests of a schedule with random times.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_schedule::{MAX_POISSON, Schedule, ScheduleError};
///
/// let too_many = Schedule::poisson(Quota::per_second(1000), 7, MAX_POISSON + 1);
/// assert_eq!(too_many, Err(ScheduleError::TooManyPoisson(MAX_POISSON + 1)));
/// ```
pub const MAX_POISSON: u64 = 100_000_000;

/// One sum is stored per this many requests.
const STRIDE: u64 = 1024;
/// Gaps are counted in units of the mean gap / 2³².
const UNITS_PER_GAP_LOG2: u32 = 32;

/// A Poisson process of the quota's rate: request `k` is scheduled after the sum of gaps 0 to `k`.
///
/// A gap depends only on the seed and its index, and sums are integers, so the order of addition does not matter. The
/// largest possible gap is 37 mean gaps, so no allowed sum reaches 2⁶⁴ units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Poisson {
    quota: Quota,
    seed: u64,
    len: u64,
    /// The sums of the first 0, 1 · STRIDE, 2 · STRIDE, … gaps.
    sums: Vec<u64>,
}

impl Poisson {
    pub(crate) fn lasting(
        quota: Quota,
        duration_ns: u64,
        seed: u64,
    ) -> Result<Poisson, ScheduleError> {
        // Below 2⁶⁴ · 2³¹ requests · ns.
        let product = u128::from(duration_ns) * u128::from(quota.count());
        let expected = product / u128::from(period_ns(quota));
        if expected > u128::from(MAX_POISSON) {
            let expected = u64::try_from(expected).unwrap_or(u64::MAX);
            return Err(ScheduleError::TooManyPoisson(expected));
        }
        let end = (product << UNITS_PER_GAP_LOG2).div_ceil(u128::from(period_ns(quota)));
        Poisson::while_below(quota, seed, |len, gaps| {
            len < 2 * MAX_POISSON && u128::from(gaps) < end
        })
    }

    pub(crate) fn of(quota: Quota, requests: u64, seed: u64) -> Result<Poisson, ScheduleError> {
        if requests > MAX_POISSON {
            return Err(ScheduleError::TooManyPoisson(requests));
        }
        Poisson::while_below(quota, seed, |len, _| len < requests)
    }

    /// Takes requests while `is_within` accepts their index and sum of gaps, at least one.
    fn while_below(
        quota: Quota,
        seed: u64,
        is_within: impl Fn(u64, u64) -> bool,
    ) -> Result<Poisson, ScheduleError> {
        let mut poisson = Poisson {
            quota,
            seed,
            len: 0,
            sums: Vec::new(),
        };
        let mut gaps = 0;
        loop {
            let next = gaps + gap(seed, poisson.len);
            if poisson.len > 0 && !is_within(poisson.len, next) {
                break;
            }
            if poisson.len.is_multiple_of(STRIDE) {
                poisson.sums.push(gaps);
            }
            gaps = next;
            poisson.len += 1;
        }
        u64::try_from(poisson.exact_ns(gaps)).map_err(|_| ScheduleError::TooLong)?;
        Ok(poisson)
    }

    /// Returns the gap before request `index`.
    pub(crate) fn gap(&self, index: u64) -> u64 {
        gap(self.seed, index)
    }

    pub(crate) fn scheduled_ns(&self, index: u64) -> u64 {
        self.to_ns(self.gaps_before(index + 1, 0, 0))
    }

    /// Returns the sum of the first `end` gaps, given that of the first `known`, which are no more.
    pub(crate) fn gaps_before(&self, end: u64, known: u64, sum: u64) -> u64 {
        let (mut index, mut gaps) = (known, sum);
        let mark = end / STRIDE;
        if known < mark * STRIDE
            && let Some(sum) = usize::try_from(mark).ok().and_then(|at| self.sums.get(at))
        {
            (index, gaps) = (mark * STRIDE, *sum);
        }
        while index < end {
            gaps += self.gap(index);
            index += 1;
        }
        gaps
    }

    pub(crate) fn to_ns(&self, gaps: u64) -> u64 {
        // Values that do not fit were refused.
        u64::try_from(self.exact_ns(gaps)).unwrap_or(u64::MAX)
    }

    /// Returns the time in nanoseconds, rounded up.
    fn exact_ns(&self, gaps: u64) -> u128 {
        let product = u128::from(gaps) * u128::from(period_ns(self.quota));
        // Rounding up in two steps is rounding up in one, and most quotients of the first fit into 64 bits.
        let of_mean_gaps = product.div_ceil(1 << UNITS_PER_GAP_LOG2);
        match u64::try_from(of_mean_gaps) {
            Ok(of_mean_gaps) => of_mean_gaps.div_ceil(self.quota.count()).into(),
            Err(_) => of_mean_gaps.div_ceil(self.quota.count().into()),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }
}

impl fmt::Display for Poisson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Poisson, seed {}", self.quota, self.seed)
    }
}

/// Returns an exponentially distributed gap with mean 1, in units: −ln of a number above 0 and up to 1.
fn gap(seed: u64, index: u64) -> u64 {
    let uniform = ((split_mix(seed, index) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let units = -libm::log(uniform) * (1_u64 << UNITS_PER_GAP_LOG2) as f64;
    // Rounded half up. At most 37 mean gaps, so the fraction is exact.
    let whole = units as u64;
    whole + u64::from(units - whole as f64 >= 0.5)
}

/// Returns output `index` of SplitMix64. The state grows by a constant, so outputs do not depend on earlier ones.
fn split_mix(seed: u64, index: u64) -> u64 {
    let step = index.wrapping_add(1);
    let mut z = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::split_mix;

    /// The outputs match the reference implementation.
    #[test]
    fn the_generator_is_split_mix_64() {
        let of_seed = |seed| [0, 1, 2].map(|index| split_mix(seed, index));
        assert_eq!(
            of_seed(1_234_567),
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert_eq!(split_mix(0, 0), 0xe220_a839_7b1d_cdaf);
    }
}
