//! Scenarios as files: what is written is read again, and a run is what the file says.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flowgate_sim::{RunOutcome, Scenario};

/// Every key, with a value that is not the default.
const FULL: &str = r#"name = "all keys"
description = "every key, once"
seed = 7
duration = "20s"
drain = "5s"

[[limit]]
name = "bucket"
limiter = "token 100/s burst 20 wait 500ms queue 50"

[[limit]]
limiter = "none"

[[traffic]]
name = "users"
arrivals = "poisson 150/s"
keys = "zipf 1000 1.1"
cost = 2
deadline = "1s 500ms"
attempt-timeout = "400ms"

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
        (
            "[[limit]]\nlimiter = 'token 5/s + concurrency 5'\n[[traffic]]\narrivals = '5/s'\ncost = 2",
            "remove the cost",
        ),
        (
            "[[limit]]\nlimiter = 'token 5/s + concurrency 5'\n\
             [[traffic]]\narrivals = 'log:access.log'\nlog = { cost = 'bytes' }",
            "remove the cost",
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

/// The folder of the named scenarios.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// The names of the files in it.
pub fn names() -> BTreeSet<String> {
    let files = std::fs::read_dir(folder()).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name().into_string());
    names.collect::<Result<_, _>>().expect("UTF-8")
}

pub fn named(name: &str) -> (Scenario, Vec<RunOutcome>) {
    let scenario = Scenario::from_file(&folder().join(name)).expect(name);
    let outcomes = scenario.run().expect(name);
    (scenario, outcomes)
}

#[test]
fn each_named_scenario_says_what_it_shows_and_ends() {
    assert!(names().len() >= 5, "{:?}", names());
    for name in names() {
        let scenario = Scenario::from_file(&folder().join(&name)).expect("valid");
        assert!(
            scenario.name.is_some() && scenario.description.is_some(),
            "{name}"
        );
        assert!(scenario.limits.len() >= 2, "{name}");
    }
}

#[test]
fn retries_without_a_limit_keep_a_server_overloaded_after_a_pause() {
    let (_, outcomes) = named("retry-storm.toml");
    let in_time =
        |outcome: &RunOutcome| outcome.counts.in_time as f64 / outcome.counts.operations as f64;
    let shares: Vec<f64> = outcomes.iter().map(in_time).collect();
    assert!(shares[0] < 0.5, "{shares:?}");
    assert!(shares[1] > 0.9, "{shares:?}");
}

#[test]
fn a_limit_for_each_key_leaves_the_neighbours_of_a_noisy_one_alone() {
    let (_, outcomes) = named("noisy-neighbour.toml");
    let refused = |outcome: &RunOutcome| {
        let others = outcome.keys.iter().filter(|(key, _)| *key < 100);
        let (admitted, attempts) = others.fold((0, 0), |sum, (_, counts)| {
            (sum.0 + counts.admitted, sum.1 + counts.attempts)
        });
        1.0 - admitted as f64 / attempts as f64
    };
    let shares: Vec<f64> = outcomes.iter().map(refused).collect();
    assert!(shares[0] > 0.7, "{shares:?}");
    assert!(shares[1] < 0.001, "{shares:?}");
}

/// Runs a limit on one client that sends `arrivals`, and a server that takes two seconds for each request.
fn with_slow_server(limiter: &str, arrivals: &str) -> RunOutcome {
    let scenario = Scenario::from_toml(&format!(
        "duration = '10s'\n[[limit]]\nlimiter = '{limiter}'\n[[traffic]]\narrivals = '{arrivals}'\n\
         [server]\nworkers = 9\nservice = '2s'"
    ));
    let outcomes = scenario.expect("valid").run().expect("in range");
    outcomes.into_iter().next().expect("one limit")
}

#[test]
fn c1_c2_a_limit_for_each_key_and_a_shared_one_take_all_or_nothing() {
    for text in [
        "keyed token 3/day + concurrency 1",
        "concurrency 1 + keyed token 3/day",
    ] {
        let outcome = with_slow_server(text, "10/s");
        // One each two seconds, when the permit is free. The attempts between take none of the three tokens.
        let times = outcome.slots.iter().enumerate();
        let times = times.filter(|(_, slot)| slot.admitted > 0);
        let times: Vec<_> = times
            .map(|(index, _)| outcome.slot * index as u32)
            .collect();
        assert_eq!(times, [0, 2, 4].map(Duration::from_secs), "{text}");
        assert_eq!(outcome.counts.admitted, 3, "{text}");
    }
}

