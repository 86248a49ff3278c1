//! What reports need to be joined exactly, and to be compared: distributions in full, in all and by time.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock_offset::ClockOffset;
use crate::report::nanos;
use crate::spread::Durations;

/// Number of blocks of a run of known length.
const BLOCKS: u32 = 25;
/// Maximum number of blocks. Responses may arrive long after the last scheduled time.
const MAX_BLOCKS: usize = 50;
/// Shortest block, also that of a run of unknown length.
const LEAST_NS: u64 = 10_000_000;

/// Distributions of a run in full, so that reports can be joined and compared.
///
/// # Examples
///
/// ```
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// assert_eq!(report.detail.response.len(), 5);
/// let done: u64 = report.detail.blocks.iter().map(|block| block.done).sum();
/// assert_eq!(done, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Distribution of [`Report::lag`](crate::Report::lag).
    pub lag: Histogram,
    /// Distribution of [`Report::response`](crate::Report::response).
    pub response: Histogram,
    /// Distribution of [`Report::service`](crate::Report::service).
    pub service: Histogram,
    /// Time of the first send after the start.
    #[serde(rename = "first_sent_ns", with = "nanos")]
    pub first_sent: Duration,
    /// Time of the last send after the start.
    #[serde(rename = "last_sent_ns", with = "nanos")]
    pub last_sent: Duration,
    /// Clock of the server minus that of this machine.
    ///
    /// It follows from the `Date` of the responses. `None` without dates, and in a run that is no [slice](crate::Plan::slice).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_clock: Option<ClockOffset>,
    /// Length of a block.
    #[serde(rename = "block_ns", with = "nanos")]
    pub block: Duration,
    /// Equal parts of the time of the run, in order: about 25, at most 50.
    pub blocks: Vec<TimeBlock>,
}

/// One part of the time of a run.
///
/// # Examples
///
/// ```
/// use flowgate_load::TimeBlock;
///
/// let block = TimeBlock { done: 100, failed: 2, ..TimeBlock::default() };
/// assert_eq!(block.response.len(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeBlock {
    /// Requests sent.
    pub sent: u64,
    /// Requests that ended, with a response or a failure.
    pub done: u64,
    /// Of these, responses with 429 or 503.
    pub limited: u64,
    /// Of these, error responses and failures.
    pub failed: u64,
    /// Response times.
    pub response: Histogram,
}

/// Numbers of durations, to three significant digits.
///
/// As text and in JSON it is a list of whole nanoseconds, each with its number if that is not 1: `6000 6010*3`.
///
/// # Examples
///
/// ```
/// use flowgate_load::Histogram;
///
/// let histogram: Histogram = "6000 6010*3".parse()?;
/// assert_eq!(histogram.len(), 4);
/// assert_eq!(histogram.to_string(), "6000 6010*3");
/// assert!("6010 6000".parse::<Histogram>().is_err()); // not ascending
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Vec<(u64, u64)>);

/// Error of parsing a [`Histogram`].
///
/// # Examples
///
/// ```
/// use flowgate_load::Histogram;
///
/// let error = "6000*0".parse::<Histogram>().unwrap_err();
/// assert_eq!(error.to_string(), "\"6000*0\" is not a number of nanoseconds in ascending order");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramError(String);

impl Histogram {
    /// Returns the number of durations.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Returns whether there are no durations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each duration in nanoseconds with its number, ascending.
    pub(crate) fn counts(&self) -> &[(u64, u64)] {
        &self.0
    }

    pub(crate) fn from_counts(counts: Vec<(u64, u64)>) -> Histogram {
        Histogram(counts)
    }

    /// Adds the durations of another one.
    pub(crate) fn add(&mut self, other: &Histogram) {
        let mut both = Vec::with_capacity(self.0.len() + other.0.len());
        both.extend_from_slice(&self.0);
        both.extend_from_slice(&other.0);
        both.sort_by_key(|(ns, _)| *ns);
        self.0.clear();
        for (ns, count) in both {
            match self.0.last_mut() {
                Some(last) if last.0 == ns => last.1 = last.1.saturating_add(count),
                _ => self.0.push((ns, count)),
            }
        }
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (ns, count)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_char(' ')?;
            }
            write!(f, "{ns}")?;
            if *count != 1 {
                write!(f, "*{count}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Histogram {
    type Err = HistogramError;

    fn from_str(text: &str) -> Result<Histogram, HistogramError> {
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for word in text.split_ascii_whitespace() {
            let (ns, count) = word.split_once('*').unwrap_or((word, "1"));
            match (ns.parse(), count.parse()) {
                (Ok(ns), Ok(count))
                    if count > 0 && counts.last().is_none_or(|last| last.0 < ns) =>
                {
                    counts.push((ns, count));
                }
                _ => return Err(HistogramError(word.to_owned())),
            }
        }
        Ok(Histogram(counts))
    }
}

impl fmt::Display for HistogramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a number of nanoseconds in ascending order",
            self.0
        )
    }
}

impl std::error::Error for HistogramError {}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl TimeBlock {
    fn joined(blocks: &[TimeBlock]) -> TimeBlock {
        let mut sum = TimeBlock::default();
        blocks.iter().for_each(|block| sum.add(block));
        sum
    }

    fn add(&mut self, other: &TimeBlock) {
        self.sent += other.sent;
        self.done += other.done;
        self.limited += other.limited;
        self.failed += other.failed;
        self.response.add(&other.response);
    }
}

