use super::super::entry::{MOST_STATE, Reading};

/// The integers with which a rule computes for a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The cost of a unit, in ticks. A window has no such cost, and stores its [alignment](super::aligned) here.
    pub(crate) unit: u128,
    /// The largest number of units in one burst, or in a window.
    pub(crate) most: u64,
    /// The number of units in a token.
    pub(crate) scale: u64,
    /// The time that an empty bucket takes to fill, or the length of a window.
    pub(crate) span: u128,
    /// The number of low bits of a state that are the count of a window.
    pub(crate) count_bits: u32,
    /// The mark of a state in these terms.
    pub(crate) reading: Reading,
}

/// A change of the table's terms, at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub(crate) from: Terms,
    pub(crate) to: Terms,
    pub(crate) at: u128,
}

/// Half of what a state can hold. The other half is for any instant up to `u64::MAX` ns.
pub(super) const MOST_SPAN: u128 = MOST_STATE / 2;

impl Terms {
    /// Returns the ticks that `n` units cost. `n` is at most `most`.
    pub(crate) const fn cost(&self, n: u64) -> u128 {
        n as u128 * self.unit
    }
}

impl Change {
    /// Returns the smaller limit and the longer window of both, for a state in the terms after the change, at an instant before it.
    pub(super) fn stricter(&self) -> Terms {
        Terms {
            most: self.most(),
            span: self.from.span.max(self.to.span),
            ..self.to
        }
    }

    pub(super) fn most(&self) -> u64 {
        self.from.most.min(self.to.most)
    }

    /// Returns a state of the terms before in the terms after. No decision was later than `newest`, but one may have been later
    /// than the change, by the terms before. The result therefore gives no more than either instant does.
    pub(crate) fn restated<R: super::Rule>(&self, state: u128, newest: u128) -> u128 {
        let restated = |at| R::restate(state, &self.from, &self.to, at);
        R::later(restated(self.at), restated(newest.max(self.at)), &self.to)
    }
}

/// Returns `a · b / c`, rounded up, at most [`MOST_STATE`]. If it takes more than 128 bits, the result is larger. `c` is not 0.
pub(super) fn scaled(a: u128, b: u128, c: u128) -> u128 {
    let (whole, part) = (a / c, a % c);
    let part = match part.checked_mul(b) {
        Some(product) => product.div_ceil(c),
        None => b,
    };
    let all = whole.checked_mul(b).and_then(|all| all.checked_add(part));
    all.unwrap_or(MOST_STATE).min(MOST_STATE)
}

/// Returns `a · b / c`, rounded down. If it takes more than 128 bits, the result is smaller. `c` is not 0.
pub(super) fn scaled_down(a: u128, b: u128, c: u128) -> u128 {
    let part = (a % c).checked_mul(b).map_or(0, |product| product / c);
    (a / c).saturating_mul(b).saturating_add(part)
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn scaling_rounds_up_and_saturates() {
        assert_eq!(scaled(0, 7, 3), 0);
        assert_eq!(scaled(10, 7, 3), 24);
        assert_eq!(scaled(9, 7, 3), 21);
        assert_eq!(scaled(u128::MAX, 1, 1), MOST_STATE);
        assert_eq!(scaled(MOST_STATE, MOST_STATE, 1), MOST_STATE);
        // Too large to be exact: the part counts as a whole.
        assert_eq!(scaled((1 << 70) - 1, 1 << 70, 1 << 70), 1 << 70);
    }
}
