//! Where callers wait that were not admitted immediately.
//!
//! A queue is mechanism: it knows no algorithm. It asks the limiter ([`Supply`]) whether the next waiter can be granted at a
//! time, and if not, when. Threads and tasks wait in the same queue.
//!
//! # How a turn comes
//!
//! Limiters are plain borrowed values, so nothing in the background can touch one. The timer only wakes. Any caller that comes
//! to the queue (a waiter that is polled, a new caller, a caller that gives back or changes the quota) serves *all* waiters
//! whose time has come, in order, under the queue's lock. The timestamp of a grant is the earliest time at which the limiter
//! allows it (not before its waiter came, nor before the grant before it). That may lie somewhat in the past: so the timestamps
//! are those of an ideal queue, however late a waiter wakes up.
//!
//! ```text
//!   limiter ──▶ Queue: flags ── 0: nobody waits; a newcomer sees that with one load, and passes
//!                 │
//!                 ╰─ ActiveQueue (made when somebody first waits)        timer
//!                      lock: Waiters, due, alarm  ◀── wakes ───────────╯
//!                              │                    the next in the queue; who, should it not look within a
//!                              ▼                    millisecond, is followed by the one behind it
//!                      wakers, outside the lock
//! ```
//!
//! # Newcomers
//!
//! The flag `HOLD` is raised before the first in the queue asks the limiter, and lowered after the last has left. A call that
//! begins while it is up does not overtake; one that began before, and is still on its way, is as good as over.
//!
//! # Those who make more possible
//!
//! They change the limiter first and then look at the flags, while the first in the queue raises `WAITING` first and then
//! asks the limiter. Both touch the flags by read-modify-write, of which one comes first: either the one sees the
//! flag, or the other sees the change. No wake-up is lost.
//!
//! If somebody is in the queue already, those who are due are served first, and then nobody until the change is through: its
//! first half is not to be seen by somebody whose turn is dated before it ([`change`]).
//!
//! # One question before a wait
//!
//! A caller that finds nobody in the queue asks the limiter, and enters the queue when it is refused. What others have made
//! possible between the question and the raised flag has woken nobody, so a first waiter would have to ask again. But
//! every [`change`] is counted in the word of the flags, by the same read-modify-write that looks at them. If none has been
//! counted since before the question, the refusal still holds: the waiter is called when the refusal said, and nobody asks
//! before. A limit of permits does not count what is given back, and says whether there is anything
//! ([`Facts::has_more`]).
//!
//! A key has a queue only while somebody waits for it. Whoever makes that queue announces it in the key's entry, sees by the same
//! swap whether the refusal still holds, and counts changes from then on ([`Opened::refusal`]).
//!
//! # How a turn is learnt
//!
//! Whoever is served is woken, and looks. If it was granted just what it asked for, and no date goes with that, there
//! is nothing left for it in the queue: its place has been vacated, and its number is on the queue's [`served`], which is
//! read without the lock. So such a turn takes the lock twice, to enter and to serve, and those who are woken do not
//! wait for each other. Whoever has to be told something keeps its place until it has heard it; and while there is
//! anybody who has not, all look into the queue.
//!
//! # Who is taken out of the queue by others
//!
//! A handle that is cancelled has no limiter, so it cannot serve. It takes the wait out of the queue, and calls the next one
//! to serve. If somebody is due already, it leaves a note instead: whoever serves those who are due takes the wait out
//! then, unless it was one of them.
//!
//! A waiter with [`Spacing::AtLeast`] takes its turn itself. If it has not done so a second after it was woken, whoever
//! serves passes it over: it is told so, and enters anew when it looks.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `flags` | every decision; who makes more possible | whoever changes the queue; changes, to be counted | the queue's lock for the two flags |
//! | `active` | every waiter | whoever waits first | made once |
//! | `ActiveQueue::served` | whoever has been woken | whoever serves | the queue's lock for writing |
//! | `ActiveQueue::state` | the same, and the timer | the same | its lock; the limiter's own locks come after it |

