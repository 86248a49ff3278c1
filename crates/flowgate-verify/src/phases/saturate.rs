//! How many per second, asked for three times as many?

use fastrand::Rng;

use crate::inquiry::{Inquiry, count};
use crate::{Outcome, Phase, Subject};

/// Of what came back, so much is asked for.
const TIMES_THE_RATE: f64 = 3.0;

/// So many admissions give the rate to half a per cent.
const ADMISSIONS: f64 = 200.0;

/// A second of a fast limiter is as cheap, and longer than answers take.
const LEAST_NS: f64 = 1e9;

/// So many parts: a stream that is refused as a whole is noticed early, and one that is mostly admitted, too.
const PARTS: u32 = 4;

/// So often it may turn out that more can be asked for.
const RAISES: u32 = 6;

/// A window gives nothing until as much time has passed as a burst takes to come back; twice that long is too long.
const BARREN_BURSTS: f64 = 2.0;

/// A stream of more than the rate.
pub(crate) struct Stream {
    /// In the record, from here to the end.
    pub(crate) from: usize,
    /// Whether after some time nothing was admitted any more.
    pub(crate) dried_up: bool,
}

/// Asks for more than `rate`, for long enough to see it, and some of the windows that a limit of `burst` would make.
pub(crate) fn saturate<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    mut rate: f64,
    burst: f64,
    rng: &mut Rng,
) -> Result<Stream, S::Error> {
    let longest = inquiry.time_left_ns() as f64 * 0.35 / f64::from(PARTS);
    let most = inquiry.requests_left() as f64 / 3.0 / f64::from(PARTS);
    let mut stream = Stream {
        from: inquiry.record().len(),
        dried_up: false,
    };
    let (mut parts, mut raises, mut barren) = (0, 0, 0.0);
    while parts < PARTS {
        let offered = TIMES_THE_RATE * rate;
        let wanted = (ADMISSIONS / rate).max(3.5 * burst / rate).max(LEAST_NS);
        let time = (wanted / f64::from(PARTS)).min(longest);
        let n = (offered * time).min(most) as usize;
        let mut at = inquiry.now_ns() as f64;
        let times: Vec<f64> = (0..n)
            .map(|_| {
                at += (0.5 + rng.f64()) / offered;
                at
            })
            .collect();
        let lanes = inquiry.lanes_for(offered);
        let answers = inquiry.ask_at(Phase::Saturate, &times, lanes, 0)?;
        let (asked, admitted) = (
            answers.len() as f64,
            count(answers, Outcome::Admitted) as f64,
        );
        if asked == 0.0 {
            break;
        }
        barren = if admitted == 0.0 { barren + asked } else { 0.0 };
        if barren > TIMES_THE_RATE * BARREN_BURSTS * burst.max(5.0) {
            stream.dried_up = true;
            break;
        }
        if admitted > 0.5 * asked && raises < RAISES {
            rate *= 2.0;
            raises += 1;
            parts = 0;
            stream.from = inquiry.record().len();
        } else {
            parts += 1;
        }
    }
    Ok(stream)
}
