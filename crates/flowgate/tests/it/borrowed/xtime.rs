//! The test vectors of Go's `golang.org/x/time/rate`, for the token bucket.
//!
//! A table holds what x/time/rate answers. Where flowgate answers otherwise, the table's
//! `differs` list has the row's number, flowgate's answer, which is asserted, and the reason;
//! nowhere else may it.
//!
//! Left for later types: the `Wait` rows (a limiter that waits; here `reserve_within` stands in
//! for their deadlines) and the `Sometimes` rows (a sampler of calls). `Inf` and a limit of 0 are
//! not quotas.

use flowgate::{ManualClock, Quota, Reservation, Timestamp, TokenBucket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use Answer::{Allowed, At, Back, Done, Refused};
use Step::{Allow, Cancel, Reserve, ReserveWithin, SetBurst, SetLimit};

/// The d of x/time's tests: times are multiples of it.
const D_NS: i64 = 100_000_000;
/// The t0 of x/time's tests. There is time before it.
const T0_NS: i64 = 10_000_000_000;

/// t0 + `k` d.
fn t(k: i64) -> Timestamp {
    Timestamp::from_nanos(
        (T0_NS + k * D_NS)
            .try_into()
            .expect("not before the origin"),
    )
}

/// Times are in d after t0.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// At a time, an amount.
    Allow(i64, u64),
    /// At a time, an amount.
    Reserve(i64, u64),
    /// At a time, an amount, with this many d of patience.
    ReserveWithin(i64, u64, u32),
    /// At a time, the reservation that this row made.
    Cancel(i64, usize),
    /// At a time, a number per second.
    SetLimit(i64, u64),
    /// At a time, a burst.
    SetBurst(i64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// The tokens before the call, negative in debt, and whether it was allowed.
    Allowed(i64, bool),
    /// When the reservation may act.
    At(i64),
    Refused,
    /// How much a cancelled reservation gave back.
    Back(u64),
    Done,
}

struct Table {
    quota: &'static str,
    rows: &'static [(Step, Answer)],
    /// Row, flowgate's answer, reason.
    differs: &'static [(usize, Answer, &'static str)],
}

impl Table {
    fn check(&self) {
        let bucket = bucket(self.quota);
        let mut reservations: Vec<Option<Reservation<'_>>> = Vec::new();
        for (row, &(step, theirs)) in self.rows.iter().enumerate() {
            let differs = self.differs.iter().find(|differs| differs.0 == row);
            let (ours, why) = differs.map_or((theirs, "as x/time"), |&(_, ours, why)| (ours, why));
            assert!(differs.is_none() || ours != theirs, "row {row} is the same");

            let (got, reservation) = answer(&bucket, step, &mut reservations);
            assert_eq!(got, ours, "row {row}: {step:?}; {why}");
            reservations.push(reservation);
        }
        let rows = self.rows.len();
        assert!(self.differs.iter().all(|differs| differs.0 < rows));
    }
}

fn answer<'a>(
    bucket: &'a TokenBucket,
    step: Step,
    reservations: &mut [Option<Reservation<'a>>],
) -> (Answer, Option<Reservation<'a>>) {
    let reserved = |outcome: Result<Reservation<'a>, _>| match outcome {
        Ok(reservation) => {
            let after_ns = reservation.at().as_nanos() as i64 - T0_NS;
            assert_eq!(after_ns % D_NS, 0, "{step:?} is told a time between");
            (At(after_ns / D_NS), Some(reservation))
        }
        Err(_) => (Refused, None),
    };
    match step {
        Allow(at, n) => {
            let before = tokens(bucket, t(at));
            let allowed = bucket.at(t(at)).try_acquire_n(n).is_ok();
            (Allowed(before, allowed), None)
        }
        Reserve(at, n) => reserved(bucket.at(t(at)).reserve_n(n)),
        ReserveWithin(at, n, patience) => {
            let patience = Duration::from_nanos(D_NS as u64) * patience;
            reserved(bucket.at(t(at)).reserve_n_within(n, patience))
        }
        Cancel(at, row) => {
            let reservation = reservations[row].take().expect("a reservation");
            (Back(reservation.cancel_at(t(at))), None)
        }
        SetLimit(at, per_second) => {
            let burst = bucket.quota().max_burst();
            let quota = Quota::per_second(per_second).burst(burst);
            bucket.at(t(at)).set_quota(quota).unwrap();
            (Done, None)
        }
        SetBurst(at, burst) => {
            bucket
                .at(t(at))
                .set_quota(bucket.quota().burst(burst))
                .unwrap();
            (Done, None)
        }
    }
}

