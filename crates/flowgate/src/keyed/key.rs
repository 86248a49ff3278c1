use super::algorithm::KeyedAlgorithm;
use super::entry::Place;
use super::keys::{Amount, Asked, Query, Refusal, Told};
use super::names::{AsKey, Hashed, KeyNames};
use super::queues::{Entered, Guest, KeyQueue, KeyWait};
use super::rule::Terms;
use super::table::{Names, Who};
use super::{Keyed, KeyedError};
use crate::clock::{Clock, Timestamp};
use crate::limiter::{Limiter, QuotaState, Snapshot, own_verbs, sealed};
use crate::queue::{
    Acquirable, Acquire, Asker, Facts, Grant, Grantee, Opened, Queue, Receipt, Supply, Turn,
    WaitQueue,
};
use crate::quota::policy::Policy;
use crate::quota::{Quota, Quotas};
use crate::verdict::Denied;
use alloc::borrow::{Cow, ToOwned};
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use core::task::{Poll, Waker};
use core::time::Duration;

/// The limiter of one key of a [`Keyed`] table, for code that takes any [`Limiter`].
///
/// | made by | for |
/// |---|---|
/// | [`Keyed::key`] | code that borrows the table |
/// | [`Keyed::key_owned`] | a [`Gate`](crate::Gate), a separate task, a struct |
///
/// It decides as the table does for the same key. Tokens that one of them takes are no longer available to the other.
///
/// ```
/// use flowgate::{Keyed, Limiter};
///
/// fn send(limiter: &dyn Limiter) -> bool {
///     limiter.try_acquire().is_ok()
/// }
///
/// let tenants = Keyed::token_bucket("10/h".parse()?).capacity(1000)?;
/// assert!(send(&tenants.key("alice")));
/// assert_eq!(tenants.available("alice"), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// This gate has one limit for each tenant and one for all of them:
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, Keyed};
/// use std::sync::Arc;
///
/// let tenants = Arc::new(Keyed::token_bucket("10/h".parse()?).capacity(1000)?);
/// let gate = Gate::builder()
///     .limit("tenant", tenants.key_owned("alice"))
///     .limit("slots", ConcurrencyLimit::new(2))
///     .build()?;
/// let permit = gate.try_acquire()?;
/// assert_eq!(tenants.available("alice"), 9);
/// # drop(permit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Waiting
///
/// All callers that wait for a key share one queue, whether they wait here, at another limiter of the same key or at the
/// [table](Keyed::acquire). The queue exists while at least one caller waits for the key. It uses one quota: the one
/// [with](Keyed::with) which the last waiter joined.
///
/// > **Note:** after its first wait, this value keeps the queue and the table entry of its key until it is dropped. The
/// > future of [`Keyed::acquire`] keeps them until it is ready or dropped. A
/// > [forgotten](crate::Acquire#forgotten-waits) wait keeps them forever.
///
/// > **Limit:** a gate that waits for a key has its own queue. A refund to the key or a change of its quota does not wake the gate.
/// > The gate
/// > asks again at the retry-after of its last refusal.
pub struct KeyLimiter<'a, A: KeyedAlgorithm, N: KeyNames = Hashed> {
    pub(super) keyed: Owner<'a, Keyed<A, N>>,
    place: Place,
    key: Cow<'a, N::Key>,
    /// The explicit timestamp, if there is one, instead of the clock's reading.
    now_ns: Option<u64>,
    /// The per-key quota, if there is one, instead of the table's quota.
    own: Option<Terms>,
    /// The quota from which `own` was computed, if it is known.
    quota: Option<A::Quota>,
    /// The place in the key's queue, which the limiter enters at its first wait.
    pub(super) guest: Guest<Terms, N::Owned>,
}

/// A borrowed or shared pointer to the table.
pub(super) enum Owner<'a, T> {
    Borrowed(&'a T),
    Shared(Arc<T>),
}

impl<T> Deref for Owner<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(owner) => owner,
            Self::Shared(owner) => owner,
        }
    }
}

/// A key's queue that a caller has just entered, and why the caller has to wait.
type Entering<N> = (Entered<Terms, <N as Names>::Owned>, Option<Denied>);

/// A key's queue.
pub(super) type SharedQueue<N> = Arc<KeyQueue<Terms, <N as Names>::Owned>>;

impl<A: KeyedAlgorithm, N: KeyNames> Keyed<A, N> {
    /// Returns the key for a caller that reads its state once.
    #[inline]
    pub(super) fn seen<'k>(&'k self, key: &'k (impl AsKey<N> + ?Sized)) -> KeyLimiter<'k, A, N> {
        self.seen_as(self.keys.table.who(key))
    }

