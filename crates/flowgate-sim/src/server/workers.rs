//! Workers that serve one request each, and a queue before them.

use std::collections::VecDeque;

use super::faults::Faults;
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
    serving: Agenda<(Job, u32)>,
    busy: u32,
    era: u32,
    is_down: bool,
    /// When a fault begins or ends next.
    change_ns: Option<u64>,
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
            is_down: health.is_down,
            change_ns: faults.next_change_ns(0),
        }
    }

    pub(crate) fn offer(&mut self, now_ns: u64, job: Job) -> Offered {
        if self.is_down {
            return Offered::Down;
        }
        if self.waiting.is_empty() && self.has_free_worker(now_ns) {
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
            let Some((_, (job, era))) = self.serving.pop() else {
                break;
            };
            if era == self.era {
                self.busy -= 1;
                done.served.push(job);
            }
        }
        if self.change_ns.is_some_and(|change_ns| change_ns <= now_ns) {
            self.change_ns = self.faults.next_change_ns(now_ns);
            let was_down = self.is_down;
            self.is_down = self.faults.health(now_ns).is_down;
            if self.is_down && !was_down {
                self.lose(done);
            }
        }
        while !self.is_down && self.has_free_worker(now_ns) {
            let next = match self.order {
                QueueOrder::Fifo => self.waiting.pop_front(),
                QueueOrder::Lifo => self.waiting.pop_back(),
            };
            match next {
                None => break,
                Some(job) if self.drops_expired && job.deadline_ns < now_ns => {
                    done.expired.push(job)
                }
                Some(job) => self.start(now_ns, job),
            }
        }
    }

    fn has_free_worker(&self, now_ns: u64) -> bool {
        let capacity = self.faults.health(now_ns).capacity;
        f64::from(self.busy) < libm::ceil(f64::from(self.workers) * capacity)
    }

    fn start(&mut self, now_ns: u64, job: Job) {
        let slowness = self.faults.health(now_ns).slowness;
        let work_ns = (job.work_ns as f64 * slowness) as u64;
        let end_ns = self.faults.done_ns(now_ns, work_ns);
        self.serving.enter(end_ns, (job, self.era));
        self.busy += 1;
    }

    /// Everything that was begun, and everything that waits.
    fn lose(&mut self, done: &mut Done) {
        self.era += 1;
        self.busy = 0;
        let mut kept = Agenda::new();
        std::mem::swap(&mut kept, &mut self.serving);
        while let Some((_, (job, era))) = kept.pop() {
            if era + 1 == self.era {
                done.lost.push(job);
            }
        }
        done.lost.extend(self.waiting.drain(..));
    }
}
