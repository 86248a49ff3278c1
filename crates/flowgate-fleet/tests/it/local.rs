//! Outages in virtual time: what three processes are admitted, against the bound that each reports.

use flowgate::{ManualClock, Quota};
use flowgate_fleet::{Fleet, FleetLimit, LocalStore};
use std::time::Duration;

const NODES: u32 = 3;
/// Units of the burst, and units that flow back per step.
const BURST: u64 = 60;
const PER_STEP: u64 = 2;
const STEP: Duration = Duration::from_millis(5);

fn quota() -> Quota {
    "400/s burst 60".parse().expect("a quota")
}

/// The largest excess over `burst + rate × t` of all intervals. `admitted` has the units of each step.
fn excess(admitted: &[u64]) -> i64 {
    // The best interval that ends here: the one that ends at the step before it, or none of that.
    let (mut best, mut worst) = (0, i64::MIN);
    for &units in admitted {
        best = (best - PER_STEP as i64).max(0) + units as i64;
        worst = worst.max(best - BURST as i64);
    }
    worst
}

/// Processes that ask at each step, and a store that is stopped at random times, often loses its records then, and comes back.
fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let time = ManualClock::new();
    let store = LocalStore::new(&time);
    let fleets: Vec<Fleet> = (0..NODES)
        .map(|_| store.fleet().nodes(NODES).open().unwrap())
        .collect();
    let build = |fleet: &Fleet| fleet.limit("api", quota()).build().unwrap();
    let nodes: Vec<FleetLimit> = fleets.iter().map(build).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut admitted, mut losses, mut left) = (Vec::new(), 0, 0);
    for step in 0..600 {
        if step % 150 == 50 {
            store.stop();
            if random.u32(0..4) > 0 {
                store.forget();
                losses += 1;
            }
            // Long enough for each to notice.
            left = random.u32(10..90);
        }
        if left > 0 {
            left -= 1;
            if left == 0 {
                store.start();
                for fleet in &fleets {
                    runtime.block_on(fleet.ready());
                }
            }
        }
        let mut units = 0;
        for node in &nodes {
            let n = random.u64(1..=3);
            units += node.ask().n(n).block().map_or(0, |_| n);
        }
        admitted.push(units);
        time.advance(STEP);
    }
    let excess = excess(&admitted);
    for node in &nodes {
        let bound = node.bound();
        // All of them noticed each outage, and nothing was in flight.
        let most = (bound.total().unwrap() - bound.in_flight) as i64;
        assert!(excess <= most, "{seed}: {excess} of {bound:?}");
        let counts = node.inspect().counts;
        assert_eq!((counts.outages, counts.amnesias), (4, 4));
        assert!(losses <= counts.amnesias);
        // A burst for each loss, and one and the rate for the time alone.
        assert!(most <= (5 * BURST + 600 * PER_STEP) as i64, "{bound:?}");
    }
}

#[test]
fn c1_the_bound_covers_every_interval_whatever_the_store_does() {
    for seed in 0..6 {
        run(seed);
    }
}

#[test]
fn the_checker_finds_the_worst_interval() {
    assert_eq!(excess(&[60, 0, 0]), 0);
    assert_eq!(excess(&[60, 3]), 1);
    assert_eq!(excess(&[0, 9, 0, 0, 60, 4, 0]), 5);
}
