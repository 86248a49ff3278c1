//! Samplers and span limits with a rate for [OpenTelemetry](https://docs.rs/opentelemetry_sdk) traces.
//!
//! This crate is for services that send traces, and must not send more than N per second. For `opentelemetry` and
//! `opentelemetry_sdk` **0.33**.
//!
//! ```
//! use flowgate_otel::RateLimitingSampler;
//! use opentelemetry::trace::{Tracer, TracerProvider};
//! use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
//!
//! // At most 10 traces per second. Spans of a trace that began elsewhere follow the decision made there.
//! let sampler = RateLimitingSampler::new("10/s".parse()?);
//! let provider = SdkTracerProvider::builder()
//!     .with_sampler(Sampler::parent_based(sampler))
//!     .build();
//!
//! provider.tracer("shop").in_span("checkout", |_context| {
//!     // …
//! });
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! # Limit the number of traces
//!
//! | type | decides | result |
//! |---|---|---|
//! | [`RateLimitingSampler`] | when a trace begins | never more than the limit |
//! | [`TargetRateSampler`] | when a trace begins | about the rate, by probability |
//! | [`RateLimitedProcessor`] | when a span ends | never more than the limit |
//! | [`RateLimitedExporter`] | when a batch is sent | never more than the limit |
//!
//! - *Never more than the limit*: in any interval of length *t*, at most `burst + rate × t` traces or spans
//!   ([never over-admits](https://docs.rs/flowgate/latest/flowgate/guide/guarantees/#never-over-admits-c1)).
//! - `RateLimitingSampler` limits cost. It takes the first traces that come, so it rarely sees a rare kind of request.
//! - `TargetRateSampler` chooses by the trace's id. Numbers computed from its traces can be scaled up, and services agree on
//!   the traces that they choose.
//! - The limits on spans are a safety net behind a sampler. They cut through traces, and count the spans that they drop.
//!
//! # Limit the number of spans
//!
//! ```
//! use flowgate_otel::{RateLimitedProcessor, TargetRateSampler};
//! use opentelemetry_sdk::trace::{
//!     BatchSpanProcessor, InMemorySpanExporter, Sampler, SdkTracerProvider,
//! };
//!
//! let exporter = InMemorySpanExporter::default(); // or that of opentelemetry-otlp
//! let batches = BatchSpanProcessor::builder(exporter).build();
//! let reporting = RateLimitedProcessor::new(batches, "5000/s".parse()?);
//! let counts = reporting.counts();
//! let provider = SdkTracerProvider::builder()
//!     .with_sampler(Sampler::parent_based(TargetRateSampler::new("100/s".parse()?)))
//!     .with_span_processor(reporting)
//!     .build();
//! # drop(provider);
//! println!("{} spans were not reported", counts.dropped());
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! # Limits of your own
//!
//! Instead of a quota, `with_limit` takes any [`flowgate::ImmediateLimit`]: another algorithm, a limit that several parts of the
//! program share, or an implementation of that trait. [`RateLimitingSampler`], [`RateLimitedProcessor`] and
//! [`RateLimitedExporter`] have it.
//!
//! # Change while it is in use
//!
//! Each of the four has a method `controls`, which returns a handle to change its quota, and to turn its limit off and on:
//! [`SamplerControls`], and [`ReportControls`], which can exempt spans, too.
//!
//! ```
//! use flowgate_otel::RateLimitingSampler;
//! use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
//!
//! let sampler = RateLimitingSampler::new("10/s".parse()?);
//! let controls = sampler.controls(); // for the task that reloads the configuration
//! let provider = SdkTracerProvider::builder()
//!     .with_sampler(Sampler::parent_based(sampler))
//!     .build();
//! # drop(provider);
//!
//! controls.set_quota("1/s".parse()?); // for the traces that begin from now on
//! controls.set_enabled(false); // sample everything
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! # Metrics of limiters
//!
//! Observable instruments of a meter read the counts whenever they are collected:
//!
//! - [`register_metrics`]: what a [`flowgate::Observed`] limiter, gate or table of keys counts. Admitted and refused operations with
//!   the reasons, waiters, and how long they waited.
//! - [`register_adaptive_metrics`]: the limit, the baseline and the overloads of a [`flowgate::AdaptiveLimit`].
//! - [`register_key_metrics`]: how often a table of keys was full.
//! - `register_fleet_metrics` (feature `fleet`): decisions, calls, outages and the possible excess of a limit of flowgate-fleet.
//! - `register_layer_metrics` (feature `tower`): what a layer of flowgate-tower counts, by class and reason.
//!
//! # `Sampler::parent_based`, not `Sampler::ParentBased`
//!
//! A sampler of this crate decides for every span. To keep traces complete, wrap it in `Sampler::parent_based`, so that it
//! decides only for spans that begin a trace. `Sampler::ParentBased(Box::new(sampler))` works as well, but it discards the
//! attributes and the trace state that explain why a trace was sampled.
//!
//! # Defaults
//!
//! | setting | default | set by |
//! |---|---|---|
//! | burst of traces | the traces of one second, rounded down, at least 1 | [`RateLimitingSampler::new`] |
//! | half-life of the measured load | 500 ms | [`TargetRateSampler::half_life`] |
//! | first probability | 1, until the rate for one half-life is used | [`TargetRateSampler`] |
//! | choice of traces | as `Sampler::TraceIdRatioBased` | [`TargetRateSampler::consistent`] |
//! | attributes | `sampler.type`, `sampler.param`, as in Jaeger's clients | |
//! | burst of spans | the quota's burst, or its count | [`RateLimitedProcessor::new`] |
//! | spans exempt from the limit | none | [`RateLimitedProcessor::exempt`] |
//! | spans carry the number of dropped spans | no | [`RateLimitedProcessor::annotate`] |
//! | clock | [`flowgate::Clock::system`] | |
//!
//! No part starts a thread. Every limit of a quota is a [`flowgate::TokenBucket`].
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `fleet` | no | `register_fleet_metrics`, for limits of flowgate-fleet |
//! | `tower` | no | `register_layer_metrics`, for layers of flowgate-tower |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/flowgate-otel/0.1.0")]

mod attributes;
mod exporter;
mod limit;
mod metrics;
mod processor;
mod rate_limiting;
mod reporting;
mod sampler_controls;
mod target_rate;

pub use attributes::{DROPPED_SPANS, SAMPLER_PARAM, SAMPLER_TYPE};
pub use exporter::RateLimitedExporter;
#[cfg(feature = "fleet")]
pub use metrics::register_fleet_metrics;
#[cfg(feature = "tower")]
pub use metrics::register_layer_metrics;
pub use metrics::{register_adaptive_metrics, register_key_metrics, register_metrics};
pub use processor::RateLimitedProcessor;
pub use rate_limiting::RateLimitingSampler;
pub use reporting::{ReportControls, ReportCounts};
pub use sampler_controls::SamplerControls;
pub use target_rate::TargetRateSampler;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
