//! Whole runs against the crate's own server, on counts alone: how fast this machine is decides
//! nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use flowgate::Quota;
use flowgate_load::{
    Cause, Extent, Failure, Late, Margin, Origin, Pace, PacingLimiter, PacingMode, Plan,
    RequestMix, RunError, Schedule, Segment, Slot, Stop, Target, Template, Verdict, Via,
};

fn plan(origin: &Origin, requests: u64) -> Plan {
    let schedule = Schedule::of(Quota::per_second(500), requests).unwrap();
    Plan::new(Target::parse(&origin.url()).unwrap(), schedule)
}

#[test]
fn every_request_is_sent_answered_and_timed_once() {
    let origin = Origin::start().unwrap();
    let report = flowgate_load::run(plan(&origin, 100), &Stop::new()).unwrap();
    assert_eq!(
        (report.counts.scheduled, report.counts.sent),
        (Some(100), 100)
    );
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

/// A server that answers every request this long after reading it, however many connections there are.
fn slow_server(delay: Duration) -> Target {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = format!("http://{}/", listener.local_addr().unwrap());
    let serve = move |stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
            if line == "\r\n" {
                thread::sleep(delay);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.get_mut().write_all(answer).unwrap();
            }
            line.clear();
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    Target::parse(&target).unwrap()
}

/// Five requests, nearly simultaneous, and one connection that takes `delay` for each.
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
    let Verdict::RateNotHeld(causes) = report.verdict() else {
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
        let slots = &report.timeline.slots;
        let total = |of: fn(&Slot) -> u64| slots.iter().map(of).sum::<u64>();
        assert_eq!(total(|slot| slot.scheduled), len, "{report}");
        assert_eq!(total(|slot| slot.sent), len, "{report}");
        assert_eq!(total(|slot| slot.admitted), len, "{report}");
    }
}

/// By what really was written, however late that is.
#[test]
fn at_most_a_rate_keeps_every_distance() {
    let origin = Origin::start().unwrap();
    for (limiter, burst) in [
        (PacingLimiter::at_most(Quota::per_second(400)), 1),
        (PacingLimiter::parse("token 400/s burst 20").unwrap(), 20),
    ] {
        let pace = Pace::Under(limiter, Extent::Requests(100));
        let plan = Plan::new(Target::parse(&origin.url()).unwrap(), pace);
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        assert_eq!(report.counts.statuses.success, 100, "{report}");
        assert_eq!(report.verdict(), Verdict::RateLimitKept, "{report}");
        assert_eq!(
            report.asked.guarantee.map(|guarantee| guarantee.burst),
            Some(burst)
        );
        if burst == 1 {
            let smallest = report.pacing.smallest_gap.unwrap();
            assert!(smallest >= Duration::from_micros(2500), "{report}");
        }
    }
}

#[test]
fn a_limiter_without_a_simple_guarantee_drives_a_run_for_a_time() {
    let origin = Origin::start().unwrap();
    let limiter = PacingLimiter::parse("sliding 10/s").unwrap();
    let pace = Pace::Under(limiter, Extent::Lasting(Duration::from_millis(1100)));
    let plan = Plan::new(Target::parse(&origin.url()).unwrap(), pace);
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    // A burst of ten, and ten a second after.
    assert_eq!((report.counts.scheduled, report.counts.sent), (None, 20));
    assert_eq!(report.verdict(), Verdict::RateLimitKept);
    let eleven = report
        .pacing
        .envelope
        .iter()
        .find(|cluster| cluster.sends == 11);
    let within = eleven.map(|cluster| cluster.within);
    assert!(within >= Some(Duration::from_secs(1)), "{report}");
}

