//! Each term of the theorem is reached, to at least 85 %.

use super::facts::Facts;
use super::plan::{Demand, Fault, MS, NodePlan, Plan, SECOND};
use super::world::run;
use crate::CutOff;
use crate::overshoot::Overshoot;
use crate::terms::Kind;
use flowgate_testkit::allowance::Allowance;

/// Requires that a plan keeps the theorem, and admits at least 85 % of `term` beyond b + r·t.
fn reaches(plan: &Plan, term: u64) -> Facts {
    let facts = run(plan);
    assert_eq!(facts.check(plan), Ok(()));
    let admissions = facts.keys[&0].admissions(plan);
    let bare = Allowance::new(plan.bound()).tightest(&admissions);
    let bare = bare.expect("admissions");
    assert!(
        bare.over() * 100 >= i128::from(term) * 85,
        "{bare}, and {term} more"
    );
    let all = facts.tightest(plan);
    assert!(all.over() <= 0, "{all}");
    facts
}

fn nodes(n: usize, demand: &Demand) -> Vec<NodePlan> {
    vec![NodePlan::new(CutOff::Deny, demand.clone()); n]
}

pub(super) fn crowds(crowds: Vec<(u64, [u64; 2])>) -> Demand {
    Demand {
        crowds,
        ..regular(0, 1, SECOND)
    }
}

/// Callers of `units` each, `every_ns`.
pub(super) fn regular(callers: u64, units: u64, every_ns: u64) -> Demand {
    Demand {
        callers: callers..=callers,
        every_ns: every_ns..=every_ns,
        units: units..=units,
        give_up: 0,
        crowds: Vec::new(),
        hoards: Vec::new(),
    }
}

/// Debits within `gathers_ns` are told in one instant.
pub(super) fn gathered(gathers_ns: u64) -> Plan {
    let mut plan = Plan::calm("400/s burst 5", nodes(80, &regular(1, 1, 2 * gathers_ns)));
    for (node, at_ns) in plan
        .nodes
        .iter_mut()
        .zip((0..).step_by(gathers_ns as usize / 80))
    {
        node.begins_ns = at_ns;
    }
    plan.network.gathers_ns = Some(gathers_ns);
    plan
}

#[test]
fn what_is_debited_within_a_timeout_is_told_in_one_instant() {
    reaches(&gathered(49 * MS), 20);
}

#[test]
fn a_call_of_each_node_is_in_flight_while_the_bucket_fills() {
    let mut plan = Plan::calm("100000/s burst 150", nodes(3, &regular(50, 1, 60 * MS)));
    plan.network.delay_ns = 1_000..=2_000;
    // What is sent at 45 ms is told at 90 ms. Then those that came at 60 ms are served.
    plan.network.gathers_ns = Some(45 * MS);
    plan.network.gathers_until_ns = 90 * MS;
    plan.end_ns = 91 * MS;
    let facts = reaches(&plan, 150);
    assert_eq!(facts.in_flight_of(&plan), 150);
}

#[test]
fn a_store_that_is_emptied_gives_a_burst_again() {
    let mut plan = Plan::calm("100/h burst 100", nodes(1, &regular(1, 100, 100 * MS)));
    plan.faults = vec![
        (50 * MS, Fault::Restart { node: 0 }),
        (50 * MS, Fault::Amnesia { age_ns: None }),
    ];
    reaches(&plan, 100);
}

#[test]
fn a_store_that_is_emptied_and_reminded_gives_what_no_process_knew_that_asks_again() {
    let mut plan = Plan::calm("100/h burst 100", nodes(2, &regular(1, 20, 100 * MS)));
    plan.nodes[1].demand = regular(1, 50, 10 * SECOND);
    plan.nodes[1].begins_ns = 10 * MS;
    plan.faults = vec![(20 * MS, Fault::Amnesia { age_ns: None })];
    let facts = reaches(&plan, 50);
    assert!(facts.healed > 0);
}

#[test]
fn a_store_with_an_older_snapshot_has_forgotten_what_came_after() {
    let mut plan = Plan::calm("100/h burst 100", nodes(2, &regular(1, 20, 100 * MS)));
    plan.nodes[1].demand = regular(1, 50, 10 * SECOND);
    plan.nodes[1].begins_ns = 10 * MS;
    let age_ns = Some(15 * MS);
    plan.faults = vec![(20 * MS, Fault::Amnesia { age_ns })];
    reaches(&plan, 50);
}

