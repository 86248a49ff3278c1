//! Several processes read a count in a database, and then increment it.
//!
//! Each process reads the count with one command. If it is below the limit, the process increments it with a second command. Two
//! processes read the same count, and both admit. The more time a round trip takes, the more processes do so.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead: one script or one
//! command that checks and counts, as `flowgate-fleet` does.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Processes that count in a database; no time passes.
///
/// ```
/// use flowgate_testkit::broken::check_then_increment::CheckThenIncrement;
/// use flowgate_testkit::interleave::Machine;
///
/// let mut window = CheckThenIncrement::new(1, 2);
/// for process in [0, 1, 0, 1] {
///     println!("{}", window.step(process).expect("it has something to do"));
/// }
/// assert_eq!(window.grants().len(), 2); // of 1
/// ```
#[derive(Clone, Debug)]
pub struct CheckThenIncrement {
    limit: u64,
    count: u64,
    /// Whether each process has seen a count below the limit.
    has_read: Vec<bool>,
    grants: Vec<TimedGrant>,
}

impl CheckThenIncrement {
    /// Creates an empty window of `limit` for `processes` processes.
    pub fn new(limit: u64, processes: usize) -> Self {
        Self {
            limit,
            count: 0,
            has_read: vec![false; processes],
            grants: Vec::new(),
        }
    }
}

impl Machine for CheckThenIncrement {
    fn threads(&self) -> usize {
        self.has_read.len()
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        if self.has_read[thread] {
            // The mistake: others have incremented it since.
            self.count += 1;
            self.has_read[thread] = false;
            self.grants.push(TimedGrant::new(0, 1));
            return Some(format!(
                "process {thread}: increments the count to {}, admits",
                self.count
            ));
        }
        if self.count >= self.limit {
            return None;
        }
        self.has_read[thread] = true;
        Some(format!(
            "process {thread}: reads {} of {}",
            self.count, self.limit
        ))
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
