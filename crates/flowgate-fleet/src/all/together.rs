//! One request of several limits, in flight.
//!
//! ```text
//!   begin ──▶ Look, once per fleet ──▶ Take, once per place ──▶ admitted
//!      │           │ lacks units            │ refused, or the caller has gone
//!      ▼           ▼                        ▼
//!   refused     refused ◀──────────────  GiveBack, once per fleet
//! ```
//!
//! On one server, all records are in one place: there is one `Take`, and neither of the others. Each stage is one write of the fleet's
//! thread, which then goes on with the next stage. So it ends, whatever the caller does.

use super::held::Held;
use super::{Answer, DeniedBy, Part, Waiting, unanswered};
use crate::Admitted;
use crate::call::{Call, Failure, GiveBack, Reply, Request, Run};
use crate::fleet::{Announced, Shared};
use crate::limit::Question;
use crate::link::Outcome;
use crate::strict::Known;
#[cfg(test)]
use crate::strict::Strict;
use crate::tally::Silence;
use crate::terms::{Kind, Terms};
use flowgate::{Denied, Timestamp};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// A request of several limits, whose caller may decide to wait no longer.
#[derive(Debug)]
pub(crate) struct InFlight(Mutex<Together>);

/// What has become of it so far.
#[derive(Debug)]
pub(super) struct Together {
    members: Vec<Member>,
    held: Held,
    /// Members of one fleet each, which are looked at.
    looks: VecDeque<Vec<usize>>,
    /// Members of one place each, which are taken from in one call.
    steps: VecDeque<Vec<usize>>,
    stage: Stage,
    refused: Option<DeniedBy>,
    /// It was admitted before the store had answered.
    is_admitted: bool,
    answer: Option<oneshot::Sender<Answer>>,
    _entered: Option<Entered>,
}

/// A step of a request, and the members that it is about.
#[derive(Debug)]
enum Stage {
    Look(Vec<usize>),
    Take(Vec<usize>),
    GiveBack(Vec<usize>),
}

#[derive(Debug)]
struct Member {
    part: Part,
    state: State,
    /// When its last call was sent, and by which terms.
    sent: Timestamp,
    terms: Terms,
}

/// What has become of a member's units.
#[derive(Clone, Copy, Debug)]
enum State {
    /// They have not been asked for.
    Open,
    Taken(GiveBack),
    /// This process has held them in advance.
    Held,
    /// This process has decided on them, and admitted them.
    Alone,
    /// They are not this request's to give back: given back, lost, or of a window.
    Gone,
}

impl Member {
    fn of(&self) -> &Question {
        &self.part.of
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Returns the refusal for each place in the caller's list.
    fn listed(&self, denied: Denied) -> impl Iterator<Item = (usize, Denied)> {
        self.part.listed.iter().map(move |&at| (at, denied))
    }

    /// Decides without the store.
    fn alone(&mut self, silence: Silence) -> Result<(), Denied> {
        let Question { strict, record, .. } = self.of();
        strict.alone_of(*record, self.part.n, silence)?;
        self.state = State::Alone;
        Ok(())
    }

    /// Returns its next call, which is sent now.
    fn request(&mut self, runs: Vec<Run>) -> Call {
        let Question { strict, record, .. } = self.of();
        let call = strict.call_of(*record, runs);
        (self.sent, self.terms) = (strict.now(), call.terms);
        call
    }

    /// Returns the state of units that this reply granted. A window takes nothing back.
    fn taken(&self, reply: &Reply) -> State {
        match self.terms.kind {
            Kind::Bucket => State::Taken(GiveBack {
                record: self.of().record,
                terms: self.terms,
                units: self.part.n,
                taken: reply.seen,
            }),
            _ => State::Gone,
        }
    }

    fn is_window(&self) -> bool {
        self.terms.kind.is_window()
    }

    /// Notes the reply to its last call, which took `units`.
    fn learn(&self, units: u64, reply: &Reply) {
        let Question { strict, record, .. } = self.of();
        strict.learn_of(*record, self.sent, (&self.terms, units), reply);
    }

    fn unanswered(&self, failure: Failure) {
        let Question { strict, record, .. } = self.of();
        strict.unanswered_of(*record, self.sent, failure);
    }
}

impl InFlight {
    /// Decides without a call if that is possible, or else begins.
    pub(super) fn begin(parts: Vec<Part>, held: Held) -> Result<Waiting, Answer> {
        let place = |of: &Question| of.shared.place(of.record);
        let (together, answer) = Together::new(parts, held, place)?;
        let in_flight = Arc::new(Self(Mutex::new(together)));
        Arc::clone(&in_flight).go_on();
        Ok(Waiting { answer, in_flight })
    }

