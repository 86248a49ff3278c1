//! A line for each key that somebody waits for, and for no other.
//!
//! A key with a line has an entry that says so, which stays for as long. So whoever finds an entry that does not say so
//! overtakes nobody, and needs not look here.

use crate::primitive::Lock;
use crate::room::Room;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;

#[derive(Debug)]
pub(crate) struct Rooms {
    /// By the slot of the key's entry. Taken before any lock of the table.
    open: Lock<BTreeMap<usize, Open>>,
    /// How many keys may have a line.
    most: usize,
}

#[derive(Debug)]
struct Open {
    room: Arc<Room>,
    /// How many have entered and not left.
    guests: usize,
}

impl Rooms {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            open: Lock::new(BTreeMap::new()),
            most,
        }
    }

    /// Lets somebody into the line of the key whose slot `hold` tells, having announced there that somebody waits; a new line
    /// is then `set_up`. None: there are too many.
    pub(crate) fn enter(
        &self,
        hold: impl FnOnce() -> Option<usize>,
        release: impl FnOnce(),
        set_up: impl FnOnce(&Room),
    ) -> Option<(usize, Arc<Room>)> {
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
                let room = Arc::new(Room::new());
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
    pub(crate) fn find(&self, slot: usize) -> Option<Arc<Room>> {
        self.open
            .lock()
            .get(&slot)
            .map(|open| Arc::clone(&open.room))
    }

    /// All lines there are, by slot.
    pub(crate) fn all(&self) -> Vec<(usize, Arc<Room>)> {
        let open = self.open.lock();
        open.iter()
            .map(|(slot, open)| (*slot, Arc::clone(&open.room)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
