use super::algorithm::KeyedAlgorithm;
use super::keys::{Amount, Asked, Refusal, Told, Who};
use super::known::Known;
use super::names::{Hashed, KeyNames, Names};
use super::rule::{Rule, Terms};
use super::{KeyTokens, Keyed, KeyedError};
use crate::clock::Timestamp;
use crate::limiter::Snapshot;
use crate::quota::Quota;
use crate::room::Acquire;
use crate::verdict::{Denied, duration_from_nanos};
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;

/// A [`Keyed`] limiter at an instant of the caller's, or by a key's own quota: the same verbs.
///
/// Made by [`Keyed::at`] and [`Keyed::with`]; it may be kept, and is `Copy`.
///
/// ```
/// use flowgate::{Keyed, Quota, Timestamp};
/// use std::time::Duration;
///
/// let limits = Keyed::token_bucket("10/s burst 2".parse()?).capacity(1000)?;
/// let gold = limits.with(Quota::per_second(100))?;
/// assert_eq!((limits.available("bob"), gold.available("ann")), (2, 100));
/// assert_eq!(gold.take_up_to("ann", 120), 100);
/// assert!(gold.refund("ann", 30) <= 30); // some may have flowed in again by itself
/// gold.acquire("ann").block()?;
///
/// let then = Timestamp::from_nanos(5_000_000_000); // a simulation's time
/// let replayed = Keyed::token_bucket("10/s burst 2".parse()?).capacity(1000)?;
/// replayed.at(then).try_acquire_n("bob", 2)?;
/// let denied = replayed.at(then).peek("bob").unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// replayed.at(then).reset("bob");
/// assert_eq!(replayed.at(then).snapshot("bob").remaining, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedView<'a, A: KeyedAlgorithm, N: KeyNames = Hashed> {
    pub(super) keyed: &'a Keyed<A, N>,
    pub(super) now_ns: Option<u64>,
    pub(super) own: Option<Terms>,
}

impl<A: KeyedAlgorithm, N: KeyNames> Clone for KeyedView<'_, A, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Copy for KeyedView<'_, A, N> {}

