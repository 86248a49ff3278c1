//! What the script of windows does, as a function. The two are compared with each other in a real store.

use crate::call::{Call, Reply, Seen};
use crate::terms::Kind;
use std::fmt;

/// The record of a window that has admitted something: `w:used:began:limit:period`, or `a:` of aligned windows. After a reset, its time
/// follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kind: Kind,
    pub(crate) used: u64,
    pub(crate) began_us: u64,
    pub(crate) limit: u64,
    pub(crate) period: u64,
    /// What was seen by then is forgiven; 0: there was no reset.
    pub(crate) reset_us: u64,
}

impl Window {
    /// Carries out `call` at `now_us`, after a reset at `reset_us` if there is no record beside it. Returns the reply, and the record to
    /// store; `None`: the one that there was stays.
    pub(crate) fn take(
        stored: Option<Self>,
        reset_us: u64,
        now_us: u64,
        call: &Call,
    ) -> (Reply, Option<Self>) {
        let (kind, limit, period) = (call.terms.kind, call.terms.burst, call.terms.period);
        // A window of the future is of a clock that was set back since. It lasts on, but not for much longer than a window.
        let dated = |began_us: u64| began_us.min(now_us + period);
        let is_open = |began_us: u64| now_us < kind.end_us(began_us, period);
        let (mut used, mut began_us, mut changed) = (0, 0, false);
        if let Some(window) = stored {
            began_us = dated(window.began_us);
            if is_open(began_us) {
                used = window.used;
            }
            changed = began_us < window.began_us
                || (window.kind, window.limit, window.period) != (kind, limit, period);
        }
        let reset_us = stored.map_or(reset_us, |window| window.reset_us);
        let seen_began_us = dated(call.seen.began_us);
        let is_forgiven = reset_us > 0 && call.seen.began_us <= reset_us;
        let seen = match is_open(seen_began_us) && !is_forgiven {
            true => call.seen.debt,
            false => 0,
        };
        let healed = seen.saturating_sub(used);
        if healed > 0 {
            if used == 0 {
                began_us = seen_began_us;
            }
            (used, changed) = (seen, true);
        }
        let taken = call.runs.iter().map(|run| {
            let taken = run.times.min(limit.saturating_sub(used) / run.units);
            let taken = if taken < run.least { 0 } else { taken };
            if taken > 0 {
                if used == 0 {
                    began_us = now_us;
                }
                (used, changed) = (used + taken * run.units, true);
            }
            taken
        });
        let taken = taken.collect();
        if used == 0 {
            began_us = 0;
        }
        let seen = Seen {
            debt: used,
            at_us: now_us,
            began_us,
        };
        let window = Self {
            kind,
            used,
            began_us,
            limit,
            period,
            reset_us,
        };
        let reply = Reply {
            seen,
            healed,
            reset_us: 0,
            taken,
        };
        (reply, (changed && used > 0).then_some(window))
    }

    /// Reads the text of a record. Returns `None` if it is none of these.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, numbers) = text.split_once(':')?;
        let kind = match kind {
            "w" => Kind::Window,
            "a" => Kind::AlignedWindow,
            _ => return None,
        };
        let numbers: Vec<u64> = numbers
            .split(':')
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let (used, began_us, limit, period, reset_us) = match numbers[..] {
            [used, began_us, limit, period] => (used, began_us, limit, period, 0),
            [used, began_us, limit, period, reset_us] => (used, began_us, limit, period, reset_us),
            _ => return None,
        };
        (limit > 0 && period > 0).then_some(Self {
            kind,
            used,
            began_us,
            limit,
            period,
            reset_us,
        })
    }

    /// Returns the microseconds until the window ends.
    pub(crate) fn left_us(&self, now_us: u64) -> u64 {
        let began_us = self.began_us.min(now_us.saturating_add(self.period));
        let end_us = self.kind.end_us(began_us, self.period);
        end_us.saturating_sub(now_us)
    }

    /// Returns the units that the window has admitted, if it is not over.
    pub(crate) fn used_at(&self, now_us: u64) -> u64 {
        match self.left_us(now_us) {
            0 => 0,
            _ => self.used,
        }
    }
}

