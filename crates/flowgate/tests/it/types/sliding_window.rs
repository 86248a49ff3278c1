//! `SlidingWindow` against the definition: a plain list of everything that was admitted.
//!
//! `FLOWGATE_OPS` sets how many operations the random histories make (200,000 unless it is set),
//! `FLOWGATE_SEED` where they begin.

use crate::effort::number;
use flowgate::{Limiter, ManualClock, Quota, SlidingWindow, Timestamp};
use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn window(text: &str, time: &ManualClock) -> SlidingWindow {
    SlidingWindow::builder(quota(text))
        .clock(time)
        .build()
        .expect("in range")
}

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn per_ns(limit: u64, window_ns: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(window_ns)).expect("in range")
}

fn ns(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

const SECOND: Duration = Duration::from_secs(1);

/// The definition.
struct List {
    admitted: VecDeque<(u64, u64)>,
    limit: u64,
    window_ns: u64,
    /// The latest time of any admission.
    time_ns: u64,
}

impl List {
    fn new(limit: u64, window_ns: u64) -> Self {
        Self {
            admitted: VecDeque::new(),
            limit,
            window_ns,
            time_ns: 0,
        }
    }

    /// What was admitted later than a window before `at`.
    fn used_at(&self, at: u128) -> u64 {
        let in_window = |&&(t, _): &&(u64, u64)| u128::from(t) + u128::from(self.window_ns) > at;
        let newest_first = self.admitted.iter().rev();
        newest_first.take_while(in_window).map(|&(_, n)| n).sum()
    }

    fn fits_at(&self, at: u128, n: u64) -> bool {
        self.used_at(at) + n <= self.limit
    }

    fn available(&self, now: u64) -> u64 {
        self.limit
            .saturating_sub(self.used_at(u128::from(now.max(self.time_ns))))
    }

    /// `None` if it is admitted, otherwise how long to wait, unless for ever.
    fn refusal(&self, now: u64, n: u64) -> Option<Option<u128>> {
        if n > self.limit {
            return Some(None);
        }
        if n == 0 || self.fits_at(u128::from(now.max(self.time_ns)), n) {
            return None;
        }
        // The newest for which, with all after it, there is no room has to leave.
        let mut beside = n;
        let in_the_way = |&&(_, units): &&(u64, u64)| {
            beside += units;
            beside > self.limit
        };
        let &(t, _) = self.admitted.iter().rev().find(in_the_way).expect("one is");
        Some(Some(
            u128::from(t) + u128::from(self.window_ns) - u128::from(now),
        ))
    }

    fn admit(&mut self, now: u64, n: u64) {
        if n > 0 {
            self.time_ns = self.time_ns.max(now);
            self.admitted.push_back((self.time_ns, n));
        }
        // Far more than can matter.
        if self.admitted.len() > 500 {
            self.admitted.pop_front();
        }
    }

    fn reset_after(&self, now: u64) -> u128 {
        match self.admitted.back() {
            Some(&(t, _)) if self.used_at(u128::from(now.max(self.time_ns))) > 0 => {
                u128::from(t) + u128::from(self.window_ns) - u128::from(now)
            }
            _ => 0,
        }
    }

    fn refund(&mut self, now: u64, n: u64) -> u64 {
        let now = u128::from(now.max(self.time_ns));
        let mut rest = n;
        while let Some(newest) = self.admitted.back_mut() {
            if rest == 0 || u128::from(newest.0) + u128::from(self.window_ns) <= now {
                break;
            }
            let back = rest.min(newest.1);
            newest.1 -= back;
            rest -= back;
            if newest.1 == 0 {
                self.admitted.pop_back();
            }
        }
        n - rest
    }
}

/// xorshift64*, seeded.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn window_ns(&mut self) -> u64 {
        match self.below(10) {
            0 => 1,
            1 => 1_000_000_000,
            2 => (1 << 62) + self.below(1 << 62),
            _ => 1 + self.below(200),
        }
    }

    /// An instant that is likely to matter.
    fn now(&mut self, now: u64, list: &List) -> u64 {
        let most = u64::MAX;
        match self.below(40) {
            0..=9 => now,
            10..=24 => {
                now.saturating_add(self.below(2 * list.window_ns.min(1_000) / list.limit + 2))
            }
            25..=27 => now.saturating_add(self.below(list.window_ns)),
            28..=35 => match list
                .admitted
                .get(self.below(list.admitted.len() as u64) as usize)
            {
                Some(&(t, _)) => t
                    .saturating_add(list.window_ns)
                    .saturating_sub(self.below(2)),
                None => now,
            },
            36 => now.saturating_sub(self.below(list.window_ns)),
            37 => self.below(now),
            38 => now.saturating_add(list.window_ns),
            _ if self.one_in(60) => most - self.below(3),
            _ => now,
        }
    }
}

