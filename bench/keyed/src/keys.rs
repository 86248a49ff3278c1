//! The keys, and the order in which they are asked for: made before anything is timed, and the same for
//! every subject.

use serde::{Deserialize, Serialize};

use crate::random::{self, Random};
use crate::subject::Subject;

/// A key of one kind.
pub trait Key: Send + Sync + Sized + 'static {
    const KIND: Kind;

    /// Everything that is measured with such keys.
    fn subjects() -> Vec<Subject<Self>>;

    /// The `n`th key. No two `n` give the same.
    fn nth(n: u64) -> Self {
        let mut key = Self::blank();
        key.become_nth(n);
        key
    }

    fn blank() -> Self;

    /// Turns into the `n`th key where it stands: nothing is allocated.
    fn become_nth(&mut self, n: u64);

    /// Reads the key: what every subject does at least.
    fn read(&self) -> u64;
}

/// What keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    U64,
    /// 16 bytes, each in a `String` of its own.
    String,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::U64, Kind::String];

    pub fn name(self) -> &'static str {
        match self {
            Kind::U64 => "u64",
            Kind::String => "16-byte string",
        }
    }
}

impl Key for u64 {
    const KIND: Kind = Kind::U64;

    fn subjects() -> Vec<Subject<u64>> {
        crate::peers::with_u64()
    }

    fn blank() -> u64 {
        0
    }

    fn become_nth(&mut self, n: u64) {
        *self = random::nth(n);
    }

    fn read(&self) -> u64 {
        *self
    }
}

impl Key for String {
    const KIND: Kind = Kind::String;

    fn subjects() -> Vec<Subject<String>> {
        crate::peers::with_strings()
    }

    fn blank() -> String {
        String::with_capacity(16)
    }

    fn become_nth(&mut self, n: u64) {
        const DIGITS: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        ];
        let number = random::nth(n);
        self.clear();
        self.extend(
            (0..16)
                .rev()
                .map(|digit| DIGITS[(number >> (4 * digit)) as usize & 15]),
        );
    }

    fn read(&self) -> u64 {
        self.bytes().next().map_or(0, u64::from)
    }
}

/// How often each key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// All alike.
    Uniform,
    /// The k-th most frequent 1/k times as often as the most frequent (Zipf's law with s = 1).
    Zipf,
}

impl Order {
    pub const ALL: [Order; 2] = [Order::Uniform, Order::Zipf];

    pub fn name(self) -> &'static str {
        match self {
            Order::Uniform => "uniform",
            Order::Zipf => "Zipf",
        }
    }

    fn weight(self, rank: usize) -> f64 {
        match self {
            Order::Uniform => 1.0,
            Order::Zipf => 1.0 / (rank + 1) as f64,
        }
    }
}

/// Keys, and a long way through them.
pub struct Walk<K> {
    keys: Vec<K>,
    /// Places in `keys`; as many as a power of two.
    steps: Vec<u32>,
}

impl<K: Key> Walk<K> {
    /// Creates a random walk through `count` keys in 2^`log_steps` steps.
    ///
    /// Each key occurs as often as `order` requires, rounded to a whole number.
    pub fn new(count: usize, order: Order, log_steps: u32) -> Walk<K> {
        let mut random = Random::new(count as u64);
        // Neighbours in memory shall not be of the same rank.
        let mut place_of_rank: Vec<u32> = (0..count as u32).collect();
        random.shuffle(&mut place_of_rank);

        let length = 1_usize << log_steps;
        let sum: f64 = (0..count).map(|rank| order.weight(rank)).sum();
        let mut steps = Vec::with_capacity(length);
        let mut owed = 0.5;
        for (rank, &place) in place_of_rank.iter().enumerate() {
            owed += order.weight(rank) / sum * length as f64;
            while owed >= 1.0 && steps.len() < length {
                steps.push(place);
                owed -= 1.0;
            }
        }
        // Rounding may have left one over.
        steps.resize(length, place_of_rank[0]);
        random.shuffle(&mut steps);
        Walk {
            keys: (0..count as u64).map(K::nth).collect(),
            steps,
        }
    }

    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The key at a step; after the last step comes the first.
    #[inline(always)]
    pub fn key(&self, step: usize) -> &K {
        let place = self.steps[step & (self.steps.len() - 1)];
        &self.keys[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(order: Order) -> Vec<usize> {
        let walk = Walk::<u64>::new(100, order, 14);
        let mut keys: Vec<u64> = (0..1 << 14).map(|step| *walk.key(step)).collect();
        keys.sort_unstable();
        let mut counts: Vec<usize> = keys.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
        counts.sort_unstable();
        counts
    }

    #[test]
    fn keys_come_as_often_as_the_order_says() {
        let uniform = counts(Order::Uniform);
        assert_eq!(uniform.len(), 100);
        assert!(uniform.iter().all(|count| (163..=164).contains(count)));
        let zipf = counts(Order::Zipf);
        let most = (1 << 14) as f64 / (1..=100).map(|rank| 1.0 / f64::from(rank)).sum::<f64>();
        for (rank, &count) in zipf.iter().rev().enumerate() {
            assert!(
                (count as f64 - most / (rank + 1) as f64).abs() <= 1.0,
                "{rank}"
            );
        }
    }

    #[test]
    fn strings_are_16_bytes_and_stay_where_they_are() {
        let mut key = String::nth(1);
        let at = key.as_ptr();
        let first = key.clone();
        key.become_nth(2);
        assert_eq!((first.len(), key.len()), (16, 16));
        assert_ne!(first, key);
        assert_eq!(key.as_ptr(), at);
        assert_eq!(first, format!("{:016x}", random::nth(1)));
    }
}
