//! Searches over queues in virtual time, whose truth is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use hyper::StatusCode;

use super::blocks::Blocks;
use super::conduct::{Behind, Offered, Service, ServiceLost, conduct};
use super::finding::{End, LoadFinding};
use super::judgment::quantile;
use super::load_search::LoadSearch;
use super::slo::{Condition, Slo};
use crate::connection::Answer;
use crate::event::Outcome;

/// A server with some workers and one queue.
struct Queue {
    workers: usize,
    service: fn(&mut fastrand::Rng) -> f64,
    arrivals: fn(&mut fastrand::Rng) -> f64,
    /// Whether the request at this rate fails.
    fails: fn(&mut fastrand::Rng, f64) -> bool,
    /// The highest rate that the client can send.
    client: f64,
    /// Number of steps in which the client reports that it was late, and is.
    late_steps: u32,
    random: fastrand::Rng,
    elapsed: Duration,
}

fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

fn constant(_: &mut fastrand::Rng) -> f64 {
    1.0
}

const SERVICE: f64 = 0.01;

impl Queue {
    fn new(workers: usize, seed: u64) -> Queue {
        Queue {
            workers,
            service: exponential,
            arrivals: exponential,
            fails: |_, _| false,
            client: f64::INFINITY,
            late_steps: 0,
            random: fastrand::Rng::with_seed(seed),
            elapsed: Duration::ZERO,
        }
    }
}

impl Service for Queue {
    fn offer(&mut self, level: f64, span: Duration, _: u64) -> Result<Offered, ServiceLost> {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let mut blocks = Blocks::new(span);
        let mut free: BinaryHeap<Reverse<u64>> = (0..self.workers).map(|_| Reverse(0)).collect();
        let (mut at, mut sent, mut completed) = (0.0, 0, 0);
        let mut overrun = None;
        let rate = level.min(self.client);
        let is_late = self.late_steps > 0;
        self.late_steps = self.late_steps.saturating_sub(1);
        loop {
            at += (self.arrivals)(&mut self.random) / rate;
            if at >= span.as_secs_f64() {
                break;
            }
            sent += 1;
            let Reverse(idle) = free.pop().expect("there are workers");
            let began = ns(at).max(idle);
            let done = began + ns((self.service)(&mut self.random) * SERVICE);
            free.push(Reverse(done));
            let status = match (self.fails)(&mut self.random, level) {
                true => StatusCode::INTERNAL_SERVER_ERROR,
                false => StatusCode::OK,
            };
            blocks.over(ns(at), done, Outcome::Answered(Answer::new(status, 0)));
            completed += u64::from(u128::from(done) < span.as_nanos());
            if done > ns(at) + 1_000_000_000 && at > 1.0 {
                overrun = Some(sent - completed);
                break;
            }
        }
        let lasted = at.min(span.as_secs_f64());
        self.elapsed += Duration::from_secs_f64(lasted);
        let completed = free.len() as f64 / SERVICE;
        let is_behind = level > self.client;
        Ok(Offered {
            blocks,
            sent,
            connections: 0,
            completed_per_second: completed.min(sent as f64 / lasted),
            overrun: overrun.filter(|_| !is_behind),
            behind: match (is_behind, is_late) {
                (true, _) => Some(Behind::Short("the client is slow".to_owned())),
                (false, true) => Some(Behind::Late("the client is late".to_owned())),
                (false, false) => None,
            },
        })
    }

