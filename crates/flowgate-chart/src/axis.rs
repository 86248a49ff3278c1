//! From values to places, and where the ticks are.

use crate::number::Unit;

/// An axis of a chart: a range of values, with its ticks.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) unit: Unit,
    pub(crate) ticks: Vec<Tick>,
    low: f64,
    high: f64,
    is_log: bool,
    /// Whether the values are lines with a name, and not numbers.
    pub(crate) is_named: bool,
}

/// A grid line and its label.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// How many ticks an axis has, about.
const TICKS: f64 = 5.0;
/// Durations that are further apart than this ratio are shown on a log axis.
const WIDE: f64 = 30.0;
/// The widest range of a log axis, as a ratio: what is lower lies at its edge.
const WIDEST: f64 = 1e9;

impl Axis {
    /// Creates an axis from zero to 8 % above the highest of `values`.
    pub fn from_zero(unit: Unit, values: impl IntoIterator<Item = f64>) -> Axis {
        let highest = usable(values.into_iter().fold(0.0, f64::max)).unwrap_or(1.0);
        let step = round_up(highest / TICKS);
        let high = (highest * 1.08).max(step);
        Axis {
            unit,
            ticks: every(unit, step, high),
            low: 0.0,
            high,
            is_log: false,
            is_named: false,
        }
    }

    /// Creates an axis for durations in nanoseconds.
    ///
    /// The axis is logarithmic if the durations differ by more than 30 times, and begins at zero otherwise.
    pub fn durations(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let positive = values.clone().filter_map(usable);
        let lowest = positive.clone().fold(f64::INFINITY, f64::min);
        let highest = positive.fold(0.0, f64::max);
        match highest > lowest * WIDE {
            true => Axis::log(Unit::Nanos, lowest, highest * 1.05),
            false if highest == 0.0 => Axis::from_zero(Unit::Nanos, [1e6]),
            // A duration has whole nanoseconds: ticks closer than that would lie.
            false => Axis::from_zero(Unit::Nanos, values.chain([TICKS])),
        }
    }

    /// Creates a logarithmic axis.
    ///
    /// Both ends are 1, 2 or 5 times a power of ten.
    pub fn log(unit: Unit, lowest: f64, highest: f64) -> Axis {
        let high = round_up(usable(highest).unwrap_or(1.0));
        let low = round_down(
            usable(lowest)
                .filter(|low| *low < high)
                .unwrap_or(high / 10.0),
        );
        let low = low.max(high / WIDEST);
        let decades = (high / low).log10();
        let digits: &[f64] = if decades > 2.5 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let values =
            powers.flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
        let ticks = values
            .filter(|at| (low * 0.999..=high * 1.001).contains(at))
            .map(|at| Tick {
                at,
                label: unit.tick(at),
            })
            .collect();
        Axis {
            unit,
            ticks,
            low,
            high,
            is_log: true,
            is_named: false,
        }
    }

    /// Creates an axis for the time since the start, from 0 to `end` seconds.
    pub fn time(end: f64) -> Axis {
        const STEPS: [f64; 14] = [
            1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0,
            7_200.0,
        ];
        let end = usable(end).unwrap_or(1.0);
        let rough = end / (TICKS + 3.0);
        let step = match STEPS.into_iter().find(|step| *step >= rough) {
            Some(step) if rough >= 0.5 => step,
            Some(_) => round_up(rough),
            None => 3_600.0 * round_up(rough / 3_600.0),
        };
        let mut ticks = every(Unit::Seconds, step, end);
        let (size, unit) = match step {
            step if step % 3_600.0 == 0.0 => (3_600.0, "h"),
            step if step % 60.0 == 0.0 => (60.0, "min"),
            _ => (1.0, ""),
        };
        if size > 1.0 {
            for tick in ticks.iter_mut().skip(1) {
                tick.label = format!("{} {unit}", tick.at / size);
            }
        }
        Axis {
            unit: Unit::Seconds,
            ticks,
            low: 0.0,
            high: end,
            is_log: false,
            is_named: false,
        }
    }

    /// Creates an axis for percentiles of `samples` samples.
    ///
    /// Its values are 1/(1 − share), so 90 %, 99 % and 99.9 % have the same distance. The largest sample is at the end.
    pub fn shares(samples: u64) -> Axis {
        let high = (samples as f64).max(10.0);
        let mut ticks = vec![
            Tick {
                at: 1.0,
                label: "0 %".to_owned(),
            },
            Tick {
                at: 2.0,
                label: "50 %".to_owned(),
            },
        ];
        let mut at = 10.0;
        while at < high * 0.999 {
            ticks.push(Tick {
                at,
                label: share(1.0 - 1.0 / at),
            });
            at *= 10.0;
        }
        ticks.push(Tick {
            at: high,
            label: "max".to_owned(),
        });
        Axis {
            unit: Unit::Count,
            ticks,
            low: 1.0,
            high,
            is_log: true,
            is_named: false,
        }
    }

