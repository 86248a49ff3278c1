//! `flowgate serve`: that it guards as it says, and is wrong as it says.

use std::sync::Barrier;
use std::thread;

use crate::support::{Client, Serve, field, run};

#[cfg(unix)]
#[test]
fn it_says_what_it_guards_and_what_became_of_requests() {
    let serve = Serve::start(
        "token 1/h burst 3",
        &["--fault", "nodes=2", "--key-header", "x-key"],
    );
    assert!(
        serve.line.ends_with(
            "/, token 1/h burst 3 for each x-key, with nodes=2; Ctrl-C ends the server\n"
        ),
        "{}",
        serve.line
    );
    let mut client = serve.connect();
    assert_eq!(client.get("x-key: a\r\n").unwrap().0, 200);
    assert_eq!(client.get("").unwrap().0, 400, "without a key");
    let (exit, last) = serve.interrupt();
    assert_eq!(exit, Some(0));
    assert_eq!(last, "admitted 1, refused 0, dropped 0\n");
}

#[test]
fn c1_every_limiter_admits_what_it_says() {
    for (limiter, admitted) in [
        ("token 1/h burst 3", 3),
        ("leaky 1/h", 1),
        ("sliding 4/h", 4),
        ("segmented 4/h", 4),
        ("fixed 4/h", 4),
        ("approximate 4/h", 4),
        ("aligned 4/y", 4),
        ("concurrency 1", 10),
        ("queue 1000/s burst 2", 10),
        ("none", 10),
    ] {
        let serve = Serve::start(limiter, &[]);
        let statuses = serve.connect().statuses(10);
        let yes = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(yes, admitted, "{limiter}: {statuses:?}");
        let no = statuses.iter().filter(|status| **status == 429).count();
        assert_eq!(yes + no, 10, "{limiter}: {statuses:?}");
    }
}

#[test]
fn a_queue_lets_wait_as_many_as_it_holds() {
    let serve = Serve::start("queue 2/s burst 3", &[]);
    let barrier = Barrier::new(6);
    let mut statuses: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|_| {
                let mut client = serve.connect();
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    client.get("").unwrap().0
                })
            })
            .collect();
        asking
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    });
    statuses.sort_unstable();
    // One goes immediately, two wait; where somebody comes late, half a second later, there is another place.
    assert_eq!(statuses[..3], [200, 200, 200]);
    assert_eq!(statuses[5], 429);
}

#[test]
fn c3_refusals_say_when_to_come_again() {
    let refused = |arguments: &[&str]| {
        let serve = Serve::start("token 1/h burst 1", arguments);
        let mut client = serve.connect();
        assert_eq!(client.get("").unwrap().0, 200);
        client.get("").unwrap()
    };
    let (status, head) = refused(&[]);
    assert_eq!(status, 429);
    assert_eq!(field(&head, "retry-after"), Some("3600"), "{head}");
    let standing = field(&head, "ratelimit").unwrap_or_default();
    assert!(
        standing.starts_with("\"default\";r=0;t=3600;t_us=3599"),
        "{head}"
    );
    let (status, head) = refused(&["--status", "503", "--fields", "legacy"]);
    assert_eq!(status, 503);
    assert_eq!(field(&head, "x-ratelimit-remaining"), Some("0"));
    assert_eq!(field(&head, "ratelimit"), None);
    let (_, head) = refused(&["--fields", "none"]);
    assert_eq!(field(&head, "retry-after"), Some("3600"));
    assert!(!head.contains("ratelimit"), "{head}");
}

#[test]
fn each_key_has_a_limit_of_its_own() {
    let serve = Serve::start("token 1/h burst 1", &["--key-header", "x-key"]);
    let mut client = serve.connect();
    let mut get = |key: &str| client.get(&format!("x-key: {key}\r\n")).unwrap().0;
    assert_eq!(
        [get("a"), get("b"), get("a"), get("b")],
        [200, 200, 429, 429]
    );
}

