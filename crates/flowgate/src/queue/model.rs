//! loom models of a queue at a bucket. A caller enters it, or leaves, while tokens are given back, come faster, come with the
//! clock, or are asked for by a new request.
//!
//! Run by `ci/loom.sh`. The models of slots are beside [`ConcurrencyLimit`](crate::ConcurrencyLimit). A lost wake-up shows as
//! a wait that is never woken, although all others are done.

use super::Grant;
use crate::clock::{ManualClock, Timestamp};
use crate::quota::Quota;
use crate::types::token_bucket::TokenBucket;
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

/// A wait that is polled by hand, and may be dropped by any thread.
struct Task {
    wait: Pin<Box<dyn Future<Output = Result<Grant, Denied>> + Send>>,
    bell: Arc<Bell>,
}

impl Task {
    /// Waits for one token.
    fn new(bucket: &Arc<TokenBucket>) -> Self {
        let bucket = Arc::clone(bucket);
        Self {
            wait: Box::pin(async move { bucket.acquire().await }),
            bell: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Result<Grant, Denied>> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.wait.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Returns the time of the grant. The wait is polled again if it was woken, as a runtime would, when no other thread is
    /// left to wake it.
    #[track_caller]
    fn finish(&mut self, mut answer: Poll<Result<Grant, Denied>>) -> Timestamp {
        while answer.is_pending() {
            let was_woken = self.bell.0.swap(false, std::sync::atomic::Ordering::SeqCst);
            assert!(was_woken, "nobody has woken it");
            answer = self.poll();
        }
        match answer {
            Poll::Ready(Ok(grant)) => grant.at(),
            Poll::Ready(Err(denied)) => panic!("{denied:?}"),
            Poll::Pending => unreachable!("it has ended"),
        }
    }
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn quota(interval_ns: u64) -> Quota {
    Quota::new(1, Duration::from_nanos(interval_ns))
        .and_then(|quota| quota.try_burst(3))
        .expect("a quota within range")
}

/// Returns an empty bucket that gets one token each `interval_ns`.
fn bucket(interval_ns: u64) -> (Arc<TokenBucket>, ManualClock) {
    let time = ManualClock::new();
    let builder = TokenBucket::builder(quota(interval_ns))
        .clock(&time)
        .initial_tokens(0);
    (Arc::new(builder.build().expect("within range")), time)
}

/// The clock stands still: a waiter that enters is helped by the refund, or not at all.
#[test]
fn model_c5_a_refund_meets_somebody_who_enters_the_line() {
    loom::model(|| {
        let (bucket, time) = bucket(10);
        time.set(at(10));
        bucket.try_acquire().expect("one has come");
        let refunder = thread::spawn({
            let bucket = Arc::clone(&bucket);
            move || assert_eq!(bucket.refund(1), 1)
        });
        let mut wait = Task::new(&bucket);
        let now = wait.poll();
        refunder.join().expect("no panic");
        assert_eq!(wait.finish(now), at(10));
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 0);
    });
}

/// At the old rate, the wait would be granted long after the clock stands still.
#[test]
fn model_a_faster_quota_meets_somebody_who_enters_the_line() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (bucket, time) = bucket(1_000);
        let changer = thread::spawn({
            let bucket = Arc::clone(&bucket);
            move || bucket.set_quota(quota(10))
        });
        let mut wait = Task::new(&bucket);
        let now = wait.poll();
        changer
            .join()
            .expect("no panic")
            .expect("every quota is accepted");
        time.set(at(10));
        assert_eq!(wait.finish(now), at(10));
        assert!(bucket.queue().is_empty());
    });
}

#[test]
fn model_a_clock_that_moves_meets_somebody_who_enters_the_line() {
    loom::model(|| {
        let (bucket, time) = bucket(10);
        let mover = thread::spawn(move || time.set(at(10)));
        let mut wait = Task::new(&bucket);
        let now = wait.poll();
        mover.join().expect("no panic");
        assert_eq!(wait.finish(now), at(10));
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 0);
    });
}

