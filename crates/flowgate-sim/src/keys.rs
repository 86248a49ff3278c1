//! Whose requests there are.

use crate::random::Random;

/// A distribution of keys.
///
/// ```
/// use flowgate_sim::Keys;
///
/// let keys = Keys::zipf(1_000, 1.1); // the first key has by far the most requests
/// assert_eq!(keys.count(), 1_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keys(Kind);

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
        Self(Kind::Uniform(count.max(1)))
    }

    /// Creates keys of Zipf's law: few keys have most requests.
    ///
    /// Key number k, counted from 1, has requests in proportion to `k` to the power of −`exponent`.
    pub fn zipf(count: u64, exponent: f64) -> Self {
        Self(Kind::Zipf(Zipf::new(count.max(1), exponent)))
    }

    /// Returns the number of keys.
    pub fn count(&self) -> u64 {
        match self.0 {
            Kind::Uniform(count) => count,
            Kind::Zipf(zipf) => zipf.count,
        }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        match self.0 {
            Kind::Uniform(1) => 0,
            Kind::Uniform(count) => random.below(count),
            Kind::Zipf(zipf) => zipf.draw(random),
        }
    }
}

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