    /// Announces the next stage, or answers.
    fn go_on(self: Arc<Self>) {
        let mut together = self.together();
        if together.advance() {
            let fleet = Arc::clone(&together.members[together.asked()[0]].of().shared);
            drop(together);
            fleet.announce(Announced::All(self));
        }
    }

    fn together(&self) -> MutexGuard<'_, Together> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the calls of this stage. Returns how many there are.
    pub(crate) fn ask(&self, calls: &mut Vec<Request>) -> usize {
        let before = calls.len();
        self.together().ask(calls);
        calls.len() - before
    }

    /// Notes what became of the calls of this stage, and goes on.
    pub(crate) fn answer(self: Arc<Self>, outcomes: Vec<Outcome>) {
        self.together().note(outcomes);
        self.go_on();
    }

    /// Decides for a caller that waits no longer. Returns `None` if the answer has been sent.
    pub(super) fn late(&self) -> Option<Answer> {
        self.together().late()
    }
}

impl Together {
    /// Returns the request before its first stage, or the answer. A script takes from the records of one `place`.
    pub(super) fn new(
        parts: Vec<Part>,
        held: Held,
        place: impl Fn(&Question) -> usize,
    ) -> Result<(Self, oneshot::Receiver<Answer>), Answer> {
        let member = |part: Part| Member {
            state: State::Open,
            sent: part.of.strict.now(),
            terms: part.of.strict.terms(),
            part,
        };
        let (answer, receiver) = oneshot::channel();
        let mut together = Self {
            members: parts.into_iter().map(member).collect(),
            held,
            looks: VecDeque::new(),
            steps: VecDeque::new(),
            stage: Stage::Look(Vec::new()),
            refused: None,
            is_admitted: false,
            answer: Some(answer),
            _entered: None,
        };
        if let Err(denied) = together.decide() {
            return Err(Err(together.undone(denied)));
        }
        together.plan(place);
        let Some(first) = together.steps.front() else {
            let admitted = together.admitted();
            together.held.spend();
            return Err(Ok(admitted));
        };
        let fleet = Arc::clone(&together.members[first[0]].of().shared);
        match Entered::new(fleet) {
            Some(entered) => together._entered = Some(entered),
            None => {
                let full = Denied::queue_full(None);
                let at = together.members[0].part.listed[0];
                return Err(Err(together.undone(DeniedBy::one(at, full))));
            }
        }
        Ok((together, receiver))
    }

