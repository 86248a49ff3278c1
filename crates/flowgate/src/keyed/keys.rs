//! The decisions: the state of a key, what the rule makes of it, and what happens if the table is full.

use super::counts::Counters;
use super::current::InForce;
use super::entry::{Entry, TICKS_PER_NS, ticks};
use super::known::{Known, never};
use super::rule::{Rule, Terms};
use super::sketch::Sketch;
use super::table::{Held, Names, Opening, Slot, Table, Who};
use crate::clock::{Clock, Timestamp};
use crate::primitive::{AtomicU64, AtomicU128, Ordering};
use crate::verdict::Denied;
use core::marker::PhantomData;

/// All keys of a limiter, with their states.
pub(crate) struct Keys<R: Rule, N: Names> {
    pub(crate) table: Table<N>,
    pub(crate) sketch: Sketch,
    pub(crate) force: InForce<R::Quota>,
    pub(crate) full: Full,
    pub(crate) counters: Counters,
    /// The latest explicit timestamp at which something was taken, or of a change of quota.
    pub(crate) newest_ns: AtomicU64,
    /// The largest burst or limit that any quota here has allowed. No key has a larger debt.
    pub(crate) largest: AtomicU64,
    pub(crate) rule: PhantomData<fn() -> R>,
}

/// What the limiter does with a new key for which there is no vacant slot.
#[derive(Debug)]
pub(crate) enum Full {
    /// Evicts the active entry that expires first. The sketch remembers it.
    Evict,
    Deny,
    /// All such keys share these terms.
    Share {
        terms: Terms,
        state: AtomicU128,
    },
}

/// The time and the terms of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) now_ns: u64,
    pub(crate) told: Told,
    pub(crate) clock: Option<&'a Clock>,
    /// The key's own terms, instead of the table's.
    pub(crate) own: Option<&'a Terms>,
}

/// A slot, locked by the thread that reads it.
/// A key, and how a caller asks about it.
pub(crate) struct Query<'a, N: Names> {
    pub(crate) who: Who<'a, N>,
    pub(crate) asked: Asked<'a>,
}

impl<N: Names> Query<'_, N> {
    /// The same question, as of `date`.
    pub(crate) fn as_of(&self, date: Timestamp) -> Self {
        let (who, asked) = (self.who, self.asked.as_of(date));
        Self { who, asked }
    }
}

type HeldSlot<'a, N> = (Slot<'a>, Held<'a, N>);

/// The source of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The clock, which can be read again.
    ByClock,
    /// The caller.
    ByCaller,
    /// The timestamp of a grant to a waiter.
    AsDate,
}

/// The number of units of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// The units of one token.
    Token,
    /// All of them or none.
    All(u64),
    /// The available units, at most this number.
    UpTo(u64),
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Other callers wait for the same key, whose entry is in this slot.
    Waits(usize),
    Denied(Denied),
}

impl Asked<'_> {
    /// Returns the same request at the timestamp of a grant.
    pub(crate) fn as_of(self, date: Timestamp) -> Self {
        Self {
            now_ns: date.as_nanos(),
            told: Told::AsDate,
            ..self
        }
    }

    /// Returns the current time, which may be later than `now_ns`, because the clock goes on.
    fn now_again(&self) -> u128 {
        let clock = self.clock.filter(|_| self.told == Told::ByClock);
        ticks(clock.map_or(self.now_ns, |clock| clock.now().as_nanos().max(self.now_ns)))
    }

    fn terms<R: Rule, N: Names>(&self, keys: &Keys<R, N>) -> Terms {
        match self.own {
            Some(own) => *own,
            None => keys.force.terms(),
        }
    }
}

impl<R: Rule, N: Names> Keys<R, N> {
    /// Puts `next` into this key's slot, if nothing has changed. The slot is held, and `known` is the state in it.
    #[inline(always)]
    fn commit(
        &self,
        who: Who<'_, N>,
        (slot, held): HeldSlot<'_, N>,
        known: &Known<R>,
        next: u128,
    ) -> bool {
        self.exchange(who, known);
        let terms = &known.terms;
        if slot.entry.reading().is_own() && !terms.reading.is_own() {
            // Locks of the table come before those of slots.
            drop(held);
            return self.commit_to_table(who, slot.entry, terms, next);
        }
        slot.swap(slot.entry.with(terms.reading, next))
    }

