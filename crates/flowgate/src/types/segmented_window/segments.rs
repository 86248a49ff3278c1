//! The state of a [`SegmentedWindow`](super::SegmentedWindow): one word for the newest segment, a ring for earlier ones.
//!
//! # The word and the ring
//!
//! The word holds the newest segment that has admissions, and the sum of units until and including it. A decision in that
//! segment is one compare-and-swap.
//!
//! The first admission in a later segment *closes* the segment in the word. It copies the word to its place in the ring, and
//! only then swaps in a word of the later segment, with the next place.
//!
//! ```text
//!           ring, closed segments                      word
//!        ┌────────┬────────┬────────┬────────┬ ─ ─ ┐ ┌────────┐
//!  place │   4    │   5    │   6    │   7    │  8    │   8    │
//!  segment   20   │   22   │   23   │   27   │     │ │   28   │     now in segment 28, 5 segments
//!  units │  110   │  113   │  119   │  120   │       │  124   │     per window: 23 to 28 count
//!        └────────┴────────┴────────┴────────┴ ─ ─ ┘ └────────┘
//!                     ▲ the last before 23
//!                     └───────── 124 − 113 = 11 units in the window
//! ```
//!
//! Segments without admissions have no place, so all that is in the window is within the last *segments* + 1 places.
//!
//! # Closing
//!
//! Every thread may put a word into the ring, even a word that is outdated when it gets there. So a thread checks that the word
//! is still the same *after* it has read the slot, and then replaces exactly that content. It swaps the word only if the slot
//! held exactly this word. Words never come back: sums grow, and if a sum shrinks, the epoch grows. So the ring holds the last
//! word of each closed segment.
//!
//! # Changes
//!
//! A change of quota, and the return of an unused grant, hold `config` and mark the word. Decisions that meet the mark wait for
//! `config`. The holder stores the parameters, or takes the units out of the sums of their segment and all later ones. It then
//! stores the word in its next epoch, so that no decision commits that was computed before.
//!
//! A change of the segments' length counts the word's segment anew:
//!
//! - All admissions that are still in the window count as those of the segment of the last admission.
//! - If the ring does not reach back far enough, the window counts as full, and none of these units are ever refunded.
//! - The ring then has two tallies: one of the admissions that left the window only since the last admission, for a change to a
//!   longer window, and one for everything before.
//!
//! A decision at a time before the last change is made at the change, and by the quota before it ([`past`](super::past)).
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `word` | everyone | decisions, refunds (CAS); changes (CAS to marked, store) | its contents |
//! | `ring` | everyone | threads that close a segment (CAS) | the word, unchanged after the slot was read |
//! | | | changes | the word, marked |
//! | `limit`, `segment_ns`, `since_ns` | decisions | changes | the word, marked |
//! | `left` | everyone | everyone | none: a hint |
//! | `config` | changes; threads that wait for a change | changes | itself |
//! | `config.past` | decisions at a time before the last change | these decisions; changes | `config` |
//!
//! An epoch has 7 bits, which leaves one case. A decision is suspended just before its swap. In the meantime, exactly a
//! multiple of 128 changes and refunds happen, and leave the same sums in the same segment. The decision then commits by its
//! old quota: one operation.

use super::count::{Before, Tally};
use super::past::{Past, Sum};
use crate::algorithm::sliding_window::{Sum as _, Window, last_that};
use crate::limiter::Snapshot;
use crate::limiter::engine::{Amount, Capabilities, Engine, Refunds, Requotas, Times};
use crate::primitive::{AtomicU64, AtomicU128, Lock, Ordering};
use crate::queue::Receipt;
use crate::quota::{Quota, QuotaError};
use crate::store::ring::Ring;
use crate::store::ring::sums::{self, Sums, check_scale, denied_until};
use crate::types::sliding_window::admitted::{Admitted, Terms};
use crate::types::sliding_window::by_sums::decides_by_sums;
use crate::verdict::{Denied, Verdict, duration_from_nanos};
use alloc::vec::Vec;
use core::fmt;

pub(super) const MAX_SEGMENTS: u64 = 1024;
/// Slots beside one for each segment of a window: the last one before it, and one that is being closed.
const SPARE_SLOTS: u64 = 2;

/// The word, the ring and their parameters; see the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Segments {
    word: AtomicU128,
    limit: AtomicU64,
    token: u64,
    segment_ns: AtomicU64,
    /// The last change; 0: none.
    since_ns: AtomicU64,
    /// The place of the last tally before the window, or of one before that.
    left: AtomicU64,
    /// Segments per window.
    count: u64,
    ring: Ring,
    config: Lock<Config>,
}