#[test]
fn a_clock_that_is_set_ahead_gives_what_flows_in_that_time() {
    let mut plan = Plan::calm("100/h burst 100", nodes(2, &regular(5, 1, 40 * MS)));
    plan.nodes[1].begins_ns = SECOND;
    // 36 s for each.
    plan.faults = vec![(
        SECOND,
        Fault::Leap {
            us: 60 * 36_000_000,
        },
    )];
    reaches(&plan, 60);
    plan.faults = vec![(
        SECOND,
        Fault::Leap {
            us: 3_600_000_000_000,
        },
    )];
    plan.end_ns = 4 * SECOND;
    reaches(&plan, 100);
    // Set back, it gives nothing.
    plan.faults = vec![(
        SECOND,
        Fault::Leap {
            us: -3_600_000_000_000,
        },
    )];
    let facts = run(&plan);
    assert_eq!(facts.check(&plan), Ok(()));
}

#[test]
fn two_primaries_give_two_bursts_and_the_rate_twice() {
    let mut plan = Plan::calm("200/s burst 100", nodes(8, &regular(4, 1, 10 * MS)));
    for node in &mut plan.nodes[4..] {
        node.begins_ns = 150 * MS;
    }
    // The replica has nothing yet. The old primary keeps its connections.
    let (lag_ns, both_ns) = (SECOND, SECOND);
    plan.faults = vec![(100 * MS, Fault::Promote { lag_ns, both_ns })];
    reaches(&plan, 100 + 200);
}

#[test]
fn processes_that_are_cut_off_give_their_shares() {
    let share = CutOff::Share(1, 4);
    let mut plan = Plan::calm(
        "400/s burst 80",
        vec![NodePlan::new(share, regular(4, 1, 5 * MS)); 4],
    );
    plan.faults = (1..4)
        .map(|node| {
            let ways = [true, false];
            (
                SECOND,
                Fault::Cut {
                    node,
                    for_ns: SECOND,
                    ways,
                },
            )
        })
        .collect();
    reaches(&plan, (80 + 400) * 3 / 4);
}

/// Leases of 201 ms, which processes ask for within `early_ns` before `then_ns`, and spend in that instant.
pub(super) fn hoarders(burst: u64, early_ns: u64, then_ns: u64) -> Plan {
    // One unit flows in per millisecond, after the burst.
    let of_each = (burst + early_ns / MS) / 12;
    let nodes = (1..=12).map(|node| {
        let after_ns = (of_each * node).saturating_sub(burst) * MS;
        let asks_ns = then_ns - early_ns + after_ns;
        let demand = Demand {
            hoards: vec![(asks_ns, of_each)],
            ..crowds(vec![(then_ns, [burst, 1])])
        };
        NodePlan::new(CutOff::Deny, demand)
    });
    let mut plan = Plan::calm("1000/s", nodes.collect());
    plan.quota = plan.quota.burst(burst);
    plan.lease = Some(Overshoot::tokens(201));
    plan
}

#[test]
fn what_is_leased_within_the_length_of_a_lease_is_spent_in_one_instant() {
    let plan = hoarders(100, 198 * MS, SECOND);
    let facts = reaches(&plan, 201);
    assert!(facts.in_flight_of(&plan) > 201);
}

#[test]
fn a_store_that_is_emptied_gives_a_burst_again_and_what_was_reserved() {
    // Callers use the burst up. For the next ones, processes take turns of 14 units, and spend them at the end.
    let turns = [(MS, [15, 1]), (2 * MS, [16, 1]), (290 * MS, [15, 1])];
    let mut plan = Plan::calm("1000/s burst 300", nodes(20, &crowds(turns.to_vec())));
    plan.lease = Some(Overshoot::tokens(301));
    plan.network.delay_ns = 1_000..=2_000;
    // Then the last process begins, and remembers nothing.
    plan.nodes[19].demand = regular(20, 1, MS / 5);
    plan.nodes[19].begins_ns = 5 * MS;
    plan.faults = vec![(4 * MS, Fault::Amnesia { age_ns: None })];
    plan.end_ns = 291 * MS;
    let lending = plan.lending().expect("leases");
    assert_eq!(lending.ahead, 301);
    reaches(&plan, 300 + lending.ahead);
}

/// Processes that hold 150 units each, and spend them when the bucket is full.
pub(super) fn holders() -> Plan {
    let again = (0..20).map(|crowd| (SECOND + crowd * 30_000, [200, 1]));
    let demand = crowds([(10 * MS, [150, 1])].into_iter().chain(again).collect());
    let mut plan = Plan::calm("100000/s burst 1000", nodes(4, &demand));
    plan.lease = Some(Overshoot::tokens(600));
    plan.network.delay_ns = 1_000..=2_000;
    plan
}

