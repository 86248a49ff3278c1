//! The approximate window against its definition, over the list of everything that was admitted.
//!
//! `FLOWGATE_OPS` sets how many operations the histories have (200,000 unless it is set).

use crate::effort::number;
use flowgate::{ApproximateWindow, Limiter, ManualClock, Quota, Timestamp};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const MOST: u64 = (1 << 24) - 1;

fn window(limit: u64, length_ns: u64) -> ApproximateWindow {
    aligned(limit, length_ns, 0)
}

fn aligned(limit: u64, length_ns: u64, align_ns: u64) -> ApproximateWindow {
    ApproximateWindow::builder(quota(limit, length_ns))
        .clock(ManualClock::new())
        .align(Timestamp::from_nanos(align_ns))
        .build()
        .expect("a limit for a window")
}

fn quota(limit: u64, length_ns: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(length_ns)).expect("a quota")
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// The definition: windows, each with what was admitted in it, kept as a list.
struct Model {
    limit: u64,
    length: i128,
    offset: i128,
    /// Start of the window, and units.
    admitted: Vec<(i128, u64)>,
}

impl Model {
    fn new(limit: u64, length_ns: u64, align_ns: u64) -> Self {
        Self {
            limit,
            length: i128::from(length_ns),
            offset: i128::from(align_ns % length_ns),
            admitted: Vec::new(),
        }
    }

    /// The start of the window that `now` lies in, and the limiter's time.
    fn place(&self, now_ns: u64) -> (i128, i128) {
        let last = self
            .admitted
            .last()
            .map_or(self.offset, |&(start, _)| start);
        let now = i128::from(now_ns).max(last);
        (now - (now - self.offset).rem_euclid(self.length), now)
    }

    fn count(&self, start: i128) -> i128 {
        let of_window = self.admitted.iter().filter(|entry| entry.0 == start);
        of_window.map(|&(_, n)| i128::from(n)).sum()
    }

    /// limit − estimate, times the length.
    fn room_scaled(&self, now_ns: u64) -> i128 {
        let (start, now) = self.place(now_ns);
        let previous = self.count(start - self.length) * (start + self.length - now);
        (i128::from(self.limit) - self.count(start)) * self.length - previous
    }

    fn room(&self, now_ns: u64) -> u64 {
        u64::try_from(self.room_scaled(now_ns).div_euclid(self.length)).unwrap_or(0)
    }

    fn admits(&self, now_ns: u64, n: u64) -> bool {
        i128::from(n) * self.length <= self.room_scaled(now_ns)
    }

    fn admit(&mut self, now_ns: u64, n: u64) {
        let (start, _) = self.place(now_ns);
        self.admitted.push((start, n));
        // What is older has no part in anything any more.
        let length = self.length;
        self.admitted.retain(|entry| entry.0 >= start - length);
    }

    fn refund(&mut self, now_ns: u64, n: u64) -> u64 {
        let (start, _) = self.place(now_ns);
        let mut left = n;
        for entry in self
            .admitted
            .iter_mut()
            .rev()
            .filter(|entry| entry.0 == start)
        {
            let back = left.min(entry.1);
            entry.1 -= back;
            left -= back;
        }
        n - left
    }

    fn idle_at(&self, now_ns: u64) -> i128 {
        let (start, _) = self.place(now_ns);
        if self.count(start) > 0 {
            start + 2 * self.length
        } else if self.count(start - self.length) > 0 {
            start + self.length
        } else {
            i128::from(now_ns)
        }
    }
}

/// SplitMix64: enough to draw histories, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of<const N: usize>(&mut self, choices: [u64; N]) -> u64 {
        choices[self.below(N as u64) as usize]
    }

    /// A step of the clock that suits windows of this length: standing, to and fro, far.
    fn step(&mut self, now_ns: u64, length_ns: u64) -> u64 {
        let part = self.below(length_ns.max(1)).min(u64::MAX / 4);
        match self.below(12) {
            0 => now_ns.saturating_sub(part),
            1 => now_ns.saturating_sub(length_ns.saturating_mul(2)),
            2..=4 => now_ns.saturating_add(part / 8),
            5 | 6 => now_ns.saturating_add(part),
            7 => now_ns.saturating_add(length_ns),
            8 => now_ns.saturating_add(length_ns.saturating_mul(3)),
            9 if self.below(20) == 0 => self.of([0, u64::MAX, u64::MAX - 1, u64::MAX / 2]),
            _ => now_ns.saturating_add(self.below(2)),
        }
    }
}

fn operations() -> u64 {
    number("FLOWGATE_OPS", 200_000)
}

