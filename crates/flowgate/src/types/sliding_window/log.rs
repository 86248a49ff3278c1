//! The log of admissions that a [`SlidingWindow`](super::SlidingWindow) decides by.
//!
//! # The ring
//!
//! Each admission is one record: its time, and the sum of units until and including it. So the units of any run of admissions
//! are the difference of two records, and an admission of any size is one record. Records are in the order of their times,
//! because an admission never has an earlier time than the one before it.
//!
//! ```text
//!   position      k−4    k−3    k−2    k−1     k      end
//!                ┌──────┬──────┬──────┬──────┬──────┬──────┬──
//!   time, units  │ 3  5 │ 4  6 │ 9  9 │ 9 12 │12 13 │ free │     now 14, window 10
//!                └──────┴──────┴──────┴──────┴──────┴──────┴──
//!                   ▲      ▲                    ▲      ▲
//!                have left the window         newest   one compare-and-swap puts the next here
//!                          └── 13 − 6 = 7 units in the window ──┘
//! ```
//!
//! Each admission has at least one unit, so at most `max_limit` of them are in the window. The ring has room for these, for the
//! last record that has left the window, and for the free slot.
//!
//! # A decision
//!
//! The **free slot**, the one after the newest record, guards all decisions: its contents change whenever the state does, and
//! an earlier content never comes back. A decision
//!
//! 1. loads the free slot, then the newest record, then limit and window;
//! 2. looks for the last record that has left the window;
//! 3. swaps a record for the contents of the free slot, if they are still the same; or, to refuse, only checks that they are.
//!
//! Between 1 and 3, only the free slot's record can have been overwritten, and no parameter has changed. Earlier contents of a
//! free slot do not come back: an older record has a past lap, and blanks are numbered.
//!
//! # Finding things
//!
//! `newest` and `left` are hints: positions at which the newest record and the last that has left the window were a short time
//! ago. Every thread may store them, late or in any order. A thread therefore checks what it finds there before using it. If it
//! is not the record that it looked for, a search of at most 2 log₂(slots) steps finds that record.
//!
//! A record contains its lap, which shows whether a slot has already been written on this lap. A record that has left the
//! window is an upper bound of what is in the window, even if it is not the last that has left.
//!
//! # Changes
//!
//! A change of quota, a refund and the return of an unused grant hold `config` and *freeze* the free slot: they swap in a
//! record that no decision will replace. So does an admission at a time before the last change ([`past`](super::past)).
//! Decisions that meet a frozen slot wait for `config`, that is, for the change to end.
//!
//! The holder of `config` then does one of these:
//!
//! - stores the parameters;
//! - takes out the newest records;
//! - takes out an older record, and writes those after it anew.
//!
//! Finally, the slot that is now free gets a blank with a new number. A blank also keeps limiter time from running backward
//! when the newest record is taken out.
//!
//! Freezing and taking out destroy the oldest records of the ring. Only a longer window after a refund can need them again.
//! Such a window counts as full until the oldest known record has left it, because nothing is known of the time before.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | free slot of `ring` | everyone | decisions (CAS); changes (CAS to frozen, store to thaw) | its contents |
//! | other slots | everyone | changes | the free slot, frozen |
//! | `limit`, `window_ns`, `past` | decisions | changes | the free slot, frozen |
//! | `newest`, `left` | everyone | everyone | none: hints |
//! | `config` | changes; threads that wait for a change | changes | itself |

use super::admitted::{Admitted, Terms};
use super::by_sums::decides_by_sums;
use super::past::{Before, Past};
use super::record::Record;
use crate::algorithm::sliding_window::{Sum as _, Window, last_that};
use crate::limiter::Snapshot;
use crate::limiter::engine::{Amount, Capabilities, Engine, Refunds, Requotas, Times};
use crate::primitive::{AtomicU64, Lock, Ordering};
use crate::queue::Receipt;
use crate::quota::{Quota, QuotaError};
use crate::store::ring::Ring;
use crate::store::ring::sums::{self, Sums, check_scale, denied_until};
use crate::verdict::{Denied, Verdict, duration_from_nanos};
use alloc::vec::Vec;

