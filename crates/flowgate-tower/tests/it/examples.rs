//! The examples do what they say.

#[path = "../../examples/adaptive_server.rs"]
mod adaptive_server;
#[path = "../../examples/axum_tenants.rs"]
mod axum_tenants;
#[path = "../../examples/paid_api.rs"]
mod paid_api;
#[path = "../../examples/replicas.rs"]
mod replicas;
#[path = "../../examples/tonic_gate.rs"]
mod tonic_gate;

use std::process::{Command, Stdio};

#[tokio::test]
async fn each_tenant_has_its_own_limit_and_a_reload_changes_it() {
    let lines = axum_tenants::run().await.expect("it runs");
    assert!(lines[0].ends_with("health 200  hello"), "{lines:#?}");
    assert!(lines[1].contains("orders 400  "), "{lines:#?}");
    let statuses = |lines: &[String], tenant: &str| {
        let its = lines.iter().filter(|line| line.starts_with(tenant));
        let is_ok = |line: &&String| line.contains(" 200  hello");
        let (ok, refused): (Vec<_>, Vec<_>) = its.partition(is_ok);
        assert!(
            refused.iter().all(|line| line.contains(" 429  {")),
            "{refused:#?}"
        );
        (ok.len(), refused.len())
    };
    let (before, after) = lines[2..].split_at(14);
    assert_eq!(
        (statuses(before, "acme"), statuses(before, "gold")),
        ((3, 4), (6, 1))
    );
    // Of 5, 3 are taken, and of 10, 6 and up to a sixteenth of them.
    assert_eq!(
        (statuses(after, "acme"), statuses(after, "gold")),
        ((2, 5), (3, 4))
    );
}

/// How many are served depends on the machine.
#[tokio::test]
async fn an_adaptive_server_answers_every_request() {
    let lines = adaptive_server::run(400).await.expect("it runs");
    for (line, (level, sent)) in lines
        .iter()
        .zip([("payment", 80), ("user", 120), ("batch", 200)])
    {
        assert!(
            line.starts_with(level) && line.ends_with(&format!(" of {sent}")),
            "{line}"
        );
    }
    assert!(lines[3].starts_with("limit"), "{lines:?}");
}

#[tokio::test]
async fn a_grpc_client_learns_which_limit_refused_and_does_not_wait_in_vain() {
    let lines = tonic_gate::run().await.expect("it runs");
    let [busy, over] = &lines[..] else {
        panic!("{lines:?}")
    };
    let expected = "Unavailable: all permits of the limit `in flight` are in use";
    assert_eq!(busy, expected);
    // Some milliseconds of the 20 minutes may have passed.
    let expected = "ResourceExhausted: over the limit `calls`; retry after 1";
    assert!(over.starts_with(expected), "{over}");
}

/// 10 per second, and 1,000 per day, over a restart and a `Retry-After`; and no time is lost.
#[tokio::test]
async fn c1_c2_a_paid_api_is_asked_for_all_it_allows() {
    let times = paid_api::run().await.expect("it runs");
    assert_eq!(times.len(), 1_500);
    let distance = |n: usize| ((times[n] - times[n - 1]) * 1e6).round() as u64;
    // The overload, the restart, and the night. The second day begins as late as the restart took: the time between is
    // not known to have passed.
    assert_eq!([300, 750].map(distance), [120_000_000, 1_000_000]);
    assert!(
        (86_400.0..86_402.0).contains(&times[1_000]),
        "{}",
        times[1_000]
    );
    let others = (1..1_500).filter(|n| ![300, 750, 1_000].contains(n));
    let wrong: Vec<_> = others.filter(|n| distance(*n) != 100_000).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// In a process of its own, a replica; in this one, nothing.
#[tokio::test]
async fn a_replica() {
    if std::env::var_os("FLOWGATE_REPLICA").is_some() {
        replicas::serve().await.expect("it serves");
    }
}

#[tokio::test]
async fn c1_replicas_keep_a_limit_that_is_split() {
    let mut replica = Command::new(std::env::current_exe().expect("a path"));
    replica.args(["examples::a_replica", "--exact", "--nocapture"]);
    replica.env("FLOWGATE_REPLICA", "1").stdout(Stdio::null());
    let admitted = replicas::run(&mut replica).await.expect("it runs");
    // Of 40; one of four has a quarter.
    assert_eq!(admitted, [40, 10]);
}

#[test]
fn the_programs_are_short() {
    let programs = [
        include_str!("../../examples/adaptive_server.rs"),
        include_str!("../../examples/axum_tenants.rs"),
        include_str!("../../examples/paid_api.rs"),
        include_str!("../../examples/replicas.rs"),
        include_str!("../../examples/tonic_gate.rs"),
    ];
    assert!(programs.iter().all(|program| program.lines().count() <= 60));
}
