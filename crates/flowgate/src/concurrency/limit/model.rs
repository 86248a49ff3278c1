//! loom models: every interleaving of taking, giving back, waiting and giving up, with the clock as one of the racers.
//!
//! Run by `ci/loom.sh`. A lost wake-up shows as a wait that is never woken, although all others are done.

use super::{ConcurrencyLimit, OwnedPermit};
use crate::clock::{ManualClock, Timestamp};
use crate::primitive::{AtomicU64, Ordering};
use crate::queue::{Codel, Order};
use crate::verdict::Denied;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use loom::thread;

/// Records whether its waiter was woken. It is not a loom type, so it orders nothing.
#[derive(Default)]
struct Bell(std::sync::atomic::AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// A wait that is polled by hand.
struct Task<F> {
    wait: Pin<Box<F>>,
    bell: Arc<Bell>,
}

impl<F: Future> Task<F> {
    fn new(wait: F) -> Self {
        Self {
            wait: Box::pin(wait),
            bell: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.wait.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls the wait if it was woken, as a runtime would, when no other thread is left to wake it.
    #[track_caller]
    fn finish(&mut self) -> F::Output {
        let was_woken = self.bell.0.swap(false, std::sync::atomic::Ordering::SeqCst);
        assert!(was_woken, "nobody has woken it");
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it still waits, and nobody is left to wake it"),
        }
    }
}

/// Explores up to `preemptions` preemptions: enough to find what these models are for, and few enough to end.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn limit_of(limit: u32) -> (Arc<ConcurrencyLimit>, ManualClock) {
    let time = ManualClock::new();
    let builder = ConcurrencyLimit::builder(limit).clock(&time);
    (
        Arc::new(builder.build().expect("a limit within range")),
        time,
    )
}

/// Sets the limit to two, on a thread of its own.
fn grow_to_two(limit: &Arc<ConcurrencyLimit>) -> thread::JoinHandle<()> {
    let limit = Arc::clone(limit);
    thread::spawn(move || limit.set_limit(2).expect("within range"))
}

#[track_caller]
fn assert_idle(limit: &ConcurrencyLimit) {
    assert!(limit.queue().is_empty());
    assert_eq!(
        (limit.in_flight(), limit.available()),
        (0, limit.limit().into())
    );
}

#[test]
fn model_c1_two_take_the_last_slot() {
    loom::model(|| {
        let (limit, _) = limit_of(3);
        let other = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.try_acquire_n_owned(2)
        });
        let mine = limit.try_acquire_n_owned(2);
        let other = other.join().expect("no panic");
        assert!(mine.is_ok() != other.is_ok(), "one of them, and not both");
        assert_eq!(limit.in_flight(), 2);
        drop((mine, other));
        assert_idle(&limit);
    });
}

#[test]
fn model_a_release_meets_somebody_who_enters_the_line() {
    explore(5, || {
        let (limit, _) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let releaser = thread::spawn(move || drop(permit));
        let mut wait = Task::new(limit.acquire_owned());
        let now = wait.poll();
        releaser.join().expect("no panic");
        let permit = match now {
            Poll::Ready(permit) => permit,
            Poll::Pending => wait.finish(),
        };
        assert_eq!(limit.in_flight(), 1);
        drop(permit.expect("it was given back"));
        assert_idle(&limit);
    });
}

