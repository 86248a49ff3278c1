//! Algorithms with parameters: how each decides, and how many responses are consistent with it.
//!
//! A model is not compared with what it would have decided itself. The question is whether each decision can be right,
//! given all earlier ones. So a wrong decision counts once, and does not make later ones wrong.

mod blocks;
mod bucket;
mod counter;
mod counting;
mod delays;
mod fixed;
mod log;
mod pairs;
mod periods;
mod segments;
mod two_limits;
mod window_pair;

pub(crate) use blocks::{Block, Since, blocks};
pub(crate) use bucket::Bucket;
pub(crate) use counter::Counter;
pub(crate) use counting::Counting;
pub(crate) use delays::{Delayed, Delays};
pub(crate) use fixed::OnRequest;
pub(crate) use log::{Bounds, Log};
pub(crate) use pairs::{Pairs, PairsByLength};
pub(crate) use periods::Periods;
pub(crate) use segments::Segments;
pub(crate) use two_limits::{TwoLimits, left_by};
pub(crate) use window_pair::{Decided, Together, WindowPair, decided};

use crate::evidence::Evidence;
use crate::{Alignment, DetectedKind};

/// Times are compared to the nanosecond; sums of fractions may be off by less.
const GRAIN: f64 = 0.5;

/// Returns `x.floor()` for values below 2⁵¹, without the call that it costs on CPUs without such an instruction.
fn floor(x: f64) -> f64 {
    /// Beyond this value there are no fractions.
    const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;
    let nearest = (x + WHOLE) - WHOLE;
    nearest - if nearest > x { 1.0 } else { 0.0 }
}

/// An algorithm with its parameters. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Model {
    Bucket(Bucket),
    /// Admits as a bucket does, and responds at the time of the grant.
    Queue(Bucket),
    OnRequest(OnRequest),
    Log(Log),
    Segments(Segments),
    Counter(Counter),
    /// Two counters whose periods follow the requests.
    Periods(Periods),
}

/// Decides one request after the other, at times that do not go back.
pub(crate) type Decide = Box<dyn FnMut(f64) -> bool>;

impl Model {
    pub(crate) fn kind(&self) -> DetectedKind {
        match self {
            Self::Bucket(_) => DetectedKind::TokenBucket,
            Self::Queue(_) => DetectedKind::LeakyQueue,
            Self::OnRequest(_) => DetectedKind::FixedWindow(Alignment::FirstRequest),
            Self::Log(_) => DetectedKind::SlidingLog,
            Self::Segments(model) if model.count == 1 => {
                DetectedKind::FixedWindow(Alignment::Clock)
            }
            Self::Segments(model) => DetectedKind::SegmentedWindow(model.count),
            Self::Counter(_) => DetectedKind::SlidingCounter,
            Self::Periods(model) if model.counts_refused => DetectedKind::CounterCountsRefused,
            Self::Periods(_) => DetectedKind::SlidingCounter,
        }
    }

    /// Counts the responses that cannot be right.
    pub(crate) fn unexplained(&self, evidence: &Evidence) -> u64 {
        let wasted = self.own_wasted(evidence);
        self.over(evidence) + wasted.max(self.windows_wasted(evidence))
    }

