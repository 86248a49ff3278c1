//! Limiters by their names, as a user types them.

use std::sync::Arc;

use flowgate::{
    ApproximateWindow, Clock, FixedWindow, LeakyBucket, Limiter, Quota, QuotaError,
    SegmentedWindow, SlidingWindow, TokenBucket,
};

/// The names that [`limiter_named`] knows.
///
/// # Examples
///
/// ```
/// use flowgate::{Clock, Quota};
/// use flowgate_load::{LIMITERS, limiter_named};
///
/// for name in LIMITERS {
///     let limiter = limiter_named(name, Quota::per_second(2), Clock::system())?;
///     assert!(limiter.is_some_and(|limiter| limiter.try_acquire().is_ok()), "{name}");
/// }
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub const LIMITERS: [&str; 6] = [
    "token",
    "leaky",
    "sliding",
    "segmented",
    "fixed",
    "approximate",
];

/// The limiter of this name; none if no limiter has it. It begins full.
///
/// ```
/// use flowgate::{Clock, Quota};
///
/// let limiter = flowgate_load::limiter_named("sliding", Quota::per_second(2), Clock::system())?;
/// let limiter = limiter.expect("there is one");
/// assert!(limiter.try_acquire_n(2).is_ok() && limiter.try_acquire().is_err());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Errors
///
/// If it cannot have this quota: a window has no burst, for one.
pub fn limiter_named(
    name: &str,
    quota: Quota,
    clock: impl Into<Clock>,
) -> Result<Option<Arc<dyn Limiter>>, QuotaError> {
    let clock = clock.into();
    Ok(Some(match name {
        "token" => Arc::new(TokenBucket::builder(quota).clock(clock).build()?),
        "leaky" => Arc::new(LeakyBucket::builder(quota).clock(clock).build()?),
        "sliding" => Arc::new(SlidingWindow::builder(quota).clock(clock).build()?),
        "segmented" => Arc::new(SegmentedWindow::builder(quota).clock(clock).build()?),
        "fixed" => Arc::new(FixedWindow::builder(quota).clock(clock).build()?),
        "approximate" => Arc::new(ApproximateWindow::builder(quota).clock(clock).build()?),
        _ => return Ok(None),
    }))
}

/// What to type for a limiter with this rate, in words: each of [`LIMITERS`].
///
/// ```
/// let text = flowgate_load::limiters_with("5/min");
/// assert!(text.starts_with("'token 5/min', 'leaky 5/min', "));
/// assert!(text.ends_with(" or 'approximate 5/min'"));
/// ```
pub fn limiters_with(rate: &str) -> String {
    let [others @ .., last] = LIMITERS.map(|name| format!("'{name} {rate}'"));
    format!("{} or {last}", others.join(", "))
}