/// The whole tokens at `now`, negative in debt: what x/time calls `TokensAt`.
fn tokens(bucket: &TokenBucket, now: Timestamp) -> i64 {
    let seen = bucket.at(now).snapshot();
    let quota = bucket.quota();
    let missing = seen.reset_after.as_nanos() * u128::from(quota.count());
    let tokens = seen.limit as i64 - missing.div_ceil(quota.period().as_nanos()) as i64;
    assert_eq!(seen.remaining, tokens.max(0) as u64);
    tokens
}

fn bucket(quota: &str) -> TokenBucket {
    TokenBucket::builder(quota.parse().expect("a quota"))
        .clock(ManualClock::new())
        .build()
        .expect("a limiter")
}

const STALE: &str = "a stale `now` sees the tokens of its own instant, and going back to it adds \
                     none; x/time pays the time between twice";
const SHIFTED: &str = "what x/time paid twice before stays unpaid here";
const PROMISE: &str = "as much comes back as keeps burst + rate · t; x/time subtracts all that was \
                       reserved later";
const LATE: &str = "of what is cancelled after its time, the part that has not flowed in again by \
                    itself comes back";
const OVER: &str = "more than the burst would go at one instant";
const BEHIND: &str = "a faster rate helps newcomers once all who were told a time have had theirs";
const FOLLOWS: &str = "what came back above is used here";

