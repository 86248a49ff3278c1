//! The subjects of `flowgate-bench single`.
//!
//! They are a crate of their own, apart from those of `types`, because the compiler decides by the
//! number of callers in a crate whether a decision is inlined: what `types` measures must not change
//! what `single` does.

pub mod cases;
#[cfg(target_arch = "x86_64")]
mod tsc;