    #[inline]
    pub(super) fn seen_as<'k>(&'k self, who: Who<'k, N>) -> KeyLimiter<'k, A, N> {
        KeyLimiter::new(Owner::Borrowed(self), who.place, Cow::Borrowed(who.key))
    }

    /// Returns the key of the waiters in `queue`.
    pub(super) fn waited_for<'k>(&'k self, queue: &'k SharedQueue<N>) -> KeyLimiter<'k, A, N> {
        let key = Cow::Borrowed(queue.key.borrow());
        let mut line = KeyLimiter::new(Owner::Borrowed(self), queue.place, key);
        line.own = queue.own();
        line.guest = Guest::of(queue);
        line
    }
}

impl<A: KeyedAlgorithm<Quota = Quota>, N: KeyNames> KeyLimiter<'_, A, N> {
    /// Returns the limiter of the same key with a per-key quota; see [`Keyed::with`].
    ///
    /// ```
    /// # use flowgate::{Keyed, Quota};
    /// let limits = Keyed::token_bucket(Quota::per_minute(100)).capacity(1000)?;
    /// let gold = limits.key("bob").with(Quota::per_minute(5000))?;
    /// assert_eq!(gold.available(), 5000);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if the table cannot keep this quota.
    pub fn with(mut self, quota: Quota) -> Result<Self, KeyedError> {
        self.own = Some(self.keyed.own_terms(quota)?);
        self.quota = Some(A::quota(quota));
        Ok(self)
    }
}

impl<'a, A: KeyedAlgorithm, N: KeyNames> KeyLimiter<'a, A, N> {
    pub(super) fn new(keyed: Owner<'a, Keyed<A, N>>, place: Place, key: Cow<'a, N::Key>) -> Self {
        Self {
            keyed,
            place,
            key,
            now_ns: None,
            own: None,
            quota: None,
            guest: Guest::new(),
        }
    }

    /// Returns the place of the key's entry: equal for equal keys of one table.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Sets the explicit timestamp and the per-key terms, if there are any.
    pub(super) fn at_terms(mut self, now_ns: Option<u64>, own: Option<Terms>) -> Self {
        (self.now_ns, self.own) = (now_ns, own);
        self
    }

