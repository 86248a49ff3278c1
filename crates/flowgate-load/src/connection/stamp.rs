//! When requests left: the instant just before the first write of each to its socket.
//!
//! ```text
//!  round_trip ── waits() ──▶ Departures ◀── dates ── Wire ──▶ socket
//!                                │
//!                                ╰─▶ Stamp: the instant, and whoever wants to be told
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Instant;

/// When a request was sent: the instant just before the first write to the socket that carried any
/// of it; `None` until then.
///
/// One stamp serves one request at a time. [`arm`](Stamp::arm) it before each; clones are the same
/// stamp. A request that is tried [`again`](Stamp::again) was sent when it was first written.
#[derive(Clone, Default)]
pub(crate) struct Stamp(Rc<Sent>);

#[derive(Default)]
struct Sent {
    at: Cell<Option<Instant>>,
    /// Whether the last try was written.
    has_left: Cell<bool>,
    on_write: Option<Box<dyn Fn(Instant)>>,
}

impl Stamp {
    /// A stamp that also tells `on_write`, once for each request and at the write itself: stamps of
    /// one thread are told in the order of their writes. It must not use the connection that is
    /// writing.
    pub(crate) fn new(on_write: impl Fn(Instant) + 'static) -> Stamp {
        Stamp(Rc::new(Sent {
            on_write: Some(Box::new(on_write)),
            ..Sent::default()
        }))
    }

    /// Begins a new request: it is not sent yet.
    pub(crate) fn arm(&self) {
        self.0.at.set(None);
        self.0.has_left.set(false);
    }

    /// Begins another try of the same request.
    pub(crate) fn again(&self) {
        self.0.has_left.set(false);
    }

    /// When the request was sent, if it was.
    pub(crate) fn sent(&self) -> Option<Instant> {
        self.0.at.get()
    }

    /// Whether the last try of it was written.
    pub(super) fn has_left(&self) -> bool {
        self.0.has_left.get()
    }

    fn fill(&self, at: Instant) {
        self.0.has_left.set(true);
        if self.sent().is_some() {
            return;
        }
        self.0.at.set(Some(at));
        if let Some(on_write) = &self.0.on_write {
            on_write(at);
        }
    }

    fn is(&self, other: &Stamp) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stamp").field(&self.sent()).finish()
    }
}

/// Which requests leave with the next write to a socket. Shared by the socket's own stream, which
/// dates its writes, and by those who write to it through any number of layers.
#[derive(Default)]
pub(super) struct Departures {
    waiting: RefCell<Vec<Stamp>>,
    is_watched: Cell<bool>,
    first: Cell<Option<Instant>>,
}

impl Departures {
    /// The next write to the socket is the first of this stamp's request.
    pub(super) fn waits(&self, stamp: &Stamp) {
        self.waiting.borrow_mut().push(stamp.clone());
    }

    /// Gives up waiting for a write.
    pub(super) fn forget(&self, stamp: &Stamp) {
        self.waiting.borrow_mut().retain(|other| !other.is(stamp));
    }

    /// Carries out a write through the layers above the socket, and then says which requests began
    /// with it: `began` is given the bytes' fate and calls back with each stamp.
    ///
    /// What a layer kept for later, as TLS does when the socket takes no more, is dated with the
    /// next write to the socket.
    pub(super) fn watch<T>(
        &self,
        write: impl FnOnce() -> T,
        began: impl FnOnce(&T, &mut dyn FnMut(&Stamp)),
    ) -> T {
        self.first.set(None);
        self.is_watched.set(true);
        let outcome = write();
        self.is_watched.set(false);
        let first = self.first.take();
        began(&outcome, &mut |stamp| match first {
            Some(at) => stamp.fill(at),
            None => self.waits(stamp),
        });
        outcome
    }

    /// Whether anybody wants to know when the next write to the socket is.
    pub(super) fn wants_a_date(&self) -> bool {
        self.is_watched.get() || !self.waiting.borrow().is_empty()
    }

    /// Bytes went to the socket, in a write that began at this instant.
    pub(super) fn wrote(&self, at: Instant) {
        if self.is_watched.get() && self.first.get().is_none() {
            self.first.set(Some(at));
        }
        // Taken out, as no borrow may be held while somebody is told; put back for its memory.
        let mut leaving = self.waiting.take();
        for stamp in leaving.drain(..) {
            stamp.fill(at);
        }
        self.waiting.replace(leaving);
    }
}
