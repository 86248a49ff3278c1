//! a · b / d for products of more than 128 bits.

/// a · b / d rounded down, and whether anything was cut off; `u128::MAX` if it is more than that.
///
/// The product takes up to 256 bits. A binary long division is enough, because no caller is performance-critical.
pub(crate) fn mul_div(a: u128, b: u128, d: u128) -> (u128, bool) {
    if let Some(product) = a.checked_mul(b) {
        return (product / d, product % d != 0);
    }
    let (high, low) = full_product(a, b);
    if high >= d {
        return (u128::MAX, true);
    }
    let (mut quotient, mut rest) = (0, high);
    for bit in (0..128).rev() {
        let carry = rest >> 127 != 0;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry || rest >= d {
            rest = rest.wrapping_sub(d);
            quotient |= 1;
        }
    }
    (quotient, rest != 0)
}

/// a · b as its upper and its lower 128 bits.
fn full_product(a: u128, b: u128) -> (u128, u128) {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let (carried, lowest) = halves(a0 * b0);
    let ((up_left, left), (up_right, right)) = (halves(a1 * b0), halves(a0 * b1));
    let (carry, middle) = halves(carried + left + right);
    (
        a1 * b1 + up_left + up_right + carry,
        (middle << 64) | lowest,
    )
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::mul_div;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn c8_mul_div_inverts_multiplication(a: u128, d in 1_u128.., b in 0_u128..1 << 60) {
            // a·d/d, and one more than a multiple.
            prop_assert_eq!(mul_div(a, d, d), (a, false));
            if let Some(product) = a.checked_mul(b) {
                prop_assert_eq!(mul_div(a, b, d), (product / d, product % d != 0));
            }
        }

        #[test]
        fn c8_mul_div_agrees_with_two_steps(a in 0_u128..1 << 93, b in 0_u128..1 << 93, d in 1_u128..1 << 93) {
            // a = q·d + r, so a·b/d = q·b + r·b/d, where the parts are small enough for long division by hand.
            let (got, cut) = mul_div(a, b, d);
            let mut whole = 0_u128;
            let mut rest = 0_u128;
            let mut fits = true;
            for bit in (0..93).rev() {
                fits &= whole >> 127 == 0 && rest < d;
                whole = whole.wrapping_shl(1);
                rest <<= 1;
                if a >> bit & 1 != 0 {
                    whole = whole.wrapping_add(b / d);
                    rest += b % d;
                }
                whole = whole.wrapping_add(rest / d);
                rest %= d;
            }
            if fits && got != u128::MAX {
                prop_assert_eq!((got, cut), (whole, rest != 0));
            }
        }
    }

    #[test]
    fn mul_div_says_so_when_it_does_not_fit() {
        assert_eq!(mul_div(u128::MAX, 2, 1), (u128::MAX, true));
        assert_eq!(mul_div(u128::MAX, u128::MAX, u128::MAX), (u128::MAX, false));
        assert_eq!(mul_div(u128::MAX, 3, 4), (u128::MAX / 4 * 3 + 2, true));
    }
}
