use super::algorithm::KeyedAlgorithm;
use super::keys::{Amount, Refusal};
use super::names::{Hashed, KeyNames};
use super::place::Place;
use super::rooms::{Entered, KeyRoom};
use super::rule::Terms;
use super::table::Who;
use super::view::KeyedView;
use crate::room::{Acquirable, Grant, Granted, Line, Turn};
use crate::verdict::Denied;
use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::task::{Poll, Waker};

/// What [`Acquire`](crate::Acquire) waits for at a [`Keyed`](super::Keyed) limiter: tokens of one key.
///
/// Those who wait for the same key have one queue, which exists for as long as somebody waits. A queue goes by one quota: that
/// [with](super::Keyed::with) which the last waiter came.
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
/// ```
/// # use flowgate::Keyed;
/// # use std::time::Duration;
/// let limits = Keyed::leaky_bucket("1/h".parse()?).capacity(100)?;
/// let deadline = limits.clock().now() + Duration::from_secs(10); // for a whole request
/// limits.acquire("a.example").by(deadline).block()?;
/// limits.acquire("b.example").by(deadline).block()?;
/// assert!(limits.acquire("a.example").by(deadline).block().is_err()); // refused immediately
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A [forgotten](crate::Acquire#forgotten-waits) wait also keeps the queue and the table entry of its key.
pub struct KeyTokens<'a, A: KeyedAlgorithm, N: KeyNames = Hashed> {
    view: KeyedView<'a, A, N>,
    place: Place,
    key: N::Owned,
    /// Where it waits, once it has to: the slot of its key, and the queue.
    room: Option<Entered<Terms, N::Owned>>,
}

impl<'a, A: KeyedAlgorithm, N: KeyNames> KeyTokens<'a, A, N> {
    pub(super) fn of(view: KeyedView<'a, A, N>, who: Who<'_, N>) -> Self {
        Self {
            view,
            place: who.place,
            key: who.key.to_owned(),
            room: None,
        }
    }

    fn go(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Granted, Denied>> {
        if self.room.is_none() {
            if turn.is_cancelled(waker) {
                return Poll::Ready(Err(Denied::cancelled()));
            }
            if let Poll::Ready(answer) = self.try_now(turn.units) {
                return Poll::Ready(answer);
            }
        }
        let Some((_, room)) = &self.room else {
            return Poll::Pending;
        };
        turn.poll(&self.view.keyed.supply(room), waker)
    }

    /// Without a line, if that is enough; otherwise enters one.
    fn try_now(&mut self, units: Option<u64>) -> Poll<Result<Granted, Denied>> {
        let (view, who) = (self.view, self.who());
        let keyed = view.keyed;
        let asked = view.asked();
        let token = || keyed.terms(view.own.as_ref()).scale;
        let units = units.unwrap_or_else(token);
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
            let room = KeyRoom::new(who.place, who.key.to_owned(), view.own);
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

impl<A: KeyedAlgorithm, N: KeyNames> Acquirable for KeyTokens<'_, A, N> {
    type Granted = Grant;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Grant, Denied>> {
        let answer = self.go(turn, waker);
        if answer.is_ready() {
            self.leave();
        }
        answer.map_ok(Grant::from)
    }

    fn abandon(&mut self, turn: &mut Turn) {
        if let Some((_, room)) = &self.room {
            turn.abandon(&self.view.keyed.supply(room));
        }
        self.leave();
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyTokens<'_, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyTokens").finish_non_exhaustive()
    }
}
