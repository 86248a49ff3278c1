//! Whether two runs differ, by more than chance.
//!
//! Response times that follow each other are similar, because they wait in the same queue. So single requests are no
//! independent samples, but blocks of time nearly are. The *block bootstrap* draws blocks with replacement, one for each
//! block, and looks at how the number of interest varies (Künsch, 1989; here with blocks that do not overlap: Carlstein,
//! 1986).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::detail::TimeBlock;
use crate::find::Measured;
use crate::report::Report;
use crate::spread::percentile_name;

/// Number of draws.
const DRAWS: usize = 1_000;
/// Minimum number of blocks.
const LEAST_BLOCKS: usize = 8;

/// A number of a report that can be compared with that of another.
///
/// # Examples
///
/// ```
/// use flowgate_load::Compared;
///
/// assert_eq!(Compared::Quantile(0.99).to_string(), "p99");
/// assert_eq!(Compared::Errors.to_string(), "errors");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Compared {
    /// A quantile of the response time, as a share from 0 to 1. Its unit is a nanosecond.
    Quantile(f64),
    /// The mean response time. Its unit is a nanosecond.
    Mean,
    /// The share of requests that failed.
    Errors,
    /// The share of responses with 429 or 503.
    Limited,
    /// Requests sent per second.
    Rate,
}

/// Difference of a number between two runs. All intervals contain the truth at 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The compared number.
    pub what: Compared,
    /// Its value in the first run.
    pub baseline: Measured,
    /// Its value in the second run.
    pub now: Measured,
    /// The second value − the first.
    pub change: Measured,
    /// The change as a share of the first value; `None` if that is 0.
    pub relative: Option<Measured>,
}

impl Difference {
    /// Returns whether the interval of the change excludes 0.
    ///
    /// # Examples
    ///
    /// See [`compare`].
    pub fn is_certain(&self) -> bool {
        self.change.low > 0.0 || self.change.high < 0.0
    }
}

/// Compares a number of two runs. `None` if one of them has too few blocks of time, or no responses.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Compared, Origin, Plan, Schedule, Stop, Target, compare};
///
/// let origin = Origin::start()?;
/// let schedule = Schedule::of(Quota::per_second(500), 100)?;
/// let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// let difference = compare(&report, &report, Compared::Quantile(0.5)).expect("20 blocks");
/// assert_eq!(difference.baseline.value, difference.now.value);
/// assert!(!difference.is_certain());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(baseline: &Report, now: &Report, what: Compared) -> Option<Difference> {
    let never = [baseline, now].map(|report| if_never(report, what));
    // Independent draws, and the same in each call.
    let baseline = Sample::of(baseline, what)?.drawn(1);
    let now = Sample::of(now, what)?.drawn(2);
    let both = |of: &dyn Fn(f64, f64) -> f64| {
        let draws = baseline.draws.iter().zip(&now.draws);
        Drawn {
            value: of(baseline.value, now.value),
            draws: draws.map(|(baseline, now)| of(*baseline, *now)).collect(),
            // The interval of the run with fewer blocks is the less certain one.
            stretch: baseline.stretch.max(now.stretch),
        }
    };
    let is_never_0 = baseline.value > 0.0 && baseline.draws.iter().all(|value| *value > 0.0);
    let mut difference = Difference {
        what,
        change: both(&|baseline, now| now - baseline).measured(f64::NEG_INFINITY),
        relative: is_never_0.then(|| both(&|baseline, now| now / baseline - 1.0).measured(-1.0)),
        baseline: baseline.measured(0.0),
        now: now.measured(0.0),
    };
    // Draws of nothing do not vary.
    if let (0.0, Some(most)) = (difference.baseline.value, never[0]) {
        difference.baseline.high = most;
        difference.change.low -= most;
    }
    if let (0.0, Some(most)) = (difference.now.value, never[1]) {
        difference.now.high = most;
        difference.change.high += most;
    }
    Some(difference)
}

/// Returns the largest share, at 95 %, of what did not occur in a run: three in its number of requests (*rule of three*).
fn if_never(report: &Report, what: Compared) -> Option<f64> {
    let done: u64 = report.detail.blocks.iter().map(|block| block.done).sum();
    match what {
        Compared::Errors | Compared::Limited if done > 0 => Some((3.0 / done as f64).min(1.0)),
        _ => None,
    }
}

