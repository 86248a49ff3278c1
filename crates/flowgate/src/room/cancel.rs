use crate::alarm::wake;
use crate::primitive::Lock;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;

/// Ends waits from outside: those of threads that are [blocked](crate::Acquire::block), which nobody could drop.
///
/// Clones are handles on the same thing. Once cancelled it stays so.
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
    /// Whom to wake, by the number of the wait.
    wakers: BTreeMap<u64, Waker>,
    waits: u64,
}

impl Default for CancelHandle {
    fn default() -> Self {
        Self(Arc::new(Lock::new(State::default())))
    }
}

impl CancelHandle {
    /// A handle that has cancelled nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every wait that was given this handle, and every later one at once. Those waits answer
    /// [`Denied::is_cancelled`](crate::Denied::is_cancelled), unless they were granted before.
    pub fn cancel(&self) {
        let wakers = {
            let mut state = self.0.lock();
            state.is_cancelled = true;
            core::mem::take(&mut state.wakers)
        };
        wake::all(wakers.into_values());
    }

    /// Whether [`cancel`](Self::cancel) has been called.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().is_cancelled
    }
}

/// The interest of one wait in a [`CancelHandle`].
#[derive(Debug)]
pub(super) struct Watch {
    handle: CancelHandle,
    wait: u64,
}

impl Watch {
    pub(super) fn new(handle: &CancelHandle) -> Self {
        let mut state = handle.0.lock();
        state.waits += 1;
        Self {
            handle: handle.clone(),
            wait: state.waits,
        }
    }

    /// Whether it is over; otherwise `waker` is woken when it is.
    pub(super) fn is_cancelled(&self, waker: &Waker) -> bool {
        let mut state = self.handle.0.lock();
        if state.is_cancelled {
            return true;
        }
        let known = state.wakers.get(&self.wait);
        if known.is_none_or(|known| !known.will_wake(waker)) {
            let old = state.wakers.insert(self.wait, waker.clone());
            drop(state);
            drop(old);
        }
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let waker = self.handle.0.lock().wakers.remove(&self.wait);
        drop(waker);
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}
