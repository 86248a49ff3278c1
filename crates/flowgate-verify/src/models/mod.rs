//! Kinds of limiters with their numbers: how each decides, and how much of what was seen it explains.
//!
//! A model is not asked what it would have answered, but whether what was answered can be right, given all that was
//! answered before: so one wrong answer counts once, and not again in all that follow from it.

mod bucket;
mod counter;
mod fixed;
mod log;

pub(crate) use bucket::Bucket;
pub(crate) use counter::Counter;
pub(crate) use fixed::{OnClock, OnRequest};
pub(crate) use log::Log;

use crate::evidence::Evidence;
use crate::{Alignment, Kind};

/// Times are compared to the nanosecond, in which all are given; sums of fractions may be off by less.
const GRAIN: f64 = 0.5;

/// A kind with its numbers. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Model {
    Bucket(Bucket),
    /// Admits as a bucket does, and answers when the turn comes.
    Queue(Bucket),
    OnRequest(OnRequest),
    OnClock(OnClock),
    Log(Log),
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
            Self::OnClock(_) => Kind::FixedWindow(Alignment::Clock),
            Self::Log(_) => Kind::SlidingLog,
            Self::Counter(_) => Kind::SlidingCounter,
        }
    }

    /// How many answers cannot be right.
    pub(crate) fn unexplained(&self, evidence: &Evidence) -> u64 {
        self.over(evidence) + self.wasted(evidence)
    }

    /// How many were admitted that should not have been.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let (over, log) = match *self {
            Self::Bucket(model) | Self::Queue(model) => return model.over(evidence),
            Self::Log(model) => return model.over(evidence),
            Self::OnRequest(model) => (model.over(evidence), Log::new(model.limit, model.window)),
            Self::OnClock(model) => (model.over(evidence), Log::new(model.limit, model.window)),
            Self::Counter(model) => (model.over(evidence), Log::new(model.limit, model.window)),
        };
        over.max(log.surely_over(evidence))
    }

    /// How many were refused that should not have been.
    pub(crate) fn wasted(&self, evidence: &Evidence) -> u64 {
        // A window refuses if it has admitted the limit, which is then also in the last window's length; two
        // counters, if all but one are in the last two.
        let (wasted, log) = match *self {
            Self::Bucket(model) | Self::Queue(model) => return model.wasted(evidence),
            Self::Log(model) => return model.wasted(evidence),
            Self::OnRequest(model) => (model.wasted(evidence), Log::new(model.limit, model.window)),
            Self::OnClock(model) => (model.wasted(evidence), Log::new(model.limit, model.window)),
            Self::Counter(model) => {
                let log = Log::new(model.limit - 1.0, 2.0 * model.window);
                (model.wasted(evidence), log)
            }
        };
        wasted.max(log.wasted(evidence))
    }

    /// The limiter itself, which nobody has asked yet.
    pub(crate) fn start(&self) -> Decide {
        match *self {
            Self::Bucket(model) | Self::Queue(model) => model.start(),
            Self::OnRequest(model) => model.start(),
            Self::OnClock(model) => model.start(),
            Self::Log(model) => model.start(),
            Self::Counter(model) => model.start(),
        }
    }

    /// The most at once.
    pub(crate) fn burst(&self) -> f64 {
        match self {
            Self::Bucket(model) | Self::Queue(model) => model.burst,
            Self::OnRequest(model) => model.limit,
            Self::OnClock(model) => model.limit,
            Self::Log(model) => model.limit,
            Self::Counter(model) => model.limit,
        }
    }

    /// A window's length.
    pub(crate) fn window(&self) -> Option<f64> {
        match self {
            Self::Bucket(_) | Self::Queue(_) => None,
            Self::OnRequest(model) => Some(model.window),
            Self::OnClock(model) => Some(model.window),
            Self::Log(model) => Some(model.window),
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
