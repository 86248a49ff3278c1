//! What a queue asks of a limiter: [`Supply`].

use super::Queue;
use super::grant::Grant;
use crate::clock::{Clock, Timestamp};
use crate::verdict::{Denied, Verdict};
use core::any::Any;

/// A limiter, as its queue sees it.
pub trait Supply: Send + Sync {
    /// Returns the queue of the limiter.
    fn queue(&self) -> &Queue;

    /// [`queue`](Self::queue), for a caller that is about to wait there for `n` units, and asked for them as of `at`.
    fn open_queue(&self, _at: Timestamp, _n: u64) -> Result<Opened<'_>, Denied> {
        Ok(Opened {
            queue: self.queue(),
            refusal: None,
        })
    }

    /// The clock by which grants are timestamped.
    fn clock(&self) -> &Clock;

    /// Returns the function for a new request that knows neither the queue nor this trait ([`Queue::pass_limiter`]). `None`
    /// if no caller needs one. A type that wraps a limiter returns that of the limiter.
    fn stand_back(&self) -> Option<StandBack> {
        None
    }

    /// Returns what the queue needs from the limiter: its facts.
    fn facts(&self) -> Facts;

    /// What [`grant`](Self::grant) would return for `n` units after those that are ahead of `asker`. Takes nothing.
    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Verdict;

    /// Takes `n` units at `at`. A refusal reports exactly when the same request can be granted, or that the limiter is busy,
    /// or never.
    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Verdict;

    /// Gives back what was granted at `at` to a waiter that left before it learned of the grant. `receipts` are those of
    /// the grant, or none if it has none.
    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]);

    /// `n` units that were granted are no longer in use.
    fn end(&self, _n: u64) {}

    /// Notes what has happened in the queue.
    fn note(&self, _event: Event<'_>) {}
}

/// The methods of [`Supply`] that are the fields `queue` and `clock` of a limiter.
macro_rules! own_queue {
    () => {
        fn queue(&self) -> &Queue {
            &self.queue
        }

        fn clock(&self) -> &Clock {
            &self.clock
        }
    };
}
pub(crate) use own_queue;

/// A queue that a caller is about to enter.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    pub(crate) queue: &'a Queue,
    /// Why the caller has to wait, as it was when its wait was announced; only of a queue that has been made for it. It holds
    /// until a [change](Queue::change) is counted there.
    pub(crate) refusal: Option<Denied>,
}

/// [`stand_back`](super::stand_back) for a type of limiter.
pub(crate) type StandBack = fn(&dyn Any, now_ns: u64, units: Option<u64>) -> Verdict;

/// What a queue needs to know of its limiter.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// How many units one token is.
    pub(crate) token: u64,
    /// How many receipts each grant has. It never changes.
    pub(crate) receipts: usize,
    /// Whether what is waited for comes with time.
    pub(crate) is_timed: bool,
    /// Whether the times of grants are of use. If not, the clock is read only where a waiter has a deadline, or the order
    /// depends on the time.
    pub(crate) wants_dates: bool,
    /// Whether there may be something to grant. If not, the limiter need not be asked before more is made possible.
    pub(crate) has_more: bool,
}

impl Facts {
    /// Of a limiter whose units come with time.
    pub(crate) const fn timed(token: u64, receipts: usize) -> Self {
        Self {
            token,
            receipts,
            is_timed: true,
            wants_dates: true,
            has_more: true,
        }
    }

    /// Of a limiter whose units come when others end.
    pub(crate) const fn untimed(has_more: bool) -> Self {
        Self {
            token: 1,
            receipts: 0,
            is_timed: false,
            wants_dates: false,
            has_more,
        }
    }
}

/// The caller that asks a limiter, behind a queue that asks for `ahead` units.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// A waiter: the answer is how long it waits, exactly or a lower bound.
    Waiter { ahead: u128 },
    /// A caller that does not wait: the answer is returned to it. It is the same answer, except where a lower bound would
    /// leave out something of which no time is known.
    Caller { ahead: u128 },
}

impl Asker {
    /// The next waiter.
    pub(crate) const HEAD: Self = Self::Waiter { ahead: 0 };

    /// How many units are asked for ahead of it.
    pub(crate) const fn ahead(self) -> u128 {
        match self {
            Self::Waiter { ahead } | Self::Caller { ahead } => ahead,
        }
    }

    /// The same, where each unit ahead is `token` units.
    pub(crate) fn in_units(self, token: u64) -> Self {
        let units = |ahead: u128| ahead.saturating_mul(token.into());
        match self {
            Self::Waiter { ahead } => Self::Waiter {
                ahead: units(ahead),
            },
            Self::Caller { ahead } => Self::Caller {
                ahead: units(ahead),
            },
        }
    }
}

/// To whom units are granted.
#[derive(Debug)]
pub enum Grantee<'a> {
    /// To a caller that found no waiters. Its time may be before that of other grants, as it may have read the clock
    /// before others did.
    Caller,
    /// To the next waiter, in a queue that asks for `level` units in total. `receipts` has [`Facts::receipts`] entries or
    /// none, which the limiter fills in with what [`Supply::take_back`] gets.
    Waiter {
        level: u128,
        receipts: &'a mut [Receipt],
    },
}

/// What a limiter needs to take back a reservation or a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The units per token when the reservation was made.
    pub(crate) units_per_token: u64,
    /// The state that making it left, what had been given back by then, and the epoch of both.
    pub(crate) state: u128,
    pub(crate) given_back: u128,
    pub(crate) epoch: u64,
    /// The latest time that any other caller had been told when it was made; its own, or a later one, if there is no way back
    /// to that.
    pub(crate) told_before_ns: u64,
}

/// What has happened in a queue.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The queue's flags have become these.
    Flags(u64),
    /// A wait has ended with this answer, which its owner now knows.
    Answered(&'a Result<Grant, Denied>),
    /// A wait in the queue was given up before its owner knew an answer.
    Abandoned,
}
