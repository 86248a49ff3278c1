//! The decisions: what is known of a key, what the rule makes of it, and what happens where there is no room for it.

use super::counts::Counters;
use super::entry::{Entry, TICK_BITS, TICKS_PER_NS};
use super::force::InForce;
use super::names::sealed::Sealed;
use super::place::Place;
use super::rule::{Rule, Terms};
use super::sketch::Sketch;
use super::table::{Opening, Slot, Table};
use crate::clock::Clock;
use crate::primitive::{AtomicU64, AtomicU128, Ordering};
use crate::quota::Quota;
use crate::verdict::Denied;
use core::marker::PhantomData;

/// All keys of a limiter, with their states.
#[derive(Debug)]
pub(crate) struct Keys<R, N> {
    pub(crate) table: Table,
    pub(crate) names: N,
    pub(crate) sketch: Sketch,
    pub(crate) force: InForce,
    pub(crate) full: Full,
    pub(crate) counters: Counters,
    /// The latest time that a caller has supplied.
    pub(crate) newest_ns: AtomicU64,
    pub(crate) rule: PhantomData<fn() -> R>,
}

/// What is done for a new key for which there is no vacant slot.
#[derive(Debug)]
pub(crate) enum Full {
    /// The entry that stops to matter first goes, and the sketch remembers it.
    Evict,
    Deny,
    /// All such keys together are in these terms.
    Share {
        terms: Terms,
        state: AtomicU128,
    },
}

/// A key, and where it is.
pub(crate) struct Who<'a, N: Sealed> {
    pub(crate) place: Place,
    pub(crate) key: &'a N::Key,
}

impl<N: Sealed> Clone for Who<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Sealed> Copy for Who<'_, N> {}

/// When it is asked, and by which terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) now_ns: u64,
    /// What has told it, and can tell it again.
    pub(crate) clock: Option<&'a Clock>,
    /// The key's own terms, instead of the table's.
    pub(crate) own: Option<&'a Terms>,
}

/// How much is asked for, in units.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// As many as a token is.
    Token,
    /// All of them or none.
    All(u64),
    /// As many as there are, at most this.
    UpTo(u64),
}

/// What was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) units: u64,
    /// As of when: not before it was asked.
    pub(crate) at_ns: u64,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Others wait for the same key, which is in this slot.
    Waits(usize),
    Denied(Denied),
}

pub(crate) const fn ticks(ns: u64) -> u128 {
    (ns as u128) << TICK_BITS
}

impl Asked<'_> {
    fn terms<R, N>(&self, keys: &Keys<R, N>) -> Terms {
        match self.own {
            Some(own) => *own,
            None => keys.force.terms(),
        }
    }
}

impl<R: Rule, N: Sealed> Keys<R, N> {
    /// The slot of this key, held.
    #[inline(always)]
    fn find(&self, who: Who<'_, N>) -> Option<(Slot<'_>, N::Held<'_>)> {
        self.table.find(&who.place, |slot| {
            let held = self.names.hold(slot.index, who.key)?;
            if !N::KEEPS {
                return Some((slot, held));
            }
            // It may have been another's that has the same fingerprint.
            let slot = slot.again();
            (slot.entry.fingerprint() == who.place.fingerprint).then_some((slot, held))
        })
    }

    /// Puts `state` in `terms` into the slot of this key, which is held, if nothing has changed.
    #[inline(always)]
    fn commit(
        &self,
        who: Who<'_, N>,
        (slot, held): (Slot<'_>, N::Held<'_>),
        terms: &Terms,
        state: u128,
    ) -> bool {
        if slot.entry.reading().is_own() && !terms.reading.is_own() {
            // Locks of the table come before those of slots.
            drop(held);
            return self.commit_to_table(who, slot.entry, terms, state);
        }
        slot.swap(slot.entry.with(terms.reading, state))
    }

    /// An entry that has had terms of its own is passed over by those who change the table's. So it comes into these under the
    /// lock, as a new one does.
    #[cold]
    fn commit_to_table(&self, who: Who<'_, N>, entry: Entry, terms: &Terms, state: u128) -> bool {
        let _lock = self.table.lock(&who.place);
        let same = self.find(who).filter(|(slot, _)| slot.entry == entry);
        same.is_some_and(|(slot, _held)| {
            self.force.terms() == *terms && slot.swap(entry.with(terms.reading, state))
        })
    }

