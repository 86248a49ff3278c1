//! Adaptive limits in the simulator: the scenarios that take seconds, and what the trials are for. `adaptive_scenarios`, an example,
//! has all scenarios.

// The example uses all of it.
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/algorithm.rs"]
mod algorithm;
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/limit.rs"]
mod limit;
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/measure.rs"]
mod measure;
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/others/mod.rs"]
mod others;
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/plant.rs"]
mod plant;
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/policy.rs"]
mod policy;
#[allow(dead_code)]
#[path = "../examples/adaptive_scenarios/scenarios.rs"]
mod scenarios;

use algorithm::Algorithm;
use measure::{Measure, Target};

const SEED: u64 = 1;

/// The measures of the scenario of this name, for this number of workers.
fn measured(name: &str, workers: u32, algorithm: Algorithm) -> Vec<Measure> {
    let all = scenarios::all(&[workers]);
    let scenario = all.iter().find(|scenario| scenario.name == name);
    let run = &scenario.expect("a scenario").run;
    run(SEED, &[algorithm]).remove(0)
}

#[track_caller]
fn assert_met(name: &str, workers: u32) {
    for Measure {
        what,
        value,
        target,
    } in measured(name, workers, Algorithm::Gradient)
    {
        assert!(target.is_met(value), "{name}: {what}: {value}, {target:?}");
    }
}

#[test]
fn gradient_is_close_to_the_best_fixed_limit_under_overload() {
    assert_met("2-3 load 2, exponential", 20);
}

#[test]
fn gradient_refuses_next_to_nothing_below_capacity() {
    assert_met("1 load 0.8, exponential", 20);
    assert_met("10 load 0.8, lognormal", 20);
}

#[test]
fn gradient_finds_a_loss_of_capacity_and_its_end() {
    assert_met("7 a quarter of the capacity", 100);
}

#[test]
fn gradient_recovers_from_a_spike_and_from_a_pause() {
    assert_met("9 spike x 5 of 2 s", 20);
    assert_met("9 pause of 2 s", 20);
}

#[test]
fn low_traffic_is_never_refused() {
    assert_met("12 2 requests/s", 4);
}

#[test]
fn every_algorithm_gives_way_when_all_calls_time_out() {
    for algorithm in [
        Algorithm::Gradient,
        Algorithm::Bdp,
        Algorithm::Vegas,
        Algorithm::Aimd,
    ] {
        for Measure { value, target, .. } in measured("11 all calls time out", 20, algorithm) {
            assert!(target.is_met(value), "{algorithm:?}: {value}");
        }
    }
}

/// The trials exist for services that become slower. Without them, the limit takes the longer latency for a queue, and starves.
#[test]
fn without_trials_a_slower_service_starves() {
    let name = "8 service x 3";
    assert_met(name, 20);
    let without = measured(name, 20, Algorithm::NoTrials);
    let goodput = without[0];
    assert!(matches!(goodput.target, Target::AtLeast(_)));
    assert!(
        !goodput.target.is_met(goodput.value),
        "{}: {}",
        goodput.what,
        goodput.value
    );
}
