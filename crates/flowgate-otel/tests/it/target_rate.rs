//! [`TargetRateSampler`]: how near to the rate, how soon, and what it records.

use flowgate::{ManualClock, Timestamp};
use flowgate_otel::{SAMPLER_PARAM, SAMPLER_TYPE, TargetRateSampler};
use opentelemetry::trace::{SpanKind, TraceContextExt, TraceId, Tracer, TracerProvider};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, Sampler, SamplingDecision, SdkTracerProvider, ShouldSample,
    SimpleSpanProcessor,
};

const SECOND: u64 = 1_000_000_000;

/// A load on a clock of its own, with random ids.
struct Load {
    time: ManualClock,
    sampler: TargetRateSampler,
    random: fastrand::Rng,
    now_ns: u64,
    /// Arrivals at random intervals rather than even ones.
    is_random: bool,
}

impl Load {
    fn new(target: &str, seed: u64, set: impl Fn(TargetRateSampler) -> TargetRateSampler) -> Self {
        let time = ManualClock::new();
        let sampler = TargetRateSampler::new(target.parse().unwrap()).clock(&time);
        Self {
            time,
            sampler: set(sampler),
            random: fastrand::Rng::with_seed(seed),
            now_ns: 1,
            is_random: seed % 2 == 1,
        }
    }

    /// How many are sampled of so many per second for so long.
    fn sampled(&mut self, per_second: u64, for_ns: u64) -> u64 {
        let end_ns = self.now_ns + for_ns;
        let mean_ns = SECOND / per_second;
        let mut sampled = 0;
        while self.now_ns < end_ns {
            self.time.set(Timestamp::from_nanos(self.now_ns));
            let id = TraceId::from(self.random.u128(..));
            let result = self
                .sampler
                .should_sample(None, id, "", &SpanKind::Internal, &[], &[]);
            sampled += u64::from(result.decision == SamplingDecision::RecordAndSample);
            self.now_ns += if self.is_random {
                (-(1.0 - self.random.f64()).ln() * mean_ns as f64) as u64
            } else {
                mean_ns
            };
        }
        sampled
    }
}

