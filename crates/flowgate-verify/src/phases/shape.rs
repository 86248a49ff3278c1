//! Which kind is it? Only what the kinds that are left would answer differently is asked.

use fastrand::Rng;

use crate::fit::Fit;
use crate::inquiry::Inquiry;
use crate::models::{Model, Segments};
use crate::{Phase, Subject};

/// Times of requests that those who are left are put to, from a beginning at which they have forgotten everything.
pub(crate) struct Probe {
    pub(crate) times: Vec<f64>,
}

/// Of the time left, what one probe may take.
const SHARE: f64 = 0.35;

/// Answers in which two kinds must differ for a probe to tell them apart: so many and so large a part.
const DIFFERENT: u64 = 3;
const DIFFERENT_SHARE: f64 = 0.02;

/// Asks what tells most of the `contenders` apart. Whether anything does.
pub(crate) fn shape<S: Subject>(
    inquiry: &mut Inquiry<'_, S>,
    contenders: &[Fit],
    rng: &mut Rng,
) -> Result<bool, S::Error> {
    let models: Vec<Model> = contenders.iter().map(|fit| fit.model).collect();
    let forgotten = models.iter().map(Model::memory).fold(0.0, f64::max);
    let from = inquiry.now_ns() as f64 + 1.02 * forgotten;
    let until = inquiry.now_ns() as f64 + inquiry.time_left_ns() as f64 * SHARE;
    let most = inquiry.requests_left() / 4;
    let probes = probes(&models, from, rng).into_iter();
    let best = probes
        .filter(|probe| probe.times.len() as u64 <= most)
        .filter(|probe| probe.times.last().is_some_and(|last| *last < until))
        .map(|probe| (told_apart(&models, &probe), probe))
        .filter(|(pairs, _)| *pairs > 0)
        .min_by_key(|(pairs, probe)| (usize::MAX - pairs, probe.times.len()));
    let Some((_, probe)) = best else {
        return Ok(false);
    };
    let peak = models.iter().map(Model::rate).fold(0.0, f64::max) / 1e9;
    let lanes = inquiry.lanes_for(2.0 * peak);
    inquiry.ask_at(Phase::Shape, &probe.times, lanes, 0)?;
    Ok(true)
}

/// How many pairs of `models` answer a probe differently.
fn told_apart(models: &[Model], probe: &Probe) -> usize {
    let answers: Vec<Vec<bool>> = models
        .iter()
        .map(|model| {
            let mut decide = model.start();
            probe.times.iter().map(|at| decide(*at)).collect()
        })
        .collect();
    let needed = DIFFERENT.max((probe.times.len() as f64 * DIFFERENT_SHARE) as u64);
    let pairs = (0..answers.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let differ = |(a, b): &(usize, usize)| {
        let both = answers[*a].iter().zip(&answers[*b]);
        both.filter(|(a, b)| a != b).count() as u64 >= needed
    };
    pairs.filter(differ).count()
}

/// What may tell them apart, from `from` on.
fn probes(models: &[Model], from: f64, rng: &mut Rng) -> Vec<Probe> {
    let mut probes = Vec::new();
    let windows = models.iter().filter(|model| model.window().is_some());
    for model in windows.chain(models.first()) {
        let limit = model.burst();
        let window = model.window().unwrap_or_else(|| model.memory());
        // Half, a pause, the other half, and everything when only the first half is over.
        probes.push(volleys(
            from,
            &[(0.0, limit / 2.0), (0.6, limit / 2.0), (1.1, limit)],
            window,
        ));
        probes.push(volleys(
            from,
            &[(0.0, limit), (0.5, limit), (1.05, limit), (1.5, limit)],
            window,
        ));
        if let Model::Segments(Segments {
            count: 1, phase, ..
        }) = *model
        {
            // Everything just before a boundary, and everything just after it.
            let boundary = phase + ((from - phase) / window).ceil() * window;
            let around = [(-0.1, limit), (0.05, limit)];
            let from = boundary
                + if boundary - from < 0.1 * window {
                    window
                } else {
                    0.0
                };
            probes.push(volleys(from, &around, window));
        }
    }
    if let Some(model) = models.first() {
        for windows in [2.0, 4.0] {
            probes.push(random(from, model, windows, rng));
        }
    }
    probes
}

/// So many at once at so many windows from `from`.
fn volleys(from: f64, volleys: &[(f64, f64)], window: f64) -> Probe {
    let times = volleys.iter().flat_map(|(after, n)| {
        let n = n.ceil().max(1.0) as usize;
        std::iter::repeat_n(from + after * window, n)
    });
    Probe {
        times: times.collect(),
    }
}

/// Bursts of random sizes at random times, a little more than the rate in all.
fn random(from: f64, model: &Model, windows: f64, rng: &mut Rng) -> Probe {
    let rate = model.rate() / 1e9;
    let least = 40.0_f64.max(windows * model.burst());
    let mut times = Vec::new();
    let mut at = from;
    while (times.len() as f64) < least {
        let size = 1.0 + (rng.f64() * model.burst() / 2.0).floor();
        times.extend(std::iter::repeat_n(at, size as usize));
        at += size / rate * rng.f64() * 1.5;
    }
    Probe { times }
}
