//! Leases: what is spent of them, until when, by whom, and what their filler is told.

use crate::effort::number;
use flowgate::{
    ConcurrencyLimit, Gate, LeaseUse, Leased, Limiter, ManualClock, Observed, Timestamp,
};
use flowgate_testkit::task::Task;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
/// The resolution of the ends of leases.
const TICK_NS: u64 = 65_536;

fn leased(time: &ManualClock, limit: u64) -> Leased {
    let builder = Leased::builder(limit).clock(time);
    builder.build().expect("in range")
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// The instant `ticks` ticks after the origin.
fn tick(ticks: u64) -> Timestamp {
    at(ticks * TICK_NS)
}

#[derive(Default)]
struct Calls(AtomicU64);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Calls {
    fn new() -> (Arc<Self>, Waker) {
        let calls = Arc::new(Self::default());
        (Arc::clone(&calls), Waker::from(calls))
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn c1_nothing_is_admitted_at_the_end_of_a_lease_or_after_it() {
    for until in [tick(7), at(7 * TICK_NS + 1), at(8 * TICK_NS - 1)] {
        let time = ManualClock::new();
        let limiter = leased(&time, 100);
        assert_eq!(limiter.filler().grant(10, until), 10);
        time.set(at(7 * TICK_NS - 1));
        limiter.try_acquire().expect("before the end");
        time.set(tick(7));
        assert!(limiter.try_acquire().is_err(), "until {until:?}");
        assert_eq!((limiter.available(), limiter.take_up_to(9)), (0, 0));
    }
}

#[test]
fn c1_an_answer_after_the_end_gives_nothing() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    time.set(tick(7));
    assert_eq!(limiter.filler().grant(10, tick(7)), 0);
    assert!(limiter.try_acquire().is_err());
    assert_eq!(limiter.filler().take_use().unspent, 10);
}

#[test]
fn c1_c2_each_lease_keeps_its_own_end_and_a_request_can_take_of_both() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(5, tick(10));
    limiter.filler().grant(7, tick(20));
    limiter
        .try_acquire_n(6)
        .expect("5 of the one, 1 of the other");
    assert_eq!(limiter.available(), 6);
    time.set(tick(10));
    limiter.try_acquire_n(6).expect("the other has not ended");
    assert!(limiter.try_acquire().is_err());

    limiter.filler().grant(5, tick(30));
    limiter.filler().grant(7, tick(40));
    time.set(tick(30));
    assert!(limiter.try_acquire_n(8).is_err(), "5 of the 12 have ended");
    limiter.try_acquire_n(7).expect("7 have not");
}

#[test]
fn c4_a_lease_that_was_found_ended_stays_ended_when_the_clock_runs_backward() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(10, tick(10));
    time.set(tick(11));
    assert!(limiter.try_acquire().is_err());
    time.set(tick(2));
    assert!(limiter.try_acquire().is_err());
    limiter.filler().grant(3, tick(10));
    assert_eq!(limiter.take_up_to(100), 3);
}

/// From every instant on, no more is admitted than the leases have that end later.
#[test]
fn c1_c4_no_clock_makes_more_of_the_leases_than_they_have() {
    let mut random = fastrand::Rng::with_seed(number("FLOWGATE_SEED", 1));
    for _ in 0..number("FLOWGATE_OPS", 100_000) / 200 {
        let time = ManualClock::new();
        let limiter = leased(&time, 50);
        let (mut granted, mut admitted) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let now_ns = match random.u32(0..20) {
                0 => random.u64(..) >> random.u32(0..64),
                1..=4 => time
                    .now()
                    .as_nanos()
                    .saturating_sub(random.u64(0..5 * TICK_NS)),
                _ => time
                    .now()
                    .as_nanos()
                    .saturating_add(random.u64(0..3 * TICK_NS)),
            };
            time.set(at(now_ns));
            match random.u32(0..8) {
                0 | 1 => {
                    let until = at(now_ns.saturating_add(random.u64(0..9 * TICK_NS)));
                    granted.push((limiter.filler().grant(random.u64(0..9), until), until));
                }
                2 => admitted.push((now_ns, limiter.take_up_to(random.u64(0..9)))),
                _ => {
                    let n = random.u64(0..6);
                    let is_admitted = limiter.try_acquire_n(n).is_ok();
                    admitted.push((now_ns, if is_admitted { n } else { 0 }));
                }
            }
        }
        for &(from_ns, _) in &admitted {
            let later = admitted.iter().filter(|(at_ns, _)| *at_ns >= from_ns);
            let open = granted
                .iter()
                .filter(|(_, until)| until.as_nanos() > from_ns);
            let (later, open): (u64, u64) =
                (later.map(|(_, n)| n).sum(), open.map(|(n, _)| n).sum());
            assert!(later <= open, "{later} of {open} from {from_ns} on");
        }
    }
}

