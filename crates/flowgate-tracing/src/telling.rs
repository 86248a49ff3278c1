use crate::limits::Limits;
use std::sync::Arc;
use tracing_core::{Dispatch, Event, Interest, LevelFilter, Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer};

/// A layer that reports how many events the filter suppressed, before the next similar event.
///
/// It passes everything else on unchanged. [`RateLimitFilter::telling`](crate::RateLimitFilter::telling) and
/// [`over`](crate::RateLimitFilter::over) make it.
///
/// The report is a separate event that only this layer receives. Its level, target, file and line, and its span, are those
/// of the event that follows it.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_tracing::RateLimitFilter;
/// use std::time::Duration;
/// use tracing_subscriber::prelude::*;
///
/// let time = ManualClock::new();
/// let limit = RateLimitFilter::builder("1/min".parse()?).clock(&time).build()?;
/// let log = tracing_subscriber::registry()
///     .with(limit.clone().over(tracing_subscriber::fmt::layer()));
/// let untold = tracing::subscriber::with_default(log, || {
///     [(); 4].map(|()| {
///         tracing::info!("cache miss"); // the first and the last are heard
///         time.advance(Duration::from_secs(20));
///         limit.suppressed()
///     })
/// });
/// // Before the last, the log says "similar events were suppressed suppressed=2".
/// assert_eq!(untold, [0, 1, 2, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If a callsite becomes silent, the number comes after the next event that is logged, of any callsite, or by
/// [`RateLimitFilter::flush`](crate::RateLimitFilter::flush). It then belongs to no span.
///
/// > **Limit:** a layer inside this one cannot be found by its type from outside (`downcast_ref`). Put layers that must be
/// > found around this one: a layer with its own filter (`layer.with_filter(…)`), a layer that can be reloaded, and those
/// > of `tracing-error` and `tracing-opentelemetry`. Layers that write events (`fmt`, journald, an appender) can be inside.
#[derive(Debug)]
pub struct Telling<L> {
    layer: L,
    limits: Arc<Limits>,
}

impl<L> Telling<L> {
    pub(crate) fn new(layer: L, limits: Arc<Limits>) -> Self {
        Self { layer, limits }
    }
}

impl<S: Subscriber, L: Layer<S>> Layer<S> for Telling<L> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.limits.told(event, |summary| {
            self.layer.on_event(summary, context.clone());
        });
        self.layer.on_event(event, context.clone());
        self.limits.tell_silent(|summary| {
            self.layer.on_event(summary, context.clone());
        });
    }

    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.limits.registered(subscriber);
        self.layer.on_register_dispatch(subscriber);
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        self.layer.on_layer(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.layer.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        let is_asked = self.limits.tell_asked(metadata, |summary| {
            self.layer.on_event(summary, context.clone());
        });
        !is_asked && self.layer.enabled(metadata, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.layer.max_level_hint()
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        self.layer.event_enabled(event, context)
    }

    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        self.layer.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        self.layer.on_record(id, values, context);
    }

    fn on_follows_from(&self, id: &span::Id, follows: &span::Id, context: Context<'_, S>) {
        self.layer.on_follows_from(id, follows, context);
    }

    fn on_enter(&self, id: &span::Id, context: Context<'_, S>) {
        self.layer.on_enter(id, context);
    }

    fn on_exit(&self, id: &span::Id, context: Context<'_, S>) {
        self.layer.on_exit(id, context);
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        self.layer.on_close(id, context);
    }

    fn on_id_change(&self, old: &span::Id, new: &span::Id, context: Context<'_, S>) {
        self.layer.on_id_change(old, new, context);
    }
}
