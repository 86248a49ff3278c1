//! What observed tables and gates count, on a clock that only moves when told to.

use flowgate::{
    CancelHandle, ConcurrencyLimit, Gate, Keyed, KeyedConcurrencyLimit, KeyedGate, LeakyBucket,
    Limiter, ManualClock, Observed, ObservedCounts, TokenBucket, WhenFull,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Polled once; none if it waits.
fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Admitted, units, waited; over the limit, busy, never, queue full, deadline, cancelled, table full; abandoned, waiting.
type All = ([u64; 3], [u64; 7], [u64; 2]);

fn all(counts: ObservedCounts) -> All {
    let refused = counts.refused;
    assert_eq!(refused.closed, 0);
    (
        [counts.admitted, counts.units, counts.waited],
        [
            refused.over_limit,
            refused.busy,
            refused.never,
            refused.queue_full,
            refused.deadline,
            refused.cancelled,
            refused.table_full,
        ],
        [counts.abandoned, counts.waiting],
    )
}

/// Each key one token each 10 ms, two in a burst.
fn table(time: &ManualClock) -> Keyed<TokenBucket> {
    let quota = "100/s burst 2".parse().unwrap();
    let table = Keyed::token_bucket(quota).clock(time);
    table.capacity(100).unwrap()
}

#[test]
fn decisions_of_all_keys_are_counted_together() {
    let time = ManualClock::new();
    let limits = Observed::new(table(&time));
    assert_eq!(limits.counts(), ObservedCounts::default());
    assert!(limits.try_acquire("a").is_ok());
    assert!(limits.try_acquire_n("b", 2).is_ok());
    assert!(limits.try_acquire("b").is_err());
    assert!(limits.try_acquire_n("c", 3).is_err());
    assert!(limits.try_acquire_n("c", 0).is_ok());
    assert_eq!(limits.take_up_to("a", 5), 1);
    assert_eq!(limits.take_up_to("a", 5), 0);
    assert_eq!(
        all(limits.counts()),
        ([4, 4, 0], [1, 0, 1, 0, 0, 0, 0], [0, 0])
    );
    assert_eq!(limits.waits().count(), 0);
    // Past it, nothing is counted.
    assert!(limits.get_ref().try_acquire("d").is_ok());
    assert_eq!(limits.counts().asked(), 6);
}

#[test]
fn a_token_counts_as_the_units_that_it_is() {
    let quota = "10/s".parse::<flowgate::Quota>().unwrap();
    let quota = quota.units_per_token(1_000).unwrap();
    let table = Keyed::token_bucket(quota).clock(ManualClock::new());
    let limits = Observed::new(table.capacity(10).unwrap());
    assert!(limits.try_acquire("a").is_ok());
    assert!(limits.try_acquire_n("a", 1).is_ok());
    assert!(poll(&mut limits.acquire("a")).unwrap().is_ok());
    let counts = limits.counts();
    assert_eq!((counts.admitted, counts.units), (3, 2_001));
}

#[test]
fn a_key_without_room_is_a_reason_of_its_own() {
    let table = Keyed::token_bucket("1/h".parse().unwrap()).when_full(WhenFull::Deny);
    let limits = Observed::new(table.seed([1, 2]).capacity(10).unwrap());
    let denied = (0..2_000).filter(|key| limits.try_acquire(key).is_err());
    let denied = denied.count() as u64;
    assert!(denied > 0);
    let counts = limits.counts();
    assert_eq!(counts.refused.table_full, denied);
    assert_eq!(counts.admitted + denied, 2_000);
    let names = counts.refused.by_name();
    assert!(names.contains(&("table_full", denied)));
    assert!(counts.to_string().contains("no room for the key"));
}

#[test]
fn waits_for_keys_are_counted_by_how_they_end() {
    let time = ManualClock::new();
    let limits = Arc::new(Observed::new(Arc::new(table(&time))));
    for key in ["a", "b"] {
        assert!(limits.try_acquire_n(key, 2).is_ok());
    }
    let cancel = CancelHandle::new();
    let mut granted = limits.acquire("a");
    let mut behind = limits.acquire_owned("a");
    let mut cancelled = limits.acquire("b").cancelled_by(&cancel);
    let mut left = limits.acquire("b");
    assert!(poll(&mut granted).is_none());
    assert!(poll(&mut behind).is_none());
    assert!(poll(&mut cancelled).is_none());
    assert!(poll(&mut left).is_none());
    assert_eq!(limits.counts().waiting, 4);
    // Hopeless; too large; immediately; and one that is never polled.
    assert!(
        poll(&mut limits.acquire("a").within(ms(1)))
            .unwrap()
            .is_err()
    );
    assert!(poll(&mut limits.acquire("a").n(3)).unwrap().is_err());
    assert!(poll(&mut limits.acquire("c")).unwrap().is_ok());
    drop(limits.acquire("a"));
    cancel.cancel();
    assert!(poll(&mut cancelled).unwrap().is_err());
    drop(left);
    time.advance(ms(10));
    assert!(poll(&mut granted).unwrap().is_ok());
    time.advance(ms(15));
    let grant = poll(&mut behind).unwrap().unwrap();
    assert_eq!(grant.waited(), ms(20), "it is told late, and dated in time");
    assert_eq!(
        all(limits.counts()),
        ([5, 7, 2], [0, 0, 1, 0, 1, 1, 0], [1, 0])
    );
    let waits = limits.waits();
    assert_eq!((waits.count(), waits.longest()), (3, ms(20)));
    assert_eq!(waits.mean(), ms(10));
    assert_eq!(limits.get_ref().waiting_keys(), 0);
}

#[test]
fn a_key_of_an_observed_table_is_a_limiter_that_counts_there() {
    let time = ManualClock::new();
    let limits = Arc::new(Observed::new(Arc::new(table(&time))));
    let alice = limits.key_owned("alice");
    let any: &dyn Limiter = &alice;
    assert!(any.try_acquire_n(2).is_ok());
    assert!(any.try_acquire().is_err());
    let mut wait = any.acquire();
    assert!(poll(&mut wait).is_none());
    time.advance(ms(10));
    assert!(poll(&mut wait).unwrap().is_ok());
    assert_eq!(
        all(limits.counts()),
        ([2, 3, 1], [1, 0, 0, 0, 0, 0, 0], [0, 0])
    );
    assert_eq!(alice.counts(), limits.counts());

    // A gate asks the limiter past it; the gate itself can be observed.
    let slots = ConcurrencyLimit::builder(1).clock(&time);
    let gate = Gate::builder()
        .limit("tenant", limits.key_owned("alice"))
        .limit("slots", slots.build().unwrap());
    let gate = Observed::new(gate.build().unwrap());
    assert!(gate.try_acquire().is_err());
    assert_eq!(gate.counts().refused.over_limit, 1);
    assert_eq!(limits.counts().asked(), 3);
}

#[test]
fn one_key_can_be_counted_by_itself() {
    let time = ManualClock::new();
    let limits = Arc::new(table(&time));
    let alice = Observed::new(limits.key_owned("alice"));
    assert!(alice.try_acquire().is_ok());
    assert!(limits.try_acquire("alice").is_ok());
    assert!(alice.try_acquire().is_err());
    let mut wait = alice.acquire();
    assert!(poll(&mut wait).is_none());
    assert_eq!(alice.counts().waiting, 1);
    time.advance(ms(10));
    assert!(poll(&mut wait).unwrap().is_ok());
    assert_eq!(
        all(alice.counts()),
        ([2, 2, 1], [1, 0, 0, 0, 0, 0, 0], [0, 0])
    );
}

#[test]
fn permits_of_keys_are_counted_when_they_are_granted() {
    let time = ManualClock::new();
    let limits = KeyedConcurrencyLimit::builder(1).clock(&time);
    let limits = limits.capacity(10).unwrap();
    let limits = Arc::new(Observed::new(Arc::new(limits)));
    let first = limits.try_acquire_owned("a").unwrap();
    let other = limits.try_acquire("b").unwrap();
    assert!(limits.try_acquire("a").is_err());
    assert!(limits.try_acquire_n("a", 2).is_err());

    let mut granted = limits.acquire("a");
    let mut late = limits.acquire_owned("b").within(ms(5));
    let mut left = limits.acquire("a");
    assert!(poll(&mut granted).is_none());
    assert!(poll(&mut late).is_none());
    assert!(poll(&mut left).is_none());
    assert_eq!(limits.counts().waiting, 3);
    time.advance(ms(5));
    assert!(poll(&mut late).unwrap().unwrap_err().is_busy());
    time.advance(ms(2));
    drop(first);
    time.advance(ms(30));
    let second = poll(&mut granted).unwrap().unwrap();
    assert_eq!(second.units(), 1);
    drop((other, left));
    assert_eq!(
        all(limits.counts()),
        ([3, 3, 1], [0, 1, 1, 0, 1, 0, 0], [1, 0])
    );
    // As long as the limit took to grant it, not until its owner looked.
    assert_eq!(limits.waits().longest(), ms(7));
    drop(second);
    assert!(limits.get_ref().is_empty());
}

/// One turn of each host each 10 ms, one in flight.
fn gate(time: &ManualClock) -> Observed<KeyedGate<LeakyBucket>> {
    let hosts = Keyed::leaky_bucket("100/s".parse().unwrap()).clock(time);
    let slots = ConcurrencyLimit::builder(1).clock(time);
    let gate = Gate::builder()
        .limit("slots", slots.build().unwrap())
        .keyed("host", hosts.capacity(100).unwrap());
    Observed::new(gate.build().unwrap())
}

#[test]
fn a_keyed_gate_is_counted_as_one() {
    let time = ManualClock::new();
    let gate = Arc::new(gate(&time));
    let first = gate.try_acquire("a").unwrap();
    assert!(gate.try_acquire("a").is_err(), "the host");
    assert!(gate.try_acquire("b").unwrap_err().is_busy(), "the slot");

    let cancel = CancelHandle::new();
    let mut granted = gate.acquire("a");
    let mut behind = gate.acquire_owned("a");
    let mut cancelled = gate.acquire("b").cancelled_by(&cancel);
    let mut left = gate.acquire("c");
    assert!(poll(&mut granted).is_none());
    assert!(poll(&mut behind).is_none());
    assert!(poll(&mut cancelled).is_none());
    assert!(poll(&mut left).is_none());
    assert_eq!(gate.counts().waiting, 4);
    assert!(poll(&mut gate.acquire("a").n(0)).unwrap().is_ok());
    let denied = poll(&mut gate.acquire("d").within(Duration::ZERO));
    assert!(denied.unwrap().is_err());
    cancel.cancel();
    assert!(poll(&mut cancelled).unwrap().unwrap_err().is_cancelled());
    drop(left);
    assert_eq!(gate.counts().waiting, 2);

    time.advance(ms(10));
    assert!(poll(&mut granted).is_none(), "the slot is taken");
    drop(first);
    let second = poll(&mut granted).unwrap().unwrap();
    assert!(poll(&mut behind).is_none());
    drop(second);
    time.advance(ms(10));
    assert!(poll(&mut behind).unwrap().is_ok());
    assert_eq!(
        all(gate.counts()),
        ([4, 3, 2], [1, 1, 0, 0, 1, 1, 0], [1, 0])
    );
    let waits = gate.waits();
    assert_eq!((waits.count(), waits.longest()), (3, ms(20)));
    assert_eq!(waits.mean(), ms(10));
}

#[test]
fn c5_a_turn_at_an_observed_gate_that_nobody_saw_is_given_back() {
    let time = ManualClock::new();
    let gate = gate(&time);
    let first = gate.try_acquire("a").unwrap();
    let mut wait = gate.acquire("b");
    assert!(poll(&mut wait).is_none());
    drop(first); // grants the slot
    drop(wait);
    assert_eq!(
        all(gate.counts()),
        ([1, 1, 0], [0, 0, 0, 0, 0, 0, 0], [1, 0])
    );
    assert!(gate.try_acquire("b").is_ok());
}

#[test]
fn threads_of_many_keys_add_up() {
    let quota = "10/h".parse().unwrap();
    let limits = Observed::new(Keyed::token_bucket(quota).capacity(1_000).unwrap());
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let keys = (0..100).flat_map(|key| [key; 5]);
                    keys.filter(|key| limits.try_acquire(key).is_ok()).count() as u64
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(admitted, 100 * 10);
    let counts = limits.counts();
    assert_eq!((counts.admitted, counts.refused.over_limit), (1_000, 1_000));
    assert_eq!(counts.asked(), 4 * 500);
}
