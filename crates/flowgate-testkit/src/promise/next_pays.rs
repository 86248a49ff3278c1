//! The next grant waits until the cost of the previous one has flowed in.

use super::{Broken, TimedGrant};
use crate::rate::Rate;

/// In every interval, all grants but the last cost no more time than there is. `grants` are in
/// order.
///
/// The price is that of the stable rate. A warm-up limiter demands more while it is cold, so this is its minimum.
pub(super) fn check(rate: &Rate, grants: &[TimedGrant]) -> Result<(), Broken> {
    let (mut owed, mut from_ns, mut admitted, mut last_ns) = (0_i128, 0, 0_u128, 0_u64);
    for grant in grants {
        owed -= rate.accrual * i128::from(grant.at_ns - last_ns);
        // A time that was rounded up counts from less than a nanosecond earlier.
        let earlier = if grant.rounded { rate.accrual - 1 } else { 0 };
        if owed > 0 {
            let span = rate.accrual * i128::from(grant.at_ns - from_ns);
            return Err(Broken {
                from_ns,
                to_ns: grant.at_ns,
                admitted,
                allowed: u128::try_from(span / rate.price).unwrap_or(0),
            });
        }
        if owed <= -earlier {
            (owed, from_ns, admitted) = (-earlier, grant.at_ns, 0);
        }
        owed += rate.cost(grant.n);
        admitted += u128::from(grant.n);
        last_ns = grant.at_ns;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate::Quota;

    #[test]
    fn c1_the_next_one_pays() {
        let rate = Rate::of(Quota::per_second(1_000_000_000));
        let at = TimedGrant::new;
        assert_eq!(check(&rate, &[at(0, 9), at(9, 1), at(10, 5)]), Ok(()));
        assert!(check(&rate, &[at(0, 9), at(8, 1)]).is_err());
    }
}