/// The differences between two runs: quantiles, errors and the rate. `Display` writes a table.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{RunComparison, Origin, Plan, Schedule, Stop, Target};
///
/// let origin = Origin::start()?;
/// let schedule = Schedule::of(Quota::per_second(500), 100)?;
/// let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// let comparison = RunComparison::of(&report, &report);
/// assert!(comparison.differences.iter().all(|difference| !difference.is_certain()));
/// println!("{comparison}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RunComparison {
    /// One for each number that both runs have enough blocks of time for.
    pub differences: Vec<Difference>,
    /// Number of blocks of the two runs.
    pub blocks: [usize; 2],
}

impl RunComparison {
    /// Compares a run with an earlier one.
    pub fn of(baseline: &Report, now: &Report) -> RunComparison {
        let quantiles = [0.5, 0.9, 0.99, 0.999].into_iter().filter(|share| {
            baseline.response.distinguishes(*share) && now.response.distinguishes(*share)
        });
        let others = [Compared::Errors, Compared::Limited, Compared::Rate];
        let compared = quantiles.map(Compared::Quantile).chain(others);
        let differences = compared.filter_map(|what| compare(baseline, now, what));
        // A table without what never occurred.
        let occurs = |difference: &Difference| {
            difference.what != Compared::Limited
                || difference.baseline.value + difference.now.value > 0.0
        };
        RunComparison {
            differences: differences.filter(occurs).collect(),
            blocks: [baseline, now].map(|report| report.detail.blocks.len()),
        }
    }
}

impl fmt::Display for RunComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [baseline, now] = self.blocks;
        if self.differences.is_empty() {
            return writeln!(
                f,
                "not compared: the runs have {baseline} and {now} blocks of time, and need {LEAST_BLOCKS} each"
            );
        }
        writeln!(
            f,
            "{:<9} {:<32} {:<32} change   (95 % intervals: block bootstrap, {baseline} and {now} blocks of time)",
            "", "before", "now"
        )?;
        self.differences
            .iter()
            .try_for_each(|difference| writeln!(f, "{difference}"))
    }
}

/// The part of each block that a number needs.
enum Sample {
    /// The number of response times up to each of all values, by block.
    Quantile {
        share: f64,
        values: Vec<u64>,
        up_to: Vec<Vec<u64>>,
    },
    /// Two sums of each block, whose ratio is the number.
    Ratio(Vec<(f64, f64)>),
}

impl Sample {
    fn of(report: &Report, what: Compared) -> Option<Sample> {
        let blocks = &report.detail.blocks[..];
        let ratio = |of: &dyn Fn(&TimeBlock) -> (f64, f64)| {
            let sums: Vec<_> = blocks.iter().map(of).collect();
            let is_enough = sums.iter().filter(|sums| sums.1 > 0.0).count() >= LEAST_BLOCKS;
            is_enough.then_some(Sample::Ratio(sums))
        };
        match what {
            Compared::Quantile(share) => Sample::quantile(blocks, share),
            Compared::Mean => ratio(&|block| {
                let sum = |(ns, count): &(u64, u64)| *ns as f64 * *count as f64;
                let counts = block.response.counts();
                (counts.iter().map(sum).sum(), block.response.len() as f64)
            }),
            Compared::Errors => ratio(&|block| (block.failed as f64, block.done as f64)),
            Compared::Limited => ratio(&|block| (block.limited as f64, block.done as f64)),
            Compared::Rate => {
                let width = report.detail.block.as_secs_f64();
                // The last block with a request is not complete.
                let last = blocks.iter().rposition(|block| block.sent > 0)?;
                let sums: Vec<_> = blocks[..last]
                    .iter()
                    .map(|block| (block.sent as f64, width))
                    .collect();
                (sums.len() >= LEAST_BLOCKS).then_some(Sample::Ratio(sums))
            }
        }
    }

    fn quantile(blocks: &[TimeBlock], share: f64) -> Option<Sample> {
        let filled: Vec<_> = blocks
            .iter()
            .filter(|block| !block.response.is_empty())
            .collect();
        if filled.len() < LEAST_BLOCKS {
            return None;
        }
        let mut values = BTreeMap::new();
        for block in &filled {
            values.extend(block.response.counts().iter().map(|(ns, _)| (*ns, ())));
        }
        let values: Vec<u64> = values.into_keys().collect();
        let up_to = |block: &&TimeBlock| {
            let mut counts = block.response.counts().iter().peekable();
            let mut sum = 0;
            let up_to = values.iter().map(|value| {
                while let Some((_, count)) = counts.next_if(|(ns, _)| ns <= value) {
                    sum += count;
                }
                sum
            });
            up_to.collect()
        };
        let up_to = filled.iter().map(up_to).collect();
        Some(Sample::Quantile {
            share,
            values,
            up_to,
        })
    }