/// What a random history may contain beside attempts.
#[derive(Clone, Copy)]
struct Mix {
    changes: bool,
    refunds: bool,
}

/// Random histories, each answer compared with the list's; how many operations were admitted.
fn compare(seed: u64, operations: u64, mix: Mix) -> u64 {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut done, mut admissions) = (0, 0);
    while done < operations {
        let max_limit = if draw.one_in(2) {
            1 + draw.below(5)
        } else {
            1 + draw.below(60)
        };
        let limit = 1 + draw.below(max_limit);
        // Long ones go round a small ring more often than a record can count.
        let length = if draw.one_in(50) { 20_000 } else { 300 };
        let mut list = List::new(limit, draw.window_ns());
        let limiter = SlidingWindow::builder(per_ns(limit, list.window_ns))
            .clock(ManualClock::new())
            .max_limit(max_limit)
            .build()
            .expect("in range");
        let mut all = Vec::new();
        let mut now = 0;
        for _ in 0..length {
            now = draw.now(now, &list);
            let at = limiter.at(ns(now));
            let (limit, window_ns) = (list.limit, list.window_ns);
            let context =
                || format!("seed {seed}, after {done}: {limit} per {window_ns}, now {now}");
            match draw.below(40) {
                0..=27 => {
                    let n = match draw.below(4) {
                        0 => draw.below(list.limit + 2),
                        1 => list.limit,
                        _ => 1,
                    };
                    let told = at.try_acquire_n(n);
                    let wait =
                        |denied: flowgate::Denied| denied.retry_after().map(|wait| wait.as_nanos());
                    assert_eq!(
                        told.err().map(wait),
                        list.refusal(now, n),
                        "{n} asked, {}",
                        context()
                    );
                    match told {
                        Ok(()) => {
                            list.admit(now, n);
                            all.push((list.time_ns, n));
                            admissions += 1;
                        }
                        Err(denied) => {
                            let told = wait(denied)
                                .and_then(|wait| u64::try_from(u128::from(now) + wait).ok());
                            if let Some(then) = told {
                                // C3: not a nanosecond earlier; and, now and then, at that instant.
                                assert!(
                                    limiter.at(ns(then - 1)).try_acquire_n(n).is_err(),
                                    "{}",
                                    context()
                                );
                                if draw.one_in(8) {
                                    assert!(
                                        limiter.at(ns(then)).try_acquire_n(n).is_ok(),
                                        "{}",
                                        context()
                                    );
                                    now = then;
                                    list.admit(now, n);
                                    all.push((list.time_ns, n));
                                }
                            }
                        }
                    }
                }
                28..=30 => {
                    let n = draw.below(list.limit + 2);
                    let took = at.take_up_to(n);
                    assert_eq!(took, n.min(list.available(now)), "up to {n}, {}", context());
                    list.admit(now, took);
                    all.push((list.time_ns, took));
                }
                31..=35 => {
                    let seen = at.snapshot();
                    assert_eq!(seen.limit, list.limit);
                    assert_eq!(seen.remaining, list.available(now), "{}", context());
                    assert_eq!(
                        seen.reset_after.as_nanos(),
                        list.reset_after(now),
                        "{}",
                        context()
                    );
                }
                36..=37 if mix.refunds => {
                    let n = draw.below(list.limit + 2);
                    let back = at.refund(n);
                    assert_eq!(back, list.refund(now, n), "{n} back, {}", context());
                }
                _ if mix.changes && draw.one_in(3) => {
                    list.limit = 1 + draw.below(max_limit);
                    let window_ns = draw.window_ns();
                    // A longer one after a refund is another test's.
                    list.window_ns = if mix.refunds {
                        window_ns.min(list.window_ns)
                    } else {
                        window_ns
                    };
                    limiter
                        .set_quota(per_ns(list.limit, list.window_ns))
                        .expect("in range");
                }
                _ => {}
            }
            done += 1;
        }
        if !mix.changes && !mix.refunds {
            no_window_holds_more(&all, list.limit, list.window_ns);
        }
    }
    admissions
}