#[derive(Debug)]
struct Config {
    quota: Quota,
    past: Past,
}

/// A consistent view, which holds while the word is [`View::newest`].
type View = sums::View<Tally, ()>;

impl Engine for Segments {
    const NAME: &'static str = "SegmentedWindow";

    decides_by_sums!();

    /// Takes the available units, up to `n`.
    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        loop {
            let view = self.view(now_ns);
            if self.is_before_change(now_ns) {
                return self.take_up_to_before(now_ns, n);
            }
            if let Some(taken) = self.take_most_seen(&view, n) {
                return taken;
            }
        }
    }

    /// Takes out `n` units that were admitted at `at_ns`: from the sum of their segment, and from later sums.
    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], _: &dyn Times) {
        let _config = self.config.lock();
        let word = self.freeze();
        let segment = at_ns / self.segment_ns();
        let oldest = word.place().wrapping_sub(self.ring.len() - 1);
        let end = self.ring.len() - 1;
        let tally = |after: u64| match after == end {
            true => word,
            false => self.sum(oldest.wrapping_add(after)),
        };
        let is_before = |after: u64| tally(after).is_before(segment);
        let mut out = 0;
        if is_before(0) {
            let last = last_that(0, end, is_before);
            let (before, own) = (tally(last), tally(last + 1));
            if own.segment() == segment && !before.is_before_made_up() {
                out = n.min(own.units_since(before));
                for after in last + 1..end {
                    let place = oldest.wrapping_add(after);
                    self.ring.store(place, tally(after).less(out).0);
                }
            }
        }
        // Release: pairs with the Acquire loads of threads that then find the ring changed.
        self.word.store(word.less(out).0, Ordering::Release);
    }

    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) {
        fields.field("segments", &self.count());
    }
}

impl Refunds for Segments {
    /// Takes out up to `n` units of the newest segment, if it is in the window and all of them were taken. Returns how many
    /// these were.
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        let now_ns = times.latest_ns();
        loop {
            let view = self.view(now_ns);
            let before = self.sum(view.newest.place().wrapping_sub(1));
            let own = match view.newest.segment() < view.window.first || before.is_before_made_up()
            {
                true => 0,
                false => view.newest.units_since(before),
            };
            let n = n.min(own);
            let done = match n {
                0 => self.stands(&view),
                _ => self.swap(view.newest, view.newest.less(n)),
            };
            if done {
                return n;
            }
        }
    }
}

impl Requotas for Segments {
    fn quota(&self) -> Quota {
        self.config.lock().quota
    }

    /// Replaces the quota.
    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError> {
        let (limit, window_ns) = quota.window()?;
        self.check_limit(limit)?;
        QuotaError::in_range("a window in nanoseconds", window_ns, self.count, u64::MAX)?;
        let segment_ns = window_ns.div_ceil(self.count);
        let mut config = self.config.lock();
        check_scale(&quota, &config.quota)?;
        let word = self.freeze();
        let mut new = word.next_epoch();
        // Read after the word, so that they are not older than the decisions in it.
        let (now_ns, latest_ns) = (times.now_ns(), times.latest_ns());
        // Not before any admission, nor before the previous change.
        let newest_end_ns = word
            .segment()
            .saturating_add(1)
            .saturating_mul(self.segment_ns());
        let since_ns = now_ns.max(latest_ns.min(newest_end_ns));
        let since_ns = since_ns.max(config.past.until_ns());
        let before = (self.limit(), self.segment_ns());
        config.past.replace(since_ns, before, self.sums(word));
        if segment_ns != self.segment_ns() {
            new = self.recount(new, (since_ns, latest_ns), segment_ns);
            self.segment_ns.store(segment_ns, Ordering::Release);
        }
        self.since_ns.store(since_ns, Ordering::Release);
        self.limit.store(limit, Ordering::Release);
        config.quota = quota;
        // Release: pairs with the Acquire loads that then find the parameters stored.
        self.word.store(new.0, Ordering::Release);
        Ok(())
    }
}

