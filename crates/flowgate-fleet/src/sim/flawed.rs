//! Without one of its conditions, the theorem does not hold: each mistake breaks it.

use super::facts::Broke;
use super::plan::{Demand, Fault, Flaw, MS, NodePlan, Plan, SECOND};
use super::tight::{gathered, hoarders, holders, regular};
use super::world::run;
use crate::CutOff;
use crate::terms::Kind;

/// Runs a plan that keeps what is promised, and then with a mistake.
fn broke(mut plan: Plan, flaw: Flaw) -> Broke {
    assert_eq!(run(&plan).check(&plan), Ok(()));
    plan.flaw = Some(flaw);
    run(&plan).check(&plan).unwrap_err()
}

fn node(cut_off: CutOff, demand: Demand) -> Vec<NodePlan> {
    vec![NodePlan::new(cut_off, demand)]
}

#[test]
fn a_late_reply_must_not_be_used() {
    assert!(matches!(
        broke(gathered(140 * MS), Flaw::LateReply),
        Broke::Told(_)
    ));
}

#[test]
fn a_clock_must_not_be_slower_than_the_theorem_says() {
    let mut plan = gathered(95 * MS);
    assert_eq!(run(&plan).check(&plan), Ok(()));
    for node in &mut plan.nodes {
        node.slow_ppm = 1_000_000;
    }
    let broke = run(&plan).check(&plan).unwrap_err();
    assert!(matches!(broke, Broke::Told(_)), "{broke:?}");
}

#[test]
fn a_share_must_live_as_long_as_the_limit() {
    let mut plan = Plan::calm(
        "4/h burst 8",
        node(CutOff::Share(1, 4), regular(1, 1, 5 * MS)),
    );
    plan.faults = (1..20)
        .map(|fault| (fault * 50 * MS, Fault::Reset))
        .collect();
    assert!(matches!(broke(plan, Flaw::FreshShare), Broke::Share(_)));
}

#[test]
fn a_call_without_a_reply_must_not_be_sent_again() {
    let mut plan = Plan::calm("1000/s burst 8", node(CutOff::Deny, regular(1, 1, 5 * MS)));
    plan.faults = vec![(100 * MS, Fault::Hang { for_ns: SECOND })];
    assert_eq!(broke(plan, Flaw::Repeat), Broke::Hang);
}

#[test]
fn a_record_must_live_as_long_as_its_debt() {
    let mut plan = Plan::calm(
        "10/min burst 10",
        node(CutOff::Deny, regular(10, 1, 700 * MS)),
    );
    plan.nodes.push(NodePlan {
        begins_ns: SECOND,
        ..plan.nodes[0].clone()
    });
    assert!(matches!(
        broke(plan, Flaw::ShortTtl(500_000)),
        Broke::Debits(_)
    ));
}

#[test]
fn a_store_that_has_forgotten_must_be_reminded() {
    let mut plan = Plan::calm(
        "10/min burst 10",
        node(CutOff::Deny, regular(1, 2, 100 * MS)),
    );
    plan.faults = vec![(150 * MS, Fault::Amnesia { age_ns: None })];
    assert!(matches!(broke(plan, Flaw::NoReminder), Broke::Debits(_)));
}

#[test]
fn a_store_that_has_forgotten_a_window_must_be_reminded() {
    let mut plan = Plan::calm("10/h", node(CutOff::Deny, regular(1, 2, 100 * MS)));
    plan.kind = Kind::Window;
    plan.faults = (1..=4)
        .map(|fault| (fault * 350 * MS, Fault::Amnesia { age_ns: None }))
        .collect();
    assert!(matches!(broke(plan, Flaw::NoReminder), Broke::Debits(_)));
}

#[test]
fn a_missing_reply_is_not_a_refusal() {
    let mut plan = Plan::calm("1000/s burst 8", node(CutOff::Deny, regular(1, 1, 5 * MS)));
    plan.faults = vec![(100 * MS, Fault::Hang { for_ns: SECOND })];
    assert_eq!(broke(plan, Flaw::OutageRefuses), Broke::Unfounded);
}

#[test]
fn a_lease_must_end_by_the_time_of_the_call() {
    // What is asked for at 451 ms is told at 495 ms.
    let mut plan = hoarders(100, 243 * MS, 694 * MS);
    plan.network.gathers_ns = Some(45 * MS);
    assert!(matches!(broke(plan, Flaw::FromReply), Broke::ByTime(_)));
}

#[test]
fn a_lease_must_end_by_a_clock_that_is_not_slower_than_the_theorem_says() {
    let mut plan = hoarders(100, 390 * MS, SECOND);
    assert_eq!(run(&plan).check(&plan), Ok(()));
    for node in &mut plan.nodes {
        node.slow_ppm = 1_000_000;
    }
    let broke = run(&plan).check(&plan).unwrap_err();
    assert!(matches!(broke, Broke::ByTime(_)), "{broke:?}");
}

#[test]
fn two_leases_must_not_be_merged() {
    let mut plan = hoarders(100, 350 * MS, SECOND);
    for node in &mut plan.nodes {
        // One unit more than the lease has.
        let (asks_ns, units) = node.demand.hoards[0];
        let again = [1, 2].map(|again| (asks_ns + again * 150 * MS, units + again));
        node.demand.hoards.extend(again);
    }
    let broke = broke(plan, Flaw::Merge);
    assert!(matches!(broke, Broke::ByTime(_)), "{broke:?}");
}

#[test]
fn what_is_reserved_must_not_be_spent_before_it_has_flowed_in() {
    let mut plan = hoarders(100, 198 * MS, SECOND);
    for node in &mut plan.nodes {
        node.demand.crowds.push((SECOND + 5 * MS, [100, 1]));
    }
    let broke = broke(plan, Flaw::EarlyTurn);
    assert!(matches!(broke, Broke::ByTime(_)), "{broke:?}");
}

#[test]
fn a_process_must_not_have_two_calls_in_flight() {
    let broke = broke(holders(), Flaw::TwoCalls);
    assert!(matches!(broke, Broke::ByUnits(_)), "{broke:?}");
}

#[test]
fn two_keys_must_not_share_a_record() {
    let mut plan = Plan::calm("4/h burst 1", node(CutOff::Deny, regular(1, 1, 5 * MS)));
    (plan.keys, plan.capacity) = (2, 2);
    assert_eq!(broke(plan, Flaw::JoinedKeys), Broke::Starved);
}