impl Detail {
    /// Adds that of a run with the same start. Blocks are joined until both have the same length.
    ///
    /// Returns `false` if that is not possible, because the runs were not of the same length.
    pub(crate) fn add(&mut self, mut other: Detail) -> bool {
        self.lag.add(&other.lag);
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.first_sent = self.first_sent.min(other.first_sent);
        self.last_sent = self.last_sent.max(other.last_sent);
        let width = self.block.max(other.block);
        if !(self.widen(width) && other.widen(width)) {
            return false;
        }
        self.blocks.resize(
            self.blocks.len().max(other.blocks.len()),
            TimeBlock::default(),
        );
        for (block, other) in self.blocks.iter_mut().zip(&other.blocks) {
            block.add(other);
        }
        true
    }

    /// Joins every two blocks until they have this length, if they can have it.
    fn widen(&mut self, width: Duration) -> bool {
        while self.block < width && !self.block.is_zero() {
            self.blocks = self.blocks.chunks(2).map(TimeBlock::joined).collect();
            self.block = self.block.saturating_mul(2);
        }
        self.block == width
    }

    /// Returns whether nothing was recorded, as in a report of an older version.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// Counts the blocks during a run, and the response times of the whole run.
#[derive(Debug)]
pub(crate) struct Blocks {
    width_ns: u64,
    blocks: Vec<TimeBlock>,
    /// The block that currently collects times.
    open: usize,
    response: Durations,
    /// Response times of the blocks before.
    total: Durations,
}

impl Blocks {
    /// Creates counts for a run of about `planned`.
    pub(crate) fn new(planned: Option<Duration>) -> Blocks {
        let planned = planned.unwrap_or(Duration::ZERO);
        Blocks {
            width_ns: nanos::of(planned).div_ceil(u64::from(BLOCKS)).max(LEAST_NS),
            blocks: vec![TimeBlock::default()],
            open: 0,
            response: Durations::new(),
            total: Durations::new(),
        }
    }

    /// Returns the block of `at_ns`, or the current one if it has passed.
    pub(crate) fn at(&mut self, at_ns: u64) -> &mut TimeBlock {
        if at_ns / self.width_ns > self.open as u64 {
            self.close();
            while at_ns / self.width_ns >= MAX_BLOCKS as u64 {
                self.join();
            }
            // Fits: it is below the maximum.
            self.open = (at_ns / self.width_ns) as usize;
            if self.open >= self.blocks.len() {
                self.blocks.resize(self.open + 1, TimeBlock::default());
            }
        }
        &mut self.blocks[self.open]
    }

    /// Records a response time.
    pub(crate) fn answered(&mut self, done_ns: u64, response_ns: u64) {
        self.at(done_ns);
        self.response.record_ns(response_ns);
    }

    /// Joins every two blocks into one.
    fn join(&mut self) {
        self.blocks = self.blocks.chunks(2).map(TimeBlock::joined).collect();
        self.width_ns *= 2;
    }

    fn close(&mut self) {
        let collected = self.response.histogram();
        self.blocks[self.open].response.add(&collected);
        self.total.add(&self.response);
        self.response.reset();
    }

    /// Completes the blocks.
    pub(crate) fn end(&mut self) {
        self.close();
    }

    /// Returns the response times of the whole run, after its end.
    pub(crate) fn total(&self) -> &Durations {
        &self.total
    }

    /// Returns the length of a block, and the blocks.
    pub(crate) fn finished(&self) -> (Duration, Vec<TimeBlock>) {
        (Duration::from_nanos(self.width_ns), self.blocks.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request every millisecond, answered when it is sent.
    fn blocks(planned: Option<Duration>, millis: u64) -> Blocks {
        let mut blocks = Blocks::new(planned);
        for ms in 0..millis {
            blocks.at(ms * 1_000_000).sent += 1;
            blocks.answered(ms * 1_000_000, 1_000 + ms);
        }
        blocks
    }

    #[test]
    fn blocks_have_all_requests_whatever_the_length() {
        for (planned, millis, width_ms, len) in [
            (Some(Duration::from_secs(5)), 5_000, 200, 25),
            (Some(Duration::from_secs(5)), 9_999, 200, 50),
            (Some(Duration::from_secs(5)), 10_001, 400, 26),
            (None, 500, 10, 50),
            (None, 20_000, 640, 32),
        ] {
            let mut blocks = blocks(planned, millis);
            blocks.end();
            assert_eq!(blocks.total().len(), millis);
            let (width, blocks) = blocks.finished();
            assert_eq!(
                (width, blocks.len()),
                (Duration::from_millis(width_ms), len)
            );
            assert_eq!(blocks.iter().map(|block| block.sent).sum::<u64>(), millis);
            assert!(
                blocks[..len - 1]
                    .iter()
                    .all(|block| block.response.len() == width_ms)
            );
            assert_eq!(
                blocks.iter().map(|block| block.response.len()).sum::<u64>(),
                millis
            );
        }
    }

    #[test]
    fn a_histogram_is_read_back_and_added_exactly() {
        let mut one: Histogram = "1*2 5 900*7".parse().unwrap();
        one.add(&"0 5*3 1000".parse().unwrap());
        assert_eq!(one.to_string(), "0 1*2 5*4 900*7 1000");
        assert_eq!(one.len(), 15);
        assert_eq!("".parse::<Histogram>(), Ok(Histogram::default()));
        for wrong in [
            "x",
            "1*",
            "1*0",
            "2 2",
            "2 1",
            "-1",
            "1*2*3",
            "99999999999999999999",
        ] {
            assert!(wrong.parse::<Histogram>().is_err(), "{wrong}");
        }
    }
}
