//! Rates for [OpenTelemetry](https://docs.rs/opentelemetry_sdk) traces: so many a second, however busy the service is.
//!
//! For `opentelemetry` and `opentelemetry_sdk` **0.33**.
//!
//! ```
//! use flowgate_otel::RateLimitingSampler;
//! use opentelemetry::trace::{Tracer, TracerProvider};
//! use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
//!
//! // At most 10 traces a second; what belongs to a trace that was begun elsewhere follows the decision made there.
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
//! # Which one
//!
//! | | decides | promises |
//! |---|---|---|
//! | [`RateLimitingSampler`] | when a trace begins | **never more** than burst + rate · t traces, on any load: the first that come |
//! | [`TargetRateSampler`] | when a trace begins | **about** the rate, soon after the load has changed: a fair share of all that come, with its probability |
//! | [`RateLimitedProcessor`] | when a span ends | never more than burst + rate · t spans go on to a processor; the others are counted |
//! | [`RateLimitedExporter`] | when a batch is sent | never more than burst + rate · t spans go on to an exporter; the others are counted |
//!
//! The first takes whatever comes when there is a token, so a service that is asked evenly for 100 pages and once for
//! the hundred-and-first sees the latter rarely. It bounds cost. The second picks by the trace's id, so numbers that
//! are computed from what was picked can be scaled up, and services agree on what they pick. A limit on reporting is
//! the safety net under either: it cuts through traces, and says how much.
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
//! # Change while it is in use
//!
//! Each of the four has a method `controls`, which returns a handle to change its quota, and to turn its limit off and on:
//! [`SamplerControls`], and [`ReportControls`], which can exempt spans, too.
//!
//! # Metrics of limiters
//!
//! - [`register_metrics`]: what a [`flowgate::Observed`] limiter counts, as observable instruments of a meter: what was
//!   admitted, what was refused and why, who waits and how long they had to.
//!
//! # `Sampler::parent_based`, not `Sampler::ParentBased`
//!
//! A sampler of this crate decides for every span that it is asked about. So that a trace is whole, it is asked only
//! for those that begin one: wrap it. `Sampler::ParentBased(Box::new(sampler))` works as well, but that one throws away
//! the attributes and the trace state of the sampler in it, and so what says why a trace was sampled.
//!
//! # Defaults
//!
//! | setting | default | says |
//! |---|---|---|
//! | traces at once | those of one second, rounded down, and at least 1 | [`RateLimitingSampler::new`] |
//! | load is remembered | 500 ms, by half | [`TargetRateSampler::half_life`] |
//! | probability to begin with | 1, until as many have come as the rate allows in that time | [`TargetRateSampler`] |
//! | picked as | `Sampler::TraceIdRatioBased` does | [`TargetRateSampler::consistent`] |
//! | attributes | `sampler.type` and `sampler.param`, as Jaeger's clients set them | |
//! | spans reported at once | the quota's burst, or its count | [`RateLimitedProcessor::new`] |
//! | reported beyond the limit | nothing | [`RateLimitedProcessor::exempt`] |
//! | spans say how many were dropped | no | [`RateLimitedProcessor::annotate`] |
//! | clock | [`flowgate::Clock::system`] | |
//!
//! No part has a thread, and the limits are [`flowgate::TokenBucket`]s: none of this crate's own.
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/flowgate-otel/0.1.0")]

mod attributes;
mod exporter;
mod metrics;
mod processor;
mod rate_limiting;
mod reporting;
mod sampler_controls;
mod target_rate;

pub use attributes::{DROPPED_SPANS, SAMPLER_PARAM, SAMPLER_TYPE};
pub use exporter::RateLimitedExporter;
pub use metrics::register_metrics;
pub use processor::RateLimitedProcessor;
pub use rate_limiting::RateLimitingSampler;
pub use reporting::{ReportControls, ReportCounts};
pub use sampler_controls::SamplerControls;
pub use target_rate::TargetRateSampler;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