/// C1 by definition: of all windows the fullest ends at an admission.
fn no_window_holds_more(all: &[(u64, u64)], limit: u64, window_ns: u64) {
    let (mut first, mut held) = (0, 0);
    for &(t, n) in all {
        held += n;
        while u128::from(all[first].0) + u128::from(window_ns) <= u128::from(t) {
            held -= all[first].1;
            first += 1;
        }
        assert!(
            held <= limit,
            "{held} in the window of {window_ns} that ends at {t}, limit {limit}"
        );
    }
}

fn differential(mix: Mix) {
    let (operations, seed) = (number("FLOWGATE_OPS", 200_000), number("FLOWGATE_SEED", 1));
    let admissions = compare(seed, operations, mix);
    println!("{operations} operations, seed {seed}: no disagreement; {admissions} admitted");
    assert!(admissions > operations / 20);
}

#[test]
fn c1_c2_c3_c4_agrees_with_the_list() {
    differential(Mix {
        changes: false,
        refunds: false,
    });
}

#[test]
fn c1_c2_c3_c4_agrees_with_the_list_across_changes_of_quota() {
    differential(Mix {
        changes: true,
        refunds: false,
    });
}

#[test]
fn c5_agrees_with_the_list_across_refunds() {
    differential(Mix {
        changes: false,
        refunds: true,
    });
    differential(Mix {
        changes: true,
        refunds: true,
    });
}

/// After a refund the window may be made longer than what is still known: more is refused, never less.
#[test]
fn c1_a_longer_window_after_a_refund_is_never_over() {
    let mut draw = Draw(77);
    let (mut over_refused, mut asked) = (0, 0);
    for _ in 0..2_000 {
        let max_limit = 1 + draw.below(6);
        let mut list = List::new(max_limit, 1 + draw.below(20));
        let limiter = SlidingWindow::builder(per_ns(list.limit, list.window_ns))
            .clock(ManualClock::new())
            .max_limit(max_limit)
            .build()
            .expect("in range");
        let mut now = 0;
        for _ in 0..200 {
            now += draw.below(2 * list.window_ns.min(40) / list.limit + 2);
            let n = 1 + draw.below(list.limit);
            asked += 1;
            match limiter.at(ns(now)).try_acquire_n(n) {
                Ok(()) => {
                    assert_eq!(list.refusal(now, n), None, "over the limit at {now}");
                    list.admit(now, n);
                }
                Err(denied) => {
                    over_refused += u64::from(list.refusal(now, n).is_none());
                    let wait = denied.retry_after().expect("a time").as_nanos() as u64;
                    assert!(limiter.at(ns(now + wait - 1)).try_acquire_n(n).is_err());
                    now += wait;
                    assert!(
                        limiter.at(ns(now)).try_acquire_n(n).is_ok(),
                        "waited {wait}"
                    );
                    assert_eq!(list.refusal(now, n), None, "over the limit at {now}");
                    list.admit(now, n);
                }
            }
            if draw.one_in(10) {
                let n = draw.below(list.limit + 1);
                let back = limiter.at(ns(now)).refund(n);
                assert!(list.refund(now, back) == back);
            }
            if draw.one_in(10) {
                list.limit = 1 + draw.below(max_limit);
                list.window_ns = 1 + draw.below(100);
                limiter
                    .set_quota(per_ns(list.limit, list.window_ns))
                    .expect("in range");
            }
        }
    }
    assert!(
        over_refused * 20 < asked,
        "{over_refused} of {asked} refused for being forgotten"
    );
}

/// More often round than a record can count laps.
#[test]
fn c1_c2_c3_agrees_with_the_list_ten_thousand_times_round_the_ring() {
    for limit in [1, 2, 5] {
        let mut draw = Draw(limit);
        let mut list = List::new(limit, 100);
        let limiter = SlidingWindow::builder(per_ns(limit, 100))
            .clock(ManualClock::new())
            .build()
            .expect("in range");
        let mut now = 0;
        for _ in 0..80_000 {
            now += draw.below(200 / limit);
            let n = 1 + draw.below(limit.min(2));
            let told = limiter.at(ns(now)).try_acquire_n(n);
            let wait = |denied: flowgate::Denied| denied.retry_after().map(|wait| wait.as_nanos());
            assert_eq!(told.err().map(wait), list.refusal(now, n), "{n} at {now}");
            if told.is_ok() {
                list.admit(now, n);
            }
        }
    }
}

