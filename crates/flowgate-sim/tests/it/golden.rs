//! Hashes of whole runs, which no change of the engine may move.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    Clock, ConcurrencyLimit, Gate, Keyed, KeyedLimiterConfig, LimiterConfig, ManualClock,
};
use flowgate_schedule::Schedule;
use flowgate_sim::{
    Arrivals, Contention, Distribution, Fault, FaultKind, Keys, LimiterPolicy, QueueOrder,
    Recorded, Retries, RunOutcome, Server, Share, Simulation, Traffic,
};

use crate::scenarios;

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn poisson(per_second: u64, seed: u64) -> Arrivals {
    let rate = flowgate::Quota::per_second(per_second);
    Arrivals::Scheduled(Schedule::poisson(rate, seed, per_second * 10).expect("a schedule"))
}

fn server(workers: u32) -> Server {
    Server::new(workers, Distribution::exponential(10 * MILLI))
}

fn limiter(text: &str) -> impl Fn(&ManualClock) -> LimiterPolicy {
    let config: LimiterConfig = text.parse().expect("a limiter");
    move |time| LimiterPolicy::rate(config.build_on(Clock::from(time)).expect("a limiter"))
}

fn keyed(text: &str) -> impl Fn(&ManualClock) -> LimiterPolicy {
    let config: KeyedLimiterConfig = text.parse().expect("a limiter");
    move |time| LimiterPolicy::keyed(config.build_on(time, 4_000).expect("a limiter"))
}

fn permits(limit: u32) -> impl Fn(&ManualClock) -> LimiterPolicy {
    move |time| {
        let limit = ConcurrencyLimit::builder(limit).clock(time).build();
        LimiterPolicy::concurrency(Arc::new(limit.expect("a limit")))
    }
}

fn gate(time: &ManualClock) -> LimiterPolicy {
    let quota = "150/s burst 20".parse().expect("a quota");
    let bucket = flowgate::TokenBucket::builder(quota).clock(time).build();
    let limit = ConcurrencyLimit::builder(5).clock(time).build();
    let gate = Gate::builder()
        .limit("rate", bucket.expect("a bucket"))
        .limit("slots", limit.expect("a limit"));
    LimiterPolicy::gate(Arc::new(gate.build().expect("a gate")))
}

fn keyed_gate(time: &ManualClock) -> LimiterPolicy {
    let quota = |text: &str| text.parse().expect("a quota");
    let keys = Keyed::token_bucket(quota("5/s burst 5")).clock(time);
    let limit = ConcurrencyLimit::builder(5).clock(time).build();
    let gate = Gate::builder()
        .limit("slots", limit.expect("a limit"))
        .keyed("keys", keys.capacity(4_000).expect("a limiter"));
    LimiterPolicy::keyed_gate(gate.build().expect("a gate"))
}

fn simulation(traffic: Traffic) -> Simulation {
    Simulation::new(1, 10 * SECOND).traffic(traffic)
}

fn assert_hash(
    name: &str,
    simulation: Simulation,
    policy: impl Fn(&ManualClock) -> LimiterPolicy,
    expected: &str,
) {
    let run = |simulation: &Simulation| -> RunOutcome {
        let outcome = simulation.run(name, |time| Ok::<_, Infallible>(policy(time)));
        outcome.expect("infallible")
    };
    assert_eq!(summary(&run(&simulation)), expected, "{name}");
}

/// The hash, and the counts that show where another one comes from.
fn summary(outcome: &RunOutcome) -> String {
    let counts = outcome.counts;
    format!(
        "{:016x} {} {} {} {} {} {} {}",
        outcome.hash(),
        counts.attempts,
        counts.admitted,
        counts.waited,
        counts.in_time,
        counts.late,
        counts.failed,
        counts.unfinished
    )
}

