use super::{Gate, Member, Taking};
use crate::clock::Clock;
use crate::keyed::KeyedError;
use crate::limiter::Limit;
use crate::limiter::sealed::Identity;
use crate::primitive::Lock;
use crate::queue::Queue;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The limits that a [`Gate`] will have.
/// ```
/// use flowgate::{FixedWindow, Gate, GateError, TokenBucket};
///
/// let gate = Gate::builder()
///     .limit("pace", TokenBucket::new("2/s burst 1".parse()?))
///     .limit("daily", FixedWindow::new("10000/day".parse()?)?)
///     .build()?;
/// assert_eq!(gate.names().collect::<Vec<_>>(), ["pace", "daily"]);
///
/// let error = Gate::builder().build().unwrap_err();
/// assert_eq!(error, GateError::NoLimits);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct GateBuilder {
    pub(super) members: Vec<(String, Box<dyn Limit>)>,
}

/// The reason why a gate cannot be built.
///
/// ```
/// use flowgate::{Gate, GateError, ManualClock, TokenBucket};
///
/// let elsewhere = TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
/// let error = Gate::builder()
///     .limit("here", TokenBucket::new("5/s".parse()?))
///     .limit("elsewhere", elsewhere)
///     .build()
///     .unwrap_err();
/// assert_eq!(error, GateError::OtherClock("elsewhere".to_owned()));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// The gate would have no limits.
    NoLimits,
    /// The gate would have more than 255 limits.
    TooMany {
        /// The number of limits.
        limits: usize,
    },
    /// Two of the limits would have the same name.
    SameName(String),
    /// The clock of this limit is not that of the first limit.
    OtherClock(String),
    /// Two of the limits are the same limiter, or hold the same one, which would count an operation twice.
    SameLimiter {
        /// The name of one of them.
        first: String,
        /// The name of the other.
        second: String,
    },
    /// There is not enough memory to order the waiters of each key of a [`KeyedGate`](super::KeyedGate).
    Turns(KeyedError),
}

impl GateBuilder {
    /// Adds a limit: any limiter, or a concurrency limit. Refusals report its name.
    pub fn limit(mut self, name: &str, limit: impl Limit) -> Self {
        self.members.push((name.to_owned(), Box::new(limit)));
        self
    }

    /// Builds the gate.
    ///
    /// # Errors
    ///
    /// Returns [`GateError`] if the gate is not possible:
    ///
    /// - There are no limits, or more than 255.
    /// - Two limits have the same name.
    /// - The limits do not share one clock.
    /// - A limiter is in the gate twice, directly or through another gate.
    pub fn build(self) -> Result<Gate, GateError> {
        let Some((_, first)) = self.members.first() else {
            return Err(GateError::NoLimits);
        };
        let clock: Clock = first.supply().0.clock().clone();
        if self.members.len() > usize::from(u8::MAX) {
            let limits = self.members.len();
            return Err(GateError::TooMany { limits });
        }
        let mut seen: Vec<(Identity, &String)> = Vec::new();
        for (index, (name, limit)) in self.members.iter().enumerate() {
            if self.members[..index].iter().any(|(other, _)| other == name) {
                return Err(GateError::SameName(name.clone()));
            }
            if !limit.supply().0.clock().is(&clock) {
                return Err(GateError::OtherClock(name.clone()));
            }
            let mut same = None;
            limit.each_limiter(&mut |identity| match seen
                .iter()
                .find(|(other, _)| *other == identity)
            {
                Some((_, first)) => same = Some(*first),
                None => seen.push((identity, name)),
            });
            if let Some(first) = same {
                return Err(GateError::SameLimiter {
                    first: first.clone(),
                    second: name.clone(),
                });
            }
        }
        let member = |(name, limit): (String, _)| Member {
            name: name.into_boxed_str(),
            limit,
        };
        let limits = self.members.iter();
        let receipts = limits
            .map(|(_, limit)| limit.supply().0.facts().receipts)
            .sum();
        Ok(Gate {
            members: self.members.into_iter().map(member).collect(),
            clock,
            queue: Queue::new(),
            receipts,
            taking: Lock::new(Taking::new(receipts)),
        })
    }
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimits => f.write_str("a gate needs at least one limit"),
            Self::TooMany { limits } => {
                write!(f, "a gate can have up to 255 limits, not {limits}")
            }
            Self::SameName(name) => write!(f, "two limits of the gate are named '{name}'"),
            Self::SameLimiter { first, second } => write!(
                f,
                "the limits '{first}' and '{second}' of the gate are, or hold, the same limiter, which would count an operation \
                 twice; leave one of them out"
            ),
            Self::Turns(error) => write!(f, "no turns for the keys of the gate: {error}"),
            Self::OtherClock(name) => write!(
                f,
                "the limit '{name}' has another clock than the first of the gate; give all of them clones of one"
            ),
        }
    }
}

impl core::error::Error for GateError {}