    /// Records when the key changes to these terms, if it does. If it changes to the table's terms, decisions on the fast path are
    /// told as well.
    fn exchange(&self, who: Who<'_, N>, known: &Known<R>) {
        let at_ns = nanos(known.exchanged);
        if !known.terms.reading.is_own() && at_ns > self.force.unsettled_ns() {
            self.force.settle(at_ns.max(known.now_ns()));
        }
        if known.exchanged > self.table.exchanged(&who.place) {
            self.table.exchange(&who.place, known.exchanged);
        }
    }

    /// Records that something is taken at this time, or by the clock.
    fn decide_at(&self, ns: u64, asked: Asked<'_>) {
        match asked.told {
            Told::ByClock => self.force.go_by_clock(),
            Told::ByCaller | Told::AsDate => {
                self.newest_ns.fetch_max(ns, Ordering::AcqRel);
            }
        }
    }

    /// A change of the table's terms skips entries with per-key terms. Such an entry therefore changes to the table's terms under
    /// the lock, as a new entry does.
    #[cold]
    fn commit_to_table(&self, who: Who<'_, N>, entry: Entry, terms: &Terms, state: u128) -> bool {
        let _lock = self.table.lock(&who.place);
        let same = self.table.find(who).filter(|(slot, _)| slot.entry == entry);
        same.is_some_and(|(slot, _held)| {
            self.force.terms() == *terms && slot.swap(entry.with(terms.reading, state))
        })
    }

    /// Puts `entry`, a new one of this key, in place of a vacant one.
    fn settle(&self, who: Who<'_, N>, slot: Slot<'_>, entry: Entry) -> bool {
        let is_own = slot.entry.reading().is_own();
        self.table.forget(slot.entry.state(), is_own);
        self.table.replace(who, slot, entry)
    }

    /// Takes units of the key at `who.place`, and returns how many. The caller is in the queue, or is a new caller for a key
    /// without waiters.
    #[inline(never)]
    pub(crate) fn take(
        &self,
        query: &Query<'_, N>,
        amount: Amount,
        is_in_line: bool,
    ) -> Result<u64, Refusal> {
        loop {
            let terms = query.asked.terms(self);
            let n = amount.units(&terms);
            if n > terms.most {
                return Err(Refusal::Denied(never::<R>(n, &terms)));
            }
            if n == 0 || R::ADMITS_ALL {
                return Ok(n);
            }
            let Some((slot, held)) = self.table.find(query.who) else {
                match self.take_new(query, amount) {
                    Some(answer) => return answer.map_err(Refusal::Denied),
                    None => continue,
                }
            };
            if slot.entry.waits() && !is_in_line {
                return Err(Refusal::Waits(slot.index));
            }
            let Some(known) = self.known(query, slot.entry, &terms) else {
                continue;
            };
            match amount.take(&known, n) {
                Ok((next, units)) => {
                    self.decide_at(known.now_ns(), query.asked);
                    if self.commit(query.who, (slot, held), &known, next) {
                        return Ok(units);
                    }
                }
                Err(missing) => return Err(Refusal::Denied(known.denied(n, missing))),
            }
        }
    }