/// The most slots that a ring has.
const MAX_SLOTS: u64 = 1 << 26;
/// Slots beside one for each unit of the limit: the last record that has left, and the free slot.
const SPARE_SLOTS: u64 = 2;
const SLOT_BYTES: u64 = 16;
/// How many admissions back an admission can be and still be taken out.
const REACH: u64 = 1024;

/// The ring and its parameters; see the module.
#[derive(Debug)]
pub struct Log {
    ring: Ring,
    /// Bits of a position that are the slot's index; those above are the lap.
    index_bits: u32,
    limit: AtomicU64,
    token: u64,
    window_ns: AtomicU64,
    past: Past,
    max_limit: u64,
    hints: Hints,
    config: Lock<Config>,
}

/// The hints. They have their own cache line, because every admission stores here.
#[derive(Debug)]
#[repr(align(64))]
struct Hints {
    newest: AtomicU64,
    left: AtomicU64,
}

#[derive(Debug)]
struct Config {
    quota: Quota,
    /// The number of the next blank.
    serial: u64,
}

/// A consistent view, which holds while the free slot contains [`Slot::free`].
type View = sums::View<Record, Slot>;

/// The free slot: its position, and what is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    end: u64,
    free: Record,
}

impl Engine for Log {
    const NAME: &'static str = "SlidingWindow";

    decides_by_sums!();

    /// Takes the available units, up to `n`.
    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        loop {
            let view = self.view(now_ns);
            let taken = match self.is_before_change(&view) {
                false => self.take_most_seen(&view, n),
                true => match n.min(self.available(&view)) {
                    0 => self.stands(&view).then_some(0),
                    n => self.append_before(&view, None, now_ns, n).then_some(n),
                },
            };
            if let Some(taken) = taken {
                return taken;
            }
        }
    }

    /// Takes out `n` units that were admitted at `at_ns`, if they are among the last [`REACH`] admissions. Later records are
    /// written anew.
    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], _: &dyn Times) {
        let mut config = self.config.lock();
        let view = self.freeze(0);
        let reach = REACH.min(self.ring.len() - 1);
        let oldest = self.back(view.key.end, reach);
        let is_before = |after: u64| self.sum(oldest.wrapping_add(after)).is_before(at_ns);
        let end = if is_before(0) {
            let last = oldest.wrapping_add(last_that(0, reach, is_before));
            self.rewrite(&view, last, at_ns, n)
        } else {
            view.key.end
        };
        self.thaw(&mut config, &view, end);
    }
}

impl Refunds for Log {
    /// Takes out the newest `n` units in the window, and returns how many these were.
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        if n == 0 {
            return 0;
        }
        let mut config = self.config.lock();
        let mut view = self.freeze(0);
        // Read after the state, so that it is not older than the decisions in it.
        view.window = self.window_at(view.window.segment.max(times.latest_ns()));
        let (mut end, mut newest, mut rest) = (view.key.end, view.newest, n);
        while newest.is_admission() && !newest.is_before(view.window.first) {
            let before = self.sum(self.back(end, 2));
            // The number of units of the oldest known record is not known.
            if self.is_last_known(&view, end) || before.is_blank() {
                break;
            }
            let units = newest.units_since(before);
            if units > rest {
                let (position, less) = (self.back(end, 1), newest.less(rest));
                self.ring.store(position, less.0);
                rest = 0;
                break;
            }
            rest -= units;
            end = self.back(end, 1);
            newest = before;
        }
        self.thaw(&mut config, &view, end);
        n - rest
    }
}

impl Requotas for Log {
    fn quota(&self) -> Quota {
        self.config.lock().quota
    }

