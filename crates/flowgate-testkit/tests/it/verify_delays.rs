//! Requests that are delayed instead of refused are a kind, and neither a queue nor a slow server is taken for it.

use std::time::Duration;

use flowgate_testkit::verify::nginx::LimitReq;
use flowgate_testkit::verify::servers::{SlowDown, holds, look_at};
use flowgate_testkit::verify::{
    Answer, Budget, DetectedKind, Estimate, ExpectedLimit, ExpectedVerdict, Findings,
    Investigation, Question,
};

const SECOND: u64 = 1_000_000_000;

fn within(seconds: u64) -> Investigation {
    Investigation::new().budget(Budget {
        time: Duration::from_secs(seconds),
        ..Budget::default()
    })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A setting of express-slow-down.
struct Setting {
    name: &'static str,
    seconds: u64,
    after: u64,
    window: u64,
    delay: fn(u64) -> Duration,
    /// The first delay, the step, and the longest delay, in seconds.
    truth: (f64, f64, Option<f64>),
}

const SETTINGS: [Setting; 5] = [
    Setting {
        name: "always as long",
        seconds: 60,
        after: 5,
        window: 10,
        delay: |_| ms(500),
        truth: (0.5, 0.0, None),
    },
    Setting {
        name: "after one",
        seconds: 60,
        after: 1,
        window: 2,
        delay: |_| ms(100),
        truth: (0.1, 0.0, None),
    },
    Setting {
        name: "by the number of requests",
        seconds: 60,
        after: 5,
        window: 6,
        delay: |used| ms(used * 20),
        truth: (0.12, 0.02, None),
    },
    Setting {
        name: "up to a second",
        seconds: 60,
        after: 10,
        window: 5,
        delay: |used| ms(((used - 10) * 200).min(1_000)),
        truth: (0.2, 0.2, Some(1.0)),
    },
    Setting {
        name: "after many",
        seconds: 120,
        after: 30,
        window: 15,
        delay: |used| ms((used - 30) * 100),
        truth: (0.1, 0.1, None),
    },
];

fn look(setting: &Setting, seconds: u64, seed: u64) -> Findings {
    let mut limit = SlowDown::new(setting.after, setting.window * SECOND, setting.delay);
    look_at(&within(seconds), seed, |question| limit.answer(question))
}

#[test]
fn delays_are_a_kind_with_their_numbers() {
    let mut wrong = Vec::new();
    for setting in &SETTINGS {
        let (first, step, longest) = setting.truth;
        let window = setting.window as f64;
        for seed in 0..4 {
            let findings = look(setting, setting.seconds, seed);
            let detected = &findings.detected;
            let is_near = |found: Option<Estimate>, truth: f64| {
                found.is_some_and(|found| holds(found, truth) && found.plus_minus <= 0.02 * truth)
            };
            let is_right = detected.kind == DetectedKind::Delays
                && detected
                    .burst
                    .is_some_and(|burst| holds(burst, setting.after as f64))
                && is_near(detected.window, window)
                && is_near(detected.rate, setting.after as f64 / window)
                && detected.delays.is_some_and(|delays| {
                    let is_longest = match (delays.longest, longest) {
                        (Some(found), Some(longest)) => holds(found, longest),
                        // It may not have been reached.
                        (found, _) => found.is_none(),
                    };
                    holds(delays.first, first) && holds(delays.step, step) && is_longest
                });
            if !is_right || !findings.defects.is_empty() {
                wrong.push(format!("{} {seed}: {findings}", setting.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// A window of a quarter of an hour, as in the examples of express-slow-down.
#[test]
fn without_time_for_a_window_growing_delays_are_named_and_equal_ones_are_open() {
    let mut wrong = Vec::new();
    for seed in 0..4 {
        for (delay, kind) in [
            (
                (|used| ms(used * 100)) as fn(u64) -> Duration,
                DetectedKind::Delays,
            ),
            (|_| ms(500), DetectedKind::Unknown),
        ] {
            let mut limit = SlowDown::new(5, 900 * SECOND, delay);
            let findings = look_at(&within(60), seed, |question| limit.answer(question));
            let text = findings.to_string();
            let is_said = match kind {
                DetectedKind::Delays => {
                    text.contains("none for 5 or more, then 0.6")
                        || text.contains("none for 5 or more, then 0.59")
                }
                _ => {
                    text.contains("after 5 requests each further one took 0.5")
                        || text.contains("after 5 requests each further one took 0.49")
                }
            };
            if findings.detected.kind != kind || !is_said || !findings.defects.is_empty() {
                wrong.push(format!("{seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_expected_limit_that_only_delays_differs() {
    let expected: ExpectedLimit = "fixed 5/10s".parse().unwrap();
    let setting = &SETTINGS[0];
    let mut limit = SlowDown::new(setting.after, setting.window * SECOND, setting.delay);
    let findings = look_at(&within(60).expected(expected), 1, |question| {
        limit.answer(question)
    });
    let verdict = &findings.expected.as_ref().unwrap().verdict;
    let ExpectedVerdict::Differs(reasons) = verdict else {
        panic!("{findings}");
    };
    let is_said = |why: &String| why == "requests over the limit are delayed, not refused";
    assert!(reasons.iter().any(is_said), "{findings}");
}

/// Servers that are late for other reasons: in a queue, by one worker, with slow responses, and since they became slow.
#[test]
fn c1_neither_a_queue_nor_a_slow_server_is_said_to_delay() {
    type Build = fn() -> Box<dyn FnMut(Question) -> Answer>;
    let servers: [(&str, Build, &[DetectedKind]); 6] = [
        (
            "nginx 100/s, burst=20",
            || {
                let mut limit = LimitReq::new(100, 20);
                Box::new(move |question| limit.answer(question))
            },
            &[DetectedKind::LeakyQueue],
        ),
        (
            "nginx 5/s, burst=40",
            || {
                let mut limit = LimitReq::new(5, 40);
                Box::new(move |question| limit.answer(question))
            },
            &[DetectedKind::LeakyQueue],
        ),
        (
            "one worker",
            || {
                let mut free_ns = 0;
                Box::new(move |question| {
                    free_ns = question.at_ns.max(free_ns) + 5_000_000;
                    Answer {
                        held: Duration::from_nanos(free_ns - question.at_ns),
                        ..true.into()
                    }
                })
            },
            &[DetectedKind::Unlimited],
        ),
        (
            "slow responses",
            || {
                let mut asked = 0_u64;
                Box::new(move |_| {
                    asked += 1;
                    let random = asked.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
                    Answer {
                        held: Duration::from_micros(random % 50_000),
                        ..true.into()
                    }
                })
            },
            &[DetectedKind::Unlimited, DetectedKind::Unknown],
        ),
        (
            "slow since the 20th request",
            || {
                let mut asked = 0;
                Box::new(move |_| {
                    asked += 1;
                    Answer {
                        held: ms(if asked < 20 { 0 } else { 200 }),
                        ..true.into()
                    }
                })
            },
            &[DetectedKind::Unknown],
        ),
        (
            "slow for three seconds of seven",
            || {
                Box::new(|question: Question| Answer {
                    held: ms(if question.at_ns % (7 * SECOND) < 4 * SECOND {
                        0
                    } else {
                        200
                    }),
                    ..true.into()
                })
            },
            &[DetectedKind::Unlimited, DetectedKind::Unknown],
        ),
    ];
    let mut wrong = Vec::new();
    for (name, build, kinds) in servers {
        for seed in 0..4 {
            let findings = look_at(&within(60), seed, build());
            if !kinds.contains(&findings.detected.kind) || !findings.defects.is_empty() {
                wrong.push(format!("{name} {seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}
