//! The traits of the crate futures, in any runtime.

use super::Throttled;
use super::outgoing::async_write;
use super::throttled::WRITES;
use crate::limiter::Limiter;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_io::{AsyncRead, AsyncWrite};
use std::io;

/// With the feature `futures-io`. Waits until the bytes that were read are paid for.
impl<T: AsyncRead + Unpin, P: Deref<Target: Limiter> + Unpin> AsyncRead for Throttled<T, P> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        place: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.poll_in(context, place, |inner, context, place| {
            Pin::new(inner).poll_read(context, place)
        })
    }
}

async_write! {
    /// With the feature `futures-io`. Waits for tokens for the bytes to write.
    AsyncWrite, poll_close
}
