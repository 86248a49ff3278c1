//! The queues of .NET's `System.Threading.RateLimiting` (dotnet/runtime, tests of `TokenBucketRateLimiter`), replayed: what
//! is true of theirs is true of ours, or the row says why not. Their replenishment period is 1 s here.

use flowgate::{Acquire, Denied, ManualClock, Order, Refill, TokenBucket};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// `limit` tokens, full, of which `per` come back each second, and room for `queue` in the queue.
fn limiter(time: &ManualClock, limit: u64, per: u64, queue: u64, order: Order) -> TokenBucket {
    let quota = format!("{per}/s burst {limit}").parse().unwrap();
    let limiter = TokenBucket::builder(quota)
        .clock(time)
        .refill(Refill::Interval)
        .build()
        .unwrap();
    limiter.queue().set_max_units(queue).set_order(order);
    limiter
}

struct Waiter<'a>(
    Pin<Box<Acquire<&'a TokenBucket>>>,
    Option<Result<(), Denied>>,
);

impl<'a> Waiter<'a> {
    /// `AcquireAsync(n)`.
    fn new(limiter: &'a TokenBucket, n: u64) -> Self {
        let mut waiter = Self(Box::pin(limiter.acquire().n(n)), None);
        waiter.outcome();
        waiter
    }

    /// Whether it was acquired; none while it waits.
    fn outcome(&mut self) -> Option<bool> {
        if self.1.is_none()
            && let Poll::Ready(answer) = self
                .0
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
        {
            self.1 = Some(answer.map(|_| ()));
        }
        self.1.map(|answer| answer.is_ok())
    }

    fn retry_after(&mut self) -> Option<Duration> {
        self.outcome();
        self.1?.err()?.retry_after()
    }
}

#[test]
fn c6_the_oldest_are_served_in_order() {
    let time = ManualClock::new();
    let limiter = limiter(&time, 1, 1, 2, Order::Fifo);
    limiter.try_acquire().unwrap();
    let (mut first, mut second) = (Waiter::new(&limiter, 1), Waiter::new(&limiter, 1));
    time.advance(SECOND);
    assert_eq!((first.outcome(), second.outcome()), (Some(true), None));
    assert_eq!(limiter.available(), 0);
    time.advance(SECOND);
    assert_eq!(second.outcome(), Some(true));
    assert_eq!(limiter.available(), 0);
}

#[test]
fn c6_or_the_newest_are_served_first() {
    let time = ManualClock::new();
    let limiter = limiter(&time, 2, 1, 3, Order::Lifo);
    limiter.try_acquire_n(2).unwrap();
    let (mut two, mut one) = (Waiter::new(&limiter, 2), Waiter::new(&limiter, 1));
    time.advance(SECOND);
    assert_eq!((two.outcome(), one.outcome()), (None, Some(true)));
    time.advance(SECOND);
    assert_eq!(two.outcome(), None);
    time.advance(SECOND);
    assert_eq!(two.outcome(), Some(true));
}

#[test]
fn a_full_queue_refuses_the_newcomer_or_the_oldest() {
    let time = ManualClock::new();
    let fifo = limiter(&time, 1, 1, 1, Order::Fifo);
    fifo.try_acquire().unwrap();
    let (mut first, mut second) = (Waiter::new(&fifo, 1), Waiter::new(&fifo, 1));
    assert_eq!((first.outcome(), second.outcome()), (None, Some(false)));
    assert!(second.1.unwrap().unwrap_err().is_queue_full());
    assert_eq!(second.retry_after(), Some(2 * SECOND));

    let lifo = limiter(&time, 1, 1, 1, Order::Lifo);
    lifo.try_acquire().unwrap();
    let (mut first, mut second) = (Waiter::new(&lifo, 1), Waiter::new(&lifo, 1));
    assert_eq!((first.outcome(), second.outcome()), (Some(false), None));

    let lifo = limiter(&time, 2, 1, 2, Order::Lifo);
    lifo.try_acquire_n(2).unwrap();
    let (mut first, mut second) = (Waiter::new(&lifo, 1), Waiter::new(&lifo, 1));
    let mut large = Waiter::new(&lifo, 2);
    assert_eq!(
        (first.outcome(), second.outcome()),
        (Some(false), Some(false))
    );
    assert_eq!(large.outcome(), None);
}

