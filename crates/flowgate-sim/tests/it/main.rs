//! Tests of the simulator: closed forms of queueing theory, the same bits each time, clients, faults, and limiters.

mod bounds;
mod clients;
mod closed_forms;
mod faults;
mod golden;
mod limiters;
mod oracles;
mod scenarios;
mod suggestions;
