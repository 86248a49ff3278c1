//! What is behind a room's lock: the line, and when the next in it is due.

use super::Supply;
use super::board::Board;
use super::queue::{Answer, Progress, Queue, Request, Ticket};
use super::settings::{Order, Precision, Settings, Spacing};
use crate::alarm::{Alarm, wake};
use crate::clock::{Clock, Timestamp};
use crate::primitive::{Lock, LockGuard};
use crate::verdict::Denied;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::task::Waker;

/// How long the next in line has to look after itself, and those behind it, before somebody else is woken to do it.
const PATIENCE_NS: u64 = 1_000_000;

/// How many are served without letting go of the lock. Of a small crowd, as few as that others come between them.
const BATCH: usize = if cfg!(flowgate_shuttle) { 1 } else { 32 };

/// Sleeping until somewhat before the instant, a strict wait is never late.
const STRICT_LEAD_NS: u64 = 60_000;
/// Less than this is not worth another sleep.
const NORMAL_LEAD_NS: u64 = 2_000;
/// How much earlier than it is due somebody is woken at the most, because wake-ups are late.
const MOST_LATENESS_NS: u64 = 100_000;
/// Of a wait, no more than one part in so many is spent awake.
const MOST_AWAKE: u64 = 4;
/// How much a wake-up teaches about the next. Steps up are three times as long as steps down, which leads to where three
/// of four wake-ups are below.
const LATENESS_STEP_NS: u64 = 500;
const COARSE_GRAIN_NS: u64 = 1_000_000;

/// Not known.
const NEVER_NS: u64 = u64::MAX;

/// Those who wait at one limiter. The timer has a share in it, and wakes them through it.
///
/// In this order in memory, and [`State`] in its own: what every turn writes is in two cache lines, which the threads
/// that work on a line have to fetch from each other; the lock and what it guards in one, and what is read without it
/// in the other.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    state: Lock<State>,
    pub(super) board: Board,
    pub(super) clock: Clock,
}

/// First what every turn writes, then what it reads, last what is only for turns that are dated.
#[derive(Debug)]
#[repr(C)]
pub(super) struct State {
    /// Whom to wake first when the lock has been let go: mostly that is all.
    first: Option<Waker>,
    pub(super) queue: Queue,
    /// How many changes are under way, during which nobody is served.
    changes: u32,
    pub(super) is_closed: bool,
    /// Whether who came last is next: as whoever served last found it, and not by everybody's own reading of a clock.
    is_lifo: bool,
    /// No grant is dated before this: the date of the last one, or of a change that made more possible.
    floor_ns: u64,
    /// When the next in line can be granted, if nothing else happens.
    due_ns: u64,
    /// When something has to be done for the line: that, or the deadline of the next one, which may not look itself.
    service_ns: u64,
    /// Who has been woken for a turn that only itself can take.
    called: Option<u32>,
    call: Option<Call>,
    afterwards: Option<Afterwards>,
    pub(super) settings: Settings,
    /// What the next one was last refused with.
    held_by: Option<Denied>,
    /// Since when there has been somebody in line.
    busy_since_ns: u64,
    alarm: Option<Alarm>,
    /// Who was woken by the clock, and has not looked since; when that should have been.
    rung: Option<(u32, u64)>,
    /// How late those are who are woken, three of four: the timer, and then their runtime, take that long to get going.
    lateness_ns: u64,
    /// How much earlier the next one is woken, as far as that costs no more than a part of its wait.
    lead_ns: u64,
    /// How many are about to set an alarm, which may go off before it is set.
    retimers: u32,
    /// How many times anybody was to be called.
    calls: u64,
}

/// Who is woken when, if nobody has been served by then.
#[derive(Clone, Copy, Debug)]
struct Call {
    index: u32,
    at_ns: u64,
    /// Which call it is. An alarm is for one, and is not taken for another's that is for the same time: it may have
    /// gone off since, and if the clock has run backward, that time is to come again.
    number: u64,
}

/// What whoever holds the lock is to do when it has been let go, besides waking somebody.
#[derive(Debug, Default)]
struct Afterwards {
    /// Whom to wake besides.
    woken: Vec<Waker>,
    /// When the next has to be woken, if that has changed.
    retime: Option<Call>,
    /// Nobody needs it any longer.
    alarm: Option<Alarm>,
}

