//! Corners of waiting in which a guarantee once broke. Every test decides by itself what time it is.

use flowgate::*;
use flowgate_testkit::task::Task;
use std::time::Duration;

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn t(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

mod windows {
    use super::*;

    const WINDOW_NS: u64 = 100;

    fn window(limit: u64, time: &ManualClock) -> FixedWindow {
        let quota = Quota::new(limit, ns(WINDOW_NS)).expect("a valid quota");
        let window = FixedWindow::builder(quota).clock(time).build();
        window.expect("a valid window")
    }

    /// The most that one interval of a window's length admitted.
    fn most_in_a_window(admitted_ns: &[u64]) -> usize {
        let ends = admitted_ns.iter().map(|first_ns| first_ns + WINDOW_NS);
        let counts = admitted_ns.iter().zip(ends).map(|(first_ns, end_ns)| {
            let is_in = |at_ns: &&u64| (*first_ns..end_ns).contains(*at_ns);
            admitted_ns.iter().filter(is_in).count()
        });
        counts.max().unwrap_or(0)
    }

    #[test]
    fn c1_c5_a_fixed_window_whose_opener_was_given_back_unseen() {
        let time = ManualClock::new();
        let window = window(2, &time);
        time.set(t(1_000));
        assert_eq!(window.take_up_to(2), 2);
        let waits = Task::start(window.acquire());
        time.set(t(1_178));
        let mut admitted_ns = vec![];
        // The wait is granted at 1100, and opens the window that ends at 1200.
        admitted_ns.extend(window.try_acquire().map(|()| 1_178));
        drop(waits);
        admitted_ns.extend(window.try_acquire().map(|()| 1_178));
        time.set(t(1_228));
        admitted_ns.extend((0..2).filter_map(|_| window.try_acquire().ok().map(|()| 1_228)));
        assert_eq!(admitted_ns.len(), 3, "{admitted_ns:?}");
        let bound = 2 * 2 - 1;
        assert!(most_in_a_window(&admitted_ns) <= bound);
    }

    /// Waits that were granted when the window began, and a caller who came later.
    fn opened_by_waits(
        limit: u64,
        waits: usize,
        time: &ManualClock,
        check: impl FnOnce(&FixedWindow, Vec<Task<Acquire<&FixedWindow>>>),
    ) {
        let window = window(limit, time);
        time.set(t(1_000));
        assert_eq!(window.take_up_to(limit), limit);
        let tasks = (0..waits).map(|_| Task::start(window.acquire())).collect();
        time.set(t(1_150));
        assert_eq!(window.available(), limit - waits as u64);
        check(&window, tasks);
    }

    #[test]
    fn c5_an_opener_that_is_given_back_while_nothing_else_is_counted_comes_back_wholly() {
        let time = ManualClock::new();
        opened_by_waits(5, 3, &time, |window, tasks| {
            drop(tasks);
            assert_eq!(window.available(), 5);
            assert_eq!(window.snapshot().reset_after, Duration::ZERO);
        });
    }

    #[test]
    fn c5_a_fixed_window_withholds_one_unit_however_many_openers_are_given_back() {
        let time = ManualClock::new();
        opened_by_waits(5, 3, &time, |window, tasks| {
            window.try_acquire().expect("there is room");
            drop(tasks);
            assert_eq!(window.available(), 3);
            // The unit that is withheld goes with the last that is counted.
            assert_eq!(window.refund(5), 1);
            assert_eq!(window.available(), 5);
        });
    }

    #[test]
    fn c5_an_aligned_window_withholds_nothing() {
        let time = ManualClock::new();
        let quota = Quota::new(2, ns(WINDOW_NS)).expect("a valid quota");
        let window = FixedWindow::builder(quota)
            .align(t(0))
            .clock(&time)
            .build()
            .expect("a valid window");
        time.set(t(1_000));
        assert_eq!(window.take_up_to(2), 2);
        let waits = Task::start(window.acquire());
        time.set(t(1_178));
        window.try_acquire().expect("there is room");
        drop(waits);
        assert_eq!(window.available(), 1);
    }

    /// What a change of quota carries over does not make another window's unit one that is withheld.
    #[test]
    fn c1_a_unit_that_is_withheld_survives_a_change_of_quota() {
        let time = ManualClock::new();
        opened_by_waits(5, 2, &time, |window, tasks| {
            window.try_acquire().expect("there is room");
            drop(tasks);
            window
                .set_quota(Quota::new(5, ns(WINDOW_NS)).expect("a valid quota"))
                .expect("a valid window");
            assert_eq!(window.available(), 3);
            assert_eq!(window.refund(5), 1);
            assert_eq!(window.available(), 5);
        });
    }

    #[test]
    fn c1_fixed_windows_under_random_waits_that_are_given_up() {
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (time, limit) = (ManualClock::new(), random.u64(1..5));
            let window = window(limit, &time);
            let (mut waits, mut admitted_ns) = (Vec::<Task<Acquire<_>>>::new(), vec![]);
            for _ in 0..60 {
                match random.u32(0..10) {
                    0..4 => time.advance(ns(random.u64(0..60))),
                    4..6 => {
                        admitted_ns.extend(window.try_acquire().map(|()| time.now().as_nanos()))
                    }
                    6..8 => waits.push(Task::start(window.acquire())),
                    8 if !waits.is_empty() => drop(waits.swap_remove(random.usize(..waits.len()))),
                    _ => waits.iter_mut().for_each(|wait| _ = wait.poll()),
                }
                waits.retain(|wait| {
                    admitted_ns.extend(wait.granted_ns());
                    wait.output.is_none()
                });
            }
            let most = most_in_a_window(&admitted_ns) as u64;
            assert!(
                most < 2 * limit,
                "seed {seed}: {most} of {limit}: {admitted_ns:?}"
            );
        }
    }
}

