//! How a server is, as its faults begin and end.

use super::Fault;
use super::faults::{Faults, Health};

/// The health of a server since the last change of it.
#[derive(Debug)]
pub(super) struct Condition {
    faults: Faults,
    health: Health,
    /// When a fault begins or ends next.
    change_ns: Option<u64>,
}

impl Condition {
    pub(super) fn new(faults: &[Fault]) -> Self {
        let faults = Faults::new(faults);
        Self {
            health: faults.health(0),
            change_ns: faults.next_change_ns(0),
            faults,
        }
    }

    pub(super) fn health(&self) -> Health {
        self.health
    }

    /// The next time at which it changes.
    pub(super) fn change_ns(&self) -> Option<u64> {
        self.change_ns
    }

    /// Changes it, if that is to be done by `now_ns`. Returns whether the server goes down.
    pub(super) fn change(&mut self, now_ns: u64) -> bool {
        if self.change_ns.is_none_or(|change_ns| change_ns > now_ns) {
            return false;
        }
        let was_down = self.health.is_down;
        self.change_ns = self.faults.next_change_ns(now_ns);
        self.health = self.faults.health(now_ns);
        self.health.is_down && !was_down
    }

    /// When `work_ns` that are begun at `now_ns` are done.
    pub(super) fn done_ns(&self, now_ns: u64, work_ns: u64) -> u64 {
        match self.change_ns {
            // No fault is left.
            None if self.health == Health::GOOD => now_ns.saturating_add(work_ns),
            _ => {
                let work_ns = (work_ns as f64 * self.health.slowness) as u64;
                self.faults.done_ns(now_ns, work_ns)
            }
        }
    }
}
