//! A limit as a policy of the simulator, and the record of what it did.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    Adapt, AdaptiveLimit, CallOutcome, Clock, ConcurrencyLimit, ManualClock, OwnedAdaptivePermit,
};
use flowgate_sim::{AdmissionDecision, AdmissionPolicy, Held, Request};

/// A limit, fixed or adaptive.
#[derive(Clone)]
pub enum Limit {
    Fixed(Arc<ConcurrencyLimit>),
    Adaptive(Arc<AdaptiveLimit<Box<dyn Adapt>>>),
}

/// What happened, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When each request was refused.
    pub refused_ns: Vec<u64>,
    /// When each request was served, and how long it took.
    pub served: Vec<(u64, u64)>,
    /// The limit after each window, in permits.
    pub windows: Vec<Window>,
}

/// A window that was closed.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub at_ns: u64,
    pub limit: f64,
    pub latency_ms: f64,
    pub baseline_ms: f64,
    pub is_measuring: bool,
}

/// A policy that records.
pub struct Recorder {
    limit: Limit,
    clock: Clock,
    time: ManualClock,
    next_outcome: Rc<Cell<CallOutcome>>,
    windows: u64,
    record: Rc<RefCell<Record>>,
}

/// A permit that is finished with the outcome that the policy was told just before.
struct Finishing {
    permit: Option<OwnedAdaptivePermit<Box<dyn Adapt>>>,
    outcome: Rc<Cell<CallOutcome>>,
}

impl Drop for Finishing {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.finish(self.outcome.get());
        }
    }
}

impl Recorder {
    pub fn new(limit: Limit, time: &ManualClock) -> (Self, Rc<RefCell<Record>>) {
        let record = Rc::new(RefCell::new(Record::default()));
        let recorder = Self {
            limit,
            clock: Clock::from(time),
            time: time.clone(),
            next_outcome: Rc::new(Cell::new(CallOutcome::Ignore)),
            windows: 0,
            record: Rc::clone(&record),
        };
        (recorder, record)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn note_window(&mut self) {
        let Limit::Adaptive(limit) = &self.limit else {
            return;
        };
        let seen = limit.inspect();
        if seen.windows == self.windows {
            return;
        }
        self.windows = seen.windows;
        let millis = |ns: u64| ns as f64 / 1e6;
        let last = seen.last_window;
        self.record.borrow_mut().windows.push(Window {
            at_ns: self.time.now().as_nanos(),
            limit: seen.limit.parts() as f64 / 65_536.0,
            latency_ms: last.map_or(0.0, |last| millis(last.mean_latency_ns)),
            baseline_ms: millis(seen.report.baseline_ns.unwrap_or(0)),
            is_measuring: seen.report.is_measuring,
        });
    }
}

impl AdmissionPolicy for Recorder {
    fn decide(&mut self, _: &Request) -> AdmissionDecision {
        self.note_window();
        let held = match &self.limit {
            Limit::Fixed(limit) => limit.try_acquire_owned().map(Held::new),
            Limit::Adaptive(limit) => limit.try_acquire_owned().map(|permit| {
                Held::new(Finishing {
                    permit: Some(permit),
                    outcome: Rc::clone(&self.next_outcome),
                })
            }),
        };
        match held {
            Ok(held) => AdmissionDecision::Admit(held),
            Err(denied) => {
                self.record.borrow_mut().refused_ns.push(self.now_ns());
                AdmissionDecision::Refuse {
                    retry_after: denied.retry_after(),
                }
            }
        }
    }

    fn finished(&mut self, _: &Request, held: Held, took: Duration, is_served: bool) {
        self.next_outcome.set(match is_served {
            true => CallOutcome::Success,
            false => CallOutcome::Overload,
        });
        if is_served {
            let now_ns = self.now_ns();
            let served = (now_ns, took.as_nanos() as u64);
            self.record.borrow_mut().served.push(served);
        }
        drop(held);
    }
}
