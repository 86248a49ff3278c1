//! Wakers are foreign code: they come back into the limiter, panic, and change from one poll to the next.

use super::*;
use crate::queue::CancelHandle;
use alloc::sync::Arc;
use alloc::task::Wake;
use std::boxed::Box;

/// Does something before it wakes, or is dropped.
struct Busy<F: Fn() + Send + Sync> {
    work: F,
    then: Waker,
}

impl<F: Fn() + Send + Sync> Wake for Busy<F> {
    fn wake(self: Arc<Self>) {
        (self.work)();
        self.then.wake_by_ref();
    }
}

impl<F: Fn() + Send + Sync> Drop for Busy<F> {
    fn drop(&mut self) {
        (self.work)();
    }
}

/// Waits with a waker that does `work` first.
fn wait_busily<F, W>(wait: F, work: W) -> F::Output
where
    F: Future,
    W: Fn() + Clone + Send + Sync + 'static,
{
    let mut wait = Box::pin(wait);
    block_on(poll_fn(move |context| {
        let busy = Busy {
            work: work.clone(),
            then: context.waker().clone(),
        };
        let waker = Waker::from(Arc::new(busy));
        wait.as_mut().poll(&mut Context::from_waker(&waker))
    }))
}

#[test]
fn a_waker_that_comes_back_into_the_limit() {
    explore(|| {
        let limit = Arc::new(slots(1));
        let in_use = InUse::default();
        let permit = limit.try_acquire_owned().expect("it is free");
        // A panic in a waker is not reported, so the test counts whether the waker finishes.
        let (begun, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let work = {
            let (limit, begun, done) = (Arc::clone(&limit), Arc::clone(&begun), Arc::clone(&done));
            move || {
                begun.fetch_add(1, SeqCst);
                drop(limit.try_acquire());
                drop(leave_early(limit.acquire()));
                let _ = limit.queue().len();
                done.fetch_add(1, SeqCst);
            }
        };
        thread::scope(|threads| {
            for _ in 0..2 {
                let (limit, in_use, work) = (&limit, &in_use, work.clone());
                threads.spawn(move || {
                    let permit = wait_busily(limit.acquire(), work).expect("in turn");
                    in_use.use_up(permit, 1);
                });
            }
            threads.spawn(|| in_use.hold(limit.acquire(), 1).expect("in turn"));
            threads.spawn(move || drop(permit));
        });
        assert!(begun.load(SeqCst) >= 2);
        assert_eq!(
            begun.load(SeqCst),
            done.load(SeqCst),
            "it came back into a lock"
        );
        assert_idle(&limit);
    });
}

#[test]
fn a_waker_that_comes_back_into_a_bucket_whose_clock_moves() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let bucket = Arc::new(bucket);
        let ledger = Ledger::default();
        let (begun, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let work = {
            let (bucket, begun, done) =
                (Arc::clone(&bucket), Arc::clone(&begun), Arc::clone(&done));
            move || {
                begun.fetch_add(1, SeqCst);
                assert!(bucket.try_acquire_n(u64::MAX).is_err());
                let _ = bucket.queue().len();
                done.fetch_add(1, SeqCst);
            }
        };
        thread::scope(|threads| {
            for _ in 0..2 {
                let (bucket, ledger, work) = (&bucket, &ledger, work.clone());
                threads.spawn(move || {
                    let deadline = at(40);
                    ledger.enter_now(
                        wait_busily(bucket.acquire().by(deadline), work).expect("in time"),
                    );
                });
            }
            threads.spawn(|| walk(&time, [10, 15, 30]));
        });
        assert_eq!(
            begun.load(SeqCst),
            done.load(SeqCst),
            "it came back into a lock"
        );
        ledger.reckon(&bucket, 0);
    });
}