    /// Replaces the quota.
    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError> {
        let (limit, window_ns) = quota.window()?;
        QuotaError::in_range("a limit in units", limit, 1, self.max_limit)?;
        let mut config = self.config.lock();
        check_scale(&quota, &config.quota)?;
        let view = self.freeze(0);
        let before_ns = self.window_ns.load(Ordering::Acquire);
        self.past
            .replace(times.now_ns(), view.window.limit, before_ns);
        self.limit.store(limit, Ordering::Release);
        self.window_ns.store(window_ns, Ordering::Release);
        config.quota = quota;
        self.thaw(&mut config, &view, view.key.end);
        Ok(())
    }
}

impl Log {
    /// For `quota`, and later for limits of up to `max_limit` units.
    pub(super) fn new(quota: Quota, max_limit: Option<u64>) -> Result<Self, QuotaError> {
        let (limit, window_ns) = quota.window()?;
        let max_limit = max_limit.unwrap_or(limit);
        if max_limit == 0 {
            let most = MAX_SLOTS - SPARE_SLOTS;
            return Err(QuotaError::out_of_range("a largest limit", 0, 1, most));
        }
        let slots = Ring::slots_for(max_limit.saturating_add(SPARE_SLOTS));
        if slots > MAX_SLOTS {
            return Err(QuotaError::ring_too_large(
                (max_limit, slots.saturating_mul(SLOT_BYTES)),
                (MAX_SLOTS - SPARE_SLOTS, MAX_SLOTS * SLOT_BYTES),
            ));
        }
        QuotaError::in_range("a limit in units", limit, 1, max_limit)?;
        let before_the_first = u64::MAX;
        let ring = Ring::new(slots, |_| Record::before(before_the_first).0);
        Ok(Self {
            index_bits: ring.len().ilog2(),
            ring,
            limit: AtomicU64::new(limit),
            token: quota.scale(),
            window_ns: AtomicU64::new(window_ns),
            past: Past::none(),
            max_limit,
            hints: Hints {
                newest: AtomicU64::new(before_the_first),
                left: AtomicU64::new(before_the_first),
            },
            config: Lock::new(Config { quota, serial: 0 }),
        })
    }

    pub(super) fn max_limit(&self) -> u64 {
        self.max_limit
    }

    /// The size of the ring, in bytes.
    pub(super) fn ring_bytes(&self) -> usize {
        self.ring.bytes()
    }

    pub(super) fn terms(&self) -> Terms {
        let window_ns = self.window_ns.load(Ordering::Acquire);
        Terms {
            window_ns,
            segment_ns: 1,
            lasts_ns: window_ns,
            units_per_token: self.token,
        }
    }

    /// The admissions in the window at `now_ns`, the newest first. Forgotten admissions count as a full window.
    pub(super) fn admitted(&self, now_ns: u64) -> Vec<Admitted> {
        let mut config = self.config.lock();
        let view = self.freeze(now_ns);
        let (mut end, mut newest, mut admitted) = (view.key.end, view.newest, Vec::new());
        while newest.is_admission() && !newest.is_before(view.window.first) {
            let before = self.sum(self.back(end, 2));
            let is_last = self.is_last_known(&view, end) || before.is_blank();
            admitted.push(Admitted {
                time_ns: newest.time_ns(),
                units: match is_last {
                    true => view.window.limit,
                    false => newest.units_since(before),
                },
            });
            if is_last {
                break;
            }
            end = self.back(end, 1);
            newest = before;
        }
        self.thaw(&mut config, &view, view.key.end);
        admitted
    }

    /// Whether the units of the record before `end` are unknown, because the record before it is overwritten.
    fn is_last_known(&self, view: &View, end: u64) -> bool {
        self.distance(end, view.key.end) + SPARE_SLOTS >= self.ring.len()
    }

    /// Whether it is of a time before the last change, with nothing admitted since. Then the free slot has a blank.
    #[inline(always)]
    fn is_before_change(&self, view: &View) -> bool {
        view.window.segment < self.past.since_ns()
    }

