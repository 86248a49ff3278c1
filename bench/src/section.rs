//! The comparisons of decisions: what each measures, what it divides by, and what it must reach.

use flowgate_bench::cases::{self, Case, FLOWGATE, GOVERNOR, Traffic, WIDE};
use flowgate_bench_waiting::permits::{CONCURRENCY_LIMIT, TOKIO};

use crate::options::names_one;
use crate::{semaphores, striped, types};

/// The subject that `types` divides by.
pub const TOKEN_BUCKET: &str = "TokenBucket";

/// Lower bound of counting in shared state; a goal of `types` refers to it.
pub const CAS: &str = "uncontended 64-bit CAS";

/// One comparison.
pub struct Section {
    /// Every case, grouped by traffic.
    pub cases: fn() -> Vec<Case>,
    /// The subject that the others are divided by.
    pub baseline: &'static str,
    /// The baseline's name over the column of ratios.
    pub column: &'static str,
    pub goals: &'static [Goal],
    /// Numbers of concurrent threads.
    pub threads: &'static [usize],
    /// Subjects of which no decision may allocate: those whose name starts so.
    pub allocation_free: &'static str,
}

/// The most that a median ratio of one subject to another may be.
pub struct Goal {
    pub subject: &'static str,
    pub traffic: Traffic,
    pub threads: usize,
    pub over: &'static str,
    pub most: f64,
}

/// One limiter beside those of other libraries.
pub static SINGLE: Section = Section {
    cases: cases::single,
    baseline: GOVERNOR,
    column: "/governor",
    goals: &[
        single(Traffic::AdmitFull, 1, 1.00),
        single(Traffic::AdmitDraining, 1, 1.00),
        single(Traffic::Refuse, 1, 1.00),
        single(Traffic::AdmitFull, 2, 0.80),
        single(Traffic::AdmitDraining, 2, 0.80),
        single(Traffic::Refuse, 2, 1.00),
        wide(Traffic::AdmitDraining),
        wide(Traffic::Refuse),
    ],
    threads: &[1, 2],
    allocation_free: FLOWGATE,
};

/// Stripes and batches beside one limiter, by the number of threads.
pub static STRIPED: Section = Section {
    cases: striped::cases,
    baseline: GOVERNOR,
    column: "/governor",
    goals: &[
        Goal {
            subject: striped::STRIPED,
            traffic: Traffic::Admit,
            threads: 1,
            over: GOVERNOR,
            most: 0.20,
        },
        Goal {
            subject: striped::STRIPED,
            traffic: Traffic::Admit,
            threads: 2,
            over: GOVERNOR,
            most: 0.05,
        },
        Goal {
            subject: striped::STRIPED,
            traffic: Traffic::RefuseFull,
            threads: 1,
            over: FLOWGATE,
            most: 1.30,
        },
    ],
    threads: &[1, 2, 4, 8, 16],
    allocation_free: FLOWGATE,
};

/// flowgate's limiters beside its `TokenBucket`.
pub static TYPES: Section = Section {
    cases: types::all,
    baseline: TOKEN_BUCKET,
    column: "/TokenBucket",
    goals: &[
        admit("LeakyBucket", TOKEN_BUCKET, 1.15),
        admit("PayAfter", TOKEN_BUCKET, 1.15),
        admit("FixedWindow", TOKEN_BUCKET, 1.15),
        admit("ApproximateWindow", TOKEN_BUCKET, 1.10),
        admit("WarmUp, warm", TOKEN_BUCKET, 1.25),
        admit("DecayingBucket", TOKEN_BUCKET, 1.25),
        Goal {
            subject: "DecayingBucket",
            traffic: Traffic::RefuseFull,
            threads: 1,
            over: TOKEN_BUCKET,
            most: 2.00,
        },
        admit("SegmentedWindow, k = 1", TOKEN_BUCKET, 1.10),
        admit("SlidingWindow, 100", TOKEN_BUCKET, 1.80),
        admit("SlidingWindow, 1,000,000", TOKEN_BUCKET, 1.80),
        admit("FixedWindow, clock-free", CAS, 1.45),
    ],
    threads: &[1, 2],
    allocation_free: "",
};

/// A permit beside a permit of tokio's.
pub static PERMITS: Section = Section {
    cases: semaphores::cases,
    baseline: TOKIO,
    column: "/tokio",
    goals: &[
        Goal {
            subject: CONCURRENCY_LIMIT,
            traffic: Traffic::Permit,
            threads: 1,
            over: TOKIO,
            most: 0.80,
        },
        Goal {
            subject: semaphores::ADAPTIVE_LIMIT,
            traffic: Traffic::Permit,
            threads: 1,
            over: CONCURRENCY_LIMIT,
            most: 1.30,
        },
        Goal {
            subject: semaphores::ADAPTIVE_LIMIT,
            traffic: Traffic::NoPermit,
            threads: 1,
            over: CONCURRENCY_LIMIT,
            most: 1.30,
        },
    ],
    threads: &[1, 2],
    allocation_free: FLOWGATE,
};

const fn single(traffic: Traffic, threads: usize, most: f64) -> Goal {
    Goal {
        subject: FLOWGATE,
        traffic,
        threads,
        over: GOVERNOR,
        most,
    }
}

/// What 128 bits may cost.
const fn wide(traffic: Traffic) -> Goal {
    Goal {
        subject: WIDE,
        traffic,
        threads: 1,
        over: FLOWGATE,
        most: 1.30,
    }
}

const fn admit(subject: &'static str, over: &'static str, most: f64) -> Goal {
    Goal {
        subject,
        traffic: Traffic::Admit,
        threads: 1,
        over,
        most,
    }
}

impl Section {
    /// Its cases; with `only`, those whose subject contains it, and what they are divided by.
    ///
    /// # Errors
    ///
    /// A message that lists the subjects, if `only` is part of none.
    pub fn cases(&self, only: Option<&str>) -> Result<Vec<Case>, String> {
        let mut cases = (self.cases)();
        let Some(text) = only else {
            return Ok(cases);
        };
        let subjects: Vec<_> = cases.iter().map(|case| case.subject).collect();
        names_one(text, &subjects)?;
        let is_base = |subject| {
            let goals = self.goals.iter().filter(|goal| goal.subject.contains(text));
            subject == self.baseline || goals.map(|goal| goal.over).any(|over| over == subject)
        };
        cases.retain(|case| case.subject.contains(text) || is_base(case.subject));
        Ok(cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_is_about_cases_that_exist() {
        for section in [&SINGLE, &TYPES, &STRIPED, &PERMITS] {
            let cases = section.cases(None).expect("no text");
            let exists = |subject: &str, traffic| {
                let mut found = cases.iter().filter(|c| c.subject == subject);
                found.any(|case| case.traffic == traffic)
            };
            for goal in section.goals {
                assert!(exists(goal.subject, goal.traffic), "{}", goal.subject);
                assert!(exists(goal.over, goal.traffic), "{}", goal.over);
            }
        }
    }

    #[test]
    fn only_keeps_what_the_chosen_are_divided_by() {
        let cases = TYPES.cases(Some("clock-free")).expect("there is one");
        let mut subjects: Vec<_> = cases.iter().map(|case| case.subject).collect();
        subjects.sort_unstable();
        subjects.dedup();
        assert_eq!(subjects, ["FixedWindow, clock-free", "TokenBucket", CAS]);
        let error = TYPES.cases(Some("nobody")).err().expect("there is none");
        assert!(error.contains("TokenBucket | "), "{error}");
    }
}