#[test]
fn c1_c2_c3_c4_c5_agrees_with_its_definition() {
    const EACH: u64 = 100;
    let mut draw = Draw(1);
    let (mut granted, mut refused) = (0_u64, 0_u64);
    for _ in 0..operations().div_ceil(EACH) {
        let limit = draw.of([1, 2, 3, 10, 1000, MOST]);
        let bits = draw.below(62);
        let any = (draw.next() >> (63 - bits)).max(1);
        let length = draw.of([1, 2, 7, 1000, 1_000_000_000, any, any, any]);
        let align = draw.of([0, 0, 1, any, u64::MAX]);
        let (limiter, mut model) = (
            aligned(limit, length, align),
            Model::new(limit, length, align),
        );
        let mut now = draw.of([0, 0, any, u64::MAX - 5]);
        for _ in 0..EACH {
            now = draw.step(now, length);
            let view = limiter.at(at(now));
            let some = draw.below(limit) + 1;
            let n = draw.of([0, 1, 1, some, some / 4, limit, limit + 1, u64::MAX]);
            match draw.below(8) {
                0 => {
                    let taken = view.take_up_to(n);
                    assert_eq!(taken, n.min(model.room(now)));
                    if taken > 0 {
                        model.admit(now, taken);
                    }
                }
                1 => assert_eq!(view.refund(n), model.refund(now, n)),
                _ => match view.try_acquire_n(n) {
                    Ok(()) => {
                        assert!(n == 0 || model.admits(now, n), "{n} admitted at {now}");
                        if n > 0 {
                            model.admit(now, n);
                        }
                        granted += 1;
                    }
                    Err(denied) => {
                        assert_eq!(denied.is_never(), n > limit);
                        assert!(n > limit || !model.admits(now, n), "{n} refused at {now}");
                        refused += 1;
                        // Later than all time cannot be checked.
                        let wait = denied.retry_after().map(|wait| wait.as_nanos());
                        let then = wait.and_then(|wait| u64::try_from(u128::from(now) + wait).ok());
                        if let Some(then) = then {
                            assert!(model.admits(then, n), "{n} not admitted after {wait:?}");
                            assert!(!model.admits(then - 1, n), "{n} admitted before {wait:?}");
                        }
                    }
                },
            }
            let seen = view.snapshot();
            assert_eq!(seen.limit, limit);
            assert_eq!(seen.remaining, model.room(now));
            assert_eq!(seen.remaining, view.available());
            let reset_after = (model.idle_at(now) - i128::from(now)).max(0);
            assert_eq!(seen.reset_after.as_nanos() as i128, reset_after);
        }
    }
    println!("{granted} granted, {refused} refused: no disagreement");
    assert!(granted > operations() / 10 && refused > operations() / 10);
}

/// The most units of `admitted` (time, units) within a closed span of length `span`.
fn most_within(admitted: &[(u64, u64)], span: u64) -> u64 {
    let sum_from = |&(start, _): &(u64, u64)| -> u64 {
        let within = admitted
            .iter()
            .filter(|entry| (start..=start + span).contains(&entry.0));
        within.map(|entry| entry.1).sum()
    };
    admitted.iter().map(sum_from).max().unwrap_or(0)
}

/// Every history of up to 3 units asked at each of 8 instants.
#[test]
fn c1_no_span_of_a_window_holds_twice_the_limit_by_trying_all() {
    const INSTANTS: u32 = 8;
    for limit in 1..=3 {
        let mut most = 0;
        for history in 0..4_u64.pow(INSTANTS) {
            let limiter = window(limit, 3);
            let admitted: Vec<_> = (0..u64::from(INSTANTS))
                .map(|now| (now, history >> (2 * now) & 3))
                .filter(|&(now, n)| n > 0 && limiter.at(at(now)).try_acquire_n(n).is_ok())
                .collect();
            most = most.max(most_within(&admitted, 3));
        }
        assert!(most < 2 * limit, "limit {limit}: {most} in a window");
        // The bound for windows of 3 instants is reached, or missed by the rounding of a third.
        assert!(most >= limit + limit / 2, "limit {limit}: at most {most}");
    }
}

#[test]
fn c1_across_changes_of_quota_no_span_holds_twice_the_largest_limit() {
    let mut draw = Draw(7);
    for _ in 0..3_000 {
        let (mut limit, mut length) = (draw.below(5) + 1, draw.below(9) + 1);
        let limiter = window(limit, length);
        let (mut largest, mut shortest) = (limit, length);
        let (mut now, mut admitted) = (0, Vec::new());
        for _ in 0..60 {
            now += draw.of([0, 0, 1, 1, 2, 9]);
            if draw.below(6) == 0 {
                limit = draw.below(5) + 1;
                length = draw.of([length, length, 1, 4, 9]);
                largest = largest.max(limit);
                shortest = shortest.min(length);
                limiter
                    .at(at(now))
                    .set_quota(quota(limit, length))
                    .expect("a quota for a window");
            }
            let n = draw.below(limit) + 1;
            if limiter.at(at(now)).try_acquire_n(n).is_ok() {
                admitted.push((now, n));
            }
        }
        let most = most_within(&admitted, shortest);
        assert!(
            most < 2 * largest,
            "{most} within {shortest}, limit {largest}: {admitted:?}"
        );
    }
}

