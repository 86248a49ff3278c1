//! Workers that serve one request each, and a queue before them.

use std::collections::VecDeque;

use super::faults::{Faults, Health};
use super::{Done, Job, Offered, QueueOrder, Server};
use crate::agenda::Agenda;

#[derive(Debug)]
pub(crate) struct Workers {
    workers: u32,
    most_waiting: usize,
    order: QueueOrder,
    drops_expired: bool,
    faults: Faults,
    waiting: VecDeque<Job>,
    /// By the end of the service. An outage begins another era, and what is of an earlier one has been lost.
    serving: Agenda<Serving>,
    busy: u32,
    era: u32,
    /// Since the last change.
    health: Health,
    /// The workers that work at this health.
    able: u32,
    /// When a fault begins or ends next.
    change_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Serving {
    slot: u32,
    era: u32,
}

impl Workers {
    pub(crate) fn new(server: &Server, faults: &Faults) -> Self {
        let health = faults.health(0);
        Self {
            workers: server.workers,
            most_waiting: server.queue,
            order: server.order,
            drops_expired: server.drops_expired,
            faults: faults.clone(),
            waiting: VecDeque::new(),
            serving: Agenda::new(),
            busy: 0,
            era: 0,
            health,
            able: able(server.workers, health),
            change_ns: faults.next_change_ns(0),
        }
    }

    pub(crate) fn offer(&mut self, now_ns: u64, job: Job) -> Offered {
        if self.health.is_down {
            return Offered::Down;
        }
        if self.waiting.is_empty() && self.busy < self.able {
            self.start(now_ns, job);
            return Offered::Taken;
        }
        if self.waiting.len() >= self.most_waiting {
            return Offered::Full;
        }
        self.waiting.push_back(job);
        Offered::Taken
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        let change_ns = self.change_ns;
        [self.serving.next_ns(), change_ns]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn run(&mut self, now_ns: u64, done: &mut Done) {
        while self
            .serving
            .next_ns()
            .is_some_and(|end_ns| end_ns <= now_ns)
        {
            let Some((_, serving)) = self.serving.pop() else {
                break;
            };
            if serving.era == self.era {
                self.busy -= 1;
                done.served.push(serving.slot);
            }
        }
        if self.change_ns.is_some_and(|change_ns| change_ns <= now_ns) {
            self.change_ns = self.faults.next_change_ns(now_ns);
            let was_down = self.health.is_down;
            self.health = self.faults.health(now_ns);
            self.able = able(self.workers, self.health);
            if self.health.is_down && !was_down {
                self.lose(done);
            }
        }
        while !self.health.is_down && self.busy < self.able {
            let next = match self.order {
                QueueOrder::Fifo => self.waiting.pop_front(),
                QueueOrder::Lifo => self.waiting.pop_back(),
            };
            match next {
                None => break,
                Some(job) if self.drops_expired && job.deadline_ns < now_ns => {
                    done.expired.push(job.slot)
                }
                Some(job) => self.start(now_ns, job),
            }
        }
    }

    fn start(&mut self, now_ns: u64, job: Job) {
        let end_ns = match self.change_ns {
            // No fault is left.
            None if self.health == Health::GOOD => now_ns.saturating_add(job.work_ns),
            _ => {
                let work_ns = (job.work_ns as f64 * self.health.slowness) as u64;
                self.faults.done_ns(now_ns, work_ns)
            }
        };
        let serving = Serving {
            slot: job.slot,
            era: self.era,
        };
        self.serving.enter(end_ns, serving);
        self.busy += 1;
    }

    /// Everything that was begun, and everything that waits.
    fn lose(&mut self, done: &mut Done) {
        self.era += 1;
        self.busy = 0;
        let mut kept = Agenda::new();
        std::mem::swap(&mut kept, &mut self.serving);
        while let Some((_, serving)) = kept.pop() {
            if serving.era + 1 == self.era {
                done.lost.push(serving.slot);
            }
        }
        done.lost.extend(self.waiting.drain(..).map(|job| job.slot));
    }
}

fn able(workers: u32, health: Health) -> u32 {
    libm::ceil(f64::from(workers) * health.capacity) as u32
}
