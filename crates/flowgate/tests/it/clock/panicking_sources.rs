//! A clock's [`Source`] that panics at its k-th reading, for every k: no permit and no token is lost, and no queue
//! stands still.

use flowgate::*;
use flowgate_testkit::task::Task;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Panics once, at the reading that it was told.
#[derive(Clone, Default)]
struct Source(Arc<State>);

#[derive(Default)]
struct State {
    now_ns: AtomicU64,
    /// How many readings there are before the one that panics; none panics if there are [`u64::MAX`].
    until_panic: AtomicU64,
    wakers: Mutex<Vec<(u64, Waker)>>,
}

const ON_PURPOSE: &str = "the source panics on purpose";
const NEVER: u64 = u64::MAX;

impl flowgate::Source for Source {
    fn now_ns(&self) -> u64 {
        let step = |left| (left != NEVER).then(|| if left == 0 { NEVER } else { left - 1 });
        if self.0.until_panic.fetch_update(SeqCst, SeqCst, step) == Ok(0) {
            panic!("{ON_PURPOSE}");
        }
        self.0.now_ns.load(SeqCst)
    }

    fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        let mut wakers = self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.push((at.as_nanos(), waker.clone()));
        true
    }
}

impl Source {
    fn clock(&self) -> Clock {
        Clock::custom(self.clone())
    }

    /// Moves the time, and wakes those whose time has come.
    fn set(&self, now: Duration) {
        let now_ns = u64::try_from(now.as_nanos()).expect("it fits");
        self.0.now_ns.store(now_ns, SeqCst);
        let due: Vec<_> = {
            let mut wakers = self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            wakers
                .extract_if(.., |(at_ns, _)| *at_ns <= now_ns)
                .collect()
        };
        for (_, waker) in due {
            _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// What a caller does who survives a panic.
    fn survived<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(act)).ok()
    }
}

/// Keeps the panics that are on purpose out of the output.
fn quietly() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref() != Some(&ON_PURPOSE) {
                report(info);
            }
        }));
    });
}

/// Runs `scenario`, which returns what is left at its end, once without a panic, and then with one at each of its
/// readings: what is left has to be the same. The scenario's clock stands still, or it is moved to where it was.
fn at_every_reading<T: PartialEq + std::fmt::Debug>(scenario: impl Fn(&Source) -> T) {
    quietly();
    let left_after = |readings: u64| {
        let source = Source::default();
        source.0.until_panic.store(readings, SeqCst);
        let left = scenario(&source);
        let has_panicked = source.0.until_panic.swap(NEVER, SeqCst) == NEVER;
        (left, has_panicked)
    };
    let (expected, _) = left_after(NEVER);
    let mut reading = 0;
    loop {
        let (left, has_panicked) = left_after(reading);
        assert_eq!(left, expected, "after a panic at reading {reading}");
        if !has_panicked {
            break;
        }
        reading += 1;
    }
    assert!(reading > 0, "the scenario never reads the clock");
}

/// Polls those that were woken, until none is.
fn settle<F: Future>(source: &Source, tasks: &mut [Task<F>]) {
    while let Some(task) = tasks
        .iter_mut()
        .find(|task| task.is_waiting() && task.was_woken())
    {
        source.survived(|| task.poll());
    }
}

fn quota(text: &str) -> Quota {
    text.parse().expect("a valid quota")
}

fn bucket(clock: impl Into<Clock>, text: &str) -> TokenBucket {
    let bucket = TokenBucket::builder(quota(text)).clock(clock).build();
    bucket.expect("a valid bucket")
}

fn slots(clock: impl Into<Clock>, limit: u32) -> ConcurrencyLimit {
    let limit = ConcurrencyLimit::builder(limit).clock(clock).build();
    limit.expect("a valid limit")
}

fn gate(source: &Source) -> Gate {
    let clock = source.clock();
    let gate = Gate::builder()
        .limit("rate", bucket(&clock, "1/h burst 10"))
        .limit("pace", bucket(&clock, "1/d burst 20"))
        .limit("slots", slots(&clock, 2));
    gate.build().expect("a valid gate")
}

/// What a gate has left: slots, tokens, waiters.
fn left_of(gate: &Gate) -> (u64, [Option<u64>; 2], usize) {
    let in_flight = gate.inspect("slots", ConcurrencyLimit::in_flight);
    let tokens = ["rate", "pace"].map(|name| gate.inspect(name, TokenBucket::available));
    (in_flight.expect("it has slots"), tokens, gate.queue().len())
}

#[test]
fn c5_a_permit_of_a_gate_comes_back() {
    at_every_reading(|source| {
        let gate = gate(source);
        let permit = source.survived(|| gate.try_acquire_n(2).expect("they are free"));
        source.survived(|| drop(permit));
        left_of(&gate)
    });
}

#[test]
fn c5_c6_a_permit_of_a_gate_comes_back_while_others_wait() {
    at_every_reading(|source| {
        let gate = gate(source);
        let mut permits: Vec<_> = (0..2)
            .map(|_| gate.try_acquire().expect("it is free"))
            .collect();
        let mut waits: Vec<_> = (0..3).map(|_| Task::start(gate.acquire())).collect();
        source.survived(|| permits.pop());
        settle(source, &mut waits);
        source.survived(|| permits.pop());
        settle(source, &mut waits);
        // One has a permit and has not seen it; another waits still.
        drop(waits.pop());
        drop(waits);
        left_of(&gate)
    });
}

#[test]
fn c5_a_gate_whose_unseen_grant_is_given_up() {
    at_every_reading(|source| {
        let gate = gate(source);
        let permits = gate.try_acquire_n(2).expect("they are free");
        let waits: Vec<_> = (0..2).map(|_| Task::start(gate.acquire())).collect();
        source.survived(|| drop(permits));
        for wait in waits {
            source.survived(|| drop(wait));
        }
        left_of(&gate)
    });
}

