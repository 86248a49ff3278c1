//! The fleet in virtual time: real limits and real records, in a world that a seed draws.
//!
//! A run is judged by the theorem of `docs/internals/fleet_bound.md`, in every interval.

mod facts;
mod flawed;
mod lease;
mod live;
mod plan;
mod process;
mod store;
mod tight;
mod world;

use facts::Facts;
use plan::Plan;

/// How many worlds are drawn.
fn seeds() -> u64 {
    match std::env::var("FLOWGATE_FLEET_SEEDS") {
        Ok(seeds) => seeds.parse().expect("a number of seeds"),
        Err(_) => 10_000,
    }
}

/// A quarter of the worlds has a leased limit, a quarter keys that lease, and a quarter windows. In some of the others, quotas are replaced.
fn world_of(seed: u64) -> Plan {
    let plan = Plan::random(seed);
    match seed % 4 {
        0 if seed.is_multiple_of(16) => plan.changing(),
        0 => plan,
        2 if seed % 16 == 2 => plan.windowed().changing(),
        2 => plan.windowed(),
        of => {
            let leased = match of {
                1 => plan.clone().leased_by_key(),
                _ => plan.clone().leased(),
            };
            match leased {
                Some(leased) if seed % 16 < 4 => leased.changing(),
                leased => leased.unwrap_or(plan),
            }
        }
    }
}

#[test]
fn c1_no_seed_breaks_the_theorem() {
    let mut seen = Seen::default();
    for seed in 0..seeds() {
        let plan = world_of(seed);
        let facts = world::run(&plan);
        if let Err(broke) = facts.check(&plan) {
            panic!("seed {seed}: {broke:?}\n{plan:#?}");
        }
        seen.add(&plan, &facts);
    }
    println!("{} runs: {seen:?}", seeds());
    let Seen {
        leased,
        leased_by_key,
        windows,
        by_store,
        alone,
        outages,
        lost,
        held,
        reminders,
        turns,
    } = seen;
    let least = [
        leased,
        leased_by_key,
        windows,
        by_store / 50,
        alone / 20,
        outages / 10,
        lost / 2,
        held,
        reminders,
        turns,
    ];
    assert!(
        least.into_iter().all(|seen| seen > seeds() / 20),
        "{least:?}"
    );
}

/// What has happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    leased: u64,
    /// Worlds in which a busy key held tokens.
    leased_by_key: u64,
    windows: u64,
    by_store: u64,
    alone: u64,
    outages: u64,
    lost: u64,
    held: u64,
    reminders: u64,
    /// Calls that took what had not flowed in yet.
    turns: u64,
}

impl Seen {
    fn add(&mut self, plan: &Plan, facts: &Facts) {
        self.leased += u64::from(plan.is_leased_whole());
        self.leased_by_key += u64::from(facts.held_ahead > 0);
        self.windows += u64::from(plan.kind.is_window());
        for key in facts.keys.values() {
            self.by_store += key.told.len() as u64;
            let turns = key.calls.iter().filter(|call| call.flowed_ns > call.at_ns);
            self.turns += turns.count() as u64;
            self.alone += key.alone.values().map(Vec::len).sum::<usize>() as u64;
        }
        self.outages += facts.outages;
        self.lost += facts.lost;
        self.held += facts.held.len() as u64;
        self.reminders += facts.healed;
    }
}

#[test]
fn a_seed_is_the_same_run_everywhere() {
    let hash_of = |of: &dyn Fn(u64) -> Plan| {
        let runs = (0..200).map(|seed| world::run(&of(seed)).hash());
        runs.fold(0_u64, |hash, run| hash.rotate_left(7) ^ run)
    };
    let strict = hash_of(&Plan::random);
    assert_eq!(strict, 0x8ff7_091c_9da5_7e5b, "{strict:#x}");
    // What a leaser asks for may change.
    assert_eq!(hash_of(&world_of), hash_of(&world_of));
}
