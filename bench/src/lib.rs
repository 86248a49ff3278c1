//! The subjects of `flowgate-bench single`.
//!
//! They form a separate crate from those of `types`. The compiler decides whether to inline a decision by the number of
//! callers in a crate, and the contents of `types` must not affect `single`.

pub mod cases;
#[cfg(target_arch = "x86_64")]
mod tsc;