/// Cloudflare, *Counting things, a lot of different things*, 2017: 42 in the last minute, 18 in this one, of which
/// 15 s have passed.
#[test]
fn the_examples_of_cloudflare() {
    let second = 1_000_000_000;
    let limiter = window(1000, 60 * second);
    limiter.at(at(0)).try_acquire_n(42).expect("room");
    limiter.at(at(60 * second)).try_acquire_n(18).expect("room");
    assert_eq!(limiter.at(at(75 * second)).available(), 950); // 1000 − 49.5
    let limiter = window(1000, 60 * second);
    limiter.at(at(0)).try_acquire_n(84).expect("room");
    assert_eq!(limiter.at(at(78 * second)).available(), 941); // 1000 − 58.8
}

/// `freq_ctr` of HAProxy 3: a period of 1 s from tick 0, 10 in the one before and 4 in this. It rounds the rate
/// down, so a fraction that it does not see is one unit less here.
#[test]
fn the_table_of_haproxy() {
    let second = 1_000_000_000;
    let limiter = window(100, second);
    limiter.at(at(0)).try_acquire_n(10).expect("room");
    limiter.at(at(second)).try_acquire_n(4).expect("room");
    let table: [(u64, u64, f64); 6] = [
        (250, 88, 11.5),
        (999, 95, 4.01),
        (1000, 96, 4.0),
        (1500, 98, 2.0),
        (1999, 99, 0.004),
        (2000, 100, 0.0),
    ];
    for (ms, available, rate) in table {
        let now = at(second + ms * 1_000_000);
        assert_eq!(
            limiter.at(now).available(),
            available,
            "rate {rate} at {ms} ms"
        );
    }
    // It also reports a single one for as long as it counts at all, so that a rate of 1 does not flicker.
    let limiter = window(1, second);
    limiter.at(at(0)).try_acquire().expect("room");
    for ms in [0, 1, 500, 1000, 1001, 1999] {
        assert_eq!(limiter.at(at(ms * 1_000_000)).available(), 0, "at {ms} ms");
    }
    assert_eq!(limiter.at(at(2 * second)).available(), 1);
}

#[test]
fn c1_the_worst_case_is_twice_the_limit_less_one() {
    let ms = 1_000_000;
    let limiter = window(100, 1000 * ms);
    let mut admitted = vec![(999 * ms, limiter.at(at(999 * ms)).take_up_to(100))];
    for now in 1000..2000 {
        admitted.push((now * ms, limiter.at(at(now * ms)).take_up_to(100)));
    }
    assert_eq!(most_within(&admitted, 1000 * ms), 199);
}

/// A burst at the beginning of a window counts for too long: 100 at 0, and only 9 in the first tenth of the next
/// second, where an exact window has room for 100.
#[test]
fn c2_what_the_estimate_costs() {
    let ms = 1_000_000;
    let limiter = window(100, 1000 * ms);
    limiter.at(at(0)).try_acquire_n(100).expect("room");
    let admitted: u64 = (1000..1100)
        .map(|now| limiter.at(at(now * ms)).take_up_to(100))
        .sum();
    assert_eq!(admitted, 9);
}

#[test]
fn c1_threads_at_one_instant_share_the_limit() {
    let limiter = ApproximateWindow::new("1000/d".parse().expect("a quota")).expect("a window");
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..1000).filter(|_| limiter.try_acquire().is_ok()).count()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    // The clock may just have passed into another window of a day.
    assert!((1000..=1001).contains(&admitted), "{admitted}");
}

#[test]
fn c4_a_clock_that_runs_backward_adds_no_credit() {
    let time = ManualClock::new();
    let limiter = ApproximateWindow::builder(quota(10, 1_000_000_000))
        .clock(&time)
        .build()
        .expect("a window");
    time.set(at(5_900_000_000));
    limiter.try_acquire_n(10).expect("room");
    for ms in [4_000, 5_899, 0, 3_500] {
        time.set(at(ms * 1_000_000));
        assert!(limiter.try_acquire().is_err(), "at {ms} ms");
        limiter.set_quota(quota(10, 500_000_000)).expect("a window");
        assert!(limiter.try_acquire().is_err(), "at {ms} ms after a change");
    }
    time.set(at(5_950_000_000));
    assert_eq!(limiter.available(), 0);
}

