//! One request's way through the queue.

use super::Changes;
use super::active::{ActiveQueue, State};
use super::cancel::{CancelHandle, Watch};
use super::grant::Grant;
use super::settings::Spacing;
use super::supply::{Event, Grantee, Receipt, Supply};
use super::waiters::{Answer, Progress, Request, Ticket};
use crate::clock::alarm::Alarm;
use crate::clock::{Clock, Timestamp, saturating_nanos};
use crate::primitive::LockGuard;
use crate::verdict::Denied;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};
use core::time::Duration;

/// One request: it asks, waits, and is granted or refused. It leaves the queue whenever it is dropped.
///
/// Every call has to name the same limiter.
#[derive(Debug)]
pub struct Turn {
    /// `None`: one token.
    pub(crate) units: Option<u64>,
    patience: Patience,
    /// The time from which the grant is counted, as if it had been asked for then; `None`: when it is first polled.
    pub(crate) since_ns: Option<u64>,
    pub(crate) spacing: Spacing,
    watch: Option<Watch>,
    stage: Stage,
    /// Goes off at the deadline.
    alarm: Option<Alarm>,
}

#[derive(Clone, Copy, Debug)]
enum Patience {
    Endless,
    /// From the first poll on.
    ForNs(u64),
    UntilNs(u64),
}

#[derive(Debug)]
enum Stage {
    New,
    InLine { ticket: Ticket, request: Request },
    Over,
}

impl Request {
    const fn granted(&self, at_ns: u64, units: u64) -> Grant {
        Grant {
            units,
            since_ns: self.since_ns,
            at_ns,
        }
    }
}

impl Turn {
    pub(crate) const fn new() -> Self {
        Self {
            units: None,
            patience: Patience::Endless,
            since_ns: None,
            spacing: Spacing::Scheduled,
            watch: None,
            stage: Stage::New,
            alarm: None,
        }
    }

    pub(crate) fn within(&mut self, patience: Duration) {
        self.patience = Patience::ForNs(saturating_nanos(patience));
    }

    pub(crate) fn by(&mut self, deadline: Timestamp) {
        self.patience = Patience::UntilNs(deadline.as_nanos());
    }

    /// Returns when a wait that begins now has to be over.
    pub(crate) fn deadline(&self, clock: &Clock) -> Option<Timestamp> {
        match self.patience {
            Patience::Endless => None,
            Patience::ForNs(ns) => Some(clock.now() + Duration::from_nanos(ns)),
            Patience::UntilNs(ns) => Some(Timestamp::from_nanos(ns)),
        }
    }

    pub(crate) fn cancelled_by(&mut self, handle: &CancelHandle) {
        self.watch = Some(Watch::new(handle));
    }

    /// Goes as far as possible. `waker` is woken when there is more to do.
    ///
    /// # Panics
    ///
    /// Panics if it was ready before.
    pub(crate) fn poll(
        &mut self,
        supply: &dyn Supply,
        waker: &Waker,
    ) -> Poll<Result<Grant, Denied>> {
        let answer = self.go(supply, waker);
        if let Poll::Ready(answer) = &answer {
            supply.note(Event::Answered(answer));
        }
        answer
    }

    /// Returns whether its handle has been cancelled. If not, `waker` is woken when it is.
    pub(crate) fn is_cancelled(&self, waker: &Waker) -> bool {
        let watch = self.watch.as_ref();
        watch.is_some_and(|watch| watch.is_cancelled(waker))
    }