#[test]
fn each_fault_does_what_it_says() {
    let once = |fault: &str, count| {
        Serve::start("token 1/h burst 4", &["--fault", fault])
            .connect()
            .statuses(count)
    };
    assert_eq!(once("error=100%", 6), [500, 500, 500, 500, 429, 429]);
    assert_eq!(once("error=50%", 4), [200, 500, 200, 500]);
    assert_eq!(
        once("drop=50%", 9),
        [200],
        "the second is closed without an answer"
    );

    let early = Serve::start("token 1/h burst 1", &["--fault", "early-retry-after=10s"]);
    let mut client = early.connect();
    client.get("");
    let (_, head) = client.get("").unwrap();
    let told: u64 = field(&head, "retry-after").unwrap().parse().unwrap();
    assert!((3500..3590).contains(&told), "{head}");
    assert_eq!(
        field(&head, "ratelimit"),
        Some(&*format!("\"default\";r=0;t={told}"))
    );

    let nodes = Serve::start("token 1/h burst 2", &["--fault", "nodes=2"]);
    let admitted = [nodes.connect(), nodes.connect(), nodes.connect()].map(|mut client| {
        let statuses = client.statuses(2);
        statuses.iter().filter(|status| **status == 200).count()
    });
    assert_eq!(admitted, [2, 2, 0]);

    let ban = Serve::start("token 100/s burst 1", &["--fault", "ban=1"]);
    let mut client = ban.connect();
    // However slowly these come, one is refused before long.
    let refused = (0..10_000).find_map(|_| client.get("").filter(|(status, _)| *status == 429));
    assert!(refused.is_some());
    let (status, head) = client.get("").unwrap();
    assert_eq!(status, 429);
    let wait: u64 = field(&head, "retry-after").unwrap().parse().unwrap();
    assert!((2..=60).contains(&wait), "{head}");
}

#[test]
fn a_race_lets_through_all_who_come_at_once() {
    let serve = Serve::start(
        "token 1/h burst 1",
        &["--fault", "race", "--key-header", "x-key"],
    );
    let mut clients: Vec<_> = (0..8).map(|_| serve.connect()).collect();
    // Where the machine is so busy that they do not come concurrently, again with another key.
    let most = (0..50).map(|round| {
        let key = format!("x-key: {round}\r\n");
        let barrier = Barrier::new(clients.len());
        let ask = |client: &mut Client| {
            barrier.wait();
            client.get(&key).unwrap().0 == 200
        };
        thread::scope(|scope| {
            let asking: Vec<_> = clients
                .iter_mut()
                .map(|client| scope.spawn(|| ask(client)))
                .collect();
            let admitted = asking.into_iter().map(|asked| asked.join().unwrap());
            admitted.filter(|yes| *yes).count()
        })
    });
    assert!(most.into_iter().any(|admitted| admitted > 1));
    let mut client = serve.connect();
    let one_by_one = [(); 3].map(|()| client.get("x-key: alone\r\n").unwrap().0);
    assert_eq!(one_by_one, [200, 429, 429]);
}

#[test]
fn bad_arguments_are_answered_in_one_line() {
    for (arguments, expected) in [
        (
            &["--limiter", "bucket 5/s"][..],
            "not a limiter: write one of token",
        ),
        (&["--limiter", "5/s"], "write 'token 5/s'"),
        (&["--fault", "slow"], "no such fault: write race"),
        (&["--fault", "late-reset"], "needs a fixed window"),
        (
            &["--limiter", "none", "--fault", "nodes=2"],
            "needs a limiter",
        ),
        (&["--listen", "here"], "write 127.0.0.1:8080"),
        (&["--status", "200"], "write 429 or 503"),
        (&["--body", "99999999999"], "99999999999"),
    ] {
        let (exit, out, err) = run(&[&["serve"], arguments].concat());
        assert_eq!(exit, 2, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(out.is_empty());
    }
    let taken = Serve::start("none", &[]);
    let address = taken
        .url
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let (exit, _, err) = run(&["serve", "--listen", address]);
    assert_eq!(exit, 1, "{err}");
    assert!(err.contains("cannot listen on 127.0.0.1:"), "{err}");
}