#[test]
fn c1_c2_burst_of_one() {
    Table {
        quota: "10/s burst 1",
        rows: &[
            (Allow(0, 1), Allowed(1, true)),
            (Allow(0, 1), Allowed(0, false)),
            (Allow(0, 1), Allowed(0, false)),
            (Allow(1, 1), Allowed(1, true)),
            (Allow(1, 1), Allowed(0, false)),
            (Allow(1, 1), Allowed(0, false)),
            (Allow(2, 2), Allowed(1, false)),
            (Allow(2, 1), Allowed(1, true)),
            (Allow(2, 1), Allowed(0, false)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c1_c2_burst_of_three() {
    Table {
        quota: "10/s burst 3",
        rows: &[
            (Allow(0, 2), Allowed(3, true)),
            (Allow(0, 2), Allowed(1, false)),
            (Allow(0, 1), Allowed(1, true)),
            (Allow(0, 1), Allowed(0, false)),
            (Allow(1, 4), Allowed(1, false)),
            (Allow(2, 1), Allowed(2, true)),
            (Allow(3, 1), Allowed(2, true)),
            (Allow(4, 1), Allowed(2, true)),
            (Allow(4, 1), Allowed(1, true)),
            (Allow(4, 1), Allowed(0, false)),
            (Allow(4, 1), Allowed(0, false)),
            (Allow(9, 3), Allowed(3, true)),
            (Allow(9, 0), Allowed(0, true)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c4_jump_back() {
    Table {
        quota: "10/s burst 3",
        rows: &[
            (Allow(1, 1), Allowed(3, true)),
            (Allow(0, 1), Allowed(2, true)),
            (Allow(0, 1), Allowed(1, true)),
            (Allow(0, 1), Allowed(0, false)),
            (Allow(0, 1), Allowed(0, false)),
            // In x/time/rate the phantom token: the fourth of a burst of 3. Here the third.
            (Allow(1, 1), Allowed(1, true)),
            (Allow(1, 1), Allowed(0, false)),
            (Allow(1, 1), Allowed(0, false)),
            (Allow(2, 1), Allowed(1, true)),
            (Allow(2, 1), Allowed(0, false)),
            (Allow(2, 1), Allowed(0, false)),
        ],
        differs: &[(1, Allowed(1, true), STALE), (2, Allowed(0, false), STALE)],
    }
    .check();
}

#[test]
fn c4_a_thousand_jumps_back_admit_one() {
    // x/time/rate admits all 1000 at one instant (golang/go#56287).
    let bucket = bucket("10/s burst 1");
    let mut admitted = 0;
    for _ in 0..1_000 {
        admitted += u32::from(bucket.at(t(0)).try_acquire().is_ok());
        assert!(bucket.at(t(-1)).try_acquire_n(0).is_ok());
    }
    assert_eq!(admitted, 1);
}

#[test]
fn c3_reserve() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(2)),
            (Reserve(3, 2), At(4)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c3_mix_of_reserve_and_allow() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 3), Refused),
            (Reserve(0, 2), At(0)),
            (Allow(1, 2), Allowed(1, false)),
            (Reserve(1, 2), At(2)),
            (Allow(1, 1), Allowed(-1, false)),
            (Allow(3, 1), Allowed(1, true)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c3_reserve_within() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (ReserveWithin(0, 2, 1), At(0)),
            (ReserveWithin(0, 1, 1), At(1)),
            (ReserveWithin(0, 1, 1), Refused),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c4_reserve_after_a_jump_back() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(1, 2), At(1)),
            // x/time's own comment: "should violate Limit, Burst".
            (Reserve(0, 1), At(1)),
            (Reserve(2, 2), At(3)),
            (Reserve(0, 3), Refused),
            (Reserve(2, 1), At(4)),
            (ReserveWithin(0, 2, 1), Refused),
            (Reserve(2, 1), At(5)),
        ],
        differs: &[
            (1, At(2), STALE),
            (2, At(4), SHIFTED),
            (4, At(5), SHIFTED),
            (6, At(6), SHIFTED),
        ],
    }
    .check();
}

#[test]
fn c5_what_was_refused_leaves_nothing_to_cancel() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 3), Refused),
            (Reserve(0, 2), At(2)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c5_cancel_the_last() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(2)),
            (Cancel(1, 1), Back(2)),
            (Reserve(1, 2), At(2)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c5_cancel_too_late() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(2)),
            (Cancel(3, 1), Back(0)),
            (Reserve(3, 2), At(4)),
        ],
        differs: &[(2, Back(1), LATE), (3, At(3), FOLLOWS)],
    }
    .check();
}

#[test]
fn c5_cancel_the_last_but_one() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 1), At(1)),
            (Reserve(0, 1), At(2)),
            (Cancel(0, 1), Back(0)),
            (Reserve(0, 1), At(3)),
        ],
        // Two at t2 are the burst.
        differs: &[(3, Back(1), PROMISE), (4, At(2), FOLLOWS)],
    }
    .check();
}

#[test]
fn c5_cancel_two_of_which_one_comes_back() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(2)),
            (Reserve(0, 1), At(3)),
            (Cancel(2, 1), Back(1)),
            (Reserve(2, 2), At(4)),
        ],
        differs: &[],
    }
    .check();
}

#[test]
fn c5_cancel_several() {
    Table {
        quota: "10/s burst 4",
        rows: &[
            (Reserve(0, 4), At(0)),
            (Reserve(0, 3), At(3)),
            (Reserve(0, 1), At(4)),
            (Reserve(0, 1), At(5)),
            (Cancel(1, 3), Back(1)),
            (Cancel(1, 1), Back(2)),
            (Reserve(1, 3), At(5)),
        ],
        // 3 and 1 at t4 are the burst.
        differs: &[(5, Back(3), PROMISE), (6, At(4), FOLLOWS)],
    }
    .check();
}

