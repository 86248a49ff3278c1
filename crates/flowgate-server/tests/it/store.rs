//! Limits in a store that several servers share, and its outages.

use crate::rpc::{self, Client, REQUEST, RESPONSE, Reply, SHOULD_RATE_LIMIT, bytes, framed};
use crate::support::{Running, entries, now};
use flowgate::ManualClock;
use flowgate_fleet::{CutOff, Fleet, LocalStore, Overshoot};
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime, Descriptor, Undecided};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 4/day, name: users }
  - { key: site, quota: 4/day, when_cut_off: deny }
  - { key: open, quota: 1/day, when_cut_off: admit }
  - { key: shadow, quota: 1/day, when_cut_off: deny, shadow_mode: true }
  - { key: none, rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: pair, descriptors: [{ key: part, quota: 1/day }] }
";

/// A store in this process, and its clock.
struct Store {
    store: LocalStore,
    clock: ManualClock,
}

impl Store {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = LocalStore::new(&clock);
        Self { store, clock }
    }

    fn fleet(&self) -> Fleet {
        self.store.fleet().nodes(2).open().unwrap()
    }

    fn limits(&self, text: &str) -> DecideLimits {
        let config = Config::parse("test.yaml", text).unwrap();
        let time = DecisionTime::from_epoch(&self.clock);
        DecideLimits::in_store(&config, &time, &self.fleet()).unwrap()
    }

    /// One of the servers that share this store.
    fn server(&self) -> Running {
        Running::of(DecideServer::new(self.limits(LIMITS)))
    }
}

