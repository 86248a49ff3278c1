//! Random numbers: a stream for each entity, so that a change of the policy does not move the workload.

use fastrand::Rng;

/// The stream of one entity, or of one draw.
#[derive(Clone, Debug)]
pub(crate) struct Random(Rng);

/// What draws random numbers. Each has streams of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entity {
    /// The keys of a traffic source.
    Keys = 2,
    /// How much work a request is.
    Work = 3,
    /// The jitter of retries, and the think time of users.
    Clients = 4,
}

impl Random {
    /// The stream of `entity` number `index`.
    pub(crate) fn new(seed: u64, entity: Entity, index: u64) -> Self {
        Self::of(seed, entity, index, 0)
    }

    /// The draws for one thing that `entity` number `index` does. They do not depend on the order in which things happen.
    pub(crate) fn of(seed: u64, entity: Entity, index: u64, thing: u64) -> Self {
        let mixed = [entity as u64, index, thing]
            .into_iter()
            .fold(seed, |hash, part| mix(hash ^ mix(part)));
        Self(Rng::with_seed(mixed))
    }

    /// More than 0, and at most 1.
    pub(crate) fn share(&mut self) -> f64 {
        1.0 - self.0.f64()
    }

    /// Less than `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// With the mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(self.share())
    }

    /// With the mean 0 and the standard deviation 1, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * core::f64::consts::PI * self.share())
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*, 2014).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance(draw: impl FnMut() -> f64) -> (f64, f64) {
        let draws: Vec<f64> = std::iter::repeat_with(draw).take(200_000).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let squares = draws.iter().map(|draw| (draw - mean) * (draw - mean));
        (mean, squares.sum::<f64>() / draws.len() as f64)
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut random = Random::new(1, Entity::Work, 0);
        let close = |(mean, variance): (f64, f64), expected: (f64, f64)| {
            (mean - expected.0).abs() < 0.01 && (variance - expected.1).abs() < 0.02
        };
        assert!(close(
            mean_and_variance(|| random.share()),
            (0.5, 1.0 / 12.0)
        ));
        assert!(close(
            mean_and_variance(|| random.exponential()),
            (1.0, 1.0)
        ));
        assert!(close(mean_and_variance(|| random.normal()), (0.0, 1.0)));
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draws = |seed, entity, index, thing| {
            let mut random = Random::of(seed, entity, index, thing);
            [random.below(1 << 60), random.below(1 << 60)]
        };
        let one = draws(1, Entity::Work, 2, 3);
        assert_eq!(one, draws(1, Entity::Work, 2, 3));
        for other in [
            draws(2, Entity::Work, 2, 3),
            draws(1, Entity::Keys, 2, 3),
            draws(1, Entity::Work, 3, 3),
            draws(1, Entity::Work, 2, 4),
            draws(1, Entity::Work, 3, 2),
        ] {
            assert_ne!(one, other);
        }
    }
}