    fn recover(&mut self, _: Duration) -> Result<bool, ServiceLost> {
        self.elapsed += Duration::from_millis(500);
        Ok(true)
    }

    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

fn wish(conditions: &[Condition]) -> LoadSearch {
    LoadSearch::new(Slo::new(conditions.iter().copied()).unwrap())
}

fn p99(ms: u64) -> Condition {
    Condition::quantile(0.99, Duration::from_millis(ms)).unwrap()
}

fn found(queue: &mut Queue, wish: &LoadSearch) -> LoadFinding {
    conduct(queue, wish, |_| {}).unwrap()
}

/// Share of response times above `time` of an M/M/c queue (Erlang's C, and the sum of two exponential times).
fn over(workers: usize, rate: f64, time: f64) -> f64 {
    let (c, mu) = (workers as f64, 1.0 / SERVICE);
    let load = rate / mu;
    let mut blocking = 1.0;
    for k in 1..=workers {
        blocking = load * blocking / (k as f64 + load * blocking);
    }
    let waits = c * blocking / (c - load * (1.0 - blocking));
    let drain = c * mu - rate;
    let both = (drain * (-mu * time).exp() - mu * (-drain * time).exp()) / (drain - mu);
    (1.0 - waits) * (-mu * time).exp() + waits * both
}

/// Share of response times above `time` of an M/D/1 queue (Erlang): its sum alternates, so `time` has to be short.
fn over_fixed(rate: f64, time: f64) -> f64 {
    let waits = time - SERVICE;
    if waits < 0.0 {
        return 1.0;
    }
    let most = (waits / SERVICE).floor() as u32;
    let (mut within, mut factorial) = (0.0, 1.0);
    for k in 0..=most {
        factorial *= f64::from(k.max(1));
        let x = rate * (f64::from(k) * SERVICE - waits);
        within += x.powi(k as i32) / factorial * (-x).exp();
    }
    1.0 - (1.0 - rate * SERVICE) * within
}

/// The highest rate at which the share of slow requests is at most `share`.
fn truth(capacity: f64, share: f64, over: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1.0, capacity * 0.999_999);
    while high - low > 1e-6 * high {
        let middle = (low + high) / 2.0;
        match over(middle) > share {
            true => high = middle,
            false => low = middle,
        }
    }
    low
}

/// Returns how many searches are drawn: few, or all.
fn draws(few: u64, all: u64) -> u64 {
    match std::env::var_os("FLOWGATE_LONG") {
        Some(_) => all,
        None => few,
    }
}

/// How many searches were right.
#[derive(Debug, Default)]
struct Score {
    searches: u64,
    /// Whose result is within 2 % of the truth.
    near: u64,
    /// Whose certain levels are on both sides of the truth.
    certain: u64,
}

impl Score {
    /// Searches with these seeds.
    fn of(seeds: u64, queue: impl Fn(u64) -> Queue, wish: &LoadSearch, truth: f64) -> Score {
        let mut score = Score::default();
        for seed in 0..seeds {
            let finding = found(&mut queue(seed), wish);
            let (kept, broken) = (finding.kept.unwrap(), finding.broken.unwrap());
            score.searches += 1;
            score.near += u64::from(((kept + broken) / 2.0 / truth - 1.0).abs() < 0.02);
            let (from, to) = finding.certain();
            score.certain += u64::from((from.unwrap()..to.unwrap()).contains(&truth));
            assert!(finding.steps.len() <= 12, "{finding}");
            assert!(finding.elapsed <= wish.within * 11 / 10, "{finding}");
        }
        score
    }

    /// Checks the shares that a search promises.
    fn check(&self) {
        assert!(self.near * 20 >= self.searches * 19, "{self:?}");
        assert!(self.certain * 10 >= self.searches * 9, "{self:?}");
    }
}

#[test]
fn the_highest_rate_of_a_random_queue_is_found_within_two_percent() {
    let truth = truth(1_600.0, 0.01, |rate| over(16, rate, 0.1));
    let wish = LoadSearch {
        within: Duration::from_secs(600),
        ..wish(&[p99(100)])
    };
    Score::of(draws(5, 40), |seed| Queue::new(16, seed), &wish, truth).check();
}

