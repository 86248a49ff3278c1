//! Decisions by a ring of [sums](sliding_window): made on a view of the state, and committed if the state is still the same.

use super::Ring;
use crate::algorithm::sliding_window::{History, Sum, Window};
use crate::primitive::backoff;
use crate::primitive::{AtomicU64, Ordering};
use crate::quota::{Quota, QuotaError};
use crate::verdict::{Denied, Verdict};

/// Everything that a decision depends on, as it was in one state, which `newest` and `key` identify.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<S, K> {
    pub(crate) newest: S,
    pub(crate) window: Window,
    pub(crate) key: K,
}

type Seen<T> = View<<T as Sums>::Sum, <T as Sums>::Key>;

impl<S: Sum, K> View<S, K> {
    /// Returns whether `n` units more than those since `left` are within the limit.
    #[inline(always)]
    fn fits(&self, n: u64, left: S) -> bool {
        self.window.fits(n, self.newest.units_since(left))
    }

    /// Returns the view for an admission with the timestamp `date_ns`, if there is one.
    #[inline(always)]
    pub(crate) fn perhaps_dated(mut self, date_ns: Option<u64>) -> Self {
        if let Some(date_ns) = date_ns {
            self.window = self.window.dated(date_ns);
        }
        self
    }
}

/// Returns the refusal at `now_ns` of a request that fits at `enough_ns`.
pub(crate) fn denied_until(enough_ns: u128, now_ns: u64) -> Denied {
    Denied::later(enough_ns.saturating_sub(u128::from(now_ns)), 1)
}

/// A limiter whose state is a history of sums in a ring.
///
/// A decision by a view is `None` if the state was another by then.
pub(crate) trait Sums {
    type Sum: Sum;
    type Key;

    fn ring(&self) -> &Ring;

    fn sum(&self, position: u64) -> Self::Sum;

    /// Returns the sum at `position`. The newest sum may not be in the ring yet.
    #[inline(always)]
    fn sum_seen(&self, _view: &Seen<Self>, position: u64) -> Self::Sum {
        self.sum(position)
    }

    /// Returns the position of the oldest sum, and how many come after it.
    fn range(&self, view: &Seen<Self>) -> (u64, u64);

    /// The position of a sum that has left the window, perhaps the last. It is a hint that any thread may store at any time.
    fn left(&self) -> &AtomicU64;

    /// Returns whether the state is still what `view` saw.
    fn stands(&self, view: &Seen<Self>) -> bool;

    /// Appends an admission of `n` units, if the state is still what `view` saw.
    fn append(&self, view: &Seen<Self>, n: u64) -> bool;

