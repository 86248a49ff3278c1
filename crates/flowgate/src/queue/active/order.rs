//! In which order they are served.

use super::{NEVER_NS, State};
use crate::queue::Supply;
use crate::queue::settings::Order;

impl State {
    /// Who is next.
    pub(in crate::queue) fn next(&self) -> Option<u32> {
        if self.is_lifo {
            self.waiters.newest()
        } else {
            self.waiters.oldest()
        }
    }

    /// Who is next after `index`.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        if self.is_lifo {
            self.waiters.ahead(index)
        } else {
            self.waiters.behind(index)
        }
    }

    /// Turns the queue round if it is time.
    pub(super) fn turn_round(&mut self, now_ns: u64) {
        let is_lifo = match self.settings.order {
            Order::Fifo | Order::Barging => false,
            Order::Lifo => true,
            Order::AdaptiveLifo { .. } => self.is_lifo || now_ns >= self.turning_ns(),
        };
        // Not written for nothing, as others read what is beside it.
        if is_lifo != self.is_lifo {
            self.is_lifo = is_lifo;
        }
    }

    /// When the order turns, if there is an other one to come and more than one to be ordered.
    pub(super) fn turning_ns(&self) -> u64 {
        match self.settings.order {
            Order::AdaptiveLifo { after } if self.waiters.waiters() > 1 && !self.is_lifo => {
                let after_ns = u64::try_from(after.as_nanos()).unwrap_or(NEVER_NS);
                self.busy_since_ns
                    .saturating_add(after_ns)
                    .saturating_add(1)
            }
            _ => NEVER_NS,
        }
    }

    /// Whether who is served depends on the time, though what they get does not.
    pub(in crate::queue) fn tells_time(&self) -> bool {
        matches!(self.settings.order, Order::AdaptiveLifo { .. }) || self.waiters.needs_time()
    }

    /// Whether somebody who comes last changes nothing for those in the queue.
    pub(in crate::queue) fn is_behind(&self, index: u32) -> bool {
        self.settings.order == Order::Fifo && self.waiters.oldest() != Some(index)
    }

    /// The rules have changed: whoever is next by the new ones is to be woken by them.
    pub(in crate::queue) fn reorder(&mut self, supply: &dyn Supply, now_ns: u64) {
        self.is_lifo = false;
        if !supply.facts().wants_dates {
            // Nobody knows since when.
            self.busy_since_ns = now_ns;
        }
        self.untime();
    }
}