    /// Returns the same methods at an explicit timestamp; see [`Keyed::at`].
    pub fn at(&self, now: Timestamp) -> KeyLimiter<'_, A, N> {
        let keyed = Owner::Borrowed(&*self.keyed);
        let key = KeyLimiter::new(keyed, self.place, Cow::Borrowed(&*self.key));
        key.at_terms(Some(now.as_nanos()), self.own)
    }

    /// Takes one token; see [`Keyed::try_acquire`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available ([`retry_after`](Denied::retry_after)), callers wait for the key, or the table
    /// has no entry for the key ([`is_table_full`](Denied::is_table_full)).
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.decide(None)
    }

    /// Takes `n` units, all or none; see [`Keyed::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if fewer than `n` units are available ([`retry_after`](Denied::retry_after)), callers wait for the key,
    /// the table has no entry for the key ([`is_table_full`](Denied::is_table_full)), or `n` is more than the quota ever allows
    /// ([`is_never`](Denied::is_never)).
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.decide(Some(n))
    }

    #[inline]
    fn decide(&self, n: Option<u64>) -> Result<(), Denied> {
        match (self.own, self.now_ns) {
            (None, None) => self.keyed.take(self.who(), n),
            _ => self.take_slowly(&self.asked(), n),
        }
    }

    pub(super) fn take_slowly(&self, query: &Query<'_, N>, n: Option<u64>) -> Result<(), Denied> {
        let amount = n.map_or(Amount::Token, Amount::All);
        self.take_amount(query, amount).map(drop)
    }

    /// Returns the number of units taken.
    #[inline(never)]
    fn take_amount(&self, query: &Query<'_, N>, amount: Amount) -> Result<u64, Denied> {
        let keys = &self.keyed.keys;
        let taken = match keys.take(query, amount, false) {
            Err(Refusal::Waits(slot)) => {
                let n = match amount {
                    Amount::Token => None,
                    Amount::All(n) | Amount::UpTo(n) => Some(n),
                };
                self.stand_back(slot, query.asked.now_ns, n)?;
                keys.take(query, amount, true)
            }
            taken => taken,
        };
        taken.map_err(Refusal::denied)
    }

    /// Returns the result that [`try_acquire`](Self::try_acquire) would return, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available ([`retry_after`](Denied::retry_after)) or callers wait for the key.
    pub fn peek(&self) -> Result<(), Denied> {
        self.look_for(&self.asked(), None)
    }

    /// Returns the result that [`try_acquire_n`](Self::try_acquire_n) would return, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if fewer than `n` units are available ([`retry_after`](Denied::retry_after)), callers wait for the key,
    /// or `n` is more than the quota ever allows ([`is_never`](Denied::is_never)).
    pub fn peek_n(&self, n: u64) -> Result<(), Denied> {
        self.look_for(&self.asked(), Some(n))
    }

    fn look_for(&self, query: &Query<'_, N>, n: Option<u64>) -> Result<(), Denied> {
        let keys = &self.keyed.keys;
        let seen = match keys.peek(query, n, false) {
            Err(Refusal::Waits(slot)) => {
                self.stand_back(slot, query.asked.now_ns, n)?;
                keys.peek(query, n, true)
            }
            seen => seen,
        };
        seen.map_err(Refusal::denied)
    }

    /// Grants the waiters of this key that can be granted now. Returns an error if waiters remain that a new request for `n` units
    /// (`None`: one token) would overtake.
    #[cold]
    fn stand_back(&self, slot: usize, now_ns: u64, n: Option<u64>) -> Result<(), Denied> {
        let Some(queue) = self.queue_in(slot) else {
            return Ok(());
        };
        let line = self.keyed.waited_for(&queue);
        let n = n.unwrap_or_else(|| self.keyed.terms(self.own.as_ref()).scale);
        // The queue may use a quota that never allows as much.
        let n = n.min(line.terms().most);
        queue.queue.pass(&line, now_ns, Some(n))
    }

    /// Takes up to `n` available units, and returns their number; see [`Keyed::take_up_to`].
    pub fn take_up_to(&self, n: u64) -> u64 {
        // A refusal means that nothing is available.
        self.take_amount(&self.asked(), Amount::UpTo(n))
            .unwrap_or(0)
    }

    /// Returns up to `n` units to the key, and reports how many; see [`Keyed::refund`].
    pub fn refund(&self, n: u64) -> u64 {
        let query = self.asked_latest();
        self.change(|keyed| keyed.keys.give_back(&query, n))
    }

    /// Forgets what the key has taken; see [`Keyed::reset`].
    pub fn reset(&self) {
        let query = self.asked_latest();
        self.change(|keyed| ((), keyed.keys.reset(&query)));
    }

    /// Makes a change that may help the waiters of this key, and grants them. `change` returns the key's slot if callers wait.
    fn change<T>(&self, change: impl FnOnce(&Keyed<A, N>) -> (T, Option<usize>)) -> T {
        let find = || {
            let query = self.asked_latest();
            self.keyed.keys.look(&query, |_, waits| waits)
        };
        let queue = match self.guest.key_queue() {
            Some(queue) => Some(Arc::clone(queue)),
            None => find().and_then(|slot| self.queue_in(slot)),
        };
        let line = queue.as_ref().map(|queue| self.keyed.waited_for(queue));
        let guard = line.as_ref().map(|line| Supply::queue(line).change(line));
        let (changed, waits) = change(&self.keyed);
        // A waiter may have joined in between, also in a new queue after all waiters have left the old one.
        if let Some(now) = waits.and_then(|slot| self.queue_in(slot))
            && !queue.as_ref().is_some_and(|queue| Arc::ptr_eq(queue, &now))
        {
            now.queue.serve_counted(&self.keyed.waited_for(&now));
        }
        drop(guard);
        changed
    }

    /// Returns how many units can be taken now; see [`Keyed::available`].
    pub fn available(&self) -> u64 {
        self.snapshot().remaining
    }

    /// Returns a consistent snapshot of the key; see [`Keyed::snapshot`].
    #[inline(always)]
    pub fn snapshot(&self) -> Snapshot {
        let query = self.asked();
        self.keyed.keys.look(&query, |known, waits| match waits {
            None => known.snapshot(),
            Some(slot) => self.snapshot_behind(&query, slot, known.terms.most),
        })
    }

    /// Returns a snapshot of the key behind its waiters, which have the queue in `slot`.
    #[cold]
    #[inline(never)]
    fn snapshot_behind(&self, query: &Query<'_, N>, slot: usize, limit: u64) -> Snapshot {
        match self.stand_back(slot, query.asked.now_ns, Some(limit)) {
            // What the waiters were granted is no longer there.
            Ok(()) => self.keyed.keys.look(query, |known, _| known.snapshot()),
            Err(denied) => Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            },
        }
    }

    /// Waits for one token in the key's queue; see [`Keyed::acquire`].
    ///
    /// # Errors
    ///
    /// When awaited, returns [`Denied`] if the request can never be granted ([`is_never`](Denied::is_never)), cannot be granted by
    /// the deadline ([`retry_after`](Denied::retry_after)), or if too many callers wait already
    /// ([`is_queue_full`](Denied::is_queue_full)).
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(self)
    }

    /// Waits for one token, with a future that keeps the limiter alive.
    ///
    /// # Errors
    ///
    /// When awaited, returns [`Denied`] for the same reasons as [`acquire`](Self::acquire): [`is_never`](Denied::is_never), not
    /// granted by the deadline, or [`is_queue_full`](Denied::is_queue_full).
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(Arc::clone(self))
    }

    /// Returns the table that contains the key.
    pub fn keyed(&self) -> &Keyed<A, N> {
        &self.keyed
    }

    fn who(&self) -> Who<'_, N> {
        Who {
            place: self.place,
            key: &self.key,
        }
    }

    fn queue_in(&self, slot: usize) -> Option<Arc<KeyQueue<Terms, N::Owned>>> {
        self.keyed.queues.find(slot, &self.place, &*self.key)
    }

    fn terms(&self) -> Terms {
        self.keyed.terms(self.guest.own(self.own).as_ref())
    }

    fn asked(&self) -> Query<'_, N> {
        let by_clock = || self.keyed.clock.now().as_nanos();
        self.asked_at(self.now_ns.unwrap_or_else(by_clock))
    }

    /// Returns the request for a change. By the clock, its time is not before any decision so far.
    pub(super) fn asked_latest(&self) -> Query<'_, N> {
        let by_clock = || self.keyed.clock.latest().as_nanos();
        self.asked_at(self.now_ns.unwrap_or_else(by_clock))
    }

    pub(super) fn asked_at(&self, now_ns: u64) -> Query<'_, N> {
        let told = match self.now_ns {
            Some(_) => Told::ByCaller,
            None => Told::ByClock,
        };
        let (clock, own) = (Some(&self.keyed.clock), self.own.as_ref());
        Query {
            who: self.who(),
            asked: Asked {
                now_ns,
                told,
                clock,
                own,
            },
        }
    }

    fn asked_as_of<'b>(&'b self, date: Timestamp, own: &'b Option<Terms>) -> Query<'b, N> {
        let mut query = self.asked_at(0).as_of(date);
        query.asked.own = own.as_ref();
        query
    }

    /// Changes the key to the queue's terms, if it has others. The change counts from now on, because a timestamp does not tell
    /// when.
    fn align(&self, own: &Option<Terms>) {
        let mut query = self.asked_as_of(self.keyed.clock.latest(), own);
        query.asked.told = Told::ByClock;
        self.keyed.keys.restate(&query);
    }

    /// Adds a waiter for the key, and returns why it has to wait.
    fn enter(&self, at: Timestamp, n: u64) -> Result<Entering<N>, Denied> {
        let (keyed, who, query) = (&*self.keyed, self.who(), self.asked());
        let held = || keyed.keys.hold(&query, at, n);
        let hold = || held().ok_or(Denied::queue_full(None));
        let made = || {
            let queue = Arc::new(KeyQueue::new(self.place, who.key.to_owned(), self.own));
            WaitQueue::new(&keyed.waited_for(&queue)).set_max_waiters(keyed.max_waiters_per_key);
            queue
        };
        keyed.queues.enter(hold, || keyed.keys.release(who), made)
    }

    fn leave(&self, entered: &Entered<Terms, N::Owned>) {
        let release = || self.keyed.keys.release(self.who());
        self.keyed.queues.leave(entered, release);
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Drop for KeyLimiter<'_, A, N> {
    fn drop(&mut self) {
        self.leave_queue();
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Acquirable for KeyLimiter<'_, A, N> {
    type Granted = Grant;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Grant, Denied>> {
        self.poll_turn(turn, waker)
    }

    fn abandon(&mut self, turn: &mut Turn) {
        turn.abandon(self);
    }

    fn clock_of_deadlines(&self) -> &Clock {
        &self.keyed.clock
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Supply for KeyLimiter<'_, A, N> {
    fn queue(&self) -> &Queue {
        self.guest.queue()
    }

    fn open_queue(&self, at: Timestamp, n: u64) -> Result<Opened<'_>, Denied> {
        let enter = || self.enter(at, n);
        let (line, refusal) = self.guest.enter(enter, |second| self.leave(&second))?;
        let restate = || self.keyed.keys.restate(&self.asked_latest());
        line.go_by(self.own, self, restate);
        let queue = &line.queue;
        Ok(Opened { queue, refusal })
    }

    fn clock(&self) -> &Clock {
        &self.keyed.clock
    }

    fn facts(&self) -> Facts {
        Facts::timed(self.terms().scale, 1)
    }

    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        if asker.ahead() == 0 && self.guest.key_queue().is_none() {
            return self.look_for(&self.asked_as_of(at, &self.own), Some(n));
        }
        let own = self.guest.own(self.own);
        self.align(&own);
        let query = self.asked_as_of(at, &own);
        let keys = &self.keyed.keys;
        keys.look(&query, |known, _| known.behind(asker.ahead()).judge(n))
    }

    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        let alone = || self.take_amount(&self.asked_as_of(at, &self.own), Amount::All(n));
        let Grantee::Waiter { receipts, .. } = to else {
            return alone().map(drop);
        };
        // This is read before the grant, so that it does not belong to later terms.
        let epoch = self.terms().reading.number();
        if self.guest.key_queue().is_some() {
            let own = self.guest.own(self.own);
            self.align(&own);
            let query = self.asked_as_of(at, &own);
            let keys = &self.keyed.keys;
            let taken = keys.take(&query, Amount::All(n), true);
            taken.map_err(Refusal::denied)?;
        } else {
            alone()?;
        }
        receipts.fill(Receipt {
            epoch,
            ..Receipt::default()
        });
        Ok(())
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        let own = self.guest.own(self.own);
        let query = self.asked_as_of(at, &own);
        let epoch = receipts.first().map_or(0, |receipt| receipt.epoch);
        let taken = (at.as_nanos(), n);
        self.change(|keyed| {
            keyed.keys.take_back(&query, taken, epoch);
            ((), None)
        });
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> KeyWait for KeyLimiter<'_, A, N> {
    type Granted = Grant;

    fn granted(&self, granted: Grant) -> Grant {
        granted
    }

    fn leave_queue(&mut self) {
        if let Some(entered) = self.guest.take() {
            self.leave(&entered);
        }
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> sealed::Sealed for KeyLimiter<'_, A, N> {
    fn supply(&self) -> sealed::Plumbing<'_> {
        sealed::Plumbing(self)
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        Some(self)
    }

    fn each_limiter(&self, visit: &mut dyn FnMut(sealed::Identity)) {
        let Place { fingerprint, line } = self.place;
        let key = [fingerprint, line as u64];
        visit(sealed::Identity::of_key(&*self.keyed, key));
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Limiter for KeyLimiter<'_, A, N> {
    own_verbs!();

    fn try_acquire_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.at(now).decide(Some(n))
    }

    fn peek(&self) -> Result<(), Denied> {
        self.peek()
    }

    fn peek_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.at(now).peek_n(n)
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot()
    }

    fn policy(&self) -> Option<Policy> {
        let quota = self.quota.unwrap_or_else(|| *self.keyed.keys.force.quota());
        A::only(quota).map(|quota| Policy::new(quota, A::IS_STEADY))
    }

    fn quota_states(&self) -> Option<[QuotaState; 2]> {
        let quotas: Quotas = (*self.keyed.keys.force.quota()).into();
        let [first, second] = quotas.as_slice().try_into().ok()?;
        let query = self.asked();
        let states = || {
            self.keyed.keys.look(&query, |known, waits| {
                let states = [known.quota_state(0, first), known.quota_state(1, second)];
                (states, waits)
            })
        };
        let (seen, waits) = states();
        let Some(slot) = waits else {
            return Some(seen);
        };
        let pass = |units| self.stand_back(slot, query.asked.now_ns, Some(units));
        // Of nothing: this only grants the waiters what is no longer there then.
        let _ = pass(0);
        Some(states().0.map(|state| state.behind_waiters(pass)))
    }

    fn refund(&self, n: u64) -> u64 {
        self.refund(n)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyLimiter<'_, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLimiter")
            .field("keyed", &*self.keyed)
            .field("now", &self.now_ns.map(Timestamp::from_nanos))
            .finish_non_exhaustive()
    }
}
