//! [`RateLimitedProcessor`] and [`RateLimitedExporter`]: what goes on, what is counted, what is passed on.

use flowgate::ManualClock;
use flowgate_otel::{DROPPED_SPANS, RateLimitedExporter, RateLimitedProcessor};
use opentelemetry::trace::{
    Link, Span as _, SpanKind, Status, TraceContextExt, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample,
    SimpleSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ends so many spans, and sets an error on every tenth.
fn end_spans(provider: &SdkTracerProvider, count: usize) {
    let tracer = provider.tracer("test");
    for k in 0..count {
        tracer.in_span(format!("span {k}"), |context| {
            if k % 10 == 9 {
                context.span().set_status(Status::error("failed"));
            }
        });
    }
}

/// What the spans say was dropped.
fn said(spans: &[SpanData]) -> Vec<i64> {
    let attributes = spans.iter().flat_map(|span| &span.attributes);
    attributes
        .filter(|attribute| attribute.key.as_str() == DROPPED_SPANS)
        .map(|attribute| match attribute.value {
            Value::I64(dropped) => dropped,
            _ => panic!("{attribute:?}"),
        })
        .collect()
}

fn is_error(span: &SpanData) -> bool {
    matches!(span.status, Status::Error { .. })
}

#[test]
fn c1_c2_a_processor_lets_so_many_through_and_counts_the_others() {
    let time = ManualClock::new();
    let exporter = InMemorySpanExporter::default();
    let told = Arc::new(AtomicU64::new(0));
    let tell = Arc::clone(&told);
    let processor = RateLimitedProcessor::new(
        SimpleSpanProcessor::new(exporter.clone()),
        "10/s burst 5".parse().unwrap(),
    )
    .clock(&time)
    .unwrap()
    .annotate()
    .on_dropped(move |spans| {
        tell.fetch_add(spans, Ordering::Relaxed);
    });
    let counts = processor.counts();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor)
        .build();

    end_spans(&provider, 20);
    assert_eq!((counts.reported(), counts.dropped()), (5, 15));
    time.advance(Duration::from_millis(300));
    end_spans(&provider, 20);
    assert_eq!((counts.reported(), counts.dropped()), (8, 32));
    assert_eq!(told.load(Ordering::Relaxed), 32);
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 8);
    // The first after those that were dropped says so; the 17 since have not been said.
    assert_eq!(said(&spans), [15]);
    assert_eq!(spans[5].attributes, [KeyValue::new(DROPPED_SPANS, 15)]);
    time.advance(Duration::from_millis(100));
    end_spans(&provider, 1);
    assert_eq!(said(&exporter.get_finished_spans().unwrap()), [15, 17]);
}

#[test]
fn an_exempt_span_goes_on_and_takes_no_token() {
    let time = ManualClock::new();
    let exporter = InMemorySpanExporter::default();
    let processor = RateLimitedProcessor::new(
        SimpleSpanProcessor::new(exporter.clone()),
        "1/h burst 5".parse().unwrap(),
    )
    .clock(&time)
    .unwrap()
    .exempt(is_error);
    let counts = processor.counts();
    assert_eq!(processor.dropped(), 0);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor)
        .build();
    end_spans(&provider, 40);
    assert_eq!((counts.reported(), counts.dropped()), (5 + 4, 31));
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.iter().filter(|span| is_error(span)).count(), 4);
    assert!(said(&spans).is_empty());
}

