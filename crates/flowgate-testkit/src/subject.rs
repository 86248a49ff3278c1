//! Limiters under test: flowgate's, the [broken](crate::broken), and yours.

mod in_flight;
mod keyed;
mod keyed_gate;
mod leased;
mod limiters;
mod operations;

pub use in_flight::*;
pub use keyed::*;
pub use keyed_gate::*;
pub use leased::*;
pub use limiters::*;

use flowgate::engine::{Bucket, PaysBefore, Tokens};
use flowgate::{Denied, Limiter, RateLimiter, Reservation, Timestamp};

use crate::oracle::Oracle;
use crate::script::{Op, OperationOutcome, Retry, Setup, Step};

/// Operations that a subject supports, beyond acquiring one unit.
///
/// A check skips operations that a subject does not support.
///
/// ```
/// use flowgate_testkit::script::Op;
/// use flowgate_testkit::subject::Capabilities;
///
/// let can = Capabilities { costs: true, retry_after: true, ..Capabilities::NONE };
/// assert!(can.allow(&Op::Try { n: 5 }));
/// assert!(!can.allow(&Op::Refund { n: 5 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Op::Try`] with any n, not only 1.
    pub costs: bool,
    /// [`Op::TakeUpTo`].
    pub take_up_to: bool,
    /// [`Op::Overdraw`].
    pub overdraw: bool,
    /// [`Op::Reserve`] and [`Op::Cancel`].
    pub reserve: bool,
    /// [`Op::Refund`].
    pub refund: bool,
    /// [`Op::Available`].
    pub available: bool,
    /// [`Op::SetQuota`].
    pub set_quota: bool,
    /// [`Op::SetRefill`].
    pub set_refill: bool,
    /// Refusals report when to retry.
    pub retry_after: bool,
    /// [`Op::Wait`] and [`Op::GiveUp`].
    pub wait: bool,
    /// What [`Op::Try`] acquires is held until [`Op::Cancel`].
    pub hold: bool,
    /// Steps at the end of time use that explicit time. All other steps use the subject's own clock.
    pub own_clock: bool,
    /// [`Op::HandOver`]; with another quota only if [`set_quota`](Self::set_quota) is supported.
    pub hand_over: bool,
}

impl Capabilities {
    /// Only trying 1. Equal to [`Default`], as a constant.
    pub const NONE: Self = Self {
        costs: false,
        take_up_to: false,
        overdraw: false,
        reserve: false,
        refund: false,
        available: false,
        set_quota: false,
        set_refill: false,
        retry_after: false,
        wait: false,
        hold: false,
        own_clock: false,
        hand_over: false,
    };

    /// Everything.
    pub const ALL: Self = Self {
        costs: true,
        take_up_to: true,
        overdraw: true,
        reserve: true,
        refund: true,
        available: true,
        set_quota: true,
        set_refill: true,
        retry_after: true,
        wait: true,
        hold: true,
        own_clock: true,
        hand_over: true,
    };

    /// Everything that a token bucket supports at explicit times.
    pub const BUCKET: Self = Self {
        wait: false,
        hold: false,
        own_clock: false,
        hand_over: false,
        ..Self::ALL
    };

    /// Returns whether `op` is supported.
    ///
    /// ```
    /// # use flowgate_testkit::script::Op;
    /// # use flowgate_testkit::subject::Capabilities;
    /// assert!(Capabilities::NONE.allow(&Op::Try { n: 1 }));
    /// assert!(!Capabilities::NONE.allow(&Op::Try { n: 2 }));
    /// assert!(Capabilities::ALL.allow(&Op::Available));
    /// ```
    pub fn allow(&self, op: &Op) -> bool {
        match op {
            Op::Try { n } => self.costs || *n == 1,
            Op::TakeUpTo { .. } => self.take_up_to,
            Op::Overdraw { .. } => self.overdraw,
            Op::Reserve { .. } => self.reserve,
            Op::Cancel { .. } => self.reserve || self.hold,
            Op::Refund { .. } => self.refund,
            Op::Available => self.available,
            Op::SetQuota { .. } => self.set_quota,
            Op::Wait { .. } | Op::GiveUp { .. } => self.wait,
            Op::SetRefill { .. } => self.set_refill,
            Op::HandOver { quota } => self.hand_over && (self.set_quota || quota.is_none()),
        }
    }
}

