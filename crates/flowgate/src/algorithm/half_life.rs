//! Exponential decay in integers: the same on every machine, rounded up, and never rising with time.
//!
//! After a time `t`, level · 2^(−t / half-life) is left of a level. The exponent is split into whole half-lives, which are
//! shifts, and a fraction of one. The fraction is kept in 52 bits and rounded down, which decays too little. Three tables of 64
//! give its first 18 bits. The rest is so small that three terms of the series are enough:
//!
//! ```text
//!  fraction   51 ···· 46 45 ···· 40 39 ···· 34 33 ······················· 0
//!              COARSE     MIDDLE     FINE       1 − x + x²/2, x = ln 2 · rest
//! ```
//!
//! The tables are products of √½, √√½, √√√½ and so on. Everything is rounded up, by less than 2⁻⁵⁶ of itself in total, while a
//! step of the fraction is ln 2 · 2⁻⁵². So the power never rises from one step to the next, and a search for the least time is
//! exact.

/// 1 as a power: these have 63 bits behind the point.
const ONE: u64 = 1 << 63;
const FRACTION_BITS: u32 = 52;
const FRACTION_END: u64 = 1 << FRACTION_BITS;
/// Bits of the fraction that the tables do not take.
const REST_BITS: u32 = FRACTION_BITS - 18;
/// ln 2 with 64 bits behind the point, rounded down.
const LN_2: u64 = 0xB172_17F7_D1CF_79AB;
/// 2⁵² / ln 2, rounded down: how far the fraction has to go for the power to fall by its own size.
pub(crate) const PER_LN_2: u64 = 6_497_320_848_556_798;

/// Levels are below this.
pub(crate) const LEVEL_END: u64 = 1 << 48;

static COARSE: [u64; 64] = table(0);
static MIDDLE: [u64; 64] = table(6);
static FINE: [u64; 64] = table(12);

/// A half-life, with what makes a division by it a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfLife {
    /// Not 0.
    pub(crate) ns: u64,
    /// (2¹²⁷ − 1) / (`ns`, shifted left as far as it goes), rounded down.
    pub(crate) reciprocal: u64,
}

impl HalfLife {
    pub(crate) const fn new(ns: u64) -> Self {
        let normal = (ns << ns.leading_zeros()) as u128;
        Self {
            ns,
            reciprocal: (i128::MAX as u128 / normal) as u64,
        }
    }

    /// The rest of `level` after `elapsed_ns`, rounded up; 0 if it is less than 1.
    #[inline(always)]
    pub(crate) fn left(self, level: u64, elapsed_ns: u64) -> u64 {
        if elapsed_ns < self.ns {
            return reduced(level, 0, power(self.fraction(elapsed_ns)));
        }
        self.left_of_halved(level, elapsed_ns)
    }

    /// After at least one half-life: with a division.
    #[cold]
    fn left_of_halved(self, level: u64, elapsed_ns: u64) -> u64 {
        let (halvings, rest_ns) = (elapsed_ns / self.ns, elapsed_ns % self.ns);
        reduced(level, halvings, power(self.fraction(rest_ns)))
    }

    /// A lower bound of what [`left`](Self::left) returns, by the line 1 − x below the curve 2^−x. It takes two multiplications.
    #[inline(always)]
    pub(crate) fn at_least_left(self, level: u64, elapsed_ns: u64) -> u64 {
        if elapsed_ns >= self.ns {
            return 0;
        }
        // The fraction is rounded down.
        let product = u128::from(level) * u128::from(self.fraction(elapsed_ns) + 1);
        level.saturating_sub((product >> FRACTION_BITS) as u64 + 1)
    }

    /// An upper bound of the rest of `level` after `elapsed_ns`.
    pub(crate) fn at_most_left(self, level: u64, elapsed_ns: u64) -> u64 {
        if elapsed_ns.is_multiple_of(self.ns) {
            let halvings = elapsed_ns / self.ns;
            return if halvings < 48 { level >> halvings } else { 0 };
        }
        // Rounded up twice: to 1, and by far less than 1 in the power.
        self.left(level, elapsed_ns).saturating_sub(2)
    }

    /// The least time after which [`left`](Self::left) of `level` is at most `target`.
    pub(crate) fn least_ns(self, level: u64, target: u64) -> u128 {
        if level <= target {
            return 0;
        }
        let mut halvings = 0;
        while reduced(level, halvings + 1, ONE) > target {
            halvings += 1;
        }
        // What `reduced` compares, solved for the power.
        let shift = 63 + halvings;
        let most = match target {
            0 => (1 << shift) - 1,
            _ => u128::from(target) << shift,
        };
        let fraction = least_fraction((most / u128::from(level)) as u64);
        u128::from(self.ns) * u128::from(halvings) + self.least_rest_ns(fraction)
    }

