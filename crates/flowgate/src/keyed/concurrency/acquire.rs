use super::in_flight::{Refused, Who};
use super::supply::KeySupply;
use super::{KeyPermit, KeyedConcurrencyLimit};
use crate::clock::Timestamp;
use crate::keyed::place::Place;
use crate::keyed::rooms::{Entered, KeyRoom};
use crate::room::{CancelHandle, Line, Turn};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// A wait for a [`KeyPermit`]: a future, and until it is first polled a builder of itself.
///
/// Made by [`acquire`](KeyedConcurrencyLimit::acquire) and [`acquire_owned`](KeyedConcurrencyLimit::acquire_owned), or by
/// [`WithLimit::acquire`](super::WithLimit::acquire) for a key with a limit of its own. As
/// [`AcquirePermit`](crate::AcquirePermit), but that only those who wait for the same key stand in one line, which
/// exists for as long as somebody does. A key for which there is no slot is refused at once: nobody waits for other
/// keys to go.
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
/// # Cancel safety
///
/// Dropping it leaves the line. What had been granted by then, and not seen, goes to those behind.
///
/// A [forgotten](crate::AcquirePermit#forgotten-waits) wait also keeps the queue and the table entry of its key.
///
/// # Panics
///
/// When it is polled again after it was ready.
#[must_use = "it waits for nothing until it is awaited or blocked on"]
pub struct AcquireKeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    limit: P,
    place: Place,
    /// Instead of the limit in force.
    own: Option<u32>,
    turn: Turn,
    stage: Stage,
}

enum Stage {
    New,
    /// It has entered the line of its key, which is in that slot, and is to leave it.
    InLine(usize, Arc<KeyRoom<u32>>),
    Over,
}

impl<P> AcquireKeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit> + Clone,
{
    pub(super) fn new(limit: P, place: Place, own: Option<u32>) -> Self {
        Self {
            limit,
            place,
            own,
            turn: Turn::new(),
            stage: Stage::New,
        }
    }

    /// Asks for `n` operations, all at once, instead of one. 0 is granted at once.
    pub fn n(mut self, n: u64) -> Self {
        self.turn.units = Some(n);
        self
    }

    /// Waits for `patience` at the longest, counted from the first poll.
    pub fn within(mut self, patience: Duration) -> Self {
        self.turn.within(patience);
        self
    }

    /// Waits until `deadline` of the limit's clock at the longest.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// # use std::time::Duration;
    /// let limits = KeyedConcurrencyLimit::new(1, 1000)?;
    /// let deadline = limits.clock().now() + Duration::from_millis(5); // for a whole request
    /// let permit = limits.acquire("tenant").by(deadline).block()?;
    /// assert!(limits.acquire("tenant").by(deadline).block().is_err());
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by(mut self, deadline: Timestamp) -> Self {
        self.turn.by(deadline);
        self
    }

    /// Gives up when `handle` is cancelled.
    ///
    /// ```
    /// use flowgate::{CancelHandle, KeyedConcurrencyLimit};
    ///
    /// let paused = KeyedConcurrencyLimit::new(0, 1000)?;
    /// let shutdown = CancelHandle::new();
    /// std::thread::scope(|threads| {
    ///     let wait = || paused.acquire("tenant").cancelled_by(&shutdown).block().map(drop);
    ///     let waits = threads.spawn(wait);
    ///     shutdown.cancel();
    ///     assert!(waits.join().unwrap().unwrap_err().is_cancelled());
    /// });
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn cancelled_by(mut self, handle: &CancelHandle) -> Self {
        self.turn.cancelled_by(handle);
        self
    }

    /// Blocks this thread until its turn comes.
    ///
    /// Not for tasks: it stops the whole thread that a runtime works with. Nothing detects that; there, `.await` it.
    ///
    /// # Errors
    ///
    /// [`Denied`], as when it is awaited.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn block(mut self) -> Result<KeyPermit<P>, Denied> {
        crate::room::block_on(|waker| self.poll_with(waker))
    }

    fn poll_with(&mut self, waker: &Waker) -> Poll<Result<KeyPermit<P>, Denied>> {
        if matches!(self.stage, Stage::New) {
            let n = self.turn.units.unwrap_or(1);
            match enter(&self.limit, &self.place, n, self.own) {
                Ok(Some((slot, room))) => self.stage = Stage::InLine(slot, room),
                answer => {
                    self.stage = Stage::Over;
                    return Poll::Ready(answer.map(|_| self.permit(n)));
                }
            }
        }
        let Stage::InLine(slot, room) = &self.stage else {
            panic!("polled after it was ready");
        };
        let supply = KeySupply::new(&self.limit, room);
        let slot = *slot;
        let answer = self.turn.poll(&supply, waker);
        answer.map(|answer| {
            // A permit first, so that the key keeps its entry.
            let permit = answer.map(|granted| self.permit(granted.units));
            self.stage = Stage::Over;
            leave(&self.limit, &self.place, slot);
            permit
        })
    }

    fn permit(&self, n: u64) -> KeyPermit<P> {
        KeyPermit::new(self.limit.clone(), self.place, n)
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

/// One who waited for the key at `place`, which is in `slot`, no longer does.
fn leave(limit: &KeyedConcurrencyLimit, place: &Place, slot: usize) {
    limit.rooms.leave(slot, || limit.in_flight.release(place));
}

impl<P> Future for AcquireKeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit> + Clone + Unpin,
{
    type Output = Result<KeyPermit<P>, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(context.waker())
    }
}

impl<P> Drop for AcquireKeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    fn drop(&mut self) {
        if let Stage::InLine(slot, room) = &self.stage {
            self.turn.abandon(&KeySupply::new(&self.limit, room));
            leave(&self.limit, &self.place, *slot);
        }
    }
}

impl<P> fmt::Debug for AcquireKeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireKeyPermit")
            .field("n", &self.turn.units.unwrap_or(1))
            .finish_non_exhaustive()
    }
}
