//! The queue of callers that were not admitted immediately.
//!
//! A queue contains no rate-limiting algorithm. It asks the limiter ([`Supply`]) whether the next waiter can be granted at a
//! time, and if not, when. Threads and tasks wait in the same queue.
//!
//! # How a waiter is granted
//!
//! Limiters are plain borrowed values, so no background thread can use one. The timer only wakes waiters.
//!
//! Every caller that comes to the queue serves it: a waiter that is polled, a new caller, or a caller that returns units or
//! changes the quota. Under the queue's lock, it grants in order *all* waiters whose scheduled time has come.
//!
//! The timestamp of a grant is the earliest time at which the limiter allows it. It is not before the waiter came, nor before
//! the previous grant. It may lie somewhat in the past. The timestamps are therefore those of an ideal queue, however late a
//! waiter wakes up.
//!
//! ```text
//!   limiter ──▶ Queue: flags ── 0: no waiters; a new caller sees that with one load, and passes
//!                 │
//!                 ╰─ ActiveQueue (made by the first waiter)              timer
//!                      lock: Waiters, due, alarm  ◀── wakes ───────────╯
//!                              │                    the next waiter; if that does not look within a
//!                              ▼                    millisecond, the one behind it
//!                      wakers, outside the lock
//! ```
//!
//! # New callers
//!
//! The flag `HOLD` is raised before the first waiter asks the limiter, and lowered after the last one has left. A call that
//! begins while the flag is raised does not overtake. A call that began before counts as finished, even if it is still
//! running.
//!
//! # Calls that make more possible
//!
//! Refunds, releases and changes of the quota change the limiter first and then look at the flags. The first waiter raises
//! `WAITING` first and then asks the limiter. Both access the flags by read-modify-write, and one of the two comes first.
//! Either the change sees the flag, or the waiter sees the change. No wake-up is lost.
//!
//! If there are waiters already, those that can be granted are served first. Then none is served until the change is
//! complete: a waiter whose grant has an earlier timestamp must not see the first half of the change ([`change`]).
//!
//! # One question before a wait
//!
//! A caller that finds no waiters asks the limiter, and enters the queue when it is refused. Other callers may make more
//! possible between that question and the raised flag, and they wake no waiter. So the first waiter would have to ask again.
//!
//! To avoid that, every [`change`] is counted in the word of the flags, by the same read-modify-write that looks at them. If
//! none has been counted since before the question, the refusal still holds: the waiter is called at the time that the
//! refusal states, and the limiter is not asked before. A concurrency limit does not count returned permits; it reports
//! whether there are any ([`Facts::has_more`]).
//!
//! A key has a queue only while at least one caller waits for that key. The caller that makes the queue announces it in the
//! key's entry, and sees by the same swap whether the refusal still holds. From then on, the queue counts changes
//! ([`Opened::refusal`]).
//!
//! # How a waiter learns of its grant
//!
//! A waiter that has been served is woken, and looks. If it was granted exactly what it asked for, and needs no timestamp,
//! nothing is left for it in the queue. Its place has been vacated, and its number is in the queue's [`served`], which is
//! read without the lock. Such a wait takes the lock twice, to enter and to serve, and woken waiters do not wait for each
//! other.
//!
//! A waiter that has to be told more keeps its place until it has read its answer. While any answer is unread, all waiters
//! look into the queue.
//!
//! # Waiters that others take out of the queue
//!
//! A cancel handle has no limiter, so it cannot serve. It takes the waiter out of the queue, and calls the next one to serve.
//! If a waiter can be granted already, the handle leaves a note instead. The caller that serves the queue then takes the
//! cancelled waiter out, unless it was granted.
//!
//! A waiter with [`Spacing::AtLeast`] takes its grant itself. If it has not done so one second after it was woken, the caller
//! that serves passes it over. The waiter learns that when it looks, and enters again.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `flags` | every decision; every change | callers that change the queue; counted changes | the queue's lock for the two flags |
//! | `active` | every waiter | the first waiter | made once |
//! | `ActiveQueue::served` | every woken waiter | the caller that serves | the queue's lock for writing |
//! | `ActiveQueue::state` | the same, and the timer | the same | its lock; the limiter's own locks come after it |

mod acquire;
mod active;
mod cancel;
mod change;
mod codel;
mod deadline;
mod grant;
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

pub use acquire::{Acquirable, Acquire};
pub use cancel::CancelHandle;
pub use codel::Codel;
pub use deadline::Deadline;
pub use grant::Grant;
#[cfg(all(feature = "std", not(flowgate_loom)))]
pub(crate) use park::block_on;
pub use settings::{Order, Precision, Spacing};
pub use supply::Receipt;
pub(crate) use supply::{Asker, Event, Facts, Grantee, Opened, StandBack, Supply, own_queue};
pub use ticks::Ticks;
pub(crate) use turn::Turn;
pub use wait_queue::WaitQueue;

