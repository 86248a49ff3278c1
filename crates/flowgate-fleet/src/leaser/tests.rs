//! What leasers do, in virtual time.

use super::trial::{Fleet, STEP, Setting};
use super::*;
use crate::CutOff;
use crate::overshoot::Overshoot;
use std::future::Future;
use std::sync::Arc;
use std::task::Waker;

const RATE: f64 = 100_000.0;
const QUOTA: &str = "100000/s burst 10000";
const SECOND: Duration = Duration::from_secs(1);

/// Half of the burst is held by `nodes`, and an answer may take `timeout_ms`: 12 let the length of leases bound the overshoot, and 50
/// the number of tokens that each node holds.
fn half(nodes: u32, timeout_ms: u64) -> Fleet {
    of(
        nodes,
        Overshoot::percent(50),
        timeout_ms,
        CutOff::Share(1, nodes),
    )
}

fn of(nodes: u32, overshoot: Overshoot, timeout_ms: u64, cut_off: CutOff) -> Fleet {
    let setting = Setting {
        nodes,
        is_told: true,
        overshoot,
        timeout_ms,
        cut_off,
        latency: Duration::from_micros(200),
        seed: 1,
    };
    Fleet::new(QUOTA, setting)
}

/// Lets nodes collect what flows in within the length of a lease, and spend it with all that the store has when the leases are about to
/// end. Returns by how much that exceeds the limit.
fn hoard_and_dump(fleet: &mut Fleet) -> f64 {
    let lending = Arc::clone(fleet.nodes[0].leaser.lending());
    let turns = 2 * fleet.nodes.len() as u32;
    let each = lending.overshoot / u64::from(turns);
    let pause = lending.spent_for.min(SECOND / 2).mul_f64(0.97) / turns;
    for turn in 0..turns as usize {
        let node = &fleet.nodes[turn % 4];
        // It holds two leases in the end.
        let wanted = node.held() + each;
        assert!(node.leased.try_acquire_n(wanted).is_err());
        for _ in 0..50 {
            fleet.time.advance(STEP);
            fleet.act();
        }
        assert_eq!(fleet.nodes[turn % 4].held(), wanted);
        fleet.time.advance(pause - 50 * STEP);
    }
    let mut most = f64::MIN;
    for turn in 1..=100 {
        fleet.run(SECOND / 1_000, false, |_, _| 1_000_000.0);
        let allowed = 10_000.0 + RATE * f64::from(turn) / 1_000.0;
        most = most.max(fleet.admitted() - allowed);
    }
    most
}

#[test]
fn c1_nodes_that_hoard_exceed_the_limit_by_the_overshoot_and_no_more() {
    for timeout_ms in [12, 50] {
        for (overshoot, most) in [(Overshoot::percent(50), 5_000.0), (Overshoot::none(), 0.0)] {
            let mut fleet = of(4, overshoot, timeout_ms, CutOff::Deny);
            let excess = hoard_and_dump(&mut fleet);
            assert!(excess <= most, "{excess} of {most}");
            let hoarded = excess + 5_000.0 - most;
            assert!(hoarded >= 0.85 * 5_000.0, "{hoarded} of 5000 are hoarded");
        }
    }
}

#[test]
fn c1_a_node_that_is_stopped_spends_nothing_after_the_end_and_asks_again() {
    let mut fleet = half(1, 50);
    fleet.run(SECOND / 5, false, |_, _| 10_000.0);
    assert!(fleet.nodes[0].leased.available() > 0);
    let lasts = fleet.nodes[0].leaser.lending.spent_for;
    fleet.time.advance(lasts);
    assert_eq!(fleet.nodes[0].leased.available(), 0);
    assert!(fleet.nodes[0].leased.try_acquire().is_err());
    // A reply that was delayed in the process itself is dated by when its call was sent.
    let node = &mut fleet.nodes[0];
    let now = fleet.time.now();
    node.leaser.asked = Some(7);
    let reply = Reply {
        taken: vec![7],
        ..Reply::default()
    };
    let sent = Timestamp::from_nanos(now.as_nanos() - nanos(lasts));
    node.leaser.answer(sent, now, Ok(reply));
    assert_eq!(node.leased.available(), 0);
    fleet.run(SECOND / 5, false, |_, _| 10_000.0);
    assert!(fleet.nodes[0].leased.available() > 0);
}