mod stripes {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Threads that do one thing after the other, so that each has its stripe and a test decides on the order.
    struct Workers<'scope>(Vec<Sender<Box<dyn FnOnce() + Send + 'scope>>>);

    impl<'scope> Workers<'scope> {
        fn start<'env>(scope: &'scope std::thread::Scope<'scope, 'env>, count: usize) -> Self {
            let start = |_| {
                let (send, receive) = channel::<Box<dyn FnOnce() + Send + 'scope>>();
                scope.spawn(move || receive.into_iter().for_each(|act| act()));
                send
            };
            Self((0..count).map(start).collect())
        }

        fn on<T: Send + 'scope>(
            &self,
            worker: usize,
            act: impl FnOnce() -> T + Send + 'scope,
        ) -> T {
            let (send, receive) = channel();
            let act = move || _ = send.send(act());
            self.0[worker].send(Box::new(act)).expect("the worker runs");
            receive.recv().expect("the worker answers")
        }
    }

    /// Returns how many waits were judged. Contract C3 for each: granted when it is over, refused 1 ns before.
    fn judge<L: OneWord + Sync>(seed: u64, time: &ManualClock, hot: &Striped<L>) -> u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut judged = 0;
        std::thread::scope(|scope| {
            let workers = Workers::start(scope, 3);
            let try_on = |worker| workers.on(worker, || hot.try_acquire());
            for step in 0..400 {
                let worker = random.usize(0..3);
                match random.u32(0..10) {
                    0 | 1 => time.advance(ns(random.u64(0..3_000))),
                    2 => {
                        let back_ns = time.now().as_nanos().saturating_sub(random.u64(0..5_000));
                        time.set(t(back_ns));
                    }
                    3 => _ = hot.take_up_to(u64::MAX),
                    _ => {
                        let Err(denied) = try_on(worker) else {
                            continue;
                        };
                        let (wait, now) = (denied.retry_after().expect("it is known"), time.now());
                        if random.u32(0..4) > 0 {
                            continue;
                        }
                        judged += 1;
                        let context = format!("seed {seed}, step {step}: {wait:?} at {now:?}");
                        time.set(now + (wait - ns(1)));
                        assert!(try_on(worker).is_err(), "too long: {context}");
                        time.set(now + wait);
                        assert!(try_on(worker).is_ok(), "too short: {context}");
                    }
                }
            }
        });
        judged
    }

    #[test]
    fn c3_c4_a_striped_bucket_tells_exact_waits_after_its_clock_was_set_back() {
        let judged: u64 = (0..60)
            .map(|seed| {
                let time = ManualClock::new();
                time.set(t(1_000_000));
                let bucket = TokenBucket::builder(
                    Quota::new(1_000_000, Duration::from_secs(1))
                        .expect("valid")
                        .burst(1_024),
                );
                let bucket = bucket.clock(&time).build().expect("valid");
                judge(seed, &time, &Striped::with_stripes(bucket, 4))
            })
            .sum();
        assert!(judged > 1_000, "{judged}");
    }

    #[test]
    fn c3_c4_a_striped_window_tells_exact_waits_after_its_clock_was_set_back() {
        let judged: u64 = (0..60)
            .map(|seed| {
                let time = ManualClock::new();
                time.set(t(1_000_000));
                let window = FixedWindow::builder(Quota::new(1_024, ns(2_500)).expect("valid"));
                let window = window.clock(&time).build().expect("valid");
                judge(seed, &time, &Striped::with_stripes(window, 4))
            })
            .sum();
        assert!(judged > 1_000, "{judged}");
    }
}

