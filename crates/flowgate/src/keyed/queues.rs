//! The queues of the keys for which callers wait.
//!
//! The entry of a key with a queue is marked, and stays in the table for as long as the queue exists. A caller that finds an entry
//! without the mark overtakes no waiter, and need not look here.
//!
//! A thread can read a slot and look here later, when another key has the slot and a queue. Each queue therefore records its key.
//! Only that key finds the queue, and only that key's limit serves it.
//!
//! A queue uses one quota, whichever caller serves it: the quota of the waiter that joined last. If a waiter with another quota
//! joins, all waiters of the key are served as after a change of the key's quota.

use super::entry::Place;
use crate::primitive::{Lazy, Lock};
use crate::queue::{Grant, Queue, Supply, Turn};
use crate::verdict::Denied;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::task::{Poll, Waker};

/// A wait for a key, which a surrounding wait can run in its place.
///
/// The surrounding wait polls it as a supply, reports the result to it, and makes it leave the key's queue.
pub trait KeyWait: Supply {
    /// The value that the wait returns.
    type Granted;

    fn granted(&self, granted: Grant) -> Self::Granted;

    /// Leaves the queue of the key, if this wait has joined it.
    fn leave_queue(&mut self);

    /// The answer of `turn`, which leaves the queue once there is one.
    fn poll_turn(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Self::Granted, Denied>>
    where
        Self: Sized,
    {
        let answer = turn.poll(self, waker);
        let answer = answer.map_ok(|granted| self.granted(granted));
        if answer.is_ready() {
            self.leave_queue();
        }
        answer
    }
}

/// The queues that use quotas of type `Q`, for keys that are stored as `O`.
pub(crate) struct KeyQueues<Q, O = ()> {
    /// The open queues, by the slot of the key's entry. This lock is taken before any lock of the table.
    open: Lock<BTreeMap<usize, Open<Q, O>>>,
    /// The largest number of keys that can have a queue.
    most: usize,
}

struct Open<Q, O> {
    queue: Arc<KeyQueue<Q, O>>,
    /// The number of guests that have entered and not left.
    guests: usize,
}

/// The queue of one key.
pub(crate) struct KeyQueue<Q, O = ()> {
    pub(crate) queue: Queue,
    /// The place of the queue's key.
    pub(crate) place: Place,
    pub(crate) key: O,
    /// The per-key quota that the queue uses; `None`: the current quota of all keys.
    own: Lock<Option<Q>>,
}

/// A caller that may wait for a key, and the key's queue once the caller has entered it.
pub(crate) struct Guest<Q, O = ()> {
    entered: Lazy<Entered<Q, O>>,
    /// An empty queue, in which no caller waits.
    idle: Queue,
}

pub(crate) struct Entered<Q, O> {
    queue: Arc<KeyQueue<Q, O>>,
    /// The key's slot, if the guest leaves the queue at the end; `None`: the guest only serves the queue for others.
    slot: Option<usize>,
}

impl<Q: Copy + PartialEq, O> Guest<Q, O> {
    pub(crate) fn new() -> Self {
        Self {
            entered: Lazy::new(),
            idle: Queue::new(),
        }
    }

    /// Returns a guest that serves the queue for others.
    pub(crate) fn of(queue: &Arc<KeyQueue<Q, O>>) -> Self {
        let guest = Self::new();
        let queue = Arc::clone(queue);
        guest.entered.get_or_make(|| Entered { queue, slot: None });
        guest
    }

    /// Returns the key's queue, if the guest has entered it.
    pub(crate) fn key_queue(&self) -> Option<&Arc<KeyQueue<Q, O>>> {
        self.entered.get().map(|entered| &entered.queue)
    }

    pub(crate) fn queue(&self) -> &Queue {
        self.key_queue().map_or(&self.idle, |line| &line.queue)
    }

    /// Returns the quota that the queue uses if the guest has entered it, or else `own`.
    pub(crate) fn own(&self, own: Option<Q>) -> Option<Q> {
        self.key_queue().map_or(own, |line| line.own())
    }

    /// Enters the queue and returns it. If the queue is new, also returns why this guest has to wait.
    pub(crate) fn enter(
        &self,
        enter: impl FnOnce() -> Result<(Entered<Q, O>, Option<Denied>), Denied>,
        leave: impl FnOnce(Entered<Q, O>),
    ) -> Result<(&KeyQueue<Q, O>, Option<Denied>), Denied> {
        if let Some(line) = self.key_queue() {
            return Ok((line, None));
        }
        let (entered, refusal) = enter()?;
        let mut new = Some(entered);
        let entered = self.entered.get_or_make(|| new.take().expect("it is new"));
        // Another thread may have entered for the same guest in the meantime.
        let is_second = new.map(leave).is_some();
        Ok((&entered.queue, refusal.filter(|_| !is_second)))
    }

