use std::time::Duration;

use crate::{
    Budget, DetectedAlgorithm, Observation, Phase, Probe, ProbeBatch, ProbeOutcome, ProbeProgress,
    ProbeSubject,
};

/// Less than one in this many is left of a budget that is nearly used up.
const NEARLY: u64 = 5;

/// Why an inquiry ends early: the subject can no longer be reached. Its own error is in [`AnySubject`].
#[derive(Debug)]
pub(crate) struct Unreachable;

/// A subject of any type as one type. The phases are then compiled once, and not for each subject.
pub(crate) struct AnySubject<'a, S: ProbeSubject> {
    subject: &'a mut S,
    error: Option<S::Error>,
}

impl<'a, S: ProbeSubject> AnySubject<'a, S> {
    pub(crate) fn new(subject: &'a mut S) -> Self {
        Self {
            subject,
            error: None,
        }
    }

    /// Returns `result`, with the error of the subject.
    pub(crate) fn end<T>(self, result: Result<T, Unreachable>) -> Result<T, S::Error> {
        result.map_err(|Unreachable| self.error.expect("`send` has kept it"))
    }
}

impl<S: ProbeSubject> ProbeSubject for AnySubject<'_, S> {
    type Error = Unreachable;

    fn now_ns(&self) -> u64 {
        self.subject.now_ns()
    }

    fn end_at(&mut self, end_ns: u64) {
        self.subject.end_at(end_ns);
    }

    fn has_ended(&self) -> bool {
        self.subject.has_ended()
    }

    fn send(&mut self, batch: &ProbeBatch) -> Result<Vec<Observation>, Unreachable> {
        self.subject.send(batch).map_err(|error| {
            self.error = Some(error);
            Unreachable
        })
    }
}

/// The limiter under test, its responses, and the remaining budget.
pub(crate) struct Inquiry<'a> {
    subject: &'a mut dyn ProbeSubject<Error = Unreachable>,
    progress: &'a mut dyn FnMut(ProbeProgress<'_>),
    budget: Budget,
    connections: u32,
    began_ns: u64,
    record: Vec<Observation>,
    ends: Vec<usize>,
    pub(crate) guess: Option<DetectedAlgorithm>,
}