    /// Takes units as [`take`](Self::take) does, for a key without an entry. Returns `None` if the key has one.
    #[cold]
    #[inline(never)]
    fn take_new(&self, query: &Query<'_, N>, amount: Amount) -> Option<Result<u64, Denied>> {
        let _lock = self.table.lock(&query.who.place);
        if self.table.find(query.who).is_some() {
            return None;
        }
        // This is read under the lock, so that no entry of an earlier generation is added after a change has updated all entries.
        let terms = query.asked.terms(self);
        let known = self.unknown(query, &terms)?;
        let n = amount.units(&terms);
        if n > terms.most {
            // The quota has just changed.
            return None;
        }
        let (next, units) = match amount.take(&known, n) {
            Ok(taken) => taken,
            Err(missing) => {
                self.counters.refused_by_estimate.add();
                return Some(Err(known.denied(n, missing)));
            }
        };
        let entry = Entry::new(query.who.place.fingerprint, terms.reading, next);
        let now = known.now;
        self.decide_at(known.now_ns(), query.asked);
        self.exchange(query.who, &known);
        loop {
            match (self.table.opening(&query.who.place, now), &self.full) {
                (Opening::Vacant(slot), _) => {
                    if self.is_vacant(slot, now, query.asked) && self.settle(query.who, slot, entry)
                    {
                        return Some(Ok(units));
                    }
                }
                (Opening::Instead(slot), Full::Evict) => {
                    if next <= slot.entry.state() {
                        // The new key itself is evicted.
                        self.remember(entry, &terms, query.asked, now);
                    } else if !self.evict(query, slot, entry) {
                        continue;
                    }
                    self.counters.evicted.add();
                    return Some(Ok(units));
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
                    return Some(share::<R>(terms, state, now, amount.with(units)));
                }
            }
        }
    }

    /// Returns whether the entry holds no information at `now` in the current terms either. An entry in older terms is changed to
    /// the current ones.
    fn is_vacant(&self, slot: Slot<'_>, now: u128, asked: Asked<'_>) -> bool {
        let entry = slot.entry;
        if entry.fingerprint() == 0 || entry.reading().is_own() {
            return true;
        }
        match self.read(entry, asked) {
            Some((terms, _)) if terms.reading == entry.reading() => true,
            Some((terms, state)) if state > now => {
                slot.swap(entry.with(terms.reading, state));
                false
            }
            known => known.is_some(),
        }
    }

    /// Returns what is known about a key without an entry. Returns `None` if the terms are no longer current. The result can be at
    /// a later instant that the clock has reached.
    fn unknown(&self, query: &Query<'_, N>, terms: &Terms) -> Option<Known<R>> {
        let table = self.force.terms();
        let is_own = terms.reading.is_own();
        if !is_own && table != *terms {
            return None;
        }
        let mut now = ticks(query.asked.now_ns);
        let forgotten = self.table.forgotten();
        if forgotten > now {
            // Another thread has read the clock later, and was faster.
            now = query.asked.now_again();
        }
        let cell = match self.full {
            Full::Evict => self.recall(query, &table)?,
            Full::Deny | Full::Share { .. } => 0,
        };
        let mut known = Known::new(*terms, 0, now);
        let (free, is_same) = (R::free_at(cell, &table), R::is_in(cell, terms));
        if free > now {
            known.state = R::from_cell(cell, now, terms, &table);
        }
        if !is_same {
            // In either terms, the limit is full after that time.
            known.exchanged = free;
            let newest = self.exchanges_at(query);
            if free > now && newest >= free {
                known.since = free;
                known.state = 0;
            } else if free > now {
                self.exchange_known(&mut known, newest, |at| {
                    R::from_cell(cell, at, terms, &table)
                });
            }
        }
        known.free = Some(free.max(forgotten));
        if forgotten > now && (!is_own || !R::FLOWS) {
            known.state = R::unknown_until(known.state, forgotten, terms);
        }
        if R::FLOWS {
            // By that time, every forgotten key with other terms was full.
            let forgotten = match is_own {
                true => forgotten,
                false => self.table.own_forgotten(),
            };
            known.since = known.since.max(forgotten);
            known.exchanged = known.exchanged.max(forgotten);
        }
        self.delimit(query, &mut known)?;
        Some(known)
    }

    /// Returns when the key at `place` changes its terms if it does so now. The time is not before its last change of terms.
    fn exchanges_at(&self, query: &Query<'_, N>) -> u128 {
        ticks(self.newest_ns(query.asked)).max(self.table.exchanged(&query.who.place))
    }

    /// Makes `known` the state that the key has if it changes its terms at `newest`. Nothing is known before that time.
    fn exchange_known(&self, known: &mut Known<R>, newest: u128, restated: impl Fn(u128) -> u128) {
        let largest = self.largest.load(Ordering::Acquire);
        known.state = R::limited(restated(newest), newest, largest, &known.terms);
        known.since = if R::FLOWS { newest } else { 0 };
        known.exchanged = newest;
    }

