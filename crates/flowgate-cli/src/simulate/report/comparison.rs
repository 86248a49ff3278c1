//! A comparison of runs, as plain numbers.

use std::cmp::Reverse;
use std::time::Duration;

use flowgate_sim::{
    KeyCounts, KeyTable, Latency, OutcomeCounts, RunOutcome, SourceOutcome, StopReason, TimeSlot,
    WorstWindow,
};
use serde::{Deserialize, Serialize};

/// Number of keys that are named as refused most.
const NAMED: usize = 5;
/// Each group of ranks is longer than the one before by about this part of it.
const GROWTH: usize = 12;
/// The histogram does not distinguish shorter durations.
const SHORTEST_NS: u64 = 1_000;

/// What was simulated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    /// One line, such as the name of the scenario.
    pub(crate) title: String,
    /// The scenario as it can be run again.
    pub(crate) scenario: String,
    /// Seed of all random numbers.
    pub(crate) seed: u64,
}

/// What came of the same traffic under one policy or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) title: String,
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    /// How long requests arrived.
    pub(crate) duration_ns: u64,
    /// Length of a slot.
    pub(crate) slot_ns: u64,
    pub(crate) policies: Vec<PolicyRun>,
}

/// A run under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyRun {
    pub(crate) policy: String,
    /// The same for the same decisions at the same times, in hexadecimal digits.
    pub(crate) hash: String,
    pub(crate) events: u64,
    /// When the last thing happened.
    pub(crate) ended_ns: u64,
    /// Why it ended before its time, if it did.
    pub(crate) stopped: Option<Stopped>,
    pub(crate) counts: OutcomeCounts,
    /// Share of the attempts; none without attempts.
    pub(crate) refused_share: Option<f64>,
    pub(crate) goodput_per_second: f64,
    /// Jain's index over what was admitted of each key; none with fewer than two keys.
    pub(crate) fairness: Option<f64>,
    pub(crate) wait: Spread,
    pub(crate) latency: Spread,
    pub(crate) sources: Vec<Source>,
    pub(crate) windows: Vec<Window>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) keys: Keys,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stopped {
    Events,
    Pending,
    Interrupted,
    Other,
}

/// One source of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) counts: OutcomeCounts,
    pub(crate) wait: Spread,
    pub(crate) latency: Spread,
}

/// The most tokens that were admitted in any window of a length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) window_ns: u64,
    pub(crate) tokens: u64,
    /// When the last of them were admitted.
    pub(crate) at_ns: u64,
    /// The most that the policy guarantees, if it has such a guarantee.
    pub(crate) guarantee: Option<u64>,
    /// Whether tokens and guarantee are those of one key.
    pub(crate) is_per_key: bool,
    /// Whether there is no worse window.
    pub(crate) is_exact: bool,
}

/// A distribution of durations; all zero without samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) samples: u64,
    pub(crate) mean_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
    /// Shares of the samples, and what they do not exceed. Ten for each further nine of the share.
    pub(crate) curve: Vec<Quantile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantile {
    pub(crate) share: f64,
    pub(crate) ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slot {
    pub(crate) attempts: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) in_time: u64,
    pub(crate) longest_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) count: u64,
    /// The keys by the number of their attempts, in groups. The first groups have one key each.
    pub(crate) ranks: Vec<Ranks>,
    pub(crate) most_refused: Vec<RefusedKey>,
}

