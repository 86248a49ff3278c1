//! What an adaptive limit does, whatever its algorithm.

use super::{
    Adapt, AdaptWindow, AdaptiveLimit, AdaptiveLimitBuilder, Aimd, CallOutcome, FineLimit, Gradient,
};
use crate::clock::{ManualClock, Timestamp};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Doubles the limit with every window.
#[derive(Clone, Debug)]
struct Doubling(FineLimit);

impl Adapt for Doubling {
    fn initial(&self) -> FineLimit {
        self.0
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        window.limit.times(2, 1)
    }
}

fn built<A: Adapt>(builder: AdaptiveLimitBuilder<A>) -> (AdaptiveLimit<A>, ManualClock) {
    let time = ManualClock::new();
    (builder.clock(&time).build().expect("valid settings"), time)
}

fn limit_of<A: Adapt>(algorithm: A) -> (AdaptiveLimit<A>, ManualClock) {
    built(AdaptiveLimit::builder(algorithm))
}

/// Runs `calls` calls, as many at a time as there are permits but at most `most`, each of which takes `took`.
fn run<A: Adapt>(
    (limit, time): &(AdaptiveLimit<A>, ManualClock),
    calls: usize,
    most: usize,
    took: Duration,
    outcome: CallOutcome,
) {
    let mut left = calls;
    while left > 0 {
        let permits: Vec<_> = (0..left.min(most))
            .map_while(|_| limit.try_acquire().ok())
            .collect();
        assert!(!permits.is_empty(), "no permit is free");
        left -= permits.len();
        time.advance(took);
        permits
            .into_iter()
            .for_each(|permit| permit.finish(outcome));
    }
}

#[test]
fn a_window_has_all_samples_since_the_last_one() {
    let subject = limit_of(Doubling(FineLimit::whole(5)));
    run(&subject, 60, 5, 10 * MS, CallOutcome::Success);
    // Over after 50 ms, but without 100 outcomes.
    assert_eq!(subject.0.inspect().windows, 0);
    run(&subject, 39, 5, 20 * MS, CallOutcome::Success);
    run(&subject, 1, 5, 20 * MS, CallOutcome::Overload);
    let seen = subject.0.inspect();
    let last = seen.last_window.expect("a window");
    assert_eq!((seen.windows, last.successes, last.overloads), (1, 99, 1));
    assert_eq!(seen.overloads, 1);
    assert_eq!(last.mean_latency_ns, (60 * 10 + 39 * 20) * 1_000_000 / 99);
    assert_eq!((last.max_in_flight, last.stride), (5, 1));
    assert_eq!(seen.limit, FineLimit::whole(10));
}

#[test]
fn a_window_is_at_least_twice_the_latency() {
    let subject = limit_of(Doubling(FineLimit::whole(100)));
    run(&subject, 100, 100, 400 * MS, CallOutcome::Success);
    assert_eq!(subject.0.inspect().windows, 1);
    run(&subject, 200, 200, 799 * MS, CallOutcome::Success);
    assert_eq!(subject.0.inspect().windows, 1);
    run(&subject, 1, 1, MS, CallOutcome::Success);
    assert_eq!(subject.0.inspect().windows, 2);
}

#[test]
fn short_windows_are_merged_and_without_that_nothing_is_learned() {
    // Two calls a second.
    let quiet = |builder: AdaptiveLimitBuilder<Doubling>| {
        let subject = built(builder);
        run(&subject, 150, 5, 500 * MS, CallOutcome::Success);
        subject.0.limit().permits()
    };
    let builder = AdaptiveLimit::builder(Doubling(FineLimit::whole(5)));
    assert_eq!(quiet(builder.clone()), 10);
    assert_eq!(quiet(builder.without_merging()), 5);
}

