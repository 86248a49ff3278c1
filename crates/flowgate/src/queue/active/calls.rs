//! The alarms of a queue: the next waiter is woken shortly before it can be granted.

use super::{ActiveQueue, NEVER_NS, State};
use crate::clock::alarm::{Alarm, wake};
use crate::clock::{Clock, Timestamp};
use crate::queue::Supply;
use crate::queue::settings::Precision;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;

/// How long the next waiter has to look after itself and the waiters behind it. After that, another waiter is woken to do it.
const PATIENCE_NS: u64 = 1_000_000;

/// How long a waiter may take to look for a grant that only it can take. Long, because the waiters behind overtake it then;
/// but not forever, because it may have been forgotten.
const ABSENCE_NS: u64 = 1_000_000_000;

/// How long before the instant a strict wait stops sleeping, so that it is never late.
const STRICT_LEAD_NS: u64 = 60_000;
/// Less than this is not worth another sleep.
const NORMAL_LEAD_NS: u64 = 2_000;
/// How much earlier than necessary a waiter is woken at most, because wake-ups are late.
const MOST_LATENESS_NS: u64 = 100_000;
/// At most one part in `MOST_AWAKE` of a wait is spent awake.
const MOST_AWAKE: u64 = 4;
/// How much one wake-up changes the estimate for the next. Steps up are three times as long as steps down. The estimate
/// therefore settles where three of four wake-ups are below it.
const LATENESS_STEP_NS: u64 = 500;
const COARSE_GRAIN_NS: u64 = 1_000_000;

/// An alarm that is about to be set, outside the lock.
#[derive(Debug)]
pub(super) struct Retiming {
    call: Call,
    /// The alarm that was set before, and is no longer wanted.
    last: Option<Alarm>,
}

/// Which waiter is woken when, if none has been served by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    index: u32,
    at_ns: u64,
    /// The number of the call. An alarm belongs to one call, and is not taken for another one at the same time. That call's
    /// alarm may have gone off since, and if the clock has run backward, that time comes again.
    number: u64,
    /// Whether an alarm went off while the alarm of this call was being set. It may have been that one, and then no other one
    /// comes.
    is_in_doubt: bool,
}

impl ActiveQueue {
    /// Has the queue woken for the call, unless that has changed meanwhile. The caller must not hold the lock: an alarm may go
    /// off immediately.
    pub(super) fn retime(self: &Arc<Self>, Retiming { call, last }: Retiming) {
        let at = Timestamp::from_nanos(call.at_ns);
        let waker = || Waker::from(Arc::clone(self));
        let alarm = match last {
            Some(last) => self.clock.move_alarm(last, at, waker),
            None => self.clock.alarm(at, waker()),
        };
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

/// Runs when the next waiter can be granted. Wakes it and, if it does not look, the ones behind it, one after the other.
impl Wake for ActiveQueue {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now_ns = self.clock.now().as_nanos();
        let mut state = self.state.lock();
        let Some(call) = state.call.take() else {
            let alarm = state.alarm.take();
            drop(state);
            drop(alarm);
            return;
        };
        let Call { index, at_ns, .. } = call;
        let is_early = now_ns < at_ns;
        if is_early && state.retimers > 0 {
            // It may be the one that is being set, as a clock without alarms rings immediately: then no alarm rings later,
            // and the next waiter has to look until it is due. Or it is an old one.
            state.call = Some(Call {
                is_in_doubt: true,
                ..call
            });
            let waker = state.waiters.waker(index);
            drop(state);
            wake::all(waker);
            return;
        }
        let then = match is_early {
            true => Some((index, at_ns)),
            false => {
                state.rung = Some((index, at_ns));
                let then_ns = now_ns.saturating_add(PATIENCE_NS);
                state.after(index).map(|then| (then, then_ns))
            }
        };
        let then = then.map(|(index, at_ns)| state.call(index, at_ns));
        let waker = state.waiters.waker(index);
        let (retiming, alarm) = match then {
            Some(then) => (Some(state.prepare(then)), None),
            None => (None, state.alarm.take()),
        };
        drop(state);
        drop(alarm);
        if let Some(waker) = waker.filter(|_| !is_early) {
            wake::one(waker);
        }
        if let Some(retiming) = retiming {
            self.retime(retiming);
        }
    }
}

impl State {
    /// Prepares to have an alarm set for `call`, which the caller does after it has released the lock.
    pub(super) fn prepare(&mut self, call: Call) -> Retiming {
        self.retimers += 1;
        Retiming {
            call,
            last: self.alarm.take(),
        }
    }