    fn go(&mut self, supply: &dyn Supply, waker: &Waker) -> Poll<Result<Grant, Denied>> {
        loop {
            if self.is_cancelled(waker) {
                return Poll::Ready(self.leave_cancelled(supply));
            }
            let seen = match self.stage {
                Stage::New => match self.enter(supply, waker) {
                    Poll::Pending if self.is_cancelled_in_line(supply) => {
                        return Poll::Ready(self.leave_cancelled(supply));
                    }
                    seen => seen,
                },
                Stage::InLine { ticket, request } => {
                    let active = supply.queue().active(supply);
                    Visit::new(active, supply, ticket, request).look(waker)
                }
                Stage::Over => panic!("polled after it was ready"),
            };
            match seen {
                Poll::Ready(Some(answer)) => {
                    self.stage = Stage::Over;
                    self.alarm = None;
                    return Poll::Ready(answer);
                }
                Poll::Ready(None) => self.begin_anew(),
                Poll::Pending => {
                    self.set_alarm(supply, waker);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Starts again after it was passed over. Its deadline stays.
    #[cold]
    fn begin_anew(&mut self) {
        if let Stage::InLine { request, .. } = core::mem::replace(&mut self.stage, Stage::New)
            && request.deadline_ns != u64::MAX
        {
            self.patience = Patience::UntilNs(request.deadline_ns);
        }
    }

    /// Has its handle take it out of the queue. Returns whether the handle has been cancelled meanwhile.
    fn is_cancelled_in_line(&self, supply: &dyn Supply) -> bool {
        let (Some(watch), Stage::InLine { ticket, .. }) = (&self.watch, &self.stage) else {
            return false;
        };
        watch.stands(supply.queue().active(supply), *ticket)
    }

    fn leave_cancelled(&mut self, supply: &dyn Supply) -> Result<Grant, Denied> {
        let granted = self.leave(supply).map(|(granted, _)| granted);
        granted.ok_or(Denied::cancelled())
    }

    #[inline(never)]
    fn enter(&mut self, supply: &dyn Supply, waker: &Waker) -> Poll<Seen> {
        let room = supply.queue();
        // Reading the clock would be half the cost.
        let facts = supply.facts();
        let is_dated = facts.wants_dates || !matches!(self.patience, Patience::Endless);
        let mut now_ns = match is_dated {
            true => supply.clock().now().as_nanos(),
            false => 0,
        };
        let units = self.units.unwrap_or(facts.token);
        let since_ns = match self.spacing {
            Spacing::Scheduled => self.since_ns.unwrap_or(now_ns).min(now_ns),
            Spacing::AtLeast => now_ns,
        };
        let mut request = Request {
            units,
            is_token: self.units.is_none(),
            since_ns,
            deadline_ns: match self.patience {
                Patience::Endless => u64::MAX,
                Patience::ForNs(ns) => now_ns.saturating_add(ns),
                // Too late to wait, but not too late to be admitted.
                Patience::UntilNs(ns) => ns.max(now_ns),
            },
            spacing: self.spacing,
            wants_date: facts.wants_dates,
        };
        if units == 0 {
            return Poll::Ready(Some(Ok(request.granted(since_ns, units))));
        }
        let (changes, mut refusal) = (room.changes(), None);
        let since = Timestamp::from_nanos(since_ns);
        if !room.is_held() {
            let to = match self.since_ns {
                None => Grantee::Caller,
                Some(_) => Grantee::Waiter {
                    level: 1,
                    receipts: &mut [],
                },
            };
            match supply.grant(since, units, to) {
                Ok(()) => return Poll::Ready(Some(Ok(request.granted(since_ns, units)))),
                Err(denied) if denied.is_never() || denied.is_table_full() => {
                    return Poll::Ready(Some(Err(denied)));
                }
                Err(denied) => refusal = Some(denied),
            }
        }
        let (queue, as_announced) = match supply.open_queue(since, units) {
            Ok(opened) => (opened.queue, opened.refusal),
            Err(denied) => return Poll::Ready(Some(Err(denied))),
        };
        let active = queue.active(supply);
        let mut state = active.lock();
        if state.is_closed {
            return Poll::Ready(Some(Err(Denied::closed())));
        }
        if !is_dated && state.tells_time() {
            now_ns = supply.clock().now().as_nanos();
            request.since_ns = now_ns;
        }
        let Some(ticket) = state.enter(supply, now_ns, request, waker) else {
            return Poll::Ready(Some(Err(Denied::queue_full(None))));
        };
        // From here on it leaves when it is dropped, also if the limiter or a waker panics.
        self.stage = Stage::InLine { ticket, request };
        let visit = Visit::new(active, supply, ticket, request);
        let place = ticket.place;
        if !state.is_behind(place) || state.needs_service(now_ns) {
            // Looked at after the flags are up: what is made possible from then on is for the waiters.
            refusal = match as_announced {
                Some(_) => as_announced.filter(|_| queue.changes() == Changes::NONE),
                None => refusal.filter(|_| {
                    let is_counted = facts.is_timed || !supply.facts().has_more;
                    is_counted && core::ptr::eq(queue, room) && queue.changes() == changes
                }),
            };
            state = active.serve_refused(state, supply, now_ns, Some(ticket), refusal);
            if visit.is_over(&state) {
                return Poll::Ready(visit.collect(state, now_ns));
            }
        }
        match state.may_stay(supply, place, now_ns) {
            Err(denied) => {
                self.stage = Stage::Over;
                let (_own, _) = state.leave(place, now_ns);
                let state = visit.serve(state, now_ns, None);
                active.end(state);
                return Poll::Ready(Some(Err(denied)));
            }
            Ok(false) => {}
            Ok(true) => {
                state = visit.serve(state, now_ns, Some(ticket));
                if visit.is_over(&state) {
                    return Poll::Ready(visit.collect(state, now_ns));
                }
            }
        }
        visit.stay(state, now_ns)
    }

    fn set_alarm(&mut self, supply: &dyn Supply, waker: &Waker) {
        let Stage::InLine { request, .. } = self.stage else {
            return;
        };
        let deadline_ns = request.deadline_ns;
        if deadline_ns == u64::MAX {
            return;
        }
        // Anew, since the last one may have gone off too early.
        let at = Timestamp::from_nanos(deadline_ns);
        self.alarm = Some(supply.clock().alarm(at, waker.clone()));
    }

    /// Gives up. Returns `None` if nothing had been granted yet.
    #[cold]
    fn leave(&mut self, supply: &dyn Supply) -> Option<(Grant, Vec<Receipt>)> {
        let Stage::InLine { ticket, request } = core::mem::replace(&mut self.stage, Stage::Over)
        else {
            return None;
        };
        let active = supply.queue().active(supply);
        let now_ns = supply.clock().now().as_nanos();
        let mut state = active.lock();
        // Not to be dropped under the lock, with whatever its owner does then.
        let _own = state.waiters.forget_waker(ticket);
        if state.needs_service(now_ns) {
            // What can be granted before this one leaves, perhaps to itself, was granted then.
            state = active.serve(state, supply, now_ns, Some(ticket));
        }
        let visit = Visit::new(active, supply, ticket, request);
        let receipts = match state.waiters.progress(ticket) {
            Progress::InLine => {
                visit.give_up(state, now_ns);
                return None;
            }
            Progress::Told => state.waiters.receipts(ticket.place).to_vec(),
            Progress::Served => Vec::new(),
        };
        let answer = visit.collect(state, now_ns);
        let granted = answer?.ok()?;
        Some((granted, receipts))
    }

    /// Leaves the queue, and gives back what it was granted and has not seen.
    pub(crate) fn abandon(&mut self, supply: &dyn Supply) {
        if !matches!(self.stage, Stage::InLine { .. }) {
            return;
        }
        if let Some((granted, receipts)) = self.leave(supply) {
            let at = Timestamp::from_nanos(granted.at_ns);
            supply.take_back(at, granted.units, &receipts);
        }
        supply.note(Event::Abandoned);
    }
}

/// The answer that a waiter finds when it looks; `None`: it was passed over, and has to enter again.
type Seen = Option<Result<Grant, Denied>>;

/// A waiter that looks, and is in the queue or has an answer.
struct Visit<'a> {
    active: &'a Arc<ActiveQueue>,
    supply: &'a dyn Supply,
    ticket: Ticket,
    request: Request,
}

impl<'a> Visit<'a> {
    #[inline(always)]
    fn new(
        active: &'a Arc<ActiveQueue>,
        supply: &'a dyn Supply,
        ticket: Ticket,
        request: Request,
    ) -> Self {
        Self {
            active,
            supply,
            ticket,
            request,
        }
    }

    /// Returns the answer, or looks after the queue.
    #[inline(always)]
    fn look(&self, waker: &Waker) -> Poll<Seen> {
        if self.active.served.is_served(self.ticket.number) {
            return Poll::Ready(Some(Ok(self.served())));
        }
        self.look_closely(waker)
    }

    #[inline(never)]
    fn look_closely(&self, waker: &Waker) -> Poll<Seen> {
        let state = self.active.lock();
        // A waiter that has its answer need not know the time.
        if self.is_over(&state) {
            return Poll::Ready(self.collect(state, 0));
        }
        self.look_round(state, waker)
    }

    fn is_over(&self, state: &State) -> bool {
        state.waiters.progress(self.ticket) != Progress::InLine
    }

    /// Returns just what was asked for.
    fn served(&self) -> Grant {
        self.request
            .granted(self.request.since_ns, self.request.units)
    }

    /// Serves the waiters that can be granted, and returns what has become of this one. If it is about to be granted, it
    /// waits for that awake, once.
    #[inline(never)]
    fn look_round(&self, mut state: LockGuard<'a, State>, waker: &Waker) -> Poll<Seen> {
        let now_ns = self.supply.clock().now().as_nanos();
        state.learn(self.ticket.place, now_ns);
        // First of all, so that no other waker is left to be dropped under the lock when this one has been granted.
        let _old = state.waiters.remember(self.ticket.place, waker);
        if state.needs_service(now_ns) {
            state = self.serve(state, now_ns, Some(self.ticket));
            if self.is_over(&state) {
                return Poll::Ready(self.collect(state, now_ns));
            }
        }
        if now_ns >= self.request.deadline_ns {
            let denied = state.not_yet(now_ns);
            self.give_up(state, now_ns);
            return Poll::Ready(Some(Err(denied)));
        }
        self.stay(state, now_ns)
    }

    /// Remains in the queue, and releases the lock.
    #[inline(always)]
    fn stay(&self, state: LockGuard<'a, State>, now_ns: u64) -> Poll<Seen> {
        let awake_until_ns = state.awake_until_ns(self.ticket.place, now_ns);
        self.active.end(state);
        match awake_until_ns {
            Some(until_ns) if self.supply.clock().is_real() => self.stay_awake(until_ns),
            _ => Poll::Pending,
        }
    }

    #[inline(never)]
    fn stay_awake(&self, until_ns: u64) -> Poll<Seen> {
        let clock = self.supply.clock();
        let mut now_ns = clock.now().as_nanos();
        while now_ns < until_ns {
            core::hint::spin_loop();
            now_ns = clock.now().as_nanos();
        }
        let mut state = self.active.lock();
        if !self.is_over(&state) {
            state = self.serve(state, now_ns, Some(self.ticket));
        }
        if self.is_over(&state) {
            return Poll::Ready(self.collect(state, now_ns));
        }
        // Another caller was faster. Not again: others want to run, too.
        state.untime();
        let state = self.serve(state, now_ns, None);
        self.active.end(state);
        Poll::Pending
    }

    /// Leaves with its answer, or with what it has been granted.
    #[inline(always)]
    fn collect(&self, mut state: LockGuard<'a, State>, now_ns: u64) -> Seen {
        if state.waiters.progress(self.ticket) == Progress::Served {
            self.active.end(state);
            return Some(Ok(self.served()));
        }
        let (answer, is_to_serve) = state.collect(self.ticket.place);
        if is_to_serve {
            state = self.serve(state, now_ns, None);
        }
        self.active.end(state);
        match answer {
            Answer::Granted { at_ns, units } => Some(Ok(self.request.granted(at_ns, units))),
            Answer::Refused(denied) => Some(Err(denied)),
            Answer::PassedOver => None,
        }
    }

    /// Leaves with nothing.
    fn give_up(&self, mut state: LockGuard<'a, State>, now_ns: u64) {
        let (_waker, is_to_serve) = state.leave(self.ticket.place, now_ns);
        if is_to_serve {
            state = self.serve(state, now_ns, None);
        }
        self.active.end(state);
    }

    fn serve(
        &self,
        state: LockGuard<'a, State>,
        now_ns: u64,
        me: Option<Ticket>,
    ) -> LockGuard<'a, State> {
        self.active.serve(state, self.supply, now_ns, me)
    }
}