    /// Returns what the sketch remembers of a key, in the terms `table`. Returns `None` if they are no longer current.
    fn recall(&self, query: &Query<'_, N>, table: &Terms) -> Option<u64> {
        let [one, other] = self.sketch.recall(query.who.place.fingerprint);
        let [one, other] = [one, other].map(|cell| self.updated(cell, table, query.asked));
        Some(R::meet(one?, other?, table))
    }

    fn updated(&self, cell: u64, table: &Terms, asked: Asked<'_>) -> Option<u64> {
        if R::is_current(cell, table) {
            return Some(cell);
        }
        let change = self.force.changed()?.change;
        let newest = ticks(self.newest_ns(asked));
        (change.to == *table).then(|| R::updated(cell, &change, newest))
    }

    /// Puts `entry` in the place of another key's entry.
    fn evict(&self, query: &Query<'_, N>, slot: Slot<'_>, entry: Entry) -> bool {
        let Some((terms, state)) = self.read(slot.entry, query.asked) else {
            return false;
        };
        let gone = slot.entry.with(terms.reading, state);
        self.remember(gone, &terms, query.asked, ticks(query.asked.now_ns));
        self.table.replace(query.who, slot, entry)
    }

    /// Adds `entry` to the sketch. The lock of one of the two keys is held, so at most one change of quota begins in the meantime.
    fn remember(&self, entry: Entry, terms: &Terms, asked: Asked<'_>, now: u128) {
        let cell = R::to_cell(entry.state(), terms);
        self.sketch.remember(entry.fingerprint(), |known| {
            loop {
                let table = self.force.terms();
                let [known, cell] = [known, cell].map(|cell| self.updated(cell, &table, asked));
                let (Some(known), Some(cell)) = (known, cell) else {
                    continue;
                };
                let free = R::free_at(known, &table);
                if free > now {
                    return R::join(known, cell, &table);
                }
                self.table.forget(free, R::is_own(known));
                return cell;
            }
        });
    }

    /// Returns what is known about the key at `who.place`, which has this entry. Returns `None` if `terms` are no longer current,
    /// or the entry is not up to date.
    #[inline]
    fn known(&self, query: &Query<'_, N>, entry: Entry, terms: &Terms) -> Option<Known<R>> {
        let mut known = Known::new(*terms, entry.state(), ticks(query.asked.now_ns));
        self.complete(query, entry, &mut known)?;
        Some(known)
    }

    /// Makes `known`, which is the state and the terms alone, what [`known`](Self::known) returns.
    #[inline]
    fn complete(&self, query: &Query<'_, N>, entry: Entry, known: &mut Known<R>) -> Option<()> {
        if entry.reading() != known.terms.reading {
            self.restate_known(query, entry, known)?;
        }
        self.delimit(query, known)
    }

    #[cold]
    fn restate_known(
        &self,
        query: &Query<'_, N>,
        entry: Entry,
        known: &mut Known<R>,
    ) -> Option<()> {
        let (from, state) = self.read(entry, query.asked)?;
        let to = known.terms;
        if from.reading == to.reading {
            known.state = state;
            return Some(());
        }
        if !from.reading.is_own() && !to.reading.is_own() {
            return None;
        }
        let newest = self.exchanges_at(query);
        self.exchange_known(known, newest, |at| R::restate(state, &from, &to, at));
        Some(())
    }

    /// Adds the times before which the key had other terms. Returns `None` if the next change has begun.
    #[inline]
    fn delimit(&self, query: &Query<'_, N>, known: &mut Known<R>) -> Option<()> {
        let is_own = known.terms.reading.is_own();
        if R::FLOWS {
            let is_settled = !is_own && known.now >= ticks(self.force.unsettled_ns());
            if !is_settled {
                known.since = known.since.max(self.table.exchanged(&query.who.place));
            }
            if known.now >= known.since && (is_own || is_settled) {
                return Some(());
            }
            known.now = query.asked.now_again().max(known.now);
            if !is_own {
                self.delimit_by_change(known)?;
            }
            return Some(());
        }
        if !is_own && known.now < ticks(self.force.unsettled_ns()) {
            known.now = query.asked.now_again().max(known.now);
            self.delimit_by_change(known)?;
        }
        if query.asked.told == Told::AsDate {
            known.since = self.table.exchanged(&query.who.place).max(known.exchanged);
            if !is_own {
                known.since = known.since.max(self.force.changed()?.change.at);
            }
            let begins = R::begins(known.state, &known.terms);
            // If the window begins later, it was opened in other terms, and therefore before that.
            if begins <= ticks(self.newest_ns(query.asked)) {
                known.since = known.since.max(begins);
            }
        }
        Some(())
    }

