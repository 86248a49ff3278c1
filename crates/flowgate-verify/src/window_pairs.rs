//! Do two fixed windows explain the record that together are no two limits?
//!
//! rate-limiter-flexible has both kinds. `RateLimiterUnion` counts each request in both windows, refused ones too. `BurstyRateLimiter`
//! asks a second window, the pool, for what the first one refuses.

use std::cell::Cell;
use std::cmp::Reverse;

use crate::delays::common;
use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::inquiry::count;
use crate::models::{Decided, Model, OnRequest, Together, WindowPair, decided, left_by};
use crate::plateau::{Plateau, as_good_as};
use crate::second::{Places, SLOWER, TwoFits, is_enough, margin, spells};
use crate::{Estimate, Observation, ProbeOutcome};

/// Number of times that the second window has to be used up, and to admit again; of a pool, and how many it has to admit.
const FEWEST: usize = 2;
const FEWEST_OF_POOL: usize = 3;
const FEWEST_BY_POOL: f64 = 10.0;

/// Maximum number of lengths of the second window that are tried, and the smallest factor between two.
const LENGTHS: usize = 6;
const NEAR: f64 = 1.02;

/// The lengths around an estimate that are tried, relative to it, and their number: at first, and to know the best one exactly.
const WIDE: (f64, f64) = (0.9, 1.02);
const CLOSE: (f64, f64) = (0.97, 1.03);
const ROUGH_STEPS: u32 = 24;
const STEPS: usize = 60;

/// With more unexplained responses than this, lengths are far from the best ones.
const HOPELESS: u64 = 150;

/// How many more responses than the best lengths others leave unexplained is not counted further.
const WORSE: u64 = 20;

/// Number of steps of a search, each from one state to those that may follow. Records of a disturbed server leave many states.
const MOST_STEPS: u64 = 60_000_000;

/// Number of rough results that are refined.
const BEST: usize = 3;

/// Share of the rows of admissions that have the usual length in common.
const USUAL: f64 = 0.3;

/// Largest factor between the rate that rows show and the rough one.
const ROUGHLY: f64 = 2.5;

/// Requests further apart than this share of the time of a burst's refill are not of one row.
const PAUSE: f64 = 0.3;

/// A length that may be off by more than this share is vague.
const VAGUE: f64 = 0.012;

/// Maximum number of limits of the second window that are tried.
const LIMITS: usize = 4;

/// Returns the two windows that count every request and explain the record. The first one admitted `burst` before. `None` if none do.
pub(crate) fn counting_refused(
    record: &[Observation],
    places: &Places,
    burst: f64,
) -> Option<TwoFits> {
    let usual = usual(record, places, Some(burst))?;
    let left = left_by(&Model::OnRequest(usual.window), places.clock, record);
    let closings = spells(&left).into_iter().filter_map(|spell| {
        let open_ns = spell.began_ns..spell.refused_ns?;
        let asked = record.iter().filter(|seen| open_ns.contains(&seen.sent_ns));
        Some(Closing {
            counted: asked.count() as f64,
            took: spell.back_ns?.saturating_sub(spell.began_ns) as f64,
        })
    });
    let is_larger = |closing: &Closing| closing.counted >= usual.window.limit;
    let closings: Vec<Closing> = closings.filter(is_larger).collect();
    let guesses: Vec<WindowPair> = usual
        .windows()
        .flat_map(|first| guesses(first, &closings, Together::CountRefused))
        .collect();
    let found = best(record, places, &guesses, MOST_STEPS)?;
    let limit = found.pair.second.limit;
    (times_used_up(&closings, limit) >= FEWEST).then_some(found.two)
}

/// Returns the window and its pool that explain the record. `found` are fits of the whole. `None` if none do.
pub(crate) fn overflow(record: &[Observation], places: &Places, found: &[Fit]) -> Option<TwoFits> {
    let fitted = found.iter().filter_map(|fit| match fit.model {
        Model::OnRequest(window) => Some(window),
        _ => None,
    });
    // Once the pool is used up, the stream shows the window alone.
    let shown = usual(record, places, None);
    let shown = shown.into_iter().flat_map(Usual::windows);
    let guesses: Vec<WindowPair> = fitted
        .chain(shown)
        .flat_map(|first| {
            let closings = closings(&asked_of_pool(first, record));
            guesses(first, &closings, Together::Overflow)
        })
        .collect();
    let found = best(record, places, &guesses, MOST_STEPS)?;
    let WindowPair { first, second, .. } = found.pair;
    // A server that stands still for a moment may admit more than the window once, or a few at the end of several windows.
    let times = times_used_up(&closings(&asked_of_pool(first, record)), second.limit);
    let is_seen = times >= FEWEST_OF_POOL && times as f64 * second.limit >= FEWEST_BY_POOL;
    is_seen.then_some(found.two)
}

