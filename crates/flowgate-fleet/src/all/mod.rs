//! Several limits that admit a request together, or none of them does.

mod held;
#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;
mod together;

pub(crate) use together::InFlight;

use crate::fleet::Shared;
use crate::limit::{Of, Question};
use crate::patience::Patience;
use crate::{Admitted, Ask};
use flowgate::Denied;
use held::Held;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// What a caller is answered.
type Answer = Result<Admitted, DeniedBy>;

/// A request to several limits, as a future. [`Ask::all`] returns it.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AskAll {
    /// Of leased limits. Their tokens are here, or come first.
    leased: VecDeque<(usize, Ask)>,
    held: Held,
    parts: Vec<Part>,
    /// The fleet of one of them, whose clock measures the time.
    fleet: Option<Arc<Shared>>,
    patience: Option<Patience>,
    waiting: Option<Waiting>,
}

/// A caller that waits for its answer.
#[derive(Debug)]
struct Waiting {
    answer: oneshot::Receiver<Answer>,
    in_flight: Arc<InFlight>,
}

/// The units that are asked of one record.
#[derive(Debug)]
struct Part {
    of: Question,
    n: u64,
    /// The places in the list of the caller.
    listed: Vec<usize>,
}

/// A refusal by at least one of several limits. Nothing was taken from the others.
///
/// It has all methods of a [`Denied`]. [`retry_after`](Denied::retry_after) is the longest wait of the limits that refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedBy {
    whole: Denied,
    limits: Vec<(usize, Denied)>,
}

impl DeniedBy {
    fn one(at: usize, denied: Denied) -> Self {
        Self {
            whole: denied,
            limits: vec![(at, denied)],
        }
    }

    /// Creates the refusal of all of `limits`, of which there is at least one.
    fn all(mut limits: Vec<(usize, Denied)>) -> Self {
        limits.sort_by_key(|(at, _)| *at);
        // A refusal for good, or for an unknown time, is more than a wait.
        let wait = |(_, denied): &&(usize, Denied)| {
            denied
                .retry_after()
                .map_or((1, None), |wait| (0, Some(wait)))
        };
        let whole = limits.iter().max_by_key(wait);
        let whole = whole.map_or(Denied::outage(), |(_, denied)| *denied);
        Self { whole, limits }
    }

    /// Returns the limits that refuse, and why each of them does.
    ///
    /// The number is the place in the list of [`Ask::all`], from 0. Limits that were not asked any more, because others had refused, are not among them.
    pub fn limits(&self) -> &[(usize, Denied)] {
        &self.limits
    }
}

impl Deref for DeniedBy {
    type Target = Denied;

    fn deref(&self) -> &Denied {
        &self.whole
    }
}

impl From<DeniedBy> for Denied {
    fn from(by: DeniedBy) -> Self {
        by.whole
    }
}

impl fmt::Display for DeniedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt(f)
    }
}

impl std::error::Error for DeniedBy {}

