//! Slots of a limit are given back while other callers enter the queue, leave it, or change the limit.

use super::*;

/// The lost wake-up: a slot is handed to a waiter that leaves, and is not handed on.
#[test]
fn c6_a_release_meets_somebody_who_gives_up() {
    explore(|| {
        let (limit, in_use) = (slots(1), InUse::default());
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(|| in_use.hold(limit.acquire(), 1).expect("in turn"));
            threads.spawn(|| in_use.hold(limit.acquire(), 1).expect("in turn"));
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

/// Early drop, hold and release, often enough that each meets all stages of the others.
#[test]
fn c6_everybody_who_stays_is_served_whoever_leaves() {
    explore(|| {
        let (limit, in_use) = (slots(2), InUse::default());
        let mut permit = limit.try_acquire_n(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        thread::scope(|threads| {
            threads.spawn(|| {
                drop(leave_early(limit.acquire().n(2)));
                drop(leave_early(limit.acquire()));
            });
            threads.spawn(|| {
                in_use.hold(limit.acquire(), 2).expect("in turn");
                drop(leave_early(limit.acquire().n(2)));
            });
            threads.spawn(|| in_use.hold(limit.acquire().n(2), 2).expect("in turn"));
            threads.spawn(|| {
                drop(permit);
                drop(other);
            });
        });
        assert_idle(&limit);
    });
}

#[test]
fn c6_who_was_in_line_first_has_the_slot_first() {
    explore(|| {
        let limit = slots(1);
        let permit = limit.try_acquire().expect("it is free");
        let moments = Moments::default();
        let visits = Mutex::new(Vec::new());
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let (visit, permit) = moments.visit(limit.acquire());
                    visits.lock().expect("no panic").push(visit);
                    drop(permit.expect("in turn"));
                });
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
        let visits = visits.into_inner().expect("no panic");
        for first in &visits {
            for next in &visits {
                let overtook = first.is_ahead_of(next) && next.told < first.told;
                assert!(!overtook, "{next:?} overtook {first:?}");
            }
        }
    });
}

#[test]
fn a_release_meets_deadlines() {
    explore(|| {
        let (limit, time) = timed_slots(1);
        let in_use = InUse::default();
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for deadline in [at(5), at(9)] {
                let (limit, time, in_use) = (&limit, &time, &in_use);
                threads.spawn(move || {
                    if let Err(denied) = in_use.hold(limit.acquire().by(deadline), 1) {
                        assert!(denied.is_busy(), "{denied:?}");
                        assert!(time.now() >= deadline, "too early");
                    }
                });
            }
            threads.spawn(|| in_use.hold(limit.acquire(), 1).expect("it has no deadline"));
            threads.spawn(|| walk(&time, [5, 10]));
            threads.spawn(move || drop(permit));
        });
        assert_idle(&limit);
    });
}

/// Nothing else would end these.
#[test]
fn deadlines_meet_those_who_enter_the_line() {
    explore(|| {
        let (limit, time) = timed_slots(1);
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for deadline in [at(5), at(9), at(5)] {
                let (limit, time) = (&limit, &time);
                threads.spawn(move || {
                    let denied = block_on(limit.acquire().by(deadline)).unwrap_err();
                    assert!(denied.is_busy(), "{denied:?}");
                    assert!(time.now() >= deadline, "too early");
                });
            }
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(|| walk(&time, [4, 7, 10]));
        });
        drop(permit);
        assert_idle(&limit);
    });
}

#[test]
fn c6_two_releases_meet_somebody_who_wants_both() {
    explore(|| {
        let limit = slots(2);
        let mut permit = limit.try_acquire_n(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        let moments = Moments::default();
        let mut visits = [None; 2];
        let [large, small] = &mut visits;
        thread::scope(|threads| {
            let (limit, moments) = (&limit, &moments);
            for (n, visit) in [(2, large), (1, small)] {
                threads.spawn(move || {
                    let (visited, permit) = moments.visit(limit.acquire().n(n));
                    *visit = Some(visited);
                    drop(permit.expect("in turn"));
                });
            }
            threads.spawn(move || drop(permit));
            threads.spawn(move || drop(other));
        });
        assert_idle(&limit);
        // Both do not fit concurrently, so the one that is told first was granted first.
        let [Some(large), Some(small)] = visits else {
            panic!("both were told")
        };
        assert!(!large.is_ahead_of(&small) || large.told < small.told);
        assert!(!small.is_ahead_of(&large) || small.told < large.told);
    });
}

/// The slots handed on directly are more than the next waiter wants, or fewer, and some of them are left over.
#[test]
fn c2_slots_that_come_back_together_meet_those_who_want_parts_of_them() {
    explore(|| {
        let (limit, in_use) = (slots(5), InUse::default());
        let mut permit = limit.try_acquire_n(5).expect("they are free");
        let other = permit.split(2).expect("it holds five");
        thread::scope(|threads| {
            for n in [2, 4, 1] {
                let (limit, in_use) = (&limit, &in_use);
                threads.spawn(move || in_use.hold(limit.acquire().n(n), 5).expect("in turn"));
            }
            threads.spawn(|| drop(leave_early(limit.acquire().n(2))));
            threads.spawn(move || drop(permit));
            threads.spawn(move || drop(other));
        });
        assert_idle(&limit);
    });
}

/// Slots above the limit are not handed on.
#[test]
fn c1_slots_that_come_back_meet_a_smaller_limit() {
    explore(|| {
        let limit = slots(2);
        let mut permit = limit.try_acquire_n(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| drop(block_on(limit.acquire()).expect("in turn")));
            }
            threads.spawn(|| {
                limit.set_limit(1).expect("within range");
                drop(permit);
                assert!(limit.in_flight() <= 1, "{limit:?}");
            });
            threads.spawn(move || drop(other));
        });
        assert_idle(&limit);
    });
}