    /// Decides what is known here, and what the store cannot be asked.
    fn decide(&mut self) -> Result<(), DeniedBy> {
        let mut denied = Vec::new();
        for member in &self.members {
            let (n, burst) = (member.part.n, member.of().strict.burst());
            if n > burst {
                denied.extend(member.listed(Denied::never(n, burst)));
            }
        }
        let mut cut_off = Vec::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            let n = member.part.n;
            let Question {
                shared,
                strict,
                record,
                ..
            } = &member.part.of;
            if n > strict.burst() {
                continue;
            }
            if strict.takes_held(*record, n, shared.is_down()) {
                member.state = State::Held;
                continue;
            }
            match strict.known_of(*record, n, shared.is_down()) {
                Known::Refused(wait) => denied.extend(member.listed(Denied::retry_in(wait))),
                Known::CutOff => cut_off.push(at),
                Known::Open => {}
            }
        }
        if !denied.is_empty() {
            return Err(DeniedBy::all(denied));
        }
        for at in cut_off {
            self.alone(at, Silence::Lost);
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Makes a plan of what to look at, and where to take in which order.
    fn plan(&mut self, place: impl Fn(&Question) -> usize) {
        let fleet = |member: &Member| Arc::as_ptr(&member.of().shared);
        let mut steps = Vec::<Vec<usize>>::new();
        let mut looks = Vec::<Vec<usize>>::new();
        for (at, member) in self.members.iter().enumerate() {
            if !member.is_open() {
                continue;
            }
            let site = |at: usize| {
                let member = &self.members[at];
                (fleet(member), place(member.of()))
            };
            // One call has a record once. Two limits of one name have one record. A window has a call of its own.
            let record = |at: &usize| self.members[*at].of().record;
            let fits = |step: &&mut Vec<usize>| {
                site(step[0]) == site(at)
                    && !member.is_window()
                    && !self.members[step[0]].is_window()
                    && step.iter().all(|other| record(other) != record(&at))
            };
            match steps.iter_mut().find(fits) {
                Some(step) => step.push(at),
                None => steps.push(vec![at]),
            }
            if member.room().is_none() {
                let same = |look: &&mut Vec<usize>| fleet(&self.members[look[0]]) == fleet(member);
                match looks.iter_mut().find(same) {
                    Some(look) => look.push(at),
                    None => looks.push(vec![at]),
                }
            }
        }
        if steps.len() > 1 {
            self.looks = looks.into();
        }
        for &at in steps.iter().flatten() {
            self.members[at].of().strict.takes_in(steps.len());
        }
        self.steps = steps.into();
        self.sort();
    }

    /// Puts the steps first that are the most likely to refuse, and windows last, which take nothing back. All processes order alike what they see alike: so of two that want the same
    /// two last units, one gets both.
    fn sort(&mut self) {
        let key = |step: &Vec<usize>| {
            let member = |at: &usize| {
                let member = &self.members[*at];
                (
                    member.is_window(),
                    member.room().unwrap_or(0),
                    member.of().record,
                )
            };
            step.iter().map(member).min()
        };
        let mut steps = Vec::from(std::mem::take(&mut self.steps));
        steps.sort_by_cached_key(key);
        self.steps = steps.into();
    }

    /// Begins the next stage. Returns `false` if there is none, and the caller has been answered.
    pub(super) fn advance(&mut self) -> bool {
        let next = self.next();
        let is_next = next.is_some();
        self.stage = next.unwrap_or(Stage::Look(Vec::new()));
        is_next
    }

    fn next(&mut self) -> Option<Stage> {
        if self.is_admitted {
            return None;
        }
        let has_gone = self.answer.as_ref().is_none_or(oneshot::Sender::is_closed);
        if has_gone && self.refused.is_none() {
            self.refused = Some(unanswered());
        }
        if self.refused.is_none() {
            if let Some(look) = self.looks.pop_front() {
                return Some(Stage::Look(look));
            }
            while let Some(mut step) = self.steps.pop_front() {
                step.retain(|&at| self.members[at].is_open());
                if !step.is_empty() {
                    return Some(Stage::Take(step));
                }
            }
            let admitted = self.admitted();
            let answer = self.answer.take().expect("it is not answered");
            if answer.send(Ok(admitted)).is_ok() {
                self.held.spend();
                return None;
            }
            self.refused = Some(unanswered());
        }
        if let Some(back) = self.taken() {
            return Some(Stage::GiveBack(back));
        }
        let denied = self.refused.take().expect("it is refused");
        let denied = self.undone(denied);
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(Err(denied));
        }
        None
    }

