//! Schedules of the queue: small crowds of threads that meet in it in thousands of orders, chosen by shuttle.
//!
//! loom explores every order of two or three threads (`model.rs` here and beside the limiters); this module samples those of
//! whole queues. Every wait is the real future, on a clock that another thread of the scenario moves. A lost wake-up leaves a
//! thread asleep when all others are done. shuttle reports that as a deadlock, with the schedule that led there:
//!
//! ```text
//! FLOWGATE_SCHEDULE=<schedule> ci/shuttle.sh <scenario>
//! ```
//!
//! Each scenario ends with a reckoning: no waiter is left in the queue, and every slot and token is accounted for.
//!
//! Run by `ci/shuttle.sh`. Clocks are manual: the machine's have no alarms here.

mod buckets;
mod gates;
mod orders;
mod slots;
mod types;
mod wakers;

use super::{Acquirable, Acquire, Grant};
use crate::clock::{ManualClock, Timestamp};
use crate::concurrency::limit::ConcurrencyLimit;
use crate::concurrency::permit::{Lender, Permit, Permits};
use crate::quota::Quota;
use crate::types::token_bucket::TokenBucket;
use crate::verdict::Denied;
use core::future::{Future, poll_fn};
use core::ops::Deref;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner, thread};
// Not shuttle's: what it counts for the reckoning is not part of what is explored.
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::vec::Vec;

