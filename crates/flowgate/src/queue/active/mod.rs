//! The state behind a queue's lock: the waiters, and when the next of them can be granted.
//!
//! [`State`] is one type in three files, so that the limiter is used in one place, and the clock's alarms in another:
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the state, its order, leaving, and work after unlocking |
//! | `serving` | every question to the limiter: on entering, to serve, after a change of quota |
//! | `calls` | every alarm of the clock: which waiter is woken when |

mod calls;
mod serving;

use self::calls::Call;
use super::codel::Shedding;
use super::served::Served;
use super::settings::{Order, Settings};
use super::waiters::{Answer, Progress, Ticket, Waiters};
use super::{StandBack, Supply};
use crate::clock::Clock;
use crate::clock::alarm::{Alarm, wake};
use crate::primitive::{Lock, LockGuard};
use crate::verdict::Denied;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

/// The time is not known.
const NEVER_NS: u64 = u64::MAX;

/// The waiters of one limiter. The timer holds a reference to it, and wakes the waiters through it.
///
/// The order of the fields in memory matters, here and in [`State`]. Every grant writes to two cache lines, which the threads
/// that work on a queue have to fetch from each other. The first holds the lock and what it guards. The second holds what is
/// read without the lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ActiveQueue {
    state: Lock<State>,
    pub(super) served: Served,
    pub(super) clock: Clock,
    pub(super) stand_back: Option<StandBack>,
}

/// First what every grant writes, then what it reads, last what only grants with a timestamp need.
#[derive(Debug)]
#[repr(C)]
pub(super) struct State {
    /// The first waker to call after the lock is released: mostly the only one.
    first: Option<Waker>,
    pub(super) waiters: Waiters,
    /// The number of changes in flight. While there are any, no waiter is served.
    changes: u32,
    pub(super) is_closed: bool,
    /// Whether the newest waiter is next. The caller that served last decided this, so that all callers agree, whatever their
    /// clocks read.
    is_lifo: bool,
    /// No grant has an earlier timestamp than this: that of the last grant, or of a change that made more possible.
    floor_ns: u64,
    /// When the next waiter can be granted, if nothing else happens.
    due_ns: u64,
    /// When the queue has to be served: at `due_ns`, when the order turns, or at the deadline of the next waiter, which may
    /// not look itself. 0 after a waiter was [struck out](ActiveQueue::strike_out).
    service_ns: u64,
    /// The waiter that was woken for a grant that only it can take, and the time of the wake-up.
    called: Option<(u32, u64)>,
    call: Option<Call>,
    afterwards: Option<Afterwards>,
    pub(super) settings: Settings,
    /// Boxed, because most queues have none.
    pub(super) shedding: Option<Box<Shedding>>,
    /// The last refusal of the next waiter.
    held_by: Option<Denied>,
    /// The time since which there have been waiters.
    busy_since_ns: u64,
    alarm: Option<Alarm>,
    /// The waiter that the clock woke and that has not looked since; the time for which the alarm was set.
    rung: Option<(u32, u64)>,
    /// The lateness that three of four woken waiters stay below. The timer and the waiter's runtime take that long to start.
    lateness_ns: u64,
    /// How much earlier the next waiter is woken: `lateness_ns`, but at most a part of its wait.
    lead_ns: u64,
    /// The number of threads that are about to set an alarm, which may go off before it is set.
    retimers: u32,
    /// The number of calls so far.
    calls: u64,
    /// The waiters that have been cancelled and are to be taken out of the queue.
    cancelled: Vec<Ticket>,
}

/// What the holder of the lock does after releasing it, besides calling the first waker.
#[derive(Debug, Default)]
struct Afterwards {
    /// The other wakers to call.
    woken: Vec<Waker>,
    /// The alarm to set, if the time of the next wake-up has changed.
    retime: Option<Call>,
    /// An alarm that is no longer needed.
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
                shedding: None,
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

    /// Locks the state. A caller that serves or refuses a waiter has to release the lock with [`end`](Self::end).
    pub(super) fn lock(&self) -> LockGuard<'_, State> {
        self.state.lock()
    }

    /// Takes the [cancelled](State::note_cancelled) waiters out of the queue. If the queue has to be served by now, they stay
    /// until the waiters that can be granted have been served: a cancelled one may be among them.
    ///
    /// The caller does not have the limiter, so it cannot serve. It calls one of the waiters to do it.
    pub(super) fn strike_out(self: &Arc<Self>) {
        let now_ns = self.clock.now().as_nanos();
        let mut state = self.lock();
        if state.service_ns > now_ns && state.strike_out(now_ns) {
            state.call_to_serve(now_ns);
        }
        self.end(state);
    }

    /// Releases the lock, and does what was left to be done then.
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
        let Afterwards {
            woken,
            retime,
            alarm,
        } = state.afterwards.take().unwrap_or_default();
        let retime = retime.map(|call| state.prepare(call));
        drop(state);
        drop(alarm);
        wake::all(first.into_iter().chain(woken));
        if let Some(retiming) = retime {
            self.retime(retiming);
        }
    }
}

impl State {
    /// Takes `index` out of the queue and leaves an answer for it.
    fn tell(&mut self, index: u32, answer: Answer) -> Option<Waker> {
        self.forget_call_of(index);
        self.waiters.tell(index, answer)
    }

