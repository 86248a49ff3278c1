//! What a run has done, and what the theorem allows it.

use super::plan::{MS, Plan, RHO_PPM, bound};
use crate::CutOff;
use crate::terms::Kind;
use flowgate::Quota;
use flowgate_testkit::allowance::{Allowance, Tightest};
use flowgate_testkit::promise::{Broken, TimedGrant};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long a leaser holds what it takes from a share.
const SHARE_HELD_NS: u64 = 50 * MS;
/// The store's clock has whole microseconds, and a timer whole nanoseconds.
const WHOLE_NS: u64 = 1_002;

/// Everything that was observed. Times are true ones, unless they are called local.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) keys: BTreeMap<u64, KeyFacts>,
    pub(super) amnesias: Vec<Amnesia>,
    pub(super) failovers: Vec<Failover>,
    /// When a clock was set ahead, and by how many microseconds.
    pub(super) leaps: Vec<(u64, u64)>,
    /// For how long processes were stopped.
    pub(super) slept_ns: u64,
    /// Calls that were sent to a store that hung, and were carried out afterwards: per hang, node, life and key.
    pub(super) held: BTreeMap<(u64, usize, u32, u64), u64>,
    /// Calls that a store refused, although it had never debited their key.
    pub(super) starved: u64,
    /// Refusals for which the store has given no reason.
    pub(super) unfounded: u64,
    /// Requests that a busy key admitted without a call.
    pub(super) held_ahead: u64,
    pub(super) refused: u64,
    pub(super) outages: u64,
    pub(super) lost: u64,
    pub(super) healed: u64,
}

#[derive(Debug, Default)]
pub(super) struct KeyFacts {
    /// What the stores have debited.
    pub(super) calls: Vec<StoreCall>,
    /// What callers were told, because a store debited it.
    pub(super) told: Vec<TimedGrant>,
    /// The most units that a call was granted.
    pub(super) most_in_a_call: u64,
    /// By node and life: what they have admitted alone, at a local and a true time.
    pub(super) alone: BTreeMap<(usize, u32), Vec<[TimedGrant; 2]>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StoreCall {
    pub(super) store: usize,
    pub(super) at_ns: u64,
    pub(super) units: u64,
    /// When all of the units had flowed in.
    pub(super) flowed_ns: u64,
    /// Of how many units it reminded the store.
    pub(super) healed: u64,
    /// How many calls of this key were carried out before.
    pub(super) number: usize,
    /// The caller reminds the store of what it stated after this call.
    pub(super) knows: Option<usize>,
}

/// A store has forgotten what it debited after `keeps_ns`.
#[derive(Clone, Debug)]
pub(super) struct Amnesia {
    pub(super) store: usize,
    pub(super) at_ns: u64,
    /// `None`: it keeps nothing of what it has debited itself.
    pub(super) keeps_ns: Option<u64>,
    /// By key: how many calls were carried out before.
    pub(super) after: BTreeMap<u64, usize>,
}

/// A store became primary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failover {
    pub(super) old: usize,
    pub(super) at_ns: u64,
}

/// Which promise a run has broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broke {
    /// What the stores debited.
    Debits(Broken),
    /// What callers were told by the store, and when.
    Told(Broken),
    /// What a process admitted alone.
    Share(Broken),
    /// Everything, by r·L'.
    ByTime(Broken),
    /// Everything, by N·k.
    ByUnits(Broken),
    /// A store that hung got more than one call of a limit from a process.
    Hang,
    /// A store refused a key that it had never debited.
    Starved,
    /// A caller was refused, but no store has refused.
    Unfounded,
}

impl Facts {
    pub(super) fn key(&mut self, key: u64) -> &mut KeyFacts {
        self.keys.entry(key).or_default()
    }

