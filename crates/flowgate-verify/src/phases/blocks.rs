//! Does a limiter admit nothing for a time once its limit is used up? From what is that time counted? Uses the limit up
//! again and again: in one burst, or with pauses before the last admissions and before the first refusal.

use crate::blocks::{Blocks, CLEAR, Missing};
use crate::inquiry::{Inquiry, Unreachable, count};
use crate::{Phase, ProbeOutcome};

/// Share of the remaining time that this phase may use.
const SHARE: f64 = 0.95;

/// Maximum number of blocks that are provoked.
const CYCLES: u32 = 16;

/// Number of requests that may be refused during one block.
const REFUSED: u32 = 24;

/// A pause is this share of the length. It is shorter if the limit does not hold for as long.
const PAUSE: f64 = 0.25;
const SHORTER: f64 = 0.3;

/// A pause tells lengths apart whose range is this many times narrower.
const CLEARLY: f64 = 1.2 * CLEAR;

/// A request is late in a block after this share of its length.
const LATE: f64 = 0.8;

/// The length is known if its range is narrower than this share.
const FINE: f64 = 0.02;

/// After the end of a block, as a share of its length, and in nanoseconds.
const AFTER: f64 = 0.003;
const AFTER_NS: f64 = 2e6;

/// A stream of which nothing is refused has these many times the distance at which a limit that is as long as the block
/// would admit everything.
const APART: f64 = 1.1;

/// Batches of more than this many requests use more connections.
const ON_ONE_CONNECTION: u64 = 64;

/// Uses the limit up until it is known from what a block is counted, or no block explains the responses. Returns a rate per
/// second of which nothing was refused, if one was found.
pub(crate) fn blocks(inquiry: &mut Inquiry<'_>) -> Result<Option<f64>, Unreachable> {
    let from_ns = inquiry.now_ns();
    let until_ns = from_ns + (inquiry.time_left_ns() as f64 * SHARE) as u64;
    let mut pause = PAUSE;
    for _ in 0..CYCLES {
        let fine = FINE.min(pause / (2.0 * CLEARLY));
        if !wait_for_the_end(inquiry, from_ns, until_ns, fine)? {
            return Ok(None);
        }
        let Some(known) = Blocks::of(inquiry.record()) else {
            return Ok(None);
        };
        let is_fine = known.only().is_some_and(|(_, range)| !is_wide(range, FINE));
        if is_fine && known.missing(from_ns).is_none() {
            return steadily(inquiry, &known, until_ns);
        }
        pause = pause.min(known.longest_pause());
        provoke(inquiry, &known, from_ns, &mut pause)?;
    }
    Ok(None)
}

/// Returns whether the range of lengths is wider than this share of the length.
fn is_wide((least, most): (f64, f64), share: f64) -> bool {
    most - least > share * least + 2.0 * AFTER_NS
}