/// At one permit, the usual 100 outcomes would take 100 latencies.
#[test]
fn a_slow_start_needs_few_outcomes_of_a_small_limit() {
    let one = FineLimit::ONE;
    let gradient = Gradient::builder().initial(one).build();
    let algorithms: [Box<dyn Adapt>; 2] = [
        Box::new(gradient.expect("valid settings")),
        Box::new(Aimd::starting_at(one)),
    ];
    for algorithm in algorithms {
        let subject = limit_of(algorithm);
        run(&subject, 450, 450, 10 * MS, CallOutcome::Success);
        let permits = subject.0.limit().permits();
        assert!((64..=128).contains(&permits), "{permits}");
    }
}

#[test]
fn a_first_baseline_of_few_calls_is_corrected_by_the_next_windows() {
    let gradient = Gradient::builder().initial(FineLimit::ONE).build();
    let mut gradient = gradient.expect("valid settings");
    let mut baseline_us = |permits, calls, latency_us: u64| {
        let limit = FineLimit::whole(permits);
        let window = AdaptWindow::new(limit, 100_000_000, calls, latency_us * 1_000);
        gradient.on_window(Timestamp::ORIGIN, &window);
        gradient.report().baseline_ns.map(|ns| ns / 1_000)
    };
    // In the first window, short calls end first.
    assert_eq!(baseline_us(1, 10, 1_000), None);
    assert_eq!(baseline_us(1, 10, 5_000), Some(5_000));
    assert_eq!(baseline_us(2, 20, 11_000), Some(9_000));
    // Above the target, which is 2.2 times that, it may be a queue.
    assert_eq!(baseline_us(4, 40, 20_000), Some(9_000));
    assert_eq!(baseline_us(4, 80, 10_125), Some(9_818));
    // 110 calls are enough.
    assert_eq!(baseline_us(8, 100, 11_000), Some(9_818));
}

/// 400 workers: 512 calls take 1.28 times as long as 256.
#[test]
fn a_slow_start_does_not_double_a_limit_that_has_a_queue() {
    let gradient = Gradient::builder().initial(FineLimit::whole(256)).build();
    let mut gradient = gradient.expect("valid settings");
    let mut after = |limit: FineLimit, calls, latency_us: u64| {
        let window = AdaptWindow::new(limit, 50_000_000, calls, latency_us * 1_000);
        gradient.on_window(Timestamp::ORIGIN, &window)
    };
    let mut limit = FineLimit::whole(256);
    limit = after(limit, 1_200, 10_000);
    limit = after(limit, 1_200, 10_000);
    assert_eq!(limit, FineLimit::whole(512));
    limit = after(limit, 2_000, 12_800);
    limit = after(limit, 2_000, 12_800);
    assert!(limit < FineLimit::whole(256), "{limit:?}");
    for _ in 0..4 {
        limit = after(limit, 1_200, 10_000);
    }
    let permits = limit.permits();
    assert!((400..480).contains(&permits), "{permits}");
}

#[test]
fn an_unused_limit_does_not_grow_and_without_the_guard_it_does() {
    let idle = |builder: AdaptiveLimitBuilder<Doubling>| {
        let subject = built(builder);
        run(&subject, 2_000, 9, 10 * MS, CallOutcome::Success);
        subject.0.limit().permits()
    };
    let builder = AdaptiveLimit::builder(Doubling(FineLimit::whole(20)));
    assert_eq!(idle(builder.clone()), 20);
    assert_eq!(idle(builder.without_growth_guard()), 1_000);
}

/// Twenty calls that began before the first cut meet the same congestion.
#[test]
fn a_congestion_cuts_once_and_without_epochs_repeatedly() {
    let limit_after = |builder: AdaptiveLimitBuilder<Aimd>| {
        let subject = built(builder.min_outcomes(4));
        let (limit, time) = &subject;
        let permits: Vec<_> = (0..20).filter_map(|_| limit.try_acquire().ok()).collect();
        for permit in permits {
            time.advance(60 * MS);
            permit.finish(CallOutcome::Overload);
            run(&subject, 9, 9, MS, CallOutcome::Success);
        }
        limit.limit().permits()
    };
    let builder = AdaptiveLimit::builder(Aimd::starting_at(FineLimit::whole(200)));
    let after = limit_after(builder.clone());
    assert!(after >= 170, "{after}");
    let after = limit_after(builder.without_epochs());
    assert!(after < 40, "{after}");
}

