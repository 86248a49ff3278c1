//! Tests of samplers, reporting and metrics in a real tracer provider. `allocations` is a process of its own.

mod collector;
mod controls;
mod given;
mod metrics;
mod rate_limiting;
mod reporting;
mod sampled_service;
mod target_rate;