impl Segments {
    pub(super) fn new(quota: Quota, count: Option<u64>) -> Result<Self, QuotaError> {
        let (limit, window_ns) = quota.window()?;
        let most = MAX_SEGMENTS.min(window_ns);
        let count = count.unwrap_or(super::DEFAULT_SEGMENTS.min(most));
        QuotaError::in_range("a number of segments", count, 1, most)?;
        let ring = Ring::new(count + SPARE_SLOTS, |_| Tally::ORIGIN.0);
        let segments = Self {
            word: AtomicU128::new(Tally::NONE.0),
            limit: AtomicU64::new(limit),
            token: quota.scale(),
            segment_ns: AtomicU64::new(window_ns.div_ceil(count)),
            since_ns: AtomicU64::new(0),
            // The place before the first.
            left: AtomicU64::new(u64::MAX),
            count,
            ring,
            config: Lock::new(Config {
                quota,
                past: Past::none(count),
            }),
        };
        segments.check_limit(limit)?;
        Ok(segments)
    }

    /// The sum of a ring of full segments must be different from 0.
    fn check_limit(&self, limit: u64) -> Result<(), QuotaError> {
        QuotaError::in_range("a limit in units", limit, 1, self.most()).map(drop)
    }

    pub(super) fn most(&self) -> u64 {
        Tally::UNITS_END / self.ring.len() - 1
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn segment_ns(&self) -> u64 {
        self.segment_ns.load(Ordering::Acquire)
    }

    /// The size of the ring, and of the state from before a change, in bytes.
    pub(super) fn ring_bytes(&self) -> usize {
        self.ring.bytes() + self.config.lock().past.bytes()
    }

    pub(super) fn terms(&self) -> Terms {
        let segment_ns = self.segment_ns();
        let window_ns = segment_ns.saturating_mul(self.count);
        Terms {
            window_ns,
            segment_ns,
            lasts_ns: window_ns.saturating_add(segment_ns),
            units_per_token: self.token,
        }
    }

    /// The admissions in the window at `now_ns`, the newest first.
    pub(super) fn admitted(&self, now_ns: u64) -> Vec<Admitted> {
        let _config = self.config.lock();
        let word = self.freeze();
        let segment_ns = self.segment_ns();
        let newest = word.segment().max(now_ns / segment_ns);
        let in_window = |sum: &Sum| sum.units > 0 && sum.segment + self.count >= newest;
        let admitted = self.sums(word).filter(in_window).map(|sum| Admitted {
            // At the end of its segment.
            time_ns: sum.segment.saturating_add(1).saturating_mul(segment_ns) - 1,
            units: sum.units,
        });
        let admitted = admitted.collect();
        // Nothing has changed in between: decisions in progress are still valid.
        self.word.store(word.0, Ordering::Release);
        admitted
    }

    /// Whether it is a time before the last change. The caller has seen the word.
    #[inline(always)]
    fn is_before_change(&self, now_ns: u64) -> bool {
        now_ns < self.since_ns.load(Ordering::Acquire)
    }

    /// The result for `n` units at `now_ns`, before the last change, by both quotas. `view` is at the change.
    fn foretell_before(&self, view: &View, past: &Past, now_ns: u64, n: u64) -> Verdict {
        if n > view.window.limit {
            return Err(Denied::never(n, view.window.limit));
        }
        match self.history(view).judge(n) {
            Ok(_) => past_admits(past, now_ns, n),
            Err(enough_ns) => Err(denied_until(enough_ns, now_ns)),
        }
    }

    fn look_by(&self, date_ns: Option<u64>, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        if n == 0 {
            return Ok(());
        }
        loop {
            let view = self.view(at_ns).perhaps_dated(date_ns);
            if self.is_before_change(at_ns) {
                return self.look_before(date_ns, at_ns, ahead, n);
            }
            let told = self.look_seen(&view, (at_ns, at_ns), ahead, n);
            if self.stands(&view) {
                return told;
            }
        }
    }

    /// [`look_by`](Self::look_by) at a time before the last change, by the quota before it, without waiters ahead.
    #[cold]
    #[inline(never)]
    fn look_before(&self, date_ns: Option<u64>, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        let past = &self.config.lock().past;
        loop {
            let view = self.view_at_change(past, date_ns);
            let told = self
                .look_seen(&view, (past.until_ns(), at_ns), ahead, n)
                .and_then(|()| past_admits(past, at_ns, n));
            if self.stands(&view) {
                return told;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn take_up_to_before(&self, now_ns: u64, n: u64) -> u64 {
        let past = &mut self.config.lock().past;
        loop {
            let view = self.view(past.until_ns());
            if let Some(taken) = self.take_most_seen(&view, n.min(past.left(now_ns))) {
                if taken > 0 {
                    past.take(now_ns, taken);
                }
                return taken;
            }
        }
    }

    /// The limit, the available units, and the time until the window is empty, in nanoseconds.
    fn seen_at(&self, now_ns: u64) -> (u64, u64, u128) {
        loop {
            let view = self.view(now_ns);
            if self.is_before_change(now_ns) {
                let past = &self.config.lock().past;
                let (limit, available, empty_ns) = self.seen_at(past.until_ns());
                let full_at_ns = past.admits_at_ns(now_ns, limit);
                let empty_ns = match empty_ns {
                    0 => u128::from(full_at_ns - now_ns),
                    _ => empty_ns + u128::from(past.until_ns() - now_ns),
                };
                return (limit, available.min(past.left(now_ns)), empty_ns);
            }
            let (available, empty_ns) = self.seen(&view, now_ns);
            if self.stands(&view) {
                return (view.window.limit, available, empty_ns);
            }
        }
    }

    /// The admissions of each known segment, the newest first. The word is frozen.
    fn sums(&self, word: Tally) -> impl Iterator<Item = Sum> {
        let at = move |back: u64| match back {
            0 => word,
            _ => self.sum(word.place().wrapping_sub(back)),
        };
        (0..self.ring.len() - 1)
            .map(move |back| (at(back), at(back + 1)))
            .take_while(|(tally, _)| !tally.is_marked())
            .map(|(tally, before)| Sum {
                segment: tally.segment(),
                units: tally.units_since(before),
            })
    }

    /// Stops all decisions. The caller holds `config`.
    fn freeze(&self) -> Tally {
        loop {
            let word = Tally(self.word.load(Ordering::Acquire));
            if self.swap(word, word.frozen()) {
                return word;
            }
        }
    }

    /// The word for segments of `segment_ns`. All admissions in the window of these segments count in the segment of the last
    /// admission; if they are not known, the window is full. The word is frozen.
    ///
    /// Admissions that left the window since the last admission are put into the last segment that has left it. A later change
    /// to a longer window finds them there.
    fn recount(&self, word: Tally, (now_ns, latest_ns): (u64, u64), segment_ns: u64) -> Tally {
        let old_ns = u128::from(self.segment_ns());
        let begins_ns = u128::from(word.segment()) * old_ns;
        // No admission was later, also if the clock has been turned back.
        let newest_ns = u128::from(latest_ns).clamp(begins_ns, begins_ns + old_ns - 1);
        let now_ns = u128::from(now_ns).max(newest_ns);
        let (used, _) = self.counted(word, now_ns, segment_ns);
        let (used_then, before) = self.counted(word, newest_ns, segment_ns);

        let all_before = word.all_before(used_then, before);
        for place in 0..self.ring.len() {
            self.ring.store(place, all_before.0);
        }
        // Of 64 bits, as the latest instant is.
        let segment = |ns: u128| u64::try_from(ns / u128::from(segment_ns)).unwrap_or(u64::MAX);
        let newest = segment(newest_ns);
        if used < used_then {
            let has_left = segment(now_ns).saturating_sub(self.count + 1);
            let left = word.previous(used, has_left.min(newest));
            self.ring.store(left.place(), left.0);
        }
        word.recounted(newest)
    }

    /// The units that are in a window of such segments at `now_ns`, and what was before them. The word is frozen.
    fn counted(&self, word: Tally, now_ns: u128, segment_ns: u64) -> (u64, Before) {
        let old_ns = u128::from(self.segment_ns());
        // The first instant whose admissions still count, by the longest that any would.
        let last_left_ns = now_ns.checked_sub(u128::from(segment_ns) * u128::from(self.count));
        let first_ns = last_left_ns.map_or(0, |ns| ns + 1);
        let has_left = |tally: Tally| match tally.is_marked() {
            true => tally.is_origin(),
            false => (u128::from(tally.segment()) + 1) * old_ns <= first_ns,
        };
        let closed = (1..self.ring.len()).map(|back| self.sum(word.place().wrapping_sub(back)));
        let last = self.sum(word.place().wrapping_sub(1));
        let is_unused = last.is_origin() && word.units_since(last) == 0;
        match has_left(word) {
            true if is_unused => (0, Before::Nothing),
            true => (0, Before::Forgotten),
            false => match closed.into_iter().find(|&tally| has_left(tally)) {
                Some(tally) if tally.is_origin() => (word.units_since(tally), Before::Nothing),
                Some(tally) => (word.units_since(tally), Before::Forgotten),
                // Full by any limit that may yet be set.
                None => (self.most(), Before::MadeUp),
            },
        }
    }

    /// The state, and the segment that it makes of `now_ns`.
    #[inline(always)]
    fn view(&self, now_ns: u64) -> View {
        loop {
            // First: everything that is read after it belongs to it, if it has not changed at the end.
            let word = Tally(self.word.load(Ordering::Acquire));
            if word.is_frozen() {
                self.await_change();
                continue;
            }
            let (limit, segment_ns) = (
                self.limit.load(Ordering::Acquire),
                self.segment_ns.load(Ordering::Acquire),
            );
            let newest = word.segment();
            let segment = match now_ns.wrapping_sub(newest.wrapping_mul(segment_ns)) < segment_ns {
                true => newest,
                false => newest.max(now_ns / segment_ns),
            };
            return View {
                newest: word,
                window: Window::new(limit, segment_ns, self.count, segment),
                key: (),
            };
        }
    }

    /// The state at the last change, for an admission with that time, if it has one.
    fn view_at_change(&self, past: &Past, date_ns: Option<u64>) -> View {
        let change_ns = past.until_ns();
        self.view(change_ns)
            .perhaps_dated(date_ns.map(|_| change_ns))
    }

    #[inline(always)]
    fn swap(&self, old: Tally, new: Tally) -> bool {
        !old.is_frozen()
            && self
                .word
                .compare_exchange_weak(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Puts `word` at its place in the ring, if it still is the word.
    fn close(&self, word: Tally) -> bool {
        loop {
            let there = self.sum(word.place());
            if there == word {
                return true;
            }
            if self.word.load(Ordering::Acquire) != word.0 {
                return false;
            }
            if self.ring.replace(word.place(), there.0, word.0) {
                return true;
            }
        }
    }

    /// Waits until the change in progress has ended.
    #[cold]
    fn await_change(&self) {
        drop(self.config.lock());
    }
}

/// The result for `n` units at `now_ns`, by the quota before the last change.
fn past_admits(past: &Past, now_ns: u64, n: u64) -> Verdict {
    match past.admits_at_ns(now_ns, n) - now_ns {
        0 => Ok(()),
        wait_ns => Err(Denied::later(wait_ns.into(), 1)),
    }
}

impl Sums for Segments {
    type Sum = Tally;
    type Key = ();

    #[inline(always)]
    fn ring(&self) -> &Ring {
        &self.ring
    }

    #[inline(always)]
    fn sum(&self, place: u64) -> Tally {
        Tally(self.ring.load(place))
    }

    /// The content of `place` when the word is closed.
    #[inline(always)]
    fn sum_seen(&self, view: &View, place: u64) -> Tally {
        match (place ^ view.newest.place()) & (self.ring.len() - 1) {
            0 => view.newest,
            _ => self.sum(place),
        }
    }

    /// The ring has room for all that can be in the window, so its oldest tally has left it.
    fn range(&self, view: &View) -> (u64, u64) {
        let after = self.ring.len() - 1;
        (view.newest.place().wrapping_sub(after), after)
    }

    #[inline(always)]
    fn left(&self) -> &AtomicU64 {
        &self.left
    }

    #[inline(always)]
    fn stands(&self, view: &View) -> bool {
        self.word.load(Ordering::Acquire) == view.newest.0
    }

    fn settled_view(&self, time_ns: u64) -> View {
        self.view(time_ns.max(self.since_ns.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn plain_view(&self, date_ns: Option<u64>, now_ns: u64) -> Option<View> {
        let view = self.view(now_ns).perhaps_dated(date_ns);
        (!self.is_before_change(now_ns)).then_some(view)
    }

    /// At a time before the last change.
    #[cold]
    #[inline(never)]
    fn take_otherwise(&self, date_ns: Option<u64>, now_ns: u64, n: u64) -> Option<Verdict> {
        let past = &mut self.config.lock().past;
        // While the lock is held, only decisions change the state.
        let view = self.view_at_change(past, date_ns);
        match self.foretell_before(&view, past, now_ns, n) {
            Ok(()) => self.append(&view, n).then(|| {
                past.take(now_ns, n);
                Ok(())
            }),
            denied => self.stands(&view).then_some(denied),
        }
    }

    #[inline(always)]
    fn append(&self, view: &View, n: u64) -> bool {
        let (word, segment) = (view.newest, view.window.segment);
        if segment == word.segment() {
            return self.swap(word, word.plus(n));
        }
        self.close(word) && self.swap(word, word.in_segment(segment).plus(n))
    }
}
