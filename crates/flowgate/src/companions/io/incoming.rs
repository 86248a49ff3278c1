//! Reading: the source first, then the grant.

use super::throttled::{READS, Throttled};
use crate::limiter::Limiter;
use core::ops::Deref;
use core::task::{Context, Poll, ready};
use std::io;

impl<T, P: Deref<Target: Limiter>> Throttled<T, P> {
    /// Fills the beginning of `place` with the bytes that `read` returns, once they are paid for. Returns their number.
    pub(super) fn poll_in(
        &mut self,
        context: &mut Context<'_>,
        place: &mut [u8],
        read: impl FnOnce(&mut T, &mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let is_new = self.ahead.bytes().is_empty();
        let come = if is_new {
            let most = self.at_once(place.len());
            let come = ready!(read(&mut self.inner, context, &mut place[..most]))?;
            // In case the source reports more bytes than it had room for.
            come.min(most)
        } else {
            place.len().min(self.ahead.bytes().len())
        };
        if come == 0 {
            return Poll::Ready(Ok(0));
        }
        let chunk = self.portion();
        let payer = &mut self.payer;
        let paid = payer.poll_some(READS, come as u64, |limit| chunk.of(limit), context.waker());
        let n = match paid {
            Poll::Ready(Ok(mut granted)) => {
                // More, if the previous call was given up and had more room.
                let n = come.min(usize::try_from(granted.units()).unwrap_or(usize::MAX));
                granted.use_up(n as u64);
                n
            }
            Poll::Ready(Err(denied)) => {
                if is_new {
                    self.ahead.keep(&place[..come]);
                }
                return Poll::Ready(Err(io::Error::other(denied)));
            }
            Poll::Pending => {
                if is_new {
                    self.ahead.keep(&place[..come]);
                }
                return Poll::Pending;
            }
        };
        if is_new {
            self.ahead.keep(&place[n..come]);
        } else {
            self.ahead.move_to(&mut place[..n]);
        }
        Poll::Ready(Ok(n))
    }
}
