//! Slices of one schedule: sent together, and joined.

use std::time::{Duration, SystemTime};

use flowgate::Quota;
use flowgate_load::{
    ClockOffset, ContentCoding, Decoded, Detail, Extent, Merged, Origin, Plan, Report, RunError,
    Schedule, Slice, Stop, Target, TimeBlock,
};

use crate::sample;

/// The report of a slice with these response times.
fn slice(index: u64, count: u64, response: &str) -> (String, Report) {
    let mut report = sample::held(3);
    let start_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_829_415);
    report.asked.text = format!("1000/s, slice {index}/{count}");
    report.asked.per_second = Some(1_000.0 / count as f64);
    report.asked.interval = Duration::from_millis(count);
    report.asked.slice = Some(Slice {
        index,
        count,
        start_at,
    });
    report.counts.encoded_bytes = [(ContentCoding::Gzip, 10)].into();
    report.counts.decoded = (index > 1).then_some(Decoded {
        bodies: 7,
        bytes: 90,
        ..Decoded::default()
    });
    report.detail = Detail {
        response: response.parse().unwrap(),
        first_sent: Duration::from_millis(index.saturating_sub(1)),
        last_sent: Duration::from_millis(2_990 + index),
        block: Duration::from_millis(120),
        blocks: vec![TimeBlock {
            response: response.parse().unwrap(),
            ..TimeBlock::default()
        }],
        ..Detail::default()
    };
    (format!("{index}.json"), report)
}

fn refused(runs: Vec<(String, Report)>) -> String {
    Merged::of(runs).unwrap_err().to_string()
}

/// The quantile of the whole is that of all response times, which no average of the slices' is.
#[test]
fn distributions_are_joined_exactly() {
    let runs = vec![slice(2, 2, "2000*10"), slice(1, 2, "100*985 1000*5")];
    let merged = Merged::of(runs).unwrap();
    let report = &merged.report;
    assert_eq!(report.asked.text, "1000/s");
    assert_eq!(
        (report.asked.per_second, report.asked.slice),
        (Some(1_000.0), None)
    );
    assert_eq!(report.asked.interval, Duration::from_millis(1));
    assert_eq!(
        (report.counts.sent, report.counts.scheduled),
        (6_000, Some(6_000))
    );
    assert_eq!(report.counts.encoded_bytes[&ContentCoding::Gzip], 20);
    let decoded = report.counts.decoded.expect("those of the second");
    assert_eq!((decoded.bodies, decoded.bytes), (7, 90));
    assert_eq!(report.response.samples, 1_000);
    assert_eq!(report.response.p50, Duration::from_nanos(100));
    assert_eq!(
        report.response.p99,
        Duration::from_nanos(1_000),
        "990 of 1000 are up to that"
    );
    assert_eq!(
        report.detail.response,
        "100*985 1000*5 2000*10".parse().unwrap()
    );
    assert_eq!(
        report.span,
        Duration::from_millis(2_992),
        "from the first send of any to the last"
    );
    assert_eq!(report.timeline.slots[0].sent, 2_000);
    assert_eq!(merged.parts[1].first_sent, Duration::from_millis(1));
    let text = merged.to_string();
    assert!(text.starts_with("slice      sent "), "{text}");
    assert!(
        text.contains("\nslowest    2.json by its lag, 2.json by its response"),
        "{text}"
    );
    // A joined report is a report.
    assert_eq!(Report::from_json(&report.to_json()).unwrap(), *report);
}

/// The clock of the server minus that of a machine.
fn clock(from_ms: i64, to_ms: i64) -> Option<ClockOffset> {
    Some(ClockOffset {
        from_ns: from_ms * 1_000_000,
        to_ns: to_ms * 1_000_000,
    })
}

#[test]
fn the_clocks_of_machines_are_compared_by_that_of_the_server() {
    for (clocks, expected) in [
        // The server is ahead of the third by 12 ms, and so is the second.
        (
            [clock(-1, 1), clock(-1, 3), clock(11, 13)],
            "clocks     3.json is 12.0 ms ± 2.00 ms behind 1.json: its requests were sent that much later\n",
        ),
        (
            [clock(-1, 1), clock(0, 2), clock(0, 1)],
            "clocks     no difference shown: less than 3.00 ms\n",
        ),
        (
            [clock(5_000, 5_001), None, clock(4_000, 4_001)],
            "clocks     1.json is 1.00 s ± 1.00 ms behind 3.json: ",
        ),
        (
            [None, clock(0, 1), None],
            "clocks     not compared: the responses have no Date\n",
        ),
    ] {
        let runs = (1..).zip(clocks).map(|(index, clock)| {
            let (name, mut report) = slice(index, 3, "5");
            report.detail.server_clock = clock;
            (name, report)
        });
        let merged = Merged::of(runs.collect()).unwrap();
        assert_eq!(merged.report.detail.server_clock, None);
        let text = merged.to_string();
        assert!(text.contains(expected), "{text}");
    }
    let runs = vec![slice(1, 2, "5"), slice(2, 2, "5")];
    let text = Merged::of(runs).unwrap().to_string();
    assert!(text.contains("clocks     not compared: "), "{text}");
    let alone = Merged::of(vec![slice(1, 1, "5")]).unwrap().to_string();
    assert!(!alone.contains("\nclocks "), "{alone}");
}

