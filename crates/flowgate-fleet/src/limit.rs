use crate::delivery::{Answer, Delivery, Receiver};
use crate::fleet::{Announced, Shared};
use crate::names::Lives;
use crate::patience::Patience;
use crate::record::Record;
use crate::strict::{Asked, Strict};
use crate::view::{FleetBound, FleetStanding, FleetView};
use crate::{CutOff, FleetError, FleetLeased};
use flowgate::{Denied, Quota};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// A rate limit that all processes of a [`Fleet`](crate::Fleet) share.
#[derive(Clone, Debug)]
pub struct FleetLimit(pub(crate) Question);

/// A limit for each key that all processes of a [`Fleet`](crate::Fleet) share.
///
/// ```
/// use flowgate_fleet::{CutOff, Fleet};
///
/// let fleet = Fleet::redis("redis://127.0.0.1:1")?.open()?; // no store is there
/// let tenants = fleet.keyed("tenant", "100/min".parse()?).when_cut_off(CutOff::Share(1, 50)).build()?;
/// assert!(tenants.ask("t-17").n(2).block().is_ok());
/// assert!(tenants.ask("t-17").block().unwrap_err().is_outage());
/// assert!(tenants.ask("t-18").block().is_ok());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FleetKeyed {
    /// With the record of the empty key.
    pub(crate) question: Question,
}

/// One key of a [`FleetKeyed`], for a key that is asked again and again.
///
/// [`FleetKeyed::with`] returns it.
///
/// ```
/// use flowgate_fleet::{CutOff, Fleet, FleetKey};
///
/// let fleet = Fleet::local().open()?;
/// let tenants = fleet.keyed("tenant", "100/min".parse()?).when_cut_off(CutOff::Deny).build()?;
/// let tenant: FleetKey = tenants.with("t-17"); // when a session begins
/// assert!(tenant.ask().n(100).block().is_ok());
/// assert!(tenants.ask("t-17").block().is_err());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FleetKey(Question);

/// The limit and the key that a request is about.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) shared: Arc<Shared>,
    pub(crate) strict: Arc<Strict>,
    pub(crate) record: Record,
    pub(crate) name: Arc<str>,
    /// The limit's name is in use.
    pub(crate) _lives: Arc<Lives>,
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    is_degraded: bool,
}

impl Admitted {
    pub(crate) fn by_store() -> Self {
        Self { is_degraded: false }
    }

    pub(crate) fn alone() -> Self {
        Self { is_degraded: true }
    }

    pub(crate) fn of(is_degraded: bool) -> Self {
        Self { is_degraded }
    }

    /// Returns whether this process decided alone, because the store did not answer.
    pub fn is_degraded(self) -> bool {
        self.is_degraded
    }
}

impl FleetLimit {
    /// Returns a future that asks the store for one unit.
    ///
    /// Callers that ask while a call is in flight share the next one. An answer takes two round trips at most. A store that does not
    /// answer costs 100 ms at most. Then this process decides alone, as [`when_cut_off`](crate::FleetLimitBuilder::when_cut_off) says.
    /// [`Ask::within`] sets a shorter time.
    ///
    /// The output is an error if the limit refuses. [`Denied::is_outage`] then states that the store did not answer,
    /// and this process admits no more alone. That is a matter for the status 503, not 429.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before its call is sent takes nothing. After that, its units may be lost: they are not returned,
    /// because the store may have been asked already.
    pub fn ask(&self) -> Ask {
        Ask::new(Of::Strict(self.0.clone()))
    }

    /// Returns the quota that this process states.
    pub fn quota(&self) -> Quota {
        self.0.strict.quota()
    }

    /// Replaces the quota that this process states.
    ///
    /// All limits of this name that were built from the same fleet change. The new quota holds from the next call on. What was admitted before still counts: of a bucket, the debt stays; of a window, its count and its
    /// beginning. Other processes go on with their own quota. While they differ, the largest burst and the largest rate hold.
    ///
    /// ```
    /// use flowgate_fleet::{CutOff, Fleet};
    ///
    /// let fleet = Fleet::local().open()?;
    /// let mail = fleet.window("mail", "3/day".parse()?).when_cut_off(CutOff::Deny).build()?;
    /// assert!(mail.ask().n(3).block().is_ok());
    /// mail.set_quota("5/day".parse()?)?;
    /// assert!(mail.ask().n(3).block().is_err());
    /// assert!(mail.ask().n(2).block().is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the [`FleetError`] that `build()` returns for a quota that cannot be kept. Nothing is changed then.
    pub fn set_quota(&self, quota: Quota) -> Result<(), FleetError> {
        self.0.set_quota(quota)
    }

