//! Tests of the simulator: closed forms of queueing theory, the same bits each time, clients, faults, limiters, and retry storms.

mod clients;
mod closed_forms;
mod faults;
mod golden;
mod limiters;
mod retry_storm;
mod scenarios;
