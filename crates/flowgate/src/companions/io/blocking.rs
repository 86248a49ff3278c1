//! The traits of the standard library: a call blocks its thread until it is granted.

use super::Throttled;
use crate::limiter::Limiter;
use crate::queue::block_on;
use core::ops::Deref;
use core::task::{Context, Poll};
use std::io::{self, Read, Write};

/// Blocks the thread until the bytes that were read are paid for. Not for async tasks.
impl<T: Read, P: Deref<Target: Limiter>> Read for Throttled<T, P> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        block_on(|waker| {
            let context = &mut Context::from_waker(waker);
            self.poll_in(context, place, |inner, _, place| {
                Poll::Ready(inner.read(place))
            })
        })
    }
}

/// Blocks the thread until there are tokens for the bytes to write. Not for async tasks.
impl<T: Write, P: Deref<Target: Limiter>> Write for Throttled<T, P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block_on(|waker| {
            let context = &mut Context::from_waker(waker);
            self.poll_out(context, bytes, |inner, _, bytes| {
                Poll::Ready(inner.write(bytes))
            })
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
