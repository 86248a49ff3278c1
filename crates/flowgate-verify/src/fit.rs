//! The parameters with which each algorithm is consistent with the most responses.

use crate::advertised::Told;
use crate::clock::SHORTEST_TICK;
use crate::evidence::Evidence;
use crate::models::{Bucket, Counter, Log, Model, OnRequest, Periods, Segments};
use crate::plateau::{Plateau, as_good_as};
use crate::search::{Reach, SEARCHES, Search};
use crate::{DetectedKind, Estimate};

/// Tolerance of the rate, as a fraction, before an admission counts as over the limit.
const FASTER: f64 = 0.01;

/// A window on the clock may begin earlier or later by this share of its length: its length is known only about, and there were many
/// windows before. Number of beginnings that are tried on either side.
const SHIFTED: f64 = 0.05;
const SHIFTS: i32 = 20;

/// Records of more answers than this are long.
const LONG: u64 = 300;

/// Responses that take this share of the time between two admissions, or more, are consistent with wrong algorithms, too.
const VAGUE: f64 = 0.25;

/// A fit has expected or advertised numbers if they are within its uncertainty, plus this share, and one request.
const LIKE: f64 = 0.02;

/// A limit is observable only if it takes at least this many response times to recover.
pub(crate) const BLUR: f64 = 4.0;

/// A length of fewer whole milliseconds than this shows whether the clock has them.
const LEAST_TICKS: f64 = 40.0;

/// Multiples of the observed burst that are tried. Searches on a clock are slow and try the burst as it is.
const AROUND: [f64; 5] = [0.97, 0.99, 1.0, 1.01, 1.03];

/// Largest factor between one burst that is tried and the next. Searches on a clock are slow and do without.
const APART: f64 = 1.2;

/// Number of bursts next to the best one that are tried thoroughly.
const DOWNHILL: usize = 12;

/// Number of bursts on either side of the best one that are tried while they are as good.
const OUTWARD: usize = 8;

/// An algorithm with its best parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) model: Model,
    pub(crate) unexplained: u64,
    /// Number of conclusive responses.
    pub(crate) of: u64,
    pub(crate) rate: Estimate,
    pub(crate) burst: Estimate,
    pub(crate) window: Option<Estimate>,
}

#[cfg(test)]
impl Fit {
    /// This model, without uncertainty.
    pub(crate) fn exactly(model: Model) -> Self {
        let exactly = |value| Estimate {
            value,
            plus_minus: 0.0,
        };
        Self {
            model,
            unexplained: 0,
            of: 0,
            rate: exactly(model.rate()),
            burst: exactly(model.burst()),
            window: model.window().map(|window| exactly(window / 1e9)),
        }
    }
}

/// Starting point of the search.
#[derive(Clone, Debug)]
pub(crate) struct Hints {
    /// Long-term rate per nanosecond.
    pub(crate) rate: f64,
    /// The same if pauses of the stream count. The limiter may have admitted less meanwhile.
    pub(crate) with_pauses: f64,
    /// Candidates for the burst.
    pub(crate) bursts: Vec<f64>,
    /// Expected burst and rate per nanosecond.
    pub(crate) numbers: Option<(f64, f64)>,
    /// Prefixes of increasing length, at least one, that start with a full burst after a rest. The last one is
    /// everything.
    pub(crate) parts: Vec<Evidence>,
    /// The same from the first answer on.
    pub(crate) all_parts: Vec<Evidence>,
    /// Number of prefixes, at least one, that are short enough for an expensive search.
    pub(crate) short: usize,
}

impl Hints {
    fn sample(&self) -> &Evidence {
        &self.parts[self.short - 1]
    }
}

impl Fit {
    pub(crate) fn explains_all(&self) -> bool {
        self.unexplained * 500 <= self.of
    }

    pub(crate) fn kind(&self) -> DetectedKind {
        self.model.kind()
    }

    /// Returns whether no other algorithm needs to be tried: it explains a long record of responses that are short enough, and
    /// has the numbers that are expected or advertised, if there are any.
    fn is_clear(&self, evidence: &Evidence, hints: &Hints) -> bool {
        let is_sharp = !self.is_vague(evidence.blur());
        evidence.len() > LONG && self.explains_all() && is_sharp && self.is_like(hints.numbers)
    }

