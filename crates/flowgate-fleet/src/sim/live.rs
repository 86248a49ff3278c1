//! After a fault, the limit is used up again.

use super::plan::{Fault, MS, NodePlan, Plan, SECOND};
use super::tight::regular;
use super::world::run;
use crate::CutOff;
use crate::overshoot::Overshoot;

#[test]
fn c2_no_fault_leaves_a_limit_stuck() {
    let for_ns = 300 * MS;
    let faults = [
        Fault::Amnesia { age_ns: None },
        Fault::Hang { for_ns },
        Fault::Refuse { for_ns },
        Fault::Promote {
            lag_ns: 0,
            both_ns: for_ns,
        },
        Fault::Leap { us: 3_600_000_000 },
        Fault::Leap { us: -3_600_000_000 },
        Fault::Sleep { node: 0, for_ns },
        Fault::Cut {
            node: 0,
            for_ns,
            ways: [true, true],
        },
        Fault::Restart { node: 0 },
        Fault::Reset,
    ];
    for lease in [None, Some(Overshoot::percent(50))] {
        for fault in &faults {
            let node = NodePlan::new(CutOff::Deny, regular(4, 1, 10 * MS));
            let mut plan = Plan::calm("400/s burst 200", vec![node; 2]);
            plan.lease = lease;
            plan.end_ns = 3 * SECOND;
            plan.faults = vec![(500 * MS, fault.clone())];
            let facts = run(&plan);
            assert_eq!(facts.check(&plan), Ok(()));
            // Later, what flows in is given out.
            let admissions = facts.keys[&0].admissions(&plan);
            let late = admissions.iter().filter(|grant| grant.at_ns >= 2 * SECOND);
            let late: u64 = late.map(|grant| grant.n).sum();
            assert!(late >= 400 * 85 / 100, "{fault:?}, {lease:?}: {late}");
        }
    }
}
