//! One token bucket, asked once.

use flowgate::{Quota, TokenBucket};
use std::process::ExitCode;

fn main() -> ExitCode {
    let limiter = TokenBucket::new(Quota::per_second(100).burst(20));
    ExitCode::from(u8::from(limiter.try_acquire().is_err()))
}