#[test]
fn who_is_larger_than_the_queue_is_refused_and_evicts_nobody() {
    let time = ManualClock::new();
    let limiter = limiter(&time, 2, 1, 1, Order::Lifo);
    limiter.try_acquire_n(2).unwrap();
    let mut one = Waiter::new(&limiter, 1);
    let mut two = Waiter::new(&limiter, 2);
    assert_eq!((one.outcome(), two.outcome()), (None, Some(false)));
}

#[test]
fn the_largest_of_queues_does_not_overflow() {
    let time = ManualClock::new();
    let most = i32::MAX as u64;
    let limiter = limiter(&time, most, most, most, Order::Lifo);
    limiter.try_acquire_n(most).unwrap();
    let mut three = Waiter::new(&limiter, 3);
    let mut all = Waiter::new(&limiter, most);
    assert_eq!((three.outcome(), all.outcome()), (Some(false), None));
    time.advance(SECOND);
    assert_eq!(all.outcome(), Some(true));
}

#[test]
fn more_than_the_limit_never_and_nothing_always() {
    let time = ManualClock::new();
    let limiter = limiter(&time, 1, 1, 1, Order::Fifo);
    let mut large = Waiter::new(&limiter, 2);
    assert_eq!(large.outcome(), Some(false));
    assert!(large.1.unwrap().unwrap_err().is_never());
    limiter.try_acquire().unwrap();
    // Theirs fails or queues when nothing is available: 0 asks whether something is.
    assert_eq!(Waiter::new(&limiter, 0).outcome(), Some(true));
}

#[test]
fn c6_who_cancels_makes_room() {
    let time = ManualClock::new();
    let limiter = limiter(&time, 1, 1, 1, Order::Fifo);
    limiter.try_acquire().unwrap();
    drop(Waiter::new(&limiter, 1));
    let mut next = Waiter::new(&limiter, 1);
    assert_eq!(next.outcome(), None);
    drop(next);
    time.advance(SECOND);
    assert_eq!(limiter.available(), 1);
}

#[test]
fn disposed_it_fails_all() {
    let time = ManualClock::new();
    let limiter = limiter(&time, 1, 1, 5, Order::Fifo);
    limiter.try_acquire().unwrap();
    let mut waiters = [1, 1].map(|n| Waiter::new(&limiter, n));
    limiter.queue().close();
    assert_eq!(waiters.each_mut().map(Waiter::outcome), [Some(false); 2]);
    assert!(limiter.try_acquire().unwrap_err().is_closed());
    assert_eq!(Waiter::new(&limiter, 1).outcome(), Some(false));
}

#[test]
fn c3_how_long_it_will_be() {
    // (limit, per period, taken, queued, asked): periods until the same would be granted.
    let rows = [
        ((2, 1, 2, 0, 2), 2),
        // Theirs says 3, too: one for the queued, two for the asked.
        ((2, 1, 2, 1, 2), 3),
        ((2, 2, 2, 0, 2), 1),
        ((2, 100, 2, 0, 2), 1),
        ((3, 1, 2, 0, 3), 2),
    ];
    for ((limit, per, taken, queued, asked), periods) in rows {
        let time = ManualClock::new();
        let limiter = limiter(&time, limit, per, queued, Order::Fifo);
        limiter.try_acquire_n(taken).unwrap();
        let _queued = (queued > 0).then(|| Waiter::new(&limiter, queued));
        let mut asked = Waiter::new(&limiter, asked);
        assert_eq!(asked.retry_after(), Some(periods * SECOND), "{limit} {per}");
    }
}

#[test]
fn c6_a_newcomer_among_those_who_wait() {
    let time = ManualClock::new();
    for (order, overtakes) in [(Order::Lifo, Some(true)), (Order::Fifo, None)] {
        let limiter = limiter(&time, 2, 2, 3, order);
        limiter.try_acquire().unwrap();
        let _two = Waiter::new(&limiter, 2);
        assert_eq!(Waiter::new(&limiter, 1).outcome(), overtakes);
        // `AttemptAcquire` fails there while anything is queued under OldestFirst; here it does under both.
        assert!(limiter.try_acquire().is_err());
    }
}
