//! Waking wakers, which may run any code.

use crate::clock::user_code::survive;
use core::task::Waker;

/// Wakes all of them, even if some panic: their panics do not matter to the thread that wakes them.
pub(crate) fn all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        one(waker);
    }
}

/// Wakes it, even if it panics.
pub(crate) fn one(waker: Waker) {
    survive(|| waker.wake());
}
