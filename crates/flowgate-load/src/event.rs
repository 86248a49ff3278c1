//! Events of each request, and how they get from the sending threads to the counting thread.
//!
//! A sending thread writes events into its own list, and hands the list over when it is long enough or old enough. It
//! takes no lock, and shares only a channel with the counting thread.

use std::cell::RefCell;
use std::sync::mpsc::Sender;
use std::time::Instant;

use crate::connection::Answer;
use crate::failure::Failure;
use crate::report::nanos;

/// All times are nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The scheduled time of a request has come. It is sent when a connection is free.
    Scheduled { scheduled_ns: u64 },
    /// The scheduled time of a request has passed, and it is too late.
    Skipped { scheduled_ns: u64 },
    /// A request has waited this long for a connection.
    Queued { wait_ns: u64 },
    /// The first byte of a request is about to be written.
    Sent { scheduled_ns: u64, sent_ns: u64 },
    /// A request is resent.
    Resent,
    /// A request is complete.
    Over {
        scheduled_ns: u64,
        sent_ns: Option<u64>,
        done_ns: u64,
        outcome: Outcome,
    },
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered(Answer),
    Failed(Failure),
    /// The run ended first.
    Abandoned,
}

/// Events of one sending thread, in order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) shard: usize,
    pub(crate) events: Vec<Event>,
    /// The thread sends nothing before this time from now on.
    pub(crate) until_ns: u64,
}

/// Where a sending thread records its events.
#[derive(Debug)]
pub(crate) struct Journal {
    shard: usize,
    start: Instant,
    events: RefCell<Vec<Event>>,
    reader: Sender<Batch>,
}

/// Number of events that are handed over together.
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

    /// Returns whether a request with this scheduled time counts. Those of the warm-up do not.
    pub(crate) fn counts(&self, scheduled: Instant) -> bool {
        scheduled >= self.start
    }

    /// Returns the nanoseconds from the start of the run.
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

    /// Hands over the recorded events.
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
