//! Limits as a policy of the simulator, and the record of what they did.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use flowgate::{CallOutcome, ManualClock};
use flowgate_sim::{AdmissionDecision, AdmissionPolicy, Held, Request};

use crate::limit::{Limit, Permit};

/// How often the limit of another library is noted. It is the length of flowgate's shortest windows.
pub const NOTE_EVERY_NS: u64 = 50_000_000;

/// What happened, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When each request was refused.
    pub refused_ns: Vec<u64>,
    /// When each request was served, and how long it took.
    pub served: Vec<(u64, u64)>,
    /// How many requests of each client were served.
    pub served_of_client: Vec<u64>,
    /// The first client's limit after each window, in permits.
    pub windows: Vec<Window>,
}

/// A window that was closed; of the limits of other libraries, 50 ms.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub at_ns: u64,
    pub limit: f64,
    pub latency_ms: f64,
    pub baseline_ms: f64,
    pub is_measuring: bool,
}

/// A policy that records. Each client has a limit of its own.
pub struct Recorder {
    limits: Vec<Limit>,
    time: ManualClock,
    /// A request that is served later counts as an overload.
    overload_ns: u64,
    ends: Rc<Cell<End>>,
    windows: u64,
    record: Rc<RefCell<Record>>,
}

/// How a call ended, and when.
#[derive(Clone, Copy)]
struct End {
    now_ns: u64,
    outcome: CallOutcome,
}

/// A permit that is finished in the way that the policy was told just before.
struct Finishing {
    permit: Option<Permit>,
    ends: Rc<Cell<End>>,
}

impl Drop for Finishing {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let End { now_ns, outcome } = self.ends.get();
            permit.finish(now_ns, outcome);
        }
    }
}

impl Recorder {
    pub fn new(
        limits: Vec<Limit>,
        overload: Option<Duration>,
        time: &ManualClock,
    ) -> (Self, Rc<RefCell<Record>>) {
        let record = Rc::new(RefCell::new(Record {
            served_of_client: vec![0; limits.len()],
            ..Record::default()
        }));
        let recorder = Self {
            limits,
            time: time.clone(),
            overload_ns: overload.map_or(u64::MAX, |overload| overload.as_nanos() as u64),
            ends: Rc::new(Cell::new(End {
                now_ns: 0,
                outcome: CallOutcome::Ignore,
            })),
            windows: 0,
            record: Rc::clone(&record),
        };
        (recorder, record)
    }

    fn now_ns(&self) -> u64 {
        self.time.now().as_nanos()
    }

    fn note_window(&mut self) {
        let at_ns = self.now_ns();
        let window = match &self.limits[0] {
            Limit::Fixed(_) => return,
            Limit::Adaptive(limit) => {
                let seen = limit.inspect();
                if std::mem::replace(&mut self.windows, seen.windows) == seen.windows {
                    return;
                }
                let millis = |ns: u64| ns as f64 / 1e6;
                Window {
                    at_ns,
                    limit: seen.limit.parts() as f64 / 65_536.0,
                    latency_ms: millis(seen.last_window.map_or(0, |last| last.mean_latency_ns)),
                    baseline_ms: millis(seen.report.baseline_ns.unwrap_or(0)),
                    is_measuring: seen.report.is_measuring,
                }
            }
            other @ Limit::Other(_) => {
                let windows = at_ns / NOTE_EVERY_NS;
                if std::mem::replace(&mut self.windows, windows) == windows {
                    return;
                }
                Window {
                    at_ns,
                    limit: other.permits(),
                    latency_ms: 0.0,
                    baseline_ms: 0.0,
                    is_measuring: false,
                }
            }
        };
        self.record.borrow_mut().windows.push(window);
    }
}

impl AdmissionPolicy for Recorder {
    fn decide(&mut self, request: &Request) -> AdmissionDecision {
        self.note_window();
        let client = request.key as usize % self.limits.len();
        match self.limits[client].try_acquire(self.now_ns()) {
            Some(permit) => AdmissionDecision::Admit(Held::new(Finishing {
                permit: Some(permit),
                ends: Rc::clone(&self.ends),
            })),
            None => {
                self.record.borrow_mut().refused_ns.push(self.now_ns());
                AdmissionDecision::Refuse { retry_after: None }
            }
        }
    }

    fn finished(&mut self, request: &Request, held: Held, took: Duration, is_served: bool) {
        let now_ns = self.now_ns();
        let took_ns = took.as_nanos() as u64;
        let is_success = is_served && took_ns <= self.overload_ns;
        self.ends.set(End {
            now_ns,
            outcome: match is_success {
                true => CallOutcome::Success,
                false => CallOutcome::Overload,
            },
        });
        if is_served {
            let client = request.key as usize % self.limits.len();
            let mut record = self.record.borrow_mut();
            record.served.push((now_ns, took_ns));
            record.served_of_client[client] += 1;
        }
        drop(held);
    }
}
