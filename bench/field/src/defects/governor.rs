//! governor 0.10.4.

use std::num::NonZeroU32;
use std::time::Duration;

use flowgate::{Quota, Timestamp};
use governor::RateLimiter;

use super::{Experiment, Seen, bucket, until_refused};
use crate::time::Time;

const MILLION: u64 = 1_000_000;
const DAY: Duration = Duration::from_secs(86_400);

pub const WRAPPED: Experiment = Experiment {
    number: 7,
    who: "governor 0.10.4",
    what: "1/day, burst 1,000,000: how many at once; 600,000,000/s, burst 2: how many in 1 µs",
    theirs: || {
        let daily = governor::Quota::with_period(DAY).expect("a day is not zero");
        let daily = daily.allow_burst(amount(1_000_000));
        let limiter = RateLimiter::direct_with_clock(daily, Time::default());
        let at_once = until_refused(2 * MILLION, || limiter.check().is_ok());

        let time = Time::default();
        let fast = governor::Quota::per_second(amount(600_000_000)).allow_burst(amount(2));
        let limiter = RateLimiter::direct_with_clock(fast, time.clone());
        let in_a_microsecond = each_nanosecond(|ns| {
            time.set(ns);
            limiter.check().is_ok()
        });
        seen(at_once, in_a_microsecond)
    },
    ours: Some(|| {
        let daily = Quota::new(1, DAY).expect("a day is in range");
        let (daily, _) = bucket(daily.burst(MILLION));
        let at_once = until_refused(2 * MILLION, || daily.try_acquire().is_ok());

        let (fast, _) = bucket(Quota::per_second(600 * MILLION).burst(2));
        let in_a_microsecond =
            each_nanosecond(|ns| fast.at(Timestamp::from_nanos(ns)).try_acquire().is_ok());
        seen(at_once, in_a_microsecond)
    }),
};

fn seen(at_once: u64, in_a_microsecond: usize) -> Seen {
    let right = at_once == MILLION && in_a_microsecond == 602;
    let what = format!("{at_once} of 1000000; {in_a_microsecond} of 602");
    Seen::new(right, what)
}

fn amount(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

fn each_nanosecond(mut admits_at: impl FnMut(u64) -> bool) -> usize {
    (0..=1_000).filter(|ns| admits_at(*ns)).count()
}