    /// Checks everything that is promised.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), Broke> {
        if self.starved > 0 {
            return Err(Broke::Starved);
        }
        if self.unfounded > 0 {
            return Err(Broke::Unfounded);
        }
        if self.held.values().any(|calls| *calls > 1) {
            return Err(Broke::Hang);
        }
        for (key, facts) in &self.keys {
            let stores = self.stores(plan, *key, facts);
            // Of leases of several rates, it is not known when units have flowed in.
            if !plan.is_mixed() {
                stores.check(&facts.debits()).map_err(Broke::Debits)?;
            }
            if plan.lease.is_none() {
                let told = stores.clone().lead(self.lead_ns(plan));
                told.check(&facts.told).map_err(Broke::Told)?;
            }
            for ((node, life), alone) in &facts.alone {
                let local: Vec<_> = alone.iter().map(|[local, _]| *local).collect();
                let quota = plan.widest_of(*node, *life);
                let share = share(plan.kind, quota, plan.nodes[*node].cut_off);
                let share = share.expect("a share of nothing admits nothing");
                Allowance::new(share).check(&local).map_err(Broke::Share)?;
            }
            let admissions = facts.admissions(plan);
            let [by_time, by_units] = self.theorem(plan, *key, facts);
            by_time.check(&admissions).map_err(Broke::ByTime)?;
            by_units.check(&admissions).map_err(Broke::ByUnits)?;
        }
        Ok(())
    }

    /// b + r·t, and what the faults of the stores add.
    fn stores(&self, plan: &Plan, key: u64, facts: &KeyFacts) -> Allowance {
        let quota = plan.lending().map_or(plan.bound(), |lending| {
            let quota = plan.quota.try_burst(lending.terms.burst);
            quota.expect("a smaller burst")
        });
        // What was reserved is given out after the store has forgotten it.
        let lending = plan.lending();
        let ahead = lending.map_or(0, |lending| lending.ahead);
        let ahead_ns = nanos(plan.ahead_for());
        let burst = quota.max_burst() + ahead;
        // What a record can hold: a window that is lost is opened once more.
        let most = match plan.kind {
            Kind::Bucket => burst,
            _ => quota.count(),
        };
        let mut allowance = Allowance::new(quota);
        if ahead > 0 {
            allowance = allowance.lead(1_000);
        }
        for amnesia in &self.amnesias {
            let units = facts.forgotten(key, amnesia).unwrap_or(most).min(most);
            let (from_ns, to_ns) = (by_store(amnesia.at_ns), amnesia.at_ns + ahead_ns);
            allowance = allowance.once(units, from_ns, to_ns);
        }
        // The clock may go on shortly before another boundary: two aligned windows more.
        let most_of_leap = match plan.kind {
            Kind::AlignedWindow => 2 * most,
            _ => most,
        };
        for (at_ns, us) in &self.leaps {
            let earned = u128::from(quota.count()) * u128::from(*us) * 1_000;
            let units = earned.div_ceil(quota.period().as_nanos());
            let units = u64::try_from(units).unwrap_or(u64::MAX);
            let units = units.min(most_of_leap);
            allowance = allowance.once(units, by_store(*at_ns), *at_ns + ahead_ns);
        }
        for failover in &self.failovers {
            let calls = facts.calls.iter().filter(|call| call.store == failover.old);
            let last_ns = calls.map(|call| call.at_ns).max().unwrap_or(0);
            let from_ns = by_store(failover.at_ns);
            let to_ns = last_ns.max(failover.at_ns) + ahead_ns;
            allowance = allowance.once(burst, from_ns, to_ns);
            allowance = allowance.flow([1, 1], from_ns, to_ns);
        }
        allowance
    }

    /// L': by how much an admission may be later than its debit.
    pub(super) fn lead_ns(&self, plan: &Plan) -> u64 {
        let of_lease = plan.lending().map_or(0, |lending| nanos(lending.length));
        // At a smaller rate, what is reserved has flowed in later.
        let waits_ns = if plan.is_mixed() {
            nanos(plan.ahead_for())
        } else {
            0
        };
        let of_lease = of_lease + waits_ns;
        if plan.is_leased_whole() {
            of_lease + WHOLE_NS
        } else {
            self.told_ns(plan).max(of_lease + WHOLE_NS)
        }
    }

    /// By how much a caller of a strict limit may be told later than the store has debited.
    fn told_ns(&self, plan: &Plan) -> u64 {
        // A process that is stopped reads its reply later.
        slowed(plan.timeout_ns) + self.slept_ns + WHOLE_NS
    }

    /// The right-hand side, with r·L', and with N·k.
    pub(super) fn theorem(&self, plan: &Plan, key: u64, facts: &KeyFacts) -> [Allowance; 2] {
        let stores = self.stores(plan, key, facts);
        let of_nodes = stores.clone().plus(facts.in_flight(plan));
        // Beside what nodes hold, callers of a key that is not busy wait to be told.
        let of_nodes = match plan.busy {
            Some(_) => of_nodes.lead(self.told_ns(plan)),
            None => of_nodes,
        };
        [stores.lead(self.lead_ns(plan)), of_nodes].map(|mut allowance| {
            for ((node, life), alone) in &facts.alone {
                let cut_off = plan.nodes[*node].cut_off;
                let quota = plan.widest_of(*node, *life);
                let share = share(plan.kind, quota, cut_off).expect("a share");
                let burst = share.max_burst();
                let CutOff::Share(of, nodes) = cut_off else {
                    unreachable!("the others admit nothing");
                };
                let [_, first] = alone[0];
                let [_, last] = alone[alone.len() - 1];
                // A lease of the share is spent later.
                let held_ns = if plan.is_leased_whole() {
                    slowed(SHARE_HELD_NS)
                } else {
                    0
                };
                let last_ns = last.at_ns + held_ns;
                // Its clock may be fast.
                let million = 1_000_000;
                let fast = million + RHO_PPM as u32;
                allowance = allowance.once(burst, first.at_ns, last_ns).flow(
                    [of * fast, nodes * million],
                    first.at_ns,
                    last_ns,
                );
            }
            allowance
        })
    }

    /// Returns the interval of all admissions that comes closest to the theorem.
    pub(super) fn tightest(&self, plan: &Plan) -> Tightest {
        let facts = self.keys.get(&0).expect("the first key");
        let admissions = facts.admissions(plan);
        let both = self.theorem(plan, 0, facts);
        let both = both.map(|allowance| allowance.tightest(&admissions));
        let both = both.map(|tightest| tightest.expect("admissions"));
        let worse = both.into_iter().max_by_key(Tightest::over);
        worse.expect("two")
    }

    /// N·k of the first key.
    pub(super) fn in_flight_of(&self, plan: &Plan) -> u64 {
        self.keys[&0].in_flight(plan)
    }

    /// A number that no two runs share by accident.
    pub(super) fn hash(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |value: u64| {
            hash = (hash ^ value)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23)
        };
        for (key, facts) in &self.keys {
            add(*key);
            let alone = facts.alone.values().flatten().flatten();
            for grant in facts.debits().iter().chain(&facts.told).chain(alone) {
                add(grant.at_ns);
                add(grant.n);
            }
        }
        for count in [self.refused, self.outages, self.lost, self.healed] {
            add(count);
        }
        hash
    }
}

