//! Leasers over the store's function, in virtual time.

use super::*;
use crate::CutOff;
use crate::bucket::Bucket;
use crate::overshoot::Overshoot;
use crate::terms::Terms;
use fastrand::Rng;
use flowgate::{Clock, ManualClock, Quota};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

const STEP: Duration = Duration::from_micros(20);

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One process: its limiter, its leaser, and its call that is in flight.
struct Node {
    leased: Arc<Leased>,
    leaser: Leaser,
    woken: Arc<Flag>,
    wake_at: Option<Timestamp>,
    /// When it was sent, and what the store or the network has made of it, at what time.
    in_flight: Option<(Timestamp, Timestamp, Result<Reply, Failure>)>,
    /// Units that have arrived, and the part of the next one.
    arrived: f64,
    offered: u64,
    admitted: u64,
    leased_units: u64,
}

/// A store, and the nodes that share a limit in it.
struct Fleet {
    time: ManualClock,
    random: Rng,
    stored: Option<Bucket>,
    is_up: bool,
    latency: Duration,
    nodes: Vec<Node>,
    calls: u64,
}

impl Fleet {
    fn new(
        nodes: u32,
        quota: &str,
        overshoot: Overshoot,
        timeout_ms: u64,
        cut_off: CutOff,
    ) -> Self {
        let time = ManualClock::new();
        time.advance(Duration::from_secs(1_000));
        let quota: Quota = quota.parse().expect("a quota");
        let terms = Terms::of(quota).expect("it is exact");
        let timeout = Duration::from_millis(timeout_ms);
        let lending = Lending::of(overshoot, terms, quota.scale(), Some(nodes), timeout)
            .expect("it can be kept");
        let clock = Clock::from(&time);
        let node = |seed: u32| {
            let leased = Leased::builder(lending.most).clock(&time).build();
            let leased = Arc::new(leased.expect("a limiter"));
            let record = Record::of("api", b"");
            let alone = Alone::new(cut_off, quota, &clock, 1).expect("a share");
            let weak = Arc::downgrade(&leased);
            Node {
                leased,
                leaser: Leaser::new(weak, record, lending, alone, seed.into()),
                woken: Arc::default(),
                wake_at: Some(Timestamp::ORIGIN),
                in_flight: None,
                arrived: 0.0,
                offered: 0,
                admitted: 0,
                leased_units: 0,
            }
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            time,
            random: Rng::with_seed(1),
            stored: None,
            is_up: true,
            latency: Duration::from_micros(100),
            calls: 0,
        }
    }

    /// Lets all leasers act at this moment.
    fn act(&mut self) {
        let now = self.time.now();
        for node in &mut self.nodes {
            if let Some((sent, arrives, _)) = node.in_flight
                && arrives <= now
            {
                let (_, _, outcome) = node.in_flight.take().expect("it is");
                let before = node.leased.filler().held().units;
                node.leaser.answer(sent, now, outcome);
                node.leased_units += node.leased.filler().held().units.saturating_sub(before);
                node.wake_at = Some(now);
            }
            let is_time = node.wake_at.is_some_and(|wake_at| wake_at <= now);
            if !is_time && !node.woken.0.swap(false, Ordering::Relaxed) {
                continue;
            }
            if let Some(call) = node.leaser.call(now) {
                self.calls += 1;
                let one_way = self.latency.mul_f64(0.5 + self.random.f64());
                let outcome = if self.is_up {
                    // The store decides now: a message more or less is within the jitter of the way back.
                    let now_us = now.as_nanos() / 1_000;
                    let (reply, bucket) = Bucket::take(self.stored, now_us, &call);
                    self.stored = bucket.or(self.stored);
                    Ok(reply)
                } else {
                    Err(Failure::Unreachable)
                };
                node.in_flight = Some((now, now + 2 * one_way, outcome));
            }
            node.wake_at = node.leaser.wake_at();
            if let Some(low) = node.leaser.low() {
                let waker = Waker::from(Arc::clone(&node.woken));
                node.leased.filler().wake_below(low, &waker);
            }
        }
    }

