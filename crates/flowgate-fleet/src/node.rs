//! The connection to one server, and what becomes of it.
//!
//! ```text
//!   Connecting ──▶ Up ── no reply in time, or an error ──▶ Down
//!       │          ▲                                        │
//!       ╰────────▶ ╰── a new connection answers a PING ◀────╯
//! ```
//!
//! A connection is replaced, never repaired: no client of Redis leaves a store that hangs by itself. A reply that comes late, or over a
//! replaced connection, is not used. Nothing is sent twice: a call without a reply may have been carried out. So one call per limit is
//! lost when a store hangs, and one for each request of several limits. The next thing that it gets is a PING.

use crate::advice::Advice;
use crate::call::{Failure, Request};
use crate::redis::{Answer, Unanswered, explain, hint};
use crate::store::{Connection, Store};
use redis::{ErrorKind, RedisError};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{self, Instant};

/// An attempt to connect may take as long as this many calls: the way to the primary, the handshakes, and a PING.
pub(crate) const ATTEMPT: u32 = 3;
/// The pauses between two attempts to connect double from the first to the second.
pub(crate) const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// There has not been a connection yet.
    Connecting,
    Up,
    Down,
}

/// A connection that is replaced when it fails.
#[derive(Debug)]
pub(crate) struct Node {
    store: Store,
    /// A store that has not answered within this time has not answered.
    timeout: Duration,
    advice: Arc<Advice>,
    current: Mutex<Current>,
    state: watch::Sender<LinkState>,
}

#[derive(Debug, Default)]
struct Current {
    connection: Option<Connection>,
    /// Which connection it is. A call of an earlier one has no say.
    number: u64,
    /// How long the next attempt to connect waits. It grows until a call has been answered, not only a PING: a server that answers
    /// nothing else would be asked without end.
    pause: Duration,
    /// Whether there is a line that the store is lost, and none that it is back.
    is_told: bool,
    /// Whether that line, or a later one, says what to do.
    is_explained: bool,
}

impl Current {
    fn lost(&mut self, store: &Store, why: &str) {
        if !mem::replace(&mut self.is_told, true) {
            tracing::warn!("{store} does not answer: {why}");
        }
    }

    /// An attempt to connect has failed. What does not end by itself gets a line, even if the store was lost for another reason before.
    fn refused(&mut self, store: &Store, error: &RedisError) {
        let is_lasting = hint(error).is_some() || error.kind() == ErrorKind::InvalidClientConfig;
        if is_lasting && !mem::replace(&mut self.is_explained, true) {
            self.is_told = false;
        }
        self.lost(store, &explain(error));
    }

    fn answered(&mut self, store: &Store) {
        self.pause = Duration::ZERO;
        self.is_explained = false;
        if mem::take(&mut self.is_told) {
            tracing::info!("{store} answers again");
        }
    }
}

impl Node {
    pub(crate) fn new(store: Store, timeout: Duration, advice: &Arc<Advice>) -> Arc<Self> {
        Arc::new(Self {
            store,
            timeout,
            advice: Arc::clone(advice),
            current: Mutex::default(),
            state: watch::Sender::new(LinkState::Connecting),
        })
    }

    pub(crate) fn state(&self) -> LinkState {
        *self.state.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, and its number.
    pub(crate) fn connection(&self) -> Option<(Connection, u64)> {
        let current = self.current();
        let connection = current.connection.clone()?;
        Some((connection, current.number))
    }

    /// Sends all requests in one write, and returns what became of each. With `asking`, a cluster moves their slots to this server.
    pub(crate) async fn call(
        self: &Arc<Self>,
        requests: &[Request],
        asking: bool,
        deadline: Instant,
    ) -> Vec<Answer> {
        let all = |failure: Failure| vec![Err(Unanswered::Failed(failure)); requests.len()];
        let Some((connection, number)) = self.connection() else {
            return all(Failure::Unreachable);
        };
        let outcome = time::timeout_at(deadline, connection.call(requests, asking)).await;
        let mut current = self.current();
        if current.number != number {
            return all(Failure::Lost);
        }
        let why = match outcome {
            Ok(Ok(answers)) => {
                let not_primary = answers.iter().find_map(|answer| match answer {
                    Err(Unanswered::NotPrimary(why)) => Some(why),
                    _ => None,
                });
                match not_primary {
                    Some(why) => self.replace(&mut current, why),
                    None => current.answered(&self.store),
                }
                return answers;
            }
            Ok(Err(error)) => explain(&error),
            Err(_) => "it took too long".to_owned(),
        };
        self.replace(&mut current, &why);
        all(Failure::Lost)
    }

    /// Gives up this connection, unless another has taken its place.
    pub(crate) fn give_up(self: &Arc<Self>, number: u64, why: &str) {
        let mut current = self.current();
        if current.number == number {
            self.replace(&mut current, why);
        }
    }

    /// Gives up the connection, and has another one made.
    fn replace(self: &Arc<Self>, current: &mut Current, why: &str) {
        current.lost(&self.store, why);
        current.connection = None;
        current.number += 1;
        self.state.send_replace(LinkState::Down);
        self.connect();
    }

    /// Connects, however often that takes. Ends when the node is dropped.
    pub(crate) fn connect(self: &Arc<Self>) {
        tokio::spawn(connect(Arc::downgrade(self)));
    }

    /// Returns how long to wait before the next attempt to connect. Processes that have lost the same store do not come back together.
    fn pause(&self) -> Duration {
        let [shortest, longest] = PAUSES;
        let mut current = self.current();
        let next = (current.pause * 2).clamp(shortest, longest);
        mem::replace(&mut current.pause, next).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Tries once. Returns whether there is a connection.
    async fn attempt(self: &Arc<Self>) -> bool {
        time::sleep(self.pause()).await;
        let attempt = time::timeout(ATTEMPT * self.timeout, self.store.connect(self.timeout));
        match attempt.await {
            Ok(Ok(connection)) => {
                let mut current = self.current();
                current.connection = Some(connection.clone());
                if self.state.send_replace(LinkState::Up) == LinkState::Connecting {
                    tracing::info!("connected to {}", self.store);
                }
                if let Connection::Redis(connection) = &connection {
                    let is_sentinel = matches!(self.store, Store::Sentinel(_));
                    self.advice.look(connection, is_sentinel);
                }
                tokio::spawn(watch(Arc::downgrade(self), connection, current.number));
                return true;
            }
            Ok(Err(error)) => self.current().refused(&self.store, &error),
            Err(_) => self.current().lost(&self.store, "it took too long"),
        }
        if self.state() == LinkState::Connecting {
            self.state.send_replace(LinkState::Down);
        }
        false
    }
}

async fn connect(node: Weak<Node>) {
    while let Some(node) = node.upgrade() {
        if node.attempt().await {
            return;
        }
    }
}

/// Looks after a connection that no caller uses: it is given up when it fails, or when its server is not the primary any more.
async fn watch(node: Weak<Node>, connection: Connection, number: u64) {
    while let Some(node) = node.upgrade() {
        let checked = node.store.check(&connection, node.timeout).await;
        if node.current().number != number {
            return;
        }
        if let Err(why) = checked {
            node.give_up(number, &why);
        }
    }
}

/// Waits for a state.
pub(crate) async fn wait_for(
    mut state: watch::Receiver<LinkState>,
    is_it: impl FnMut(&LinkState) -> bool,
) {
    let _ = state.wait_for(is_it).await;
}