    /// Returns whether responses of `blur` nanoseconds take so long that wrong algorithms explain them, too.
    pub(crate) fn is_vague(&self, blur: f64) -> bool {
        blur * self.rate.value / 1e9 >= VAGUE
    }

    /// Returns whether this is the advertised rate, within its uncertainty.
    pub(crate) fn has_rate(&self, told: &Told) -> bool {
        let rate = told.numbers().map(|(_, rate)| 1e9 * rate);
        rate.is_some_and(|rate| is_near(self.rate, rate, 0.0))
    }

    /// Returns whether this is the burst, within its uncertainty.
    pub(crate) fn has_burst(&self, burst: f64) -> bool {
        is_near(self.burst, burst, 1.0)
    }

    fn is_like(&self, numbers: Option<(f64, f64)>) -> bool {
        numbers.is_none_or(|(burst, rate)| {
            self.has_burst(burst) && is_near(self.rate, 1e9 * rate, 0.0)
        })
    }

    /// Counts the admissions of concurrent requests that are over the limit, wherever a window on the clock begins within its uncertainty.
    pub(crate) fn certainly_over(&self, evidence: &Evidence) -> u64 {
        let model = self.at_most();
        let Model::Segments(segments) = model else {
            return model.over(evidence);
        };
        let shifted = (-SHIFTS..=SHIFTS).map(|shift| {
            let share = SHIFTED * f64::from(shift) / f64::from(SHIFTS);
            let phase = segments.phase + share * segments.window;
            Model::Segments(Segments { phase, ..segments }).over(evidence)
        });
        shifted.min().unwrap_or(0)
    }

    /// The same model at the upper end of its uncertainty, plus a small tolerance. Admissions beyond it are certainly
    /// over.
    pub(crate) fn at_most(&self) -> Model {
        let burst = self.burst.value + self.burst.plus_minus;
        let faster = 1.0 + FASTER + self.rate.plus_minus / self.rate.value;
        match self.model {
            Model::Bucket(bucket) => Model::Bucket(Bucket {
                burst,
                interval: bucket.interval / faster,
            }),
            Model::Queue(bucket) => Model::Queue(Bucket {
                burst,
                interval: bucket.interval / faster,
            }),
            Model::OnRequest(fixed) => Model::OnRequest(OnRequest {
                limit: burst,
                window: fixed.window / faster,
            }),
            Model::Log(log) => Model::Log(Log::new(burst, log.window / faster)),
            Model::Segments(segments) if segments.count == 1 => Model::Segments(Segments {
                limit: burst,
                ..segments
            }),
            // Whenever segments begin.
            Model::Segments(segments) => {
                let window = segments.window - segments.length();
                Model::Log(Log::new(burst, window / faster))
            }
            Model::Counter(counter) => Model::Counter(Counter {
                limit: burst + 1.0,
                ..counter
            }),
            Model::Periods(periods) => Model::Periods(Periods {
                limit: burst + 1.0,
                ..periods
            }),
        }
    }
}

fn is_near(estimate: Estimate, number: f64, more: f64) -> bool {
    (estimate.value - number).abs() <= estimate.plus_minus + LIKE * number + more
}

/// An algorithm after a rough search.
struct Rough {
    search: Search,
    burst: f64,
    plateau: Plateau,
}