fn get(limit: &str, key: &str) -> String {
    format!("GET /auth?limit={limit}&key={key} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn c1_servers_share_a_limit_at_all_doors() {
    let store = Store::new();
    let (one, other) = (store.server(), store.server());
    let ask = b"FG.ASK users alice\r\n";
    assert!(
        one.resp(ask)
            .starts_with("*5\r\n:0\r\n:4\r\n:3\r\n:-1\r\n:21600000\r\n")
    );
    assert_eq!(status(&other.http(&get("users", "alice"))), "200");
    // What has arrived together is answered in order.
    let told = one.resp(&[&ask[..], b"PING\r\n", b"FG.ASK users bob 4\r\n", ask, ask].concat());
    let lines: Vec<_> = told
        .split("*5\r\n")
        .map(|answer| &answer[..5.min(answer.len())])
        .collect();
    assert_eq!(lines, ["", ":0\r\n:", ":0\r\n:", ":0\r\n:", ":1\r\n:"]);
    assert!(
        told.contains(":21600000\r\n+PONG\r\n*5")
            || told.contains("+PONG\r\n*5\r\n:0\r\n:4\r\n:0\r\n")
    );
    let refused = other.http(&get("users", "alice"));
    assert_eq!(status(&refused), "429");
    assert!(refused.contains("\r\nretry-after: 21600\r\n"), "{refused}");
    store.clock.advance(Duration::from_secs(21_600));
    assert_eq!(status(&other.http(&get("users", "alice"))), "200");
    let page = one.admin("/metrics");
    assert!(page.contains("\nflowgate_store_connected 1\n"), "{page}");
}

/// A request that a store does not decide is told so, and is never said to be over a limit.
#[test]
fn an_outage_is_never_a_refusal() {
    let store = Store::new();
    let server = store.server();
    store.store.stop();
    // This server's share is a half of 4.
    for expected in ["200", "200", "503", "503"] {
        let answer = server.http(&get("users", "alice"));
        assert_eq!(status(&answer), expected, "{answer}");
    }
    let answer = server.resp(b"FG.ASK users alice\r\nFG.ASK api.site a\r\nPING\r\n");
    let outage = "-ERR the store does not answer\r\n";
    assert_eq!(answer, format!("{outage}{outage}+PONG\r\n"));
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"site","value":"a"}]}]}"#;
    let length = body.len();
    let post = format!(
        "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = server.http(&post);
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(
        answer.contains("\"detail\":\"the store does not answer\""),
        "{answer}"
    );
    // gRPC's UNAVAILABLE, by which Envoy's own setting decides what an outage means.
    let ask = |descriptors: serde_json::Value| {
        let request = json!({ "domain": "api", "descriptors": descriptors });
        Client::new(server.grpc)
            .ask(request)
            .map_err(|reply| reply.status)
    };
    let descriptor = |key: &str| json!({ "entries": [{ "key": key, "value": "a" }] });
    assert_eq!(ask(json!([descriptor("site")])).unwrap_err(), Some(14));
    let several = json!([descriptor("site"), descriptor("user")]);
    assert_eq!(ask(several).unwrap_err(), Some(14));
    assert_eq!(
        ask(json!([descriptor("open")])).unwrap()["overallCode"],
        "OK"
    );
    for (limit, times) in [("api.open", 3), ("api.shadow", 3), ("api.free", 3)] {
        for _ in 0..times {
            assert_eq!(status(&server.http(&get(limit, "a"))), "200", "{limit}");
        }
    }
    let page = server.admin("/metrics");
    for line in [
        "flowgate_store_connected 0",
        "flowgate_decisions_total{rule=\"api.user\",result=\"ok\"} 2",
        "flowgate_decisions_total{rule=\"api.user\",result=\"over_limit\"} 0",
        "flowgate_decisions_total{rule=\"api.user\",result=\"undecided\"} 4",
        "flowgate_decisions_total{rule=\"api.site\",result=\"undecided\"} 4",
    ] {
        assert!(page.contains(&format!("\n{line}\n")), "{line}: {page}");
    }
    // A server whose store is away is still of use.
    assert_eq!(status(&server.admin("/readyz")), "200");
    store.store.start();
    // It connects again by itself.
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while status(&server.http(&get("api.site", "b"))) != "200" {
        assert!(std::time::Instant::now() < until, "it stays away");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks a server whose store is slow. Returns the answer, and for how long the server has waited for the store.
fn ask_in_time(
    store: &Store,
    server: &Running,
    fields: &[(&str, &str)],
    descriptors: serde_json::Value,
) -> (Reply, Duration) {
    let request = json!({ "domain": "api", "descriptors": &descriptors });
    let request = framed(&bytes(REQUEST, request));
    thread::scope(|scope| {
        let asks =
            scope.spawn(|| Client::new(server.grpc).call(SHOULD_RATE_LIMIT, fields, &request));
        let until = Instant::now() + Duration::from_secs(60);
        // The clock stands still until the server waits.
        let end = loop {
            if let Some(end) = store.clock.next_wake() {
                break end;
            }
            assert!(
                Instant::now() < until && !asks.is_finished(),
                "{descriptors}"
            );
            thread::yield_now();
        };
        let waited = end.saturating_duration_since(store.clock.now());
        store.clock.set(end);
        (asks.join().unwrap(), waited)
    })
}

#[test]
fn a_request_is_decided_within_the_time_of_its_client_although_the_store_is_slow() {
    let store = Store::new();
    let fleet = store.store.fleet().nodes(2);
    let fleet = fleet.timeout(Duration::from_secs(60)).open().unwrap();
    let config = Config::parse("test.yaml", LIMITS).unwrap();
    let time = DecisionTime::from_epoch(&store.clock);
    let limits = DecideLimits::in_store(&config, &time, &fleet).unwrap();
    let server = Running::of(DecideServer::new(limits));
    let of = |key: &str, hits: u64| json!({ "entries": [{ "key": key, "value": "a" }], "hitsAddend": hits.to_string() });
    let ask = |fields: &[(&str, &str)], descriptors| {
        let (reply, waited) = ask_in_time(&store, &server, fields, descriptors);
        let message = reply.messages.first();
        let answer = message.map(|message| rpc::json(RESPONSE, message));
        (reply.status, answer, waited)
    };
    // The store answers in time.
    let free =
        Client::new(server.grpc).ask(json!({ "domain": "api", "descriptors": [of("user", 1)] }));
    assert_eq!(free.unwrap().get("dynamicMetadata"), None);
    store.store.pause();

    // Ten ms are for the ways.
    let second = Duration::from_secs(1);
    let ways = Duration::from_millis(10);
    let (status, answer, waited) = ask(&[("grpc-timeout", "9S")], json!([of("user", 2)]));
    assert!(
        (5 * second..=9 * second - ways).contains(&waited),
        "{waited:?}"
    );
    let answer = answer.unwrap();
    assert_eq!((status, &answer["overallCode"]), (Some(0), &json!("OK")));
    assert_eq!(
        answer["dynamicMetadata"],
        json!({ "degraded": { "users": "1/2" } })
    );
    // No longer than the longest time of a command.
    for fields in [&[("grpc-timeout", "1H")][..], &[]] {
        let (status, answer, waited) = ask(fields, json!([of("open", 1), of("free", 1)]));
        assert!(
            (6 * second..=10 * second - ways).contains(&waited),
            "{waited:?}"
        );
        let degraded = json!({ "degraded": { "api.open": "admit" } });
        assert_eq!(
            (status, &answer.unwrap()["dynamicMetadata"]),
            (Some(0), &degraded)
        );
    }
    // What this server may not admit alone is no refusal.
    for key in ["user", "site"] {
        let (status, answer, _) = ask(&[("grpc-timeout", "9S")], json!([of(key, 1)]));
        assert_eq!((status, answer), (Some(14), None), "{key}");
    }
    let (status, answer, _) = ask(&[], json!([of("shadow", 1)]));
    let degraded = json!({ "degraded": { "api.shadow": "deny" } });
    assert_eq!(
        (status, &answer.unwrap()["dynamicMetadata"]),
        (Some(0), &degraded)
    );
    // Several limits are decided together.
    let (status, answer, _) = ask(&[], json!([of("open", 1), of("site", 1)]));
    assert_eq!((status, answer), (Some(14), None));
    store.store.resume();
    let site = json!({ "domain": "api", "descriptors": [of("site", 1)] });
    let answer = Client::new(server.grpc).ask(site).unwrap();
    assert_eq!(answer.get("dynamicMetadata"), None);
}

#[test]
fn what_a_store_cannot_keep_is_told_with_its_place() {
    let store = Store::new();
    let time = DecisionTime::from_epoch(&store.clock);
    let problem = |fleet: &Fleet, limit: &str| {
        let text = format!("domain: api\ndescriptors:\n  - {{ key: user, {limit} }}\n");
        let config = Config::parse("a.yaml", &text).unwrap();
        let built = DecideLimits::in_store(&config, &time, fleet);
        built.map(drop).unwrap_err().to_string()
    };
    let fleet = store.fleet();
    for (limit, what) in [
        (
            "quota: 1/s, algorithm: leaky",
            "a store has no limit of the algorithm leaky: write token, fixed or aligned, or run without --store",
        ),
        (
            "quota: 1/s; 5/day",
            "a limit in a store has one quota: write two descriptors, or run without --store",
        ),
        (
            "quota: 1/s, allow_override: true",
            "a limit in a store has one quota for all keys: remove `allow_override`, or run without --store",
        ),
    ] {
        assert_eq!(problem(&fleet, limit), format!("a.yaml:3:5: {what}"));
    }
    let leased = "quota: 1000/s burst 1000, mode: leased, overshoot";
    assert_eq!(
        problem(&fleet, &format!("{leased}: 19")),
        "a.yaml:3:5: leases cannot keep this overshoot: write `overshoot: 20` or more tokens, or `mode: strict`"
    );
    let alone = store.store.fleet().open().unwrap();
    assert!(problem(&alone, "quota: 1/s").contains("add --nodes N, or write `when_cut_off: deny`"));
    for (keys, what) in [
        ("when_cut_off: deny", "`when_cut_off`"),
        ("mode: leased, overshoot: 50%", "`mode: leased`"),
    ] {
        let text = format!("{{domain: api, descriptors: [{{key: user, quota: 1/s, {keys}}}]}}");
        let config = Config::parse("a.yaml", &text).unwrap();
        let problem = DecideLimits::new(&config, &time).unwrap_err().to_string();
        let what = format!("{what} is for limits in a store: remove it, or run with --store");
        assert!(problem.ends_with(&what), "{problem}");
    }
}

const LEASED: &str = "
domain: api
descriptors:
  - { key: user, quota: 1000/s burst 1000, when_cut_off: deny, mode: leased, overshoot: 20%, name: users }
";

#[test]
fn c1_a_leased_limit_is_decided_without_the_store_within_its_overshoot() {
    let store = Store::new();
    let servers = [
        LEASED,
        &LEASED.replace("mode: leased, overshoot: 20%, ", ""),
    ]
    .map(|text| Running::of(DecideServer::new(store.limits(text))));
    // The manual clock stands still: nothing flows in.
    let admitted = |server: &Running, times: usize| {
        let told = server.resp("FG.ASK users a\r\n".repeat(times).as_bytes());
        told.matches("*5\r\n:0\r\n:1000\r\n").count()
    };
    let [leased, strict] = &servers;
    assert_eq!(admitted(leased, 500), 500);
    // What it holds in advance is not the other server's.
    let others = admitted(strict, 1_000);
    assert!((400..500).contains(&others), "{others}");
    // It decides without the store, and the other one does not.
    store.store.stop();
    assert_eq!(admitted(strict, 1), 0);
    assert_eq!(admitted(leased, 500), 500 - others);
}

#[test]
fn a_reload_changes_the_mode_or_the_quota_of_a_limit_in_a_store() {
    let store = Store::new();
    let server = Running::of(DecideServer::new(store.limits(LEASED)));
    let reload = |text: &str| {
        let config = Config::parse("b.yaml", text).unwrap();
        let reloaded = server.reloader.reload(&config);
        reloaded.map_err(|problem| problem.to_string())
    };
    let admits = |limit: &str| {
        let told = server.resp(b"FG.ASK users a\r\n");
        assert!(
            told.starts_with(&format!("*5\r\n:0\r\n:{limit}\r\n")),
            "{told}"
        );
    };
    admits("1000");
    let strict = LEASED.replace("mode: leased, overshoot: 20%, ", "");
    let large = |text: &str| text.replace("burst 1000", "burst 2000");
    assert_eq!(
        reload(&large(&strict)).unwrap_err(),
        "b.yaml:4:5: `quota` cannot change together with `mode` or `overshoot` while servers run: change one, and then the other"
    );
    admits("1000");
    reload(&strict).unwrap();
    reload(&large(&strict)).unwrap();
    admits("2000");
    reload(&large(LEASED)).unwrap();
    admits("2000");
    // Leases of a smaller burst cannot keep 20% of it.
    let small = LEASED.replace("burst 1000", "burst 10");
    let problem = reload(&small).unwrap_err();
    assert!(
        problem.contains("write `overshoot: 20` or more tokens"),
        "{problem}"
    );
    admits("2000");
    reload(LEASED).unwrap();
    admits("1000");
}

#[test]
fn a_request_takes_from_all_limits_of_a_store_or_from_none() {
    let store = Store::new();
    let limits = store.limits(LIMITS);
    let [user, site, shadow, none, free] =
        ["user=a", "site=a", "shadow=a", "none=a", "free=a"].map(entries);
    let of = |entries, hits| Descriptor {
        entries,
        hits: Some(hits),
        ..Descriptor::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let decide = |descriptors: &[Descriptor<'_>]| {
        let decision = runtime.block_on(limits.decide("api", descriptors, 1));
        let decision = decision.unwrap();
        let statuses = decision.statuses.iter();
        let statuses = statuses.map(|status| (status.is_over, status.remaining));
        (decision.is_over, statuses.collect::<Vec<_>>())
    };
    let all = |units| decide(&[of(&user, 1), of(&site, units), of(&shadow, 1), of(&free, 1)]);
    let free = (false, u32::MAX.into());
    let taken = |user, site| (false, vec![(false, user), (false, site), (false, 0), free]);
    assert_eq!(all(3), taken(3, 1));
    // The site refuses, and the user loses nothing. The shadow rule refuses nothing.
    let refused = (true, vec![(false, 3), (true, 1), (false, 0), free]);
    assert_eq!(all(2), refused);
    assert_eq!(all(1), taken(2, 0));
    // A rule that admits nothing needs no store.
    assert!(decide(&[of(&user, 1), of(&none, 1)]).0);
    assert_eq!(decide(&[of(&user, 2)]).1, [(false, 0)]);
    store.store.stop();
    let others = ["site=b", "user=b"].map(entries);
    let both = [of(&others[0], 1), of(&others[1], 1)];
    let undecided = runtime.block_on(limits.decide("api", &both, 1));
    assert_eq!(undecided.unwrap_err(), Undecided::Outage);
}

#[test]
fn what_cannot_be_asked_yet_is_told() {
    let store = Store::new();
    let limits = store.limits(LIMITS);
    let user = entries("user=a");
    let refund = [Descriptor {
        entries: &user,
        is_refund: true,
        ..Descriptor::default()
    }];
    let refused = now(limits.decide("api", &refund, 1)).unwrap_err();
    assert_eq!(refused, Undecided::Refund);
    let server = store.server();
    let told = server.resp(b"CL.THROTTLE a 1 1 60\r\n");
    assert!(
        told.starts_with("-ERR CL.THROTTLE is in the memory of one server; "),
        "{told}"
    );
    // A look takes nothing.
    assert!(
        server
            .resp(b"FG.ASK users b 0\r\n")
            .starts_with("*5\r\n:0\r\n:4\r\n:4\r\n")
    );
}

#[test]
fn c7_keys_of_several_values_do_not_collide() {
    let store = Store::new();
    let limits = store.limits(LIMITS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for (descriptor, is_over) in [
        ("pair=ab part=c", false),
        ("pair=a part=bc", false),
        ("pair=abc part=", false),
        ("pair= part=abc", false),
        ("pair=ab part=c", true),
    ] {
        let entries = entries(descriptor);
        let descriptors = [Descriptor {
            entries: &entries,
            ..Descriptor::default()
        }];
        let decision = runtime
            .block_on(limits.decide("api", &descriptors, 1))
            .unwrap();
        assert_eq!(decision.is_over, is_over, "{descriptor}");
    }
}

#[test]
fn c1_a_reload_keeps_what_was_taken_from_the_store() {
    let store = Store::new();
    let server = store.server();
    let ask = || server.resp(b"FG.ASK users a\r\n").starts_with("*5\r\n:0");
    assert!(ask() && ask() && ask());
    for (quota, more) in [("4/day", 1), ("6/day", 2)] {
        let config = Config::parse("b.yaml", &LIMITS.replacen("4/day", quota, 1)).unwrap();
        server.reloader.reload(&config).unwrap();
        assert_eq!((0..9).filter(|_| ask()).count(), more, "{quota}");
        // What was refused was known here for a second.
        store.clock.advance(Duration::from_secs(1));
    }
}

const WINDOWS: &str = "
domain: api
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 3, name: users } }
  - { key: first, quota: 3/min, algorithm: fixed }
  - { key: aligned, quota: 3/min, algorithm: aligned }
";

#[test]
fn c1_servers_share_windows_by_the_clock_of_the_store() {
    let store = Store::new();
    let [one, other] = [(); 2].map(|()| Running::of(DecideServer::new(store.limits(WINDOWS))));
    // 20 s before the end of a minute.
    store.clock.advance(Duration::from_secs(40));
    let admitted = |limit: &str| {
        let asked = (0..6).map(|time| if time % 2 == 0 { &one } else { &other });
        let ask = format!("FG.ASK {limit} a\r\n");
        asked
            .filter(|server| {
                server
                    .resp(ask.as_bytes())
                    .starts_with("*5\r\n:0\r\n:3\r\n")
            })
            .count()
    };
    for limit in ["users", "api.first", "api.aligned"] {
        assert_eq!(admitted(limit), 3, "{limit}");
    }
    let told = one.resp(b"FG.ASK users a\r\n");
    assert_eq!(told, "*5\r\n:1\r\n:3\r\n:0\r\n:20000\r\n:20000\r\n");
    store.clock.advance(Duration::from_secs(20));
    for (limit, expected) in [("users", 3), ("api.first", 0), ("api.aligned", 3)] {
        assert_eq!(admitted(limit), expected, "{limit}");
    }
    // The window that began with a request ends a minute after it.
    store.clock.advance(Duration::from_secs(40));
    assert_eq!(admitted("api.first"), 3);
}

#[test]
fn c1_a_reload_changes_windows_of_the_store_and_not_their_kind() {
    let store = Store::new();
    let server = Running::of(DecideServer::new(store.limits(WINDOWS)));
    let ask = || server.resp(b"FG.ASK users a\r\n").starts_with("*5\r\n:0");
    assert!(ask() && ask() && ask() && !ask());
    let reload = |text: &str| {
        let config = Config::parse("b.yaml", text).unwrap();
        server
            .reloader
            .reload(&config)
            .map_err(|problem| problem.to_string())
    };
    // A mistake anywhere changes nothing, and a quota that cannot be kept is told where it is.
    let more = WINDOWS.replace("requests_per_unit: 3", "requests_per_unit: 5");
    let wrong = more.replace("algorithm: aligned", "algorithm: token");
    assert_eq!(
        reload(&wrong).unwrap_err(),
        "b.yaml:6:5: a limit in a store cannot become another kind of limit while servers run: give it another key, or restart them"
    );
    let large = more.replace(
        "quota: 3/min, algorithm: aligned",
        "quota: 9100000000000000/min, algorithm: aligned",
    );
    let problem = reload(&large).unwrap_err();
    assert!(problem.starts_with("b.yaml:6:5: "), "{problem}");
    store.clock.advance(Duration::from_secs(1));
    assert!(!ask());
    reload(&more).unwrap();
    assert!(ask() && ask() && !ask());
    // Who decides in an outage can change together with the number.
    let deny = WINDOWS
        .replace("requests_per_unit: 3", "requests_per_unit: 6")
        .replace("name: users } }", "name: users }, when_cut_off: deny }");
    reload(&deny).unwrap();
    store.clock.advance(Duration::from_secs(1));
    assert!(ask() && !ask());
    store.store.stop();
    store.clock.advance(Duration::from_secs(60));
    let told = server.resp(b"FG.ASK users a\r\n");
    assert_eq!(told, "-ERR the store does not answer\r\n");
}

/// A program that shares the fleet may have leases of the same limit that the new quota does not allow.
#[test]
fn a_quota_that_a_limit_of_the_same_name_cannot_keep_changes_nothing() {
    let fleet = Fleet::local().open().unwrap();
    let text = "{domain: api, descriptors: [{key: a, quota: 7/day, when_cut_off: deny}, {key: user, quota: 1000/s burst 1000, when_cut_off: deny}, {key: z, quota: 7/day, when_cut_off: deny}]}";
    let config = |text: &str| Config::parse("test.yaml", text).unwrap();
    let limits = DecideLimits::in_store(&config(text), &DecisionTime::system(), &fleet).unwrap();
    let own = fleet.limit("api.user", "1000/s burst 1000".parse().unwrap());
    let own = own
        .when_cut_off(CutOff::Deny)
        .leased(Overshoot::tokens(500));
    let own = own.build().unwrap();
    let faster = text.replace("7/day", "9/day").replace("1000/s", "100000/s");
    let problem = limits.reloaded(&config(&faster)).unwrap_err().to_string();
    assert!(
        problem.starts_with("api.user: leases cannot keep"),
        "{problem}"
    );
    assert_eq!(own.quota().to_string(), "1000/s burst 1000");
    for id in ["api.a", "api.z"] {
        let same = fleet.keyed(id, "7/day".parse().unwrap());
        assert!(same.when_cut_off(CutOff::Deny).build().is_ok(), "{id}");
    }
}
