//! Who waits under overload: the oldest of a full queue leaves, and CoDel sheds those that have waited too long.

use flowgate::{
    Acquire, AdaptiveLimit, CancelHandle, Codel, ConcurrencyLimit, FineLimit, Gate, Gradient,
    ManualClock, Observed, Order, Permit, Permits, TokenBucket,
};
use flowgate_testkit::task::Task;
use std::collections::VecDeque;
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn limit_of(limit: u32, time: &ManualClock) -> ConcurrencyLimit {
    let builder = ConcurrencyLimit::builder(limit).clock(time);
    builder.build().expect("a limit within range")
}

type Wait<'a> = Task<Acquire<Permits<&'a ConcurrencyLimit>>>;

#[track_caller]
fn assert_full(task: &mut Wait<'_>) {
    assert!(task.run(), "it is woken");
    let denied = task.denied().expect("it is refused");
    assert!(denied.is_queue_full(), "{denied:?}");
    assert_eq!(denied.retry_after(), None);
}

#[test]
fn a_full_queue_of_adaptive_lifo_refuses_its_oldest_in_both_phases() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit
        .queue()
        .set_order(Order::adaptive_lifo())
        .set_max_waiters(2);
    let held = limit.try_acquire().expect("it is free");
    let mut tasks: Vec<Wait<'_>> = (0..3).map(|_| Task::start(limit.acquire())).collect();
    assert_full(&mut tasks[0]);
    // First in, first out, as long as the queue is young.
    drop(held);
    assert!(tasks[1].run() && !tasks[2].run());
    let held = tasks.remove(1).into_granted();
    tasks.push(Task::start(limit.acquire()));
    time.advance(ms(101));
    tasks.push(Task::start(limit.acquire()));
    assert_full(&mut tasks[1]);
    // Last in, first out.
    drop(held);
    assert!(tasks[3].run() && !tasks[2].run());
}

/// Nothing else would serve those behind it.
#[test]
fn c2_who_was_held_up_by_the_oldest_is_served_when_that_is_refused() {
    let time = ManualClock::new();
    let limit = limit_of(2, &time);
    let held = limit.try_acquire().expect("it is free");
    let full = |waiters| {
        let queue = limit.queue().set_order(Order::adaptive_lifo());
        queue.set_max_waiters(waiters);
    };
    full(2);
    let mut large = Task::start(limit.acquire().n(2));
    let mut small = Task::start(limit.acquire());
    let newest = Task::start(limit.acquire());
    assert!(small.run(), "the one behind it fits");
    drop((small, newest));
    assert_full(&mut large);

    full(1);
    let mut large = Task::start(limit.acquire().n(2));
    let small = Task::start(limit.acquire());
    assert!(small.granted().is_some(), "the new one fits itself");
    assert_full(&mut large);
    drop((small, held));
    assert_eq!((limit.in_flight(), limit.queue().len()), (0, 0));
}

/// Several leave, if one alone asks for too little.
#[test]
fn as_many_of_the_oldest_leave_as_the_new_one_has_units() {
    for order in [Order::Lifo, Order::adaptive_lifo()] {
        let time = ManualClock::new();
        let limit = limit_of(9, &time);
        limit.queue().set_order(order).set_max_units(4);
        let _held = limit.try_acquire_n(9).expect("they are free");
        let mut tasks: Vec<Wait<'_>> = [1, 1, 2].map(|n| Task::start(limit.acquire().n(n))).into();
        tasks.push(Task::start(limit.acquire().n(2)));
        assert_full(&mut tasks[0]);
        assert_full(&mut tasks[1]);
        assert_eq!((limit.queue().len(), limit.queue().units()), (2, 4));
        // One that cannot fit sends none away.
        let denied = Task::start(limit.acquire().n(5)).denied();
        assert!(denied.is_some_and(|denied| denied.is_queue_full()));
        assert_eq!((limit.queue().len(), limit.queue().units()), (2, 4));
    }
}

