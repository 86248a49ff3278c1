//! The filter in a real subscriber, which writes to a buffer.

use crate::log::{Buffer, limited, writing_to};
use flowgate::ManualClock;
use flowgate_tracing::RateLimitFilter;
use std::time::Duration;
use tracing::{Level, debug, error, info, info_span, warn};
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::prelude::*;

fn refused(attempt: u32) {
    warn!(attempt, "connection refused");
}

#[test]
fn c1_c2_a_callsite_speaks_so_often_and_then_says_how_often_it_did_not() {
    let (time, limit, buffer, _guard) = limited("5/min burst 3", |builder| builder);
    for attempt in 0..100 {
        refused(attempt);
    }
    assert_eq!(
        buffer.take(),
        [0, 1, 2].map(|k| format!("WARN it::filter: connection refused attempt={k}"))
    );
    assert_eq!(limit.suppressed(), 97);

    // One token flows in every twelve seconds.
    time.advance(Duration::from_nanos(11_999_999_999));
    refused(100);
    assert_eq!(buffer.take(), [""; 0]);
    time.advance(Duration::from_nanos(1));
    refused(101);
    refused(102);
    assert_eq!(
        buffer.take(),
        [
            "WARN it::filter: similar events were suppressed suppressed=98",
            "WARN it::filter: connection refused attempt=101"
        ]
    );
    assert_eq!(limit.suppressed(), 1);
    time.advance(Duration::from_secs(3600));
    refused(103);
    refused(104);
    assert_eq!(
        buffer.take(),
        [
            "WARN it::filter: similar events were suppressed suppressed=1",
            "WARN it::filter: connection refused attempt=103",
            "WARN it::filter: connection refused attempt=104"
        ]
    );
    assert_eq!(limit.suppressed(), 0);
}

#[test]
fn each_callsite_has_a_limit_of_its_own() {
    let (_time, limit, buffer, _guard) = limited("1/h", |builder| builder);
    for _ in 0..5 {
        info!("one");
        info!("other");
    }
    assert_eq!(
        buffer.take(),
        ["INFO it::filter: one", "INFO it::filter: other"]
    );
    assert_eq!(limit.suppressed(), 8);
}

#[test]
fn spans_are_never_left_out_and_what_is_said_is_said_in_them() {
    let (time, _limit, buffer, _guard) = limited("1/s", |builder| builder);
    let speak = || info!(target: "shop", "ready");
    for _ in 0..10 {
        info_span!("request").in_scope(speak);
    }
    assert_eq!(buffer.take(), ["INFO request: shop: ready"]);
    time.advance(Duration::from_secs(1));
    info_span!("last").in_scope(speak);
    assert_eq!(
        buffer.take(),
        [
            "INFO last: shop: similar events were suppressed suppressed=9",
            "INFO last: shop: ready"
        ]
    );

    let root = info_span!("elsewhere");
    let speak = || info!(parent: &root, "ready");
    for _ in 0..3 {
        speak();
    }
    time.advance(Duration::from_secs(1));
    info_span!("here").in_scope(speak);
    let said = "INFO elsewhere: it::filter: ";
    assert_eq!(
        buffer.take(),
        [
            format!("{said}ready"),
            format!("{said}similar events were suppressed suppressed=2"),
            format!("{said}ready")
        ]
    );
    let speak = || info!(parent: None, "alone");
    for _ in 0..2 {
        speak();
    }
    time.advance(Duration::from_secs(1));
    info_span!("here").in_scope(speak);
    let alone = buffer.take();
    assert_eq!(
        alone[1],
        "INFO it::filter: similar events were suppressed suppressed=1"
    );
}

#[test]
fn exempt_levels_are_always_heard_and_take_no_token() {
    let (_time, limit, buffer, _guard) = limited("1/h", |builder| builder.exempt(Level::WARN));
    for k in 0..3 {
        error!(k);
        warn!(k);
        info!(k);
        debug!(k);
    }
    let lines = buffer.take();
    let of = |level: &str| lines.iter().filter(|line| line.starts_with(level)).count();
    assert_eq!(
        ["ERROR", "WARN", "INFO", "DEBUG"].map(of),
        [3, 3, 1, 1],
        "{lines:#?}"
    );
    assert_eq!(limit.suppressed(), 4);
}