    /// Runs for `time`, while node i is offered `per_second(i, now)` units.
    fn run(&mut self, time: Duration, is_random: bool, per_second: impl Fn(usize, f64) -> f64) {
        let begin = self.time.now();
        let end = begin + time;
        while self.time.now() < end {
            let passed = self
                .time
                .now()
                .saturating_duration_since(begin)
                .as_secs_f64();
            for i in 0..self.nodes.len() {
                let mean = per_second(i, passed) * STEP.as_secs_f64();
                let arrivals = if is_random {
                    poisson(&mut self.random, mean)
                } else {
                    let node = &mut self.nodes[i];
                    node.arrived += mean;
                    let arrivals = node.arrived.floor();
                    node.arrived -= arrivals;
                    arrivals as u64
                };
                let node = &mut self.nodes[i];
                node.offered += arrivals;
                let admitted = (0..arrivals)
                    .filter(|_| node.leased.try_acquire().is_ok())
                    .count();
                node.admitted += admitted as u64;
                if node.woken.0.load(Ordering::Relaxed) {
                    self.act();
                }
            }
            self.time.advance(STEP);
            self.act();
        }
    }

    fn sum(&self, of: impl Fn(&Node) -> u64) -> f64 {
        self.nodes.iter().map(of).sum::<u64>() as f64
    }

    /// The units that ended unspent, of all that were leased.
    fn stranded(&self) -> f64 {
        let leased = self.sum(|node| node.leased_units);
        let held = self.sum(|node| node.leased.filler().held().units);
        (leased - held - self.sum(|node| node.admitted)) / leased
    }

    fn admitted(&self) -> f64 {
        self.sum(|node| node.admitted)
    }
}

fn poisson(random: &mut Rng, mean: f64) -> u64 {
    let (mut count, mut left) = (0, (-mean).exp());
    loop {
        left /= random.f64().max(1e-300);
        if left >= 1.0 {
            return count;
        }
        count += 1;
    }
}

const RATE: f64 = 100_000.0;
const QUOTA: &str = "100000/s burst 10000";
const SECOND: Duration = Duration::from_secs(1);

/// Half of the burst is held by `nodes`, and an answer may take `timeout_ms`: 12 let the length of leases bound the overshoot, and 50
/// the number of tokens that each node holds.
fn half(nodes: u32, timeout_ms: u64) -> Fleet {
    let cut_off = CutOff::Share(1, nodes);
    Fleet::new(nodes, QUOTA, Overshoot::percent(50), timeout_ms, cut_off)
}

#[test]
fn what_is_offered_is_admitted_while_the_limit_has_room_and_little_is_lost() {
    for timeout_ms in [12, 50] {
        for (load, least) in [(0.05, 0.99), (0.5, 0.995), (0.9, 0.995), (1.0, 0.99)] {
            for is_random in [false, true] {
                let mut fleet = half(4, timeout_ms);
                let of_node = load * RATE / 4.0;
                fleet.run(SECOND, is_random, |_, _| of_node);
                let part = fleet.admitted() / fleet.sum(|node| node.offered);
                assert!(part >= least, "{part} of a load of {load}");
                assert!(fleet.stranded() <= 0.05, "{} of {load}", fleet.stranded());
                if load == 1.0 {
                    let per_call = fleet.admitted() / fleet.calls as f64;
                    assert!(per_call >= 375.0, "{per_call}");
                }
            }
        }
    }
}

#[test]
fn an_overload_uses_the_limit_up_with_few_calls_and_each_node_gets_as_much() {
    for (load, timeout_ms) in [(2.0, 12), (10.0, 12), (2.0, 50), (10.0, 50)] {
        let mut fleet = half(4, timeout_ms);
        let of_node = load * RATE / 4.0;
        fleet.run(4 * SECOND, true, |_, _| of_node);
        let used = fleet.admitted() / (4.0 * RATE);
        assert!(used >= 0.99, "{used}");
        let per_call = fleet.admitted() / fleet.calls as f64;
        assert!(per_call >= 150.0, "{per_call}");
        let each = fleet.nodes.iter().map(|node| node.admitted as f64);
        let [most, least] = [
            each.clone().fold(0.0, f64::max),
            each.fold(f64::MAX, f64::min),
        ];
        assert!(most / least <= 1.25, "{most} and {least}");
    }
}

