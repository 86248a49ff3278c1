//! What is decided, on a clock that the test sets.

use crate::support::{Bench, entries, now};
use flowgate_server::{Descriptor, Unknown};
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

const TWO_LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 2/min, name: users }
  - { key: site, quota: 3/min }
";

#[test]
fn c1_all_descriptors_or_none() {
    let bench = Bench::new(TWO_LIMITS);
    let both = ["user=alice", "site=a"];
    let over: Vec<_> = (0..3)
        .map(|_| bench.ask("api", &both, 1, |it| it.is_over))
        .collect();
    assert_eq!(over, [false, false, true]);
    // Who refuses, for how long, and that nothing was taken from the other limit.
    bench.ask("api", &both, 1, |decision| {
        let over: Vec<_> = decision
            .statuses
            .iter()
            .map(|status| status.is_over)
            .collect();
        assert_eq!(over, [true, false]);
        let left: Vec<_> = decision
            .statuses
            .iter()
            .map(|status| status.remaining)
            .collect();
        assert_eq!(left, [0, 1]);
        assert_eq!(decision.retry_after(), Some(Duration::from_secs(30)));
    });
    bench.clock.advance(Duration::from_secs(30));
    assert!(!bench.ask("api", &both, 1, |it| it.is_over));
}

#[test]
fn c1_one_key_asked_twice_counts_twice() {
    let bench = Bench::new(TWO_LIMITS);
    let twice = ["user=alice", "user=alice"];
    assert!(!bench.ask("api", &twice, 1, |it| it.is_over));
    assert!(bench.ask("api", &["user=alice"], 1, |it| it.is_over));
    // One token: the second of the pair fails, and the first is given back.
    bench.clock.advance(Duration::from_secs(30));
    assert!(bench.ask("api", &twice, 1, |it| it.is_over));
    assert!(!bench.ask("api", &["user=alice"], 1, |it| it.is_over));
}

#[test]
fn hits_of_zero_only_look() {
    let bench = Bench::new(TWO_LIMITS);
    for _ in 0..5 {
        bench.ask("api", &["user=alice"], 0, |decision| {
            assert!(!decision.is_over);
            assert_eq!(decision.statuses[0].remaining, 2);
        });
    }
    assert!(
        bench.ask("api", &["user=alice"], 3, |it| it.is_over),
        "more than ever fits"
    );
    assert_eq!(bench.admitted("api", "user=alice", 5), 2);
    assert!(!bench.ask("api", &["user=alice"], 0, |it| it.is_over));
}

#[test]
fn a_descriptor_has_its_own_hits() {
    let bench = Bench::new(TWO_LIMITS);
    let (user, site) = (entries("user=alice"), entries("site=a"));
    let descriptors = [
        Descriptor {
            entries: &user,
            hits: Some(2),
            ..Descriptor::default()
        },
        Descriptor {
            entries: &site,
            ..Descriptor::default()
        },
    ];
    let decision = now(bench.limits.decide("api", &descriptors, 1)).unwrap();
    let left: Vec<_> = decision
        .statuses
        .iter()
        .map(|status| status.remaining)
        .collect();
    assert_eq!(left, [0, 2]);
}

#[test]
fn keys_do_not_collide_by_joining() {
    let bench = Bench::new(
        "
domain: api
descriptors:
  - key: a
    descriptors:
      - key: b
        quota: 1/h
  - key: ab
    descriptors:
      - key: b
        quota: 1/h
",
    );
    for descriptor in [
        "a=1_2 b=3",
        "a=1 b=2_3",
        "a=12 b=3",
        "a=1 b=23",
        "ab=1 b=23",
        "a= b=123",
        "a=123 b=",
    ] {
        assert_eq!(bench.admitted("api", descriptor, 3), 1, "{descriptor}");
    }
}

#[test]
fn c7_values_are_separate_limits() {
    let bench = Bench::new(TWO_LIMITS);
    for user in 0..1000 {
        assert_eq!(
            bench.admitted("api", &format!("user={user}"), 4),
            2,
            "{user}"
        );
    }
}

#[test]
fn a_shadow_rule_counts_and_never_refuses() {
    let bench = Bench::new(
        "
domain: api
descriptors:
  - { key: user, quota: 1/min, shadow_mode: true }
  - { key: site, quota: 3/min }
",
    );
    let both = ["user=alice", "site=a"];
    for (index, shadow) in [false, true, true].into_iter().enumerate() {
        bench.ask("api", &both, 1, |decision| {
            assert!(!decision.is_over, "{index}");
            assert_eq!(decision.statuses[0].is_over_in_shadow, shadow, "{index}");
        });
    }
    assert!(bench.ask("api", &both, 1, |it| it.is_over));
    // A refused request takes nothing from the shadow rule either.
    bench.clock.advance(Duration::from_secs(60));
    bench.ask("api", &["site=a"], 3, |decision| assert!(!decision.is_over));
    assert!(bench.ask("api", &both, 1, |it| it.is_over));
    assert_eq!(
        bench.ask("api", &["user=alice"], 0, |it| it.statuses[0].remaining),
        1
    );
}

