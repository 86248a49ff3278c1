use super::algorithm::KeyedAlgorithm;
use super::keys::{Amount, Asked, Refusal, Told};
use super::names::{AsKey, Hashed, KeyNames};
use super::rule::Terms;
use super::table::Who;
use super::{KeyTokens, Keyed, KeyedError};
use crate::clock::Timestamp;
use crate::limiter::Snapshot;
use crate::quota::Quota;
use crate::room::Acquire;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
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
    pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.take(key, None)
    }

    /// [`Keyed::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.take(key, Some(n))
    }

    #[inline]
    fn take(&self, key: &(impl AsKey<N> + ?Sized), n: Option<u64>) -> Result<(), Denied> {
        let who = self.keyed.who(key);
        let mut now_ns = self.now_ns;
        if self.own.is_none() && now_ns.is_none() {
            let told_ns = self.keyed.clock.now().as_nanos();
            if let Some(answer) = self.keyed.keys.take_plain(who, told_ns, n) {
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
    pub fn peek(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.look_for(key, None)
    }

    /// [`Keyed::peek_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn peek_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.look_for(key, Some(n))
    }

    fn look_for(&self, key: &(impl AsKey<N> + ?Sized), n: Option<u64>) -> Result<(), Denied> {
        let (who, asked) = (self.keyed.who(key), self.asked());
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
    pub fn take_up_to(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
        let taken = self.take_with_care(self.keyed.who(key), self.asked(), Amount::UpTo(n));
        // Refused: there is nothing.
        taken.unwrap_or(0)
    }

    /// [`Keyed::refund`].
    pub fn refund(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
        let who = self.keyed.who(key);
        self.change(who, |asked| self.keyed.keys.give_back(who, asked, n))
    }

    /// [`Keyed::reset`].
    pub fn reset(&self, key: &(impl AsKey<N> + ?Sized)) {
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
    pub fn available(&self, key: &(impl AsKey<N> + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// [`Keyed::snapshot`].
    pub fn snapshot(&self, key: &(impl AsKey<N> + ?Sized)) -> Snapshot {
        self.snapshot_of(self.keyed.who(key))
    }

    pub(super) fn snapshot_of(&self, who: Who<'_, N>) -> Snapshot {
        let asked = self.asked();
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
        known.snapshot()
    }

    /// [`Keyed::acquire`]. It waits by the limiter's clock, whatever instant this is a view of.
    ///
    /// All who wait for the key go by this view's quota from then on, until somebody comes with another: as after
    /// [`Keyed::set_quota`], a faster one serves them earlier, and who asks for more than it ever allows is refused.
    pub fn acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Acquire<KeyTokens<'a, A, N>> {
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