#[test]
fn requests_wait_for_their_key_and_the_shared_limits() {
    let outcome = with_slow_server(
        "keyed token 1/s burst 1 + concurrency 1 wait 5s",
        "bursts 5 every 10s",
    );
    // The third one gets the permit after four seconds; the fourth would after six.
    assert_eq!((outcome.counts.admitted, outcome.counts.refused), (3, 2));
    assert_eq!(outcome.wait.max().as_secs_f64().round(), 4.0);
}

/// Three clients in an access log: one with 20 requests in a second, two with one.
fn log() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenario-log");
    std::fs::create_dir_all(&folder).expect("a folder");
    let line =
        |ip: &str| format!("{ip} - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n");
    let mut text = line("10.0.0.1").repeat(20);
    text += &line("10.0.0.2");
    text += "not a line of a log\n";
    text += &line("10.0.0.3");
    std::fs::write(folder.join("access.log"), text).expect("a file");
    folder
}

#[test]
fn a_log_is_replayed_with_a_limit_for_each_of_its_clients() {
    let mut scenario = Scenario::from_toml(
        "[[limit]]\nlimiter = 'keyed token 1/s burst 5 by ip'\n[[traffic]]\narrivals = 'log:access.log'",
    )
    .expect("valid");
    scenario.folder = log();
    let prepared = scenario
        .prepare(&mut |_| ControlFlow::Continue(()))
        .expect("a log");
    assert_eq!(prepared.logs()[0].malformed.count, 1);
    let outcome = prepared.run(&scenario.limits[0]).expect("in range");
    assert_eq!(outcome.counts.operations, 22);
    let refused = outcome
        .keys
        .iter()
        .filter(|(_, counts)| counts.attempts > counts.admitted);
    let refused: Vec<_> = refused.map(|(key, _)| prepared.key_name(key)).collect();
    assert_eq!(refused, ["10.0.0.1"]);
    scenario.traffic[0].log.strict = true;
    let error = scenario
        .prepare(&mut |_| ControlFlow::Continue(()))
        .expect_err("malformed")
        .to_string();
    assert!(error.starts_with("log access.log: line 22"), "{error}");
}

#[test]
fn sources_have_clients_of_their_own() {
    let scenario = Scenario::from_toml(
        "duration = '1s'\n[[limit]]\nlimiter = 'keyed token 1/h burst 1'\n\
         [[traffic]]\nname = 'one'\narrivals = '10/s'\n\
         [[traffic]]\nname = 'two'\narrivals = '10/s'\nkeys = 'uniform 2'",
    )
    .expect("valid");
    let prepared = scenario
        .prepare(&mut |_| ControlFlow::Continue(()))
        .expect("no log");
    let outcome = prepared.run(&scenario.limits[0]).expect("in range");
    assert_eq!(outcome.counts.admitted, 3);
    let names: Vec<_> = outcome
        .keys
        .iter()
        .map(|(key, _)| prepared.key_name(key))
        .collect();
    assert_eq!(names, ["one", "two 1", "two 2"]);
}

#[test]
fn an_error_of_a_scenario_that_was_read_names_the_file() {
    let file = log().join("empty.toml");
    std::fs::write(&file, "seed = 1").expect("a file");
    let error = Scenario::from_file(&file).expect("valid").run();
    let error = error.expect_err("nothing to run").to_string();
    let expected = format!("{}: no limit; ", file.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_log_that_cannot_be_used_says_what_to_write() {
    let folder = log();
    for (limit, arrivals, expected) in [
        ("none", "'log:missing.log'", "log missing.log: No such file"),
        ("keyed token 1/s by tenant", "'log:access.log'", "tenant"),
        ("keyed token 1/s by ip", "'5/s'", "remove 'by ip'"),
        (
            "concurrency 5 + keyed token 1/s by ip",
            "'5/s'",
            "remove 'by ip'",
        ),
        (
            "token 1/s",
            "'log:access.log'\nkeys = 'uniform 5'",
            "traffic 'traffic': a log has its own keys",
        ),
    ] {
        let text = format!("[[limit]]\nlimiter = '{limit}'\n[[traffic]]\narrivals = {arrivals}");
        let mut scenario = Scenario::from_toml(&text).expect("valid");
        scenario.folder = folder.clone();
        let error = scenario.run().expect_err(limit).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