#[test]
fn c6_a_gate_that_is_changed_goes_on() {
    at_every_reading(|source| {
        let gate = gate(source);
        let permits = gate.try_acquire_n(2).expect("they are free");
        let mut waits: Vec<_> = (0..2).map(|_| Task::start(gate.acquire())).collect();
        source.survived(|| gate.configure("slots", |slots: &ConcurrencyLimit| slots.set_limit(3)));
        source.survived(|| gate.configure("rate", |rate: &TokenBucket| rate.refund(1)));
        settle(source, &mut waits);
        drop(permits);
        settle(source, &mut waits);
        assert!(waits.iter().all(|wait| wait.output.is_some()));
        drop(waits);
        left_of(&gate)
    });
}

#[test]
fn c5_c6_slots_go_on_to_those_who_wait() {
    at_every_reading(|source| {
        let limit = slots(source.clock(), 2);
        // The order depends on the time, and so does a deadline: the clock is read.
        let order = Order::AdaptiveLifo {
            after: Duration::from_secs(1),
        };
        limit.queue().set_order(order);
        let permit = limit.try_acquire_n(2).expect("they are free");
        let hour = Duration::from_secs(3_600);
        let mut waits: Vec<_> = (0..3)
            .map(|_| Task::start(limit.acquire().within(hour)))
            .collect();
        source.survived(|| drop(permit));
        drop(waits.remove(0));
        settle(source, &mut waits);
        source.survived(|| limit.set_limit(3));
        settle(source, &mut waits);
        drop(waits);
        (limit.available(), limit.in_flight(), limit.queue().len())
    });
}

#[test]
fn c5_c6_waits_at_a_bucket_are_given_up_and_refunded() {
    at_every_reading(|source| {
        let bucket = bucket(source.clock(), "1/h burst 3");
        assert_eq!(bucket.take_up_to(3), 3);
        let stop = CancelHandle::new();
        let mut waits: Vec<_> = (0..3)
            .map(|_| Task::start(bucket.acquire().cancelled_by(&stop)))
            .collect();
        source.survived(|| bucket.refund(1));
        drop(waits.remove(0));
        settle(source, &mut waits);
        source.survived(|| bucket.set_quota(quota("1/h burst 4")));
        source.survived(|| stop.cancel());
        settle(source, &mut waits);
        assert!(waits.iter().all(|wait| wait.output.is_some()));
        drop(waits);
        (bucket.available(), bucket.queue().len())
    });
}

#[test]
fn c5_reservations_and_refunds_of_many_types() {
    at_every_reading(|source| {
        let bucket = bucket(source.clock(), "1/h burst 3");
        let reservation = source.survived(|| bucket.reserve_n(2).expect("they are there"));
        source.survived(|| reservation.map(Reservation::cancel));
        let window = FixedWindow::builder(quota("3/h"))
            .clock(source.clock())
            .build()
            .expect("valid");
        source.survived(|| window.try_acquire_n(2));
        source.survived(|| window.refund(2));
        let sliding = SlidingWindow::builder(quota("3/h"))
            .clock(source.clock())
            .build()
            .expect("valid");
        source.survived(|| sliding.try_acquire_n(2));
        source.survived(|| sliding.refund(2));
        [bucket.available(), window.available(), sliding.available()]
    });
}

#[test]
fn c5_c6_c7_keys() {
    at_every_reading(|source| {
        let limits: Keyed<TokenBucket> = Keyed::token_bucket(quota("1/h burst 3"))
            .clock(source.clock())
            .capacity(100)
            .expect("valid");
        source.survived(|| limits.try_acquire_n("key", 3));
        let mut waits: Vec<_> = (0..2).map(|_| Task::start(limits.acquire("key"))).collect();
        source.survived(|| limits.refund("key", 1));
        settle(source, &mut waits);
        for wait in waits {
            source.survived(|| drop(wait));
        }
        // No key is held by a queue any longer.
        (
            limits.try_acquire_n("key", 1).is_ok(),
            limits.try_acquire("key").is_ok(),
        )
    });
}

#[test]
fn c5_c6_c7_permits_of_keys() {
    at_every_reading(|source| {
        let limits = KeyedConcurrencyLimit::builder(1)
            .clock(source.clock())
            .capacity(100)
            .expect("valid");
        let permit = source.survived(|| limits.try_acquire("key").expect("it is free"));
        let hour = Duration::from_secs(3_600);
        let mut waits: Vec<_> = (0..2)
            .map(|_| Task::start(limits.acquire("key").within(hour)))
            .collect();
        source.survived(|| drop(permit));
        settle(source, &mut waits);
        for wait in waits {
            source.survived(|| drop(wait));
        }
        (limits.in_flight("key"), limits.try_acquire("key").is_ok())
    });
}

/// Not the same in every detail, as a reading that is missing may be an older one. But all come to their turns.
#[test]
fn c6_a_queue_goes_on_while_time_passes() {
    for spacing in [Spacing::Scheduled, Spacing::AtLeast] {
        at_every_reading(|source| {
            let bucket = bucket(source.clock(), "1/s burst 1");
            source.survived(|| bucket.try_acquire());
            let mut waits: Vec<_> = (0..4)
                .filter_map(|_| source.survived(|| Task::start(bucket.acquire().spacing(spacing))))
                .collect();
            for second in 1..20 {
                source.set(Duration::from_secs(second));
                settle(source, &mut waits);
            }
            let granted = waits.iter().all(|wait| matches!(wait.output, Some(Ok(_))));
            (granted, bucket.queue().len())
        });
    }
}
