//! The shortest history that still fails.

use crate::script::Step;

/// Leaves out steps for as long as `fails` still says yes, first many at a time, then each.
///
/// `fails` is asked about histories that are parts of `steps`, in order, at the same times. It must
/// be repeatable, and say yes to `steps` itself.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Op;

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
}
