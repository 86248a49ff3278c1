//! Vectors of the generic cell rate algorithm (GCRA), and those of nginx's `limit_req` and the
//! two rate three color marker (RFC 2698), which a token bucket expresses.
//!
//! | theirs | as a token bucket |
//! |---|---|
//! | GCRA(I, L), L a multiple of I | 1 per I, burst 1 + L/I |
//! | GCRA(I, L), any | 1 per unit of time, burst I + L, where a cell takes I |
//! | nginx `burst=b nodelay` | burst b + 1 |
//! | nginx `burst=b` | burst 1, a patience of b intervals |
//! | nginx `burst=b delay=d` | burst d + 1, a patience of b − d intervals |
//! | trTCM | two buckets, the committed one asked where the peak one admits |
//!
//! Left for later types: HAProxy's and Cloudflare's rates (an interpolated window), and the
//! single rate three color marker (RFC 2697), whose excess bucket fills with what the committed
//! one has no room for. nginx cuts its rates to thousandths of a request per second; see
//! [`c8_nginx_rates_are_not_cut`] for where flowgate differs.

use flowgate::{ManualClock, Timestamp, TokenBucket};
use std::time::Duration;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn bucket(text: &str) -> TokenBucket {
    TokenBucket::builder(text.parse().expect("a quota"))
        .clock(ManualClock::new())
        .build()
        .expect("a limiter")
}

const T: bool = true;
const F: bool = false;

// GCRA(I, L): a cell every I, up to L early.

#[test]
fn c1_c2_gcra_10_20() {
    let table = [
        (0, [T, T, T, F].as_slice()),
        (10, &[T, F]),
        (30, &[T, T, F, F]),
        (200, &[T, T, T, F]),
    ];
    // In milliseconds as three tokens, in nanoseconds as thirty of which a cell takes ten.
    let forms = [("1/10ms burst 3", 1, MS), ("1/ns burst 30", 10, 1)];
    for (quota, cell, unit_ns) in forms {
        let bucket = bucket(quota);
        for (at, expected) in table {
            let now = Timestamp::from_nanos(at * unit_ns);
            let got: Vec<_> = expected
                .iter()
                .map(|_| bucket.at(now).try_acquire_n(cell).is_ok())
                .collect();
            assert_eq!(got, expected, "{quota} at {at}");
        }
    }
}

#[test]
fn c2_gcra_equality_conforms() {
    // Three cells at 0 set the theoretical arrival time to 30; the next may come 20 early.
    for (at_ns, conforms) in [(9, F), (10, T)] {
        let bucket = bucket("1/10ns burst 3");
        bucket.at(Timestamp::ORIGIN).take_up_to(3);
        let now = bucket.at(Timestamp::from_nanos(at_ns));
        assert_eq!(now.try_acquire().is_ok(), conforms, "at {at_ns}");
    }
}

#[test]
fn c3_gcra_weighted_cells() {
    // I = 10, L = 20, all at 0 but as said: (at, weight, wait; none where it conforms).
    let table = [
        (0, 2, Some(0)),
        (0, 2, Some(10)),
        (0, 1, Some(0)),
        (0, 3, Some(30)),
        (0, 4, None),
        (10, 1, Some(0)),
        (15, 2, Some(15)),
        (30, 2, Some(0)),
        (1_000, 3, Some(0)),
        (1_000, 1, Some(10)),
    ];
    let bucket = bucket("1/10ns burst 3");
    for (at_ns, weight, wait_ns) in table {
        let verdict = bucket
            .at(Timestamp::from_nanos(at_ns))
            .try_acquire_n(weight);
        let wait = match verdict {
            Ok(()) => Some(Duration::ZERO),
            Err(denied) => denied.retry_after(),
        };
        let expected = wait_ns.map(Duration::from_nanos);
        assert_eq!(wait, expected, "{weight} at {at_ns}");
    }
}

#[test]
fn c1_gcra_cells_back_to_back() {
    // At a spacing of T < I, 1 + ⌊L/(I − T)⌋ conform before the first that does not.
    for interval in 1..=12_u64 {
        for limit in 0..=40 {
            for spacing in 0..interval {
                let bucket = bucket(&format!("1/ns burst {}", interval + limit));
                let conforming = (0_u64..)
                    .take_while(|k| {
                        let now = Timestamp::from_nanos(k * spacing);
                        bucket.at(now).try_acquire_n(interval).is_ok()
                    })
                    .count() as u64;
                assert_eq!(
                    conforming,
                    1 + limit / (interval - spacing),
                    "GCRA({interval}, {limit}) each {spacing}"
                );
            }
        }
    }
}

/// The algorithm's other form, as ITU-T I.371 gives it: X flows out, and is looked at before it
/// is added to.
#[derive(Default)]
struct LeakyBucket {
    x: u64,
    last: u64,
}

impl LeakyBucket {
    fn conforms(&mut self, now: u64, interval: u64, limit: u64) -> bool {
        let x = self.x.saturating_sub(now - self.last);
        let conforms = x <= limit;
        if conforms {
            (self.x, self.last) = (x + interval, now);
        }
        conforms
    }
}