/// With a clock that runs forward, exactly what the two leases have is admitted.
#[test]
fn c2_what_the_leases_have_is_admitted() {
    let mut random = fastrand::Rng::with_seed(number("FLOWGATE_SEED", 2));
    for _ in 0..number("FLOWGATE_OPS", 100_000) / 200 {
        let time = ManualClock::new();
        let limiter = leased(&time, 50);
        let mut leases: Vec<(u64, u64)> = Vec::new();
        for _ in 0..200 {
            time.advance(Duration::from_nanos(random.u64(0..TICK_NS)));
            let now_ns = time.now().as_nanos();
            leases.retain(|&(units, until_ns)| units > 0 && until_ns > now_ns);
            if leases.len() < 2 && random.bool() {
                let until_ns = (now_ns + random.u64(0..9 * TICK_NS)) / TICK_NS * TICK_NS;
                let units = random.u64(1..9);
                let is_open = until_ns > now_ns;
                assert_eq!(
                    limiter.filler().grant(units, at(until_ns)),
                    if is_open { units } else { 0 }
                );
                leases.extend(is_open.then_some((units, until_ns)));
            }
            let left: u64 = leases.iter().map(|(units, _)| units).sum();
            let held = limiter.filler().held();
            assert_eq!((limiter.available(), held.units), (left, left));
            let last_ns = leases
                .iter()
                .map(|&(units, until_ns)| if units > 0 { until_ns } else { 0 })
                .max();
            assert_eq!(held.until.as_nanos(), last_ns.unwrap_or(now_ns).max(now_ns));
            let n = random.u64(0..9);
            assert_eq!(limiter.peek_n(n).is_ok(), n <= left);
            assert_eq!(
                limiter.try_acquire_n(n).is_ok(),
                n <= left,
                "{n} of {leases:?}"
            );
            let mut rest = if n <= left { n } else { 0 };
            for (units, _) in &mut leases {
                let spent = rest.min(*units);
                (*units, rest) = (*units - spent, rest - spent);
            }
        }
    }
}

#[test]
fn c4_leases_work_at_every_time_of_a_clock() {
    for begin_ns in [
        0,
        1 << 57,
        (1 << 58) - 1,
        1 << 58,
        1 << 60,
        u64::MAX - 9 * TICK_NS,
    ] {
        let time = ManualClock::new();
        let limiter = leased(&time, 100);
        time.set(at(begin_ns));
        limiter.filler().grant(4, at(begin_ns + 3 * TICK_NS));
        limiter.filler().grant(4, at(begin_ns + 6 * TICK_NS));
        limiter.try_acquire_n(3).expect("of the first");
        time.set(at(begin_ns + 3 * TICK_NS));
        assert_eq!(limiter.available(), 4, "from {begin_ns}");
        limiter.try_acquire_n(4).expect("of the second");
        assert!(limiter.try_acquire().is_err());
    }
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(4, Timestamp::MAX);
    limiter.try_acquire().expect("before the end of time");
    time.set(Timestamp::MAX);
    assert!(limiter.try_acquire().is_err());
}

#[test]
fn a_third_lease_takes_the_place_of_the_smaller_one() {
    for (first, second, left) in [(5, 3, 5 + 9), (3, 5, 5 + 9), (4, 4, 4 + 9)] {
        let time = ManualClock::new();
        let limiter = leased(&time, 100);
        for units in [first, second, 9] {
            limiter.filler().grant(units, tick(10));
        }
        assert_eq!(limiter.available(), left);
        assert_eq!(limiter.filler().take_use().unspent, first.min(second));
        assert_eq!(limiter.take_up_to(100), left);
    }
}

