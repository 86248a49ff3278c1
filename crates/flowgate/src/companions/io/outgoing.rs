//! Writing: the grant first, then the writer.

use super::throttled::{Throttled, WRITES};
use crate::limiter::Limiter;
use core::ops::Deref;
use core::task::{Context, Poll, ready};
use std::io;

impl<T, P: Deref<Target: Limiter>> Throttled<T, P> {
    /// Makes `write` write as many of the first `bytes` as are paid for, and returns their number. Tokens for bytes that it
    /// does not write are returned, however it ends.
    pub(super) fn poll_out(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
        write: impl FnOnce(&mut T, &mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            self.payer.leave(WRITES);
            return write(&mut self.inner, context, bytes);
        }
        let chunk = self.portion();
        let Self { inner, payer, .. } = self;
        let paid = payer.poll_some(
            WRITES,
            bytes.len() as u64,
            |limit| chunk.of(limit),
            context.waker(),
        );
        let mut granted = ready!(paid).map_err(io::Error::other)?;
        // More, if the previous call was given up and had more to write.
        let most = bytes
            .len()
            .min(usize::try_from(granted.units()).unwrap_or(usize::MAX));
        let written = ready!(write(inner, context, &bytes[..most]))?.min(most);
        granted.use_up(written as u64);
        Poll::Ready(Ok(written))
    }
}

/// Implements `$write` for [`Throttled`], with the method by which that trait ends a writer.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
macro_rules! async_write {
    ($(#[$doc:meta])* $write:ident, $poll_end:ident) => {
        $(#[$doc])*
        impl<T: $write + Unpin, P: Deref<Target: Limiter> + Unpin> $write for Throttled<T, P> {
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

            fn $poll_end(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                let this = self.get_mut();
                this.payer.leave(WRITES);
                Pin::new(&mut this.inner).$poll_end(context)
            }
        }
    };
}
#[cfg(any(feature = "futures-io", feature = "tokio"))]
pub(super) use async_write;