    /// Counts the admissions that should have been refused.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        self.own_over(evidence).max(self.windows_over(evidence))
    }

    fn own_over(&self, evidence: &Evidence) -> u64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.over(evidence),
            Self::OnRequest(model) => model.over(evidence),
            Self::Log(model) => model.over(evidence),
            Self::Segments(model) => model.over(evidence),
            Self::Counter(model) => model.over(evidence, u64::MAX),
            Self::Periods(model) => model.over(evidence),
        }
    }

    /// Counts the refusals that should have been admitted.
    fn own_wasted(&self, evidence: &Evidence) -> u64 {
        let mut wasted = 0;
        self.judge_own_refusals(evidence, |is_right| wasted += u64::from(!is_right));
        wasted
    }

    fn judge_own_refusals(&self, evidence: &Evidence, mut each: impl FnMut(bool)) {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.judge_refusals(evidence, each),
            Self::OnRequest(model) => model.judge_refusals(evidence, each),
            Self::Log(model) => model.judge_refusals(evidence, each),
            Self::Segments(model) => model.judge_refusals(evidence, each),
            Self::Counter(model) => model.judge_refusals(evidence, |is_right| {
                each(is_right);
                true
            }),
            Self::Periods(model) => model.judge_refusals(evidence, each),
        }
    }

    /// Returns for each refusal, in order of their ends, whether it can be right.
    pub(crate) fn explained_refusals(&self, evidence: &Evidence) -> Vec<bool> {
        let mut explained = Vec::with_capacity(evidence.refused.len());
        self.judge_own_refusals(evidence, |is_right| explained.push(is_right));
        if let Some(log) = self.windows_that_refuse() {
            let mut of_log = Vec::with_capacity(explained.len());
            log.judge_refusals(evidence, |is_right| of_log.push(is_right));
            for (own, of_log) in explained.iter_mut().zip(of_log) {
                *own &= of_log;
            }
        }
        explained
    }

    /// Counts the admissions that no window with this limit allows.
    fn windows_over(&self, evidence: &Evidence) -> u64 {
        match *self {
            Self::Bucket(_) | Self::Queue(_) | Self::Log(_) => 0,
            _ => Log::new(self.burst(), self.window().unwrap_or(0.0)).surely_over(evidence),
        }
    }

    /// Counts the refusals that no window allows.
    fn windows_wasted(&self, evidence: &Evidence) -> u64 {
        let mut wasted = 0;
        if let Some(log) = self.windows_that_refuse() {
            log.judge_refusals(evidence, |is_right| wasted += u64::from(!is_right));
        }
        wasted
    }

    /// Returns what must be full if a window refuses: the last window length holds the limit; with two counters, the
    /// last two hold all but one.
    fn windows_that_refuse(&self) -> Option<Log> {
        match *self {
            Self::Bucket(_) | Self::Queue(_) | Self::Log(_) => None,
            Self::Counter(model) => Some(Log::new(model.limit - 1.0, 2.0 * model.window)),
            Self::Periods(model) if model.counts_refused => None,
            Self::Periods(model) => Some(Log::new(model.limit - 1.0, 2.0 * model.period)),
            _ => Some(Log::new(self.burst(), self.window().unwrap_or(0.0))),
        }
    }

    /// Returns a fresh limiter of this kind.
    pub(crate) fn start(&self) -> Decide {
        match *self {
            Self::Bucket(model) | Self::Queue(model) => model.start(),
            Self::OnRequest(model) => model.start(),
            Self::Log(model) => model.start(),
            Self::Segments(model) => model.start(),
            Self::Counter(model) => model.start(),
            Self::Periods(model) => model.start(),
        }
    }

    /// Returns the burst.
    pub(crate) fn burst(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.burst,
            Self::OnRequest(model) => model.limit,
            Self::Log(model) => model.limit,
            Self::Segments(model) => model.limit,
            Self::Counter(model) => model.limit,
            Self::Periods(model) => model.limit,
        }
    }

    /// Returns the length of the window.
    pub(crate) fn window(&self) -> Option<f64> {
        match self {
            Self::Bucket(_) | Self::Queue(_) => None,
            Self::OnRequest(model) => Some(model.window),
            Self::Log(model) => Some(model.window),
            Self::Segments(model) => Some(model.window),
            Self::Counter(model) => Some(model.window),
            Self::Periods(model) => Some(model.period),
        }
    }

    /// Returns the rate per second.
    pub(crate) fn rate(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => 1e9 / model.interval,
            _ => self.burst() * 1e9 / self.window().unwrap_or(f64::INFINITY),
        }
    }

    /// Returns the time after which everything is forgotten.
    pub(crate) fn memory(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.burst * model.interval,
            Self::Counter(model) => 2.0 * model.window,
            Self::Periods(model) => 2.0 * model.period,
            _ => self.window().unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests;