    /// Returns members of one fleet whose units are taken, if there are any.
    fn taken(&self) -> Option<Vec<usize>> {
        let taken = |at: &usize| matches!(self.members[*at].state, State::Taken(_));
        let fleet = |at: usize| Arc::as_ptr(&self.members[at].of().shared);
        let first = (0..self.members.len()).find(taken)?;
        let all = (0..self.members.len()).filter(taken);
        Some(all.filter(|&at| fleet(at) == fleet(first)).collect())
    }

    /// Returns the members that the stage is about.
    fn asked(&self) -> &[usize] {
        match &self.stage {
            Stage::Look(asked) | Stage::Take(asked) | Stage::GiveBack(asked) => asked,
        }
    }

    /// Adds the requests of this stage.
    pub(super) fn ask(&mut self, requests: &mut Vec<Request>) {
        match &self.stage {
            Stage::Look(look) => requests.extend(look.iter().map(|&at| {
                let call = self.members[at].request(Vec::new());
                Request::Take(call)
            })),
            Stage::Take(step) => {
                let calls = step.iter().map(|&at| {
                    let member = &mut self.members[at];
                    member.request(vec![Run::of(1, member.part.n)])
                });
                let mut calls: Vec<Call> = calls.collect();
                requests.push(match calls[0].terms.kind {
                    Kind::Bucket => Request::TakeAll(calls),
                    _ => Request::Take(calls.remove(0)),
                });
            }
            Stage::GiveBack(back) => requests.extend(back.iter().filter_map(|&at| {
                let member = &mut self.members[at];
                member.sent = member.of().strict.now();
                match member.state {
                    State::Taken(back) => Some(Request::GiveBack(back)),
                    _ => None,
                }
            })),
        }
    }

    #[cfg(test)]
    pub(super) fn strict(&self) -> impl Iterator<Item = Arc<Strict>> {
        self.members
            .iter()
            .map(|member| Arc::clone(&member.of().strict))
    }

    /// Notes what became of the requests of this stage.
    pub(super) fn note(&mut self, outcomes: Vec<Outcome>) {
        match std::mem::replace(&mut self.stage, Stage::Look(Vec::new())) {
            Stage::Look(look) => self.looked(&look, outcomes),
            Stage::Take(step) => {
                let outcome = outcomes.into_iter().next();
                self.took(step, outcome.unwrap_or(Err(Failure::Lost)));
            }
            Stage::GiveBack(back) => self.gave_back(&back, outcomes),
        }
    }

    fn looked(&mut self, look: &[usize], outcomes: Vec<Outcome>) {
        for (&at, outcome) in look.iter().zip(outcomes) {
            match outcome.as_deref() {
                Ok([reply, ..]) => self.members[at].learn(0, reply),
                Ok([]) => {}
                Err(failure) => {
                    self.members[at].unanswered(failure.clone());
                    self.alone(at, Silence::Lost);
                }
            }
        }
        if self.looks.is_empty() && self.refused.is_none() {
            self.refuse(|_| None);
            self.sort();
        }
    }

    fn took(&mut self, step: Vec<usize>, outcome: Outcome) {
        let replies = match outcome {
            Ok(replies) => replies,
            Err(Failure::Refused(_)) if step.len() > 1 => {
                // It took nothing. Each limit is asked by itself: one may have a foreign value, and the others not.
                for member in &self.members {
                    member.of().strict.takes_in(self.members.len());
                }
                for at in step {
                    self.steps.push_front(vec![at]);
                }
                return;
            }
            Err(failure) => {
                for at in step {
                    self.members[at].unanswered(failure.clone());
                    self.alone(at, Silence::Lost);
                }
                return;
            }
        };
        let is_taken = replies.iter().all(|reply| reply.taken == [1]);
        for (&at, reply) in step.iter().zip(&replies) {
            let member = &mut self.members[at];
            member.learn(if is_taken { member.part.n } else { 0 }, reply);
            member.of().strict.called(member.sent, is_taken);
            if is_taken {
                member.state = member.taken(reply);
            }
        }
        if !is_taken {
            self.refuse(|at| {
                let place = step.iter().position(|&of| of == at)?;
                Some(&replies[place])
            });
        }
    }

