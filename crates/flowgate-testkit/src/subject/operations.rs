//! The operations of flowgate's limiters, at explicit times and on their own clocks.

use flowgate::{
    Acquire, ApproximateWindow, Carry, DecayingBucket, DualTokenBucket, FixedWindow, LeakyBucket,
    Limiter, ManualClock, OneWord, PayAfter, SegmentedWindow, SlidingWindow, Striped, Timestamp,
    TokenBucket, WarmUp,
};

use super::limiters::twice;
use super::{Capabilities, Subject, answer, refusal};
use crate::script::{Op, OperationOutcome, Step};
use crate::task::Task;

/// What a limiter does, for both [`Explicit`] and [`OwnClock`].
pub(super) trait Operations: Limiter {
    /// The supported operations.
    const ABLE: Capabilities;

    fn at_explicit(&self, now: Timestamp, op: &Op) -> OperationOutcome;

    fn by_own_clock(&self, op: &Op) -> OperationOutcome;
}

/// Returns whether a change was accepted, as an outcome.
fn changed<E>(change: Result<(), E>) -> OperationOutcome {
    match change {
        Ok(()) => OperationOutcome::Changed,
        Err(_) => OperationOutcome::Skipped,
    }
}

const TRIES: Capabilities = Capabilities {
    costs: true,
    available: true,
    set_quota: true,
    retry_after: true,
    ..Capabilities::NONE
};
const GIVES_BACK: Capabilities = Capabilities {
    take_up_to: true,
    refund: true,
    ..TRIES
};
const BUCKET: Capabilities = Capabilities {
    overdraw: true,
    ..GIVES_BACK
};

/// A limiter with its supported operations. `at` is the limiter, or its view at a time.
macro_rules! operations {
    ($($limiter:ty),+; $able:expr; |$at:ident| $arms:tt) => {
        $(operations!(@one $limiter; $able; $at $arms);)+
    };
    (@one $limiter:ty; $able:expr; $at:ident { $($op:pat => $answer:expr),+ }) => {
        impl Operations for $limiter {
            const ABLE: Capabilities = $able;

            fn at_explicit(&self, now: Timestamp, op: &Op) -> OperationOutcome {
                let $at = self.at(now);
                match *op {
                    Op::Try { n } => answer($at.try_acquire_n(n)),
                    Op::Available => OperationOutcome::Holds($at.available()),
                    $($op => $answer,)+
                    _ => OperationOutcome::Skipped,
                }
            }

            fn by_own_clock(&self, op: &Op) -> OperationOutcome {
                let $at = self;
                match *op {
                    Op::Try { n } => answer($at.try_acquire_n(n)),
                    Op::Available => OperationOutcome::Holds($at.available()),
                    $($op => $answer,)+
                    _ => OperationOutcome::Skipped,
                }
            }
        }
    };
}

operations!(TokenBucket, LeakyBucket; BUCKET; |at| {
    Op::TakeUpTo { n } => OperationOutcome::Took(at.take_up_to(n)),
    Op::Refund { n } => OperationOutcome::Back(at.refund(n)),
    Op::Overdraw { n } => answer(at.overdraw(n)),
    Op::SetQuota { quota, carry } => {
        at.set_quota_with(quota, carry);
        OperationOutcome::Changed
    }
});
operations!(PayAfter; Capabilities { refund: true, ..TRIES }; |at| {
    Op::Refund { n } => OperationOutcome::Back(at.refund(n)),
    Op::SetQuota { quota, .. } => {
        at.set_quota_with(quota, Carry::Kept);
        OperationOutcome::Changed
    }
});
operations!(DualTokenBucket; GIVES_BACK; |at| {
    Op::TakeUpTo { n } => OperationOutcome::Took(at.take_up_to(n)),
    Op::Refund { n } => OperationOutcome::Back(at.refund(n)),
    Op::SetQuota { quota, .. } => changed(twice(quota).map(|quotas| at.set_quotas(quotas)).ok_or(()))
});
operations!(FixedWindow, SlidingWindow, SegmentedWindow, ApproximateWindow; GIVES_BACK; |at| {
    Op::TakeUpTo { n } => OperationOutcome::Took(at.take_up_to(n)),
    Op::Refund { n } => OperationOutcome::Back(at.refund(n)),
    Op::SetQuota { quota, .. } => changed(at.set_quota(quota))
});
operations!(WarmUp; TRIES; |at| {
    Op::SetQuota { quota, .. } => changed(at.set_quota(quota))
});
operations!(DecayingBucket; TRIES; |at| {
    Op::SetQuota { quota, .. } => {
        changed(at.set(quota.count() * quota.scale(), quota.period()))
    }
});

