//! What the alarms of each clock do, and the wakers that the tests of this folder share.

use super::{Alarm, Entry};
use crate::clock::{Clock, ManualClock, Source, Timestamp};
use crate::primitive::Lock;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::{Wake, Waker};
use std::time::Duration;
use std::vec::Vec;

/// Who has been woken, in order.
#[derive(Clone)]
pub(super) struct Journal(Arc<Lock<Vec<usize>>>);

impl Journal {
    pub(super) fn new() -> Self {
        Self(Arc::new(Lock::new(Vec::new())))
    }

    pub(super) fn waker(&self, name: usize) -> Waker {
        let journal = self.clone();
        waker(move || journal.0.lock().push(name))
    }

    pub(super) fn names(&self) -> Vec<usize> {
        self.0.lock().clone()
    }
}

/// A waker that does `what`.
pub(super) fn waker(what: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Does(Box<dyn Fn() + Send + Sync>);
    impl Wake for Does {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(Does(Box::new(what))))
}

/// A waker that panics when it is woken, without a report.
pub(super) fn panicking_waker() -> Waker {
    waker(|| std::panic::resume_unwind(Box::new("a waker that panics")))
}

/// A waker, and what hears of each time that it is woken.
pub(in crate::clock) fn bell() -> (Waker, Receiver<()>) {
    let (rings, heard) = channel();
    let rings = Lock::new(rings);
    // Nobody may be listening any more.
    let waker = waker(move || rings.lock().send(()).unwrap_or(()));
    (waker, heard)
}

/// Waits for what is sent, and fails rather than hang.
pub(super) fn hears<T>(heard: &Receiver<T>) -> Option<T> {
    match heard.recv_timeout(Duration::from_secs(60)) {
        Ok(what) => Some(what),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("nobody has rung for a minute"),
    }
}

/// Waits until it is so, and fails rather than hang.
pub(super) fn waits_until(is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "not so for a minute");
        std::thread::yield_now();
    }
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn is_set(alarm: &Alarm) -> bool {
    !matches!(alarm.0, Entry::Nowhere)
}

/// A manual clock, the same as a `Clock`, and a journal.
fn manual() -> (ManualClock, Clock, Journal) {
    let time = ManualClock::new();
    let clock = Clock::from(&time);
    (time, clock, Journal::new())
}

#[test]
fn an_alarm_that_is_moved_rings_once_at_its_last_time() {
    let (time, clock, journal) = manual();
    let first = clock.alarm(at(10), journal.waker(0));
    let _other = clock.alarm(at(20), journal.waker(1));
    let later = clock.move_alarm(first, at(20), || unreachable!("it has a waker"));
    time.set(at(19));
    assert_eq!(
        (journal.names(), time.next_wake()),
        (Vec::new(), Some(at(20)))
    );
    time.set(at(20));
    assert_eq!(journal.names(), [1, 0], "as if it had been asked for again");

    let again = clock.move_alarm(later, at(30), || journal.waker(2));
    let sooner = clock.move_alarm(again, at(25), || unreachable!("it has a waker"));
    time.set(at(25));
    assert_eq!(journal.names(), [1, 0, 2]);
    let past = clock.move_alarm(sooner, at(25), || journal.waker(3));
    assert_eq!(journal.names(), [1, 0, 2, 3], "its time has come already");
    assert!(!is_set(&past));

    drop(clock.move_alarm(past, at(40), || journal.waker(4)));
    time.set(Timestamp::MAX);
    assert_eq!(journal.names(), [1, 0, 2, 3]);
}

#[test]
fn a_manual_clock_wakes_in_order_before_it_has_moved_on() {
    let (time, clock, journal) = manual();
    let alarms: Vec<_> = [(0, 30), (1, 10), (2, 20), (3, 10), (4, 31)]
        .map(|(name, ns)| clock.alarm(at(ns), journal.waker(name)))
        .into();
    time.set(at(9));
    assert_eq!(journal.names(), []);
    time.advance(Duration::from_nanos(1));
    assert_eq!(journal.names(), [1, 3]);
    time.set(at(5));
    assert_eq!(
        journal.names(),
        [1, 3],
        "a clock that runs backward wakes nobody"
    );
    time.set(at(30));
    assert_eq!(journal.names(), [1, 3, 2, 0]);
    time.set(Timestamp::MAX);
    assert_eq!(journal.names(), [1, 3, 2, 0, 4], "each once");
    drop(alarms);
}

#[test]
fn a_manual_clock_tells_the_new_time_to_those_it_wakes() {
    let (time, clock, _) = manual();
    let seen = Arc::new(Lock::new(None));
    let alarm = clock.alarm(at(10), {
        let (time, seen) = (time.clone(), Arc::clone(&seen));
        waker(move || *seen.lock() = Some(time.now()))
    });
    time.set(at(15));
    assert_eq!(*seen.lock(), Some(at(15)));
    drop(alarm);
}

#[test]
fn the_last_instant_is_one_like_any_other() {
    let (time, clock, journal) = manual();
    let alarm = clock.alarm(Timestamp::MAX, journal.waker(0));
    time.set(at(u64::MAX - 1));
    assert_eq!(journal.names(), []);
    time.advance(Duration::from_secs(1));
    assert_eq!(journal.names(), [0]);
    time.set(Timestamp::MAX);
    assert_eq!(journal.names(), [0]);
    drop(alarm);
}

#[test]
fn what_is_due_is_woken_at_once_on_every_clock() {
    let (time, manual, _) = manual();
    time.set(at(10));
    let own = Clock::custom(Standing(10));
    for clock in [manual, own, Clock::system(), Clock::os()] {
        let journal = Journal::new();
        for (name, at) in [(0, Timestamp::ORIGIN), (1, clock.now())] {
            let alarm = clock.alarm(at, journal.waker(name));
            assert!(!is_set(&alarm), "{clock:?}");
        }
        assert_eq!(journal.names(), [0, 1], "{clock:?}");
    }
}

