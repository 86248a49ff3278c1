//! Waits in a child process that was made by `fork()`: the thread that wakes waiters is not there in the child.
#![cfg(unix)]
// The standard library cannot fork, and no crate that is depended on makes it safe. What makes it unsafe are locks
// that other threads hold at that instant: these tests fork one after the other, and the child uses nothing but the
// limiter, and the allocator, which the C library keeps usable.
#![allow(unsafe_code)]

use flowgate::*;
use flowgate_testkit::task::Task;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

// SAFETY: these are the signatures of POSIX. `waitpid` writes one int, to which it is given a reference.
unsafe extern "C" {
    safe fn fork() -> c_int;
    safe fn alarm(seconds: u32) -> u32;
    safe fn _exit(status: c_int) -> !;
    safe fn waitpid(process: c_int, status: &mut c_int, options: c_int) -> c_int;
}

/// One test at a time: no other thread is at a limiter when one forks.
static ALONE: Mutex<()> = Mutex::new(());

/// Does `act` in a child process, which is killed should it take over 10 seconds.
#[track_caller]
fn in_child(act: impl FnOnce()) {
    match fork() {
        0 => {
            alarm(10);
            let survived = catch_unwind(AssertUnwindSafe(act));
            _exit(if survived.is_ok() { 0 } else { 1 });
        }
        -1 => panic!("the system has no process left"),
        child => {
            let mut status = 0;
            assert_eq!(waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0, "the child hangs, or a check in it failed");
        }
    }
}

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for turns that come every millisecond.
fn wait_some_turns() {
    let limiter = LeakyBucket::new("1000/s".parse().expect("valid"));
    for _ in 0..5 {
        limiter.acquire().block().expect("in turn");
    }
}

#[test]
fn c6_waits_end_in_a_child_of_a_process_that_has_waited() {
    let _alone = alone();
    wait_some_turns();
    in_child(wait_some_turns);
    wait_some_turns();
}

#[test]
fn c6_waits_end_in_children_of_children() {
    let _alone = alone();
    wait_some_turns();
    in_child(|| {
        wait_some_turns();
        in_child(|| in_child(wait_some_turns));
        wait_some_turns();
    });
    in_child(wait_some_turns);
}

#[test]
fn c6_a_deadline_ends_a_wait_in_a_child() {
    let _alone = alone();
    wait_some_turns();
    in_child(|| {
        let limit = ConcurrencyLimit::new(0);
        let wait = limit.acquire().within(Duration::from_millis(5));
        assert!(wait.block().unwrap_err().is_busy());
    });
}

/// A limiter that its parent waits at: the child's copy of the queue has a waiter whom nobody polls.
/// The turns are far apart, so that the child comes before the second one on a busy machine, too.
#[test]
fn c6_a_queue_that_a_child_inherits_goes_on() {
    let _alone = alone();
    let limiter = LeakyBucket::new("3/s".parse().expect("valid"));
    limiter.try_acquire().expect("it is empty");
    let mut inherited = Task::start(limiter.acquire());
    assert!(inherited.is_waiting());
    in_child(|| {
        let behind = limiter.acquire().block().expect("in turn");
        assert!(inherited.poll(), "its turn was before");
        let first_ns = inherited.granted_ns().expect("it is granted");
        assert_eq!((behind.at().as_nanos() - first_ns) / 1_000_000, 333);
    });
    while !inherited.poll() {
        std::thread::yield_now();
    }
}

/// A wait that began in the parent may be dropped in the child, and goes on in the parent.
#[test]
fn c6_a_wait_that_a_child_inherits_may_be_dropped_there() {
    let _alone = alone();
    let limiter = LeakyBucket::new("100/s".parse().expect("valid"));
    limiter.try_acquire().expect("it is empty");
    let second = Duration::from_secs(1);
    let mut inherited = Some(Task::start(limiter.acquire().within(second)));
    in_child(|| {
        drop(inherited.take());
        assert!(limiter.queue().is_empty());
        limiter.acquire().block().expect("in turn");
    });
    let mut waits = inherited.expect("it is the child's copy that was dropped");
    while !waits.poll() {
        std::thread::yield_now();
    }
}
