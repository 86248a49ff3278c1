//! What the sending threads say about each request, and how it gets to whoever counts.
//!
//! A sending thread writes events into a list of its own and hands the list over when it is long enough or old enough:
//! it takes no lock, and shares nothing with whoever counts but a channel.

use std::cell::RefCell;
use std::sync::mpsc::Sender;
use std::time::Instant;

use hyper::StatusCode;

use crate::failure::Failure;
use crate::report::nanos;

/// All instants are nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A request's scheduled time has come, and it will be sent as soon as there is a connection.
    Scheduled { scheduled_ns: u64 },
    /// A request's scheduled time has passed, and it is too late.
    Skipped { scheduled_ns: u64 },
    /// A request has waited so long for a connection.
    Queued { wait_ns: u64 },
    /// The first byte of a request is about to be written.
    Sent { scheduled_ns: u64, sent_ns: u64 },
    /// A request is sent once more.
    Resent,
    /// A request is over.
    Over {
        scheduled_ns: u64,
        sent_ns: Option<u64>,
        done_ns: u64,
        outcome: Outcome,
    },
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered {
        status: StatusCode,
        bytes: u64,
    },
    Failed(Failure),
    /// The run ended first.
    Abandoned,
}

/// Events of one sending thread, in order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) shard: usize,
    pub(crate) events: Vec<Event>,
    /// Whatever this thread sends later, it sends no earlier than this.
    pub(crate) until_ns: u64,
}

/// Where a sending thread notes what happens.
#[derive(Debug)]
pub(crate) struct Journal {
    shard: usize,
    start: Instant,
    events: RefCell<Vec<Event>>,
    reader: Sender<Batch>,
}

/// Events that are handed over together.
const BATCH: usize = 4096;

impl Journal {
    pub(crate) fn new(shard: usize, start: Instant, reader: Sender<Batch>) -> Journal {
        Journal {
            shard,
            start,
            events: RefCell::new(Vec::with_capacity(BATCH)),
            reader,
        }
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Nanoseconds from the start of the run.
    pub(crate) fn offset_ns(&self, instant: Instant) -> u64 {
        nanos::of(instant.saturating_duration_since(self.start))
    }

    pub(crate) fn note(&self, event: Event) {
        let mut events = self.events.borrow_mut();
        events.push(event);
        if events.len() >= BATCH {
            drop(events);
            self.hand_over();
        }
    }

    /// Hands over what there is.
    pub(crate) fn hand_over(&self) {
        let events = self.events.replace(Vec::with_capacity(BATCH));
        // The reader stays until all have finished.
        let _ = self.reader.send(Batch {
            shard: self.shard,
            events,
            until_ns: self.offset_ns(Instant::now()),
        });
    }
}
