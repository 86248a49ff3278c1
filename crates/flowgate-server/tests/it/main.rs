//! Tests of the configuration, the decisions and the doors.

mod admin;
mod bounds;
mod config;
mod decisions;
mod doors;
mod examples;
mod programs;
mod reload;
mod resp;
mod state;
mod store;
mod support;
mod tls;
