//! A planned restart: what was taken stays taken.

use crate::support::{Bench, now};
use flowgate::ManualClock;
use flowgate_server::{Config, DecideLimits, DecisionTime, Problem};
use proptest::prelude::*;
use std::time::Duration;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: token, quota: 5/h }
  - { key: dual, quota: 5/h; 6/day }
  - { key: leaky, quota: 1/h burst 5, algorithm: leaky }
  - { key: fixed, quota: 5/h, algorithm: fixed }
  - { key: segmented, quota: 5/h, algorithm: segmented }
  - { key: aligned, quota: 5/h, algorithm: aligned }
  - { key: window, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: all, value: '*', share_threshold: true, quota: 5/h }
  - { key: pair, descriptors: [{ key: part, quota: 5/h }] }
";
const KINDS: [&str; 8] = [
    "token",
    "dual",
    "leaky",
    "fixed",
    "segmented",
    "aligned",
    "window",
    "all",
];

/// A process that goes on with the state of another one. Its clock begins anew, as a clock of the system does.
fn restarted(text: &str, state: &[u8]) -> Result<Bench, Problem> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(366 * 86_400));
    let config = Config::parse("test.yaml", text)?;
    let time = DecisionTime::from_epoch(&clock);
    let limits = DecideLimits::restored(&config, &time, "state", state)?;
    Ok(Bench { limits, clock })
}

#[test]
fn c1_a_planned_restart_admits_not_one_more() {
    let before = Bench::new(LIMITS);
    for kind in KINDS {
        assert_eq!(before.admitted("api", &format!("{kind}=a"), 4), 4, "{kind}");
    }
    assert_eq!(before.admitted("api", "pair=a part=b", 4), 4);
    let after = restarted(LIMITS, &before.limits.state()).unwrap();
    for kind in KINDS {
        assert_eq!(after.admitted("api", &format!("{kind}=a"), 9), 1, "{kind}");
        if kind != "all" {
            assert_eq!(after.admitted("api", &format!("{kind}=b"), 9), 5, "{kind}");
        }
    }
    assert_eq!(after.admitted("api", "pair=a part=b", 9), 1);
    assert_eq!(after.admitted("api", "pair=ab part=", 9), 5);
    // And again: nothing is lost on the way.
    let again = restarted(LIMITS, &after.limits.state()).unwrap();
    for kind in KINDS {
        assert_eq!(again.admitted("api", &format!("{kind}=a"), 9), 0, "{kind}");
    }
    // What flows back, flows back.
    again.clock.advance(Duration::from_secs(3600));
    assert!(again.admitted("api", "token=a", 9) == 5);
}

#[test]
fn c1_keys_of_cl_throttle_are_in_the_state() {
    let ask = |limits: &DecideLimits| {
        let told = flowgate_server::resp_answers(limits, [&b"CL.THROTTLE k 2 1 3600\r\n"[..]]);
        told.starts_with(b"*5\r\n:0\r\n")
    };
    let before = Bench::new(LIMITS);
    assert!(ask(&before.limits) && ask(&before.limits));
    let after = restarted(LIMITS, &before.limits.state()).unwrap();
    assert!(ask(&after.limits) && !ask(&after.limits));
}

#[test]
fn a_limit_that_is_another_one_begins_anew() {
    let before = Bench::new(LIMITS);
    for kind in KINDS {
        before.admitted("api", &format!("{kind}=a"), 5);
    }
    let text = LIMITS
        .replace("{ key: token, quota: 5/h }", "{ key: token, quota: 9/h }")
        .replace("algorithm: leaky", "algorithm: token")
        .replace("unit: day", "unit: hour")
        .replace(
            "{ key: fixed, quota: 5/h,",
            "{ key: fixed, quota: 5/h, capacity: 7,",
        );
    let after = restarted(&text, &before.limits.state()).unwrap();
    assert_eq!(
        after.admitted("api", "token=a", 9),
        4,
        "another quota, less what was taken"
    );
    for kind in ["leaky", "window", "fixed"] {
        assert_eq!(after.admitted("api", &format!("{kind}=a"), 9), 5, "{kind}");
    }
    assert_eq!(after.admitted("api", "segmented=a", 9), 0);
    let status = now(after.limits.ask("api.aligned", b"a", 0)).unwrap();
    assert_eq!(status.remaining, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_state_that_is_damaged_is_refused(cut in 0_usize..100_000, flip in 0_usize..100_000, bit in 0_u8..8) {
        let before = Bench::new("{domain: api, descriptors: [{key: user, quota: 5/h, capacity: 10}]}");
        before.admitted("api", "user=a", 3);
        let state = before.limits.state();
        let text = "{domain: api, descriptors: [{key: user, quota: 5/h, capacity: 10}]}";
        prop_assert!(restarted(text, &state[..cut % state.len()]).is_err());
        let mut flipped = state.clone();
        flipped[flip % state.len()] ^= 1 << bit;
        // A name can be another one; then that limit begins anew.
        if let Ok(after) = restarted(text, &flipped) {
            prop_assert!([2, 5].contains(&after.admitted("api", "user=a", 9)));
        }
    }
}
