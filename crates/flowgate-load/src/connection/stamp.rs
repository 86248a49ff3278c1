//! When requests left: the time just before the first write of each to its socket.
//!
//! ```text
//!  round_trip ── waits() ──▶ Departures ◀── dates ── Wire ──▶ socket
//!                                │
//!                                ╰─▶ Stamp: the instant, and its callback
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Instant;

/// Time at which a request was sent: just before the first write to the socket that carried any of it. `None` until
/// then.
///
/// One stamp serves one request at a time. Call [`arm`](Stamp::arm) before each; clones share the stamp. A request that
/// is tried [`again`](Stamp::again) keeps the time of its first write.
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
    /// Creates a stamp that also calls `on_write` once per request, during the write itself.
    ///
    /// Stamps of one thread are called in the order of their writes. `on_write` must not use the connection that is
    /// writing.
    pub(crate) fn new(on_write: impl Fn(Instant) + 'static) -> Stamp {
        Stamp(Rc::new(Sent {
            on_write: Some(Box::new(on_write)),
            ..Sent::default()
        }))
    }

    /// Starts a new request, which is not sent yet.
    pub(crate) fn arm(&self) {
        self.0.at.set(None);
        self.0.has_left.set(false);
    }

    /// Starts another try of the same request.
    pub(crate) fn again(&self) {
        self.0.has_left.set(false);
    }

    /// Returns when the request was sent, if it was.
    pub(crate) fn sent(&self) -> Option<Instant> {
        self.0.at.get()
    }

    /// Returns whether the last try was written.
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

/// The requests that leave with the next write to a socket. The socket's stream and the layers above it share this.
#[derive(Default)]
pub(super) struct Departures {
    waiting: RefCell<Vec<Stamp>>,
    is_watched: Cell<bool>,
    first: Cell<Option<Instant>>,
}

impl Departures {
    /// Registers a stamp for the next write to the socket.
    pub(super) fn waits(&self, stamp: &Stamp) {
        self.waiting.borrow_mut().push(stamp.clone());
    }

    /// Removes a stamp that waits for a write.
    pub(super) fn forget(&self, stamp: &Stamp) {
        self.waiting.borrow_mut().retain(|other| !other.is(stamp));
    }

    /// Performs a write through the layers above the socket, and then reports which requests began with it. `began`
    /// receives the result of the write, and calls back with each stamp.
    ///
    /// A layer may keep bytes for later, as TLS does when the socket is full. Their request gets the time of the next
    /// write.
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

    /// Returns whether a stamp waits for the next write to the socket.
    pub(super) fn wants_a_date(&self) -> bool {
        self.is_watched.get() || !self.waiting.borrow().is_empty()
    }

    /// Records a write to the socket that began at `at`.
    pub(super) fn wrote(&self, at: Instant) {
        if self.is_watched.get() && self.first.get().is_none() {
            self.first.set(Some(at));
        }
        // Taken out, because no borrow may be held during the callback; put back to reuse its memory.
        let mut leaving = self.waiting.take();
        for stamp in leaving.drain(..) {
            stamp.fill(at);
        }
        self.waiting.replace(leaving);
    }
}
