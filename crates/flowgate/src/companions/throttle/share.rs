//! Which share of the requests is sent: a pure step, from the counts of a window and of its last part.
//!
//! A share is a number of 2⁻³² parts, rounded up. With *R* requests in the window, of which the backend accepted *A*, the share is
//!
//! ```text
//!  1                         if R < min_requests
//!  min(1, max(q, K·A / R))   otherwise
//! ```
//!
//! *K* is the multiplier, and *q* the share of probes. *R* counts every request whose outcome is known: the requests that the
//! backend accepted, the requests that it refused, and the requests that the throttle refused itself.
//!
//! The same is computed for the recent part of the window, unless that has fewer than `min_requests`. The larger share applies. So
//! a burst of refusals does not count for more than a part of the window, and a backend that is back does not have to wait until
//! the outage has left the window. With a constant capacity, both shares are the same.

/// The whole: every request is sent.
pub(super) const WHOLE: u64 = 1 << 32;

/// The settings, with times in buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) bucket_ns: u64,
    /// In buckets.
    pub(super) window: u64,
    /// The recent part of the window, in buckets.
    pub(super) recent: u64,
    pub(super) min_requests: u64,
    /// Above 1000.
    pub(super) multiplier_permille: u64,
    /// The share of the probes.
    pub(super) probes: u64,
}

impl Rules {
    /// Returns the share of the requests that is sent after a window and its recent part with these requests and accepted ones.
    pub(super) fn share(&self, window: [u64; 2], recent: [u64; 2]) -> u64 {
        let [requests, _] = window;
        if requests < self.min_requests {
            return WHOLE;
        }
        let [requests, _] = recent;
        let recent = match requests < self.min_requests {
            true => 0,
            false => self.backed(recent),
        };
        self.backed(window).max(recent).max(self.probes)
    }

    /// Returns the accepted requests times the multiplier, as a share of the requests.
    fn backed(&self, [requests, accepted]: [u64; 2]) -> u64 {
        let most = u128::from(requests) * 1000;
        let backed = u128::from(accepted) * u128::from(self.multiplier_permille);
        match backed < most {
            // At most the whole, because it is a part of `most`.
            true => (backed << 32).div_ceil(most) as u64,
            false => WHOLE,
        }
    }
}

/// Returns whether request number `turn` is sent, if the share is `share` parts, and `before` the sum of the shares of all
/// requests before it.
///
/// The sum passes a whole number once for each request that is sent. So of *k* consecutive requests, the number that is sent
/// is the sum of their shares, rounded down or up.
#[inline]
pub(super) fn is_sent(before: u64, share: u64) -> bool {
    before.wrapping_add(share) / WHOLE != before / WHOLE
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        bucket_ns: 10,
        window: 40,
        recent: 4,
        min_requests: 20,
        multiplier_permille: 2000,
        probes: WHOLE / 20,
    };

    #[test]
    fn a_share_is_what_the_backend_accepts_times_the_multiplier() {
        for (requests, accepted, share) in [
            (0, 0, WHOLE),
            (19, 0, WHOLE),      // too few to judge
            (20, 0, WHOLE / 20), // probes
            (1000, 500, WHOLE),
            (1000, 499, (WHOLE * 998).div_ceil(1000)),
            (1000, 250, WHOLE / 2),
            (1000, 25, WHOLE / 20 + 1),
            (1000, 24, WHOLE / 20),
            (
                u64::from(u32::MAX) * 128,
                u64::from(u32::MAX) * 32,
                WHOLE / 2,
            ),
        ] {
            let counts = [requests, accepted];
            for recent in [[0, 0], counts, [19, 19]] {
                let found = RULES.share(counts, recent);
                assert_eq!(found, share, "{accepted} of {requests}");
            }
        }
    }

    #[test]
    fn the_larger_share_of_the_window_and_its_recent_part_applies() {
        assert_eq!(RULES.share([1000, 250], [100, 40]), (WHOLE * 4).div_ceil(5));
        assert_eq!(RULES.share([1000, 250], [100, 10]), WHOLE / 2);
        assert_eq!(RULES.share([1000, 0], [20, 10]), WHOLE);
    }

    #[test]
    fn of_consecutive_requests_their_share_is_sent() {
        for share in [1, WHOLE / 20, WHOLE / 3, WHOLE / 2, WHOLE - 1, WHOLE] {
            let mut sum = u64::MAX - 7 * WHOLE; // past the end of the counter, too
            let begin = sum;
            let mut sent = 0;
            for request in 1..=1000_u64 {
                sent += u64::from(is_sent(sum, share));
                sum = sum.wrapping_add(share);
                let exact = u128::from(request) * u128::from(share);
                let most = (exact + u128::from(begin % WHOLE)) / u128::from(WHOLE);
                assert_eq!(u128::from(sent), most, "{request} requests at {share}");
            }
        }
    }
}
