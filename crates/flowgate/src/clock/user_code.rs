//! Calls of user code that may panic, at places where a panic would leave an operation half done.

/// Calls `act`; returns `None` if it panicked, which the panic hook has reported.
#[cfg(feature = "std")]
pub(crate) fn survive<T>(act: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(core::panic::AssertUnwindSafe(act)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping the panic's payload might panic, too.
            core::mem::forget(payload);
            None
        }
    }
}

/// Without `std`, this crate cannot catch a panic.
#[cfg(not(feature = "std"))]
pub(crate) fn survive<T>(act: impl FnOnce() -> T) -> Option<T> {
    Some(act())
}