mod acquire;
mod active;
mod cancel;
mod change;
mod deadline;
#[cfg(all(test, flowgate_loom))]
mod model;
#[cfg(all(feature = "std", not(flowgate_loom)))]
mod park;
#[cfg(all(test, flowgate_shuttle))]
pub(crate) mod schedules;
mod served;
mod settings;
mod supply;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;
mod ticks;
mod turn;
mod wait_queue;
mod waiters;

pub use acquire::{Acquirable, Acquire, Grant};
pub use cancel::CancelHandle;
pub use deadline::Deadline;
#[cfg(all(feature = "std", not(flowgate_loom)))]
pub(crate) use park::block_on;
pub use settings::{Order, Precision, Spacing};
pub use supply::Receipt;
pub(crate) use supply::{Asker, Event, Facts, Granted, Grantee, Opened, StandBack, Supply};
pub use ticks::Ticks;
pub(crate) use turn::Turn;
pub use wait_queue::WaitQueue;

use change::Change;

use crate::clock::Timestamp;
use crate::primitive::{AtomicU64, Lazy, Ordering, const_unless_loom};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::any::Any;

/// [`Queue::pass`] at a limiter of the type `S`, once a waiter has made a queue there.
pub(crate) fn stand_back<S: Supply + 'static>(
    limiter: &dyn Any,
    now_ns: u64,
    units: Option<u64>,
) -> Result<(), Denied> {
    match limiter.downcast_ref::<S>() {
        Some(supply) => supply.queue().stand_back(supply, now_ns, units),
        None => unreachable!("a queue belongs to one limiter"),
    }
}

/// See the module.
#[derive(Debug)]
pub struct Queue {
    /// ```text
    ///   63                        2      1         0
    ///  ├── the number of changes ──┼─ HOLD ─┼─ WAITING ─┤
    /// ```
    flags: AtomicU64,
    active: Lazy<Arc<active::ActiveQueue>>,
}

/// Somebody waits: who makes more possible has to have them served.
pub(crate) const WAITING: u64 = 1;
/// Newcomers may not pass: somebody waits whom they would overtake, or all is closed.
pub(crate) const HOLD: u64 = 2;
/// One [change](Queue::change) that is through, whether anybody waits or not.
const CHANGED: u64 = 4;
/// How long those whose turn has come are given to look, in nanoseconds.
const SERVICE_NS: u64 = 1_000_000;

/// How often something has been changed at a limiter: a refusal from before a change need not hold after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changes(u64);

impl Changes {
    const NONE: Self = Self(0);
}

