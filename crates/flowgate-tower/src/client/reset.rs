//! What `X-RateLimit-Reset` tells of a server's window.
//!
//! The field is the second of the Unix epoch at which a window ends, rounded up. `Date` is the second at which the response was
//! made, rounded down. Both are by the server's own clock. So the first response of a window of `w` whole seconds tells `w`:
//!
//! ```text
//!             Date                                      Reset
//!  ├───────────┼──────────── w = 2 s ─┬────────┼──────────┤
//!  s      the window begins          s + 2   it ends     s + 3        w = Reset − Date − 1
//! ```
//!
//! A window that is no whole number of seconds is longer than that by a part of a second, or as long as a longer one. A host
//! whose field is still the same when the window should be over has such windows, and they count as a second longer.

use super::advice::Rest;
use super::countdown::Sight;
use super::told::Policy;
use flowgate::Timestamp;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The fields of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// The second of the epoch at which the window ends.
    pub(super) at: u64,
    /// The second of the epoch at which the response was made.
    pub(super) date: u64,
}

/// The window of a host, as its first response told it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    at: u64,
    /// When the first response with this end was received.
    since: Timestamp,
    /// None: the beginning of the window was not heard.
    policy: Option<Policy>,
    /// Added to the lengths that responses tell.
    longer: Duration,
}

impl Window {
    /// The window after a response to a request that was sent at `sent`, received `now`.
    pub(super) fn after(
        before: Option<Self>,
        reset: Reset,
        sent: Timestamp,
        now: Timestamp,
    ) -> Self {
        let longer = before.map_or(Duration::ZERO, |before| before.longer);
        match before.filter(|before| before.at == reset.at) {
            Some(same) => {
                let is_over = |policy: &Policy| sent >= same.since + policy.window;
                let policy = same.policy.filter(|policy| !is_over(policy));
                let is_longer = same.policy.is_some() && policy.is_none();
                Self {
                    policy,
                    longer: longer.saturating_add(SECOND * u32::from(is_longer)),
                    ..same
                }
            }
            None => Self {
                at: reset.at,
                since: now,
                policy: reset.policy(longer),
                longer,
            },
        }
    }

    /// What `reset`, which is of this window, tells of the limit.
    pub(super) fn sight(&self, reset: Reset) -> Option<Sight> {
        let remaining = reset.remaining;
        self.policy.map(|policy| Sight { remaining, policy })
    }
}

impl Reset {
    /// The policy, if this is a response from the beginning of a window.
    fn policy(&self, longer: Duration) -> Option<Policy> {
        let told = Duration::from_secs(self.at.checked_sub(self.date + 1)?);
        let window = told.saturating_add(longer);
        let used = self.limit.checked_sub(self.remaining)?;
        let has_begun = used <= (self.limit / 8).max(1);
        let each = window.as_nanos().checked_div(self.limit.into())?;
        let policy = Policy {
            quota: self.limit,
            window,
            each: Duration::from_nanos(u64::try_from(each).ok()?),
        };
        (has_begun && !window.is_zero()).then_some(policy)
    }

    /// The time until there is more, if nothing is left of `policy`.
    pub(super) fn rest(&self, policy: Policy) -> Rest {
        let most = Duration::from_secs(self.at.saturating_sub(self.date));
        // `Date` may be nearly a second old, and the end of the window nearly a second earlier than it tells.
        let certain = most.saturating_sub(2 * SECOND).min(policy.window);
        Rest {
            certain,
            full: certain.saturating_add(policy.each).min(policy.window),
            most: most.min(policy.window),
            each: Some(policy.each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The window after a response received at this millisecond after the test's beginning, which was at 1,000.25 s.
    fn heard(before: Option<Window>, at_ms: u64, ends_ms: u64, remaining: u64) -> Window {
        let epoch_ms = 1_000_250;
        let reset = Reset {
            limit: 100,
            remaining,
            at: (epoch_ms + ends_ms).div_ceil(1000),
            date: (epoch_ms + at_ms) / 1000,
        };
        let at = Timestamp::ORIGIN + Duration::from_millis(at_ms);
        Window::after(before, reset, at, at)
    }

    fn length(window: Window) -> Option<u128> {
        window.policy.map(|policy| policy.window.as_millis())
    }

    #[test]
    fn the_first_response_of_a_window_tells_its_length() {
        for seconds in [1, 2, 60, 3600] {
            for began_ms in [1, 249, 400, 749] {
                let first = heard(None, began_ms, began_ms + 1000 * seconds, 99);
                assert_eq!(
                    length(first),
                    Some(1000 * u128::from(seconds)),
                    "{began_ms}"
                );
            }
        }
    }

    #[test]
    fn a_length_is_kept_until_the_window_ends() {
        let first = heard(None, 400, 2400, 99);
        let later = heard(Some(first), 1700, 2400, 30);
        assert_eq!((length(later), later.since), (Some(2000), first.since));
        let next = heard(Some(later), 2500, 4500, 99);
        assert_eq!((length(next), next.since > first.since), (Some(2000), true));
    }

    #[test]
    fn a_response_from_the_middle_of_a_window_tells_nothing() {
        let middle = heard(None, 700, 2400, 60);
        assert_eq!(length(middle), None);
        assert_eq!(length(heard(Some(middle), 900, 2400, 99)), None);
    }

    #[test]
    fn a_window_that_is_still_there_when_it_should_be_over_counts_as_longer() {
        let first = heard(None, 0, 1500, 99);
        assert_eq!(length(first), Some(1000));
        let over = heard(Some(first), 1010, 1500, 0);
        assert_eq!(length(over), None);
        assert_eq!(length(heard(Some(over), 1600, 3100, 99)), Some(3000));
    }

    proptest! {
        #[test]
        fn no_numbers_panic_and_no_wait_is_longer_than_the_fields_allow(
            limit in any::<u64>(), remaining in any::<u64>(), at in any::<u64>(), date in 0..1_u64 << 40,
            used in 0..3_u64,
        ) {
            for (limit, remaining) in [(limit, remaining), (limit, limit.saturating_sub(used))] {
                let reset = Reset { limit, remaining, at, date };
                let first = Window::after(None, reset, Timestamp::ORIGIN, Timestamp::ORIGIN);
                let _ = Window::after(Some(first), reset, Timestamp::MAX, Timestamp::MAX);
                if let Some(sight) = first.sight(reset) {
                    let rest = reset.rest(sight.policy);
                    prop_assert!(rest.certain <= rest.full && rest.certain <= rest.most);
                    prop_assert!(rest.most <= Duration::from_secs(at - date));
                }
            }
        }
    }
}
