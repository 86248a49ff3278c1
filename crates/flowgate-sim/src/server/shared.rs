//! Processor sharing: all requests are served at the same time.
//!
//! Each request needs some work, and all of them get it at the same speed. So one number is enough: the work that a request
//! would have got since the start of the run, `given`. A request that comes at `g` and needs `w` is done at `g + w`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::condition::Condition;
use super::running::Serving;
use super::{Contention, Job, Server};

#[derive(Debug)]
pub(super) struct Shared {
    most_served: usize,
    contention: Contention,
    serving: BinaryHeap<Reverse<Served>>,
    /// Work that each request has got, in nanoseconds of a request alone, up to `at_ns`.
    given: f64,
    at_ns: u64,
    started: u64,
}

#[derive(Debug)]
struct Served {
    done_at: f64,
    number: u64,
    slot: u32,
}

impl Shared {
    pub(super) fn new(server: &Server, contention: Contention) -> Self {
        Self {
            most_served: server.workers as usize,
            contention,
            serving: BinaryHeap::new(),
            given: 0.0,
            at_ns: 0,
            started: 0,
        }
    }

    /// How much work each request gets in a nanosecond.
    fn speed(&self, condition: &Condition) -> f64 {
        let health = condition.health();
        if health.is_paused {
            return 0.0;
        }
        let n = self.serving.len().max(1) as u64;
        self.contention.speed(n) * health.capacity / health.slowness
    }
}

impl Serving for Shared {
    fn has_room(&self, _: &Condition) -> bool {
        self.serving.len() < self.most_served
    }

    fn start(&mut self, _: u64, job: Job, _: &Condition) {
        self.serving.push(Reverse(Served {
            done_at: self.given + job.work_ns as f64,
            number: self.started,
            slot: job.slot,
        }));
        self.started += 1;
    }

    fn next_ns(&self, condition: &Condition) -> Option<u64> {
        let Reverse(first) = self.serving.peek()?;
        let speed = self.speed(condition);
        if speed <= 0.0 {
            return None;
        }
        let left = ((first.done_at - self.given) / speed).max(0.0);
        Some(self.at_ns.saturating_add(libm::ceil(left) as u64))
    }

    fn advance(&mut self, now_ns: u64, condition: &Condition) {
        if !self.serving.is_empty() {
            self.given += (now_ns - self.at_ns) as f64 * self.speed(condition);
        }
        self.at_ns = now_ns;
    }

    fn finish(&mut self, now_ns: u64, condition: &Condition, served: &mut Vec<u32>) {
        self.advance(now_ns, condition);
        // What rounding leaves of a nanosecond.
        let given = self.given + 1e-3 + self.given * 1e-15;
        while self
            .serving
            .peek()
            .is_some_and(|Reverse(first)| first.done_at <= given)
        {
            served.extend(self.serving.pop().map(|Reverse(first)| first.slot));
        }
    }

    fn lose(&mut self, lost: &mut Vec<u32>) {
        let mut served: Vec<Served> = self.serving.drain().map(|Reverse(served)| served).collect();
        served.sort_by_key(|served| served.number);
        lost.extend(served.iter().map(|served| served.slot));
    }
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Served {}

impl PartialOrd for Served {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Served {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_work = self.done_at.total_cmp(&other.done_at);
        by_work.then(self.number.cmp(&other.number))
    }
}
