//! A quota as text. The form is documented at [`Quota`]; [`parse`](super::parse) reads it.

use core::fmt;

use super::unit::{Bytes, Period, TimeUnit};
use super::{Measure, Quota, ratio};

/// The canonical [text form](Quota#text): without a burst where it goes without saying, the period
/// in the longest unit that divides it, bytes with the largest suffix that leaves them whole.
///
/// ```
/// # use flowgate::Quota;
/// assert_eq!(Quota::per_minute(90).burst(90).to_string(), "90/min");
/// assert_eq!(Quota::per_minute(90).burst(1).to_string(), "90/min burst 1");
/// assert_eq!("2_500/1000ms".parse::<Quota>()?.to_string(), "2500/s");
/// assert_eq!("0.1/s".parse::<Quota>()?.to_string(), "1/10s");
/// assert_eq!("2.5/s".parse::<Quota>()?.to_string(), "2.5/s");
/// assert_eq!("1.5GB/s".parse::<Quota>()?.to_string(), "1500MB/s");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A decimal changes the burst that goes without saying, and can so save writing it.
        let decimal = if self.burst == self.count {
            None
        } else {
            Decimal::of(self)
        };
        match decimal {
            Some(decimal) => decimal.fmt(f)?,
            None => {
                write!(
                    f,
                    "{}/{}",
                    Amount(self.count, self.measure),
                    Period(self.period_ns)
                )?;
                if self.burst != self.count {
                    write!(f, " burst {}", Amount(self.burst, self.measure))?;
                }
            }
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
struct Amount(u64, Measure);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Measure::Operations => self.0.fmt(f),
            Measure::Bytes => Bytes(self.0).fmt(f),
        }
    }
}

/// The most digits printed after the point.
const MAX_PLACES: u32 = 9;

/// A rate such as `2.5/s`, whose default burst is the quota's.
struct Decimal {
    whole: u64,
    fraction: u64,
    places: usize,
    measure: Measure,
    unit: &'static TimeUnit,
}

impl Decimal {
    /// `None` if there is no such form, or it would be parsed to something else.
    fn of(quota: &Quota) -> Option<Self> {
        let unit = TimeUnit::longest_in(quota.period_ns);
        // The parser shortens count/periods, so only a form that is already short comes back the
        // same.
        let periods = quota.period_ns / unit.nanos;
        if ratio::gcd(quota.count, periods) != 1 || quota.burst != quota.count.div_ceil(periods) {
            return None;
        }
        let (places, ten) = (1..=MAX_PLACES)
            .map(|places| (places, 10_u64.pow(places)))
            .find(|(_, ten)| ten.is_multiple_of(periods))?;
        Some(Self {
            whole: quota.count / periods,
            // Less than one period's worth, so less than `ten`.
            fraction: quota.count % periods * (ten / periods),
            places: places as usize,
            measure: quota.measure,
            unit,
        })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.measure {
            Measure::Operations => "",
            Measure::Bytes => "B",
        };
        let (whole, fraction, places) = (self.whole, self.fraction, self.places);
        write!(
            f,
            "{whole}.{fraction:0places$}{suffix}/{}",
            self.unit.alone()
        )
    }
}