#[test]
fn c4_a_change_by_an_older_time_than_the_last_adds_no_credit() {
    let limiter = window(10, 1_000_000_000);
    limiter
        .at(at(5_900_000_000))
        .try_acquire_n(10)
        .expect("room");
    let shorter = quota(10, 500_000_000);
    limiter
        .at(at(5_000_000_000))
        .set_quota(shorter)
        .expect("a window");
    assert_eq!(limiter.at(at(5_900_000_000)).available(), 0);
}

#[test]
fn c4_nothing_panics_on_any_number() {
    let edges = [0, 1, 2, MOST, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
    for (limit, length) in [(1, 1), (MOST, 1), (1, i64::MAX as u64), (MOST, u64::MAX)] {
        let limiter = window(limit, length);
        for now in edges.into_iter().chain(edges.into_iter().rev()) {
            let view = limiter.at(at(now));
            for n in edges {
                let _ = view.try_acquire_n(n).map_err(|denied| denied.retry_after());
                let _ = view.take_up_to(n);
                let _ = view.refund(n / 2);
                let _ = view.snapshot();
            }
            view.set_quota(quota(limit, length)).expect("the same");
            view.set_quota(quota(7, 3)).expect("another");
            view.set_quota(quota(limit, length)).expect("the same");
        }
    }
}

#[test]
fn c5_only_what_was_taken_in_this_window_comes_back() {
    let limiter = window(10, 1000);
    limiter.at(at(0)).try_acquire_n(6).expect("room");
    assert_eq!(limiter.at(at(1000)).refund(6), 0);
    limiter.at(at(1000)).try_acquire_n(3).expect("room");
    assert_eq!(limiter.at(at(1500)).refund(6), 3);
    assert_eq!(limiter.at(at(1500)).available(), 7);
}

#[test]
fn fractional_costs_survive_a_change_of_scale() {
    let units = |text: &str| text.parse::<Quota>().expect("a quota");
    let limiter = ApproximateWindow::builder(units("10/s units 1000"))
        .clock(ManualClock::new())
        .build()
        .expect("a window");
    limiter.try_acquire().expect("a whole token");
    limiter.try_acquire_n(1).expect("a thousandth");
    assert_eq!(limiter.snapshot().limit, 10_000);
    limiter.set_quota(units("10/s")).expect("a window");
    assert_eq!(limiter.available(), 8, "1.001 tokens count as 2");
    limiter
        .set_quota(units("10/s units 1000"))
        .expect("a window");
    assert_eq!(limiter.available(), 8_000);
    assert_eq!(limiter.quota(), units("10/s units 1000"));
}

#[test]
fn a_quota_that_is_none_for_a_window_is_refused_with_the_range() {
    let limiter = window(1, 1);
    for (text, message) in [
        (
            "16777216/s",
            "a window's limit of 16777216 is out of range: 1 to 16777215",
        ),
        (
            "1M/s units 100",
            "a window's limit of 100000000 is out of range: 1 to 16777215",
        ),
    ] {
        let quota: Quota = text.parse().expect("a quota");
        let error = ApproximateWindow::new(quota).expect_err("too large");
        assert_eq!(error.to_string(), message);
        assert_eq!(limiter.set_quota(quota), Err(error));
    }
    let burst = "10/s burst 5".parse().expect("a quota");
    assert!(ApproximateWindow::new(burst).is_err());
    assert!(limiter.set_quota(burst).is_err());
    assert_eq!(limiter.quota(), quota(1, 1));
    assert!(ApproximateWindow::new("16777215/s".parse().expect("a quota")).is_ok());
}

#[test]
fn any_limiter_decides_like_its_own_type() {
    let time = ManualClock::new();
    let limiter = ApproximateWindow::builder(quota(3, 1_000_000_000))
        .clock(&time)
        .build()
        .expect("a window");
    let any: &dyn Limiter = &limiter;
    assert!(any.try_acquire().is_ok());
    assert!(any.try_acquire_n(2).is_ok());
    assert!(any.try_reserve_n(1).is_none());
    assert_eq!((any.available(), any.snapshot().limit), (0, 3));
    assert!(any.try_acquire_n_at(at(2_000_000_000), 3).is_ok());
    time.advance(500 * MS);
    assert_eq!(any.clock().now(), at(500_000_000));
}

#[test]
fn c1_c4_a_change_by_a_clock_that_runs_backward_adds_no_credit() {
    for other in ["5/us", "5/2us", "5/500ns"] {
        let time = ManualClock::new();
        time.set(at(100_000));
        let limiter = ApproximateWindow::builder("5/us".parse().unwrap())
            .clock(&time)
            .build()
            .unwrap();
        time.set(at(0));
        limiter.try_acquire_n(5).unwrap();
        limiter.set_quota(other.parse().unwrap()).unwrap();
        assert_eq!(limiter.available(), 0, "{other}");
    }
}
