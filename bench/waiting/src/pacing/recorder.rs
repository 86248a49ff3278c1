//! The stopwatch beside a caller.

use std::time::Instant;

use super::releases::{Ask, Call, Releases};

/// Records when a caller requested and when it was granted, until the interval is over.
pub struct Recorder {
    ask: Ask,
    started: Instant,
    joined_ns: u64,
    end_ns: u64,
    calls: Vec<Call>,
    most: usize,
}

impl Recorder {
    /// The caller asks for the first time as soon as this returns.
    pub fn start(ask: Ask) -> Recorder {
        // Who lets everything through at once is cut off.
        let most = 2 * ask.slots() as usize + 64;
        let written = Call {
            joined_ns: 1,
            returned_ns: 1,
            dated_ns: Some(1),
        };
        // Written to, so that no page is touched for the first time while it is measured.
        let mut calls = vec![written; most];
        calls.clear();
        Recorder {
            ask,
            started: Instant::now(),
            joined_ns: 0,
            end_ns: u64::MAX,
            calls,
            most,
        }
    }

    /// Records a grant, with its timestamp `dated_ns` if it has one. Returns whether to request again, immediately.
    pub fn released(&mut self, dated_ns: Option<u64>) -> bool {
        let returned_ns = self.started.elapsed().as_nanos() as u64;
        if self.calls.is_empty() {
            self.end_ns = returned_ns + self.ask.span.as_nanos() as u64;
        }
        self.calls.push(Call {
            joined_ns: self.joined_ns,
            returned_ns,
            dated_ns,
        });
        self.joined_ns = returned_ns;
        returned_ns < self.end_ns && self.calls.len() < self.most
    }

    pub fn finish(self) -> Releases {
        Releases {
            ask: self.ask,
            calls: self.calls,
        }
    }
}