#[test]
fn c1_a_limit_that_goes_down_and_up_meets_those_who_wait() {
    explore(|| {
        let (limit, in_use) = (slots(2), InUse::default());
        let set = |slots| limit.set_limit(slots).expect("within range");
        thread::scope(|threads| {
            for n in [1, 2, 1] {
                let (limit, in_use) = (&limit, &in_use);
                threads.spawn(move || match in_use.hold(limit.acquire().n(n), 3) {
                    Ok(()) => {}
                    // While the limit was 1.
                    Err(denied) => assert!(n == 2 && denied.is_never(), "{denied:?}"),
                });
            }
            threads.spawn(|| {
                set(0);
                assert!(limit.try_acquire().unwrap_err().is_busy());
                set(3);
                set(1);
                if let Ok(permit) = limit.try_acquire() {
                    assert_eq!(limit.in_flight(), 1, "all others are above the limit");
                    drop(permit);
                }
                set(2);
            });
        });
        assert_eq!(limit.limit(), 2);
        assert_idle(&limit);
    });
}

/// A request above the new limit is never granted, and does not keep the waiters behind it waiting.
#[test]
fn a_smaller_limit_meets_somebody_who_wants_more() {
    explore(|| {
        let (limit, in_use) = (slots(3), InUse::default());
        let permit = limit.try_acquire_n(3).expect("they are free");
        thread::scope(|threads| {
            threads.spawn(|| match in_use.hold(limit.acquire().n(3), 3) {
                // Before the limit was lowered.
                Ok(()) => {}
                Err(denied) => assert!(denied.is_never(), "{denied:?}"),
            });
            threads.spawn(|| in_use.hold(limit.acquire(), 3).expect("it fits"));
            threads.spawn(|| in_use.hold(limit.acquire().n(2), 3).expect("it fits"));
            threads.spawn(|| limit.set_limit(2).expect("within range"));
            threads.spawn(move || drop(permit));
        });
        assert_eq!(limit.limit(), 2);
        assert_idle(&limit);
    });
}

/// Nothing else would end these.
#[test]
fn a_smaller_limit_meets_those_who_enter_the_line_for_more() {
    explore(|| {
        let limit = slots(3);
        let permit = limit.try_acquire_n(3).expect("they are free");
        let mut ahead = std::boxed::Box::pin(limit.acquire());
        let poll = ahead.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let denied = block_on(limit.acquire().n(3)).unwrap_err();
                    assert!(denied.is_never(), "{denied:?}");
                });
            }
            threads.spawn(|| limit.set_limit(2).expect("within range"));
        });
        drop(permit);
        drop(leave_early(ahead).expect("it is the only one left"));
        assert_idle(&limit);
    });
}

/// One waiter is refused and looks late, another is served and looks late. Meanwhile others come after them into the places
/// that they had.
#[test]
fn c6_somebody_who_is_refused_meets_those_who_are_served() {
    explore(|| {
        let (limit, in_use) = (slots(2), InUse::default());
        let mut permit = limit.try_acquire_n(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        let mut large = std::boxed::Box::pin(limit.acquire().n(2));
        let mut small = std::boxed::Box::pin(limit.acquire());
        let mut unwoken = Context::from_waker(Waker::noop());
        assert!(large.as_mut().poll(&mut unwoken).is_pending());
        assert!(small.as_mut().poll(&mut unwoken).is_pending());
        thread::scope(|threads| {
            threads.spawn(|| {
                limit.set_limit(1).expect("within range");
                drop(permit);
                drop(other);
            });
            threads.spawn(|| {
                let denied = block_on(large).unwrap_err();
                assert!(denied.is_never(), "{denied:?}");
            });
            threads.spawn(|| in_use.use_up(block_on(small).expect("in turn"), 1));
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..2 {
                        in_use.hold(limit.acquire(), 1).expect("in turn");
                    }
                });
            }
        });
        assert_eq!(limit.limit(), 1);
        assert_idle(&limit);
    });
}

