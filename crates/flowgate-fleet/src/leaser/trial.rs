//! A fleet in virtual time: leasers over the store's function, a link that takes time, and timers that are late.

use super::*;
use crate::CutOff;
use crate::bucket::Bucket;
use crate::overshoot::Overshoot;
use crate::terms::Terms;
use fastrand::Rng;
use flowgate::{Clock, ManualClock, Quota};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// Requests of this time come together.
pub(super) const STEP: Duration = Duration::from_micros(20);
/// Timers of a runtime go off at whole multiples of this time.
const TIMER: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One process: its limiter, its leaser, and its call that is in flight.
pub(super) struct Node {
    pub(super) leased: Arc<Leased>,
    pub(super) leaser: Leaser,
    woken: Arc<Flag>,
    wake_at: Option<Timestamp>,
    message: Option<Message>,
    /// Units that have arrived, and the part of the next one.
    arrived: f64,
    /// Requests that wait for an answer of the store.
    asking: u64,
    pub(super) offered: u64,
    pub(super) admitted: u64,
    /// Requests that were admitted after they had waited.
    pub(super) waited: u64,
    pub(super) leased_units: u64,
}

/// A call that was sent, and then what has become of it.
enum Message {
    Call {
        sent: Timestamp,
        arrives: Timestamp,
        call: Call,
    },
    Outcome {
        sent: Timestamp,
        arrives: Timestamp,
        outcome: Result<Reply, Failure>,
    },
}

/// A store, and the nodes that share a limit in it.
pub(super) struct Fleet {
    pub(super) time: ManualClock,
    random: Rng,
    stored: Option<Bucket>,
    pub(super) is_up: bool,
    latency: Duration,
    pub(super) nodes: Vec<Node>,
    pub(super) calls: u64,
}

/// The settings of a fleet, beside its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) nodes: u32,
    /// Whether they were told how many they are.
    pub(super) is_told: bool,
    pub(super) overshoot: Overshoot,
    pub(super) timeout_ms: u64,
    pub(super) cut_off: CutOff,
    /// One way of a message takes half of this, more or less.
    pub(super) latency: Duration,
    pub(super) seed: u64,
}

impl Fleet {
    pub(super) fn new(quota: &str, setting: Setting) -> Self {
        let time = ManualClock::new();
        time.advance(Duration::from_secs(1_000));
        let quota: Quota = quota.parse().expect("a quota");
        let terms = Terms::of(quota).expect("it is exact");
        let timeout = Duration::from_millis(setting.timeout_ms);
        let told = setting.is_told.then_some(setting.nodes);
        let lending = Lending::of(setting.overshoot, terms, quota.scale(), told, timeout)
            .expect("it can be kept");
        let clock = Clock::from(&time);
        let node = |node: u32| {
            let leased = Leased::builder(lending.most).clock(&time).build();
            let leased = Arc::new(leased.expect("a limiter"));
            let record = Record::of("api", b"");
            let alone = Alone::new(setting.cut_off, quota, &clock, 1).expect("a share");
            let weak = Arc::downgrade(&leased);
            let seed = setting.seed * 1_000 + u64::from(node);
            Node {
                leased,
                leaser: Leaser::new(weak, record, lending, alone, seed),
                woken: Arc::default(),
                wake_at: Some(Timestamp::ORIGIN),
                message: None,
                arrived: 0.0,
                asking: 0,
                offered: 0,
                admitted: 0,
                waited: 0,
                leased_units: 0,
            }
        };
        Self {
            nodes: (0..setting.nodes).map(node).collect(),
            time,
            random: Rng::with_seed(setting.seed),
            stored: None,
            is_up: true,
            latency: setting.latency,
            calls: 0,
        }
    }

    /// Carries out the calls that have arrived, in the order of their arrival.
    fn store(&mut self, now: Timestamp) {
        let mut arrived: Vec<_> = (0..self.nodes.len())
            .filter_map(|i| match self.nodes[i].message {
                Some(Message::Call { arrives, .. }) if arrives <= now => Some((arrives, i)),
                _ => None,
            })
            .collect();
        arrived.sort_unstable();
        for (arrives, i) in arrived {
            let Some(Message::Call { sent, call, .. }) = self.nodes[i].message.take() else {
                continue;
            };
            let outcome = if self.is_up {
                let (reply, bucket) = Bucket::take(self.stored, arrives.as_nanos() / 1_000, &call);
                self.stored = bucket.or(self.stored);
                Ok(reply)
            } else {
                Err(Failure::Unreachable)
            };
            let arrives = arrives + self.one_way();
            self.nodes[i].message = Some(Message::Outcome {
                sent,
                arrives,
                outcome,
            });
        }
    }

