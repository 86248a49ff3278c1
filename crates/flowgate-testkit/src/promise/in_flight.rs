//! A concurrency limit: the list of permits that are held.

use super::Broken;
use crate::script::{Op, OperationOutcome, Setup, Step};

/// Held permits, and the current limit.
struct Ledger {
    held: Vec<u64>,
    limit: u128,
}

impl Ledger {
    fn new(setup: &Setup) -> Self {
        Self {
            held: Vec::new(),
            limit: crate::rate::Rate::of(setup.quota).limit_units,
        }
    }

    fn in_flight(&self) -> u128 {
        self.held.iter().map(|n| u128::from(*n)).sum()
    }

    fn note(&mut self, step: &Step, outcome: &OperationOutcome) {
        match (step.op, outcome) {
            (Op::Try { n }, OperationOutcome::Admitted) => self.held.push(n),
            (Op::Cancel { pick }, OperationOutcome::Back(_)) if !self.held.is_empty() => {
                self.held.remove(pick % self.held.len());
            }
            (Op::SetQuota { quota, .. }, OperationOutcome::Changed) => {
                self.limit = crate::rate::Rate::of(quota).limit_units;
            }
            _ => {}
        }
    }
}

/// Checks that no admission exceeds the current limit.
pub(super) fn check(setup: &Setup, trace: &[(Step, OperationOutcome)]) -> Result<(), Broken> {
    let mut ledger = Ledger::new(setup);
    for (step, outcome) in trace {
        ledger.note(step, outcome);
        let takes =
            matches!(step.op, Op::Try { n } if n > 0) && *outcome == OperationOutcome::Admitted;
        let admitted = ledger.in_flight();
        if takes && admitted > ledger.limit {
            return Err(Broken {
                from_ns: step.at_ns,
                to_ns: step.at_ns,
                admitted,
                allowed: ledger.limit,
            });
        }
    }
    Ok(())
}

/// Returns how many units the last step of `trace` could have acquired within the limit.
pub(crate) fn room(setup: &Setup, trace: &[(Step, OperationOutcome)]) -> u128 {
    let mut ledger = Ledger::new(setup);
    for (step, outcome) in trace {
        ledger.note(step, outcome);
    }
    ledger.limit.saturating_sub(ledger.in_flight())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Kind;
    use flowgate::{Carry, Quota};

    #[test]
    fn c1_what_is_given_back_makes_room_and_a_smaller_limit_takes_none_away() {
        let setup = Setup::of(Kind::InFlight, Quota::per_second(3));
        let at = |op, outcome| (Step { at_ns: 0, op }, outcome);
        let smaller = Op::SetQuota {
            quota: Quota::per_second(1),
            carry: Carry::Kept,
        };
        let mut trace = vec![
            at(Op::Try { n: 2 }, OperationOutcome::Admitted),
            at(Op::Try { n: 1 }, OperationOutcome::Admitted),
            at(smaller, OperationOutcome::Changed),
            at(Op::Cancel { pick: 0 }, OperationOutcome::Back(2)),
        ];
        assert_eq!(check(&setup, &trace), Ok(()));
        assert_eq!(room(&setup, &trace), 0);
        trace.push(at(Op::Try { n: 1 }, OperationOutcome::Admitted));
        let broken = check(&setup, &trace).unwrap_err();
        assert_eq!((broken.admitted, broken.allowed), (2, 1));
    }
}