#[test]
fn model_two_releases_meet_somebody_who_wants_both() {
    explore(4, || {
        let (limit, _) = limit_of(2);
        let mut permit = limit.try_acquire_n_owned(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        let mut wait = Task::new(limit.acquire_owned().n(2));
        let releaser = thread::spawn(move || drop(permit));
        let other = thread::spawn(move || drop(other));
        let now = wait.poll();
        releaser.join().expect("no panic");
        other.join().expect("no panic");
        let permit = match now {
            Poll::Ready(permit) => permit,
            Poll::Pending => wait.finish(),
        };
        drop(permit.expect("both were given back"));
        assert_idle(&limit);
    });
}

/// What the leaving waiter was handed goes to the one behind it, and what is left over is free.
#[test]
fn model_c2_slots_that_come_back_together_meet_somebody_who_gives_up() {
    explore(3, || {
        let (limit, _) = limit_of(3);
        let permit = limit.try_acquire_n_owned(3).expect("they are free");
        let mut first = Task::new(limit.acquire_owned());
        let mut next = Task::new(limit.acquire_owned());
        assert!(first.poll().is_pending() && next.poll().is_pending());
        let releaser = thread::spawn(move || drop(permit));
        drop(first);
        releaser.join().expect("no panic");
        let permit = next.finish().expect("it was given back");
        assert_eq!((limit.in_flight(), limit.available()), (1, 2));
        drop(permit);
        assert_idle(&limit);
    });
}

/// The lost wake-up: a slot is handed to a waiter that leaves, and is not handed on.
#[test]
fn model_c6_a_release_meets_somebody_who_gives_up() {
    explore(4, || {
        let (limit, _) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut first = Task::new(limit.acquire_owned());
        let mut next = Task::new(limit.acquire_owned());
        assert!(first.poll().is_pending() && next.poll().is_pending());
        let leaver = thread::spawn(move || drop(first));
        let releaser = thread::spawn(move || drop(permit));
        leaver.join().expect("no panic");
        releaser.join().expect("no panic");
        drop(next.finish().expect("it is the only one left"));
        assert_idle(&limit);
    });
}

#[test]
fn model_a_release_meets_a_deadline() {
    explore(4, || {
        let (limit, time) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let deadline = Timestamp::from_nanos(5);
        let mut first = Task::new(limit.acquire_owned().by(deadline));
        let mut next = Task::new(limit.acquire_owned());
        assert!(first.poll().is_pending() && next.poll().is_pending());
        let mover = thread::spawn(move || time.set(deadline));
        let releaser = thread::spawn(move || drop(permit));
        mover.join().expect("no panic");
        releaser.join().expect("no panic");
        // One of the two has its slot: the first, in time, or else the other.
        match first.finish() {
            Ok(permit) => {
                assert!(next.poll().is_pending(), "there is but one");
                drop(permit);
            }
            Err(denied) => assert!(!denied.is_never() && !denied.is_closed()),
        }
        drop(next.finish().expect("it is the only one left"));
        assert_idle(&limit);
    });
}

#[test]
fn model_a_release_meets_a_larger_limit() {
    explore(4, || {
        let (limit, _) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut wait = Task::new(limit.acquire_owned());
        assert!(wait.poll().is_pending());
        let mut large = Task::new(limit.acquire_owned());
        assert!(large.poll().is_pending());
        let releaser = thread::spawn(move || drop(permit));
        let resizer = grow_to_two(&limit);
        releaser.join().expect("no panic");
        resizer.join().expect("no panic");
        let permits = (wait.finish(), large.finish());
        assert!(permits.0.is_ok() && permits.1.is_ok());
        assert_eq!(limit.in_flight(), 2);
        drop(permits);
        assert_idle(&limit);
    });
}

#[test]
fn model_c1_a_smaller_limit_meets_a_release_and_a_newcomer() {
    explore(5, || {
        let (limit, _) = limit_of(2);
        let mut permit = limit.try_acquire_n_owned(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        let resizer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || {
                limit.set_limit(1).expect("within range");
                // From here on: one in flight, or none taken.
                limit.try_acquire_owned().is_ok()
            }
        });
        let releaser = thread::spawn(move || drop(other));
        assert!(
            !resizer.join().expect("no panic"),
            "the other half is in use"
        );
        releaser.join().expect("no panic");
        assert_eq!((limit.in_flight(), limit.available()), (1, 0));
        drop(permit);
        assert_idle(&limit);
    });
}

#[test]
fn model_closing_meets_somebody_who_enters_the_line() {
    explore(5, || {
        let (limit, _) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let closer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || {
                limit.queue().close();
                assert!(limit.try_acquire_owned().unwrap_err().is_closed());
            }
        });
        let mut wait = Task::new(limit.acquire_owned());
        let now = wait.poll();
        closer.join().expect("no panic");
        let refused = match now {
            Poll::Ready(refused) => refused,
            Poll::Pending => wait.finish(),
        };
        assert!(refused.unwrap_err().is_closed());
        drop(permit);
        assert_eq!(limit.in_flight(), 0);
    });
}

#[test]
fn model_closing_meets_a_release() {
    explore(5, || {
        let (limit, _) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut wait = Task::new(limit.acquire_owned());
        assert!(wait.poll().is_pending());
        let closer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.queue().close()
        });
        drop(permit);
        closer.join().expect("no panic");
        match wait.finish() {
            Ok(permit) => assert_eq!(permit.units(), 1),
            Err(denied) => assert!(denied.is_closed()),
        }
        assert!(limit.queue().is_empty());
        drop(wait);
        assert_eq!(limit.in_flight(), 0);
    });
}

/// A waiter that leaves has those behind it served with what is free for them.
#[test]
fn model_c6_somebody_who_gives_up_meets_somebody_who_enters_behind() {
    explore(5, || {
        let (limit, _) = limit_of(2);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut large = Task::new(limit.acquire_owned().n(2));
        assert!(large.poll().is_pending());
        let leaver = thread::spawn(move || drop(large));
        let mut small = Task::new(limit.acquire_owned());
        let now = small.poll();
        leaver.join().expect("no panic");
        let other = match now {
            Poll::Ready(permit) => permit,
            Poll::Pending => small.finish(),
        };
        assert_eq!(limit.in_flight(), 2);
        drop((permit, other));
        assert_idle(&limit);
    });
}

