use super::{Cost, OneToken};
use crate::companions::payer::Payer;
use crate::limiter::Limiter;
use crate::verdict::Denied;
use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use futures_core::Stream;

/// Stream that passes its items on **at the rate of a limiter**.
///
/// [`StreamExt::rate_limited`](super::StreamExt::rate_limited) creates it.
///
/// An item is fetched first, then waits for its grant, and is then returned. So an idle stream is not in the queue and holds no
/// tokens. All users of the limiter, streams or not, wait in the same queue.
///
/// The stream has to be [`Unpin`]. If it is not, pin it before you limit it (`core::pin::pin!`, `Box::pin`).
///
/// # End of the stream
///
/// The stream ends when the inner stream ends, and when the limiter refuses. The limiter refuses if it has been
/// [closed](crate::WaitQueue::close) or its queue is full. [`denied`](Self::denied) returns that refusal, and
/// [`into_parts`](Self::into_parts) returns the item that had been fetched.
///
/// # Cancel safety
///
/// Dropping a future that polls the stream loses no item and no token. The stream keeps the item and its place in the queue. If
/// the item is granted while no task polls the stream, the next poll returns it, later than the time of its grant. Dropping the
/// stream itself leaves the queue.
///
/// ```
/// use flowgate::{ManualClock, StreamExt as _, TokenBucket};
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// # use futures_core::Stream;
/// # struct Words(Vec<&'static str>);
/// # impl Stream for Words {
/// #     type Item = &'static str;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<&'static str>> {
/// #         Poll::Ready(self.0.pop())
/// #     }
/// # }
///
/// let time = ManualClock::new();
/// let limiter = TokenBucket::builder("1/s".parse()?).clock(&time).build()?;
/// # let words = Words(vec!["third", "second", "first"]);
/// let mut words = words.rate_limited(&limiter);
/// let mut context = Context::from_waker(Waker::noop());
/// let mut next = || Pin::new(&mut words).poll_next(&mut context);
/// assert_eq!(next(), Poll::Ready(Some("first")));
/// assert_eq!(next(), Poll::Pending); // "second" waits for its turn
/// time.advance(std::time::Duration::from_secs(1));
/// assert_eq!(next(), Poll::Ready(Some("second")));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub struct RateLimited<S: Stream, P: Deref<Target: Limiter>, C = OneToken> {
    stream: S,
    payer: Payer<P, 1>,
    cost: C,
    next: Option<Next<S::Item>>,
    denied: Option<Denied>,
}

/// An item that waits, and the units that it still has to pay; `None`: one token.
struct Next<Item> {
    item: Item,
    due: Option<u64>,
}

impl<S: Stream, P: Deref<Target: Limiter>, C> RateLimited<S, P, C> {
    pub(super) fn new(stream: S, limiter: P, cost: C) -> Self {
        Self {
            stream,
            payer: Payer::new(limiter),
            cost,
            next: None,
            denied: None,
        }
    }

    /// Sets the cost of each item from now on, in units.
    ///
    /// `cost` is called once for each item, when the item is fetched. An item of cost 0 passes immediately. An item that costs
    /// more than the limiter can grant in one decision is not refused. It is paid in several grants, and returned after the
    /// last of them.
    ///
    /// ```
    /// # use flowgate::{StreamExt as _, TokenBucket};
    /// # fn of(chunks: impl futures_core::Stream<Item = Vec<u8>>) -> Result<(), flowgate::QuotaError> {
    /// let bandwidth = TokenBucket::new("10MiB/s".parse()?);
    /// let chunks = chunks.rate_limited(&bandwidth).costing(|chunk: &Vec<u8>| chunk.len() as u64);
    /// # Ok(()) }
    /// ```
    pub fn costing<F>(self, cost: F) -> RateLimited<S, P, F>
    where
        F: FnMut(&S::Item) -> u64,
    {
        let Self {
            stream,
            payer,
            cost: _,
            next,
            denied,
        } = self;
        RateLimited {
            stream,
            payer,
            cost,
            next,
            denied,
        }
    }

    /// Returns the refusal of the limiter, if that ended the stream.
    ///
    /// ```
    /// # use flowgate::{StreamExt as _, TokenBucket};
    /// # use std::pin::Pin;
    /// # use std::task::{Context, Poll, Waker};
    /// # struct Words;
    /// # impl futures_core::Stream for Words {
    /// #     type Item = &'static str;
    /// #     fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<&'static str>> {
    /// #         Poll::Ready(Some("word"))
    /// #     }
    /// # }
    /// # use futures_core::Stream as _;
    /// let limiter = TokenBucket::new("1/s".parse()?);
    /// let mut words = Words.rate_limited(&limiter);
    /// limiter.queue().close();
    /// let next = Pin::new(&mut words).poll_next(&mut Context::from_waker(Waker::noop()));
    /// assert_eq!(next, Poll::Ready(None));
    /// assert!(words.denied().is_some_and(flowgate::Denied::is_closed));
    /// let (_words, fetched) = words.into_parts(); // what was not let out is not lost
    /// assert_eq!(fetched, Some("word"));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn denied(&self) -> Option<&Denied> {
        self.denied.as_ref()
    }

    /// Returns the stream inside.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the stream inside. Items that are taken there are not limited.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the stream inside and the item that waits, and leaves the queue.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.stream, self.next.map(|next| next.item))
    }

    /// Pays all units that are still to pay.
    fn poll_paid(
        payer: &mut Payer<P, 1>,
        due: &mut Option<u64>,
        waker: &Waker,
    ) -> Poll<Result<(), Denied>> {
        let Some(due) = due else {
            return payer.poll_token(0, waker);
        };
        while *due > 0 {
            let mut granted = ready!(payer.poll_some(0, *due, |limit| limit, waker))?;
            let units = granted.units();
            granted.use_up(units);
            *due -= units;
        }
        Poll::Ready(Ok(()))
    }
}

/// No field is structurally pinned.
impl<S: Stream + Unpin, P: Deref<Target: Limiter>, C> Unpin for RateLimited<S, P, C> {}

impl<S, P, C> Stream for RateLimited<S, P, C>
where
    S: Stream + Unpin,
    P: Deref<Target: Limiter>,
    C: Cost<S::Item>,
{
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.get_mut();
        if this.denied.is_some() {
            return Poll::Ready(None);
        }
        if this.next.is_none() {
            let Some(item) = ready!(Pin::new(&mut this.stream).poll_next(context)) else {
                return Poll::Ready(None);
            };
            let due = this.cost.units(&item);
            this.next = Some(Next { item, due });
        }
        if let Some(next) = &mut this.next {
            let paid = ready!(Self::poll_paid(
                &mut this.payer,
                &mut next.due,
                context.waker()
            ));
            if let Err(denied) = paid {
                this.denied = Some(denied);
                return Poll::Ready(None);
            }
        }
        Poll::Ready(this.next.take().map(|next| next.item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let waiting = usize::from(self.next.is_some());
        let (_, most) = self.stream.size_hint();
        // The limiter may end the stream.
        (0, most.and_then(|most| most.checked_add(waiting)))
    }
}

impl<S: Stream + fmt::Debug, P: Deref<Target: Limiter>, C> fmt::Debug for RateLimited<S, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited")
            .field("stream", &self.stream)
            .field("limiter", &self.payer.limiter())
            .field("is_waiting", &self.next.is_some())
            .field("denied", &self.denied)
            .finish_non_exhaustive()
    }
}
