//! A key's turn and shared limits, in one permit.

use flowgate::{
    CancelHandle, Clock, ConcurrencyLimit, Denied, FixedWindow, Gate, GateError, Keyed, KeyedGate,
    LeakyBucket, ManualClock, OwnedPermit, TokenBucket,
};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn slots(clock: impl Into<Clock>, limit: u32) -> ConcurrencyLimit {
    ConcurrencyLimit::builder(limit)
        .clock(clock)
        .build()
        .unwrap()
}

/// Each host every two seconds, and so many in flight.
fn crawler(clock: &Clock, in_flight: u32) -> KeyedGate<LeakyBucket> {
    let hosts = Keyed::leaky_bucket("1/2s".parse().unwrap());
    Gate::builder()
        .limit("slots", slots(clock, in_flight))
        .keyed("host", hosts.clock(clock).capacity(1000).unwrap())
        .build()
        .unwrap()
}

fn in_flight(gate: &KeyedGate<LeakyBucket>) -> u64 {
    let slots = gate.shared().inspect("slots", ConcurrencyLimit::in_flight);
    slots.unwrap()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn c1_both_or_neither() {
    let time = ManualClock::new();
    let gate = crawler(&(&time).into(), 2);
    let a = gate.try_acquire("a").unwrap();
    let denied = gate.try_acquire("a").unwrap_err();
    assert_eq!(gate.name_of(&denied), Some("host"));
    assert_eq!(denied.retry_after(), Some(2 * SECOND));
    assert_eq!(in_flight(&gate), 1, "the refusal took no slot");

    let b = gate.try_acquire("b").unwrap();
    let denied = gate.try_acquire("c").unwrap_err();
    assert_eq!(gate.name_of(&denied), Some("slots"));
    assert!(denied.is_busy());
    drop(a);
    drop(gate.try_acquire("c").unwrap());
    assert_eq!(gate.keys().available("c"), 0);
    drop(b);
    assert_eq!(in_flight(&gate), 0);
    time.advance(2 * SECOND);
    drop(gate.try_acquire("a").unwrap());
}

#[test]
fn c1_a_turn_counts_from_when_the_slot_was_free() {
    let time = ManualClock::new();
    let gate = crawler(&(&time).into(), 1);
    let first = gate.try_acquire("a").unwrap();
    time.advance(2 * SECOND);
    let mut second = gate.acquire("a");
    assert!(poll(&mut second).is_pending());
    let mut third = gate.acquire("a");
    assert!(poll(&mut third).is_pending());
    time.advance(Duration::from_millis(1_900));
    drop(first);
    let second = match poll(&mut second) {
        Poll::Ready(permit) => permit.unwrap(),
        Poll::Pending => panic!("both are free"),
    };
    drop(second);
    // At 3.9 s; were it dated when the key allowed it, the third could go at 4 s.
    time.advance(Duration::from_millis(1_999));
    assert!(poll(&mut third).is_pending());
    time.advance(Duration::from_millis(1));
    assert!(poll(&mut third).is_ready());
}

#[test]
fn c6_a_key_that_has_to_wait_holds_up_no_other() {
    let time = ManualClock::new();
    let gate = crawler(&(&time).into(), 2);
    drop(gate.try_acquire("a").unwrap());
    let mut second = gate.acquire("a");
    assert!(poll(&mut second).is_pending());
    assert_eq!(
        in_flight(&gate),
        0,
        "it holds no slot while it waits for its key"
    );
    let mut other = gate.acquire("b");
    assert!(matches!(poll(&mut other), Poll::Ready(Ok(_))));
    // Those of one key do not overtake each other.
    time.advance(2 * SECOND);
    assert!(gate.try_acquire("a").unwrap_err().is_busy());
    assert!(poll(&mut second).is_ready());
}

#[test]
fn c5_a_wait_that_is_given_up_takes_nothing_with_it() {
    let time = ManualClock::new();
    let gate = crawler(&(&time).into(), 1);
    // In each stage: behind another of its key, for its key, for a slot, and granted unseen.
    let held = gate.try_acquire("a").unwrap();
    let mut first = gate.acquire("a");
    let mut behind = gate.acquire("a");
    assert!(poll(&mut first).is_pending() && poll(&mut behind).is_pending());
    drop(behind);
    drop(first);
    time.advance(2 * SECOND);
    let mut for_a_slot = gate.acquire("a");
    assert!(poll(&mut for_a_slot).is_pending());
    drop(for_a_slot);
    let mut unseen = gate.acquire("a");
    assert!(poll(&mut unseen).is_pending());
    drop(held);
    drop(unseen);
    assert_eq!((in_flight(&gate), gate.keys().available("a")), (0, 1));
    let handle = CancelHandle::new();
    drop(gate.try_acquire("a").unwrap());
    let mut cancelled = gate.acquire("a").cancelled_by(&handle);
    assert!(poll(&mut cancelled).is_pending());
    handle.cancel();
    let Poll::Ready(Err(denied)) = poll(&mut cancelled) else {
        panic!("it is cancelled");
    };
    assert!(denied.is_cancelled());
    time.advance(2 * SECOND);
    drop(gate.try_acquire("a").unwrap());
}

#[test]
fn c3_deadlines() {
    let time = ManualClock::new();
    let gate = crawler(&(&time).into(), 1);
    let held = gate.try_acquire("a").unwrap();
    // The key cannot: known at once.
    let denied = gate.acquire("a").within(SECOND).block().unwrap_err();
    assert_eq!(denied.retry_after(), Some(SECOND), "then a second will do");
    assert_eq!(gate.name_of(&denied), Some("host"));
    // The slot may become free.
    let mut late = gate.acquire("b").within(SECOND);
    assert!(poll(&mut late).is_pending());
    time.advance(SECOND);
    let Poll::Ready(Err(denied)) = poll(&mut late) else {
        panic!("its time is over");
    };
    assert!(denied.is_busy(), "{denied}");
    assert_eq!(gate.keys().available("b"), 1);
    // Exactly in time.
    drop(held);
    let mut exact = gate.acquire("a").within(SECOND);
    assert!(poll(&mut exact).is_pending());
    time.advance(SECOND);
    assert!(matches!(poll(&mut exact), Poll::Ready(Ok(_))));
    // More than ever fits.
    assert!(gate.acquire("c").n(2).block().unwrap_err().is_never());
    assert_eq!(gate.acquire("c").n(0).block().unwrap().units(), 0);
}

/// The key is also used without the gate: the shared limits get back what they had given.
#[test]
fn c1_c5_a_key_that_is_used_elsewhere_too() {
    let time = ManualClock::new();
    let tenants = Keyed::token_bucket("10/s burst 10".parse().unwrap());
    let tenants = Arc::new(tenants.clock(&time).capacity(100).unwrap());
    let all = TokenBucket::builder("1/h burst 100".parse().unwrap()).clock(&time);
    let gate = Gate::builder()
        .limit("all", all.build().unwrap())
        .limit("slots", slots(&time, 5))
        .keyed("tenant", Arc::clone(&tenants))
        .build()
        .unwrap();
    let all = || {
        gate.shared()
            .inspect("all", TokenBucket::available)
            .unwrap()
    };
    let held = gate.try_acquire("a").unwrap();
    let mut wait = gate.acquire("a").n(5);
    assert!(poll(&mut wait).is_pending());
    tenants.try_acquire_n("a", 8).unwrap();
    drop(held);
    assert!(poll(&mut wait).is_pending());
    assert_eq!((all(), tenants.available("a")), (99, 1));
    time.advance(Duration::from_millis(399));
    assert!(poll(&mut wait).is_pending());
    time.advance(Duration::from_millis(1));
    let Poll::Ready(Ok(permit)) = poll(&mut wait) else {
        panic!("both have five");
    };
    let left = (all(), tenants.available("a"));
    assert_eq!((permit.units(), left), (5, (94, 0)));
}

#[test]
fn what_makes_no_gate() {
    let tenants = || {
        Keyed::token_bucket("10/s".parse().unwrap())
            .capacity(10)
            .unwrap()
    };
    let build = |builder: flowgate::GateBuilder| builder.keyed("tenant", tenants()).build();
    let error = build(Gate::builder()).map(drop).unwrap_err();
    assert_eq!(error, GateError::NoLimits);
    let same = Gate::builder().limit("tenant", ConcurrencyLimit::new(1));
    let error = build(same).map(drop).unwrap_err();
    assert_eq!(error, GateError::SameName("tenant".to_owned()));
    let elsewhere = Gate::builder().limit("slots", slots(ManualClock::new(), 1));
    let error = build(elsewhere).map(drop).unwrap_err();
    assert_eq!(error, GateError::OtherClock("tenant".to_owned()));
}

/// Each kind of limiter that there is one of for each key.
#[test]
fn every_kind_of_key() {
    let time = ManualClock::new();
    let clock = Clock::from(&time);
    let dual = Keyed::dual_token_bucket("2/s; 3/min".parse().unwrap());
    let dual = dual.clock(&clock).capacity(10).unwrap();
    let gate = Gate::builder()
        .limit("slots", slots(&clock, 9))
        .keyed("two quotas", dual);
    let gate = gate.build().unwrap();
    assert_eq!(admitted(|| gate.try_acquire("a")), 2);
    time.advance(SECOND);
    assert_eq!(admitted(|| gate.try_acquire("a")), 1);

    let windows = Keyed::fixed_window("4/min".parse().unwrap());
    let windows = windows.clock(&clock).capacity(10).unwrap();
    let site = FixedWindow::builder("6/min".parse().unwrap()).clock(&clock);
    let gate = Gate::builder()
        .limit("site", site.build().unwrap())
        .keyed("tenant", windows)
        .build()
        .unwrap();
    assert_eq!(admitted(|| gate.try_acquire("a")), 4);
    assert_eq!(admitted(|| gate.try_acquire("b")), 2);
    assert_eq!(
        gate.keys().available("b"),
        2,
        "of which the site allowed two"
    );
}

fn admitted(take: impl Fn() -> Result<OwnedPermit<Gate>, Denied>) -> usize {
    (0..20).filter(|_| take().is_ok()).count()
}

/// Shortest distance between two permits of one host, and the time that all took.
async fn crawl(hosts: usize, pages: usize, in_flight: u32, seed: u64) -> (Duration, Duration) {
    let clock = Clock::tokio();
    let gate = Arc::new(crawler(&clock, in_flight));
    let last = Arc::new(Mutex::new((HashMap::new(), Duration::MAX)));
    let began = Instant::now();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tasks = Vec::new();
    for page in 0..pages {
        let (gate, last) = (Arc::clone(&gate), Arc::clone(&last));
        let takes = Duration::from_micros(random.u64(1_000..4_000_000));
        let gives_up = random.u8(..) < 20;
        tasks.push(tokio::spawn(async move {
            let host = page % hosts;
            if gives_up {
                let wait = gate.acquire(&host).within(takes);
                _ = tokio::time::timeout(takes / 2, wait).await.map(drop);
            }
            let permit = gate.acquire(&host).await.unwrap();
            {
                let (last, shortest) = &mut *last.lock().unwrap();
                if let Some(before) = last.insert(host, Instant::now()) {
                    *shortest = before.elapsed().min(*shortest);
                }
            }
            sleep(takes).await;
            drop(permit);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let shortest = last.lock().unwrap().1;
    (shortest, began.elapsed())
}

/// Asked one after the other, a host's turn and a slot leave one distance of ten too short.
#[tokio::test(start_paused = true)]
async fn c1_a_crawler_with_fifty_in_flight_is_polite_to_every_host() {
    let (shortest, _) = crawl(100, 20_000, 50, 1).await;
    assert!(shortest >= 2 * SECOND, "{shortest:?}");
}

/// With slots enough for all, each host gets its page every two seconds: nothing is wasted.
#[tokio::test(start_paused = true)]
async fn c2_hosts_are_the_only_limit_where_there_are_slots_enough() {
    let (shortest, took) = crawl(20, 2_000, 1_000, 2).await;
    assert!(shortest >= 2 * SECOND, "{shortest:?}");
    assert!(took < 206 * SECOND, "{took:?}");
}

/// An operation is a whole token of the key, which the quota divides.
#[test]
fn c1_a_key_is_charged_tokens_and_not_units() {
    let time = ManualClock::new();
    let quota: flowgate::Quota = "5/h".parse().unwrap();
    let keys = Keyed::token_bucket(quota.units_per_token(1_000).unwrap());
    let gate = Gate::builder()
        .limit("slots", slots(&time, 9))
        .keyed("key", keys.clock(&time).capacity(10).unwrap())
        .build()
        .unwrap();
    let _permit = gate.try_acquire_n("a", 2).unwrap();
    assert_eq!(gate.keys().available("a"), 3_000);
    let denied = gate.try_acquire_n("a", 4).unwrap_err();
    assert_eq!(gate.name_of(&denied), Some("key"));
}
