//! tokio's paused clock: it advances when every task waits, or by hand.

use tokio::runtime::{Builder, Runtime};

/// A runtime of one thread whose clock starts stopped.
///
/// # Panics
///
/// If the operating system has no room for one.
pub fn runtime() -> Runtime {
    build(true)
}

/// One whose clock goes by itself.
///
/// # Panics
///
/// As [`runtime`].
pub fn not() -> Runtime {
    build(false)
}

fn build(start_paused: bool) -> Runtime {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(start_paused).build();
    runtime.expect("a runtime without I/O needs nothing but memory")
}
