//! Limits of callsites that the program chooses.

use crate::log::limited;
use flowgate::{Denied, ImmediateLimit, ManualClock, TokenBucket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing::{Level, debug, info, warn};

/// Admits every third operation.
#[derive(Default)]
struct EveryThird(AtomicU64);

impl ImmediateLimit for EveryThird {
    fn decide(&self) -> Result<(), Denied> {
        match self.0.fetch_add(1, Ordering::Relaxed) % 3 {
            2 => Ok(()),
            _ => Err(Denied::busy()),
        }
    }
}

#[test]
fn a_callsite_follows_a_limit_of_the_programs_own_and_reports_what_it_suppressed() {
    let (_time, limit, log, _guard) = limited("1/h", |builder| {
        builder.limit_of(|callsite| match *callsite.level() {
            Level::WARN => Some(Arc::new(EveryThird::default())),
            _ => None,
        })
    });
    for n in 0..6 {
        warn!(n, "slow");
        info!(n, "started");
    }
    let lines = log.take();
    let heard = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        (heard("slow n=2"), heard("slow n=5"), heard("slow")),
        (1, 1, 2)
    );
    assert_eq!(heard("suppressed=2"), 2, "{lines:?}");
    assert_eq!(heard("started"), 1, "of the filter's quota");
    assert_eq!(limit.suppressed(), 5);
}

#[test]
fn c1_callsites_share_a_given_limit_and_only_its_owner_changes_it() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder("3/h".parse().unwrap()).clock(&time);
    let bucket = Arc::new(bucket.build().unwrap());
    let shared = Arc::clone(&bucket);
    let (_time, limit, log, _guard) = limited("1/h burst 2", |builder| {
        builder.limit_of(move |callsite| {
            let is_debug = *callsite.level() == Level::DEBUG;
            is_debug.then(|| Arc::clone(&shared) as Arc<dyn ImmediateLimit>)
        })
    });
    let speak = || {
        for _ in 0..2 {
            debug!("one");
            debug!("two");
            info!("three");
        }
        let lines = log.take();
        ["one", "two", "three"].map(|text| lines.iter().filter(|line| line.ends_with(text)).count())
    };
    assert_eq!(speak(), [2, 1, 2]);
    limit
        .controls()
        .set_quota("1/s burst 9".parse().unwrap())
        .unwrap();
    assert_eq!(bucket.quota(), "3/h".parse().unwrap());
    bucket.set_quota("2/s".parse().unwrap()).unwrap();
    time.advance(Duration::from_secs(1));
    assert_eq!(speak(), [1, 1, 0], "the filter's own clock has not moved");
}

#[test]
fn a_limit_is_chosen_once_for_each_callsite() {
    let chosen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&chosen);
    let (_time, _limit, log, _guard) = limited("1/h", |builder| {
        builder.limit_of(move |callsite| {
            assert_eq!(callsite.target(), "clock");
            count.fetch_add(1, Ordering::Relaxed);
            None
        })
    });
    for _ in 0..3 {
        info!(target: "clock", "tick");
        info!(target: "clock", "tock");
    }
    assert_eq!(chosen.load(Ordering::Relaxed), 2);
    assert_eq!(log.take().len(), 2);
}
