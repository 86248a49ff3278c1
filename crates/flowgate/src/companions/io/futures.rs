//! The traits of the crate futures, in any runtime.

use super::Throttled;
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

/// With the feature `futures-io`. Waits for tokens for the bytes to write.
impl<T: AsyncWrite + Unpin, P: Deref<Target: Limiter> + Unpin> AsyncWrite for Throttled<T, P> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.poll_out(context, bytes, |inner, context, bytes| {
            Pin::new(inner).poll_write(context, bytes)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.payer.leave(WRITES);
        Pin::new(&mut this.inner).poll_close(context)
    }
}
