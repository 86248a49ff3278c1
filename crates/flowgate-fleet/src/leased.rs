//! A leased limit: the limiter that callers use, and the task that fills it.
//!
//! The limiter holds the task's waker, and the waker holds the task. So the task ends with the limiter.

use crate::call::{Call, Failure, Reply};
use crate::delivery::{Answer, Delivery, Receiver, Sender};
use crate::fleet::{Announced, Shared};
use crate::leaser::Leaser;
use crate::limit::{Ask, Of};
use crate::overshoot::{Lender, Lending};
use crate::terms::{Kind, Terms};
use crate::view::{self, FleetBound, FleetView};
use crate::{Admitted, FleetError};
use flowgate::{Denied, Leased, Quota, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time;

/// A shared rate limit of which this process holds a part in advance.
///
/// It is an `Arc<`[`Leased`]`>`, and has all methods of one. Most decisions need no call to the store:
/// [`try_acquire`](flowgate::RateLimiter::try_acquire) spends what this process holds, and
/// [`acquire`](flowgate::RateLimiter::acquire) waits for more. A [`Gate`](flowgate::Gate) and other users of limiters take
/// `Arc::clone(&limit)`. The limiter is filled as long as any clone of it lives.
///
/// ```
/// use flowgate_fleet::{Fleet, Overshoot};
/// use std::sync::Arc;
///
/// let fleet = Fleet::local().nodes(8).open()?;
/// let api = fleet.limit("api", "100000/s burst 10000".parse()?).leased(Overshoot::percent(5)).build()?;
///
/// api.ask().block()?; // this process holds nothing yet: asks the store
/// api.acquire().block()?; // takes what this process holds by now, or waits for more
/// let gate = flowgate::Gate::builder().limit("api", Arc::clone(&api)).build()?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FleetLeased {
    leased: Arc<Leased>,
    filling: Arc<Filling>,
}

/// What fills a limiter.
pub(crate) struct Filling {
    shared: Arc<Shared>,
    leased: Weak<Leased>,
    name: String,
    lender: Lender,
    state: Mutex<State>,
}

struct State {
    quota: Quota,
    leaser: Leaser,
    /// Those that wait for an answer of the store.
    asking: VecDeque<Asker>,
    timer: Option<AbortHandle>,
}

struct Asker {
    n: u64,
    answer: Sender,
}

impl FleetLeased {
    pub(crate) fn new(
        shared: Arc<Shared>,
        leased: Arc<Leased>,
        (name, quota, lender): (String, Quota, Lender),
        leaser: Leaser,
    ) -> Self {
        let state = State {
            quota,
            leaser,
            asking: VecDeque::new(),
            timer: None,
        };
        let filling = Arc::new(Filling {
            shared,
            leased: Arc::downgrade(&leased),
            name,
            lender,
            state: Mutex::new(state),
        });
        filling.announce();
        Self { leased, filling }
    }

    /// Returns what fills the limiter.
    pub(crate) fn filling(&self) -> &Arc<Filling> {
        &self.filling
    }

    /// Returns a future that takes one unit, from the store if none is here.
    ///
    /// The output is an error if the store refuses too, with the time at which this process asks it again. While the store does not
    /// answer, this process decides as [`when_cut_off`](crate::FleetLimitBuilder::when_cut_off) says.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what the store has granted stays with this process.
    pub fn ask(&self) -> Ask {
        Ask::new(Of::Leased(self.clone()))
    }

    /// Returns the quota that this process states.
    pub fn quota(&self) -> Quota {
        self.filling.state().quota
    }

