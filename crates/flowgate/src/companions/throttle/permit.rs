use super::Throttle;
use core::fmt;

/// Request that a [`Throttle`] let through, and whose outcome it waits for.
///
/// | end of the request | counts as |
/// |---|---|
/// | [`accepted`](Self::accepted) | accepted, whatever the response says |
/// | [`overloaded`](Self::overloaded) | refused: the backend was overloaded, or did not respond in time |
/// | dropped | not at all |
///
/// ```
/// use flowgate::{Denied, Throttle};
///
/// fn call(throttle: &Throttle, send: impl FnOnce() -> u16) -> Result<u16, Denied> {
///     let permit = throttle.try_begin()?;
///     let status = send();
///     match status {
///         429 | 503 => permit.overloaded(),
///         _ => permit.accepted(),
///     }
///     Ok(status)
/// }
///
/// let throttle = Throttle::default();
/// assert_eq!(call(&throttle, || 200), Ok(200));
/// ```
#[must_use = "the throttle learns nothing from a request whose outcome is not recorded"]
pub struct ThrottlePermit<'a> {
    throttle: &'a Throttle,
}

impl<'a> ThrottlePermit<'a> {
    pub(super) fn new(throttle: &'a Throttle) -> Self {
        Self { throttle }
    }

    /// Records that the backend accepted the request.
    ///
    /// A response that reports an error of the request, or of the program, is accepted, too: the backend had the capacity.
    pub fn accepted(self) {
        self.throttle.record(true);
    }

    /// Records that the backend refused the request because of overload, or did not respond.
    pub fn overloaded(self) {
        self.throttle.record(false);
    }
}

impl fmt::Debug for ThrottlePermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottlePermit").finish_non_exhaustive()
    }
}
