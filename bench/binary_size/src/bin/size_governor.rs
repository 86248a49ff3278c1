//! One limiter of governor, asked once.

use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;
use std::process::ExitCode;

const RATE: NonZeroU32 = NonZeroU32::new(100).unwrap();
const BURST: NonZeroU32 = NonZeroU32::new(20).unwrap();

fn main() -> ExitCode {
    let limiter = RateLimiter::direct(Quota::per_second(RATE).allow_burst(BURST));
    ExitCode::from(u8::from(limiter.check().is_err()))
}
