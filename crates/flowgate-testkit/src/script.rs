//! Operations on a limiter, and its answers: the common language of oracles, subjects and checks.

use core::fmt;
use core::time::Duration;

use flowgate::{Carry, ManualClock, Quota, QuotaError, Refill, Timestamp, TokenBucket};

use crate::promise::{Kind, Promise};

/// How a limiter is built, and the kind of its bound.
///
/// ```
/// use flowgate::{Quota, Refill};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::script::Setup;
///
/// let setup = Setup { refill: Refill::Interval, ..Setup::new(Quota::per_minute(10)) };
/// assert_eq!(setup.promise().kind, Kind::Bucket);
/// assert_eq!(setup.token_bucket()?.available(), 10);
/// assert_eq!(setup.to_string(), "10/min, refill Interval");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Kind of the bound.
    pub kind: Kind,
    /// Rate and burst.
    pub quota: Quota,
    /// Initial units (default: full).
    pub initial_tokens: Option<u64>,
    /// How tokens refill.
    pub refill: Refill,
    /// Time at which a period of an interval refill ends, in nanoseconds.
    ///
    /// By default, periods start when the limiter is built.
    pub aligned_ns: Option<u64>,
    /// Maximum debt after [`Op::Overdraw`], in units (default: the burst).
    pub max_debt: Option<u64>,
    /// Time of building, in nanoseconds of its clock.
    pub built_ns: u64,
}

impl Setup {
    /// Creates the setup of a full, continuously refilled bucket, built at the clock's origin.
    ///
    /// ```
    /// use flowgate::{Quota, Refill};
    /// use flowgate_testkit::script::Setup;
    ///
    /// let setup = Setup::new(Quota::per_second(10));
    /// assert_eq!((setup.initial_tokens, setup.refill), (None, Refill::Continuous));
    /// ```
    pub fn new(quota: Quota) -> Self {
        Self::of(Kind::Bucket, quota)
    }

    /// Creates the setup of a limiter of some kind, otherwise like [`Setup::new`].
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::promise::Kind;
    /// use flowgate_testkit::script::Setup;
    ///
    /// let setup = Setup::of(Kind::Sliding, Quota::per_second(10));
    /// assert_eq!(setup.to_string(), "10/s, every window");
    /// ```
    pub fn of(kind: Kind, quota: Quota) -> Self {
        Self {
            kind,
            quota,
            initial_tokens: None,
            refill: Refill::Continuous,
            aligned_ns: None,
            max_debt: None,
            built_ns: 0,
        }
    }

    /// Returns its bound.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::promise::{TimedGrant, Kind};
    /// use flowgate_testkit::script::Setup;
    ///
    /// let promise = Setup::of(Kind::Sliding, Quota::per_second(10)).promise();
    /// assert!(promise.check(&[TimedGrant::new(0, 10)]).is_ok());
    /// assert!(promise.check(&[TimedGrant::new(0, 11)]).is_err());
    /// ```
    pub fn promise(&self) -> Promise {
        Promise::new(self.kind, self.quota)
    }

    /// Returns whether a [`Keyed`](flowgate::Keyed) limiter represents the quota without rounding.
    ///
    /// A keyed bucket rounds the price of a unit up to 1/4096 ns. A keyed fixed window rounds its end up to limit /
    /// 4096 ns. With rounding, C2 (never refuses needlessly) and C8 (exact rates) do not hold to the nanosecond.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::script::Setup;
    ///
    /// assert!(Setup::new(Quota::per_second(10)).is_whole_for_keys());
    /// assert!(!Setup::new(Quota::per_second(999_999_937)).is_whole_for_keys());
    /// ```
    pub fn is_whole_for_keys(&self) -> bool {
        let units = u128::from(self.quota.count()) * u128::from(self.quota.scale());
        match self.kind {
            Kind::Bucket => (self.quota.period().as_nanos() * 4096).is_multiple_of(units),
            _ => units < 4096,
        }
    }

