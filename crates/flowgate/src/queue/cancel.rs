use super::active::ActiveQueue;
use super::waiters::Ticket;
use crate::clock::alarm::wake;
use crate::primitive::Lock;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;

/// A handle that ends waits from outside, even those of blocked threads.
///
/// Dropping a future ends a task's wait. No other thread can drop the wait of a thread that is
/// [blocked](crate::Acquire::block), so give that wait a handle.
///
/// Clones share one state. A cancelled handle stays cancelled.
///
/// ```
/// use flowgate::{CancelHandle, TokenBucket};
///
/// let limiter = TokenBucket::new("1/h burst 1".parse()?);
/// limiter.try_acquire()?;
/// let shutdown = CancelHandle::new();
/// std::thread::scope(|threads| {
///     let blocked = threads.spawn(|| limiter.acquire().cancelled_by(&shutdown).block());
///     shutdown.cancel();
///     assert!(blocked.join().unwrap().unwrap_err().is_cancelled());
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CancelHandle(Arc<Lock<State>>);

#[derive(Default)]
struct State {
    is_cancelled: bool,
    /// The waits, by their numbers.
    waits: BTreeMap<u64, Wait>,
    numbers: u64,
}

/// A wait that is to end when the handle is cancelled.
struct Wait {
    waker: Waker,
    /// Its place in the queue, if it is in one.
    place: Option<(Arc<ActiveQueue>, Ticket)>,
}

impl Default for CancelHandle {
    fn default() -> Self {
        Self(Arc::new(Lock::new(State::default())))
    }
}

impl CancelHandle {
    /// Creates a handle that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every wait that has this handle; later ones end when first polled.
    ///
    /// Those waits return [`Denied::is_cancelled`](crate::Denied::is_cancelled), unless they were granted before.
    ///
    /// The place of such a wait is free for others when this method returns, even if its own thread or task looks later. The
    /// waiters behind it move up.
    pub fn cancel(&self) {
        let waits = {
            let mut state = self.0.lock();
            state.is_cancelled = true;
            core::mem::take(&mut state.waits)
        };
        let places = || waits.values().filter_map(|wait| wait.place.as_ref());
        // All first, so that none of them moves up.
        for (active, ticket) in places() {
            active.lock().note_cancelled(*ticket);
        }
        for (active, _) in places() {
            active.strike_out();
        }
        wake::all(waits.into_values().map(|wait| wait.waker));
    }

    /// Returns whether [`cancel`](Self::cancel) has been called.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().is_cancelled
    }
}

/// The registration of one wait with a [`CancelHandle`].
#[derive(Debug)]
pub(super) struct Watch {
    handle: CancelHandle,
    wait: u64,
}

impl Watch {
    pub(super) fn new(handle: &CancelHandle) -> Self {
        let mut state = handle.0.lock();
        state.numbers += 1;
        Self {
            handle: handle.clone(),
            wait: state.numbers,
        }
    }

    /// Returns whether the handle is cancelled. If not, `waker` is woken when it is.
    pub(super) fn is_cancelled(&self, waker: &Waker) -> bool {
        let mut state = self.handle.0.lock();
        if state.is_cancelled {
            return true;
        }
        let old = match state.waits.get_mut(&self.wait) {
            Some(wait) if wait.waker.will_wake(waker) => None,
            Some(wait) => Some(core::mem::replace(&mut wait.waker, waker.clone())),
            None => {
                let wait = Wait {
                    waker: waker.clone(),
                    place: None,
                };
                state.waits.insert(self.wait, wait);
                None
            }
        };
        drop(state);
        drop(old);
        false
    }

    /// Records the place of the wait in the queue, unless the handle is cancelled. Returns whether it is.
    pub(super) fn stands(&self, active: &Arc<ActiveQueue>, ticket: Ticket) -> bool {
        let mut state = self.handle.0.lock();
        if let Some(wait) = state.waits.get_mut(&self.wait) {
            wait.place = Some((Arc::clone(active), ticket));
        }
        state.is_cancelled
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let wait = self.handle.0.lock().waits.remove(&self.wait);
        drop(wait);
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}
