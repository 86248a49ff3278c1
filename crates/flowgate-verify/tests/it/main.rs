//! Tests of what verification concludes from the answers of a limiter.

mod busy;
mod defects;
mod lost;
