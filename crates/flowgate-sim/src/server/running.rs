//! A server at work: requests wait, are served, or are lost.

use std::fmt::Debug;

use super::condition::Condition;
use super::shared::Shared;
use super::waiting::WaitingJobs;
use super::workers::Workers;
use super::{Fault, Job, Server};
use crate::time::earlier;

/// What becomes of a request that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It is served, or waits for that.
    Taken,
    /// The queue is full.
    Full,
    /// The server is down.
    Down,
}

/// What a server has done at a time: slots of operations.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Served.
    pub(crate) served: Vec<u32>,
    /// Dropped from the queue, after their deadline.
    pub(crate) expired: Vec<u32>,
    /// Lost, because the server went down.
    pub(crate) lost: Vec<u32>,
}

/// A server at work.
#[derive(Debug)]
pub(crate) struct Running {
    condition: Condition,
    waiting: WaitingJobs,
    serving: Box<dyn Serving>,
}

/// The requests that a server serves at a time, and how long that takes.
pub(super) trait Serving: Debug {
    /// Whether another one can be served.
    fn has_room(&self, condition: &Condition) -> bool;

    /// Begins to serve a request at `now_ns`, after [`advance`](Self::advance) up to then.
    fn start(&mut self, now_ns: u64, job: Job, condition: &Condition);

    /// The next time at which one has been served, if the condition does not change before.
    fn next_ns(&self, condition: &Condition) -> Option<u64>;

    /// Serves up to `now_ns`, in this condition.
    fn advance(&mut self, now_ns: u64, condition: &Condition) {
        let _ = (now_ns, condition);
    }

    /// Serves up to `now_ns`, and moves those that have been served then.
    fn finish(&mut self, now_ns: u64, condition: &Condition, served: &mut Vec<u32>);

    /// Moves all of them.
    fn lose(&mut self, lost: &mut Vec<u32>);
}

impl Running {
    pub(crate) fn new(server: &Server, faults: &[Fault]) -> Self {
        Self {
            condition: Condition::new(faults),
            waiting: WaitingJobs::new(server),
            serving: match server.contention {
                None => Box::new(Workers::new(server)),
                Some(contention) => Box::new(Shared::new(server, contention)),
            },
        }
    }

    /// Offers a request at `now_ns`, after [`run`](Self::run) up to then.
    pub(crate) fn offer(&mut self, now_ns: u64, job: Job) -> Offered {
        if self.condition.health().is_down {
            return Offered::Down;
        }
        self.serving.advance(now_ns, &self.condition);
        if self.waiting.is_empty() && self.serving.has_room(&self.condition) {
            self.serving.start(now_ns, job, &self.condition);
            return Offered::Taken;
        }
        if self.waiting.is_full() {
            return Offered::Full;
        }
        self.waiting.add(job);
        Offered::Taken
    }

    /// The next time at which anything happens by itself.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let served_ns = self.serving.next_ns(&self.condition);
        earlier(served_ns, self.condition.change_ns())
    }

    /// Does what is to be done at `now_ns`, which is not after [`next_ns`](Self::next_ns).
    pub(crate) fn run(&mut self, now_ns: u64, done: &mut Done) {
        self.serving
            .finish(now_ns, &self.condition, &mut done.served);
        if self.condition.change(now_ns) {
            self.serving.lose(&mut done.lost);
            done.lost.extend(self.waiting.drain());
        }
        while !self.condition.health().is_down && self.serving.has_room(&self.condition) {
            let Some(job) = self.waiting.next(now_ns, &mut done.expired) else {
                break;
            };
            self.serving.start(now_ns, job, &self.condition);
        }
    }
}
