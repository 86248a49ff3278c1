//! `Aimd` of congestion-limiter: additive increase, multiplicative decrease.

use super::{Call, MAX, MIN, Other};

/// One permit more per window, and a tenth less after an overload.
///
/// It grows after windows that used more than four fifths of the limit.
#[derive(Debug)]
pub struct Aimd {
    limit: f64,
}

impl Aimd {
    pub fn new() -> Self {
        Self { limit: 20.0 }
    }
}

impl Other for Aimd {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, call: &Call) {
        let next = if call.is_overload {
            (self.limit * 0.9).floor()
        } else if f64::from(call.in_flight) / self.limit > 0.8 {
            self.limit + 1.0
        } else {
            self.limit
        };
        self.limit = next.clamp(MIN, MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn one_more_if_it_is_used_and_a_tenth_less_after_an_overload() {
        let mut aimd = Aimd::new();
        aimd.ended(&call(0, 10, 17));
        assert_eq!(aimd.limit, 21.0);
        aimd.ended(&call(0, 10, 16));
        assert_eq!(aimd.limit, 21.0, "16 of 21 is less than four fifths");
        aimd.ended(&Call {
            is_overload: true,
            ..call(0, 10, 1)
        });
        assert_eq!(aimd.limit, 18.0, "21 · 0.9 = 18.9");
    }
}