/// A steady server that gets requests at random times.
#[test]
fn the_highest_rate_of_a_fixed_service_is_found_within_two_percent() {
    let truth = truth(100.0, 0.01, |rate| over_fixed(rate, 0.06));
    // One worker has few requests in a second.
    let wish = LoadSearch {
        within: Duration::from_secs(14_400),
        ..wish(&[p99(60)])
    };
    let queue = |seed| Queue {
        service: constant,
        ..Queue::new(1, seed)
    };
    Score::of(draws(4, 40), queue, &wish, truth).check();
}

/// Of runs at one rate, by steps as long as a search takes near its result: about 100 requests are slower than p99.
#[test]
fn the_interval_of_a_percentile_contains_the_truth() {
    let fixed = |seed| Queue {
        service: constant,
        ..Queue::new(1, seed)
    };
    let random = |seed| Queue::new(16, seed);
    let over_random = |rate: f64, time: f64| over(16, rate, time);
    let seeds = draws(100, 1_000);
    let covered = |rate: f64, queue: &dyn Fn(u64) -> Queue, over: &dyn Fn(f64, f64) -> f64| {
        let contains = |seed| {
            let span = Duration::from_secs_f64(10_000.0 / rate);
            let offered = queue(seed).offer(rate, span, u64::MAX).unwrap();
            let p99 = quantile(&offered.blocks.parts(), 0.99);
            // The shares above the ends of the interval are on both sides of 1 %.
            over(rate, p99.low / 1e9) >= 0.01 && over(rate, p99.high / 1e9) <= 0.01
        };
        (0..seeds).filter(|&seed| contains(seed)).count() as u64
    };
    for rate in [20.0, 50.0, 63.0] {
        let covered = covered(rate, &fixed, &over_fixed);
        assert!(
            covered * 10 >= seeds * 9,
            "{covered} of {seeds} at {rate}/s"
        );
    }
    for rate in [500.0, 1_200.0, 1_450.0] {
        let covered = covered(rate, &random, &over_random);
        assert!(
            covered * 10 >= seeds * 9,
            "{covered} of {seeds} at {rate}/s"
        );
    }
}

#[test]
fn the_capacity_of_a_steady_server_is_found_in_a_minute() {
    for workers in [1, 7, 40] {
        let capacity = workers as f64 / SERVICE;
        let mut queue = Queue {
            service: constant,
            arrivals: constant,
            ..Queue::new(workers, 1)
        };
        let finding = found(&mut queue, &wish(&[p99(50)]));
        let (kept, broken) = (finding.kept.unwrap(), finding.broken.unwrap());
        // As a person would write them.
        assert!(
            finding
                .steps
                .iter()
                .all(|step| step.level.to_string().len() <= 6),
            "{finding:?}"
        );
        assert!(kept <= capacity * 1.001 && broken >= capacity, "{finding}");
        assert!(
            broken / kept <= 1.021 && finding.end == End::Found,
            "{finding}"
        );
        assert!(
            finding.elapsed < Duration::from_secs(90) && finding.steps.len() <= 12,
            "{finding}"
        );
    }
}

#[test]
fn a_server_that_fails_beyond_a_rate_is_found_by_its_errors() {
    let mut queue = Queue {
        fails: |random, rate| rate > 700.0 && random.f64() < 0.05,
        ..Queue::new(64, 3)
    };
    let finding = found(&mut queue, &wish(&[Condition::errors(0.01).unwrap()]));
    let (kept, broken) = (finding.kept.unwrap(), finding.broken.unwrap());
    assert!(
        kept <= 700.0 && 700.0 <= broken && broken / kept < 1.021,
        "{finding}"
    );
    assert!(finding.conclusion().contains("errors were"), "{finding}");
}

#[test]
fn a_client_that_is_too_slow_is_not_the_servers_fault() {
    let mut queue = Queue {
        client: 3_000.0,
        ..Queue::new(64, 3)
    };
    let finding = found(&mut queue, &wish(&[p99(100)]));
    assert!(
        matches!(&finding.end, End::Client(why) if why == "the client is slow"),
        "{finding}"
    );
    assert!(
        finding.kept.unwrap() <= 3_000.0 && finding.broken.is_none(),
        "{finding}"
    );
    let behind = finding.steps.iter().filter(|step| !step.is_about_service());
    assert_eq!(behind.count(), 2, "{finding}");
}

