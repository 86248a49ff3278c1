//! What is behind a queue's lock: the waiters, and when the next of them is due.
//!
//! [`State`] is one type in three files, so that each of its two neighbors is met in one place:
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | the state, its order, who leaves, and what is done after the lock has been let go |
//! | `serving` | every question to the limiter: on entering, to serve, after a change of quota |
//! | `calls` | every alarm of the clock: who is woken when |

mod calls;
mod serving;

use self::calls::Call;
use super::served::Served;
use super::settings::{Order, Settings};
use super::waiters::{Answer, Progress, Ticket, Waiters};
use super::{StandBack, Supply};
use crate::clock::Clock;
use crate::clock::alarm::{Alarm, wake};
use crate::primitive::{Lock, LockGuard};
use crate::verdict::Denied;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

/// Not known.
const NEVER_NS: u64 = u64::MAX;

/// Those who wait at one limiter. The timer has a share in it, and wakes them through it.
///
/// In this order in memory, and [`State`] in its own: what every turn writes is in two cache lines, which the threads
/// that work on a queue have to fetch from each other; the lock and what it guards in one, and what is read without it
/// in the other.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ActiveQueue {
    state: Lock<State>,
    pub(super) served: Served,
    pub(super) clock: Clock,
    pub(super) stand_back: Option<StandBack>,
}