    /// Builds this flowgate bucket.
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_testkit::script::Setup;
    ///
    /// let setup = Setup { initial_tokens: Some(0), ..Setup::new(Quota::per_second(10)) };
    /// assert!(setup.token_bucket()?.try_acquire().is_err()); // its clock stands still
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if flowgate refuses the initial tokens, the alignment or the debt.
    pub fn token_bucket(&self) -> Result<TokenBucket, QuotaError> {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(self.built_ns));
        let mut builder = TokenBucket::builder(self.quota)
            .clock(&clock)
            .refill(self.refill);
        if let Some(tokens) = self.initial_tokens {
            builder = builder.initial_tokens(tokens);
        }
        if let Some(ends_ns) = self.aligned_ns {
            builder = builder.align(Timestamp::from_nanos(ends_ns));
        }
        if let Some(debt) = self.max_debt {
            builder = builder.max_debt(debt);
        }
        builder.build()
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.quota)?;
        if self.kind != Kind::Bucket {
            write!(f, ", {}", self.kind)?;
        }
        if let Some(tokens) = self.initial_tokens {
            write!(f, ", starts with {tokens}")?;
        }
        if self.refill != Refill::Continuous {
            write!(f, ", refill {:?}", self.refill)?;
        }
        if let Some(ends_ns) = self.aligned_ns {
            write!(f, ", aligned to {}", PrintedTime(ends_ns))?;
        }
        if let Some(debt) = self.max_debt {
            write!(f, ", max debt {debt}")?;
        }
        if self.built_ns != 0 {
            write!(f, ", built at {}", PrintedTime(self.built_ns))?;
        }
        Ok(())
    }
}

/// One operation. Costs are in units.
///
/// ```
/// use flowgate::{Carry, Quota};
/// use flowgate_testkit::script::Op;
///
/// let wait = Op::Reserve { n: 2, within_ns: Some(20_000_000) };
/// assert_eq!(wait.to_string(), "reserve 2 within 20ms");
/// let change = Op::SetQuota { quota: Quota::per_second(5), carry: Carry::Kept };
/// assert_eq!(change.to_string(), "set quota 5/s (Kept)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Acquire `n` now or not at all.
    Try {
        /// The cost.
        n: u64,
    },
    /// Acquire the available units, up to `n`.
    TakeUpTo {
        /// The maximum to acquire.
        n: u64,
    },
    /// Acquire `n` now, as debt if necessary.
    Overdraw {
        /// The cost.
        n: u64,
    },
    /// Reserve `n` for the earliest possible time.
    Reserve {
        /// The cost.
        n: u64,
        /// Maximum wait, in nanoseconds.
        within_ns: Option<u64>,
    },
    /// Cancel a reservation. Skipped if there is none.
    Cancel {
        /// Index from the oldest, modulo the number of reservations.
        pick: usize,
    },
    /// Refund `n`.
    Refund {
        /// The cost that was not used.
        n: u64,
    },
    /// Read the available units.
    Available,
    /// Change the quota.
    SetQuota {
        /// The new quota.
        quota: Quota,
        /// What happens to the tokens.
        carry: Carry,
    },
    /// Wait in the queue for `n`; the wait stays open until [`Op::GiveUp`].
    Wait {
        /// The cost.
        n: u64,
    },
    /// Drop an open wait, whether or not it has been granted. Skipped if there is none.
    GiveUp {
        /// Index from the oldest, modulo the number of open waits.
        pick: usize,
    },
    /// Change how tokens refill.
    SetRefill {
        /// The new refill.
        refill: Refill,
    },
    /// Export the state, and import it into a new limiter, which performs all later operations. Earlier grants still
    /// count.
    HandOver {
        /// Quota of the new limiter (default: the current one).
        quota: Option<Quota>,
    },
}

impl Op {
    /// Returns the quota that the operation changes to.
    pub(crate) fn new_quota(&self) -> Option<Quota> {
        match *self {
            Self::SetQuota { quota, .. } => Some(quota),
            Self::HandOver { quota } => quota,
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Try { n } => write!(f, "try {n}"),
            Self::TakeUpTo { n } => write!(f, "take up to {n}"),
            Self::Overdraw { n } => write!(f, "overdraw {n}"),
            Self::Reserve { n, within_ns: None } => write!(f, "reserve {n}"),
            Self::Reserve {
                n,
                within_ns: Some(ns),
            } => write!(f, "reserve {n} within {}", PrintedTime(*ns)),
            Self::Cancel { pick } => write!(f, "cancel held reservation {pick}"),
            Self::Refund { n } => write!(f, "refund {n}"),
            Self::Available => write!(f, "available"),
            Self::SetQuota { quota, carry } => write!(f, "set quota {quota} ({carry:?})"),
            Self::Wait { n } => write!(f, "wait for {n}"),
            Self::GiveUp { pick } => write!(f, "drop open wait {pick} unseen"),
            Self::SetRefill { refill } => write!(f, "set refill {refill:?}"),
            Self::HandOver { quota: None } => write!(f, "export and import"),
            Self::HandOver { quota: Some(quota) } => write!(f, "export and import with {quota}"),
        }
    }
}

/// An operation with its time.
///
/// ```
/// use flowgate_testkit::script::{Op, Step};
///
/// let step = Step { at_ns: 1_500_000_000, op: Op::Try { n: 3 } };
/// assert_eq!(step.to_string(), "at 1.5s: try 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Time in nanoseconds of the limiter's clock. It may be earlier than that of the previous step.
    pub at_ns: u64,
    /// The operation.
    pub op: Op,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {}", PrintedTime(self.at_ns), self.op)
    }
}

