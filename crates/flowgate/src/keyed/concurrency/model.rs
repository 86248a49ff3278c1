//! loom models: every interleaving of taking, giving back, and a key that comes, goes and comes again.
//!
//! Run by `ci/loom.sh`.

use super::KeyedConcurrencyLimit;
use crate::clock::ManualClock;
use crate::keyed::table::SLOTS_PER_LINE;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use loom::thread;

/// Whether somebody was woken. Not loom's: it orders nothing.
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

    /// What it comes to when nobody else is left to wake it.
    #[track_caller]
    fn finish(&mut self, answer: Poll<F::Output>) -> F::Output {
        if let Poll::Ready(output) = answer {
            return output;
        }
        let was_woken = self.bell.0.swap(false, std::sync::atomic::Ordering::SeqCst);
        assert!(was_woken, "nobody has woken it");
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it still waits, and nobody is left to wake it"),
        }
    }
}

/// All keys have the same line.
fn limit_of(limit: u32) -> Arc<KeyedConcurrencyLimit> {
    let builder = KeyedConcurrencyLimit::builder(limit).seed([1, 2]);
    let made = builder.clock(ManualClock::new()).capacity(1);
    Arc::new(made.expect("a limit and a capacity within range"))
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Nothing is in flight, and the key's slot can be had by anybody.
#[track_caller]
fn assert_idle(limit: &KeyedConcurrencyLimit) {
    assert_eq!((limit.len(), limit.waiting_keys()), (0, 0));
}

/// Two new entries for one key would let in twice the limit.
#[test]
fn model_c1_a_new_key_comes_twice() {
    explore(4, || {
        let limit = limit_of(1);
        let other = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.try_acquire_owned(&1)
        });
        let mine = limit.try_acquire_owned(&1);
        let other = other.join().expect("no panic");
        assert!(mine.is_ok() != other.is_ok(), "one of them, and not both");
        assert_eq!((limit.in_flight(&1), limit.len()), (1, 1));
        drop((mine, other));
        assert_idle(&limit);
    });
}

/// The last is given back, and the slot is taken by another key, or by the same one again.
#[test]
fn model_c7_a_slot_falls_vacant_while_two_keys_want_it() {
    explore(3, || {
        let limit = limit_of(1);
        let others = (11..).take(SLOTS_PER_LINE - 1);
        let others = others.map(|key| limit.try_acquire_owned(&key).expect("a slot each"));
        let others: Vec<_> = others.collect();
        let permit = limit.try_acquire_owned(&1).expect("the last slot");
        let releaser = thread::spawn(move || drop(permit));
        let newcomer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.try_acquire_owned(&2)
        });
        let same = limit.try_acquire_owned(&1);
        releaser.join().expect("no panic");
        let newcomer = newcomer.join().expect("no panic");
        assert!(same.is_err() || newcomer.is_err(), "there is but one slot");
        let in_flight = [1, 2].map(|key| limit.in_flight(&key));
        assert_eq!(in_flight, [same.is_ok().into(), newcomer.is_ok().into()]);
        drop((same, newcomer, others));
        assert_idle(&limit);
    });
}

/// One that goes and one that comes: what is in flight is never lost, nor counted twice.
#[test]
fn model_c1_a_release_meets_two_takers() {
    explore(3, || {
        let limit = limit_of(2);
        let mut permit = limit.try_acquire_n_owned(&1, 2).expect("they are free");
        let part = permit.split(1).expect("it holds two");
        let releaser = thread::spawn(move || drop(part));
        let taker = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.try_acquire_owned(&1)
        });
        let mine = limit.try_acquire_owned(&1);
        releaser.join().expect("no panic");
        let other = taker.join().expect("no panic");
        assert!(mine.is_err() || other.is_err(), "one has been given back");
        let permits = 1 + u64::from(mine.is_ok()) + u64::from(other.is_ok());
        assert_eq!(limit.in_flight(&1), permits);
        drop((permit, mine, other));
        assert_idle(&limit);
    });
}

/// Whoever has lowered the limit sees nobody admitted by the old one any more.
#[test]
fn model_c1_a_smaller_limit_meets_a_newcomer() {
    explore(4, || {
        let limit = limit_of(2);
        let permit = limit.try_acquire_owned(&1).expect("it is free");
        let newcomer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.try_acquire_owned(&1)
        });
        limit.set_limit(1).expect("within range");
        let seen = limit.in_flight(&1);
        let newcomer = newcomer.join().expect("no panic");
        if newcomer.is_ok() {
            assert_eq!(seen, 2, "it was in flight before");
        }
        assert_eq!(limit.in_flight(&1), 1 + u64::from(newcomer.is_ok()));
        assert!(limit.try_acquire(&1).is_err());
        drop((permit, newcomer));
        assert_idle(&limit);
    });
}

/// The slot is found by whoever enters the queue, or handed to them.
#[test]
fn model_c6_a_release_meets_somebody_who_enters_the_line() {
    explore(3, || {
        let limit = limit_of(1);
        let permit = limit.try_acquire_owned(&1).expect("it is free");
        let releaser = thread::spawn(move || drop(permit));
        let mut wait = Task::new(limit.acquire_owned(&1));
        let now = wait.poll();
        releaser.join().expect("no panic");
        let permit = wait.finish(now).expect("it was given back");
        assert_eq!((limit.in_flight(&1), limit.waiting_keys()), (1, 0));
        drop(permit);
        assert_idle(&limit);
    });
}

/// One who leaves takes the queue with them, while another enters it.
#[test]
fn model_c6_the_last_in_line_leaves_while_another_comes_and_a_slot_is_given_back() {
    explore(2, || {
        let limit = limit_of(1);
        let permit = limit.try_acquire_owned(&1).expect("it is free");
        let mut first = Task::new(limit.acquire_owned(&1));
        assert!(first.poll().is_pending());
        let leaver = thread::spawn(move || drop(first));
        let releaser = thread::spawn(move || drop(permit));
        let mut next = Task::new(limit.acquire_owned(&1));
        let now = next.poll();
        leaver.join().expect("no panic");
        releaser.join().expect("no panic");
        drop(next.finish(now).expect("it is the only one left"));
        assert_idle(&limit);
    });
}

/// A larger limit is found by whoever enters the queue, or has them served.
#[test]
fn model_c6_a_larger_limit_meets_somebody_who_enters_the_line() {
    explore(3, || {
        let limit = limit_of(1);
        let permit = limit.try_acquire_owned(&1).expect("it is free");
        let resizer = thread::spawn({
            let limit = Arc::clone(&limit);
            move || limit.set_limit(2).expect("within range")
        });
        let mut wait = Task::new(limit.acquire_owned(&1));
        let now = wait.poll();
        resizer.join().expect("no panic");
        drop(wait.finish(now).expect("there are two"));
        drop(permit);
        assert_idle(&limit);
    });
}
