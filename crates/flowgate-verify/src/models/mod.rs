//! Kinds of limiters with their numbers: how each decides, and how much of what was seen it explains.
//!
//! A model is not asked what it would have answered, but whether what was answered can be right, given all that was
//! answered before: so one wrong answer counts once, and not again in all that follow from it.

mod bucket;
mod counter;
mod fixed;
mod log;
mod pairs;
mod segments;

pub(crate) use bucket::Bucket;
pub(crate) use counter::Counter;
pub(crate) use fixed::OnRequest;
pub(crate) use log::{Bounds, Log};
pub(crate) use pairs::Pairs;
pub(crate) use segments::Segments;

use crate::evidence::Evidence;
use crate::{Alignment, Kind};

/// Times are compared to the nanosecond, in which all are given; sums of fractions may be off by less.
const GRAIN: f64 = 0.5;

/// `x.floor()` below 2⁵¹, without the call that it is for processors that have no instruction for it.
fn floor(x: f64) -> f64 {
    /// Beyond it there are no fractions.
    const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;
    let nearest = (x + WHOLE) - WHOLE;
    nearest - if nearest > x { 1.0 } else { 0.0 }
}

/// A kind with its numbers. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Model {
    Bucket(Bucket),
    /// Admits as a bucket does, and answers when the turn comes.
    Queue(Bucket),
    OnRequest(OnRequest),
    Log(Log),
    Segments(Segments),
    Counter(Counter),
}

/// Decides one request after the other, at times that do not go back.
pub(crate) type Decide = Box<dyn FnMut(f64) -> bool>;

impl Model {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Bucket(_) => Kind::TokenBucket,
            Self::Queue(_) => Kind::LeakyQueue,
            Self::OnRequest(_) => Kind::FixedWindow(Alignment::FirstRequest),
            Self::Log(_) => Kind::SlidingLog,
            Self::Segments(model) if model.count == 1 => Kind::FixedWindow(Alignment::Clock),
            Self::Segments(model) => Kind::SegmentedWindow(model.count),
            Self::Counter(_) => Kind::SlidingCounter,
        }
    }

    /// How many answers cannot be right.
    pub(crate) fn unexplained(&self, evidence: &Evidence) -> u64 {
        let wasted = self.own_wasted(evidence);
        self.over(evidence) + wasted.max(self.windows_wasted(evidence))
    }

    /// How many were admitted that should not have been.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        self.own_over(evidence).max(self.windows_over(evidence))
    }

    fn own_over(&self, evidence: &Evidence) -> u64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.over(evidence),
            Self::OnRequest(model) => model.over(evidence),
            Self::Log(model) => model.over(evidence),
            Self::Segments(model) => model.over(&model.pairs(evidence), u64::MAX),
            Self::Counter(model) => model.over(evidence, u64::MAX),
        }
    }

    /// How many were refused that should not have been.
    fn own_wasted(&self, evidence: &Evidence) -> u64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.wasted(evidence),
            Self::OnRequest(model) => model.wasted(evidence),
            Self::Log(model) => model.wasted(evidence),
            Self::Segments(model) => model.wasted(&model.pairs(evidence), u64::MAX),
            Self::Counter(model) => model.wasted(evidence, u64::MAX),
        }
    }

    /// What no window allows that keeps its limit.
    fn windows_over(&self, evidence: &Evidence) -> u64 {
        match *self {
            Self::Bucket(_) | Self::Queue(_) | Self::Log(_) => 0,
            _ => Log::new(self.burst(), self.window().unwrap_or(0.0)).surely_over(evidence),
        }
    }

    /// A window refuses if it has admitted the limit, which is then also in the last window's length; two counters, if
    /// all but one are in the last two.
    fn windows_wasted(&self, evidence: &Evidence) -> u64 {
        match *self {
            Self::Bucket(_) | Self::Queue(_) | Self::Log(_) => 0,
            Self::Counter(model) => {
                Log::new(model.limit - 1.0, 2.0 * model.window).wasted(evidence)
            }
            _ => Log::new(self.burst(), self.window().unwrap_or(0.0)).wasted(evidence),
        }
    }

    /// The limiter itself, which nobody has asked yet.
    pub(crate) fn start(&self) -> Decide {
        match *self {
            Self::Bucket(model) | Self::Queue(model) => model.start(),
            Self::OnRequest(model) => model.start(),
            Self::Log(model) => model.start(),
            Self::Segments(model) => model.start(),
            Self::Counter(model) => model.start(),
        }
    }

    /// The most at once.
    pub(crate) fn burst(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.burst,
            Self::OnRequest(model) => model.limit,
            Self::Log(model) => model.limit,
            Self::Segments(model) => model.limit,
            Self::Counter(model) => model.limit,
        }
    }

    /// A window's length.
    pub(crate) fn window(&self) -> Option<f64> {
        match self {
            Self::Bucket(_) | Self::Queue(_) => None,
            Self::OnRequest(model) => Some(model.window),
            Self::Log(model) => Some(model.window),
            Self::Segments(model) => Some(model.window),
            Self::Counter(model) => Some(model.window),
        }
    }

    /// Per second.
    pub(crate) fn rate(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => 1e9 / model.interval,
            _ => self.burst() * 1e9 / self.window().unwrap_or(f64::INFINITY),
        }
    }

    /// After how long everything is forgotten.
    pub(crate) fn memory(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.burst * model.interval,
            Self::Counter(model) => 2.0 * model.window,
            _ => self.window().unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests;
