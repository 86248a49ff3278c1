use super::{Lender, Permit};
use crate::clock::Clock;
use crate::queue::{Acquirable, Supply, Turn};
use crate::verdict::Denied;
use core::ops::Deref;
use core::task::{Poll, Waker};

/// What [`Acquire`](crate::Acquire) waits for at a [`ConcurrencyLimit`](crate::ConcurrencyLimit) or [`Gate`](crate::Gate).
///
/// `P` is the pointer to the limit or gate.
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = ConcurrencyLimit::new(5);
/// let permit = limit.acquire().n(5).await?;
///
/// let denied = limit.acquire().within(Duration::from_millis(1)).await.unwrap_err();
/// assert!(denied.is_busy());
/// # drop(permit);
/// # Ok::<_, flowgate::Denied>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use flowgate::{CancelHandle, ConcurrencyLimit};
///
/// let paused = ConcurrencyLimit::new(0);
/// let shutdown = CancelHandle::new();
/// std::thread::scope(|threads| {
///     let waits = threads.spawn(|| paused.acquire().cancelled_by(&shutdown).block().map(drop));
///     shutdown.cancel();
///     assert!(waits.join().unwrap().unwrap_err().is_cancelled());
/// });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Permits<P>(pub(crate) P);

impl<P: Deref<Target: Lender> + Clone> Acquirable for Permits<P> {
    type Granted = Permit<P>;

    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Permit<P>, Denied>> {
        turn.poll(&*self.0, waker)
            .map_ok(|granted| Permit::new(self.0.clone(), granted.units))
    }

    fn abandon(&mut self, turn: &mut Turn) {
        turn.abandon(&*self.0);
    }

    fn clock_of_deadlines(&self) -> &Clock {
        self.0.clock()
    }
}
