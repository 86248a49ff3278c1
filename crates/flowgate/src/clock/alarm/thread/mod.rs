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

/// Alarms in real time. One thread, "flowgate-timer", rings them, and exists while it is needed.
///
/// The thread sleeps until the earliest time in the table. A caller that enters an earlier time sets the sleeper to that time,
/// from the caller's thread. The timer thread need not be woken for that. If an entry is removed, the sleeper is left as it is:
/// an unnecessary wake-up costs less than setting the sleeper again.
///
/// **No alarm is missed.** The table, `armed_ns` and the sleeper change under one lock. While the lock is free and the thread
/// sleeps, the sleeper is set to `armed_ns`, which is at most the earliest time in the table. While the thread is awake,
/// `armed_ns` is 0 or in the past, and no caller needs to set the sleeper: before the thread sleeps, it reads the table. So the
/// thread sees an alarm that is entered before it reads the table. A caller that enters an alarm later finds the sleeper set to
/// a later time, and sets it.
///
/// **No alarm is left without a thread.** The thread decides to end under the same lock, with the table empty, by removing
/// `sleeper`. A caller that comes later finds no sleeper, and starts another thread with a new sleeper. For a short time there
/// are two threads, one of which no longer touches the state.
#[derive(Debug)]
pub(super) struct Timer {
    state: Lock<State>,
    /// How long the thread stays while no alarm is requested.
    idle_ns: u64,
    start: Start,
}

/// Starts a thread that only calls [`Timer::run`], and returns its sleeper.
type Start = fn(&'static Timer) -> io::Result<Arc<Sleeper>>;

/// Position of an alarm in a timer's table, and the process of that table.
#[derive(Debug)]
pub(super) struct Booking {
    timer: &'static Timer,
    key: Key,
    process: u32,
}

#[derive(Debug)]
struct State {
    table: Timetable,
    /// What the thread sleeps on; `None`: there is no thread, or it is about to end.
    sleeper: Option<Arc<Sleeper>>,
    /// The time to which the sleeper is set; 0 while the thread is awake.
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

    /// Requests that `waker` is woken after `wait_ns`. Wakes it immediately if the system grants no thread.
    pub(super) fn after(&'static self, wait_ns: u64, waker: Waker) -> Alarm {
        // Saturates beyond 584 years, which no waiter reaches.
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

    /// Called under the lock, so that two callers that find no thread do not start two.
    fn start(&'static self, state: &mut State) -> io::Result<()> {
        state.sleeper = Some((self.start)(self)?);
        state.armed_ns = 0;
        Ok(())
    }

    /// Runs the thread.
    fn run(&'static self, sleeper: &Sleeper) {
        let mut due = Vec::new();
        // When the last alarm was requested, as far as the thread has seen.
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
                // At most `idle_ns` without a break: the alarm may be canceled in between, and then the thread must end.
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

    /// Removes the waker, unless it has been woken. In a forked process, the copy of the table is left alone, because its lock
    /// may have been held at the time of the fork.
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