#[test]
fn a_burst_of_overloads_within_a_window_is_one_cut() {
    let subject = limit_of(Aimd::starting_at(FineLimit::whole(200)));
    run(&subject, 180, 180, 10 * MS, CallOutcome::Success);
    run(&subject, 20, 20, 10 * MS, CallOutcome::Overload);
    run(&subject, 1, 1, 50 * MS, CallOutcome::Success);
    assert_eq!(subject.0.limit().permits(), 180);
}

#[test]
fn what_says_nothing_changes_nothing() {
    let algorithms: [Box<dyn Adapt>; 4] = [
        Box::new(Gradient::default()),
        Box::new(Aimd::default()),
        Box::new(super::Bdp::default()),
        Box::new(super::Vegas::default()),
    ];
    for algorithm in algorithms {
        let subject = limit_of(algorithm);
        run(&subject, 1_000, 20, 10 * MS, CallOutcome::Ignore);
        (0..1_000).for_each(|_| drop(subject.0.try_acquire()));
        assert_eq!(subject.0.inspect().windows, 0);
        // Two hours: a clock that jumped.
        run(&subject, 1_000, 20, 7_200_000 * MS, CallOutcome::Success);
        assert_eq!(subject.0.inspect().windows, 0);
        assert_eq!(subject.0.limit(), FineLimit::whole(20));
    }
}

#[test]
fn latencies_of_zero_and_clocks_that_run_backward_hold_a_latency_limit_still() {
    let algorithms: [Box<dyn Adapt>; 3] = [
        Box::new(Gradient::default()),
        Box::new(super::Bdp::default()),
        Box::new(super::Vegas::default()),
    ];
    for algorithm in algorithms {
        let subject = limit_of(algorithm);
        let (limit, time) = &subject;
        time.set(Timestamp::from_nanos(1_000_000_000));
        run(&subject, 1_000, 20, Duration::ZERO, CallOutcome::Success);
        assert!(limit.inspect().windows > 0);
        for _ in 0..1_000 {
            let permit = limit.try_acquire().expect("a permit");
            let now_ns = time.now().as_nanos();
            time.set(Timestamp::from_nanos(now_ns - 1_000));
            permit.finish(CallOutcome::Success);
        }
        assert_eq!(limit.limit(), FineLimit::whole(20));
    }
}

#[test]
fn bounds_hold_and_change_live() {
    let subject = limit_of(Doubling(FineLimit::whole(600)));
    let (limit, _) = &subject;
    run(&subject, 600, 600, 60 * MS, CallOutcome::Success);
    assert_eq!(limit.limit(), FineLimit::whole(1_000));
    let bounds = (FineLimit::whole(2), FineLimit::whole(7));
    limit.set_bounds(bounds.0, bounds.1).expect("in order");
    assert_eq!((limit.limit(), limit.available()), (FineLimit::whole(7), 7));
    let error = limit.set_bounds(bounds.1, bounds.0).unwrap_err();
    assert!(
        error.to_string().contains("131072 is out of range"),
        "{error}"
    );
    assert_eq!(limit.bounds(), bounds);
}

#[test]
fn settings_out_of_range_are_refused_with_value_and_range() {
    let refused = |builder: AdaptiveLimitBuilder<Aimd>| {
        let time = ManualClock::new();
        builder.clock(&time).build().unwrap_err().to_string()
    };
    let builder = || AdaptiveLimit::builder(Aimd::default());
    assert_eq!(
        refused(builder().shortest_window(Duration::ZERO)),
        "a shortest window in nanoseconds of 0 is out of range: 1 to 18446744073709551615",
    );
    assert_eq!(
        refused(builder().min_outcomes(0)),
        "a number of outcomes in a window of 0 is out of range: 1 to 1000000",
    );
    let error = Gradient::builder().max_healthy(Duration::ZERO).build();
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("of 0 is out of range")
    );
}

