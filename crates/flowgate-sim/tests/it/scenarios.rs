//! Scenarios as files: what is written is read again, and a run is what the file says.

use std::path::Path;

use flowgate_sim::Scenario;

/// Every key, with a value that is not the default.
const FULL: &str = r#"name = "all keys"
description = "every key, once"
seed = 7
duration = "20s"
drain = "5s"

[[limit]]
name = "bucket"
limiter = "token 100/s burst 20"
wait = "500ms"
queue = 50

[[limit]]
limiter = "none"

[[traffic]]
name = "users"
arrivals = "poisson 150/s"
keys = "zipf 1000 1.1"
cost = 2
deadline = "1s 500ms"

[traffic.retries]
attempts = 3
backoff = "100ms"
factor = 3.0
jitter = false
heeds-retry-after = false
budget = "10%"

[server]
workers = 20
service = "lognormal 10ms 0.5"
queue = 100
order = "lifo"
drops-expired = true
delay = "2ms"

[server.contention]
sigma = 0.1
kappa = 0.001

[[fault]]
kind = "capacity 25%"
at = "5s"
lasts = "10s"
"#;

#[test]
fn a_scenario_is_read_as_it_is_written() {
    let scenario = Scenario::from_toml(FULL).expect("valid");
    let written = scenario.to_toml();
    assert_eq!(
        Scenario::from_toml(&written).expect("valid"),
        scenario,
        "{written}"
    );
    assert_eq!(written, FULL.replace("1s 500ms", "1s500ms"));
}

#[test]
fn a_scenario_runs_with_each_of_its_limits_on_the_same_traffic() {
    let outcomes = Scenario::from_toml(FULL)
        .expect("valid")
        .run()
        .expect("in range");
    let names: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome.policy.as_str())
        .collect();
    assert_eq!(names, ["bucket", "none"]);
    assert_eq!(outcomes[0].counts.operations, outcomes[1].counts.operations);
    assert_eq!(outcomes[1].counts.refused, 0);
    assert!(outcomes[0].counts.refused > 0);
}

#[test]
fn a_scenario_that_cannot_run_says_what_to_write() {
    for (text, expected) in [
        ("[[limit]]\nlimiter = 'none'", "add [[traffic]]"),
        ("[[traffic]]\narrivals = '5/s'", "add [[limit]]"),
        (
            "duration = '0s'\n[[limit]]\nlimiter = 'none'\n[[traffic]]\narrivals = '5/s'",
            "the duration is 0",
        ),
        (
            "[[limit]]\nlimiter = 'none'\n[[traffic]]\narrivals = 'poisson 900000000/s'",
            "poisson 900000000/s",
        ),
    ] {
        let scenario = Scenario::from_toml(text).expect(text);
        let error = scenario.run().expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let missing = Scenario::from_file(Path::new("no/such.toml")).expect_err("missing");
    assert!(
        missing
            .to_string()
            .starts_with("cannot read no/such.toml: "),
        "{missing}"
    );
}