/// Keys whose ranks by attempts follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ranks {
    /// The lowest rank, from 1.
    pub(crate) first: u64,
    pub(crate) keys: u64,
    pub(crate) attempts: u64,
    pub(crate) admitted: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RefusedKey {
    pub(crate) key: String,
    pub(crate) attempts: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

impl RefusedKey {
    pub(crate) fn refused_share(&self) -> f64 {
        self.refused as f64 / self.attempts.max(1) as f64
    }
}

impl Comparison {
    /// Creates the comparison of runs with the same traffic.
    ///
    /// `key_name` returns the name of a key, such as the address in a log.
    pub(crate) fn new(
        description: &Description,
        outcomes: &[RunOutcome],
        key_name: impl Fn(u64) -> String,
    ) -> Comparison {
        let longest = |of: fn(&RunOutcome) -> Duration| outcomes.iter().map(of).max();
        Comparison {
            title: description.title.clone(),
            scenario: description.scenario.clone(),
            seed: description.seed,
            duration_ns: nanos(longest(|outcome| outcome.duration).unwrap_or_default()),
            slot_ns: nanos(longest(|outcome| outcome.slot).unwrap_or_default()).max(1),
            policies: outcomes
                .iter()
                .map(|outcome| PolicyRun::new(outcome, &key_name))
                .collect(),
        }
    }

    pub(crate) fn slot_seconds(&self) -> f64 {
        self.slot_ns as f64 / 1e9
    }
}

impl PolicyRun {
    fn new(outcome: &RunOutcome, key_name: &impl Fn(u64) -> String) -> PolicyRun {
        PolicyRun {
            policy: outcome.policy.clone(),
            hash: format!("{:016x}", outcome.hash()),
            events: outcome.events,
            ended_ns: nanos(outcome.ended),
            stopped: outcome.stopped.map(|reason| match reason {
                StopReason::Events => Stopped::Events,
                StopReason::Pending => Stopped::Pending,
                StopReason::Interrupted => Stopped::Interrupted,
                _ => Stopped::Other,
            }),
            counts: outcome.counts,
            refused_share: refused_share(&outcome.counts),
            goodput_per_second: match outcome.duration.is_zero() {
                true => 0.0,
                false => outcome.goodput(),
            },
            fairness: (outcome.keys.len() > 1).then(|| outcome.fairness()),
            wait: Spread::new(&outcome.wait),
            latency: Spread::new(&outcome.latency),
            sources: outcome.sources.iter().map(Source::new).collect(),
            windows: outcome.windows.iter().map(Window::new).collect(),
            slots: outcome.slots.iter().map(Slot::new).collect(),
            keys: Keys::new(&outcome.keys, key_name),
        }
    }
}

/// Share of the attempts that were refused; none without attempts.
pub(super) fn refused_share(counts: &OutcomeCounts) -> Option<f64> {
    (counts.attempts > 0).then(|| counts.refused as f64 / counts.attempts as f64)
}

impl Source {
    fn new(source: &SourceOutcome) -> Source {
        Source {
            name: source.name.clone(),
            counts: source.counts,
            wait: Spread::new(&source.wait),
            latency: Spread::new(&source.latency),
        }
    }
}

impl Window {
    fn new(window: &WorstWindow) -> Window {
        let is_per_key = window.bound.is_some_and(|bound| bound.is_per_key);
        let worst = match is_per_key {
            true => window.worst_of_key,
            false => window.worst,
        };
        Window {
            window_ns: nanos(window.window),
            tokens: worst.cost,
            at_ns: nanos(worst.at),
            guarantee: window.bound.map(|bound| bound.tokens),
            is_per_key,
            is_exact: window.is_exact,
        }
    }
}

impl Spread {
    fn new(durations: &Latency) -> Spread {
        // A quantile is the upper end of its place in the histogram.
        let max = durations.max();
        let quantile = |share| match nanos(durations.quantile(share).min(max)) {
            0..SHORTEST_NS => 0,
            ns => ns,
        };
        let samples = durations.count();
        // 1/(1 − share) from 1 to the number of samples, and ten for each power of ten.
        let rarities = (0..).map(|step| 10_f64.powf(f64::from(step) / 10.0));
        let rarities = rarities.take_while(|rarity| *rarity < samples as f64);
        let shares = rarities.map(|rarity| 1.0 - 1.0 / rarity);
        let last = (samples > 0).then_some(1.0);
        Spread {
            samples,
            mean_ns: nanos(durations.mean()),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: nanos(max),
            curve: shares
                .chain(last)
                .map(|share| Quantile {
                    share,
                    ns: quantile(share),
                })
                .collect(),
        }
    }
}

impl Slot {
    fn new(slot: &TimeSlot) -> Slot {
        Slot {
            attempts: slot.attempts,
            admitted: slot.admitted,
            refused: slot.refused,
            in_time: slot.in_time,
            longest_ns: nanos(slot.longest),
        }
    }
}

impl Keys {
    fn new(keys: &KeyTable, key_name: &impl Fn(u64) -> String) -> Keys {
        let mut by_attempts: Vec<KeyCounts> = keys.values().copied().collect();
        by_attempts.sort_unstable_by_key(|counts| Reverse((counts.attempts, counts.admitted)));
        let mut ranks = Vec::new();
        let mut rest = by_attempts.as_slice();
        while !rest.is_empty() {
            let first = by_attempts.len() - rest.len() + 1;
            let (group, after) = rest.split_at((first / GROWTH).clamp(1, rest.len()));
            ranks.push(Ranks {
                first: first as u64,
                keys: group.len() as u64,
                attempts: group.iter().map(|counts| counts.attempts).sum(),
                admitted: group.iter().map(|counts| counts.admitted).sum(),
            });
            rest = after;
        }
        let most = keys.most_refused(NAMED).into_iter();
        let named = most.map(|(key, counts)| RefusedKey {
            key: key_name(key),
            attempts: counts.attempts,
            admitted: counts.admitted,
            refused: counts.refused,
        });
        Keys {
            count: keys.len() as u64,
            ranks,
            most_refused: named.collect(),
        }
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