/// Waits until a request is admitted. Returns whether one was.
fn wait_for_the_end(
    inquiry: &mut Inquiry<'_>,
    from_ns: u64,
    until_ns: u64,
    fine: f64,
) -> Result<bool, Unreachable> {
    for asked in 0..REFUSED {
        let Some(known) = Blocks::of(inquiry.record()) else {
            return Ok(false);
        };
        let is_late = asked == 0 && known.missing(from_ns) == Some(Missing::Late);
        let service = 2.0 * inquiry.service_ns() as f64;
        let at = match late(&known).filter(|_| is_late) {
            Some(at) => at,
            None => next(&known, service, fine),
        };
        let at = at.max(inquiry.now_ns() as f64);
        if at >= until_ns as f64 {
            return Ok(false);
        }
        let answers = inquiry.ask_at(Phase::Refill, &[at], 1, 0)?;
        match answers.first() {
            None => return Ok(false),
            Some(answer) if answer.outcome == ProbeOutcome::Admitted => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Returns a time late in the block, if it is known from what that is counted.
fn late(known: &Blocks) -> Option<f64> {
    let mut possible = known.possible();
    let (since, (least, _)) = possible.next().filter(|_| possible.next().is_none())?;
    let start = known.blocks.last()?.start(since, known.limit)?;
    Some(start.from + LATE * least)
}

/// Returns when to send the next request: between the ends that are possible, so that its response excludes some. A range
/// is narrow if it is below the share `fine` of the length.
fn next(known: &Blocks, service: f64, fine: f64) -> f64 {
    let Some(last) = known.blocks.last() else {
        return 0.0;
    };
    let ends = known.possible().filter_map(|(since, (least, most))| {
        let start = last.start(since, known.limit)?;
        let most = most.min(4.0 * least.max(1e6));
        Some((start.from + least, start.to + most, least))
    });
    let mut ends: Vec<(f64, f64, f64)> = ends.collect();
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(&(from, to, length)) = ends.first() else {
        return 0.0;
    };
    // Those that overlap the first one end together with it.
    let (mut from, mut to) = (from, to);
    let after = |to: f64| to + service + AFTER_NS + AFTER * length;
    let mut later = f64::INFINITY;
    for &(other_from, other_to, _) in &ends[1..] {
        if other_from <= after(to) {
            (from, to) = (from.min(other_from), to.max(other_to));
        } else {
            later = later.min(other_from);
        }
    }
    if to - from > fine * length + 2.0 * AFTER_NS + service {
        return (from + to) / 2.0;
    }
    match later.is_finite() {
        true => (to + later) / 2.0,
        false => after(to),
    }
}

/// Uses the limit up, of which one request was just admitted. `pause` is a share of the length.
fn provoke(
    inquiry: &mut Inquiry<'_>,
    known: &Blocks,
    from_ns: u64,
    pause: &mut f64,
) -> Result<(), Unreachable> {
    let more = known.limit.saturating_sub(1);
    let (least, most) = known.range();
    let rest = *pause * least;
    let is_clear = CLEARLY * (most - least) <= rest;
    if is_clear && known.missing(from_ns) == Some(Missing::Pauses) {
        let at = inquiry.now_ns() as f64 + rest;
        send(inquiry, at, more)?;
        let at = inquiry.now_ns() as f64 + rest;
        if send(inquiry, at, 1)? > 0 {
            return Ok(());
        }
        // The limit did not hold for as long.
        *pause *= SHORTER;
    }
    for n in [more, 1, known.limit, 1, known.limit, 1] {
        let now = inquiry.now_ns() as f64;
        if send(inquiry, now, n)? > 0 {
            break;
        }
    }
    Ok(())
}

/// Sends up to `n` requests in one burst. Returns the number of refusals.
fn send(inquiry: &mut Inquiry<'_>, at: f64, n: u64) -> Result<u64, Unreachable> {
    let connections = u32::try_from(n / ON_ONE_CONNECTION)
        .unwrap_or(u32::MAX)
        .max(1);
    let answers = inquiry.ask_at(Phase::Refill, &vec![at; n as usize], connections, 0)?;
    Ok(count(answers, ProbeOutcome::Refused))
}

/// Sends more than the limit at a constant distance. Returns the rate per second if all was admitted. One was admitted
/// just before.
fn steadily(
    inquiry: &mut Inquiry<'_>,
    known: &Blocks,
    until_ns: u64,
) -> Result<Option<f64>, Unreachable> {
    let (_, most) = known.range();
    let apart = APART * most / known.limit as f64;
    let at = inquiry.now_ns() as f64;
    let times: Vec<f64> = (1..=known.limit + 1)
        .map(|k| at + k as f64 * apart)
        .collect();
    let last = times.last().copied().unwrap_or(f64::INFINITY);
    if last >= until_ns as f64 || times.len() as u64 > inquiry.requests_left() {
        return Ok(None);
    }
    let answers = inquiry.ask_at(Phase::Steady, &times, 1, 0)?;
    let is_admitted = answers.len() == times.len()
        && count(answers, ProbeOutcome::Admitted) == answers.len() as u64;
    let took = match answers {
        [first, .., last] => last.answered_ns.saturating_sub(first.sent_ns) as f64,
        _ => return Ok(None),
    };
    let rate = (answers.len() - 1) as f64 / took * 1e9;
    Ok(is_admitted.then_some(rate))
}