    /// Creates a vertical axis with one line for each name, from the top. The first line is at 0, the next one at 1.
    ///
    /// ```
    /// use flowgate_chart::{Axis, Chart, Layer, Look, Point, Unit};
    ///
    /// // A dot at 9, and how far the values spread.
    /// let first = vec![Point::new(8.0, 0.0), Point::new(9.0, 0.0).text("9 ns"), Point::new(12.0, 0.0)];
    /// let second = vec![Point::new(20.0, 1.0), Point::new(21.0, 1.0).text("21 ns"), Point::new(25.0, 1.0)];
    /// let x = Axis::log(Unit::Nanos, 8.0, 25.0);
    /// let chart = Chart::new("clocks", "One reading", x, Axis::names(["counter", "system clock"]))
    ///     .layer(Layer::dots("time", Look::BLUE, [first, second]));
    /// assert!(chart.to_string().contains("system clock"));
    /// ```
    pub fn names<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Axis {
        let ticks: Vec<Tick> = (0..)
            .map(f64::from)
            .zip(names)
            .map(|(at, name)| Tick {
                at,
                label: name.into(),
            })
            .collect();
        Axis {
            unit: Unit::Count,
            low: ticks.len().max(1) as f64 - 0.5,
            high: -0.5,
            ticks,
            is_log: false,
            is_named: true,
        }
    }

    /// Returns the place of a value on the axis, from 0 to 1. Values outside of the range are at the nearer end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| {
            if self.is_log {
                value.max(f64::MIN_POSITIVE).ln()
            } else {
                value
            }
        };
        let (low, high) = (scaled(self.low), scaled(self.high));
        let place = (scaled(value) - low) / (high - low);
        if place.is_nan() {
            0.0
        } else {
            place.clamp(0.0, 1.0)
        }
    }

    /// Returns `parts` + 1 values at equal distances, from end to end of the axis.
    pub fn sampled(&self, parts: u32) -> impl Iterator<Item = f64> {
        (0..=parts).map(move |part| {
            let place = f64::from(part) / f64::from(parts);
            match self.is_log {
                true => self.low * (self.high / self.low).powf(place),
                false => self.low + (self.high - self.low) * place,
            }
        })
    }
}

/// Values for which arithmetic stays far from where it ends.
fn usable(value: f64) -> Option<f64> {
    (1e-12..1e30).contains(&value).then_some(value)
}

/// Multiples of a step, from zero.
fn every(unit: Unit, step: f64, high: f64) -> Vec<Tick> {
    let values = (0..).map(|index| f64::from(index) * step);
    let values = values.take_while(|at| *at <= high * 1.0001);
    values
        .map(|at| Tick {
            at,
            label: unit.tick(at),
        })
        .collect()
}

/// Formats a share as a percentage: `99.9 %`.
pub fn share(share: f64) -> String {
    let share = if share.is_finite() { share } else { 0.0 };
    let percent = format!("{:.7}", share * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powi(value.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
    steps
        .into_iter()
        .find(|step| *step >= value * 0.999_999)
        .unwrap_or(10.0 * power)
}

/// The last of 1, 2 and 5 times a power of ten.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powi(value.log10().floor() as i32);
    let steps = [5.0, 2.0, 1.0].map(|digit| digit * power);
    steps
        .into_iter()
        .find(|step| *step <= value * 1.000_001)
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        let axis = Axis::from_zero(Unit::Rate, [1_000.0, 700.0]);
        assert_eq!(labels(&axis), ["0", "200", "400", "600", "800", "1k"]);
        let axis = Axis::durations([3e6, 1.4e6].into_iter());
        assert_eq!(labels(&axis), ["0", "1 ms", "2 ms", "3 ms"]);
        let axis = Axis::durations([120e3, 2e9].into_iter());
        assert_eq!(labels(&axis), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(
            labels(&Axis::time(60.0)),
            ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]
        );
        assert_eq!(
            labels(&Axis::time(0.35)),
            [
                "0", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms", "300 ms", "350 ms"
            ]
        );
        assert_eq!(
            labels(&Axis::time(600.0)),
            ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]
        );
        assert_eq!(
            labels(&Axis::shares(5_000)),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %", "max"]
        );
    }

    #[test]
    fn every_place_is_on_the_chart() {
        let odd = [
            0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN_POSITIVE,
            1.0,
        ];
        let axes = |value: f64| {
            [
                Axis::from_zero(Unit::Count, [value]),
                Axis::durations([value, 1.0].into_iter()),
                Axis::log(Unit::Count, value, value),
                Axis::log(Unit::Count, 1.0, value),
                Axis::time(value),
                Axis::shares(value as u64),
            ]
        };
        for axis in odd.into_iter().flat_map(axes) {
            for value in odd {
                let place = axis.place(value);
                assert!((0.0..=1.0).contains(&place), "{place} of {value}");
            }
            assert!(axis.ticks.len() < 40, "{}", axis.ticks.len());
            assert!(axis.sampled(4).all(f64::is_finite));
        }
    }

    #[test]
    fn names_are_lines_from_the_top() {
        let axis = Axis::names(["a", "b", "c", "d"]);
        assert_eq!(labels(&axis), ["a", "b", "c", "d"]);
        // The place of the top is 1.
        assert_eq!(
            [0.0, 1.0, 3.0].map(|line| axis.place(line)),
            [0.875, 0.625, 0.125]
        );
        assert!(Axis::names([""; 0]).place(0.0).is_finite());
    }

    #[test]
    fn a_log_axis_gives_each_decade_as_much() {
        let axis = Axis::log(Unit::Nanos, 1e3, 1e6);
        assert_eq!(
            [1e3, 1e4, 1e6, 0.0].map(|value| (axis.place(value) * 300.0).round()),
            [0.0, 100.0, 300.0, 0.0]
        );
    }
}
