//! Waking others, who may be anybody's code.

use core::task::Waker;

/// Wakes all of them, even if some panic: those do not matter to whoever wakes.
pub(crate) fn all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        one(waker);
    }
}

/// Wakes it, even if it panics.
#[cfg(feature = "std")]
pub(crate) fn one(waker: Waker) {
    let woken = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| waker.wake()));
    if let Err(payload) = woken {
        // It has been reported by the panic hook. Dropping what it was thrown with might panic in turn.
        core::mem::forget(payload);
    }
}

/// Without `std`, a panic is not ours to catch.
#[cfg(not(feature = "std"))]
pub(crate) fn one(waker: Waker) {
    waker.wake();
}
