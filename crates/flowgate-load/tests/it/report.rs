//! Verdicts as a table, and the report's text letter by letter.

use std::collections::BTreeMap;
use std::time::Duration;

use flowgate::Quota;
use flowgate_load::{
    Asked, Busiest, Cause, Cluster, Connections, ContentCoding, Curves, Decoded, Detail, Failure,
    Guarantee, Pacing, PacingMode, Provenance, Quantile, Report, RequestCounts, Schedule, Slot,
    Spread, Statuses, Timeline, Verdict, Window,
};

const MICRO: Duration = Duration::from_micros(1);
const MILLI: Duration = Duration::from_millis(1);

fn spread(p50: Duration) -> Spread {
    Spread {
        samples: 5000,
        p50,
        p90: 2 * p50,
        p95: 3 * p50,
        p99: 10 * p50,
        p999: 20 * p50,
        p9999: 30 * p50,
        max: 50 * p50,
        mean: p50,
    }
}

fn asked(schedule: &Schedule) -> Asked {
    Asked {
        mode: PacingMode::Hold,
        text: schedule.to_string(),
        per_second: schedule.per_second(),
        is_constant: schedule.constant().is_some(),
        interval: schedule.interval(),
        highest_per_second: schedule.highest_per_second(),
        burst: 1,
        guarantee: None,
        window: None,
        max_error_share: 0.01,
        slice: None,
    }
}

/// Slots by how many were scheduled and sent.
fn slots(scheduled: [u64; 5], sent: [u64; 5]) -> Vec<Slot> {
    let slot = |(scheduled, sent)| Slot {
        scheduled,
        sent,
        ..Slot::default()
    };
    scheduled.into_iter().zip(sent).map(slot).collect()
}

/// 5000 requests at 1000/s, exactly as planned.
fn perfect() -> Report {
    Report {
        target: "http://127.0.0.1:8080/".to_owned(),
        own_origin: false,
        asked: asked(&Schedule::lasting(Quota::per_second(1000), 5000 * MILLI).unwrap()),
        counts: RequestCounts {
            scheduled: Some(5000),
            sent: 5000,
            statuses: Statuses {
                success: 5000,
                ..Statuses::default()
            },
            ..RequestCounts::default()
        },
        detail: Detail::default(),
        timeline: Timeline {
            width: 1000 * MILLI,
            slots: slots([1000; 5], [1000; 5]),
        },
        pacing: Pacing {
            gap_error: spread(2 * MICRO),
            smallest_gap: Some(980 * MICRO),
            busiest: vec![
                Busiest {
                    window: 100 * MILLI,
                    sent: 101,
                },
                Busiest {
                    window: 1000 * MILLI,
                    sent: 1001,
                },
            ],
            envelope: Vec::new(),
        },
        curves: Curves::default(),
        percentiles: Curves::default(),
        span: 4999 * MILLI,
        lag: spread(6 * MICRO),
        response: spread(110 * MICRO),
        service: spread(104 * MICRO),
        connections: Connections {
            connections: 50,
            allowed: 50,
            most_busy: 3,
            longest_wait: Duration::ZERO,
            missing: 0,
            why_missing: None,
        },
        is_interrupted: false,
        provenance: Provenance::default(),
    }
}

/// A perfect report with one thing changed, and what its verdict says then.
fn reasons(change: impl FnOnce(&mut Report)) -> String {
    let mut report = perfect();
    change(&mut report);
    match report.verdict() {
        Verdict::RateHeld => "held".to_owned(),
        Verdict::RateNotHeld(causes) => {
            assert!(!causes.is_empty());
            let causes: Vec<_> = causes.iter().map(Cause::to_string).collect();
            causes.join("; ")
        }
        verdict => panic!("{verdict}"),
    }
}

#[test]
fn what_is_within_the_thresholds_is_held() {
    assert_eq!(reasons(|_| {}), "held");
    assert_eq!(reasons(|report| report.lag.p99 = MILLI), "held");
    assert_eq!(
        reasons(|report| report.span = Duration::from_micros(4_994_100)),
        "held"
    );
    // What the server limits is no error.
    assert_eq!(
        reasons(|report| report.counts.statuses.limited = 5000),
        "held"
    );
    // A stop after the last send took nothing from the run.
    assert_eq!(reasons(|report| report.is_interrupted = true), "held");
}

