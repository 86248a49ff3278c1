//! Whose requests there are.

use std::fmt;
use std::str::FromStr;

use crate::error::TextError;
use crate::random::Random;
use crate::text::{number, serde_by_text};

/// The most keys of a source.
const MAX_KEYS: u64 = 100_000_000;

/// A distribution of keys.
///
/// | text | keys |
/// |---|---|
/// | `one` | the same key for all requests |
/// | `uniform 1000` | 1,000 keys with as many requests each |
/// | `zipf 1000 1.1` | 1,000 keys of Zipf's law with this exponent |
///
/// ```
/// use flowgate_sim::Keys;
///
/// let keys = Keys::zipf(1_000, 1.1); // the first key has by far the most requests
/// assert_eq!(keys.count(), 1_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keys {
    kind: Kind,
    /// The number of the first key.
    first: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Uniform(u64),
    Zipf(Zipf),
}

impl Keys {
    /// Creates one key for all requests.
    pub fn one() -> Self {
        Self::uniform(1)
    }

    /// Creates `count` keys with as many requests each.
    pub fn uniform(count: u64) -> Self {
        Self {
            kind: Kind::Uniform(count.max(1)),
            first: 0,
        }
    }

    /// Creates keys of Zipf's law: few keys have most requests.
    ///
    /// Key number k, counted from 1, has requests in proportion to `k` to the power of −`exponent`.
    pub fn zipf(count: u64, exponent: f64) -> Self {
        Self {
            kind: Kind::Zipf(Zipf::new(count.max(1), exponent)),
            first: 0,
        }
    }

    /// Returns the number of keys.
    pub fn count(&self) -> u64 {
        match self.kind {
            Kind::Uniform(count) => count,
            Kind::Zipf(zipf) => zipf.count,
        }
    }

    /// Sets the number of the first key (default: 0). Sources with other numbers have other clients.
    pub fn starting_at(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// The number after the last key.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.count())
    }

    /// The number of the first key.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Whether all requests have the same key.
    pub(crate) fn is_one(&self) -> bool {
        self.count() == 1
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        self.first
            + match self.kind {
                Kind::Uniform(1) => 0,
                Kind::Uniform(count) => random.below(count),
                Kind::Zipf(zipf) => zipf.draw(random),
            }
    }
}

/// One key for all requests.
impl Default for Keys {
    fn default() -> Self {
        Self::one()
    }
}

impl FromStr for Keys {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let count = |count: &str| match count.parse() {
            Ok(count) if (1..=MAX_KEYS).contains(&count) => Ok(count),
            _ => Err(TextError::new(
                text,
                format!("the number of keys is from 1 to {MAX_KEYS}"),
            )),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["one"] => Ok(Self::one()),
            ["uniform", keys] => Ok(Self::uniform(count(keys)?)),
            ["zipf", keys, exponent] => Ok(Self::zipf(count(keys)?, number(exponent, 0.0..=10.0)?)),
            _ => Err(TextError::new(
                text,
                "not keys; write 'one', 'uniform 1000' or 'zipf 1000 1.1'",
            )),
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Uniform(1) => f.write_str("one"),
            Kind::Uniform(count) => write!(f, "uniform {count}"),
            Kind::Zipf(zipf) => write!(f, "zipf {} {}", zipf.count, zipf.exponent),
        }
    }
}

serde_by_text!(Keys);

/// Rejection-inversion: no table, and a little over one draw on average.
///
/// Source: W. Hörmann, G. Derflinger, *Rejection-inversion to generate variates from monotone discrete distributions*, 1996.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Zipf {
    count: u64,
    exponent: f64,
    /// The integral of the density from 1/2 to 3/2, less that of the first key; and to the last.
    low: f64,
    high: f64,
    /// Draws this close to a key need no test.
    close: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            count,
            exponent: exponent.max(0.0),
            low: 0.0,
            high: 0.0,
            close: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.close = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.low + random.share() * (self.high - self.low);
            let x = self.inverse(area);
            let key = libm::round(x).clamp(1.0, self.count as f64);
            if key - x <= self.close || area >= self.integral(key + 0.5) - self.density(key) {
                return key as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::pow(x, -self.exponent)
    }

    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let power = (1.0 - self.exponent) * log;
        match power.abs() < 1e-8 {
            true => log * (1.0 + power / 2.0),
            false => libm::expm1(power) / (1.0 - self.exponent),
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = area * (1.0 - self.exponent);
        match scaled.abs() < 1e-8 {
            true => libm::exp(area * (1.0 - scaled / 2.0)),
            false => libm::exp(libm::log1p(scaled.max(-1.0)) / (1.0 - self.exponent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Entity;

    #[test]
    fn keys_are_as_frequent_as_the_law_asks() {
        for (count, exponent) in [
            (10_u64, 1.1),
            (10, 1.0),
            (10, 0.5),
            (10, 0.0),
            (3, 2.5),
            (1, 1.0),
        ] {
            let keys = Keys::zipf(count, exponent);
            let mut random = Random::new(1, Entity::Keys, 0);
            let mut counts = vec![0_u32; count as usize];
            let draws = 200_000;
            for _ in 0..draws {
                counts[keys.draw(&mut random) as usize] += 1;
            }
            let weight = |key: u64| (key as f64).powf(-exponent);
            let sum: f64 = (1..=count).map(weight).sum();
            for (key, drawn) in (1..=count).zip(counts) {
                let expected = weight(key) / sum;
                let error = f64::from(drawn) / f64::from(draws) - expected;
                assert!(
                    error.abs() < 0.005,
                    "{count} {exponent}: key {key}: {error}"
                );
            }
        }
    }
}