/// Requests that are sent late take longer, but a server that keeps the objective all the same keeps it.
#[test]
fn a_late_client_decides_nothing_that_is_kept() {
    let mut queue = Queue {
        late_steps: u32::MAX,
        ..Queue::new(16, 3)
    };
    let finding = found(&mut queue, &wish(&[p99(100)]));
    assert!(
        finding.kept.is_some() && finding.broken.is_none(),
        "{finding}"
    );
    assert!(matches!(finding.end, End::Client(_)), "{finding}");
}

/// A machine that stands still for a while makes requests late. That is no reason to give up.
#[test]
fn a_search_outlasts_a_stall_of_the_client() {
    // A service that breaks the objective whenever the client is late.
    let stalled = |late_steps| Queue {
        late_steps,
        service: |_| 20.0,
        arrivals: constant,
        ..Queue::new(1, 3)
    };
    let wish = LoadSearch {
        within: Duration::from_secs(600),
        from: Some(1.0),
        ..wish(&[p99(100)])
    };
    let finding = found(&mut stalled(3), &wish);
    assert_eq!(finding.end, End::Found, "{finding}");
    let behind = finding.steps.iter().filter(|step| !step.is_about_service());
    assert_eq!(behind.count(), 3, "{finding}");
    let finding = found(&mut stalled(4), &wish);
    assert!(matches!(finding.end, End::Client(_)), "{finding}");
    assert_eq!(finding.broken, None, "{finding}");
}

#[test]
fn an_objective_that_no_rate_keeps_ends_at_the_lowest_rate() {
    // The service alone takes longer.
    let finding = found(
        &mut Queue::new(4, 3),
        &wish(&[Condition::mean(Duration::from_millis(5)).unwrap()]),
    );
    assert_eq!(
        (finding.kept, finding.broken, &finding.end),
        (None, Some(1.0), &End::Found),
        "{finding}"
    );
    assert!(
        finding
            .conclusion()
            .starts_with("no level kept the objective, down to 1/s: the mean was")
    );
}

#[test]
fn an_objective_that_cannot_be_judged_in_the_time_says_what_it_needs() {
    let slow = Condition::quantile(0.9999, Duration::from_secs(1)).unwrap();
    let finding = found(
        &mut Queue::new(4, 3),
        &LoadSearch {
            from: Some(50.0),
            ..wish(&[slow])
        },
    );
    assert!(
        matches!(finding.end, End::OutOfTime { needs } if needs > Duration::from_secs(100)),
        "{finding}"
    );
    assert_eq!(finding.kept, None);
}

#[test]
fn nothing_is_sent_beyond_the_requests_that_are_allowed() {
    let wish = LoadSearch {
        max_requests: 5_000,
        ..wish(&[p99(100)])
    };
    let finding = found(&mut Queue::new(16, 3), &wish);
    assert_eq!(finding.end, End::OutOfRequests, "{finding}");
    assert!(
        finding.requests <= 5_000 && finding.kept.is_some(),
        "{finding}"
    );
}

#[test]
fn the_knee_is_below_the_result() {
    let finding = found(&mut Queue::new(16, 3), &wish(&[p99(100)]));
    assert!(
        finding.knee().unwrap() <= finding.kept.unwrap(),
        "{finding}"
    );
    // Of 16 workers, most are busy.
    let best = finding.best().unwrap();
    assert!((12.0..60.0).contains(&best.in_flight), "{finding}");
    assert!((16..40).contains(&finding.concurrency_limit().unwrap()));
    let json: serde_json::Value = serde_json::from_str(&finding.to_json()).unwrap();
    assert_eq!(json["kept"].as_f64(), finding.kept);
    assert_eq!(json["steps"].as_array().unwrap().len(), finding.steps.len());
}