    /// Puts `entry`, a new one of this key's, in place of a vacant one.
    fn settle(&self, who: Who<'_, N>, slot: Slot<'_>, entry: Entry) -> bool {
        self.table.forget(slot.entry.state());
        self.replace(who, slot, entry)
    }

    fn replace(&self, who: Who<'_, N>, slot: Slot<'_>, entry: Entry) -> bool {
        let name = N::own(who.key);
        let held = self.names.claim(slot.index);
        let is_in = slot.swap(entry);
        if is_in {
            N::rename(held, name);
        }
        is_in
    }

    /// [`take`](Self::take) for a newcomer, if all is as it mostly is: the key has an entry, in the table's terms, for which nobody
    /// waits, and nobody is faster.
    #[inline(always)]
    pub(crate) fn take_at_once(
        &self,
        who: Who<'_, N>,
        now_ns: u64,
        n: Option<u64>,
    ) -> Option<Result<(), Denied>> {
        let terms = self.force.terms();
        let n = n.unwrap_or(terms.scale);
        if n == 0 || n > terms.most {
            return None;
        }
        let (slot, _held) = self.find(who)?;
        if !slot.entry.is_plain(terms.reading) {
            return None;
        }
        match R::take(slot.entry.state(), ticks(now_ns), n, &terms) {
            Ok(next) => {
                let entry = slot.entry.with(terms.reading, next);
                slot.swap(entry).then_some(Ok(()))
            }
            Err(missing) => Some(Err(later(missing))),
        }
    }

    /// Takes units of the key at `who.place`, for somebody in line or, if nobody waits, for a newcomer.
    #[inline(never)]
    pub(crate) fn take(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        amount: Amount,
        is_in_line: bool,
    ) -> Result<Taken, Refusal> {
        let at_ns = asked.now_ns;
        loop {
            let terms = asked.terms(self);
            let n = amount.units(&terms);
            if n > terms.most {
                return Err(Refusal::Denied(Denied::never(n, terms.most)));
            }
            if n == 0 {
                return Ok(Taken { units: n, at_ns });
            }
            let Some((slot, held)) = self.find(who) else {
                match self.take_new(who, asked, amount) {
                    Some(answer) => return answer.map_err(Refusal::Denied),
                    None => continue,
                }
            };
            if slot.entry.waits() && !is_in_line {
                return Err(Refusal::Waits(slot.index));
            }
            let Some(state) = self.state(slot.entry, &terms, asked) else {
                continue;
            };
            match amount.take::<R>(state, ticks(at_ns), n, &terms) {
                Ok((next, units)) => {
                    if self.commit(who, (slot, held), &terms, next) {
                        return Ok(Taken { units, at_ns });
                    }
                }
                Err(missing) => return Err(Refusal::Denied(later(missing))),
            }
        }
    }

    /// [`take`](Self::take) for a key without an entry; none if it has one.
    #[cold]
    #[inline(never)]
    fn take_new(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        amount: Amount,
    ) -> Option<Result<Taken, Denied>> {
        let _lock = self.table.lock(&who.place);
        if self.find(who).is_some() {
            return None;
        }
        // Under the lock, so that no entry of an earlier generation comes after a change has gone through all.
        let terms = asked.terms(self);
        let (state, now) = self.unknown(&who.place, asked, &terms);
        let n = amount.units(&terms);
        if n > terms.most {
            // The quota has just changed.
            return None;
        }
        let (next, units) = match amount.take::<R>(state, now, n, &terms) {
            Ok(taken) => taken,
            Err(missing) => {
                self.counters.refused_by_estimate.add();
                return Some(Err(later(missing)));
            }
        };
        let entry = Entry::new(who.place.fingerprint, terms.reading, next);
        let at_ns = (now >> TICK_BITS) as u64;
        loop {
            match (self.table.opening(&who.place, now), &self.full) {
                (Opening::Vacant(slot), _) => {
                    if self.settle(who, slot, entry) {
                        return Some(Ok(Taken { units, at_ns }));
                    }
                }
                (Opening::Instead(slot), Full::Evict) => {
                    if next <= slot.entry.state() {
                        // The newcomer itself.
                        self.remember(entry, &terms, now);
                    } else if !self.evict(who, slot, entry, asked) {
                        continue;
                    }
                    self.counters.evicted.add();
                    return Some(Ok(Taken { units, at_ns }));
                }
                (Opening::Instead(slot), Full::Deny) => {
                    self.counters.denied.add();
                    let wait = slot.entry.state() - now;
                    return Some(Err(Denied::table_full(nanos(wait))));
                }
                (Opening::None, Full::Evict | Full::Deny) => {
                    self.counters.denied.add();
                    return Some(Err(Denied::table_full(0)));
                }
                (_, Full::Share { terms, state }) => {
                    self.counters.shared.add();
                    let shared = share::<R>(terms, state, now, amount.with(units));
                    return Some(shared.map(|units| Taken { units, at_ns }));
                }
            }
        }
    }