    /// Replaces the quota that this process states; see [`FleetLimit::set_quota`](crate::FleetLimit::set_quota).
    ///
    /// The overshoot stays what was stated: a percentage is one of the new burst. What this process holds is spent as before. While
    /// processes state different quotas, the largest burst, rate and overshoot hold.
    ///
    /// ```
    /// use flowgate_fleet::{Fleet, Overshoot};
    ///
    /// let fleet = Fleet::local().nodes(8).open()?;
    /// let api = fleet.limit("api", "1000/s burst 1000".parse()?).leased(Overshoot::percent(20)).build()?;
    /// api.set_quota("5000/s burst 5000".parse()?)?;
    /// assert_eq!(api.bound().leased, 1_000);
    /// let error = api.set_quota("1/s".parse()?).unwrap_err();
    /// assert!(error.to_string().contains("Overshoot::tokens(80)"), "{error}");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the [`FleetError`] that `build()` returns for a quota that cannot be kept. Nothing is changed then.
    pub fn set_quota(&self, quota: Quota) -> Result<(), FleetError> {
        let Filling { shared, name, .. } = &*self.filling;
        shared.names.set_quota(name, quota)
    }

    /// Returns how much the limit may have been exceeded by now.
    ///
    /// It is what this process can know; see [`FleetBound`]. Without a fault, it is the [`Overshoot`](crate::Overshoot): what all
    /// processes may hold in advance.
    ///
    /// ```
    /// use flowgate_fleet::{Fleet, Overshoot};
    ///
    /// let fleet = Fleet::local().nodes(8).open()?;
    /// let limit = || fleet.limit("api", "1000/s burst 1000".parse().expect("a quota"));
    /// let api = limit().leased(Overshoot::percent(20)).build()?;
    /// assert_eq!(api.bound().total(), Some(200));
    /// let exact = limit().leased(Overshoot::none()).build()?;
    /// assert_eq!(exact.bound().total(), Some(0));
    /// # Ok::<_, flowgate_fleet::FleetError>(())
    /// ```
    pub fn bound(&self) -> FleetBound {
        self.inspect().bound
    }

    /// Returns what this process has counted and knows of the limit.
    ///
    /// The numbers of [`FleetCounts`](crate::FleetCounts) that count requests count units here. A request that waits is counted as denied
    /// first, and as admitted later.
    pub fn inspect(&self) -> FleetView {
        let shared = &self.filling.shared;
        let now = self.leased.clock().now();
        let mut state = self.filling.state();
        state.leaser.note_use(&self.leased, now);
        FleetView {
            counts: state.leaser.counts(),
            bound: state.leaser.bound(now),
            is_connected: shared.is_up(),
            share: view::share(state.leaser.cut_off()),
        }
    }

    /// Decides on `n` units, or returns the receiver of the answer.
    pub(crate) fn begin(&self, n: u64) -> Result<Receiver, Answer> {
        let mut state = self.filling.state();
        let denied = match self.leased.try_acquire_n(n) {
            Ok(()) => return Err(Ok(state.leaser.admitted())),
            Err(denied) => denied,
        };
        let now = self.leased.clock().now();
        // A timer may be late, or does not know that the clock was set.
        let is_due = state.leaser.wake_at().is_some_and(|at| at <= now);
        let is_known = !is_due && (denied.is_outage() || state.leaser.is_dry(now));
        if denied.is_never() || denied.is_closed() || is_known {
            return Err(Err(denied));
        }
        let (answer, receiver) = oneshot::channel();
        state.asking.push_back(Asker { n, answer });
        drop(state);
        self.filling.announce();
        Ok(receiver)
    }

    /// Decides on `n` units for a caller that waits no longer.
    pub(crate) fn late(&self, n: u64) -> Answer {
        let now = self.leased.clock().now();
        match self.filling.state().leaser.admits_late(now, n) {
            true => Ok(Admitted::alone()),
            false => Err(Denied::outage()),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.filling.shared
    }
}

impl Deref for FleetLeased {
    type Target = Arc<Leased>;

    fn deref(&self) -> &Arc<Leased> {
        &self.leased
    }
}

impl Wake for Filling {
    fn wake(self: Arc<Self>) {
        self.announce();
    }
}

impl Filling {
    fn announce(self: &Arc<Self>) {
        self.shared.announce(Announced::Leased(Arc::clone(self)));
    }

