//! Tests of the simulator: closed forms of queueing theory, the same bits each time, clients, faults, limiters, logs, and storms.

mod bounds;
mod clients;
mod closed_forms;
mod faults;
mod golden;
mod limiters;
mod logs;
mod oracles;
mod overload;
mod retry_storm;
mod scenarios;
mod suggestions;
mod weights;