    /// Appends an admission of `n` units at a time before the last change, if the state is still what `view` saw. The next free
    /// slot then holds a blank, too.
    fn append_before(&self, view: &View, date_ns: Option<u64>, now_ns: u64, n: u64) -> bool {
        let mut config = self.config.lock();
        let seen = view.key.free;
        let view = self.freeze(now_ns).perhaps_dated(date_ns);
        if view.key.free != seen {
            self.thaw(&mut config, &view, view.key.end);
            return false;
        }
        let record = view
            .newest
            .followed_by(n, view.window.segment, self.lap(view.key.end));
        let next = view.key.end.wrapping_add(1);
        // Before the record, so that no thread takes that slot for free.
        self.ring.store(next, Record::frozen(self.lap(next)).0);
        self.ring.store(view.key.end, record.0);
        let blank = Record::blank(view.window.segment, config.serial, self.lap(next));
        config.serial += 1;
        self.hints.newest.store(view.key.end, Ordering::Relaxed);
        self.ring.store(next, blank.0);
        true
    }

    /// The result for `n` units by both quotas.
    fn foretell_before(&self, view: &View, date_ns: Option<u64>, now_ns: u64, n: u64) -> Verdict {
        if n > view.window.limit {
            return Err(Denied::never(n, view.window.limit));
        }
        let before_ns = self.admits_before_ns(view, date_ns, n);
        match self.history(view).judge(n) {
            Ok(_) if before_ns <= u128::from(view.window.segment) => Ok(()),
            Ok(_) => Err(denied_until(before_ns, now_ns)),
            Err(enough_ns) => Err(denied_until(enough_ns.max(before_ns), now_ns)),
        }
    }

    /// The first instant, not before that of `view`, at which the quota before the last change admits `n` units; at most the
    /// change.
    fn admits_before_ns(&self, view: &View, date_ns: Option<u64>, n: u64) -> u128 {
        let before = self.past.before();
        let at = view.before_change(&before, date_ns);
        let enough_ns = match n > at.window.limit {
            true => u128::MAX,
            false => match self.history(&at).judge(n) {
                Ok(_) => at.window.segment.into(),
                Err(enough_ns) => enough_ns,
            },
        };
        enough_ns.min(before.since_ns.into())
    }

    fn look_by(&self, date_ns: Option<u64>, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        if n == 0 {
            return Ok(());
        }
        loop {
            let view = self.view(at_ns).perhaps_dated(date_ns);
            let told = match ahead == 0 && self.is_before_change(&view) {
                true => self.foretell_before(&view, date_ns, at_ns, n),
                false => self.look_seen(&view, (at_ns, at_ns), ahead, n),
            };
            if self.stands(&view) {
                return told;
            }
        }
    }

    /// The limit, the available units, and the time until the window is empty, in nanoseconds.
    fn seen_at(&self, now_ns: u64) -> (u64, u64, u128) {
        loop {
            let view = self.view(now_ns);
            let limit = view.window.limit;
            let (mut available, mut empty_ns) = self.seen(&view, now_ns);
            if self.is_before_change(&view) {
                available = self.available(&view);
                let before_ns = self.admits_before_ns(&view, None, limit);
                empty_ns = empty_ns.max(before_ns - u128::from(now_ns));
            }
            if self.stands(&view) {
                return (limit, available, empty_ns);
            }
        }
    }

    /// The most units that both quotas admit, at a time before the last change.
    fn available(&self, view: &View) -> u64 {
        let room = |view: &View| self.history(view).room();
        let before = self.past.before();
        match view.window.segment < before.known_ns {
            true => 0,
            false => room(view).min(room(&view.before_change(&before, None))),
        }
    }

    /// Writes the admissions after the record at `last` once more, without `n` of the units of `at_ns`. Returns the new end.
    fn rewrite(&self, view: &View, last: u64, at_ns: u64, n: u64) -> u64 {
        let (mut before, mut end, mut rest) = (self.sum(last), last.wrapping_add(1), n);
        let is_known = self.sum(end).time_ns() == at_ns && !before.is_blank();
        if end == view.key.end || !is_known {
            return view.key.end;
        }
        let mut written = before;
        for after in 1..=self.distance(last, self.back(view.key.end, 1)) {
            let record = self.sum(last.wrapping_add(after));
            let units = record.units_since(before);
            let out = match record.time_ns() == at_ns {
                true => units.min(rest),
                false => 0,
            };
            if units > out {
                written = written.followed_by(units - out, record.time_ns(), self.lap(end));
                self.ring.store(end, written.0);
                end = end.wrapping_add(1);
            }
            (before, rest) = (record, rest - out);
        }
        end
    }

