//! Tests: how often a wait asks its limiter before it waits.

use super::{Asker, Event, Facts, Grantee, Opened, Order, Queue, Receipt, Supply, Turn, WaitQueue};
use crate::clock::{Clock, ManualClock, Timestamp};
use crate::concurrency::limit::ConcurrencyLimit;
use crate::gate::Gate;
use crate::keyed::{KeyPermits, Keyed, KeyedConcurrencyLimit};
use crate::limiter::sealed::Sealed;
use crate::quota::Quota;
use crate::types::approximate_window::ApproximateWindow;
use crate::types::decaying_bucket::DecayingBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::sliding_window::SlidingWindow;
use crate::types::token_bucket::TokenBucket;
use crate::types::warm_up::WarmUp;
use crate::verdict::Denied;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;

/// Counts what its limiter is asked for.
struct Counting<'a> {
    limiter: &'a dyn Supply,
    asked: AtomicU64,
}

impl<'a> Counting<'a> {
    fn new(limiter: &'a dyn Supply) -> Self {
        Self {
            limiter,
            asked: AtomicU64::new(0),
        }
    }

    /// Returns how often `turn` asks when it is first polled, and the answer.
    fn asked_by(&self, turn: &mut Turn) -> (u64, Option<Denied>) {
        let before = self.asked.load(Ordering::Relaxed);
        let answer = match turn.poll(self, Waker::noop()) {
            Poll::Pending => None,
            Poll::Ready(Err(denied)) => Some(denied),
            Poll::Ready(Ok(_)) => panic!("there was nothing"),
        };
        (self.asked.load(Ordering::Relaxed) - before, answer)
    }
}

impl Supply for Counting<'_> {
    fn queue(&self) -> &Queue {
        self.limiter.queue()
    }

    fn open_queue(&self, at: Timestamp, n: u64) -> Result<Opened<'_>, Denied> {
        self.limiter.open_queue(at, n)
    }

    fn clock(&self) -> &Clock {
        self.limiter.clock()
    }

    fn stand_back(&self) -> Option<super::StandBack> {
        self.limiter.stand_back()
    }

    fn facts(&self) -> Facts {
        self.limiter.facts()
    }

    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.limiter.ask(at, n, asker)
    }

    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.limiter.grant(at, n, to)
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        self.limiter.take_back(at, n, receipts);
    }

    fn end(&self, n: u64) {
        self.limiter.end(n);
    }

    fn note(&self, event: Event<'_>) {
        self.limiter.note(event);
    }
}

fn quota() -> Quota {
    "1/min".parse().expect("a quota")
}

fn clock() -> ManualClock {
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(1_000_000_007));
    time
}

/// Has several callers wait at `limiter`, which has nothing: each of them asks once.
#[track_caller]
fn check(name: &str, limiter: &dyn Supply) {
    let limiter = Counting::new(limiter);
    let mut turns = [Turn::new(), Turn::new(), Turn::new()];
    let asked = turns.each_mut().map(|turn| limiter.asked_by(turn));
    assert_eq!(asked, [(1, None); 3], "{name}");
    for turn in &mut turns {
        turn.abandon(&limiter);
    }
}

macro_rules! limiters {
    ($($limiter:ident),*) => {
        [$({
            let limiter = $limiter::builder(quota()).clock(&clock()).build().expect("a limiter");
            while limiter.try_acquire().is_ok() {}
            (stringify!($limiter), Box::new(limiter) as Box<dyn Sealed>)
        }),*]
    };
}

fn slots(time: &ManualClock) -> ConcurrencyLimit {
    let limit = ConcurrencyLimit::builder(1).clock(time).build();
    limit.expect("a limit")
}

