//! Which connections are free, and handing requests to them.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use tokio::sync::Notify;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Its scheduled time.
    pub(crate) scheduled: Instant,
    /// Which of the run's requests it is.
    pub(crate) message: usize,
}

/// One place for a request in flight: a connection, or one of the streams of one. Its worker takes jobs from it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Handed over and not yet taken up.
    waiting: Cell<Option<Job>>,
    handed: Notify,
    /// Taken up and not yet answered.
    current: Cell<Option<Job>>,
    over: Notify,
}

/// All slots of a thread, and the stacks of those that are free.
///
/// Stacks, not queues: the connection used last is used next, so that a server sees as few busy
/// connections as the load needs.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    /// Free, with an open connection.
    warm: RefCell<Vec<usize>>,
    /// Free, but a connection has to be opened first.
    cold: RefCell<Vec<usize>>,
    freed: Notify,
    busy: Cell<usize>,
    peak_busy: Cell<usize>,
    idle: Notify,
}

impl Slot {
    /// The next request for this slot. Cancel safe.
    pub(crate) async fn next(&self) -> Job {
        loop {
            if let Some(job) = self.waiting.take() {
                self.current.set(Some(job));
                return job;
            }
            self.handed.notified().await;
        }
    }

    /// The request that has been taken up and not answered.
    pub(crate) fn current(&self) -> Option<Job> {
        self.current.get()
    }

    /// Completes when nothing is left of the request that was handed over last. Cancel safe.
    pub(crate) async fn over(&self) {
        while self.waiting.get().or(self.current.get()).is_some() {
            self.over.notified().await;
        }
    }

    /// Takes back a request that is not finished.
    pub(crate) fn abandon(&self) -> Option<Job> {
        self.waiting.take().or(self.current.take())
    }
}

impl Pool {
    pub(crate) fn new(slots: usize) -> Pool {
        Pool {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            warm: RefCell::new(Vec::with_capacity(slots)),
            cold: RefCell::new(Vec::with_capacity(slots)),
            freed: Notify::new(),
            busy: Cell::new(0),
            peak_busy: Cell::new(0),
            idle: Notify::new(),
        }
    }

    pub(crate) fn slot(&self, id: usize) -> &Slot {
        &self.slots[id]
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Hands the job to a free slot, one with an open connection if there is one, and says to which; none when all
    /// are busy.
    pub(crate) fn hand_over(&self, job: Job) -> Option<usize> {
        let free = self.warm.borrow_mut().pop();
        let id = free.or_else(|| self.cold.borrow_mut().pop())?;
        self.busy.set(self.busy.get() + 1);
        self.peak_busy
            .set(self.peak_busy.get().max(self.busy.get()));
        self.slots[id].waiting.set(Some(job));
        self.slots[id].handed.notify_one();
        Some(id)
    }

    /// Completes when a slot may be free. Cancel safe.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// The slot is free; its connection is open (`warm`) or not.
    pub(crate) fn free(&self, id: usize, warm: bool) {
        let stack = if warm { &self.warm } else { &self.cold };
        stack.borrow_mut().push(id);
        self.freed.notify_one();
    }

    /// Takes a warm slot off its stack because its connection has closed; `false` when it was not
    /// there: a job had been handed to it.
    pub(crate) fn withdraw(&self, id: usize) -> bool {
        let mut warm = self.warm.borrow_mut();
        let place = warm.iter().rposition(|&other| other == id);
        place.map(|place| warm.remove(place)).is_some()
    }

    /// The slot's job is over.
    pub(crate) fn finish(&self, id: usize) {
        self.slots[id].current.set(None);
        self.slots[id].over.notify_one();
        self.busy.set(self.busy.get() - 1);
        if self.busy.get() == 0 {
            self.idle.notify_one();
        }
    }

    /// Completes when no request is in flight. Cancel safe.
    pub(crate) async fn idle(&self) {
        while self.busy.get() > 0 {
            self.idle.notified().await;
        }
    }

    /// The most requests that were in flight concurrently.
    pub(crate) fn peak_busy(&self) -> usize {
        self.peak_busy.get()
    }
}
