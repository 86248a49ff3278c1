//! Free connections, and how requests are handed to them.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use tokio::sync::Notify;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Its scheduled time.
    pub(crate) scheduled: Instant,
    /// Index of the message.
    pub(crate) message: usize,
    /// Index of the server it is for.
    pub(crate) server: usize,
}

/// A place for one request in flight: a connection, or a stream of one. Its worker takes jobs from it.
#[derive(Debug)]
pub(crate) struct Place {
    /// Index of the server that its connection leads to.
    server: usize,
    /// Handed over, but not yet started.
    waiting: Cell<Option<Job>>,
    handed: Notify,
    /// Started, but not yet complete.
    current: Cell<Option<Job>>,
    over: Notify,
}

/// All places of a thread, and the free ones of each server.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Vec<Place>,
    free: Vec<Free>,
    busy: Cell<usize>,
    peak_busy: Cell<usize>,
    idle: Notify,
}

/// Stacks of the free places of one server.
///
/// Stacks, not queues: the connection used last is used next, so that a server has as few busy connections as the load
/// needs.
#[derive(Debug)]
struct Free {
    /// With an open connection.
    warm: RefCell<Vec<usize>>,
    /// Without an open connection.
    cold: RefCell<Vec<usize>>,
    freed: Notify,
}

impl Place {
    /// Returns the next request for this place. Cancel safe.
    pub(crate) async fn next(&self) -> Job {
        loop {
            if let Some(job) = self.waiting.take() {
                self.current.set(Some(job));
                return job;
            }
            self.handed.notified().await;
        }
    }

    /// Returns the request that has been started and is not complete.
    pub(crate) fn current(&self) -> Option<Job> {
        self.current.get()
    }

    /// Completes when the request that was handed over last is complete. Cancel safe.
    pub(crate) async fn over(&self) {
        while self.waiting.get().or(self.current.get()).is_some() {
            self.over.notified().await;
        }
    }

    /// Takes back a request that is not complete.
    pub(crate) fn abandon(&self) -> Option<Job> {
        self.waiting.take().or(self.current.take())
    }
}

impl Pool {
    /// Creates a pool with a place for each of `servers`, which are indices.
    pub(crate) fn new(servers: &[usize]) -> Pool {
        let place = |&server| Place {
            server,
            waiting: Cell::default(),
            handed: Notify::new(),
            current: Cell::default(),
            over: Notify::new(),
        };
        let free = |server| {
            let places = servers.iter().filter(|&&other| other == server).count();
            Free {
                warm: RefCell::new(Vec::with_capacity(places)),
                cold: RefCell::new(Vec::with_capacity(places)),
                freed: Notify::new(),
            }
        };
        let number = servers.iter().max().map_or(0, |last| last + 1);
        Pool {
            places: servers.iter().map(place).collect(),
            free: (0..number).map(free).collect(),
            busy: Cell::new(0),
            peak_busy: Cell::new(0),
            idle: Notify::new(),
        }
    }

    pub(crate) fn place(&self, id: usize) -> &Place {
        &self.places[id]
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Hands the job to a free place of its server, preferably with an open connection, and returns the place. `None` if
    /// all are busy.
    pub(crate) fn hand_over(&self, job: Job) -> Option<usize> {
        let free = &self.free[job.server];
        let warm = free.warm.borrow_mut().pop();
        let id = warm.or_else(|| free.cold.borrow_mut().pop())?;
        self.busy.set(self.busy.get() + 1);
        self.peak_busy
            .set(self.peak_busy.get().max(self.busy.get()));
        self.places[id].waiting.set(Some(job));
        self.places[id].handed.notify_one();
        Some(id)
    }

    /// Completes when a place of this server may be free. Cancel safe.
    pub(crate) async fn freed(&self, server: usize) {
        self.free[server].freed.notified().await;
    }

    /// Marks the place as free, with an open connection (`warm`) or without.
    pub(crate) fn free(&self, id: usize, warm: bool) {
        let free = &self.free[self.places[id].server];
        let stack = if warm { &free.warm } else { &free.cold };
        stack.borrow_mut().push(id);
        free.freed.notify_one();
    }

    /// Removes a warm place because its connection has closed. Returns `false` if a job had already been handed to it.
    pub(crate) fn withdraw(&self, id: usize) -> bool {
        let mut warm = self.free[self.places[id].server].warm.borrow_mut();
        let place = warm.iter().rposition(|&other| other == id);
        place.map(|place| warm.remove(place)).is_some()
    }

    /// Marks the place's job as complete.
    pub(crate) fn finish(&self, id: usize) {
        self.places[id].current.set(None);
        self.places[id].over.notify_one();
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

    /// Forgets how many requests were in flight until now.
    pub(crate) fn forget_peak(&self) {
        self.peak_busy.set(self.busy.get());
    }

    /// Returns the maximum number of requests that were in flight.
    pub(crate) fn peak_busy(&self) -> usize {
        self.peak_busy.get()
    }
}