/// First what every turn writes, then what it reads, last what is only for turns that are dated.
#[derive(Debug)]
#[repr(C)]
pub(super) struct State {
    /// Whom to wake first when the lock has been let go: mostly that is all.
    first: Option<Waker>,
    pub(super) waiters: Waiters,
    /// How many changes are under way, during which nobody is served.
    changes: u32,
    pub(super) is_closed: bool,
    /// Whether who came last is next: as whoever served last found it, and not by everybody's own reading of a clock.
    is_lifo: bool,
    /// No grant is dated before this: the date of the last one, or of a change that made more possible.
    floor_ns: u64,
    /// When the next in the queue can be granted, if nothing else happens.
    due_ns: u64,
    /// When something has to be done for the queue: that, or the deadline of the next one, which may not look itself; 0
    /// after somebody was [struck out](ActiveQueue::strike_out).
    service_ns: u64,
    /// Who has been woken for a turn that only itself can take, and when.
    called: Option<(u32, u64)>,
    call: Option<Call>,
    afterwards: Option<Afterwards>,
    pub(super) settings: Settings,
    /// What the next one was last refused with.
    held_by: Option<Denied>,
    /// Since when there has been somebody in the queue.
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
    /// Who has been cancelled, and is to be taken out of the queue.
    cancelled: Vec<Ticket>,
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

impl ActiveQueue {
    pub(super) fn new(clock: &Clock, stand_back: Option<StandBack>) -> Arc<Self> {
        Arc::new(Self {
            served: Served::new(),
            clock: clock.clone(),
            stand_back,
            state: Lock::new(State {
                first: None,
                waiters: Waiters::new(),
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
                cancelled: Vec::new(),
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

    /// Takes out of the queue whoever has been [cancelled](State::note_cancelled). If somebody is due, that is done after
    /// those who are have been served: it may be one of them.
    ///
    /// Called by somebody who does not have the limiter and so cannot serve: one of those in the queue is called to do it.
    pub(super) fn strike_out(self: &Arc<Self>) {
        let now_ns = self.clock.now().as_nanos();
        let mut state = self.lock();
        if state.service_ns > now_ns && state.strike_out(now_ns) {
            state.call_to_serve(now_ns);
        }
        self.end(state);
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
}

impl State {
    /// Takes `index` out of the queue and leaves it word.
    fn tell(&mut self, index: u32, answer: Answer) -> Option<Waker> {
        self.forget_call_of(index);
        self.waiters.tell(index, answer)
    }

    /// Takes away the entry of `index`, which has been told something; and whether others have to see to those in the queue.
    pub(super) fn collect(&mut self, index: u32) -> (Answer, bool) {
        (self.waiters.collect(index), self.is_untimed())
    }

    /// Takes `index` out of the queue, which has been told nothing; whether others have to see to those in the queue.
    pub(super) fn leave(&mut self, index: u32, now_ns: u64) -> (Option<Waker>, bool) {
        let is_to_serve = self.step_out(index, now_ns);
        (self.waiters.remove(index), is_to_serve)
    }

    /// Before `index`, which has been told nothing, is taken out of the queue: whether others have to see to those in the queue.
    fn step_out(&mut self, index: u32, now_ns: u64) -> bool {
        let was_next = self.next() == Some(index);
        if was_next && self.waiters.waiters() > 1 {
            // Only now can the one behind it go.
            self.changed(now_ns);
        }
        let was_called = self.forget_call_of(index);
        was_next || was_called || self.is_untimed()
    }

    /// Whoever has `ticket` is to be taken out of the queue, and refused as cancelled.
    pub(super) fn note_cancelled(&mut self, ticket: Ticket) {
        self.cancelled.push(ticket);
    }

    /// Takes the cancelled ones out of the queue, and returns whether others have to see to those who are left.
    #[cold]
    fn strike_out(&mut self, now_ns: u64) -> bool {
        let mut is_to_serve = false;
        for ticket in core::mem::take(&mut self.cancelled) {
            if self.waiters.progress(ticket) == Progress::InLine {
                is_to_serve |= self.step_out(ticket.place, now_ns);
                let refused = Answer::Refused(Denied::cancelled());
                let waker = self.waiters.tell(ticket.place, refused);
                self.wake(waker);
            }
        }
        is_to_serve
    }

    /// Whoever looks from now on is to serve those in the queue, and the next of them is called to look.
    fn call_to_serve(&mut self, now_ns: u64) {
        self.service_ns = 0;
        if let Some(next) = self.next() {
            let call = self.call(next, now_ns);
            self.retime(Some(call));
        }
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

    /// Refuses everybody, now and for ever.
    pub(super) fn close(&mut self, supply: &dyn Supply) {
        self.is_closed = true;
        while let Some(oldest) = self.waiters.oldest() {
            let waker = self.tell(oldest, Answer::Refused(Denied::closed()));
            self.wake(waker);
        }
        self.announce(supply);
        self.stand_down();
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

    /// Says on the room's door whether somebody waits, and whether newcomers may enter.
    pub(super) fn announce(&self, supply: &dyn Supply) {
        let is_waiting = !self.waiters.is_empty();
        let is_held = self.is_closed || is_waiting && self.settings.order != Order::Barging;
        supply.queue().announce(supply, is_waiting, is_held);
    }
}

/// In which order they are served.
impl State {
    /// Who is next.
    pub(super) fn next(&self) -> Option<u32> {
        if self.is_lifo {
            self.waiters.newest()
        } else {
            self.waiters.oldest()
        }
    }

    /// Who is next after `index`.
    fn after(&self, index: u32) -> Option<u32> {
        if self.is_lifo {
            self.waiters.ahead(index)
        } else {
            self.waiters.behind(index)
        }
    }

    /// Turns the queue round if it is time.
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
    pub(super) fn tells_time(&self) -> bool {
        matches!(self.settings.order, Order::AdaptiveLifo { .. }) || self.waiters.needs_time()
    }

    /// Whether somebody who comes last changes nothing for those in the queue.
    pub(super) fn is_behind(&self, index: u32) -> bool {
        self.settings.order == Order::Fifo && self.waiters.oldest() != Some(index)
    }

    /// The rules have changed: whoever is next by the new ones is to be woken by them.
    pub(super) fn reorder(&mut self, supply: &dyn Supply, now_ns: u64) {
        self.is_lifo = false;
        if !supply.facts().wants_dates {
            // Nobody knows since when.
            self.busy_since_ns = now_ns;
        }
        self.untime();
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

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    /// The lock, and with it what every turn writes; then what is only read.
    #[cfg(all(target_pointer_width = "64", feature = "std", not(flowgate_tsan)))]
    #[test]
    fn what_every_turn_writes_is_one_cache_line() {
        use core::mem::offset_of;
        assert_eq!(
            (align_of::<ActiveQueue>(), offset_of!(ActiveQueue, state)),
            (64, 0)
        );
        let lock = size_of::<Lock<State>>() - size_of::<State>();
        assert_eq!(
            lock + offset_of!(State, waiters) + Waiters::WRITTEN_BYTES,
            64
        );
        assert_eq!(offset_of!(ActiveQueue, served) % 64, 0);
    }
}