#[test]
fn blocks_of_other_lengths_are_joined_first() {
    let (name, mut long) = slice(1, 2, "5");
    long.detail.block = Duration::from_millis(240);
    let (other, mut short) = slice(2, 2, "7");
    short.detail.blocks = vec![short.detail.blocks[0].clone(); 3];
    let merged = Merged::of(vec![(name, long.clone()), (other.clone(), short.clone())]).unwrap();
    let blocks = &merged.report.detail.blocks;
    assert_eq!(blocks[0].response, "5 7*2".parse().unwrap());
    assert_eq!(blocks[1].response, "7".parse().unwrap());
    short.detail.block = Duration::from_millis(100);
    let error = refused(vec![slice(1, 2, "5"), (other, short)]);
    assert!(
        error.starts_with("2.json: its blocks of time have another length"),
        "{error}"
    );
}

#[test]
fn slices_that_do_not_fit_are_refused() {
    let plain = ("plain.json".to_owned(), sample::held(3));
    let (name, mut later) = slice(2, 3, "7");
    if let Some(slice) = &mut later.asked.slice {
        slice.start_at += Duration::from_secs(1);
    }
    let (_, mut faster) = slice(2, 3, "7");
    faster.asked.text = "2000/s, slice 2/3".to_owned();
    // Each fits, and their sum does not.
    let huge = |index| {
        let (name, mut report) = slice(index, 2, "7");
        report.counts.body_bytes = u64::MAX / 2;
        (name, report)
    };
    for (runs, expected) in [
        (
            vec![slice(1, 3, "5"), slice(3, 3, "5")],
            "slice 2/3 is missing: write its report",
        ),
        (
            vec![slice(3, 3, "5")],
            "2 of 3 slices are missing, the first is 1/3: write",
        ),
        (
            vec![slice(1, 2, "5"), slice(1, 2, "5")],
            "1.json and 1.json are both slice 1/2",
        ),
        (
            vec![slice(1, 3, "5"), slice(2, 2, "5")],
            "2.json and 1.json are slices of different runs",
        ),
        (
            vec![slice(1, 3, "5"), (name.clone(), later)],
            "2.json and 1.json are slices of different",
        ),
        (
            vec![slice(1, 3, "5"), (name, faster)],
            "2.json and 1.json are slices of different",
        ),
        (vec![huge(1), huge(2)], "2.json: its counts are too large"),
        (
            vec![slice(1, 2, "5"), slice(3, 2, "5")],
            "3.json: there is no slice 3/2",
        ),
        (
            vec![slice(0, 2, "5"), slice(1, 2, "5")],
            "0.json: there is no slice 0/2",
        ),
        (
            vec![slice(1, 2, "5"), plain],
            "plain.json: not a slice: write reports of",
        ),
    ] {
        let error = refused(runs);
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// Four runs in one process, with one start.
#[test]
fn four_slices_send_the_requests_of_one_schedule() {
    let origin = Origin::start().unwrap();
    let start_at = SystemTime::now() + Duration::from_secs(3);
    let runs: Vec<_> = std::thread::scope(|scope| {
        let run = |index| {
            let extent = Extent::Requests(203);
            let schedule = Schedule::bursts(Quota::per_second(1_000), 5, extent).unwrap();
            let mut plan = Plan::new(Target::parse(&origin.url()).unwrap(), schedule);
            plan.slice = Some(Slice {
                index,
                count: 4,
                start_at,
            });
            scope.spawn(move || (format!("{index}"), flowgate_load::run(plan, &Stop::new())))
        };
        let runs: Vec<_> = (1..=4).map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let runs: Vec<_> = runs
        .into_iter()
        .map(|(name, report)| (name, report.unwrap()))
        .collect();
    let sent: Vec<_> = runs.iter().map(|(_, report)| report.counts.sent).collect();
    assert_eq!(sent, [51, 51, 51, 50]);
    // The server has the clock of this machine.
    for (name, report) in &runs {
        let clock = report.detail.server_clock.expect("the server sends a Date");
        assert!(clock.from_ns <= 0 && clock.to_ns >= 0, "{name}: {clock}");
    }
    let merged = Merged::of(runs).unwrap();
    assert_eq!(merged.report.asked.burst, 5, "of the whole schedule");
    assert_eq!(merged.report.counts.statuses.success, 203);
    assert_eq!(merged.report.response.samples, 203);
    assert!(
        merged.report.span >= Duration::from_millis(199),
        "{:?}",
        merged.report.span
    );
}

#[test]
fn a_start_that_has_passed_is_an_error() {
    let origin = Origin::start().unwrap();
    let schedule = Schedule::of(Quota::per_second(1_000), 4).unwrap();
    let mut plan = Plan::new(Target::parse(&origin.url()).unwrap(), schedule);
    plan.slice = Some(Slice {
        index: 1,
        count: 4,
        start_at: SystemTime::UNIX_EPOCH,
    });
    let outcome = flowgate_load::run(plan, &Stop::new());
    assert!(matches!(outcome, Err(RunError::TooLate)));
}