/// Runs `scenario` in `FLOWGATE_SCHEDULES` orders (20,000), by a coin at each step, and in as many with few preemptions at
/// random places (PCT). `FLOWGATE_SEED` chooses others; `FLOWGATE_SCHEDULE` is the one to run instead.
#[track_caller]
pub(crate) fn explore(scenario: fn()) {
    if let Ok(schedule) = std::env::var("FLOWGATE_SCHEDULE") {
        return shuttle::replay(scenario, &schedule);
    }
    let number = |name, default| match std::env::var(name) {
        Ok(value) => value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is to be a number, and is {value:?}")),
        Err(_) => default,
    };
    let schedules = number("FLOWGATE_SCHEDULES", 20_000) as usize;
    let seed = number("FLOWGATE_SEED", 1);
    run(RandomScheduler::new_from_seed(seed, schedules), scenario);
    run(PctScheduler::new_from_seed(seed, 3, schedules), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    // loom checks the memory orderings.
    config.silence_warnings = true;
    // Shuttle's atomics are large, so a limiter that is moved takes most of the default of 32 KiB.
    config.stack_size = 128 * 1024;
    // Many times what any scenario takes: a thread runs in circles.
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(scheduler, config).run(scenario);
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// Moves the clock on to each of `instants`.
pub(crate) fn walk<const N: usize>(time: &ManualClock, instants: [u64; N]) {
    for instant in instants {
        time.set(at(instant));
    }
}

/// Long enough for a waiter that does not look to be passed over.
const A_WHILE_NS: u64 = 1_000_000;

/// Moves the clock on by `step_ns` at a time until no waiter is `left`. How long that takes may depend on when the waiters
/// come.
pub(crate) fn walk_until_none_is(left: &AtomicU64, time: &ManualClock, step_ns: u64) {
    while left.load(SeqCst) > 0 {
        time.advance(Duration::from_nanos(step_ns));
        thread::yield_now();
    }
}

/// Gets in the queue, or perhaps gets what it wants, and leaves in any case. It is never woken.
pub(crate) fn leave_early<F: Future>(wait: F) -> Option<F::Output> {
    let mut wait = pin!(wait);
    match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// The order of events, in numbers that show only which came first.
#[derive(Default)]
struct Moments(AtomicU64);

impl Moments {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, SeqCst)
    }

    /// Waits, and notes when.
    fn visit<F: Future>(&self, wait: F) -> (Visit, F::Output) {
        let mut visit = Visit {
            came: self.next(),
            stood: None,
            told: 0,
        };
        let mut wait = pin!(wait);
        let answer = block_on(poll_fn(|context| {
            let answer = wait.as_mut().poll(context);
            if answer.is_pending() && visit.stood.is_none() {
                visit.stood = Some(self.next());
            }
            answer
        }));
        visit.told = self.next();
        (visit, answer)
    }
}

/// When a caller came, was in the queue for certain, and had its answer.
#[derive(Clone, Copy, Debug)]
struct Visit {
    came: u64,
    stood: Option<u64>,
    told: u64,
}

impl Visit {
    /// Whether it was in the queue when `other` was not there yet.
    fn is_ahead_of(&self, other: &Self) -> bool {
        self.stood.is_some_and(|stood| stood < other.came)
    }
}

// Slots.

fn slots(limit: u32) -> ConcurrencyLimit {
    timed_slots(limit).0
}

fn timed_slots(limit: u32) -> (ConcurrencyLimit, ManualClock) {
    let time = ManualClock::new();
    let builder = ConcurrencyLimit::builder(limit).clock(&time);
    (builder.build().expect("a limit within range"), time)
}

/// How much is in use, as the users count it.
#[derive(Default)]
struct InUse(AtomicU64);

impl InUse {
    /// Waits for a permit, and uses it for a while.
    #[track_caller]
    fn hold<P>(&self, wait: Acquire<Permits<P>>, most: u64) -> Result<(), Denied>
    where
        P: Deref<Target: Lender> + Clone + Unpin,
    {
        block_on(wait).map(|permit| self.use_up(permit, most))
    }

    /// Uses a permit for a while, while no more than `most` are in use.
    #[track_caller]
    fn use_up<P>(&self, permit: Permit<P>, most: u64)
    where
        P: Deref<Target: Lender>,
    {
        let n = permit.units();
        let in_use = self.0.fetch_add(n, SeqCst) + n;
        assert!(in_use <= most, "{in_use} of {most} slots are in use");
        thread::yield_now();
        self.0.fetch_sub(n, SeqCst);
        drop(permit);
    }
}

/// Asserts that there are no waiters, and that every slot has come back.
#[track_caller]
fn assert_idle(limit: &ConcurrencyLimit) {
    assert!(limit.queue().is_empty(), "somebody is left in active");
    let whole = (0, u64::from(limit.limit()));
    assert_eq!((limit.in_flight(), limit.available()), whole, "slots");
}

// Buckets.

/// The interval between tokens.
const INTERVAL_NS: u64 = 10;

fn quota(interval_ns: u64, burst: u64) -> Quota {
    Quota::new(1, Duration::from_nanos(interval_ns))
        .and_then(|quota| quota.try_burst(burst))
        .expect("a quota within range")
}

/// Returns a bucket that holds `tokens`, and gets another each 10 ns. It has room for more than it ever gets, so that all
/// that is given back comes back.
fn bucket(tokens: u64) -> (TokenBucket, ManualClock) {
    let time = ManualClock::new();
    let builder = TokenBucket::builder(quota(INTERVAL_NS, 1_000_000_000))
        .clock(&time)
        .initial_tokens(tokens);
    (builder.build().expect("within range"), time)
}

/// What a bucket granted, and when.
#[derive(Default)]
struct Ledger {
    moments: Moments,
    turns: Mutex<Vec<(Visit, Grant)>>,
}

impl Ledger {
    /// Waits for a grant, and enters it.
    fn wait(&self, wait: Acquire<impl Acquirable<Granted = Grant>>) -> Result<Grant, Denied> {
        let (visit, answer) = self.moments.visit(wait);
        if let Ok(grant) = answer {
            self.enter(visit, grant);
        }
        answer
    }

    /// [`wait`](Self::wait) for a grant of a window. A caller that did not wait has the timestamp of its own reading of the clock
    /// ([`Grant::at`]). If the window already had a later grant, it counted this one with it, no later than now.
    fn wait_for_window(
        &self,
        wait: Acquire<impl Acquirable<Granted = Grant>>,
        time: &ManualClock,
    ) -> Result<Grant, Denied> {
        let (visit, answer) = self.moments.visit(wait);
        if let Ok(grant) = answer {
            let counted_by = match visit.stood {
                Some(_) => grant.at(),
                None => time.now(),
            };
            let at_ns = counted_by.as_nanos();
            self.enter(visit, Grant { at_ns, ..grant });
        }
        answer
    }

    fn enter(&self, visit: Visit, grant: Grant) {
        self.turns().push((visit, grant));
    }

    /// [`leave_early`], unless it is granted immediately.
    fn pass_by(&self, wait: Acquire<impl Acquirable<Granted = Grant>>) {
        if let Some(answer) = leave_early(wait) {
            self.enter_now(answer.expect("nothing is refused"));
        }
    }

    /// Enters the grant of a caller that may have come at any time.
    fn enter_now(&self, grant: Grant) {
        let visit = Visit {
            came: 0,
            stood: None,
            told: self.moments.next(),
        };
        self.enter(visit, grant);
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, Vec<(Visit, Grant)>> {
        self.turns.lock().expect("nobody panics meanwhile")
    }

    fn units(&self) -> u64 {
        self.turns().iter().map(|(_, grant)| grant.units()).sum()
    }

    /// Asserts FIFO fairness (C6): the waiter that was in the queue first has the earlier timestamp.
    #[track_caller]
    fn assert_in_order(&self) {
        let turns = self.turns();
        for (first, early) in turns.iter() {
            for (next, late) in turns.iter() {
                assert!(
                    !first.is_ahead_of(next) || early.at() <= late.at(),
                    "{next:?} overtook {first:?}: {late:?} before {early:?}"
                );
            }
        }
    }

    /// Asserts that a bucket that began with `tokens` never over-admits (C1): by each timestamp, no more than had come by
    /// then.
    #[track_caller]
    fn assert_promise(&self, tokens: u64, interval_ns: u64) {
        let mut grants: Vec<Grant> = self.turns().iter().map(|&(_, grant)| grant).collect();
        grants.sort_by_key(Grant::at);
        let mut granted = 0;
        for grant in &grants {
            granted += grant.units();
            let come = tokens + grant.at().as_nanos() / interval_ns;
            assert!(granted <= come, "{granted} of {come}: {grants:?}");
        }
    }

    /// Asserts the bound, the order, and that every token is there. `bucket` holds the tokens with which it began and those
    /// that have come since, except those of the grants here.
    #[track_caller]
    fn reckon(&self, bucket: &TokenBucket, tokens: u64) {
        self.assert_promise(tokens, INTERVAL_NS);
        self.assert_in_order();
        assert!(bucket.queue().is_empty(), "somebody is left in active");
        let come = tokens + bucket.clock().now().as_nanos() / INTERVAL_NS;
        assert_eq!(bucket.available() + self.units(), come, "tokens");
    }
}