/// A new request does not overtake, and takes nothing from the waiters.
#[test]
fn model_c6_a_release_meets_a_newcomer() {
    explore(4, || {
        let (limit, _) = limit_of(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut wait = Task::new(limit.acquire_owned());
        assert!(wait.poll().is_pending());
        let newcomer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.try_acquire_owned().is_ok()
        });
        drop(permit);
        assert!(!newcomer.join().expect("no panic"), "it came second");
        drop(wait.finish().expect("it came first"));
        assert_idle(&limit);
    });
}

/// Under a permit, plain reads and writes of relaxed atomics are ordered: none of the increments is lost.
#[test]
fn model_what_is_written_under_one_permit_is_read_under_the_next() {
    explore(5, || {
        let (limit, _) = limit_of(1);
        let count = loom::sync::Arc::new(AtomicU64::new(0));
        let work = |count: &AtomicU64| {
            let seen = count.load(Ordering::Relaxed);
            count.store(seen + 1, Ordering::Relaxed);
        };
        let other = thread::spawn({
            let (limit, count) = (Arc::clone(&limit), count.clone());
            move || {
                let permit = limit.try_acquire_owned();
                if permit.is_ok() {
                    work(&count);
                }
                u64::from(permit.is_ok())
            }
        });
        let mut wait = Task::new(limit.acquire_owned());
        let now = wait.poll();
        let others = match now {
            Poll::Ready(permit) => {
                work(&count);
                drop(permit.expect("it is free"));
                other.join().expect("no panic")
            }
            Poll::Pending => {
                let others = other.join().expect("no panic");
                let permit = wait.finish().expect("it is free again");
                work(&count);
                drop(permit);
                others
            }
        };
        assert_eq!(count.load(Ordering::Relaxed), 1 + others);
    });
}

/// As above, where the waiter learns of its grant without the queue's lock.
#[test]
fn model_what_is_written_under_one_permit_is_read_by_whoever_it_goes_to() {
    explore(5, || {
        let (limit, _) = limit_of(1);
        let count = loom::sync::Arc::new(AtomicU64::new(0));
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut wait = Task::new(limit.acquire_owned());
        assert!(wait.poll().is_pending());
        let releaser = thread::spawn({
            let count = count.clone();
            move || {
                count.store(1, Ordering::Relaxed);
                drop(permit);
            }
        });
        let now = wait.poll();
        if now.is_ready() {
            assert_eq!(count.load(Ordering::Relaxed), 1);
        }
        releaser.join().expect("no panic");
        let permit = match now {
            Poll::Ready(permit) => permit,
            Poll::Pending => wait.finish(),
        };
        drop(permit.expect("it was given back"));
        assert_idle(&limit);
    });
}

/// A waiter that is refused does not mistake the grant of one behind it for its own.
#[test]
fn model_somebody_who_is_refused_meets_a_release_to_the_one_behind() {
    explore(4, || {
        let (limit, _) = limit_of(2);
        let permit = limit.try_acquire_n_owned(2).expect("they are free");
        let mut large = Task::new(limit.acquire_owned().n(2));
        let mut small = Task::new(limit.acquire_owned());
        assert!(large.poll().is_pending() && small.poll().is_pending());
        let other = thread::spawn({
            let limit = Arc::clone(&limit);
            move || {
                limit.set_limit(1).expect("within range");
                drop(permit);
            }
        });
        let now = large.poll();
        other.join().expect("no panic");
        let refused = match now {
            Poll::Ready(refused) => refused,
            Poll::Pending => large.finish(),
        };
        assert!(refused.unwrap_err().is_never());
        drop(small.finish().expect("it fits"));
        assert_idle(&limit);
    });
}

type Wait = Task<crate::queue::Acquire<crate::concurrency::permit::Permits<Arc<ConcurrencyLimit>>>>;

/// Polls `wait` for the last time, or as a runtime would if it waits.
#[track_caller]
fn end(mut wait: Wait, now: Poll<Result<OwnedPermit, Denied>>) -> Result<OwnedPermit, Denied> {
    match now {
        Poll::Ready(answer) => answer,
        Poll::Pending => wait.finish(),
    }
}

