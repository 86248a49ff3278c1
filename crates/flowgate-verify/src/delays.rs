//! After how many requests a server delays further ones, by how much, and when it begins anew.

use crate::inquiry::took_ns;
use crate::models::{Delayed, Delays};
use crate::quantile::{median, percentile_90};
use crate::{DetectedAlgorithm, DetectedDelays, DetectedKind, Estimate, Observation, ProbeOutcome};

/// A response is late if it takes this many times as long as the fastest one, plus 1 ms.
pub(crate) const TIMES_AS_LONG: u64 = 4;
const LONGER_NS: u64 = 1_000_000;

/// Number of late responses in a row that may be delays.
const FEWEST: usize = 5;

/// Number of equal steps that delays grow by.
const GROWING: usize = 4;

/// Share of the values that have to be near their median, and what is near, as a share of the median.
const MOST: f64 = 0.75;
const EVEN: f64 = 0.2;

/// Shorter delays may be those of a scheduler that several processes wait for.
const LONG: f64 = 20e6;

/// One delay in this many may be unexplained.
const OUTLIERS: u64 = 10;

/// Another shape must reduce what delays are off by to this share.
const BETTER: f64 = 0.5;

/// Delays that differ by less than this share are equal; those above the other share are among the longest.
const AMONG_LONGEST: f64 = 0.97;
const BELOW_LONGEST: f64 = 0.9;

/// Share of the windows that have to agree about their number of prompt requests; and of what they say of their length, which one
/// end that is seen late spoils twice.
const AGREEING: f64 = 0.75;
const AGREEING_ABOUT_LENGTH: f64 = 0.6;

/// The server's clock may have whole milliseconds, and so may its timers.
const TICK: f64 = 1e6;

/// Returns the longest time that a prompt response takes, if the fastest one took `idle_ns`.
pub(crate) fn longest_prompt(idle_ns: u64) -> u64 {
    TIMES_AS_LONG * idle_ns + LONGER_NS
}

/// Returns whether the last response is late, and took as long as the one before if that was late, too.
pub(crate) fn is_last_late(record: &[Observation]) -> bool {
    let idle_ns = record.iter().map(took_ns).min().unwrap_or(0);
    let is_late = |took: &u64| *took > longest_prompt(idle_ns);
    let mut last = record.iter().rev().map(took_ns);
    let (last, before) = (last.next().filter(is_late), last.next().filter(is_late));
    last.is_some_and(|last| before.is_none_or(|before| is_near(last as f64, before as f64)))
}

/// From which response time on responses are late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    from_ns: u64,
    /// Median of the late responses.
    usual_ns: f64,
    /// Whether each one was later than the one before, by about the same time.
    pub(crate) is_growing: bool,
}

impl Late {
    /// Returns the threshold if the last responses of `record` are all late, and evenly so or evenly later.
    pub(crate) fn of(record: &[Observation]) -> Option<Self> {
        let idle_ns = record.iter().map(took_ns).min()?;
        let last = &record[record.len().saturating_sub(FEWEST)..];
        let shortest_ns = last.iter().map(took_ns).min()?;
        let usual_ns = longest_prompt(idle_ns);
        // On a busy machine, prompt ones take longer, too. Delays that grow are among them then.
        Self::longer_than(record, usual_ns).or_else(|| {
            let even = Self::longer_than(record, usual_ns.max(shortest_ns / 2));
            even.filter(|late| !late.is_growing)
        })
    }

    /// Returns the threshold if the last responses of `record` all took longer than this, and evenly so or evenly later.
    fn longer_than(record: &[Observation], prompt_ns: u64) -> Option<Self> {
        let idle_ns = record.iter().map(took_ns).min()?;
        let is_late = |seen: &&Observation| {
            seen.outcome == ProbeOutcome::Admitted && took_ns(seen) > prompt_ns
        };
        let late = record.iter().rev().take_while(is_late).count();
        if late < FEWEST || late == record.len() {
            return None;
        }
        let took: Vec<f64> = record[record.len() - late..]
            .iter()
            .map(|seen| took_ns(seen) as f64)
            .collect();
        let longest = took.iter().copied().fold(0.0, f64::max);
        // Delays may grow up to a longest one.
        let grows = took
            .windows(2)
            .filter(|pair| pair[1] < AMONG_LONGEST * longest || pair[0] < BELOW_LONGEST * longest);
        let later: Vec<f64> = grows.map(|pair| pair[1] - pair[0]).collect();
        let is_growing = later.len() >= GROWING && are_even(&later);
        let is_regular = is_growing || are_even(&took);
        let least_ns = took.iter().copied().fold(f64::INFINITY, f64::min) as u64;
        is_regular.then_some(Self {
            from_ns: idle_ns.midpoint(least_ns),
            usual_ns: median(&mut took.clone()),
            is_growing,
        })
    }