    /// What is known of a key without an entry, at `now`, as which a later instant may count that the clock has reached.
    fn unknown(&self, place: &Place, asked: Asked<'_>, terms: &Terms) -> (u128, u128) {
        let mut now = ticks(asked.now_ns);
        let forgotten = self.table.forgotten();
        if forgotten > now
            && let Some(clock) = asked.clock
        {
            // Somebody has read the clock later, and was faster.
            now = now.max(ticks(clock.now().as_nanos()));
        }
        let mut cell = match self.full {
            Full::Evict => self.sketch.recall::<R>(place.fingerprint),
            Full::Deny | Full::Share { .. } => 0,
        };
        if forgotten > now {
            cell = R::join(cell, R::to_cell(R::unknown_until(forgotten, terms), terms));
        }
        match R::free_at(cell) > now {
            true => (R::from_cell(cell, now, terms), now),
            false => (0, now),
        }
    }

    /// Puts `entry` in the place of another key's.
    fn evict(&self, who: Who<'_, N>, slot: Slot<'_>, entry: Entry, asked: Asked<'_>) -> bool {
        let Some((terms, state)) = self.read(slot.entry, asked) else {
            return false;
        };
        let gone = slot.entry.with(terms.reading, state);
        self.remember(gone, &terms, ticks(asked.now_ns));
        self.replace(who, slot, entry)
    }

    fn remember(&self, entry: Entry, terms: &Terms, now: u128) {
        let cell = R::to_cell(entry.state(), terms);
        let forget = |free| self.table.forget(free);
        self.sketch
            .remember::<R>(entry.fingerprint(), cell, now, forget);
    }

    /// The state of an entry in `terms`; none if those are not in force any longer, or the entry is not up to date.
    #[inline]
    fn state(&self, entry: Entry, terms: &Terms, asked: Asked<'_>) -> Option<u128> {
        if entry.reading() == terms.reading {
            return Some(entry.state());
        }
        self.restated(entry, terms, asked)
    }

    #[cold]
    fn restated(&self, entry: Entry, terms: &Terms, asked: Asked<'_>) -> Option<u128> {
        let (from, state) = self.read(entry, asked)?;
        if from.reading == terms.reading {
            return Some(state);
        }
        let is_change_of_own = from.reading.is_own() || terms.reading.is_own();
        let restate = |at_ns| R::restate(state, &from, terms, ticks(at_ns));
        // What was taken at a later time is not owed since an earlier one, at a faster rate.
        is_change_of_own.then(|| restate(asked.now_ns).max(restate(self.newest_ns(asked))))
    }

    /// The latest time that anybody has decided by, as far as that is known.
    fn newest_ns(&self, asked: Asked<'_>) -> u64 {
        let told_ns = asked.clock.map_or(0, |clock| clock.latest().as_nanos());
        let newest_ns = self.newest_ns.load(Ordering::Acquire);
        asked.now_ns.max(told_ns).max(newest_ns)
    }

    /// An entry's state and the terms that it is in: the table's that are in force, or as much as is known of its own.
    pub(crate) fn read(&self, entry: Entry, asked: Asked<'_>) -> Option<(Terms, u128)> {
        let table = self.force.terms();
        let reading = entry.reading();
        if reading.is_own() {
            let terms = R::of_class(reading.class(), &table);
            return Some((Terms { reading, ..terms }, entry.state()));
        }
        if reading == table.reading {
            return Some((table, entry.state()));
        }
        let change = self.force.changed()?;
        let is_it = change.from.reading == reading;
        is_it.then(|| {
            // Read after the entry, so that nothing in it was taken later: a bucket may have been full until then.
            let at = ticks(self.newest_ns(asked).max(change.at_ns));
            (
                change.to,
                R::restate(entry.state(), &change.from, &change.to, at),
            )
        })
    }

    /// What is known of the key at `who.place`: its terms and its state, and, if others wait for it, its slot.
    pub(crate) fn look(&self, who: Who<'_, N>, asked: Asked<'_>) -> (Terms, u128, Option<usize>) {
        loop {
            let terms = asked.terms(self);
            let Some((slot, _held)) = self.find(who) else {
                return (terms, self.unknown(&who.place, asked, &terms).0, None);
            };
            if let Some(state) = self.state(slot.entry, &terms, asked) {
                return (terms, state, slot.entry.waits().then_some(slot.index));
            }
        }
    }

