//! Decisions by a ring of [sums](sliding_window): made on a view of the state, and committed if that still stands.

use super::Ring;
use crate::algorithm::sliding_window::{History, Sum, Window};
use crate::primitive::{AtomicU64, Ordering};
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;

/// All that a decision depends on, as it was in one state, which `newest` and `key` tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<S, K> {
    pub(crate) newest: S,
    pub(crate) window: Window,
    pub(crate) key: K,
}

type Seen<T> = View<<T as Sums>::Sum, <T as Sums>::Key>;

impl<S: Sum, K> View<S, K> {
    /// Whether `n` more units than there are since `left` are within the limit.
    #[inline(always)]
    fn fits(&self, n: u64, left: S) -> bool {
        self.window.fits(n, self.newest.units_since(left))
    }

    /// The same for an admission that is dated `date_ns`, if it is.
    #[inline(always)]
    pub(crate) fn perhaps_dated(mut self, date_ns: Option<u64>) -> Self {
        if let Some(date_ns) = date_ns {
            self.window = self.window.dated(date_ns);
        }
        self
    }
}

/// The refusal at `now_ns` of what fits at `enough_ns`.
pub(crate) fn denied_until(enough_ns: u128, now_ns: u64) -> Denied {
    Denied::later(enough_ns.saturating_sub(u128::from(now_ns)), 1)
}

/// A limiter whose state is a history of sums in a ring.
///
/// What is decided by a view is `None` where the state was another by then.
pub(crate) trait Sums {
    type Sum: Sum;
    type Key;

    fn ring(&self) -> &Ring;

    fn sum(&self, position: u64) -> Self::Sum;

    /// The same, where the newest may not be in the ring yet.
    #[inline(always)]
    fn sum_seen(&self, view: &Seen<Self>, position: u64) -> Self::Sum {
        let _ = view;
        self.sum(position)
    }

    /// The position of the oldest sum, and how many come after it.
    fn range(&self, view: &Seen<Self>) -> (u64, u64);

    /// The position of a sum that has left the window, perhaps the last: a hint, that anyone may store at any time.
    fn left(&self) -> &AtomicU64;

    /// Whether the state is still what `view` saw.
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

    /// The state at `now_ns`, for an admission that is dated `date_ns`, if it is; none if [`take_otherwise`](Self::take_otherwise)
    /// has to decide.
    fn plain_view(&self, date_ns: Option<u64>, now_ns: u64) -> Option<Seen<Self>>;

    /// The state at `time_ns`, or at the last change if that is later: to append what is counted without being asked.
    fn settled_view(&self, time_ns: u64) -> Seen<Self>;

    /// Takes `n` units in any state, and at a time before the last change.
    fn take_otherwise(
        &self,
        date_ns: Option<u64>,
        now_ns: u64,
        n: u64,
    ) -> Option<Result<(), Denied>>;

    /// The decision: one clock reading, which the caller has taken, and one compare-and-swap, or two where a segment is closed.
    #[inline(always)]
    fn take_by(&self, date_ns: Option<u64>, now_ns: u64, n: u64) -> Result<(), Denied> {
        loop {
            let Some(view) = self.plain_view(date_ns, now_ns) else {
                match self.take_otherwise(date_ns, now_ns, n) {
                    Some(told) => return told,
                    None => continue,
                }
            };
            let first = view.window.first;
            // Whatever has left bounds what is in the window; so usually nothing has to be looked for.
            let hint = self.left().load(Ordering::Relaxed);
            let left = self.sum(hint);
            if left.is_known_before(first) {
                if view.fits(n, left) {
                    if self.append(&view, n) {
                        return Ok(());
                    }
                    continue;
                }
                let next = self.sum_seen(&view, hint.wrapping_add(1));
                // It is the last that has left, and the next leaves room enough.
                if !next.is_before(first) && view.fits(n, next) && self.stands(&view) {
                    return Err(denied_until(view.window.leaves_ns(next), now_ns));
                }
            }
            if let Some(told) = self.take_slowly(view, now_ns, n) {
                return told;
            }
        }
    }

    /// By a copy of the view, so that the fast way keeps its own in registers.
    #[inline(never)]
    fn take_slowly(&self, view: Seen<Self>, now_ns: u64, n: u64) -> Option<Result<(), Denied>> {
        let limit = view.window.limit;
        let denied = match self.history(&view).judge(n.min(limit)) {
            _ if n > limit => Denied::never(n, limit),
            Ok(at) => return self.append_after(&view, at, n).then_some(Ok(())),
            Err(enough_ns) => denied_until(enough_ns, now_ns),
        };
        self.stands(&view).then_some(Err(denied))
    }

    /// Takes what fits, up to `n` units: how many.
    fn take_most_seen(&self, view: &Seen<Self>, n: u64) -> Option<u64> {
        let history = self.history(view);
        match n.min(history.room()) {
            0 => self.stands(view).then_some(0),
            n => (self.append_after(view, history.judge(n).ok()?, n)).then_some(n),
        }
    }

    /// [`append`](Self::append), where the last that has left the window is the one `at` places after the oldest.
    #[inline(always)]
    fn append_after(&self, view: &Seen<Self>, at: u64, n: u64) -> bool {
        let appended = self.append(view, n);
        if appended {
            let left = self.range(view).0.wrapping_add(at);
            self.left().store(left, Ordering::Relaxed);
        }
        appended
    }

    /// What a caller at `now_ns` is told of `n` units, at least 1, if `ahead` are taken first, each as soon as it can be: by a
    /// `view` at `from_ns`.
    ///
    /// A unit comes a window and a segment, at the least, after the segment of the one that is the limit's number of units
    /// before it.
    fn look_seen(
        &self,
        view: &Seen<Self>,
        (from_ns, now_ns): (u64, u64),
        ahead: u128,
        n: u64,
    ) -> Result<(), Denied> {
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

    /// What fits, and for how long after `now_ns` the window will not be empty, in nanoseconds.
    fn seen(&self, view: &Seen<Self>, now_ns: u64) -> (u64, u128) {
        let history = self.history(view);
        let empty_at_ns = history.judge(view.window.limit).err().unwrap_or(0);
        let empty_ns = empty_at_ns.saturating_sub(u128::from(now_ns));
        (history.room(), empty_ns)
    }
}

/// A ring's units are all of one size.
pub(crate) fn check_scale(new: &Quota, current: &Quota) -> Result<(), QuotaError> {
    let [new, current] = [new, current].map(Quota::scale);
    match new == current {
        true => Ok(()),
        false => Err(QuotaError::out_of_range(
            "units per token",
            new,
            current,
            current,
        )),
    }
}