#[test]
fn c7_each_value_of_a_field_has_a_limit_of_its_own() {
    let (time, limit, buffer, _guard) = limited("2/min", |builder| builder.by_field("peer", 1_000));
    let complain = |peer: &str| {
        warn!(peer, "slow");
    };
    for _ in 0..10 {
        complain("alice");
    }
    complain("bob");
    // Another callsite, and another type that is printed alike.
    warn!(peer = %"alice", "gone");
    warn!(peer = 7, "slow");
    warn!(peer = "7", "slow");
    warn!(peer = ?7_u8, "slow");
    assert_eq!(
        buffer.take(),
        [
            "WARN it::filter: slow peer=\"alice\"",
            "WARN it::filter: slow peer=\"alice\"",
            "WARN it::filter: slow peer=\"bob\"",
            "WARN it::filter: slow peer=7",
            "WARN it::filter: slow peer=\"7\"",
        ]
    );
    assert_eq!(limit.suppressed(), 10);
    time.advance(Duration::from_secs(60));
    complain("bob");
    complain("alice");
    assert_eq!(
        buffer.take(),
        [
            "WARN it::filter: slow peer=\"bob\"",
            "WARN it::filter: similar events were suppressed suppressed=9 peer=\"alice\"",
            "WARN it::filter: slow peer=\"alice\"",
        ]
    );

    // Without the field, or without a value, it is the callsite.
    for peer in [None, None, None, Some("carol"), None] {
        warn!(peer, "nobody");
    }
    assert_eq!(
        buffer.take(),
        [
            "WARN it::filter: nobody",
            "WARN it::filter: nobody",
            "WARN it::filter: nobody peer=\"carol\"",
        ]
    );
}

#[test]
fn a_callsite_that_was_first_told_of_without_a_value_names_the_next() {
    let (time, _limit, buffer, _guard) = limited("1/min", |builder| builder.by_field("peer", 100));
    let complain = |peer: Option<&str>| warn!(peer, "slow");
    for peer in [None, Some("alice")] {
        complain(peer);
        complain(peer);
        buffer.take();
        time.advance(Duration::from_secs(60));
    }
    complain(None);
    complain(Some("alice"));
    assert_eq!(
        buffer.take(),
        [
            "WARN it::filter: similar events were suppressed suppressed=1",
            "WARN it::filter: slow",
            "WARN it::filter: similar events were suppressed suppressed=1 peer=\"alice\"",
            "WARN it::filter: slow peer=\"alice\"",
        ]
    );
}

#[test]
fn by_the_message_those_of_the_same_words_are_alike() {
    let (time, _limit, buffer, _guard) = limited("1/s", |builder| builder.by_field("message", 100));
    for k in 0..9 {
        info!("{} of three", k % 3);
    }
    assert_eq!(buffer.take().len(), 3);
    time.advance(Duration::from_secs(1));
    info!("{} of three", 2);
    assert_eq!(
        buffer.take(),
        [
            "INFO it::filter: similar events were suppressed suppressed=2",
            "INFO it::filter: 2 of three"
        ]
    );
}

#[test]
fn c7_a_flood_of_values_keeps_to_the_memory_and_each_to_its_limit() {
    let (_time, limit, buffer, _guard) = limited("1/h", |builder| builder.by_field("peer", 100));
    for round in 0..3 {
        for peer in 0..5_000 {
            info!(peer);
        }
        let lines = buffer.take();
        let mut heard: Vec<_> = lines
            .iter()
            .filter(|line| !line.contains("suppressed"))
            .collect();
        let count = heard.len();
        heard.sort();
        heard.dedup();
        assert_eq!(heard.len(), count, "somebody was heard twice");
        assert_eq!(count > 0, round == 0, "{count} in round {round}");
    }
    assert!(limit.suppressed() > 0);
}

#[test]
fn what_other_filters_leave_out_takes_no_token() {
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("1/h".parse().unwrap());
    let limit = limit.clock(&time).build().unwrap();
    let buffer = Buffer::default();
    let layer = limit
        .telling(writing_to(&buffer))
        .with_filter(LevelFilter::INFO.and(limit.clone()));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    for _ in 0..3 {
        debug!("not at this level");
        info!("heard");
    }
    assert_eq!(buffer.take(), ["INFO it::filter: heard"]);
    assert_eq!(limit.suppressed(), 2);
}