#[test]
fn below_one_permit_a_call_is_followed_by_a_rest() {
    let subject = built(
        AdaptiveLimit::builder(Doubling(FineLimit::one_in(4)))
            .bounds(FineLimit::one_in(10), FineLimit::one_in(4)),
    );
    let (limit, time) = &subject;
    for outcome in [
        CallOutcome::Success,
        CallOutcome::Ignore,
        CallOutcome::Overload,
    ] {
        let permit = limit.try_acquire().expect("a permit");
        assert!(limit.try_acquire().unwrap_err().is_busy());
        time.advance(10 * MS);
        permit.finish(outcome);
        time.advance(30 * MS - Duration::from_nanos(1));
        assert!(limit.try_acquire().unwrap_err().is_busy());
        time.advance(Duration::from_nanos(1));
        assert_eq!(limit.in_flight(), 0);
    }
    // Not for longer than 5 s.
    let permit = limit.try_acquire().expect("a permit");
    time.advance(10_000 * MS);
    permit.finish(CallOutcome::Success);
    time.advance(5_000 * MS);
    assert_eq!(limit.in_flight(), 0);
}

#[test]
fn a_permit_that_rests_is_not_lost_when_the_limit_grows() {
    let subject = built(
        AdaptiveLimit::builder(Doubling(FineLimit::one_in(4)))
            .bounds(FineLimit::one_in(4), FineLimit::one_in(4)),
    );
    let (limit, time) = &subject;
    let rests = || {
        let permit = limit.try_acquire().expect("a permit");
        time.advance(10 * MS);
        permit.finish(CallOutcome::Success);
        assert_eq!(limit.in_flight(), 1);
    };
    rests();
    limit
        .set_bounds(FineLimit::whole(2), FineLimit::whole(2))
        .expect("in order");
    let permit = limit.try_acquire().expect("the second one");
    limit
        .set_bounds(FineLimit::one_in(4), FineLimit::one_in(4))
        .expect("in order");
    // A second one begins to rest, and the first one comes back.
    time.advance(10 * MS);
    permit.finish(CallOutcome::Success);
    assert_eq!(limit.in_flight(), 1);
    time.advance(30 * MS);
    assert_eq!(limit.in_flight(), 0);
}

#[test]
fn a_waiter_gets_the_permit_that_growth_brings() {
    let subject = limit_of(Doubling(FineLimit::whole(20)));
    let (limit, time) = (Arc::new(subject.0), subject.1);
    let held: Vec<_> = (0..20)
        .map(|_| limit.try_acquire().expect("a permit"))
        .collect();
    let mut wait = Box::pin(limit.acquire_owned());
    let mut context = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    limit
        .set_bounds(FineLimit::whole(21), FineLimit::whole(30))
        .expect("in order");
    let Poll::Ready(Ok(permit)) = wait.as_mut().poll(&mut context) else {
        panic!("there is a permit for it");
    };
    assert_eq!((limit.in_flight(), permit.units()), (21, 1));
    drop((held, permit, time));
    assert_eq!(limit.in_flight(), 0);
}

#[test]
fn a_panic_of_the_algorithm_does_not_stop_the_windows() {
    struct Panics(u32);
    impl Adapt for Panics {
        fn initial(&self) -> FineLimit {
            FineLimit::whole(5)
        }

        fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
            self.0 += 1;
            assert!(self.0 > 1, "the first one");
            window.limit.plus(FineLimit::ONE.parts())
        }
    }
    let subject = limit_of(Panics(0));
    let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(&subject, 100, 5, 10 * MS, CallOutcome::Success);
    }));
    assert!(first.is_err());
    run(&subject, 100, 5, 10 * MS, CallOutcome::Success);
    assert_eq!(subject.0.limit(), FineLimit::whole(6));
}

#[test]
fn a_permit_with_an_outcome_allocates_nothing() {
    let subject = limit_of(Gradient::default());
    let (limit, time) = &subject;
    let asked = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            let permit = limit.try_acquire().expect("a permit");
            time.advance(MS);
            permit.finish(CallOutcome::Success);
        }
    });
    assert!(limit.inspect().windows > 5);
    assert_eq!(asked.count_total, 0);
}