mod gates {
    use super::*;

    const NAMES: [&str; 3] = ["short", "middle", "long"];

    /// A gate with three buckets, in an order that begins with the one of this number.
    fn gate(first: usize, time: &ManualClock) -> Gate {
        let quotas = ["1/100ns burst 3", "1/170ns burst 5", "2/250ns burst 4"];
        let mut gate = Gate::builder();
        for k in 0..3 {
            let k = (first + k) % 3;
            let bucket = TokenBucket::builder(quotas[k].parse().expect("valid")).clock(time);
            gate = gate.limit(NAMES[k], bucket.build().expect("valid"));
        }
        let slots = ConcurrencyLimit::builder(4).clock(time).build();
        gate.limit("slots", slots.expect("valid"))
            .build()
            .expect("valid")
    }

    fn available(gate: &Gate) -> [Option<u64>; 3] {
        NAMES.map(|name| gate.inspect(name, TokenBucket::available))
    }

    #[test]
    fn c5_every_bucket_of_a_gate_gets_back_what_a_cancelled_reservation_would() {
        let time = ManualClock::new();
        let gate = gate(0, &time);
        let alone = TokenBucket::builder("1/170ns burst 5".parse().expect("valid"));
        let alone = alone.clock(&time).build().expect("valid");
        let permits = gate.try_acquire_n(3).expect("they are there");
        alone.try_acquire_n(3).expect("they are there");
        let wait = Task::start(gate.acquire());
        // The wait is granted at 100, and given up at 200: the bucket was not full, so the whole token comes back.
        time.set(t(100));
        let reservation = alone.reserve().expect("it is there");
        time.set(t(200));
        drop(wait);
        assert_eq!(reservation.cancel(), 1);
        assert_eq!(
            gate.inspect("middle", TokenBucket::available),
            Some(alone.available())
        );
        drop(permits);
    }

