use super::adaptive::WHOLE;
use super::trace_state::{randomness, with_threshold, without_threshold};
use opentelemetry::trace::{TraceId, TraceState};

/// All traces, by the specification's count.
const ALL: u64 = 1 << 56;

/// How a trace is picked by its id.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    /// As `Sampler::TraceIdRatioBased` does: by bits 1 to 63, the smallest.
    TraceIdRatio,
    /// As OpenTelemetry specifies: by the last 56 bits, the largest.
    Threshold,
}

impl Pick {
    /// Whether a trace is among this share, and the trace state that goes on.
    pub(super) fn decide(
        self,
        share: u64,
        trace_id: TraceId,
        trace_state: TraceState,
    ) -> (bool, TraceState) {
        let [.., a, b, c, d, e, f, g, h] = trace_id.to_bytes();
        let low = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        match self {
            Self::TraceIdRatio => (low >> 1 < share, trace_state),
            Self::Threshold => {
                let threshold = ALL - wanted(share);
                let random = randomness(&trace_state).unwrap_or(low % ALL);
                // None are wanted at `ALL`, which no randomness reaches.
                if random >= threshold {
                    (true, with_threshold(&trace_state, threshold))
                } else {
                    (false, without_threshold(trace_state))
                }
            }
        }
    }

    /// The share as it is decided by.
    pub(super) fn probability(self, share: u64) -> f64 {
        match self {
            Self::TraceIdRatio => share as f64 / WHOLE as f64,
            Self::Threshold => wanted(share) as f64 / ALL as f64,
        }
    }
}

/// The share as a count of [`ALL`], rounded down to four hexadecimal digits.
fn wanted(share: u64) -> u64 {
    let wanted = share / (WHOLE / ALL);
    let digits = (u64::BITS - wanted.leading_zeros()).div_ceil(4);
    let cut = 4 * digits.saturating_sub(4);
    wanted >> cut << cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_sdk::trace::{Sampler, SamplingDecision, ShouldSample};

    fn trace(id: u128) -> TraceId {
        TraceId::from(id)
    }

    #[test]
    fn it_agrees_with_trace_id_ratio_based() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..20_000 {
            // Shares as they come about, from all to one in 2³⁰.
            let divided = random.f64() / f64::from(1_u32 << random.u32(0..31));
            let share = (divided * WHOLE as f64) as u64;
            let probability = share as f64 / WHOLE as f64;
            let edge = (share << 1).wrapping_add(random.u64(0..4)).wrapping_sub(2);
            for low in [random.u64(..), edge] {
                let id = trace((random.u128(..) << 64) | u128::from(low));
                let theirs = Sampler::TraceIdRatioBased(probability).should_sample(
                    None,
                    id,
                    "",
                    &opentelemetry::trace::SpanKind::Internal,
                    &[],
                    &[],
                );
                let (ours, _) = Pick::TraceIdRatio.decide(share, id, TraceState::NONE);
                assert_eq!(
                    ours,
                    theirs.decision == SamplingDecision::RecordAndSample,
                    "{id} at {probability}"
                );
                assert_eq!(Pick::TraceIdRatio.probability(share), probability);
            }
        }
    }

    #[test]
    fn the_threshold_is_that_of_the_specification() {
        for (share, th) in [
            (WHOLE, "th:0"),
            (WHOLE / 2, "th:8"),
            (WHOLE / 4, "th:c"),
            (WHOLE / 8, "th:e"),
            (WHOLE / 10, "th:e667"),     // 1 − 0x1999 / 0x10000
            (WHOLE / 1000, "th:ffbe77"), // 1 − 0x4189 / 0x1000000
        ] {
            let (picked, state) = Pick::Threshold.decide(share, trace(u128::MAX), TraceState::NONE);
            assert!(picked);
            let said = state.get("ot").unwrap_or_default().to_owned();
            let digits = said.trim_start_matches("th:");
            let threshold = u64::from_str_radix(&format!("{digits:0<14}"), 16).unwrap();
            let probability = (ALL - threshold) as f64 / ALL as f64;
            assert_eq!(Pick::Threshold.probability(share), probability, "{said}");
            assert!(probability <= share as f64 / WHOLE as f64);
            assert!(probability >= share as f64 / WHOLE as f64 * (1.0 - 1.0 / 4096.0));
            assert_eq!(said, th);
            // At the threshold it is picked, and below it is not.
            let decide = |low: u64| {
                let id = trace(u128::from(low) | 0xabcd << 56);
                Pick::Threshold.decide(share, id, TraceState::NONE).0
            };
            assert!(decide(threshold));
            assert!(threshold == 0 || !decide(threshold - 1));
        }
        let none = Pick::Threshold.decide(0, trace(u128::MAX), TraceState::NONE);
        assert_eq!(none, (false, TraceState::NONE));
    }

    #[test]
    fn randomness_of_the_trace_state_goes_before_the_id() {
        let state = TraceState::from_key_value([("ot", "rv:fffffffffffffe;x:y"), ("a", "b")]);
        let state = state.unwrap();
        let (picked, said) = Pick::Threshold.decide(WHOLE / 2, trace(1), state);
        assert!(picked);
        assert_eq!(said.header(), "ot=th:8;rv:fffffffffffffe;x:y,a=b");
        // A service further on that wants fewer says its own; one that picks nothing takes the threshold away.
        let (picked, said) = Pick::Threshold.decide(WHOLE / 16, trace(1), said);
        assert!(picked);
        assert_eq!(said.header(), "ot=th:f;rv:fffffffffffffe;x:y,a=b");
        let (picked, said) = Pick::Threshold.decide(0, trace(1), said);
        assert!(!picked);
        assert_eq!(said.header(), "ot=rv:fffffffffffffe;x:y,a=b");
    }
}