/// A limiter under test, at explicit times.
///
/// ```
/// use flowgate_testkit::conformance::{self, Contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::script::{Op, OperationOutcome, Retry, Step};
/// use flowgate_testkit::subject::{BuildSubject, Capabilities, Subject};
///
/// /// Counts, and never reads a clock.
/// struct Once {
///     left: u64,
/// }
///
/// impl Subject for Once {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::NONE
///     }
///
///     fn step(&mut self, step: &Step) -> OperationOutcome {
///         let Op::Try { n: 1 } = step.op else {
///             return OperationOutcome::Skipped;
///         };
///         match self.left.checked_sub(1) {
///             Some(left) => {
///                 self.left = left;
///                 OperationOutcome::Admitted
///             }
///             None => OperationOutcome::Refused(Retry::Untold),
///         }
///     }
/// }
///
/// let build: BuildSubject<'_> = &|setup, test| test(&mut Once { left: setup.quota.count() });
/// let report = conformance::check(Kind::Sliding, build, 50);
/// assert!(report.broken().contains(&Contract::C2)); // what has left the window never comes back
/// ```
pub trait Subject {
    /// Returns the supported operations. The checks perform no others.
    fn capabilities(&self) -> Capabilities;

    /// Performs one step and returns the answer, or [`OperationOutcome::Skipped`] if it is not supported.
    fn step(&mut self, step: &Step) -> OperationOutcome;

    /// Returns how many units it may refuse needlessly, by its documentation (C2).
    fn may_withhold(&self) -> u64 {
        0
    }

    /// Returns the maximum cost of an operation that may not read the clock.
    ///
    /// Until the first change of quota, such an operation counts at the latest time that the clock has shown. Quotas
    /// that are drawn for a change leave too few tokens for that.
    fn most_undated(&self) -> u64 {
        0
    }
}

/// Builds a fresh subject by the setup, and passes it to a test.
///
/// The test borrows the subject, because the subject may borrow the limiter that the builder owns.
///
/// ```
/// use flowgate::{ManualClock, SlidingWindow};
/// use flowgate_testkit::conformance;
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::{Any, BuildSubject};
///
/// let build: BuildSubject<'_> = &|setup, test| {
///     let window = SlidingWindow::builder(setup.quota).clock(ManualClock::new()).build();
///     test(&mut Any(&window.expect("the setup is in range")));
/// };
/// let report = conformance::check(Kind::Sliding, build, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub type BuildSubject<'a> = &'a (dyn Fn(&Setup, &mut dyn FnMut(&mut dyn Subject)) + 'a);

/// Builds a flowgate [`TokenBucket`](flowgate::TokenBucket): a [`BuildSubject`].
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::token_bucket, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
///
/// # Panics
///
/// Panics if the bucket cannot be built by `setup`.
pub fn token_bucket(setup: &Setup, test: &mut dyn FnMut(&mut dyn Subject)) {
    let bucket = setup
        .token_bucket()
        .expect("the setup is in the range that flowgate accepts");
    test(&mut BucketSubject::new(&bucket));
}

/// Builds an [`Oracle`], to test the model itself: a [`BuildSubject`].
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::oracle, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
pub fn oracle(setup: &Setup, test: &mut dyn FnMut(&mut dyn Subject)) {
    test(&mut Oracle::new(setup));
}

impl Subject for Oracle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::BUCKET
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.step(step)
    }
}

/// Any flowgate limiter under test, with the operations that all of them support.
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::subject::{Any, Subject};
/// use std::time::Duration;
///
/// let limiter = WarmUp::builder("10/s".parse()?)
///     .warm_up(Duration::from_secs(3))
///     .clock(ManualClock::new())
///     .build()?;
/// let mut subject = Any(&limiter);
/// let mut act = |op| subject.step(&Step { at_ns: 0, op });
/// assert_eq!(act(Op::Try { n: 1 }), OperationOutcome::Admitted);
/// assert_eq!(act(Op::Available), OperationOutcome::Skipped); // not all limiters can say so
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct Any<'a>(
    /// The limiter.
    pub &'a dyn Limiter,
);