/// It learns of it without a wait for anything else.
#[test]
fn a_blocked_thread_that_is_the_oldest_returns() {
    let limit = ConcurrencyLimit::new(1);
    limit.queue().set_order(Order::Lifo).set_max_waiters(1);
    let _held = limit.try_acquire().expect("it is free");
    std::thread::scope(|threads| {
        let oldest = threads.spawn(|| limit.acquire().block().map(drop));
        while limit.queue().is_empty() {
            std::thread::yield_now();
        }
        let newest = Task::start(limit.acquire());
        let denied = oldest.join().expect("no panic").unwrap_err();
        assert!(denied.is_queue_full());
        assert!(newest.is_waiting());
    });
}

#[test]
fn c5_who_was_refused_as_the_oldest_and_is_cancelled_has_one_answer() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit.queue().set_order(Order::Lifo).set_max_waiters(1);
    let held = limit.try_acquire().expect("it is free");
    let handle = CancelHandle::new();
    let mut oldest = Task::start(limit.acquire().cancelled_by(&handle));
    let mut newest = Task::start(limit.acquire());
    handle.cancel();
    assert!(oldest.run() && oldest.denied().is_some());
    drop(held);
    assert!(newest.run());
    drop(newest);
    assert_eq!((limit.in_flight(), limit.queue().len()), (0, 0));
}

// CoDel.

fn codel() -> Codel {
    Codel::default()
}

/// A limit of one, and as many waiters. Each `release` gives the permit to the next that is not shed.
struct Turns<'a> {
    limit: &'a ConcurrencyLimit,
    held: Option<Permit<&'a ConcurrencyLimit>>,
    waits: VecDeque<Wait<'a>>,
}

impl<'a> Turns<'a> {
    fn new(limit: &'a ConcurrencyLimit, waiters: usize) -> Self {
        let held = Some(limit.try_acquire().expect("it is free"));
        let waits = (0..waiters).map(|_| Task::start(limit.acquire())).collect();
        Self { limit, held, waits }
    }

    fn come(&mut self) {
        self.waits.push_back(Task::start(self.limit.acquire()));
    }

    /// Returns how many were shed.
    fn release(&mut self) -> usize {
        drop(self.held.take());
        let mut shed = 0;
        while let Some(mut wait) = self.waits.pop_front() {
            if !wait.run() {
                self.waits.push_front(wait);
                break;
            }
            match wait.output.take().expect("it is ready") {
                Ok(permit) => {
                    self.held = Some(permit);
                    break;
                }
                Err(denied) => {
                    assert!(denied.is_shed(), "{denied:?}");
                    assert_eq!(denied.retry_after(), None);
                    shed += 1;
                }
            }
        }
        shed
    }
}

#[test]
fn codel_sheds_above_twice_the_target_in_the_interval_after_one_whose_least_delay_was_above_it() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit.queue().set_codel(codel());
    let mut turns = Turns::new(&limit, 6);
    time.advance(ms(6));
    assert_eq!(turns.release(), 0, "it begins an interval");
    time.advance(ms(100));
    assert_eq!(turns.release(), 0, "the interval ends after this");
    time.advance(Duration::from_nanos(1));
    assert_eq!(turns.release(), 0, "the first of the next one");
    for _ in 0..3 {
        turns.come();
    }
    time.advance(ms(10));
    // Three have waited for more than 10 ms; those that came last have waited for exactly that.
    assert_eq!(turns.release(), 3);
    assert!(turns.held.is_some());
    time.advance(Duration::from_nanos(1));
    assert_eq!(turns.release(), 2);
    drop(turns);
    assert_eq!((limit.in_flight(), limit.queue().len()), (0, 0));
}

#[test]
fn codel_sheds_none_where_the_least_delay_is_the_target() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit.queue().set_codel(codel());
    let mut turns = Turns::new(&limit, 5);
    time.advance(ms(5));
    assert_eq!(turns.release(), 0);
    time.advance(ms(101));
    assert_eq!(turns.release(), 0);
    time.advance(ms(50));
    assert_eq!(turns.release(), 0);
}

/// As if a caller had come then, and been granted immediately.
#[test]
fn codel_takes_an_empty_queue_for_a_delay_of_none() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit.queue().set_codel(codel());
    let mut turns = Turns::new(&limit, 1);
    time.advance(ms(50));
    assert_eq!(turns.release(), 0);
    turns.come();
    turns.come();
    time.advance(ms(101));
    assert_eq!(turns.release(), 0);
    time.advance(ms(1));
    assert_eq!(
        turns.release(),
        0,
        "the queue was empty in the interval before"
    );
}