#[test]
fn forgetting_meets_those_who_enter_the_line_for_more() {
    explore(|| {
        let limit = slots(3);
        let mut permit = limit.try_acquire_n(3).expect("they are free");
        let lost = permit.split(1).expect("it holds three");
        thread::scope(|threads| {
            threads.spawn(|| drop(leave_early(limit.acquire())));
            threads.spawn(|| {
                let denied = block_on(limit.acquire().n(3)).unwrap_err();
                assert!(denied.is_never(), "{denied:?}");
            });
            threads.spawn(move || lost.forget());
        });
        drop(permit);
        assert_eq!(limit.limit(), 2);
        assert_idle(&limit);
    });
}

#[test]
fn closing_meets_a_release_and_those_who_come() {
    explore(|| {
        let (limit, in_use) = (slots(1), InUse::default());
        let permit = limit.try_acquire().expect("it is free");
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| match in_use.hold(limit.acquire(), 1) {
                    Ok(()) => {}
                    Err(denied) => assert!(denied.is_closed(), "{denied:?}"),
                });
            }
            threads.spawn(|| match limit.try_acquire() {
                Ok(permit) => in_use.use_up(permit, 1),
                Err(denied) => assert!(denied.is_closed() || denied.is_busy(), "{denied:?}"),
            });
            threads.spawn(|| {
                limit.queue().close();
                assert!(limit.try_acquire().unwrap_err().is_closed());
                assert!(block_on(limit.acquire()).unwrap_err().is_closed());
            });
            threads.spawn(move || drop(permit));
        });
        assert!(limit.queue().is_empty() && limit.queue().is_closed());
        assert_eq!((limit.in_flight(), limit.available()), (0, 0));
    });
}

/// What was granted and not seen goes on. Together with what else comes back, it serves a waiter that wants all.
#[test]
fn c5_what_was_granted_to_somebody_who_has_left_goes_to_a_large_request() {
    explore(|| {
        let (limit, in_use) = (slots(2), InUse::default());
        let mut permit = limit.try_acquire_n(2).expect("they are free");
        let other = permit.split(1).expect("it holds two");
        let mut left = std::boxed::Box::pin(limit.acquire());
        let poll = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        thread::scope(|threads| {
            threads.spawn(move || drop(permit));
            threads.spawn(move || drop(left));
            threads.spawn(move || drop(other));
            threads.spawn(|| in_use.hold(limit.acquire().n(2), 2).expect("in turn"));
        });
        assert_idle(&limit);
    });
}

#[test]
fn parts_of_a_permit_meet_those_who_wait() {
    explore(|| {
        let (limit, in_use) = (slots(4), InUse::default());
        let mut permit = limit.try_acquire_n(4).expect("they are free");
        thread::scope(|threads| {
            threads.spawn(move || {
                let part = permit.split(2).expect("it holds four");
                let lost = permit.split(1).expect("it holds two");
                drop(permit);
                let mut rest = part;
                let more = rest.split(1).expect("it holds two");
                lost.forget();
                rest.merge(more).expect("of the same limit");
                drop(rest);
            });
            threads.spawn(|| in_use.hold(limit.acquire().n(2), 3).expect("it fits"));
            threads.spawn(|| in_use.hold(limit.acquire(), 3).expect("it fits"));
            threads.spawn(|| {
                let denied = in_use.hold(limit.acquire().n(4), 3).unwrap_err();
                assert!(denied.is_never(), "one of four was forgotten: {denied:?}");
            });
        });
        assert_eq!(limit.limit(), 3);
        assert_idle(&limit);
    });
}

/// More waiters than are served under one hold of the lock, all of them looked after by one thread.
#[test]
fn one_thread_that_looks_after_many_has_all_of_them_served() {
    const MANY: usize = 40;
    explore(|| {
        let limit = slots(0);
        let mut waits: Vec<_> = (0..MANY)
            .map(|_| std::boxed::Box::pin(limit.acquire()))
            .collect();
        let mut leaver = std::boxed::Box::pin(limit.acquire());
        let poll = leaver
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        thread::scope(|threads| {
            threads.spawn(move || {
                let mut permits = Vec::new();
                block_on(poll_fn(|context| {
                    waits.retain_mut(|wait| match wait.as_mut().poll(context) {
                        Poll::Ready(permit) => {
                            permits.push(permit.expect("there is one for each"));
                            false
                        }
                        Poll::Pending => true,
                    });
                    match waits.len() {
                        0 => Poll::Ready(()),
                        _ => Poll::Pending,
                    }
                }));
                assert_eq!(permits.len(), MANY);
            });
            threads.spawn(move || drop(leaver));
            threads.spawn(|| limit.set_limit(MANY as u32).expect("within range"));
        });
        assert_idle(&limit);
    });
}
