use super::in_flight::{Refused, Who};
use super::supply::KeySupply;
use super::{KeyPermit, KeyedConcurrencyLimit};
use crate::keyed::place::Place;
use crate::keyed::rooms::{Entered, KeyRoom};
use crate::room::{Acquirable, Line, Turn};
use crate::verdict::Denied;
use core::fmt;
use core::ops::Deref;
use core::task::{Poll, Waker};

/// What [`Acquire`](crate::Acquire) waits for at a [`KeyedConcurrencyLimit`], which `P` points to: permits of one key.
///
/// Those who wait for the same key have one queue, which exists for as long as somebody waits. A key for which there is no
/// table entry is refused immediately: it does not wait for other keys to go.
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
    limit: P,
    place: Place,
    /// Instead of the limit in force.
    own: Option<u32>,
    /// The queue of its key, which is in that slot. It has entered it, and is to leave it.
    entered: Option<Entered<u32>>,
}

impl<P> KeyPermits<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    pub(super) fn of(limit: P, place: Place, own: Option<u32>) -> Self {
        Self {
            limit,
            place,
            own,
            entered: None,
        }
    }

    fn leave(&mut self) {
        if let Some((slot, _)) = self.entered.take() {
            let limit = &*self.limit;
            limit
                .rooms
                .leave(slot, || limit.in_flight.release(&self.place));
        }
    }
}

impl<P> Acquirable for KeyPermits<P>
where
    P: Deref<Target = KeyedConcurrencyLimit> + Clone,
{
    type Granted = KeyPermit<P>;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<KeyPermit<P>, Denied>> {
        let permit = |n| KeyPermit::new(self.limit.clone(), self.place, n);
        if self.entered.is_none() {
            let n = turn.units.unwrap_or(1);
            match enter(&self.limit, &self.place, n, self.own) {
                Ok(None) => return Poll::Ready(Ok(permit(n))),
                Ok(entered) => self.entered = entered,
                Err(denied) => return Poll::Ready(Err(denied)),
            }
        }
        let Some((_, room)) = &self.entered else {
            return Poll::Pending;
        };
        let answer = turn.poll(&KeySupply::new(&self.limit, room), waker);
        // A permit first, so that the key keeps its entry.
        let answer = answer.map_ok(|granted| permit(granted.units));
        if answer.is_ready() {
            self.leave();
        }
        answer
    }

    fn abandon(&mut self, turn: &mut Turn) {
        if let Some((_, room)) = &self.entered {
            turn.abandon(&KeySupply::new(&self.limit, room));
        }
        self.leave();
    }
}

impl<P> fmt::Debug for KeyPermits<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPermits").finish_non_exhaustive()
    }
}

/// Admits `n` for the key at `place`, or makes it one more who waits for it, and says where.
fn enter(
    limit: &KeyedConcurrencyLimit,
    place: &Place,
    n: u64,
    own: Option<u32>,
) -> Result<Option<Entered<u32>>, Denied> {
    match limit.admit(place, n, own, Who::Newcomer) {
        Ok(()) => return Ok(None),
        Err(Refused::Waits(_)) => {}
        Err(refused) => match limit.denied(refused, n) {
            denied if denied.is_busy() => {}
            denied => return Err(denied),
        },
    }
    let mut has_slot = false;
    let hold = || {
        let slot = limit.in_flight.hold(place);
        has_slot = slot.is_some();
        slot
    };
    let release = || limit.in_flight.release(place);
    let made = || {
        let room = KeyRoom::new(*place, (), own);
        Line::new(&KeySupply::new(limit, &room)).set_max_waiters(limit.max_waiters_per_key);
        room
    };
    match limit.rooms.enter(hold, release, made) {
        Some((slot, room)) => {
            // What is in flight is so by any limit.
            room.go_by(own, &KeySupply::new(limit, &room), || ());
            Ok(Some((slot, room)))
        }
        None if has_slot => Err(Denied::queue_full(None)),
        None => Err(limit.denied(Refused::NoEntry, n)),
    }
}