/// Returns the best fit of each `wanted` algorithm, best first; of equals, those with the expected or advertised numbers, then the simpler.
pub(crate) fn fits(
    evidence: &Evidence,
    hints: &Hints,
    wanted: impl Fn(DetectedKind) -> bool,
) -> Vec<Fit> {
    let mut fits: Vec<Fit> = Vec::new();
    for (kind, search) in SEARCHES.iter().filter(|(kind, _)| wanted(*kind)) {
        // The searches for two counters and for segments are slow. They are skipped if a simpler algorithm is clear.
        let is_clear = fits.iter().any(|fit| fit.is_clear(evidence, hints));
        let is_long = matches!(
            kind,
            DetectedKind::SegmentedWindow(_) | DetectedKind::SlidingCounter
        );
        if !is_long || !is_clear {
            let bursts = if kind.is_on_clock() {
                candidates(&hints.bursts, &[1.0])
            } else {
                filled(candidates(&hints.bursts, &AROUND))
            };
            let rough = rough(hints, *search, &bursts);
            fits.extend(rough.and_then(|rough| best_burst(evidence, hints, &rough)));
        }
    }
    // An over-admission before the response would be consistent with any response.
    let least = BLUR * evidence.blur();
    fits.retain(|fit| {
        let memory = fit.burst.value * 1e9 / fit.rate.value;
        fit.rate.value > 0.0 && memory > least && evidence.clock().can_see(memory)
    });
    fits.sort_by_key(|fit| (fit.unexplained, !fit.is_like(hints.numbers)));
    fits
}

/// Tries all candidates for a burst on a sample.
fn rough(hints: &Hints, search: Search, candidates: &[f64]) -> Option<Rough> {
    let roughs = candidates.iter().filter_map(|&burst| {
        let (plateau, _) = search(hints.sample(), hints, Reach::rough(burst))?;
        Some(Rough {
            search,
            burst,
            plateau,
        })
    });
    roughs.min_by(|a, b| a.plateau.order(&b.plateau))
}

/// Refines the rough result: searches thoroughly around the best burst, downhill.
fn best_burst(evidence: &Evidence, hints: &Hints, rough: &Rough) -> Option<Fit> {
    let mut burst = rough.burst;
    let thorough = |burst: f64| {
        let (plateau, model) = (rough.search)(evidence, hints, Reach::thorough(burst))?;
        Some((burst, plateau, model))
    };
    let mut tried: Vec<(f64, Plateau, Model)> = thorough(burst).into_iter().collect();
    if let Some((burst, rate)) = hints.numbers {
        let numbers = Hints {
            rate,
            with_pauses: rate,
            ..hints.clone()
        };
        let found = (rough.search)(evidence, &numbers, Reach::near(burst));
        tried.extend(found.map(|(plateau, model)| (burst, plateau, model)));
    }
    for _ in 0..DOWNHILL {
        let next = [burst - 1.0, burst + 1.0]
            .into_iter()
            .find(|next| *next >= 1.0 && tried.iter().all(|(tried, _, _)| tried != next));
        let Some(next) = next else { break };
        tried.extend(thorough(next));
        burst = best_of(&tried)?.0;
    }
    for step in [-1.0, 1.0] {
        let mut edge = burst;
        for _ in 0..OUTWARD {
            edge += step;
            if edge < 1.0 {
                break;
            }
            if tried.iter().all(|(tried, _, _)| *tried != edge) {
                tried.extend(thorough(edge));
            }
            let least = best_of(&tried)?.1.score;
            let is_as_good = |(other, plateau, _): &(f64, Plateau, Model)| {
                *other == edge && plateau.score == least
            };
            if !tried.iter().any(is_as_good) {
                break;
            }
        }
    }
    let (burst, plateau, model) = *best_of(&tried)?;
    let most = as_good_as(plateau.score, evidence.len());
    let as_good: Vec<_> = tried
        .iter()
        .filter(|(_, other, _)| other.score <= most)
        .collect();
    let off = as_good
        .iter()
        .map(|(other, _, _)| (other - burst).abs())
        .fold(0.0, f64::max);
    let (model, clocked_off) = as_clocked(model, plateau, evidence);
    let length = length(model);
    // Another burst allows other lengths.
    let as_good = as_good
        .iter()
        .filter(|(other, _, _)| matches!(model, Model::Bucket(_)) || *other == burst);
    let ends = as_good.flat_map(|(_, other, of)| lengths_as_good(*of, *other, evidence));
    let length_off = ends
        .map(|end| (end - length).abs())
        .fold(clocked_off, f64::max);
    let share = length_off / length + off / burst * f64::from(model.window().is_some());
    let estimate = |value: f64, plus_minus: f64| Estimate { value, plus_minus };
    Some(Fit {
        model,
        unexplained: plateau.score,
        of: evidence.len(),
        rate: estimate(model.rate(), model.rate() * share),
        burst: estimate(burst, off),
        window: model
            .window()
            .map(|window| estimate(window / 1e9, length_off / 1e9)),
    })
}

