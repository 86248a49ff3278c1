//! The connection to the store, and what becomes of it.
//!
//! ```text
//!   Connecting ──▶ Up ── no reply in time, or an error ──▶ Down
//!       │          ▲                                        │
//!       ╰────────▶ ╰── a new connection answers a PING ◀────╯
//! ```
//!
//! A connection is replaced, never repaired: no client of Redis leaves a store that hangs by itself. A reply that comes late, or over a
//! replaced connection, is not used. Nothing is sent twice: a call without a reply may have been carried out. So one call per limit is
//! lost when a store hangs, and the next thing that it gets is a PING.

use crate::call::{Call, Failure, Reply};
use crate::store::{Connection, Store};
use redis::RedisResult;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time;
use tokio::time::error::Elapsed;

/// An attempt to connect may take as long as this many calls: the network's handshake, the store's, and a PING.
const ATTEMPT: u32 = 3;
/// The pauses between two attempts to connect double from the first to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// There has not been a connection yet.
    Connecting,
    Up,
    Down,
}

/// A connection that is replaced when it fails.
#[derive(Debug)]
pub(crate) struct Link {
    store: Store,
    /// A store that has not answered within this time has not answered.
    timeout: Duration,
    current: Mutex<Current>,
    state: watch::Sender<LinkState>,
}

#[derive(Debug, Default)]
struct Current {
    connection: Option<Connection>,
    /// Which connection it is. A call of an earlier one has no say.
    number: u64,
}

impl Link {
    pub(crate) fn new(store: Store, timeout: Duration) -> Self {
        Self {
            store,
            timeout,
            current: Mutex::default(),
            state: watch::Sender::new(LinkState::Connecting),
        }
    }

    pub(crate) fn state(&self) -> LinkState {
        *self.state.borrow()
    }

    /// Waits until it is known whether the store can be reached.
    pub(crate) async fn tried(&self) {
        let mut state = self.state.subscribe();
        let is_known = |state: &LinkState| *state != LinkState::Connecting;
        state
            .wait_for(is_known)
            .await
            .expect("the link holds the sender");
    }

    /// Waits until there is a connection.
    pub(crate) async fn up(&self) {
        let mut state = self.state.subscribe();
        let is_up = |state: &LinkState| *state == LinkState::Up;
        state
            .wait_for(is_up)
            .await
            .expect("the link holds the sender");
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all calls in one write, and returns what became of each.
    pub(crate) async fn call(self: &Arc<Self>, calls: &[Call]) -> Vec<Result<Reply, Failure>> {
        let all = |failure: Failure| vec![Err(failure); calls.len()];
        let (connection, number) = {
            let current = self.current();
            match &current.connection {
                Some(connection) => (connection.clone(), current.number),
                None => return all(Failure::Unreachable),
            }
        };
        let outcome = time::timeout(self.timeout, connection.call(calls)).await;
        let mut current = self.current();
        if current.number != number {
            return all(Failure::Lost);
        }
        match outcome {
            Ok(Ok(replies)) => replies,
            failed => {
                tracing::warn!("the store does not answer: {}", why(failed));
                self.replace(&mut current);
                all(Failure::Lost)
            }
        }
    }

    /// Gives up the connection, and has another one made.
    fn replace(self: &Arc<Self>, current: &mut Current) {
        current.connection = None;
        current.number += 1;
        self.state.send_replace(LinkState::Down);
        tokio::spawn(Arc::clone(self).connect());
    }

    /// Connects, however often that takes.
    pub(crate) async fn connect(self: Arc<Self>) {
        let [mut pause, longest] = PAUSES;
        loop {
            let attempt = time::timeout(ATTEMPT * self.timeout, self.store.connect()).await;
            if let Ok(Ok(connection)) = attempt {
                let mut current = self.current();
                current.connection = Some(connection);
                self.state.send_replace(LinkState::Up);
                tracing::info!("connected to the store");
                return;
            }
            if self.state() == LinkState::Connecting {
                tracing::warn!("the store cannot be reached: {}", why(attempt));
                self.state.send_replace(LinkState::Down);
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

fn why<T>(failed: Result<RedisResult<T>, Elapsed>) -> String {
    match failed {
        Ok(Err(error)) => error.to_string(),
        _ => "it took too long".to_owned(),
    }
}
