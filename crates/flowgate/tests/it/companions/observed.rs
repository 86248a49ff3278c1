//! What an observed limiter counts, on a clock that only moves when told to.

use flowgate::{
    CancelHandle, ConcurrencyLimit, Drain, FixedWindow, Gate, LeakyBucket, Limiter, ManualClock,
    Observed, ObservedCounts, Order, Timestamp, TokenBucket, Unlimited,
};
use proptest::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Empty, one token each 10 ms.
fn bucket(time: &ManualClock, burst: u64) -> Observed<TokenBucket> {
    let quota = format!("100/s burst {burst}").parse().unwrap();
    let limiter = TokenBucket::builder(quota)
        .clock(time)
        .initial_tokens(0)
        .build()
        .unwrap();
    Observed::new(limiter)
}

/// Polled once; none if it waits.
fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Every field of [`ObservedCounts`], so that a test says all of what it expects: admitted, units; over the limit, busy, never,
/// queue full, closed, deadline, cancelled; abandoned, waiting.
type All = ([u64; 2], [u64; 7], [u64; 2]);

fn all(counts: ObservedCounts) -> All {
    let refused = counts.refused;
    (
        [counts.admitted, counts.units],
        [
            refused.over_limit,
            refused.busy,
            refused.never,
            refused.queue_full,
            refused.closed,
            refused.deadline,
            refused.cancelled,
        ],
        [counts.abandoned, counts.waiting],
    )
}

#[test]
fn c3_peek_says_what_try_acquire_would_also_at_a_time_before() {
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(10_000_000_000));
    let quota = "3/min".parse().unwrap();
    let window = FixedWindow::builder(quota).clock(&time).build().unwrap();
    let window = Observed::new(window);
    assert!(window.try_acquire().is_ok());
    let before = Timestamp::from_nanos(5_000_000_000);
    assert!(window.peek_n_at(before, 1).is_ok());
    assert!(window.try_acquire_n_at(before, 1).is_ok());
}

#[test]
fn decisions_are_counted_by_their_answer() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    assert_eq!(limiter.counts(), ObservedCounts::default());

    time.advance(ms(50));
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire_n(3).is_ok());
    assert!(limiter.try_acquire_n(0).is_ok());
    assert!(limiter.try_acquire_n(2).is_err());
    assert!(limiter.try_acquire_n(6).is_err());
    assert!(limiter.try_acquire_n(u64::MAX).is_err());
    limiter.queue().close();
    assert!(limiter.try_acquire().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([3, 4], [1, 0, 2, 0, 1, 0, 0], [0, 0])
    );
    assert_eq!(limiter.counts().asked(), 7);
    assert_eq!(limiter.waits().count(), 0);
}

#[test]
fn the_trait_counts_as_the_type_does() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    time.advance(ms(50));
    let any: &dyn Limiter = &limiter;
    assert!(any.try_acquire().is_ok());
    assert!(any.try_acquire_n(2).is_ok());
    assert!(any.try_acquire_n_at(time.now(), 2).is_ok());
    assert!(any.try_acquire_n_at(time.now(), 1).is_err());
    let reserved = any.try_reserve_n(3).unwrap().unwrap();
    assert_eq!(reserved.cancel(), 3);
    assert!(any.try_reserve_n(6).unwrap().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([4, 8], [1, 0, 1, 0, 0, 0, 0], [0, 0])
    );
}

#[test]
fn a_token_counts_as_the_units_that_it_is() {
    let quota = "10/s".parse::<flowgate::Quota>().unwrap();
    let quota = quota.units_per_token(1_000).unwrap();
    let limiter = TokenBucket::builder(quota).clock(ManualClock::new());
    let limiter = Observed::new(limiter.build().unwrap());
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire_n(1).is_ok());
    assert!(poll(&mut limiter.acquire()).unwrap().is_ok());
    let counts = limiter.counts();
    assert_eq!((counts.admitted, counts.units), (3, 2_001));
}