#[cfg(test)]
impl Window {
    /// Returns for how many milliseconds a store may keep this, which it got at `now_us`, within the last 10 s.
    pub(crate) fn lasts_ms(&self, now_us: u64) -> std::ops::RangeInclusive<i64> {
        let left_ms = self.left_us(now_us).div_ceil(1_000) as i64;
        left_ms + 1..=left_ms + 10_000
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            used,
            began_us,
            limit,
            period,
            reset_us,
        } = self;
        let kind = match kind {
            Kind::AlignedWindow => 'a',
            _ => 'w',
        };
        write!(f, "{kind}:{used}:{began_us}:{limit}:{period}")?;
        if *reset_us > 0 {
            write!(f, ":{reset_us}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Run;
    use crate::record::Record;
    use crate::terms::Terms;

    const SECOND: u64 = 1_000_000;
    const FREE: Kind = Kind::Window;
    const ALIGNED: Kind = Kind::AlignedWindow;

    fn call(kind: Kind, quota: &str, units: u64) -> Call {
        let terms = Terms::of_window(quota.parse().expect("a quota"), kind);
        Call {
            record: Record::of("hour", b""),
            terms: terms.expect("it is exact"),
            seen: Seen::default(),
            runs: vec![Run::of(1, units)],
        }
    }

    /// Takes from what is stored, and stores it. Returns whether the units were there.
    fn take(stored: &mut Option<Window>, now_us: u64, call: &Call) -> bool {
        let (reply, window) = Window::take(*stored, 0, now_us, call);
        *stored = window.or(*stored);
        reply.taken == [1]
    }

    #[test]
    fn c1_c2_c3_a_window_begins_with_its_first_admission_and_ends_on_time() {
        let mut stored = None;
        let [one, three] = [1, 3].map(|units| call(FREE, "3/10s", units));
        assert!(take(&mut stored, 7 * SECOND, &one));
        assert!(!take(&mut stored, 7 * SECOND, &three));
        let (refused, written) = Window::take(stored, 0, 9 * SECOND, &three);
        assert_eq!(refused.seen.wait_us(&one.terms, 3), 8 * SECOND);
        assert_eq!(written, None, "a refusal writes nothing");
        assert!(!take(&mut stored, 17 * SECOND - 1, &three));
        assert!(take(&mut stored, 17 * SECOND, &three));
        assert!(!take(&mut stored, 27 * SECOND - 1, &one));
    }

    #[test]
    fn c1_c3_an_aligned_window_begins_with_the_clock() {
        let mut stored = None;
        let one = call(ALIGNED, "1/10s", 1);
        assert!(take(&mut stored, 19 * SECOND, &one));
        let (refused, _) = Window::take(stored, 0, 19 * SECOND, &one);
        assert_eq!(refused.seen.wait_us(&one.terms, 1), SECOND);
        assert!(take(&mut stored, 20 * SECOND, &one));
        assert!(!take(&mut stored, 30 * SECOND - 1, &one));
    }

    #[test]
    fn c4_a_clock_that_was_set_back_opens_no_window_and_blocks_for_two_at_most() {
        for kind in [FREE, ALIGNED] {
            let one = call(kind, "1/10s", 1);
            for back in [1, 5 * SECOND, 10 * SECOND, 3_600 * SECOND] {
                let mut stored = None;
                let began_us = 4_000 * SECOND;
                assert!(take(&mut stored, began_us, &one));
                let now_us = began_us - back;
                assert!(!take(&mut stored, now_us, &one), "{kind:?} {back}");
                // A whole window has passed since, by any clock.
                assert!(!take(&mut stored, now_us + 9 * SECOND, &one));
                assert!(take(&mut stored, now_us + 20 * SECOND, &one));
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_ahead_opens_one_window_or_two_if_they_are_aligned() {
        let boundary = 100 * SECOND;
        for (kind, windows) in [(FREE, 2), (ALIGNED, 4)] {
            let mut stored = None;
            let mut admitted = |from_us: u64, to_us: u64| {
                let times = (from_us..to_us).step_by(100_000);
                times
                    .filter(|&us| take(&mut stored, us, &call(kind, "3/10s", 3)))
                    .count()
            };
            // A second around a boundary, and then another one an hour later.
            let before = admitted(boundary - SECOND, boundary + SECOND);
            let later = boundary + 3_600 * SECOND;
            let after = admitted(later - SECOND, later + SECOND);
            assert_eq!(before + after, windows);
        }
    }

    #[test]
    fn c1_a_new_quota_keeps_what_the_window_has_admitted() {
        let mut stored = None;
        assert!(take(&mut stored, 0, &call(FREE, "10/10s", 10)));
        assert!(!take(&mut stored, SECOND, &call(FREE, "5/10s", 1)));
        assert!(!take(&mut stored, SECOND, &call(FREE, "12/10s", 3)));
        assert!(take(&mut stored, SECOND, &call(FREE, "12/10s", 2)));
        // The window lasts as long as the new one says.
        assert!(!take(&mut stored, 20 * SECOND - 1, &call(FREE, "1/20s", 1)));
        assert!(take(&mut stored, 20 * SECOND, &call(FREE, "1/20s", 1)));
    }

    #[test]
    fn c1_a_store_that_has_forgotten_is_reminded_and_one_that_has_not_is_not_changed() {
        let mut stored = None;
        let mut one = call(FREE, "10/10s", 1);
        assert!(take(&mut stored, SECOND, &call(FREE, "10/10s", 8)));
        one.seen = Seen {
            debt: 8,
            at_us: SECOND,
            began_us: SECOND,
        };
        let (kept, _) = Window::take(stored, 0, 2 * SECOND, &one);
        assert_eq!((kept.healed, kept.seen.debt), (0, 9));
        let (reminded, written) = Window::take(None, 0, 2 * SECOND, &one);
        assert_eq!((reminded.healed, reminded.seen), (8, kept.seen));
        assert_eq!(written.expect("a window").began_us, SECOND);
        // Of a window that is over, nothing is left to remind of.
        let (late, _) = Window::take(None, 0, 11 * SECOND, &one);
        assert_eq!((late.healed, late.seen.began_us), (0, 11 * SECOND));
    }

    #[test]
    fn a_reset_forgives_what_was_seen_before_it_and_nothing_that_was_taken_since() {
        let mut full = call(FREE, "10/10s", 10);
        let (before, _) = Window::take(None, 0, 5, &full);
        full.seen = before.seen;
        // The mark of a reset, without a window.
        let (since, window) = Window::take(None, 5, 6, &full);
        assert_eq!((since.healed, &since.taken[..]), (0, &[1][..]));
        let (again, _) = Window::take(window, 0, 7, &full);
        assert_eq!((again.healed, again.taken), (0, vec![0]));
        full.seen = since.seen;
        let mark_alone = Window::take(None, 5, 8, &full);
        assert_eq!(mark_alone.0.healed, 10, "it was taken after the reset");
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        for text in ["w:3:17:10:60000000", "a:3:17:10:60000000:16"] {
            assert_eq!(Window::parse(text).expect(text).to_string(), text);
        }
        for foreign in [
            "17",
            "w:1:2:3",
            "b:1:2:3:4",
            "w:1:2:0:4",
            "w:1:2:3:x",
            "1:2:3:4",
        ] {
            assert_eq!(Window::parse(foreign), None, "{foreign}");
        }
    }
}