impl Ask {
    /// Returns a future that takes from all of several limits, or from none of them.
    ///
    /// Each part of `asks` has its own units. The parts are requests of [`FleetLimit`](crate::FleetLimit),
    /// [`FleetKeyed`](crate::FleetKeyed) and [`FleetLeased`](crate::FleetLeased).
    ///
    /// ```
    /// use flowgate_fleet::{Ask, Fleet};
    ///
    /// let fleet = Fleet::local().nodes(8).open()?;
    /// let api = fleet.limit("api", "100/s".parse()?).build()?;
    /// let tenants = fleet.keyed("tenant", "5/h".parse()?).build()?;
    ///
    /// let both = || Ask::all([api.ask(), tenants.ask("t-17").n(3)]);
    /// both().block()?; // in a task: `both().await?`
    /// let denied = both().block().unwrap_err();
    /// assert_eq!(denied.limits()[0].0, 1); // the tenant's; nothing was taken from "api"
    /// assert!(denied.retry_after().is_some() && !denied.is_outage());
    /// assert!(api.ask().n(99).block().is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The output is a [`DeniedBy`]:
    ///
    /// - At least one limit refuses. `retry_after` is the longest wait of the limits that refuse.
    /// - [`Denied::is_outage`]: the store did not answer about a limit, and its share was used up. The limit may have had enough.
    /// - [`Denied::is_never`]: a limit's burst is smaller than the units.
    ///
    /// If the store does not answer about some limits, [`when_cut_off`](crate::FleetLimitBuilder::when_cut_off) decides on these, and the
    /// store on the others. The request is then [degraded](Admitted::is_degraded).
    ///
    /// # One server
    ///
    /// One script takes from all limits or from none. An answer takes as long as that of [`FleetLimit::ask`](crate::FleetLimit::ask).
    ///
    /// # A cluster
    ///
    /// Each record is in a slot of its own. No script reaches two of them, so there are several calls, one after the other:
    ///
    /// 1. The limits are looked at, all together, unless this process has an answer of the last second. If one of them lacks units,
    ///    nothing is taken.
    /// 2. The units are taken from one limit after the other, first from the one that has the least left.
    /// 3. If a limit refuses then, because another process was faster, the store gives back what was taken before. The refusal is
    ///    returned after that.
    ///
    /// In between, this holds:
    ///
    /// - **No limit is exceeded**, at any time.
    /// - A request that will be refused may keep others out: for as long as the calls and the giving back take. Other processes may
    ///   refuse by what they know for one second more.
    /// - Nothing is sent twice. If the answer to a call is lost, its units may be lost: they flow back at the limit's rate. So it is if
    ///   the process ends in between.
    /// - What has flowed back in between is not given back once more. Nothing is given back to a record that has been reset, has another
    ///   quota by now, or has forgotten that the units were taken.
    ///
    /// An answer takes at most one timeout per limit, one to look, and one to give back.
    ///
    /// # Windows
    ///
    /// A [window](crate::Fleet::window) is asked by a call of its own, after all other limits, also on one server. It takes nothing back:
    /// if another window refuses after it, its units are lost until it ends.
    ///
    /// # Cancel safety
    ///
    /// The units of a future that is dropped are given back, in the same way. They may be lost if the process ends.
    pub fn all(asks: impl IntoIterator<Item = Self>) -> AskAll {
        let (mut leased, mut parts) = (VecDeque::new(), Vec::<Part>::new());
        let (mut fleet, mut longest) = (None, None::<Duration>);
        for (at, ask) in asks.into_iter().enumerate() {
            let Self {
                of, n, patience, ..
            } = ask;
            fleet.get_or_insert_with(|| Arc::clone(of.shared()));
            if let Some(patience) = patience {
                longest =
                    Some(longest.map_or(patience.longest, |longest| longest.min(patience.longest)));
            }
            match of {
                Of::Strict(_) if n == 0 => {}
                Of::Strict(of) => match parts.iter_mut().find(|part| part.is_of(&of)) {
                    Some(part) => {
                        part.n = part.n.saturating_add(n);
                        part.listed.push(at);
                    }
                    None => parts.push(Part {
                        of,
                        n,
                        listed: vec![at],
                    }),
                },
                of @ Of::Leased(_) => leased.push_back((at, Self::new(of).n(n))),
            }
        }
        AskAll {
            leased,
            held: Held::default(),
            parts,
            fleet,
            patience: longest.map(Patience::new),
            waiting: None,
        }
    }
}

impl Part {
    fn is_of(&self, of: &Question) -> bool {
        Arc::ptr_eq(&self.of.strict, &of.strict) && self.of.record == of.record
    }
}