#[test]
fn waits_are_counted_by_how_they_end() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let cancel = CancelHandle::new();
    let mut granted = limiter.acquire().n(2);
    let mut cancelled = limiter.acquire().cancelled_by(&cancel);
    let mut left = limiter.acquire().n(4);
    let mut late = limiter.acquire().within(ms(80));
    for wait in [&mut granted, &mut cancelled, &mut left, &mut late] {
        assert!(poll(wait).is_none(), "nothing is there yet");
    }
    // Hopeless; too large; nothing at all; and one that is never polled.
    assert!(
        poll(&mut limiter.acquire().within(ms(70)))
            .unwrap()
            .is_err()
    );
    assert!(poll(&mut limiter.acquire().n(6)).unwrap().is_err());
    assert!(poll(&mut limiter.acquire().n(0)).unwrap().is_ok());
    drop(limiter.acquire());
    limiter.queue().set_max_waiters(4);
    assert!(poll(&mut limiter.acquire()).unwrap().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([1, 0], [0, 0, 1, 1, 0, 1, 0], [0, 4])
    );

    cancel.cancel();
    assert!(poll(&mut cancelled).unwrap().is_err());
    // From here on, the rest of the queue is later than `late` can be.
    limiter
        .get_ref()
        .set_quota("50/s burst 5".parse().unwrap())
        .unwrap();
    time.advance(ms(40));
    assert_eq!(poll(&mut granted).unwrap().unwrap().waited(), ms(40));
    drop(left);
    limiter
        .get_ref()
        .set_quota("1/h burst 5".parse().unwrap())
        .unwrap();
    time.advance(ms(40));
    assert!(poll(&mut late).unwrap().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([2, 2], [0, 0, 1, 1, 0, 2, 1], [1, 0])
    );

    let mut closed = limiter.acquire();
    assert!(poll(&mut closed).is_none());
    limiter.queue().close();
    assert!(poll(&mut closed).unwrap().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([2, 2], [0, 0, 1, 1, 1, 2, 1], [1, 0])
    );
    assert_eq!(limiter.waits().count(), 2, "those that were granted");
}

#[test]
fn who_has_to_make_room_was_refused_by_the_full_line() {
    let limiter = bucket(&ManualClock::new(), 5);
    limiter.queue().set_order(Order::Lifo).set_max_waiters(1);
    let mut oldest = limiter.acquire();
    assert!(poll(&mut oldest).is_none());
    let mut newest = limiter.acquire();
    assert!(poll(&mut newest).is_none());
    assert!(poll(&mut oldest).unwrap().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 1])
    );
}

#[test]
fn c5_a_grant_that_nobody_saw_is_abandoned_and_not_admitted() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    let mut wait = limiter.acquire().n(3);
    assert!(poll(&mut wait).is_none());
    time.advance(ms(30));
    assert_eq!(limiter.available(), 0, "granted");
    assert_eq!(limiter.counts().waiting, 0);
    drop(wait);
    assert_eq!(limiter.available(), 3);
    assert_eq!(
        all(limiter.counts()),
        ([0, 0], [0, 0, 0, 0, 0, 0, 0], [1, 0])
    );
    assert_eq!(limiter.waits().count(), 0);
}

#[test]
fn a_turn_is_counted_once_whoever_grants_it() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    time.advance(ms(50));
    assert!(limiter.try_acquire_n(5).is_ok());
    let any: &dyn Limiter = &limiter;
    let mut wait = any.acquire().n(2);
    assert!(poll(&mut wait).is_none());
    assert_eq!(limiter.get_ref().refund(2), 2);
    assert_eq!(limiter.counts().admitted, 1, "not before it knows");
    assert!(poll(&mut wait).unwrap().is_ok());
    drop(wait);
    assert_eq!(
        all(limiter.counts()),
        ([2, 7], [0, 0, 0, 0, 0, 0, 0], [0, 0])
    );
}

#[test]
fn what_goes_past_it_is_not_counted() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    time.advance(ms(50));
    assert!(limiter.get_ref().try_acquire().is_ok());
    assert!(limiter.get_ref().acquire().block().is_ok());
    let mut wait = limiter.get_ref().acquire().n(5);
    assert!(poll(&mut wait).is_none());
    assert_eq!(
        all(limiter.counts()),
        ([0, 0], [0, 0, 0, 0, 0, 0, 0], [0, 1])
    );
    drop(wait);
    assert_eq!(limiter.into_inner().available(), 3);
}

#[test]
fn one_inside_another_counts_the_same() {
    let limiter = Observed::new(bucket(&ManualClock::new(), 5));
    assert!(limiter.try_acquire().is_err());
    let mut wait = limiter.acquire();
    assert!(poll(&mut wait).is_none());
    drop(wait);
    assert!(poll(&mut limiter.acquire().n(0)).unwrap().is_ok());
    let expected = ([1, 0], [1, 0, 0, 0, 0, 0, 0], [1, 0]);
    assert_eq!(all(limiter.counts()), expected);
    assert_eq!(all(limiter.into_inner().counts()), expected);
}