    /// # Errors
    ///
    /// The limit cannot have this quota.
    pub(crate) fn check_quota(&self, quota: Quota) -> Result<(), FleetError> {
        self.lending(quota)?;
        self.state().leaser.check_quota(quota)
    }

    /// Replaces the quota, from the next call on.
    ///
    /// # Errors
    ///
    /// The limit cannot have this quota. Nothing is changed.
    pub(crate) fn set_quota(self: &Arc<Self>, quota: Quota) -> Result<(), FleetError> {
        let lending = self.lending(quota)?;
        if let Some(leased) = self.leased.upgrade() {
            let mut state = self.state();
            state.leaser.set_quota(quota, lending, &leased)?;
            state.quota = quota;
        }
        self.announce();
        Ok(())
    }

    fn lending(&self, quota: Quota) -> Result<Arc<Lending>, FleetError> {
        let terms = Terms::of_kind(quota, Kind::Bucket)?;
        self.lender.lending(quota, terms)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the call to send now, and its date. Otherwise, it is announced again when there may be one.
    pub(crate) fn call(self: &Arc<Self>) -> Option<(Call, Timestamp)> {
        let leased = self.leased.upgrade()?;
        let mut state = self.state();
        state.serve(&leased, false);
        let now = leased.clock().now();
        let call = state.leaser.call(now);
        if call.is_none() {
            state.serve(&leased, true);
            self.rest(state, &leased, now);
        }
        call.map(|call| (call, now))
    }

    pub(crate) fn answer(self: &Arc<Self>, sent: Timestamp, outcome: Result<Reply, Failure>) {
        let Some(leased) = self.leased.upgrade() else {
            return;
        };
        let mut state = self.state();
        state.leaser.answer(sent, leased.clock().now(), outcome);
        state.serve(&leased, true);
        drop(state);
        self.announce();
    }

    /// Has this announced when it is time, or when few units are left.
    fn rest(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        leased: &Arc<Leased>,
        now: Timestamp,
    ) {
        let (low, wake_at) = (state.leaser.low(), state.leaser.wake_at());
        let timer = wake_at.map(|wake_at| {
            let filling = Arc::clone(self);
            let wait = wake_at.saturating_duration_since(now);
            tokio::spawn(async move {
                time::sleep(wait).await;
                filling.announce();
            })
            .abort_handle()
        });
        let old = std::mem::replace(&mut state.timer, timer);
        drop(state);
        if let Some(old) = old {
            old.abort();
        }
        if let Some(low) = low {
            let waker = Waker::from(Arc::clone(self));
            leased.filler().wake_below(low, &waker);
        }
    }
}

impl State {
    /// Answers those that can be served, in their order; and the others, if the store `has_answered` that there is no more.
    fn serve(&mut self, leased: &Leased, has_answered: bool) {
        let is_over = |leaser: &Leaser, denied: &Denied| {
            denied.is_never()
                || denied.is_closed()
                || denied.is_outage()
                || has_answered && leaser.is_dry(leased.clock().now())
        };
        for Asker { n, answer } in std::mem::take(&mut self.asking) {
            if answer.is_closed() {
                continue;
            }
            // Each refusal counts as demand: once per answer.
            if !has_answered && leased.available() < n {
                self.asking.push_back(Asker { n, answer });
                continue;
            }
            let decided = match leased.try_acquire_n(n) {
                Ok(()) => Ok(self.leaser.admitted()),
                Err(denied) if is_over(&self.leaser, &denied) => Err(denied),
                Err(_) => {
                    self.asking.push_back(Asker { n, answer });
                    continue;
                }
            };
            let told = answer.send(Delivery::alone(decided));
            if told.is_err() && decided.is_ok() {
                leased.refund(n);
            }
        }
    }
}

impl Leaser {
    fn admitted(&self) -> Admitted {
        if self.alone_since().is_some() {
            Admitted::alone()
        } else {
            Admitted::by_store()
        }
    }
}

impl fmt::Debug for FleetLeased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetLeased")
            .field("leased", &self.leased)
            .field("lending", self.filling.state().leaser.lending())
            .finish_non_exhaustive()
    }
}