    /// Returns how much the limit may have been exceeded by now.
    ///
    /// It is what this process can know; see [`FleetBound`].
    pub fn bound(&self) -> FleetBound {
        self.0.bound()
    }

    /// Returns what this process has counted and knows of the limit.
    pub fn inspect(&self) -> FleetView {
        self.0.inspect()
    }
}

impl FleetKeyed {
    /// Returns a future that asks the store for one unit of `key`; see [`FleetLimit::ask`].
    ///
    /// Keys are compared as bytes. In all processes, the bytes of a key must be the same. A busy key of a limit that
    /// [leases](crate::FleetLimitBuilder::leased) takes what this process holds, and asks the store if that is too little.
    pub fn ask(&self, key: impl AsRef<[u8]>) -> Ask {
        self.with(key).ask()
    }

    /// Returns a handle for `key`. Asking it does not hash the key again.
    pub fn with(&self, key: impl AsRef<[u8]>) -> FleetKey {
        FleetKey(Question {
            record: self.record(key.as_ref()),
            ..self.question.clone()
        })
    }

    pub(crate) fn record(&self, key: &[u8]) -> Record {
        let Question { record, name, .. } = &self.question;
        record.with_key(name, key)
    }

    /// Returns the quota of each key that this process states.
    pub fn quota(&self) -> Quota {
        self.question.strict.quota()
    }

    /// Returns what this process decides by while the store cannot be reached.
    #[doc(hidden)]
    pub fn cut_off(&self) -> CutOff {
        self.question.strict.cut_off()
    }

    /// Returns an error if this limit cannot have the quota.
    #[doc(hidden)]
    pub fn check_quota(&self, quota: Quota) -> Result<(), FleetError> {
        self.question.strict.check_quota(quota)
    }

    /// Returns an error if [`set_quota`](Self::set_quota) would fail for this quota.
    #[doc(hidden)]
    pub fn check_quota_of_name(&self, quota: Quota) -> Result<(), FleetError> {
        let Question { shared, name, .. } = &self.question;
        shared.names.check_quota(name, quota)
    }

    /// Replaces the quota of each key; see [`FleetLimit::set_quota`].
    ///
    /// # Errors
    ///
    /// The same as for a [`FleetLimit`].
    pub fn set_quota(&self, quota: Quota) -> Result<(), FleetError> {
        self.question.set_quota(quota)
    }

    /// Returns what is left of `key`, by the store's last answer about it. It does not ask the store.
    ///
    /// ```
    /// use flowgate_fleet::{CutOff, Fleet};
    ///
    /// let fleet = Fleet::local().open()?;
    /// let tenants = fleet.keyed("tenant", "100/day".parse()?).when_cut_off(CutOff::Deny).build()?;
    /// assert!(tenants.ask("t-17").n(40).block().is_ok());
    /// assert_eq!(tenants.standing("t-17").remaining, 60);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn standing(&self, key: impl AsRef<[u8]>) -> FleetStanding {
        let record = self.record(key.as_ref());
        self.question.strict.standing(record)
    }

    /// Returns how much the limit of each key may have been exceeded by now.
    pub fn bound(&self) -> FleetBound {
        self.question.bound()
    }

    /// Returns what this process has counted for all keys together.
    pub fn inspect(&self) -> FleetView {
        self.question.inspect()
    }
}

impl FleetKey {
    /// Returns a future that asks the store for one unit of this key; see [`FleetLimit::ask`].
    pub fn ask(&self) -> Ask {
        Ask::new(Of::Strict(self.0.clone()))
    }

    /// Returns the quota of this key that this process states.
    pub fn quota(&self) -> Quota {
        self.0.strict.quota()
    }
}

impl Question {
    fn set_quota(&self, quota: Quota) -> Result<(), FleetError> {
        self.shared.names.set_quota(&self.name, quota)
    }

    fn bound(&self) -> FleetBound {
        self.strict.bound(self.shared.timeout)
    }

    fn inspect(&self) -> FleetView {
        FleetView {
            counts: self.strict.counts(),
            bound: self.bound(),
            is_connected: self.shared.is_up(),
            share: self.strict.share(),
        }
    }
}

/// A request to the store, as a future. [`FleetLimit::ask`], [`FleetKeyed::ask`] and [`FleetLeased::ask`] return it.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Ask {
    pub(crate) of: Of,
    pub(crate) n: u64,
    pub(crate) patience: Option<Patience>,
    answer: Option<Receiver>,
}

