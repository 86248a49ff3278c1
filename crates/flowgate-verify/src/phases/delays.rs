//! Are requests delayed instead of refused? A request that is sent alone, after a rest in which every queue drains, is late
//! only then. After how many requests, and for how long?

use crate::delays::{Late, Window, length, windows};
use crate::inquiry::{Inquiry, Unreachable, took_ns};
use crate::{Observation, Phase, ProbeOutcome};

/// Number of requests that are sent alone, unless the first one takes as long as those before.
const ALONE: u32 = 2;

/// The rest before each of these, in response times of the slowest.
const REST: f64 = 1.1;
const REST_NS: f64 = 1e6;

/// Number of late responses that are looked at.
const RECENT: usize = 8;

/// Share of the remaining time in which the end of a window is looked for.
const SHARE: f64 = 0.9;

/// Number of requests that look for the end of a window together, each over a connection of its own.
const POLLS: u32 = 6;

/// The first time, they are this share of the time since the window began apart.
const RARER: f64 = 0.1;

/// Number of windows that are used up, and the relative uncertainty of their length that suffices.
const CYCLES: u32 = 6;
const CLOSE: f64 = 0.01;

/// Number of requests that are sent one after the other before their responses are looked at.
const IN_A_ROW: u64 = 8;

/// Returns whether requests are late that nothing else delays.
pub(crate) fn is_late_alone(inquiry: &mut Inquiry<'_>, late: Late) -> Result<bool, Unreachable> {
    for _ in 0..ALONE {
        let record = inquiry.record();
        let recent = &record[record.len().saturating_sub(RECENT)..];
        let longest_ns = recent.iter().map(took_ns).max().unwrap_or(0);
        let at = inquiry.now_ns() as f64 + REST * longest_ns as f64 + REST_NS;
        let answers = inquiry.ask_at(Phase::Burst, &[at], 1, 0)?;
        let is_late = |seen: &&Observation| seen.outcome == ProbeOutcome::Admitted && late.is(seen);
        let Some(alone) = answers.first().filter(is_late) else {
            return Ok(false);
        };
        if late.is_like_others(alone) {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Waits until requests are prompt again, and uses up a few windows, to find their length and what each one admits
/// promptly.
pub(crate) fn delays(inquiry: &mut Inquiry<'_>, late: Late) -> Result<(), Unreachable> {
    let until_ns = inquiry.now_ns() + (inquiry.time_left_ns() as f64 * SHARE) as u64;
    let Some(began_ns) = inquiry.record().first().map(|first| first.sent_ns) else {
        return Ok(());
    };
    let seen = windows(inquiry.record(), late).len();
    while windows(inquiry.record(), late).len() == seen {
        let mut at = inquiry.now_ns() as f64;
        let times = [(); POLLS as usize].map(|()| {
            at += (at - began_ns as f64) * RARER;
            at
        });
        if !poll(inquiry, &times, until_ns)? {
            return Ok(());
        }
    }
    for _ in 0..CYCLES {
        let all = windows(inquiry.record(), late);
        let (Some(window), Some(before)) = (all.last(), all.len().checked_sub(2)) else {
            return Ok(());
        };
        let before = &all[before];
        let bounds = length(&all);
        if bounds.is_some_and(|(least, most)| most - least <= CLOSE * least) {
            return Ok(());
        }
        // By the window before, which may have begun earlier than its first request.
        let (least, most) = bounds.unwrap_or_else(|| {
            let least = before.last_ns.saturating_sub(before.first_ns.1);
            let most = window.first_ns.1.saturating_sub(before.first_ns.0);
            (least as f64, most as f64)
        });
        // On the clock, the window began after the last late request, and with the first prompt one otherwise.
        let (from, count) = (window.first_ns.0 as f64, all.len());
        let began = before.last_ns as f64;
        if !use_up(inquiry, late, before, until_ns)? {
            return Ok(());
        }
        let parts = f64::from(POLLS);
        let mut part = 0.0;
        let times = [(); POLLS as usize].map(|()| {
            part += 1.0;
            let (first, last) = (began + least, from + most);
            first + (last - first) * part / parts
        });
        if !poll(inquiry, &times, until_ns)? {
            return Ok(());
        }
        // On the clock it may take longer.
        while windows(inquiry.record(), late).len() == count {
            let now = inquiry.now_ns() as f64;
            let step = (now - from) * RARER / 2.0;
            if !poll(inquiry, &[now + step], until_ns)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Sends requests at these times, each over a connection of its own. Returns whether there was time for all of them.
fn poll(inquiry: &mut Inquiry<'_>, times: &[f64], until_ns: u64) -> Result<bool, Unreachable> {
    if times.last().is_none_or(|last| *last >= until_ns as f64) {
        return Ok(false);
    }
    let answers = inquiry.ask_at(Phase::Refill, times, POLLS, 0)?;
    let is_cut = answers.len() < times.len();
    Ok(!is_cut && inquiry.requests_left() > 0)
}

/// Sends requests one after the other until two are late. Returns whether two were.
fn use_up(
    inquiry: &mut Inquiry<'_>,
    late: Late,
    before: &Window,
    until_ns: u64,
) -> Result<bool, Unreachable> {
    let most = 2 * before.prompt + IN_A_ROW;
    let (mut asked, mut delayed) = (0, 0);
    while delayed < 2 && asked <= most && inquiry.now_ns() < until_ns {
        let prompt = windows(inquiry.record(), late)
            .last()
            .map_or(0, |window| window.prompt);
        let n = before.prompt.saturating_sub(prompt).clamp(1, IN_A_ROW);
        let answers = inquiry.ask_over(Phase::Burst, n, 0)?;
        if answers.is_empty() {
            return Ok(false);
        }
        asked += n;
        delayed += answers.iter().filter(|seen| late.is(seen)).count();
    }
    Ok(delayed >= 2)
}
