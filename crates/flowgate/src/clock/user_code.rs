//! Calling code of the user's, which may panic, where a panic would leave something half done.

/// Calls `act`; none if it panicked, which the panic hook has reported.
#[cfg(feature = "std")]
pub(crate) fn survive<T>(act: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(core::panic::AssertUnwindSafe(act)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping what it was thrown with might panic in turn.
            core::mem::forget(payload);
            None
        }
    }
}

/// Without `std`, a panic is not ours to catch.
#[cfg(not(feature = "std"))]
pub(crate) fn survive<T>(act: impl FnOnce() -> T) -> Option<T> {
    Some(act())
}
