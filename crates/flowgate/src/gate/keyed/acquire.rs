use super::{Key, Members};
use crate::clock::alarm::Alarm;
use crate::clock::{Clock, Timestamp};
use crate::concurrency::limit::OwnedPermit;
use crate::concurrency::permit::{Permit, Permits};
use crate::gate::Gate;
use crate::keyed::{KeyNames, KeyPermits, KeyedAlgorithm, KeyedConcurrencyLimit, OwnedKeyPermit};
use crate::queue::{Acquirable, Acquire, Turn};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;

/// What a wait at a [`KeyedGate`](super::KeyedGate) waits for; see [`KeyedGate::acquire`](super::KeyedGate::acquire).
pub struct KeyedTurn<A: KeyedAlgorithm, N: KeyNames> {
    members: Arc<Members<A, N>>,
    key: Key<A, N>,
    deadline: Option<Timestamp>,
    /// When the wait began, if the caller has had to wait.
    waiting_since: Option<Timestamp>,
    /// Held while this is the first wait of its key.
    turn: Option<OwnedKeyPermit>,
    stage: Stage,
}

enum Stage {
    New,
    /// Until the earlier waits of the same key have gone.
    Turn(Acquire<KeyPermits<Arc<KeyedConcurrencyLimit>>>),
    /// Until the limit of the key allows it. Nothing is taken yet.
    Key {
        _alarm: Alarm,
    },
    /// Until the shared limits allow it. The limit of the key still does, as no other waiter of this key is ahead.
    Shared(Acquire<Permits<Arc<Gate>>>),
    Over,
}

impl<A: KeyedAlgorithm, N: KeyNames> KeyedTurn<A, N> {
    pub(super) fn new(members: &Arc<Members<A, N>>, key: Key<A, N>) -> Self {
        Self {
            members: Arc::clone(members),
            key,
            deadline: None,
            waiting_since: None,
            turn: None,
            stage: Stage::New,
        }
    }

    /// Returns when the wait began; `None` if the caller has not had to wait.
    pub(crate) fn waiting_since(&self) -> Option<Timestamp> {
        self.waiting_since
    }

    /// Returns how long it has waited by now.
    pub(crate) fn waited(&self) -> Duration {
        let now = || self.members.keys.clock().now();
        self.waiting_since.map_or(Duration::ZERO, |since| {
            now().saturating_duration_since(since)
        })
    }

    /// Whether it is waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some() && !matches!(self.stage, Stage::Over)
    }

    fn advance(&mut self, n: u64, waker: &Waker) -> Poll<Result<OwnedPermit<Gate>, Denied>> {
        let (members, context) = (&*self.members, &mut Context::from_waker(waker));
        loop {
            let refusal = match &mut self.stage {
                Stage::New => {
                    let turn = members.turns.acquire_owned(&self.key.place());
                    self.stage = Stage::Turn(by(turn, self.deadline));
                    continue;
                }
                Stage::Turn(turn) => {
                    let turn = ready!(Pin::new(turn).poll(context));
                    self.turn = Some(turn.map_err(|denied| members.by_key(denied))?);
                    members.look(&self.key, n)
                }
                Stage::Key { .. } => members.look(&self.key, n),
                Stage::Shared(shared) => {
                    let permit = ready!(Pin::new(shared).poll(context))?;
                    match members.take(&self.key, permit) {
                        Ok(permit) => return Poll::Ready(Ok(permit)),
                        Err(denied) => Err(denied),
                    }
                }
                Stage::Over => unreachable!("a wait that is over is not polled"),
            };
            self.stage = match refusal {
                Ok(()) => Stage::Shared(by(members.shared.acquire_owned().n(n), self.deadline)),
                Err(denied) => {
                    // A wait does not wait for room in the table, as at the keys themselves.
                    let wait = denied.retry_after().filter(|_| !denied.is_table_full());
                    let Some(wait) = wait else {
                        return Poll::Ready(Err(denied));
                    };
                    let clock = members.keys.clock();
                    let allowed = clock.now() + wait.max(Duration::from_nanos(1));
                    if let Some(deadline) = self.deadline.filter(|deadline| allowed > *deadline) {
                        // A deadline later by this excess would be met.
                        let excess_ns = allowed.as_nanos() - deadline.as_nanos();
                        return Poll::Ready(Err(denied.for_ns(excess_ns)));
                    }
                    self.stage = Stage::Key {
                        _alarm: clock.alarm(allowed, waker.clone()),
                    };
                    return Poll::Pending;
                }
            };
        }
    }

    /// Lets the next wait of its key go ahead, and gives back what has been granted unseen.
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.turn = None;
    }
}

fn by<W: Acquirable>(wait: Acquire<W>, deadline: Option<Timestamp>) -> Acquire<W> {
    match deadline {
        Some(deadline) => wait.by(deadline),
        None => wait,
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Acquirable for KeyedTurn<A, N> {
    type Granted = OwnedPermit<Gate>;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<OwnedPermit<Gate>, Denied>> {
        let n = turn.units.unwrap_or(1);
        if let Stage::New = self.stage {
            self.deadline = turn.deadline(self.members.keys.clock());
        }
        let answer = if turn.is_cancelled(waker) {
            Poll::Ready(Err(Denied::cancelled()))
        } else if n == 0 {
            Poll::Ready(Ok(Permit::new(Arc::clone(&self.members.shared), 0)))
        } else {
            self.advance(n, waker)
        };
        if answer.is_ready() {
            self.end();
        } else if self.waiting_since.is_none() {
            self.waiting_since = Some(self.members.keys.clock().now());
        }
        answer
    }

    fn abandon(&mut self, _: &mut Turn) {
        self.end();
    }

    fn clock_of_deadlines(&self) -> &Clock {
        self.members.keys.clock()
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyedTurn<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedTurn")
            .field("is_first", &self.turn.is_some())
            .finish_non_exhaustive()
    }
}
