use super::Observed;
use super::counters::Counters;
use crate::clock::Clock;
use crate::gate::KeyedTurn;
use crate::keyed::{Hashed, KeyLimiter, KeyNames, KeyWait, KeyedAlgorithm};
use crate::queue::{Acquirable, Supply, Turn};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Poll, Waker};

/// One key of an observed [`Keyed`](crate::Keyed) limiter, with the counters of the table.
///
/// It is a [`Limiter`](crate::Limiter). The methods `key` and `key_owned` of the observed table create it.
///
/// ```
/// use flowgate::{Keyed, Limiter, Observed};
///
/// let limits = Observed::new(Keyed::token_bucket("10/h burst 2".parse()?).capacity(1000)?);
/// let alice = limits.key("alice");
/// let limiter: &dyn Limiter = &alice;
/// limiter.try_acquire_n(2)?;
/// assert!(limits.try_acquire("alice").is_err());
/// assert_eq!(alice.counts().units, 2); // those of the table
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type ObservedKey<'a, A, N = Hashed> = Observed<KeyLimiter<'a, A, N>, SharedCounters<'a>>;

/// Source of the counters of an [`Observed`].
pub trait HasCounters: Send + Sync {
    fn counters(&self) -> &Counters;
}

impl HasCounters for Counters {
    fn counters(&self) -> &Counters {
        self
    }
}

impl<L: Send + Sync> HasCounters for Observed<L> {
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Counters that belong to another [`Observed`].
pub struct SharedCounters<'a>(Source<'a>);

enum Source<'a> {
    Borrowed(&'a Counters),
    Owned(Arc<dyn HasCounters>),
}

impl HasCounters for SharedCounters<'_> {
    fn counters(&self) -> &Counters {
        match &self.0 {
            Source::Borrowed(counters) => counters,
            Source::Owned(observed) => observed.counters(),
        }
    }
}

impl fmt::Debug for SharedCounters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedCounters")
            .field(self.counters())
            .finish()
    }
}

impl<L> Observed<L> {
    /// Wraps `part` of this limiter, and counts it with the counters of `self`.
    pub(super) fn part<'a, P>(&'a self, part: P) -> Observed<P, SharedCounters<'a>> {
        Observed {
            limiter: part,
            counters: SharedCounters(Source::Borrowed(&self.counters)),
        }
    }

    /// Wraps as [`part`](Self::part), and keeps `self` alive.
    pub(super) fn part_owned<P>(self: &Arc<Self>, part: P) -> Observed<P, SharedCounters<'static>>
    where
        L: Send + Sync + 'static,
    {
        let observed: Arc<dyn HasCounters> = Arc::clone(self) as _;
        Observed {
            limiter: part,
            counters: SharedCounters(Source::Owned(observed)),
        }
    }
}

/// Waits in place of the wrapped key, so that the wait reports here how it ended.
impl<W, C> Acquirable for Observed<W, C>
where
    W: KeyWait,
    C: HasCounters,
    Self: Supply,
{
    type Granted = W::Granted;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<W::Granted, Denied>> {
        let answer = turn.poll(self, waker);
        // The grant first, so that the key keeps its entry.
        let answer = answer.map_ok(|granted| self.limiter.granted(granted));
        if answer.is_ready() {
            self.limiter.leave_queue();
        }
        answer
    }

    fn abandon(&mut self, turn: &mut Turn) {
        turn.abandon(self);
        self.limiter.leave_queue();
    }

    fn clock_of_deadlines(&self) -> &Clock {
        Supply::clock(self)
    }
}

/// A wait at a keyed gate is a wait in several queues, so no single wait reports how it ended.
impl<A: KeyedAlgorithm, N: KeyNames, C: HasCounters> Acquirable for Observed<KeyedTurn<A, N>, C> {
    type Granted = <KeyedTurn<A, N> as Acquirable>::Granted;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Self::Granted, Denied>> {
        let counters = self.counters.counters();
        let waiting_since = self.limiter.waiting_since();
        let answer = self.limiter.poll(turn, waker);
        if waiting_since.is_none() && answer.is_pending() {
            counters.begins_to_wait();
        }
        let Poll::Ready(answer) = answer else {
            return Poll::Pending;
        };
        if waiting_since.is_some() {
            counters.ends_to_wait();
        }
        match &answer {
            Ok(permit) => counters.waited(permit.units(), self.limiter.waited()),
            Err(denied) => counters.refused_in_line(denied),
        }
        Poll::Ready(answer)
    }

    fn abandon(&mut self, turn: &mut Turn) {
        let is_waiting = self.limiter.is_waiting();
        self.limiter.abandon(turn);
        if is_waiting {
            self.counters.counters().ends_to_wait();
            self.counters.counters().abandoned();
        }
    }

    fn clock_of_deadlines(&self) -> &Clock {
        self.limiter.clock_of_deadlines()
    }
}