/// Returns how many times a second window with this limit was used up and admitted again.
fn times_used_up(closings: &[Closing], limit: f64) -> usize {
    let whole = closings
        .iter()
        .filter(|closing| closing.counted >= limit - 1.0);
    whole.count()
}

/// The second window from its first request until it admits again.
#[derive(Clone, Copy, Debug)]
struct Closing {
    /// Number of requests until it refuses.
    counted: f64,
    /// Time until it admits again, in nanoseconds.
    took: f64,
}

/// Returns the number of admissions in a row, `burst` or what is usual, and the usual time from the start of such a row to that
/// of the next, as a window. A stream of more than the rate shows it while nothing but the window decides.
pub(crate) fn usual(record: &[Observation], places: &Places, burst: Option<f64>) -> Option<Usual> {
    // With a burst, the rows are known, also before the stream.
    let from = burst.map_or(places.stream, |_| 0);
    let stream = record.get(from..)?;
    let is_admitted = |seen: &&Observation| seen.outcome == ProbeOutcome::Admitted;
    let pause_ns = burst.map_or(f64::INFINITY, |burst| PAUSE * burst / places.rough);
    let is_in_a_row = |a: &Observation, b: &Observation| {
        let apart = b.sent_ns.saturating_sub(a.sent_ns) as f64;
        a.outcome == b.outcome && apart < pause_ns
    };
    let rows: Vec<&[Observation]> = stream.chunk_by(is_in_a_row).collect();
    let admitted = || rows.iter().filter(|row| is_admitted(&&row[0]));
    let limit = burst.or_else(|| {
        let mut sizes: Vec<usize> = admitted().map(|row| row.len()).collect();
        sizes.sort_unstable();
        let same = sizes.chunk_by(|a, b| a == b);
        Some(same.max_by_key(|same| same.len())?[0] as f64)
    })?;
    // From a row to the last refusal before the next one, and to the next one.
    let whole = admitted()
        .zip(admitted().skip(1))
        .filter_map(|(row, next)| {
            let [from, to] = [row.first()?, next.first()?];
            let is_whole = (limit - 1.0..=limit).contains(&(row.len() as f64));
            let before = stream.iter().rfind(|seen| seen.sent_ns < to.sent_ns);
            let refused = before.filter(|seen| !is_admitted(seen))?;
            let took = row.last()?.sent_ns.saturating_sub(from.sent_ns);
            let least = refused.sent_ns.saturating_sub(from.answered_ns);
            let most = to.answered_ns.saturating_sub(from.sent_ns);
            // A slow row may have begun in another window.
            (is_whole && 2 * took <= most).then_some((least as f64, most as f64))
        });
    let mut whole: Vec<(f64, f64)> = whole.collect();
    // Of equally many, the shortest ones: at times, something else refuses.
    whole.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (least, most) = common(&whole, USUAL)?;
    let window = (least + most) / 2.0;
    let ratio = limit / window / places.rough;
    (1.0 / ROUGHLY..ROUGHLY).contains(&ratio).then_some(Usual {
        window: OnRequest { limit, window },
        off: (most - least) / 2.0,
    })
}

/// A window as rows of admissions show it, and by how much its length may be off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    window: OnRequest,
    off: f64,
}

impl Usual {
    /// Returns the rate per nanosecond.
    pub(crate) fn rate(self) -> f64 {
        self.window.limit / self.window.window
    }

    /// Returns whether the length is known only about.
    pub(crate) fn is_vague(self) -> bool {
        self.off > VAGUE * self.window.window
    }

    /// Returns the shortest and the longest length, in nanoseconds.
    pub(crate) fn lengths(self) -> (f64, f64) {
        let Self { window, off } = self;
        (window.window - off, window.window + off)
    }

    /// Returns windows of the lengths that are possible.
    fn windows(self) -> impl Iterator<Item = OnRequest> {
        let shares = [0.0, -0.25, 0.25, -0.5, 0.5, -0.8, 0.8];
        shares.into_iter().map(move |share| OnRequest {
            window: self.window.window + share * self.off,
            ..self.window
        })
    }
}

