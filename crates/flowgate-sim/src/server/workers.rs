//! Workers that serve one request each.

use super::agenda::Agenda;
use super::condition::Condition;
use super::running::Serving;
use super::{Job, Server};

#[derive(Debug)]
pub(super) struct Workers {
    workers: u32,
    /// The slots of those that are served, by the end of the service.
    serving: Agenda<u32>,
}

impl Workers {
    pub(super) fn new(server: &Server) -> Self {
        Self {
            workers: server.workers,
            serving: Agenda::new(),
        }
    }
}

impl Serving for Workers {
    fn has_room(&self, condition: &Condition) -> bool {
        let able = libm::ceil(f64::from(self.workers) * condition.health().capacity);
        self.serving.len() < able as usize
    }

    fn start(&mut self, now_ns: u64, job: Job, condition: &Condition) {
        let end_ns = condition.done_ns(now_ns, job.work_ns);
        self.serving.enter(end_ns, job.slot);
    }

    fn next_ns(&self, _: &Condition) -> Option<u64> {
        self.serving.next_ns()
    }

    fn finish(&mut self, now_ns: u64, _: &Condition, served: &mut Vec<u32>) {
        while self
            .serving
            .next_ns()
            .is_some_and(|end_ns| end_ns <= now_ns)
        {
            served.extend(self.serving.pop().map(|(_, slot)| slot));
        }
    }

    fn lose(&mut self, lost: &mut Vec<u32>) {
        while let Some((_, slot)) = self.serving.pop() {
            lost.push(slot);
        }
    }
}
