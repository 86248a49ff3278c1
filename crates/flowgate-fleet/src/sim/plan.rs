//! What happens in a run: all of it is drawn from one seed, or written down by a test.

use crate::overshoot::{Lender, Lending, Overshoot};
use crate::terms::{Kind, Terms};
use crate::{CutOff, FleetError};
use fastrand::Rng;
use flowgate::Quota;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;
/// By how much the clocks of nodes may differ from the store's, in millionths.
pub(super) const RHO_PPM: u64 = 1_000;

/// Everything that a run depends on. Times are the store's true time in nanoseconds, which no fault changes.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// The largest rate and burst of all nodes; of windows, the largest count and the shortest period.
    pub(super) quota: Quota,
    pub(super) kind: Kind,
    pub(super) nodes: Vec<NodePlan>,
    /// Keys of the limit. Each has a record, and a bound, of its own.
    pub(super) keys: u64,
    /// How many keys a node remembers.
    pub(super) capacity: usize,
    pub(super) timeout_ns: u64,
    /// `None`: a strict limit.
    pub(super) lease: Option<Overshoot>,
    /// Only a key that is asked for this many times within a second leases. `None`: the limit is leased as a whole.
    pub(super) busy: Option<u32>,
    pub(super) network: Network,
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) end_ns: u64,
    pub(super) flaw: Option<Flaw>,
}

/// A process of the fleet.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    /// Its clock goes slower by this, in millionths; faster, if it is negative.
    pub(super) slow_ppm: i64,
    pub(super) begins_ns: u64,
    pub(super) ends_ns: u64,
    pub(super) cut_off: CutOff,
    /// What it states before it is replaced, and afterwards; else the plan's.
    pub(super) quotas: Option<[Quota; 2]>,
    pub(super) demand: Demand,
}

/// When callers come, and for how much.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Callers that come together.
    pub(super) callers: RangeInclusive<u64>,
    /// The time until the next ones.
    pub(super) every_ns: RangeInclusive<u64>,
    pub(super) units: RangeInclusive<u64>,
    /// How many in 1,000 give up while they wait.
    pub(super) give_up: u64,
    /// Others that come together: when, how many, and each for how many units.
    pub(super) crowds: Vec<(u64, [u64; 2])>,
    /// Callers of a leased limit that wait, and give up when they have been asked for: when, and for how many units.
    pub(super) hoards: Vec<(u64, u64)>,
}

/// What becomes of messages. Each is drawn for itself, so they overtake each other.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) delay_ns: RangeInclusive<u64>,
    /// How many in 1,000 take much longer, up to this.
    pub(super) slow: u64,
    pub(super) slow_ns: u64,
    /// How many in 1,000 are lost, and how many arrive twice.
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Replies are kept until a multiple of this time, and then arrive together.
    pub(super) gathers_ns: Option<u64>,
    /// No reply is kept after this time.
    pub(super) gathers_until_ns: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The store goes on with the records of this long ago, or with none.
    Amnesia { age_ns: Option<u64> },
    /// The store answers nothing for this time, and carries out everything afterwards.
    Hang { for_ns: u64 },
    /// A replica, which has the records of `lag_ns` ago, becomes primary. The old primary answers for this time.
    Promote { lag_ns: u64, both_ns: u64 },
    /// The store's clock is set ahead, or back.
    Leap { us: i64 },
    /// A process is stopped.
    Sleep { node: usize, for_ns: u64 },
    /// Messages of a node are lost: to the store, from it, or both.
    Cut {
        node: usize,
        for_ns: u64,
        ways: [bool; 2],
    },
    /// A process ends, and another one takes its place.
    Restart { node: usize },
    /// A process replaces its quota, and goes on.
    SetQuota { node: usize, quota: Quota },
    /// The store closes all connections.
    Reset,
    /// The store refuses all calls for this time, because its memory is full.
    Refuse { for_ns: u64 },
}

/// A mistake that a limiter of a fleet may have. Each removes a condition of the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A reply is used however late it comes.
    LateReply,
    /// A share is full each time that the store is lost.
    FreshShare,
    /// A call without a reply is sent again.
    Repeat,
    /// The store forgets a record after this many microseconds, whatever its debt.
    ShortTtl(u64),
    /// Nothing reminds a store that has forgotten.
    NoReminder,
    /// A caller is refused if there is no reply.
    OutageRefuses,
    /// The end of a lease is counted from the reply.
    FromReply,
    /// The rest of a lease gets the end of the next one.
    Merge,
    /// A process spends reserved units before they have flowed in.
    EarlyTurn,
    /// A process has two calls in flight.
    TwoCalls,
    /// Two keys share a record: `a_b` of `c`, and `a` of `b_c`.
    JoinedKeys,
}

