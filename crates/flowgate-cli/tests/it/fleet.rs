//! `flowgate fleet`, with a real store.

use std::fs;
use std::time::Duration;

use flowgate::ManualClock;
use flowgate_fleet::{Fleet, FleetLimit};
use rcgen::generate_simple_self_signed;
use serde_json::Value;

use crate::pages;
use crate::support::engine::{Engine, free_port};
use crate::support::{finished, flowgate, run};
#[cfg(target_os = "linux")]
use crate::view::on_terminal;

fn limit(engine: &Engine, name: &str, time: &ManualClock) -> FleetLimit {
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(2).clock(time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let quota = "10/day burst 40".parse().unwrap();
    fleet.limit(name, quota).build().unwrap()
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_store_with_tls_is_trusted_by_the_authorities_of_the_system() {
    let own = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("flowgate-fleet-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let certificate = write("cert.pem", own.cert.pem());
    let key = write("key.pem", own.signing_key.serialize_pem());
    let none = write("none.pem", String::new());
    let port = free_port().to_string();
    let engine = Engine::start_with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}");
    let reset = |authorities: &str| {
        let mut command = flowgate(&["fleet", "reset", &url, "api"]);
        finished(command.env("SSL_CERT_FILE", authorities).output().unwrap())
    };
    let (exit, out, err) = reset(&certificate);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    let (exit, _, err) = reset(&none);
    assert_eq!(exit, 1, "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    drop(engine);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_limit_is_shown_and_set_back() {
    let (engine, time) = (Engine::start(), ManualClock::new());
    let limit = limit(&engine, "api", &time);
    assert!(limit.ask().n(30).block().is_ok());
    let url = engine.url();
    let inspect = [
        "fleet",
        "inspect",
        &url,
        "api",
        "--quota",
        "10/day burst 40",
    ];
    let (exit, out, err) = run(&inspect);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    for expected in [
        "limit       api\nrecord      fg1:e4a86271113af0e06136c2fcf3b428fb, written ",
        "\nrate        10/day\ndebt        ",
        " of 40\nfull        in ",
        "\nnodes       1 connected\n  127.0.0.1:",
        &format!("process {}, ", std::process::id()),
    ] {
        assert!(out.contains(expected), "{expected:?} is not in {out}");
    }
    let (exit, out, _) = run(&["fleet", "reset", &url, "api"]);
    assert_eq!((exit, out.as_str()), (0, "api is full again\n"));
    // It asks again after a second.
    time.advance(Duration::from_secs(1));
    assert!(limit.ask().n(40).block().is_ok());
    let (exit, out, _) = run(&["fleet", "reset", &url, "tenant", "--key", "t-17"]);
    assert_eq!(exit, 0);
    assert!(
        out.starts_with("tenant, key t-17 is full again (it had no record"),
        "{out}"
    );
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_window_is_shown_and_set_back() {
    let (engine, time) = (Engine::start(), ManualClock::new());
    let fleet = Fleet::redis(&engine.url()).unwrap().nodes(2).clock(&time);
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let builder = fleet.window("day", "40/day".parse().unwrap());
    let limit = builder.build().unwrap();
    assert!(limit.ask().n(30).block().is_ok());
    let url = engine.url();
    let (exit, out, err) = run(&["fleet", "inspect", &url, "day"]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    for expected in [
        ", its window began ",
        "\nwindow      40/day, from its first admission\ndebt        30\navailable   10 of 40\nfull        in ",
    ] {
        assert!(out.contains(expected), "{expected:?} is not in {out}");
    }
    let (_, out, _) = run(&["fleet", "inspect", &url, "day", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&shown["rate"], &shown["available"]),
        (&"40/day".into(), &10.0.into())
    );
    assert_eq!(shown["window"], "from its first admission");
    let (exit, out, _) = run(&["fleet", "reset", &url, "day"]);
    assert_eq!((exit, out.as_str()), (0, "day is full again\n"));
    time.advance(Duration::from_secs(1));
    assert!(limit.ask().n(40).block().is_ok());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn each_field_of_its_json_is_on_its_page_and_nothing_is_written() {
    let (engine, time) = (Engine::start(), ManualClock::new());
    let limit = limit(&engine, "api", &time);
    assert!(limit.ask().n(30).block().is_ok());
    let before: String = engine
        .command("GET fg1:e4a86271113af0e06136c2fcf3b428fb")
        .unwrap();
    let url = engine.url();
    let (exit, out, err) = run(&[
        "fleet", "inspect", &url, "api", "--quota", "10/day", "--json",
    ]);
    assert_eq!(exit, 0, "{err}");
    assert_eq!(
        pages::undocumented(&out, &pages::page("fleet.md")),
        Vec::<String>::new()
    );
    let arguments = ["fleet", "watch", &url, "api", "--for", "1200ms"];
    let (exit, out, err) = run(&[&arguments[..], &["--json"]].concat());
    assert_eq!((exit, err.as_str()), (0, ""));
    let debts = out.lines().map(|line| {
        let seen: Value = serde_json::from_str(line).unwrap();
        seen["debt"].as_f64().unwrap()
    });
    let debts: Vec<f64> = debts.collect();
    assert!(
        !debts.is_empty() && debts.iter().all(|debt| (29.0..=30.0).contains(debt)),
        "{debts:?}"
    );
    let (exit, out, _) = run(&arguments);
    assert_eq!(exit, 0);
    assert!(
        out.lines()
            .all(|line| line.contains(" api: debt ") && line.ends_with(", nodes 1")),
        "{out}"
    );
    let after: String = engine
        .command("GET fg1:e4a86271113af0e06136c2fcf3b428fb")
        .unwrap();
    assert_eq!(before, after);
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn on_a_terminal_it_is_drawn_over_the_last_view_and_fits() {
    let engine = Engine::start();
    let url = engine.url();
    let mut command = flowgate(&["fleet", "watch", &url, "api", "--for", "1200ms"]);
    command.env("TERM", "xterm-256color");
    let (exit, out, drawn) = on_terminal(40, 24, command);
    assert_eq!((exit, out.as_str()), (Some(0), ""));
    // Six lines, and up again over all of them.
    assert!(drawn.contains("\r\x1b[6Alimit       api"), "{drawn:?}");
    for line in drawn.lines() {
        let text = line.split("\x1b[K").next().unwrap_or_default();
        let text = text.rsplit_once('A').map_or(text, |(_, text)| text);
        assert!(text.chars().count() < 40, "{text:?}");
    }
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn what_is_wrong_with_a_store_is_one_line() {
    let engine = Engine::start();
    let url = engine.url();
    engine
        .command::<()>("SET fg1:e4a86271113af0e06136c2fcf3b428fb 17")
        .unwrap();
    for task in ["inspect", "reset"] {
        let (exit, out, err) = run(&["fleet", task, &url, "api"]);
        assert_eq!((exit, out.as_str()), (1, ""));
        assert!(err.contains("is not a limit of a fleet"), "{err}");
    }
    engine
        .command::<()>("CONFIG SET requirepass sesame")
        .unwrap();
    let wrong = url.replace("//", "//me:nonsense@");
    for (url, expected) in [(&url, "write redis://USER:PASSWORD@"), (&wrong, "password")] {
        let (exit, _, err) = run(&["fleet", "inspect", url, "api"]);
        assert_eq!(exit, 1);
        assert!(err.contains(expected) && !err.contains("nonsense"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn wrong_arguments_are_one_line() {
    for (code, arguments, expected) in [
        (2, &["fleet"][..], "write flowgate fleet inspect"),
        (2, &["fleet", "inspect"], "<LIMIT>"),
        (
            2,
            &["fleet", "inspect", "ftp://h/", "api"],
            "write redis://HOST:PORT",
        ),
        (
            2,
            &["fleet", "inspect", "redis://h", "api", "--quota", "many"],
            "many",
        ),
        (
            2,
            &["fleet", "watch", "redis://h", "api", "--for", "5"],
            "write 5s",
        ),
        (
            2,
            &["fleet", "redis://me:sesame@h"],
            "write flowgate fleet inspect redis://…@h LIMIT",
        ),
        (
            1,
            &["fleet", "reset", "redis://127.0.0.1:1", "api"],
            "cannot be reached",
        ),
    ] {
        let (exit, out, err) = run(arguments);
        assert_eq!((exit, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn its_help_fits_and_each_flag_is_on_its_page() {
    let page = pages::page("fleet.md");
    for task in ["inspect", "reset", "watch"] {
        let (exit, help, _) = run(&["fleet", task, "--help"]);
        assert_eq!(exit, 0);
        assert!(help.contains("Exit codes of all subcommands"), "{help}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{help}"
        );
        let (options, _) = help.split_once("Exit codes").unwrap();
        for flag in options
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
        {
            let flag = flag.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            let is_shown = page.contains(&format!("`{flag}`"));
            assert!(is_shown || flag == "--help", "{flag} of {task}");
        }
    }
    let (_, help, _) = run(&["fleet", "--help"]);
    assert!(
        help.lines().all(|line| line.chars().count() <= 80),
        "{help}"
    );
}
