//! Tests of the simulator: closed forms of queueing theory, the same bits each time, clients, faults, and limiters.

mod clients;
mod closed_forms;
mod faults;
mod limiters;
mod scenarios;