#[test]
fn c2_a_request_above_the_limit_is_never_granted() {
    let limiter = leased(&ManualClock::new(), 10);
    let denied = limiter.try_acquire_n(11).unwrap_err();
    assert!(denied.is_never());
    assert!(limiter.at(at(5)).peek_n(u64::MAX).unwrap_err().is_never());
    assert_eq!(limiter.filler().take_use(), LeaseUse::default());
    limiter.filler().grant(20, tick(10));
    assert_eq!(limiter.snapshot().remaining, 10);
    assert_eq!(limiter.snapshot().reset_after, Duration::ZERO);
}

#[test]
fn c2_another_limit_holds_for_requests_and_waiters_from_then_on() {
    let time = ManualClock::new();
    let limiter = leased(&time, 10);
    limiter.filler().grant(8, tick(10));
    let mut wait = Task::start(limiter.acquire().n(9));
    let mut small = Task::start(limiter.acquire().n(5));
    limiter.filler().set_limit(5).expect("in range");
    assert!(wait.run() && small.run(), "one can never be granted");
    assert!(wait.denied().expect("an answer").is_never());
    assert!(small.granted().is_some());
    assert!(limiter.try_acquire_n(6).unwrap_err().is_never());
    limiter.filler().set_limit(20).expect("in range");
    limiter.filler().grant(20, tick(10));
    assert!(limiter.try_acquire_n(20).is_ok());
    assert!(limiter.filler().set_limit(1 << 22).is_err());
    assert_eq!(limiter.snapshot().limit, 20);
}

#[test]
fn c5_a_refund_goes_back_into_the_current_lease_and_no_further() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    assert_eq!(limiter.refund(1), 0, "nothing was granted");
    limiter.filler().grant(10, tick(10));
    limiter.try_acquire_n(4).expect("of 10");
    assert_eq!(limiter.refund(3), 3);
    assert_eq!(limiter.refund(3), 1, "4 were taken");
    assert_eq!(limiter.available(), 10);

    limiter.try_acquire_n(10).expect("of 10");
    limiter.filler().grant(10, tick(20));
    limiter.try_acquire_n(2).expect("of the next 10");
    assert_eq!(limiter.refund(5), 2, "2 were taken of this lease");
    limiter.try_acquire_n(2).expect("of the same 10");
    time.set(tick(20));
    assert_eq!(limiter.refund(5), 0, "the lease has ended");
}

#[test]
fn c5_a_refund_of_what_a_request_took_of_two_leases_is_of_the_second() {
    let limiter = leased(&ManualClock::new(), 100);
    limiter.filler().grant(4, tick(10));
    limiter.filler().grant(10, tick(20));
    limiter.try_acquire_n(7).expect("of 14");
    assert_eq!(limiter.refund(7), 3);
    assert_eq!(limiter.available(), 10);
}

#[test]
fn c3_a_refusal_states_the_wait_of_the_authority() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    let wait = |limiter: &Leased| limiter.try_acquire().unwrap_err().retry_after();
    assert_eq!(wait(&limiter), Some(MS), "it has not been asked yet");
    limiter.filler().deny_until(time.now() + 30 * MS);
    assert_eq!(wait(&limiter), Some(30 * MS));
    time.advance(29 * MS);
    assert_eq!(wait(&limiter), Some(MS));
    time.advance(MS);
    assert_eq!(wait(&limiter), Some(MS), "it is asked again");

    limiter.filler().cut_off();
    assert!(limiter.try_acquire().unwrap_err().is_outage());
    assert_eq!(wait(&limiter), None);
    limiter.filler().grant(1, time.now() + 30 * MS);
    limiter.try_acquire().expect("it has answered");
    assert_eq!(wait(&limiter), Some(MS));
    limiter.filler().deny_until(Timestamp::MAX);
    assert!(!limiter.try_acquire().unwrap_err().is_outage());
}

#[test]
fn what_is_held_is_spent_when_cut_off_or_denied() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(2, tick(10));
    limiter.filler().cut_off();
    limiter.try_acquire().expect("held");
    limiter.filler().deny_until(tick(5));
    limiter.try_acquire().expect("held");
    assert!(limiter.try_acquire().is_err());
}

