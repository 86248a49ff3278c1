//! The bucket with an outflow that grows with its level.
//!
//! Source: Torricelli's bucket, made proportional: d level / d t = −level · ln 2 / half-life, the decay of radioactive matter
//! and of a charged capacitor. As a counter: G. Cormode and others, *Forward Decay*, ICDE 2009.
//!
//! The state is the level and the time for which it holds, which is the time of the last admission. An older `now` counts as
//! that time. The level is in ticks, with 2^`unit_shift` ticks to a unit. It is always rounded up, by less than 1.1 ticks with
//! each admission.
//!
//! These roundings do not add up without end, because they decay like the rest. Each admission adds at least one unit. So all
//! roundings together are never more than 1.1 ticks for each unit in the level.
//! that the level is made of.

use super::half_life::{HalfLife, LEVEL_END};

/// The finest tick: 2⁻³² of a unit.
const MAX_UNIT_SHIFT: u32 = 32;

/// The current capacity and half-life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) capacity_ticks: u64,
    /// The number of ticks in a unit, as a power of two.
    pub(crate) unit_shift: u32,
    pub(crate) half_life: HalfLife,
}

/// A level in ticks, below [`LEVEL_END`], and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) time_ns: u64,
    pub(crate) level: u64,
}

/// What a refusal keeps instead of its wait: a level, and the level to which it has to decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    /// In ticks, below [`LEVEL_END`].
    pub(crate) level: u64,
    /// In the same ticks, below `level`.
    pub(crate) target: u64,
    pub(crate) half_life_ns: u64,
    /// How long the level has decayed.
    pub(crate) passed_ns: u64,
}

impl Overflow {
    /// How long it still has to decay.
    pub(crate) fn wait_ns(self) -> u128 {
        let half_life = HalfLife::new(self.half_life_ns);
        let least_ns = half_life.least_ns(self.level, self.target);
        least_ns.saturating_sub(self.passed_ns.into())
    }
}

impl Bucket {
    /// A bucket of `capacity` units that also has room for a level of `level_units`; both are below 2³³, and the
    /// capacity is not 0.
    pub(crate) const fn new(capacity: u64, half_life: HalfLife, level_units: u64) -> Self {
        let most = if capacity > level_units {
            capacity
        } else {
            level_units
        };
        // `most` shifted by this many bits stays below `LEVEL_END`.
        let fitting = most.leading_zeros() - LEVEL_END.leading_zeros() - 1;
        let unit_shift = if fitting < MAX_UNIT_SHIFT {
            fitting
        } else {
            MAX_UNIT_SHIFT
        };
        Self {
            capacity_ticks: capacity << unit_shift,
            unit_shift,
            half_life,
        }
    }

    /// The largest level in ticks of `other` that comes to at most `level` in the ticks of this one.
    pub(crate) fn in_ticks_below(&self, level: u64, other: &Self) -> u64 {
        match self.unit_shift.checked_sub(other.unit_shift) {
            Some(finer) => level >> finer,
            None => level << (other.unit_shift - self.unit_shift),
        }
    }

    /// The capacity in units.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity_ticks >> self.unit_shift
    }
}

impl State {
    /// The state at `now_ns`.
    #[inline(always)]
    pub(crate) fn at(self, now_ns: u64, bucket: &Bucket) -> Self {
        let time_ns = now_ns.max(self.time_ns);
        Self {
            time_ns,
            level: bucket.half_life.left(self.level, time_ns - self.time_ns),
        }
    }

    /// Pours in `n ≤ capacity` units if they fit; none if they do not.
    #[inline(always)]
    pub(crate) fn take(self, now_ns: u64, n: u64, bucket: &Bucket) -> Option<Self> {
        let poured = n << bucket.unit_shift;
        // Most refusals are certain before it is known what exactly is left.
        if self.level + poured > bucket.capacity_ticks {
            let elapsed_ns = now_ns.saturating_sub(self.time_ns);
            let least = bucket.half_life.at_least_left(self.level, elapsed_ns);
            if least + poured > bucket.capacity_ticks {
                return None;
            }
        }
        let state = self.at(now_ns, bucket);
        let level = state.level + poured;
        (level <= bucket.capacity_ticks).then_some(Self { level, ..state })
    }

