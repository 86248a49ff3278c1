//! Tests of the layers, in process and over real sockets.

mod adaptive;
mod axum;
mod client;
mod client_pairs;
mod client_servers;
mod client_throttle;
mod custom;
mod decisions;
mod examples;
mod fields;
mod fleet;
mod forwarding;
mod grpc;
mod keyed_gate;
mod layer;
mod live;
mod misconfigured;
mod overload;
mod priority;
mod refusal;
mod support;
mod tonic;
mod two_quotas;
mod wrk;