#[test]
fn c6_waiters_are_served_in_order_as_leases_arrive() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    let mut waits = [3, 1, 1].map(|n| Task::start(limiter.acquire().n(n)));
    assert!(waits.iter().all(Task::is_waiting));
    limiter.filler().grant(2, time.now() + 50 * MS);
    assert!(limiter.try_acquire().is_err(), "waiters come first");
    assert!(waits.iter_mut().all(|wait| !wait.run()));
    time.advance(MS);
    limiter.filler().grant(2, time.now() + 50 * MS);
    assert_eq!(waits.each_mut().map(Task::run), [true, true, false]);
    assert_eq!(waits[0].granted_ns(), Some(1_000_000));
    time.advance(MS);
    limiter.filler().grant(5, time.now() + 50 * MS);
    assert!(waits[2].run());
    limiter.try_acquire_n(4).expect("no waiter is left");
}

#[test]
fn c3_waiters_wait_out_a_refusal_and_leave_when_cut_off() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().deny_until(time.now() + 30 * MS);
    let hasty = Task::start(limiter.acquire().within(29 * MS));
    assert_eq!(
        hasty.denied().and_then(|denied| denied.retry_after()),
        Some(MS)
    );
    let mut wait = Task::start(limiter.acquire());
    time.advance(40 * MS);
    assert!(!wait.run(), "no lease has come");
    limiter.filler().cut_off();
    assert!(wait.run());
    assert!(wait.denied().is_some_and(|denied| denied.is_outage()));
    let late = Task::start(limiter.acquire());
    assert!(late.denied().is_some_and(|denied| denied.is_outage()));
}

#[test]
fn c5_a_wait_that_is_dropped_unseen_returns_its_units_before_the_lease_ends() {
    for (passes, is_replaced, left) in [(MS, false, 5), (50 * MS, false, 0), (MS, true, 4)] {
        let time = ManualClock::new();
        let limiter = leased(&time, 100);
        let wait = Task::start(limiter.acquire().n(3));
        limiter.filler().grant(5, time.now() + 40 * MS);
        assert!(wait.was_woken());
        time.advance(passes);
        if is_replaced {
            limiter.try_acquire_n(2).expect("of 5");
            limiter.filler().grant(7, time.now() + 40 * MS);
            time.advance(MS);
            limiter.try_acquire_n(3).expect("of 7");
        }
        drop(wait);
        assert_eq!(limiter.available(), left);
    }
}

#[test]
fn c6_a_waiter_that_gives_up_lets_the_next_one_through() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    let large = Task::start(limiter.acquire().n(10));
    let mut small = Task::start(limiter.acquire().n(2));
    limiter.filler().grant(5, time.now() + 40 * MS);
    assert!(!small.run());
    drop(large);
    assert!(small.run());
    assert_eq!(limiter.available(), 3);
}

/// A grant may have an earlier timestamp than its decision, but no lease is spent after its end because of that.
#[test]
fn c1_a_request_as_of_an_earlier_time_does_not_spend_an_ended_lease() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(5, tick(10));
    time.set(tick(10));
    let mut wait = Task::start(limiter.acquire().since(at(0)));
    assert!(wait.is_waiting());
    limiter.filler().grant(1, tick(30));
    assert!(wait.run());
    assert_eq!(limiter.available(), 0);
}

#[test]
fn the_filler_is_woken_at_the_low_water_mark_once() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(10, tick(10));
    let (calls, waker) = Calls::new();
    limiter.filler().wake_below(4, &waker);
    limiter.try_acquire_n(6).expect("of 10");
    assert_eq!(calls.count(), 0, "4 are left");
    limiter.try_acquire().expect("of 4");
    assert_eq!(calls.count(), 1);
    limiter.try_acquire_n(3).expect("of 3");
    assert!(limiter.try_acquire().is_err());
    assert_eq!(calls.count(), 1, "once");

    let (calls, waker) = Calls::new();
    limiter.filler().wake_below(0, &waker);
    assert_eq!(calls.count(), 1, "a request was refused before");
    limiter.filler().take_use();
    limiter.filler().wake_below(0, &waker);
    assert_eq!(calls.count(), 1);
    assert_eq!(limiter.take_up_to(1), 0);
    assert_eq!(calls.count(), 2);
}

#[test]
fn the_low_water_mark_is_of_both_leases() {
    let limiter = leased(&ManualClock::new(), 100);
    let (calls, waker) = Calls::new();
    limiter.filler().grant(10, tick(10));
    limiter.filler().wake_below(8, &waker);
    limiter.filler().grant(10, tick(10));
    assert_eq!(limiter.take_up_to(10), 10);
    assert_eq!(limiter.take_up_to(2), 2);
    assert_eq!(calls.count(), 0, "8 are left");
    limiter.try_acquire().expect("of 8");
    assert_eq!(calls.count(), 1);
}

