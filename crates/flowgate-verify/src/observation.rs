use std::time::Duration;

/// Request and its outcome. Times are nanoseconds on the [subject's](crate::ProbeSubject) timeline.
///
/// The limiter decided at an unknown time from `sent_ns` to `answered_ns`, both included.
///
/// ```
/// use flowgate_verify::{Observation, Phase, Probe, Simulated, ProbeSubject, ProbeBatch};
/// use std::time::Duration;
///
/// let mut subject = Simulated::new(|_| true.into()).service(Duration::from_millis(2), 1);
/// let probe = Probe { at_ns: 1_000_000, connection: 0, key: 0 };
/// let Ok(seen) = subject.send(&ProbeBatch { phase: Phase::Hello, probes: vec![probe] });
/// let Observation { sent_ns, answered_ns, .. } = seen[0];
/// assert_eq!(sent_ns, 1_000_000);
/// assert!((sent_ns..=sent_ns + 2_000_000).contains(&answered_ns));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Time just before the first byte of the request was written.
    pub sent_ns: u64,
    /// Time at which the response head arrived or, without a response, the failure was noticed.
    pub answered_ns: u64,
    /// Connection of the request.
    pub connection: u32,
    /// Key of the request.
    pub key: u32,
    /// Outcome of the request.
    pub outcome: ProbeOutcome,
    /// Limit that the response advertises.
    pub advertised: Advertised,
}

/// Outcome of a request.
///
/// ```
/// use flowgate_verify::{Answer, Investigation, DetectedKind, ProbeOutcome, Simulated};
///
/// // The limiter responds 500 to every request, which is inconclusive.
/// let failed = Answer { outcome: ProbeOutcome::Failed, ..Answer::from(false) };
/// let Ok(findings) = Investigation::new().run(&mut Simulated::new(|_| failed), &mut |_| ());
/// assert_eq!(findings.detected.kind, DetectedKind::Unknown);
/// assert_eq!(findings.failed, findings.requests);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// Admitted by the limiter.
    Admitted,
    /// Refused by the limiter.
    Refused,
    /// Inconclusive: another status, no response, no connection.
    Failed,
}

/// Limit that one response advertises, as far as it does.
///
/// ```
/// use flowgate_verify::Advertised;
/// use std::time::Duration;
///
/// // RateLimit-Policy: "default";q=100;w=60
/// let advertised = Advertised { limit: Some(100), window: Some(Duration::from_secs(60)), ..Advertised::default() };
/// assert_eq!(advertised.retry_after, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// Value of `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Remaining requests: `RateLimit`'s `r`, or `X-RateLimit-Remaining`.
    pub remaining: Option<u64>,
    /// Time until more requests are available: `RateLimit`'s `t`, or `X-RateLimit-Reset` as a duration.
    pub more_after: Option<Duration>,
    /// Burst: `RateLimit-Policy`'s `q`, or `X-RateLimit-Limit`.
    pub limit: Option<u64>,
    /// Window: `RateLimit-Policy`'s `w`.
    pub window: Option<Duration>,
}
