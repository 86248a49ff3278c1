//! A quota as text. The form is documented at [`Quota`]; [`parse`](super::parse) reads it.

use core::fmt;

use super::unit::{Bytes, Period, TimeUnit};
use super::{Burst, Measure, Quota, ratio};

/// The most digits read after the point.
const MAX_PLACES: u32 = 18;

/// The canonical [text form](Quota#text): without a burst where none was set, the period
/// in the longest unit that divides it, bytes with the largest suffix that leaves them whole.
///
/// ```
/// # use flowgate::Quota;
/// assert_eq!(Quota::per_minute(90).to_string(), "90/min");
/// assert_eq!(Quota::per_minute(90).burst(1).to_string(), "90/min burst 1");
/// assert_eq!("2_500/1000ms".parse::<Quota>()?.to_string(), "2500/s");
/// assert_eq!("0.1/s".parse::<Quota>()?.to_string(), "1/10s");
/// assert_eq!("2.5/s".parse::<Quota>()?.to_string(), "2.5/s");
/// assert_eq!("1.5GB/s".parse::<Quota>()?.to_string(), "1500MB/s");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = (Amount(self.count, self.measure), Period(self.period_ns));
        match self.burst_as_given() {
            Burst::Set(burst) => {
                write!(
                    f,
                    "{}/{} burst {}",
                    whole.0,
                    whole.1,
                    Amount(burst, self.measure)
                )?;
            }
            // Only a decimal implies another burst than the count.
            Burst::Implied(burst) if burst != self.count => match Decimal::of(self, burst) {
                Some(decimal) => decimal.fmt(f)?,
                None => write!(f, "{}/{}", whole.0, whole.1)?,
            },
            Burst::Implied(_) => write!(f, "{}/{}", whole.0, whole.1)?,
        }
        if self.scale != 1 {
            write!(f, " units {}", self.scale)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}

/// A whole count in what the quota measures.
#[derive(Clone, Copy)]
struct Amount(u64, Measure);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Measure::Operations => self.0.fmt(f),
            Measure::Bytes => Bytes(self.0).fmt(f),
        }
    }
}

/// A rate such as `2.5/s`.
struct Decimal {
    whole: u64,
    fraction: u64,
    places: usize,
    measure: Measure,
    period: Period,
}

impl Decimal {
    /// The decimal that is read as this quota; there is one if it was read from one.
    ///
    /// Count / `under` was written for a period of which `under` make the quota's, and `under`, as the
    /// denominator of a decimal, is a product of twos and fives.
    fn of(quota: &Quota, burst: u64) -> Option<Self> {
        let fits = |under: u64| {
            quota.period_ns.is_multiple_of(under)
                && ratio::gcd(quota.count, under) == 1
                && quota.count.div_ceil(under) == burst
        };
        let longest = quota.period_ns / TimeUnit::longest_in(quota.period_ns).nanos;
        let (under, places) = [longest]
            .into_iter()
            .filter_map(|under| Some((under, places_of(under)?)))
            .chain(unders())
            .find(|&(under, _)| fits(under))?;
        Some(Self {
            whole: quota.count / under,
            // Less than one period's worth, so less than a power of ten that fits.
            fraction: quota.count % under * (10_u64.pow(places) / under),
            places: places as usize,
            measure: quota.measure,
            period: Period(quota.period_ns / under),
        })
    }
}

/// The denominators of decimals with up to 18 places, fewest places first, each with its places.
fn unders() -> impl Iterator<Item = (u64, u32)> {
    (1..=MAX_PLACES).flat_map(|places| {
        let (two, five) = (1_u64 << places, 5_u64.pow(places));
        let twos = (0..=places).map(move |exponent| two * 5_u64.pow(exponent));
        let fives = (0..places).map(move |exponent| five << exponent);
        twos.chain(fives).map(move |under| (under, places))
    })
}

/// How many places a decimal with this denominator in lowest terms has.
fn places_of(under: u64) -> Option<u32> {
    (1..=MAX_PLACES).find(|&places| 10_u64.pow(places).is_multiple_of(under))
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.measure {
            Measure::Operations => "",
            Measure::Bytes => "B",
        };
        let (whole, fraction, places) = (self.whole, self.fraction, self.places);
        write!(f, "{whole}.{fraction:0places$}{suffix}/{}", self.period)
    }
}