/// When a refused operation can be retried.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::oracle::Oracle;
/// use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
/// use std::time::Duration;
///
/// let mut oracle = Oracle::new(&Setup::new(Quota::per_second(10).burst(2)));
/// let mut take = |n| oracle.step(&Step { at_ns: 0, op: Op::Try { n } });
/// take(2);
/// assert_eq!(take(1), OperationOutcome::Refused(Retry::After(Duration::from_millis(100))));
/// assert_eq!(take(3), OperationOutcome::Refused(Retry::Never));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After this time.
    After(Duration),
    /// Never: the cost can never fit.
    Never,
    /// The limiter does not report it.
    Untold,
}

/// Answer of a limiter.
///
/// ```
/// use flowgate_testkit::script::{OperationOutcome, Retry};
///
/// let at_ns = 20_000_000;
/// assert_eq!(OperationOutcome::Promised { at_ns }.to_string(), "promised for 20ms");
/// assert_eq!(OperationOutcome::Refused(Retry::Never).to_string(), "refused for ever");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationOutcome {
    /// All of it was granted, now.
    Admitted,
    /// Nothing was granted.
    Refused(Retry),
    /// This many units were granted, now.
    Took(u64),
    /// All of it was granted for a time.
    Promised {
        /// The granted time, in nanoseconds.
        at_ns: u64,
    },
    /// This many units were returned.
    Back(u64),
    /// This many units are available.
    Holds(u64),
    /// The quota or the refill was changed.
    Changed,
    /// The caller waits in the queue.
    Waits,
    /// An open wait was dropped.
    GaveUp,
    /// A new limiter has replaced the old one.
    HandedOver,
    /// The operation did not apply.
    Skipped,
}

impl fmt::Display for OperationOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted => write!(f, "admitted"),
            Self::Refused(Retry::After(wait)) => {
                write!(f, "refused, retry after {wait:?}")
            }
            Self::Refused(Retry::Never) => write!(f, "refused for ever"),
            Self::Refused(Retry::Untold) => write!(f, "refused"),
            Self::Took(n) => write!(f, "took {n}"),
            Self::Promised { at_ns } => write!(f, "promised for {}", PrintedTime(*at_ns)),
            Self::Back(n) => write!(f, "{n} came back"),
            Self::Holds(n) => write!(f, "holds {n}"),
            Self::Changed => write!(f, "changed"),
            Self::Waits => write!(f, "waits"),
            Self::GaveUp => write!(f, "gave up"),
            Self::HandedOver => write!(f, "handed over"),
            Self::Skipped => write!(f, "nothing to do"),
        }
    }
}

/// Nanoseconds that are displayed exactly and readably: `1.5s`, `20ms`.
///
/// ```
/// use flowgate_testkit::script::PrintedTime;
///
/// assert_eq!(PrintedTime(1_500_000_000).to_string(), "1.5s");
/// assert_eq!(PrintedTime(20_000_001).to_string(), "20.000001ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedTime(pub u64);

impl fmt::Display for PrintedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0s"),
            ns => write!(f, "{:?}", Duration::from_nanos(ns)),
        }
    }
}

/// All steps with their answers, in order.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::promise::check_trace;
/// use flowgate_testkit::script::{Op, Setup, Step, Trace};
/// use flowgate_testkit::subject::BucketSubject;
///
/// let setup = Setup::new(Quota::per_second(10).burst(2));
/// let bucket = setup.token_bucket()?;
/// let mut subject = BucketSubject::new(&bucket);
/// let steps = [0, 50_000_000, 100_000_000].map(|at_ns| Step { at_ns, op: Op::Try { n: 2 } });
/// let trace: Trace = steps.map(|step| (step, subject.step(&step))).into();
/// assert!(check_trace(&setup, &trace).is_ok());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type Trace = Vec<(Step, OperationOutcome)>;

/// Writes a trace with one step per line.
///
/// ```
/// use flowgate_testkit::script::{Op, OperationOutcome, Step, Trace, write_trace};
/// use std::fmt;
///
/// /// Text for the reader of a failed test.
/// struct Shown(Trace);
///
/// impl fmt::Display for Shown {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write_trace(f, &self.0)
///     }
/// }
///
/// let step = Step { at_ns: 0, op: Op::Try { n: 3 } };
/// assert_eq!(Shown(vec![(step, OperationOutcome::Admitted)]).to_string(), "  at 0s: try 3 -> admitted\n");
/// ```
pub fn write_trace(f: &mut fmt::Formatter<'_>, trace: &[(Step, OperationOutcome)]) -> fmt::Result {
    trace
        .iter()
        .try_for_each(|(step, outcome)| writeln!(f, "  {step} -> {outcome}"))
}
