//! Waking others, who may be anybody's code.

use crate::clock::user_code::survive;
use core::task::Waker;

/// Wakes all of them, even if some panic: those do not matter to whoever wakes.
pub(crate) fn all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        one(waker);
    }
}

/// Wakes it, even if it panics.
pub(crate) fn one(waker: Waker) {
    survive(|| waker.wake());
}