#[test]
fn what_each_node_may_hold_is_spent_in_one_instant() {
    let plan = holders();
    let facts = reaches(&plan, 600);
    assert_eq!(facts.in_flight_of(&plan), 600);
}

#[test]
fn no_overshoot_means_the_limit_itself() {
    // Half of 302 units is lent, for 151 ms.
    let mut plan = hoarders(151, 148 * MS, SECOND);
    plan.quota = plan.quota.burst(302);
    plan.timeout_ns = 10 * MS;
    plan.lease = Some(Overshoot::none());
    let facts = run(&plan);
    assert_eq!(facts.check(&plan), Ok(()));
    let admissions = facts.keys[&0].admissions(&plan);
    let bare = Allowance::new(plan.bound()).tightest(&admissions);
    let bare = bare.expect("admissions");
    assert!((-15..=0).contains(&bare.over()), "{bare}");
}

#[test]
fn processes_with_leases_that_are_cut_off_give_their_shares() {
    let share = CutOff::Share(1, 4);
    let node = NodePlan::new(share, regular(4, 1, 5 * MS));
    let mut plan = Plan::calm("400/s burst 80", vec![node; 4]);
    plan.lease = Some(Overshoot::tokens(81));
    let ways = [true, true];
    let for_ns = 2 * SECOND;
    plan.end_ns = 3 * SECOND;
    plan.faults = (1..4)
        .map(|node| (SECOND, Fault::Cut { node, for_ns, ways }))
        .collect();
    reaches(&plan, (80 + 800) * 3 / 4);
}

/// Windows of 100 in 10 s, and callers who take one when it begins, and the rest at its end.
fn windows(kind: Kind, nodes: Vec<NodePlan>) -> Plan {
    let mut plan = Plan::calm("100/10s", nodes);
    (plan.kind, plan.end_ns) = (kind, 25 * SECOND);
    plan
}

#[test]
fn windows_give_twice_their_count_around_an_end() {
    // The store's clock begins at a multiple of 10 s.
    for kind in [Kind::Window, Kind::AlignedWindow] {
        let late = crowds(vec![
            (5 * MS, [1, 1]),
            (9_990 * MS, [99, 1]),
            (10_010 * MS, [100, 1]),
        ]);
        let plan = windows(kind, nodes(1, &late));
        let facts = run(&plan);
        assert_eq!(facts.check(&plan), Ok(()));
        let told = &facts.keys[&0].told;
        let around = told.iter().filter(|grant| grant.at_ns >= 9_990 * MS);
        assert_eq!(around.map(|grant| grant.n).sum::<u64>(), 199);
    }
}

#[test]
fn a_store_that_is_emptied_gives_a_window_again() {
    let late = crowds(vec![
        (5 * MS, [1, 1]),
        (9_990 * MS, [99, 1]),
        (10_010 * MS, [100, 1]),
    ]);
    let again = crowds(vec![(10_060 * MS, [100, 1])]);
    let mut plan = windows(Kind::Window, nodes(1, &late));
    plan.nodes.extend(nodes(1, &again));
    plan.faults = vec![(10_050 * MS, Fault::Amnesia { age_ns: None })];
    reaches(&plan, 100);
}

#[test]
fn processes_that_are_cut_off_give_two_windows_of_their_shares() {
    let crowd = crowds(vec![
        (1_020 * MS, [1, 1]),
        (11_010 * MS, [49, 1]),
        (11_100 * MS, [50, 1]),
    ]);
    let mut plan = windows(
        Kind::Window,
        vec![NodePlan::new(CutOff::Share(1, 2), crowd); 2],
    );
    let cut = |node| Fault::Cut {
        node,
        for_ns: 20 * SECOND,
        ways: [true, true],
    };
    plan.faults = vec![(SECOND, cut(0)), (SECOND, cut(1))];
    let facts = run(&plan);
    assert_eq!(facts.check(&plan), Ok(()));
    let alone = facts.keys[&0].alone.values().flatten();
    let alone: u64 = alone.map(|[_, at]| at.n).sum();
    assert_eq!(alone, 2 * 100);
}

#[test]
fn processes_with_two_quotas_give_the_larger_burst_and_rate() {
    let mut plan = Plan::calm("200/s burst 50", nodes(8, &regular(4, 1, 10 * MS)));
    for node in &mut plan.nodes[4..] {
        let smaller = "50/s burst 100".parse().expect("a quota");
        node.quotas = Some([smaller; 2]);
    }
    plan.quota = plan.quota.burst(100);
    let facts = run(&plan);
    assert_eq!(facts.check(&plan), Ok(()));
}