/// Returns the length of the window, or the time between two tokens.
fn length(model: Model) -> f64 {
    model.window().unwrap_or(1e9 / model.rate())
}

/// Returns the shortest and the longest length with which a model is about as good. Windows on the clock bring their range
/// along.
fn lengths_as_good(model: Model, plateau: Plateau, evidence: &Evidence) -> [f64; 2] {
    if !matches!(
        model,
        Model::Bucket(_) | Model::OnRequest(_) | Model::Log(_)
    ) {
        return [plateau.low, plateau.high];
    }
    let seen = seen_vaguely(evidence, &model);
    let seen = seen.as_ref().unwrap_or(evidence);
    let most = as_good_as(model.unexplained(seen), seen.len());
    let wide = plateau
        .around(length(model))
        .widened(most, |length| lasting(model, length).unexplained(seen));
    [wide.low.min(plateau.low), wide.high.max(plateau.high)]
}

/// Returns the evidence for a clock of whole milliseconds, if the length ends with a tick that does not show beside it.
pub(crate) fn seen_vaguely(evidence: &Evidence, model: &Model) -> Option<Evidence> {
    let shows = evidence.clock().tick().is_some() || length(*model) < LEAST_TICKS * SHORTEST_TICK;
    (!shows && ends_with_a_tick(*model)).then(|| evidence.in_whole_milliseconds())
}

/// Returns whether a length ends with a tick: that of a window, and the time between tokens if the burst is one.
fn ends_with_a_tick(model: Model) -> bool {
    model.window().is_some() || model.burst() == 1.0
}

/// Returns `model` with the length in the middle of `plateau` as a clock with ticks measures it, and its uncertainty.
///
/// A length of more than two and up to three ticks takes three ticks. That holds for a window, and for the time between
/// tokens if the burst is one.
fn as_clocked(model: Model, plateau: Plateau, evidence: &Evidence) -> (Model, f64) {
    let Some(tick) = evidence.clock().tick().filter(|_| ends_with_a_tick(model)) else {
        return (model, plateau.half());
    };
    let shortest = ((plateau.low / tick).floor() + 1.0) * tick;
    let up_to = [plateau.high / tick, plateau.high / tick - 1.0];
    let whole = up_to.map(|ticks| lasting(model, ticks.ceil() * tick));
    let longest = whole
        .into_iter()
        .find(|longer| longer.unexplained(evidence) <= plateau.score);
    let Some(longest) = longest else {
        return (model, plateau.half());
    };
    (longest, (length(longest) - shortest).max(0.0))
}

/// Returns the model with another time between tokens or window. Models with a window on the clock stay unchanged.
fn lasting(model: Model, length: f64) -> Model {
    match model {
        Model::Bucket(bucket) => Model::Bucket(Bucket {
            interval: length,
            ..bucket
        }),
        Model::OnRequest(fixed) => Model::OnRequest(OnRequest {
            window: length,
            ..fixed
        }),
        Model::Log(log) => Model::Log(Log::new(log.limit, length)),
        other => other,
    }
}

fn best_of(tried: &[(f64, Plateau, Model)]) -> Option<&(f64, Plateau, Model)> {
    tried.iter().min_by(|a, b| a.1.order(&b.1))
}

/// Returns these and more between, so that no two that follow each other are further apart than by `APART`.
fn filled(mut bursts: Vec<f64>) -> Vec<f64> {
    for index in 1..bursts.len() {
        let (mut low, high) = (bursts[index - 1], bursts[index]);
        while (low * APART).ceil() < high {
            low = (low * APART).ceil();
            bursts.push(low);
        }
    }
    bursts
}

/// Returns the whole numbers at these multiples of `bursts`.
fn candidates(bursts: &[f64], multiples: &[f64]) -> Vec<f64> {
    let all = bursts
        .iter()
        .flat_map(|burst| multiples.iter().map(move |factor| (burst * factor).round()));
    let mut all: Vec<f64> = all.filter(|burst| *burst >= 1.0).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}