#[test]
fn a_dropped_alarm_does_not_ring_and_drops_its_waker() {
    let (time, manual, journal) = manual();
    for clock in [manual, Clock::system(), Clock::os()] {
        let later = clock.now() + Duration::from_secs(3_600);
        let held = Arc::new(());
        let alarm = clock.alarm(later, {
            let (held, journal) = (Arc::clone(&held), journal.waker(0));
            waker(move || {
                let _ = &held;
                journal.wake_by_ref();
            })
        });
        assert!(is_set(&alarm));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(alarm);
        assert_eq!(Arc::strong_count(&held), 1, "{clock:?}");
    }
    time.advance(Duration::from_secs(7_200));
    assert_eq!(journal.names(), []);
}

#[test]
fn the_woken_may_ask_again_give_up_others_and_move_the_clock() {
    let (time, clock, journal) = manual();
    let given_up = clock.alarm(at(12), journal.waker(9));
    let given_up = Lock::new(Some(given_up));
    let asked: Arc<Lock<Vec<Alarm>>> = Arc::new(Lock::new(Vec::new()));
    let first = clock.alarm(at(10), {
        let (time, clock, journal, asked) = (
            time.clone(),
            clock.clone(),
            journal.clone(),
            Arc::clone(&asked),
        );
        waker(move || {
            journal.waker(0).wake();
            drop(given_up.lock().take());
            // Due already: at once. Due while those before it are being woken: in its turn.
            let due = clock.alarm(at(20), journal.waker(1));
            let next = clock.alarm(at(25), journal.waker(3));
            asked.lock().extend([due, next]);
            time.set(at(25));
        })
    });
    let other = clock.alarm(at(20), journal.waker(2));
    time.set(at(20));
    assert_eq!(journal.names(), [0, 1, 2, 3]);
    drop((first, other));
}

#[test]
fn a_panicking_waker_on_a_manual_clock_panics_there_and_the_rest_are_woken_later() {
    let (time, clock, journal) = manual();
    let alarms = [
        clock.alarm(at(1), journal.waker(0)),
        clock.alarm(at(2), panicking_waker()),
        clock.alarm(at(3), journal.waker(1)),
    ];
    assert!(catch_unwind(AssertUnwindSafe(|| time.set(at(3)))).is_err());
    assert_eq!(journal.names(), [0]);
    time.set(at(3));
    assert_eq!(journal.names(), [0, 1]);
    drop(alarms);
}

#[test]
fn threads_that_ask_while_others_move_the_clock_are_all_woken() {
    let (time, clock, journal) = manual();
    const THREADS: usize = 3;
    const EACH: usize = 2_000;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (clock, journal) = (&clock, &journal);
            scope.spawn(move || {
                let alarms: Vec<_> = (0..EACH)
                    .map(|k| {
                        let soon = clock.now() + Duration::from_nanos(k as u64 % 3);
                        clock.alarm(soon, journal.waker(thread * EACH + k))
                    })
                    .collect();
                // Kept until every one has rung.
                waits_until(|| journal.0.lock().len() == THREADS * EACH);
                drop(alarms);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                waits_until(|| {
                    time.advance(Duration::from_nanos(1));
                    journal.0.lock().len() == THREADS * EACH
                });
            });
        }
    });
    let mut names = journal.names();
    names.sort_unstable();
    assert!(names.into_iter().eq(0..THREADS * EACH), "each once");
}

/// Asks again until the clock tells `at`, as whoever waits does.
fn wait_until(clock: &Clock, at: Timestamp) {
    while clock.now() < at {
        let (waker, heard) = bell();
        let alarm = clock.alarm(at, waker);
        hears(&heard).expect("an alarm keeps its waker until it rings");
        drop(alarm);
    }
}

#[test]
fn the_machines_clocks_wake_when_they_tell_the_time() {
    for clock in [Clock::system(), Clock::os()] {
        for wait_ns in [1, 1_000, 100_000, 3_000_000] {
            wait_until(&clock, clock.now() + Duration::from_nanos(wait_ns));
        }
    }
}

/// A source that stands still.
struct Standing(u64);

impl Source for Standing {
    fn now_ns(&self) -> u64 {
        self.0
    }
}

#[test]
fn a_source_of_ones_own_is_looked_at_again_in_real_time() {
    struct Uptime(Clock);
    impl Source for Uptime {
        fn now_ns(&self) -> u64 {
            // Half as fast as the clock it is read from.
            self.0.now().as_nanos() / 2
        }
    }
    let clock = Clock::custom(Uptime(Clock::os()));
    wait_until(&clock, clock.now() + Duration::from_millis(2));
}

#[test]
fn a_source_that_wakes_by_itself_is_believed() {
    struct Simulated(Arc<Lock<Vec<(Timestamp, Waker)>>>);
    impl Source for Simulated {
        fn now_ns(&self) -> u64 {
            5
        }
        fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
            self.0.lock().push((at, waker.clone()));
            true
        }
    }
    let asked = Arc::new(Lock::new(Vec::new()));
    let clock = Clock::custom(Simulated(Arc::clone(&asked)));
    let journal = Journal::new();
    let alarm = clock.alarm(at(7), journal.waker(0));
    assert!(!is_set(&alarm));
    assert_eq!(journal.names(), []);
    let (time, waker) = asked.lock().pop().expect("asked once");
    assert_eq!(time, at(7));
    waker.wake();
    assert_eq!(journal.names(), [0]);
    assert!(asked.lock().is_empty());
}