impl<'a, A: KeyedAlgorithm, N: KeyNames> KeyedView<'a, A, N> {
    /// [`Keyed::at`].
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self {
            now_ns: Some(now.as_nanos()),
            ..self
        }
    }

    /// [`Keyed::with`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn with(self, quota: Quota) -> Result<Self, KeyedError> {
        let own = Some(self.keyed.own_terms(quota)?);
        Ok(Self { own, ..self })
    }

    /// [`Keyed::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire<K: Hash + ?Sized>(&self, key: &K) -> Result<(), Denied>
    where
        N: Names<K>,
    {
        self.take(key, None)
    }

    /// [`Keyed::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n<K: Hash + ?Sized>(&self, key: &K, n: u64) -> Result<(), Denied>
    where
        N: Names<K>,
    {
        self.take(key, Some(n))
    }

    #[inline]
    fn take<K: Hash + ?Sized>(&self, key: &K, n: Option<u64>) -> Result<(), Denied>
    where
        N: Names<K>,
    {
        let who = self.keyed.who(key);
        let mut now_ns = self.now_ns;
        if self.own.is_none() && now_ns.is_none() {
            let told_ns = self.keyed.clock.now().as_nanos();
            if let Some(answer) = self.keyed.keys.take_at_once(who, told_ns, n) {
                return answer;
            }
            now_ns = Some(told_ns);
        }
        self.take_slowly(who, now_ns, n)
    }

    /// At `now_ns`, if it has been asked or is the caller's.
    #[inline(never)]
    fn take_slowly(
        &self,
        who: Who<'_, N>,
        now_ns: Option<u64>,
        n: Option<u64>,
    ) -> Result<(), Denied> {
        let asked = self.asked_at(now_ns.unwrap_or_else(|| self.now_ns()));
        let amount = n.map_or(Amount::Token, Amount::All);
        self.take_with_care(who, asked, amount).map(drop)
    }

    /// Says how many units it took.
    #[inline(never)]
    fn take_with_care(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        amount: Amount,
    ) -> Result<u64, Denied> {
        let taken = match self.keyed.keys.take(who, asked, amount, false) {
            Err(Refusal::Waits(slot)) => {
                let n = match amount {
                    Amount::Token => None,
                    Amount::All(n) | Amount::UpTo(n) => Some(n),
                };
                self.stand_back(who, slot, asked.now_ns, n)?;
                self.keyed.keys.take(who, asked, amount, true)
            }
            taken => taken,
        };
        taken.map(|taken| taken.units).map_err(Refusal::denied)
    }

    /// [`Keyed::peek`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K) -> Result<(), Denied>
    where
        N: Names<K>,
    {
        self.look_for(key, None)
    }

    /// [`Keyed::peek_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn peek_n<K: Hash + ?Sized>(&self, key: &K, n: u64) -> Result<(), Denied>
    where
        N: Names<K>,
    {
        self.look_for(key, Some(n))
    }

    fn look_for<K: Hash + ?Sized>(&self, key: &K, n: Option<u64>) -> Result<(), Denied>
    where
        N: Names<K>,
    {
        let who = self.keyed.who(key);
        let asked = self.asked();
        if self.own.is_none() && asked.told == Told::ByClock {
            let judged = |state, now, terms: &Terms| {
                Known::<A::Rule>::new(*terms, state, now).judge(n.unwrap_or(terms.scale))
            };
            if let Some(answer) = self.keyed.keys.see_at_once(who, asked.now_ns, judged) {
                return answer;
            }
        }
        match self.keyed.keys.peek(who, asked, n, false) {
            Ok(()) => Ok(()),
            Err(Refusal::Denied(denied)) => Err(denied),
            Err(Refusal::Waits(slot)) => {
                self.stand_back(who, slot, asked.now_ns, n)?;
                let seen = self.keyed.keys.peek(who, asked, n, true);
                seen.map_err(Refusal::denied)
            }
        }
    }

    /// Serves those who wait for the same key and are due, and says whether anybody is left in line whom somebody would
    /// overtake who wants `n` units (none: a token).
    #[cold]
    fn stand_back(
        &self,
        who: Who<'_, N>,
        slot: usize,
        now_ns: u64,
        n: Option<u64>,
    ) -> Result<(), Denied> {
        let Some(room) = self.keyed.rooms.find(slot, &who.place, who.key) else {
            return Ok(());
        };
        let supply = self.keyed.supply(&room);
        let n = n.unwrap_or_else(|| self.keyed.terms(self.own.as_ref()).scale);
        // The line may go by a quota by which it could never have as much.
        let n = n.min(supply.terms().most);
        room.room.pass(&supply, now_ns, Some(n))
    }

    /// [`Keyed::take_up_to`].
    pub fn take_up_to<K: Hash + ?Sized>(&self, key: &K, n: u64) -> u64
    where
        N: Names<K>,
    {
        let taken = self.take_with_care(self.keyed.who(key), self.asked(), Amount::UpTo(n));
        // Refused: there is nothing.
        taken.unwrap_or(0)
    }

    /// [`Keyed::refund`].
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, n: u64) -> u64
    where
        N: Names<K>,
    {
        let who = self.keyed.who(key);
        self.change(who, |asked| self.keyed.keys.give_back(who, asked, n))
    }

    /// [`Keyed::reset`].
    pub fn reset<K: Hash + ?Sized>(&self, key: &K)
    where
        N: Names<K>,
    {
        let who = self.keyed.who(key);
        self.change(who, |asked| ((), self.keyed.keys.reset(who, asked)));
    }

    /// Does what may help those who wait for the same key, and has them served. `change` says in which slot the key is if
    /// somebody does.
    fn change<T>(
        &self,
        who: Who<'_, N>,
        change: impl FnOnce(Asked<'_>) -> (T, Option<usize>),
    ) -> T {
        let asked = self.asked_latest();
        let line = |slot| self.keyed.rooms.find(slot, &who.place, who.key);
        let room = self.keyed.keys.look(who, asked).1.and_then(line);
        let supply = room.as_deref().map(|room| self.keyed.supply(room));
        let guard = supply.as_ref().map(|line| line.room.room.change(line));
        let (changed, waits) = change(asked);
        // Somebody may have come in between, also to a new line after all have left that one.
        if let Some(now) = waits.and_then(line)
            && !room.as_ref().is_some_and(|room| Arc::ptr_eq(room, &now))
        {
            now.room.serve_changed(&self.keyed.supply(&now));
        }
        drop(guard);
        changed
    }

    /// [`Keyed::available`].
    pub fn available<K: Hash + ?Sized>(&self, key: &K) -> u64
    where
        N: Names<K>,
    {
        self.snapshot(key).remaining
    }

    /// [`Keyed::snapshot`].
    pub fn snapshot<K: Hash + ?Sized>(&self, key: &K) -> Snapshot
    where
        N: Names<K>,
    {
        self.snapshot_of(self.keyed.who(key))
    }

    pub(super) fn snapshot_of(&self, who: Who<'_, N>) -> Snapshot {
        let asked = self.asked();
        let reset_after =
            |ticks: u128| duration_from_nanos(ticks.div_ceil(super::entry::TICKS_PER_NS.into()));
        if self.own.is_none() && asked.told == Told::ByClock {
            let seen = |state, now, terms: &Terms| Snapshot {
                limit: terms.most,
                remaining: A::Rule::left(state, now, terms),
                reset_after: reset_after(A::Rule::whole_after(state, now, terms)),
            };
            if let Some(snapshot) = self.keyed.keys.see_at_once(who, asked.now_ns, seen) {
                return snapshot;
            }
        }
        let (known, waits) = self.keyed.keys.look(who, asked);
        let limit = known.terms.most;
        if let Some(slot) = waits
            && let Err(denied) = self.stand_back(who, slot, asked.now_ns, Some(limit))
        {
            return Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            };
        }
        Snapshot {
            limit,
            remaining: known.left(),
            reset_after: reset_after(known.whole_after()),
        }
    }

    /// [`Keyed::acquire`]. It waits by the limiter's clock, whatever instant this is a view of.
    ///
    /// All who wait for the key go by this view's quota from then on, until somebody comes with another: as after
    /// [`Keyed::set_quota`], a faster one serves them earlier, and who asks for more than it ever allows is refused.
    pub fn acquire<K: Hash + ?Sized>(&self, key: &K) -> Acquire<KeyTokens<'a, A, N>>
    where
        N: Names<K>,
    {
        let now_ns = None;
        Acquire::new(KeyTokens::of(Self { now_ns, ..*self }, self.keyed.who(key)))
    }

    /// For a change: if the clock is asked, not at an earlier time than somebody has decided by.
    pub(super) fn asked_latest(&self) -> Asked<'_> {
        let mut asked = self.asked();
        if asked.told == Told::ByClock {
            asked.now_ns = self.keyed.clock.latest().as_nanos();
        }
        asked
    }

    #[inline]
    pub(super) fn asked(&self) -> Asked<'_> {
        self.asked_at(self.now_ns())
    }

    fn now_ns(&self) -> u64 {
        let by_clock = || self.keyed.clock.now().as_nanos();
        self.now_ns.unwrap_or_else(by_clock)
    }

    fn asked_at(&self, now_ns: u64) -> Asked<'_> {
        Asked {
            now_ns,
            told: match self.now_ns {
                Some(_) => Told::ByCaller,
                None => Told::ByClock,
            },
            clock: Some(&self.keyed.clock),
            own: self.own.as_ref(),
        }
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyedView<'_, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedView")
            .field("keyed", self.keyed)
            .field("now", &self.now_ns.map(Timestamp::from_nanos))
            .finish_non_exhaustive()
    }
}