/// At explicit times, and for what stripes do not do, the limiter itself.
impl<L: Operations + OneWord> Operations for Striped<L> {
    const ABLE: Capabilities = L::ABLE;

    fn at_explicit(&self, now: Timestamp, op: &Op) -> OperationOutcome {
        self.get_ref().at_explicit(now, op)
    }

    fn by_own_clock(&self, op: &Op) -> OperationOutcome {
        match *op {
            Op::Try { n } => answer(self.try_acquire_n(n)),
            Op::TakeUpTo { n } => OperationOutcome::Took(self.take_up_to(n)),
            _ => self.get_ref().by_own_clock(op),
        }
    }
}

/// A limiter at explicit times.
pub(super) struct Explicit<'a, L>(pub &'a L);

impl<L: Operations> Subject for Explicit<'_, L> {
    fn capabilities(&self) -> Capabilities {
        L::ABLE
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.0
            .at_explicit(Timestamp::from_nanos(step.at_ns), &step.op)
    }
}

/// A limiter on its own clock, which the steps set, with its waiters.
pub(super) struct OwnClock<'a, L> {
    limiter: &'a L,
    time: ManualClock,
    waits: Vec<Task<Acquire<&'a dyn Limiter>>>,
    may_withhold: u64,
    most_undated: u64,
}

impl<'a, L: Operations> OwnClock<'a, L> {
    pub fn new(limiter: &'a L, time: ManualClock) -> Self {
        Self {
            limiter,
            time,
            waits: Vec::new(),
            may_withhold: 0,
            most_undated: 0,
        }
    }

    /// Creates a subject with the allowances of a striped limiter.
    ///
    /// It may refuse `may_withhold` units needlessly, and take `most_undated` units without reading the clock.
    pub fn striped(
        limiter: &'a L,
        time: ManualClock,
        may_withhold: u64,
        most_undated: u64,
    ) -> Self {
        Self {
            may_withhold,
            most_undated,
            ..Self::new(limiter, time)
        }
    }

    fn wait(&mut self, n: u64) -> OperationOutcome {
        let wait = Task::start(self.limiter.acquire().n(n));
        match &wait.output {
            Some(Ok(_)) => OperationOutcome::Admitted,
            Some(Err(denied)) => refusal(*denied),
            None => {
                self.waits.push(wait);
                OperationOutcome::Waits
            }
        }
    }
}

impl<L: Operations> Subject for OwnClock<'_, L> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            wait: true,
            own_clock: true,
            ..L::ABLE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = Timestamp::from_nanos(step.at_ns);
        if now == Timestamp::MAX {
            return self.limiter.at_explicit(now, &step.op);
        }
        self.time.set(now);
        match step.op {
            Op::Wait { n } => self.wait(n),
            Op::GiveUp { .. } if self.waits.is_empty() => OperationOutcome::Skipped,
            Op::GiveUp { pick } => {
                let pick = pick % self.waits.len();
                drop(self.waits.remove(pick));
                OperationOutcome::GaveUp
            }
            op => self.limiter.by_own_clock(&op),
        }
    }

    fn may_withhold(&self) -> u64 {
        self.may_withhold
    }

    fn most_undated(&self) -> u64 {
        self.most_undated
    }
}
