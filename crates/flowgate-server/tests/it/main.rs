//! Tests of the configuration, the decisions and the doors.

mod admin;
mod bounds;
mod config;
mod daemon;
mod decisions;
mod doors;
mod envoy;
mod examples;
mod grpc;
mod leases;
mod programs;
mod reload;
mod resp;
mod rlqs;
mod rpc;
mod state;
mod store;
mod support;
mod tls;
mod traces;
