//! A block after the limit is a kind, with its length and its start, and nothing else is taken for one.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use flowgate_testkit::verify::servers::{BlockAfter, ServerLimit, holds, look, look_at};
use flowgate_testkit::verify::{
    Answer, BlockStart, Budget, DetectedKind, ExpectedLimit, ExpectedVerdict, Findings,
    Investigation, ProbeOutcome,
};

use crate::effort::seeds;

const SECOND: u64 = 1_000_000_000;

fn within(seconds: u64) -> Investigation {
    Investigation::new().budget(Budget {
        time: Duration::from_secs(seconds),
        ..Budget::default()
    })
}

/// A limiter with a block. Times are in milliseconds.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    /// The seconds of a run.
    seconds: u64,
    limit: u64,
    window: u64,
    block: u64,
    start: BlockStart,
}

const fn server(
    name: &'static str,
    seconds: u64,
    (limit, window, block): (u64, u64, u64),
    start: BlockStart,
) -> Server {
    Server {
        name,
        seconds,
        limit,
        window,
        block,
        start,
    }
}

impl Server {
    fn limiter(self) -> BlockAfter {
        let [window_ns, block_ns] = [self.window, self.block].map(|ms| ms * 1_000_000);
        BlockAfter::new(self.limit, window_ns, block_ns, self.start)
    }

    fn look(self, investigation: &Investigation, seed: u64) -> Findings {
        // Its clock has whole milliseconds.
        let began_ns = Rng::with_seed(seed).u64(SECOND..100 * SECOND);
        let mut limiter = self.limiter();
        look_at(investigation, seed, |question| {
            let at_ns = (began_ns + question.at_ns) / 1_000_000 * 1_000_000;
            limiter.admits(at_ns).into()
        })
    }
}

const SERVERS: [Server; 11] = [
    server("Fastify", 60, (5, 1_000, 1_000), BlockStart::LastRefusal),
    server(
        "Fastify, 2 s",
        60,
        (20, 2_000, 2_000),
        BlockStart::LastRefusal,
    ),
    server(
        "Fastify, 10 s",
        300,
        (100, 10_000, 10_000),
        BlockStart::LastRefusal,
    ),
    server(
        "Fastify, two",
        60,
        (2, 3_000, 3_000),
        BlockStart::LastRefusal,
    ),
    server("flexible", 60, (10, 1_000, 3_000), BlockStart::FirstRefusal),
    server(
        "flexible, long window",
        120,
        (5, 10_000, 5_000),
        BlockStart::FirstRefusal,
    ),
    server(
        "flexible, short window",
        400,
        (50, 1_000, 20_000),
        BlockStart::FirstRefusal,
    ),
    server(
        "flexible, short block",
        60,
        (10, 2_000, 1_000),
        BlockStart::FirstRefusal,
    ),
    server(
        "guard of logins",
        60,
        (3, 3_600_000, 2_000),
        BlockStart::LastAdmission,
    ),
    server("own", 120, (10, 1_000, 4_000), BlockStart::LastAdmission),
    server(
        "own, as long",
        120,
        (30, 5_000, 5_000),
        BlockStart::LastAdmission,
    ),
];

