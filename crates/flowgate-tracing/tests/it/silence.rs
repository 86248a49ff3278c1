//! Callsites that fall silent, in a real subscriber on a clock that only moves when told to.

use crate::log::{Buffer, limited, writing_to};
use flowgate::ManualClock;
use flowgate_tracing::{RateLimitFilter, RateLimitFilterBuilder};
use std::time::Duration;
use tracing::subscriber::DefaultGuard;
use tracing::{Level, debug, error, info, info_span, warn};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets};
use tracing_subscriber::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn refused(times: usize) {
    for _ in 0..times {
        warn!(target: "db", "connection refused");
    }
}

/// Another callsite, which is always heard.
fn beat() {
    error!(target: "beat", "still here");
}

const BEAT: &str = "ERROR beat: still here";

type Filtered = (ManualClock, RateLimitFilter, Buffer, DefaultGuard);

fn with_beats(
    quota: &str,
    set: impl FnOnce(RateLimitFilterBuilder) -> RateLimitFilterBuilder,
) -> Filtered {
    limited(quota, |builder| set(builder.exempt(Level::ERROR)))
}

fn summary(suppressed: u64) -> String {
    format!("WARN db: similar events were suppressed suppressed={suppressed}")
}

#[test]
fn what_was_suppressed_is_told_after_silence_with_the_next_event_of_any_callsite() {
    let (time, limit, log, _guard) = with_beats("1/day", |builder| builder);
    refused(100);
    log.take();
    time.advance(MINUTE);
    beat(); // sees 99
    time.advance(MINUTE - Duration::from_nanos(1));
    beat();
    assert_eq!(log.take(), [BEAT; 2]);
    time.advance(Duration::from_nanos(1));
    beat(); // and no more
    assert_eq!(log.take(), [BEAT.to_owned(), summary(99)]);
    assert_eq!(limit.suppressed(), 0);
    // Told once.
    time.advance(10 * MINUTE);
    beat();
    assert_eq!(log.take(), [BEAT]);
}

#[test]
fn a_callsite_that_goes_on_is_not_silent() {
    let (time, limit, log, _guard) = with_beats("1/h", |builder| builder);
    refused(1);
    log.take();
    for minute in 1..=50 {
        refused(10);
        beat();
        assert_eq!(log.take(), [BEAT], "after {minute} minutes");
        time.advance(MINUTE);
    }
    assert_eq!(limit.suppressed(), 500);
    // It is heard again itself, with what came before.
    time.advance(10 * MINUTE);
    refused(1);
    assert_eq!(
        log.take(),
        [summary(500), "WARN db: connection refused".to_owned()]
    );
}

#[test]
fn each_silence_is_told_once() {
    let (time, limit, log, _guard) = with_beats("1/day", |builder| builder.silence(SECOND));
    refused(1);
    log.take();
    for _ in 0..20 {
        refused(3);
        let told = [(); 5].map(|()| {
            time.advance(SECOND);
            beat();
            log.take()
                .iter()
                .filter(|line| **line == summary(3))
                .count()
        });
        assert_eq!(told, [0, 1, 0, 0, 0]);
    }
    assert_eq!(limit.suppressed(), 0);
}

#[test]
fn several_that_fall_silent_are_told_together_and_in_no_span() {
    let (time, limit, log, _guard) = with_beats("1/day", |builder| builder);
    info_span!("request").in_scope(|| {
        for _ in 0..3 {
            info!(target: "a", "a");
            info!(target: "b", "b");
        }
    });
    log.take();
    for _ in 0..2 {
        time.advance(MINUTE);
        info_span!("other").in_scope(beat);
    }
    let mut lines = log.take();
    assert_eq!(lines.drain(..2).count(), 2);
    lines.sort();
    let said = "similar events were suppressed suppressed=2";
    assert_eq!(
        lines,
        [format!("INFO a: {said}"), format!("INFO b: {said}")]
    );
    assert_eq!(limit.suppressed(), 0);
}

