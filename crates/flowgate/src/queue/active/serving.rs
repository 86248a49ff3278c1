//! The questions to the limiter: who may enter and stay, and who can be served now. If no waiter can, when.

use super::{ActiveQueue, NEVER_NS, State};
use crate::clock::{Timestamp, saturating_nanos};
use crate::primitive::LockGuard;
use crate::queue::served::Served;
use crate::queue::settings::Spacing;
use crate::queue::waiters::{Answer, Progress, Request, Ticket, Waiters};
use crate::queue::{Asker, Grantee, Supply};
use crate::verdict::{Denied, Verdict};
use alloc::sync::Arc;
use core::task::Waker;

/// How many waiters are served under one hold of the lock. Under shuttle only one, so that others come between.
const BATCH: usize = if cfg!(flowgate_shuttle) { 1 } else { 32 };

enum Decision {
    Now(Answer),
    /// Not yet, and, if it was asked, why.
    At(u64, Option<Denied>),
}

impl ActiveQueue {
    /// Serves all waiters that can be granted at `now_ns`. The poller, which is in the queue and has the ticket `me`, is
    /// served without being woken. If there are many, the lock is released in between; it is held again at the end.
    pub(in crate::queue) fn serve<'a>(
        self: &'a Arc<Self>,
        state: LockGuard<'a, State>,
        supply: &dyn Supply,
        now_ns: u64,
        me: Option<Ticket>,
    ) -> LockGuard<'a, State> {
        self.serve_refused(state, supply, now_ns, me, None)
    }

    /// [`serve`](Self::serve), where the limiter has refused the poller with `refusal`, which still holds (`None`: it has
    /// not).
    pub(in crate::queue) fn serve_refused<'a>(
        self: &'a Arc<Self>,
        mut state: LockGuard<'a, State>,
        supply: &dyn Supply,
        now_ns: u64,
        mut me: Option<Ticket>,
        mut refusal: Option<Denied>,
    ) -> LockGuard<'a, State> {
        loop {
            while state.serve(
                &self.served,
                supply,
                now_ns,
                me.map(|me| me.place),
                refusal.take(),
            ) {
                self.end(state);
                state = self.state.lock();
                // Others may have served it meanwhile, and a third waiter may have its place.
                me = me.filter(|&me| state.waiters.progress(me) == Progress::InLine);
            }
            if state.cancelled.is_empty() || state.changes > 0 {
                return state;
            }
            state.strike_out(now_ns);
            me = me.filter(|&me| state.waiters.progress(me) == Progress::InLine);
        }
    }
}

impl State {
    /// Serves some waiters, and returns whether there may be more.
    fn serve(
        &mut self,
        served: &Served,
        supply: &dyn Supply,
        now_ns: u64,
        me: Option<u32>,
        mut refusal: Option<Denied>,
    ) -> bool {
        if self.changes > 0 {
            // A waiter that was called to take its grant itself, and looks now, has to be called again.
            self.called.take_if(|(called, _)| me == Some(*called));
            return false;
        }
        self.turn_round(now_ns);
        for _ in 0..BATCH {
            let Some(next) = self.next() else {
                self.stand_down();
                self.announce(supply);
                return false;
            };
            let known = refusal.take_if(|_| me == Some(next));
            match self.decide(supply, next, now_ns, me, known) {
                Decision::Now(answer) => {
                    match answer {
                        Answer::Granted { at_ns, .. } => self.changed(at_ns),
                        // Only now can the one behind it go.
                        Answer::PassedOver => self.changed(now_ns),
                        Answer::Refused(_) => {}
                    }
                    let waker = match self.number_to_show(next, answer) {
                        Some(number) if me != Some(next) => {
                            self.forget_call_of(next);
                            served.show(number, self.waiters.has_told());
                            self.waiters.remove(next)
                        }
                        _ => self.tell(next, answer),
                    };
                    if me != Some(next) {
                        self.wake(waker);
                    }
                    if self.is_blocked() && !supply.facts().has_more {
                        // The limiter has not been asked for the next one.
                        self.held_by = None;
                        return false;
                    }
                }
                Decision::At(due_ns, held_by) => {
                    self.held_by = held_by;
                    self.wait_for(due_ns, supply, next, now_ns, me);
                    return false;
                }
            }
        }
        true
    }