#[test]
fn a_block_is_a_kind_with_its_limit_length_and_start() {
    let mut wrong = Vec::new();
    for server in SERVERS {
        for seed in seeds(2, 40) {
            let findings = server.look(&within(server.seconds), seed);
            let detected = &findings.detected;
            let is_right = detected.kind == DetectedKind::BlocksAfterLimit
                && detected
                    .burst
                    .is_some_and(|it| holds(it, server.limit as f64))
                && detected.block.is_some_and(|block| {
                    let length = server.block as f64 / 1e3;
                    let is_near = block.length.plus_minus <= 0.05 * length;
                    block.counted_from == server.start && is_near && holds(block.length, length)
                });
            if !is_right || !findings.defects.is_empty() {
                wrong.push(format!("{} {seed}: {findings}", server.name));
            }
            // A client that does what the findings advise is never refused.
            if let Some(safe) = findings.safe_rate() {
                let apart_ns = safe.period().as_nanos() as u64 / safe.count();
                let mut limiter = server.limiter();
                let refused = (1..3_000).find(|n| !limiter.admits(n * apart_ns));
                assert_eq!(refused, None, "{} {seed}, {safe}: {findings}", server.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// Decides at a time in nanoseconds.
type Decide = Box<dyn FnMut(u64) -> Answer>;

/// A limiter, and how it is built with a seed.
type Other = (&'static str, fn(u64) -> Decide);

fn of(mut limit: ServerLimit) -> Decide {
    Box::new(move |at_ns| limit.admits(at_ns).into())
}

/// Refuses everything for a time after some refusals.
fn ban(mut limit: ServerLimit, refusals: u64, for_ns: u64) -> Decide {
    let (mut refused, mut until_ns) = (0, 0);
    Box::new(move |at_ns| {
        if at_ns < until_ns {
            return false.into();
        }
        let admits = limit.admits(at_ns);
        refused += u64::from(!admits);
        if refused == refusals {
            (refused, until_ns) = (0, at_ns + for_ns);
        }
        admits.into()
    })
}

/// A sliding window in which every request counts.
fn counting(limit: usize, window_ns: u64) -> Decide {
    let mut asked = VecDeque::new();
    Box::new(move |at_ns| {
        while asked
            .front()
            .is_some_and(|asked| asked + window_ns <= at_ns)
        {
            asked.pop_front();
        }
        asked.push_back(at_ns);
        (asked.len() <= limit).into()
    })
}

/// Two counters of every request, as HAProxy's `http_req_rate`.
fn two_counters(limit: u64, window_ns: u64) -> Decide {
    let (mut index, mut before, mut current) = (0, 0, 0);
    Box::new(move |at_ns| {
        let now = at_ns / window_ns;
        (before, current) = match now - index {
            0 => (before, current + 1),
            1 => (current, 1),
            _ => (0, 1),
        };
        index = now;
        let left_ns = window_ns - at_ns % window_ns;
        (current * window_ns + before * left_ns <= limit * window_ns).into()
    })
}

/// A block whose length differs from one to the next.
fn block(limit: u64, mut length_ns: impl FnMut() -> u64 + 'static) -> Decide {
    let (mut admitted, mut until_ns) = (0, 0);
    Box::new(move |at_ns| {
        if at_ns < until_ns {
            return false.into();
        }
        if admitted == limit {
            (admitted, until_ns) = (0, at_ns + length_ns());
            return false.into();
        }
        admitted += 1;
        true.into()
    })
}

/// Some of the responses are errors.
fn failing(mut decide: Decide, percent: u8, seed: u64) -> Decide {
    let mut rng = Rng::with_seed(seed);
    Box::new(move |at_ns| match rng.u8(0..100) < percent {
        true => Answer {
            outcome: ProbeOutcome::Failed,
            ..false.into()
        },
        false => decide(at_ns),
    })
}

const OTHERS: [Other; 20] = [
    ("window of 5 s", |_| of(ServerLimit::fixed(5, 5 * SECOND))),
    ("window of 2 in 2 s", |_| {
        of(ServerLimit::fixed(2, 2 * SECOND))
    }),
    ("clock window of 3 in 2 s", |_| {
        of(ServerLimit::aligned(3, 2 * SECOND))
    }),
    ("clock window of 5 in 10 s", |_| {
        of(ServerLimit::aligned(5, 10 * SECOND))
    }),
    ("sliding window of 2 in 3 s", |_| {
        of(ServerLimit::sliding(2, 3 * SECOND))
    }),
    ("sliding window of 5 s", |_| {
        of(ServerLimit::sliding(5, 5 * SECOND))
    }),
    ("window in whole seconds", |_| {
        of(ServerLimit::fixed(5, 5 * SECOND).tick(Duration::from_secs(1)))
    }),
    ("two windows", |_| {
        of(ServerLimit::fixed(10, SECOND).and(ServerLimit::fixed(11, 5 * SECOND)))
    }),
    ("two windows as large", |_| {
        of(ServerLimit::fixed(5, 3 * SECOND).and(ServerLimit::sliding(5, 2 * SECOND)))
    }),
    ("ban after 2 refusals", |_| {
        ban(ServerLimit::fixed(10, SECOND), 2, 3 * SECOND)
    }),
    ("ban after 5 refusals", |_| {
        ban(ServerLimit::sliding(5, 2 * SECOND), 5, 4 * SECOND)
    }),
    ("ban after 20 refusals", |_| {
        ban(ServerLimit::bucket(100, SECOND, 20), 20, 5 * SECOND)
    }),
    ("refused requests count, 2 in 3 s", |_| {
        counting(2, 3 * SECOND)
    }),
    ("refused requests count, 3 in 6 s", |_| {
        counting(3, 6 * SECOND)
    }),
    ("refused requests count, 10 in 4 s", |_| {
        counting(10, 4 * SECOND)
    }),
    ("http_req_rate of 5 in 2 s", |_| two_counters(5, 2 * SECOND)),
    ("http_req_rate of 20 in 10 s", |_| {
        two_counters(20, 10 * SECOND)
    }),
    ("blocks that grow", |_| {
        let mut length_ns = SECOND;
        block(5, move || {
            length_ns = length_ns * 13 / 10;
            length_ns
        })
    }),
    ("blocks of any length", |seed| {
        let mut rng = Rng::with_seed(seed);
        block(10, move || rng.u64(2 * SECOND..23 * SECOND / 10))
    }),
    ("errors of a block", |seed| {
        failing(block(10, || 2 * SECOND), 30, seed)
    }),
];

#[test]
fn c1_no_other_limiter_is_said_to_block() {
    let mut wrong = Vec::new();
    for (name, build) in OTHERS {
        for seed in seeds(1, 40) {
            let began_ns = Rng::with_seed(seed).u64(100 * SECOND..200 * SECOND);
            let mut decide = build(seed);
            let findings = look_at(&within(60 + 30 * (seed % 3)), seed, |question| {
                decide(began_ns + question.at_ns)
            });
            if findings.detected.kind == DetectedKind::BlocksAfterLimit {
                wrong.push(format!("{name} {seed}: {findings}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// However short the time, what is named is right.
#[test]
fn c1_without_time_a_block_is_unknown() {
    let mut wrong = Vec::new();
    for server in SERVERS {
        for seconds in [5, 15, 30] {
            let findings = server.look(&within(seconds), 1);
            let is_right = findings.detected.block.is_none_or(|block| {
                block.counted_from == server.start && holds(block.length, server.block as f64 / 1e3)
            });
            if !is_right {
                wrong.push(format!("{} {seconds}: {findings}", server.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_expected_window_differs_and_the_report_has_what_a_client_does() {
    let expected: ExpectedLimit = "fixed 5/s".parse().unwrap();
    let findings = SERVERS[0].look(&within(60).expected(expected), 1);
    let text = findings.to_string();
    let Some(ExpectedVerdict::Differs(reasons)) = findings.expected.map(|it| it.verdict) else {
        panic!("{text}");
    };
    let reasons = reasons.join("; ");
    assert!(
        reasons.contains("once its limit is used up, it admits none for 1.0"),
        "{reasons}"
    );
    assert!(
        text.contains("block after the limit: 5 admitted, then none for 1.0"),
        "{text}"
    );
    assert!(text.contains("s after the last refused request"), "{text}");
    assert!(
        text.contains("a request during the block starts it anew"),
        "{text}"
    );
    assert!(text.contains("safe rate"), "{text}");
    // The same limit without a block is as expected.
    let window = look(
        ServerLimit::fixed(5, SECOND),
        &within(60).expected(expected),
        1,
    );
    let verdict = window.expected.as_ref().map(|it| &it.verdict);
    assert_eq!(verdict, Some(&ExpectedVerdict::Consistent), "{window}");
}