/// Explores only as many preemptions as a failure takes, where all of them would take too long.
fn bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// The alarm may have gone off for the waiter that leaves.
#[test]
fn model_c6_somebody_who_gives_up_meets_a_clock_that_moves() {
    bounded(|| {
        let (bucket, time) = bucket(10);
        let (mut first, mut next) = (Task::new(&bucket), Task::new(&bucket));
        assert!(first.poll().is_pending() && next.poll().is_pending());
        let mover = thread::spawn(move || time.set(at(10)));
        let leaver = thread::spawn(move || drop(first));
        mover.join().expect("no panic");
        leaver.join().expect("no panic");
        assert_eq!(next.finish(Poll::Pending), at(10));
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 0);
    });
}

/// What was granted and not seen goes to a waiter that is just entering.
#[test]
fn model_c5_somebody_who_gives_up_meets_somebody_who_enters_the_line() {
    loom::model(|| {
        let (bucket, time) = bucket(10);
        let mut first = Task::new(&bucket);
        assert!(first.poll().is_pending());
        time.set(at(10));
        // Served, and not told yet.
        bucket.try_acquire().unwrap_err();
        let leaver = thread::spawn(move || drop(first));
        let mut wait = Task::new(&bucket);
        let now = wait.poll();
        leaver.join().expect("no panic");
        assert_eq!(wait.finish(now), at(10));
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 0);
    });
}

/// A caller that comes while there is a waiter comes second.
#[test]
fn model_c6_a_newcomer_meets_a_clock_that_moves() {
    loom::model(|| {
        let (bucket, time) = bucket(10);
        let mut wait = Task::new(&bucket);
        assert!(wait.poll().is_pending());
        let mover = thread::spawn(move || time.set(at(10)));
        assert!(bucket.try_acquire().is_err(), "it overtook");
        mover.join().expect("no panic");
        assert_eq!(wait.finish(Poll::Pending), at(10));
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 0);
    });
}

/// One of the two has the only token. If that is the new request, the waiter has the token after it.
#[test]
fn model_c1_a_newcomer_meets_somebody_who_enters_the_line() {
    loom::model(|| {
        let (bucket, time) = bucket(10);
        time.set(at(10));
        let newcomer = thread::spawn({
            let bucket = Arc::clone(&bucket);
            move || bucket.try_acquire().is_ok()
        });
        let mut wait = Task::new(&bucket);
        let now = wait.poll();
        let is_taken = newcomer.join().expect("no panic");
        assert_eq!(is_taken, now.is_pending());
        time.set(at(20));
        let turn = if is_taken { at(20) } else { at(10) };
        assert_eq!(wait.finish(now), turn);
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), u64::from(!is_taken));
    });
}

/// Two waiters that enter concurrently are one behind the other, whichever of them sets the alarm.
#[test]
fn model_c6_two_who_enter_the_line_meet_a_refund() {
    bounded(|| {
        let (bucket, time) = bucket(10);
        time.set(at(10));
        bucket.try_acquire().expect("one has come");
        let other = thread::spawn({
            let bucket = Arc::clone(&bucket);
            move || {
                let mut wait = Task::new(&bucket);
                let now = wait.poll();
                (wait, now)
            }
        });
        let refunder = thread::spawn({
            let bucket = Arc::clone(&bucket);
            move || assert_eq!(bucket.refund(1), 1)
        });
        let mut wait = Task::new(&bucket);
        let now = wait.poll();
        let (mut other, others) = other.join().expect("no panic");
        refunder.join().expect("no panic");
        time.set(at(20));
        let mut turns = [wait.finish(now), other.finish(others)];
        turns.sort();
        assert_eq!(turns, [at(10), at(20)]);
        assert!(bucket.queue().is_empty());
        assert_eq!(bucket.available(), 0);
    });
}