/// A stream of random numbers for each thing that draws them.
pub(super) fn stream(seed: u64, thing: u64) -> Rng {
    let mut z = seed ^ thing.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Rng::with_seed(z ^ (z >> 31))
}

impl Network {
    pub(super) fn even(delay_ns: u64) -> Self {
        Self {
            delay_ns: delay_ns..=delay_ns,
            slow: 0,
            slow_ns: 0,
            lost: 0,
            doubled: 0,
            gathers_ns: None,
            gathers_until_ns: u64::MAX,
        }
    }
}

impl NodePlan {
    pub(super) fn new(cut_off: CutOff, demand: Demand) -> Self {
        Self {
            slow_ppm: 0,
            begins_ns: 0,
            ends_ns: u64::MAX,
            cut_off,
            quotas: None,
            demand,
        }
    }
}

impl Demand {
    /// Callers that come one at a time, each for one unit.
    pub(super) fn steady(every_ns: u64) -> Self {
        Self {
            callers: 1..=1,
            every_ns: around(every_ns),
            units: 1..=1,
            give_up: 0,
            crowds: Vec::new(),
            hoards: Vec::new(),
        }
    }
}

fn around(mean_ns: u64) -> RangeInclusive<u64> {
    mean_ns / 2 + 1..=3 * mean_ns / 2
}

/// Returns a quota that allows no more.
fn smaller(random: &mut Rng, kind: Kind, than: Quota) -> Quota {
    let count = random.u64(1..=than.count());
    let smaller = match kind {
        Kind::Bucket => {
            let burst = random.u64(1..=than.max_burst());
            Quota::new(count, than.period()).and_then(|smaller| smaller.try_burst(burst))
        }
        _ => Quota::new(count, than.period() * random.u32(1..=3)),
    };
    smaller.expect("a smaller quota")
}

/// Returns the terms of leases with this quota, if leases can keep the overshoot.
fn lending(lender: &Lender, quota: Quota) -> Option<Arc<Lending>> {
    let terms = Terms::of(quota).expect("the store can count it");
    lender.lending(quota, terms).ok()
}

/// The burst and the rate that bound a limit in every interval.
pub(super) fn bound(kind: Kind, quota: Quota) -> Quota {
    match kind {
        Kind::Bucket => quota,
        _ => quota.burst(2 * quota.count()),
    }
}

impl Plan {
    /// A run without faults.
    pub(super) fn calm(quota: &str, nodes: Vec<NodePlan>) -> Self {
        Self {
            seed: 1,
            quota: quota.parse().expect("a quota"),
            kind: Kind::Bucket,
            nodes,
            keys: 1,
            capacity: 1,
            timeout_ns: 50 * MS,
            lease: None,
            busy: None,
            network: Network::even(MS / 2),
            faults: Vec::new(),
            end_ns: 2 * SECOND,
            flaw: None,
        }
    }

    /// What a process states.
    pub(super) fn quota_of(&self, node: usize, life: u32) -> Quota {
        let quotas = self.nodes[node].quotas;
        quotas.map_or(
            self.quota,
            |[before, after]| if life == 0 { before } else { after },
        )
    }

    /// The most that a process ever states.
    pub(super) fn widest_of(&self, node: usize, life: u32) -> Quota {
        let is_set =
            |fault: &Fault| matches!(fault, Fault::SetQuota { node: of, .. } if *of == node);
        match self.faults.iter().any(|(_, fault)| is_set(fault)) {
            true => self.quota,
            false => self.quota_of(node, life),
        }
    }

    /// The same world, in which processes replace their quotas while they run.
    pub(super) fn changing(mut self) -> Self {
        let mut random = stream(self.seed, 4);
        for _ in 0..random.usize(1..=6) {
            let at_ns = random.u64(..self.end_ns);
            let node = random.usize(..self.nodes.len());
            let quota = match random.u8(..3) {
                0 => self.quota,
                _ => smaller(&mut random, self.kind, self.quota),
            };
            if self
                .lender()
                .is_some_and(|lender| lending(&lender, quota).is_none())
            {
                continue;
            }
            self.faults.push((at_ns, Fault::SetQuota { node, quota }));
        }
        self
    }

    /// The burst and the rate of the theorem.
    pub(super) fn bound(&self) -> Quota {
        bound(self.kind, self.quota)
    }

    /// The same world with windows.
    pub(super) fn windowed(mut self) -> Self {
        let mut random = stream(self.seed, 3);
        self.kind = [Kind::Window, Kind::AlignedWindow][random.usize(..2)];
        let count = self.quota.max_burst();
        let period_us = [7_000, 50_000, 200_003, 1_000_000, 3_600_000_000][random.usize(..5)];
        let window = Quota::new(count, Duration::from_micros(period_us));
        let window = window.expect("a window");
        self.quota = window;
        for node in &mut self.nodes {
            node.quotas = node.quotas.map(|_| {
                let smaller = smaller(&mut random, self.kind, window);
                [[window, smaller], [smaller, window]][random.usize(..2)]
            });
        }
        self
    }