    /// Returns why `n ≤ capacity` units do not fit at `now_ns`, which is not before the last admission.
    #[inline(always)]
    pub(crate) fn overflow(self, now_ns: u64, n: u64, bucket: &Bucket) -> Overflow {
        Overflow {
            level: self.level,
            target: bucket.capacity_ticks - (n << bucket.unit_shift),
            half_life_ns: bucket.half_life.ns,
            passed_ns: now_ns - self.time_ns,
        }
    }

    /// How long after `now_ns` there is room for `n ≤ capacity` units.
    pub(crate) fn wait_ns(self, now_ns: u64, n: u64, bucket: &Bucket) -> u128 {
        let target = bucket.capacity_ticks - (n << bucket.unit_shift);
        match bucket.half_life.least_ns(self.level, target) {
            // Also with an older clock reading.
            0 => 0,
            least_ns => (u128::from(self.time_ns) + least_ns).saturating_sub(u128::from(now_ns)),
        }
    }

    /// The whole units for which there is room.
    pub(crate) fn room(self, bucket: &Bucket) -> u64 {
        bucket.capacity_ticks.saturating_sub(self.level) >> bucket.unit_shift
    }

    /// Takes out, at `now_ns`, the rest of `n` units that were poured in at `taken_ns`. Also returns how many units that rest
    /// belongs to.
    pub(crate) fn give_back(
        self,
        now_ns: u64,
        n: u64,
        taken_ns: u64,
        bucket: &Bucket,
    ) -> (Self, u64) {
        // Nothing was poured in later than the last admission.
        let taken_ns = taken_ns.min(self.time_ns);
        let state = self.at(now_ns, bucket);
        let n = n.min((LEVEL_END - 1) >> bucket.unit_shift);
        let age_ns = state.time_ns - taken_ns;
        let share = bucket
            .half_life
            .at_most_left(n << bucket.unit_shift, age_ns);
        if share == 0 {
            return (self, 0);
        }
        let given = share.min(state.level);
        let units = u128::from(n) * u128::from(given) / u128::from(share);
        let level = state.level - given;
        (Self { level, ..state }, units as u64)
    }

    /// The state in ticks of `new`.
    pub(crate) fn in_ticks_of(self, new: &Bucket, old: &Bucket) -> Self {
        let level = match new.unit_shift.checked_sub(old.unit_shift) {
            Some(finer) => self.level << finer,
            None => self.level.div_ceil(1 << (old.unit_shift - new.unit_shift)),
        };
        Self { level, ..self }
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    fn bucket(capacity: u64) -> Bucket {
        Bucket::new(capacity, HalfLife::new(1_000), 0)
    }

    #[test]
    fn c5_whatever_is_asked_for_back_no_more_comes_than_was_taken() {
        for capacity in [1, 1_000, 1 << 32] {
            let bucket = bucket(capacity);
            let empty = State {
                time_ns: 5,
                level: 0,
            };
            let full = empty.take(5, capacity, &bucket).expect("it is empty");
            for most in [LEVEL_END >> bucket.unit_shift, 1 << 63, u64::MAX] {
                let (state, _) = full.give_back(5, most, 5, &bucket);
                assert_eq!(state, empty, "{most} of {capacity}");
            }
            assert_eq!(full.give_back(5, capacity, 5, &bucket), (empty, capacity));
        }
    }

    #[test]
    fn c1_a_level_stays_what_it_is_in_other_ticks_but_for_being_rounded_up() {
        let (coarse, fine) = (bucket(1 << 32), bucket(1));
        let finer = fine.unit_shift - coarse.unit_shift;
        assert!(finer > 1);
        let state = |level| State { time_ns: 5, level };
        let units = state(7 << coarse.unit_shift);
        assert_eq!(
            units.in_ticks_of(&fine, &coarse),
            state(7 << fine.unit_shift)
        );
        assert_eq!(
            units
                .in_ticks_of(&fine, &coarse)
                .in_ticks_of(&coarse, &fine),
            units
        );
        assert_eq!(
            state((3 << finer) + 1).in_ticks_of(&coarse, &fine),
            state(4)
        );
        assert_eq!(units.in_ticks_of(&coarse, &coarse), units);
    }
}