impl AskAll {
    /// Waits for the store for at most `longest`, counted from the first poll.
    ///
    /// After that, this process decides alone on the limits that the store has not answered about; see [`Ask::within`]. Without this, the
    /// shortest such time of the parts holds for all of them.
    ///
    /// What the store takes later stays taken if the request was admitted. If it was refused, that is given back.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{Ask, CutOff, LocalStore};
    /// use std::time::Duration;
    ///
    /// let store = LocalStore::new(ManualClock::new());
    /// let fleet = store.fleet().timeout(Duration::from_secs(60)).open()?;
    /// let api = fleet.limit("api", "100/s".parse()?).when_cut_off(CutOff::Admit).build()?;
    /// let tenants = fleet.keyed("tenant", "5/h".parse()?).when_cut_off(CutOff::Deny).build()?;
    ///
    /// store.pause();
    /// let denied = Ask::all([api.ask(), tenants.ask("t-17")]).within(Duration::ZERO).block().unwrap_err();
    /// assert!(denied.is_outage());
    /// assert_eq!(denied.limits()[0].0, 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(mut self, longest: Duration) -> Self {
        self.patience = Some(Patience::new(longest));
        self
    }

    /// Blocks the current thread until there is an answer.
    ///
    /// # Errors
    ///
    /// Returns [`DeniedBy`] in the same cases as the future.
    ///
    /// # Panics
    ///
    /// Panics in an asynchronous task of tokio, which must not block.
    pub fn block(mut self) -> Result<Admitted, DeniedBy> {
        if self.patience.is_some()
            && let Some(fleet) = self.fleet.clone()
        {
            return fleet.block_on(self).unwrap_or(Err(unanswered()));
        }
        while let Some((at, ask)) = self.leased.pop_front() {
            let (of, n) = (ask.of.clone(), ask.n);
            let admitted = ask.block();
            self.held
                .add(of, n, admitted.map_err(|denied| DeniedBy::one(at, denied))?);
        }
        match self.begin() {
            Ok(waiting) => waiting.answer.blocking_recv().unwrap_or(Err(unanswered())),
            Err(answer) => answer,
        }
    }

    /// Asks the store. Returns the answer as an error if it is there already.
    fn begin(&mut self) -> Result<Waiting, Answer> {
        let parts = std::mem::take(&mut self.parts);
        InFlight::begin(parts, std::mem::take(&mut self.held))
    }

    /// Returns whether the caller waits no longer.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let (Some(patience), Some(fleet)) = (&mut self.patience, &self.fleet) else {
            return false;
        };
        patience.is_over(&fleet.clock, context)
    }
}

impl Future for AskAll {
    type Output = Result<Admitted, DeniedBy>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some((_, ask)) = self.leased.front_mut() {
            let admitted = match Pin::new(ask).poll(context) {
                Poll::Ready(admitted) => Some(admitted),
                Poll::Pending if self.is_late(context) => None,
                Poll::Pending => return Poll::Pending,
            };
            let (at, mut ask) = self.leased.pop_front().expect("it was polled");
            match admitted.unwrap_or_else(|| ask.give_up()) {
                Ok(admitted) => self.held.add(ask.of, ask.n, admitted),
                Err(denied) => {
                    self.held = Held::default();
                    return Poll::Ready(Err(DeniedBy::one(at, denied)));
                }
            }
        }
        let mut waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.begin() {
                Ok(waiting) => waiting,
                Err(answer) => return Poll::Ready(answer),
            },
        };
        if let Poll::Ready(answer) = Pin::new(&mut waiting.answer).poll(context) {
            return Poll::Ready(answer.unwrap_or(Err(unanswered())));
        }
        if self.is_late(context) {
            // If it has been answered, the answer has been sent.
            let late = waiting.in_flight.late();
            let sent = || waiting.answer.try_recv().unwrap_or(Err(unanswered()));
            return Poll::Ready(late.unwrap_or_else(sent));
        }
        self.waiting = Some(waiting);
        Poll::Pending
    }
}

/// The fleet's thread has ended, which it does not while a caller waits.
fn unanswered() -> DeniedBy {
    DeniedBy::all(Vec::new())
}