/// Since when they wait is not known.
#[test]
fn codel_counts_from_when_it_was_set() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    let mut turns = Turns::new(&limit, 4);
    time.advance(ms(1_000));
    limit.queue().set_codel(codel());
    time.advance(ms(4));
    assert_eq!(turns.release(), 0);
    time.advance(ms(101));
    assert_eq!(turns.release(), 0);
    assert_eq!(turns.release(), 0, "the least delay was 4 ms");
}

#[test]
fn codel_that_is_turned_off_sheds_none() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit.queue().set_codel(codel());
    let mut turns = Turns::new(&limit, 4);
    for advance in [50, 101] {
        time.advance(ms(advance));
        assert_eq!(turns.release(), 0);
    }
    limit.queue().set_codel(None);
    assert_eq!(turns.release(), 0);
    assert_eq!(turns.waits.len(), 1);
}

/// The newest is granted without delay, while the oldest shows that the queue stays.
#[test]
fn codel_judges_a_queue_of_lifo_by_its_oldest() {
    let time = ManualClock::new();
    let limit = limit_of(1, &time);
    limit.queue().set_order(Order::Lifo).set_codel(codel());
    let held = limit.try_acquire().expect("it is free");
    let mut old = [(); 2].map(|()| Task::start(limit.acquire()));
    let mut held = Some(held);
    for advance in [50, 101] {
        time.advance(ms(advance));
        let mut new = Task::start(limit.acquire());
        drop(held.take());
        assert!(new.run());
        held = Some(new.into_granted());
    }
    drop(held);
    assert_eq!(old.each_mut().map(Task::run), [true, true]);
    assert!(
        old.iter()
            .all(|old| old.denied().is_some_and(|denied| denied.is_shed()))
    );
    assert_eq!((limit.in_flight(), limit.queue().len()), (0, 0));
}

/// A gate, an adaptive limit, a rate limiter and a limit that is counted have the same queue.
#[test]
fn every_queue_sheds() {
    /// Sheds the third of three, in the interval after one in which the first was granted after 101 ms.
    macro_rules! check {
        ($limiter:expr, $time:expr) => {
            let (limiter, time) = ($limiter, &$time);
            limiter.queue().set_codel(codel());
            let held = limiter.try_acquire().expect("it is free");
            let mut tasks = [(); 3].map(|()| Task::start(limiter.acquire()));
            time.advance(ms(101));
            drop(held);
            assert!(tasks[0].run());
            time.advance(ms(101));
            drop(tasks[0].output.take());
            assert!(tasks[1].run());
            drop(
                tasks[1]
                    .output
                    .take()
                    .expect("it is ready")
                    .expect("granted"),
            );
            assert!(tasks[2].run());
            assert!(tasks[2].denied().expect("refused").is_shed());
        };
    }
    let time = ManualClock::new();
    let gate = Gate::builder().limit("one", limit_of(1, &time)).build();
    check!(gate.expect("a gate"), time);
    let adaptive = AdaptiveLimit::builder(Gradient::default()).clock(&time);
    let one = FineLimit::ONE;
    let adaptive = adaptive.bounds(one, one).build().expect("within range");
    check!(adaptive, time);
    let observed = Observed::new(limit_of(1, &time));
    check!(&observed, time);
    let counts = observed.counts();
    assert_eq!((counts.refused.shed, counts.refused.total()), (1, 1));
    assert_eq!(counts.refused.to_string(), "1 shed");
}

/// The wait is known there, and by the time of the grant, not by when a waiter looks.
#[test]
fn codel_at_a_bucket_goes_by_the_times_of_grants() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder("20/s burst 1".parse().expect("a quota"));
    let bucket = bucket.clock(&time).build().expect("a bucket");
    bucket.queue().set_codel(codel());
    bucket.try_acquire().expect("it is full");
    let mut tasks: Vec<_> = (0..5).map(|_| Task::start(bucket.acquire())).collect();
    time.advance(ms(1_000));
    // Granted at 50, 100 and 150 ms in the first interval, and at 200 ms as the first of the second.
    for task in &mut tasks {
        task.poll();
    }
    let granted: Vec<_> = tasks.iter().map(Task::granted_ms).collect();
    let [first, second, third, fourth] = [50.0, 100.0, 150.0, 200.0].map(Some);
    assert_eq!(granted, [first, second, third, fourth, None]);
    assert!(tasks[4].denied().expect("refused").is_shed());
    assert_eq!(bucket.available(), 1, "what the last one did not take");
}

