//! Returning units: refunds, and grants that a waiter gave up before it received them.

use super::{Settings, Windows};
use crate::store::word::{Step, View};

impl Windows {
    /// Takes units off the count of the newest window, and returns how many. `asked` returns the largest number, and whether
    /// the units were counted when the window began.
    ///
    /// # The stand-in
    ///
    /// A window that is not aligned begins with its first operation. That is why an interval of one window never holds two full
    /// windows. It starts after the first operation of one window, so it lacks that operation, and reaches into the next
    /// window.
    ///
    /// A refund takes the newest units, and the first one last. But a grant that a waiter gave up may be the first one, while
    /// later ones stay counted. Then one unit stays counted in its place until the window ends, or until nothing else is
    /// counted. The limiter does not record when the later operations came, so it cannot move the beginning to the next one.
    pub(super) fn uncount(
        &self,
        settings: &mut Settings,
        now_ns: u64,
        asked: impl Fn(&View) -> (u64, bool),
    ) -> u64 {
        let stands_in_ns = settings.stands_in_ns;
        let (given_back, stands_in_ns) = self.word.update(now_ns, |view| {
            let end_ns = view.end_ns();
            let stands_in = stands_in_ns == Some(end_ns);
            let counted = view.used().saturating_sub(u64::from(stands_in));
            let (n, is_opener) = asked(view);
            let n = n.min(counted);
            if n == 0 {
                return Step::Stay((0, stands_in_ns));
            }
            let (stay, stands_in_ns) = match counted - n {
                0 => (0, None),
                left if stands_in || is_opener => (left + 1, Some(end_ns)),
                left => (left, stands_in_ns),
            };
            let state = view.state - u128::from(view.used() - stay);
            Step::Move(state, (n, stands_in_ns))
        });
        settings.stands_in_ns = stands_in_ns;
        given_back
    }
}
