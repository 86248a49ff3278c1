//! The cases of resilience4j's `AtomicRateLimiter` that do not wait: permissions per cycle, which is
//! [`FixedWindow`] aligned to the clock.

use flowgate::{FixedWindow, ManualClock, Timestamp};
use std::time::Duration;

const CYCLE: u64 = 250_000_000;

fn limiter(quota: &str) -> FixedWindow {
    FixedWindow::builder(quota.parse().expect("a quota"))
        .clock(ManualClock::new())
        .align(Timestamp::ORIGIN)
        .build()
        .expect("a limiter")
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

#[test]
fn c1_c3_one_per_cycle() {
    let limiter = limiter("1/250ms");
    assert!(limiter.at(at(CYCLE)).try_acquire().is_ok());
    assert_eq!(limiter.at(at(CYCLE)).available(), 0);
    let wait = |ns| limiter.at(at(ns)).try_acquire().unwrap_err().retry_after();
    assert_eq!(wait(CYCLE), Some(Duration::from_nanos(CYCLE)));
    assert_eq!(wait(2 * CYCLE - 1), Some(Duration::from_nanos(1)));
    assert!(limiter.at(at(2 * CYCLE)).try_acquire().is_ok());
    assert_eq!(limiter.at(at(6 * CYCLE + 10)).available(), 1);
}

#[test]
fn c1_several_permits_at_once() {
    // quota, permits asked for, and which are granted; `None` lets a cycle pass
    type Row = (&'static str, u64, &'static [(Option<u64>, bool)]);
    const ROWS: &[Row] = &[
        (
            "10/500ms",
            500_000_000,
            &[
                (Some(5), true),
                (Some(5), true),
                (Some(1), false),
                (None, true),
                (Some(1), true),
            ],
        ),
        (
            "10/250ms",
            CYCLE,
            &[
                (Some(1), true),
                (Some(5), true),
                (Some(5), false),
                (None, true),
                (Some(5), true),
            ],
        ),
    ];
    for (quota, cycle, steps) in ROWS {
        let limiter = limiter(quota);
        let mut now = *cycle;
        for (index, (permits, granted)) in steps.iter().enumerate() {
            match permits {
                None => now += cycle,
                Some(n) => {
                    let got = limiter.at(at(now)).try_acquire_n(*n).is_ok();
                    assert_eq!(got, *granted, "{quota}, step {index}");
                }
            }
        }
    }
}

#[test]
fn c1_drained_until_the_next_cycle() {
    let limiter = limiter("10/250ms");
    assert_eq!(limiter.at(at(CYCLE)).take_up_to(u64::MAX), 10);
    assert_eq!(limiter.at(at(CYCLE)).take_up_to(u64::MAX), 0);
    assert!(limiter.at(at(2 * CYCLE - 1)).try_acquire().is_err());
    assert!(limiter.at(at(2 * CYCLE)).try_acquire().is_ok());
}

#[test]
fn c2_a_lower_limit_does_not_stop_the_cycles() {
    // resilience4j #2489: after the limit was lowered nothing was granted any more.
    let limiter = limiter("10/250ms");
    limiter.at(at(CYCLE)).try_acquire_n(8).unwrap();
    limiter
        .at(at(CYCLE))
        .set_quota("2/250ms".parse().unwrap())
        .unwrap();
    assert_eq!(limiter.at(at(CYCLE)).available(), 0);
    for cycle in 2..10 {
        assert_eq!(
            limiter.at(at(cycle * CYCLE)).take_up_to(9),
            2,
            "cycle {cycle}"
        );
    }
}