impl KeyFacts {
    pub(super) fn debits(&self) -> Vec<TimedGrant> {
        let taken = self.calls.iter().filter(|call| call.units > 0);
        let debits = taken.map(|call| TimedGrant::new(by_store(call.flowed_ns), call.units));
        let mut debits: Vec<_> = debits.collect();
        debits.sort_by_key(|debit| debit.at_ns);
        debits
    }

    /// All that callers were told, by a store or alone. A lease of a share is told by the limiter, as others are.
    pub(super) fn admissions(&self, plan: &Plan) -> Vec<TimedGrant> {
        let alone = self.alone.values().flatten().map(|[_, at]| *at);
        let alone = alone.filter(|_| !plan.is_leased_whole());
        let mut all: Vec<_> = self.told.iter().copied().chain(alone).collect();
        all.sort_by_key(|grant| grant.at_ns);
        all
    }

    /// N·k: what nodes may hold; or a call of each may have been carried out, and its callers not told.
    pub(super) fn in_flight(&self, plan: &Plan) -> u64 {
        let lending = plan.lending();
        let of_a_node = lending.map_or(self.most_in_a_call, |lending| lending.most);
        of_a_node.saturating_mul(plan.nodes.len() as u64)
    }

    /// What a store has forgotten that the first process to take from it afterwards did not know. `None`: perhaps everything.
    fn forgotten(&self, key: u64, amnesia: &Amnesia) -> Option<u64> {
        let after = amnesia.after.get(&key).copied().unwrap_or(0);
        let mut known = None;
        for call in self.calls[after..]
            .iter()
            .filter(|call| call.store == amnesia.store)
        {
            known = known.max(call.knows.filter(|known| *known < after));
            if call.units > 0 {
                break;
            }
        }
        if known.is_none() && amnesia.keeps_ns.is_none() {
            return None;
        }
        let is_lost = |call: &&StoreCall| {
            call.store == amnesia.store
                && known.is_none_or(|known| call.number > known)
                && amnesia
                    .keeps_ns
                    .is_none_or(|keeps_ns| call.at_ns > keeps_ns)
        };
        let lost = self.calls[..after].iter().filter(is_lost);
        Some(lost.map(|call| call.units + call.healed).sum())
    }
}

/// What the store's clock shows: whole microseconds.
fn by_store(at_ns: u64) -> u64 {
    at_ns / 1_000 * 1_000
}

/// The longest time that a clock may take for this one.
fn slowed(ns: u64) -> u64 {
    ns * (1_000_000 + RHO_PPM) / 1_000_000
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a short time")
}

/// The bound of a process that decides alone.
fn share(kind: Kind, quota: Quota, cut_off: CutOff) -> Option<Quota> {
    let CutOff::Share(of, nodes) = cut_off else {
        return None;
    };
    let part = |units: u64| units * u64::from(of) / u64::from(nodes);
    if kind.is_window() {
        let share = Quota::new(part(quota.count()), quota.period()).ok()?;
        return Some(bound(kind, share));
    }
    let rate = Quota::new(quota.count() * u64::from(of), quota.period() * nodes);
    rate.and_then(|rate| rate.try_burst(part(quota.max_burst())))
        .ok()
}
