//! Tests of the configuration, the decisions and the doors.

mod config;
mod decisions;
mod doors;
mod envoy;
mod examples;
mod grpc;
mod programs;
mod reload;
mod resp;
mod rpc;
mod support;
