//! The limits that are compared: fixed ones, those of flowgate, and those of other libraries.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use flowgate::{
    Adapt, AdaptiveLimit, CallOutcome, ConcurrencyLimit, OwnedAdaptivePermit, OwnedPermit,
};

use crate::others::{Call, Other};

/// A limit that refuses what it has no permit for.
#[derive(Clone)]
pub enum Limit {
    Fixed(Arc<ConcurrencyLimit>),
    Adaptive(Arc<AdaptiveLimit<Box<dyn Adapt>>>),
    Other(Rc<RefCell<OtherLimit>>),
}

/// The limit of another library, and the permits in use.
pub struct OtherLimit {
    other: Box<dyn Other>,
    in_flight: u32,
}

impl OtherLimit {
    pub fn permits(&self) -> u32 {
        self.other.limit() as u32
    }
}

/// A permit, to be finished with an outcome.
pub enum Permit {
    Fixed {
        _permit: OwnedPermit,
    },
    Adaptive(OwnedAdaptivePermit<Box<dyn Adapt>>),
    Other {
        limit: Rc<RefCell<OtherLimit>>,
        began_ns: u64,
        /// When the call began, itself included.
        in_flight: u32,
    },
}

impl Limit {
    pub fn other(other: Box<dyn Other>) -> Self {
        Self::Other(Rc::new(RefCell::new(OtherLimit {
            other,
            in_flight: 0,
        })))
    }

    /// The number of permits, with its fraction.
    pub fn permits(&self) -> f64 {
        match self {
            Self::Fixed(limit) => limit.limit() as f64,
            Self::Adaptive(limit) => limit.limit().parts() as f64 / 65_536.0,
            Self::Other(limit) => limit.borrow().other.limit(),
        }
    }

    pub fn try_acquire(&self, now_ns: u64) -> Option<Permit> {
        match self {
            Self::Fixed(limit) => {
                let _permit = limit.try_acquire_owned().ok()?;
                Some(Permit::Fixed { _permit })
            }
            Self::Adaptive(limit) => limit.try_acquire_owned().ok().map(Permit::Adaptive),
            Self::Other(shared) => {
                let mut limit = shared.borrow_mut();
                limit.other.elapsed(now_ns);
                if limit.in_flight >= limit.permits() {
                    return None;
                }
                limit.in_flight += 1;
                Some(Permit::Other {
                    limit: Rc::clone(shared),
                    began_ns: now_ns,
                    in_flight: limit.in_flight,
                })
            }
        }
    }
}

impl Permit {
    pub fn finish(self, now_ns: u64, outcome: CallOutcome) {
        match self {
            Self::Fixed { .. } => {}
            Self::Adaptive(permit) => permit.finish(outcome),
            Self::Other {
                limit,
                began_ns,
                in_flight,
            } => {
                let mut limit = limit.borrow_mut();
                limit.other.elapsed(now_ns);
                let is_full = limit.in_flight >= limit.permits();
                limit.other.ended(&Call {
                    began_ns,
                    ended_ns: now_ns,
                    latency: (now_ns - began_ns) as f64,
                    in_flight,
                    is_overload: outcome == CallOutcome::Overload,
                    is_full,
                });
                limit.in_flight -= 1;
            }
        }
    }
}
