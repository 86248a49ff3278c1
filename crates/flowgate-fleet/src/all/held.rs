use crate::Admitted;
use crate::limit::Of;

/// Units of leased limits that a request has taken. They are refunded unless it is admitted.
#[derive(Debug, Default)]
pub(super) struct Held {
    units: Vec<(Of, u64)>,
    is_degraded: bool,
}

impl Held {
    pub(super) fn add(&mut self, of: Of, n: u64, admitted: Admitted) {
        self.units.push((of, n));
        self.is_degraded |= admitted.is_degraded();
    }

    /// Returns whether a process decided alone on any of them.
    pub(super) fn is_degraded(&self) -> bool {
        self.is_degraded
    }

    /// The request is admitted.
    pub(super) fn spend(&mut self) {
        self.units.clear();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (of, n) in self.units.drain(..) {
            if let Of::Leased(limit) = of {
                limit.refund(n);
            }
        }
    }
}
