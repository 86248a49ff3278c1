//! Processor sharing: all requests are served at the same time.
//!
//! Each request needs some work, and all of them get it at the same speed. So one number is enough: the work that a request
//! would have got since the start of the run, `given`. A request that comes at `g` and needs `w` is done at `g + w`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::faults::{Faults, Health};
use super::{Contention, Done, Job, Offered, QueueOrder, Server};

#[derive(Debug)]
pub(crate) struct Shared {
    most_served: usize,
    most_waiting: usize,
    order: QueueOrder,
    drops_expired: bool,
    contention: Contention,
    faults: Faults,
    waiting: VecDeque<Job>,
    serving: BinaryHeap<Reverse<Served>>,
    /// Work that each request has got, in nanoseconds of a request alone, up to `at_ns`.
    given: f64,
    at_ns: u64,
    started: u64,
    /// Since the last change.
    health: Health,
    change_ns: Option<u64>,
}

#[derive(Debug)]
struct Served {
    done_at: f64,
    number: u64,
    job: Job,
}

impl Shared {
    pub(crate) fn new(server: &Server, contention: Contention, faults: &Faults) -> Self {
        Self {
            most_served: server.workers as usize,
            most_waiting: server.queue,
            order: server.order,
            drops_expired: server.drops_expired,
            contention,
            faults: faults.clone(),
            waiting: VecDeque::new(),
            serving: BinaryHeap::new(),
            given: 0.0,
            at_ns: 0,
            started: 0,
            health: faults.health(0),
            change_ns: faults.next_change_ns(0),
        }
    }

    pub(crate) fn offer(&mut self, now_ns: u64, job: Job) -> Offered {
        if self.health.is_down {
            return Offered::Down;
        }
        self.advance(now_ns);
        if self.waiting.is_empty() && self.serving.len() < self.most_served {
            self.start(job);
            return Offered::Taken;
        }
        if self.waiting.len() >= self.most_waiting {
            return Offered::Full;
        }
        self.waiting.push_back(job);
        Offered::Taken
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        let speed = self.speed();
        let done_ns = self
            .serving
            .peek()
            .filter(|_| speed > 0.0)
            .map(|Reverse(first)| {
                let left = ((first.done_at - self.given) / speed).max(0.0);
                self.at_ns.saturating_add(libm::ceil(left) as u64)
            });
        [done_ns, self.change_ns].into_iter().flatten().min()
    }

    pub(crate) fn run(&mut self, now_ns: u64, done: &mut Done) {
        self.advance(now_ns);
        // What rounding leaves of a nanosecond.
        let given = self.given + 1e-3 + self.given * 1e-15;
        while self
            .serving
            .peek()
            .is_some_and(|Reverse(first)| first.done_at <= given)
        {
            let Some(Reverse(first)) = self.serving.pop() else {
                break;
            };
            done.served.push(first.job.slot);
        }
        if self.change_ns.is_some_and(|change_ns| change_ns <= now_ns) {
            self.change_ns = self.faults.next_change_ns(now_ns);
            let was_down = self.health.is_down;
            self.health = self.faults.health(now_ns);
            if self.health.is_down && !was_down {
                let mut lost: Vec<Served> =
                    self.serving.drain().map(|Reverse(served)| served).collect();
                lost.sort_by_key(|served| served.number);
                done.lost.extend(lost.iter().map(|served| served.job.slot));
                done.lost.extend(self.waiting.drain(..).map(|job| job.slot));
            }
        }
        while !self.health.is_down && self.serving.len() < self.most_served {
            let next = match self.order {
                QueueOrder::Fifo => self.waiting.pop_front(),
                QueueOrder::Lifo => self.waiting.pop_back(),
            };
            match next {
                None => break,
                Some(job) if self.drops_expired && job.deadline_ns < now_ns => {
                    done.expired.push(job.slot)
                }
                Some(job) => self.start(job),
            }
        }
    }

    /// How much work each request gets in a nanosecond.
    fn speed(&self) -> f64 {
        let health = self.health;
        if health.is_paused {
            return 0.0;
        }
        let n = self.serving.len().max(1) as u64;
        self.contention.speed(n) * health.capacity / health.slowness
    }

    fn advance(&mut self, now_ns: u64) {
        if !self.serving.is_empty() {
            self.given += (now_ns - self.at_ns) as f64 * self.speed();
        }
        self.at_ns = now_ns;
    }

    fn start(&mut self, job: Job) {
        self.serving.push(Reverse(Served {
            done_at: self.given + job.work_ns as f64,
            number: self.started,
            job,
        }));
        self.started += 1;
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
