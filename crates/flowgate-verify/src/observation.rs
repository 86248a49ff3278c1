use std::time::Duration;

/// A request, and what became of it. Times are nanoseconds on the [subject's](crate::Subject) timeline.
///
/// The limiter decided at some instant from `sent_ns` to `answered_ns`, both included; no more is known.
///
/// ```
/// use flowgate_verify::{Observation, Phase, Shot, Simulated, Subject, Volley};
/// use std::time::Duration;
///
/// let mut subject = Simulated::new(|_| true.into()).service(Duration::from_millis(2), 1);
/// let shot = Shot { at_ns: 1_000_000, lane: 0, key: 0 };
/// let Ok(seen) = subject.send(&Volley { phase: Phase::Hello, shots: vec![shot] });
/// let Observation { sent_ns, answered_ns, .. } = seen[0];
/// assert_eq!(sent_ns, 1_000_000);
/// assert!((sent_ns..=sent_ns + 2_000_000).contains(&answered_ns));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Just before its first byte was written.
    pub sent_ns: u64,
    /// When the head of its answer was there; for a request that got none, when that was known.
    pub answered_ns: u64,
    /// The connection that it went over.
    pub lane: u32,
    /// Whose request it was.
    pub key: u32,
    /// What was answered.
    pub outcome: Outcome,
    /// What the answer said of the limit.
    pub told: Told,
}

/// What was answered.
///
/// ```
/// use flowgate_verify::{Answer, Investigation, Kind, Outcome, Simulated};
///
/// // It answers 500 to everything: neither yes nor no.
/// let failed = Answer { outcome: Outcome::Failed, ..Answer::from(false) };
/// let Ok(findings) = Investigation::new().run(&mut Simulated::new(|_| failed), &mut |_| ());
/// assert_eq!(findings.likeness.kind, Kind::Unknown);
/// assert_eq!(findings.failed, findings.requests);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was let through.
    Admitted,
    /// The limiter refused it.
    Refused,
    /// Neither: another status, no answer, no connection.
    Failed,
}

/// What an answer said of the limit, as far as it did.
///
/// ```
/// use flowgate_verify::Told;
/// use std::time::Duration;
///
/// // RateLimit-Policy: "default";q=100;w=60
/// let told = Told { limit: Some(100), window: Some(Duration::from_secs(60)), ..Told::default() };
/// assert_eq!(told.retry_after, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// `RateLimit`'s `r`, or `X-RateLimit-Remaining`.
    pub remaining: Option<u64>,
    /// `RateLimit`'s `t`, or `X-RateLimit-Reset` as a time from the answer on: until there is more.
    pub more_after: Option<Duration>,
    /// `RateLimit-Policy`'s `q`, or `X-RateLimit-Limit`: the most at once.
    pub limit: Option<u64>,
    /// `RateLimit-Policy`'s `w`: the time in which as much can be had again.
    pub window: Option<Duration>,
}