#[test]
fn c1_an_operation_one_window_after_another_is_admitted() {
    let time = ManualClock::new();
    let limiter = window("1/s", &time);
    assert!(limiter.try_acquire().is_ok());
    time.set(ns(999_999_999));
    let denied = limiter.try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
    time.set(ns(1_000_000_000));
    assert!(limiter.try_acquire().is_ok());
}

#[test]
fn c1_no_burst_at_a_boundary() {
    // The fixed window's fault: the limit just before a boundary, and again just after it.
    let time = ManualClock::new();
    let limiter = window("100/s", &time);
    time.advance(Duration::from_millis(990));
    assert_eq!(limiter.take_up_to(1_000), 100);
    time.advance(Duration::from_millis(20));
    assert_eq!(limiter.take_up_to(1_000), 0);
    time.advance(Duration::from_millis(980));
    assert_eq!(limiter.take_up_to(1_000), 100);
}

#[test]
fn c3_the_wait_is_until_enough_of_the_oldest_have_left() {
    let time = ManualClock::new();
    let limiter = window("10/10s", &time);
    for n in [1, 2, 3, 4] {
        limiter.try_acquire_n(n).expect("room");
        time.advance(SECOND);
    }
    // At 4 s: 1 leaves at 10 s, 2 at 11 s, 3 at 12 s, 4 at 13 s.
    for (n, wait) in [(1, 6), (2, 7), (3, 7), (4, 8), (6, 8), (7, 9), (10, 9)] {
        let denied = limiter.try_acquire_n(n).unwrap_err();
        assert_eq!(denied.retry_after(), Some(SECOND * wait), "{n}");
    }
}

#[test]
fn c4_the_end_of_time_and_before_it() {
    let limiter = window("2/10ns", &ManualClock::new());
    assert!(limiter.at(ns(u64::MAX - 9)).try_acquire().is_ok());
    assert!(limiter.at(Timestamp::MAX).try_acquire().is_ok());
    let denied = limiter.at(Timestamp::MAX).try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
    // An old time counts as the newest.
    let denied = limiter.at(ns(0)).try_acquire().unwrap_err();
    assert_eq!(
        denied.retry_after(),
        Some(Duration::from_nanos(u64::MAX) + Duration::from_nanos(1))
    );
    assert!(
        limiter
            .at(ns(0))
            .try_acquire_n(u64::MAX)
            .unwrap_err()
            .is_never()
    );
    assert_eq!(limiter.at(ns(0)).take_up_to(u64::MAX), 0);
}

#[test]
fn c4_a_long_window_on_a_young_clock_forgets_nothing() {
    let limiter = window("3/y", &ManualClock::new());
    assert_eq!(limiter.at(ns(0)).take_up_to(2), 2);
    assert_eq!(limiter.at(ns(1)).take_up_to(2), 1);
    assert_eq!(limiter.at(ns(u64::MAX >> 12)).take_up_to(2), 0);
}

#[test]
fn c5_a_refund_takes_back_the_newest() {
    let time = ManualClock::new();
    let limiter = window("10/10s", &time);
    limiter.try_acquire_n(4).expect("room");
    time.advance(SECOND * 5);
    limiter.try_acquire_n(3).expect("room");
    assert_eq!(limiter.refund(2), 2);
    assert_eq!(
        limiter.refund(3),
        3,
        "the last of the newest, and two of the one before"
    );
    assert_eq!(limiter.available(), 8);
    assert_eq!(limiter.snapshot().reset_after, SECOND * 5);
    time.advance(SECOND * 5);
    assert_eq!(
        limiter.refund(9),
        0,
        "what has left has come back by itself"
    );
    assert_eq!(limiter.available(), 10);
}

#[test]
fn c5_taking_and_giving_back_costs_no_room() {
    let time = ManualClock::new();
    let limiter = window("3/d", &time);
    limiter.try_acquire().expect("room");
    for _ in 0..10_000 {
        time.advance(Duration::from_nanos(1));
        limiter.try_acquire_n(2).expect("room");
        assert_eq!(limiter.refund(2), 2);
    }
    assert_eq!(limiter.available(), 2);
}

