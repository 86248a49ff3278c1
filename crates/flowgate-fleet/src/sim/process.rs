//! A process of the fleet: the real limit, a clock that drifts, and a model of the connection.
//!
//! The connection is modelled, because the real one is asynchronous throughout. The model has the same states, times and decisions as
//! `link.rs` and the loop in `fleet.rs`. One missing reply gives the connection up. A reply over a replaced one is not used. A new connection
//! first gets a PING.

use super::lease::Lease;
use super::plan::{MS, NodePlan, Plan, stream};
use crate::busy::Leasing;
use crate::call::{Call, Reply, Seen};
use crate::cut_off::Alone;
use crate::delivery::Receiver;
use crate::link::LinkState;
use crate::record::Record;
use crate::strict::{Asker, Strict};
use crate::terms::Terms;
use fastrand::Rng;
use flowgate::{Clock, ManualClock, Quota, Timestamp};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) plan: NodePlan,
    /// Which process it is of those that have had this place.
    pub(super) life: u32,
    pub(super) quota: Quota,
    pub(super) is_gone: bool,
    pub(super) asleep_until_ns: u64,
    /// Messages to the store, and from it, are lost until then.
    pub(super) cut_until_ns: [u64; 2],
    pub(super) random: Rng,
    time: ManualClock,
    pub(super) strict: Strict,
    /// In its place, if the limit is leased.
    pub(super) lease: Option<Lease>,
    /// When the leaser looks again.
    pub(super) looks_at_ns: u64,
    pub(super) callers: Vec<Caller>,
    /// Keys for which a call is wanted, until the thread takes them.
    pub(super) announced: Vec<u64>,
    pub(super) link: Link,
    pub(super) in_flight: BTreeMap<u64, Batch>,
    /// What the store has stated of each key, by which terms, and when that was, by this clock.
    pub(super) stated: BTreeMap<u64, (Seen, Terms, u64)>,
}

/// An attempt to connect takes as long as this many calls at most.
pub(super) const ATTEMPT: u64 = 3;
/// The pauses between two attempts to connect.
pub(super) const PAUSES_NS: [u64; 2] = [10 * MS, 100 * MS];

#[derive(Debug)]
pub(super) struct Link {
    pub(super) state: LinkState,
    /// Which connection it is.
    pub(super) number: u64,
    /// The store that it leads to.
    pub(super) store: usize,
    pub(super) attempt: u64,
    pub(super) pause_ns: u64,
    /// The store has closed it.
    pub(super) is_closed: bool,
}

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) key: u64,
    pub(super) n: u64,
    pub(super) answer: Receiver,
}

/// Calls that were sent in one write.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) link_number: u64,
    pub(super) asking: Vec<(u64, Asking)>,
    pub(super) calls: Vec<Call>,
}

/// For whom a call is.
#[derive(Debug)]
pub(super) enum Asking {
    /// With the terms of their call.
    Callers(Vec<Asker>, Terms),
    /// When it was sent, by the clock of the process.
    Lease(Timestamp),
    /// A second one, which must not be.
    SecondLease(Timestamp),
}

pub(super) fn record(key: u64) -> Record {
    Record::of("limit", &key.to_le_bytes())
}

impl Process {
    pub(super) fn new(plan: &Plan, node: usize, life: u32) -> Self {
        let time = ManualClock::new();
        let node_plan = plan.nodes[node].clone();
        let quota = plan.quota_of(node, life);
        Self {
            strict: strict(plan, &node_plan, quota, &time),
            lease: Lease::new(
                plan,
                &node_plan,
                &time,
                1_000 * node as u64 + u64::from(life),
            ),
            looks_at_ns: u64::MAX,
            plan: node_plan,
            life,
            quota,
            is_gone: false,
            asleep_until_ns: 0,
            cut_until_ns: [0; 2],
            random: stream(plan.seed, 1_000 + 1_000 * node as u64 + u64::from(life)),
            time,
            callers: Vec::new(),
            announced: Vec::new(),
            link: Link {
                state: LinkState::Connecting,
                number: 0,
                store: 0,
                attempt: 0,
                pause_ns: 0,
                is_closed: false,
            },
            in_flight: BTreeMap::new(),
            stated: BTreeMap::new(),
        }
    }

    /// Forgets the limit and its share.
    pub(super) fn renew(&mut self, plan: &Plan) {
        self.strict = strict(plan, &self.plan, self.quota, &self.time);
    }

    /// Sets the clock to the true time.
    pub(super) fn wind(&self, now_ns: u64) {
        self.time.set(Timestamp::from_nanos(self.local_ns(now_ns)));
    }

    pub(super) fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// What its clock shows at a true time.
    pub(super) fn local_ns(&self, true_ns: u64) -> u64 {
        let (million, slow) = (1_000_000_i128, i128::from(self.plan.slow_ppm));
        let passed = i128::from(true_ns) * million / (million + slow);
        u64::try_from(passed).expect("a clock goes forward")
    }

    /// The true time at which its clock shows that `for_ns` have passed.
    pub(super) fn after(&self, now_ns: u64, for_ns: u64) -> u64 {
        let (million, slow) = (1_000_000_i128, i128::from(self.plan.slow_ppm));
        let then = i128::from(self.local_ns(now_ns) + for_ns) * (million + slow);
        u64::try_from(then.unsigned_abs().div_ceil(1_000_000)).expect("a short run")
    }

    /// Returns whether a refusal of `n` units follows from what the store has stated.
    pub(super) fn is_founded(&self, key: u64, n: u64, now_ns: u64) -> bool {
        self.stated.get(&key).is_some_and(|(seen, terms, at_ns)| {
            at_ns + 1_000 * seen.wait_us(terms, n) > self.local_ns(now_ns)
        })
    }

    pub(super) fn note(&mut self, key: u64, terms: Terms, reply: &Reply, now_ns: u64) {
        let at_ns = self.local_ns(now_ns);
        self.stated.insert(key, (reply.seen, terms, at_ns));
    }
}

fn terms(plan: &Plan, quota: Quota) -> Terms {
    Terms::of_kind(quota, plan.kind).expect("the store can count it")
}

fn strict(plan: &Plan, node: &NodePlan, quota: Quota, time: &ManualClock) -> Strict {
    let clock = Clock::from(time);
    let alone = Alone::of_kind(plan.kind, node.cut_off, quota, &clock, plan.capacity);
    let alone = alone.expect("a share");
    let strict = Strict::new(quota, terms(plan, quota), clock, alone, plan.capacity);
    match (plan.lender(), plan.busy) {
        (Some(lender), Some(busy)) => {
            let leases = strict.leasing(Leasing {
                lender,
                busy,
                seed: plan.seed,
            });
            leases.expect("an overshoot that can be kept")
        }
        _ => strict,
    }
}
