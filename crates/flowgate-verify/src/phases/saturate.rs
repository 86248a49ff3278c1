//! How many requests per second are admitted when three times as many are sent?

use fastrand::Rng;

use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{Phase, ProbeOutcome};

/// Multiple of the rate that is offered.
const TIMES_THE_RATE: f64 = 3.0;

/// Number of admissions that determine the rate to 0.5 %.
const ADMISSIONS: f64 = 200.0;

/// A fast limiter is observed for at least one second: that is cheap, and longer than responses take.
const LEAST_NS: f64 = 1e9;

/// Number of parts of the stream. A stream that is refused entirely, or mostly admitted, is noticed early.
const PARTS: u32 = 4;

/// Number of times that the offered rate may be raised.
const RAISES: u32 = 6;

/// A window admits nothing until its refill time has passed. Nearly twice that time is too long.
const BARREN_REFILLS: f64 = 1.9;

/// Share of the refill time, as it was seen, after which a window should admit again.
const REFILLED: f64 = 0.6;

/// A stream that takes this many times as long as planned is as fast as the server can respond: a higher rate would only make
/// requests wait for it.
const BEHIND: f64 = 1.25;

/// A stream of more than the rate.
pub(crate) struct Stream {
    /// Start of the stream in the record.
    pub(crate) from: usize,
    /// Whether the limiter stopped admitting during the stream.
    pub(crate) dried_up: bool,
    /// Whether nothing of it was admitted, for long enough to refill some.
    pub(crate) is_barren: bool,
}

/// Sends more than `rate` for long enough to measure it, and for several windows of a limit of `burst`.
pub(crate) fn saturate(
    inquiry: &mut Inquiry<'_>,
    mut rate: f64,
    burst: f64,
    rng: &mut Rng,
) -> Result<Stream, Unreachable> {
    let longest = inquiry.time_left_ns() as f64 * 0.35 / f64::from(PARTS);
    let most = inquiry.requests_left() as f64 / 3.0 / f64::from(PARTS);
    let mut stream = Stream {
        from: inquiry.record().len(),
        dried_up: false,
        is_barren: false,
    };
    // The rate may be raised to more than it is, and its refill time stays.
    let refill_ns = burst.max(5.0) / rate;
    let (mut parts, mut raises, mut barren_ns) = (0, 0, 0.0);
    while parts < PARTS {
        let offered = TIMES_THE_RATE * rate;
        let wanted = (ADMISSIONS / rate).max(3.5 * burst / rate).max(LEAST_NS);
        let time = (wanted / f64::from(PARTS)).min(longest);
        let n = (offered * time).min(most) as usize;
        let began_ns = inquiry.now_ns();
        let mut at = began_ns as f64;
        let times: Vec<f64> = (0..n)
            .map(|_| {
                at += (0.5 + rng.f64()) / offered;
                at
            })
            .collect();
        let connections = inquiry.connections_for(offered);
        let answers = inquiry.ask_at(Phase::Saturate, &times, connections, 0)?;
        let (asked, admitted) = (
            answers.len() as f64,
            count(answers, ProbeOutcome::Admitted) as f64,
        );
        let Some(last) = answers.last() else { break };
        let took = (last.sent_ns - began_ns) as f64;
        let is_behind = took > BEHIND * (at - began_ns as f64);
        barren_ns = if admitted == 0.0 {
            barren_ns + took
        } else {
            0.0
        };
        if barren_ns > BARREN_REFILLS * refill_ns {
            stream.dried_up = true;
            break;
        }
        if admitted > 0.5 * asked && raises < RAISES && !is_behind {
            rate *= 2.0;
            raises += 1;
            parts = 0;
            stream.from = inquiry.record().len();
        } else {
            parts += 1;
        }
    }
    let whole = &inquiry.record()[stream.from..];
    let is_long = raises == 0 && barren_ns > REFILLED * refill_ns;
    stream.is_barren = is_long && count(whole, ProbeOutcome::Admitted) == 0;
    Ok(stream)
}