    /// What a bucket gets back does not depend on where in the gate it is.
    #[test]
    fn c5_what_a_gate_gives_back_does_not_depend_on_the_order_of_its_limits() {
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let time = ManualClock::new();
            let gates = [0, 1, 2].map(|first| gate(first, &time));
            let mut permits = [const { Vec::new() }; 3];
            let mut waits = [const { Vec::<Task<_>>::new() }; 3];
            for step in 0..60 {
                let (act, which) = (random.u32(0..10), random.usize(..));
                if act < 3 {
                    time.advance(ns(random.u64(0..200)));
                }
                for ((gate, permits), waits) in gates.iter().zip(&mut permits).zip(&mut waits) {
                    match act {
                        0..3 => {}
                        3 | 4 => permits.extend(gate.try_acquire().ok()),
                        5 | 6 => waits.push(Task::start(gate.acquire())),
                        7 if !waits.is_empty() => drop(waits.swap_remove(which % waits.len())),
                        8 if !permits.is_empty() => {
                            drop(permits.swap_remove(which % permits.len()))
                        }
                        _ => {
                            for wait in waits.iter_mut() {
                                wait.poll();
                                permits.extend(wait.output.take().and_then(Result::ok));
                            }
                            waits.retain(Task::is_waiting);
                        }
                    }
                }
                let [one, ..] = gates.each_ref().map(available);
                for gate in &gates {
                    assert_eq!(available(gate), one, "seed {seed}, step {step}");
                }
            }
        }
    }
}

mod cancelled {
    use super::*;

    /// Two waits at a queue that holds one: the first is cancelled by its handle, and not polled after.
    fn frees_its_place<T, F>(
        start: impl Fn(&CancelHandle) -> F,
        waiters: impl Fn() -> Option<usize>,
    ) where
        F: Future<Output = Result<T, Denied>>,
    {
        let (stop, never) = (CancelHandle::new(), CancelHandle::new());
        let mut first = Task::start(start(&stop));
        let refused = Task::start(start(&never)).output.expect("it is refused");
        assert!(refused.err().expect("it is refused").is_queue_full());
        stop.cancel();
        assert!(waiters().is_none_or(|waiters| waiters == 0));
        let second = Task::start(start(&never));
        assert!(second.is_waiting(), "the place is free");
        assert!(waiters().is_none_or(|waiters| waiters == 1));
        assert!(first.was_woken() && first.poll());
        let denied = first.output.expect("it is over").err();
        assert!(denied.expect("it is refused").is_cancelled());
        assert!(waiters().is_none_or(|waiters| waiters == 1));
        drop(second);
        assert!(waiters().is_none_or(|waiters| waiters == 0));
    }

    fn bucket(time: &ManualClock, text: &str) -> TokenBucket {
        let bucket = TokenBucket::builder(text.parse().expect("valid"));
        bucket.clock(time).build().expect("valid")
    }

    #[test]
    fn c6_a_wait_that_is_cancelled_by_its_handle_frees_its_place() {
        let time = ManualClock::new();
        let bucket = bucket(&time, "1/h burst 1");
        bucket.try_acquire().expect("it is full");
        bucket.queue().set_max_waiters(1);
        frees_its_place(
            |handle| bucket.acquire().cancelled_by(handle),
            || Some(bucket.queue().len()),
        );
        time.advance(Duration::from_secs(3_600));
        assert!(bucket.try_acquire().is_ok(), "the door is open again");
    }

    #[test]
    fn c6_a_wait_for_a_permit_that_is_cancelled_by_its_handle_frees_its_place() {
        let limit = ConcurrencyLimit::builder(1)
            .clock(ManualClock::new())
            .build()
            .expect("valid");
        let permit = limit.try_acquire().expect("it is free");
        limit.queue().set_max_waiters(1);
        frees_its_place(
            |handle| limit.acquire().cancelled_by(handle),
            || Some(limit.queue().len()),
        );
        drop(permit);
        assert!(limit.try_acquire().is_ok(), "the door is open again");
    }

    #[test]
    fn c6_c7_a_wait_for_a_key_that_is_cancelled_by_its_handle_frees_its_place() {
        let limits: Keyed<TokenBucket> = Keyed::token_bucket("1/h burst 1".parse().expect("valid"))
            .clock(ManualClock::new())
            .max_waiters_per_key(1)
            .capacity(10)
            .expect("valid");
        limits.try_acquire("key").expect("it is full");
        frees_its_place(|handle| limits.acquire("key").cancelled_by(handle), || None);
    }