#[test]
fn other_layers_hear_everything_and_nothing_of_the_limit() {
    for limited_first in [true, false] {
        let time = ManualClock::new();
        let limit = RateLimitFilter::builder("1/s".parse().unwrap());
        let limit = limit.clock(&time).build().unwrap();
        let (limited, all, some) = (Buffer::default(), Buffer::default(), Buffer::default());
        let only_even = filter_fn(|metadata| metadata.target() != "odd");
        let of_all = writing_to(&all).boxed();
        let of_some = writing_to(&some).with_filter(only_even).boxed();
        let of_limited = limit.clone().over(writing_to(&limited)).boxed();
        let layers = if limited_first {
            vec![of_limited, of_all, of_some]
        } else {
            vec![of_some, of_all, of_limited]
        };
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layers));
        for _ in 0..4 {
            for _ in 0..5 {
                info!(target: "odd", "tick");
                info!(target: "even", "tick");
            }
            time.advance(Duration::from_secs(1));
        }
        let [limited, all, some] = [&limited, &all, &some].map(Buffer::take);
        let summaries = limited.iter().filter(|line| line.contains("suppressed"));
        assert_eq!(summaries.count(), 2 * 3, "{limited:#?}");
        assert_eq!(limited.len(), 2 * (4 + 3), "{limited:#?}");
        assert_eq!((all.len(), some.len()), (40, 20));
        let heard = all.iter().chain(&some);
        assert!(heard.into_iter().all(|line| line.ends_with("tick")));
        assert_eq!(limit.suppressed(), 2 * 4);
    }
}

#[test]
fn asking_whether_it_would_be_heard_takes_nothing() {
    let (_time, limit, buffer, _guard) = limited("1/h", |builder| builder);
    for _ in 0..5 {
        assert!(tracing::enabled!(Level::INFO));
        assert!(tracing::event_enabled!(Level::INFO));
    }
    info!("heard");
    assert_eq!(buffer.take(), ["INFO it::filter: heard"]);
    assert_eq!(limit.suppressed(), 0);
}

#[test]
fn without_a_layer_that_tells_it_counts() {
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("1/s".parse().unwrap());
    let limit = limit.clock(&time).build().unwrap();
    let buffer = Buffer::default();
    let layer = writing_to(&buffer).with_filter(limit.clone());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    for _ in 0..3 {
        for _ in 0..3 {
            info!("tick");
        }
        time.advance(Duration::from_secs(1));
    }
    assert_eq!(buffer.take(), ["INFO it::filter: tick"; 3]);
    assert_eq!(limit.suppressed(), 6);
}

#[test]
fn c1_threads_share_a_limit_and_no_event_is_lost() {
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("100/s burst 50".parse().unwrap());
    let limit = limit.clock(&time).build().unwrap();
    let buffer = Buffer::default();
    let subscriber = tracing_subscriber::registry().with(limit.clone().over(writing_to(&buffer)));
    let dispatch = tracing::Dispatch::new(subscriber);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                tracing::dispatcher::with_default(&dispatch, || {
                    for _ in 0..5_000 {
                        time.advance(Duration::from_micros(100));
                        info!("tick");
                    }
                });
            });
        }
    });
    let lines = buffer.take();
    let said: u64 = lines
        .iter()
        .filter_map(|line| line.split_once("suppressed="))
        .map(|(_, number)| number.parse::<u64>().unwrap())
        .sum();
    let heard = lines.iter().filter(|line| line.ends_with("tick")).count() as u64;
    assert_eq!(heard + said + limit.suppressed(), 20_000);
    // Two seconds of it, and the burst.
    assert!((200..=250).contains(&heard), "{heard}");
}

#[test]
fn c4_a_clock_that_runs_backward_lets_nobody_speak_more_often() {
    let (time, limit, buffer, _guard) = limited("1/s burst 2", |builder| builder);
    time.advance(Duration::from_secs(1_000));
    for seconds in (0..1_000).rev() {
        time.set(flowgate::Timestamp::from_nanos(seconds * 1_000_000_000));
        info!("tick");
    }
    // A second before there was a token less.
    assert_eq!(buffer.take().len(), 1);
    assert_eq!(limit.suppressed(), 999);
}

#[test]
fn too_many_values_are_an_error_that_names_the_range() {
    let builder = RateLimitFilter::builder("1/s".parse().unwrap()).by_field("peer", 0);
    let error = builder.build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a capacity in keys of 0 is out of range: 1 to 12884901888"
    );
}
