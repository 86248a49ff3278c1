//! Lower bounds: no limiter, and one compare-and-swap.

use std::sync::atomic::{AtomicU64, Ordering};

use flowgate::Unlimited;
use flowgate_bench::cases::{Case, Traffic};

use super::with_room;
use crate::section::CAS;

pub fn cases() -> Vec<Case> {
    vec![
        with_room("Unlimited", Unlimited::new),
        Case::built(CAS, Traffic::Admit, AtomicU64::default, count),
    ]
}

/// One load and one compare-and-swap. That of several threads only one succeeds is not repaired.
#[inline]
fn count(word: &AtomicU64) -> bool {
    let seen = word.load(Ordering::Relaxed);
    let next = seen.wrapping_add(1);
    let _ = word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed);
    true
}
