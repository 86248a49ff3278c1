//! What the suite asks of a bucket at times before a change of quota can be kept: a model that keeps it is acquitted.
//!
//! At a time before the last change there is what is there at the change, in tokens of the new quota, less what flowed in
//! between at the old rate. Before the change before that there is nothing. A reset adds a burst to a debt.

use flowgate::{Carry, Quota};
use flowgate_testkit::conformance::{Contract, check_contract};
use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
use flowgate_testkit::subject::{BuildSubject, Capabilities, Subject};
use num_rational::BigRational;

fn whole(number: impl Into<i128>) -> BigRational {
    BigRational::from_integer(number.into().into())
}

/// A rate and a burst, in units and nanoseconds.
#[derive(Clone)]
struct Terms {
    per_ns: BigRational,
    burst: BigRational,
}

impl Terms {
    fn of(quota: Quota) -> Self {
        let units = i128::from(quota.count()) * i128::from(quota.scale());
        let period_ns = i128::try_from(quota.period().as_nanos()).expect("in range");
        let burst = quota.max_burst().saturating_mul(quota.scale());
        Self {
            per_ns: BigRational::new(units.into(), period_ns.into()),
            burst: whole(burst),
        }
    }
}

/// A bucket in fractions that remembers its last change.
struct Model {
    terms: Terms,
    /// What is there at `since_ns`, if that is after the change; otherwise what would be.
    level: BigRational,
    since_ns: u64,
    /// The last change, the rate before it, and the change before that.
    changed: Option<(u64, BigRational, u64)>,
    newest_ns: u64,
}

impl Model {
    fn new(quota: Quota) -> Self {
        let terms = Terms::of(quota);
        Self {
            level: terms.burst.clone(),
            since_ns: 0,
            changed: None,
            newest_ns: 0,
            terms,
        }
    }

    /// What is there at this time; `None` before the change before the last one.
    fn level_at(&self, at_ns: u64) -> Option<BigRational> {
        let line = |at_ns: u64| {
            let ns = i128::from(at_ns) - i128::from(self.since_ns);
            (&self.level + whole(ns) * &self.terms.per_ns).min(self.terms.burst.clone())
        };
        match &self.changed {
            Some((_, _, before_ns)) if at_ns < *before_ns => None,
            Some((changed_ns, per_ns, _)) if at_ns < *changed_ns => {
                Some(line(*changed_ns) - whole(*changed_ns - at_ns) * per_ns)
            }
            _ => Some(line(at_ns)),
        }
    }

    fn take(&mut self, at_ns: u64, n: u64) {
        // An earlier time leaves the line where it is, unless the bucket is full even there.
        let at_ns = at_ns.max(self.changed.as_ref().map_or(0, |changed| changed.0));
        let level = self.level_at(at_ns).expect("not before the last change");
        if at_ns > self.since_ns || level == self.terms.burst {
            self.level = level;
            self.since_ns = at_ns;
        }
        self.level -= whole(n);
    }

    /// The earliest time, not before `at_ns`, at which there is as much as `wanted`.
    fn due_ns(&self, at_ns: u64, wanted: &BigRational) -> Option<u64> {
        let mut from_ns = vec![at_ns];
        if let Some((changed_ns, _, before_ns)) = &self.changed {
            from_ns.extend([*before_ns, *changed_ns].map(|ns| ns.max(at_ns)));
        }
        from_ns.sort_unstable();
        for (index, from) in from_ns.iter().enumerate() {
            let Some(level) = self.level_at(*from) else {
                continue;
            };
            let per_ns = match &self.changed {
                Some((changed_ns, per_ns, _)) if from < changed_ns => per_ns,
                _ => &self.terms.per_ns,
            };
            let missing = (wanted - level).max(whole(0));
            let wait = (missing / per_ns).ceil().to_integer();
            let due = u64::try_from(wait)
                .ok()
                .and_then(|wait| from.checked_add(wait));
            let until = from_ns.get(index + 1).copied();
            match (due, until) {
                (Some(due), Some(until)) if due <= until => return Some(due),
                (due, None) => return due,
                _ => {}
            }
        }
        None
    }

    fn decide(&mut self, at_ns: u64, n: u64, most_debt: &BigRational) -> OperationOutcome {
        let wanted = (whole(n) - most_debt).max(whole(0));
        if wanted > self.terms.burst {
            return OperationOutcome::Refused(Retry::Never);
        }
        if n == 0 {
            return OperationOutcome::Admitted;
        }
        if self.level_at(at_ns).is_some_and(|level| level >= wanted) {
            self.take(at_ns, n);
            return OperationOutcome::Admitted;
        }
        let wait = |due: u64| core::time::Duration::from_nanos(due - at_ns);
        let due = self.due_ns(at_ns, &wanted);
        OperationOutcome::Refused(due.map_or(Retry::Untold, |due| Retry::After(wait(due))))
    }
}

impl Subject for Model {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            overdraw: true,
            set_quota: true,
            retry_after: true,
            ..Capabilities::NONE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let at_ns = step.at_ns;
        self.newest_ns = self.newest_ns.max(at_ns);
        match step.op {
            Op::Try { n } => self.decide(at_ns, n, &whole(0)),
            Op::Overdraw { n } => {
                let most_debt = self.terms.burst.clone();
                self.decide(at_ns, n, &most_debt)
            }
            Op::SetQuota { quota, carry } => {
                let changed_ns = self.newest_ns;
                let level = self
                    .level_at(changed_ns)
                    .expect("not before the last change");
                let before_ns = self.changed.as_ref().map_or(0, |changed| changed.0);
                self.changed = Some((changed_ns, self.terms.per_ns.clone(), before_ns));
                self.terms = Terms::of(quota);
                let level = match carry {
                    Carry::Reset => level.min(whole(0)) + &self.terms.burst,
                    _ => level,
                };
                self.level = level.min(self.terms.burst.clone());
                self.since_ns = changed_ns;
                OperationOutcome::Changed
            }
            _ => OperationOutcome::Skipped,
        }
    }
}

#[test]
fn c1_c2_c3_c4_a_bucket_that_remembers_its_last_change_is_acquitted() {
    let build: BuildSubject<'_> = &|setup, test| test(&mut Model::new(setup.quota));
    for contract in [Contract::C1, Contract::C2, Contract::C3, Contract::C4] {
        if let Err(finding) = check_contract(Kind::Bucket, build, contract, 150) {
            panic!("{finding}");
        }
    }
}