impl Queue {
    const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self {
                flags: AtomicU64::new(0),
                active: Lazy::new(),
            }
        }
    }

    /// Lets a newcomer pass who wants `units` (none: a token), or says why not. What is called then is found through the queue
    /// that the first waiter made: a program in which no caller waits has no code for it.
    #[inline(always)]
    pub(crate) fn pass_limiter(
        &self,
        limiter: &dyn Any,
        now_ns: u64,
        units: Option<u64>,
    ) -> Result<(), Denied> {
        if self.is_held() {
            return self.stand_back_at(limiter, now_ns, units);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn stand_back_at(
        &self,
        limiter: &dyn Any,
        now_ns: u64,
        units: Option<u64>,
    ) -> Result<(), Denied> {
        // Whoever raised the flag had made the queue.
        match self.active.get().and_then(|active| active.stand_back) {
            Some(stand_back) => stand_back(limiter, now_ns, units),
            None => unreachable!("the limiter, or what wraps it, names its type"),
        }
    }

    /// [`pass_limiter`](Self::pass_limiter) for a limiter that is known as a supply.
    #[inline(always)]
    pub(crate) fn pass(
        &self,
        supply: &dyn Supply,
        now_ns: u64,
        units: Option<u64>,
    ) -> Result<(), Denied> {
        if self.is_held() {
            return self.stand_back(supply, now_ns, units);
        }
        Ok(())
    }

    /// [`pass`](Self::pass), for a caller that holds locks: those whose turn has come are not served, as that would wake them.
    pub(crate) fn stay_behind(
        &self,
        supply: &dyn Supply,
        now: Timestamp,
        units: u64,
    ) -> Result<(), Denied> {
        if !self.is_held() {
            return Ok(());
        }
        let state = self.active(supply).lock();
        if state.is_closed {
            return Err(Denied::closed());
        }
        let now_ns = now.as_nanos();
        match state.behind_all(supply, now_ns, units) {
            None => Ok(()),
            // They serve themselves when they look.
            Some(denied) if state.needs_service(now_ns) => Err(denied.for_ns(SERVICE_NS)),
            Some(denied) => Err(denied),
        }
    }

    /// Whether newcomers have to ask before they enter.
    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        self.flags.load(Ordering::Acquire) & HOLD != 0
    }

    /// How many changes are through.
    fn changes(&self) -> Changes {
        // Acquires what a change releases.
        Changes(self.flags.load(Ordering::Acquire) / CHANGED)
    }

    /// Whether a newcomer at `now_ns` finds others in the queue, once those who are due have been served.
    #[cold]
    #[inline(never)]
    fn stand_back(
        &self,
        supply: &dyn Supply,
        now_ns: u64,
        units: Option<u64>,
    ) -> Result<(), Denied> {
        let units = units.unwrap_or_else(|| supply.facts().token);
        let active = self.active(supply);
        let state = active.serve(active.lock(), supply, now_ns, None);
        let answer = if units == 0 {
            Ok(())
        } else if state.is_closed {
            Err(Denied::closed())
        } else {
            state.behind_all(supply, now_ns, units).map_or(Ok(()), Err)
        };
        active.end(state);
        answer
    }

    /// To be held while something is done that may help those in the queue: a refund, a release. What is due before comes
    /// before it, and what it makes possible after it. None of the limiter's locks may be held at either end.
    pub(crate) fn change<'a>(&'a self, supply: &'a dyn Supply) -> Change<'a> {
        Change::begin(self, supply, false)
    }

    /// [`change`](Self::change) for another quota or limit: who asks for more than can ever be granted by that is
    /// refused, wherever in the queue.
    pub(crate) fn reconfigure<'a>(&'a self, supply: &'a dyn Supply) -> Change<'a> {
        Change::begin(self, supply, true)
    }

    /// After something has become possible now for those in the queue, whose turns are not dated by the time.
    #[cold]
    pub(crate) fn serve_changed(&self, supply: &dyn Supply) {
        let active = self.active(supply);
        let mut state = active.lock();
        let now_ns = match supply.facts().wants_dates || state.tells_time() {
            true => supply.clock().now().as_nanos(),
            false => 0,
        };
        state.changed(now_ns);
        let state = active.serve(state, supply, now_ns, None);
        active.end(state);
    }

    /// [`serve_changed`](Self::serve_changed), counted as a [change](Self::change).
    #[cold]
    pub(crate) fn serve_counted(&self, supply: &dyn Supply) {
        self.flags.fetch_add(CHANGED, Ordering::AcqRel);
        self.serve_changed(supply);
    }

    fn active(&self, supply: &dyn Supply) -> &Arc<active::ActiveQueue> {
        self.active
            .get_or_make(|| active::ActiveQueue::new(supply.clock(), supply.stand_back()))
    }

    /// Called by the holder of the queue's lock.
    fn announce(&self, supply: &dyn Supply, is_waiting: bool, is_held: bool) {
        let mut flags = 0;
        if is_waiting {
            flags |= WAITING;
        }
        if is_held {
            flags |= HOLD;
        }
        // Nobody else writes these two.
        let turned = (self.flags.load(Ordering::Relaxed) ^ flags) & (WAITING | HOLD);
        // A read-modify-write, whether it changes anything or not; see the module.
        self.flags.fetch_xor(turned, Ordering::AcqRel);
        if turned != 0 {
            supply.note(Event::Flags(flags));
        }
    }
}
