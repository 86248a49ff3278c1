//! Decisions about many keys in one call.
//!
//! A table with many keys is larger than the processor's caches, so a decision mostly waits for the memory with the key's line. The
//! decisions of a call do not depend on each other. So the lines of [`ASKED`] keys are requested before the first of these keys is
//! decided, and the memory is read for all of them in about the time of one.

use super::Keyed;
use super::algorithm::KeyedAlgorithm;
use super::entry::Place;
use super::names::{AsKey, KeyNames};
use super::table::{Table, Who};
use crate::verdict::Denied;

/// The number of keys whose lines are requested together. A processor core has room for about that many missing lines.
const ASKED: usize = 16;
/// A table with fewer lines is in the processor's caches (4 MiB). Requests would take longer than they save.
const MANY_LINES: usize = 1 << 16;

/// The decisions about `keys`, in their order.
pub(super) struct Each<'a, A: KeyedAlgorithm, N: KeyNames, K> {
    keyed: &'a Keyed<A, N>,
    /// The keys that have not been decided. Of the first `asked`, the places are known.
    keys: &'a [K],
    places: [Place; ASKED],
    asked: usize,
}

impl<'a, A: KeyedAlgorithm, N: KeyNames, K: AsKey<N>> Each<'a, A, N, K> {
    pub(super) fn new(keyed: &'a Keyed<A, N>, keys: &'a [K]) -> Self {
        Self {
            keyed,
            keys,
            places: [Place::NOWHERE; ASKED],
            asked: 0,
        }
    }

    /// Finds the places of the next keys, and requests their lines. The last of `places` is that of the last key.
    #[inline(never)]
    fn ask(&mut self) {
        let table = &self.keyed.keys.table;
        let is_large = is_large(table);
        self.asked = if is_large { ASKED } else { 1 }.min(self.keys.len());
        let places = &mut self.places[ASKED - self.asked..];
        for (place, key) in places.iter_mut().zip(self.keys) {
            *place = table.who(key).place;
        }
        if is_large {
            request(table, places);
        }
    }
}

/// Requests the lines of `keys`.
pub(super) fn prefetch<A: KeyedAlgorithm, N: KeyNames, K: AsKey<N>>(
    keyed: &Keyed<A, N>,
    keys: &[K],
) {
    let table = &keyed.keys.table;
    if !is_large(table) {
        return;
    }
    for keys in keys.chunks(ASKED) {
        let mut places = [Place::NOWHERE; ASKED];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = table.who(key).place;
        }
        request(table, &places[..keys.len()]);
    }
}

fn is_large<N: KeyNames>(table: &Table<N>) -> bool {
    table.lines() >= MANY_LINES
}

/// Requests the lines of `places`.
fn request<N: KeyNames>(table: &Table<N>, places: &[Place]) {
    // One loop each, and short ones, so that the processor is ahead by as many requests as it can be.
    for place in places {
        table.request(place);
    }
    for place in places {
        table.request_other(place);
    }
}

impl<A: KeyedAlgorithm, N: KeyNames, K: AsKey<N>> Iterator for Each<'_, A, N, K> {
    type Item = Result<(), Denied>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.asked == 0 {
            self.ask();
        }
        let (key, rest) = self.keys.split_first()?;
        let place = self.places[ASKED - self.asked];
        self.keys = rest;
        self.asked -= 1;
        let who = Who {
            place,
            key: key.key(),
        };
        Some(self.keyed.take(who, None))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.keys.len(), Some(self.keys.len()))
    }
}

impl<A: KeyedAlgorithm, N: KeyNames, K: AsKey<N>> ExactSizeIterator for Each<'_, A, N, K> {}
