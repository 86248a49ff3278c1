//! Settings that change while events come.

use crate::log::limited;
use flowgate_tracing::RateLimitFilter;
use std::time::Duration;
use tracing::{Level, error, info, warn};

fn ticks(n: usize) {
    for _ in 0..n {
        info!(target: "clock", "tick");
    }
}

#[test]
fn c1_c2_a_quota_is_replaced_for_callsites_that_are_known_and_for_new_ones() {
    let (time, limit, log, _guard) = limited("1/h burst 2", |builder| builder);
    let controls = limit.controls();
    ticks(5);
    assert_eq!(log.take().len(), 2);
    controls.set_quota("1/s burst 3".parse().unwrap()).unwrap();
    assert_eq!(controls.quota().to_string(), "1/s burst 3");
    ticks(1);
    assert_eq!(log.take().len(), 0, "tokens are kept, and there were none");
    for _ in 0..5 {
        info!(target: "other", "new");
    }
    assert_eq!(log.take().len(), 3);
    time.advance(Duration::from_secs(2));
    ticks(5);
    let lines = log.take();
    let heard = lines.iter().filter(|line| line.ends_with("tick"));
    assert_eq!(heard.count(), 2, "{lines:?}");
}

#[test]
fn c7_a_quota_is_replaced_for_values() {
    let (_time, limit, log, _guard) = limited("1/h", |builder| builder.by_field("peer", 100));
    let controls = limit.controls();
    let speak = |peer: u64| (0..5).for_each(|_| info!(peer, "tick"));
    speak(1);
    controls.set_quota("3/h".parse().unwrap()).unwrap();
    speak(2);
    let heard = |peer: u64, lines: &[String]| {
        let said = format!("peer={peer}");
        lines.iter().filter(|line| line.ends_with(&said)).count()
    };
    let lines = log.take();
    assert_eq!((heard(1, &lines), heard(2, &lines)), (1, 3));
    // Refused by the table, so nothing has changed anywhere.
    let impossible = "1000000000/day burst 1000000000".parse().unwrap();
    if controls.set_quota(impossible).is_err() {
        assert_eq!(controls.quota().to_string(), "3/h");
    }
}

#[test]
fn while_it_is_off_everything_is_heard_and_takes_no_token() {
    let (_time, limit, log, _guard) = limited("1/h burst 2", |builder| builder);
    let controls = limit.controls();
    controls.set_enabled(false);
    assert!(!limit.clone().controls().is_enabled());
    ticks(10);
    assert_eq!(log.take().len(), 10);
    controls.set_enabled(true);
    ticks(10);
    assert_eq!(log.take().len(), 2);
    assert_eq!(limit.suppressed(), 8);
    // What was suppressed before is told by the first that is heard.
    controls.set_enabled(false);
    ticks(1);
    assert_eq!(
        log.take(),
        [
            "INFO clock: similar events were suppressed suppressed=8",
            "INFO clock: tick"
        ]
    );
}

#[test]
fn a_level_is_exempt_as_long_as_it_is_said() {
    let (_time, limit, log, _guard) = limited("1/h", |builder| builder.exempt(Level::ERROR));
    let controls = limit.controls();
    assert_eq!(controls.exempt(), Some(Level::ERROR));
    let speak = || {
        for _ in 0..3 {
            error!(target: "shop", "e");
            warn!(target: "shop", "w");
            info!(target: "shop", "i");
        }
        let lines = log.take();
        let of = |end: &str| lines.iter().filter(|line| line.ends_with(end)).count();
        ["shop: e", "shop: w", "shop: i"].map(of)
    };
    assert_eq!(speak(), [3, 1, 1]);
    controls.set_exempt(Some(Level::WARN));
    assert_eq!(controls.exempt(), Some(Level::WARN));
    assert_eq!(speak(), [3, 3, 0]);
    controls.set_exempt(None);
    assert_eq!(controls.exempt(), Some(Level::ERROR), "as it was built");
    assert_eq!(speak(), [3, 0, 0]);
}

#[test]
fn c1_threads_that_speak_while_the_quota_changes() {
    let (_time, limit, log, _guard) = limited("1/h burst 5", |builder| builder);
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for k in 0..200 {
                let burst = 5 + k % 3;
                let quota = format!("1/h burst {burst}").parse().unwrap();
                limit.controls().set_quota(quota).unwrap();
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                tracing::dispatcher::with_default(&dispatch, || ticks(2_000));
            });
        }
    });
    // The time stands still: no more than the largest burst.
    let lines = log.take();
    let heard = lines.iter().filter(|line| line.ends_with("tick")).count();
    assert!((1..=7).contains(&heard), "{heard}");
}

#[test]
fn the_handle_can_be_printed() {
    let controls = RateLimitFilter::new("1/h".parse().unwrap()).controls();
    let text = format!("{controls:?}");
    assert!(text.contains("is_enabled: true"), "{text}");
}
