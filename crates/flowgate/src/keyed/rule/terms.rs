use super::super::entry::{MOST_STATE, Reading};

/// What a quota comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What a unit costs, in ticks. In a window, where it is counted, it tells how windows are [aligned](super::aligned).
    pub(crate) unit: u128,
    /// The most units at once, or in a window.
    pub(crate) most: u64,
    /// How many units a token is.
    pub(crate) scale: u64,
    /// What a full bucket takes to fill; the length of a window.
    pub(crate) span: u128,
    /// How many of the low bits of a state count, in a window.
    pub(crate) count_bits: u32,
    /// How a state in these terms is marked.
    pub(crate) reading: Reading,
}

/// A change of the table's terms, at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub(crate) from: Terms,
    pub(crate) to: Terms,
    pub(crate) at: u128,
}

/// Half of what a state can hold: the other half is for any instant up to `u64::MAX` ns.
pub(super) const MOST_SPAN: u128 = MOST_STATE / 2;

impl Terms {
    /// Ticks that `n` units cost, `n` being at most `most`.
    pub(crate) const fn cost(&self, n: u64) -> u128 {
        n as u128 * self.unit
    }
}

impl Change {
    /// The smaller limit and the longer window of both: for a state in the terms after, at an instant before.
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

    /// A state in the terms before, in those after. Nobody has decided later than `newest`, but perhaps later than the change, by
    /// the terms before: so neither instant is to give more than the other.
    pub(crate) fn restated<R: super::Rule>(&self, state: u128, newest: u128) -> u128 {
        let restated = |at| R::restate(state, &self.from, &self.to, at);
        R::later(restated(self.at), restated(newest.max(self.at)), &self.to)
    }
}

/// `a · b / c`, rounded up, or, where that takes more than 128 bits, something larger; at most [`MOST_STATE`]. `c` is not 0.
pub(super) fn scaled(a: u128, b: u128, c: u128) -> u128 {
    let (whole, part) = (a / c, a % c);
    let part = match part.checked_mul(b) {
        Some(product) => product.div_ceil(c),
        None => b,
    };
    let all = whole.checked_mul(b).and_then(|all| all.checked_add(part));
    all.unwrap_or(MOST_STATE).min(MOST_STATE)
}

/// `a · b / c`, rounded down, or, where that takes more than 128 bits, something smaller. `c` is not 0.
pub(super) fn scaled_down(a: u128, b: u128, c: u128) -> u128 {
    let part = (a % c).checked_mul(b).map_or(0, |product| product / c);
    (a / c).saturating_mul(b).saturating_add(part)
}

#[cfg(all(test, not(flowgate_loom)))]
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
