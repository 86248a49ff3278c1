//! The default clock: the time stamp counter if it is reliable, and otherwise the OS clock.

#[cfg(all(
    feature = "tsc",
    target_arch = "x86_64",
    target_os = "linux",
    not(flowgate_loom)
))]
pub(super) use super::tsc::{now_ns, now_ns_in_order};

#[cfg(not(all(
    feature = "tsc",
    target_arch = "x86_64",
    target_os = "linux",
    not(flowgate_loom)
)))]
pub(super) use super::os::{now_ns, now_ns as now_ns_in_order};
