//! The traits of tokio, in any runtime.

use super::Throttled;
use super::outgoing::async_write;
use super::throttled::WRITES;
use crate::limiter::Limiter;
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

/// With the feature `tokio`. Waits until the bytes that were read are paid for.
impl<T: AsyncRead + Unpin, P: Deref<Target: Limiter> + Unpin> AsyncRead for Throttled<T, P> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        place: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = this.at_once(place.remaining());
        // Counted as filled only when the bytes are paid for.
        let part = place.initialize_unfilled_to(room);
        let read = this.poll_in(context, part, |inner, context, part| {
            let mut part = ReadBuf::new(part);
            ready!(Pin::new(inner).poll_read(context, &mut part))?;
            Poll::Ready(Ok(part.filled().len()))
        });
        let n = ready!(read)?;
        place.advance(n);
        Poll::Ready(Ok(()))
    }
}

async_write! {
    /// With the feature `tokio`. Waits for tokens for the bytes to write.
    AsyncWrite, poll_shutdown
}