    /// The state, and the limiter time that it makes of `now_ns`.
    #[inline(always)]
    fn view(&self, now_ns: u64) -> View {
        // The state that the last admission left, if no other thread has changed it.
        let newest = self.hints.newest.load(Ordering::Relaxed);
        match self.view_at(newest, now_ns) {
            Some(view) => view,
            None => self.view_anywhere(now_ns),
        }
    }

    #[cold]
    #[inline(never)]
    fn view_anywhere(&self, now_ns: u64) -> View {
        loop {
            match self.view_at(self.find_newest(), now_ns) {
                Some(view) => return view,
                // Others have appended, or a change is in progress.
                None => drop(self.config.lock()),
            }
        }
    }

    /// `None` if the record at `newest` is not the newest, or the slot after it is frozen.
    #[inline(always)]
    fn view_at(&self, newest: u64, now_ns: u64) -> Option<View> {
        self.view_if(newest, now_ns, || true)
    }

    /// The same, and `None` if the free slot has a blank and `is_settled` returns `false`.
    #[inline(always)]
    fn view_if(&self, newest: u64, now_ns: u64, is_settled: impl Fn() -> bool) -> Option<View> {
        let end = newest.wrapping_add(1);
        // First: all that is read after it is of one state if it is still there at the end.
        let free = self.sum(end);
        let record = self.sum(newest);
        if !free.is_of(self.lap(end).wrapping_sub(1))
            || free.is_frozen()
            || !record.is_of(self.lap(newest))
        {
            return None;
        }
        let mut time_ns = now_ns.max(record.time_ns());
        if free.is_blank() {
            if !is_settled() {
                return None;
            }
            time_ns = time_ns.max(free.time_ns());
        }
        Some(View {
            newest: record,
            window: self.window_at(time_ns),
            key: Slot { end, free },
        })
    }

    /// The window that ends with `time_ns`, by the current quota.
    #[inline(always)]
    fn window_at(&self, time_ns: u64) -> Window {
        let [limit, window_ns] =
            [&self.limit, &self.window_ns].map(|of| of.load(Ordering::Acquire));
        window(limit, window_ns, time_ns)
    }

    /// Where the newest record seems to be.
    fn find_newest(&self) -> u64 {
        let near = self.hints.newest.load(Ordering::Relaxed);
        // The content of the slot shows its lap, whatever the hint was.
        let lap = self.sum(near).lap();
        let index = near & (self.ring.len() - 1);
        let first = lap << self.index_bits | index;
        let written = |after: u64| {
            let position = first.wrapping_add(after);
            self.sum(position).is_of(self.lap(position))
        };
        first.wrapping_add(last_that(0, self.ring.len(), written))
    }

    /// Stops all decisions until [`thaw`](Self::thaw). The caller holds `config`.
    fn freeze(&self, now_ns: u64) -> View {
        loop {
            let newest = self.find_newest();
            if let Some(view) = self.view_at(newest, now_ns) {
                let frozen = Record::frozen(self.lap(view.key.end));
                if self.ring.replace(view.key.end, view.key.free.0, frozen.0) {
                    return view;
                }
            }
        }
    }