impl<'a> Inquiry<'a> {
    pub(crate) fn new(
        subject: &'a mut dyn ProbeSubject<Error = Unreachable>,
        budget: Budget,
        connections: u32,
        progress: &'a mut dyn FnMut(ProbeProgress<'_>),
    ) -> Self {
        let began_ns = subject.now_ns();
        let inquiry = Self {
            subject,
            progress,
            budget,
            connections: connections.max(1),
            began_ns,
            record: Vec::new(),
            ends: Vec::new(),
            guess: None,
        };
        inquiry.subject.end_at(inquiry.end_ns());
        inquiry
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.subject.now_ns()
    }

    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections
    }

    /// Returns all responses in the order of the requests.
    pub(crate) fn record(&self) -> &[Observation] {
        &self.record
    }

    /// Returns where each batch ends in the record. All responses to a batch arrive before the next batch is sent.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    pub(crate) fn requests_left(&self) -> u64 {
        let asked = self.record.len() as u64;
        match self.subject.has_ended() {
            true => 0,
            false => self.budget.requests.saturating_sub(asked),
        }
    }

    pub(crate) fn end_ns(&self) -> u64 {
        let time_ns = u64::try_from(self.budget.time.as_nanos()).unwrap_or(u64::MAX);
        self.began_ns.saturating_add(time_ns)
    }

    pub(crate) fn time_left_ns(&self) -> u64 {
        match self.subject.has_ended() {
            true => 0,
            false => self.end_ns().saturating_sub(self.now_ns()),
        }
    }

    /// Returns whether nearly all of the budget is used up.
    pub(crate) fn is_at_its_end(&self) -> bool {
        let all_ns = self.end_ns().saturating_sub(self.began_ns);
        let requests = self.budget.requests;
        self.time_left_ns() < all_ns / NEARLY || self.requests_left() < requests / NEARLY + 1
    }

    /// Returns the median of the last 100 response times, in nanoseconds, at least 1.
    pub(crate) fn service_ns(&self) -> u64 {
        let recent = &self.record[self.record.len().saturating_sub(100)..];
        let mut took: Vec<u64> = recent.iter().map(took_ns).collect();
        took.sort_unstable();
        took.get(took.len() / 2).copied().unwrap_or(0).max(1)
    }

    /// Sends as many of `probes` as the budget allows, possibly none.
    pub(crate) fn ask(
        &mut self,
        phase: Phase,
        mut probes: Vec<Probe>,
    ) -> Result<&[Observation], Unreachable> {
        let end_ns = self.end_ns();
        let connections = probes
            .iter()
            .map(|probe| probe.connection)
            .max()
            .unwrap_or(0)
            + 1;
        let per_connection = self.time_left_ns() / self.service_ns();
        let most = self
            .requests_left()
            .min(per_connection * u64::from(connections));
        probes.retain(|probe| probe.at_ns < end_ns);
        probes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let from = self.record.len();
        if probes.is_empty() {
            return Ok(&self.record[from..]);
        }
        let elapsed_ns = self.now_ns().saturating_sub(self.began_ns);
        (self.progress)(ProbeProgress {
            phase,
            requests: from as u64,
            elapsed: Duration::from_nanos(elapsed_ns),
            guess: self.guess.as_ref(),
        });
        let answers = self.subject.send(&ProbeBatch { phase, probes })?;
        self.record.extend(answers);
        self.ends.push(self.record.len());
        Ok(&self.record[from..])
    }

    /// Returns the number of connections that carry twice `rate`, in requests per nanosecond.
    pub(crate) fn connections_for(&self, rate: f64) -> u32 {
        let busy = rate * self.service_ns() as f64;
        ((busy * 2.0).ceil() as u32).clamp(1, self.connections)
    }

    /// Sends `n` requests in one burst over `connections` connections.
    pub(crate) fn ask_in_burst(
        &mut self,
        phase: Phase,
        n: u64,
        connections: u32,
        key: u32,
    ) -> Result<&[Observation], Unreachable> {
        let at = self.now_ns() as f64;
        let times = vec![at; usize::try_from(n.min(self.requests_left())).unwrap_or(usize::MAX)];
        self.ask_at(phase, &times, connections, key)
    }

    /// Sends `n` requests one after the other over one connection.
    pub(crate) fn ask_over(
        &mut self,
        phase: Phase,
        n: u64,
        connection: u32,
    ) -> Result<&[Observation], Unreachable> {
        let at_ns = self.now_ns();
        let probe = Probe {
            at_ns,
            connection,
            key: 0,
        };
        self.ask(phase, vec![probe; usize::try_from(n).unwrap_or(usize::MAX)])
    }

    /// Sends one request at each of `times`, which are in order, over `connections` connections in turn.
    pub(crate) fn ask_at(
        &mut self,
        phase: Phase,
        times: &[f64],
        connections: u32,
        key: u32,
    ) -> Result<&[Observation], Unreachable> {
        let connections = connections.clamp(1, self.connections);
        let probes = times.iter().zip((0..connections).cycle());
        let probes = probes.map(|(at, connection)| Probe {
            at_ns: *at as u64,
            connection,
            key,
        });
        self.ask(phase, probes.collect())
    }
}

pub(crate) fn took_ns(seen: &Observation) -> u64 {
    seen.answered_ns.saturating_sub(seen.sent_ns)
}

pub(crate) fn count(seen: &[Observation], outcome: ProbeOutcome) -> u64 {
    seen.iter().filter(|seen| seen.outcome == outcome).count() as u64
}
