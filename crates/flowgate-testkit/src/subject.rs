//! Whatever is put to the test: flowgate's limiters, the [specimens](crate::specimens), and yours.

mod keyed;
mod limiters;

pub use keyed::*;
pub use limiters::*;

use flowgate::{Denied, Limiter, Reservation, Timestamp, TokenBucket};

use crate::oracle::Oracle;
use crate::script::{Op, Outcome, Retry, Setup, Step};

/// What a subject can do beyond taking one at a time.
///
/// A check leaves out what is not declared. All `false` is a limiter that can only try 1.
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
    /// Refusals tell when to come back.
    pub retry_after: bool,
}

impl Capabilities {
    /// All of them.
    pub const ALL: Self = Self {
        costs: true,
        take_up_to: true,
        overdraw: true,
        reserve: true,
        refund: true,
        available: true,
        set_quota: true,
        retry_after: true,
    };

    /// Whether `op` is among them.
    pub fn allow(&self, op: &Op) -> bool {
        match op {
            Op::Try { n } => self.costs || *n == 1,
            Op::TakeUpTo { .. } => self.take_up_to,
            Op::Overdraw { .. } => self.overdraw,
            Op::Reserve { .. } | Op::Cancel { .. } => self.reserve,
            Op::Refund { .. } => self.refund,
            Op::Available => self.available,
            Op::SetQuota { .. } => self.set_quota,
        }
    }
}

/// A limiter under test, at explicit times.
pub trait Subject {
    /// What it can do. The checks do nothing else to it.
    fn capabilities(&self) -> Capabilities;

    /// Does one step and reports the answer; [`Outcome::Skipped`] for what it cannot do.
    fn step(&mut self, step: &Step) -> Outcome;
}

/// Builds a fresh subject as the setup says and hands it over.
///
/// The subject is lent, not given, so that it may borrow from the limiter that the builder owns.
pub type Build<'a> = &'a (dyn Fn(&Setup, &mut dyn FnMut(&mut dyn Subject)) + 'a);

/// Builds a flowgate [`TokenBucket`]: a [`Build`].
///
/// # Panics
///
/// If the bucket cannot be built as `setup` says.
pub fn token_bucket(setup: &Setup, test: &mut dyn FnMut(&mut dyn Subject)) {
    let bucket = setup
        .token_bucket()
        .expect("the setup is in the range that flowgate accepts");
    test(&mut BucketSubject::new(&bucket));
}

/// Builds an [`Oracle`], to put the model itself to the test: a [`Build`].
pub fn oracle(setup: &Setup, test: &mut dyn FnMut(&mut dyn Subject)) {
    test(&mut Oracle::new(setup));
}

impl Subject for Oracle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn step(&mut self, step: &Step) -> Outcome {
        self.step(step)
    }
}

/// Any flowgate limiter under test, by what they all can do.
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
            ..Capabilities::default()
        }
    }

    fn step(&mut self, step: &Step) -> Outcome {
        let Op::Try { n } = step.op else {
            return Outcome::Skipped;
        };
        let now = Timestamp::from_nanos(step.at_ns);
        answer(self.0.try_acquire_n_at(now, n))
    }
}

/// A flowgate [`TokenBucket`] under test, with the reservations that were made and not cancelled.
#[derive(Debug)]
pub struct BucketSubject<'a> {
    bucket: &'a TokenBucket,
    held: Vec<Reservation<'a>>,
}

impl<'a> BucketSubject<'a> {
    /// Puts `bucket` to the test.
    pub fn new(bucket: &'a TokenBucket) -> Self {
        Self {
            bucket,
            held: Vec::new(),
        }
    }

    /// [`Subject::step`], without the trait.
    #[inline]
    pub fn step(&mut self, step: &Step) -> Outcome {
        let now = Timestamp::from_nanos(step.at_ns);
        match step.op {
            Op::Try { n } => answer(self.bucket.at(now).try_acquire_n(n)),
            Op::TakeUpTo { n } => Outcome::Took(self.bucket.at(now).take_up_to(n)),
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
                        Outcome::Promised { at_ns }
                    }
                    Err(denied) => refusal(denied),
                }
            }
            Op::Cancel { pick } => {
                if self.held.is_empty() {
                    return Outcome::Skipped;
                }
                let reservation = self.held.remove(pick % self.held.len());
                Outcome::Back(reservation.cancel_at(now))
            }
            Op::Refund { n } => Outcome::Back(self.bucket.at(now).refund(n)),
            Op::Available => Outcome::Holds(self.bucket.at(now).available()),
            Op::SetQuota { quota, carry } => {
                self.bucket.at(now).set_quota_with(quota, carry);
                Outcome::Changed
            }
        }
    }
}

impl Subject for BucketSubject<'_> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn step(&mut self, step: &Step) -> Outcome {
        self.step(step)
    }
}

fn answer(decision: Result<(), Denied>) -> Outcome {
    match decision {
        Ok(()) => Outcome::Admitted,
        Err(denied) => refusal(denied),
    }
}

fn refusal(denied: Denied) -> Outcome {
    Outcome::Refused(match denied.retry_after() {
        Some(wait) => Retry::After(wait),
        None if denied.is_never() => Retry::Never,
        None => Retry::Untold,
    })
}