    /// Returns the number by which `next` learns of this answer, if it needs no more than that.
    ///
    /// A waiter that learns of its grant in this way does not look after the queue, so there must be no time to wait for.
    fn number_to_show(&self, next: u32, answer: Answer) -> Option<u64> {
        let is_granted = matches!(answer, Answer::Granted { .. });
        let is_timeless = self.service_ns == NEVER_NS && !self.waiters.keeps_receipts();
        if is_granted && is_timeless && !self.is_lifo {
            self.waiters.number_that_says_all(next)
        } else {
            None
        }
    }

    /// Whether the next waiter waits for an event that no clock predicts, as the one before it did.
    fn is_blocked(&self) -> bool {
        self.service_ns == NEVER_NS && !self.tells_time() && !self.waiters.is_empty()
    }

    /// Decides what becomes of `next`. `known` is the refusal that it got from the limiter when it came, and would get now,
    /// for that time.
    fn decide(
        &mut self,
        supply: &dyn Supply,
        next: u32,
        now_ns: u64,
        me: Option<u32>,
        mut known: Option<Denied>,
    ) -> Decision {
        let request = self.waiters.request(next);
        let is_own_affair = request.spacing == Spacing::AtLeast;
        let mut at_ns = self.floor_ns.max(request.since_ns);
        if is_own_affair {
            at_ns = at_ns.max(now_ns);
        }
        // A clock may have run backward, and others may have read it after the caller did: the times that it returned are
        // past.
        let now_ns = now_ns.max(at_ns);
        if at_ns > request.deadline_ns {
            let denied = match self.held_by {
                Some(_) => self.not_yet(now_ns),
                None if !supply.facts().is_timed => Denied::busy(),
                // The limiter has not been asked yet, so that it is the time alone that it missed.
                None => Denied::later(1, 1),
            };
            return Decision::Now(Answer::Refused(denied));
        }
        let mut held_by = None;
        while at_ns <= now_ns {
            let at = Timestamp::from_nanos(at_ns);
            let asked_ns = match known {
                Some(_) => request.since_ns,
                None => at_ns,
            };
            let answer = if let Some(denied) = known.take() {
                Err(denied)
            } else if is_own_affair && me != Some(next) {
                match supply.ask(at, request.units, Asker::HEAD) {
                    Ok(()) if self.is_absent(next, now_ns) => {
                        return Decision::Now(Answer::PassedOver);
                    }
                    Ok(()) => return Decision::At(at_ns, None),
                    Err(denied) => Err(denied),
                }
            } else if self.shedding.is_some() {
                match supply.ask(at, request.units, Asker::HEAD) {
                    Ok(()) if self.sheds(at_ns, request.since_ns) => {
                        return Decision::Now(Answer::Refused(Denied::shed()));
                    }
                    Ok(()) => self.grant(supply, at, next, request.units),
                    Err(denied) => Err(denied),
                }
            } else {
                self.grant(supply, at, next, request.units)
            };
            let denied = match answer {
                Ok(()) => {
                    let units = request.units;
                    return Decision::Now(Answer::Granted { at_ns, units });
                }
                Err(denied) => denied,
            };
            held_by = Some(denied);
            match denied.retry_after() {
                Some(wait) => {
                    let wait_ns = saturating_nanos(wait);
                    let Some(later_ns) = asked_ns.checked_add(wait_ns.max(1)) else {
                        return Decision::Now(Answer::Refused(Denied::too_late()));
                    };
                    at_ns = at_ns.max(later_ns);
                }
                None if denied.is_busy() && now_ns < request.deadline_ns => {
                    return Decision::At(NEVER_NS, Some(denied));
                }
                None => return Decision::Now(Answer::Refused(denied)),
            }
            if at_ns > request.deadline_ns {
                // By how much its timeout is too short.
                let wait_ns = at_ns - request.deadline_ns.max(now_ns).min(at_ns - 1);
                return Decision::Now(Answer::Refused(denied.for_ns(wait_ns)));
            }
        }
        Decision::At(at_ns, held_by)
    }

