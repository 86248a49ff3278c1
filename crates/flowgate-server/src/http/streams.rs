//! Requests of one HTTP/2 connection, in the task of the connection.

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::rt::Executor;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Requests that have just arrived, as hyper hands them over.
///
/// A task for each request would wake that of the connection, which would write each answer by itself. Here, all requests that have
/// arrived are answered first, and the answers go out in one write.
#[derive(Clone, Default)]
pub(crate) struct Arrived(Arc<Mutex<Vec<Request>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Arrived {
    fn execute(&self, request: F) {
        self.add(Box::pin(request));
    }
}

impl Arrived {
    fn add(&self, request: Request) {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
    }

    fn take(&self) -> Vec<Request> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Requests that are being answered.
#[derive(Default)]
pub(crate) struct Streams {
    arrived: Arrived,
    /// They wait, such as for a store.
    waiting: FuturesUnordered<Request>,
}

impl Streams {
    /// Returns where hyper puts them.
    pub(crate) fn arrived(&self) -> &Arrived {
        &self.arrived
    }

    /// Goes on with all requests. It is polled after the connection, in the same task.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        for mut request in self.arrived.take() {
            // Most are answered now.
            if request.as_mut().poll(context).is_pending() {
                self.waiting.push(request);
            }
        }
        // Where none waits, nobody has to be woken.
        while !self.waiting.is_empty()
            && let Poll::Ready(Some(())) = self.waiting.poll_next_unpin(context)
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::Streams;
    use hyper::rt::Executor;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::{Context, Waker};
    use tokio::sync::oneshot;

    struct Connection {
        streams: Streams,
        answered: Arc<AtomicU32>,
    }

    impl Connection {
        fn new() -> Self {
            Self {
                streams: Streams::default(),
                answered: Arc::default(),
            }
        }

        /// Receives a request. It is answered when the store answers.
        fn receive(&self) -> oneshot::Sender<()> {
            let (store, answer) = oneshot::channel();
            let answered = Arc::clone(&self.answered);
            self.streams.arrived().execute(async move {
                let _ = answer.await;
                answered.fetch_add(1, Relaxed);
            });
            store
        }

        /// Returns how many requests are answered after one turn.
        fn turn(&mut self) -> u32 {
            self.streams.poll(&mut Context::from_waker(Waker::noop()));
            self.answered.load(Relaxed)
        }
    }

    #[test]
    fn all_requests_that_have_arrived_are_answered_in_one_turn() {
        let mut connection = Connection::new();
        for _ in 0..3 {
            drop(connection.receive());
        }
        assert_eq!(connection.turn(), 3);
    }

    #[test]
    fn a_request_that_waits_keeps_no_other_waiting() {
        let mut connection = Connection::new();
        let store = connection.receive();
        drop(connection.receive());
        assert_eq!(connection.turn(), 1);
        assert_eq!(connection.turn(), 1);
        drop(store);
        assert_eq!(connection.turn(), 2);
    }

    #[test]
    fn requests_end_with_their_connection() {
        let mut connection = Connection::new();
        let waiting = connection.receive();
        connection.turn();
        let arrived = connection.receive();
        drop(connection);
        assert!(waiting.is_closed() && arrived.is_closed());
    }
}