impl Line {
    pub(super) fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            board: Board::new(),
            clock: clock.clone(),
            state: Lock::new(State {
                first: None,
                queue: Queue::new(),
                settings: Settings::new(),
                is_closed: false,
                afterwards: None,
                changes: 0,
                called: None,
                rung: None,
                lateness_ns: 0,
                lead_ns: 0,
                retimers: 0,
                calls: 0,
                floor_ns: 0,
                due_ns: NEVER_NS,
                service_ns: NEVER_NS,
                held_by: None,
                busy_since_ns: 0,
                is_lifo: false,
                alarm: None,
                call: None,
            }),
        })
    }

    /// Whoever serves or refuses anybody under it has to let go of it by [`end`](Self::end).
    pub(super) fn lock(&self) -> LockGuard<'_, State> {
        self.state.lock()
    }

    /// Serves all who can be served at `now_ns`; the poller, who is in line and has the ticket `me`, without waking it.
    /// The lock is let go in between if they are many, and is held again at the end.
    pub(super) fn serve<'a>(
        self: &'a Arc<Self>,
        mut state: LockGuard<'a, State>,
        supply: &dyn Supply,
        now_ns: u64,
        mut me: Option<Ticket>,
    ) -> LockGuard<'a, State> {
        while state.serve(&self.board, supply, now_ns, me.map(|me| me.place)) {
            self.end(state);
            state = self.state.lock();
            // Others may have served it meanwhile, and a third one may stand in its place.
            me = me.filter(|&me| state.queue.progress(me) == Progress::InLine);
        }
        state
    }

    /// Lets go of the lock, and does what was left to be done then.
    #[inline(always)]
    pub(super) fn end(self: &Arc<Self>, mut state: LockGuard<'_, State>) {
        if state.afterwards.is_some() {
            return self.end_with_more(state);
        }
        let first = state.first.take();
        drop(state);
        if let Some(first) = first {
            wake::one(first);
        }
    }

    #[inline(never)]
    fn end_with_more(self: &Arc<Self>, mut state: LockGuard<'_, State>) {
        let first = state.first.take();
        let afterwards = state.afterwards.take();
        drop(state);
        let Afterwards {
            woken,
            retime,
            alarm,
        } = afterwards.unwrap_or_default();
        drop(alarm);
        wake::all(first.into_iter().chain(woken));
        if let Some(call) = retime {
            self.retime(call);
        }
    }

    /// Has the line woken for `call`, unless that has changed meanwhile. The lock must not be held: an alarm may go off
    /// at once.
    fn retime(self: &Arc<Self>, call: Call) {
        self.state.lock().retimers += 1;
        let at = Timestamp::from_nanos(call.at_ns);
        let alarm = self.clock.alarm(at, Waker::from(Arc::clone(self)));
        let mut state = self.state.lock();
        state.retimers -= 1;
        let unwanted = match state.call {
            Some(current) if current.number == call.number => state.alarm.replace(alarm),
            _ => Some(alarm),
        };
        drop(state);
        drop(unwanted);
    }
}

/// Called when the next in line is due: wakes it, and should it not look, those behind it, one after the other.
impl Wake for Line {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now_ns = self.clock.now().as_nanos();
        let mut state = self.state.lock();
        let alarm = state.alarm.take();
        let Some(Call { index, at_ns, .. }) = state.call.take() else {
            drop(state);
            return;
        };
        let is_early = now_ns < at_ns;
        // Nobody rings later, if it rings before it is set: then whoever is next has to look until it is due.
        let is_at_once = state.retimers > 0;
        let then = match is_early {
            true => Some((index, at_ns)).filter(|_| !is_at_once),
            false => {
                state.rung = Some((index, at_ns));
                let then_ns = now_ns.saturating_add(PATIENCE_NS);
                state.after(index).map(|then| (then, then_ns))
            }
        };
        let then = then.map(|(index, at_ns)| state.call(index, at_ns));
        let waker = state.queue.waker(index);
        drop(state);
        drop(alarm);
        if let Some(waker) = waker.filter(|_| !is_early || is_at_once) {
            wake::one(waker);
        }
        if let Some(then) = then {
            self.retime(then);
        }
    }
}

