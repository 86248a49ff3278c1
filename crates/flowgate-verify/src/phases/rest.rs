//! Is the limiter unchanged after a long rest, and under a much higher load?

use fastrand::Rng;

use crate::Phase;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable};

/// Share of the remaining time that the rest and the stream after it may use.
const SHARE: f64 = 0.1;

/// Multiple of the rate that is offered, until this many bursts refilled or `LEAST` requests were sent.
const TIMES_THE_RATE: f64 = 8.0;
const TOKENS: f64 = 16.0;
const FEWEST_TOKENS: f64 = 3.0;

/// Rests, then sends a full burst and much more.
pub(crate) fn rest(inquiry: &mut Inquiry<'_>, fit: &Fit, rng: &mut Rng) -> Result<(), Unreachable> {
    let rate = fit.model.rate() / 1e9;
    let share = inquiry.time_left_ns() as f64 * SHARE;
    let tokens = TOKENS.min(share * rate);
    let n = TIMES_THE_RATE * (tokens + fit.model.burst() / (TIMES_THE_RATE - 1.0));
    if tokens < FEWEST_TOKENS || n > inquiry.requests_left() as f64 / 8.0 {
        return Ok(());
    }
    let offered = TIMES_THE_RATE * rate;
    let mut at = inquiry.now_ns() as f64 + share;
    let times: Vec<f64> = (0..n as u64)
        .map(|_| {
            at += (0.5 + rng.f64()) / offered;
            at
        })
        .collect();
    let connections = inquiry.connections_for(offered);
    inquiry.ask_at(Phase::Refill, &times, connections, 0)?;
    Ok(())
}
