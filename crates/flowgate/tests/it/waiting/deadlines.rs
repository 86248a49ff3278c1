//! Deadlines that are told as an instant of the operating system or of tokio.

use flowgate::{
    Acquire, Clock, ConcurrencyLimit, Deadline, Gate, Keyed, KeyedConcurrencyLimit, LeakyBucket,
    Limiter, ManualClock, Source, Timestamp,
};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const HOUR: Duration = Duration::from_secs(3600);

fn hourly(clock: &Clock) -> LeakyBucket {
    let limiter = LeakyBucket::builder("1/h".parse().unwrap()).clock(clock);
    let limiter = limiter.build().unwrap();
    limiter.try_acquire().unwrap();
    limiter
}

fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn paused() -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap()
}

/// A source that has seen `base` at 1,000 s, and then stood still.
struct Recorded(Instant);

const BASE: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

impl Source for Recorded {
    fn now_ns(&self) -> u64 {
        BASE.as_nanos()
    }

    fn timestamp_of(&self, instant: Instant) -> Option<Timestamp> {
        let before = self.0.saturating_duration_since(instant);
        let ns = BASE.as_nanos() - u64::try_from(before.as_nanos()).unwrap();
        Some(Timestamp::from_nanos(ns) + instant.saturating_duration_since(self.0))
    }
}

#[test]
fn c3_an_instant_is_the_same_instant_of_the_machines_clocks() {
    for clock in [Clock::os(), Clock::system()] {
        let before = clock.now();
        let now = Instant::now();
        let after = clock.now();
        let at = clock.timestamp_of(now).unwrap();
        // They are disciplined to each other, to less than a millisecond.
        let slack = Duration::from_millis(1);
        assert!(
            at + slack >= before && at <= after + slack,
            "{before:?} {at:?} {after:?}"
        );
        let later = clock.timestamp_of(now + HOUR).unwrap();
        assert_eq!(later.saturating_duration_since(at), HOUR);
        let long_ago = now.checked_sub(Duration::from_secs(1 << 32));
        if let Some(past) = long_ago {
            assert!(clock.timestamp_of(past).unwrap() <= before);
        }
    }
}

#[test]
fn a_wait_beyond_an_instant_is_refused_and_one_before_it_waits() {
    let limiter = hourly(&Clock::system());
    let now = Instant::now();
    assert!(
        poll(&mut limiter.acquire().by(now + HOUR / 2))
            .unwrap()
            .is_err()
    );
    assert!(poll(&mut limiter.acquire().by(now + 2 * HOUR)).is_none());
    // A deadline that has passed means not to wait.
    let fresh = LeakyBucket::new("1/h".parse().unwrap());
    let begin = now.checked_sub(Duration::from_secs(5)).unwrap_or(now);
    assert!(poll(&mut fresh.acquire().by(begin)).unwrap().is_ok());
    assert!(poll(&mut fresh.acquire().by(begin)).unwrap().is_err());
    assert!(limiter.take_by(now + HOUR / 2).is_err());
}

#[test]
fn c3_by_a_source_of_ones_own_it_is_exact() {
    let base = Instant::now();
    let clock = Clock::custom(Recorded(base));
    let limiter = hourly(&clock);
    let ns = Duration::from_nanos(1);
    assert!(poll(&mut limiter.acquire().by(base + HOUR)).is_none());
    let denied = poll(&mut limiter.acquire().by(base + HOUR - ns));
    assert!(denied.unwrap().is_err());
}

#[test]
fn c3_under_tokios_paused_clock_it_is_tokios_instant() {
    paused().block_on(async {
        let clock = Clock::tokio();
        let now = tokio::time::Instant::now();
        assert_eq!(clock.timestamp_of(now.into_std()), Some(clock.now()));
        let limiter = hourly(&clock);
        // To 1 ns, and of either type.
        let ns = Duration::from_nanos(1);
        assert!(limiter.acquire().by(now + HOUR - ns).await.is_err());
        assert!(
            limiter
                .acquire()
                .by((now + HOUR - ns).into_std())
                .await
                .is_err()
        );
        assert_eq!(tokio::time::Instant::now(), now, "neither has waited");
        assert!(limiter.acquire().by(now + HOUR).await.is_ok());
        assert_eq!(now.elapsed(), HOUR);

        let slots = ConcurrencyLimit::builder(1).clock(&clock).build().unwrap();
        let _permit = slots.try_acquire().unwrap();
        let deadline = tokio::time::Instant::now() + HOUR;
        assert!(slots.acquire().by(deadline).await.unwrap_err().is_busy());
        assert_eq!(tokio::time::Instant::now(), deadline);
    });
}

/// What a deadline is asked of, for each kind of wait.
fn each_wait(clock: &Clock, by: impl Fn(&dyn Fn(Deadline))) {
    let limiter: Arc<dyn Limiter> = Arc::new(hourly(clock));
    by(&|deadline| drop(limiter.acquire().by(deadline)));
    by(&|deadline| drop(Acquire::new(Arc::clone(&limiter)).by(deadline)));
    let slots = ConcurrencyLimit::builder(1).clock(clock);
    let slots = slots.build().unwrap();
    by(&|deadline| drop(slots.acquire().by(deadline)));
    let table = Keyed::token_bucket("1/h".parse().unwrap()).clock(clock);
    let table = table.capacity(10).unwrap();
    by(&|deadline| drop(table.acquire("a").by(deadline)));
    let permits = KeyedConcurrencyLimit::builder(1).clock(clock);
    let permits = permits.capacity(10).unwrap();
    by(&|deadline| drop(permits.acquire("a").by(deadline)));
    let gate = Gate::builder().limit("slots", slots).keyed("key", table);
    let gate = gate.build().unwrap();
    by(&|deadline| drop(gate.acquire("a").by(deadline)));
}

#[test]
fn a_clock_that_knows_no_instant_refuses_it_where_it_is_given() {
    struct Mute;
    impl Source for Mute {
        fn now_ns(&self) -> u64 {
            0
        }
    }
    for clock in [ManualClock::new().into(), Clock::custom(Mute)] {
        assert_eq!(clock.timestamp_of(Instant::now()), None);
        each_wait(&clock, |wait| {
            wait((clock.now() + HOUR).into());
            let instant = Deadline::from(Instant::now() + HOUR);
            let panic = catch_unwind(AssertUnwindSafe(|| wait(instant))).unwrap_err();
            let message = panic.downcast_ref::<&str>().unwrap();
            assert!(message.contains("use `within`"), "{message}");
        });
    }
    each_wait(&Clock::system(), |wait| {
        wait((Instant::now() + HOUR).into())
    });
}