#[test]
fn permits_are_counted_when_they_are_granted() {
    let time = ManualClock::new();
    let slots = ConcurrencyLimit::builder(3).clock(&time).build().unwrap();
    let slots = Arc::new(Observed::new(slots));
    let one = slots.try_acquire().unwrap();
    let two = slots.try_acquire_n_owned(2).unwrap();
    assert!(slots.try_acquire().unwrap_err().is_busy());
    assert!(slots.try_acquire_n(4).unwrap_err().is_never());
    let mut wait = slots.acquire();
    let mut late = slots.acquire_owned().n(2).within(ms(20));
    let mut left = slots.acquire();
    assert!(poll(&mut wait).is_none() && poll(&mut late).is_none() && poll(&mut left).is_none());
    time.advance(ms(10));
    drop(one);
    let three = poll(&mut wait).unwrap().unwrap();
    time.advance(ms(10));
    assert!(poll(&mut late).unwrap().unwrap_err().is_busy());
    drop(left);
    assert_eq!(slots.get_ref().in_flight(), 3);
    drop((two, three));
    assert_eq!(slots.get_ref().in_flight(), 0);
    assert_eq!(all(slots.counts()), ([3, 4], [0, 1, 1, 0, 0, 1, 0], [1, 0]));
    assert_eq!(slots.waits().longest(), ms(10));
}

#[test]
fn a_gate_is_counted_as_one() {
    let time = ManualClock::new();
    let rate = TokenBucket::builder("100/s burst 2".parse().unwrap()).clock(&time);
    let slots = ConcurrencyLimit::builder(2).clock(&time);
    let gate = Gate::builder()
        .limit("rate", Observed::new(rate.build().unwrap()))
        .limit("slots", slots.build().unwrap())
        .build()
        .unwrap();
    let gate = Observed::new(gate);
    let both = gate.try_acquire_n(2).unwrap();
    assert!(gate.try_acquire().unwrap_err().is_busy());
    drop(both);
    assert!(gate.try_acquire().unwrap_err().retry_after().is_some());
    let mut wait = gate.acquire();
    assert!(poll(&mut wait).is_none());
    time.advance(ms(10));
    assert!(poll(&mut wait).unwrap().is_ok());
    assert_eq!(all(gate.counts()), ([2, 3], [1, 1, 0, 0, 0, 0, 0], [0, 0]));
    assert_eq!(gate.waits().longest(), ms(10));
    let past = |rate: &Observed<TokenBucket>| rate.counts().asked();
    assert_eq!(gate.get_ref().configure("rate", past), Some(0));
}

#[test]
fn a_line_is_served_as_it_would_be_alone() {
    let time = ManualClock::new();
    let queue = || {
        let queue = LeakyBucket::builder("1/s".parse().unwrap()).clock(&time);
        queue
            .drain(Drain::Proportional { up_to: 3 })
            .build()
            .unwrap()
    };
    let (alone, observed) = (queue(), Observed::new(queue()));
    let mut expected: Vec<_> = (0..5).map(|_| alone.acquire()).collect();
    let mut waits: Vec<_> = (0..5).map(|_| observed.acquire()).collect();
    let mut dates = Vec::new();
    for _ in 0..2 {
        for (one, other) in expected.iter_mut().zip(&mut waits).skip(dates.len()) {
            let answers = (poll(one), poll(other));
            assert_eq!(answers.0, answers.1);
            dates.extend(answers.1);
        }
        time.advance(ms(9_000));
    }
    assert_eq!(dates.len(), 5);
    assert_eq!(observed.counts().admitted, 5);
}

#[test]
fn a_blocked_thread_is_counted_too() {
    let limiter = bucket(&ManualClock::new(), 5);
    let cancel = CancelHandle::new();
    cancel.cancel();
    let cancelled = limiter.acquire().cancelled_by(&cancel).block();
    assert!(cancelled.unwrap_err().is_cancelled());
    assert!(limiter.acquire().within(ms(9)).block().is_err());
    assert_eq!(
        all(limiter.counts()),
        ([0, 0], [0, 0, 0, 0, 0, 1, 1], [0, 0])
    );
}

#[test]
fn no_amount_panics() {
    let limiter = Observed::new(Unlimited::with_clock(ManualClock::new()));
    for n in [u64::MAX, u64::MAX, 0, 1] {
        assert!(limiter.try_acquire_n(n).is_ok());
    }
    let counts = limiter.counts();
    // 2 · (2⁶⁴ − 1) + 1, modulo 2⁶⁴.
    assert_eq!((counts.admitted, counts.units), (4, u64::MAX));
    let since = limiter.counts().since(&counts);
    assert_eq!((since.asked(), since.units), (0, 0));
}

