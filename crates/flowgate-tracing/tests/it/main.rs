//! Tests of the filter under a real subscriber. `allocations` is a process of its own.

mod buffer;
mod filter;
mod log_lines;