#[test]
fn c5_cancel_before_many_small_ones() {
    // Not a vector of theirs, but what their rule gives: what is reserved later adds up to more.
    Table {
        quota: "10/s burst 4",
        rows: &[
            (Reserve(0, 4), At(0)),
            (Reserve(0, 3), At(3)),
            (Reserve(0, 1), At(4)),
            (Reserve(0, 1), At(5)),
            (Reserve(0, 1), At(6)),
            (Reserve(0, 1), At(7)),
            (Cancel(0, 1), Back(0)),
            (Reserve(0, 1), At(8)),
        ],
        differs: &[(6, Back(1), PROMISE), (7, At(7), FOLLOWS)],
    }
    .check();
}

#[test]
fn c4_c5_cancel_at_an_earlier_time() {
    Table {
        quota: "10/s burst 2",
        rows: &[
            (Reserve(1, 2), At(1)),
            (Reserve(1, 2), At(3)),
            (Reserve(1, 1), At(4)),
            (Cancel(0, 1), Back(1)),
            (Reserve(1, 2), At(4)),
        ],
        differs: &[(4, At(5), STALE)],
    }
    .check();
}

#[test]
fn c5_cancel_in_the_middle_keeps_exact_accounts() {
    // golang/go#56924: 20 − 15 + 3 − 2 = 6 are left when the 10 were never used. x/time/rate
    // leaves 4.
    Table {
        quota: "10/s burst 20",
        rows: &[
            (Reserve(0, 15), At(0)),
            (Reserve(1, 10), At(5)),
            (Reserve(2, 2), At(7)),
            (Cancel(3, 1), Back(8)),
            (Allow(3, 0), Allowed(4, true)),
        ],
        differs: &[(3, Back(10), PROMISE), (4, Allowed(6, true), FOLLOWS)],
    }
    .check();
}

#[test]
fn c5_cancel_a_nanosecond_later_restores_all() {
    // x/time/rate restores nothing once the time to act has passed.
    let bucket = bucket("10/s burst 5");
    let reservation = bucket.at(t(0)).reserve().expect("5 are there");
    let later = t(0) + Duration::from_nanos(1);
    assert_eq!(reservation.cancel_at(later), 1);
    assert_eq!(bucket.at(later).snapshot().reset_after, Duration::ZERO);
}

#[test]
fn c1_set_limit() {
    Table {
        quota: "5/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(4)),
            (SetLimit(2, 10), Done),
            (Reserve(2, 1), At(4)),
        ],
        // Two are told t4, and with this one three would go then, with a burst of 2.
        differs: &[(3, At(5), OVER)],
    }
    .check();
}

#[test]
fn c4_set_burst_and_jump_back() {
    Table {
        quota: "5/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(4)),
            (SetBurst(3, 4), Done),
            (Reserve(0, 4), At(9)),
        ],
        // The debt at t3 is half a token, which with 4 more takes until t12.
        differs: &[(3, At(12), STALE)],
    }
    .check();
}

#[test]
fn c5_set_limit_and_cancel() {
    Table {
        quota: "5/s burst 2",
        rows: &[
            (Reserve(0, 2), At(0)),
            (Reserve(0, 2), At(4)),
            (SetLimit(2, 10), Done),
            (Cancel(2, 1), Back(2)),
            (Reserve(2, 2), At(3)),
        ],
        // When the rate rose, newcomers were put behind the two that were told t4; there they stay.
        differs: &[(4, At(4), BEHIND)],
    }
    .check();
}