    /// `rest_ns` < `ns` as a fraction of the half-life, rounded down.
    #[inline(always)]
    fn fraction(self, rest_ns: u64) -> u64 {
        let normal = rest_ns << self.ns.leading_zeros();
        ((u128::from(normal) * u128::from(self.reciprocal)) >> (127 - FRACTION_BITS)) as u64
    }

    /// The least rest of which the fraction is at least this; the whole half-life if there is none.
    fn least_rest_ns(self, fraction: u64) -> u128 {
        let normal =
            (u128::from(fraction) << (127 - FRACTION_BITS)).div_ceil(u128::from(self.reciprocal));
        let shift = self.ns.leading_zeros();
        let rest_ns = (normal + (1 << shift) - 1) >> shift;
        rest_ns.min(u128::from(self.ns))
    }
}

/// `level · power / 2^halvings`, rounded up; 0 if it is less than 1.
#[inline(always)]
fn reduced(level: u64, halvings: u64, power: u64) -> u64 {
    let product = u128::from(level) * u128::from(power);
    if halvings == 0 {
        // The usual case, shifted by a constant.
        return if product < u128::from(ONE) {
            0
        } else {
            ((product - 1) >> 63) as u64 + 1
        };
    }
    // A level is below 2⁴⁸, so that nothing is left of it after 48 halvings, and the shift is less than 127.
    if halvings >= 48 || product >> (63 + halvings) == 0 {
        return 0;
    }
    ((product - 1) >> (63 + halvings)) as u64 + 1
}

/// 2^−fraction.
#[inline(always)]
fn power(fraction: u64) -> u64 {
    let digit = |low: u32| (fraction >> low & 63) as usize;
    let rest = fraction & ((1 << REST_BITS) - 1);
    // Too small a value makes the sum larger, as it should be.
    let x = ((u128::from(rest) * u128::from(LN_2)) >> (FRACTION_BITS + 1)) as u64;
    let half_square = (u128::from(x) * u128::from(x)).div_ceil(1 << 64) as u64;
    let series = ONE - x + half_square;
    if fraction >> REST_BITS == 0 {
        // The product of the same, where the tables have only ones: soon after the last time.
        return series;
    }
    product_up(
        product_up(COARSE[digit(REST_BITS + 12)], MIDDLE[digit(REST_BITS + 6)]),
        product_up(FINE[digit(REST_BITS)], series),
    )
}

/// The least fraction of which the power is at most `most`, which is at least ½; the whole if there is none.
///
/// Newton's method, which comes from the left and never passes, because the curve is bent that way: 3 rounds for a
/// power near 1, and up to 6.
fn least_fraction(most: u64) -> u64 {
    let mut fraction = 0;
    while fraction < FRACTION_END {
        let power = power(fraction);
        if power <= most {
            break;
        }
        let step = u128::from(power - most) * u128::from(PER_LN_2) / u128::from(power);
        fraction += (step as u64).max(1);
    }
    fraction.min(FRACTION_END)
}

#[inline(always)]
const fn product_up(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128 + (ONE as u128 - 1)) >> 63) as u64
}

/// 2^−(i / 2^(6 + `skipped`)) for i from 0 to 63.
const fn table(skipped: u32) -> [u64; 64] {
    // √½, and as many times more the root of it as there are bits to skip.
    let mut root = root_up(ONE / 2);
    let mut depth = 0;
    while depth < skipped {
        root = root_up(root);
        depth += 1;
    }
    let mut table = [ONE; 64];
    let mut bit = 32;
    while bit > 0 {
        let mut i = 0;
        while i < 64 {
            if i & bit != 0 {
                table[i] = product_up(table[i], root);
            }
            i += 1;
        }
        root = root_up(root);
        bit /= 2;
    }
    table
}