    pub(crate) fn is(self, seen: &Observation) -> bool {
        took_ns(seen) > self.from_ns
    }

    /// Returns whether it took as long as the others, and longer than what a busy machine delays evenly.
    pub(crate) fn is_like_others(self, seen: &Observation) -> bool {
        let is_long = self.usual_ns > LONG;
        is_long && !self.is_growing && is_near(took_ns(seen) as f64, self.usual_ns)
    }
}

/// Returns whether most values are near their median, which is more than nothing.
fn are_even(values: &[f64]) -> bool {
    let middle = median(&mut values.to_vec());
    let near = values.iter().filter(|value| is_near(**value, middle));
    middle > TICK && near.count() as f64 >= MOST * values.len() as f64
}

fn is_near(value: f64, middle: f64) -> bool {
    (value - middle).abs() <= EVEN * middle
}

/// Requests from the first prompt one to the last delayed one.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// First request: when it was sent, and answered.
    pub(crate) first_ns: (u64, u64),
    /// When its last delayed request was sent.
    pub(crate) last_ns: u64,
    /// Number of prompt requests.
    pub(crate) prompt: u64,
    /// Response times of the delayed requests.
    late: Vec<f64>,
}

impl Window {
    pub(crate) fn is_used_up(&self) -> bool {
        !self.late.is_empty()
    }
}

/// Returns the windows of the record. A window begins with a prompt response that follows late ones. A single late response
/// has another cause.
pub(crate) fn windows(record: &[Observation], late: Late) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for seen in record {
        if late.is(seen) {
            if let Some(window) = windows.last_mut() {
                window.late.push(took_ns(seen) as f64);
                window.last_ns = seen.sent_ns;
            }
            continue;
        }
        match windows.last_mut().filter(|window| window.late.len() < 2) {
            Some(window) => {
                window.prompt += 1 + window.late.len() as u64;
                window.late.clear();
            }
            None => windows.push(Window {
                first_ns: (seen.sent_ns, seen.answered_ns),
                last_ns: seen.sent_ns,
                prompt: 1,
                late: Vec::new(),
            }),
        }
    }
    windows
}

/// Returns the shortest and the longest length of a window that the record allows, in nanoseconds, whether it begins with its
/// first request or on the clock. `None` if no window was seen from its beginning to its end, or if the windows contradict each
/// other both ways.
pub(crate) fn length(windows: &[Window]) -> Option<(f64, f64)> {
    let pairs = || windows.iter().zip(windows.iter().skip(1));
    // Of the first one, nobody knows when it began.
    let own = pairs().skip(1).map(|(window, after)| {
        let least = window.last_ns.saturating_sub(window.first_ns.1);
        let most = after.first_ns.1.saturating_sub(window.first_ns.0);
        (least as f64 - TICK, most as f64 + TICK)
    });
    let ends = pairs().map(|(window, after)| (window.last_ns as f64, after.first_ns.1 as f64));
    let ends: Vec<(f64, f64)> = ends.collect();
    let mut apart = Vec::new();
    for (first, one) in ends.iter().enumerate() {
        for (other, number) in ends[first + 1..].iter().zip(1_u32..) {
            let each = |from: f64, to: f64| (to - from) / f64::from(number);
            let tick = TICK / f64::from(number);
            apart.push((each(one.1, other.0) - tick, each(one.0, other.1) + tick));
        }
    }
    let share = AGREEING_ABOUT_LENGTH;
    let both = [
        common(&own.collect::<Vec<_>>(), share),
        common(&apart, share),
    ];
    both.into_iter()
        .flatten()
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Returns what at least this share of the bounds has in common: late responses can spoil others.
pub(crate) fn common(bounds: &[(f64, f64)], share: f64) -> Option<(f64, f64)> {
    let around = |at: f64| {
        bounds
            .iter()
            .filter(move |(least, most)| (*least..=*most).contains(&at))
    };
    let best = bounds
        .iter()
        .map(|(least, _)| *least)
        .max_by_key(|least| around(*least).count())?;
    let is_enough = around(best).count() as f64 >= share * bounds.len() as f64;
    is_enough.then(|| {
        around(best).fold((0.0, f64::INFINITY), |a: (f64, f64), b| {
            (a.0.max(b.0), a.1.min(b.1))
        })
    })
}

/// What the record shows of delays.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Delays by number, for certain.
    Delays(Box<DetectedAlgorithm>),
    /// Delays that did not end, so that their cause is not certain: after this many requests, by this many nanoseconds.
    Open { free: u64, by: f64 },
    /// No delays by number.
    Nothing,
}