#[test]
fn c8_every() {
    // `Every(d)` is one per d, which flowgate keeps as written and x/time/rate as a
    // floating-point limit.
    let ns_and_limit = [
        (1, "1000000000/s"),
        (1_000, "1000000/s"),
        (1_000_000, "1000/s"),
        (10_000_000, "100/s"),
        (100_000_000, "10/s"),
        (1_000_000_000, "1/s"),
        (2_000_000_000, "0.5/s"),
        (2_500_000_000, "0.4/s"),
        (4_000_000_000, "0.25/s"),
        (10_000_000_000, "0.1/s"),
    ];
    for (every_ns, limit) in ns_and_limit {
        let spacing = Quota::spacing(Duration::from_nanos(every_ns)).expect("a spacing");
        let limit: Quota = limit.parse().expect("a limit");
        for k in [0, 1, 2, 3, 1_000_000_007] {
            assert_eq!(spacing.offset_of(k), limit.offset_of(k), "{limit}, {k}");
            let due = Duration::from_nanos(every_ns).as_nanos() * u128::from(k);
            assert_eq!(spacing.offset_of(k).map(|d| d.as_nanos()), Some(due));
        }
    }
    let longest = Duration::from_nanos(i64::MAX as u64);
    let bucket = TokenBucket::new(Quota::spacing(longest).expect("the longest spacing"));
    let told = [0, 1].map(|_| bucket.at(Timestamp::ORIGIN).reserve().expect("one").at());
    assert_eq!(told, [0, i64::MAX as u64].map(Timestamp::from_nanos));
    // `Every(0)`, and of less, is Inf there; that is no limiter, so here it is an error.
    assert!(Quota::spacing(Duration::ZERO).is_err());
}

/// Limits at which x/time/rate admits the first of two at once and refuses the second.
struct Odd {
    limit: &'static str,
    /// Differs: what flowgate says instead of taking the limit, and the nearest that it takes.
    differs: Option<(&'static str, &'static str)>,
}

#[test]
fn c8_odd_limits() {
    let table = [
        // 1/1.3, which a decimal of any length misses, and this one by more digits than are kept
        // exactly.
        Odd {
            limit: "0.7692307692307693/s burst 1",
            differs: Some(("at \"0.7692307692307693", "10/13s burst 1")),
        },
        Odd {
            limit: "0.76923077/s burst 1",
            differs: None,
        },
        Odd {
            limit: "0.0000000001/s burst 1",
            differs: Some(("too slow", "1/292y burst 1")),
        },
        Odd {
            limit: "0.000000001/s burst 1",
            differs: None,
        },
        // There the burst, once and for all.
        Odd {
            limit: "0/s burst 1",
            differs: Some(("a count of 0 admits nothing", "1/292y burst 1")),
        },
    ];
    for Odd { limit, differs } in table {
        let limit = differs.map_or(limit, |(says, instead)| {
            let error = limit.parse::<Quota>().expect_err(limit).to_string();
            assert!(error.contains(says), "{error}");
            instead
        });
        let bucket = bucket(limit);
        let two = [1, 2].map(|_| bucket.at(t(0)).try_acquire().is_ok());
        assert_eq!(two, [true, false], "{limit}");
    }
    // Inf, which x/time/rate never refuses whatever the burst, is no limit and so no quota.
    assert!("inf/s burst 0".parse::<Quota>().is_err());
}

#[test]
fn c1_fifteen_threads_share_a_burst_of_five() {
    for _ in 0..50 {
        let bucket = bucket("1/s burst 5");
        let (admitted, start) = (AtomicU64::new(0), Barrier::new(15));
        std::thread::scope(|threads| {
            for _ in 0..15 {
                threads.spawn(|| {
                    start.wait();
                    let ok = bucket.at(t(0)).try_acquire().is_ok();
                    admitted.fetch_add(u64::from(ok), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(admitted.into_inner(), 5);
    }
}

#[test]
fn c8_long_running_totals_are_the_ideal() {
    // x/time/rate allows itself 0.1 % below and 1 above; in virtual time there is nothing to
    // allow for.
    let bucket = bucket("100/s burst 100");
    let mut admitted = 0;
    for poll in 0..2_500_u64 {
        let now = t(0) + Duration::from_millis(2 * poll);
        admitted += u64::from(bucket.at(now).try_acquire().is_ok());
    }
    assert_eq!(admitted, 100 + 4_998 / 10);
}

#[test]
fn c1_two_thousand_refused_after_a_look_leave_no_debt() {
    // Reserving, looking at the delay and cancelling left x/time/rate up to 282 tokens below zero.
    let bucket = bucket("1/s burst 5");
    let admitted = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..250 {
                    let now = bucket.at(t(0)).reserve_within(Duration::ZERO);
                    admitted.fetch_add(u64::from(now.is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 5);
    assert_eq!(tokens(&bucket, t(0)), 0);
}