#[test]
fn c5_time_does_not_run_backward_when_the_newest_is_taken_back() {
    let limiter = window("1/10ns", &ManualClock::new());
    limiter.at(ns(0)).try_acquire().expect("room");
    limiter.at(ns(10)).try_acquire().expect("room");
    assert_eq!(limiter.at(ns(10)).refund(1), 1);
    // Limiter time is 10: the one at 0 has left, for a caller with an old clock as well.
    assert!(limiter.at(ns(3)).try_acquire().is_ok());
    // And it counts from 10, not from 3.
    assert_eq!(
        limiter.at(ns(13)).try_acquire().unwrap_err().retry_after(),
        Some(Duration::from_nanos(7))
    );
}

#[test]
fn c1_a_change_of_units_per_token_is_refused() {
    let time = ManualClock::new();
    let limiter = SlidingWindow::builder(quota("2/h"))
        .clock(&time)
        .max_limit(2000)
        .build()
        .expect("in range");
    limiter.try_acquire_n(2).expect("empty");
    let error = limiter.set_quota(quota("2/h units 1000")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "units per token of 1000 is out of range: 1 to 1"
    );
    assert_eq!((limiter.quota(), limiter.available()), (quota("2/h"), 0));
}

#[test]
fn units_divide_a_token() {
    let quota = quota("2/s").units_per_token(1000).expect("in range");
    let limiter = SlidingWindow::builder(quota)
        .clock(ManualClock::new())
        .build()
        .expect("in range");
    assert!(limiter.try_acquire().is_ok());
    assert_eq!(limiter.available(), 1000);
    assert!(limiter.try_acquire_n(250).is_ok());
    assert!(limiter.try_acquire().is_err());
    assert_eq!(limiter.snapshot().limit, 2000);
    assert_eq!(limiter.quota(), quota);
}

#[test]
fn n_of_zero_succeeds_and_changes_nothing() {
    let limiter = window("1/s", &ManualClock::new());
    limiter.try_acquire().expect("room");
    assert!(limiter.try_acquire_n(0).is_ok());
    assert_eq!(limiter.take_up_to(0), 0);
    assert_eq!(limiter.refund(0), 0);
    assert_eq!(limiter.available(), 0);
}

#[test]
fn what_cannot_be_honoured_is_refused_with_the_range() {
    let refusal = |text: &str, max_limit: Option<u64>| {
        let builder = SlidingWindow::builder(quota(text));
        let builder = match max_limit {
            Some(units) => builder.max_limit(units),
            None => builder,
        };
        builder.build().unwrap_err().to_string()
    };
    let burst = refusal("5/s burst 3", None);
    assert!(
        burst.contains("a window has no burst, and one of 3 was set"),
        "{burst}"
    );
    assert_eq!(
        refusal("67108863/s", None),
        "a limit of 67108863 takes 2147483648 bytes to remember; it must be at most 67108862, \
         which takes 1073741824"
    );
    assert_eq!(
        refusal("7/s", Some(5)),
        "a limit in units of 7 is out of range: 1 to 5"
    );
    assert_eq!(
        refusal("7/s", Some(0)),
        "a largest limit of 0 is out of range: 1 to 67108862"
    );
    let endless = refusal("7/s", Some(u64::MAX));
    assert!(endless.contains("1073741824"), "{endless}");
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let limiter = window("5/s", &ManualClock::new());
    assert!(limiter.set_quota(quota("6/s")).is_err());
    assert!(limiter.set_quota(quota("3/s burst 2")).is_err());
    assert_eq!(limiter.quota(), quota("5/s"));
    assert_eq!(limiter.available(), 5);
    assert_eq!(limiter.max_limit(), 5);
}

#[test]
fn a_limiter_takes_all_its_memory_when_it_is_built() {
    let limiter = window("1000000/s", &ManualClock::new());
    assert_eq!(limiter.bytes(), size_of::<SlidingWindow>() + (16 << 20));
    assert_eq!(limiter.take_up_to(u64::MAX), 1_000_000);
}