fn is_near(count: u64, expected: u64, percent: u64) -> bool {
    count.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn five_seconds_after_a_tenfold_step_it_is_within_5_percent() {
    for seed in 0..6 {
        for steps in [[10_000, 100_000, 10_000], [100_000, 10_000, 100_000]] {
            let consistent = seed % 3 == 2;
            let mut load = Load::new("1000/s", seed, |sampler| match consistent {
                true => sampler.consistent(),
                false => sampler,
            });
            for per_second in steps {
                load.sampled(per_second, 5 * SECOND);
                let sampled = load.sampled(per_second, 5 * SECOND);
                assert!(
                    is_near(sampled, 5_000, 5),
                    "seed {seed}, {steps:?}: {sampled} of 5000"
                );
            }
        }
    }
}

#[test]
fn a_step_up_is_noticed_while_it_happens() {
    for seed in 0..4 {
        let mut load = Load::new("1000/s", seed, |sampler| sampler);
        load.sampled(2_000, 10 * SECOND);
        // 50 times as many: at the old probability it would be 25,000 in a half-life, not 500.
        let sampled = load.sampled(100_000, SECOND / 2);
        assert!(sampled < 500 * 7, "{sampled}"); // 1 + log₂ 50 = 6.6, and chance
        assert!(sampled > 500, "{sampled}");
    }
    // From nothing, as well: a thousand times the rate, so that it would be 50,000. 1 + log₂ 1000 = 11 times 50.
    let mut load = Load::new("100/s", 0, |sampler| sampler);
    let sampled = load.sampled(100_000, SECOND / 2);
    assert!((50..700).contains(&sampled), "{sampled}");
}

#[test]
fn with_less_load_than_the_rate_everything_is_sampled() {
    let mut load = Load::new("100/s", 0, |sampler| sampler);
    assert_eq!(load.sampled(50, 20 * SECOND), 1_000);
    load.sampled(10_000, 5 * SECOND);
    load.sampled(50, 10 * SECOND);
    assert_eq!(load.sampled(50, 20 * SECOND), 1_000);
}

#[test]
fn a_low_rate_is_kept_in_the_long_run() {
    let mut load = Load::new("1/10s", 1, |sampler| {
        sampler.half_life(std::time::Duration::from_secs(5))
    });
    load.sampled(20, 60 * SECOND);
    let sampled = load.sampled(20, 20_000 * SECOND);
    assert!(is_near(sampled, 2_000, 8), "{sampled}");
}

#[test]
fn c4_without_time_it_samples_less_and_less() {
    for backward in [false, true] {
        let mut load = Load::new("100/s", 0, |sampler| sampler);
        load.sampled(1_000, 5 * SECOND);
        let mut sampled = Vec::new();
        for _ in 0..3 {
            let mut count = 0;
            for _ in 0..100_000 {
                if backward {
                    load.now_ns -= 1;
                    load.time.set(Timestamp::from_nanos(load.now_ns));
                }
                let id = TraceId::from(load.random.u128(..));
                let result =
                    load.sampler
                        .should_sample(None, id, "", &SpanKind::Internal, &[], &[]);
                count += u64::from(result.decision == SamplingDecision::RecordAndSample);
            }
            sampled.push(count);
        }
        assert!(sampled[0] < 600, "{sampled:?}");
        assert!(sampled[2] < 60, "{sampled:?}");
    }
}

#[test]
fn settings_out_of_range_are_at_its_end() {
    let sampler = TargetRateSampler::new("100/s".parse().unwrap());
    let shortest = sampler.clone().half_life(std::time::Duration::ZERO);
    assert!(format!("{shortest:?}").contains("half_life: 1ms"));
    let longest = sampler.half_life(std::time::Duration::MAX);
    assert!(format!("{longest:?}").contains("half_life: 3600s"));
}

/// Both ways of picking, in a provider: what is scaled up by what the spans say is what was offered.
#[test]
fn the_probability_that_is_recorded_is_the_one_that_decided() {
    for consistent in [false, true] {
        let time = ManualClock::new();
        let sampler = TargetRateSampler::new("500/s".parse().unwrap()).clock(&time);
        let sampler = if consistent {
            sampler.consistent()
        } else {
            sampler
        };
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::parent_based(sampler))
            .with_span_processor(SimpleSpanProcessor::new(exporter.clone()))
            .build();
        let tracer = provider.tracer("test");
        let mut offered = 0;
        for per_second in [1_000, 20_000, 200, 5_000] {
            for _ in 0..3 * per_second {
                time.advance(std::time::Duration::from_nanos(SECOND / per_second));
                tracer.in_span("root", |context| {
                    let state = context.span().span_context().trace_state().header();
                    tracer.in_span("child", |context| {
                        let below = context.span();
                        assert_eq!(below.span_context().trace_state().header(), state);
                    });
                });
                offered += 1;
            }
        }
        let spans = exporter.get_finished_spans().unwrap();
        let mut estimate = 0.0;
        for span in &spans {
            if span.name == "child" {
                assert!(span.attributes.is_empty());
                continue;
            }
            assert_eq!(
                span.attributes[0],
                KeyValue::new(SAMPLER_TYPE, "probabilistic")
            );
            assert_eq!(span.attributes[1].key.as_str(), SAMPLER_PARAM);
            let Value::F64(probability) = span.attributes[1].value else {
                panic!("{span:?}");
            };
            estimate += 1.0 / probability;

            let low = u128::from_be_bytes(span.span_context.trace_id().to_bytes()) as u64;
            let state = span.span_context.trace_state().header();
            if consistent {
                let digits = state.strip_prefix("ot=th:").expect("a threshold");
                assert!(digits.len() <= 14, "{state}");
                let threshold = u64::from_str_radix(&format!("{digits:0<14}"), 16).unwrap();
                assert!(low % (1 << 56) >= threshold, "{state}");
                let said = 1.0 - threshold as f64 / (1_u64 << 56) as f64;
                assert!((said - probability).abs() < 1e-12, "{state}: {probability}");
            } else {
                assert_eq!(state, "");
                assert!((low >> 1) as f64 <= probability * (1_u64 << 63) as f64);
            }
        }
        let off = (estimate - f64::from(offered)).abs() / f64::from(offered);
        assert!(off < 0.05, "{estimate} for {offered}");
    }
}

#[test]
fn of_two_services_the_one_with_the_smaller_rate_samples_a_part_of_the_others() {
    for consistent in [false, true] {
        let set = |sampler: TargetRateSampler| match consistent {
            true => sampler.consistent(),
            false => sampler,
        };
        let mut many = Load::new("1000/s", 0, set);
        let mut few = Load::new("100/s", 0, set);
        many.sampled(5_000, 10 * SECOND);
        few.sampled(5_000, 10 * SECOND);
        let mut random = fastrand::Rng::with_seed(4);
        let (mut by_many, mut by_few) = (0, 0);
        for _ in 0..2_000 {
            let id = TraceId::from(random.u128(..));
            let [m, f] = [&many, &few].map(|load| {
                let result =
                    load.sampler
                        .should_sample(None, id, "", &SpanKind::Internal, &[], &[]);
                u32::from(result.decision == SamplingDecision::RecordAndSample)
            });
            assert!(m >= f);
            by_many += m;
            by_few += f;
        }
        assert!(by_many > by_few && by_few > 0, "{by_many}, {by_few}");
    }
}

#[test]
fn many_threads_at_once_come_to_the_rate() {
    let time = ManualClock::new();
    let sampler = TargetRateSampler::new("1000/s".parse().unwrap()).clock(&time);
    let each = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sampled = 0;
        for k in 0..100_000_u32 {
            // 10 µs of this clock for each of the four: 100,000 a second in all.
            time.advance(std::time::Duration::from_micros(10));
            let id = TraceId::from(random.u128(..));
            let result = sampler.should_sample(None, id, "", &SpanKind::Internal, &[], &[]);
            // The second half.
            sampled +=
                u64::from(k >= 50_000 && result.decision == SamplingDecision::RecordAndSample);
        }
        sampled
    };
    let sampled: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || each(seed))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // Two seconds of it, and threads that are not side by side.
    assert!((1_600..2_500).contains(&sampled), "{sampled}");
}
