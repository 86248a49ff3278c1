//! Reports to be written as files.

use std::time::{Duration, SystemTime};

use flowgate_load::{
    Asked, Busiest, ClockOffset, Cluster, Connections, ContentCoding, Curves, Decoded, Detail,
    Failure, Guarantee, Pacing, PacingMode, Provenance, Quantile, Report, RequestCounts, Slice,
    Slot, Spread, Statuses, TimeBlock, Timeline, TlsFault, Window,
};

const MICRO: Duration = Duration::from_micros(1);
const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn spread(p50: Duration) -> Spread {
    Spread {
        samples: 2_970,
        mean: p50 + MICRO,
        p50,
        p90: 2 * p50,
        p95: 3 * p50,
        p99: 10 * p50,
        p999: 20 * p50,
        p9999: 40 * p50,
        max: 50 * p50,
    }
}

fn curve(p50: Duration) -> Vec<Quantile> {
    let points = [
        (0.0, 1),
        (0.5, 2),
        (0.9, 4),
        (0.99, 20),
        (0.999, 40),
        (1.0, 100),
    ];
    points
        .map(|(share, halves)| Quantile {
            share,
            value: p50 * halves / 2,
        })
        .to_vec()
}

fn slot(scheduled: u64, limited: u64, failed: u64) -> Slot {
    Slot {
        scheduled,
        sent: scheduled,
        admitted: scheduled - limited - failed,
        limited,
        failed,
        response_p50: 110 * MICRO,
        response_p99: 1_100 * MICRO,
        response_max: 5_500 * MICRO + Duration::from_nanos(1),
        lag_p99: 60 * MICRO,
    }
}

/// A run of three seconds in which a little of everything happened: nothing is missing, and no two numbers that
/// could be mistaken for each other are the same.
pub fn full() -> Report {
    let failures = [
        Failure::Refused,
        Failure::Unreachable,
        Failure::Exhausted,
        Failure::Connect,
        Failure::Tls(TlsFault::UnknownIssuer),
        Failure::Tls(TlsFault::Expired),
        Failure::Tls(TlsFault::NotYetValid),
        Failure::Tls(TlsFault::WrongName),
        Failure::Tls(TlsFault::Authority),
        Failure::Tls(TlsFault::Certificate),
        Failure::Tls(TlsFault::NotTls),
        Failure::Tls(TlsFault::NoCommonProtocol),
        Failure::Tls(TlsFault::WantsCertificate),
        Failure::Tls(TlsFault::Refused),
        Failure::Tls(TlsFault::Broken),
        Failure::Timeout,
        Failure::Closed,
        Failure::Reset,
        Failure::StreamReset,
        Failure::GoAway,
        Failure::NotHttp,
        Failure::NotHttp2,
        Failure::Broken,
        Failure::Proxy,
        Failure::ProxyPassword,
    ];
    Report {
        target: "http://127.0.0.1:8080/?a=1&b=<2>".to_owned(),
        own_origin: false,
        asked: Asked {
            mode: PacingMode::Hold,
            text: "1000/s".to_owned(),
            per_second: Some(1_000.0),
            is_constant: true,
            interval: MILLI,
            highest_per_second: Some(1_001.5),
            burst: 1,
            guarantee: Some(Guarantee {
                burst: 2,
                per_second: 1_000.1,
            }),
            window: Some(Window {
                sends: 1_234,
                span: 777 * MILLI,
            }),
            max_error_share: 0.05,
            slice: Some(Slice {
                index: 3,
                count: 8,
                start_at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_829_415_000),
            }),
        },
        counts: RequestCounts {
            scheduled: Some(3_000),
            sent: 2_970,
            unsent: 23,
            skipped: 7,
            unanswered: 5,
            resent: 6,
            queued: 11,
            body_bytes: 1_820_610,
            encoded_bytes: std::collections::BTreeMap::from([
                (ContentCoding::Gzip, 1_000_010),
                (ContentCoding::Brotli, 30),
            ]),
            decoded: Some(Decoded {
                bodies: 2_890,
                wire_bytes: 900_000,
                bytes: 4_000_000,
                broken: 12,
                skipped: 14,
            }),
            statuses: Statuses {
                informational: 1,
                success: 2_900,
                redirection: 2,
                client_error: 3,
                server_error: 4,
                limited: 54,
                other: 6,
            },
            codes: std::collections::BTreeMap::from([(200, 2_900), (404, 3), (429, 54)]),
            failures: failures.into_iter().zip(1..).collect(),
        },
        span: 2_999 * MILLI,
        pacing: Pacing {
            gap_error: spread(3 * MICRO),
            smallest_gap: Some(940 * MICRO),
            busiest: vec![
                Busiest {
                    window: 100 * MILLI,
                    sent: 101,
                },
                Busiest {
                    window: SECOND,
                    sent: 1_001,
                },
            ],
            envelope: vec![
                Cluster {
                    sends: 2,
                    within: 940 * MICRO,
                },
                Cluster {
                    sends: 10,
                    within: 8_970 * MICRO,
                },
                Cluster {
                    sends: 1_000,
                    within: 998_960 * MICRO,
                },
            ],
        },
        lag: spread(6 * MICRO),
        response: spread(110 * MICRO),
        service: spread(104 * MICRO),
        curves: Curves {
            lag: curve(6 * MICRO),
            response: curve(110 * MICRO),
            service: curve(104 * MICRO),
        },
        percentiles: Curves {
            lag: curve(6 * MICRO)[2..4].to_vec(),
            response: curve(110 * MICRO)[2..4].to_vec(),
            service: curve(104 * MICRO)[2..4].to_vec(),
        },
        timeline: Timeline {
            width: SECOND,
            slots: vec![slot(1_000, 0, 0), slot(1_000, 20, 3), slot(970, 34, 40)],
        },
        detail: Detail {
            lag: "6000*2970".parse().expect("a histogram"),
            response: "110000*2000 1100000*970".parse().expect("a histogram"),
            service: "104000*2970".parse().expect("a histogram"),
            first_sent: MILLI,
            last_sent: 3_000 * MILLI,
            server_clock: Some(ClockOffset {
                from_ns: -1_200_000,
                to_ns: 400_000,
            }),
            block: 120 * MILLI,
            blocks: vec![TimeBlock {
                sent: 2_970,
                done: 2_969,
                limited: 54,
                failed: 41,
                response: "110000*2000 1100000*970".parse().expect("a histogram"),
            }],
        },
        connections: Connections {
            connections: 50,
            allowed: 50,
            most_busy: 13,
            longest_wait: 41 * MILLI,
            missing: 8,
            why_missing: Some(Failure::Refused),
        },
        is_interrupted: true,
        provenance: Provenance {
            started: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_829_412_345)),
            command: Some("flowgate load 'http://127.0.0.1:8080/?a=1&b=<2>' -q 1000".to_owned()),
            version: Some("0.0.1".to_owned()),
            machine: Some("2 × AMD EPYC 7B13, linux 6.1.0 x86_64".to_owned()),
        },
    }
}