/// How many events summaries of `db` say that were suppressed.
fn said(lines: &[String]) -> u64 {
    let summaries = lines
        .iter()
        .filter_map(|line| line.split_once("suppressed="));
    summaries
        .map(|(said, rest)| {
            assert_eq!(said, "WARN db: similar events were suppressed ");
            let number = rest.split(' ').next().unwrap();
            number.parse::<u64>().unwrap()
        })
        .sum()
}

#[test]
fn values_that_fall_silent_are_told_by_their_callsites() {
    let (time, limit, log, _guard) = with_beats("1/min", |builder| builder.by_field("peer", 1_000));
    for peer in 0..500 {
        for _ in 0..3 {
            warn!(target: "db", peer, "slow");
        }
    }
    // A few share a cell with one that is heard after them.
    let at_first = said(&log.take());
    assert!(at_first < 200, "{at_first}");
    assert_eq!(at_first + limit.suppressed(), 1_000);
    // Each could be heard after a minute, and is silent a minute later.
    time.advance(2 * MINUTE - Duration::from_nanos(1));
    beat();
    assert_eq!(log.take(), [BEAT]);
    time.advance(Duration::from_nanos(1));
    // Cells are looked at in steps, and told once a minute.
    let mut told = Vec::new();
    for _ in 0..10 {
        beat();
        let lines = log.take();
        assert!(lines.len() <= 2, "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("peer=")));
        told.push(said(&lines));
        time.advance(MINUTE);
    }
    assert_eq!(at_first + told.iter().sum::<u64>(), 1_000);
    assert_eq!(
        told.iter().filter(|told| **told != 0).count(),
        4,
        "{told:?}"
    );
    assert_eq!(limit.suppressed(), 0);
}

#[test]
fn a_value_that_speaks_again_in_time_keeps_its_name() {
    let (time, _limit, log, _guard) = with_beats("1/h", |builder| builder.by_field("peer", 100));
    let complain = |peer: &str| warn!(target: "db", peer, "slow");
    for _ in 0..3 {
        complain("alice");
    }
    log.take();
    for _ in 0..60 {
        time.advance(MINUTE);
        beat();
    }
    assert_eq!(log.take(), [BEAT; 60]);
    complain("alice");
    assert_eq!(
        log.take()[0],
        "WARN db: similar events were suppressed suppressed=2 peer=\"alice\""
    );
}

#[test]
fn flush_tells_all_now_and_to_this_layer_alone() {
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("1/day".parse().unwrap());
    let limit = limit.clock(&time).build().unwrap();
    let (outer, limited, inner) = (Buffer::default(), Buffer::default(), Buffer::default());
    let subscriber = tracing_subscriber::registry()
        .with(writing_to(&inner).with_filter(LevelFilter::WARN))
        .with(limit.clone().over(writing_to(&limited)))
        .with(writing_to(&outer).with_filter(LevelFilter::INFO));
    let dispatch = tracing::Dispatch::new(subscriber);
    tracing::dispatcher::with_default(&dispatch, || {
        refused(5);
        drop([&outer, &limited, &inner].map(Buffer::take));
    });
    // From outside of the subscriber, too.
    limit.flush();
    assert_eq!(limited.take(), [summary(4)]);
    assert_eq!(outer.take(), [""; 0]);
    assert_eq!(inner.take(), [""; 0]);
    limit.flush();
    assert_eq!(limited.take(), [""; 0]);
    // What the filters of others have answered is forgotten: the next event is heard by each as ever.
    tracing::dispatcher::with_default(&dispatch, || {
        beat();
        debug!(target: "quiet", "of no interest to the inner and the outer");
        refused(1);
    });
    assert_eq!(
        limited.take(),
        [
            BEAT,
            "DEBUG quiet: of no interest to the inner and the outer"
        ]
    );
    assert_eq!(outer.take(), [BEAT, "WARN db: connection refused"]);
    assert_eq!(inner.take(), [BEAT, "WARN db: connection refused"]);
    assert_eq!(limit.suppressed(), 1);
}

#[test]
fn flush_says_what_its_filters_would_have_let_through() {
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("1/day".parse().unwrap());
    let limit = limit.clock(&time).build().unwrap();
    let log = Buffer::default();
    let filter = Targets::new().with_target("db", LevelFilter::WARN);
    let layer = limit.telling(writing_to(&log));
    let layer = layer.with_filter(filter.and(limit.clone()));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    refused(3);
    info!(target: "db", "not at this level");
    log.take();
    limit.flush();
    assert_eq!(log.take(), [summary(2)]);
}

#[test]
fn flush_reaches_a_layer_in_a_list_by_the_current_subscriber() {
    let (time, log) = (ManualClock::new(), Buffer::default());
    let limit = RateLimitFilter::builder("1/day".parse().unwrap());
    let limit = limit.clock(&time).build().unwrap();
    let layers = vec![limit.clone().over(writing_to(&log)).boxed()];
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layers));
    refused(3);
    log.take();
    limit.flush();
    assert_eq!(log.take(), [summary(2)]);
}