    /// Returns the queue, which the caller then leaves.
    pub(crate) fn take(&mut self) -> Option<Entered<Q, O>> {
        self.entered.take()
    }
}

impl<Q: Copy + PartialEq, O> KeyQueue<Q, O> {
    pub(crate) fn new(place: Place, key: O, own: Option<Q>) -> Self {
        Self {
            queue: Queue::new(),
            place,
            key,
            own: Lock::new(own),
        }
    }

    /// Returns whether this is the queue of the key at `place`. Another key may have had the same slot before.
    fn is_of<K>(&self, place: &Place, key: &K) -> bool
    where
        K: Eq + ?Sized,
        O: Borrow<K>,
    {
        self.place.fingerprint == place.fingerprint && self.key.borrow() == key
    }

    pub(crate) fn own(&self) -> Option<Q> {
        *self.own.lock()
    }

    /// Uses `own` from now on. If that is another quota than before, calls `restated` to change the key to it. `supply` is that of
    /// this queue.
    pub(crate) fn go_by(&self, own: Option<Q>, supply: &dyn Supply, restated: impl FnOnce()) {
        if self.own() == own {
            return;
        }
        let _change = self.queue.reconfigure(supply);
        *self.own.lock() = own;
        restated();
    }
}

impl<Q: Copy + PartialEq, O> KeyQueues<Q, O> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            open: Lock::new(BTreeMap::new()),
            most,
        }
    }

    /// Adds a guest to the queue of a key. `hold` marks the key's entry, and returns its slot and why the guest has to wait. If the
    /// key has no queue, `made` creates one, and the reason is returned with it: a thread that changes the key after `hold` finds
    /// the new queue.
    pub(crate) fn enter(
        &self,
        hold: impl FnOnce() -> Result<(usize, Option<Denied>), Denied>,
        release: impl FnOnce(),
        made: impl FnOnce() -> Arc<KeyQueue<Q, O>>,
    ) -> Result<(Entered<Q, O>, Option<Denied>), Denied> {
        let mut open = self.open.lock();
        let (slot, mut refusal) = hold()?;
        let has_space = open.len() < self.most;
        let queue = match open.entry(slot) {
            Entry::Occupied(mut entry) => {
                let open = entry.get_mut();
                open.guests += 1;
                refusal = None;
                Arc::clone(&open.queue)
            }
            Entry::Vacant(_) if !has_space => {
                release();
                return Err(Denied::queue_full(None));
            }
            Entry::Vacant(entry) => {
                let (queue, guests) = (made(), 1);
                Arc::clone(&entry.insert(Open { queue, guests }).queue)
            }
        };
        let slot = Some(slot);
        Ok((Entered { queue, slot }, refusal))
    }

    /// Removes a guest from its queue. After the last one, `release` removes the mark from the key's entry.
    pub(crate) fn leave(&self, entered: &Entered<Q, O>, release: impl FnOnce()) {
        let Some(slot) = entered.slot else {
            return;
        };
        let mut open = self.open.lock();
        let Some(entry) = open.get_mut(&slot) else {
            return;
        };
        entry.guests -= 1;
        if entry.guests == 0 {
            release();
            open.remove(&slot);
        }
    }

    /// Returns the queue of the key at `place`, whose entry was in `slot`, if the key has a queue there.
    pub(crate) fn find<K>(&self, slot: usize, place: &Place, key: &K) -> Option<Arc<KeyQueue<Q, O>>>
    where
        K: Eq + ?Sized,
        O: Borrow<K>,
    {
        let open = self.open.lock();
        let queue = &open.get(&slot)?.queue;
        queue.is_of(place, key).then(|| Arc::clone(queue))
    }

    /// Returns all queues.
    pub(crate) fn all(&self) -> Vec<Arc<KeyQueue<Q, O>>> {
        let open = self.open.lock();
        open.values().map(|open| Arc::clone(&open.queue)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Returns the number of waiters in all queues.
    pub(crate) fn waiters(&self) -> usize {
        let waiters = |queue: Arc<KeyQueue<Q, O>>| queue.queue.waiters();
        self.all().into_iter().map(waiters).sum()
    }
}