/// The oldest waiter of a full queue is refused, or granted, or gone. The new one is granted in any case.
#[test]
fn model_a_full_queue_meets_a_release_and_its_oldest_giving_up() {
    explore(3, || {
        let (limit, _) = limit_of(1);
        limit.queue().set_order(Order::Lifo).set_max_waiters(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut oldest = Task::new(limit.acquire_owned());
        assert!(oldest.poll().is_pending());
        let releaser = thread::spawn(move || drop(permit));
        let leaver = thread::spawn(move || drop(oldest));
        let mut newest = Task::new(limit.acquire_owned());
        let now = newest.poll();
        releaser.join().expect("no panic");
        leaver.join().expect("no panic");
        drop(end(newest, now).expect("it is the only one left"));
        assert_idle(&limit);
    });
}

/// The oldest has one answer, and it is woken for it.
#[test]
fn model_a_full_queue_meets_a_release() {
    explore(4, || {
        let (limit, _) = limit_of(1);
        limit.queue().set_order(Order::Lifo).set_max_waiters(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut oldest = Task::new(limit.acquire_owned());
        assert!(oldest.poll().is_pending());
        let releaser = thread::spawn(move || drop(permit));
        let mut newest = Task::new(limit.acquire_owned());
        let now = newest.poll();
        releaser.join().expect("no panic");
        match oldest.finish() {
            Ok(permit) => drop(permit),
            Err(denied) => assert!(denied.is_queue_full()),
        }
        drop(end(newest, now).expect("it is the only one left"));
        assert_idle(&limit);
    });
}

/// While the order is still first in, first out, the oldest is the next: the new one fits where that did not.
#[test]
fn model_c2_a_full_queue_whose_oldest_is_next_meets_a_release_and_its_giving_up() {
    explore(3, || {
        let (limit, _) = limit_of(2);
        let order = Order::adaptive_lifo();
        limit.queue().set_order(order).set_max_waiters(1);
        let permit = limit.try_acquire_owned().expect("it is free");
        let mut large = Task::new(limit.acquire_owned().n(2));
        assert!(large.poll().is_pending());
        let releaser = thread::spawn(move || drop(permit));
        let leaver = thread::spawn(move || drop(large));
        let mut small = Task::new(limit.acquire_owned());
        let now = small.poll();
        releaser.join().expect("no panic");
        leaver.join().expect("no panic");
        drop(end(small, now).expect("it fits"));
        assert_idle(&limit);
    });
}

/// Returns a limit of one whose queue is overloaded, its permit, a waiter that is shed when a permit is free, and one behind it
/// that is not.
fn overloaded() -> (Arc<ConcurrencyLimit>, OwnedPermit, [Wait; 2]) {
    let (limit, time) = limit_of(1);
    let [target, interval] = [1, 100].map(Duration::from_nanos);
    let codel = Codel::new(target, interval).expect("within range");
    limit.queue().set_codel(codel);
    let mut held = limit.try_acquire_owned().expect("it is free");
    let wait = || {
        let mut wait = Task::new(limit.acquire_owned());
        assert!(wait.poll().is_pending());
        wait
    };
    for (mut wait, ns) in [wait(), wait()].into_iter().zip([10, 111]) {
        time.set(Timestamp::from_nanos(ns));
        drop(held);
        held = wait.finish().expect("in turn");
    }
    let old = wait();
    time.set(Timestamp::from_nanos(114));
    let young = wait();
    (limit, held, [old, young])
}

#[test]
fn model_c5_shedding_meets_a_larger_limit_and_somebody_who_gives_up() {
    explore(3, || {
        let (limit, permit, [mut old, young]) = overloaded();
        let leaver = thread::spawn(move || drop(young));
        let resizer = grow_to_two(&limit);
        drop(permit);
        leaver.join().expect("no panic");
        resizer.join().expect("no panic");
        assert!(old.finish().unwrap_err().is_shed());
        assert_idle(&limit);
    });
}

/// The permit that it did not get goes to the one behind it.
#[test]
fn model_c2_shedding_meets_somebody_who_is_to_be_shed_and_gives_up() {
    explore(3, || {
        let (limit, permit, [old, mut young]) = overloaded();
        let leaver = thread::spawn(move || drop(old));
        let releaser = thread::spawn(move || drop(permit));
        leaver.join().expect("no panic");
        releaser.join().expect("no panic");
        drop(young.finish().expect("it has not waited long"));
        assert_idle(&limit);
    });
}

/// Two permits come, and each of the two waiters has one answer.
#[test]
fn model_shedding_meets_a_release_and_a_larger_limit() {
    explore(4, || {
        let (limit, permit, [mut old, mut young]) = overloaded();
        let resizer = grow_to_two(&limit);
        drop(permit);
        let now = young.poll();
        resizer.join().expect("no panic");
        assert!(old.finish().unwrap_err().is_shed());
        drop(end(young, now).expect("it has not waited long"));
        assert_idle(&limit);
    });
}