    /// What [`take`](Self::take) would answer.
    pub(crate) fn peek(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        n: Option<u64>,
        is_in_line: bool,
    ) -> Result<(), Refusal> {
        let (terms, state, waits) = self.look(who, asked);
        let n = n.unwrap_or(terms.scale);
        if let Some(slot) = waits
            && !is_in_line
            && n > 0
            && n <= terms.most
        {
            return Err(Refusal::Waits(slot));
        }
        let next = judge::<R>(state, ticks(asked.now_ns), n, &terms);
        next.map(drop).map_err(Refusal::Denied)
    }

    /// Gives `n` units back to this key, and says how many that was, and, if somebody waits for it, its slot.
    pub(crate) fn give_back(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        n: u64,
    ) -> (u64, Option<usize>) {
        loop {
            let terms = asked.terms(self);
            let Some((slot, held)) = self.find(who) else {
                return (0, None);
            };
            let Some(state) = self.state(slot.entry, &terms, asked) else {
                continue;
            };
            // What has flowed in since an earlier time cannot come back as well.
            let now = ticks(self.newest_ns(asked));
            let (next, n) = R::give_back(state, now, n, &terms);
            if n == 0 || self.commit(who, (slot, held), &terms, next) {
                return (n, slot.entry.waits().then_some(slot.index));
            }
        }
    }

    /// Takes back the `n` units that this key was granted at `then_ns` and that nobody has seen, unless its terms are not those
    /// of this [number](Reading::number) any longer.
    pub(crate) fn take_back(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        (then_ns, n): (u64, u64),
        number: u64,
    ) {
        while let Some((slot, held)) = self.find(who) {
            let Some((terms, state)) = self.read(slot.entry, asked) else {
                continue;
            };
            if terms.reading.number() != number {
                return;
            }
            // Read after the entry, so that it is not older than the decisions in it.
            let now = ticks(self.newest_ns(asked));
            let next = R::take_back(state, ticks(then_ns), now, n, &terms);
            if self.commit(who, (slot, held), &terms, next) {
                return;
            }
        }
    }

    /// Says in the entry of this key, if it has one, what it has taken in the terms that are asked by.
    pub(crate) fn restate(&self, who: Who<'_, N>, asked: Asked<'_>) {
        while let Some((slot, held)) = self.find(who) {
            let terms = asked.terms(self);
            let Some(state) = self.state(slot.entry, &terms, asked) else {
                continue;
            };
            if self.commit(who, (slot, held), &terms, state) {
                return;
            }
        }
    }

    /// Forgets what this key has taken, and says, if somebody waits for it, its slot.
    pub(crate) fn reset(&self, who: Who<'_, N>, asked: Asked<'_>) -> Option<usize> {
        // Where there is no room, it would be forgotten at once.
        let slot = self.put(who, asked, false, |entry| entry.with(entry.reading(), 0))?;
        slot.entry.waits().then_some(slot.index)
    }

    /// Says that somebody waits for this key, and in which slot that is said; none: there is no room to say so.
    pub(crate) fn hold(&self, who: Who<'_, N>, asked: Asked<'_>) -> Option<usize> {
        self.put(who, asked, true, |entry| entry.with_waits(true))
            .map(|slot| slot.index)
    }

    /// Nobody waits for this key any longer.
    pub(crate) fn release(&self, who: Who<'_, N>, asked: Asked<'_>) {
        self.put(who, asked, false, |entry| entry.with_waits(false));
    }

