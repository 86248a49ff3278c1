//! Numbers that look random and are the same in every run.

/// SplitMix64 (Steele, Lea, Flood 2014): the `n`th number of its sequence. No two `n` give the same.
pub fn nth(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The sequence, number after number.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(nth(seed))
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        // The upper half of a product: even to 2^-32 for the bounds here.
        ((u128::from(nth(self.0)) * bound as u128) >> 64) as usize
    }

    /// Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_every_item_and_moves_most() {
        let mut items: Vec<usize> = (0..1_000).collect();
        Random::new(7).shuffle(&mut items);
        let at_home = items.iter().enumerate().filter(|(at, item)| at == *item);
        assert!(at_home.count() < 20);
        items.sort_unstable();
        assert!(items.into_iter().eq(0..1_000));
    }
}
