//! Tests of the configuration, the decisions and the doors.

mod config;
mod decisions;
mod doors;
mod examples;
mod programs;
mod reload;
mod resp;
mod support;