#[test]
fn the_filler_is_woken_for_waiters_and_by_them() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    let (calls, waker) = Calls::new();
    limiter.filler().wake_below(0, &waker);
    let wait = Task::start(limiter.acquire());
    assert_eq!(calls.count(), 1, "it was refused before it waited");
    limiter.filler().take_use();
    limiter.filler().wake_below(0, &waker);
    assert_eq!(calls.count(), 2, "it waits");
    drop(wait);
}

#[test]
fn the_filler_learns_what_was_admitted_refused_and_lost() {
    let time = ManualClock::new();
    let limiter = leased(&time, 100);
    limiter.filler().grant(10, tick(10));
    limiter.filler().grant(10, tick(20));
    limiter.try_acquire_n(12).expect("of 20");
    assert_eq!(limiter.refund(1), 1);
    assert!(limiter.try_acquire_n(10).is_err());
    assert_eq!(limiter.take_up_to(4), 4);
    let used = limiter.filler().take_use();
    let expected = LeaseUse {
        admitted: 15,
        refused: 10,
        largest: 10,
        unspent: 0,
    };
    assert_eq!(used, expected);
    assert_eq!(limiter.refund(2), 2);
    assert_eq!(limiter.filler().take_use(), LeaseUse::default());
    limiter.try_acquire_n(5).expect("of 7");
    assert_eq!(
        limiter.filler().take_use().admitted,
        3,
        "2 were told before"
    );
    time.set(tick(20));
    assert!(limiter.try_acquire().is_err());
    let used = limiter.filler().take_use();
    assert_eq!((used.admitted, used.unspent), (0, 2));
}

#[test]
fn a_gate_takes_of_a_lease_and_waits_for_one() {
    let time = ManualClock::new();
    let limiter = Arc::new(leased(&time, 100));
    let gate = Gate::builder()
        .limit("fleet", Arc::clone(&limiter))
        .limit(
            "slots",
            ConcurrencyLimit::builder(2)
                .clock(&time)
                .build()
                .expect("in range"),
        )
        .build()
        .expect("two limits");
    let denied = gate.try_acquire().unwrap_err();
    assert_eq!(gate.name_of(&denied), Some("fleet"));
    let mut wait = Task::start(gate.acquire());
    limiter.filler().grant(2, time.now() + 50 * MS);
    time.advance(MS);
    assert!(wait.run(), "it asks again after a millisecond");
    drop(gate.try_acquire().expect("the second unit"));
    limiter.filler().cut_off();
    assert!(gate.try_acquire().unwrap_err().is_outage());
}

#[test]
fn an_observed_limiter_counts_its_decisions() {
    let time = ManualClock::new();
    let limiter = Observed::new(leased(&time, 100));
    limiter.get_ref().filler().grant(2, tick(10));
    let limiter: &dyn Limiter = &limiter;
    limiter.try_acquire().expect("of 2");
    assert!(limiter.try_acquire_n(2).is_err());
    assert_eq!(limiter.refund(1), 1);
    assert!(limiter.policy().is_none());
}

/// Threads spend what another one supplies: each unit is spent once, or lost, or left.
#[test]
fn c1_threads_spend_what_was_granted() {
    let limiter = Leased::new(1_000).expect("in range");
    let left = AtomicU64::new(4);
    let (granted, admitted) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for n in [1, 1, 3, 7] {
            let (limiter, left, admitted) = (&limiter, &left, &admitted);
            threads.spawn(move || {
                for _ in 0..50_000 {
                    let taken = if limiter.try_acquire_n(n).is_ok() {
                        n
                    } else {
                        0
                    };
                    admitted.fetch_add(taken, Ordering::Relaxed);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while left.load(Ordering::Relaxed) > 0 {
            let until = limiter.clock().now() + Duration::from_micros(200);
            limiter.filler().grant(40, until);
            granted.fetch_add(40, Ordering::Relaxed);
        }
    });
    let held = limiter.filler().held().units;
    let used = limiter.filler().take_use();
    let (granted, admitted) = (granted.into_inner(), admitted.into_inner());
    assert_eq!(used.admitted, admitted);
    assert!(admitted + used.unspent + held <= granted);
}
