//! Tests of the layers, in process and over real sockets.

mod axum;
mod client;
mod client_pairs;
mod client_servers;
mod examples;
mod fields;
mod forwarding;
mod grpc;
mod layer;
mod live;
mod misconfigured;
mod refusal;
mod support;
mod tonic;
mod wrk;
