//! Whole runs against the crate's own server, on counts alone: how fast this machine is decides
//! nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use flowgate::Quota;
use flowgate_load::{Cause, Origin, Plan, RunError, Schedule, Segment, Stop, Target, Verdict};

fn plan(origin: &Origin, requests: u64) -> Plan {
    let schedule = Schedule::of(Quota::per_second(500), requests).unwrap();
    Plan::new(Target::parse(&origin.url()).unwrap(), schedule)
}

#[test]
fn every_request_is_sent_answered_and_timed_once() {
    let origin = Origin::start().unwrap();
    let report = flowgate_load::run(plan(&origin, 100), &Stop::new()).unwrap();
    assert_eq!((report.counts.scheduled, report.counts.sent), (100, 100));
    assert_eq!(report.counts.statuses.success, 100);
    assert_eq!(report.lag.samples, 100);
    assert_eq!(report.response.samples, 100);
    assert_eq!(report.service.samples, 100);
    assert!(report.counts.failures.is_empty());
    assert!(report.response.max >= report.service.p50 && report.response.max >= report.lag.p50);
    assert!(report.connections.most_busy >= 1);
}

#[test]
fn one_connection_is_enough_to_send_everything() {
    let origin = Origin::start().unwrap();
    let mut plan = plan(&origin, 50);
    plan.connections = NonZeroUsize::MIN;
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    assert_eq!(
        (report.counts.sent, report.counts.statuses.success),
        (50, 50)
    );
    assert_eq!(
        (report.connections.allowed, report.connections.most_busy),
        (1, 1)
    );
}

#[test]
fn a_run_that_was_stopped_before_it_began_sends_nothing() {
    let origin = Origin::start().unwrap();
    let stop = Stop::new();
    stop.stop();
    let outcome = flowgate_load::run(plan(&origin, 50), &stop);
    assert!(matches!(outcome, Err(RunError::Stopped)));
}

#[test]
fn a_port_that_nobody_listens_on_is_an_error_before_the_run() {
    let origin = Origin::start().unwrap();
    let plan = plan(&origin, 50);
    drop(origin);
    let error = flowgate_load::run(plan, &Stop::new()).unwrap_err();
    assert!(error.to_string().ends_with("connection refused"), "{error}");
}

#[test]
fn a_large_body_is_read_by_the_server_and_the_connection_kept() {
    let origin = Origin::start().unwrap();
    let mut plan = plan(&origin, 10);
    plan.template.method = hyper::Method::POST;
    plan.template.body = vec![b'x'; 1 << 20].into();
    plan.timeout = Duration::from_secs(30);
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    assert_eq!(report.counts.statuses.success, 10);
}

/// A server that answers every request this long after reading it, one connection at a time.
fn slow_server(delay: Duration) -> Target {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
                if line == "\r\n" {
                    thread::sleep(delay);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    stream.get_mut().write_all(answer).unwrap();
                }
                line.clear();
            }
        }
    });
    Target::parse(&target).unwrap()
}

/// Five requests, nearly at once, and one connection that takes `delay` for each.
#[test]
fn a_request_that_waits_for_a_connection_keeps_its_due_time() {
    let delay = Duration::from_millis(40);
    let schedule = Schedule::of(Quota::per_second(100_000), 5).unwrap();
    let mut plan = Plan::new(slow_server(delay), schedule);
    plan.connections = NonZeroUsize::MIN;
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();

    // Lower bounds only: a busy machine makes everything longer. The histogram is exact to 0.1 %.
    let at_least = |waits: u32| delay * waits * 99 / 100;
    assert_eq!((report.counts.sent, report.counts.statuses.success), (5, 5));
    assert!(report.counts.queued >= 4, "{report}");
    assert!(report.service.p50 >= at_least(1), "{report}");
    assert!(
        report.lag.p50 >= at_least(2) && report.lag.max >= at_least(4),
        "{report}"
    );
    assert!(
        report.response.p50 >= at_least(3) && report.response.max >= at_least(5),
        "{report}"
    );
    assert!(report.connections.longest_wait >= at_least(4), "{report}");
    let Verdict::NotHeld(causes) = report.verdict() else {
        panic!("{report}");
    };
    assert!(
        matches!(
            causes[0],
            Cause::Busy {
                needed: 4..,
                allowed: 1
            }
        ),
        "{causes:?}"
    );
}

/// With a pause, a seam, and requests at the same instant.
#[test]
fn schedules_of_every_kind_are_sent_to_the_last_request() {
    let origin = Origin::start().unwrap();
    let [slow, fast] = [50, 400].map(|rate| Some(Quota::per_second(rate)));
    let segment = |ms, from, to| Segment {
        duration: Duration::from_millis(ms),
        from,
        to,
    };
    let parts = [
        segment(100, slow, slow),
        segment(100, None, None),
        segment(200, slow, fast),
    ];
    let (mean, swing) = (Quota::per_second(200), Quota::per_second(100));
    let tenth = Duration::from_millis(100);
    for (schedule, len) in [
        (Schedule::segments(&parts).unwrap(), 50),
        (Schedule::sine(mean, swing, tenth, 2 * tenth).unwrap(), 40),
        (Schedule::poisson(mean, 7, 40).unwrap(), 40),
        (Schedule::bursts(mean, 10, 2 * tenth).unwrap(), 40),
        (Schedule::replay("0\n0\n0\n0.1".as_bytes()).unwrap(), 4),
    ] {
        let plan = Plan::new(Target::parse(&origin.url()).unwrap(), schedule);
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        assert_eq!(report.counts.sent, len, "{report}");
        assert_eq!(report.counts.statuses.success, len, "{report}");
        assert_eq!(report.timeline.due.iter().sum::<u64>(), len, "{report}");
        assert_eq!(report.timeline.sent.iter().sum::<u64>(), len, "{report}");
    }
}
