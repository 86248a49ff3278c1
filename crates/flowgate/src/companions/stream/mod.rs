//! Streams whose items wait for their grants.

mod cost;
mod rate_limited;

pub use cost::{Cost, OneToken};
pub use rate_limited::RateLimited;

use crate::limiter::Limiter;
use core::ops::Deref;
use futures_core::Stream;

/// Rate limits for streams.
///
/// ```
/// use flowgate::{StreamExt as _, TokenBucket};
/// use std::pin::Pin;
/// # use std::future::poll_fn;
/// # use futures_core::Stream;
/// # use std::task::{Context, Poll};
/// # struct Pages(u32);
/// # impl Stream for Pages {
/// #     type Item = u32;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
/// #         self.0 += 1;
/// #         Poll::Ready((self.0 <= 6).then_some(self.0))
/// #     }
/// # }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = TokenBucket::new("1000/s burst 2".parse()?);
/// # let pages = Pages(0);
/// let mut pages = pages.rate_limited(&limiter);
/// // As `next()` of the crate futures does.
/// while let Some(page) = poll_fn(|context| Pin::new(&mut pages).poll_next(context)).await {
///     println!("{page}"); // two at once, then one each millisecond
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait StreamExt: Stream {
    /// Makes each item wait for a token of `limiter`, in the limiter's queue.
    ///
    /// `limiter` is a reference, or an [`Arc`](alloc::sync::Arc) if the stream moves into a spawned task.
    /// [`RateLimited::costing`] sets the cost of each item.
    fn rate_limited<P>(self, limiter: P) -> RateLimited<Self, P>
    where
        Self: Sized,
        P: Deref<Target: Limiter>,
    {
        RateLimited::new(self, limiter, OneToken)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}
