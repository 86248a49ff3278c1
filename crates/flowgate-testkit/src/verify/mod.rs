//! What does a limiter look like from outside, and what does it really admit? In process, in no time.
//!
//! [`verify()`] asks a limiter as `flowgate verify` asks a server, over many connections whose answers take up to a
//! millisecond, on a clock that only this moves. [`verify_fn`] does so with anything that says yes or no.
//!
//! ```
//! use flowgate::{ManualClock, SlidingWindow};
//! use flowgate_testkit::verify::{Investigation, Kind, verify};
//!
//! let time = ManualClock::new();
//! let limiter = SlidingWindow::builder("20/s".parse()?).clock(&time).build()?;
//! let findings = verify(&limiter, &time, &Investigation::new());
//!
//! assert_eq!(findings.likeness.kind, Kind::SlidingLog);
//! assert_eq!(findings.likeness.burst.unwrap().value, 20.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod matrix;
pub mod nginx;

use core::time::Duration;

use flowgate::{Limiter, ManualClock, Timestamp};
use flowgate_verify::Simulated;
#[doc(no_inline)]
pub use flowgate_verify::{
    Alignment, Answer, Budget, Claim, Fault, Findings, Investigation, Kind, Outcome, Question,
    Told, Verdict,
};

/// How long an answer takes at most.
pub const SERVICE: Duration = Duration::from_millis(1);

/// Asks `limiter`, which is on `clock`, and says what it looks like and what is wrong with it.
///
/// Each request is [`try_acquire`](Limiter::try_acquire); a refusal tells its
/// [`retry_after`](flowgate::Denied::retry_after). The clock goes forward from where it stands.
pub fn verify(
    limiter: &dyn Limiter,
    clock: &ManualClock,
    investigation: &Investigation,
) -> Findings {
    verify_fn(clock, investigation, |_| match limiter.try_acquire() {
        Ok(()) => true.into(),
        Err(denied) => Answer {
            told: Told {
                retry_after: denied.retry_after(),
                ..Told::default()
            },
            ..false.into()
        },
    })
}

/// [`verify()`] for anything that decides: `decide` is asked when `clock` stands at the time of the decision, and
/// answers with `true.into()` or more.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_testkit::verify::{Investigation, Kind, verify_fn};
///
/// // One every 10 ms, and none saved up.
/// let mut next_ns = 0;
/// let findings = verify_fn(&ManualClock::new(), &Investigation::new(), |question| {
///     let admits = question.at_ns >= next_ns;
///     if admits {
///         next_ns = question.at_ns + 10_000_000;
///     }
///     admits.into()
/// });
/// assert_eq!(findings.likeness.kind, Kind::TokenBucket);
/// assert!((findings.likeness.rate.unwrap().value - 100.0).abs() < 1.0);
/// ```
pub fn verify_fn(
    clock: &ManualClock,
    investigation: &Investigation,
    decide: impl FnMut(Question) -> Answer,
) -> Findings {
    verify_at(clock, investigation, SERVICE, 0, decide)
}

/// [`verify_fn`] with answers that take up to `service`, at random times drawn from `seed`.
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