/// Panics, without the noise.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("a waker that panics"));
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_served() {
    explore(|| {
        let (limit, in_use) = (slots(0), InUse::default());
        let mut broken = Box::pin(limit.acquire());
        let panics = Waker::from(Arc::new(Panics));
        let poll = broken.as_mut().poll(&mut Context::from_waker(&panics));
        assert!(poll.is_pending());
        thread::scope(|threads| {
            for n in [1, 2] {
                let (limit, in_use) = (&limit, &in_use);
                threads.spawn(move || in_use.hold(limit.acquire().n(n), 2).expect("in turn"));
            }
            threads.spawn(|| limit.set_limit(2).expect("within range"));
            threads.spawn(move || {
                thread::yield_now();
                drop(broken);
            });
        });
        assert_idle(&limit);
    });
}

#[test]
fn a_waker_that_panics_does_not_stop_the_clock() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let mut broken = Box::pin(bucket.acquire());
        let panics = Waker::from(Arc::new(Panics));
        let poll = broken.as_mut().poll(&mut Context::from_waker(&panics));
        assert!(poll.is_pending());
        let left = AtomicU64::new(2);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    ledger.wait(bucket.acquire()).expect("in turn");
                    left.fetch_sub(1, SeqCst);
                });
            }
            threads.spawn(|| {
                walk(&time, [11, 35]);
                walk_until_none_is(&left, &time, A_WHILE_NS);
            });
        });
        // It was granted, and never looked.
        let come = time.now().as_nanos() / INTERVAL_NS;
        assert_eq!(bucket.available() + ledger.units() + 1, come);
        drop(broken);
        ledger.reckon(&bucket, 0);
    });
}

/// Stops waking once its task has another waker.
struct Stale {
    is_current: std::sync::atomic::AtomicBool,
    then: Waker,
}

impl Wake for Stale {
    fn wake(self: Arc<Self>) {
        if self.is_current.load(SeqCst) {
            self.then.wake_by_ref();
        }
    }
}

/// Waits as a task that goes from hand to hand: each poll comes with another waker, and is followed by one more at
/// which nothing has happened.
fn wait_moving<F: Future>(wait: F) -> F::Output {
    let mut wait = pin!(wait);
    let mut current: Option<Arc<Stale>> = None;
    let mut is_extra = true;
    block_on(poll_fn(move |context| {
        if let Some(old) = current.take() {
            old.is_current.store(false, SeqCst);
        }
        let stale = Arc::new(Stale {
            is_current: true.into(),
            then: context.waker().clone(),
        });
        current = Some(Arc::clone(&stale));
        let waker = Waker::from(stale);
        let answer = wait.as_mut().poll(&mut Context::from_waker(&waker));
        is_extra = !is_extra;
        if answer.is_pending() && !is_extra {
            context.waker().wake_by_ref();
        }
        answer
    }))
}

#[test]
fn a_task_that_moves_is_woken_where_it_is() {
    explore(|| {
        let (limit, time) = timed_slots(1);
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| drop(wait_moving(limit.acquire()).expect("in turn")));
            }
            threads.spawn(|| {
                if let Err(denied) = wait_moving(limit.acquire().by(at(5))) {
                    assert!(denied.is_busy() && time.now() >= at(5), "{denied:?}");
                }
            });
            threads.spawn(|| walk(&time, [3, 5]));
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

#[test]
fn a_task_that_moves_is_woken_by_the_clock() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    ledger.enter_now(wait_moving(bucket.acquire()).expect("in turn"));
                });
            }
            threads.spawn(|| walk(&time, [10, 19, 45]));
        });
        ledger.reckon(&bucket, 0);
    });
}

#[test]
fn cancelling_meets_a_release() {
    explore(|| {
        let (limit, in_use) = (slots(1), InUse::default());
        let permit = limit.try_acquire().expect("it is free");
        let handle = CancelHandle::new();
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let wait = limit.acquire().cancelled_by(&handle);
                    if let Err(denied) = in_use.hold(wait, 1) {
                        assert!(denied.is_cancelled() && handle.is_cancelled(), "{denied:?}");
                    }
                });
            }
            threads.spawn(|| {
                in_use
                    .hold(limit.acquire(), 1)
                    .expect("it is not cancelled")
            });
            threads.spawn(|| handle.cancel());
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

