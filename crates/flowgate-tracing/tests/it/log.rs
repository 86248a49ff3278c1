//! A log that can be read, and a filter before it.

use flowgate::ManualClock;
use flowgate_tracing::{RateLimitFilter, RateLimitFilterBuilder};
use std::io;
use std::sync::{Arc, Mutex};
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt};

/// What a layer has written.
#[derive(Clone, Default)]
pub struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// The lines since the last call.
    pub fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Buffer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

pub fn writing_to<S>(buffer: &Buffer) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fmt::layer()
        .without_time()
        .with_ansi(false)
        .with_writer(buffer.clone())
}

/// A clock, a filter on it, and a subscriber in force with it for as long as the guard lives.
pub fn limited(
    quota: &str,
    set: impl FnOnce(RateLimitFilterBuilder) -> RateLimitFilterBuilder,
) -> (
    ManualClock,
    RateLimitFilter,
    Buffer,
    tracing::subscriber::DefaultGuard,
) {
    let time = ManualClock::new();
    let builder = RateLimitFilter::builder(quota.parse().unwrap()).clock(&time);
    let limit = set(builder).build().unwrap();
    let buffer = Buffer::default();
    let subscriber = tracing_subscriber::registry().with(limit.clone().over(writing_to(&buffer)));
    let guard = tracing::subscriber::set_default(subscriber);
    (time, limit, buffer, guard)
}