    fn gave_back(&mut self, back: &[usize], outcomes: Vec<Outcome>) {
        for (&at, outcome) in back.iter().zip(outcomes) {
            let member = &mut self.members[at];
            // Never twice: without an answer, they may have been given back.
            member.state = State::Gone;
            match outcome.as_deref() {
                Ok([reply, ..]) => member.learn(0, reply),
                Ok([]) => {}
                Err(failure) => member.unanswered(failure.clone()),
            }
        }
    }

    /// Refuses if members lack units: by the store's `reply` just now, or else as far as is known.
    fn refuse<'a>(&mut self, reply: impl Fn(usize) -> Option<&'a Reply>) {
        let mut denied = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            let Question { strict, record, .. } = member.of();
            let wait = match (member.state, reply(at)) {
                (State::Open, Some(reply)) => {
                    Duration::from_micros(reply.seen.wait_us(&member.terms, member.part.n))
                }
                (State::Open, None) => strict.wait_of(*record, member.part.n),
                _ => continue,
            };
            if !wait.is_zero() {
                denied.extend(member.listed(Denied::retry_in(wait)));
            }
        }
        if !denied.is_empty() {
            self.refused = Some(DeniedBy::all(denied));
        }
    }

    /// Decides without the store on what it has not answered. Returns `None` if the answer has been sent.
    pub(super) fn late(&mut self) -> Option<Answer> {
        self.answer.take()?;
        for at in 0..self.members.len() {
            if self.refused.is_none() && self.members[at].is_open() {
                self.alone(at, Silence::Late);
            }
        }
        let Some(denied) = self.refused.take() else {
            // What the store takes from now on stays taken.
            self.is_admitted = true;
            let admitted = self.admitted();
            self.held.spend();
            return Some(Ok(admitted));
        };
        // What the store has taken, or takes from now on, is given back.
        let denied = self.undone(denied);
        self.refused = Some(unanswered());
        Some(Err(denied))
    }

    /// Lets this process decide on a member without the store.
    fn alone(&mut self, at: usize, silence: Silence) {
        if self.refused.is_some() || self.is_admitted {
            self.members[at].state = State::Gone;
        } else if let Err(denied) = self.members[at].alone(silence) {
            self.refused = Some(DeniedBy::all(self.members[at].listed(denied).collect()));
        }
    }

    /// Returns the answer to a request that is admitted.
    fn admitted(&mut self) -> Admitted {
        let mut is_degraded = self.held.is_degraded();
        for member in &self.members {
            let is_alone = matches!(member.state, State::Alone);
            is_degraded |= is_alone;
            member.of().strict.answered(&Ok(Admitted::of(is_alone)));
        }
        Admitted::of(is_degraded)
    }

    /// Returns what this process has taken without the store, and counts the refusal.
    fn undone(&mut self, denied: DeniedBy) -> DeniedBy {
        self.held = Held::default();
        for member in &mut self.members {
            let Question { strict, record, .. } = &member.part.of;
            match member.state {
                State::Alone => strict.refund_alone(*record, member.part.n),
                State::Held => strict.refund_held(*record, member.part.n),
                _ => {}
            }
            if matches!(member.state, State::Alone | State::Held) {
                member.state = State::Gone;
            }
            let by = |(at, _): &&(usize, Denied)| member.part.listed.first() == Some(at);
            if let Some((_, denied)) = denied.limits.iter().find(by) {
                strict.answered(&Err(*denied));
            }
        }
        denied
    }
}

impl Member {
    /// Returns how often the units are there, as the store has stated a short while ago.
    fn room(&self) -> Option<u64> {
        self.of().strict.room_of(self.of().record, self.part.n)
    }
}

/// A request that is waiting.
#[derive(Debug)]
struct Entered(Arc<Shared>);

impl Entered {
    /// Returns `None` if there are too many.
    fn new(fleet: Arc<Shared>) -> Option<Self> {
        fleet.enter().then_some(Self(fleet))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.leave();
    }
}
