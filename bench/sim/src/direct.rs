//! The calls to the library that a scenario makes, without a simulator: what is above this is the simulator's own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use flowgate::{AnyKeyed, LeakyBucket, ManualClock, Timestamp};
use flowgate_sim::{AdmissionDecision, AdmissionPolicy, Held, Request, Simulation};

use crate::scenarios::PATIENCE;

/// The time and the key of each request of a simulation, in order.
pub struct Requests(Vec<(Timestamp, u64)>);

impl Requests {
    /// Runs the simulation to learn them.
    pub fn of(simulation: &Simulation) -> Self {
        let requests = Rc::new(RefCell::new(Vec::new()));
        let recorder = |time: &ManualClock| {
            Ok::<_, Infallible>(Recorder {
                time: time.clone(),
                requests: Rc::clone(&requests),
            })
        };
        let Ok(_) = simulation.run("recorder", recorder);
        Self(requests.take())
    }

    /// Waits for the limiter, and returns the number of requests and of wake-ups.
    ///
    /// The waiters are granted in the order in which they came, so that the first of them is the one that is woken.
    pub fn wait(&self, time: &ManualClock, limiter: &Arc<LeakyBucket>) -> u64 {
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: VecDeque<Pin<Box<dyn Future<Output = _>>>> = VecDeque::new();
        let mut events = 0;
        let mut requests = self.0.iter().peekable();
        loop {
            let woken = time.next_wake();
            let arrival = requests.peek().map(|(at, _)| *at);
            let Some(now) = [woken, arrival].into_iter().flatten().min() else {
                return events;
            };
            time.set(now);
            if woken == Some(now)
                && let Some(mut first) = waiting.pop_front()
            {
                events += 1;
                if first.as_mut().poll(&mut context).is_pending() {
                    waiting.push_front(first);
                }
            }
            if arrival == Some(now) {
                requests.next();
                events += 1;
                let mut wait = Box::pin(limiter.acquire_owned().within(PATIENCE));
                if wait.as_mut().poll(&mut context).is_pending() {
                    waiting.push_back(wait);
                }
            }
        }
    }

    /// Decides on each request by its key, and returns their number.
    pub fn decide(&self, time: &ManualClock, limiter: &AnyKeyed) -> u64 {
        for (at, key) in &self.0 {
            time.set(*at);
            let _ = limiter.try_acquire(key);
        }
        self.0.len() as u64
    }
}

/// Admits all, and notes them.
struct Recorder {
    time: ManualClock,
    requests: Rc<RefCell<Vec<(Timestamp, u64)>>>,
}

impl AdmissionPolicy for Recorder {
    fn decide(&mut self, request: &Request) -> AdmissionDecision {
        let at = (self.time.now(), request.key);
        self.requests.borrow_mut().push(at);
        AdmissionDecision::Admit(Held::nothing())
    }
}
