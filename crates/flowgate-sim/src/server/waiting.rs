//! Requests that wait to be served.

use std::collections::VecDeque;

use super::{Job, QueueOrder, Server};

#[derive(Debug)]
pub(super) struct WaitingJobs {
    jobs: VecDeque<Job>,
    most: usize,
    order: QueueOrder,
    drops_expired: bool,
}

impl WaitingJobs {
    pub(super) fn new(server: &Server) -> Self {
        Self {
            jobs: VecDeque::new(),
            most: server.queue,
            order: server.order,
            drops_expired: server.drops_expired,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.jobs.len() >= self.most
    }

    pub(super) fn add(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Takes the next one to serve. Those before it whose deadline has passed go to `expired`, if they are dropped.
    pub(super) fn next(&mut self, now_ns: u64, expired: &mut Vec<u32>) -> Option<Job> {
        loop {
            let job = match self.order {
                QueueOrder::Fifo => self.jobs.pop_front(),
                QueueOrder::Lifo => self.jobs.pop_back(),
            }?;
            if !self.drops_expired || job.deadline_ns >= now_ns {
                return Some(job);
            }
            expired.push(job.slot);
        }
    }

    /// Takes all, as they came.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u32> {
        self.jobs.drain(..).map(|job| job.slot)
    }
}
