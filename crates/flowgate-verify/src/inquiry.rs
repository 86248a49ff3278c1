use std::time::Duration;

use crate::{Budget, Likeness, Observation, Outcome, Phase, Progress, Shot, Subject, Volley};

/// A subject that is being asked, what it has answered, and what may still be asked.
pub(crate) struct Inquiry<'a, S> {
    subject: &'a mut S,
    progress: &'a mut dyn FnMut(Progress<'_>),
    budget: Budget,
    lanes: u32,
    began_ns: u64,
    record: Vec<Observation>,
    ends: Vec<usize>,
    pub(crate) guess: Option<Likeness>,
}

impl<'a, S: Subject> Inquiry<'a, S> {
    pub(crate) fn new(
        subject: &'a mut S,
        budget: Budget,
        lanes: u32,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Self {
        let began_ns = subject.now_ns();
        let inquiry = Self {
            subject,
            progress,
            budget,
            lanes: lanes.max(1),
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

    pub(crate) fn lanes(&self) -> u32 {
        self.lanes
    }

    /// All answers, in the order of the questions.
    pub(crate) fn record(&self) -> &[Observation] {
        &self.record
    }

    /// Where in the record each volley ends: all of it is answered before the next is sent.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    pub(crate) fn requests_left(&self) -> u64 {
        let asked = self.record.len() as u64;
        self.budget.requests.saturating_sub(asked)
    }

    pub(crate) fn end_ns(&self) -> u64 {
        let time_ns = u64::try_from(self.budget.time.as_nanos()).unwrap_or(u64::MAX);
        self.began_ns.saturating_add(time_ns)
    }

    pub(crate) fn time_left_ns(&self) -> u64 {
        self.end_ns().saturating_sub(self.now_ns())
    }

    /// How long an answer takes, by the median of the last hundred; in nanoseconds, at least 1.
    pub(crate) fn service_ns(&self) -> u64 {
        let recent = &self.record[self.record.len().saturating_sub(100)..];
        let mut took: Vec<u64> = recent.iter().map(took_ns).collect();
        took.sort_unstable();
        took.get(took.len() / 2).copied().unwrap_or(0).max(1)
    }

    /// Asks what the budget still allows of `shots`, which may be fewer, or none.
    pub(crate) fn ask(
        &mut self,
        phase: Phase,
        mut shots: Vec<Shot>,
    ) -> Result<&[Observation], S::Error> {
        let end_ns = self.end_ns();
        let lanes = shots.iter().map(|shot| shot.lane).max().unwrap_or(0) + 1;
        let per_lane = self.time_left_ns() / self.service_ns();
        let most = self.requests_left().min(per_lane * u64::from(lanes));
        shots.retain(|shot| shot.at_ns < end_ns);
        shots.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let from = self.record.len();
        if shots.is_empty() {
            return Ok(&self.record[from..]);
        }
        let elapsed_ns = self.now_ns().saturating_sub(self.began_ns);
        (self.progress)(Progress {
            phase,
            requests: from as u64,
            elapsed: Duration::from_nanos(elapsed_ns),
            guess: self.guess.as_ref(),
        });
        let answers = self.subject.send(&Volley { phase, shots })?;
        self.record.extend(answers);
        self.ends.push(self.record.len());
        Ok(&self.record[from..])
    }

    /// How many lanes carry so many requests per nanosecond, with as much to spare.
    pub(crate) fn lanes_for(&self, rate: f64) -> u32 {
        let busy = rate * self.service_ns() as f64;
        ((busy * 2.0).ceil() as u32).clamp(1, self.lanes)
    }

    /// `n` at once, as fast as so many lanes carry them.
    pub(crate) fn ask_at_once(
        &mut self,
        phase: Phase,
        n: u64,
        lanes: u32,
        key: u32,
    ) -> Result<&[Observation], S::Error> {
        let at = self.now_ns() as f64;
        let times = vec![at; usize::try_from(n.min(self.requests_left())).unwrap_or(usize::MAX)];
        self.ask_at(phase, &times, lanes, key)
    }

    /// `n` one after the other over a lane of one's choice.
    pub(crate) fn ask_over(
        &mut self,
        phase: Phase,
        n: u64,
        lane: u32,
    ) -> Result<&[Observation], S::Error> {
        let at_ns = self.now_ns();
        let shot = Shot {
            at_ns,
            lane,
            key: 0,
        };
        self.ask(phase, vec![shot; usize::try_from(n).unwrap_or(usize::MAX)])
    }

    /// One at each of `times`, which are in order, over so many lanes in turn.
    pub(crate) fn ask_at(
        &mut self,
        phase: Phase,
        times: &[f64],
        lanes: u32,
        key: u32,
    ) -> Result<&[Observation], S::Error> {
        let lanes = lanes.clamp(1, self.lanes);
        let shots = times.iter().zip((0..lanes).cycle());
        let shots = shots.map(|(at, lane)| Shot {
            at_ns: *at as u64,
            lane,
            key,
        });
        self.ask(phase, shots.collect())
    }
}

pub(crate) fn took_ns(seen: &Observation) -> u64 {
    seen.answered_ns.saturating_sub(seen.sent_ns)
}

pub(crate) fn count(seen: &[Observation], outcome: Outcome) -> u64 {
    seen.iter().filter(|seen| seen.outcome == outcome).count() as u64
}