    /// Has `next` woken when it can be granted, which is at `due_ns`.
    #[inline(never)]
    pub(super) fn wait_for(
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
            .min(self.waiters.request(next).deadline_ns)
            .min(self.turning_ns());
        if due_ns <= now_ns {
            // The waiter has to come itself; the poller cannot take this grant for it.
            self.wait_for_itself(next, now_ns);
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
        if self.has_called(next, call_ns) {
            return;
        }
        let call = self.call(next, call_ns);
        // The poller, if it is next and this close, waits awake.
        if me != Some(next) || call_ns > now_ns {
            self.retime(Some(call));
        }
    }

    /// Has `next` woken to take its grant itself, and those behind it when it has not done so by then.
    fn wait_for_itself(&mut self, next: u32, now_ns: u64) {
        let since_ns = match self.called {
            Some((called, since_ns)) if called == next => since_ns,
            _ => {
                self.called = Some((next, now_ns));
                let waker = self.waiters.waker(next);
                self.wake(waker);
                now_ns
            }
        };
        let Some(behind) = self.after(next) else {
            self.call = None;
            return;
        };
        let call_ns = since_ns.saturating_add(ABSENCE_NS);
        if !self.has_called(behind, call_ns) {
            let call = self.call(behind, call_ns);
            self.retime(Some(call));
        }
    }

    /// Whether an alarm is set for `index` at `at_ns`.
    fn has_called(&self, index: u32, at_ns: u64) -> bool {
        let is_called = (self.call)
            .is_some_and(|call| (call.index, call.at_ns) == (index, at_ns) && !call.is_in_doubt);
        is_called && self.alarm.is_some() && self.is_timed_here()
    }

    /// Whether `next` was woken to take its grant itself, and has not done so for a long time.
    pub(super) fn is_absent(&self, next: u32, now_ns: u64) -> bool {
        self.called.is_some_and(|(called, since_ns)| {
            called == next && now_ns.saturating_sub(since_ns) >= ABSENCE_NS
        })
    }

    /// Has `index`, and no other waiter, woken at `at_ns`.
    pub(super) fn call(&mut self, index: u32, at_ns: u64) -> Call {
        self.calls += 1;
        let call = Call {
            index,
            at_ns,
            number: self.calls,
            is_in_doubt: false,
        };
        self.call = Some(call);
        call
    }

    /// Whether a new alarm has to be set: perhaps the waiter that leaves was woken to do it.
    pub(super) fn is_untimed(&self) -> bool {
        self.service_ns != NEVER_NS && self.call.is_none_or(|call| call.is_in_doubt)
    }

    pub(super) fn forget_call_of(&mut self, index: u32) -> bool {
        if self.called.is_some_and(|(called, _)| called == index) {
            self.called = None;
        }
        let is_called = self.call.is_some_and(|call| call.index == index);
        if is_called {
            self.call = None;
        }
        is_called
    }

    /// When the next in the queue has to be woken so as to be there when it is due.
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

    /// Updates the estimate of the lateness when `index` looks at `now_ns`, if it had been woken.
    pub(in crate::queue) fn learn(&mut self, index: u32, now_ns: u64) {
        let Some((_, call_ns)) = self.rung.take_if(|(rung, _)| *rung == index) else {
            return;
        };
        self.lateness_ns = if now_ns.saturating_sub(call_ns) > self.lateness_ns {
            (self.lateness_ns + 3 * LATENESS_STEP_NS).min(MOST_LATENESS_NS)
        } else {
            self.lateness_ns.saturating_sub(LATENESS_STEP_NS)
        };
    }

    /// Returns until when `index` waits awake: only if it is next, and can be granted very soon.
    pub(in crate::queue) fn awake_until_ns(&self, index: u32, now_ns: u64) -> Option<u64> {
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

    /// Whether the queue has to be served: a waiter can be served, or a new alarm has to be set.
    ///
    /// A new alarm is necessary if the last one went off too early, or was set in a process from which this one was forked.
    pub(in crate::queue) fn needs_service(&self, now_ns: u64) -> bool {
        self.service_ns <= now_ns || self.is_untimed() || !self.is_timed_here()
    }

    /// Whether the alarm, if there is one, goes off in this process.
    fn is_timed_here(&self) -> bool {
        let alarm = self.alarm.as_ref();
        alarm.is_none_or(Alarm::is_of_this_process)
    }

    /// Has the next caller set the alarm again.
    pub(in crate::queue) fn untime(&mut self) {
        self.call = None;
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    /// Returns the lateness that is learned if wake-ups are late by these times, over and over.
    fn learnt(late_ns: &[u64]) -> u64 {
        let active = ActiveQueue::new(&Clock::from(&ManualClock::new()), None);
        let mut state = active.lock();
        for &late_ns in late_ns.iter().cycle().take(2_000) {
            state.rung = Some((7, 1_000_000));
            state.learn(6, 9_000_000); // Somebody else, who was not woken.
            state.learn(7, 1_000_000 + late_ns);
            state.learn(7, 9_000_000); // Not woken again meanwhile.
        }
        state.lateness_ns
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
