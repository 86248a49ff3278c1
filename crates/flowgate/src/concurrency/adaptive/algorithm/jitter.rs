//! Seeded random numbers, so that the measurements of several limiters do not coincide.

/// Xorshift (Marsaglia, *Xorshift RNGs*, 2003).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// Returns a number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}