    #[inline(always)]
    fn grant(&mut self, supply: &dyn Supply, at: Timestamp, next: u32, units: u64) -> Verdict {
        let level = self.waiters.units();
        let each = || supply.facts().receipts;
        let receipts = self.waiters.receipts_to_keep(next, each);
        supply.grant(at, units, Grantee::Waiter { level, receipts })
    }

    /// Whether the waiter that came at `came_ns`, and could be granted at `at_ns`, is shed instead.
    fn sheds(&mut self, at_ns: u64, came_ns: u64) -> bool {
        let oldest = self.waiters.oldest();
        let oldest_ns = oldest.map_or(at_ns, |oldest| self.waiters.request(oldest).since_ns);
        let shedding = self.shedding.as_mut();
        shedding.is_some_and(|shedding| shedding.sheds(at_ns, came_ns, oldest_ns))
    }
}

/// New requests: whether they may enter and stay, and what they are told before they wait.
impl State {
    /// Adds a waiter to the queue.
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
            if let Some(shedding) = &mut self.shedding {
                shedding.note_empty();
            }
            self.announce(supply);
        }
        Some(ticket)
    }

    /// Returns an error if `index`, which came last and could not be served, may not stay.
    ///
    /// Older waiters may have to leave instead, and are told. Returns whether the queue has to be served after that.
    pub(in crate::queue) fn may_stay(
        &mut self,
        supply: &dyn Supply,
        index: u32,
        now_ns: u64,
    ) -> Result<bool, Denied> {
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
        let wait_ns = wait.map_or(0, saturating_nanos);
        let patience_ns = deadline_ns.saturating_sub(now_ns);
        match denied {
            Some(denied) if wait.is_none() && !denied.is_busy() => {
                return Err(denied);
            }
            // Certain to miss the deadline, even if the waiters ahead take as little time as they can.
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
        let mut is_to_serve = false;
        if settings.order.evicts_oldest() && may_fit {
            // The oldest go, as far as that helps.
            while is_over(&self.waiters) {
                let Some(oldest) = self.waiters.oldest().filter(|&oldest| oldest != index) else {
                    break;
                };
                is_to_serve |= self.step_out(oldest, now_ns);
                let refused = Answer::Refused(Denied::queue_full(None));
                let waker = self.waiters.tell(oldest, refused);
                self.wake(waker);
            }
        }
        if is_over(&self.waiters) {
            return Err(Denied::queue_full(wait));
        }
        Ok(is_to_serve)
    }

    /// Adapts the waiters after a change of what a token is and what can ever be granted. A request for one token stays one,
    /// and a request for too much is refused.
    pub(in crate::queue) fn restate(&mut self, supply: &dyn Supply, now_ns: u64) {
        let (now, token) = (Timestamp::from_nanos(now_ns), supply.facts().token);
        let mut seen = self.waiters.oldest();
        while let Some(index) = seen {
            seen = self.waiters.behind(index);
            if self.waiters.request(index).is_token {
                self.waiters.ask(index, token);
            }
            let asked = supply.ask(now, self.waiters.request(index).units, Asker::HEAD);
            if let Some(denied) = asked.err().filter(Denied::is_never) {
                let waker = self.tell(index, Answer::Refused(denied));
                self.wake(waker);
            }
        }
    }

    /// Returns the refusal of a new request, which has to wait for the queue; `None` if the queue is empty.
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
            // It is not known when the first waiter can go, so it is not known for those behind it.
            _ if not_yet.is_busy() => Some(not_yet),
            Some(denied) if denied.is_busy() => Some(denied),
            Some(denied) if denied.retry_after() >= not_yet.retry_after() => Some(denied),
            _ => Some(not_yet),
        }
    }

    /// Returns the refusal that holds until the next waiter has been served.
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