/// The square root of a power, rounded up.
const fn root_up(power: u64) -> u64 {
    let square = (power as u128) << 63;
    let root = square.isqrt();
    (root + (root * root != square) as u128) as u64
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    /// Bits behind the point of the reference.
    const BITS: u32 = 120;

    fn times(a: u128, b: u128) -> u128 {
        let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
        let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
        let ((left1, left0), (right1, right0)) = (halves(a1 * b0), halves(a0 * b1));
        let (carried, lowest) = halves(a0 * b0);
        let (carry, middle) = halves(carried + left0 + right0);
        let high = a1 * b1 + left1 + right1 + carry;
        (high << (128 - BITS)) | (((middle << 64) | lowest) >> BITS)
    }

    /// 2^−(fraction / 2⁵²) by the series of the exponential function alone, right to 2⁻¹¹⁰.
    fn reference(fraction: u64) -> u128 {
        // ln 2 = Σ 1 / (k · 2^k)
        let ln_2: u128 = (1..120)
            .map(|k| (1_u128 << (BITS - k)) / u128::from(k))
            .sum();
        let x = times(ln_2, u128::from(fraction) << (BITS - FRACTION_BITS));
        let (mut sum, mut term) = (1_i128 << BITS, 1_u128 << BITS);
        for k in 1..60 {
            term = times(term, x) / k;
            sum += if k % 2 == 0 {
                term as i128
            } else {
                -(term as i128)
            };
        }
        sum as u128
    }

    fn edges() -> impl Iterator<Item = u64> {
        let steps = (0..1_u64 << 18).map(|step| step << REST_BITS);
        steps.flat_map(|start| [start.saturating_sub(1), start, start + 1])
    }

    #[test]
    fn c1_a_power_is_rounded_up_and_by_less_than_a_step() {
        let mut worst = 0;
        for fraction in edges()
            .step_by(101)
            .chain((0..10_000).map(|i| i * 449_999_999_999))
        {
            let (power, exact) = (
                u128::from(power(fraction)) << (BITS - 63),
                reference(fraction),
            );
            assert!(power + (1 << 10) >= exact, "{fraction}: rounded down");
            worst = worst.max(power.saturating_sub(exact));
        }
        assert!(worst < 1 << (BITS - 56), "off by {worst} · 2^-{BITS}");
    }

    #[test]
    fn c3_a_power_never_rises() {
        let mut last = ONE;
        for fraction in edges().skip(1) {
            let power = power(fraction);
            assert!(power <= last, "{fraction}: {power} after {last}");
            last = power;
        }
    }

    #[test]
    fn whole_half_lives_are_exact() {
        for ns in [1, 2, 3, 1_000_000_007, u64::MAX / 48] {
            let half_life = HalfLife::new(ns);
            for level in [1, 5, 1 << 20, (1 << 47) + 12_345, LEVEL_END - 1] {
                for halvings in 0..48 {
                    let exact = match level >> halvings {
                        0 => 0,
                        _ => level.div_ceil(1 << halvings),
                    };
                    assert_eq!(half_life.left(level, ns * halvings), exact);
                }
                assert_eq!(
                    half_life.left(level, u64::MAX),
                    if ns > u64::MAX / 48 { 1 } else { 0 }
                );
            }
        }
    }

    /// Draws numbers of a given number of bits.
    fn draws() -> impl FnMut(u32) -> u64 {
        let mut seed: u64 = 1;
        move |bits| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 1) >> (63 - bits)
        }
    }

    /// Otherwise a bucket would refuse what fits.
    #[test]
    fn c2_the_lower_bound_of_a_rest_is_no_more_than_the_rest() {
        let mut draw = draws();
        for _ in 0..100_000 {
            let bits = draw(6).min(62) as u32;
            let ns = draw(bits) + 1;
            let half_life = HalfLife::new(ns);
            let level_bits = draw(6) as u32 % 49;
            let level = draw(level_bits);
            for elapsed_ns in [0, 1, draw(bits), ns - 1, ns, ns + draw(bits)] {
                let (least, left) = (
                    half_life.at_least_left(level, elapsed_ns),
                    half_life.left(level, elapsed_ns),
                );
                assert!(
                    least <= left,
                    "{least} of {left}: {level} {ns} {elapsed_ns}"
                );
            }
        }
    }

    #[test]
    fn c3_the_least_time_is_the_least() {
        let mut draw = draws();
        for _ in 0..20_000 {
            let bits = draw(6).min(62) as u32;
            let half_life = HalfLife::new(draw(bits) + 1);
            let level_bits = draw(6) as u32 % 48 + 1;
            let level = draw(level_bits);
            let target_bits = draw(6) as u32 % (level_bits + 1);
            let target = draw(target_bits);
            let least = half_life.least_ns(level, target);
            let Ok(ns) = u64::try_from(least) else {
                continue;
            };
            assert!(
                half_life.left(level, ns) <= target,
                "{half_life:?} {level} {target} {ns}"
            );
            if ns > 0 {
                assert!(
                    half_life.left(level, ns - 1) > target,
                    "{half_life:?} {level} {target} {ns}"
                );
            }
        }
    }
}