#[test]
fn a_wait_asks_its_limiter_once() {
    let limiters = limiters!(
        TokenBucket,
        LeakyBucket,
        FixedWindow,
        SlidingWindow,
        SegmentedWindow,
        ApproximateWindow,
        WarmUp
    );
    for (name, limiter) in &limiters {
        check(name, limiter.supply().0);
    }
    let decaying = DecayingBucket::builder(1, Duration::from_secs(60)).clock(clock());
    let decaying = decaying.build().expect("a limiter");
    decaying.try_acquire().expect("a token");
    check("DecayingBucket", &decaying);

    let limit = slots(&clock());
    let permit = limit.try_acquire().expect("a permit");
    check("ConcurrencyLimit", &limit);
    drop(permit);

    let time = clock();
    let bucket = TokenBucket::builder(quota()).clock(&time).build();
    let gate = Gate::builder()
        .limit("rate", bucket.expect("a bucket"))
        .limit("slots", slots(&time))
        .build()
        .expect("a gate");
    let permit = gate.try_acquire().expect("a permit");
    check("Gate", &gate);
    drop(permit);
    check("Gate", &gate);
}

/// A refund between the question and the announcement is detected by the announcement: `keyed/model.rs`.
#[test]
fn a_wait_for_a_key_asks_once() {
    let time = clock();
    let keyed = Keyed::token_bucket(quota()).clock(&time).capacity(10);
    let keyed = keyed.expect("a table");
    keyed.try_acquire("key").expect("a token");
    check("KeyLimiter", &keyed.key("key"));
    let fast = Quota::per_second(5);
    let key = keyed.key("fast").with(fast).expect("a quota for a key");
    assert_eq!(key.take_up_to(9), 5);
    check("KeyLimiter by its own quota", &key);

    let dual = Keyed::dual_token_bucket(quota().into())
        .clock(&time)
        .capacity(10);
    let dual = dual.expect("a table");
    dual.try_acquire("key").expect("a token");
    check("KeyLimiter of two quotas", &dual.key("key"));
    let window = Keyed::fixed_window(quota()).clock(&time).capacity(10);
    let window = window.expect("a table");
    window.try_acquire("key").expect("a token");
    check("KeyLimiter of a window", &window.key("key"));

    let limits = KeyedConcurrencyLimit::builder(1).clock(&time).capacity(10);
    let limits = limits.expect("a table");
    let permit = limits.try_acquire("key").expect("a permit");
    let place = limits.place("key");
    check("KeyPermits", &KeyPermits::of(&limits, place, None));
    drop(permit);
}

#[test]
fn a_wait_that_is_refused_asks_its_limiter_once() {
    let time = clock();
    let bucket = TokenBucket::builder(quota()).clock(&time).build();
    let bucket = bucket.expect("a bucket");
    bucket.try_acquire().expect("a token");
    let limiter = Counting::new(&bucket);

    let mut hopeless = Turn::new();
    hopeless.within(Duration::from_secs(59));
    let (asked, denied) = limiter.asked_by(&mut hopeless);
    let wait = denied.and_then(|denied| denied.retry_after());
    assert_eq!((asked, wait), (1, Some(Duration::from_secs(1))));

    WaitQueue::new(&bucket).set_max_wait(Duration::from_secs(30));
    let (asked, denied) = limiter.asked_by(&mut Turn::new());
    assert!(denied.is_some_and(|denied| denied.is_queue_full()));
    assert_eq!(asked, 1);

    let mut never = Turn::new();
    never.units = Some(2);
    let (asked, denied) = limiter.asked_by(&mut never);
    assert!(denied.is_some_and(|denied| denied.is_never()));
    assert_eq!(asked, 1);
}

#[test]
fn the_newest_of_a_lifo_queue_asks_its_limiter_once() {
    let time = clock();
    let bucket = TokenBucket::builder(quota()).clock(&time).build();
    let bucket = bucket.expect("a bucket");
    bucket.try_acquire().expect("a token");
    WaitQueue::new(&bucket).set_order(Order::Lifo);
    check("Lifo", &bucket);
}
