use flowgate::Quota;
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceState};
use opentelemetry::{Context, KeyValue};

/// The attribute that says which kind of sampler picked a trace: `ratelimiting` or `probabilistic`, as Jaeger's
/// clients set it.
pub const SAMPLER_TYPE: &str = "sampler.type";

/// The attribute with the sampler's parameter: traces per second, or the probability.
pub const SAMPLER_PARAM: &str = "sampler.param";

/// The attribute of a reported span that says how many were dropped since the last one that said so, where
/// that was [asked for](crate::RateLimitedProcessor::annotate).
pub const DROPPED_SPANS: &str = "flowgate.dropped_spans";

/// What a sampled trace's first span is given.
pub(crate) fn of_sampler(kind: &'static str, parameter: f64) -> Vec<KeyValue> {
    vec![
        KeyValue::new(SAMPLER_TYPE, kind),
        KeyValue::new(SAMPLER_PARAM, parameter),
    ]
}

/// The rate, to be shown or to be aimed at; nothing is admitted by it.
pub(crate) fn per_second(quota: &Quota) -> f64 {
    quota.count() as f64 / quota.period().as_secs_f64()
}

/// A copy of the parent's trace state, which samplers hand on.
pub(crate) fn trace_state(parent: Option<&Context>) -> TraceState {
    let of = |context: &Context| context.span().span_context().trace_state().clone();
    match parent {
        // Without an active span there is none, and nothing to look for.
        Some(context) if context.has_active_span() => of(context),
        _ => SpanContext::NONE.trace_state().clone(),
    }
}
