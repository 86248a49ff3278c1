//! A level that halves in each period.

use super::{Broken, TimedGrant};

/// Relative error of floating point: the check does not detect less.
const BLIND: f64 = 1e-9;

/// Relative distance from the limit that an integer limiter may keep.
const KEPT_BACK: f64 = 1e-6;

/// Checks that the level after each grant is at most `limit`. `grants` are in order.
pub(super) fn check(limit: u128, half_life_ns: u64, grants: &[TimedGrant]) -> Result<(), Broken> {
    let most = most(limit);
    for (grant, level) in grants.iter().zip(levels(half_life_ns, grants)) {
        if level > most {
            return Err(Broken {
                from_ns: grant.at_ns,
                to_ns: grant.at_ns,
                admitted: level.ceil() as u128,
                allowed: limit,
            });
        }
    }
    Ok(())
}

/// Returns the maximum accepted level.
pub(super) fn most(limit: u128) -> f64 {
    limit as f64 * (1.0 + BLIND)
}

/// Returns whether the level after the last grant is clearly within `limit`. `grants` are in order.
pub(super) fn has_room(limit: u128, half_life_ns: u64, grants: &[TimedGrant]) -> bool {
    let most = limit as f64 * (1.0 - KEPT_BACK);
    let last = levels(half_life_ns, grants).last();
    last.is_none_or(|level| level <= most)
}

/// Returns the level after each grant.
fn levels(half_life_ns: u64, grants: &[TimedGrant]) -> impl Iterator<Item = f64> {
    let (mut level, mut last_ns) = (0.0_f64, 0);
    grants.iter().map(move |grant| {
        level *= (-((grant.at_ns - last_ns) as f64) / half_life_ns as f64).exp2();
        level += grant.n as f64;
        last_ns = grant.at_ns;
        level
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_a_level_halves() {
        let at = TimedGrant::new;
        assert_eq!(check(8, 10, &[at(0, 8), at(10, 4), at(30, 6)]), Ok(()));
        assert!(check(8, 10, &[at(0, 8), at(10, 4), at(29, 6)]).is_err());
        assert!(has_room(8, 10, &[at(0, 8), at(10, 3)]));
        assert!(!has_room(8, 10, &[at(0, 8), at(10, 4)]));
    }
}
