//! Lower bound: the minimum cost of an exact decision on shared state. One `rdtsc`, one load, one compare-and-swap;
//! times in raw ticks, no conversion, no error value, no reconfiguration. No application can use these. They show how
//! much of a limiter's cost is its own.

use std::sync::atomic::{AtomicU64, Ordering};

use portable_atomic::AtomicU128;

use super::{Case, Limit};
use crate::tsc;

/// GCRA over one 64-bit word.
struct Ideal64 {
    tat: AtomicU64,
    cost: u64,
    tolerance: u64,
}

impl Ideal64 {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = tsc::now();
        let mut tat = self.tat.load(Ordering::Relaxed);
        loop {
            let next = tat.max(now) + self.cost;
            if next > now + self.tolerance {
                return false;
            }
            match self
                .tat
                .compare_exchange_weak(tat, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(seen) => tat = seen,
            }
        }
    }
}

/// The same over one 128-bit word: what the wider compare-and-swap alone costs.
struct Ideal128 {
    tat: AtomicU128,
    cost: u128,
    tolerance: u128,
}

impl Ideal128 {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = u128::from(tsc::now());
        let mut tat = self.tat.load(Ordering::Relaxed);
        loop {
            let next = tat.max(now) + self.cost;
            if next > now + self.tolerance {
                return false;
            }
            match self
                .tat
                .compare_exchange_weak(tat, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(seen) => tat = seen,
            }
        }
    }
}

pub fn cases(limit: Limit) -> Vec<Case> {
    let spacing_ns = limit.period.as_nanos() as f64 / f64::from(limit.count);
    let cost = (spacing_ns * tsc::per_ns()).ceil() as u64;
    let tolerance = cost * u64::from(limit.burst);
    let narrow = Ideal64 {
        tat: AtomicU64::new(0),
        cost,
        tolerance,
    };
    let wide = Ideal128 {
        tat: AtomicU128::new(0),
        cost: u128::from(cost),
        tolerance: u128::from(tolerance),
    };
    vec![
        Case::new(
            "ideal: rdtsc + 64-bit CAS",
            limit.traffic,
            narrow,
            Ideal64::try_acquire,
        ),
        Case::new(
            "ideal: rdtsc + 128-bit CAS",
            limit.traffic,
            wide,
            Ideal128::try_acquire,
        ),
    ]
}
