//! Which algorithm is it? Sends only what the remaining algorithms would decide differently.

use fastrand::Rng;

use crate::Phase;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, Unreachable};
use crate::models::{Model, Segments};

/// Times of requests that distinguish algorithms. At the first one, the algorithms have forgotten everything.
pub(crate) struct Trial {
    pub(crate) times: Vec<f64>,
}

/// Share of the remaining time that one trial may use.
const SHARE: f64 = 0.35;

/// Number and share of responses in which two algorithms must differ for a trial to distinguish them.
const DIFFERENT: u64 = 3;
const DIFFERENT_SHARE: f64 = 0.02;

/// Sends the trial that distinguishes most of the `contenders`. Returns whether there is one.
pub(crate) fn shape(
    inquiry: &mut Inquiry<'_>,
    contenders: &[Fit],
    rng: &mut Rng,
) -> Result<bool, Unreachable> {
    let models: Vec<Model> = contenders.iter().map(|fit| fit.model).collect();
    let forgotten = models.iter().map(Model::memory).fold(0.0, f64::max);
    let from = inquiry.now_ns() as f64 + 1.02 * forgotten;
    let until = inquiry.now_ns() as f64 + inquiry.time_left_ns() as f64 * SHARE;
    let most = inquiry.requests_left() / 4;
    let trials = trials(&models, from, rng).into_iter();
    let best = trials
        .filter(|trial| trial.times.len() as u64 <= most)
        .filter(|trial| trial.times.last().is_some_and(|last| *last < until))
        .map(|trial| (pairs_told_apart(&models, &trial), trial))
        .filter(|(pairs, _)| *pairs > 0)
        .min_by_key(|(pairs, trial)| (usize::MAX - pairs, trial.times.len()));
    let Some((_, trial)) = best else {
        return Ok(false);
    };
    let peak = models.iter().map(Model::rate).fold(0.0, f64::max) / 1e9;
    let connections = inquiry.connections_for(2.0 * peak);
    inquiry.ask_at(Phase::Shape, &trial.times, connections, 0)?;
    Ok(true)
}

/// Returns how many pairs of `models` respond to a trial differently.
fn pairs_told_apart(models: &[Model], trial: &Trial) -> usize {
    let answers: Vec<Vec<bool>> = models
        .iter()
        .map(|model| {
            let mut decide = model.start();
            trial.times.iter().map(|at| decide(*at)).collect()
        })
        .collect();
    let needed = DIFFERENT.max((trial.times.len() as f64 * DIFFERENT_SHARE) as u64);
    let pairs = (0..answers.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let differ = |(a, b): &(usize, usize)| {
        let both = answers[*a].iter().zip(&answers[*b]);
        both.filter(|(a, b)| a != b).count() as u64 >= needed
    };
    pairs.filter(differ).count()
}

/// Returns the trials that may distinguish the models, starting at `from`.
fn trials(models: &[Model], from: f64, rng: &mut Rng) -> Vec<Trial> {
    let mut trials = Vec::new();
    let windows = models.iter().filter(|model| model.window().is_some());
    for model in windows.chain(models.first()) {
        let limit = model.burst();
        let window = model.window().unwrap_or_else(|| model.memory());
        // Half, a pause, the other half, and a full burst once only the first half has expired.
        trials.push(batches(
            from,
            &[(0.0, limit / 2.0), (0.6, limit / 2.0), (1.1, limit)],
            window,
        ));
        trials.push(batches(
            from,
            &[(0.0, limit), (0.5, limit), (1.05, limit), (1.5, limit)],
            window,
        ));
        if let Model::Segments(Segments {
            count: 1, phase, ..
        }) = *model
        {
            // A full burst just before a boundary, and one just after it.
            let boundary = phase + ((from - phase) / window).ceil() * window;
            let around = [(-0.1, limit), (0.05, limit)];
            let from = boundary
                + if boundary - from < 0.1 * window {
                    window
                } else {
                    0.0
                };
            trials.push(batches(from, &around, window));
        }
    }
    if let Some(model) = models.first() {
        for windows in [2.0, 4.0] {
            trials.push(random(from, model, windows, rng));
        }
    }
    trials
}

/// Returns a trial of several batches: for each, an offset from `from` in windows, and a size.
fn batches(from: f64, batches: &[(f64, f64)], window: f64) -> Trial {
    let times = batches.iter().flat_map(|(after, n)| {
        let n = n.ceil().max(1.0) as usize;
        std::iter::repeat_n(from + after * window, n)
    });
    Trial {
        times: times.collect(),
    }
}

/// Returns a trial of random bursts at random times, in total a little more than the rate.
fn random(from: f64, model: &Model, windows: f64, rng: &mut Rng) -> Trial {
    let rate = model.rate() / 1e9;
    let least = 40.0_f64.max(windows * model.burst());
    let mut times = Vec::new();
    let mut at = from;
    while (times.len() as f64) < least {
        let size = 1.0 + (rng.f64() * model.burst() / 2.0).floor();
        times.extend(std::iter::repeat_n(at, size as usize));
        at += size / rate * rng.f64() * 1.5;
    }
    Trial { times }
}