/// Nothing else would end these.
#[test]
fn cancelling_meets_those_who_enter_the_line() {
    explore(|| {
        let limit = slots(1);
        let permit = limit.try_acquire().expect("it is free");
        let handle = CancelHandle::new();
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let denied = block_on(limit.acquire().cancelled_by(&handle)).unwrap_err();
                    assert!(denied.is_cancelled(), "{denied:?}");
                });
            }
            threads.spawn(|| {
                let denied = wait_moving(limit.acquire().cancelled_by(&handle)).unwrap_err();
                assert!(denied.is_cancelled(), "{denied:?}");
            });
            threads.spawn(|| handle.cancel());
        });
        drop(permit);
        assert_idle(&limit);
    });
}

/// Whether the cancelled one looks before, meanwhile or after.
#[test]
fn c6_a_place_is_free_once_its_wait_is_cancelled() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let handle = CancelHandle::new();
        bucket.queue().set_max_waiters(1);
        let mut cancelled = pin!(bucket.acquire().cancelled_by(&handle));
        let mut context = Context::from_waker(Waker::noop());
        assert!(cancelled.as_mut().poll(&mut context).is_pending());
        thread::scope(|threads| {
            threads.spawn(|| match block_on(cancelled) {
                Ok(grant) => ledger.enter_now(grant),
                Err(denied) => assert!(denied.is_cancelled(), "{denied:?}"),
            });
            threads.spawn(|| {
                handle.cancel();
                ledger.wait(bucket.acquire()).expect("its place is free");
            });
            threads.spawn(|| walk(&time, [12, 20, 31]));
        });
        ledger.reckon(&bucket, 0);
    });
}

#[test]
fn c5_cancelling_meets_a_clock_that_moves() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let ledger = Ledger::default();
        let handle = CancelHandle::new();
        thread::scope(|threads| {
            threads.spawn(|| {
                let wait = bucket.acquire().n(2).cancelled_by(&handle);
                if let Err(denied) = ledger.wait(wait) {
                    assert!(denied.is_cancelled() && handle.is_cancelled(), "{denied:?}");
                }
            });
            threads.spawn(|| ledger.wait(bucket.acquire()).expect("it is not cancelled"));
            threads.spawn(|| handle.cancel());
            threads.spawn(|| walk(&time, [12, 20, 31]));
        });
        ledger.reckon(&bucket, 0);
    });
}

/// The queue has the last of it, when its task comes with another or leaves.
#[test]
fn a_waker_that_comes_back_into_a_bucket_when_it_is_dropped() {
    explore(|| {
        let (bucket, time) = bucket(0);
        let bucket = Arc::new(bucket);
        let mut wait = Box::pin(bucket.acquire());
        let done = Arc::new(AtomicU64::new(0));
        let work = {
            let (bucket, done) = (Arc::clone(&bucket), Arc::clone(&done));
            move || {
                let _ = bucket.queue().len();
                done.fetch_add(1, SeqCst);
            }
        };
        let then = Waker::noop().clone();
        let looks = Waker::from(Arc::new(Busy { work, then }));
        let poll = wait.as_mut().poll(&mut Context::from_waker(&looks));
        assert!(poll.is_pending());
        drop(looks);
        thread::scope(|threads| {
            threads.spawn(|| walk(&time, [10, 15]));
            threads.spawn(move || {
                if let Some(answer) = leave_early(wait.as_mut()) {
                    answer.expect("in turn");
                }
            });
        });
        assert!(done.load(SeqCst) >= 1);
        assert!(bucket.queue().is_empty());
    });
}