/// A server that is gone is not tried more often than it would be asked.
#[test]
fn what_could_not_be_written_counts_as_well() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = Target::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let closing = thread::spawn(move || {
        // Its connections are gone by the first request, and nobody listens any longer.
        let streams: Vec<_> = listener.incoming().take(1).collect();
        drop((listener, streams));
    });
    let limiter = PacingLimiter::at_most(Quota::per_second(20));
    let mut plan = Plan::new(target, Pace::Under(limiter, Extent::Requests(3)));
    plan.connections = NonZeroUsize::MIN;
    let began = Instant::now();
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(100), "{report}");
    closing.join().unwrap();
    let counts = &report.counts;
    assert_eq!(counts.sent + counts.unsent, 3, "{report}");
    assert!(counts.unsent >= 2, "{report}");
    assert!(counts.failures.contains_key(&Failure::Refused), "{report}");
}

#[test]
fn without_a_rate_every_request_is_sent_at_once() {
    let origin = Origin::start().unwrap();
    for threads in [1, 2, 3] {
        let pace = Pace::Unpaced(Extent::Requests(1001));
        let mut plan = Plan::new(Target::parse(&origin.url()).unwrap(), pace);
        plan.threads = NonZeroUsize::new(threads);
        plan.connections = NonZeroUsize::new(7).unwrap();
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        assert_eq!(report.asked.mode, PacingMode::Unpaced);
        assert_eq!(report.counts.sent, 1001, "{report}");
        assert_eq!(report.counts.statuses.success, 1001, "{report}");
        assert_eq!(report.counts.body_bytes, 3 * 1001, "{report}");
        assert!(report.connections.most_busy <= 7, "{report}");
        assert_eq!(report.pacing.gap_error.samples, 1000);
    }
}

#[test]
fn threads_share_the_requests_of_a_schedule() {
    let origin = Origin::start().unwrap();
    let mut plan = plan(&origin, 101);
    plan.threads = NonZeroUsize::new(3);
    plan.targets
        .push(Target::parse(&format!("{}other", origin.url())).unwrap());
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    assert_eq!(report.counts.statuses.success, 101, "{report}");
    assert_eq!(report.pacing.gap_error.samples, 100, "{report}");
    assert!(report.target.ends_with("/other"), "{}", report.target);
}

#[test]
fn late_requests_are_left_out_where_that_is_asked_for() {
    let schedule = Schedule::of(Quota::per_second(1000), 40).unwrap();
    let mut plan = Plan::new(slow_server(Duration::from_millis(50)), schedule);
    plan.connections = NonZeroUsize::MIN;
    plan.late = Late::Within(Duration::from_millis(5));
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    let counts = &report.counts;
    assert_eq!(counts.sent + counts.skipped, 40, "{report}");
    assert!(counts.sent >= 1 && counts.skipped >= 30, "{report}");
    let Verdict::RateNotHeld(causes) = report.verdict() else {
        panic!("{report}");
    };
    assert!(
        causes
            .iter()
            .any(|cause| matches!(cause, Cause::Skipped { .. }))
    );
}

#[test]
fn those_who_watch_see_the_end() {
    let origin = Origin::start().unwrap();
    let mut last = None;
    let report = flowgate_load::run_watched(plan(&origin, 200), &Stop::new(), |progress| {
        last = Some(progress.clone());
    })
    .unwrap();
    let last = last.unwrap();
    assert_eq!((last.sent, last.scheduled), (200, Some(200)));
    assert_eq!((last.admitted, last.in_flight), (200, 0));
    assert_eq!(report.counts.sent, 200);
    assert!(last.recent.iter().sum::<u64>() <= 200);
}

/// Of four requests, three go to the first server, which never responds. The other's are not delayed.
#[test]
fn a_busy_server_does_not_delay_requests_to_another() {
    let origin = Origin::start().unwrap();
    let silent = slow_server(Duration::from_secs(60));
    let other = Target::parse(&origin.url()).unwrap();
    let mix = RequestMix::weighted(vec![
        (silent.clone(), Template::default(), 3),
        (other.clone(), Template::default(), 1),
    ])
    .unwrap();
    for threads in [1, 2] {
        let schedule = Schedule::of(Quota::per_second(1_000), 80).unwrap();
        let mut plan = Plan::new(silent.clone(), schedule);
        plan.mix = Some(mix.clone());
        plan.connections = NonZeroUsize::new(2).unwrap();
        plan.threads = NonZeroUsize::new(threads);
        plan.timeout = Duration::from_millis(200);
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        assert_eq!(report.connections.allowed, 4, "two for each server");
        // All of the other server's, although those to the first wait.
        assert_eq!(report.counts.statuses.success, 20, "{report}");
        assert!(report.counts.failures[&Failure::Timeout] >= 2, "{report}");
    }
}

