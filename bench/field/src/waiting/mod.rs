//! Tests of waiters: the order of grants, whether others overtake them, and what remains after a waiter gives up.

pub mod rates;
pub mod slots;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::seen::Seen;

/// A limiter with its result in each experiment.
///
/// `None` if the experiment does not apply.
pub struct Row {
    /// The crate with its version, and which of its limiters.
    pub name: &'static str,
    /// One for each experiment.
    pub cells: Vec<Option<Seen>>,
}

/// Polls once, and says what came of it.
async fn polled<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// "A, B, C": who was served, in that order.
fn order(served: &[char]) -> Seen {
    let names: Vec<_> = served.iter().map(char::to_string).collect();
    Seen::new(served == ['A', 'B', 'C'], names.join(", "))
}
