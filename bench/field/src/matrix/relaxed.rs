//! The same limiter, with something not held against it.

use std::time::Duration;

use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
use flowgate_testkit::subject::{Capabilities, Subject};

use crate::peers::Test;

/// A hundred years: beyond the range of many counters, and of any practical use.
const CENTURY_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Deviations that do not count as violations.
#[derive(Clone, Copy, Default)]
pub struct Relaxed {
    /// That it would admit earlier than it told.
    pub not_early: bool,
    /// What it does after a hundred years: nothing is asked of it then.
    pub a_century: bool,
}

impl Relaxed {
    /// Lends the limiter on.
    pub fn lend(self, subject: &mut dyn Subject, test: Test<'_>) {
        test(&mut Lent {
            subject,
            relaxed: self,
            told: None,
        });
    }
}

struct Lent<'a> {
    subject: &'a mut dyn Subject,
    relaxed: Relaxed,
    /// A refusal: when, how much, and when it was told to come back.
    told: Option<(u64, u64, u64)>,
}

impl Subject for Lent<'_> {
    fn capabilities(&self) -> Capabilities {
        self.subject.capabilities()
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let ends_ns = if self.relaxed.a_century {
            CENTURY_NS
        } else {
            u64::MAX
        };
        if step.at_ns > ends_ns {
            return OperationOutcome::Skipped;
        }
        if let (true, Op::Try { n }, Some((then_ns, refused, due_ns))) =
            (self.relaxed.not_early, step.op, self.told)
            && n == refused
            && (then_ns..due_ns).contains(&step.at_ns)
        {
            // Whoever was told to wait does wait.
            let wait = Duration::from_nanos(due_ns - step.at_ns);
            return OperationOutcome::Refused(Retry::After(wait));
        }
        let outcome = self.subject.step(step);
        self.told = None;
        let (Op::Try { n }, OperationOutcome::Refused(Retry::After(wait))) = (step.op, outcome)
        else {
            return outcome;
        };
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        match step.at_ns.checked_add(wait_ns) {
            Some(due_ns) if due_ns <= ends_ns => {
                self.told = Some((step.at_ns, n, due_ns));
                outcome
            }
            _ => OperationOutcome::Refused(Retry::Untold),
        }
    }
}

#[cfg(test)]
mod tests {
    use flowgate::Quota;
    use flowgate_testkit::conformance::{Contract, check_contract};
    use flowgate_testkit::promise::Kind;
    use flowgate_testkit::script::Setup;
    use flowgate_testkit::subject::{self, BuildSubject};

    use super::*;

    /// The model, which tells a wait that is a microsecond too long.
    struct Late<'a>(&'a mut dyn Subject);

    impl Subject for Late<'_> {
        fn capabilities(&self) -> Capabilities {
            self.0.capabilities()
        }

        fn step(&mut self, step: &Step) -> OperationOutcome {
            match self.0.step(step) {
                OperationOutcome::Refused(Retry::After(wait)) => {
                    OperationOutcome::Refused(Retry::After(wait + Duration::from_micros(1)))
                }
                outcome => outcome,
            }
        }
    }

    #[test]
    fn c3_who_tells_too_long_a_wait_is_only_excused_if_asked_to() {
        for (not_early, excused) in [(false, false), (true, true)] {
            let relaxed = Relaxed {
                not_early,
                a_century: false,
            };
            let build: BuildSubject<'_> = &|setup, test| {
                subject::oracle(setup, &mut |oracle| relaxed.lend(&mut Late(oracle), test));
            };
            let found = check_contract(Kind::Bucket, build, Contract::C3, 300);
            assert_eq!(found.is_ok(), excused, "{found:?}");
        }
    }

    #[test]
    fn nothing_is_asked_after_a_century() {
        let setup = Setup::new(Quota::per_second(1));
        let relaxed = Relaxed {
            not_early: false,
            a_century: true,
        };
        subject::oracle(&setup, &mut |oracle| {
            relaxed.lend(oracle, &mut |lent| {
                let mut at = |at_ns| {
                    let op = Op::Try { n: 1 };
                    lent.step(&Step { at_ns, op })
                };
                assert_eq!(at(CENTURY_NS), OperationOutcome::Admitted);
                assert_eq!(at(CENTURY_NS + 1), OperationOutcome::Skipped);
            });
        });
    }
}
