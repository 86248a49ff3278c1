//! Which share of the requests is admitted, and where in the levels that cuts: a pure step for each window.
//!
//! Shares are numbers of 2⁻³² parts. After a window in which the share *x* of the admitted requests was in excess:
//!
//! ```text
//!  share ← share · (1 − (x − target) / 4)     if x > target
//!  share ← share · (1 + (target − x) / 4)     if x < 3/4 · target
//! ```
//!
//! Between the two, it stays. As the step is a factor, it is the same at every overload.

use alloc::boxed::Box;

/// All of the requests.
pub(super) const WHOLE: u64 = 1 << 32;
/// The smallest share, so that it can grow again.
const LEAST: u64 = WHOLE / 1000;

/// A point in the levels: those above `level` are admitted, and a part of that level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threshold {
    pub(super) level: u32,
    /// The share of the level that is shed, below the whole.
    pub(super) shed: u32,
}

impl Threshold {
    pub(super) const ALL: Self = Self { level: 0, shed: 0 };

    pub(super) const fn pack(self) -> u64 {
        (self.level as u64) << 32 | self.shed as u64
    }

    pub(super) const fn unpack(word: u64) -> Self {
        Self {
            level: (word >> 32) as u32,
            shed: word as u32,
        }
    }
}

/// The share that is admitted, and the levels of recent requests.
#[derive(Debug)]
pub(super) struct Judge {
    /// Above the share of the excess, the admitted share falls.
    pub(super) target: u64,
    pub(super) share: u64,
    /// Requests by level. Those of earlier windows count half as much for each window since.
    pub(super) recent: Box<[u64]>,
}

impl Judge {
    /// Judges a window, whose requests have been added to the recent ones.
    pub(super) fn judge(&mut self, admitted: u64, excess: u64) -> Threshold {
        let excess = match admitted {
            0 => 0,
            _ => part(excess.min(admitted), admitted),
        };
        if excess > self.target {
            self.share -= times(self.share, excess - self.target) / 4;
        } else if excess < self.target / 4 * 3 {
            self.share += times(self.share, self.target - excess) / 4;
        }
        self.share = self.share.clamp(LEAST, WHOLE);
        self.threshold()
    }

    /// Returns where the share cuts: the quantile of the recent levels.
    fn threshold(&mut self) -> Threshold {
        let Some((top, others)) = self.recent.split_last() else {
            return Threshold::ALL;
        };
        let requests: u64 = self.recent.iter().sum();
        // In parts of a request.
        let mut to_shed = u128::from(requests) * u128::from(WHOLE - self.share);
        for (level, requests) in (0..).zip(others) {
            let of_level = u128::from(*requests) << 32;
            if to_shed < of_level || to_shed == 0 {
                // Less than the whole. Without requests, nothing is to be shed.
                let shed = (to_shed / u128::from(*requests).max(1)) as u32;
                return Threshold { level, shed };
            }
            to_shed -= of_level;
        }
        // The highest level is admitted in any case. A smaller share would only delay the recovery.
        if requests > 0 {
            self.share = self.share.max(part(*top, requests));
        }
        let level = others.len() as u32;
        Threshold { level, shed: 0 }
    }
}

/// `n / of`, in parts.
fn part(n: u64, of: u64) -> u64 {
    ((u128::from(n) << 32) / u128::from(of)) as u64
}

/// `n` times a share.
fn times(n: u64, share: u64) -> u64 {
    ((u128::from(n) * u128::from(share)) >> 32) as u64
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    fn judge(recent: &[u64], share_permille: u64) -> Judge {
        Judge {
            target: WHOLE / 4,
            share: WHOLE * share_permille / 1000,
            recent: recent.into(),
        }
    }

    #[test]
    fn the_least_important_part_of_the_requests_is_shed() {
        for (share_permille, level, shed_permille) in [
            (1000, 0, 0),
            (900, 0, 200),
            (500, 1, 0),
            (350, 1, 500),
            (200, 2, 0),
            (100, 2, 0),
        ] {
            let seen = judge(&[500, 300, 200], share_permille).threshold();
            assert_eq!(seen.level, level, "{share_permille}");
            let shed = u64::from(seen.shed) * 1000;
            assert!(
                shed.abs_diff(WHOLE * shed_permille) < WHOLE * 5,
                "{share_permille}: {seen:?}"
            );
        }
    }

    #[test]
    fn levels_without_requests_are_shed_only_below_one_that_is() {
        assert_eq!(judge(&[0, 0, 100], 1000).threshold(), Threshold::ALL);
        assert_eq!(judge(&[0, 100, 100], 1000).threshold(), Threshold::ALL);
        assert_eq!(judge(&[0, 100, 100], 750).threshold().level, 1);
        assert_eq!(judge(&[0, 0], 500).threshold(), Threshold::ALL);
    }

    #[test]
    fn the_share_moves_by_a_factor_and_holds_in_between() {
        let after = |excess| {
            let mut judge = judge(&[1000, 1000], 800);
            let before = judge.share;
            judge.judge(100, excess);
            (before, judge.share)
        };
        let (before, share) = after(100); // three quarters above the target
        assert_eq!(share, before - before * 3 / 16);
        let (before, share) = after(0);
        assert_eq!(share, before + before / 16);
        for excess in [19, 22, 25] {
            let (before, share) = after(excess);
            assert_eq!(share, before, "{excess}");
        }
        assert_ne!(after(18).0, after(18).1);
        assert_ne!(after(26).0, after(26).1);
    }

    #[test]
    fn the_share_stays_within_its_range_and_does_not_wind_up() {
        let mut shedding = judge(&[500, 300, 200], 1000);
        for _ in 0..100 {
            shedding.judge(100, 100);
        }
        // That of the highest level, which is admitted in any case.
        assert_eq!(shedding.share, part(200, 1000));
        for _ in 0..100 {
            shedding.judge(100, 0);
        }
        assert_eq!(shedding.share, WHOLE);
        let mut few = judge(&[1_000_000, 1], 1000);
        for _ in 0..100 {
            few.judge(u64::MAX, u64::MAX);
        }
        assert_eq!(few.share, LEAST);
    }
}
