//! The balance of a budget: pure steps, in exact integers.
//!
//! A retry is 10⁹ parts. So a rate of *r* per second is *r* parts per nanosecond, a deposit of *s* per mille is *s* · 10⁶ parts,
//! and nothing is ever rounded.

pub(super) const MAX_SHARE_PERMILLE: u64 = 1000;
pub(super) const MAX_PER_SECOND: u64 = 1_000_000;
/// 10¹⁸ parts fit into 64 bits.
pub(super) const MAX_CAPACITY: u64 = 1_000_000_000;

/// The parts of a retry.
pub(super) const RETRY: u64 = 1_000_000_000;
const PARTS_PER_MILLE: u64 = RETRY / 1000;

/// The balance at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    pub(super) at_ns: u64,
    pub(super) parts: u64,
}

/// The settings, as they are now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) share_permille: u64,
    pub(super) min_per_second: u64,
    pub(super) capacity: u64,
}

impl Balance {
    pub(super) const fn pack(self) -> u128 {
        (self.at_ns as u128) << 64 | self.parts as u128
    }

    pub(super) const fn unpack(word: u128) -> Self {
        Self {
            at_ns: (word >> 64) as u64,
            parts: word as u64,
        }
    }

    /// Returns the balance at `now_ns`. Time does not go back.
    pub(super) fn at(self, now_ns: u64, terms: Terms) -> Self {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        let added = elapsed_ns.saturating_mul(terms.min_per_second);
        Self {
            at_ns: self.at_ns.max(now_ns),
            parts: terms.bounded(self.parts.saturating_add(added)),
        }
    }

    /// Returns the balance after a deposit.
    pub(super) fn after_deposit(self, terms: Terms) -> Self {
        let added = terms.share_permille * PARTS_PER_MILLE;
        Self {
            parts: terms.bounded(self.parts + added),
            ..self
        }
    }

    /// Returns the balance after a retry.
    ///
    /// # Errors
    ///
    /// The time in nanoseconds after which there is enough for a retry. `None` if only a deposit changes that.
    pub(super) fn after_retry(self, terms: Terms) -> Result<Self, Option<u64>> {
        match self.parts.checked_sub(RETRY) {
            Some(parts) => Ok(Self { parts, ..self }),
            None => match terms.min_per_second {
                0 => Err(None),
                per_second => Err(Some((RETRY - self.parts).div_ceil(per_second))),
            },
        }
    }
}

impl Terms {
    fn bounded(&self, parts: u64) -> u64 {
        parts.min(self.capacity * RETRY)
    }
}