#[test]
fn a_codel_out_of_range_says_what_is_in_range() {
    for (target, interval, expected) in [
        (
            0,
            100,
            "a target in nanoseconds of 0 is out of range: 1 to 99",
        ),
        (
            100,
            100,
            "a target in nanoseconds of 100 is out of range: 1 to 99",
        ),
        (1, 1, "an interval in nanoseconds of 1 is out of range"),
    ] {
        let [target, interval] = [target, interval].map(Duration::from_nanos);
        let error = Codel::new(target, interval).expect_err("out of range");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let codel = Codel::new(ms(5), ms(100)).expect("in range");
    assert_eq!(codel, Codel::default());
    assert_eq!((codel.target(), codel.interval()), (ms(5), ms(100)));
}

// All of it, against a queue that is written as the documentation says.

/// What becomes of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Granted,
    Full,
    Shed,
}

#[derive(Clone, Copy)]
struct Waiter {
    id: usize,
    units: u64,
    came_ns: u64,
}

/// A queue of a concurrency limit, without locks and without economy.
struct Model {
    free: u64,
    order: Order,
    max_waiters: usize,
    max_units: u64,
    codel: Option<Codel>,
    waiters: Vec<Waiter>,
    now_ns: u64,
    busy_since_ns: u64,
    end_ns: u64,
    least_ns: u64,
    is_overloaded: bool,
    fates: Vec<(usize, Fate)>,
}

impl Model {
    fn is_lifo(&self) -> bool {
        match self.order {
            Order::Lifo => true,
            Order::AdaptiveLifo { after } => {
                u128::from(self.now_ns - self.busy_since_ns) > after.as_nanos()
            }
            _ => false,
        }
    }

    fn serve(&mut self) {
        while !self.waiters.is_empty() {
            let next = if self.is_lifo() {
                self.waiters.len() - 1
            } else {
                0
            };
            if self.waiters[next].units > self.free {
                return;
            }
            let oldest_ns = self.now_ns - self.waiters[0].came_ns;
            let waiter = self.waiters.remove(next);
            let fate = match self.sheds(self.now_ns - waiter.came_ns, oldest_ns) {
                true => Fate::Shed,
                false => {
                    self.free -= waiter.units;
                    Fate::Granted
                }
            };
            self.fates.push((waiter.id, fate));
        }
    }

    fn sheds(&mut self, delay_ns: u64, oldest_ns: u64) -> bool {
        let Some(codel) = self.codel else {
            return false;
        };
        let target_ns = codel.target().as_nanos() as u64;
        if self.now_ns > self.end_ns {
            self.end_ns = self.now_ns + codel.interval().as_nanos() as u64;
            self.is_overloaded = self.least_ns > target_ns;
            self.least_ns = oldest_ns;
            return false;
        }
        self.least_ns = self.least_ns.min(oldest_ns);
        self.is_overloaded && delay_ns > 2 * target_ns
    }

    fn come(&mut self, id: usize, units: u64) {
        if self.waiters.is_empty() {
            if units <= self.free {
                self.free -= units;
                return self.fates.push((id, Fate::Granted));
            }
            self.busy_since_ns = self.now_ns;
            self.least_ns = 0;
        }
        let came_ns = self.now_ns;
        self.waiters.push(Waiter { id, units, came_ns });
        self.serve();
        if self.waiters.last().is_none_or(|last| last.id != id) {
            return;
        }
        let evicts = matches!(self.order, Order::Lifo | Order::AdaptiveLifo { .. })
            && self.max_waiters > 0
            && units <= self.max_units;
        while self.is_over() {
            let leaves = if evicts { 0 } else { self.waiters.len() - 1 };
            let leaves = self.waiters.remove(leaves);
            self.fates.push((leaves.id, Fate::Full));
        }
        self.serve();
    }

    fn is_over(&self) -> bool {
        let units: u64 = self.waiters.iter().map(|waiter| waiter.units).sum();
        self.waiters.len() > self.max_waiters || units > self.max_units
    }