#[test]
fn counts_since_an_earlier_look_are_those_between() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    time.advance(ms(30));
    limiter.try_acquire_n(3).unwrap();
    limiter.try_acquire().unwrap_err();
    let before = limiter.counts();
    time.advance(ms(20));
    limiter.try_acquire_n(2).unwrap();
    limiter.try_acquire_n(9).unwrap_err();
    let mut wait = limiter.acquire();
    assert!(poll(&mut wait).is_none());
    assert_eq!(
        all(limiter.counts().since(&before)),
        ([1, 2], [0, 0, 1, 0, 0, 0, 0], [0, 1])
    );
}

#[test]
fn counts_and_waits_can_be_read_by_people() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 5);
    assert_eq!(
        limiter.counts().to_string(),
        "admitted 0 (0 units), refused 0, abandoned 0, waiting 0"
    );
    assert_eq!(limiter.counts().refused.to_string(), "none");
    assert_eq!(
        limiter.waits().to_string(),
        "0 waits: mean 0ns, half at most 0ns, 99 % at most 0ns, longest 0ns"
    );
    limiter.try_acquire().unwrap_err();
    limiter.try_acquire_n(9).unwrap_err();
    let mut wait = limiter.acquire().n(2);
    assert!(poll(&mut wait).is_none());
    time.advance(ms(20));
    poll(&mut wait).unwrap().unwrap();
    limiter.try_acquire().unwrap_err();
    assert_eq!(
        limiter.counts().to_string(),
        "admitted 1 (2 units), refused 3, abandoned 0, waiting 0\n\
         refused: 2 over the limit, 1 never possible"
    );
    assert_eq!(
        limiter.waits().to_string(),
        "1 waits: mean 20ms, half at most 20ms, 99 % at most 20ms, longest 20ms"
    );
}

#[test]
fn the_lengths_of_waits() {
    let time = ManualClock::new();
    let limiter = bucket(&time, 1);
    let mut waits: Vec<_> = (0..100).map(|_| limiter.acquire()).collect();
    for wait in &mut waits {
        assert!(poll(wait).is_none());
    }
    time.advance(ms(2_000));
    for wait in &mut waits {
        assert!(poll(wait).unwrap().is_ok());
    }
    let waits = limiter.waits();
    assert_eq!(waits.count(), 100);
    assert_eq!(waits.mean(), ms(505));
    assert_eq!(waits.longest(), ms(1_000));
    for percent in 1..=100 {
        let (exact, told) = (ms(10 * percent), waits.quantile(percent, 100));
        assert!(
            told >= exact && told <= exact + exact / 16,
            "{percent} %: {told:?}"
        );
    }
    assert_eq!(waits.quantile(0, 100), waits.quantile(1, 100));
    assert_eq!(waits.quantile(7, 0), ms(1_000));
    assert_eq!(waits.quantile(u64::MAX, u64::MAX), ms(1_000));
    let told: Vec<_> = waits.buckets().collect();
    assert!(told.is_sorted());
    assert_eq!(told.last(), Some(&(ms(1_000), 100)));

    assert!(limiter.try_acquire().is_ok());
    time.advance(ms(10));
    assert!(poll(&mut limiter.acquire()).unwrap().is_ok());
    let mut next = limiter.acquire();
    assert!(poll(&mut next).is_none());
    time.advance(ms(10));
    assert!(poll(&mut next).unwrap().is_ok());
    let since = limiter.waits().since(&waits);
    assert_eq!((since.count(), since.mean()), (2, ms(5)));
    assert_eq!(since.quantile(1, 2), Duration::ZERO);
    assert!(since.longest() >= ms(10) && since.longest() <= ms(10) + ms(10) / 16);
    assert_eq!(limiter.waits().longest(), ms(1_000));
}