    /// What the terms of its leases follow from, if it has any.
    pub(super) fn lender(&self) -> Option<Lender> {
        Some(Lender {
            overshoot: self.lease?,
            nodes: Some(u32::try_from(self.nodes.len()).expect("a few")),
            timeout: Duration::from_nanos(self.timeout_ns),
        })
    }

    /// The terms of the leases of each quota that is stated.
    fn lendings(&self) -> Vec<Arc<Lending>> {
        let set = self.faults.iter().filter_map(|(_, fault)| match fault {
            Fault::SetQuota { quota, .. } => Some(*quota),
            _ => None,
        });
        let of = |quota| lending(&self.lender()?, quota);
        [self.quota].into_iter().chain(set).filter_map(of).collect()
    }

    /// The terms of its leases, if it has any. Of those of several quotas, the largest of each.
    pub(super) fn lending(&self) -> Option<Lending> {
        let lendings = self.lendings();
        let first = **lendings.first()?;
        Some(lendings.iter().fold(first, |most, other| Lending {
            terms: Terms {
                burst: most.terms.burst.max(other.terms.burst),
                ..most.terms
            },
            length: most.length.max(other.length),
            most: most.most.max(other.most),
            ahead: most.ahead.max(other.ahead),
            ..most
        }))
    }

    /// How long units are reserved before they have flowed in, at most.
    pub(super) fn ahead_for(&self) -> Duration {
        let lendings = self.lendings();
        let longest = lendings.iter().map(|lending| lending.ahead_for()).max();
        longest.unwrap_or(Duration::ZERO)
    }

    /// Returns whether there are leases of several rates.
    pub(super) fn is_mixed(&self) -> bool {
        let rate = |lending: &Lending| (lending.terms.count, lending.terms.period);
        let lendings = self.lendings();
        lendings
            .windows(2)
            .any(|two| rate(&two[0]) != rate(&two[1]))
    }

    /// Returns whether processes lease the limit as a whole, and then from their shares, too.
    pub(super) fn is_leased_whole(&self) -> bool {
        self.lease.is_some() && self.busy.is_none()
    }

    /// The same world, in which keys lease when they are busy, if they can.
    pub(super) fn leased_by_key(self) -> Option<Self> {
        let keys = self.keys;
        let mut plan = self.leased()?;
        let mut random = stream(plan.seed, 5);
        plan.busy = Some([1, 2, 5][random.usize(..3)]);
        plan.keys = keys;
        Some(plan)
    }

    /// The same world with a leased limit, if it can have one.
    pub(super) fn leased(mut self) -> Option<Self> {
        let mut random = stream(self.seed, 2);
        let overshoot = match random.u8(..4) {
            0 => Overshoot::none(),
            1 => Overshoot::percent(10),
            2 => Overshoot::percent(50),
            _ => Overshoot::percent(300),
        };
        let terms = Terms::of(self.quota).expect("the store can count it");
        let nodes = u32::try_from(self.nodes.len()).expect("a few");
        let timeout = Duration::from_nanos(self.timeout_ns);
        let of = |overshoot| Lending::of(overshoot, terms, 1, Some(nodes), timeout);
        let overshoot = match of(overshoot) {
            Ok(_) => overshoot,
            Err(FleetError::Overshoot { least }) => Overshoot::tokens(least),
            Err(_) => return None,
        };
        of(overshoot).ok()?;
        self.lease = Some(overshoot);
        for node in &mut self.nodes {
            node.quotas = None;
        }
        self.keys = 1;
        Some(self)
    }