/// Without a schedule the order is kept, by all servers together.
#[test]
fn a_mix_without_a_schedule_is_sent_in_order() {
    let origins = [Origin::start().unwrap(), Origin::start().unwrap()];
    let targets = origins
        .each_ref()
        .map(|origin| Target::parse(&origin.url()).unwrap());
    let mix = targets
        .clone()
        .map(|target| (target, Template::default(), 1));
    let limiter = PacingLimiter::at_most(Quota::per_second(1_000));
    for pace in [
        Pace::Unpaced(Extent::Requests(51)),
        Pace::Under(limiter, Extent::Requests(51)),
    ] {
        let mut plan = Plan::new(targets[0].clone(), pace);
        plan.mix = Some(RequestMix::weighted(mix.to_vec()).unwrap());
        plan.connections = NonZeroUsize::new(3).unwrap();
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        assert_eq!(report.counts.statuses.success, 51, "{report}");
    }
}

#[test]
fn targets_of_two_hosts_are_refused() {
    let origin = Origin::start().unwrap();
    let mut plan = plan(&origin, 1);
    plan.targets
        .push(Target::parse("http://127.0.0.1:1/").unwrap());
    let error = flowgate_load::run(plan, &Stop::new()).unwrap_err();
    assert!(
        error.to_string().contains("differ in host or port"),
        "{error}"
    );
}

/// Whatever happened to a request on its way, the server has seen it by the time of its answer.
#[test]
fn margins_are_added_to_the_distances_of_a_pacing_limiter() {
    let ms = Duration::from_millis;
    let answer = ms(20);
    for (margin, shortest) in [
        (Margin::Auto, ms(11)),
        (Margin::Answer, ms(30)),
        (Margin::Time(ms(3)), ms(13)),
        (Margin::Time(Duration::ZERO), ms(10)),
    ] {
        let limiter = PacingLimiter::at_most(Quota::per_second(100)).margin(margin);
        let pace = Pace::Under(limiter, Extent::Requests(5));
        let report = flowgate_load::run(Plan::new(slow_server(answer), pace), &Stop::new());
        let report = report.unwrap();
        assert_eq!(report.counts.statuses.success, 5, "{report}");
        assert!(report.pacing.smallest_gap.unwrap() >= shortest, "{report}");
    }
}

/// How many requests arrive at a server that answers each immediately.
fn counting_server() -> (Target, Arc<AtomicU64>) {
    let arrived = Arc::new(AtomicU64::new(0));
    let count = arrived.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = count.clone();
            thread::spawn(move || answer_and_count(stream, &count));
        }
    });
    (Target::parse(&target).unwrap(), arrived)
}

fn answer_and_count(stream: impl Read + Write, count: &AtomicU64) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line == "\r\n" {
            count.fetch_add(1, Relaxed);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            if stream.get_mut().write_all(answer).is_err() {
                return;
            }
        }
        line.clear();
    }
}