    /// Removes the entry of `index`, which has an answer. Returns the answer, and whether the queue has to be served.
    pub(super) fn collect(&mut self, index: u32) -> (Answer, bool) {
        (self.waiters.collect(index), self.is_untimed())
    }

    /// Takes `index`, which has no answer, out of the queue. Returns its waker, and whether the queue has to be served.
    pub(super) fn leave(&mut self, index: u32, now_ns: u64) -> (Option<Waker>, bool) {
        let is_to_serve = self.step_out(index, now_ns);
        (self.waiters.remove(index), is_to_serve)
    }

    /// Prepares to take `index`, which has no answer, out of the queue. Returns whether the queue has to be served.
    fn step_out(&mut self, index: u32, now_ns: u64) -> bool {
        let was_next = self.next() == Some(index);
        if was_next && self.waiters.waiters() > 1 {
            // Only now can the one behind it go.
            self.changed(now_ns);
        }
        let was_called = self.forget_call_of(index);
        was_next || was_called || self.is_untimed()
    }

    /// Notes that the waiter with `ticket` is to be taken out of the queue, and refused as cancelled.
    pub(super) fn note_cancelled(&mut self, ticket: Ticket) {
        self.cancelled.push(ticket);
    }

    /// Takes the cancelled waiters out of the queue. Returns whether the queue has to be served for those that are left.
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

    /// Has the next caller that looks serve the queue, and calls the next waiter to look.
    fn call_to_serve(&mut self, now_ns: u64) {
        self.service_ns = 0;
        if let Some(next) = self.next() {
            let call = self.call(next, now_ns);
            self.retime(Some(call));
        }
    }

    /// Stops serving waiters.
    pub(super) fn freeze(&mut self) {
        self.changes += 1;
    }

    /// Undoes one [`freeze`](Self::freeze).
    pub(super) fn thaw(&mut self) {
        self.changes -= 1;
    }

    /// Notes that something has become possible at `now_ns` that was not possible before.
    pub(super) fn changed(&mut self, now_ns: u64) {
        // Not written for nothing, as others read what is beside it.
        if now_ns > self.floor_ns {
            self.floor_ns = now_ns;
        }
    }

    /// Refuses all waiters and all later requests, forever.
    pub(super) fn close(&mut self, supply: &dyn Supply) {
        self.is_closed = true;
        while let Some(oldest) = self.waiters.oldest() {
            let waker = self.tell(oldest, Answer::Refused(Denied::closed()));
            self.wake(waker);
        }
        self.announce(supply);
        self.stand_down();
    }

    /// Notes that there is no next waiter, and that no waiter has to be woken.
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

    /// Sets the queue's flags: whether there are waiters, and whether new requests have to ask the queue.
    pub(super) fn announce(&self, supply: &dyn Supply) {
        let is_waiting = !self.waiters.is_empty();
        let is_held = self.is_closed || is_waiting && self.settings.order != Order::Barging;
        supply.queue().announce(supply, is_waiting, is_held);
    }
}

/// The order in which waiters are served.
impl State {
    /// Returns the next waiter.
    pub(super) fn next(&self) -> Option<u32> {
        if self.is_lifo {
            self.waiters.newest()
        } else {
            self.waiters.oldest()
        }
    }

    /// Returns the waiter after `index`.
    fn after(&self, index: u32) -> Option<u32> {
        if self.is_lifo {
            self.waiters.ahead(index)
        } else {
            self.waiters.behind(index)
        }
    }

    /// Reverses the order if it is time.
    fn turn_round(&mut self, now_ns: u64) {
        let is_lifo = match self.settings.order {
            Order::Fifo | Order::Barging => false,
            Order::Lifo => true,
            Order::AdaptiveLifo { .. } => self.is_lifo || self.has_turned(now_ns),
        };
        // Not written for nothing, as others read what is beside it.
        if is_lifo != self.is_lifo {
            self.is_lifo = is_lifo;
        }
    }

    /// Whether the order is reversed at `now_ns`. No grant of the new order has a timestamp from before.
    #[cold]
    fn has_turned(&mut self, now_ns: u64) -> bool {
        let turning_ns = self.turning_ns();
        let has_turned = now_ns >= turning_ns;
        if has_turned {
            self.changed(turning_ns);
        }
        has_turned
    }

    /// Returns when the order is reversed, if it ever is and there is more than one waiter.
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

    /// Whether the time decides which waiters are served, though not what they get.
    pub(super) fn tells_time(&self) -> bool {
        matches!(self.settings.order, Order::AdaptiveLifo { .. })
            || self.shedding.is_some()
            || self.waiters.needs_time()
    }

    /// Whether the arrival of `index`, the last one, changes nothing for the other waiters.
    pub(super) fn is_behind(&self, index: u32) -> bool {
        self.settings.order == Order::Fifo && self.waiters.oldest() != Some(index)
    }

    /// Notes that the settings have changed: the next waiter by the new ones is to be woken by them.
    pub(super) fn reorder(&mut self, supply: &dyn Supply, now_ns: u64) {
        self.is_lifo = false;
        if !supply.facts().wants_dates {
            // It is not known since when there have been waiters.
            self.busy_since_ns = now_ns;
        }
        self.untime();
    }
}

/// Work that is left until the lock has been released.
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

    /// One line holds the lock and what every grant writes; the next one holds what is only read.
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
