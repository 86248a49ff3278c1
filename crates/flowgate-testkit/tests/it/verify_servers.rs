//! Limiters as servers of others have them, behind a network with jitter and a server that stands still at times.

use std::collections::VecDeque;
use std::time::Duration;

use flowgate_testkit::verify::servers::{ServerLimit, StickTable, holds, look, look_at};
use flowgate_testkit::verify::{
    Budget, DetectedKind, DetectedLimit, ExpectedLimit, ExpectedVerdict, Findings, Investigation,
};

use crate::effort::{is_long, seeds};

const SECOND: u64 = 1_000_000_000;

fn within(seconds: u64) -> Investigation {
    Investigation::new().budget(Budget {
        time: Duration::from_secs(seconds),
        ..Budget::default()
    })
}

/// Rate per second, and burst.
type Numbers = (f64, f64);

fn is_it(limit: &DetectedLimit, (rate, burst): Numbers) -> bool {
    holds(limit.rate, rate) && holds(limit.burst, burst)
}

/// A name, the seconds of a run, the limits, and their numbers.
type Two = (&'static str, u64, fn() -> ServerLimit, [Numbers; 2]);

const TWO: [Two; 7] = [
    (
        "10/s; 100/min from the first request",
        300,
        || ServerLimit::bucket(10, SECOND, 10).and(ServerLimit::fixed(100, 60 * SECOND)),
        [(10.0, 10.0), (100.0 / 60.0, 100.0)],
    ),
    (
        "10/s; 100/min, both on the clock",
        300,
        || ServerLimit::aligned(10, SECOND).and(ServerLimit::aligned(100, 60 * SECOND)),
        [(10.0, 10.0), (100.0 / 60.0, 100.0)],
    ),
    (
        "nginx with two zones",
        120,
        || {
            let slow = ServerLimit::bucket(100, 60 * SECOND, 51);
            ServerLimit::bucket(10, SECOND, 21)
                .and(slow)
                .tick(Duration::from_millis(1))
        },
        [(10.0, 21.0), (100.0 / 60.0, 51.0)],
    ),
    (
        "nginx with two zones, of which the second one is large",
        60,
        || {
            let slow = ServerLimit::bucket(10, SECOND, 101);
            ServerLimit::bucket(100, SECOND, 21)
                .and(slow)
                .tick(Duration::from_millis(1))
        },
        [(100.0, 21.0), (10.0, 101.0)],
    ),
    (
        "two buckets",
        60,
        || ServerLimit::bucket(10, SECOND, 10).and(ServerLimit::bucket(1, SECOND, 30)),
        [(10.0, 10.0), (1.0, 30.0)],
    ),
    (
        "a bucket and a window of 10 s",
        60,
        || ServerLimit::bucket(100, SECOND, 20).and(ServerLimit::fixed(500, 10 * SECOND)),
        [(100.0, 20.0), (50.0, 500.0)],
    ),
    (
        "two sliding windows",
        60,
        || ServerLimit::sliding(10, SECOND).and(ServerLimit::sliding(40, 10 * SECOND)),
        [(10.0, 10.0), (4.0, 40.0)],
    ),
];

#[test]
fn two_limits_are_both_named_with_their_numbers() {
    let mut wrong = Vec::new();
    for (name, seconds, build, numbers) in TWO {
        for seed in seeds(1, 2) {
            let findings = look(build(), &within(seconds), seed);
            let limits = &findings.detected.limits;
            let are_named = limits.len() == 2
                && limits
                    .iter()
                    .zip(numbers)
                    .all(|(limit, it)| is_it(limit, it));
            let is_right = findings.detected.kind == DetectedKind::TwoLimits && are_named;
            if !is_right || !findings.defects.is_empty() {
                wrong.push(format!("{name} {seed}: {findings}"));
            }
            // A client that does what the findings advise is never refused.
            let safe = findings.safe_rate().expect("there is a limit");
            let apart_ns = safe.period().as_nanos() as u64 / safe.count();
            let mut limit = build();
            let refused = (1..3_000).find(|n| !limit.admits(n * apart_ns));
            assert_eq!(refused, None, "{name} {seed}, {safe}: {findings}");
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// What two limits may be called if the time does not suffice to know both. Up to the second limit, there is only one.
fn is_honest(findings: &Findings, second: f64) -> bool {
    let is_undecided = matches!(
        findings.detected.kind,
        DetectedKind::Unknown | DetectedKind::TwoLimits
    );
    (is_undecided || findings.admitted as f64 <= second) && findings.defects.is_empty()
}

#[test]
fn c1_two_limits_are_never_called_a_ban_or_a_collapse_however_short_the_time() {
    let longer: [Two; 3] = [
        (
            "a day",
            60,
            || ServerLimit::bucket(5, SECOND, 5).and(ServerLimit::fixed(50, 86_400 * SECOND)),
            [(5.0, 5.0), (0.0, 50.0)],
        ),
        (
            "reached late",
            60,
            || ServerLimit::bucket(10, SECOND, 10).and(ServerLimit::fixed(300, 60 * SECOND)),
            [(10.0, 10.0), (5.0, 300.0)],
        ),
        (
            "two short windows",
            60,
            || ServerLimit::fixed(10, SECOND).and(ServerLimit::fixed(30, 10 * SECOND)),
            [(10.0, 10.0), (3.0, 30.0)],
        ),
    ];
    let mut wrong = Vec::new();
    for (name, _, build, [_, (_, second)]) in TWO.into_iter().chain(longer) {
        for seed in 0..2 {
            let findings = look(build(), &within(25 + 35 * seed), seed);
            if !is_honest(&findings, second) {
                wrong.push(format!("{name} {seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// Two windows: the limit and the seconds of each.
type TwoWindows = [(u64, u64); 2];

/// Looks at two windows that decide together.
fn look_at_two(
    windows: TwoWindows,
    seconds: u64,
    seed: u64,
    mut admits: impl FnMut(&mut [CountingWindow; 2], u64) -> bool,
) -> Findings {
    let mut both = windows.map(|(limit, period)| CountingWindow::new(limit, period * SECOND));
    look_at(&within(seconds), seed, |question| {
        admits(&mut both, question.at_ns).into()
    })
}

/// Returns whether both windows are named with their numbers, as this kind, and nothing is accused.
fn are_named(findings: &Findings, kind: DetectedKind, windows: TwoWindows) -> bool {
    let numbers = windows.map(|(limit, period)| (limit as f64 / period as f64, limit as f64));
    let limits = &findings.detected.limits;
    let found = limits.iter().zip(numbers);
    let have_numbers = limits.len() == 2 && found.clone().all(|(limit, it)| is_it(limit, it));
    findings.detected.kind == kind && have_numbers && findings.defects.is_empty()
}

/// A window from the first request that counts every request, refused ones too.
#[derive(Debug)]
struct CountingWindow {
    limit: u64,
    length_ns: u64,
    ends_ns: u64,
    count: u64,
}

impl CountingWindow {
    fn new(limit: u64, length_ns: u64) -> Self {
        Self {
            limit,
            length_ns,
            ends_ns: 0,
            count: 0,
        }
    }

    fn admits(&mut self, at_ns: u64) -> bool {
        if at_ns >= self.ends_ns {
            self.ends_ns = at_ns + self.length_ns;
            self.count = 0;
        }
        self.count += 1;
        self.count <= self.limit
    }
}

/// `BurstyRateLimiter` of rate-limiter-flexible: what a window refuses, a pool of a longer window may admit.
#[test]
fn a_window_with_a_pool_for_bursts_is_a_kind_and_not_called_a_ban() {
    let mut wrong = Vec::new();
    for (windows, seconds) in [
        ([(10, 1), (5, 10)], 60),
        ([(10, 1), (50, 10)], 60),
        ([(50, 1), (20, 5)], 60),
        ([(10, 2), (20, 20)], 120),
    ] {
        for seed in seeds(1, 2) {
            let findings = look_at_two(windows, seconds, seed, |[window, pool], at_ns| {
                window.admits(at_ns) || pool.admits(at_ns)
            });
            if !are_named(&findings, DetectedKind::BurstPool, windows) {
                wrong.push(format!("{windows:?}, {seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// `RateLimiterUnion` of rate-limiter-flexible: each window counts each request, also one that the other refuses.
fn union([first, second]: &mut [CountingWindow; 2], at_ns: u64) -> bool {
    let admitted = [first, second].map(|window| window.admits(at_ns));
    admitted == [true; 2]
}

#[test]
fn two_windows_that_count_what_the_other_refuses_are_both_named() {
    let mut wrong = Vec::new();
    for windows in [[(10, 1), (60, 20)], [(50, 1), (500, 30)]] {
        for seed in seeds(1, 3) {
            let findings = look_at_two(windows, 120, seed, union);
            let second = findings.detected.limits.get(1);
            let is_said = second.is_some_and(|second| second.counts_refused);
            if !is_said || !are_named(&findings, DetectedKind::TwoLimits, windows) {
                wrong.push(format!("{windows:?}, {seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn c1_two_windows_that_count_what_the_other_refuses_are_not_called_a_ban() {
    let windows = [(20, 1), (200, 20)];
    for seed in seeds(1, 3) {
        let findings = look_at_two(windows, 120, seed, union);
        let is_undecided = findings.detected.kind == DetectedKind::Unknown;
        let is_honest = is_undecided && findings.defects.is_empty();
        let is_right = are_named(&findings, DetectedKind::TwoLimits, windows);
        assert!(is_honest || is_right, "{seed}: {findings}");
    }
}

/// A sliding window in Redis that adds a request before it counts: what is refused keeps the window full.
#[test]
fn refused_requests_that_count_are_a_kind() {
    let mut wrong = Vec::new();
    for (seed, (limit, seconds)) in [
        (0, (30, 2)),
        (1, (30, 2)),
        (2, (30, 2)),
        (3, (100, 5)),
        (4, (100, 5)),
        (5, (100, 10)),
        (6, (100, 10)),
    ] {
        // Each window, with a hint or without.
        if [2, 4, 5].contains(&seed) && !is_long() {
            continue;
        }
        let mut asked = VecDeque::new();
        let expected: ExpectedLimit = format!("{limit}/{seconds}s").parse().unwrap();
        // Without a hint, and with one.
        let investigation = match seed % 2 {
            0 => within(60),
            _ => within(60).expected(expected),
        };
        let findings = look_at(&investigation, seed, |question| {
            let since = question.at_ns.saturating_sub(seconds * SECOND);
            while asked.front().is_some_and(|at_ns| *at_ns <= since) {
                asked.pop_front();
            }
            asked.push_back(question.at_ns);
            (asked.len() <= limit).into()
        });
        let detected = &findings.detected;
        let is_right = detected.kind == DetectedKind::CountsRefused
            && detected
                .burst
                .is_some_and(|burst| holds(burst, limit as f64))
            && detected.window.is_some_and(|window| {
                let seconds = seconds as f64;
                holds(window, seconds) && window.plus_minus <= 0.03 * seconds
            });
        let judged = findings.expected.as_ref().map(|judged| &judged.verdict);
        let is_fair = judged.is_none_or(|verdict| *verdict == ExpectedVerdict::Consistent);
        if !is_right || !is_fair {
            wrong.push(format!("{limit} in {seconds} s, {seed}: {findings}"));
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn without_time_for_a_second_limit_it_is_said_what_is_known() {
    let (_, _, build, _) = TWO[0];
    let findings = look(build(), &within(60), 1);
    let text = findings.unresolved.clone().unwrap_or_default();
    assert!(
        text.starts_with("100 requests were admitted in 9."),
        "{text}"
    );
    assert!(text.contains("a second, slower limit or a ban"), "{text}");
    assert_eq!(findings.detected.kind, DetectedKind::Unknown, "{findings}");
}

/// Returns whether these are the numbers: a limit, and its window in seconds.
fn has(findings: &Findings, limit: f64, seconds: f64) -> bool {
    let detected = &findings.detected;
    let is_limit = detected.burst.is_some_and(|burst| holds(burst, limit));
    let is_window = detected.window.is_some_and(|window| holds(window, seconds));
    let is_rate = detected
        .rate
        .is_some_and(|rate| (rate.value * seconds / limit - 1.0).abs() < 0.02);
    is_limit && is_window && is_rate
}

/// HAProxy's `http_req_rate` and `gpc0_rate`.
#[test]
fn two_counters_whose_periods_follow_the_requests_are_a_kind() {
    type Table = fn(u64, u64) -> StickTable;
    let mut wrong = Vec::new();
    let all: [(u64, Table, _, _, _); 7] = [
        (
            1,
            StickTable::of_requests,
            DetectedKind::CounterCountsRefused,
            20,
            1,
        ),
        (
            2,
            StickTable::of_requests,
            DetectedKind::CounterCountsRefused,
            20,
            1,
        ),
        (
            1,
            StickTable::of_requests,
            DetectedKind::CounterCountsRefused,
            100,
            10,
        ),
        (
            3,
            StickTable::of_requests,
            DetectedKind::CounterCountsRefused,
            100,
            10,
        ),
        (
            2,
            StickTable::of_admissions,
            DetectedKind::SlidingCounter,
            50,
            1,
        ),
        (
            0,
            StickTable::of_admissions,
            DetectedKind::SlidingCounter,
            20,
            2,
        ),
        (
            1,
            StickTable::of_admissions,
            DetectedKind::SlidingCounter,
            20,
            2,
        ),
    ];
    for (seed, build, kind, limit, seconds) in all {
        let mut table = build(limit, 1_000 * seconds);
        let began_ns = 1_234_567 * (1 + seed);
        let findings = look_at(&within(60), seed, |question| {
            table.admits(began_ns + question.at_ns).into()
        });
        let detected = &findings.detected;
        let is_it = detected.kind == kind && detected.alternatives.is_empty();
        if !is_it || !has(&findings, limit as f64, seconds as f64) {
            wrong.push(format!("{limit} in {seconds} s, {seed}: {findings}"));
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// throttled-py's bucket has whole seconds.
#[test]
fn a_bucket_that_is_refilled_once_per_second_is_one_with_that_tick() {
    let mut wrong = Vec::new();
    for (seed, (rate, burst)) in [(0, (5, 20)), (1, (5, 20)), (2, (10, 40))] {
        let limit = ServerLimit::bucket(rate, SECOND, burst).tick(Duration::from_secs(1));
        let findings = look(limit, &within(60), seed);
        let detected = &findings.detected;
        let is_it = detected.kind == DetectedKind::TokenBucket
            && detected.alternatives.is_empty()
            && detected.clock_tick == Some(1.0);
        let are_its = detected.rate.is_some_and(|it| holds(it, rate as f64))
            && detected.burst.is_some_and(|it| holds(it, burst as f64));
        let text = "refilled every 1 s, by ";
        let is_told = findings.to_string().contains(text);
        if !is_it || !are_its || !is_told {
            wrong.push(format!("{rate}/s burst {burst}, {seed}: {findings}"));
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}
