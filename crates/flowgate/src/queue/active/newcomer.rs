//! Newcomers: who may enter and stay, and what they are told beforehand.

use super::{NEVER_NS, State};
use crate::clock::Timestamp;
use crate::queue::settings::Order;
use crate::queue::waiters::{Answer, Request, Ticket, Waiters};
use crate::queue::{Asker, Supply};
use crate::verdict::Denied;
use core::task::Waker;

impl State {
    /// Lets somebody stand in the queue.
    pub(in crate::queue) fn enter(
        &mut self,
        supply: &dyn Supply,
        now_ns: u64,
        request: Request,
        waker: &Waker,
    ) -> Option<Ticket> {
        let is_first = self.waiters.is_empty();
        let ticket = self.waiters.enter(request, waker.clone())?;
        if is_first {
            self.busy_since_ns = now_ns;
            self.is_lifo = false;
            self.announce(supply);
        }
        Some(ticket)
    }

    /// Why `index`, which came last and could not be served, may not stay; or that it may.
    ///
    /// Others may have to leave instead, and are told.
    pub(in crate::queue) fn may_stay(
        &mut self,
        supply: &dyn Supply,
        index: u32,
        now_ns: u64,
    ) -> Result<(), Denied> {
        let Request {
            units, deadline_ns, ..
        } = self.waiters.request(index);
        let is_next = self.next() == Some(index);
        let denied = if is_next && self.held_by.is_some() && self.changes == 0 {
            // The limiter has been asked for it just now.
            Some(self.not_yet(now_ns))
        } else {
            let ahead = match is_next {
                true => 0,
                false => self.waiters.units() - u128::from(units),
            };
            let now = Timestamp::from_nanos(now_ns);
            supply.ask(now, units, Asker::Waiter { ahead }).err()
        };
        let wait = denied.and_then(|denied| denied.retry_after());
        let wait_ns = wait.map_or(0, |wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        let patience_ns = deadline_ns.saturating_sub(now_ns);
        match denied {
            Some(denied) if wait.is_none() && !denied.is_busy() => {
                return Err(denied);
            }
            // Hopeless, even if nobody ahead takes any longer than they must.
            Some(denied) if wait_ns > patience_ns => {
                return Err(denied.for_ns(wait_ns - patience_ns));
            }
            _ if patience_ns == 0 => return Err(self.not_yet(now_ns)),
            _ => {}
        }
        let settings = &self.settings;
        if wait_ns > settings.max_wait_ns {
            let excess = wait.map(|wait| {
                wait.saturating_sub(core::time::Duration::from_nanos(settings.max_wait_ns))
            });
            return Err(Denied::queue_full(excess));
        }
        let (max_waiters, max_units) = (settings.max_waiters, settings.max_units);
        let is_more = |units| max_units.is_some_and(|most| units > u128::from(most));
        let is_over = |queue: &Waiters| queue.waiters() > max_waiters || is_more(queue.units());
        let may_fit = max_waiters > 0 && !is_more(units.into());
        if matches!(settings.order, Order::Lifo) && may_fit {
            // The oldest go, as far as that helps.
            while is_over(&self.waiters) {
                let Some(oldest) = self.waiters.oldest().filter(|&oldest| oldest != index) else {
                    break;
                };
                let refused = Answer::Refused(Denied::queue_full(None));
                let waker = self.tell(oldest, refused);
                self.wake(waker);
            }
        }
        if is_over(&self.waiters) {
            return Err(Denied::queue_full(wait));
        }
        Ok(())
    }

    /// How long a newcomer would have to wait for those in the queue; none if nobody is.
    pub(in crate::queue) fn behind_all(
        &self,
        supply: &dyn Supply,
        now_ns: u64,
        units: u64,
    ) -> Option<Denied> {
        if self.waiters.is_empty() {
            return None;
        }
        let now = Timestamp::from_nanos(now_ns);
        let asker = Asker::Caller {
            ahead: self.waiters.units(),
        };
        let denied = supply.ask(now, units, asker).err();
        let not_yet = self.not_yet(now_ns);
        match denied {
            Some(denied) if denied.is_never() => Some(denied),
            // Who is first is not known to go, and so nobody behind.
            _ if not_yet.is_busy() => Some(not_yet),
            Some(denied) if denied.is_busy() => Some(denied),
            Some(denied) if denied.retry_after() >= not_yet.retry_after() => Some(denied),
            _ => Some(not_yet),
        }
    }

    /// What there is to say before the next in the queue has been served.
    pub(in crate::queue) fn not_yet(&self, now_ns: u64) -> Denied {
        match (self.due_ns, self.held_by) {
            (NEVER_NS, held_by) => held_by.unwrap_or(Denied::busy()),
            (due_ns, held_by) => {
                let wait_ns = due_ns.saturating_sub(now_ns).max(1);
                held_by
                    .unwrap_or(Denied::later(u128::from(wait_ns), 1))
                    .for_ns(wait_ns)
            }
        }
    }
}
