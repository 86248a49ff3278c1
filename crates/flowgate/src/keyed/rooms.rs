//! A line for each key that somebody waits for, and for no other.
//!
//! A key with a line has an entry that says so, which stays for as long. So whoever finds an entry that does not say so
//! overtakes nobody, and needs not look here.
//!
//! A line goes by one quota, whoever looks after it: that of whoever came into it last. So those who wait for a key are served
//! as if its quota had been changed when somebody came with another.

use crate::primitive::Lock;
use crate::room::{Room, Supply};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;

#[derive(Debug)]
pub(crate) struct Rooms<Q> {
    /// By the slot of the key's entry. Taken before any lock of the table.
    open: Lock<BTreeMap<usize, Open<Q>>>,
    /// How many keys may have a line.
    most: usize,
}

#[derive(Debug)]
struct Open<Q> {
    room: Arc<KeyRoom<Q>>,
    /// How many have entered and not left.
    guests: usize,
}

/// Where those wait who want the same key.
#[derive(Debug)]
pub(crate) struct KeyRoom<Q> {
    pub(crate) room: Room,
    /// What its line goes by; none: what is in force for all keys.
    own: Lock<Option<Q>>,
}

/// A key's slot, and the line for it.
pub(crate) type Entered<Q> = (usize, Arc<KeyRoom<Q>>);

impl<Q: Copy + PartialEq> KeyRoom<Q> {
    pub(crate) fn new(own: Option<Q>) -> Self {
        Self {
            room: Room::new(),
            own: Lock::new(own),
        }
    }

    pub(crate) fn own(&self) -> Option<Q> {
        *self.own.lock()
    }

    /// Goes by `own` from now on, and if that is another than before, has the key `restated` in it. `supply` is that of
    /// this line.
    pub(crate) fn go_by(&self, own: Option<Q>, supply: &dyn Supply, restated: impl FnOnce()) {
        if self.own() == own {
            return;
        }
        let _change = self.room.reconfigure(supply);
        *self.own.lock() = own;
        restated();
    }
}

impl<Q: Copy + PartialEq> Rooms<Q> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            open: Lock::new(BTreeMap::new()),
            most,
        }
    }

    /// Lets somebody into the line of the key whose slot `hold` tells, having announced there that somebody waits; a new line,
    /// which goes by `own`, is then `set_up`. None: there are too many.
    pub(crate) fn enter(
        &self,
        own: Option<Q>,
        hold: impl FnOnce() -> Option<usize>,
        release: impl FnOnce(),
        set_up: impl FnOnce(&KeyRoom<Q>),
    ) -> Option<Entered<Q>> {
        let mut open = self.open.lock();
        let slot = hold()?;
        let has_space = open.len() < self.most;
        let room = match open.entry(slot) {
            Entry::Occupied(mut entry) => {
                let open = entry.get_mut();
                open.guests += 1;
                Arc::clone(&open.room)
            }
            Entry::Vacant(_) if !has_space => {
                release();
                return None;
            }
            Entry::Vacant(entry) => {
                let room = Arc::new(KeyRoom::new(own));
                set_up(&room);
                entry.insert(Open {
                    room: Arc::clone(&room),
                    guests: 1,
                });
                room
            }
        };
        Some((slot, room))
    }

    /// Somebody who has entered leaves; after the last of them, `release` takes the announcement back.
    pub(crate) fn leave(&self, slot: usize, release: impl FnOnce()) {
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

    /// The line of the key whose entry is in `slot`, if it has one.
    pub(crate) fn find(&self, slot: usize) -> Option<Arc<KeyRoom<Q>>> {
        self.open
            .lock()
            .get(&slot)
            .map(|open| Arc::clone(&open.room))
    }

    /// All lines there are, by slot.
    pub(crate) fn all(&self) -> Vec<Entered<Q>> {
        let open = self.open.lock();
        open.iter()
            .map(|(slot, open)| (*slot, Arc::clone(&open.room)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