#[test]
fn c1_c2_gcra_is_the_continuous_state_leaky_bucket() {
    // Exactly the same cells conform, on 2000 random traces.
    let mut seed = 1_u64;
    let mut below = |n: u64| {
        // Knuth's MMIX generator; its upper half.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for trace in 0..2_000 {
        let (interval, limit) = (1 + below(20), below(60));
        let bucket = bucket(&format!("1/ns burst {}", interval + limit));
        let mut meter = LeakyBucket::default();
        let mut now = 0;
        for cell in 0..60 {
            now += below(2 * interval);
            assert_eq!(
                bucket
                    .at(Timestamp::from_nanos(now))
                    .try_acquire_n(interval)
                    .is_ok(),
                meter.conforms(now, interval, limit),
                "trace {trace}, GCRA({interval}, {limit}), cell {cell} at {now}"
            );
        }
    }
}

// nginx limit_req

/// Passed at once, delayed by so many milliseconds, or rejected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Pass,
    Delay(u64),
    Reject,
}

#[test]
fn c3_nginx_eight_at_once() {
    use Request::{Delay, Pass, Reject};
    // 10r/s burst=5: (as a token bucket, patience in intervals, answers).
    let delayed = [
        Pass,
        Delay(100),
        Delay(200),
        Delay(300),
        Delay(400),
        Delay(500),
        Reject,
        Reject,
    ];
    let two_stages = [
        Pass,
        Pass,
        Pass,
        Delay(100),
        Delay(200),
        Delay(300),
        Reject,
        Reject,
    ];
    let no_delay = [Pass, Pass, Pass, Pass, Pass, Pass, Reject, Reject];
    let table = [
        ("burst=5", "10/s burst 1", 5, delayed),
        ("burst=5 delay=2", "10/s burst 3", 3, two_stages),
        ("burst=5 nodelay", "10/s burst 6", 0, no_delay),
    ];
    for (nginx, quota, intervals, expected) in table {
        let patience = Duration::from_millis(100) * intervals;
        let bucket = bucket(quota);
        let got = expected.map(
            |_| match bucket.at(Timestamp::ORIGIN).reserve_within(patience) {
                Ok(told) if told.at() == Timestamp::ORIGIN => Pass,
                Ok(told) => Delay(told.at().as_nanos() / MS),
                Err(_) => Reject,
            },
        );
        assert_eq!(got, expected, "{nginx}");
    }
}

#[test]
fn c1_nginx_without_a_burst() {
    let bucket = bucket("10/s burst 1");
    let expected = [(0, T), (50, F), (99, F), (100, T), (101, F), (200, T)];
    for (ms, passes) in expected {
        let now = Timestamp::from_nanos(ms * MS);
        assert_eq!(bucket.at(now).try_acquire().is_ok(), passes, "at {ms} ms");
    }
}

#[test]
fn c8_nginx_rates_are_not_cut() {
    // Written, kept by nginx in thousandths per second, and so the nanoseconds that nginx and
    // flowgate leave between two. Differs in every row: flowgate keeps the fraction.
    let table = [
        (1, 16, 62_500_000_000_u64, 60_000_000_000_u64),
        (7, 116, 8_620_689_656, 8_571_428_572),
        (100, 1_666, 600_240_097, 600_000_000),
    ];
    for (per_minute, thousandths, theirs_ns, ours_ns) in table {
        assert_eq!((1_000 * SECOND).div_ceil(thousandths), theirs_ns);
        let bucket = bucket(&format!("{per_minute}/min burst 1"));
        let told = [0, 1].map(|_| bucket.at(Timestamp::ORIGIN).reserve().expect("one").at());
        assert_eq!(told, [0, ours_ns].map(Timestamp::from_nanos));
        assert_ne!(ours_ns, theirs_ns);
    }
}

// Two rate three color marker: PIR 2000, PBS 1500, CIR 1000, CBS 1000, in bytes and bytes per
// second

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Color {
    Green,
    Yellow,
    Red,
}

struct TwoRateMarker {
    peak: TokenBucket,
    committed: TokenBucket,
}

impl TwoRateMarker {
    /// The color of a packet of `bytes` that came with the color `before`; green where it came
    /// with none.
    fn mark(&self, now: Timestamp, bytes: u64, before: Color) -> Color {
        if before == Color::Red || self.peak.at(now).try_acquire_n(bytes).is_err() {
            Color::Red
        } else if before == Color::Yellow || self.committed.at(now).try_acquire_n(bytes).is_err() {
            Color::Yellow
        } else {
            Color::Green
        }
    }
}

#[test]
fn c1_c2_two_rate_three_color_marker() {
    use Color::{Green, Red, Yellow};
    let marker = TwoRateMarker {
        peak: bucket("2000B/s burst 1500B"),
        committed: bucket("1000B/s burst 1000B"),
    };
    // (at ms, bytes, color before, color after, (peak, committed) left; where the vector says them)
    let table = [
        (0, 600, Green, Green, Some((900, 400))),
        (0, 600, Green, Yellow, Some((300, 400))),
        (0, 400, Green, Red, None),
        (0, 300, Green, Green, Some((0, 100))),
        (250, 500, Green, Yellow, Some((0, 350))),
        (1_000, 900, Green, Green, Some((600, 100))),
        (1_000, 500, Yellow, Yellow, Some((100, 100))),
        (3_000, 500, Red, Red, Some((1_500, 1_000))),
        (3_000, 1_000, Green, Green, Some((500, 0))),
    ];
    for (ms, bytes, before, after, left) in table {
        let now = Timestamp::from_nanos(ms * MS);
        let held = || {
            let peak = marker.peak.at(now).available();
            (peak, marker.committed.at(now).available())
        };
        // What turns red takes nothing.
        let left = left.unwrap_or_else(held);
        assert_eq!(marker.mark(now, bytes, before), after, "{bytes} at {ms} ms");
        assert_eq!(held(), left, "after {bytes} at {ms} ms");
    }
}