#[test]
fn every_cause_is_named() {
    assert_eq!(
        reasons(|report| report.lag.p99 = Duration::from_micros(3100)),
        "lag p99 3.1 ms over 1 ms",
    );
    assert_eq!(
        reasons(|report| report.span = Duration::from_millis(5020)),
        "rate off by -0.4183 %, more than 0.1 %",
    );
    assert_eq!(
        reasons(|report| report.span = Duration::from_millis(4990)),
        "rate off by +0.1804 %, more than 0.1 %",
    );
    assert_eq!(
        reasons(|report| {
            report.counts.sent = 4999;
            report.span = 4998 * MILLI;
        }),
        "sent 4999 of 5000",
    );
}

#[test]
fn the_first_cause_is_the_one_beneath_the_others() {
    let late = |report: &mut Report| {
        report.lag.p99 = 900 * MILLI;
        report.counts.sent = 4100;
        report.span = 4099 * MILLI;
    };
    assert_eq!(
        reasons(|report| {
            late(report);
            report.connections.longest_wait = 900 * MILLI;
            report.service.mean = 63 * MILLI;
        }),
        "connections busy: needs about 63, allowed 50; sent 4100 of 5000; lag p99 900 ms over 1 ms",
    );
    assert_eq!(
        reasons(|report| {
            late(report);
            report.connections.longest_wait = 900 * MILLI;
        }),
        "connections busy: a request waited 900 ms for one of 50; sent 4100 of 5000; \
         lag p99 900 ms over 1 ms",
    );
    assert_eq!(
        reasons(|report| {
            late(report);
            report.is_interrupted = true;
        }),
        "interrupted; sent 4100 of 5000; lag p99 900 ms over 1 ms",
    );
    assert_eq!(
        reasons(|report| {
            report.counts.sent = 4100;
            report.span = 4099 * MILLI;
            report.counts.unsent = 900;
            report.counts.failures = BTreeMap::from([(Failure::Refused, 900), (Failure::Reset, 1)]);
        }),
        "sent 4100 of 5000 (connection refused); \
         901 of 5000 requests failed (connection refused), more than 1 %",
    );
}

#[test]
fn lag_may_be_one_interval_where_that_is_longer_than_a_millisecond() {
    let slow = |p99| {
        reasons(|report| {
            report.asked = asked(&Schedule::of(Quota::per_second(10), 5000).unwrap());
            report.span = Duration::from_millis(499_900);
            report.lag.p99 = p99;
        })
    };
    assert_eq!(slow(100 * MILLI), "held");
    assert_eq!(slow(101 * MILLI), "lag p99 101 ms over 100 ms");
}

#[test]
fn one_request_has_no_rate() {
    let mut report = perfect();
    report.asked = asked(&Schedule::of(Quota::per_second(1000), 1).unwrap());
    report.counts.scheduled = Some(1);
    report.counts.sent = 1;
    report.span = Duration::ZERO;
    assert_eq!((report.achieved(), report.rate_error()), (None, None));
    assert_eq!(report.verdict(), Verdict::RateHeld);
    report.counts.sent = 0;
    assert_eq!(report.achieved(), None);
}