#[test]
fn a_request_for_as_much_as_a_node_may_hold_is_served_beside_small_ones_and_a_larger_one_never() {
    for timeout_ms in [12, 50] {
        let mut fleet = half(4, timeout_ms);
        let most = fleet.nodes[0].leaser.lending.most;
        let large = most.min(5_000);
        fleet.run(SECOND / 5, true, |_, _| 20_000.0);
        let leased = Arc::clone(&fleet.nodes[0].leased);
        assert!(leased.try_acquire_n(most + 1).unwrap_err().is_never());
        let mut waits = Box::pin(leased.acquire().n(large));
        let mut context = std::task::Context::from_waker(Waker::noop());
        let mut is_served = false;
        for _ in 0..200 {
            is_served |= waits.as_mut().poll(&mut context).is_ready();
            if is_served {
                break;
            }
            fleet.run(
                SECOND / 100,
                true,
                |i, _| if i == 0 { 0.0 } else { 20_000.0 },
            );
        }
        assert!(is_served);
    }
}

#[test]
fn c1_a_node_that_is_cut_off_spends_what_it_holds_then_its_share_and_flapping_gains_nothing() {
    let mut fleet = half(4, 50);
    fleet.run(SECOND, true, |_, _| 50_000.0);
    let begun = fleet.admitted();
    for turn in 0..20 {
        fleet.is_up = turn % 2 == 1;
        fleet.run(SECOND / 20, true, |_, _| 50_000.0);
    }
    let spent = fleet.admitted() - begun;
    // The store's bucket was empty. The shares together have the limit once more.
    let most = 10_000.0 + RATE + 5_000.0 + 10_000.0 + RATE;
    assert!(spent <= most, "{spent} of {most}");
    assert!(spent >= 0.9 * RATE, "{spent}: it is there each other time");
    fleet.is_up = true;
    fleet.run(SECOND / 5, true, |_, _| 50_000.0);
    assert!(
        fleet
            .nodes
            .iter()
            .all(|node| node.leaser.alone_since.is_none())
    );

    for (cut_off, most) in [(CutOff::Share(1, 4), 10_000.0 + RATE), (CutOff::Deny, 0.0)] {
        let mut fleet = of(4, Overshoot::percent(50), 50, cut_off);
        fleet.is_up = false;
        fleet.run(SECOND, true, |_, _| 50_000.0);
        let spent = fleet.admitted();
        assert!((0.95 * most..=most).contains(&spent), "{spent} of {most}");
        // Between two looks at the share, requests are refused for want of an answer.
        let is_outage = |_| {
            fleet.run(STEP, true, |_, _| 50_000.0);
            let answer = fleet.nodes[0].leased.try_acquire();
            answer.is_err_and(|denied| denied.is_outage())
        };
        assert!((0..1_000).any(is_outage));
    }
    let mut open = of(4, Overshoot::percent(50), 50, CutOff::Admit);
    open.is_up = false;
    open.run(SECOND / 5, true, |_, _| 500_000.0);
    assert!(open.admitted() > 0.95 * open.sum(|node| node.offered));
}

#[test]
fn a_call_that_is_lost_is_not_repeated_and_one_that_is_refused_stays_away_for_a_second() {
    let mut fleet = half(1, 50);
    fleet.run(SECOND / 10, false, |_, _| 1_000.0);
    let node = &mut fleet.nodes[0];
    let begin = fleet.time.now();
    for (failure, pause) in [
        (Failure::Lost, LOST),
        (Failure::Refused("OOM".to_owned()), REFUSED),
    ] {
        fleet.time.advance(SECOND);
        let _ = node.leased.take_up_to(u64::MAX);
        assert!(node.leased.try_acquire().is_err());
        let now = fleet.time.now();
        assert!(now > begin && node.leaser.call(now).is_some());
        assert!(node.leaser.call(now).is_none(), "one is in flight");
        assert_eq!((node.leaser.wake_at(), node.leaser.low()), (None, None));
        node.leaser.answer(now, now, Err(failure));
        fleet.time.advance(pause - Duration::from_nanos(1));
        assert!(node.leaser.call(fleet.time.now()).is_none());
        fleet.time.advance(Duration::from_nanos(1));
        assert!(node.leaser.call(fleet.time.now()).is_some());
        node.leaser
            .answer(now, fleet.time.now(), Err(Failure::Lost));
    }
}

#[test]
fn an_idle_node_asks_for_nothing() {
    let mut fleet = half(4, 50);
    fleet.run(SECOND, true, |_, _| 10_000.0);
    fleet.run(5 * SECOND, true, |_, _| 0.0);
    let calls = fleet.calls;
    fleet.run(SECOND, true, |_, _| 0.0);
    assert_eq!(fleet.calls, calls);
}