    /// Adds what is known about times before the last change. Returns `None` if the next change has begun.
    fn delimit_by_change(&self, known: &mut Known<R>) -> Option<()> {
        let last = self.force.changed()?;
        if last.change.to != known.terms {
            return None;
        }
        known.since = known.since.max(last.before);
        known.change = Some(last.change);
        Some(())
    }

    /// Returns the latest time of any decision, as far as it is known.
    pub(super) fn newest_ns(&self, asked: Asked<'_>) -> u64 {
        let goes_by_clock = asked.told == Told::ByClock || self.force.goes_by_clock();
        let clock = asked.clock.filter(|_| goes_by_clock);
        let told_ns = clock.map_or(0, |clock| clock.latest().as_nanos());
        let newest_ns = self.newest_ns.load(Ordering::Acquire);
        asked.now_ns.max(told_ns).max(newest_ns)
    }

    /// Returns the state of an entry and its terms: the current terms of the table, or what is known about the per-key terms.
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
        let change = self.force.changed()?.change;
        let is_it = change.from.reading == reading;
        is_it.then(|| {
            // This is read after the entry, so that nothing in the entry was taken later.
            let newest = ticks(self.newest_ns(asked));
            (change.to, change.restated::<R>(entry.state(), newest))
        })
    }

    /// Returns the slot of this key, held, and what is known about the key. Returns `None` if the key has no entry.
    #[inline(always)]
    fn find_known(&self, query: &Query<'_, N>) -> Option<(HeldSlot<'_, N>, Known<R>)> {
        loop {
            let terms = query.asked.terms(self);
            let held = self.table.find(query.who)?;
            if let Some(known) = self.known(query, held.0.entry, &terms) {
                return Some((held, known));
            }
        }
    }

    /// Calls `see` with what is known about the key at `who.place` and, if callers wait for it, its slot.
    ///
    /// [`Known`] is large. It is not returned, because moving it would cost as much as finding it.
    #[inline(always)]
    pub(crate) fn look<T>(
        &self,
        query: &Query<'_, N>,
        see: impl FnOnce(&Known<R>, Option<usize>) -> T,
    ) -> T {
        let now = ticks(query.asked.now_ns);
        loop {
            let terms = query.asked.terms(self);
            if R::ADMITS_ALL {
                return see(&Known::new(terms, 0, now), None);
            }
            if let Some((slot, held)) = self.table.find(query.who) {
                let mut known = Known::new(terms, slot.entry.state(), now);
                if self.complete(query, slot.entry, &mut known).is_some() {
                    // `see` may ask the queue, whose lock comes before those of slots.
                    drop(held);
                    return see(&known, slot.entry.waits().then_some(slot.index));
                }
            } else if let Some(known) = self.unknown(query, &terms) {
                return see(&known, None);
            }
        }
    }

    /// Returns the result that [`take`](Self::take) would return.
    pub(crate) fn peek(
        &self,
        query: &Query<'_, N>,
        n: Option<u64>,
        is_in_line: bool,
    ) -> Result<(), Refusal> {
        self.look(query, |known, waits| {
            let n = n.unwrap_or(known.terms.scale);
            if let Some(slot) = waits
                && !is_in_line
                && n > 0
                && n <= known.terms.most
            {
                return Err(Refusal::Waits(slot));
            }
            known.judge(n).map_err(Refusal::Denied)
        })
    }

    /// Refunds `n` units to this key. Returns how many that was and, if callers wait for the key, its slot.
    pub(crate) fn give_back(&self, query: &Query<'_, N>, n: u64) -> (u64, Option<usize>) {
        loop {
            let Some((held, known)) = self.find_known(query) else {
                return (0, None);
            };
            // Units that have flowed in since an earlier time cannot be returned as well.
            let now = ticks(self.newest_ns(query.asked));
            let (next, n) = R::give_back(known.state, now, n, &known.terms);
            let slot = held.0;
            if n == 0 || self.commit(query.who, held, &known, next) {
                return (n, slot.entry.waits().then_some(slot.index));
            }
        }
    }

    /// Revokes a grant of `n` units at `then_ns` that no caller has received, if the key still has the terms with this
    /// [number](Reading::number).
    pub(crate) fn take_back(&self, query: &Query<'_, N>, (then_ns, n): (u64, u64), number: u64) {
        while let Some((slot, held)) = self.table.find(query.who) {
            let Some((terms, state)) = self.read(slot.entry, query.asked) else {
                continue;
            };
            if terms.reading.number() != number {
                return;
            }
            // This is read after the entry, so that it is not older than the decisions in the entry.
            let now = ticks(self.newest_ns(query.asked));
            let next = R::take_back(state, ticks(then_ns), now, n, &terms);
            let known = Known::new(terms, state, now);
            if self.commit(query.who, (slot, held), &known, next) {
                return;
            }
        }
    }

    /// Restates this key's entry, if it has one, in the terms of the request.
    pub(crate) fn restate(&self, query: &Query<'_, N>) {
        while let Some((held, known)) = self.find_known(query) {
            if held.0.entry.reading() == known.terms.reading
                || self.commit(query.who, held, &known, known.state)
            {
                return;
            }
        }
    }

    /// Forgets what this key has taken. Returns its slot if callers wait for it.
    pub(crate) fn reset(&self, query: &Query<'_, N>) -> Option<usize> {
        if R::ADMITS_ALL {
            return None;
        }
        // If the table is full, the new entry would be forgotten immediately.
        let (slot, _) = self.put(query, false, |entry| entry.with(entry.reading(), 0))?;
        slot.entry.waits().then_some(slot.index)
    }

    /// Marks this key as waited for. Returns its slot, and why `n` units were not available as of `at` at that moment, unless they
    /// were. Returns `None` if the table has no entry for the mark.
    pub(crate) fn hold(
        &self,
        query: &Query<'_, N>,
        at: Timestamp,
        n: u64,
    ) -> Option<(usize, Option<Denied>)> {
        let (slot, entry) = self.put(query, true, |entry| entry.with_waits(true))?;
        let query = &query.as_of(at);
        let known = self.known(query, entry, &query.asked.terms(self));
        Some((slot.index, known.and_then(|known| known.judge(n).err())))
    }

    /// Removes the mark that callers wait for this key.
    pub(crate) fn release(&self, who: Who<'_, N>) {
        self.table.mark(who, false);
    }

    /// Changes the entry of the key at `who.place`. A key without an entry gets one if there is a vacant slot, or by eviction if
    /// `may_evict`. Returns the slot with what was in it before, and the key's entry before the change.
    fn put(
        &self,
        query: &Query<'_, N>,
        may_evict: bool,
        change: impl Fn(Entry) -> Entry,
    ) -> Option<(Slot<'_>, Entry)> {
        loop {
            if let Some((slot, _held)) = self.table.find(query.who) {
                if slot.swap(change(slot.entry)) {
                    return Some((slot, slot.entry));
                }
                continue;
            }
            let _lock = self.table.lock(&query.who.place);
            if self.table.find(query.who).is_some() {
                continue;
            }
            let terms = query.asked.terms(self);
            let Some(known) = self.unknown(query, &terms) else {
                continue;
            };
            let now = known.now;
            let before = Entry::new(query.who.place.fingerprint, terms.reading, known.state);
            let entry = change(before);
            self.exchange(query.who, &known);
            let opening = self.table.opening(&query.who.place, now);
            let (slot, is_in) = match (opening, &self.full) {
                (Opening::Vacant(slot), _) => {
                    let is_vacant = self.is_vacant(slot, now, query.asked);
                    (slot, is_vacant && self.settle(query.who, slot, entry))
                }
                (Opening::Instead(slot), Full::Evict) if may_evict => {
                    let is_in = self.evict(query, slot, entry);
                    if is_in {
                        self.counters.evicted.add();
                    }
                    (slot, is_in)
                }
                _ => return None,
            };
            if is_in {
                return Some((slot, before));
            }
        }
    }

    /// Replaces the quota as of `now_ns`. `terms` are the integers of the new quota.
    pub(crate) fn set_quota(&self, quota: R::Quota, terms: &Terms, asked: Asked<'_>) {
        let mut in_force = self.force.quota();
        let now_ns = self.newest_ns(asked);
        self.newest_ns.fetch_max(now_ns, Ordering::AcqRel);
        let terms = R::widened(*terms, &self.force.terms());
        self.allow(&terms);
        self.force.change(&mut in_force, quota, &terms, now_ns);
        // After this, no entry of the generation before is added,
        self.table.let_in();
        // and after this, none is left.
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
        let table = self.force.terms();
        self.sketch.restate(|cell| {
            // No other change begins in the meantime.
            self.updated(cell, &table, asked).unwrap_or(cell)
        });
    }

    /// Records that a key may have a debt as large as these terms allow. This comes before any key does.
    pub(crate) fn allow(&self, terms: &Terms) {
        if terms.most > self.largest.load(Ordering::Relaxed) {
            self.largest.fetch_max(terms.most, Ordering::AcqRel);
        }
    }

    /// Records that only the debts of keys are known from before `at`. The quota before `current_from`, which is not later, is not
    /// known.
    pub(crate) fn begin(&self, at: u128, current_from: u128) {
        self.force.begin(nanos(current_from));
        self.newest_ns.fetch_max(nanos(at), Ordering::AcqRel);
        self.force.settle(nanos(at));
        self.table.begin(at);
    }

    /// Returns the number of active keys.
    pub(crate) fn len(&self, now_ns: u64) -> usize {
        let now = ticks(now_ns);
        let entries = self.table.all().map(|(_, slot)| slot.entry);
        entries.filter(|entry| entry.state() > now).count()
    }
}

