//! A queue for each key that somebody waits for, and for no other.
//!
//! A key with a queue has an entry that says so, which stays for as long. So whoever finds an entry that does not say so
//! overtakes nobody, and needs not look here.
//!
//! Whoever has read of a slot, and comes here later, may find the queue of the key that has that slot by now. So a queue
//! knows whose it is: it is found only by that key, and served only from what is that key's.
//!
//! A queue goes by one quota, whoever looks after it: that of whoever came into it last. So those who wait for a key are served
//! as if its quota had been changed when somebody came with another.

use super::entry::Place;
use crate::primitive::{Lazy, Lock};
use crate::queue::{Granted, Queue, Supply};
use crate::verdict::Denied;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;

/// A wait for a key, which something around it may do in its stead: it is polled as a supply, told what that came to, and made to
/// leave the key's queue after that.
pub trait KeyWait: Supply {
    /// What the wait becomes.
    type Granted;

    fn granted(&self, granted: Granted) -> Self::Granted;

    /// Leaves the queue of the key, if it has entered one.
    fn leave_its_queue(&mut self);
}

/// By quotas `Q` of keys that are kept as `O`.
pub(crate) struct KeyQueues<Q, O = ()> {
    /// By the slot of the key's entry. Taken before any lock of the table.
    open: Lock<BTreeMap<usize, Open<Q, O>>>,
    /// How many keys may have a queue.
    most: usize,
}

struct Open<Q, O> {
    queue: Arc<KeyQueue<Q, O>>,
    /// How many have entered and not left.
    guests: usize,
}

/// Where those wait who want the same key.
pub(crate) struct KeyQueue<Q, O = ()> {
    pub(crate) queue: Queue,
    /// Whose it is.
    pub(crate) place: Place,
    pub(crate) key: O,
    /// What its queue goes by; none: what is in force for all keys.
    own: Lock<Option<Q>>,
}

/// Somebody who may wait for a key, and the key's queue, once they have entered it.
pub(crate) struct Guest<Q, O = ()> {
    entered: Lazy<Entered<Q, O>>,
    /// Where nobody waits.
    idle: Queue,
}

pub(crate) struct Entered<Q, O> {
    queue: Arc<KeyQueue<Q, O>>,
    /// The key's slot, if the queue is to be left in the end; none: it is looked after on behalf of others.
    slot: Option<usize>,
}

impl<Q: Copy + PartialEq, O> Guest<Q, O> {
    pub(crate) fn new() -> Self {
        Self {
            entered: Lazy::new(),
            idle: Queue::new(),
        }
    }

    /// Somebody who looks after the queue of others.
    pub(crate) fn of(queue: &Arc<KeyQueue<Q, O>>) -> Self {
        let guest = Self::new();
        let queue = Arc::clone(queue);
        guest.entered.get_or_make(|| Entered { queue, slot: None });
        guest
    }

    /// The queue, if it has been entered.
    pub(crate) fn key_queue(&self) -> Option<&Arc<KeyQueue<Q, O>>> {
        self.entered.get().map(|entered| &entered.queue)
    }

    pub(crate) fn queue(&self) -> &Queue {
        self.key_queue().map_or(&self.idle, |line| &line.queue)
    }

    /// What the queue goes by if it has been entered, or else `own`.
    pub(crate) fn own(&self, own: Option<Q>) -> Option<Q> {
        self.key_queue().map_or(own, |line| line.own())
    }

    /// The queue, entered, and, if it is new, why this guest has to wait.
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
        // Another thread may have entered for the same guest meanwhile.
        let is_second = new.map(leave).is_some();
        Ok((&entered.queue, refusal.filter(|_| !is_second)))
    }

    /// To be left.
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

    /// Whether it is that of the key at `place`, which may have had the same slot.
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

    /// Goes by `own` from now on, and if that is another than before, has the key `restated` in it. `supply` is that of
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

    /// Lets somebody into the queue of the key whose slot `hold` tells, having announced there that somebody waits; if
    /// there is none yet, one is `made`. With the slot comes why they have to, as of then: whoever changes that from then on finds
    /// the queue, so with a new one it is returned.
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

    /// Somebody who has entered leaves; after the last of them, `release` takes the announcement back.
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

    /// The queue of the key at `place`, of which the entry was in `slot`, if it has one there.
    pub(crate) fn find<K>(&self, slot: usize, place: &Place, key: &K) -> Option<Arc<KeyQueue<Q, O>>>
    where
        K: Eq + ?Sized,
        O: Borrow<K>,
    {
        let open = self.open.lock();
        let queue = &open.get(&slot)?.queue;
        queue.is_of(place, key).then(|| Arc::clone(queue))
    }

    /// All queues there are.
    pub(crate) fn all(&self) -> Vec<Arc<KeyQueue<Q, O>>> {
        let open = self.open.lock();
        open.values().map(|open| Arc::clone(&open.queue)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
