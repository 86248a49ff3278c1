use super::{Start, Timer, start, start_with};
use crate::clock::alarm::sleep::{Sleeper, now_ns};
use crate::clock::alarm::tests::{Journal, bell, hears, panicking_waker, waits_until, waker};
use crate::clock::alarm::{Alarm, Entry};
use std::boxed::Box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::vec::Vec;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A timer of the test's own, which outlives its thread.
fn timer(idle_ns: u64, start: Start) -> &'static Timer {
    Box::leak(Box::new(Timer::new(idle_ns, start)))
}

/// As where there is no timer descriptor.
fn start_portably(timer: &'static Timer) -> io::Result<Arc<Sleeper>> {
    start_with(timer, Sleeper::portable())
}

const STARTS: [Start; 2] = [start, start_portably];

fn has_thread(timer: &Timer) -> bool {
    timer.state.lock().sleeper.is_some()
}

/// Waits in real time, and sees that it was as long at least.
fn wait(timer: &'static Timer, wait_ns: u64) {
    let until_ns = now_ns() + wait_ns;
    let (waker, heard) = bell();
    let alarm = timer.after(wait_ns, waker);
    hears(&heard).expect("woken");
    assert!(now_ns() >= until_ns, "too early");
    drop(alarm);
}

#[test]
fn an_alarm_rings_at_its_time_and_not_before() {
    for start in STARTS {
        let timer = timer(HOUR_NS, start);
        for wait_ns in [0, 1, 1_000, 100_000, 2_000_000] {
            wait(timer, wait_ns);
        }
    }
    wait(super::timer().expect("this process has one"), 1_000);
}

#[test]
fn an_earlier_alarm_brings_the_sleep_forward() {
    for start in STARTS {
        let timer = timer(HOUR_NS, start);
        let (far, nearer): (Vec<_>, Vec<_>) = [u64::MAX, HOUR_NS, HOUR_NS / 2]
            .map(|wait_ns| {
                let (waker, heard) = bell();
                (timer.after(wait_ns, waker), heard)
            })
            .into_iter()
            .unzip();
        // The thread may be asleep already or not yet.
        for round in 0..300 {
            wait(timer, round * 100);
        }
        drop(far);
        assert!(nearer.iter().all(|heard| heard.try_recv().is_err()));
    }
}

#[test]
fn the_later_of_two_rings_though_the_earlier_was_removed() {
    for start in STARTS {
        let timer = timer(HOUR_NS, start);
        for _ in 0..300 {
            let (earlier, removed) = bell();
            let (later, heard) = bell();
            let earlier = timer.after(20_000, earlier);
            let later = timer.after(40_000, later);
            drop(earlier);
            hears(&heard).expect("woken");
            drop((later, removed));
        }
    }
}

#[test]
fn a_panicking_waker_hurts_nobody() {
    for start in STARTS {
        let timer = timer(HOUR_NS, start);
        for _ in 0..10 {
            let alarms = [
                timer.after(10_000, panicking_waker()),
                timer.after(10_000, panicking_waker()),
            ];
            wait(timer, 10_000);
            drop(alarms);
        }
    }
}

#[test]
fn the_thread_ends_when_idle_and_another_takes_its_place() {
    for start in STARTS {
        let timer = timer(1_000_000, start);
        for _ in 0..5 {
            assert!(!has_thread(timer));
            wait(timer, 10_000);
            waits_until(|| !has_thread(timer));
        }
    }
}

#[test]
fn alarms_that_are_taken_back_do_not_keep_the_thread_for_ever() {
    for start in STARTS {
        let timer = timer(1_000_000, start);
        let (waker, heard) = bell();
        let alarm = timer.after(HOUR_NS, waker);
        // Asleep till then, most likely.
        wait(timer, 300_000);
        drop(alarm);
        assert!(hears(&heard).is_none(), "the waker was dropped unwoken");
        waits_until(|| !has_thread(timer));
    }
}

#[test]
fn an_alarm_that_meets_an_ending_thread_rings() {
    for start in STARTS {
        // It ends as soon as it sees nobody.
        let timer = timer(0, start);
        for round in 0..500 {
            wait(timer, round % 7 * 1_000);
        }
    }
}

#[test]
fn without_a_thread_an_alarm_rings_at_once_and_the_next_one_tries_again() {
    static REFUSALS: AtomicUsize = AtomicUsize::new(2);
    let refused_twice: Start = |timer| {
        if REFUSALS.load(Ordering::Relaxed) > 0 {
            REFUSALS.fetch_sub(1, Ordering::Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        start(timer)
    };
    let timer = timer(HOUR_NS, refused_twice);
    let journal = Journal::new();
    for name in 0..2 {
        let alarm = timer.after(HOUR_NS, journal.waker(name));
        assert!(matches!(alarm.0, Entry::Nowhere));
    }
    assert_eq!(journal.names(), [0, 1]);
    assert_eq!(timer.state.lock().table.earliest_ns(), None);
    let alarm = timer.after(HOUR_NS, journal.waker(2));
    assert!(matches!(alarm.0, Entry::Thread(..)));
    wait(timer, 1_000);
    assert_eq!(journal.names(), [0, 1]);
    drop(alarm);
}

#[test]
fn a_waker_may_ask_and_take_back_under_the_thread() {
    let timer = timer(HOUR_NS, start);
    let (done, heard) = channel();
    let waker = waker(move || {
        drop(timer.after(HOUR_NS, panicking_waker()));
        let done = done.clone();
        // Kept by nobody, it would not ring.
        let again = timer.after(
            1_000,
            self::waker(move || drop(done.send(std::thread::current().name().map(Into::into)))),
        );
        core::mem::forget(again);
    });
    let alarm = timer.after(1_000, waker);
    let name: Option<std::string::String> = hears(&heard).expect("woken");
    assert_eq!(name.as_deref(), Some("flowgate-timer"));
    drop(alarm);
}

#[test]
fn ten_thousand_alarms_of_several_threads_ring_each_once_or_not_at_all() {
    const THREADS: u64 = 4;
    const EACH: u64 = 2_500;
    for start in STARTS {
        let timer = timer(HOUR_NS, start);
        let rung = Arc::new(AtomicUsize::new(0));
        let early = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let (rung, early) = (&rung, &early);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut alarms: Vec<Alarm> = (0..EACH)
                        .map(|_| {
                            let wait_ns = random.u64(0..3_000_000);
                            let at_ns = now_ns() + wait_ns;
                            let (rung, early) = (Arc::clone(rung), Arc::clone(early));
                            timer.after(
                                wait_ns,
                                waker(move || {
                                    early.fetch_add((now_ns() < at_ns).into(), Ordering::Relaxed);
                                    rung.fetch_add(1, Ordering::Relaxed);
                                }),
                            )
                        })
                        .collect();
                    for k in 0..EACH {
                        let (waker, _) = bell();
                        alarms.push(timer.after(HOUR_NS + k, waker));
                        drop(alarms.swap_remove(random.usize(EACH as usize..alarms.len())));
                    }
                    waits_until(|| rung.load(Ordering::Relaxed) as u64 >= THREADS * EACH);
                });
            }
        });
        assert_eq!(rung.load(Ordering::Relaxed) as u64, THREADS * EACH);
        assert_eq!(early.load(Ordering::Relaxed), 0);
        assert_eq!(timer.state.lock().table.earliest_ns(), None);
    }
}
