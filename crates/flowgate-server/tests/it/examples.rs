//! envoyproxy/ratelimit's own examples, answered as it answers them.

use crate::support::Bench;
use std::time::Duration;

#[test]
fn exact_values_and_a_default() {
    let bench = Bench::new(
        "
domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit:
      unit: second
      requests_per_unit: 500
  - key: database
    value: default
    rate_limit:
      unit: second
      requests_per_unit: 500
",
    );
    assert_eq!(bench.admitted("mongo_cps", "database=users", 600), 500);
    assert_eq!(bench.admitted("mongo_cps", "database=default", 600), 500);
    assert_eq!(bench.admitted("mongo_cps", "database=other", 600), 600);
    assert_eq!(bench.admitted("another", "database=users", 600), 600);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.admitted("mongo_cps", "database=users", 600), 500);
}

#[test]
fn the_path_of_a_rule_is_as_long_as_the_descriptor() {
    let bench = Bench::new(
        "
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit:
          unit: day
          requests_per_unit: 5
  - key: to_number
    rate_limit:
      unit: day
      requests_per_unit: 100
",
    );
    assert_eq!(
        bench.admitted("messaging", "message_type=marketing to_number=1", 9),
        5
    );
    assert_eq!(
        bench.admitted("messaging", "message_type=marketing to_number=2", 9),
        5
    );
    assert_eq!(bench.admitted("messaging", "to_number=1", 200), 100);
    for shorter_or_longer in [
        "message_type=marketing",
        "to_number=1 x=1",
        "message_type=x to_number=1",
    ] {
        assert_eq!(bench.admitted("messaging", shorter_or_longer, 200), 200);
    }
    // Both descriptors of one request: the first one that is used up refuses, and the other one loses nothing.
    let both = ["message_type=marketing to_number=3", "to_number=3"];
    let admitted = (0..9)
        .filter(|_| !bench.ask("messaging", &both, 1, |it| it.is_over))
        .count();
    assert_eq!(admitted, 5);
    assert_eq!(bench.admitted("messaging", "to_number=3", 200), 95);
}

#[test]
fn a_value_goes_before_the_key_alone() {
    let bench = Bench::new(
        "
domain: edge_proxy_per_ip
descriptors:
  - key: remote_address
    rate_limit:
      unit: second
      requests_per_unit: 10
  # Black list IP
  - key: remote_address
    value: 50.0.0.5
    rate_limit:
      unit: second
      requests_per_unit: 0
",
    );
    assert_eq!(
        bench.admitted("edge_proxy_per_ip", "remote_address=1.2.3.4", 20),
        10
    );
    assert_eq!(
        bench.admitted("edge_proxy_per_ip", "remote_address=50.0.0.5", 20),
        0
    );
    bench.ask(
        "edge_proxy_per_ip",
        &["remote_address=50.0.0.5"],
        1,
        |decision| {
            assert_eq!(decision.retry_after(), None, "it never helps to wait");
        },
    );
}

#[test]
fn levels_below_a_limit() {
    let bench = Bench::new(
        "
domain: rl
descriptors:
  - key: foo
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - key: bar
        rate_limit: { unit: minute, requests_per_unit: 3 }
      - key: bar
        value: bach
        rate_limit: { unit: minute, requests_per_unit: 4 }
",
    );
    assert_eq!(bench.admitted("rl", "foo=x", 9), 2);
    assert_eq!(bench.admitted("rl", "foo=x bar=y", 9), 3);
    assert_eq!(bench.admitted("rl", "foo=x bar=bach", 9), 4);
    assert_eq!(bench.admitted("rl", "foo=z bar=bach", 9), 4);
}

#[test]
fn an_unlimited_value() {
    let bench = Bench::new(
        "
domain: internal
descriptors:
  - key: ldap
    rate_limit: { unit: second, requests_per_unit: 1 }
  - key: azure
    rate_limit: { unit: second, requests_per_unit: 100 }
  - key: azure
    value: trusted
    rate_limit: { unlimited: true }
",
    );
    assert_eq!(bench.admitted("internal", "azure=trusted", 500), 500);
    assert_eq!(bench.admitted("internal", "azure=other", 500), 100);
    bench.ask("internal", &["azure=trusted"], 1, |decision| {
        assert_eq!(decision.statuses[0].remaining, u64::from(u32::MAX));
    });
}

#[test]
fn wildcards_go_after_values_and_before_the_key_alone() {
    let bench = Bench::new(
        "
domain: test-domain
descriptors:
  - key: wild
    value: foo*
    rate_limit: { unit: second, requests_per_unit: 20 }
  - key: wild
    value: foobar
    rate_limit: { unit: second, requests_per_unit: 3 }
  - key: wild
    rate_limit: { unit: second, requests_per_unit: 5 }
  - key: shared
    value: foo*
    share_threshold: true
    rate_limit: { unit: second, requests_per_unit: 20 }
",
    );
    assert_eq!(bench.admitted("test-domain", "wild=foo1", 30), 20);
    assert_eq!(
        bench.admitted("test-domain", "wild=foo2", 30),
        20,
        "each value counts alone"
    );
    assert_eq!(bench.admitted("test-domain", "wild=foobar", 30), 3);
    assert_eq!(bench.admitted("test-domain", "wild=bar", 30), 5);
    assert_eq!(bench.admitted("test-domain", "shared=foo1", 12), 12);
    assert_eq!(
        bench.admitted("test-domain", "shared=foo2", 12),
        8,
        "all values share one count"
    );
}

#[test]
fn a_rule_replaces_others_by_name() {
    let bench = Bench::new(
        "
domain: example8
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2, name: per_user }
  - key: vip
    rate_limit:
      unit: minute
      requests_per_unit: 50
      replaces:
        - name: per_user
",
    );
    let both = ["user=a", "vip=a"];
    let admitted = (0..60)
        .filter(|_| !bench.ask("example8", &both, 1, |it| it.is_over))
        .count();
    assert_eq!(admitted, 50);
    assert_eq!(
        bench.admitted("example8", "user=a", 9),
        2,
        "nothing was taken of the replaced limit"
    );
}

/// Windows begin when the time since 1970 is a multiple of the unit. A month has 30 days, a year 365.
#[test]
fn windows_are_aligned_to_the_time_since_1970() {
    for (unit, length_s) in [
        ("second", 1),
        ("MINUTE", 60),
        ("Hour", 3600),
        ("day", 86_400),
        ("week", 604_800),
        ("month", 2_592_000),
        ("year", 31_536_000),
    ] {
        let bench = Bench::new(&format!(
            "domain: a\ndescriptors: [{{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 2}}}}]"
        ));
        let now_s = 365 * 86_400;
        let left_s = length_s - now_s % length_s;
        assert_eq!(bench.admitted("a", "k=1", 5), 2, "{unit}");
        let reset = bench.ask("a", &["k=1"], 1, |it| it.statuses[0].reset_after);
        assert_eq!(reset, Duration::from_secs(left_s), "{unit}");
        bench
            .clock
            .advance(Duration::from_secs(left_s) - Duration::from_nanos(1));
        assert_eq!(bench.admitted("a", "k=1", 5), 0, "{unit}");
        bench.clock.advance(Duration::from_nanos(1));
        assert_eq!(bench.admitted("a", "k=1", 5), 2, "{unit}");
    }
}