/// Returns what the record shows.
pub(crate) fn shown(record: &[Observation], late: Late) -> Shown {
    let windows = windows(record, late);
    let mut prompt: Vec<f64> = record
        .iter()
        .filter(|seen| !late.is(seen))
        .map(|seen| took_ns(seen) as f64)
        .collect();
    let idle = median(&mut prompt);
    let Some(first) = windows.first() else {
        return Shown::Nothing;
    };
    let used_up = || windows.iter().filter(|window| window.is_used_up());
    let is_first_only = windows.iter().skip(1).all(|window| !window.is_used_up());
    // Also in the first one, so that none is taken for one that is not.
    let numbers: Vec<u64> = used_up().map(|window| window.prompt).collect();
    let agreeing = |number: u64| numbers.iter().filter(|other| **other == number).count();
    // Of equally many, that of the first one.
    let most = numbers
        .iter()
        .rev()
        .copied()
        .max_by_key(|number| agreeing(*number));
    let free = most.unwrap_or(first.prompt);
    if (agreeing(free) as f64) < AGREEING * numbers.len() as f64 {
        return Shown::Nothing;
    }
    let is_same = |window: &&Window| window.is_used_up() && window.prompt == free;
    let same: Vec<&Window> = windows.iter().filter(is_same).collect();
    let of_window = |window: &&Window| -> Vec<Delayed> {
        let late = (free + 1..).zip(&window.late);
        late.map(|(number, took)| Delayed {
            number,
            by: took - idle,
        })
        .collect()
    };
    let delayed: Vec<Delayed> = same.iter().flat_map(of_window).collect();
    let Some(model) = fitted(free, &delayed) else {
        return Shown::Nothing;
    };
    let busy = percentile_90(&mut prompt) - idle;
    let unexplained = model.unexplained(&delayed, busy);
    // A server that has become slow, for whatever reason, is neither slower with each request nor fast again for as many.
    let is_certain = same.len() >= 2 || model.step > 0.0;
    if unexplained * OUTLIERS > delayed.len() as u64 || delayed.len() < FEWEST {
        return Shown::Nothing;
    }
    let length = length(&windows);
    if length.is_none() && windows.len() > 2 {
        return Shown::Nothing;
    }
    if !is_certain {
        let by = model.first;
        return Shown::Open { free, by };
    }
    Shown::Delays(Box::new(detected(&Known {
        model: &model,
        delayed: &delayed,
        length,
        is_first_only,
        unexplained,
        answers: record.len() as u64,
    })))
}

/// Returns the delays that explain most: equal ones, growing ones, and growing ones up to a longest one.
fn fitted(free: u64, delayed: &[Delayed]) -> Option<Delays> {
    if delayed.is_empty() {
        return None;
    }
    let mut all: Vec<f64> = delayed.iter().map(|delayed| delayed.by).collect();
    let equal = Delays {
        free,
        first: median(&mut all),
        step: 0.0,
        longest: f64::INFINITY,
    };
    let without_end = growing(free, delayed);
    let top = percentile_90(&mut all);
    let mut longest: Vec<f64> = all
        .iter()
        .copied()
        .filter(|by| *by > AMONG_LONGEST * top)
        .collect();
    let below: Vec<Delayed> = delayed
        .iter()
        .copied()
        .filter(|delayed| delayed.by < BELOW_LONGEST * top)
        .collect();
    // From the delays below the longest ones.
    let growing_below = growing(free, &below).filter(|_| longest.len() >= 3);
    let up_to = growing_below.map(|below| Delays {
        longest: median(&mut longest),
        ..below
    });
    let off = |model: &Delays| -> f64 {
        let off = delayed.iter().map(|delayed| model.off(delayed).abs());
        off.sum()
    };
    let mut best = equal;
    for other in [without_end, up_to].into_iter().flatten() {
        if off(&other) < BETTER * off(&best) {
            best = other;
        }
    }
    Some(best)
}

/// Returns delays that grow by the median of the differences between one request and the next.
fn growing(free: u64, delayed: &[Delayed]) -> Option<Delays> {
    let next = delayed
        .windows(2)
        .filter(|pair| pair[1].number == pair[0].number + 1);
    let mut steps: Vec<f64> = next.map(|pair| pair[1].by - pair[0].by).collect();
    let step = median(&mut steps);
    let mut firsts: Vec<f64> = delayed
        .iter()
        .map(|delayed| delayed.by - step * (delayed.number - free - 1) as f64)
        .collect();
    let is_growing = step > TICK;
    is_growing.then(|| Delays {
        free,
        first: median(&mut firsts),
        step,
        longest: f64::INFINITY,
    })
}

