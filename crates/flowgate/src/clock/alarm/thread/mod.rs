mod forked;

use super::sleep::{Sleeper, now_ns};
use super::timetable::{Key, Timetable};
use super::{Alarm, Entry, wake};
use crate::primitive::Lock;
pub(super) use forked::timer;
use std::io;
use std::process;
use std::sync::Arc;
use std::task::Waker;
use std::thread;
use std::vec::Vec;

/// Alarms in real time, rung by one thread, "flowgate-timer", that is there while it is needed.
///
/// It sleeps until the earliest time in the table. Whoever enters an earlier one sets the sleeper to it, from their
/// own thread; the sleeping one need not be woken for that. An entry that is removed leaves the sleeper as it is: to
/// wake for nothing is cheaper than to set it anew.
///
/// **No alarm is missed.** The table, `armed_ns` and the sleeper change under one lock. While it is free and the
/// thread sleeps, the sleeper is set to `armed_ns`, which is at most the earliest time in the table. While the thread
/// is awake, `armed_ns` is 0 or past, and nobody need set anything: before it sleeps, the thread looks at the table.
/// So an alarm that is entered before that look is seen; one that is entered after it finds the sleeper set for
/// later, and sets it.
///
/// **Nobody is left without a thread.** The thread decides to end under the same lock, with the table empty, by taking
/// `sleeper` away. Whoever comes later finds none and starts another, with a sleeper of its own; for a moment there are
/// two threads, one of which touches nothing any more.
#[derive(Debug)]
pub(super) struct Timer {
    state: Lock<State>,
    /// How long the thread stays without an alarm being asked for.
    idle_ns: u64,
    start: Start,
}

/// Starts a thread that does nothing but [`Timer::run`], and says what it sleeps on.
type Start = fn(&'static Timer) -> io::Result<Arc<Sleeper>>;

/// Where an alarm is in a timer's table, and in that of which process.
#[derive(Debug)]
pub(super) struct Booking {
    timer: &'static Timer,
    key: Key,
    process: u32,
}

#[derive(Debug)]
struct State {
    table: Timetable,
    /// What the thread sleeps on; none: there is no thread, or it is about to end.
    sleeper: Option<Arc<Sleeper>>,
    /// What the sleeper is set to; 0 while the thread is awake.
    armed_ns: u64,
}

impl Timer {
    const fn new(idle_ns: u64, start: Start) -> Self {
        Self {
            state: Lock::new(State {
                table: Timetable::new(),
                sleeper: None,
                armed_ns: 0,
            }),
            idle_ns,
            start,
        }
    }

    /// Has `waker` woken after `wait_ns`; at once if the system grants no thread.
    pub(super) fn after(&'static self, wait_ns: u64, waker: Waker) -> Alarm {
        // Beyond 584 years it saturates: nobody will be there to miss it.
        let at_ns = now_ns().saturating_add(wait_ns);
        let mut state = self.state.lock();
        let key = state.table.insert(at_ns, waker);
        if state.sleeper.is_some() || self.start(&mut state).is_ok() {
            state.arm(at_ns);
            return Alarm(Entry::Thread(Booking {
                timer: self,
                key,
                process: process::id(),
            }));
        }
        let waker = state.table.remove(key);
        drop(state);
        waker.map_or(Alarm::NOWHERE, Alarm::at_once)
    }

    /// Under the lock, so that two who find no thread do not start two.
    fn start(&'static self, state: &mut State) -> io::Result<()> {
        state.sleeper = Some((self.start)(self)?);
        state.armed_ns = 0;
        Ok(())
    }

    /// What the thread does.
    fn run(&'static self, sleeper: &Sleeper) {
        let mut due = Vec::new();
        // When the last alarm was asked for, as far as the thread has seen.
        let (mut entered, mut quiet_since_ns) = (0, now_ns());
        loop {
            let mut state = self.state.lock();
            state.armed_ns = 0;
            let now_ns = now_ns();
            while let Some(waker) = state.table.pop_due(now_ns) {
                due.push(waker);
            }
            if !due.is_empty() {
                drop(state);
                wake::all(due.drain(..));
                continue;
            }
            let until_ns = match state.table.earliest_ns() {
                // Not longer at a stretch: the alarm may be taken back meanwhile, and then the thread is to end.
                Some(at_ns) => at_ns.min(now_ns.saturating_add(self.idle_ns)),
                None => {
                    if entered != state.table.entered() {
                        (entered, quiet_since_ns) = (state.table.entered(), now_ns);
                    }
                    let end_ns = quiet_since_ns.saturating_add(self.idle_ns);
                    if end_ns <= now_ns {
                        state.sleeper = None;
                        return;
                    }
                    end_ns
                }
            };
            state.armed_ns = until_ns;
            sleeper.arm(until_ns);
            drop(state);
            sleeper.sleep();
        }
    }
}

impl Booking {
    pub(super) fn is_of_this_process(&self) -> bool {
        self.process == process::id()
    }

    /// What was to be woken, unless it has been. In a forked process, the copy of the table is left alone: its lock may have
    /// been held when it was copied.
    pub(super) fn take_back(&self) -> Option<Waker> {
        match self.is_of_this_process() {
            true => self.timer.state.lock().table.remove(self.key),
            false => None,
        }
    }
}

impl State {
    fn arm(&mut self, at_ns: u64) {
        if at_ns < self.armed_ns
            && let Some(sleeper) = &self.sleeper
        {
            self.armed_ns = at_ns;
            sleeper.arm(at_ns);
        }
    }
}

fn start(timer: &'static Timer) -> io::Result<Arc<Sleeper>> {
    start_with(timer, Sleeper::new())
}

fn start_with(timer: &'static Timer, sleeper: Sleeper) -> io::Result<Arc<Sleeper>> {
    let sleeper = Arc::new(sleeper);
    let theirs = Arc::clone(&sleeper);
    thread::Builder::new()
        .name("flowgate-timer".into())
        .spawn(move || timer.run(&theirs))?;
    Ok(sleeper)
}

#[cfg(test)]
mod tests;