    #[test]
    fn c6_many_waits_of_one_handle_leave_together() {
        let time = ManualClock::new();
        let bucket = bucket(&time, "1/10ms burst 1");
        bucket.try_acquire().expect("it is full");
        let stop = CancelHandle::new();
        let wait = |_| Task::start(bucket.acquire().cancelled_by(&stop));
        let waits: Vec<_> = (0..3).map(wait).collect();
        let mut behind = Task::start(bucket.acquire());
        stop.cancel();
        assert_eq!(bucket.queue().len(), 1);
        assert!(waits.iter().all(Task::was_woken));
        time.advance(Duration::from_millis(10));
        assert!(behind.was_woken() && behind.poll());
        assert_eq!(behind.granted_ns(), Some(10_000_000));
    }

    /// The next one asks for less, and need not wait for the cancelled one to look.
    #[test]
    fn c2_c6_those_behind_move_up_before_the_cancelled_one_looks() {
        let limit = ConcurrencyLimit::builder(3)
            .clock(ManualClock::new())
            .build()
            .expect("valid");
        let permit = limit.try_acquire_n(2).expect("they are free");
        let stop = CancelHandle::new();
        let large = Task::start(limit.acquire().n(2).cancelled_by(&stop));
        let mut small = Task::start(limit.acquire());
        stop.cancel();
        assert!(small.was_woken() && small.poll(), "there is one");
        drop((large, permit, small));
        assert_eq!((limit.in_flight(), limit.queue().len()), (0, 0));
    }

    /// Neither of the two that could see to the queue looks: the third is woken a millisecond later.
    #[test]
    fn c6_the_queue_goes_on_though_neither_the_cancelled_one_nor_the_next_looks() {
        let time = ManualClock::new();
        let bucket = bucket(&time, "1/10ms burst 1");
        bucket.try_acquire().expect("it is full");
        let stop = CancelHandle::new();
        let cancelled = Task::start(bucket.acquire().cancelled_by(&stop));
        let sleeps = Task::start(bucket.acquire());
        let mut looks = Task::start(bucket.acquire());
        stop.cancel();
        time.advance(Duration::from_millis(1));
        for _ in 1..40 {
            if looks.was_woken() {
                looks.poll();
            }
            time.advance(Duration::from_millis(1));
        }
        assert_eq!(looks.granted_ns(), Some(20_000_000));
        drop((cancelled, sleeps));
    }

    /// Somebody ahead is due, and has not been served yet.
    #[test]
    fn c6_a_place_is_free_also_if_the_wait_was_cancelled_while_another_was_due() {
        let time = ManualClock::new();
        let bucket = bucket(&time, "1/10ms burst 1");
        bucket.try_acquire().expect("it is full");
        let stop = CancelHandle::new();
        let mut first = Task::start(bucket.acquire());
        let mut cancelled = Task::start(bucket.acquire().cancelled_by(&stop));
        bucket.queue().set_max_waiters(1);
        time.advance(Duration::from_millis(10));
        stop.cancel();
        let last = Task::start(bucket.acquire());
        assert!(last.is_waiting(), "the place is free");
        assert!(first.poll() && cancelled.poll());
        assert_eq!(first.granted_ns(), Some(10_000_000));
        let denied = cancelled.output.expect("it is over").unwrap_err();
        assert!(denied.is_cancelled());
    }

    /// A turn that came before the wait was cancelled is had.
    #[test]
    fn c5_a_turn_that_came_before_the_cancellation_is_granted() {
        let time = ManualClock::new();
        let bucket = bucket(&time, "1/10ms burst 1");
        bucket.try_acquire().expect("it is full");
        let stop = CancelHandle::new();
        let mut wait = Task::start(bucket.acquire().cancelled_by(&stop));
        time.advance(Duration::from_millis(10));
        stop.cancel();
        assert!(wait.poll());
        assert_eq!(wait.granted_ns(), Some(10_000_000));
    }