struct Known<'a> {
    model: &'a Delays,
    delayed: &'a [Delayed],
    length: Option<(f64, f64)>,
    /// Whether no second window was used up.
    is_first_only: bool,
    unexplained: u64,
    answers: u64,
}

fn detected(known: &Known<'_>) -> DetectedAlgorithm {
    let Delays {
        free,
        first,
        step,
        longest,
    } = *known.model;
    let mut off: Vec<f64> = known
        .delayed
        .iter()
        .map(|delayed| known.model.off(delayed).abs())
        .collect();
    let off = percentile_90(&mut off) + TICK;
    let seconds = |value: f64, plus_minus: f64| Estimate {
        value: value / 1e9,
        plus_minus: plus_minus / 1e9,
    };
    let numbers = known.delayed.iter().map(|delayed| delayed.number);
    let apart = numbers.clone().max().unwrap_or(0) - numbers.min().unwrap_or(0);
    let step_off = if step > 0.0 {
        2.0 * off / apart.max(1) as f64
    } else {
        0.0
    };
    let window = known
        .length
        .map(|(least, most)| seconds((least + most) / 2.0, (most - least) / 2.0));
    let rate = window.map(|window| {
        let rate = free as f64 / window.value;
        Estimate {
            value: rate,
            plus_minus: rate * window.plus_minus / (window.value - window.plus_minus).max(1e-9),
        }
    });
    DetectedAlgorithm {
        kind: DetectedKind::Delays,
        alternatives: Vec::new(),
        rate,
        burst: Some(Estimate {
            value: free as f64,
            // Requests before the first one may have counted.
            plus_minus: if known.is_first_only {
                f64::INFINITY
            } else {
                0.0
            },
        }),
        window,
        clock_tick: None,
        limits: Vec::new(),
        block: None,
        delays: Some(DetectedDelays {
            first: seconds(first, off),
            step: seconds(step, step_off),
            longest: longest.is_finite().then(|| seconds(longest, off)),
        }),
        consistent: known.answers - known.unexplained.min(known.answers),
        answers: known.answers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;

    const LATE_IN_TEST: Late = Late {
        from_ns: 50_000_000,
        usual_ns: 100e6,
        is_growing: false,
    };

    fn seen(sent_ms: u64, took_ms: u64) -> Observation {
        Observation {
            sent_ns: sent_ms * 1_000_000,
            answered_ns: (sent_ms + took_ms) * 1_000_000,
            connection: 0,
            key: 0,
            outcome: ProbeOutcome::Admitted,
            advertised: Advertised::default(),
        }
    }

    #[test]
    fn on_a_busy_machine_delays_are_as_uncertain_as_other_responses() {
        let delayed = [101, 110, 104, 113, 102, 108];
        let window = |prompt: [u64; 5]| [&prompt[..], &delayed].concat();
        let is_shown = |prompt| {
            let record = record(&[window(prompt), window(prompt)].concat());
            let late = Late::of(&record).unwrap();
            matches!(super::shown(&record, late), Shown::Delays(_))
        };
        assert!(is_shown([1, 9, 1, 8, 1]));
        assert!(!is_shown([1, 1, 1, 1, 1]), "prompt responses are all equal");
    }

    /// Requests one after the other, with these response times.
    fn record(took_ms: &[u64]) -> Vec<Observation> {
        let mut at = 0;
        let one_after_the_other = took_ms.iter().map(|took| {
            let seen = seen(at, *took);
            at += took;
            seen
        });
        one_after_the_other.collect()
    }

    #[test]
    fn responses_are_late_if_the_last_ones_are_and_regularly_so() {
        let is_late = |took_ms: &[u64]| Late::of(&record(took_ms)).is_some();
        assert!(is_late(&[1, 1, 100, 101, 100, 100, 101]), "equal");
        assert!(is_late(&[1, 1, 100, 201, 300, 400, 501]), "growing");
        assert!(is_late(&[1, 100, 100, 160, 100, 100]), "one even later");
        assert!(
            is_late(&[1, 9, 17, 6, 30, 100, 101, 100, 100, 101]),
            "equal, on a busy machine"
        );
        assert!(!is_late(&[1, 1, 100, 101, 100, 100]), "too few");
        assert!(!is_late(&[100, 101, 100, 100, 101, 100]), "none prompt");
        assert!(!is_late(&[1, 100, 101, 100, 100, 101, 1]), "prompt again");
        assert!(!is_late(&[1, 9, 17, 6, 30, 12]), "irregular");
    }

    #[test]
    fn the_shape_of_delays_is_found() {
        for (took_ms, expected) in [
            (&[1, 1, 101, 101, 101, 102, 101][..], (100, 0, None)),
            (&[1, 1, 101, 201, 302, 401, 501], (100, 100, None)),
            (
                &[1, 1, 101, 201, 301, 401, 401, 402, 401, 401],
                (100, 100, Some(400)),
            ),
            (
                &[1, 1, 5_001, 5_101, 5_201, 5_301, 5_402],
                (5_000, 100, None),
            ),
        ] {
            let windows = windows(&record(took_ms), LATE_IN_TEST);
            let numbers = 3..;
            let delayed: Vec<Delayed> = numbers
                .zip(&windows[0].late)
                .map(|(number, took)| Delayed {
                    number,
                    by: took - 1e6,
                })
                .collect();
            let model = fitted(2, &delayed).unwrap();
            let whole = |ns: f64| (ns / 1e6).round() as u64;
            let longest = model.longest.is_finite().then(|| whole(model.longest));
            let found = (whole(model.first), whole(model.step), longest);
            assert_eq!(found, expected, "{model:?}");
            assert_eq!(model.unexplained(&delayed, 0.0), 0);
        }
    }

    #[test]
    fn equal_delays_that_do_not_end_may_be_a_slow_server_and_growing_ones_may_not() {
        let shown = |took_ms: &[u64]| {
            let record = record(took_ms);
            super::shown(&record, Late::of(&record).unwrap())
        };
        let equal = shown(&[1, 1, 101, 101, 101, 101, 101]);
        assert!(matches!(equal, Shown::Open { free: 2, .. }), "{equal:?}");
        let growing = shown(&[1, 1, 101, 201, 301, 401, 501]);
        let Shown::Delays(detected) = growing else {
            panic!("{growing:?}");
        };
        assert_eq!(detected.burst.map(|burst| burst.value), Some(2.0));
        assert!(detected.burst.is_some_and(|burst| burst.plus_minus > 1e9));
        assert_eq!((detected.window, detected.rate), (None, None));
    }

    /// Two prompt requests and four late ones from each of these times on, in milliseconds.
    fn record_of_windows(began_ms: &[u64]) -> Vec<Observation> {
        let one = |began: u64| {
            let prompt = [(0, 1), (1, 1)];
            let late = [(2, 100), (102, 100), (202, 100), (990, 100)];
            let all = prompt.into_iter().chain(late);
            all.map(move |(at, took)| seen(began + at, took))
        };
        began_ms.iter().flat_map(|began| one(*began)).collect()
    }

    #[test]
    fn one_end_may_be_seen_late_and_not_every_second_one() {
        let record = record_of_windows(&[0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000]);
        // The first requests of these windows were late for another reason, and so seem to belong to the windows before.
        let seen_late = |late_ones: &[usize]| {
            let mut windows = windows(&record, LATE_IN_TEST);
            for index in late_ones {
                let by_ns = 100_000_000 + 40_000_000 * *index as u64;
                windows[index - 1].last_ns += by_ns + 9_000_000;
                windows[*index].first_ns.0 += by_ns;
                windows[*index].first_ns.1 += by_ns;
            }
            length(&windows)
        };
        for late_ones in [&[][..], &[1], &[3], &[6]] {
            let (least, most) = seen_late(late_ones).unwrap();
            assert!((980e6..1_000e6).contains(&least), "{late_ones:?}: {least}");
            assert!((1_000e6..1_020e6).contains(&most), "{late_ones:?}: {most}");
        }
        assert_eq!(seen_late(&[1, 3, 5]), None);
    }

    #[test]
    fn a_window_is_as_long_as_from_one_reset_to_the_next() {
        let all = record_of_windows(&[0, 1_000, 2_000, 3_000]);
        let late = LATE_IN_TEST;
        let windows = windows(&all, late);
        let (least, most) = length(&windows).unwrap();
        assert!((988e6..1_000e6).contains(&least), "{least}");
        assert!((1_000e6..1_020e6).contains(&most), "{most}");
        assert!(length(&windows[..2]).is_none());
        let shown = shown(&all, late);
        let Shown::Delays(detected) = shown else {
            panic!("{shown:?}");
        };
        assert_eq!(
            detected.burst.map(|burst| (burst.value, burst.plus_minus)),
            Some((2.0, 0.0))
        );
    }
}
