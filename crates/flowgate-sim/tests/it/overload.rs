//! Who waits under overload: M/M/20 of 10 ms, where each request has a deadline of 100 ms. The scenarios are files.

use std::path::Path;

use flowgate_sim::{RunOutcome, Scenario};

/// What 20 workers serve, in requests per second.
const CAPACITY: f64 = 2_000.0;

/// Runs a scenario file with a seed.
fn run(file: &str, seed: u64) -> Vec<RunOutcome> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut scenario = Scenario::from_file(&folder.join(file)).expect(file);
    scenario.seed = seed;
    scenario.run().expect(file)
}

/// Returns the measure of the limit of that name.
#[track_caller]
fn of(outcomes: &[RunOutcome], name: &str, measure: impl Fn(&RunOutcome) -> f64) -> f64 {
    let outcome = outcomes.iter().find(|outcome| outcome.policy == name);
    measure(outcome.expect("a limit of that name"))
}

/// What was served in time, as a share of what the workers serve.
fn goodput(outcome: &RunOutcome) -> f64 {
    outcome.goodput() / CAPACITY
}

/// The requests that were served in vain, as a share of those that were served.
fn wasted(outcome: &RunOutcome) -> f64 {
    outcome.counts.late as f64 / outcome.counts.admitted as f64
}

/// The requests that were served in time, as a share of all.
fn in_time(outcome: &RunOutcome) -> f64 {
    outcome.counts.in_time as f64 / outcome.counts.operations as f64
}

fn a_queue_under_overload(file: &str, seed: u64) {
    let outcomes = run(file, seed);
    let assert_at_least = |name: &str, least: f64| {
        let goodput = of(&outcomes, name, goodput);
        assert!(goodput >= least, "{name}: {goodput}, seed {seed}");
    };
    for fails in ["no limit", "fifo"] {
        let goodput = of(&outcomes, fails, goodput);
        assert!(goodput < 0.1, "{fails}: {goodput}, seed {seed}");
    }
    assert_at_least("fifo, timeout", 0.98);
    assert_at_least("codel", 0.98);
    assert_at_least("adaptive lifo", 0.99);
    let wasted = of(&outcomes, "adaptive lifo, codel", wasted);
    assert!(wasted < 0.01, "{wasted}, seed {seed}");
}

#[test]
fn at_twice_the_load_the_order_and_the_timeout_decide() {
    for seed in 1..=3 {
        a_queue_under_overload("queue-2x.toml", seed);
    }
}

#[test]
fn at_ten_times_the_load_the_order_and_the_timeout_decide() {
    a_queue_under_overload("queue-10x.toml", 1);
}

/// An order for overload costs something below capacity: a queue that happens to last for 100 ms turns. Adaptive LIFO was meant to
/// serve 99.8 % in time, and serves 99.7 to 99.8 %, depending on the seed.
#[test]
fn below_capacity_adaptive_lifo_and_codel_cost_little() {
    let outcomes = run("queue-0.9x.toml", 1);
    for (name, least) in [
        ("no limit", 0.999),
        ("fifo", 0.999),
        ("codel", 0.998),
        ("adaptive lifo", 0.996),
        ("adaptive lifo, codel", 0.995),
    ] {
        let share = of(&outcomes, name, in_time);
        assert!(share >= least, "{name}: {share}");
    }
}