#[test]
fn demand_that_moves_between_nodes_gets_the_limit_everywhere() {
    for timeout_ms in [12, 50] {
        let mut fleet = half(4, timeout_ms);
        fleet.run(4 * SECOND, true, |i, passed| {
            if i == passed as usize {
                2.0 * RATE
            } else {
                0.0
            }
        });
        let used = fleet.admitted() / (4.0 * RATE);
        assert!(used >= 0.95, "{used}");
    }
}

/// Lets each node collect what it can, and spend it with all that the store has when the leases are about to end. Returns by how
/// much that exceeds the limit.
fn hoard_and_dump(fleet: &mut Fleet) -> f64 {
    let Lending { usual, length, .. } = fleet.nodes[0].leaser.lending;
    for _ in 0..100 {
        for node in &fleet.nodes {
            if node.leased.available() < usual {
                let _ = node.leased.try_acquire_n(usual);
                node.leased.refund(usual);
            }
        }
        fleet.time.advance(STEP);
        fleet.act();
    }
    fleet.time.advance(length.mul_f64(0.8).min(SECOND / 2));
    let mut most = f64::MIN;
    for turn in 1..=100 {
        fleet.run(SECOND / 1_000, false, |_, _| 1_000_000.0);
        let allowed = 10_000.0 + RATE * f64::from(turn) / 1_000.0;
        most = most.max(fleet.admitted() - allowed);
    }
    most
}

#[test]
fn c1_nodes_that_hoard_exceed_the_limit_by_the_overshoot_and_no_more() {
    for timeout_ms in [12, 50] {
        for (overshoot, most) in [(Overshoot::percent(50), 5_000.0), (Overshoot::none(), 0.0)] {
            let mut fleet = Fleet::new(4, QUOTA, overshoot, timeout_ms, CutOff::Deny);
            let excess = hoard_and_dump(&mut fleet);
            assert!(excess <= most, "{excess} of {most}");
            let hoarded = excess + 5_000.0 - most;
            assert!(hoarded >= 0.6 * 5_000.0, "{hoarded}: no node hoards");
        }
    }
}

#[test]
fn c1_a_node_that_is_stopped_spends_nothing_after_the_end_and_asks_again() {
    let mut fleet = half(1, 50);
    fleet.run(SECOND / 5, false, |_, _| 10_000.0);
    assert!(fleet.nodes[0].leased.available() > 0);
    let lasts = fleet.nodes[0].leaser.lending.spent_for;
    fleet.time.advance(lasts);
    assert_eq!(fleet.nodes[0].leased.available(), 0);
    assert!(fleet.nodes[0].leased.try_acquire().is_err());
    // A reply that was delayed in the process itself is dated by when its call was sent.
    let node = &mut fleet.nodes[0];
    let now = fleet.time.now();
    node.leaser.asked = Some(7);
    let reply = Reply {
        taken: vec![7],
        ..Reply::default()
    };
    let sent = Timestamp::from_nanos(now.as_nanos() - nanos(lasts));
    node.leaser.answer(sent, now, Ok(reply));
    assert_eq!(node.leased.available(), 0);
    fleet.run(SECOND / 5, false, |_, _| 10_000.0);
    assert!(fleet.nodes[0].leased.available() > 0);
}

#[test]
fn a_request_for_as_much_as_a_node_may_hold_is_served_beside_small_ones_and_a_larger_one_never() {
    for timeout_ms in [12, 50] {
        let mut fleet = half(4, timeout_ms);
        let most = fleet.nodes[0].leaser.lending.most;
        let large = most.min(5_000);
        fleet.run(SECOND / 5, true, |_, _| 20_000.0);
        let leased = Arc::clone(&fleet.nodes[0].leased);
        assert!(leased.try_acquire_n(most + 1).unwrap_err().is_never());
        let mut waits = Box::pin(leased.acquire().n(large));
        let mut context = std::task::Context::from_waker(Waker::noop());
        let mut is_served = false;
        for _ in 0..200 {
            is_served |= waits.as_mut().poll(&mut context).is_ready();
            if is_served {
                break;
            }
            fleet.run(
                SECOND / 100,
                true,
                |i, _| if i == 0 { 0.0 } else { 20_000.0 },
            );
        }
        assert!(is_served);
    }
}