#[test]
fn runs_with_a_server_have_the_same_hash() {
    let users = |per_second| Traffic::new("users", poisson(per_second, 3));
    assert_hash(
        "no queue",
        simulation(users(300)).server(server(2).queue(0)),
        limiter("token 200/s burst 20"),
        "4471aacba493cf70 2986 2016 0 1319 0 1667 0",
    );
    let lifo = server(2)
        .queue(50)
        .order(QueueOrder::Lifo)
        .drops_expired(true)
        .delay(3 * MILLI);
    let hasty = users(300)
        .deadline(100 * MILLI)
        .retries(Retries::new(3, 20 * MILLI).budget(Share::new(0.2)));
    assert_hash(
        "lifo",
        simulation(hasty.clone()).server(lifo),
        permits(40),
        "7a6ecd801fcc3b60 3317 2637 0 1934 15 349 0",
    );
    let contention = Contention {
        sigma: 0.1,
        kappa: 0.01,
    };
    let shared = server(30).contention(contention).queue(100);
    assert_hash(
        "shared",
        simulation(hasty).server(shared),
        permits(60),
        "48b8e3b711f548af 3250 2719 0 1381 1338 267 0",
    );
    let faulty = [
        Fault::new(FaultKind::Capacity(Share::new(0.5)), SECOND, SECOND),
        Fault::new(FaultKind::Service(2.0), 3 * SECOND, SECOND),
        Fault::new(FaultKind::Pause, 5 * SECOND, 500 * MILLI),
        Fault::new(FaultKind::Outage, 7 * SECOND, SECOND),
    ];
    for (name, server, expected) in [
        (
            "faults",
            server(4),
            "4abe812e4c43334a 4745 3808 0 2604 0 382 0",
        ),
        (
            "shared faults",
            server(4).contention(contention),
            "2c386fb687c2fd35 6596 3540 0 2190 0 787 9",
        ),
    ] {
        let users = users(300).retries(Retries::new(4, 50 * MILLI));
        let simulation = faulty
            .iter()
            .fold(simulation(users).server(server), |simulation, fault| {
                simulation.fault(*fault)
            });
        assert_hash(name, simulation.drain(100 * MILLI), permits(50), expected);
    }
}

#[test]
fn runs_with_waits_have_the_same_hash() {
    let users = || Traffic::new("users", poisson(300, 5));
    let patient = |policy: LimiterPolicy| policy.wait(200 * MILLI);
    assert_hash(
        "leaky",
        simulation(users()),
        |time| patient(limiter("leaky 200/s")(time)),
        "f2558972e5fc0066 2982 2038 2037 2038 0 944 0",
    );
    assert_hash(
        "sliding",
        simulation(users().cost(2)),
        |time| patient(limiter("sliding 300/s")(time)),
        "780db25d86898914 2982 1551 1401 1551 0 1431 0",
    );
    let hasty = users()
        .deadline(150 * MILLI)
        .retries(Retries::new(3, 20 * MILLI));
    assert_hash(
        "permits",
        simulation(hasty.clone()).server(server(2)),
        |time| patient(permits(2)(time)),
        "afb2ab4bd1a046cc 2982 2067 2976 1080 987 915 0",
    );
    assert_hash(
        "gate",
        simulation(hasty.clone()).server(server(4)),
        |time| patient(gate(time)),
        "ffd4c83082de7a5a 5864 1541 1518 515 1026 1441 0",
    );
    assert_hash(
        "keyed gate",
        simulation(hasty.clone().keys(Keys::zipf(100, 1.1))).server(server(4)),
        |time| patient(keyed_gate(time)),
        "3e3b6130425adf2d 4307 1625 1877 1568 57 1357 0",
    );
    assert_hash(
        "keyed",
        simulation(hasty.keys(Keys::zipf(100, 1.1))),
        |time| patient(keyed("keyed token 5/s burst 5")(time)),
        "01e22fc0371f50d3 4730 1625 349 1625 0 1357 0",
    );
}

#[test]
fn runs_of_many_kinds_of_traffic_have_the_same_hash() {
    let closed = |users, think: &str| Arrivals::Closed {
        users,
        think: think.parse().expect("a distribution"),
    };
    let think = Traffic::new("think", closed(100, "exponential 200ms")).deadline(SECOND);
    assert_hash(
        "closed",
        simulation(think).server(server(3)),
        limiter("token 250/s burst 20"),
        "3b2e874798702eb6 4717 2516 0 2516 0 2201 0",
    );
    let recorded: Arc<[Recorded]> = (0..2_000_u64)
        .map(|n| Recorded {
            at: n.pow(2) as u32 * Duration::from_micros(2),
            key: n % 7 * 1_000_000_007,
            cost: 1 + n % 3,
        })
        .collect();
    let log = Traffic::new("log", Arrivals::Recorded(recorded));
    assert_hash(
        "log",
        simulation(log),
        keyed("keyed token 50/s burst 20"),
        "11a110807fd09326 2000 1498 0 1498 0 502 0",
    );
    let noisy = simulation(Traffic::new("tenant", poisson(50, 2)).keys(Keys::uniform(10)))
        .traffic(
            Traffic::new("noisy", poisson(400, 3))
                .cost(2)
                .retries(Retries::new(5, 10 * MILLI).heeds_retry_after(false)),
        )
        .server(server(3));
    for (text, expected) in [
        ("fixed 200/s", "6c80d0bc5a24dc8d 17400 1067 0 1067 0 3399 0"),
        (
            "segmented 200/s",
            "a0e7e9b088083363 17928 1009 0 1009 0 3457 0",
        ),
        (
            "approximate 200/s",
            "0b90d55744f45859 18352 1138 0 1138 0 3328 0",
        ),
        (
            "token 200/s; 1000/min",
            "048f04b4b8ade7a4 19047 686 0 686 0 3780 0",
        ),
    ] {
        assert_hash(text, noisy.clone(), limiter(text), expected);
    }
    let crowd =
        simulation(Traffic::new("crowd", poisson(2_000, 3)).keys(Keys::zipf(1_000_000, 1.1)));
    assert_hash(
        "crowd",
        crowd,
        keyed("keyed leaky 5/s"),
        "35fae71c6a3d43ff 19901 11342 0 11342 0 8559 0",
    );
}