    /// Changes the entry of the key at `who.place`, of which one is made if there is room, in place of another if
    /// `may_evict`; the slot that it is in now, with what was there before.
    fn put(
        &self,
        who: Who<'_, N>,
        asked: Asked<'_>,
        may_evict: bool,
        change: impl Fn(Entry) -> Entry,
    ) -> Option<Slot<'_>> {
        loop {
            if let Some((slot, _held)) = self.find(who) {
                if slot.swap(change(slot.entry)) {
                    return Some(slot);
                }
                continue;
            }
            let _lock = self.table.lock(&who.place);
            if self.find(who).is_some() {
                continue;
            }
            let terms = asked.terms(self);
            let (state, now) = self.unknown(&who.place, asked, &terms);
            let entry = change(Entry::new(who.place.fingerprint, terms.reading, state));
            let opening = self.table.opening(&who.place, now);
            let (slot, is_in) = match (opening, &self.full) {
                (Opening::Vacant(slot), _) => (slot, self.settle(who, slot, entry)),
                (Opening::Instead(slot), Full::Evict) if may_evict => {
                    let is_in = self.evict(who, slot, entry, asked);
                    if is_in {
                        self.counters.evicted.add();
                    }
                    (slot, is_in)
                }
                _ => return None,
            };
            if is_in {
                return Some(slot);
            }
        }
    }

    /// Puts another quota in force, of which `terms` are the integers, as of `now_ns`.
    pub(crate) fn set_quota(&self, quota: Quota, terms: &Terms, asked: Asked<'_>) {
        let mut in_force = self.force.quota();
        let now_ns = self.newest_ns(asked);
        self.force.change(&mut in_force, quota, terms, now_ns);
        // No entry of the generation before comes after this,
        self.table.let_in();
        // and none is left after that.
        for (_, mut slot) in self.table.all() {
            while slot.entry.fingerprint() != 0 && !slot.entry.reading().is_own() {
                let Some((terms, state)) = self.read(slot.entry, asked) else {
                    break;
                };
                if slot.entry.reading() == terms.reading
                    || slot.swap(slot.entry.with(terms.reading, state))
                {
                    break;
                }
                slot = slot.again();
            }
        }
        if let Some(change) = self.force.changed() {
            self.sketch
                .restate::<R>(&change.from, &change.to, ticks(self.newest_ns(asked)));
        }
    }

    /// How many keys have taken something that still matters.
    pub(crate) fn len(&self, now_ns: u64) -> usize {
        let now = ticks(now_ns);
        let entries = self.table.all().map(|(_, slot)| slot.entry);
        entries.filter(|entry| entry.state() > now).count()
    }
}

impl Amount {
    /// How many units that is in these terms.
    fn units(self, terms: &Terms) -> u64 {
        match self {
            Self::Token => terms.scale,
            Self::All(n) => n,
            Self::UpTo(n) => n.min(terms.most),
        }
    }

    /// The same, of `n` units.
    fn with(self, n: u64) -> Self {
        match self {
            Self::UpTo(_) => Self::UpTo(n),
            Self::Token | Self::All(_) => Self::All(n),
        }
    }

    /// Takes the `n` [`units`](Self::units) that are asked for, or as many as there are if fewer will do: the new state and how
    /// many; or how many ticks are missing.
    fn take<R: Rule>(
        self,
        state: u128,
        now: u128,
        n: u64,
        terms: &Terms,
    ) -> Result<(u128, u64), u128> {
        let taken = R::take(state, now, n, terms).map(|next| (next, n));
        match (taken, self) {
            (Err(missing), Self::UpTo(_)) => match R::left(state, now, terms).min(n) {
                0 => Err(missing),
                left => R::take(state, now, left, terms).map(|next| (next, left)),
            },
            (taken, _) => taken,
        }
    }
}

impl Refusal {
    /// For those whom it does not concern whether others wait.
    pub(crate) fn denied(self) -> Denied {
        match self {
            Self::Denied(denied) => denied,
            Self::Waits(_) => Denied::busy(),
        }
    }
}

/// What becomes of `state` if `n` units are taken.
pub(crate) fn judge<R: Rule>(
    state: u128,
    now: u128,
    n: u64,
    terms: &Terms,
) -> Result<u128, Denied> {
    if n > terms.most {
        return Err(Denied::never(n, terms.most));
    }
    match n {
        0 => Ok(state),
        _ => R::take(state, now, n, terms).map_err(later),
    }
}

fn later(missing: u128) -> Denied {
    Denied::later(missing, TICKS_PER_NS)
}

fn nanos(ticks: u128) -> u64 {
    u64::try_from(ticks.div_ceil(TICKS_PER_NS.into())).unwrap_or(u64::MAX)
}

/// Takes units, not 0, from what all keys share that have no room, and says how many.
fn share<R: Rule>(
    terms: &Terms,
    state: &AtomicU128,
    now: u128,
    amount: Amount,
) -> Result<u64, Denied> {
    let n = amount.units(terms);
    if n > terms.most {
        return Err(Denied::never(n, terms.most));
    }
    let mut known = state.load(Ordering::Acquire);
    loop {
        let taken = amount.take::<R>(known, now, n, terms);
        let (next, units) = taken.map_err(later)?;
        match state.compare_exchange_weak(known, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(units),
            Err(changed) => known = changed,
        }
    }
}
