//! The way to the store: one server, or the servers of a cluster.

use crate::advice::Advice;
use crate::call::{Failure, Reply, Request};
use crate::cluster::{self, Cluster};
pub(crate) use crate::node::LinkState;
use crate::node::{Node, wait_for};
use crate::record::Record;
use crate::redis::Unanswered;
use crate::store::Place;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What became of a request: a reply for each record, or none.
pub(crate) type Outcome = Result<Vec<Reply>, Failure>;

/// Connections that are replaced when they fail.
#[derive(Debug)]
pub(crate) struct Link {
    /// A store that has not answered within this time has not answered.
    timeout: Duration,
    advice: Arc<Advice>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Link {
    pub(crate) fn new(place: Place, timeout: Duration) -> Self {
        let advice = Arc::default();
        let way = match place {
            Place::One(store) => Way::One(Node::new(*store, timeout, &advice)),
            Place::Cluster(seeds) => Way::Cluster(Cluster::new(seeds, timeout, &advice)),
        };
        Self {
            timeout,
            advice,
            way,
        }
    }

    /// Warns if a restart of the store would forget this limit, which would take that long to flow back.
    pub(crate) fn expect_memory(&self, name: &str, period: Duration) {
        self.advice.expect_memory(name, period);
    }

    fn subscribe(&self) -> watch::Receiver<LinkState> {
        match &self.way {
            Way::One(node) => node.subscribe(),
            Way::Cluster(cluster) => cluster.subscribe(),
        }
    }

    /// Returns the state. A cluster is up if any of its servers is.
    pub(crate) fn state(&self) -> LinkState {
        *self.subscribe().borrow()
    }

    /// Waits until it is known whether the store can be reached.
    pub(crate) async fn tried(&self) {
        let is_known = |state: &LinkState| *state != LinkState::Connecting;
        wait_for(self.subscribe(), is_known).await;
    }

    /// Waits until there is a connection.
    pub(crate) async fn up(&self) {
        let is_up = |state: &LinkState| *state == LinkState::Up;
        wait_for(self.subscribe(), is_up).await;
    }

    /// Starts to connect.
    pub(crate) fn connect(&self) {
        match &self.way {
            Way::One(node) => node.connect(),
            Way::Cluster(cluster) => cluster.connect(),
        }
    }

    /// Returns whether the store decides which limits there are.
    #[cfg(feature = "server")]
    pub(crate) fn has_own_limits(&self) -> bool {
        match &self.way {
            Way::One(node) => matches!(node.store(), crate::store::Store::Server(_)),
            Way::Cluster(_) => false,
        }
    }

    /// Returns a number for each place of records. A script takes only from records of one place.
    pub(crate) fn place(&self, record: Record) -> usize {
        match &self.way {
            Way::One(_) => 0,
            Way::Cluster(_) => cluster::slot(record),
        }
    }

    /// Sends all requests to each server in one write, and returns what became of each.
    pub(crate) async fn call(&self, requests: &[Request]) -> Vec<Outcome> {
        let deadline = Instant::now() + self.timeout;
        match &self.way {
            Way::One(node) => {
                let answers = node.call(requests, false, deadline).await;
                let answers = answers.into_iter();
                answers
                    .map(|answer| answer.map_err(Unanswered::failure))
                    .collect()
            }
            Way::Cluster(cluster) => cluster.call(requests, deadline).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Run, Seen};
    use crate::store::{Store, double::Double};
    use crate::terms::Terms;
    use tokio::time;

    const TIMEOUT: Duration = Duration::from_millis(50);

    /// A call for which the store takes this long.
    fn call(ms: u64) -> [Request; 1] {
        [Request::Take(Call {
            record: Record::of("api", b""),
            terms: Terms::of("1000/s".parse().expect("a quota")).expect("it is exact"),
            seen: Seen::default(),
            runs: vec![Run::of(1, ms)],
        })]
    }

    async fn link() -> Arc<Link> {
        let link = Arc::new(Link::new(
            Place::One(Box::new(Store::Double(Double))),
            TIMEOUT,
        ));
        link.connect();
        link.up().await;
        link
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_over_a_replaced_connection_is_not_used() {
        let link = link().await;
        let hangs = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.call(&call(1_000)).await }
        });
        // In time, but after the other call has had the connection replaced.
        time::sleep(Duration::from_millis(30)).await;
        let late = link.call(&call(40)).await;
        assert_eq!(late, [Err(Failure::Lost)]);
        assert_eq!(hangs.await.expect("it ends"), [Err(Failure::Lost)]);
        link.up().await;
        assert!(link.call(&call(40)).await[0].is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn while_there_is_no_connection_nothing_is_sent() {
        let link = Arc::new(Link::new(
            Place::One(Box::new(Store::Double(Double))),
            TIMEOUT,
        ));
        let start = Instant::now();
        assert_eq!(link.call(&call(10)).await, [Err(Failure::Unreachable)]);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