/// Returns when the first window refused a request, as it seems, and whether the pool admitted it.
fn asked_of_pool(first: OnRequest, record: &[Observation]) -> Vec<(f64, bool)> {
    let mut decide = first.start();
    let asked = record.iter().map(|seen| {
        let at = (seen.sent_ns + seen.answered_ns) as f64 / 2.0;
        let is_left = !decide(at);
        is_left.then_some((at, seen.outcome == ProbeOutcome::Admitted))
    });
    asked.flatten().collect()
}

/// Returns each time that the pool was used up and admitted again.
fn closings(asked: &[(f64, bool)]) -> Vec<Closing> {
    let rows: Vec<&[(f64, bool)]> = asked.chunk_by(|a, b| a.1 == b.1).collect();
    let admitted: Vec<&[(f64, bool)]> = rows.into_iter().filter(|row| row[0].1).collect();
    let pairs = admitted.windows(2);
    pairs
        .map(|pair| Closing {
            counted: pair[0].len() as f64,
            took: pair[1][0].0 - pair[0][0].0,
        })
        .collect()
}

/// Returns the second windows that are likely beside the first one.
fn guesses(first: OnRequest, closings: &[Closing], together: Together) -> Vec<WindowPair> {
    if closings.len() < FEWEST {
        return Vec::new();
    }
    let mut counts: Vec<f64> = closings.iter().map(|closing| closing.counted).collect();
    counts.sort_by(f64::total_cmp);
    let mut same: Vec<&[f64]> = counts.chunk_by(|a, b| a == b).collect();
    // Those that were seen more often, and of these the larger ones.
    same.sort_by_key(|same| Reverse(same.len()));
    let most = counts.last().copied();
    // A request at the end of a window may have been counted by the other one.
    let near = most.into_iter().flat_map(|most| [most, most - 1.0]);
    let mut limits: Vec<f64> = Vec::new();
    for limit in same.iter().take(LIMITS).map(|same| same[0]).chain(near) {
        if limit >= 1.0 && !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    let pairs = limits.into_iter().flat_map(|limit| {
        let whole = closings
            .iter()
            .filter(|closing| closing.counted >= limit - 1.0);
        let mut lengths: Vec<f64> = whole.map(|closing| closing.took).collect();
        lengths.sort_by(f64::total_cmp);
        lengths.dedup_by(|longer, shorter| *longer < NEAR * *shorter);
        lengths.truncate(LENGTHS);
        lengths.into_iter().map(move |window| WindowPair {
            first,
            second: OnRequest { limit, window },
            together,
        })
    });
    pairs.collect()
}

/// Returns the best two windows near one of these, if they explain the record, and if that takes no more than `most_steps`.
fn best(
    record: &[Observation],
    places: &Places,
    guesses: &[WindowPair],
    most_steps: u64,
) -> Option<Found> {
    if count(record, ProbeOutcome::Failed) > 0 {
        return None;
    }
    let decided = decided(places.clock, record);
    let steps_left = Cell::new(most_steps);
    let mut rough: Vec<(u64, WindowPair)> = Vec::new();
    for guess in guesses {
        let most = match rough.get(BEST - 1) {
            Some((worst, _)) => *worst,
            None => HOPELESS,
        };
        let lengths = (0..=ROUGH_STEPS).map(|step| {
            let (low, high) = WIDE;
            let share = low + (high - low) * f64::from(step) / f64::from(ROUGH_STEPS);
            guess.with_second(share * guess.second.window)
        });
        let scored = lengths.map(|pair| (pair.unexplained(&decided, most, &steps_left), pair));
        rough.extend(scored.min_by_key(|(score, _)| *score));
        rough.sort_by_key(|(score, _)| *score);
    }
    // Also the best one of each limit.
    let mut limits: Vec<f64> = Vec::new();
    let refined = rough
        .iter()
        .enumerate()
        .filter_map(|(place, (score, pair))| {
            let is_new = !limits.contains(&pair.second.limit);
            limits.extend(is_new.then_some(pair.second.limit));
            (is_new || place < BEST).then(|| refined(*pair, score + WORSE, &decided, &steps_left))
        });
    let refined: Vec<Refined> = refined.collect();
    if steps_left.get() == 0 {
        return None;
    }
    let best = refined.iter().min_by_key(|found| found.score)?;
    let of = Evidence::on(places.clock, record).len();
    let as_good = refined.iter().filter(|other| other.score <= best.score);
    let off = as_good.map(|other| (other.pair.second.limit - best.pair.second.limit).abs());
    let [fast, slow] = best.fits(of, off.fold(0.0, f64::max));
    let is_slower = slow.rate.value < SLOWER * fast.rate.value;
    (best.score <= margin(of) && is_enough(of) && is_slower).then(|| Found {
        pair: best.pair,
        two: TwoFits {
            together: Some(best.pair.together),
            fast: vec![fast],
            slow: vec![slow],
            unexplained: best.score,
            of,
        },
    })
}

/// Two windows that explain the record.
struct Found {
    pair: WindowPair,
    two: TwoFits,
}

/// Two windows, and the lengths with which they explain as much.
struct Refined {
    pair: WindowPair,
    score: u64,
    first: Plateau,
    second: Plateau,
}

/// Finds the lengths that explain the most.
fn refined(
    mut pair: WindowPair,
    most: u64,
    decided: &[Decided],
    steps_left: &Cell<u64>,
) -> Refined {
    let score = |pair: WindowPair| pair.unexplained(decided, most, steps_left);
    let close = |at: f64, score: &dyn Fn(f64) -> u64| {
        let (low, high) = CLOSE;
        Plateau::find(low * at, high * at, STEPS, score)
    };
    let search = |pair: &mut WindowPair| {
        let second = close(pair.second.window, &|at| score(pair.with_second(at)));
        *pair = pair.with_second(second.middle());
        let first = close(pair.first.window, &|at| score(pair.with_first(at)));
        *pair = pair.with_first(first.middle());
        (first, second)
    };
    search(&mut pair);
    let (first, second) = search(&mut pair);
    let least = score(pair);
    let most = as_good_as(least, decided.len() as u64);
    let first = first.widened(most, |at| score(pair.with_first(at)));
    let second = second.around(pair.second.window);
    let second = second.widened(most, |at| score(pair.with_second(at)));
    Refined {
        pair,
        score: least,
        first,
        second,
    }
}

impl Refined {
    /// Returns both windows. The limit of the second one may be off by `limit_off`.
    fn fits(&self, of: u64, limit_off: f64) -> [Fit; 2] {
        let both = [
            (self.pair.first, self.first, 0.0),
            (self.pair.second, self.second, limit_off),
        ];
        both.map(|(window, lengths, limit_off)| {
            let off = (lengths.high - window.window).max(window.window - lengths.low);
            let estimate = |value: f64, share: f64| Estimate {
                value,
                plus_minus: value * share,
            };
            let model = Model::OnRequest(window);
            let share = off / window.window;
            let limit_share = limit_off / window.limit;
            Fit {
                model,
                unexplained: self.score,
                of,
                rate: estimate(model.rate(), share + limit_share),
                burst: estimate(window.limit, limit_share),
                window: Some(estimate(window.window / 1e9, share)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;
    use crate::clock::Clock;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_search_that_is_cut_finds_nothing() {
        // 2 in 100 ms, and a pool of 5 in a second.
        let windows = [(2.0, 100.0), (5.0, 1_000.0)].map(|(limit, ms)| OnRequest {
            limit,
            window: ms * 1e6,
        });
        let [mut first, mut second] = windows.map(OnRequest::start);
        let record: Vec<Observation> = (0..11_000)
            .map(|k| {
                let sent_ns = k * 13 * MS;
                let at = (sent_ns + MS / 10) as f64;
                Observation {
                    sent_ns,
                    answered_ns: sent_ns + MS / 5,
                    connection: 0,
                    key: 0,
                    outcome: match first(at) || second(at) {
                        true => ProbeOutcome::Admitted,
                        false => ProbeOutcome::Refused,
                    },
                    advertised: Advertised::default(),
                }
            })
            .collect();
        let places = Places {
            first: 0..10,
            stream: 10,
            rough: 25.0 / 1e9,
            clock: Clock::EXACT,
        };
        let [first, second] = windows;
        let pool = WindowPair {
            first,
            second,
            together: Together::Overflow,
        };
        let search = |most_steps| best(&record, &places, &[pool], most_steps);
        let whole = search(MOST_STEPS).expect("it is the truth");
        assert_eq!(whole.two.unexplained, 0);
        for most_steps in [1_000, 400_000, 1_000_000, 3_000_000] {
            assert!(search(most_steps).is_none(), "{most_steps}");
        }
    }
}
