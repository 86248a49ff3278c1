use super::algorithm::KeyedAlgorithm;
use super::keys::{Amount, Refusal, Who};
use super::names::{Hashed, KeyNames};
use super::place::Place;
use super::rooms::{Entered, KeyRoom};
use super::rule::Terms;
use super::view::KeyedView;
use crate::clock::Timestamp;
use crate::room::{CancelHandle, Grant, Granted, Line, Turn};
use crate::verdict::Denied;
use core::borrow::Borrow;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// A wait for a turn of one key: a future, and until it is first polled a builder of itself.
///
/// Made by [`Keyed::acquire`](super::Keyed::acquire). As [`Acquire`](crate::Acquire), but that only those who wait for
/// the same key stand in one line, which exists for as long as somebody does. A line goes by one quota: that
/// [with](super::Keyed::with) which the last of them came.
///
/// ```
/// use flowgate::Keyed;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hosts = Keyed::leaky_bucket("100/s".parse()?).capacity(1_000)?; // 10 ms apart, for each host
/// for url in ["a.example/1", "b.example/1", "a.example/2"] {
///     let (host, _path) = url.split_once('/').unwrap();
///     hosts.acquire(host).await?;
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Cancel safety
///
/// Dropping it leaves the line. What had been granted by then, and not seen, is given back.
///
/// A [forgotten](crate::Acquire#forgotten-waits) wait also keeps the queue and the table entry of its key.
///
/// # Panics
///
/// When it is polled again after it was ready.
#[must_use = "it waits for nothing until it is awaited or blocked on"]
pub struct KeyedAcquire<'a, A: KeyedAlgorithm, N: KeyNames = Hashed> {
    view: KeyedView<'a, A, N>,
    place: Place,
    key: N::Owned,
    turn: Turn,
    /// Where it stands, once it has to: the slot of its key, and the line.
    room: Option<Entered<Terms, N::Owned>>,
    is_over: bool,
}

impl<'a, A: KeyedAlgorithm, N: KeyNames> KeyedAcquire<'a, A, N> {
    pub(super) fn new(view: KeyedView<'a, A, N>, who: Who<'_, N>) -> Self {
        Self {
            view,
            place: who.place,
            key: N::own(who.key),
            turn: Turn::new(),
            room: None,
            is_over: false,
        }
    }

    /// Asks for `units`, all at once, instead of one token. 0 is granted at once.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("1000/s burst 10".parse()?).capacity(100)?;
    /// assert_eq!(limits.acquire("alice").n(10).block()?.units(), 10);
    /// assert!(limits.acquire("alice").n(11).block().unwrap_err().is_never());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn n(mut self, units: u64) -> Self {
        self.turn.units = Some(units);
        self
    }

    /// Waits for `patience` at the longest, counted from the first poll.
    pub fn within(mut self, patience: Duration) -> Self {
        self.turn.within(patience);
        self
    }

    /// Waits until `deadline` of the limiter's clock at the longest.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// # use std::time::Duration;
    /// let limits = Keyed::leaky_bucket("1/h".parse()?).capacity(100)?;
    /// let deadline = limits.clock().now() + Duration::from_secs(10); // for a whole request
    /// limits.acquire("a.example").by(deadline).block()?;
    /// limits.acquire("b.example").by(deadline).block()?;
    /// assert!(limits.acquire("a.example").by(deadline).block().is_err()); // told at once
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn by(mut self, deadline: Timestamp) -> Self {
        self.turn.by(deadline);
        self
    }

    /// Gives up when `handle` is cancelled.
    ///
    /// ```
    /// use flowgate::{CancelHandle, Keyed};
    ///
    /// let limits = Keyed::leaky_bucket("1/h".parse()?).capacity(100)?;
    /// limits.try_acquire("a.example")?;
    /// let shutdown = CancelHandle::new();
    /// std::thread::scope(|threads| {
    ///     let waits = threads.spawn(|| limits.acquire("a.example").cancelled_by(&shutdown).block());
    ///     shutdown.cancel();
    ///     assert!(waits.join().unwrap().unwrap_err().is_cancelled());
    /// });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
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
    pub fn block(mut self) -> Result<Grant, Denied> {
        crate::room::block_on(|waker| self.poll_with(waker)).map(Grant::from)
    }

    fn poll_with(&mut self, waker: &Waker) -> Poll<Result<Granted, Denied>> {
        assert!(!self.is_over, "polled after it was ready");
        let answer = self.go(waker);
        if answer.is_ready() {
            self.is_over = true;
            self.leave();
        }
        answer
    }

    fn go(&mut self, waker: &Waker) -> Poll<Result<Granted, Denied>> {
        if self.room.is_none() {
            if self.turn.is_cancelled(waker) {
                return Poll::Ready(Err(Denied::cancelled()));
            }
            if let Poll::Ready(answer) = self.try_now() {
                return Poll::Ready(answer);
            }
        }
        let Some((_, room)) = &self.room else {
            return Poll::Pending;
        };
        self.turn.poll(&self.view.keyed.supply(room), waker)
    }

    /// Without a line, if that is enough; otherwise enters one.
    fn try_now(&mut self) -> Poll<Result<Granted, Denied>> {
        let (view, who) = (self.view, self.who());
        let keyed = view.keyed;
        let asked = view.asked();
        let token = || keyed.terms(view.own.as_ref()).scale;
        let units = self.turn.units.unwrap_or_else(token);
        match keyed.keys.take(who, asked, Amount::All(units), false) {
            Ok(taken) => {
                return Poll::Ready(Ok(Granted {
                    units,
                    since_ns: asked.now_ns,
                    at_ns: taken.at_ns,
                }));
            }
            Err(Refusal::Denied(denied)) if denied.is_never() || denied.is_table_full() => {
                return Poll::Ready(Err(denied));
            }
            Err(Refusal::Denied(_) | Refusal::Waits(_)) => {}
        }
        let hold = || keyed.keys.hold(who, asked);
        let release = || keyed.keys.release(who, asked);
        let made = || {
            let room = KeyRoom::new(who.place, N::own(who.key), view.own);
            Line::new(&keyed.supply(&room)).set_max_waiters(keyed.max_waiters_per_key);
            room
        };
        let Some((slot, room)) = keyed.rooms.enter(hold, release, made) else {
            return Poll::Ready(Err(Denied::queue_full(None)));
        };
        let restate = || keyed.keys.restate(who, view.asked_latest());
        room.go_by(view.own, &keyed.supply(&room), restate);
        self.room = Some((slot, room));
        Poll::Pending
    }

    fn leave(&mut self) {
        if let Some((slot, _)) = self.room.take() {
            let keyed = self.view.keyed;
            let release = || keyed.keys.release(self.who(), self.view.asked());
            keyed.rooms.leave(slot, release);
        }
    }

    fn who(&self) -> Who<'_, N> {
        Who {
            place: self.place,
            key: self.key.borrow(),
        }
    }
}

/// Nothing in it is ever pinned.
impl<A: KeyedAlgorithm, N: KeyNames> Unpin for KeyedAcquire<'_, A, N> {}

impl<A: KeyedAlgorithm, N: KeyNames> Future for KeyedAcquire<'_, A, N> {
    type Output = Result<Grant, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(context.waker()).map_ok(Grant::from)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Drop for KeyedAcquire<'_, A, N> {
    fn drop(&mut self) {
        if let Some((_, room)) = &self.room {
            self.turn.abandon(&self.view.keyed.supply(room));
        }
        self.leave();
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyedAcquire<'_, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedAcquire")
            .field("units", &self.turn.units)
            .finish_non_exhaustive()
    }
}
