use crate::Observation;

/// Rate limiter to which an investigation sends requests.
///
/// ```
/// use flowgate_verify::{Investigation, DetectedKind, Observation, ProbeOutcome, ProbeSubject, Advertised, ProbeBatch};
/// use std::convert::Infallible;
///
/// /// Admits every second request, immediately.
/// #[derive(Default)]
/// struct EveryOther {
///     now_ns: u64,
///     asked: u64,
/// }
///
/// impl ProbeSubject for EveryOther {
///     type Error = Infallible;
///
///     fn now_ns(&self) -> u64 {
///         self.now_ns
///     }
///
///     fn send(&mut self, batch: &ProbeBatch) -> Result<Vec<Observation>, Infallible> {
///         let answers = batch.probes.iter().map(|probe| {
///             self.now_ns = self.now_ns.max(probe.at_ns);
///             self.asked += 1;
///             Observation {
///                 sent_ns: self.now_ns,
///                 answered_ns: self.now_ns,
///                 connection: probe.connection,
///                 key: probe.key,
///                 outcome: [ProbeOutcome::Admitted, ProbeOutcome::Refused][self.asked as usize % 2],
///                 advertised: Advertised::default(),
///             }
///         });
///         Ok(answers.collect())
///     }
/// }
///
/// let Ok(findings) = Investigation::new().run(&mut EveryOther::default(), &mut |_| ());
/// assert_eq!(findings.detected.kind, DetectedKind::Unknown);
/// ```
pub trait ProbeSubject {
    /// Why requests can no longer be sent.
    type Error;

    /// Returns the time on the subject's timeline, in nanoseconds. The timeline starts at 0 and never goes back.
    fn now_ns(&self) -> u64;

    /// Receives the end of the investigation on this timeline, in nanoseconds. Nothing may be sent after it.
    ///
    /// The default does nothing. Late probes are then sent late, and the investigation exceeds its
    /// [`Budget`](crate::Budget).
    fn end_at(&mut self, end_ns: u64) {
        let _ = end_ns;
    }

    /// Returns whether nothing is sent any more. The investigation then ends with what it knows.
    ///
    /// The default returns `false`.
    fn has_ended(&self) -> bool {
        false
    }

    /// Sends the probes of `batch`, waits for the responses, and returns them in the order of sending.
    ///
    /// If a probe's time has passed, or its connection is busy, the probe is sent as soon as possible. If that is after
    /// the [end](Self::end_at), the probe is skipped. The observation holds the actual times.
    ///
    /// # Errors
    ///
    /// Returns an error if further requests make no sense. A missing response is not an error but an
    /// [`ProbeOutcome`](crate::ProbeOutcome).
    fn send(&mut self, batch: &ProbeBatch) -> Result<Vec<Observation>, Self::Error>;
}

/// Requests that are planned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeBatch {
    /// What the batch is to find out.
    pub phase: Phase,
    /// The requests in the order of their times.
    pub probes: Vec<Probe>,
}

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Scheduled time on the subject's timeline, in nanoseconds.
    pub at_ns: u64,
    /// Connection, counted from 0. A connection carries one request at a time; different connections work concurrently.
    pub connection: u32,
    /// Key, counted from 0.
    pub key: u32,
}

/// What a batch is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Does the server respond, and with HTTP?
    Hello,
    /// How large is the burst?
    Burst,
    /// How many requests per second are admitted when more are sent?
    Saturate,
    /// How much of a steady stream is admitted, at 0.9 to 2 times the rate?
    Steady,
    /// How much refills in how much time?
    Refill,
    /// Which algorithm is it: at the boundary of a window, after a pause, at random times?
    Shape,
    /// Are concurrent requests admitted beyond the limit?
    Race,
    /// Does another connection have a separate limit?
    Nodes,
    /// Do keys share a limit?
    Keys,
    /// Are `Retry-After` and the `RateLimit` headers accurate?
    Headers,
}
