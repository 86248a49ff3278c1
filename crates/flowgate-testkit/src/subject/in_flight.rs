//! Concurrency limits: what is acquired is held until it is cancelled.

use flowgate::{ConcurrencyLimit, KeyPermit, KeyedConcurrencyLimit, ManualClock, Permit, Quota};

use super::{Capabilities, Subject, refusal};
use crate::script::{Op, OperationOutcome, Setup, Step};

type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);

/// The key under test. The others are smaller.
const KEY: u64 = 1_000;
/// Number of other keys. One of them acquires and releases a permit at every step.
const OTHERS: u64 = 20;
const CAPACITY: usize = 100;
/// Makes each run reproducible.
const SEED: [u64; 2] = [1, 2];

const HOLDS: Capabilities = Capabilities {
    costs: true,
    available: true,
    set_quota: true,
    retry_after: true,
    hold: true,
    ..Capabilities::NONE
};

/// Builds a [`ConcurrencyLimit`] of the quota's limit: a [`BuildSubject`](super::BuildSubject).
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::InFlight, &subject::concurrency_limit, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn concurrency_limit(setup: &Setup, test: Test<'_>) {
    let limit = ConcurrencyLimit::new(slots(setup.quota));
    test(&mut Slots {
        limit: &limit,
        held: Vec::new(),
    });
}

/// Builds a [`KeyedConcurrencyLimit`] of the quota's limit: a [`BuildSubject`](super::BuildSubject).
///
/// One key is under test; others acquire permits as well.
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::InFlight, &subject::keyed_concurrency_limit, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
///
/// # Panics
///
/// Panics if it cannot be built by `setup`.
pub fn keyed_concurrency_limit(setup: &Setup, test: Test<'_>) {
    let limits = KeyedConcurrencyLimit::builder(slots(setup.quota))
        .clock(ManualClock::new())
        .seed(SEED)
        .capacity(CAPACITY);
    test(&mut KeySlots {
        limits: &limits.expect("the setup is in range"),
        held: Vec::new(),
        others: Vec::new(),
        steps: 0,
    });
}

/// Returns the quota's limit, which is far below 2³¹.
fn slots(quota: Quota) -> u32 {
    u32::try_from(quota.count() * quota.scale()).unwrap_or(u32::MAX)
}

struct Slots<'a> {
    limit: &'a ConcurrencyLimit,
    held: Vec<Permit<&'a ConcurrencyLimit>>,
}

impl Subject for Slots<'_> {
    fn capabilities(&self) -> Capabilities {
        HOLDS
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        match step.op {
            Op::Try { n } => match self.limit.try_acquire_n(n) {
                Ok(permit) => {
                    self.held.push(permit);
                    OperationOutcome::Admitted
                }
                Err(denied) => refusal(denied),
            },
            Op::Cancel { pick } => give_back(&mut self.held, pick, Permit::units),
            Op::Available => OperationOutcome::Holds(self.limit.available()),
            Op::SetQuota { quota, .. } => match self.limit.set_limit(slots(quota)) {
                Ok(()) => OperationOutcome::Changed,
                Err(_) => OperationOutcome::Skipped,
            },
            _ => OperationOutcome::Skipped,
        }
    }
}

struct KeySlots<'a> {
    limits: &'a KeyedConcurrencyLimit,
    held: Vec<KeyPermit<&'a KeyedConcurrencyLimit>>,
    others: Vec<KeyPermit<&'a KeyedConcurrencyLimit>>,
    steps: u64,
}

impl Subject for KeySlots<'_> {
    fn capabilities(&self) -> Capabilities {
        HOLDS
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.steps += 1;
        if self.others.len() as u64 == OTHERS {
            self.others.clear();
        }
        self.others
            .extend(self.limits.try_acquire(&(self.steps % OTHERS)));
        match step.op {
            Op::Try { n } => match self.limits.try_acquire_n(&KEY, n) {
                Ok(permit) => {
                    self.held.push(permit);
                    OperationOutcome::Admitted
                }
                Err(denied) => refusal(denied),
            },
            Op::Cancel { pick } => give_back(&mut self.held, pick, KeyPermit::units),
            Op::Available => OperationOutcome::Holds(self.limits.available(&KEY)),
            Op::SetQuota { quota, .. } => match self.limits.set_limit(slots(quota)) {
                Ok(()) => OperationOutcome::Changed,
                Err(_) => OperationOutcome::Skipped,
            },
            _ => OperationOutcome::Skipped,
        }
    }
}

fn give_back<P>(held: &mut Vec<P>, pick: usize, n: fn(&P) -> u64) -> OperationOutcome {
    if held.is_empty() {
        return OperationOutcome::Skipped;
    }
    let permit = held.remove(pick % held.len());
    OperationOutcome::Back(n(&permit))
}