    pub(super) fn random(seed: u64) -> Self {
        let mut random = stream(seed, 0);
        let nodes = random.usize(1..=5);
        let burst = [1, 3, 10, 30, 100][random.usize(..5)];
        let rate = [5, 20, 100, 500][random.usize(..4)];
        let quota = match random.u8(..8) {
            0 => Quota::per_hour(rate).burst(burst),
            1 => Quota::per_second(7 * rate).burst(burst),
            _ => Quota::per_second(rate).burst(burst),
        };
        let end_ns = random.u64(200..=1_500) * MS;
        let timeout_ns = [5, 10, 20, 50][random.usize(..4)] * MS;
        let network = Network {
            delay_ns: match random.u8(..3) {
                0 => MS / 20..=MS / 10,
                1 => MS / 10..=timeout_ns / 5,
                _ => MS / 10..=timeout_ns / 2 + MS,
            },
            slow: [0, 0, 10, 50][random.usize(..4)],
            slow_ns: 4 * timeout_ns,
            lost: [0, 0, 10, 50][random.usize(..4)],
            doubled: [0, 0, 20, 100][random.usize(..4)],
            gathers_ns: [None, None, None, Some(timeout_ns / 2)][random.usize(..4)],
            gathers_until_ns: u64::MAX,
        };
        // All nodes together ask for between a third of the rate, and ten times the rate.
        let wished =
            1_000_000_000 * nodes as u64 / [rate / 3 + 1, 2 * rate, 10 * rate][random.usize(..3)];
        let every_ns = wished.max(end_ns * nodes as u64 / 400);
        // Nodes may take what there is, and spend it together.
        let then_ns = random.u64(..end_ns);
        let hoards = random.u8(..3) == 0;
        // A new quota comes with new processes.
        let is_changed = random.u8(..4) == 0;
        let smaller = |random: &mut Rng| {
            let smaller = Quota::new(random.u64(1..=quota.count()), quota.period());
            let burst = random.u64(1..=burst);
            smaller
                .and_then(|smaller| smaller.try_burst(burst))
                .expect("a smaller quota")
        };
        let plans = (0..nodes).map(|_| {
            let comes_and_goes = random.u8(..4) == 0;
            let begins_ns = if comes_and_goes {
                random.u64(..end_ns)
            } else {
                0
            };
            let of = random.u32(1..=2);
            let large = burst.min(random.u64(1..=8));
            let before_ns = then_ns.saturating_sub(random.u64(..600) * MS);
            let crowds = vec![
                (before_ns, [random.u64(1..=burst), 1]),
                (then_ns, [burst, 1]),
            ];
            let crowds = if hoards { crowds } else { Vec::new() };
            let hoards = vec![(before_ns, random.u64(1..=burst))];
            NodePlan {
                slow_ppm: random.i64(-(RHO_PPM as i64)..=RHO_PPM as i64),
                begins_ns,
                ends_ns: if comes_and_goes {
                    random.u64(begins_ns..end_ns)
                } else {
                    u64::MAX
                },
                cut_off: match random.u8(..4) {
                    0 => CutOff::Deny,
                    _ => CutOff::Share(of, nodes as u32 + 1),
                },
                quotas: is_changed.then(|| {
                    let smaller = smaller(&mut random);
                    [[quota, smaller], [smaller, quota]][random.usize(..2)]
                }),
                demand: match random.u8(..4) {
                    0 => Demand {
                        callers: 5..=20,
                        every_ns: around(10 * every_ns),
                        units: 1..=1,
                        give_up: 50,
                        crowds,
                        hoards,
                    },
                    1 => Demand {
                        callers: 1..=3,
                        every_ns: around(3 * every_ns),
                        units: 1..=large,
                        give_up: 0,
                        crowds,
                        hoards,
                    },
                    _ => Demand {
                        crowds,
                        hoards,
                        ..Demand::steady(every_ns)
                    },
                },
            }
        });
        let nodes: Vec<_> = plans.collect();
        let faults = random.usize(..=6);
        let faults = (0..faults).map(|_| {
            let at_ns = random.u64(..end_ns);
            (at_ns, Fault::random(&mut random, nodes.len(), end_ns))
        });
        let mut faults: Vec<_> = faults.collect();
        if random.u8(..8) == 0 {
            // A connection that comes and goes.
            let resets = random.u64(5..=30);
            faults.extend((1..resets).map(|reset| (end_ns * reset / resets, Fault::Reset)));
        }
        Self {
            seed,
            quota,
            kind: Kind::Bucket,
            keys: random.u64(1..=3),
            capacity: random.usize(1..=3),
            timeout_ns,
            lease: None,
            busy: None,
            network,
            faults,
            end_ns,
            nodes,
            flaw: None,
        }
    }
}

impl Fault {
    fn random(random: &mut Rng, nodes: usize, end_ns: u64) -> Self {
        let node = random.usize(..nodes);
        let long = |random: &mut Rng| random.u64(..end_ns / 3);
        match random.u8(..11) {
            0 => Self::Amnesia { age_ns: None },
            1 => Self::Amnesia {
                age_ns: Some(long(random)),
            },
            2 => Self::Hang {
                for_ns: long(random),
            },
            3 => Self::Promote {
                lag_ns: long(random),
                both_ns: long(random),
            },
            4 => Self::Promote {
                lag_ns: 0,
                both_ns: 0,
            },
            5 => Self::Leap {
                us: [-3_600_000_000, -50_000, -1, 1, 20_000, 3_600_000_000][random.usize(..6)],
            },
            6 => Self::Sleep {
                node,
                for_ns: long(random),
            },
            7 => Self::Restart { node },
            8 => Self::Reset,
            9 => Self::Refuse {
                for_ns: long(random),
            },
            _ => Self::Cut {
                node,
                for_ns: long(random),
                ways: [[true, false], [false, true], [true, true]][random.usize(..3)],
            },
        }
    }
}
