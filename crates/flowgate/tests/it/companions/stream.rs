//! Streams whose items wait for their turns, polled by hand on a clock that only moves when told to.

use flowgate::{ManualClock, RateLimited, StreamExt as _, TokenBucket};
use futures_core::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Gives out what it has; ends when it has nothing more.
#[derive(Debug, Default)]
struct Items(VecDeque<u64>);

impl Stream for Items {
    type Item = u64;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
        Poll::Ready(self.0.pop_front())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

fn items(items: impl IntoIterator<Item = u64>) -> Items {
    Items(items.into_iter().collect())
}

fn limiter(time: &ManualClock, quota: &str) -> TokenBucket {
    let quota = quota.parse().expect("a quota");
    TokenBucket::builder(quota)
        .clock(time)
        .build()
        .expect("in range")
}

fn next<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

const fn some<T>(item: T) -> Poll<Option<T>> {
    Poll::Ready(Some(item))
}

const END: Poll<Option<u64>> = Poll::Ready(None);

#[test]
fn c1_each_item_waits_for_a_token_and_none_is_lost() {
    let time = ManualClock::new();
    let limiter = limiter(&time, "1000/s burst 2");
    let mut stream = items(0..5).rate_limited(&limiter);
    assert_eq!([next(&mut stream), next(&mut stream)], [some(0), some(1)]);
    for item in 2..5 {
        for _ in 0..4 {
            assert_eq!(next(&mut stream), Poll::Pending);
            time.advance(Duration::from_micros(250));
        }
        assert_eq!(next(&mut stream), some(item));
    }
    assert_eq!(next(&mut stream), END);
    assert!(stream.denied().is_none());
    // The end has cost nothing.
    time.advance(Duration::from_millis(1));
    assert_eq!(limiter.available(), 1);
}

#[test]
fn c6_streams_and_others_stand_in_one_line() {
    let time = ManualClock::new();
    let limiter = Arc::new(limiter(&time, "1000/s burst 1"));
    limiter.try_acquire().expect("there is one");
    let mut first = items(0..9).rate_limited(Arc::clone(&limiter));
    let mut second = items(0..9).rate_limited(&*limiter);
    assert!(next(&mut first).is_pending());
    assert!(next(&mut second).is_pending());
    time.advance(Duration::from_millis(1));
    assert!(limiter.try_acquire().is_err());
    assert!(next(&mut second).is_pending());
    assert_eq!(next(&mut first), some(0));
    assert!(next(&mut first).is_pending());
    time.advance(Duration::from_millis(1));
    assert_eq!(
        (next(&mut second), next(&mut first)),
        (some(0), Poll::Pending)
    );
    assert_eq!(limiter.queue().len(), 1);
    drop(first);
    assert!(limiter.queue().is_empty());
    time.advance(Duration::from_millis(1));
    limiter.try_acquire().expect("it has moved up");
}

#[test]
fn c2_an_item_that_costs_more_than_the_burst_takes_exactly_the_time_that_is_due() {
    let time = ManualClock::new();
    let limiter = limiter(&time, "1000/s burst 10");
    let mut stream = items([0, 35, 1])
        .rate_limited(&limiter)
        .costing(|item: &u64| *item);
    assert_eq!(next(&mut stream), some(0));
    assert_eq!(limiter.available(), 10);
    for _ in 0..25 {
        assert_eq!(next(&mut stream), Poll::Pending);
        time.advance(Duration::from_millis(1));
    }
    assert_eq!(next(&mut stream), some(35));
    assert_eq!(next(&mut stream), Poll::Pending);
    time.advance(Duration::from_millis(1));
    assert_eq!((next(&mut stream), next(&mut stream)), (some(1), END));
}

#[test]
fn c2_an_item_is_not_refused_when_the_burst_is_made_smaller() {
    let time = ManualClock::new();
    let limiter = limiter(&time, "1000/s burst 100");
    limiter.try_acquire_n(100).expect("there are 100");
    let mut stream = items([60])
        .rate_limited(&limiter)
        .costing(|item: &u64| *item);
    assert_eq!(next(&mut stream), Poll::Pending);
    limiter.set_burst(7).expect("in range");
    for _ in 0..60 {
        assert_eq!(next(&mut stream), Poll::Pending);
        time.advance(Duration::from_millis(1));
    }
    assert_eq!(next(&mut stream), some(60));
}

#[test]
fn a_token_is_as_many_units_as_the_quota_says() {
    let time = ManualClock::new();
    let limiter = limiter(&time, "1000/s burst 2 units 50");
    let mut stream = items(0..2).rate_limited(&limiter);
    assert_eq!(next(&mut stream), some(0));
    assert_eq!(limiter.available(), 50);
}

#[test]
fn the_limiter_ends_it_and_the_item_that_waited_is_still_there() {
    let time = ManualClock::new();
    let limiter = limiter(&time, "1000/s burst 1");
    let mut stream = items(0..5).rate_limited(&limiter);
    assert_eq!(
        (next(&mut stream), next(&mut stream)),
        (some(0), Poll::Pending)
    );
    assert_eq!(stream.size_hint(), (0, Some(4)));
    limiter.queue().close();
    for _ in 0..2 {
        assert_eq!(next(&mut stream), END);
        assert!(stream.denied().is_some_and(|denied| denied.is_closed()));
    }
    let (rest, waiting) = stream.into_parts();
    assert_eq!((rest.0.len(), waiting), (3, Some(1)));
}

#[test]
fn c5_parts_leave_the_line_and_what_nobody_saw_comes_back() {
    let time = ManualClock::new();
    let limiter = limiter(&time, "1000/s burst 4");
    limiter.try_acquire_n(4).expect("there are four");
    let mut stream = items([3])
        .rate_limited(&limiter)
        .costing(|item: &u64| *item);
    assert!(next(&mut stream).is_pending());
    time.advance(Duration::from_millis(3));
    // Its turn has come, and somebody who looks has it served.
    assert!(limiter.try_acquire().is_err());
    let (_, waiting) = stream.into_parts();
    assert_eq!((waiting, limiter.available()), (Some(3), 3));
}

#[test]
fn it_may_go_into_a_task_of_its_own() {
    fn may<T: Send + Unpin + 'static>(_: &T) {}
    let limiter = Arc::new(limiter(&ManualClock::new(), "5/s"));
    let stream: RateLimited<_, _> = items(0..2).rate_limited(limiter);
    may(&stream);
    assert!(format!("{stream:?}").contains("is_waiting: false"));
}