    /// Who has been cancelled before it came is refused when it comes, and costs nobody a place.
    #[test]
    fn c6_random_cancellations_by_handle_lose_no_token_and_no_turn() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let time = ManualClock::new();
            let bucket = bucket(&time, "1/10ms burst 3");
            let orders = [Order::Fifo, Order::Lifo, Order::Barging];
            bucket.queue().set_order(orders[random.usize(..3)]);
            let mut waits = Vec::<(Task<Acquire<_>>, CancelHandle)>::new();
            let mut granted = 0;
            for _ in 0..80 {
                match random.u32(0..8) {
                    0 | 1 => time.advance(Duration::from_millis(random.u64(0..25))),
                    2 | 3 => {
                        let (handle, n) = (CancelHandle::new(), random.u64(1..4));
                        let wait = bucket.acquire().n(n).cancelled_by(&handle);
                        waits.push((Task::start(wait), handle));
                    }
                    4 | 5 if !waits.is_empty() => waits[random.usize(..waits.len())].1.cancel(),
                    6 if !waits.is_empty() => drop(waits.swap_remove(random.usize(..waits.len()))),
                    _ => {
                        let woken = waits.iter_mut().filter(|(wait, _)| wait.was_woken());
                        woken.for_each(|(wait, _)| _ = wait.poll());
                    }
                }
                waits.retain(|(wait, _)| match &wait.output {
                    Some(Ok(grant)) => {
                        granted += grant.units();
                        false
                    }
                    Some(Err(denied)) => {
                        assert!(denied.is_cancelled(), "seed {seed}: {denied:?}");
                        false
                    }
                    None => true,
                });
            }
            // All that are left come to their turns by being woken alone.
            for _ in 0..2_000 {
                while let Some((wait, _)) = waits
                    .iter_mut()
                    .find(|(wait, _)| wait.was_woken() && wait.is_waiting())
                {
                    wait.poll();
                }
                time.advance(Duration::from_millis(1));
            }
            let left = waits.iter().filter(|(wait, _)| wait.is_waiting()).count();
            assert_eq!(left, 0, "seed {seed}");
            assert!(bucket.queue().is_empty(), "seed {seed}");
            assert_eq!(bucket.available(), 3, "seed {seed}");
            let come = 3 + time.now().as_nanos() / 10_000_000;
            assert!(granted <= come, "seed {seed}: {granted} of {come}");
        }
    }
}

mod forgotten {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(time: &ManualClock) -> TokenBucket {
        let bucket = TokenBucket::builder("1/10ms burst 1".parse().expect("valid"));
        let bucket = bucket.initial_tokens(0).clock(time);
        bucket.build().expect("valid")
    }

    /// A wait that was polled, and that nobody polls or drops any more.
    fn forget(wait: Acquire<impl Acquirable>) {
        std::mem::forget(Task::start(wait));
    }

    /// Moves the clock on until `task` is ready; it is polled when it is woken. Returns how long that took.
    fn run<F: Future>(time: &ManualClock, task: &mut Task<F>) -> Duration {
        let began = time.now();
        while task.is_waiting() {
            let lasts = time.now().saturating_duration_since(began);
            assert!(lasts < 10 * SECOND, "it waits forever");
            time.advance(Duration::from_millis(1));
            if task.was_woken() {
                task.poll();
            }
        }
        time.now().saturating_duration_since(began)
    }

    #[test]
    fn c6_a_forgotten_wait_costs_what_it_is_granted_and_no_more() {
        let time = ManualClock::new();
        let bucket = bucket(&time);
        forget(bucket.acquire());
        let mut behind = Task::start(bucket.acquire());
        assert_eq!(run(&time, &mut behind), Duration::from_millis(20));
        assert!(bucket.queue().is_empty());
    }

