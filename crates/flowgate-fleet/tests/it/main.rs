//! Tests with a real store.

mod all;
mod bound;
mod cluster;
mod faults;
mod keyed;
mod leased;
mod local;
mod metrics;
mod network;
mod operate;
#[cfg(target_os = "linux")]
mod partition;
mod sentinel;
mod servers;
mod settings;
mod slow;
mod strict;
mod support;
mod tls;
mod windows;