    fn blocks(&self) -> usize {
        match self {
            Sample::Quantile { up_to, .. } => up_to.len(),
            Sample::Ratio(sums) => sums.len(),
        }
    }

    /// Returns the number if each block occurs as often as `times` has it.
    fn value(&self, times: &[u32]) -> f64 {
        match self {
            Sample::Quantile {
                share,
                values,
                up_to,
            } => {
                let count = |index: usize| -> u64 {
                    let each = up_to.iter().zip(times);
                    each.map(|(up_to, times)| up_to[index] * u64::from(*times))
                        .sum()
                };
                let last = values.len() - 1;
                let wanted = (share * count(last) as f64).ceil().max(1.0);
                let (mut low, mut high) = (0, last);
                while low < high {
                    let middle = low + (high - low) / 2;
                    match (count(middle) as f64) < wanted {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                values[low] as f64
            }
            Sample::Ratio(sums) => {
                let sum = |of: &dyn Fn(&(f64, f64)) -> f64| -> f64 {
                    sums.iter()
                        .zip(times)
                        .map(|(sums, times)| of(sums) * f64::from(*times))
                        .sum()
                };
                let whole = sum(&|sums| sums.1);
                match whole > 0.0 {
                    true => sum(&|sums| sums.0) / whole,
                    false => 0.0,
                }
            }
        }
    }

    /// Draws the blocks with replacement.
    fn drawn(&self, seed: u64) -> Drawn {
        let blocks = self.blocks();
        let mut random = fastrand::Rng::with_seed(seed);
        let draw = |_| {
            let mut times = vec![0; blocks];
            for _ in 0..blocks {
                times[random.usize(..blocks)] += 1;
            }
            self.value(&times)
        };
        let draws: Vec<f64> = (0..DRAWS).map(draw).collect();
        let freedom = blocks as f64 - 1.0;
        // The draws vary less than the truth, and a few blocks estimate how much only roughly: Student's t at 95 %.
        let stretch = (blocks as f64 / freedom).sqrt() * (1.96 + 2.7 / freedom) / 1.96;
        Drawn {
            value: self.value(&vec![1; blocks]),
            draws,
            stretch,
        }
    }
}

/// A number, and its values in all draws.
struct Drawn {
    value: f64,
    draws: Vec<f64>,
    /// How much wider the interval is than that of the draws.
    stretch: f64,
}

impl Drawn {
    /// Returns the number with its interval, which does not go below `least`.
    fn measured(&self, least: f64) -> Measured {
        let mut draws = self.draws.clone();
        draws.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (share * draws.len() as f64) as usize;
            let drawn = draws[index.min(draws.len() - 1)];
            (self.value + (drawn - self.value) * self.stretch).max(least)
        };
        Measured {
            value: self.value,
            low: at(0.025).min(self.value),
            high: at(0.975).max(self.value),
        }
    }
}

impl Compared {
    /// Formats a value in its unit.
    pub fn in_words(self, value: f64) -> String {
        match self {
            Compared::Quantile(_) | Compared::Mean => {
                let time = Duration::from_nanos(value.abs() as u64);
                let sign = if value < 0.0 { "-" } else { "" };
                format!("{sign}{}", flowgate_chart::duration(time))
            }
            Compared::Errors | Compared::Limited => {
                format!("{} %", flowgate_chart::significant(value * 100.0, 3))
            }
            Compared::Rate => format!("{}/s", flowgate_chart::significant(value, 5)),
        }
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compared::Quantile(share) => f.write_str(&percentile_name(*share)),
            Compared::Mean => f.write_str("mean"),
            Compared::Errors => f.write_str("errors"),
            Compared::Limited => f.write_str("limited"),
            Compared::Rate => f.write_str("rate"),
        }
    }
}

