//! What one writes without a library: a floating-point level and the last time, in a
//! `std::sync::Mutex`.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{Case, Limit};

struct Bucket {
    tokens_per_s: f64,
    burst: f64,
    level: Mutex<(f64, Instant)>,
}

impl Bucket {
    fn try_acquire(&self) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (tokens, last) = *level;
        let earned = now.duration_since(last).as_secs_f64() * self.tokens_per_s;
        let tokens = (tokens + earned).min(self.burst);
        let admitted = tokens >= 1.0;
        *level = (if admitted { tokens - 1.0 } else { tokens }, now);
        admitted
    }
}

pub fn case(limit: Limit) -> Case {
    let bucket = Bucket {
        tokens_per_s: f64::from(limit.count) / limit.period.as_secs_f64(),
        burst: f64::from(limit.burst),
        level: Mutex::new((f64::from(limit.burst), Instant::now())),
    };
    Case::new("std Mutex<f64>", limit.traffic, bucket, Bucket::try_acquire)
}
