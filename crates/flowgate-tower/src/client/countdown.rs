//! What a series of responses tells of a server's window.
//!
//! A fixed window gives nothing back before it ends, and a bucket does all the time. A server's `t` in whole seconds tells
//! neither. But a client that hears `r` fall by one for each request, over a time in which a bucket would have been refilled
//! by several, has a window before it. If it heard the window begin, it knows its end:
//!
//! ```text
//!   r   99  98  97 …               1   0               99
//!       ├───────────── w ──────────────────────────────┤
//!       received: the window has begun                 so it has ended here, if not before
//! ```

use super::told::Policy;
use flowgate::Timestamp;
use std::time::Duration;

/// How many requests a bucket must have been refilled by, where nothing came back, for it to be a window.
const REFILLS: u32 = 4;

/// What a response tells of the limit that is nearest to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) remaining: u64,
    pub(super) policy: Policy,
}

/// The responses since something last came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Countdown {
    policy: Policy,
    began: Began,
    /// When the first of them was received, and what remained then.
    since: Timestamp,
    most: u64,
    /// The number of responses after the first.
    later: u64,
    /// The least that remained, and when that was received.
    least: u64,
    least_at: Timestamp,
}

/// How a series began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Began {
    /// Nearly all of the quota remained: if it is a window, it had just begun.
    Full,
    /// Something came back, but not nearly all; or the policy is another.
    Partial,
    /// It is the first, or the first after a window's length: it may have begun in the middle of a window.
    Unknown,
}

impl Countdown {
    /// The series after a response to a request that was sent at `sent`, received `now`.
    pub(super) fn after(
        before: Option<Self>,
        sight: Sight,
        sent: Timestamp,
        now: Timestamp,
    ) -> Self {
        let Sight { remaining, policy } = sight;
        let same = before.filter(|before| before.policy == policy);
        // A window that had begun when the first response was received has ended this long after it.
        let has_ended =
            same.is_some_and(|same| now.saturating_duration_since(same.since) >= policy.window);
        let began = match same {
            // A response to what was sent before the least was heard may only be late.
            Some(same) if !has_ended && (remaining <= same.least || sent < same.least_at) => {
                let is_least = remaining <= same.least;
                return Self {
                    later: same.later.saturating_add(1),
                    least: same.least.min(remaining),
                    least_at: if is_least { now } else { same.least_at },
                    ..same
                };
            }
            _ if policy.quota.saturating_sub(remaining) <= (policy.quota / 8).max(1) => Began::Full,
            _ if before.is_none() || has_ended => Began::Unknown,
            _ => Began::Partial,
        };
        Self {
            policy,
            began,
            since: now,
            most: remaining,
            later: 0,
            least: remaining,
            least_at: now,
        }
    }

    /// How long from `now` on nothing comes back, if this is a window: until its end, or for `most` if its beginning is not
    /// known.
    pub(super) fn rest(&self, now: Timestamp, most: Duration) -> Option<Duration> {
        let lasted = now.saturating_duration_since(self.since);
        let has_gained = self.least.saturating_add(self.later) > self.most;
        if has_gained || lasted < self.policy.each.saturating_mul(REFILLS) {
            return None;
        }
        match self.began {
            Began::Full => Some(self.policy.window.saturating_sub(lasted)),
            Began::Partial => None,
            Began::Unknown => Some(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const POLICY: Policy = Policy {
        quota: 10,
        window: ms(1000),
        each: ms(100),
    };

    /// The rest of a window, after responses that were sent and received at these milliseconds, with what remained. If the
    /// rest is unknown, it is 1 s.
    fn rest(responses: &[(u64, u64, u64)]) -> Option<u64> {
        let at = |at_ms| Timestamp::ORIGIN + ms(at_ms);
        let mut heard = None;
        for &(sent_ms, now_ms, remaining) in responses {
            let policy = POLICY;
            let sight = Sight { remaining, policy };
            heard = Some(Countdown::after(heard, sight, at(sent_ms), at(now_ms)));
        }
        let now = at(responses.last().expect("there are some").1);
        let rest = heard.expect("there are some").rest(now, ms(1000))?;
        u64::try_from(rest.as_millis()).ok()
    }

    /// One response each 90 ms, received 5 ms after it was sent.
    fn falling(from: u64) -> Vec<(u64, u64, u64)> {
        let falling = (0..from + 1).zip((0..=from).rev());
        falling
            .map(|(n, remaining)| (90 * n, 90 * n + 5, remaining))
            .collect()
    }

    #[test]
    fn a_window_ends_its_length_after_it_was_heard_to_begin() {
        assert_eq!(rest(&falling(9)), Some(1000 - 9 * 90));
    }

    #[test]
    fn the_end_of_a_window_that_had_begun_before_is_not_known() {
        assert_eq!(rest(&falling(6)), Some(1000));
        // The next one is heard to begin.
        let mut next = falling(6);
        let begins = [(1500, 1505, 9), (1600, 1605, 8), (2000, 2005, 0)];
        next.extend(begins);
        assert_eq!(rest(&next), Some(500));
    }

    /// After a rest of a minute, in which others came: nothing is known of what was heard before it.
    #[test]
    fn a_window_that_has_ended_tells_nothing_of_the_next() {
        let rested = [
            (0, 5, 9),
            (100, 105, 5),
            (60_000, 60_005, 4),
            (60_500, 60_505, 0),
        ];
        assert_eq!(rest(&rested), Some(1000));
    }

    #[test]
    fn what_comes_back_meanwhile_is_no_window() {
        // A bucket: 5 are let through in 400 ms, and 4 came back.
        let bucket = [
            (0, 5, 9),
            (100, 105, 9),
            (200, 205, 9),
            (300, 305, 9),
            (400, 405, 8),
        ];
        assert_eq!(rest(&bucket), None);
        // In part: something else, such as a sliding window.
        let mut sliding = falling(6);
        sliding.extend([(700, 705, 4), (800, 805, 3), (1200, 1205, 0)]);
        assert_eq!(rest(&sliding), None);
    }

    #[test]
    fn a_burst_shows_nothing() {
        let burst: Vec<_> = (0..10).map(|n| (n, n + 5, 9 - n)).collect();
        assert_eq!(rest(&burst), None);
    }

    #[test]
    fn responses_may_overtake_each_other() {
        let late = [
            (0, 5, 8),
            (0, 6, 9),
            (400, 405, 6),
            (400, 406, 7),
            (500, 505, 0),
        ];
        // 8 is not nearly all of 10, so the beginning is not known.
        assert_eq!(rest(&late), Some(1000));
        let late = [(0, 5, 9), (400, 405, 7), (400, 406, 8), (500, 505, 0)];
        assert_eq!(rest(&late), Some(500));
    }

    #[test]
    fn another_policy_begins_anew() {
        let at = |at_ms| Timestamp::ORIGIN + ms(at_ms);
        let policy = POLICY;
        let sight = Sight {
            remaining: 9,
            policy,
        };
        let heard = Countdown::after(None, sight, at(0), at(0));
        let policy = Policy {
            quota: 20,
            ..POLICY
        };
        let sight = Sight {
            remaining: 0,
            policy,
        };
        let heard = Countdown::after(Some(heard), sight, at(500), at(500));
        assert_eq!(heard.rest(at(500), ms(1000)), None);
        assert_eq!(heard.rest(at(900), ms(1000)), None);
    }
}