/// The limit that is asked.
#[derive(Clone, Debug)]
pub(crate) enum Of {
    Strict(Question),
    Leased(FleetLeased),
}

impl Ask {
    pub(crate) fn new(of: Of) -> Self {
        Self {
            of,
            n: 1,
            patience: None,
            answer: None,
        }
    }

    /// Sets the number of units (default: 1).
    pub fn n(mut self, units: u64) -> Self {
        self.n = units;
        self
    }

    /// Waits for the store for at most `longest`, counted from the first poll.
    ///
    /// After that, this process decides alone, as [`when_cut_off`](crate::FleetLimitBuilder::when_cut_off) says. It does so in any case when
    /// the fleet's [timeout](crate::FleetBuilder::timeout) has ended. The time is that of the fleet's clock.
    ///
    /// The store may have taken the units by then, or take them later. They stay taken there, and are not asked for again. What this process
    /// admits alone is counted in [`FleetBound::alone`] nevertheless.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{CutOff, LocalStore};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let store = LocalStore::new(&time);
    /// let fleet = store.fleet().timeout(Duration::from_secs(60)).open()?;
    /// let api = fleet.limit("api", "100/s".parse()?).when_cut_off(CutOff::Share(1, 100)).build()?;
    ///
    /// store.pause();
    /// let mut ask = || api.ask().within(Duration::ZERO).block();
    /// assert!(ask()?.is_degraded()); // a hundredth of the limit
    /// assert!(ask().unwrap_err().is_outage());
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
    /// Returns [`Denied`] in the same cases as the future.
    ///
    /// # Panics
    ///
    /// Panics in an asynchronous task of tokio, which must not block.
    pub fn block(mut self) -> Result<Admitted, Denied> {
        if self.patience.is_some() {
            let shared = Arc::clone(self.of.shared());
            return shared.block_on(self).unwrap_or(Err(Denied::outage()));
        }
        match self.begin() {
            Ok(receiver) => received(receiver.blocking_recv()),
            Err(answer) => answer,
        }
    }

    /// Asks. Returns the answer as an error if it is there already.
    fn begin(&mut self) -> Result<Receiver, Answer> {
        let Question {
            shared,
            strict,
            record,
            ..
        } = match &self.of {
            Of::Strict(question) => question,
            Of::Leased(limit) => return limit.begin(self.n),
        };
        match strict.ask(*record, self.n, shared.is_down()) {
            Asked::Now(answer) => Err(answer),
            Asked::Ahead(answer) => {
                shared.announce(Announced::Strict(Arc::clone(strict), *record));
                Err(answer)
            }
            Asked::Later { answer, is_first } => {
                if is_first {
                    shared.announce(Announced::Strict(Arc::clone(strict), *record));
                }
                Ok(answer)
            }
        }
    }

    /// Decides without the store, unless it has answered.
    pub(crate) fn give_up(&mut self) -> Answer {
        let answer = self.answer.take().and_then(|mut answer| {
            // What is sent from now on is not received.
            answer.close();
            answer.try_recv().ok()
        });
        answer.map_or_else(
            || match &self.of {
                Of::Strict(Question { strict, record, .. }) => strict.late(*record, self.n),
                Of::Leased(limit) => limit.late(self.n),
            },
            |delivery| delivery.answer,
        )
    }
}

impl Of {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        match self {
            Self::Strict(question) => &question.shared,
            Self::Leased(limit) => limit.shared(),
        }
    }
}

impl Future for Ask {
    type Output = Result<Admitted, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => match self.begin() {
                Ok(answer) => answer,
                Err(answer) => return Poll::Ready(answer),
            },
        };
        if let Poll::Ready(delivery) = Pin::new(&mut answer).poll(context) {
            return Poll::Ready(received(delivery));
        }
        let Self {
            of,
            patience,
            answer: waits,
            ..
        } = &mut *self;
        *waits = Some(answer);
        let clock = &of.shared().clock;
        let is_over = |patience: &mut Patience| patience.is_over(clock, context);
        match patience.as_mut().is_some_and(is_over) {
            true => Poll::Ready(self.give_up()),
            false => Poll::Pending,
        }
    }
}

/// The thread of the fleet may have ended.
fn received(delivery: Result<Delivery, oneshot::error::RecvError>) -> Answer {
    delivery.map_or(Err(Denied::outage()), |delivery| delivery.answer)
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
