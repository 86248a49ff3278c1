use crate::Observation;

/// Something with a rate limiter that can be asked.
///
/// ```
/// use flowgate_verify::{Investigation, Kind, Observation, Outcome, Subject, Told, Volley};
/// use std::convert::Infallible;
///
/// /// Admits every other one, at once.
/// #[derive(Default)]
/// struct EveryOther {
///     now_ns: u64,
///     asked: u64,
/// }
///
/// impl Subject for EveryOther {
///     type Error = Infallible;
///
///     fn now_ns(&self) -> u64 {
///         self.now_ns
///     }
///
///     fn send(&mut self, volley: &Volley) -> Result<Vec<Observation>, Infallible> {
///         let answers = volley.shots.iter().map(|shot| {
///             self.now_ns = self.now_ns.max(shot.at_ns);
///             self.asked += 1;
///             Observation {
///                 sent_ns: self.now_ns,
///                 answered_ns: self.now_ns,
///                 lane: shot.lane,
///                 key: shot.key,
///                 outcome: [Outcome::Admitted, Outcome::Refused][self.asked as usize % 2],
///                 told: Told::default(),
///             }
///         });
///         Ok(answers.collect())
///     }
/// }
///
/// let Ok(findings) = Investigation::new().run(&mut EveryOther::default(), &mut |_| ());
/// assert_eq!(findings.likeness.kind, Kind::Unknown);
/// ```
pub trait Subject {
    /// Why it could not be asked at all, or not any longer.
    type Error;

    /// The time on its timeline, in nanoseconds. A timeline begins at 0 and never goes back.
    fn now_ns(&self) -> u64;

    /// Is told, before an investigation begins, when it ends on this timeline, in nanoseconds: from then on nothing is to be
    /// sent. One that does not care sends late shots late, and takes longer than its [`Budget`](crate::Budget).
    fn end_at(&mut self, end_ns: u64) {
        let _ = end_ns;
    }

    /// Asks as `volley` says, waits for the answers, and returns them in the order of sending. A shot whose time has
    /// passed, or whose lane is busy, is sent as soon as may be, and left out if that is after the [end](Self::end_at); what
    /// was really so is in the observation.
    ///
    /// # Errors
    ///
    /// If asking makes no sense any longer. What is answered, even that nothing was, is no error but an
    /// [`Outcome`](crate::Outcome).
    fn send(&mut self, volley: &Volley) -> Result<Vec<Observation>, Self::Error>;
}

/// Requests that are planned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volley {
    /// What they are to find out.
    pub phase: Phase,
    /// In the order of their times.
    pub shots: Vec<Shot>,
}

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// When, on the subject's timeline.
    pub at_ns: u64,
    /// Over which connection, counted from 0. A connection has one request at a time; those of different lanes are
    /// under way at once.
    pub lane: u32,
    /// Whose request it is, counted from 0.
    pub key: u32,
}

/// What a volley is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Does it answer, and is it HTTP?
    Hello,
    /// How many at once?
    Burst,
    /// How many per second, asked for more?
    Saturate,
    /// How many of an even stream, at 0.9 to 2 times the rate?
    Steady,
    /// How much comes back in how much time?
    Refill,
    /// Which kind is it: what happens at the boundary of a window, after a pause, at random times?
    Shape,
    /// Do many at once get more?
    Race,
    /// Does another connection have another limit?
    Nodes,
    /// Do keys share a limit?
    Keys,
    /// Is what it says true?
    Honesty,
}