impl Amount {
    /// Returns the number of units in these terms.
    fn units(self, terms: &Terms) -> u64 {
        match self {
            Self::Token => terms.scale,
            Self::All(n) => n,
            Self::UpTo(n) => n.min(terms.most),
        }
    }

    /// Returns the same amount, of `n` units.
    fn with(self, n: u64) -> Self {
        match self {
            Self::UpTo(_) => Self::UpTo(n),
            Self::Token | Self::All(_) => Self::All(n),
        }
    }

    /// Takes the `n` [`units`](Self::units) of the request, or the available units if fewer are enough. Returns the new state and
    /// the number of units, or how many ticks are missing.
    fn take<R: Rule>(self, known: &Known<R>, n: u64) -> Result<(u128, u64), u128> {
        let taken = known.take(n).map(|next| (next, n));
        match (taken, self) {
            (Err(missing), Self::UpTo(_)) => match known.left().min(n) {
                0 => Err(missing),
                left => known.take(left).map(|next| (next, left)),
            },
            (taken, _) => taken,
        }
    }
}

impl Refusal {
    /// Returns the error for a caller that does not distinguish waiters from other refusals.
    pub(crate) fn denied(self) -> Denied {
        match self {
            Self::Denied(denied) => denied,
            Self::Waits(_) => Denied::busy(),
        }
    }
}

fn nanos(ticks: u128) -> u64 {
    u64::try_from(ticks.div_ceil(TICKS_PER_NS.into())).unwrap_or(u64::MAX)
}

/// Takes at least one unit from the quota that keys without entries share, and returns how many.
fn share<R: Rule>(
    terms: &Terms,
    state: &AtomicU128,
    now: u128,
    amount: Amount,
) -> Result<u64, Denied> {
    let n = amount.units(terms);
    if n > terms.most {
        return Err(never::<R>(n, terms));
    }
    let mut known = state.load(Ordering::Acquire);
    loop {
        let at = Known::<R>::new(*terms, known, now);
        let taken = amount.take(&at, n);
        let (next, units) = taken.map_err(|missing| at.denied(n, missing))?;
        match state.compare_exchange_weak(known, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(units),
            Err(changed) => known = changed,
        }
    }
}