    fn leave(&mut self, id: usize) {
        self.waiters.retain(|waiter| waiter.id != id);
        self.serve();
    }
}

fn fate(wait: &Wait<'_>) -> Option<Fate> {
    Some(match wait.output.as_ref()? {
        Ok(_) => Fate::Granted,
        Err(denied) if denied.is_queue_full() => Fate::Full,
        Err(denied) if denied.is_shed() => Fate::Shed,
        Err(denied) => panic!("{denied:?}"),
    })
}

#[test]
fn c6_random_queues_do_what_the_documentation_says() {
    let rounds = crate::effort::rounds(3_000, 100_000);
    let mut seen = [0_u64; 3];
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let time = ManualClock::new();
        let mut size = random.u32(1..4);
        let limit = limit_of(size, &time);
        let after = Duration::from_nanos(random.u64(0..40));
        let orders = [Order::Fifo, Order::Lifo, Order::AdaptiveLifo { after }];
        let target_ns = random.u64(1..6);
        let interval_ns = target_ns + random.u64(1..30);
        let [target, interval] = [target_ns, interval_ns].map(Duration::from_nanos);
        let codel = Codel::new(target, interval).expect("in range");
        let mut model = Model {
            free: size.into(),
            order: orders[random.usize(..3)],
            max_waiters: random.usize(1..6),
            max_units: random.u64(2..12),
            codel: random.bool().then_some(codel),
            waiters: Vec::new(),
            now_ns: 0,
            busy_since_ns: 0,
            end_ns: 0,
            least_ns: 0,
            is_overloaded: false,
            fates: Vec::new(),
        };
        let queue = limit.queue().set_order(model.order);
        queue
            .set_max_waiters(model.max_waiters)
            .set_max_units(model.max_units)
            .set_codel(model.codel);
        let mut waits: Vec<Wait<'_>> = Vec::new();
        let mut fates: Vec<(usize, Fate)> = Vec::new();
        for step in 0..60 {
            match random.u32(0..10) {
                0..4 => {
                    let units = random.u64(1..=u64::from(size));
                    model.come(waits.len(), units);
                    waits.push(Task::start(limit.acquire().n(units)));
                }
                4..6 => {
                    let ns = random.u64(1..12);
                    for _ in 0..ns {
                        model.now_ns += 1;
                        model.serve();
                    }
                    time.advance(Duration::from_nanos(ns));
                }
                6..9 => {
                    let held = waits.iter_mut().find(|wait| wait.granted().is_some());
                    if let Some(wait) = held {
                        let output = wait.output.take();
                        model.free += output
                            .as_ref()
                            .map_or(0, |output| output.as_ref().expect("a permit").units());
                        model.serve();
                        drop(output);
                    }
                }
                _ if size < 6 && random.bool() => {
                    size += 1;
                    model.free += 1;
                    model.serve();
                    limit.set_limit(size).expect("within range");
                }
                _ => {
                    let waiting = waits.iter().position(Task::is_waiting);
                    if let Some(id) = waiting {
                        model.leave(id);
                        waits[id].cancel();
                    }
                }
            }
            for (id, wait) in waits.iter_mut().enumerate() {
                let was_waiting = wait.is_waiting() || wait.output.is_some();
                if !was_waiting || fates.iter().any(|(other, _)| *other == id) {
                    continue;
                }
                wait.run();
                if let Some(fate) = fate(wait) {
                    fates.push((id, fate));
                    seen[fate as usize] += 1;
                }
            }
            let mut expected = model.fates.clone();
            expected.sort_by_key(|(id, _)| *id);
            let mut actual = fates.clone();
            actual.sort_by_key(|(id, _)| *id);
            assert_eq!(actual, expected, "seed {seed}, step {step}");
            let waiting = waits.iter().filter(|wait| wait.is_waiting()).count();
            assert_eq!(waiting, limit.queue().len(), "seed {seed}, step {step}");
        }
        drop(waits);
        assert_eq!(
            (limit.in_flight(), limit.queue().len()),
            (0, 0),
            "seed {seed}"
        );
    }
    assert!(seen.iter().all(|seen| *seen > 100), "{seen:?}");
}