    /// Only itself could take its turn.
    #[test]
    fn c6_a_forgotten_wait_that_keeps_a_distance_is_passed_over() {
        let time = ManualClock::new();
        let bucket = bucket(&time);
        forget(bucket.acquire().spacing(Spacing::AtLeast));
        let mut behind = Task::start(bucket.acquire());
        let last = Task::start(bucket.acquire());
        // Due at 10 ms; the queue looks a millisecond later.
        let lasts = run(&time, &mut behind);
        assert!(lasts <= SECOND + Duration::from_millis(12), "{lasts:?}");
        // No grant is dated before those behind could go.
        let granted_ns = behind.granted_ns().expect("it is granted");
        assert!(granted_ns >= SECOND.as_nanos() as u64, "{granted_ns}");
        // The token stays for the others: nobody waits for it any more.
        drop(last);
        assert!(bucket.queue().is_empty());
        time.advance(Duration::from_millis(10));
        assert!(bucket.try_acquire().is_ok());
    }

    #[test]
    fn c2_a_forgotten_wait_that_keeps_a_distance_does_not_close_the_door() {
        let time = ManualClock::new();
        let bucket = bucket(&time);
        forget(bucket.acquire().spacing(Spacing::AtLeast));
        time.advance(Duration::from_millis(10));
        assert!(bucket.try_acquire().is_err(), "it may look yet");
        time.advance(SECOND);
        assert!(bucket.try_acquire().is_ok());
        assert!(bucket.queue().is_empty());
    }

    #[test]
    fn c6_a_slow_wait_that_keeps_a_distance_enters_anew() {
        let time = ManualClock::new();
        let bucket = bucket(&time);
        let mut slow = Task::start(
            bucket
                .acquire()
                .spacing(Spacing::AtLeast)
                .within(5 * SECOND),
        );
        let mut behind = Task::start(bucket.acquire());
        run(&time, &mut behind);
        assert!(slow.was_woken(), "it is told");
        assert!(!slow.poll(), "the token is gone, and it waits for the next");
        let mut last = Task::start(bucket.acquire());
        run(&time, &mut slow);
        let [behind_ns, slow_ns] = [&behind, &slow].map(|wait| wait.granted_ns().expect("granted"));
        assert_eq!(slow_ns - behind_ns, 10_000_000);
        run(&time, &mut last);
    }

    #[test]
    fn c6_a_wait_that_keeps_a_distance_and_looks_in_time_keeps_its_turn() {
        let time = ManualClock::new();
        let bucket = bucket(&time);
        let mut first = Task::start(bucket.acquire().spacing(Spacing::AtLeast));
        let mut second = Task::start(bucket.acquire());
        time.set(t(1_009_000_000));
        assert!(!second.poll());
        assert!(first.poll());
        assert_eq!(first.granted_ns(), Some(1_009_000_000));
        run(&time, &mut second);
        assert_eq!(second.granted_ns(), Some(1_019_000_000));
    }

    /// Deadlines count from the first poll, also of a wait that was passed over.
    #[test]
    fn c3_a_wait_that_was_passed_over_keeps_its_deadline() {
        let time = ManualClock::new();
        let bucket = bucket(&time);
        let wait = bucket
            .acquire()
            .spacing(Spacing::AtLeast)
            .within(2 * SECOND);
        let mut slow = Task::start(wait);
        let mut behind = Task::start(bucket.acquire());
        run(&time, &mut behind);
        time.set(t(1_999_000_000));
        bucket.take_up_to(1);
        assert!(slow.poll(), "10 ms would be too long");
        assert!(slow.output.expect("it is over").is_err());
    }

    #[test]
    fn c6_forgotten_permits_waits_cost_their_slots_alone() {
        let limit = ConcurrencyLimit::builder(3)
            .clock(ManualClock::new())
            .build()
            .expect("valid");
        let permit = limit.try_acquire_n(3).expect("they are free");
        std::mem::forget(Task::start(limit.acquire()));
        let mut behind = Task::start(limit.acquire());
        drop(permit);
        assert!(behind.poll());
        drop(behind);
        assert_eq!(
            (limit.in_flight(), limit.available(), limit.queue().len()),
            (1, 2, 0)
        );
    }
}