/// The runs of each file in the folder `scenarios`, in the order of its limits.
const SCENARIOS: [(&str, &[&str]); 9] = [
    (
        "cold-start.toml",
        &[
            "7653cbfbe220daf0 8725 8725 0 5112 3613 0 0",
            "d918adb0236e990c 8725 7790 0 7730 60 935 0",
            "6e8c155b2cf8019d 8725 7809 1597 7706 103 916 0",
        ],
    ),
    (
        "noisy-neighbour.toml",
        &[
            "c7ee91ec63b1752e 32848 6048 0 6048 0 26800 0",
            "824c3247f2eff0e6 32848 3266 0 3266 0 29582 0",
        ],
    ),
    (
        "one-tenant-of-1000.toml",
        &[
            "d31fb1920b80ca4c 59970 42638 0 42638 0 17332 0",
            "bf2130ea9e4f50a0 59970 54137 0 54137 0 5833 0",
            "dc5a21941ed77e37 59970 27500 0 27500 0 32470 0",
        ],
    ),
    (
        "queue-0.9x.toml",
        &[
            "12c7b8b90b3dd97d 108450 108450 0 108443 7 0 0",
            "e1ec9177e6d25226 108450 108450 61067 108443 7 0 0",
            "e1ec9177e6d25226 108450 108450 61067 108443 7 0 0",
            "af4093db1f8f2084 108450 108273 60374 108266 7 177 0",
            "0241617f84c3ff44 108450 108234 60316 108196 38 216 0",
            "feb409522719d622 108450 108098 59736 108070 28 352 0",
        ],
    ),
    (
        "queue-10x.toml",
        &[
            "d12609581cdb99d9 201005 201005 0 202 21851 0 0",
            "5bab0e5ea0e9e13e 201005 20120 200985 334 19786 180885 0",
            "bf42f7cfb153889b 201005 20117 200985 19991 126 180888 0",
            "d7368c4c7110053d 201005 19999 200985 19777 222 181006 0",
            "34366f2b7158bf84 201005 20138 200985 20115 23 180867 0",
            "8d0e3bc7dac8971d 201005 19958 200985 19950 8 181047 0",
        ],
    ),
    (
        "queue-2x.toml",
        &[
            "99711d2c108207ba 39702 39702 0 397 21653 0 0",
            "e8cff65df2588ba8 39702 20133 39668 1372 18761 19569 0",
            "7a1a7b3450ce60fb 39702 20057 39668 19916 141 19645 0",
            "0203a62d8922f8d8 39702 20012 39668 19974 38 19690 0",
            "f73b7bee3488fc96 39702 20161 39668 20152 9 19541 0",
            "8f398ec5d14dcec0 39702 20022 39658 20021 1 19680 0",
        ],
    ),
    (
        "retry-storm.toml",
        &[
            "3ba3b3a9dcc98537 24406 24406 0 2746 0 5384 0",
            "f64da30762d07bda 9386 8298 0 7863 0 267 0",
            "94192d3e65e5011a 18023 9702 0 4982 0 3148 0",
        ],
    ),
    (
        "service-slows.toml",
        &[
            "a5a87f7d2c795863 12575 12575 0 3242 9333 0 0",
            "a6c3d3c9e0b661dd 12575 12570 0 3242 9328 5 0",
            "d17e613f202ea08a 12575 9776 0 9682 94 2799 0",
            "a9c78b7dd5df5741 12575 10016 0 9652 364 2559 0",
        ],
    ),
    (
        "thundering-herd.toml",
        &[
            "3a76c620190541d5 1004 740 0 740 0 264 0",
            "561d370893bc6541 1004 652 0 652 0 352 0",
            "582e0187fa558a29 1004 440 0 440 0 564 0",
        ],
    ),
];

#[test]
fn named_scenarios_have_the_same_hash() {
    for (name, expected) in SCENARIOS {
        let (_, outcomes) = scenarios::named(name);
        let summaries: Vec<String> = outcomes.iter().map(summary).collect();
        assert_eq!(summaries, expected, "{name}");
    }
    let names = SCENARIOS.map(|(name, _)| name.to_owned());
    assert_eq!(BTreeSet::from(names), scenarios::names());
}