#[test]
fn two_quotas_and_windows_are_algorithms() {
    let bench = Bench::new(
        "
domain: api
descriptors:
  - { key: two, quota: 5/s; 7/h }
  - { key: leaky, quota: 1/s, algorithm: leaky }
  - { key: fixed, quota: 3/min, algorithm: fixed }
  - { key: aligned, quota: 3/min, algorithm: aligned }
  - { key: segmented, quota: 3/min, algorithm: segmented }
",
    );
    bench.clock.advance(Duration::from_secs(50));
    for (key, admitted) in [
        ("two", 5),
        ("leaky", 1),
        ("fixed", 3),
        ("aligned", 3),
        ("segmented", 3),
    ] {
        assert_eq!(
            bench.admitted("api", &format!("{key}=a"), 9),
            admitted,
            "{key}"
        );
    }
    bench.clock.advance(Duration::from_secs(10));
    for (key, admitted) in [
        ("two", 2),
        ("leaky", 1),
        ("fixed", 0),
        ("aligned", 3),
        ("segmented", 0),
    ] {
        assert_eq!(
            bench.admitted("api", &format!("{key}=a"), 9),
            admitted,
            "{key}"
        );
    }
}

#[test]
fn a_key_has_another_quota_only_where_that_is_allowed() {
    let bench = Bench::new(
        "
domain: api
descriptors:
  - { key: user, quota: 2/min, allow_override: true }
  - { key: site, quota: 2/min }
",
    );
    for (key, admitted) in [("user=a", 5), ("site=a", 2)] {
        let entries = entries(key);
        let quota = "5/min".parse().ok();
        let descriptors = [Descriptor {
            entries: &entries,
            quota,
            ..Descriptor::default()
        }];
        let is_admitted = |_: &i32| {
            !now(bench.limits.decide("api", &descriptors, 1))
                .unwrap()
                .is_over
        };
        assert_eq!((0..9).filter(is_admitted).count(), admitted, "{key}");
    }
}

#[test]
fn a_limit_is_asked_by_name_or_id_and_shares_its_keys() {
    let bench = Bench::new(
        "
domain: api
descriptors:
  - { key: user, quota: 2/min, name: users }
  - { key: site, value: a, quota: 2/min, name: twice }
  - { key: site, value: b, quota: 2/min, name: twice }
  - { key: x, descriptors: [{ key: y, quota: 2/min }] }
",
    );
    let ask = |name: &str, key: &str| {
        let status = now(bench.limits.ask(name, key.as_bytes(), 1));
        status.map(|status| status.is_over)
    };
    assert_eq!(ask("users", "alice"), Ok(false));
    assert_eq!(ask("api.user", "alice"), Ok(false));
    assert!(bench.is_over("api", "user=alice"));
    assert_eq!(ask("nobody", "alice"), Err(Unknown::Name.into()));
    assert_eq!(ask("twice", ""), Err(Unknown::Ambiguous.into()));
    assert_eq!(ask("api.site_a", ""), Ok(false));
    assert_eq!(ask("api.site_a", "a"), Err(Unknown::NoKey.into()));
    assert_eq!(ask("api.x.y", "a"), Err(Unknown::SeveralKeys(2).into()));
}

/// Each of two limits is in each request of several threads. What was admitted is what was taken, of both.
#[test]
fn c1_threads_take_from_both_limits_or_from_none() {
    const THREADS: usize = 4;
    const EACH: usize = 2000;
    let bench = Bench::new(
        "
domain: api
descriptors:
  - { key: user, quota: 500/day }
  - { key: site, quota: 1200/day }
",
    );
    let barrier = Barrier::new(THREADS);
    let work = |number: usize| {
        barrier.wait();
        let user = format!("user={}", number % 3);
        (0..EACH)
            .filter(|_| !bench.ask("api", &[&user, "site=a"], 1, |it| it.is_over))
            .count()
    };
    let admitted: Vec<_> = thread::scope(|threads| {
        let all: Vec<_> = (0..THREADS)
            .map(|number| threads.spawn(move || (number % 3, work(number))))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut ledger = HashMap::new();
    for (user, count) in admitted {
        *ledger.entry(user).or_insert(0) += count as u64;
    }
    let total: u64 = ledger.values().sum();
    assert_eq!(total, 1200);
    let left = |descriptor: &str| bench.ask("api", &[descriptor], 0, |it| it.statuses[0].remaining);
    assert_eq!(left("site=a"), 0);
    for (user, count) in ledger {
        assert_eq!(left(&format!("user={user}")), 500 - count, "{user}");
    }
}
