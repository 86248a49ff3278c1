//! Finds the nanosecond at which a condition becomes true.

/// Returns the least `t` up to `end` for which `is_reached` holds. It holds at `end`, and stays true once it holds. The
/// number of calls is about 2 · log₂ of the error of `guess`.
pub(crate) fn least(guess: u64, end: u64, is_reached: impl Fn(u64) -> bool) -> u64 {
    let guess = guess.min(end);
    // It is not reached before `low`, and it is at `high`.
    let (mut low, mut high) = (0, end);
    let mut step = 1;
    if is_reached(guess) {
        high = guess;
        while high > low {
            let earlier = high.saturating_sub(step);
            if !is_reached(earlier) {
                low = earlier + 1;
                break;
            }
            high = earlier;
            step = step.saturating_mul(2);
        }
    } else {
        low = guess + 1;
        while low < high {
            let later = low.saturating_add(step - 1).min(high);
            if is_reached(later) {
                high = later;
                break;
            }
            low = later + 1;
            step = step.saturating_mul(2);
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_reached(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low.min(end)
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn every_guess_leads_to_the_same_answer() {
        for end in 0..40 {
            for answer in 0..=end {
                for guess in 0..45 {
                    assert_eq!(least(guess, end, |t| t >= answer), answer, "{guess}, {end}");
                }
            }
        }
        assert_eq!(least(0, u64::MAX, |t| t == u64::MAX), u64::MAX);
        assert_eq!(least(u64::MAX, u64::MAX, |_| true), 0);
    }
}
