//! Wakers of operations that wait for a limiter: one for each slot, made once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The slots of operations that were woken, and a waker for each slot.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    wakers: Vec<Waker>,
    woken: Arc<Woken>,
}

#[derive(Debug, Default)]
struct Woken {
    /// Whether there are any: read for each event, so that the mutex is not locked in vain.
    are_any: AtomicBool,
    slots: Mutex<Vec<u32>>,
}

#[derive(Debug)]
struct WakeUp {
    slot: u32,
    woken: Arc<Woken>,
}

impl Wakers {
    /// The waker of the operation in `slot`. It may also wake the next operation in that slot, which is polled in vain.
    pub(super) fn of(&mut self, slot: u32) -> &Waker {
        for slot in self.wakers.len() as u32..=slot {
            let woken = Arc::clone(&self.woken);
            self.wakers
                .push(Waker::from(Arc::new(WakeUp { slot, woken })));
        }
        &self.wakers[slot as usize]
    }

    /// Returns whether there are slots that were woken.
    pub(super) fn are_any_woken(&self) -> bool {
        self.woken.are_any.load(Ordering::Acquire)
    }

    /// Moves the slots that were woken into `slots`, which is empty, in order. Returns whether there are any.
    pub(super) fn take(&self, slots: &mut Vec<u32>) -> bool {
        if !self.are_any_woken() {
            return false;
        }
        let mut woken = self.woken.lock();
        std::mem::swap(&mut *woken, slots);
        self.woken.are_any.store(false, Ordering::Release);
        !slots.is_empty()
    }
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for WakeUp {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut slots = self.woken.lock();
        slots.push(self.slot);
        self.woken.are_any.store(true, Ordering::Release);
    }
}
