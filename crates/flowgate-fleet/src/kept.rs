//! What a store keeps of a limit, of any kind.

use crate::bucket::Bucket;
use crate::call::{Call, Reply};
use crate::window::Window;
use std::fmt;

/// The record of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Bucket(Bucket),
    Window(Window),
}

/// A record of another kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign;

impl Kept {
    /// Carries out `call` at `now_us`. Returns the reply, and the record to store; `None`: the one that there was stays.
    pub(crate) fn take(
        stored: Option<Self>,
        now_us: u64,
        call: &Call,
    ) -> Result<(Reply, Option<Self>), Foreign> {
        if !call.terms.kind.is_window() {
            let stored = match stored {
                None => None,
                Some(Self::Bucket(bucket)) => Some(bucket),
                Some(Self::Window(_)) => return Err(Foreign),
            };
            let (reply, bucket) = Bucket::take(stored, now_us, call);
            return Ok((reply, bucket.map(Self::Bucket)));
        }
        let (stored, reset_us) = match stored {
            None => (None, 0),
            Some(Self::Window(window)) => (Some(window), 0),
            Some(Self::Bucket(bucket)) if bucket.is_mark() => (None, bucket.reset_us),
            Some(Self::Bucket(_)) => return Err(Foreign),
        };
        let (reply, window) = Window::take(stored, reset_us, now_us, call);
        Ok((reply, window.map(Self::Window)))
    }

    /// Reads the text of a record. Returns `None` if it is none of a limit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bucket = Bucket::parse(text).map(Self::Bucket);
        bucket.or_else(|| Window::parse(text).map(Self::Window))
    }

    /// Returns whether the limit is full.
    pub(crate) fn is_paid(&self, now_us: u64) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.is_paid(now_us),
            Self::Window(window) => window.left_us(now_us) == 0,
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(bucket) => bucket.fmt(f),
            Self::Window(window) => window.fmt(f),
        }
    }
}