    #[inline(always)]
    fn history<'a>(
        &'a self,
        view: &'a Seen<Self>,
    ) -> History<'a, Self::Sum, impl Fn(u64) -> Self::Sum> {
        let (oldest, end) = self.range(view);
        let hint = self.left().load(Ordering::Relaxed);
        History {
            window: &view.window,
            at: move |after| self.sum_seen(view, oldest.wrapping_add(after)),
            newest: view.newest,
            end,
            hint: hint.wrapping_sub(oldest) & (self.ring().len() - 1),
        }
    }

    /// Returns the state at `now_ns`, for an admission with the timestamp `date_ns`, if there is one. Returns `None` if
    /// [`take_otherwise`](Self::take_otherwise) has to decide.
    fn plain_view(&self, date_ns: Option<u64>, now_ns: u64) -> Option<Seen<Self>>;

    /// Returns the state at `time_ns`, or at the last change if that is later, for units that are counted without a decision.
    fn settled_view(&self, time_ns: u64) -> Seen<Self>;

    /// Takes `n` units in any state, and at a time before the last change.
    fn take_otherwise(&self, date_ns: Option<u64>, now_ns: u64, n: u64) -> Option<Verdict>;

    /// The decision: one clock reading, which the caller has made, and one compare-and-swap, or two if a segment is closed.
    #[inline(always)]
    fn take_by(&self, date_ns: Option<u64>, now_ns: u64, n: u64) -> Verdict {
        loop {
            let Some(view) = self.plain_view(date_ns, now_ns) else {
                match self.take_otherwise(date_ns, now_ns, n) {
                    Some(told) => return told,
                    None => continue,
                }
            };
            let first = view.window.first;
            // Every sum that has left bounds what is in the window, so usually no search is needed.
            let hint = self.left().load(Ordering::Relaxed);
            let left = self.sum(hint);
            if left.is_known_before(first) {
                if view.fits(n, left) {
                    if self.append(&view, n) {
                        return Ok(());
                    }
                    backoff::pause(0, now_ns);
                    continue;
                }
                let next = self.sum_seen(&view, hint.wrapping_add(1));
                // It is the last that has left, and the next one leaves enough room.
                if !next.is_before(first) && view.fits(n, next) && self.stands(&view) {
                    return Err(denied_until(view.window.leaves_ns(next), now_ns));
                }
            }
            if let Some(told) = self.take_slowly(view, now_ns, n) {
                return told;
            }
            backoff::pause(0, now_ns);
        }
    }

    /// Uses a copy of the view, so that the fast way keeps its own in registers.
    #[inline(never)]
    fn take_slowly(&self, view: Seen<Self>, now_ns: u64, n: u64) -> Option<Verdict> {
        let Window { limit, first, .. } = view.window;
        // In a full window, one usually leaves as another comes: the one after the hint is the last that has left.
        let next_at = self.left().load(Ordering::Relaxed).wrapping_add(1);
        let [next, after] = [0, 1].map(|by| self.sum_seen(&view, next_at.wrapping_add(by)));
        if next.is_known_before(first) && !after.is_before(first) && view.fits(n, next) {
            let appended = self.append(&view, n);
            if appended {
                self.left().store(next_at, Ordering::Relaxed);
            }
            return appended.then_some(Ok(()));
        }
        let denied = match self.history(&view).judge(n.min(limit)) {
            _ if n > limit => Denied::never(n, limit),
            Ok(at) => return self.append_after(&view, at, n).then_some(Ok(())),
            Err(enough_ns) => denied_until(enough_ns, now_ns),
        };
        self.stands(&view).then_some(Err(denied))
    }

    /// Takes the units that fit, up to `n`, and returns how many.
    fn take_most_seen(&self, view: &Seen<Self>, n: u64) -> Option<u64> {
        let history = self.history(view);
        match n.min(history.room()) {
            0 => self.stands(view).then_some(0),
            n => (self.append_after(view, history.judge(n).ok()?, n)).then_some(n),
        }
    }

    /// [`append`](Self::append), if the last sum that has left the window is the one `at` places after the oldest.
    #[inline(always)]
    fn append_after(&self, view: &Seen<Self>, at: u64, n: u64) -> bool {
        let appended = self.append(view, n);
        if appended {
            let left = self.range(view).0.wrapping_add(at);
            self.left().store(left, Ordering::Relaxed);
        }
        appended
    }

    /// Decides about `n` units (at least 1) for a caller at `now_ns`, by a `view` at `from_ns`, if `ahead` units are taken
    /// first, each as soon as possible.
    ///
    /// A unit comes at least one window and one segment after the segment of an earlier unit: the one that precedes it by as
    /// many units as the limit.
    fn look_seen(
        &self,
        view: &Seen<Self>,
        (from_ns, now_ns): (u64, u64),
        ahead: u128,
        n: u64,
    ) -> Verdict {
        let window = &view.window;
        if n > window.limit {
            return Err(Denied::never(n, window.limit));
        }
        let before = ahead.saturating_add(u128::from(n - 1));
        let limit = u128::from(window.limit);
        // At most the limit.
        let judged = self.history(view).judge((before % limit) as u64 + 1);
        let enough_ns = match (judged, before / limit) {
            (Ok(_), 0) => return Ok(()),
            (Err(enough_ns), 0) => enough_ns,
            (Ok(_), rounds) => window.rounds_after_ns(from_ns.into(), rounds),
            (Err(enough_ns), rounds) => window.rounds_after_ns(enough_ns, rounds),
        };
        match before >= limit && enough_ns > u128::from(u64::MAX) {
            true => Err(Denied::too_late()),
            false => Err(denied_until(enough_ns, now_ns)),
        }
    }

    /// Returns the units that fit, and for how many nanoseconds after `now_ns` the window will not be empty.
    fn seen(&self, view: &Seen<Self>, now_ns: u64) -> (u64, u128) {
        let history = self.history(view);
        let empty_at_ns = history.judge(view.window.limit).err().unwrap_or(0);
        let empty_ns = empty_at_ns.saturating_sub(u128::from(now_ns));
        (history.room(), empty_ns)
    }
}

/// All units of a ring have the same size.
pub(crate) fn check_scale(new: &Quota, current: &Quota) -> Result<(), QuotaError> {
    let [new, current] = [new, current].map(Quota::scale);
    QuotaError::in_range("units per token", new, current, current).map(drop)
}
