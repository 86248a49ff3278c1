//! Windows: a chain of them, or every one.

use super::{Anchor, Broken, TimedGrant};

/// Checks for at most `most` in every half-open window. `grants` are in order.
pub(super) fn every(most: u128, window_ns: u64, grants: &[TimedGrant]) -> Result<(), Broken> {
    let (mut first, mut admitted) = (0, 0_u128);
    let mut worst: Option<Broken> = None;
    for grant in grants {
        admitted += u128::from(grant.n);
        while grant.at_ns - grants[first].at_ns >= window_ns {
            admitted -= u128::from(grants[first].n);
            first += 1;
        }
        if admitted > worst.as_ref().map_or(most, |broken| broken.admitted) {
            worst = Some(Broken {
                from_ns: grants[first].at_ns,
                to_ns: grant.at_ns,
                admitted,
                allowed: most,
            });
        }
    }
    worst.map_or(Ok(()), Err)
}

/// Checks for at most `limit` in each window of the chain that `anchor` begins. `grants` are in order.
pub(super) fn chain(
    limit: u128,
    window_ns: u64,
    anchor: Anchor,
    grants: &[TimedGrant],
) -> Result<(), Broken> {
    let (mut first, mut admitted) = (0, 0_u128);
    let mut worst: Option<Broken> = None;
    for (index, grant) in grants.iter().enumerate() {
        let from_ns = grants[first].at_ns;
        let over = match anchor {
            Anchor::FirstGrant => grant.at_ns - from_ns >= window_ns,
            Anchor::Aligned(at_ns) => {
                let window = |ns| (i128::from(ns) - i128::from(at_ns)).div_euclid(window_ns.into());
                window(grant.at_ns) != window(from_ns)
            }
        };
        if over {
            (first, admitted) = (index, 0);
        }
        admitted += u128::from(grant.n);
        if admitted > worst.as_ref().map_or(limit, |broken| broken.admitted) {
            worst = Some(Broken {
                from_ns: grants[first].at_ns,
                to_ns: grant.at_ns,
                admitted,
                allowed: limit,
            });
        }
    }
    worst.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ns: u64, n: u64) -> TimedGrant {
        TimedGrant::new(at_ns, n)
    }

    #[test]
    fn c1_every_window_is_half_open() {
        assert_eq!(every(5, 10, &[at(0, 5), at(10, 5)]), Ok(()));
        let broken = every(5, 10, &[at(0, 1), at(1, 4), at(10, 2)]);
        let broken = broken.map_err(|broken| (broken.from_ns, broken.to_ns, broken.admitted));
        assert_eq!(broken, Err((1, 10, 6)));
    }

    #[test]
    fn c1_a_chain_begins_where_its_anchor_says() {
        let grants = [at(5, 1), at(14, 4), at(15, 5)];
        assert_eq!(chain(5, 10, Anchor::FirstGrant, &grants), Ok(()));
        let aligned = chain(5, 10, Anchor::Aligned(0), &grants);
        assert_eq!(aligned.map_err(|broken| broken.admitted), Err(9));
        assert_eq!(chain(5, 10, Anchor::Aligned(5), &grants), Ok(()));
        assert_eq!(chain(5, 10, Anchor::Aligned(25), &grants), Ok(()));
    }

    /// The bound of a fixed window in the table.
    #[test]
    fn c1_a_chain_that_is_kept_has_at_most_twice_its_limit_less_one_in_a_window() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut grants: Vec<_> = (0..rng.usize(1..12))
                .map(|_| at(rng.u64(0..40), rng.u64(1..4)))
                .collect();
            grants.sort_by_key(|grant| grant.at_ns);
            if chain(4, 10, Anchor::FirstGrant, &grants).is_ok() {
                assert_eq!(every(7, 10, &grants), Ok(()), "{grants:?}");
            }
        }
    }
}