#[test]
fn a_warm_up_is_sent_and_not_counted() {
    let schedule = || Schedule::of(Quota::per_second(100), 5).unwrap();
    let limiter = || PacingLimiter::at_most(Quota::per_second(100));
    for (pace, sent) in [
        // Shorter than the warm-up, so it is repeated.
        (Pace::Hold(schedule()), Some(5)),
        (Pace::Under(limiter(), Extent::Requests(5)), Some(5)),
        (Pace::Unpaced(Extent::Requests(50)), Some(50)),
        (
            Pace::Unpaced(Extent::Lasting(Duration::from_millis(20))),
            None,
        ),
    ] {
        let (target, arrived) = counting_server();
        let mut plan = Plan::new(target, pace);
        plan.warm_up = Duration::from_millis(300);
        plan.connections = NonZeroUsize::new(2).unwrap();
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        let counts = &report.counts;
        if let Some(sent) = sent {
            assert_eq!(
                (counts.sent, counts.statuses.success),
                (sent, sent),
                "{report}"
            );
        }
        assert_eq!(counts.statuses.success, report.response.samples, "{report}");
        assert_eq!(counts.statuses.total(), counts.sent, "{report}");
        assert!(arrived.load(Relaxed) >= counts.sent + 5, "{report}");
        // No time counts from the warm-up.
        let slots = &report.timeline.slots;
        assert_eq!(slots.iter().map(|slot| slot.sent).sum::<u64>(), counts.sent);
        assert!(report.response.max < Duration::from_millis(300), "{report}");
        if report.asked.mode == PacingMode::Under {
            assert_eq!(report.verdict(), Verdict::RateLimitKept, "{report}");
        }
    }
}

#[test]
fn a_run_that_is_stopped_while_it_warms_up_has_a_report() {
    let (target, _) = counting_server();
    let schedule = Schedule::of(Quota::per_second(100), 5).unwrap();
    let mut plan = Plan::new(target, schedule);
    plan.warm_up = Duration::from_secs(3600);
    let stop = Stop::new();
    let mut left = Duration::ZERO;
    let report = flowgate_load::run_watched(plan, &stop, |progress| {
        left = left.max(progress.warm_up_left);
        stop.stop();
    });
    let report = report.unwrap();
    assert!(left > Duration::from_secs(3500), "{left:?}");
    assert_eq!((report.counts.sent, report.is_interrupted), (0, true));
}

#[cfg(unix)]
#[test]
fn requests_go_where_they_are_told_to() {
    use std::os::unix::net::UnixListener;

    let path = std::env::temp_dir().join(format!("flowgate-run-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let arrived = Arc::new(AtomicU64::new(0));
    let count = arrived.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = count.clone();
            thread::spawn(move || answer_and_count(stream, &count));
        }
    });
    let (target, over_tcp) = counting_server();
    let port = target
        .to_string()
        .trim_end_matches('/')
        .rsplit_once(':')
        .unwrap()
        .1
        .parse()
        .unwrap();
    let host = "127.0.0.1".to_owned();
    for (via, count) in [
        (Via::Socket(path.clone()), &arrived),
        (Via::Host { host, port }, &over_tcp),
    ] {
        // Nobody has such an address.
        let target = Target::parse("http://shop.invalid/a").unwrap();
        let schedule = Schedule::of(Quota::per_second(500), 7).unwrap();
        let mut plan = Plan::new(target, schedule);
        plan.connect.via = Some(via);
        let report = flowgate_load::run(plan, &Stop::new()).unwrap();
        assert_eq!(report.target, "http://shop.invalid/a");
        assert_eq!(report.counts.statuses.success, 7, "{report}");
        assert_eq!(count.load(Relaxed), 7);
    }
    std::fs::remove_file(&path).unwrap();
    let schedule = Schedule::of(Quota::per_second(500), 7).unwrap();
    let mut plan = Plan::new(Target::parse("http://h/").unwrap(), schedule);
    plan.connect.via = Some(Via::Socket(path.clone()));
    let error = flowgate_load::run(plan, &Stop::new())
        .unwrap_err()
        .to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
}

#[test]
fn percentiles_are_those_of_the_durations() {
    let origin = Origin::start().unwrap();
    let mut plan = plan(&origin, 100);
    plan.percentiles = vec![0.5, 0.95, 0.99];
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    for (own, spread) in [
        (&report.percentiles.lag, report.lag),
        (&report.percentiles.response, report.response),
        (&report.percentiles.service, report.service),
    ] {
        let own: Vec<_> = own.iter().map(|own| (own.share, own.value)).collect();
        assert_eq!(
            own,
            [(0.5, spread.p50), (0.95, spread.p95), (0.99, spread.p99)]
        );
    }
}