#[test]
fn amounts_are_one_call() {
    let subject = limit_of(Doubling(FineLimit::whole(8)));
    let (limit, time) = &subject;
    assert!(limit.try_acquire_n(9).unwrap_err().is_never());
    let nothing = limit.try_acquire_n(0).expect("nothing is always free");
    let all = limit.try_acquire_n(8).expect("all are free");
    assert_eq!((all.units(), limit.available()), (8, 0));
    time.advance(MS);
    all.finish(CallOutcome::Success);
    nothing.finish(CallOutcome::Overload);
    assert_eq!(limit.available(), 8);
}

#[test]
fn a_slow_start_that_ended_by_a_low_baseline_goes_on_after_the_first_trial() {
    let mut gradient = Gradient::default();
    let mut limit = gradient.initial();
    // A service without a queue. In the first windows, short calls end and long ones do not.
    for number in 0..30 {
        let latency_ns = if number < 3 { 7_700_000 } else { 10_000_000 };
        let window = AdaptWindow::new(limit, 50_000_000, 400, latency_ns);
        limit = gradient.on_window(Timestamp::ORIGIN, &window);
    }
    assert!(limit.permits() > 10_000, "{limit:?}");
}

/// Windows of a service that takes `service_ms` and has `workers` workers. Returns the limit after them.
fn saturated(
    gradient: &mut Gradient,
    from: FineLimit,
    workers: u64,
    service_ms: u64,
    windows: u32,
) -> FineLimit {
    (0..windows).fold(from, |limit, _| {
        let queued = FineLimit::ONE.parts() * workers;
        let latency_ns = service_ms * 1_000_000 * limit.parts().max(queued) / queued;
        let window = AdaptWindow::new(limit, 50_000_000, 400, latency_ns);
        gradient.on_window(Timestamp::ORIGIN, &window)
    })
}

#[test]
fn a_first_baseline_of_a_queue_is_not_believed() {
    for workers in [1, 2, 4, 8] {
        let mut gradient = Gradient::default();
        let initial = gradient.initial();
        let limit = saturated(&mut gradient, initial, workers, 10, 60);
        assert_eq!(
            gradient.report().baseline_ns,
            Some(10_000_000),
            "{workers} workers"
        );
        assert!(
            limit.permits() <= 4 * workers as u32,
            "{workers} workers: {limit}"
        );
    }
}

#[test]
fn a_slow_start_in_a_long_queue_ends_within_twenty_windows() {
    for workers in [1, 2, 4, 8] {
        let mut gradient = Gradient::default();
        let initial = gradient.initial();
        saturated(&mut gradient, initial, workers, 10, 20);
        assert_eq!(
            gradient.report().baseline_ns,
            Some(10_000_000),
            "{workers} workers"
        );
    }
}

#[test]
fn a_limit_that_has_become_too_low_grows_to_four_times_within_twenty_windows() {
    let mut gradient = Gradient::default();
    let initial = gradient.initial();
    let low = saturated(&mut gradient, initial, 100, 10, 40);
    assert!((100..130).contains(&low.permits()), "{low}");
    let limit = saturated(&mut gradient, low, 400, 10, 20);
    assert!(limit.permits() >= 400, "{limit}");
}

#[test]
fn a_slower_service_is_distinguished_from_a_loss_of_workers() {
    for workers in [4, 20, 100] {
        let mut gradient = Gradient::default();
        let initial = gradient.initial();
        let before = saturated(&mut gradient, initial, workers, 10, 60);
        let mut slower = gradient;
        let limit = saturated(&mut slower, before, workers, 30, 60);
        assert_eq!(
            slower.report().baseline_ns,
            Some(30_000_000),
            "{workers} workers"
        );
        assert!(
            limit.permits() >= workers as u32,
            "{workers} workers: {limit}"
        );
        saturated(&mut gradient, before, workers / 4, 10, 60);
        let baseline_ns = gradient.report().baseline_ns.expect("a baseline");
        assert!(
            baseline_ns <= 11_000_000,
            "{workers} workers: {baseline_ns}"
        );
    }
}
