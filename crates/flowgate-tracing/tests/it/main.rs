//! Tests of the filter under a real subscriber. `allocations` is a process of its own.

mod controls;
mod filter;
mod given;
mod log;
mod log_lines;
mod silence;