#[test]
fn flush_without_anybody_who_tells_keeps_the_count() {
    let limit = RateLimitFilter::new("1/day".parse().unwrap());
    let log = Buffer::default();
    let layer = writing_to(&log).with_filter(limit.clone());
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    refused(3);
    limit.flush();
    drop(guard);
    limit.flush();
    assert_eq!(limit.suppressed(), 2);
    assert_eq!(log.take(), ["WARN db: connection refused"]);
}

#[test]
fn values_are_flushed_by_their_callsites() {
    let (_time, limit, log, _guard) = with_beats("1/h", |builder| builder.by_field("peer", 1_000));
    for peer in 0..300 {
        warn!(target: "db", peer, "slow");
        warn!(target: "db", peer, "slow");
    }
    refused(2);
    let at_first = said(&log.take());
    limit.flush();
    let lines = log.take();
    assert_eq!(
        lines.len(),
        2,
        "one of each callsite that has suppressed: {lines:?}"
    );
    assert_eq!(at_first + said(&lines), 301);
    assert_eq!(limit.suppressed(), 0);
}

#[test]
fn a_guard_flushes_when_it_is_dropped() {
    let (_time, limit, log, _guard) = with_beats("1/day", |builder| builder);
    let flush = limit.flush_on_drop();
    refused(8);
    log.take();
    drop(flush);
    assert_eq!(log.take(), [summary(7)]);
}

#[test]
fn the_silent_are_flushed_without_an_event() {
    let set = |builder: RateLimitFilterBuilder| builder.silence(SECOND).by_field("peer", 10);
    let (time, limit, log, _guard) = with_beats("1/min", set);
    refused(4);
    for _ in 0..2 {
        warn!(target: "db", peer = 7, "slow");
    }
    log.take();
    let mut told = Vec::new();
    for second in 0..70 {
        limit.flush_silent();
        told.extend(log.take().into_iter().map(|line| (second, line)));
        time.advance(SECOND);
    }
    // The value could have been heard after a minute.
    assert_eq!(told, [(2, summary(3)), (61, summary(1))]);
    assert_eq!(limit.suppressed(), 0);
}

#[test]
fn threads_that_fall_silent_lose_no_event() {
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("1/s".parse().unwrap()).silence(SECOND / 100);
    let limit = limit.clock(&time).by_field("peer", 100).build().unwrap();
    let log = Buffer::default();
    let subscriber = tracing_subscriber::registry().with(limit.clone().over(writing_to(&log)));
    let dispatch = tracing::Dispatch::new(subscriber);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (dispatch, time, limit) = (&dispatch, &time, &limit);
            scope.spawn(move || {
                tracing::dispatcher::with_default(dispatch, || {
                    for k in 0..2_000_u64 {
                        time.advance(Duration::from_millis(k % 7));
                        info!(peer = k / 100 + thread, "tick");
                        info!("tock");
                        if k % 500 == 0 {
                            limit.flush();
                        }
                    }
                });
            });
        }
    });
    let lines = log.take();
    let said: u64 = lines
        .iter()
        .filter_map(|line| line.split_once("suppressed="))
        .map(|(_, rest)| rest.split(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    let heard = lines.iter().filter(|line| !line.contains("suppressed="));
    assert_eq!(
        heard.count() as u64 + said + limit.suppressed(),
        4 * 2 * 2_000
    );
}
