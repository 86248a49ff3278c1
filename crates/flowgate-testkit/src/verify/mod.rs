//! Verifies a limiter in process: which algorithm does it appear to use, and what does it really admit?
//!
//! [`verify()`] sends the requests of `flowgate verify` to a limiter: over many connections with response times of up
//! to 1 ms, on a clock that only this function moves. [`verify_fn`] does the same with a closure.
//!
//! ```
//! use flowgate::{ManualClock, SlidingWindow};
//! use flowgate_testkit::verify::{Investigation, DetectedKind, verify};
//!
//! let time = ManualClock::new();
//! let limiter = SlidingWindow::builder("20/s".parse()?).clock(&time).build()?;
//! let findings = verify(&limiter, &time, &Investigation::new());
//!
//! assert_eq!(findings.detected.kind, DetectedKind::SlidingLog);
//! assert_eq!(findings.detected.burst.unwrap().value, 20.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod matrix;
pub mod nginx;
pub mod servers;

use core::time::Duration;

use flowgate::{Limiter, ManualClock, Timestamp};
use flowgate_verify::Simulated;
#[doc(no_inline)]
pub use flowgate_verify::{
    Advertised, Alignment, Answer, BlockStart, Budget, Defect, DetectedKind, DetectedLimit,
    Estimate, ExpectedLimit, ExpectedVerdict, Findings, Investigation, ProbeOutcome, Question,
};

/// Maximum response time.
pub const SERVICE: Duration = Duration::from_millis(1);

/// Verifies `limiter`, which uses `clock`.
///
/// Each request is a [`try_acquire`](Limiter::try_acquire). A refusal advertises its
/// [`retry_after`](flowgate::Denied::retry_after). The clock continues from its current time.
pub fn verify(
    limiter: &dyn Limiter,
    clock: &ManualClock,
    investigation: &Investigation,
) -> Findings {
    verify_fn(clock, investigation, |_| match limiter.try_acquire() {
        Ok(()) => true.into(),
        Err(denied) => Answer {
            advertised: Advertised {
                retry_after: denied.retry_after(),
                ..Advertised::default()
            },
            ..false.into()
        },
    })
}

/// Verifies anything that decides.
///
/// `decide` is called when `clock` shows the time of the decision. It returns `true.into()`, or an answer with more
/// details.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_testkit::verify::{Investigation, DetectedKind, verify_fn};
///
/// // One every 10 ms, without a burst.
/// let mut next_ns = 0;
/// let findings = verify_fn(&ManualClock::new(), &Investigation::new(), |question| {
///     let admits = question.at_ns >= next_ns;
///     if admits {
///         next_ns = question.at_ns + 10_000_000;
///     }
///     admits.into()
/// });
/// assert_eq!(findings.detected.kind, DetectedKind::TokenBucket);
/// assert!((findings.detected.rate.unwrap().value - 100.0).abs() < 1.0);
/// ```
pub fn verify_fn(
    clock: &ManualClock,
    investigation: &Investigation,
    decide: impl FnMut(Question) -> Answer,
) -> Findings {
    verify_at(clock, investigation, SERVICE, 0, decide)
}

/// Verifies anything that decides, with response times up to `service`, drawn from `seed`.
pub fn verify_at(
    clock: &ManualClock,
    investigation: &Investigation,
    service: Duration,
    seed: u64,
    mut decide: impl FnMut(Question) -> Answer,
) -> Findings {
    let began = clock.now();
    let mut subject = Simulated::new(|question: Question| {
        let at_ns = began.as_nanos().saturating_add(question.at_ns);
        clock.set(Timestamp::from_nanos(at_ns));
        decide(Question { at_ns, ..question })
    })
    .service(service, seed);
    let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
    findings
}
