//! A rate that oscillates around its mean.

use std::f64::consts::PI;
use std::fmt;
use std::time::Duration;

use flowgate::Quota;

use crate::error::ScheduleError;
use crate::length::Length;
use crate::schedule::{per_ns, period_ns, whole_ns};
use crate::search::least;

/// Maximum number of requests in one period: 10⁻¹⁴ of them is a hundredth of a request.
const MAX_PER_PERIOD: u128 = 1_000_000_000_000;

/// mean + amplitude · sin(2π t / period).
///
/// ```text
///  rate       R(t) = mean · t + amplitude · period / π · sin²(π t / period)
///   ╭─╮
///  ─╯  ╲     ╭─  mean
///       ╰───╯
/// ```
///
/// Whole periods are counted in integers, as mean · period. Only the part within a period is an `f64`. Its error is far
/// below the one request that would change the order of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sine {
    mean: Quota,
    amplitude: Quota,
    /// Above zero.
    period_ns: u64,
}

impl Sine {
    pub(crate) fn new(
        mean: Quota,
        amplitude: Quota,
        period: Duration,
    ) -> Result<Sine, ScheduleError> {
        // Fractions compared by cross-multiplying: a count below 2³² and a period below 2⁶⁴.
        let cross = |a: Quota, b: Quota| u128::from(a.count()) * u128::from(period_ns(b));
        if cross(amplitude, mean) > cross(mean, amplitude) {
            return Err(ScheduleError::AmplitudeAboveMean { amplitude, mean });
        }
        if per_ns(mean) + per_ns(amplitude) > 1.0 {
            return Err(ScheduleError::SwingTooFast { amplitude, mean });
        }
        let sine = Sine {
            mean,
            amplitude,
            period_ns: whole_ns(period)?,
        };
        let per_period = sine.mean_in(sine.period_ns) / u128::from(period_ns(mean));
        if sine.period_ns == 0 {
            return Err(ScheduleError::NoPeriod);
        }
        if per_period > MAX_PER_PERIOD {
            return Err(ScheduleError::LongPeriod(per_period));
        }
        Ok(sine)
    }

    /// Returns the requests by this time, rounded down; exact after whole periods.
    pub(crate) fn count_in(&self, time_ns: u64) -> u64 {
        let rest_ns = time_ns % self.period_ns;
        let by_mean = self.mean_in(time_ns - rest_ns);
        let mean_period = u128::from(period_ns(self.mean));
        let (whole, part) = (by_mean / mean_period, by_mean % mean_period);
        let rest = match rest_ns {
            0 => 0,
            _ => (part as f64 / mean_period as f64 + self.within(rest_ns as f64)) as u128,
        };
        u64::try_from(whole + rest).unwrap_or(u64::MAX)
    }

    pub(crate) fn scheduled_ns(&self, index: u64) -> u64 {
        let asked = u128::from(index) * u128::from(period_ns(self.mean));
        let per_period = self.mean_in(self.period_ns);
        let (periods, rest) = (asked / per_period, asked % per_period);
        let rest = rest as f64 / period_ns(self.mean) as f64;
        let within = least(self.guess_ns(rest), self.period_ns, |ns| {
            self.within(ns as f64) >= rest
        });
        let scheduled = periods * u128::from(self.period_ns) + u128::from(within);
        u64::try_from(scheduled).unwrap_or(u64::MAX)
    }

    /// Estimates when R reaches `requests` within a period, by Newton's method between bounds.
    fn guess_ns(&self, requests: f64) -> u64 {
        const ENOUGH: usize = 50;
        let (mut low, mut high) = (0.0, self.period_ns as f64);
        let mut at = requests / per_ns(self.mean);
        for _ in 0..ENOUGH {
            let missing = requests - self.within(at);
            if missing > 0.0 {
                low = at;
            } else {
                high = at;
            }
            let angle = 2.0 * PI * at / self.period_ns as f64;
            let rate = per_ns(self.mean) + per_ns(self.amplitude) * libm::sin(angle);
            let mut next = at + missing / rate;
            if !(low..=high).contains(&next) {
                next = f64::midpoint(low, high);
            }
            if (next - at).abs() < 0.5 {
                return next as u64;
            }
            at = next;
        }
        at as u64
    }

    /// Returns R(t) within a period.
    fn within(&self, ns: f64) -> f64 {
        let period = self.period_ns as f64;
        let sine = libm::sin(PI * ns / period);
        per_ns(self.mean) * ns + per_ns(self.amplitude) * period / PI * sine * sine
    }

    /// Returns the requests of the mean rate in this time, in units of 1 / period.
    fn mean_in(&self, time_ns: u64) -> u128 {
        u128::from(time_ns) * u128::from(self.mean.count())
    }

    pub(crate) fn highest_per_ns(&self) -> f64 {
        per_ns(self.mean) + per_ns(self.amplitude)
    }

    pub(crate) fn interval_ns(&self) -> u64 {
        (1.0 / self.highest_per_ns()).ceil() as u64
    }
}

impl fmt::Display for Sine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = Length(Duration::from_nanos(self.period_ns));
        write!(f, "{} ± {} every {period}", self.mean, self.amplitude)
    }
}