impl Subject for Any<'_> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            retry_after: true,
            ..Capabilities::NONE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let now = Timestamp::from_nanos(step.at_ns);
        answer(self.0.try_acquire_n_at(now, n))
    }
}

/// A flowgate token or leaky bucket under test, with its reservations.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::subject::BucketSubject;
///
/// let bucket = TokenBucket::builder("10/s burst 2".parse()?).clock(ManualClock::new()).build()?;
/// let mut subject = BucketSubject::new(&bucket);
/// let mut act = |op| subject.step(&Step { at_ns: 0, op });
/// let reserve = Op::Reserve { n: 2, within_ns: None };
/// assert_eq!(act(reserve), OperationOutcome::Promised { at_ns: 0 });
/// assert_eq!(act(reserve), OperationOutcome::Promised { at_ns: 200_000_000 });
/// assert_eq!(act(Op::Cancel { pick: 1 }), OperationOutcome::Back(2)); // of the two, the later one
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct BucketSubject<'a, M: PaysBefore = Tokens> {
    bucket: &'a RateLimiter<Bucket<M>>,
    held: Vec<Reservation<'a>>,
}

impl<'a, M: PaysBefore> BucketSubject<'a, M> {
    /// Creates a subject for `bucket`.
    pub fn new(bucket: &'a RateLimiter<Bucket<M>>) -> Self {
        Self {
            bucket,
            held: Vec::new(),
        }
    }

    /// Performs [`Subject::step`], without the trait.
    #[inline]
    pub fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = Timestamp::from_nanos(step.at_ns);
        match step.op {
            Op::Try { n } => answer(self.bucket.at(now).try_acquire_n(n)),
            Op::TakeUpTo { n } => OperationOutcome::Took(self.bucket.at(now).take_up_to(n)),
            Op::Overdraw { n } => answer(self.bucket.at(now).overdraw(n)),
            Op::Reserve { n, within_ns } => {
                let at = self.bucket.at(now);
                let reserved = match within_ns {
                    None => at.reserve_n(n),
                    Some(ns) => at.reserve_n_within(n, core::time::Duration::from_nanos(ns)),
                };
                match reserved {
                    Ok(reservation) => {
                        let at_ns = reservation.at().as_nanos();
                        self.held.push(reservation);
                        OperationOutcome::Promised { at_ns }
                    }
                    Err(denied) => refusal(denied),
                }
            }
            Op::Cancel { pick } => {
                if self.held.is_empty() {
                    return OperationOutcome::Skipped;
                }
                let reservation = self.held.remove(pick % self.held.len());
                OperationOutcome::Back(reservation.cancel_at(now))
            }
            Op::Refund { n } => OperationOutcome::Back(self.bucket.at(now).refund(n)),
            Op::Available => OperationOutcome::Holds(self.bucket.at(now).available()),
            Op::SetQuota { quota, carry } => {
                self.bucket.at(now).set_quota_with(quota, carry);
                OperationOutcome::Changed
            }
            Op::Wait { .. } | Op::GiveUp { .. } | Op::HandOver { .. } => OperationOutcome::Skipped,
            Op::SetRefill { refill } => {
                self.bucket.at(now).set_refill(refill);
                OperationOutcome::Changed
            }
        }
    }
}

impl<M: PaysBefore> Subject for BucketSubject<'_, M> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::BUCKET
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.step(step)
    }
}

fn answer<T>(decision: Result<T, Denied>) -> OperationOutcome {
    match decision {
        Ok(_) => OperationOutcome::Admitted,
        Err(denied) => refusal(denied),
    }
}

fn refusal(denied: Denied) -> OperationOutcome {
    OperationOutcome::Refused(match denied.retry_after() {
        Some(wait) => Retry::After(wait),
        None if denied.is_never() => Retry::Never,
        None => Retry::Untold,
    })
}
