//! Fixed windows on the clock: a length and a phase.

use super::{Reach, along};
use crate::evidence::Evidence;
use crate::fit::Hints;
use crate::models::{Model, OnClock};
use crate::plateau::Plateau;

/// Openings that are looked at: the last so many.
const OPENINGS: usize = 300;

/// The clock is where most openings agree; the answers say which length of a window.
pub(super) fn on_clock(evidence: &Evidence, hints: &Hints, reach: Reach) -> (Plateau, Model) {
    let limit = reach.burst;
    let openings = &hints.openings[hints.openings.len().saturating_sub(OPENINGS)..];
    let of = |window| {
        let (_, phase) = phase_of(openings, window);
        Model::OnClock(OnClock {
            limit,
            window,
            phase,
        })
    };
    let wide = Reach {
        steps: 4 * reach.steps,
        ..reach
    };
    let missed = |window: f64| openings.len() as u64 - phase_of(openings, window).0;
    let rough = along(limit / hints.rate, wide, missed);
    let (window, step) = (rough.middle(), rough.half().max(rough.middle() * 1e-4));
    let score = |window: f64| of(window).unexplained(evidence);
    let fine = Plateau::find(window - step, window + step, reach.steps / 8, score);
    let window = fine.middle();
    if fine.score == 0 || reach.is_rough() {
        return (fine, of(window));
    }
    // Where few openings are certain, the answers know better. A window that is a little longer leaves the
    // boundaries in the middle of the record where they are.
    let of = |window, phase| {
        Model::OnClock(OnClock {
            limit,
            window,
            phase,
        })
    };
    let (_, phase) = phase_of(openings, window);
    let middle = (evidence.began() + evidence.ended()) / 2.0;
    let near = phase + ((middle - phase) / window).round() * window;
    let phases = Plateau::find(near - window / 2.0, near + window / 2.0, 40, |phase| {
        of(window, phase).unexplained(evidence)
    });
    let phase = phases.middle();
    let lengths = Plateau::find(window - step, window + step, 40, |window| {
        of(window, phase).unexplained(evidence)
    });
    if lengths.score < fine.score {
        (lengths, of(lengths.middle(), phase))
    } else {
        (fine, of(window, phase_of(openings, window).1))
    }
}

/// How many openings agree on a phase at most, and on which: where most of them overlap on a circle of one window.
fn phase_of(openings: &[(f64, f64)], window: f64) -> (u64, f64) {
    let mut ends: Vec<(f64, i64)> = Vec::with_capacity(openings.len() * 4);
    for (from, to) in openings {
        if to - from >= window {
            continue;
        }
        let start = from.rem_euclid(window);
        let end = start + (to - from);
        for turn in [0.0, window] {
            ends.push((start + turn, 1));
            ends.push((end + turn, -1));
        }
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut inside, mut best, mut phase) = (0, 0, 0.0);
    for (index, (at, change)) in ends.iter().enumerate() {
        inside += change;
        if inside > best {
            best = inside;
            let until = ends.get(index + 1).map_or(*at, |next| next.0);
            phase = (at + until) / 2.0;
        }
    }
    (best as u64, phase.rem_euclid(window))
}
