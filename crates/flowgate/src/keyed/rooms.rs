//! A line for each key that somebody waits for, and for no other.
//!
//! A key with a line has an entry that says so, which stays for as long. So whoever finds an entry that does not say so
//! overtakes nobody, and needs not look here.

use super::place::Place;
use crate::primitive::Lock;
use crate::room::Room;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;

#[derive(Debug)]
pub(crate) struct Rooms {
    /// Taken before any lock of the table.
    open: Lock<BTreeMap<Place, Open>>,
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

    /// Lets somebody into the line of the key at `place`, which is made if `hold` says that it can be announced, and is
    /// then to be set up. None: there are too many.
    pub(crate) fn enter(
        &self,
        place: &Place,
        hold: impl FnOnce() -> bool,
        set_up: impl FnOnce(&Room),
    ) -> Option<Arc<Room>> {
        let mut open = self.open.lock();
        let has_space = open.len() < self.most;
        match open.entry(*place) {
            Entry::Occupied(mut entry) => {
                let open = entry.get_mut();
                open.guests += 1;
                Some(Arc::clone(&open.room))
            }
            Entry::Vacant(entry) => {
                if !has_space || !hold() {
                    return None;
                }
                let room = Arc::new(Room::new());
                set_up(&room);
                entry.insert(Open {
                    room: Arc::clone(&room),
                    guests: 1,
                });
                Some(room)
            }
        }
    }

    /// Somebody who has entered leaves; after the last of them, `release` takes the announcement back.
    pub(crate) fn leave(&self, place: &Place, release: impl FnOnce()) {
        let mut open = self.open.lock();
        let Some(entry) = open.get_mut(place) else {
            return;
        };
        entry.guests -= 1;
        if entry.guests == 0 {
            release();
            open.remove(place);
        }
    }

    /// The line of the key at `place`, if it has one.
    pub(crate) fn find(&self, place: &Place) -> Option<Arc<Room>> {
        self.open
            .lock()
            .get(place)
            .map(|open| Arc::clone(&open.room))
    }

    /// All lines there are.
    pub(crate) fn all(&self) -> alloc::vec::Vec<(Place, Arc<Room>)> {
        let open = self.open.lock();
        open.iter()
            .map(|(place, open)| (*place, Arc::clone(&open.room)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
