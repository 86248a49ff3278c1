use flowgate::Quota;
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceState};
use opentelemetry::{Context, KeyValue};

/// The attribute with the kind of sampler that picked a trace.
///
/// It is `ratelimiting` or `probabilistic`, as with Jaeger's clients.
///
/// ```
/// use flowgate_otel::{RateLimitingSampler, SAMPLER_TYPE};
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// let exporter = InMemorySpanExporter::default();
/// let provider = SdkTracerProvider::builder()
///     .with_sampler(RateLimitingSampler::new("10/s".parse()?))
///     .with_simple_exporter(exporter.clone())
///     .build();
/// provider.tracer("shop").in_span("checkout", |_context| {});
/// let span = &exporter.get_finished_spans()?[0];
/// let kind = span.attributes.iter().find(|said| said.key.as_str() == SAMPLER_TYPE);
/// assert_eq!(kind.map(|said| said.value.clone()), Some("ratelimiting".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const SAMPLER_TYPE: &str = "sampler.type";

/// The attribute with the sampler's parameter: traces per second, or the probability.
///
/// ```
/// use flowgate_otel::{RateLimitingSampler, SAMPLER_PARAM};
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// let exporter = InMemorySpanExporter::default();
/// let provider = SdkTracerProvider::builder()
///     .with_sampler(RateLimitingSampler::new("30/min".parse()?))
///     .with_simple_exporter(exporter.clone())
///     .build();
/// provider.tracer("shop").in_span("checkout", |_context| {});
/// let span = &exporter.get_finished_spans()?[0];
/// let per_second = span.attributes.iter().find(|said| said.key.as_str() == SAMPLER_PARAM);
/// assert_eq!(per_second.map(|said| said.value.clone()), Some(0.5.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const SAMPLER_PARAM: &str = "sampler.param";

/// The attribute of a reported span that contains how many spans were dropped.
///
/// It counts the spans that were dropped since the last span with this attribute.
/// [`annotate`](crate::RateLimitedProcessor::annotate) turns it on.
///
/// ```
/// use flowgate_otel::{DROPPED_SPANS, RateLimitedExporter};
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// let next = InMemorySpanExporter::default();
/// let exporter = RateLimitedExporter::new(next.clone(), "1/h".parse()?)
///     .exempt(|span| span.name == "payment")
///     .annotate();
/// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
/// for name in ["page", "page", "payment"] {
///     provider.tracer("shop").in_span(name, |_context| {});
/// }
/// let payment = &next.get_finished_spans()?[1];
/// let told = payment.attributes.iter().find(|told| told.key.as_str() == DROPPED_SPANS);
/// assert_eq!(told.map(|told| told.value.clone()), Some(1.into())); // the second page
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const DROPPED_SPANS: &str = "flowgate.dropped_spans";

/// What a sampled trace's first span is given.
pub(crate) fn of_sampler(kind: &'static str, parameter: Option<f64>) -> Vec<KeyValue> {
    let kind = KeyValue::new(SAMPLER_TYPE, kind);
    match parameter {
        Some(parameter) => vec![kind, KeyValue::new(SAMPLER_PARAM, parameter)],
        None => vec![kind],
    }
}

/// What every trace's first span is given while a sampler is off: as Jaeger's sampler does that always samples.
pub(crate) fn of_none() -> Vec<KeyValue> {
    vec![
        KeyValue::new(SAMPLER_TYPE, "const"),
        KeyValue::new(SAMPLER_PARAM, true),
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
