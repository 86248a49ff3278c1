//! Outages in virtual time: what three processes are admitted, against the bound that each reports.

use flowgate::{ManualClock, Quota};
use flowgate_fleet::{Ask, Fleet, FleetLeased, FleetLimit, FleetView, LocalStore, Overshoot};
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
pub(crate) fn excess(admitted: &[u64]) -> i64 {
    // The best interval that ends here: the one that ends at the step before it, or none of that.
    let (mut best, mut worst) = (0, i64::MIN);
    for &units in admitted {
        best = (best - PER_STEP as i64).max(0) + units as i64;
        worst = worst.max(best - BURST as i64);
    }
    worst
}

/// The limit of a process.
enum Node {
    Strict(FleetLimit),
    Leased(FleetLeased),
}

impl Node {
    fn new(fleet: &Fleet, overshoot: Option<Overshoot>) -> Self {
        let limit = fleet.limit("api", quota());
        match overshoot {
            None => Self::Strict(limit.build().unwrap()),
            Some(overshoot) => Self::Leased(limit.leased(overshoot).build().unwrap()),
        }
    }

    fn ask(&self) -> Ask {
        match self {
            Self::Strict(limit) => limit.ask(),
            Self::Leased(limit) => limit.ask(),
        }
    }

    fn inspect(&self) -> FleetView {
        match self {
            Self::Strict(limit) => limit.inspect(),
            Self::Leased(limit) => limit.inspect(),
        }
    }
}

/// Processes that ask at each step, and a store that is stopped at random times, often loses its records then, and comes back.
fn run(seed: u64, overshoot: Option<Overshoot>, leased: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let time = ManualClock::new();
    let store = LocalStore::new(&time);
    let fleets: Vec<Fleet> = (0..NODES)
        .map(|_| store.fleet().nodes(NODES).open().unwrap())
        .collect();
    let build = |fleet| Node::new(fleet, overshoot);
    let nodes: Vec<Node> = fleets.iter().map(build).collect();
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
    let mut largest = 0;
    for node in &nodes {
        let FleetView { bound, counts, .. } = node.inspect();
        assert_eq!(bound.leased, leased);
        let most = (bound.total().unwrap() - bound.in_flight) as i64;
        largest = largest.max(most);
        if overshoot.is_none() {
            // All of them noticed each outage, and nothing was in flight.
            assert!(excess <= most, "{seed}: {excess} of {bound:?}");
            assert_eq!((counts.outages, counts.amnesias), (4, 4));
            assert!(losses <= counts.amnesias);
        }
        assert!((1..=4).contains(&counts.outages), "{counts:?}");
        // A burst for each loss, with what was reserved, and one and the rate for the time alone.
        let bursts = 5 * BURST + 5 * leased;
        assert!(most <= (bursts + 600 * PER_STEP) as i64, "{bound:?}");
        assert!(counts.admitted > 0 && counts.denied > 0, "{counts:?}");
    }
    // A process that holds tokens may not notice an outage.
    assert!(excess <= largest, "{seed}: {excess} of {largest}");
    // Without faults, it would be the burst and the rate.
    let (all, least) = (admitted.iter().sum::<u64>(), 600 * PER_STEP * 9 / 10);
    assert!(all >= least, "{seed}: {all} of {least}");
}

#[test]
fn c1_the_bound_covers_every_interval_whatever_the_store_does() {
    for seed in 0..6 {
        run(seed, None, 0);
    }
}

#[test]
fn c1_the_bound_of_leases_covers_every_interval_whatever_the_store_does() {
    for seed in 0..6 {
        run(seed, Some(Overshoot::tokens(60)), 60);
        run(seed, Some(Overshoot::none()), 0);
    }
}

#[test]
fn the_checker_finds_the_worst_interval() {
    assert_eq!(excess(&[60, 0, 0]), 0);
    assert_eq!(excess(&[60, 3]), 1);
    assert_eq!(excess(&[0, 9, 0, 0, 60, 4, 0]), 5);
}

#[test]
fn c1_a_leaky_bucket_has_no_burst_beyond_its_slack_also_after_a_new_quota() {
    let time = ManualClock::new();
    let fleet = Fleet::local().clock(&time).nodes(1).open().unwrap();
    let even = fleet.leaky_bucket("even", "10/s".parse().unwrap());
    let even = even.build().unwrap();
    let sites = fleet.keyed_leaky_bucket("site", "10/s burst 3".parse().unwrap());
    let sites = sites.build().unwrap();
    let admitted = || (0..9).filter(|_| even.ask().block().is_ok()).count();
    let of_site = || (0..9).filter(|_| sites.ask("a").block().is_ok()).count();
    time.advance(Duration::from_secs(9));
    assert_eq!((admitted(), of_site()), (1, 3));
    even.set_quota("20/s".parse().unwrap()).unwrap();
    sites.set_quota("20/s".parse().unwrap()).unwrap();
    time.advance(Duration::from_secs(9));
    assert_eq!((admitted(), of_site()), (1, 3));
    even.set_quota("20/s burst 2".parse().unwrap()).unwrap();
    time.advance(Duration::from_secs(9));
    assert_eq!(admitted(), 2);
    assert!(even.ask().n(3).block().unwrap_err().is_never());
}