#[test]
fn c1_any_limiter_decides_like_its_own_type() {
    let time = ManualClock::new();
    let limiter = window("3/s", &time);
    let any: &dyn Limiter = &limiter;
    assert!(any.try_acquire().is_ok());
    assert!(any.try_acquire_n(2).is_ok());
    assert_eq!(any.available(), 0);
    assert!(any.try_acquire_n_at(ns(1_000_000_000), 1).is_ok());
    assert!(any.try_reserve_n(1).is_none());
    assert_eq!(any.snapshot().limit, 3);
}

/// Four threads, each with a clock of its own that is some reading of a shared one: an admission was dated no
/// earlier than its thread's reading, and no later than the shared clock was when it returned.
fn storm(limiter: &SlidingWindow, calls: u64, also: impl Fn(u64) + Sync) -> Vec<(u64, u64)> {
    let (start, shared) = (Barrier::new(4), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (start, shared, also) = (&start, &shared, &also);
                scope.spawn(move || {
                    let mut draw = Draw(thread + 1);
                    let mut admitted = Vec::new();
                    start.wait();
                    for call in 0..calls {
                        let now = shared.fetch_add(draw.below(3), Ordering::SeqCst);
                        let n = 1 + draw.below(3);
                        if limiter.at(ns(now)).try_acquire_n(n).is_ok() {
                            admitted.push((now, n));
                        }
                        if thread == 0 {
                            also(call);
                        }
                    }
                    admitted
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

/// Limiter time at an admission is at least the caller's, so that in each span of callers' times [a, b] there
/// is at most what limiter time allows in [a, the end of time]; with a window longer than the whole storm that
/// is the limit.
#[test]
fn c1_threads_never_get_more_than_the_limit_in_one_window() {
    for limit in [1, 7, 100, 5_000] {
        let limiter = SlidingWindow::builder(per_ns(limit, 1 << 40))
            .clock(ManualClock::new())
            .build()
            .expect("in range");
        let admitted = storm(&limiter, 20_000, |_| ());
        let total: u64 = admitted.iter().map(|&(_, n)| n).sum();
        assert!(total <= limit, "{total} of {limit}");
        assert_eq!(limiter.available_at(1 << 20), limit - total);
    }
}

/// Over many windows and many times round the ring: no thread lags by more than `LAG`, so that a window
/// of callers' times lies in a window of limiter time that is longer by that.
#[test]
fn c1_threads_never_get_more_than_the_limit_in_any_window() {
    const WINDOW_NS: u64 = 100;
    for limit in [3, 10, 60] {
        let limiter = SlidingWindow::builder(per_ns(limit, WINDOW_NS))
            .clock(ManualClock::new())
            .build()
            .expect("in range");
        let mut admitted = storm(&limiter, 50_000, |_| ());
        admitted.sort_unstable();
        let span = admitted.last().expect("some").0 - admitted[0].0;
        let total: u64 = admitted.iter().map(|&(_, n)| n).sum();
        let windows = span / WINDOW_NS + 1;
        assert!(
            total <= windows * limit,
            "{total} in {windows} windows of {limit}"
        );
        assert!(
            total >= windows * limit / 4,
            "{total} in {windows} windows of {limit}"
        );
    }
}

#[test]
fn c1_threads_race_refunds_and_changes() {
    let limiter = SlidingWindow::builder(per_ns(50, 1 << 40))
        .clock(ManualClock::new())
        .max_limit(80)
        .build()
        .expect("in range");
    let returned = AtomicU64::new(0);
    let admitted = storm(&limiter, 20_000, |call| {
        if call % 3 == 0 {
            returned.fetch_add(limiter.at(ns(0)).refund(call % 5), Ordering::SeqCst);
        }
        if call % 7 == 0 {
            limiter
                .set_quota(per_ns(40 + call % 40, 1 << 40))
                .expect("in range");
        }
    });
    let total: u64 = admitted.iter().map(|&(_, n)| n).sum();
    let held = total - returned.into_inner();
    assert!(held <= 80, "{held} held");
    limiter.set_quota(per_ns(80, 1 << 40)).expect("in range");
    assert_eq!(limiter.available_at(1 << 20), 80 - held);
}

/// `available` at a time of the test's.
trait AvailableAt {
    fn available_at(&self, now_ns: u64) -> u64;
}

impl AvailableAt for SlidingWindow {
    fn available_at(&self, now_ns: u64) -> u64 {
        self.at(ns(now_ns)).available()
    }
}
