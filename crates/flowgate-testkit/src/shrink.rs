//! Finds the shortest history that still fails.

use crate::script::{Op, Step};

/// Removes steps while `fails` still returns true: first many steps together, then each.
///
/// `fails` gets histories that are parts of `steps`, in order, at the same times. It must be deterministic, and return
/// true for `steps` itself.
///
/// ```
/// use flowgate_testkit::script::{Op, Step};
/// use flowgate_testkit::shrink::shortest;
///
/// let steps: Vec<Step> = (0..100).map(|n| Step { at_ns: n, op: Op::Try { n } }).collect();
/// // The failure needs these two steps.
/// let fails = |steps: &[Step]| [17, 83].iter().all(|n| steps.iter().any(|step| step.at_ns == *n));
/// let left: Vec<u64> = shortest(&steps, fails).iter().map(|step| step.at_ns).collect();
/// assert_eq!(left, [17, 83]);
/// ```
pub fn shortest(steps: &[Step], mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut kept = steps.to_vec();
    let mut chunk = kept.len().div_ceil(2).max(1);
    loop {
        let mut shorter = false;
        let mut from = 0;
        while from < kept.len() {
            let mut candidate = kept.clone();
            candidate.drain(from..(from + chunk).min(kept.len()));
            if fails(&candidate) {
                kept = candidate;
                shorter = true;
            } else {
                from += chunk;
            }
        }
        match (shorter, chunk) {
            (true, _) => {}
            (false, 1) => return kept,
            (false, _) => chunk = chunk.div_ceil(2),
        }
    }
}

/// Replaces times and amounts by rounder and smaller ones while `fails` still returns true.
///
/// The order of the steps stays the same, and so do equal times.
///
/// ```
/// use flowgate_testkit::script::{Op, Step};
/// use flowgate_testkit::shrink::simplest;
///
/// let at = |at_ns, n| Step { at_ns, op: Op::Try { n } };
/// let fails = |steps: &[Step]| steps[1].at_ns - steps[0].at_ns > 500_000_000;
/// let simple = simplest(&[at(12_345, 9), at(987_654_321, 7)], fails);
/// assert_eq!(simple, [at(0, 1), at(900_000_000, 1)]);
/// ```
pub fn simplest(steps: &[Step], mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut kept = steps.to_vec();
    let mut changed = true;
    while changed {
        changed = false;
        for index in 0..kept.len() {
            for simpler in simpler(&kept, index) {
                if fails(&simpler) {
                    kept = simpler;
                    changed = true;
                    break;
                }
            }
        }
    }
    kept
}

/// Returns the histories in which one step is simpler, the simplest first.
fn simpler(steps: &[Step], index: usize) -> Vec<Vec<Step>> {
    let Step { at_ns, op } = steps[index];
    // What is asked at the end of time is refused or only read; simpler, it would be another history.
    if at_ns == u64::MAX {
        return Vec::new();
    }
    let times = rounder(at_ns).filter_map(|time| {
        // Those at the same instant go with it.
        let moved: Vec<_> = steps
            .iter()
            .map(|step| Step {
                at_ns: if step.at_ns == at_ns {
                    time
                } else {
                    step.at_ns
                },
                ..*step
            })
            .collect();
        let same_order = |(before, after): (&Step, &Step)| {
            steps.iter().zip(&moved).all(|(other, other_after)| {
                before.at_ns.cmp(&other.at_ns) == after.at_ns.cmp(&other_after.at_ns)
            })
        };
        steps.iter().zip(&moved).all(same_order).then_some(moved)
    });
    let amounts = smaller(op).into_iter().map(|op| {
        let mut steps = steps.to_vec();
        steps[index].op = op;
        steps
    });
    times.chain(amounts).collect()
}

/// Returns numbers near `n` with fewer significant digits, the fewest first.
fn rounder(n: u64) -> impl Iterator<Item = u64> {
    let grains = (0..20).rev().map(|digits| 10_u64.pow(digits));
    let near = grains
        .filter(move |grain| *grain <= n)
        .flat_map(move |grain| {
            let down = n / grain * grain;
            [down, down.saturating_add(grain)]
        });
    let less = move |m: &u64| significant(*m) < significant(n);
    [0].into_iter().chain(near).filter(less)
}

fn significant(mut n: u64) -> u32 {
    while n != 0 && n.is_multiple_of(10) {
        n /= 10;
    }
    n.checked_ilog10().map_or(0, |log| log + 1)
}

/// Returns the same operation with a rounder or smaller amount.
fn smaller(op: Op) -> Vec<Op> {
    let less = |n: u64| {
        let small = (1..n.min(10)).chain(rounder(n).filter(|m| *m > 0));
        small.collect::<Vec<_>>().into_iter()
    };
    match op {
        Op::Try { n } => less(n).map(|n| Op::Try { n }).collect(),
        Op::TakeUpTo { n } => less(n).map(|n| Op::TakeUpTo { n }).collect(),
        Op::Reserve { n, within_ns } => {
            let cost = less(n).map(|n| Op::Reserve { n, within_ns });
            let waits = within_ns
                .into_iter()
                .flat_map(|ns| rounder(ns).filter(|ns| *ns > 0));
            let waits = waits.map(|ns| Op::Reserve {
                n,
                within_ns: Some(ns),
            });
            cost.chain(waits).collect()
        }
        Op::HandOver { quota: Some(_) } => vec![Op::HandOver { quota: None }],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_left() {
        let steps: Vec<_> = (0..100)
            .map(|n| Step {
                at_ns: n,
                op: Op::Try { n },
            })
            .collect();
        let needs = |steps: &[Step], n| {
            steps.contains(&Step {
                at_ns: n,
                op: Op::Try { n },
            })
        };
        let left = shortest(&steps, |steps| needs(steps, 17) && needs(steps, 83));
        assert_eq!(
            left.iter().map(|step| step.at_ns).collect::<Vec<_>>(),
            [17, 83]
        );
    }

    #[test]
    fn times_become_round_and_keep_their_order() {
        let at = |at_ns, n| Step {
            at_ns,
            op: Op::Try { n },
        };
        let steps = [at(12_345, 9), at(12_345, 1), at(987_654_321, 7)];
        let fails = |steps: &[Step]| steps[2].at_ns - steps[0].at_ns > 500_000_000;
        let simple = simplest(&steps, fails);
        assert_eq!(simple, [at(0, 1), at(0, 1), at(900_000_000, 1)]);
    }
}