impl fmt::Display for Difference {
    /// Writes one line: both values with their intervals, the change, and whether it is certain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |value| self.what.in_words(value);
        let with_interval = |of: Measured| {
            format!(
                "{} ({} to {})",
                words(of.value),
                words(of.low),
                words(of.high)
            )
        };
        let change = match self.relative {
            Some(Measured { value, low, high }) => {
                let percent = |share: f64| {
                    let sign = if share > 0.0 { "+" } else { "" };
                    format!("{sign}{} %", flowgate_chart::significant(share * 100.0, 2))
                };
                format!("{} ({} to {})", percent(value), percent(low), percent(high))
            }
            None => with_interval(self.change),
        };
        let judgment = match self.is_certain() {
            true => "differs",
            false => "no difference shown",
        };
        write!(
            f,
            "{:<9} {:<32} {:<32} {change:<30} {judgment}",
            self.what.to_string(),
            with_interval(self.baseline),
            with_interval(self.now)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::Histogram;

    /// Times in an M/M/1 queue, `requests` at 1,000/s, as blocks.
    fn blocks(seed: u64, requests: u64, service_ns: f64) -> Vec<TimeBlock> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut exponential = |mean: f64| -(1.0 - random.f64()).ln() * mean;
        // 25 blocks, as a run of known length has.
        let width = requests as f64 * 1e6 / 25.0;
        let mut blocks = vec![BTreeMap::new(); 25];
        // The queue is in its steady state from the beginning.
        let (mut now, mut free) = (0.0, exponential(service_ns / (1.0 - service_ns / 1e6)));
        for _ in 0..requests {
            now += exponential(1e6);
            free = now.max(free) + exponential(service_ns);
            let index = ((free / width) as usize).min(24);
            // Three digits, as in a report.
            let response_ns = (free - now) as u64 / 1_000 * 1_000;
            *blocks[index].entry(response_ns).or_insert(0) += 1;
        }
        let block = |counts: BTreeMap<u64, u64>| TimeBlock {
            response: Histogram::from_counts(counts.into_iter().collect()),
            ..TimeBlock::default()
        };
        blocks.into_iter().map(block).collect()
    }

    /// The response time in an M/M/1 queue is exponential, so its quantiles are known.
    #[test]
    fn the_interval_of_a_quantile_has_the_truth_in_nine_of_ten_runs() {
        let (runs, service_ns) = (100, 600_000.0);
        let mean = service_ns / (1.0 - service_ns / 1e6);
        let mut hits = [0; 2];
        for seed in 0..runs {
            let blocks = blocks(seed, 20_000, service_ns);
            for (share, hits) in [0.5_f64, 0.99].into_iter().zip(&mut hits) {
                let truth = -(1.0 - share).ln() * mean;
                let sample = Sample::quantile(&blocks, share).expect("enough blocks");
                let interval = sample.drawn(1).measured(0.0);
                *hits += u64::from((interval.low..=interval.high).contains(&truth));
            }
        }
        assert!(
            hits.iter().all(|hits| *hits >= 90),
            "{hits:?} of {runs} intervals have it"
        );
    }

    /// Single requests are no independent samples: their interval would have the truth far more rarely.
    #[test]
    fn equal_services_rarely_differ_and_a_slower_one_does() {
        let sample = |seed, service_ns| {
            let blocks = blocks(seed, 10_000, service_ns);
            Sample::quantile(&blocks, 0.9).expect("enough blocks")
        };
        let differs = |one: Sample, other: Sample| {
            let (one, other) = (one.drawn(1), other.drawn(2));
            let change = Drawn {
                value: other.value - one.value,
                draws: one
                    .draws
                    .iter()
                    .zip(&other.draws)
                    .map(|(one, other)| other - one)
                    .collect(),
                stretch: one.stretch,
            };
            let change = change.measured(f64::NEG_INFINITY);
            change.low > 0.0 || change.high < 0.0
        };
        let pairs = 40;
        let equal =
            (0..pairs).filter(|&seed| differs(sample(seed, 5e5), sample(seed + 1_000, 5e5)));
        let equal = equal.count();
        assert!(equal <= 5, "{equal} of {pairs} equal pairs differ");
        let slower =
            (0..pairs).filter(|&seed| differs(sample(seed, 5e5), sample(seed + 1_000, 6e5)));
        let slower = slower.count();
        assert!(slower >= 36, "{slower} of {pairs} slower ones are noticed");
    }

    #[test]
    fn no_error_is_not_proof_of_none() {
        let report = |done| {
            let json = include_str!("../tests/it/pinned/report.json");
            let mut report = Report::from_json(json).expect("a report");
            let block = TimeBlock {
                sent: done,
                done,
                ..TimeBlock::default()
            };
            report.detail.blocks = vec![block; 10];
            report
        };
        let difference = compare(&report(100), &report(30), Compared::Errors).expect("enough");
        assert_eq!(
            (difference.baseline.high, difference.now.high),
            (0.003, 0.01)
        );
        assert_eq!(
            (difference.change.low, difference.change.high),
            (-0.003, 0.01)
        );
        assert!(!difference.is_certain());
    }

    #[test]
    fn few_blocks_are_no_basis() {
        let blocks = blocks(1, 10_000, 5e5);
        assert!(Sample::quantile(&blocks[..LEAST_BLOCKS - 1], 0.5).is_none());
        assert!(Sample::quantile(&blocks[..LEAST_BLOCKS], 0.5).is_some());
    }
}
