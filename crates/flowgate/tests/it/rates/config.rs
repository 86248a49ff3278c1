//! Limiters as text.

use flowgate::{AnyKeyed, KeyedLimiterConfig, LimiterConfig, LimiterKind, ManualClock, Quotas};
use std::time::Duration;

#[test]
fn every_kind_is_read_built_and_printed() {
    for kind in LimiterKind::ALL {
        let text = format!("{} 3/min", kind.name());
        let config: LimiterConfig = text.parse().unwrap();
        assert_eq!((config.kind(), config.to_string()), (kind, text));
        let limiter = config.build_on(ManualClock::new()).unwrap();
        let at_once = if kind == LimiterKind::Leaky { 1 } else { 3 };
        assert_eq!(limiter.available(), at_once, "{config}");
    }
}

#[test]
fn two_quotas_make_a_dual_bucket() {
    let config: LimiterConfig = " token  10/s burst 3;1000/day ".parse().unwrap();
    assert_eq!(config.to_string(), "token 10/s burst 3; 1000/day");
    let time = ManualClock::new();
    let limiter = config.build_on(&time).unwrap();
    assert!(limiter.try_acquire_n(3).is_ok() && limiter.try_acquire().is_err());
    time.advance(Duration::from_secs(1));
    assert_eq!(limiter.available(), 3);
    for kind in &LimiterKind::ALL[1..] {
        let quotas: Quotas = "10/s; 1000/day".parse().unwrap();
        let error = LimiterConfig::new(*kind, quotas).build().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid quota: 2 quotas; only a token bucket takes two, and a gate any number of limiters"
        );
    }
}

#[test]
fn keys() {
    for (text, each) in [
        ("keyed token 3/min", 3),
        ("keyed token 3/min; 2/day", 2),
        ("keyed leaky 3/min", 1),
        ("keyed fixed 3/min", 3),
        ("keyed aligned 3/min", 3),
        ("keyed segmented 3/min", 3),
    ] {
        let config: KeyedLimiterConfig = text.parse().unwrap();
        assert_eq!(config.to_string(), text);
        let limits = config.build_on(ManualClock::new(), 100).unwrap();
        for key in ["a", "b"] {
            let admitted = (0..9).filter(|_| limits.try_acquire(key).is_ok()).count();
            assert_eq!(admitted, each, "{text}");
            assert_eq!(limits.key(key).available(), 0);
        }
    }
    let config: KeyedLimiterConfig = "keyed token 3/min".parse().unwrap();
    let limits = config.build_on(ManualClock::new(), 100).unwrap();
    limits.set_quotas("5/min".parse().unwrap()).unwrap();
    assert!(limits.set_quotas("5/min; 6/h".parse().unwrap()).is_err());
    assert_eq!(limits.key("a").snapshot().limit, 5);
    assert!(matches!(limits, AnyKeyed::TokenBucket(_)));
}

#[test]
fn unlimited_has_no_quota_and_the_same_types() {
    let config: LimiterConfig = " unlimited ".parse().unwrap();
    assert_eq!(config, LimiterConfig::unlimited());
    assert_eq!(
        (config.kind(), config.quotas()),
        (LimiterKind::Unlimited, None)
    );
    assert_eq!(config.to_string(), "unlimited");
    let limiter = config.build_on(ManualClock::new()).unwrap();
    assert!(limiter.try_acquire_n(u64::MAX).is_ok());

    let config: KeyedLimiterConfig = "keyed unlimited".parse().unwrap();
    assert_eq!(config.to_string(), "keyed unlimited");
    let limits = config.build_on(ManualClock::new(), 10).unwrap();
    assert!((0..1_000).all(|_| limits.try_acquire("a").is_ok()));
    assert_eq!(limits.key("a").available(), u64::MAX);
    assert!(limits.set_quotas("5/min".parse().unwrap()).is_ok());
    assert!(limits.try_acquire("a").is_ok());
    assert!(matches!(limits, AnyKeyed::Unlimited(_)));

    let with_quota = LimiterConfig::new(LimiterKind::Unlimited, "5/s".parse::<Quotas>().unwrap());
    assert!(with_quota.build().is_err());
}

#[test]
fn a_refusal_says_what_to_write() {
    for (text, expected) in [
        (
            "",
            "\"\" is no limiter; write token, leaky, sliding, segmented, fixed, aligned or approximate, and a quota",
        ),
        ("bucket 5/s", "\"bucket\" is no limiter; write token, leaky"),
        (
            "5/s burst 3",
            "the name is missing; write \"token 5/s burst 3\"",
        ),
        ("sliding", "the quota is missing; write \"sliding 100/s\""),
        ("sliding many", "\"many\": not a number"),
        ("keyed token 5/s", "leave out \"keyed\""),
        (
            "unlimited 5/s",
            "unlimited has no quota; write \"unlimited\"",
        ),
    ] {
        let error = text.parse::<LimiterConfig>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(
            error.starts_with("invalid limiter") && !error.contains('\n'),
            "{error}"
        );
    }
    for (text, expected) in [
        ("token 5/s", "write \"keyed\" and a limiter"),
        ("keyed", "write \"keyed\" and a limiter"),
        (
            "keyed sliding 5/s",
            "there is no sliding limiter for each key; write token, leaky, fixed, aligned or segmented",
        ),
        ("keyed tokens 5/s", "\"tokens\" is no limiter"),
    ] {
        let error = text.parse::<KeyedLimiterConfig>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let long = "x".repeat(10_000);
    let error = long.parse::<LimiterConfig>().unwrap_err().to_string();
    assert!(error.len() < 500, "{error}");
}
