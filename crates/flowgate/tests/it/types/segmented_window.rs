//! `SegmentedWindow` against the definition: a plain list of everything that was admitted.
//!
//! `FLOWGATE_OPS` sets how many operations the random histories make (200,000 unless it is set),
//! `FLOWGATE_SEED` where they begin.

use crate::effort::number;
use flowgate::{Limiter, ManualClock, Quota, SegmentedWindow, SlidingWindow, Timestamp};
use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn window(text: &str, segments: u64, time: &ManualClock) -> SegmentedWindow {
    on(quota(text), segments, time)
}

fn on(quota: Quota, segments: u64, time: &ManualClock) -> SegmentedWindow {
    SegmentedWindow::builder(quota)
        .clock(time)
        .segments(segments)
        .build()
        .expect("in range")
}

fn per_ns(limit: u64, window_ns: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(window_ns)).expect("in range")
}

fn ns(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

const SECOND: Duration = Duration::from_secs(1);

/// The definition: what counts is the current segment and `segments` before it.
struct List {
    /// Segment and units of each admission.
    admitted: VecDeque<(u64, u64)>,
    limit: u64,
    segments: u64,
    segment_ns: u64,
    /// The latest segment of any admission.
    newest: u64,
}

impl List {
    fn new(limit: u64, window_ns: u64, segments: u64) -> Self {
        Self {
            admitted: VecDeque::new(),
            limit,
            segments,
            segment_ns: window_ns.div_ceil(segments),
            newest: 0,
        }
    }

    fn segment(&self, now: u64) -> u64 {
        self.newest.max(now / self.segment_ns)
    }

    fn used(&self, now: u64) -> u64 {
        let now = self.segment(now);
        let counts = |&&(segment, _): &&(u64, u64)| now - segment <= self.segments;
        let newest_first = self.admitted.iter().rev();
        newest_first.take_while(counts).map(|&(_, n)| n).sum()
    }

    fn available(&self, now: u64) -> u64 {
        self.limit.saturating_sub(self.used(now))
    }

    /// When an admission in `segment` no longer counts.
    fn leaves(&self, segment: u64) -> u128 {
        (u128::from(segment) + u128::from(self.segments) + 1) * u128::from(self.segment_ns)
    }

    /// `None` if it is admitted, otherwise how long to wait, unless for ever.
    fn refusal(&self, now: u64, n: u64) -> Option<Option<u128>> {
        if n > self.limit {
            return Some(None);
        }
        if n == 0 || self.used(now) + n <= self.limit {
            return None;
        }
        // The newest for which, with all after it, there is no room has to leave.
        let mut beside = n;
        let in_the_way = |&&(_, units): &&(u64, u64)| {
            beside += units;
            beside > self.limit
        };
        let &(segment, _) = self.admitted.iter().rev().find(in_the_way).expect("one is");
        Some(Some(self.leaves(segment) - u128::from(now)))
    }

    fn reset_after(&self, now: u64) -> u128 {
        match self.admitted.back() {
            Some(&(segment, _)) if self.used(now) > 0 => self.leaves(segment) - u128::from(now),
            _ => 0,
        }
    }

    fn admit(&mut self, now: u64, n: u64) {
        if n > 0 {
            self.newest = self.segment(now);
            self.admitted.push_back((self.newest, n));
        }
        // Far more than can matter.
        if self.admitted.len() > 500 {
            self.admitted.pop_front();
        }
    }

    /// From the newest segment that anything was ever admitted in.
    fn refund(&mut self, now: u64, n: u64) -> u64 {
        if self.segment(now) - self.newest > self.segments {
            return 0;
        }
        let mut rest = n;
        while let Some(last) = self.admitted.back_mut() {
            if rest == 0 || last.0 != self.newest {
                break;
            }
            let back = rest.min(last.1);
            last.1 -= back;
            rest -= back;
            if last.1 == 0 {
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
            0 => 1 + self.below(10),
            1 => 1_000_000_000,
            2 => (1 << 62) + self.below(1 << 62),
            _ => 1 + self.below(200),
        }
    }

    /// An instant that is likely to matter.
    fn now(&mut self, now: u64, list: &List) -> u64 {
        let window_ns = list.segment_ns * list.segments;
        match self.below(40) {
            0..=9 => now,
            10..=24 => now.saturating_add(self.below(2 * window_ns.min(1_000) / list.limit + 2)),
            25..=27 => now.saturating_add(self.below(window_ns)),
            28..=35 => match list
                .admitted
                .get(self.below(list.admitted.len() as u64) as usize)
            {
                Some(&(segment, _)) => {
                    let leaves = u64::try_from(list.leaves(segment)).unwrap_or(u64::MAX);
                    leaves.saturating_sub(self.below(2))
                }
                None => now,
            },
            36 => now.saturating_sub(self.below(window_ns)),
            37 => self.below(now),
            38 => now.saturating_add(window_ns),
            _ if self.one_in(60) => u64::MAX - self.below(3),
            _ => now,
        }
    }
}

/// Random histories, each answer compared with the list's; how many operations were admitted.
fn compare(seed: u64, operations: u64, changes: bool, refunds: bool) -> u64 {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut done, mut admissions) = (0, 0);
    while done < operations {
        let limit = if draw.one_in(2) {
            1 + draw.below(5)
        } else {
            1 + draw.below(60)
        };
        let window_ns = draw.window_ns();
        let segments = 1 + draw.below(12.min(window_ns));
        // Long ones go round a small ring more often than a place can count.
        let length = if draw.one_in(50) { 20_000 } else { 300 };
        let mut list = List::new(limit, window_ns, segments);
        let limiter = on(per_ns(limit, window_ns), segments, &ManualClock::new());
        let mut all = Vec::new();
        let (mut now, mut latest) = (0, 0);
        for _ in 0..length {
            now = draw.now(now, &list);
            let at = limiter.at(ns(now));
            let limit = list.limit;
            let context = || {
                format!(
                    "seed {seed}, after {done}: {limit} per {window_ns} in {segments}, now {now}"
                )
            };
            match draw.below(40) {
                0..=27 => {
                    let n = match draw.below(4) {
                        0 => draw.below(limit + 2),
                        1 => limit,
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
                            if n > 0 {
                                latest = now.max(latest);
                                all.push((latest, n));
                            }
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
                                    latest = now.max(latest);
                                    all.push((latest, n));
                                }
                            }
                        }
                    }
                }
                28..=30 => {
                    let n = draw.below(limit + 2);
                    let took = at.take_up_to(n);
                    assert_eq!(took, n.min(list.available(now)), "up to {n}, {}", context());
                    list.admit(now, took);
                    if took > 0 {
                        latest = now.max(latest);
                        all.push((latest, took));
                    }
                }
                31..=35 => {
                    let seen = at.snapshot();
                    assert_eq!(seen.limit, limit);
                    assert_eq!(seen.remaining, list.available(now), "{}", context());
                    assert_eq!(
                        seen.reset_after.as_nanos(),
                        list.reset_after(now),
                        "{}",
                        context()
                    );
                }
                36..=37 if refunds => {
                    let n = draw.below(limit + 2);
                    let back = at.refund(n);
                    assert_eq!(back, list.refund(now, n), "{n} back, {}", context());
                }
                _ if changes && draw.one_in(3) => {
                    list.limit = 1 + draw.below(60);
                    limiter
                        .set_quota(per_ns(list.limit, window_ns))
                        .expect("in range");
                }
                _ => {}
            }
            done += 1;
        }
        if !changes && !refunds {
            no_window_holds_more(&all, list.limit, window_ns);
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

fn differential(changes: bool, refunds: bool) {
    let (operations, seed) = (number("FLOWGATE_OPS", 200_000), number("FLOWGATE_SEED", 1));
    let admissions = compare(seed, operations, changes, refunds);
    println!("{operations} operations, seed {seed}: no disagreement; {admissions} admitted");
    assert!(admissions > operations / 20);
}

#[test]
fn c1_c2_c3_c4_agrees_with_the_list() {
    differential(false, false);
}

#[test]
fn c1_c2_c3_c4_agrees_with_the_list_across_changes_of_limit() {
    differential(true, false);
}

#[test]
fn c5_agrees_with_the_list_across_refunds() {
    differential(false, true);
    differential(true, true);
}

/// More often round than a place can be counted.
#[test]
fn c1_c2_c3_agrees_with_the_list_thousands_of_times_round_the_ring() {
    for (limit, segments) in [(1, 1), (2, 2), (5, 10)] {
        let mut draw = Draw(limit);
        let mut list = List::new(limit, 100, segments);
        let limiter = on(per_ns(limit, 100), segments, &ManualClock::new());
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

/// Whatever changes, at each admission the window in force that ends there holds no more than the limit in force.
#[test]
fn c1_changes_of_the_window_are_never_over() {
    let mut draw = Draw(99);
    let (mut asked, mut admitted) = (0, 0);
    for _ in 0..3_000 {
        let segments = 1 + draw.below(6);
        let (mut limit, mut window_ns) = (1 + draw.below(20), segments + draw.below(60));
        let limiter = on(per_ns(limit, window_ns), segments, &ManualClock::new());
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut now = 0;
        for _ in 0..200 {
            now += draw.below(2 * window_ns / limit + 2);
            let n = 1 + draw.below(limit.min(4));
            asked += 1;
            let told = limiter.at(ns(now)).try_acquire_n(n);
            if let Err(denied) = told {
                let wait = denied.retry_after().expect("a time").as_nanos() as u64;
                assert!(limiter.at(ns(now + wait - 1)).try_acquire_n(n).is_err());
                if draw.one_in(4) {
                    now += wait;
                    assert!(limiter.at(ns(now)).try_acquire_n(n).is_ok());
                    all.push((now, n));
                }
            } else {
                admitted += 1;
                all.push((now, n));
            }
            let newest_first = all.iter().rev().take_while(|&&(t, _)| t + window_ns > now);
            let held: u64 = newest_first.map(|&(_, n)| n).sum();
            assert!(
                told.is_err() || held <= limit,
                "{held} in {window_ns} at {now}, limit {limit}"
            );
            if draw.one_in(12) {
                limit = 1 + draw.below(20);
                window_ns = segments + draw.below(60);
                limiter
                    .at(ns(now))
                    .set_quota(per_ns(limit, window_ns))
                    .expect("in range");
            }
        }
    }
    assert!(admitted * 5 > asked, "{admitted} of {asked} admitted");
}

/// The bound in the first line: what is refused would not fit a window that is one segment longer.
#[test]
fn c2_refuses_at_most_one_segment_longer_than_an_exact_window() {
    let mut draw = Draw(5);
    for _ in 0..500 {
        let segments = 1 + draw.below(12);
        let (limit, segment_ns) = (1 + draw.below(30), 1 + draw.below(20));
        let window_ns = segments * segment_ns;
        let limiter = on(per_ns(limit, window_ns), segments, &ManualClock::new());
        let (mut all, mut now): (Vec<(u64, u64)>, _) = (Vec::new(), 0);
        for _ in 0..300 {
            now += draw.below(2 * window_ns / limit + 2);
            let n = 1 + draw.below(limit);
            match limiter.at(ns(now)).try_acquire_n(n) {
                Ok(()) => all.push((now, n)),
                Err(_) => {
                    let longer = all
                        .iter()
                        .rev()
                        .take_while(|&&(t, _)| t + window_ns + segment_ns > now);
                    let held: u64 = longer.map(|&(_, n)| n).sum();
                    assert!(
                        held + n > limit,
                        "{n} refused at {now} beside {held} of {limit}"
                    );
                }
            }
        }
    }
}

/// Waits for a refusal's time, window by window.
#[test]
fn c1_many_segments_and_one() {
    for segments in [1, 2, 1000, 1024] {
        let time = ManualClock::new();
        let limiter = window("7/s", segments, &time);
        let exact = SlidingWindow::builder(quota("7/s"))
            .clock(&time)
            .build()
            .expect("in range");
        for _ in 0..200 {
            if let Err(denied) = limiter.try_acquire() {
                time.advance(denied.retry_after().expect("a time"));
                assert!(limiter.try_acquire().is_ok());
            }
            assert!(
                exact.try_acquire().is_ok(),
                "what is admitted here, an exact window admits"
            );
        }
    }
}

/// .NET's `SlidingWindowRateLimiter` (dotnet/runtime, its tests), by `AttemptAcquire` and ticks of one segment.
/// Rows about waiting in its queue have no counterpart here. It counts the current segment and k − 1 before it,
/// so that units come back one tick earlier than here, and some windows hold twice the limit: at the tick where
/// .NET gives back, this still refuses, and at the next it admits.
#[test]
fn borrowed_from_dotnet_sliding_windows() {
    struct Row {
        limit: u64,
        segments: u64,
        take: u64,
        ticks_in_dotnet: u64,
    }
    let rows = [
        Row {
            limit: 2,
            segments: 2,
            take: 2,
            ticks_in_dotnet: 2,
        },
        Row {
            limit: 4,
            segments: 3,
            take: 4,
            ticks_in_dotnet: 3,
        },
        Row {
            limit: 3,
            segments: 3,
            take: 2,
            ticks_in_dotnet: 3,
        },
    ];
    for Row {
        limit,
        segments,
        take,
        ticks_in_dotnet,
    } in rows
    {
        let time = ManualClock::new();
        let limiter = on(per_ns(limit, segments * 1_000), segments, &time);
        assert!(limiter.try_acquire_n(take).is_ok());
        assert!(limiter.try_acquire_n(limit - take + 1).is_err());
        for _ in 0..ticks_in_dotnet {
            assert_eq!(limiter.available(), limit - take);
            time.advance(Duration::from_micros(1));
        }
        assert_eq!(
            limiter.available(),
            limit - take,
            "what .NET would give back"
        );
        time.advance(Duration::from_micros(1));
        assert_eq!(limiter.available(), limit);
    }

    // Sliding(4, 3 segments): take 2, a tick, 2 more; three ticks later only these count.
    let time = ManualClock::new();
    let limiter = on(per_ns(4, 3_000), 3, &time);
    limiter.try_acquire_n(2).expect("room");
    time.advance(Duration::from_micros(1));
    limiter.try_acquire_n(2).expect("room");
    time.advance(Duration::from_micros(3));
    assert_eq!(limiter.available(), 2);

    // RetryAfter is the window right after taking, of 1 ms in 2 segments; here one segment more. An exact
    // window says the same as .NET.
    let time = ManualClock::new();
    let quota = quota("1/ms");
    let limiter = on(quota, 2, &time);
    limiter.try_acquire().expect("room");
    let wait = |denied: flowgate::Denied| denied.retry_after();
    let microseconds = |us| Err(Some(Duration::from_micros(us)));
    assert_eq!(limiter.try_acquire().map_err(wait), microseconds(1_500));
    let exact = SlidingWindow::builder(quota)
        .clock(&time)
        .build()
        .expect("in range");
    exact.try_acquire().expect("room");
    assert_eq!(exact.try_acquire().map_err(wait), microseconds(1_000));

    // Manual replenishing advances one segment however late it is; here all that has passed counts.
    time.advance(SECOND);
    assert_eq!(limiter.available(), 1);
}

#[test]
fn c4_the_end_of_time_and_before_it() {
    let limiter = on(per_ns(2, 10), 10, &ManualClock::new());
    assert!(limiter.at(ns(u64::MAX - 10)).try_acquire().is_ok());
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
fn c5_a_refund_takes_back_from_the_newest_segment() {
    let time = ManualClock::new();
    let limiter = window("10/10s", 10, &time);
    limiter.try_acquire_n(4).expect("room");
    time.advance(SECOND * 5);
    limiter.try_acquire_n(3).expect("room");
    assert_eq!(limiter.refund(2), 2);
    assert_eq!(
        limiter.refund(3),
        1,
        "of the segment before only a sum is known"
    );
    assert_eq!(limiter.available(), 6);
    assert_eq!(limiter.snapshot().reset_after, SECOND * 6);
    time.advance(SECOND * 11);
    assert_eq!(
        limiter.refund(9),
        0,
        "what has left has come back by itself"
    );
}

#[test]
fn a_window_that_changes_keeps_what_is_in_it() {
    let time = ManualClock::new();
    let limiter = window("10/10s", 10, &time);
    limiter.try_acquire_n(2).expect("room");
    time.advance(SECOND * 6);
    limiter.try_acquire_n(3).expect("room");
    // Shorter: what was at 0 s is outside. Longer: nothing is forgotten yet.
    limiter.set_quota(quota("10/5s")).expect("in range");
    assert_eq!(limiter.available(), 7);
    time.advance(SECOND * 5);
    assert_eq!(limiter.available(), 7);
    time.advance(SECOND / 2);
    assert_eq!(limiter.available(), 10, "one segment of 500 ms longer");
    // What was at 0 s is forgotten, so a window that reaches there counts as full.
    limiter.set_quota(quota("10/1min")).expect("in range");
    assert_eq!(limiter.available(), 0);
    let denied = limiter.try_acquire().unwrap_err();
    assert!(denied.retry_after().expect("a time") <= SECOND * 66);

    let limiter = window("10/10s", 10, &time);
    limiter.try_acquire_n(2).expect("room");
    limiter.set_quota(quota("100/1min")).expect("in range");
    assert_eq!(limiter.available(), 98);
}

#[test]
fn c2_changes_of_an_unused_window_leave_it_empty() {
    let time = ManualClock::new();
    time.advance(100 * SECOND);
    let limiter = window("100/s", 10, &time);
    for text in ["100/2s", "100/min", "50/h", "100/min"] {
        limiter.set_quota(quota(text)).expect("in range");
        assert_eq!(limiter.available(), limiter.quota().count(), "{text}");
        assert_eq!(limiter.refund(7), 0, "{text}");
    }
    // Also with what has come back as a refund.
    limiter.try_acquire_n(7).expect("empty");
    assert_eq!(limiter.refund(7), 7);
    time.advance(1000 * SECOND);
    limiter.set_quota(quota("100/s")).expect("in range");
    limiter.set_quota(quota("100/h")).expect("in range");
    assert_eq!(limiter.available(), 100);
}

#[test]
fn c5_what_only_counts_as_taken_is_not_refunded() {
    let time = ManualClock::new();
    let limiter = on(per_ns(5, 10), 10, &time);
    for now in (0..600).step_by(20) {
        limiter
            .at(ns(now))
            .try_acquire_n(5)
            .expect("the window is empty");
    }
    // Longer than is remembered: it counts as full.
    limiter
        .at(ns(581))
        .set_quota(per_ns(5, 1000))
        .expect("in range");
    assert_eq!(limiter.at(ns(581)).available(), 0);
    assert_eq!(limiter.at(ns(581)).refund(u64::MAX), 0);
    assert_eq!(limiter.at(ns(581)).available(), 0);
    // In the segment after it, what was taken is known.
    let later = limiter.at(ns(581 + 1100));
    later.try_acquire_n(4).expect("the window is empty");
    assert_eq!(later.refund(u64::MAX), 4);
}

#[test]
fn c5_what_a_change_of_window_counts_anew_is_refunded() {
    let time = ManualClock::new();
    let limiter = on(per_ns(5, 100), 10, &time);
    limiter.at(ns(500)).try_acquire_n(1).expect("empty");
    limiter.at(ns(700)).try_acquire_n(3).expect("empty");
    limiter
        .at(ns(700))
        .set_quota(per_ns(5, 50))
        .expect("in range");
    assert_eq!(limiter.at(ns(700)).available(), 2);
    assert_eq!(limiter.at(ns(700)).refund(u64::MAX), 3);
    assert_eq!(limiter.at(ns(700)).available(), 5);
}

#[test]
fn c1_c4_a_change_of_window_by_a_clock_that_runs_backward_adds_no_credit() {
    let time = ManualClock::new();
    time.set(ns(100_000));
    time.set(ns(0));
    let limiter = on(per_ns(5, 100), 10, &time);
    limiter.try_acquire_n(5).expect("empty");
    limiter.set_quota(per_ns(5, 200)).expect("in range");
    assert_eq!(limiter.available(), 0);

    // What was taken late in a segment is not taken for early in it.
    let limiter = on(per_ns(5, 1000), 10, &time);
    time.set(ns(90));
    limiter.try_acquire_n(5).expect("empty");
    time.set(ns(0));
    limiter.set_quota(per_ns(5, 100)).expect("in range");
    assert!(limiter.at(ns(189)).try_acquire().is_err());
    assert!(limiter.at(ns(209)).try_acquire().is_ok());
}

#[test]
fn c1_a_change_of_units_per_token_is_refused() {
    let time = ManualClock::new();
    let limiter = window("2/h", 10, &time);
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
    let limiter = on(quota, 10, &ManualClock::new());
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire_n(250).is_ok());
    assert!(limiter.try_acquire().is_err());
    assert_eq!((limiter.available(), limiter.snapshot().limit), (750, 2000));
    assert_eq!(limiter.quota(), quota);
}

#[test]
fn n_of_zero_succeeds_and_changes_nothing() {
    let limiter = window("1/s", 10, &ManualClock::new());
    limiter.try_acquire().expect("room");
    assert!(limiter.try_acquire_n(0).is_ok());
    assert_eq!(limiter.take_up_to(0), 0);
    assert_eq!(limiter.refund(0), 0);
    assert_eq!(limiter.available(), 0);
}

#[test]
fn what_cannot_be_honoured_is_refused_with_the_range() {
    let refusal = |quota: Quota, segments: u64| {
        let built = SegmentedWindow::builder(quota).segments(segments).build();
        built.unwrap_err().to_string()
    };
    let burst = refusal(quota("5/s burst 3"), 10);
    assert!(
        burst.contains("a window has no burst, and one of 3 was set"),
        "{burst}"
    );
    assert_eq!(
        refusal(quota("5/s"), 0),
        "a number of segments of 0 is out of range: 1 to 1024"
    );
    assert_eq!(
        refusal(quota("5/s"), 1025),
        "a number of segments of 1025 is out of range: 1 to 1024"
    );
    assert_eq!(
        refusal(per_ns(5, 3), 4),
        "a number of segments of 4 is out of range: 1 to 3"
    );
    assert_eq!(
        refusal(quota("100000000000/s"), 1024),
        "a limit in units of 100000000000 is out of range: 1 to 8589934591"
    );
    let short = SegmentedWindow::builder(per_ns(5, 3))
        .build()
        .expect("in range");
    assert_eq!(
        (short.segments(), short.segment()),
        (3, Duration::from_nanos(1))
    );
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let limiter = window("5/s", 10, &ManualClock::new());
    assert!(limiter.set_quota(quota("3/s burst 2")).is_err());
    let short = limiter.set_quota(per_ns(3, 9)).unwrap_err();
    assert_eq!(
        short.to_string(),
        "a window in nanoseconds of 9 is out of range: 10 to 18446744073709551615"
    );
    assert!(limiter.set_quota(quota("2000000000000/s")).is_err());
    assert_eq!(limiter.quota(), quota("5/s"));
    assert_eq!(limiter.available(), 5);
}

#[test]
fn c1_any_limiter_decides_like_its_own_type() {
    let time = ManualClock::new();
    let limiter = window("3/s", 10, &time);
    let any: &dyn Limiter = &limiter;
    assert!(any.try_acquire().is_ok());
    assert!(any.try_acquire_n(2).is_ok());
    assert_eq!(any.available(), 0);
    assert!(any.try_acquire_n_at(ns(1_100_000_000), 1).is_ok());
    assert!(any.try_reserve_n(1).is_none());
    assert_eq!(any.snapshot().limit, 3);
}

/// Four threads, each with a clock of its own that is some reading of a shared one: an admission was dated no
/// earlier than its thread's reading, and no later than the shared clock was when it returned.
fn storm(limiter: &SegmentedWindow, calls: u64, also: impl Fn(u64) + Sync) -> Vec<(u64, u64)> {
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

/// Limiter time at an admission is at least the caller's; with a window longer than the whole storm all of it is
/// together in one.
#[test]
fn c1_threads_never_get_more_than_the_limit_in_one_window() {
    for limit in [1, 7, 100, 5_000] {
        // Segments of 100 ns, which the storm goes through.
        let limiter = on(per_ns(limit, 102_400), 1024, &ManualClock::new());
        let admitted = storm(&limiter, 20_000, |_| ());
        let total: u64 = admitted.iter().map(|&(_, n)| n).sum();
        assert!(total <= limit, "{total} of {limit}");
        assert_eq!(limiter.at(ns(0)).available(), limit - total);
    }
}

/// Over many windows and many times round the ring.
#[test]
fn c1_threads_never_get_more_than_the_limit_in_any_window() {
    const WINDOW_NS: u64 = 100;
    for (limit, segments) in [(3, 1), (10, 4), (60, 10)] {
        let limiter = on(per_ns(limit, WINDOW_NS), segments, &ManualClock::new());
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
            total >= windows * limit / 5,
            "{total} in {windows} windows of {limit}"
        );
    }
}

#[test]
fn c1_threads_race_refunds_and_changes() {
    let limiter = on(per_ns(50, 102_400), 1024, &ManualClock::new());
    let returned = AtomicU64::new(0);
    let admitted = storm(&limiter, 20_000, |call| {
        if call % 3 == 0 {
            returned.fetch_add(limiter.at(ns(0)).refund(call % 5), Ordering::SeqCst);
        }
        if call % 7 == 0 {
            limiter
                .set_quota(per_ns(40 + call % 40, 102_400))
                .expect("in range");
        }
    });
    let total: u64 = admitted.iter().map(|&(_, n)| n).sum();
    let held = total - returned.into_inner();
    assert!(held <= 80, "{held} held");
    limiter.set_quota(per_ns(80, 102_400)).expect("in range");
    assert_eq!(limiter.at(ns(0)).available(), 80 - held);
}