#[test]
fn c1_a_node_that_is_cut_off_spends_what_it_holds_then_its_share_and_flapping_gains_nothing() {
    let mut fleet = half(4, 50);
    fleet.run(SECOND, true, |_, _| 50_000.0);
    let begun = fleet.admitted();
    for turn in 0..20 {
        fleet.is_up = turn % 2 == 1;
        fleet.run(SECOND / 20, true, |_, _| 50_000.0);
    }
    let spent = fleet.admitted() - begun;
    // The store's bucket was empty. The shares together have the limit once more.
    let most = 10_000.0 + RATE + 5_000.0 + 10_000.0 + RATE;
    assert!(spent <= most, "{spent} of {most}");
    assert!(spent >= 0.9 * RATE, "{spent}: it is there each other time");
    fleet.is_up = true;
    fleet.run(SECOND / 5, true, |_, _| 50_000.0);
    assert!(
        fleet
            .nodes
            .iter()
            .all(|node| node.leaser.alone_since.is_none())
    );

    for (cut_off, most) in [(CutOff::Share(1, 4), 10_000.0 + RATE), (CutOff::Deny, 0.0)] {
        let mut fleet = Fleet::new(4, QUOTA, Overshoot::percent(50), 50, cut_off);
        fleet.is_up = false;
        fleet.run(SECOND, true, |_, _| 50_000.0);
        let spent = fleet.admitted();
        assert!((0.95 * most..=most).contains(&spent), "{spent} of {most}");
        assert!(
            fleet.nodes[0]
                .leased
                .try_acquire_n(1_000)
                .unwrap_err()
                .is_outage()
        );
    }
    let mut open = Fleet::new(4, QUOTA, Overshoot::percent(50), 50, CutOff::Admit);
    open.is_up = false;
    open.run(SECOND / 5, true, |_, _| 500_000.0);
    assert!(open.admitted() > 0.95 * open.sum(|node| node.offered));
}

#[test]
fn a_call_that_is_lost_is_not_repeated_and_one_that_is_refused_stays_away_for_a_second() {
    let mut fleet = half(1, 50);
    fleet.run(SECOND / 10, false, |_, _| 1_000.0);
    let node = &mut fleet.nodes[0];
    let begin = fleet.time.now();
    for (failure, pause) in [
        (Failure::Lost, LOST),
        (Failure::Refused("OOM".to_owned()), REFUSED),
    ] {
        fleet.time.advance(SECOND);
        let _ = node.leased.take_up_to(u64::MAX);
        assert!(node.leased.try_acquire().is_err());
        let now = fleet.time.now();
        assert!(now > begin && node.leaser.call(now).is_some());
        assert!(node.leaser.call(now).is_none(), "one is in flight");
        assert_eq!((node.leaser.wake_at(), node.leaser.low()), (None, None));
        node.leaser.answer(now, now, Err(failure));
        fleet.time.advance(pause - Duration::from_nanos(1));
        assert!(node.leaser.call(fleet.time.now()).is_none());
        fleet.time.advance(Duration::from_nanos(1));
        assert!(node.leaser.call(fleet.time.now()).is_some());
        node.leaser
            .answer(now, fleet.time.now(), Err(Failure::Lost));
    }
}

#[test]
fn an_idle_node_asks_for_nothing() {
    let mut fleet = half(4, 50);
    fleet.run(SECOND, true, |_, _| 10_000.0);
    fleet.run(5 * SECOND, true, |_, _| 0.0);
    let calls = fleet.calls;
    fleet.run(SECOND, true, |_, _| 0.0);
    assert_eq!(fleet.calls, calls);
}
