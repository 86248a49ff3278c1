use super::in_flight::{Asked, judge};
use super::permit::AtKey;
use super::{KeyPermit, KeyedConcurrencyLimit};
use crate::clock::{Clock, Timestamp};
use crate::concurrency::limit::denied;
use crate::concurrency::permit::Permit;
use crate::keyed::entry::Place;
use crate::keyed::keys::Refusal;
use crate::keyed::queues::{Entered, Guest, KeyQueue, KeyWait};
use crate::queue::{
    Acquirable, Asker, Facts, Grant, Grantee, Opened, Queue, Receipt, Supply, Turn, WaitQueue,
};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::ops::Deref;
use core::task::{Poll, Waker};

/// The permits of one key of a [`KeyedConcurrencyLimit`], for which an [`Acquire`](crate::Acquire) waits.
///
/// `P` is a pointer to the limiter. All waiters of a key have one queue, which exists while at least one caller waits for the key.
/// A key without a table entry is refused immediately. It does not wait for the entry of another key.
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hosts = Arc::new(KeyedConcurrencyLimit::new(2, 1000)?);
/// for url in ["a.example/1", "a.example/2", "a.example/3", "b.example/1"] {
///     let (host, _path) = url.split_once('/').unwrap();
///     let permit = hosts.acquire_owned(host).await?;
///     tokio::spawn(async move {
///         // … fetch it, two at a time from each host …
///         drop(permit);
///     });
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A [forgotten](crate::Acquire#forgotten-waits) wait also keeps the queue and the table entry of its key.
pub struct KeyPermits<P> {
    at: AtKey<P>,
    /// The per-key limit, if there is one, instead of the current limit.
    own: Option<u32>,
    guest: Guest<u32>,
}

impl<P: Deref<Target = KeyedConcurrencyLimit>> KeyPermits<P> {
    pub(crate) fn of(limit: P, place: Place, own: Option<u32>) -> Self {
        Self {
            at: AtKey { limit, place },
            own,
            guest: Guest::new(),
        }
    }

    pub(crate) fn of_key(limit: P, key: &(impl Hash + ?Sized)) -> Self {
        let place = limit.place(key);
        Self::of(limit, place, None)
    }

    /// Returns the limit that the waiters in the queue use.
    pub(super) fn limit(&self) -> u32 {
        let own = self.guest.own(self.own);
        own.unwrap_or_else(|| self.at.limit.limit())
    }

    /// Adds a waiter for the key, and returns why it has to wait.
    fn enter(&self, n: u64) -> Result<(Entered<u32, ()>, Option<Denied>), Denied> {
        let (limit, place) = (&*self.at.limit, &self.at.place);
        let hold = || {
            let (slot, in_flight) = limit.in_flight.hold(place)?;
            // A thread that sets another limit from now on looks for queues after that.
            Ok((slot, judge(in_flight, n, self.limit()).err()))
        };
        let made = || {
            let queue = Arc::new(KeyQueue::new(*place, (), self.own));
            WaitQueue::new(&limit.waited_for(&queue)).set_max_waiters(limit.max_waiters_per_key);
            queue
        };
        let release = || limit.in_flight.release(place);
        limit.queues.enter(hold, release, made)
    }

    fn leave(&self, entered: &Entered<u32, ()>) {
        let release = || self.at.limit.in_flight.release(&self.at.place);
        self.at.limit.queues.leave(entered, release);
    }
}

impl KeyedConcurrencyLimit {
    /// Returns the key of the waiters in `queue`.
    pub(super) fn waited_for(&self, queue: &Arc<KeyQueue<u32>>) -> KeyPermits<&Self> {
        KeyPermits {
            guest: Guest::of(queue),
            ..KeyPermits::of(self, queue.place, queue.own())
        }
    }
}

impl<P: Deref<Target = KeyedConcurrencyLimit> + Clone + Send + Sync> Acquirable for KeyPermits<P> {
    type Granted = KeyPermit<P>;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<KeyPermit<P>, Denied>> {
        let answer = turn.poll(self, waker);
        // A permit first, so that the key keeps its entry.
        let answer = answer.map_ok(|granted| Permit::new(self.at.clone(), granted.units));
        if answer.is_ready() {
            self.leave_queue();
        }
        answer
    }

    fn abandon(&mut self, turn: &mut Turn) {
        turn.abandon(self);
        self.leave_queue();
    }

    fn clock_of_deadlines(&self) -> &Clock {
        &self.at.limit.clock
    }
}

/// No result depends on the time.
impl<P: Deref<Target = KeyedConcurrencyLimit> + Send + Sync> Supply for KeyPermits<P> {
    fn queue(&self) -> &Queue {
        self.guest.queue()
    }

    fn open_queue(&self, _: Timestamp, n: u64) -> Result<Opened<'_>, Denied> {
        let enter = || self.enter(n);
        let (line, refusal) = self.guest.enter(enter, |second| self.leave(&second))?;
        // What is in flight is so by any limit.
        line.go_by(self.own, self, || ());
        let queue = &line.queue;
        Ok(Opened { queue, refusal })
    }

    fn clock(&self) -> &Clock {
        &self.at.limit.clock
    }

    fn facts(&self) -> Facts {
        Facts::untimed(true)
    }

    /// The time of a release is not known, unless there is room for all now.
    fn ask(&self, _: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        let (limit, in_flight) = (self.limit(), self.at.limit.in_flight.look(&self.at.place).0);
        let free = u64::from(limit).saturating_sub(in_flight);
        if asker.ahead() + u128::from(n) > free.into() {
            return Err(denied(limit, n));
        }
        Ok(())
    }

    fn grant(&self, _: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        let (own, is_in_line) = match to {
            Grantee::Caller => (self.own, false),
            Grantee::Waiter { .. } => (self.guest.own(self.own), true),
        };
        let asked = Asked { n, own, is_in_line };
        let admitted = self.at.limit.admit(&self.at.place, asked);
        admitted.map_err(Refusal::denied)
    }

    fn take_back(&self, _: Timestamp, n: u64, _: &[Receipt]) {
        self.at.limit.give_back(&self.at.place, n);
    }
}

impl<P: Deref<Target = KeyedConcurrencyLimit> + Clone + Send + Sync> KeyWait for KeyPermits<P> {
    type Granted = KeyPermit<P>;

    fn granted(&self, granted: Grant) -> KeyPermit<P> {
        Permit::new(self.at.clone(), granted.units)
    }

    fn leave_queue(&mut self) {
        if let Some(entered) = self.guest.take() {
            self.leave(&entered);
        }
    }
}

impl<P> fmt::Debug for KeyPermits<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPermits").finish_non_exhaustive()
    }
}