/// A run that held its rate, with a slot for each second.
pub fn held(seconds: u64) -> Report {
    let mut report = full();
    report.asked.guarantee = None;
    report.asked.slice = None;
    report.is_interrupted = false;
    report.counts = RequestCounts {
        scheduled: Some(1_000 * seconds),
        sent: 1_000 * seconds,
        statuses: Statuses {
            success: 1_000 * seconds,
            ..Statuses::default()
        },
        ..RequestCounts::default()
    };
    report.percentiles = Curves::default();
    report.span = SECOND * u32::try_from(seconds).expect("a short run") - MILLI;
    report.timeline.slots = (0..seconds)
        .map(|second| slot(1_000, second % 3, second % 7 / 6))
        .collect();
    report.connections = Connections {
        connections: 50,
        allowed: 50,
        most_busy: 3,
        longest_wait: Duration::ZERO,
        missing: 0,
        why_missing: None,
    };
    report
}

/// A run in which no request could be sent, and nothing was found out.
pub fn empty() -> Report {
    let nothing = Spread::default();
    Report {
        asked: Asked {
            per_second: None,
            highest_per_second: None,
            guarantee: None,
            window: None,
            mode: PacingMode::Unpaced,
            ..full().asked
        },
        counts: RequestCounts::default(),
        span: Duration::ZERO,
        pacing: Pacing::default(),
        lag: nothing,
        response: nothing,
        service: nothing,
        curves: Curves::default(),
        percentiles: Curves::default(),
        timeline: Timeline::default(),
        connections: Connections {
            why_missing: None,
            ..full().connections
        },
        ..full()
    }
}

/// One request, sent and answered.
pub fn single() -> Report {
    let mut report = held(1);
    report.counts = RequestCounts {
        scheduled: Some(1),
        sent: 1,
        statuses: Statuses {
            success: 1,
            ..Statuses::default()
        },
        ..RequestCounts::default()
    };
    report.span = Duration::ZERO;
    report.pacing = Pacing::default();
    report.timeline.slots = vec![Slot {
        scheduled: 1,
        sent: 1,
        admitted: 1,
        ..slot(1, 0, 0)
    }];
    let one = Spread {
        samples: 1,
        ..spread(50 * MICRO)
    };
    (report.lag, report.response, report.service) = (one, one, one);
    report
}