use change::Change;

use crate::clock::Timestamp;
use crate::primitive::{AtomicU64, Lazy, Ordering, const_unless_loom};
use crate::verdict::{Denied, Verdict};
use alloc::sync::Arc;
use core::any::Any;

/// [`Queue::pass`] at a limiter of the type `S`, once a waiter has made a queue there.
pub(crate) fn stand_back<S: Supply + 'static>(
    limiter: &dyn Any,
    now_ns: u64,
    units: Option<u64>,
) -> Verdict {
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

/// Set while there are waiters: a caller that makes more possible has to serve them.
pub(crate) const WAITING: u64 = 1;
/// Set while new requests may not pass: they would overtake a waiter, or the limiter is closed.
pub(crate) const HOLD: u64 = 2;
/// One completed [change](Queue::change), whether there are waiters or not.
const CHANGED: u64 = 4;
/// How long waiters that can be granted are given to look, in nanoseconds.
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

    /// Lets a new request for `units` (`None`: one token) pass, or returns why not. It reaches the limiter through the queue
    /// that the first waiter made. A program in which no caller waits therefore has no code for it.
    #[inline(always)]
    pub(crate) fn pass_limiter(
        &self,
        limiter: &dyn Any,
        now_ns: u64,
        units: Option<u64>,
    ) -> Verdict {
        if self.is_held() {
            return self.stand_back_at(limiter, now_ns, units);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn stand_back_at(&self, limiter: &dyn Any, now_ns: u64, units: Option<u64>) -> Verdict {
        // The caller that raised the flag had made the queue.
        match self.active.get().and_then(|active| active.stand_back) {
            Some(stand_back) => stand_back(limiter, now_ns, units),
            None => unreachable!("the limiter, or what wraps it, names its type"),
        }
    }

    /// [`pass_limiter`](Self::pass_limiter) for a limiter that is known as a supply.
    #[inline(always)]
    pub(crate) fn pass(&self, supply: &dyn Supply, now_ns: u64, units: Option<u64>) -> Verdict {
        if self.is_held() {
            return self.stand_back(supply, now_ns, units);
        }
        Ok(())
    }

    /// [`pass`](Self::pass), for a caller that holds locks. It does not serve waiters, because that would wake them.
    pub(crate) fn stay_behind(&self, supply: &dyn Supply, now: Timestamp, units: u64) -> Verdict {
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
            // These waiters serve themselves when they look.
            Some(denied) if state.needs_service(now_ns) => Err(denied.for_ns(SERVICE_NS)),
            Some(denied) => Err(denied),
        }
    }

    /// Whether new requests have to ask the queue before they enter.
    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        self.flags.load(Ordering::Acquire) & HOLD != 0
    }

    /// Returns the number of waiters.
    pub(crate) fn waiters(&self) -> usize {
        let waiters = |active: &Arc<active::ActiveQueue>| active.lock().waiters.waiters() as usize;
        self.active.get().map_or(0, waiters)
    }

    /// Returns the number of completed changes.
    fn changes(&self) -> Changes {
        // Acquires what a change releases.
        Changes(self.flags.load(Ordering::Acquire) / CHANGED)
    }

    /// Serves the waiters that can be granted at `now_ns`, and refuses a new request if others are still ahead of it.
    #[cold]
    #[inline(never)]
    fn stand_back(&self, supply: &dyn Supply, now_ns: u64, units: Option<u64>) -> Verdict {
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

    /// Begins something that may help waiters, such as a refund or a release. The caller holds the result until it is done.
    /// Waiters that can be granted before it are served before it; what it makes possible is granted after it. None of the
    /// limiter's locks may be held at either end.
    pub(crate) fn change<'a>(&'a self, supply: &'a dyn Supply) -> Change<'a> {
        Change::begin(self, supply, false)
    }

    /// [`change`](Self::change) for another quota or limit. It refuses every waiter, wherever in the queue, that asks for
    /// more than can ever be granted by the new one.
    pub(crate) fn reconfigure<'a>(&'a self, supply: &'a dyn Supply) -> Change<'a> {
        Change::begin(self, supply, true)
    }

    /// Serves the waiters after something has become possible now, at limiters whose grants have no timestamps.
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

    /// The caller holds the queue's lock.
    fn announce(&self, supply: &dyn Supply, is_waiting: bool, is_held: bool) {
        let mut flags = 0;
        if is_waiting {
            flags |= WAITING;
        }
        if is_held {
            flags |= HOLD;
        }
        // Only the holder of the lock writes these two.
        let turned = (self.flags.load(Ordering::Relaxed) ^ flags) & (WAITING | HOLD);
        // A read-modify-write, whether it changes anything or not; see the module.
        self.flags.fetch_xor(turned, Ordering::AcqRel);
        if turned != 0 {
            supply.note(Event::Flags(flags));
        }
    }
}