    fn one_way(&mut self) -> Duration {
        self.latency.mul_f64(0.25 + self.random.f64() / 2.0)
    }

    /// Lets the store and all leasers act at this moment.
    pub(super) fn act(&mut self) {
        let now = self.time.now();
        self.store(now);
        for i in 0..self.nodes.len() {
            let one_way = self.one_way();
            let timer = self.random.u64(..=nanos(TIMER));
            let node = &mut self.nodes[i];
            if node.take_outcome(now) {
                node.wake_at = Some(now);
            }
            let is_time = node.wake_at.is_some_and(|wake_at| wake_at <= now);
            if !is_time && !node.woken.0.swap(false, Ordering::Relaxed) {
                continue;
            }
            let held = node.held();
            node.serve(now, held);
            if let Some(call) = node.leaser.call(now) {
                self.calls += 1;
                let (sent, arrives) = (now, now + one_way);
                node.message = Some(Message::Call {
                    sent,
                    arrives,
                    call,
                });
            }
            node.leased_units += node.held().saturating_sub(held);
            if node.message.is_none() {
                node.serve(now, node.asking);
            }
            node.wake_at = node
                .leaser
                .wake_at()
                .map(|at| at + Duration::from_nanos(timer));
            if let Some(low) = node.leaser.low() {
                let waker = Waker::from(Arc::clone(&node.woken));
                node.leased.filler().wake_below(low, &waker);
            }
        }
    }

    /// Runs for `time`, while node i is offered `per_second(i, now)` units.
    pub(super) fn run(
        &mut self,
        time: Duration,
        is_random: bool,
        per_second: impl Fn(usize, f64) -> f64,
    ) {
        let begin = self.time.now();
        let end = begin + time;
        while self.time.now() < end {
            let now = self.time.now();
            let passed = now.saturating_duration_since(begin).as_secs_f64();
            for i in 0..self.nodes.len() {
                let mean = per_second(i, passed) * STEP.as_secs_f64();
                let node = &mut self.nodes[i];
                let arrivals = if is_random {
                    poisson(&mut self.random, mean)
                } else {
                    node.arrived += mean;
                    let arrivals = node.arrived.floor();
                    node.arrived -= arrivals;
                    arrivals as u64
                };
                for _ in 0..arrivals {
                    node.ask(now);
                }
            }
            self.time.advance(STEP);
            self.act();
        }
    }

    pub(super) fn sum(&self, of: impl Fn(&Node) -> u64) -> f64 {
        self.nodes.iter().map(of).sum::<u64>() as f64
    }

    pub(super) fn admitted(&self) -> f64 {
        self.sum(|node| node.admitted)
    }

    /// The units that ended unspent, of all that were leased.
    pub(super) fn stranded(&self) -> f64 {
        let leased = self.sum(|node| node.leased_units);
        let held = self.sum(Node::held);
        (leased - held - self.admitted()) / leased.max(1.0)
    }
}

impl Node {
    pub(super) fn held(&self) -> u64 {
        self.leased.filler().held().units
    }

    /// Passes on an answer that has arrived. Returns whether there was one.
    fn take_outcome(&mut self, now: Timestamp) -> bool {
        let arrived = self.message.take_if(
            |message| matches!(message, Message::Outcome { arrives, .. } if *arrives <= now),
        );
        let Some(Message::Outcome { sent, outcome, .. }) = arrived else {
            return false;
        };
        let held = self.held();
        self.leaser.answer(sent, now, outcome);
        self.leased_units += self.held().saturating_sub(held);
        self.serve(now, self.asking);
        true
    }

    /// A caller asks, as in [`FleetLeased::ask`](crate::FleetLeased::ask).
    fn ask(&mut self, now: Timestamp) {
        self.offered += 1;
        match self.leased.try_acquire() {
            Ok(()) => self.admitted += 1,
            Err(denied) if denied.is_outage() || self.leaser.is_dry(now) => {}
            Err(_) => self.asking += 1,
        }
    }

    /// Answers those that wait, after `most` attempts at most.
    fn serve(&mut self, now: Timestamp, most: u64) {
        let tried = self.asking.min(most);
        let served = (0..tried).filter(|_| self.leased.try_acquire().is_ok());
        let served = served.count() as u64;
        self.asking -= served;
        self.admitted += served;
        self.waited += served;
        if tried == self.asking + served
            && (self.leaser.is_dry(now) || self.leaser.alone_since().is_some())
        {
            self.asking = 0;
        }
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