impl State {
    /// Serves some, and says whether there may be more.
    fn serve(&mut self, board: &Board, supply: &dyn Supply, now_ns: u64, me: Option<u32>) -> bool {
        if self.changes > 0 {
            return false;
        }
        self.turn_round(now_ns);
        for _ in 0..BATCH {
            let Some(next) = self.next() else {
                self.stand_down();
                self.announce(supply);
                return false;
            };
            match self.decide(supply, next, now_ns, me) {
                Decision::Now(answer) => {
                    if let Answer::Granted { at_ns, .. } = answer {
                        self.changed(at_ns);
                    }
                    let waker = match self.number_to_show(next, answer) {
                        Some(number) if me != Some(next) => {
                            self.forget_call_of(next);
                            board.show(number, self.queue.has_told());
                            self.queue.remove(next)
                        }
                        _ => self.tell(next, answer),
                    };
                    if me != Some(next) {
                        self.wake(waker);
                    }
                    if self.is_blocked() && !supply.has_more() {
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

    /// By which number `next` knows this answer, if it needs no more than that.
    ///
    /// Nobody is to look after a time when that has been told.
    fn number_to_show(&self, next: u32, answer: Answer) -> Option<u64> {
        let is_granted = matches!(answer, Answer::Granted { .. });
        let is_timeless = self.service_ns == NEVER_NS && !self.queue.has_receipts();
        if is_granted && is_timeless && !self.is_lifo {
            self.queue.number_that_says_all(next)
        } else {
            None
        }
    }

    /// Whether the next in line waits for what no clock tells, as the one before it did.
    fn is_blocked(&self) -> bool {
        self.service_ns == NEVER_NS && !self.tells_time() && !self.queue.is_empty()
    }

    /// Has `next` woken when it can be granted, which is at `due_ns`.
    #[inline(never)]
    fn wait_for(
        &mut self,
        due_ns: u64,
        supply: &dyn Supply,
        next: u32,
        now_ns: u64,
        me: Option<u32>,
    ) {
        if due_ns != self.due_ns {
            let wait_ns = due_ns.saturating_sub(now_ns);
            self.lead_ns = self.lateness_ns.min(wait_ns / MOST_AWAKE);
        }
        self.due_ns = due_ns;
        self.service_ns = due_ns
            .min(self.queue.request(next).deadline_ns)
            .min(self.turning_ns());
        if due_ns <= now_ns {
            // Its own affair, and not the poller's.
            self.call = None;
            if self.called.replace(next) != Some(next) {
                let waker = self.queue.waker(next);
                self.wake(waker);
            }
            return;
        }
        self.called = None;
        if self.service_ns == NEVER_NS {
            // No clock tells when.
            self.call = None;
            self.retime(None);
            return;
        }
        let call_ns = self.call_ns(supply.clock());
        let is_called = (self.call).is_some_and(|call| (call.index, call.at_ns) == (next, call_ns));
        if is_called && self.alarm.is_some() {
            return;
        }
        let call = self.call(next, call_ns);
        // The poller, if it is next and this close, waits awake.
        if me != Some(next) || call_ns > now_ns {
            self.retime(Some(call));
        }
    }

    /// Has `index` woken at `at_ns`, and nobody else.
    fn call(&mut self, index: u32, at_ns: u64) -> Call {
        self.calls += 1;
        let call = Call {
            index,
            at_ns,
            number: self.calls,
        };
        self.call = Some(call);
        call
    }

    /// Nobody is next, and nobody has to be woken.
    fn stand_down(&mut self) {
        self.due_ns = NEVER_NS;
        self.service_ns = NEVER_NS;
        self.held_by = None;
        self.call = None;
        self.retime(None);
        if let Some(alarm) = self.alarm.take() {
            self.afterwards().alarm = Some(alarm);
        }
    }

    /// Takes `index` out of the line and leaves it word.
    fn tell(&mut self, index: u32, answer: Answer) -> Option<Waker> {
        self.forget_call_of(index);
        self.queue.tell(index, answer)
    }

    /// Takes away the entry of `index`, which has been told something; and whether others have to see to those in line.
    pub(super) fn collect(&mut self, index: u32) -> (Answer, bool) {
        (self.queue.collect(index), self.is_untimed())
    }

    /// Takes `index` out of the line, which has been told nothing; whether others have to see to those in line.
    pub(super) fn leave(&mut self, index: u32, now_ns: u64) -> (Option<Waker>, bool) {
        let was_next = self.next() == Some(index);
        if was_next && self.queue.waiters() > 1 {
            // Only now can the one behind it go.
            self.changed(now_ns);
        }
        let was_called = self.forget_call_of(index);
        let is_untimed = self.is_untimed();
        let waker = self.queue.remove(index);
        (waker, was_next || was_called || is_untimed)
    }

    /// Whether somebody has to ask for an alarm: perhaps the one who leaves was woken to do it.
    fn is_untimed(&self) -> bool {
        self.service_ns != NEVER_NS && self.call.is_none()
    }

    fn forget_call_of(&mut self, index: u32) -> bool {
        if self.called == Some(index) {
            self.called = None;
        }
        let is_called = self.call.is_some_and(|call| call.index == index);
        if is_called {
            self.call = None;
        }
        is_called
    }

    /// Who is next.
    pub(super) fn next(&self) -> Option<u32> {
        if self.is_lifo {
            self.queue.newest()
        } else {
            self.queue.oldest()
        }
    }

    /// Who is next after `index`.
    fn after(&self, index: u32) -> Option<u32> {
        if self.is_lifo {
            self.queue.ahead(index)
        } else {
            self.queue.behind(index)
        }
    }

    /// Turns the line round if it is time.
    fn turn_round(&mut self, now_ns: u64) {
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
    fn turning_ns(&self) -> u64 {
        match self.settings.order {
            Order::AdaptiveLifo { after } if self.queue.waiters() > 1 && !self.is_lifo => {
                let after_ns = u64::try_from(after.as_nanos()).unwrap_or(NEVER_NS);
                self.busy_since_ns
                    .saturating_add(after_ns)
                    .saturating_add(1)
            }
            _ => NEVER_NS,
        }
    }

    fn decide(&mut self, supply: &dyn Supply, next: u32, now_ns: u64, me: Option<u32>) -> Decision {
        let request = self.queue.request(next);
        let is_own_affair = request.spacing == Spacing::AtLeast;
        let mut at_ns = self.floor_ns.max(request.since_ns);
        if is_own_affair {
            at_ns = at_ns.max(now_ns);
        }
        // A clock may have run backward, and others may have read it after the caller did: what it has told is past.
        let now_ns = now_ns.max(at_ns);
        if at_ns > request.deadline_ns {
            let denied = match self.held_by {
                Some(_) => self.not_yet(now_ns),
                None if !supply.is_timed() => Denied::busy(),
                // Nobody has been asked yet, so that it is the time alone that it missed.
                None => Denied::later(1, 1),
            };
            return Decision::Now(Answer::Refused(denied));
        }
        let mut held_by = None;
        while at_ns <= now_ns {
            let at = Timestamp::from_nanos(at_ns);
            let answer = if is_own_affair && me != Some(next) {
                match supply.peek(at, request.units) {
                    Ok(()) => return Decision::At(at_ns, None),
                    Err(denied) => Err(denied),
                }
            } else {
                supply.drain(at, request.units, self.queue.units())
            };
            let denied = match answer {
                Ok(receipt) => {
                    if let Some(receipt) = receipt {
                        self.queue.keep(next, receipt);
                    }
                    let units = request.units;
                    return Decision::Now(Answer::Granted { at_ns, units });
                }
                Err(denied) => denied,
            };
            held_by = Some(denied);
            match denied.retry_after() {
                Some(wait) => {
                    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
                    let Some(later_ns) = at_ns.checked_add(wait_ns.max(1)) else {
                        return Decision::Now(Answer::Refused(Denied::too_late()));
                    };
                    at_ns = later_ns;
                }
                None if denied.is_busy() && now_ns < request.deadline_ns => {
                    return Decision::At(NEVER_NS, Some(denied));
                }
                None => return Decision::Now(Answer::Refused(denied)),
            }
            if at_ns > request.deadline_ns {
                // By how much its patience is too short.
                let wait_ns = at_ns - request.deadline_ns.max(now_ns).min(at_ns - 1);
                return Decision::Now(Answer::Refused(denied.for_ns(wait_ns)));
            }
        }
        Decision::At(at_ns, held_by)
    }

    /// When the next in line has to be woken so as to be there when it is due.
    fn call_ns(&self, clock: &Clock) -> u64 {
        match self.settings.precision {
            _ if !clock.is_real() => self.service_ns,
            Precision::Coarse => self
                .service_ns
                .checked_next_multiple_of(COARSE_GRAIN_NS)
                .unwrap_or(self.service_ns),
            Precision::Normal => self.service_ns.saturating_sub(self.lead_ns),
            Precision::Strict => self.service_ns.saturating_sub(STRICT_LEAD_NS),
        }
    }

    /// Learns from `index`, who looks at `now_ns`, how late it was woken, if it was.
    pub(super) fn learn(&mut self, index: u32, now_ns: u64) {
        let Some((_, call_ns)) = self.rung.take_if(|(rung, _)| *rung == index) else {
            return;
        };
        self.lateness_ns = if now_ns.saturating_sub(call_ns) > self.lateness_ns {
            (self.lateness_ns + 3 * LATENESS_STEP_NS).min(MOST_LATENESS_NS)
        } else {
            self.lateness_ns.saturating_sub(LATENESS_STEP_NS)
        };
    }

    /// If `index` is next, and due so soon that it had better wait awake: until when.
    pub(super) fn awake_until_ns(&self, index: u32, now_ns: u64) -> Option<u64> {
        let lead_ns = match self.settings.precision {
            Precision::Coarse => 0,
            Precision::Normal => self.lead_ns + NORMAL_LEAD_NS,
            Precision::Strict => STRICT_LEAD_NS,
        };
        if self.changes > 0 {
            return None;
        }
        let is_soon = self.due_ns.saturating_sub(now_ns) <= lead_ns;
        (is_soon && self.next() == Some(index)).then_some(self.due_ns)
    }

    /// Whether there is something to be done for the line: somebody in it can be served, or the next one has to ask
    /// for an alarm, because the last one has gone off too early.
    pub(super) fn needs_service(&self, now_ns: u64) -> bool {
        self.service_ns <= now_ns || self.is_untimed()
    }

    /// Whether somebody who comes last changes nothing for those in line.
    pub(super) fn is_behind(&self, index: u32) -> bool {
        self.settings.order == Order::Fifo && self.queue.oldest() != Some(index)
    }

    /// The rules have changed: whoever is next by the new ones is to be woken by them.
    pub(super) fn reorder(&mut self, supply: &dyn Supply, now_ns: u64) {
        self.is_lifo = false;
        if !supply.has_dates() {
            // Nobody knows since when.
            self.busy_since_ns = now_ns;
        }
        self.untime();
    }

    /// The next one is to ask for an alarm again.
    pub(super) fn untime(&mut self) {
        self.call = None;
    }

    /// Whether who is served depends on the time, though what they get does not.
    pub(super) fn tells_time(&self) -> bool {
        matches!(self.settings.order, Order::AdaptiveLifo { .. }) || self.queue.needs_time()
    }

    /// Serves nobody from now on.
    pub(super) fn freeze(&mut self) {
        self.changes += 1;
    }

    /// Undoes one [`freeze`](Self::freeze).
    pub(super) fn thaw(&mut self) {
        self.changes -= 1;
    }

    /// Something has become possible at `now_ns` that was not before.
    pub(super) fn changed(&mut self, now_ns: u64) {
        // Not written for nothing, as others read what is beside it.
        if now_ns > self.floor_ns {
            self.floor_ns = now_ns;
        }
    }

    /// Lets somebody stand in line.
    pub(super) fn enter(
        &mut self,
        supply: &dyn Supply,
        now_ns: u64,
        request: Request,
        waker: &Waker,
    ) -> Option<Ticket> {
        let is_first = self.queue.is_empty();
        let ticket = self.queue.enter(request, waker.clone())?;
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
    pub(super) fn may_stay(
        &mut self,
        supply: &dyn Supply,
        index: u32,
        now_ns: u64,
    ) -> Result<(), Denied> {
        let Request {
            units, deadline_ns, ..
        } = self.queue.request(index);
        let is_last = self.next() != Some(index) || self.queue.waiters() == 1;
        let ahead = if is_last {
            self.queue.units() - u128::from(units)
        } else {
            0
        };
        let now = Timestamp::from_nanos(now_ns);
        let denied = supply.delay(now, ahead, units).err();
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
        let is_over = |queue: &Queue| queue.waiters() > max_waiters || is_more(queue.units());
        if matches!(settings.order, Order::Lifo) && !is_more(units.into()) {
            // The oldest go, as far as that helps.
            while is_over(&self.queue) {
                let Some(oldest) = self.queue.oldest().filter(|&oldest| oldest != index) else {
                    break;
                };
                let refused = Answer::Refused(Denied::queue_full(None));
                let waker = self.tell(oldest, refused);
                self.wake(waker);
            }
        }
        if is_over(&self.queue) {
            return Err(Denied::queue_full(wait));
        }
        Ok(())
    }

    /// After a change of what a token is and what can ever be granted: who asked for a token asks for one still, and
    /// who asks for too much is refused.
    pub(super) fn restate(&mut self, supply: &dyn Supply, now_ns: u64) {
        let (now, token) = (Timestamp::from_nanos(now_ns), supply.token());
        let mut seen = self.queue.oldest();
        while let Some(index) = seen {
            seen = self.queue.behind(index);
            if self.queue.request(index).is_token {
                self.queue.ask(index, token);
            }
            let asked = supply.peek(now, self.queue.request(index).units);
            if let Some(denied) = asked.err().filter(Denied::is_never) {
                let waker = self.tell(index, Answer::Refused(denied));
                self.wake(waker);
            }
        }
    }

    /// How long a newcomer would have to wait for those in line; none if nobody is.
    pub(super) fn behind_all(
        &self,
        supply: &dyn Supply,
        now_ns: u64,
        units: u64,
    ) -> Option<Denied> {
        if self.queue.is_empty() {
            return None;
        }
        let now = Timestamp::from_nanos(now_ns);
        let denied = supply.behind(now, self.queue.units(), units).err();
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

    /// What there is to say before the next in line has been served.
    pub(super) fn not_yet(&self, now_ns: u64) -> Denied {
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

    /// Refuses everybody, now and for ever.
    pub(super) fn close(&mut self, supply: &dyn Supply) {
        self.is_closed = true;
        while let Some(oldest) = self.queue.oldest() {
            let waker = self.tell(oldest, Answer::Refused(Denied::closed()));
            self.wake(waker);
        }
        self.announce(supply);
        self.stand_down();
    }

    /// Says on the room's door whether somebody waits, and whether newcomers may enter.
    pub(super) fn announce(&self, supply: &dyn Supply) {
        let is_waiting = !self.queue.is_empty();
        let is_held = self.is_closed || is_waiting && self.settings.order != Order::Barging;
        supply.room().announce(supply, is_waiting, is_held);
    }
}

/// What is left to be done when the lock has been let go.
impl State {
    fn wake(&mut self, waker: Option<Waker>) {
        if self.first.is_none() {
            self.first = waker;
        } else {
            self.afterwards().woken.extend(waker);
        }
    }

    fn retime(&mut self, call: Option<Call>) {
        if call.is_some() || self.afterwards.is_some() {
            self.afterwards().retime = call;
        }
    }

    fn afterwards(&mut self) -> &mut Afterwards {
        self.afterwards.get_or_insert_default()
    }
}

enum Decision {
    Now(Answer),
    /// Not yet, and, if it was asked, why.
    At(u64, Option<Denied>),
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    /// What is learnt from wake-ups that are late by these, over and over.
    fn learnt(late_ns: &[u64]) -> u64 {
        let line = Line::new(&Clock::from(&ManualClock::new()));
        let mut state = line.lock();
        for &late_ns in late_ns.iter().cycle().take(2_000) {
            state.rung = Some((7, 1_000_000));
            state.learn(6, 9_000_000); // Somebody else, who was not woken.
            state.learn(7, 1_000_000 + late_ns);
            state.learn(7, 9_000_000); // Not woken again meanwhile.
        }
        state.lateness_ns
    }

    /// The lock, and with it what every turn writes; then what is only read.
    #[cfg(all(target_pointer_width = "64", feature = "std", not(flowgate_tsan)))]
    #[test]
    fn what_every_turn_writes_is_one_cache_line() {
        use core::mem::offset_of;
        assert_eq!((align_of::<Line>(), offset_of!(Line, state)), (64, 0));
        let lock = size_of::<Lock<State>>() - size_of::<State>();
        assert_eq!(lock + offset_of!(State, queue) + Queue::WRITTEN_BYTES, 64);
        assert_eq!(offset_of!(Line, board) % 64, 0);
    }

    #[test]
    fn three_of_four_wake_ups_are_in_time() {
        let near = |value: u64, expected: u64| value.abs_diff(expected) <= 3 * LATENESS_STEP_NS;
        assert_eq!(learnt(&[0]), 0);
        assert!(near(learnt(&[40_000]), 40_000));
        let between = learnt(&[10_000, 20_000, 30_000, 80_000]);
        assert!((28_000..82_000).contains(&between), "{between}");
        assert_eq!(learnt(&[5_000_000]), MOST_LATENESS_NS);
    }
}
