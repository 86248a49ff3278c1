//! What limiters say of themselves, and what can be given back and taken through any of them.

use flowgate::{
    ConcurrencyLimit, DecayingBucket, DualTokenBucket, FixedWindow, Gate, LeakyBucket, Limiter,
    LimiterConfig, ManualClock, Observed, Quota, Quotas, Refill, SlidingWindow, Timestamp,
    TokenBucket, Unlimited,
};
use flowgate_testkit::task::Task;
use std::time::Duration;

/// 3 per 7 s: an interval of 2.33 s, which is no whole number of nanoseconds.
fn quota() -> Quota {
    let quota = Quota::new(3, Duration::from_secs(7)).expect("a quota");
    quota.burst(5)
}

#[test]
fn c3_a_steady_limiter_has_one_token_more_in_each_interval() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota()).clock(&time).build();
    let leaky = LeakyBucket::builder(quota()).clock(&time).build();
    let steady: [Box<dyn Limiter>; 2] = [
        Box::new(bucket.expect("a bucket")),
        Box::new(leaky.expect("a bucket")),
    ];
    let interval = Duration::from_nanos(7_000_000_000u64.div_ceil(3));
    for limiter in steady {
        assert!(limiter.policy().is_some_and(|policy| policy.is_steady));
        assert_eq!(limiter.policy().map(|policy| policy.quota), Some(quota()));
        limiter.try_acquire_n(4).expect("there are 5");
        for pause_ns in [0, 1, 333_333_333, 1_000_000_000, 999_999_999] {
            time.advance(Duration::from_nanos(pause_ns));
            let left = limiter.available();
            let later = limiter.clock().now().as_nanos() + interval.as_nanos() as u64;
            let more = limiter.peek_n_at(Timestamp::from_nanos(later), left + 1);
            assert_eq!(more, Ok(()), "{limiter:?} after {pause_ns} ns");
        }
    }
}

#[test]
fn what_comes_in_lots_is_not_steady() {
    let lots = TokenBucket::builder(quota())
        .refill(Refill::Interval)
        .build();
    let window = FixedWindow::new("3/s".parse().expect("a quota"));
    let limiters: [Box<dyn Limiter>; 2] = [
        Box::new(lots.expect("a bucket")),
        Box::new(window.expect("a window")),
    ];
    for limiter in limiters {
        assert!(limiter.policy().is_some_and(|policy| !policy.is_steady));
    }
    let decaying = DecayingBucket::new(10, Duration::from_secs(1)).expect("a bucket");
    assert_eq!(decaying.policy(), None);
    assert_eq!(Unlimited::new().policy(), None);
}

#[test]
fn c5_any_limiter_is_charged_for_what_has_been_done_and_gives_back_what_it_can() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota()).clock(&time).build();
    let strict = TokenBucket::builder(quota()).max_debt(1).clock(&time);
    let window = SlidingWindow::builder("5/h".parse().expect("a quota"));
    let window = window.clock(&time).build().expect("a window");
    let decaying = DecayingBucket::builder(5, Duration::from_secs(1)).clock(&time);
    // What is charged, what then comes back of 3, and what is there after that.
    let table: [(Box<dyn Limiter>, u64, u64, u64); 6] = [
        // A debt of 2.
        (Box::new(bucket.expect("a bucket")), 7, 3, 1),
        // That would be more than it may owe: what there was of them.
        (Box::new(strict.build().expect("a bucket")), 7, 3, 3),
        // No debt: the same.
        (Box::new(window), 7, 3, 3),
        // Nobody says when they were taken.
        (Box::new(decaying.build().expect("a bucket")), 7, 0, 0),
        (Box::new(Unlimited::new()), 7, 0, u64::MAX),
        (Box::new(Observed::new(Unlimited::new())), 7, 0, u64::MAX),
    ];
    for (limiter, charged, back, left) in table {
        limiter.charge(charged);
        assert_eq!(limiter.refund(3), back, "{limiter:?}");
        assert_eq!(limiter.available(), left, "{limiter:?}");
    }
}

#[test]
fn a_gate_shows_its_limiters_whatever_they_are() {
    let gate = Gate::builder()
        .limit("rate", Observed::new(TokenBucket::new(quota())))
        .limit("at once", ConcurrencyLimit::new(2))
        .build()
        .expect("a gate");
    let quota_of = |limiter: &dyn Limiter| limiter.policy().map(|policy| policy.quota);
    assert_eq!(gate.inspect_limiter("rate", quota_of), Some(Some(quota())));
    assert_eq!(gate.inspect_limiter("at once", quota_of), None);
    assert_eq!(gate.inspect_limiter("no such", quota_of), None);
    assert_eq!(
        gate.configure_limiter("rate", |limiter| limiter.charge(2)),
        Some(())
    );
    assert_eq!(
        gate.inspect_limiter("rate", |limiter| limiter.available()),
        Some(3)
    );
}

#[test]
fn quotas_are_replaced_through_any_limiter() {
    let clock = ManualClock::new();
    let quotas = |text: &str| text.parse::<Quotas>().expect("quotas");
    let built = |text: &str| {
        let config: LimiterConfig = text.parse().expect("a limiter");
        config.build_on(&clock).expect("a limiter")
    };
    let dual = built("token 10/s burst 5; 20/day");
    dual.try_acquire_n(4).expect("there are 5");
    dual.set_quotas(quotas("1/s burst 9; 30/day"))
        .expect("two fit");
    assert_eq!((dual.snapshot().limit, dual.available()), (9, 1));
    let states = dual.quota_states().expect("two quotas");
    assert_eq!(states.map(|state| state.snapshot.remaining), [1, 16]);
    // What was the second one no longer counts.
    dual.set_quota(Quota::per_second(2).burst(50))
        .expect("one fits");
    assert_eq!((dual.quota_states(), dual.snapshot().limit), (None, 50));
    assert_eq!(
        dual.policy().map(|policy| policy.quota),
        Some(Quota::per_second(2).burst(50))
    );

    for text in ["token 5/s", "leaky 5/s", "fixed 5/s", "sliding 5/s"] {
        let limiter = built(text);
        let count = || limiter.policy().map(|policy| policy.quota.count());
        assert!(limiter.set_quotas(quotas("4/s; 9/h")).is_err(), "{text}");
        assert_eq!(count(), Some(5));
        limiter.set_quotas(quotas("4/s")).expect("one fits");
        assert_eq!(count(), Some(4));
    }
    let observed = DualTokenBucket::builder(quotas("10/s; 20/day")).clock(&clock);
    let observed = Observed::new(observed.build().expect("a bucket"));
    Limiter::set_quotas(&observed, quotas("3/s; 20/day")).expect("two fit");
    assert_eq!(observed.snapshot().limit, 3);
    let unlimited: &dyn Limiter = &Unlimited::new();
    assert!(unlimited.set_quota(Quota::per_second(1)).is_err());
}

#[test]
fn c1_waiters_go_by_the_quotas_that_replace_theirs() {
    let time = ManualClock::new();
    let config: LimiterConfig = "token 10/s burst 1; 20/day".parse().expect("a limiter");
    let limiter = config.build_on(&time).expect("a limiter");
    limiter.try_acquire().expect("it is full");
    let mut waits = Task::start(limiter.acquire());
    limiter
        .set_quotas("1/s burst 1; 20/day".parse().expect("two"))
        .expect("they fit");
    time.advance(Duration::from_millis(999));
    assert!(!waits.run());
    time.advance(Duration::from_millis(1));
    assert!(waits.run());
}