#[test]
fn c1_c2_an_exporter_sends_the_beginning_of_a_batch_and_counts_the_rest() {
    let time = ManualClock::new();
    let kept = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(SimpleSpanProcessor::new(kept.clone()))
        .build();
    end_spans(&provider, 20);
    let batch = kept.get_finished_spans().unwrap();

    let sent = InMemorySpanExporter::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let exporter = RateLimitedExporter::new(sent.clone(), "10/s burst 12".parse().unwrap())
        .clock(&time)
        .unwrap()
        .exempt(is_error)
        .annotate()
        .on_dropped(move |spans| tell.lock().unwrap().push(spans));
    let counts = exporter.counts();
    let export = || futures_executor::block_on(exporter.export(batch.clone())).unwrap();

    export();
    let names = |spans: &[SpanData]| {
        spans
            .iter()
            .map(|span| span.name.clone())
            .collect::<Vec<_>>()
    };
    let spans = sent.get_finished_spans().unwrap();
    let expected: Vec<_> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 19]
        .map(|k| format!("span {k}"))
        .into();
    assert_eq!(names(&spans), expected);
    assert_eq!(said(&spans), [6]);
    sent.reset();
    export(); // only what is exempt
    assert_eq!(said(&sent.get_finished_spans().unwrap()), [18]);
    assert_eq!((counts.reported(), counts.dropped()), (16, 24));
    assert_eq!(exporter.dropped(), 24);
    assert_eq!(*told.lock().unwrap(), [6, 18]);
}

/// Says what it was asked to do.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: impl Into<String>) -> OTelSdkResult {
        self.0.lock().unwrap().push(what.into());
        Ok(())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl SpanProcessor for Recorder {
    fn on_start(&self, span: &mut Span, _context: &Context) {
        let _ = self.note(format!("start {}", span.is_recording()));
    }

    fn on_end(&self, span: SpanData) {
        let _ = self.note(format!("end {}", span.name));
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.note("flush")
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.note(format!("shutdown {timeout:?}"))
    }

    fn set_resource(&mut self, _resource: &Resource) {
        let _ = self.note("resource");
    }
}

impl SpanExporter for Recorder {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.note(format!("export {}", batch.len()))
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.note(format!("shutdown {timeout:?}"))
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.note("flush")
    }

    fn set_resource(&mut self, _resource: &Resource) {
        let _ = self.note("resource");
    }
}

/// Has spans recorded that are not to be reported.
#[derive(Clone, Debug)]
struct RecordOnly;

impl ShouldSample for RecordOnly {
    fn should_sample(
        &self,
        _parent_context: Option<&Context>,
        _trace_id: TraceId,
        _name: &str,
        _span_kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        SamplingResult {
            decision: SamplingDecision::RecordOnly,
            attributes: Vec::new(),
            trace_state: TraceState::NONE,
        }
    }
}

#[test]
fn what_is_recorded_and_not_sampled_takes_no_token() {
    let recorder = Recorder::default();
    let processor = RateLimitedProcessor::new(recorder.clone(), "1/h".parse().unwrap());
    let counts = processor.counts();
    let provider = SdkTracerProvider::builder()
        .with_sampler(RecordOnly)
        .with_span_processor(processor)
        .build();
    end_spans(&provider, 3);
    let ends = recorder.take();
    let ends = ends.iter().filter(|noted| noted.starts_with("end"));
    assert_eq!(ends.count(), 3);
    assert_eq!((counts.reported(), counts.dropped()), (0, 0));
}

#[test]
fn everything_else_is_passed_on() {
    let quota = "1/h".parse().unwrap();
    let time = ManualClock::new();
    let recorder = Recorder::default();
    let processor = RateLimitedProcessor::new(recorder.clone(), quota);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor.clock(&time).unwrap())
        .build();
    assert_eq!(recorder.take(), ["resource"]);
    end_spans(&provider, 2);
    assert_eq!(recorder.take(), ["start true", "end span 0", "start true"]);
    provider.force_flush().unwrap();
    provider
        .shutdown_with_timeout(Duration::from_secs(3))
        .unwrap();
    assert_eq!(recorder.take(), ["flush", "shutdown 3s"]);

    let recorder = Recorder::default();
    let mut exporter = RateLimitedExporter::new(recorder.clone(), quota)
        .clock(&time)
        .unwrap();
    exporter.set_resource(&Resource::builder_empty().build());
    SpanExporter::force_flush(&exporter).unwrap();
    exporter
        .shutdown_with_timeout(Duration::from_secs(3))
        .unwrap();
    // An empty batch sends nothing.
    futures_executor::block_on(exporter.export(Vec::new())).unwrap();
    assert_eq!(recorder.take(), ["resource", "flush", "shutdown 3s"]);
}