/// The last line of the text.
fn last_line(report: &Report) -> String {
    let text = report.to_string();
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_run_in_which_too_many_requests_failed_is_not_successful() {
    let mut report = perfect();
    report.counts.statuses.success = 4950;
    report.counts.failures = BTreeMap::from([(Failure::Reset, 50)]);
    assert_eq!(report.verdict(), Verdict::RateHeld, "1 % is allowed");
    report.counts.unanswered = 1;
    let errors = "51 of 5000 requests failed (connection reset), more than 1 %";
    assert_eq!(report.verdict().to_string(), "TOO MANY ERRORS");
    assert_eq!(report.verdict().causes()[0].to_string(), errors);
    assert_eq!(
        last_line(&report),
        format!("verdict    TOO MANY ERRORS: {errors}; the rate was held")
    );
    report.asked.max_error_share = 0.02;
    assert_eq!(report.verdict(), Verdict::RateHeld);

    // A rate that was not held comes first.
    report.asked.max_error_share = 0.01;
    report.lag.p99 = 3 * MILLI;
    let line = last_line(&report);
    let expected = format!("verdict    RATE NOT HELD: lag p99 3 ms over 1 ms; {errors}");
    assert_eq!(line, expected);

    // What could not be sent has failed, too.
    let mut unpaced = perfect();
    unpaced.asked.mode = PacingMode::Unpaced;
    unpaced.counts.unsent = 100;
    unpaced.counts.failures = BTreeMap::from([(Failure::Refused, 100)]);
    assert_eq!(
        last_line(&unpaced),
        "verdict    TOO MANY ERRORS: 100 of 5100 requests failed (connection refused), more than 1 %"
    );
    let mut under = under();
    under.counts.statuses.server_error = 500;
    let line = last_line(&under);
    assert!(line.ends_with("; the rate limit was kept"), "{line}");
}

#[test]
fn a_short_run_may_be_off_by_what_the_lag_may_be() {
    // Twenty requests at 1000/s take 19 ms; each end may be 1 ms late.
    let short = |span_us| {
        reasons(|report| {
            report.asked = asked(&Schedule::of(Quota::per_second(1000), 20).unwrap());
            report.counts.scheduled = Some(20);
            report.counts.sent = 20;
            report.counts.statuses.success = 20;
            report.span = Duration::from_micros(span_us);
        })
    };
    assert_eq!(short(19_063), "held");
    assert_eq!(short(19_990), "held");
    assert_eq!(short(18_060), "held");
    assert_eq!(short(20_100), "rate off by -5.4726 %, more than 5.26 %");
    // In a long run it is 0.1 %, as the other tests say.
    assert_eq!(perfect().thresholds().rate_error, 0.001);
}

#[test]
fn percentiles_that_were_asked_for_replace_the_usual_ones() {
    let mut report = perfect();
    let values = |p50: Duration| {
        let value = |(share, times)| Quantile {
            share,
            value: p50 * times,
        };
        [(0.75, 1), (0.995, 12), (0.99999, 40)].map(value).to_vec()
    };
    report.percentiles = Curves {
        lag: values(6 * MICRO),
        response: values(110 * MICRO),
        service: Vec::new(),
    };
    let text = report.to_string();
    let table = "
                 p75     p99.5   p99.999       max
lag          6.00 µs   72.0 µs         -    300 µs
response      110 µs   1.32 ms         -   5.50 ms
service            -         -         -   5.20 ms
";
    assert!(text.contains(table), "{text}");
}

#[test]
fn the_text_of_a_run_that_held_its_rate() {
    let expected = "\
target     http://127.0.0.1:8080/
rate       asked 1000/s
achieved   1000/s over 4999 intervals   error +0.0000 %
sent       5000 of 5000 in 5.00 s   up to 3 of 50 connections busy
pacing     gap error p50 2 µs, p99 20 µs   smallest gap 980 µs
           busiest 100 ms 101, 1 s 1001

                 p50       p90       p95       p99     p99.9    p99.99       max
lag          6.00 µs   12.0 µs   18.0 µs   60.0 µs    120 µs         -    300 µs
response      110 µs    220 µs    330 µs   1.10 ms   2.20 ms         -   5.50 ms
service       104 µs    208 µs    312 µs   1.04 ms   2.08 ms         -   5.20 ms

status     2xx 5000   3xx 0   4xx 0   5xx 0   limited 0 (429, 503)
errors     none
verdict    RATE HELD: all sent, rate within 0.1 %, lag p99 at most 1 ms
";
    assert_eq!(perfect().to_string(), expected);
}

#[test]
fn the_text_of_a_run_in_which_everything_went_wrong() {
    let mut report = perfect();
    report.own_origin = true;
    report.asked = asked(&Schedule::of("90/min".parse().unwrap(), 90).unwrap());
    report.pacing = Pacing::default();
    report.counts = RequestCounts {
        scheduled: Some(90),
        skipped: 0,
        body_bytes: 5_000,
        encoded_bytes: BTreeMap::from([(ContentCoding::Gzip, 3_000), (ContentCoding::Brotli, 500)]),
        decoded: Some(Decoded {
            bodies: 17,
            wire_bytes: 2_700,
            bytes: 12_000,
            broken: 2,
            skipped: 1,
        }),
        sent: 40,
        unsent: 30,
        unanswered: 2,
        resent: 0,
        queued: 5,
        statuses: Statuses {
            informational: 1,
            success: 20,
            redirection: 2,
            client_error: 3,
            server_error: 4,
            limited: 5,
            other: 1,
        },
        codes: BTreeMap::from([(200, 19), (204, 1), (302, 2), (404, 3), (500, 4), (429, 5)]),
        failures: BTreeMap::from([
            (Failure::Timeout, 1),
            (Failure::Refused, 30),
            (Failure::NotHttp, 1),
        ]),
    };
    report.span = Duration::from_secs(30);
    report.response = Spread::default();
    report.service = Spread::default();
    report.lag = spread(Duration::from_nanos(7));
    report.connections.longest_wait = 12 * MILLI;
    report.connections.missing = 7;
    report.connections.why_missing = Some(Failure::Exhausted);
    report.is_interrupted = true;
    let expected = "\
target     http://127.0.0.1:8080/  (built-in test server)
rate       asked 90/min = 1.5/s
achieved   1.3/s over 39 intervals   error -13.3333 %
sent       40 of 90 in 30.0 s   up to 3 of 50 connections busy
           5 waited for a connection, up to 12.0 ms
           7 did not open: too many open files or ports

                 p50       p90       p95       p99     p99.9    p99.99       max
lag             7 ns     14 ns     21 ns     70 ns    140 ns         -    350 ns
response           -         -         -         -         -         -         -
service            -         -         -         -         -         -         -

status     2xx 20   3xx 2   4xx 3   5xx 4   limited 5 (429, 503)   1xx 1   other 1
           of these 4 × 500, 3 × 404, 2 × 302, 1 × 204
bodies     3 kB gzip   500 B br   1.5 kB not compressed
           17 decoded, 2.7 kB to 12 kB   2 could not be decoded   1 were not decoded
errors     3 answered 4xx   4 answered 5xx   1 answered with a nonstandard status   \
30 connection refused   1 timed out   1 answer is not HTTP/1.1   2 unanswered at the end
verdict    RATE NOT HELD: interrupted; sent 40 of 90 (connection refused); \
rate off by -13.3333 %, more than 2.56 %; 42 of 70 requests failed (connection refused), more than 1 %
";
    assert_eq!(report.to_string(), expected);
}

/// 100/s to 300/s in 5 s: 120, 160, … 280 in a second.
fn ramp() -> Report {
    let [from, to] = [100, 300].map(|rate| Some(Quota::per_second(rate)));
    let mut report = perfect();
    let schedule = Schedule::ramp(from, to, 5000 * MILLI).unwrap();
    report.asked = asked(&schedule);
    report.counts.scheduled = Some(1000);
    report.counts.sent = 1000;
    report.counts.statuses.success = 1000;
    report.timeline.slots = slots([120, 160, 200, 240, 280], [120, 159, 201, 240, 280]);
    report.span = schedule.span();
    report
}

#[test]
fn a_rate_that_changes_is_held_when_all_was_sent_on_time() {
    let mut report = ramp();
    assert_eq!(report.verdict(), Verdict::RateHeld);
    // One interval at the highest rate.
    report.lag.p99 = Duration::from_micros(3333);
    assert_eq!(report.verdict(), Verdict::RateHeld);
    // A mean says little here, and is not judged.
    report.span += 100 * MILLI;
    assert_eq!(report.verdict(), Verdict::RateHeld);
    report.lag.p99 = Duration::from_micros(3400);
    report.counts.sent = 999;
    let Verdict::RateNotHeld(causes) = report.verdict() else {
        panic!("{report}");
    };
    let causes: Vec<_> = causes.iter().map(Cause::to_string).collect();
    assert_eq!(causes, ["sent 999 of 1000", "lag p99 3.4 ms over 3.33 ms"]);
    report.connections.longest_wait = 500 * MILLI;
    report.service.mean = 200 * MILLI;
    assert!(
        report
            .to_string()
            .contains("connections busy: needs about 60, allowed 50"),
        "{report}"
    );
}

#[test]
fn the_text_of_a_ramp_says_how_close_each_second_was() {
    let line = |report: &Report, name: &str| {
        let text = report.to_string();
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        lines.next().unwrap_or_default().to_owned()
    };
    let mut report = ramp();
    assert_eq!(
        line(&report, "rate"),
        "rate       asked 100/s to 300/s in 5 s   first to last 199.9333/s"
    );
    assert_eq!(
        line(&report, "achieved"),
        "achieved   199.9333/s over 999 intervals   error +0.0000 %"
    );
    assert_eq!(
        line(&report, "seconds"),
        "seconds    5 of 5 seconds within 1 of the schedule"
    );
    assert_eq!(
        line(&report, "           largest"),
        "           largest difference: sent 201 of 200 scheduled, from 2 s"
    );
    assert_eq!(
        line(&report, "verdict"),
        "verdict    RATE HELD: all sent, 5 of 5 seconds within 1 of the schedule, lag p99 at most 3.33 ms"
    );
    report.timeline.slots = slots([120, 160, 200, 240, 280], [120, 150, 210, 240, 280]);
    report.timeline.width = 7000 * MILLI;
    assert_eq!(
        line(&report, "seconds"),
        "seconds    3 of 5 intervals of 7 s within 1 of the schedule"
    );
    assert_eq!(
        line(&report, "           largest"),
        "           largest difference: sent 210 of 200 scheduled, from 14 s"
    );
    // Shorter slots are joined to seconds.
    report.timeline.width = 200 * MILLI;
    report.timeline.slots = [[24; 5], [32; 5], [40; 5]]
        .map(|scheduled| slots(scheduled, scheduled))
        .concat();
    report.timeline.slots[12].sent = 42;
    assert_eq!(
        line(&report, "seconds"),
        "seconds    2 of 3 seconds within 1 of the schedule"
    );
    assert_eq!(
        line(&report, "           largest"),
        "           largest difference: sent 202 of 200 scheduled, from 2 s"
    );
    report.timeline.width = 7000 * MILLI;
    report.timeline.slots = slots([120; 5], [120; 5]);
    assert_eq!(
        line(&report, "seconds"),
        "seconds    5 of 5 intervals of 7 s within 1 of the schedule"
    );
    assert_eq!(line(&perfect(), "seconds"), "");
}

/// At most 100/s, sent so.
fn under() -> Report {
    let mut report = perfect();
    report.asked = Asked {
        mode: PacingMode::Under,
        text: "at most 100/s".to_owned(),
        per_second: Some(100.0),
        is_constant: true,
        interval: 10 * MILLI,
        highest_per_second: Some(100.0),
        burst: 1,
        guarantee: Some(Guarantee {
            burst: 1,
            per_second: 100.0,
        }),
        window: None,
        max_error_share: 0.01,
        slice: None,
    };
    report.counts.scheduled = None;
    report.counts.sent = 500;
    report.counts.statuses.success = 500;
    report.pacing.smallest_gap = Some(10 * MILLI);
    report.pacing.envelope = [(2, 10_000_000), (3, 20_000_120), (10, 90_002_000)]
        .map(|(sends, ns)| Cluster {
            sends,
            within: Duration::from_nanos(ns),
        })
        .to_vec();
    report.span = Duration::from_millis(4991);
    report
}

#[test]
fn a_limit_that_is_never_exceeded_is_kept() {
    let report = under();
    assert_eq!(report.verdict(), Verdict::RateLimitKept);
    let text = report.to_string();
    assert!(
        text.contains(
            "rate       asked at most 100/s\nachieved   99.97996/s over 499 intervals   -0.0200 %"
        ),
        "{text}"
    );
    assert!(text.contains("sent       500 in 4.99 s"), "{text}");
    let last = "verdict    RATE LIMIT KEPT: all gaps at least 10 ms\n";
    assert!(text.ends_with(last), "{text}");
    // However little was sent: that is what was asked for.
    let mut idle = under();
    idle.counts.sent = 0;
    idle.pacing.envelope.clear();
    assert_eq!(idle.verdict(), Verdict::RateLimitKept);
}

#[test]
fn sends_that_are_closer_together_than_may_be_are_found() {
    let mut report = under();
    report.pacing.envelope[1].within = Duration::from_nanos(19_999_998);
    let Verdict::RateLimitNotKept(causes) = report.verdict() else {
        panic!("{report}");
    };
    assert_eq!(causes.len(), 1);
    assert_eq!(causes[0].to_string(), "sent 3 in 20 ms, 2 allowed");
    report.asked.guarantee = Some(Guarantee {
        burst: 3,
        per_second: 100.0,
    });
    assert_eq!(report.verdict(), Verdict::RateLimitKept);
    let text = report.to_string();
    assert!(
        text.ends_with("verdict    RATE LIMIT KEPT: never more than 3 + 100/s sent\n"),
        "{text}"
    );
}

#[test]
fn a_window_that_holds_more_than_may_be_is_found() {
    let mut report = under();
    report.asked.guarantee = None;
    report.asked.window = Some(Window {
        sends: 100,
        span: 1000 * MILLI,
    });
    let mut judged = |sends, within_ns| {
        let within = Duration::from_nanos(within_ns);
        report.pacing.envelope = vec![Cluster { sends, within }];
        report.to_string()
    };
    for (sends, within_ns) in [(100, 0), (101, 1_000_000_000), (200, 1_999_999_999)] {
        let text = judged(sends, within_ns);
        assert!(
            text.ends_with("verdict    RATE LIMIT KEPT: never more than 100 sent in any 1 s\n"),
            "{text}"
        );
    }
    for (sends, within_ns, expected) in [
        (101, 999_999_999, "sent 101 in 1 s, 100 allowed"),
        (201, 1_500_000_000, "sent 201 in 1.5 s, 200 allowed"),
    ] {
        let text = judged(sends, within_ns);
        let last = format!("verdict    RATE LIMIT NOT KEPT: {expected}\n");
        assert!(text.ends_with(&last), "{text}");
    }
}

#[test]
fn a_rate_with_skipped_requests_is_not_held() {
    assert_eq!(
        reasons(|report| {
            report.counts.skipped = 7;
            report.counts.sent = 4993;
            report.span = 4992 * MILLI;
        }),
        "skipped 7 late requests of 5000",
    );
}

#[test]
fn a_run_without_a_rate_is_not_judged() {
    let mut report = perfect();
    report.asked = Asked {
        mode: PacingMode::Unpaced,
        text: "as fast as possible".to_owned(),
        per_second: None,
        is_constant: false,
        interval: Duration::ZERO,
        highest_per_second: None,
        burst: 1,
        guarantee: None,
        window: None,
        max_error_share: 0.01,
        slice: None,
    };
    report.counts.scheduled = None;
    assert_eq!(report.verdict(), Verdict::Unpaced);
    let expected = "\
target     http://127.0.0.1:8080/
rate       asked as fast as possible
achieved   1000/s over 4999 intervals
sent       5000 in 5.00 s   up to 3 of 50 connections busy
pacing     smallest gap 980 µs
           busiest 100 ms 101, 1 s 1001

                 p50       p90       p95       p99     p99.9    p99.99       max
response      110 µs    220 µs    330 µs   1.10 ms   2.20 ms         -   5.50 ms

status     2xx 5000   3xx 0   4xx 0   5xx 0   limited 0 (429, 503)
errors     none
verdict    UNPACED: no rate was given
";
    assert_eq!(report.to_string(), expected);
}