proptest! {
    /// Waits of any length, one after the other, against a sorted list of them.
    #[test]
    fn quantiles_are_those_of_a_sorted_list_rounded_up(
        lengths in prop::collection::vec((0_u32..57, any::<u64>()), 1..60),
        parts in prop::collection::vec((0_u64..=1_000, 1_u64..=1_000), 1..20),
    ) {
        // Empty, and a token each nanosecond: n of them take n ns.
        let time = ManualClock::new();
        let quota = flowgate::Quota::per_second(1_000_000_000).burst(1 << 56);
        let limiter = TokenBucket::builder(quota).clock(&time).initial_tokens(0);
        let limiter = Observed::new(limiter.build().unwrap());
        let mut sorted = Vec::new();
        for (bits, random) in lengths {
            let wait_ns = random & ((1 << bits) - 1);
            let mut wait = limiter.acquire().n(wait_ns);
            let answer = poll(&mut wait).or_else(|| {
                time.advance(Duration::from_nanos(wait_ns));
                poll(&mut wait)
            });
            prop_assert_eq!(u128::from(wait_ns), answer.unwrap().unwrap().waited().as_nanos());
            sorted.push(u128::from(wait_ns));
        }
        sorted.sort_unstable();
        let waits = limiter.waits();
        let count = sorted.len() as u64;
        prop_assert_eq!(waits.count(), count);
        prop_assert_eq!(waits.longest().as_nanos(), *sorted.last().unwrap());
        let total: u128 = sorted.iter().sum();
        prop_assert_eq!(waits.mean().as_nanos(), total.div_ceil(count.into()));
        for (part, of) in parts {
            let rank = (count * part).div_ceil(of).clamp(1, count);
            let exact = sorted[rank as usize - 1];
            let told = waits.quantile(part, of).as_nanos();
            prop_assert!(told >= exact && told <= exact + exact / 16, "{told} for {exact}");
        }
    }
}

#[test]
fn threads_that_share_their_counters_add_up() {
    const THREADS: u64 = 48;
    const ROUNDS: u64 = 20_000;
    let limiter = Observed::new(Unlimited::new());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                for _ in 0..ROUNDS {
                    limiter.try_acquire_n(3).unwrap();
                }
            });
        }
    });
    let counts = limiter.counts();
    let expected = (THREADS * ROUNDS, 3 * THREADS * ROUNDS);
    assert_eq!((counts.admitted, counts.units), expected);
}

#[test]
fn threads_add_up() {
    const THREADS: u64 = 20;
    const ROUNDS: u64 = 2_000;
    let time = ManualClock::new();
    let limiter = bucket(&time, 1_000);
    time.advance(ms(10_000));
    /// Admitted operations and units, and those refused, abandoned.
    fn work(limiter: &Observed<TokenBucket>) -> [u64; 4] {
        let mut seen = [0; 4];
        for _ in 0..ROUNDS {
            for (answer, units) in [
                (limiter.try_acquire(), 1),
                (limiter.try_acquire_n(2), 2),
                (limiter.try_acquire_n(1_001), 0),
                (limiter.acquire().within(ms(0)).block().map(|_| ()), 1),
            ] {
                match answer {
                    Ok(()) => (seen[0], seen[1]) = (seen[0] + 1, seen[1] + units),
                    Err(_) => seen[2] += 1,
                }
            }
            match poll(&mut limiter.acquire().n(3)) {
                Some(answer) => {
                    assert_eq!(answer.unwrap().units(), 3);
                    (seen[0], seen[1]) = (seen[0] + 1, seen[1] + 3);
                }
                None => seen[3] += 1,
            }
        }
        seen
    }
    let seen = std::thread::scope(|threads| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| threads.spawn(|| work(&limiter)))
            .collect();
        threads.into_iter().fold([0; 4], |sum, thread| {
            let seen = thread.join().unwrap();
            std::array::from_fn(|index| sum[index] + seen[index])
        })
    });
    let counts = limiter.counts();
    let counted = [
        counts.admitted,
        counts.units,
        counts.refused.total(),
        counts.abandoned,
    ];
    assert_eq!(counted, seen);
    assert_eq!(counts.asked(), 5 * THREADS * ROUNDS);
    assert_eq!(counts.waiting, 0);
    assert_eq!(counts.units + limiter.available(), 1_000);
}

/// The queue is made by a waiter that came through the wrapper, and is then met by callers of the limiter itself.
#[test]
fn c6_a_caller_of_the_limiter_does_not_overtake_a_waiter_of_the_wrapper() {
    let time = ManualClock::new();
    let observed = bucket(&time, 2);
    let mut waiter = observed.acquire().n(2);
    assert!(poll(&mut waiter).is_none());

    time.advance(ms(15));
    let limiter = observed.get_ref();
    assert!(limiter.try_acquire().is_err());
    assert_eq!(limiter.take_up_to(1), 0);

    time.advance(ms(5));
    assert!(limiter.try_acquire().is_err()); // serves the waiter first
    assert!(poll(&mut waiter).is_some_and(|answer| answer.is_ok()));
    time.advance(ms(10));
    assert!(limiter.try_acquire().is_ok());
}