    /// Takes out the records from `end` on, and lets decisions go on.
    fn thaw(&self, config: &mut Config, view: &View, end: u64) {
        let blank = |position| {
            let time_ns = match view.key.free.is_blank() {
                true => view.key.free.time_ns().max(view.newest.time_ns()),
                false => view.newest.time_ns(),
            };
            Record::blank(time_ns, config.serial, self.lap(position))
        };
        // It is frozen before the slots after it become blank, and it is the last to become free. As long as one slot is
        // frozen, no thread takes another for free.
        self.ring.store(end, Record::frozen(self.lap(end)).0);
        for after in 1..=self.distance(end, view.key.end) {
            let position = end.wrapping_add(after);
            self.ring.store(position, blank(position).0);
        }
        self.hints
            .newest
            .store(self.back(end, 1), Ordering::Relaxed);
        self.ring.store(end, blank(end).0);
        config.serial += 1;
    }

    #[inline(always)]
    fn lap(&self, position: u64) -> u64 {
        position >> self.index_bits
    }

    fn back(&self, position: u64, by: u64) -> u64 {
        position.wrapping_sub(by)
    }

    /// The distance from `from` to `to`. Positions differ in their index and in the bits that a record keeps of their lap.
    fn distance(&self, from: u64, to: u64) -> u64 {
        let bits = self.index_bits + Record::LAP_BITS;
        to.wrapping_sub(from) & ((1 << bits) - 1)
    }
}

impl View {
    /// The same by the quota `before` the last change; not at a time of which nothing is known.
    fn before_change(&self, before: &Before, date_ns: Option<u64>) -> Self {
        let time_ns = self.window.segment.max(before.known_ns);
        let view = Self {
            window: window(before.limit, before.window_ns, time_ns),
            ..*self
        };
        let date_ns = date_ns.filter(|&date_ns| date_ns >= before.known_ns);
        view.perhaps_dated(date_ns)
    }
}

/// In segments of a nanosecond.
#[inline(always)]
fn window(limit: u64, window_ns: u64, time_ns: u64) -> Window {
    // A window is 1 ns or more.
    Window::new(limit, 1, window_ns - 1, time_ns)
}

impl Sums for Log {
    type Sum = Record;
    type Key = Slot;

    #[inline(always)]
    fn ring(&self) -> &Ring {
        &self.ring
    }

    #[inline(always)]
    fn sum(&self, position: u64) -> Record {
        Record(self.ring.load(position))
    }

    /// All but the free slot.
    #[inline(always)]
    fn range(&self, view: &View) -> (u64, u64) {
        let slots = self.ring.len();
        (self.back(view.key.end, slots - 1), slots - SPARE_SLOTS)
    }

    #[inline(always)]
    fn left(&self) -> &AtomicU64 {
        &self.hints.left
    }

    #[inline(always)]
    fn stands(&self, view: &View) -> bool {
        self.sum(view.key.end) == view.key.free
    }

    fn settled_view(&self, time_ns: u64) -> View {
        self.view(time_ns.max(self.past.since_ns()))
    }

    #[inline(always)]
    fn plain_view(&self, date_ns: Option<u64>, now_ns: u64) -> Option<View> {
        let newest = self.hints.newest.load(Ordering::Relaxed);
        let is_settled = || now_ns >= self.past.since_ns();
        let view = self.view_if(newest, now_ns, is_settled)?;
        Some(view.perhaps_dated(date_ns))
    }

    #[cold]
    #[inline(never)]
    fn take_otherwise(&self, date_ns: Option<u64>, now_ns: u64, n: u64) -> Option<Verdict> {
        let view = self.view(now_ns).perhaps_dated(date_ns);
        if !self.is_before_change(&view) {
            return self.take_slowly(view, now_ns, n);
        }
        match self.foretell_before(&view, date_ns, now_ns, n) {
            Ok(()) => self
                .append_before(&view, date_ns, now_ns, n)
                .then_some(Ok(())),
            denied => self.stands(&view).then_some(denied),
        }
    }

    #[inline(always)]
    fn append(&self, view: &View, n: u64) -> bool {
        let Slot { end, free } = view.key;
        let record = (view.newest).followed_by(n, view.window.segment, self.lap(end));
        let appended = self.ring.replace(end, free.0, record.0);
        if appended {
            self.hints.newest.store(end, Ordering::Relaxed);
        }
        appended
    }
}
