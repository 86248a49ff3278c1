use crate::cut_off::Alone;
use crate::link::{Link, LinkState};
use crate::redis::Store;
use crate::strict::Strict;
use crate::terms::Terms;
use crate::{CutOff, FleetError, FleetLimit, record};
use flowgate::{Clock, Quota};
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::mpsc;

/// The limits that several processes share, in one store.
///
/// A fleet has a thread of its own, which talks to the store. It works under any asynchronous runtime, and without one. The thread
/// ends when the fleet and its limits are dropped.
#[derive(Clone)]
pub struct Fleet(Arc<Shared>);

pub(crate) struct Shared {
    link: Arc<Link>,
    /// The limits that have something to ask.
    ready: mpsc::UnboundedSender<Arc<Strict>>,
    nodes: Option<u32>,
}

/// Settings of a [`Fleet`].
#[derive(Debug)]
pub struct FleetBuilder {
    store: Store,
    nodes: Option<u32>,
    timeout: Duration,
}

/// Settings of a limit of a [`Fleet`].
#[derive(Debug)]
pub struct FleetLimitBuilder<'a> {
    fleet: &'a Fleet,
    name: String,
    quota: Quota,
    cut_off: Option<CutOff>,
    clock: Clock,
}

impl Fleet {
    /// Returns a builder for a fleet whose limits are kept in Redis or Valkey.
    ///
    /// `url` is `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`. Redis 6.2, Valkey 7.2, and all later versions work.
    ///
    /// # Errors
    ///
    /// Returns [`FleetError::Address`] if `url` is none of a store. It does not connect.
    pub fn redis(url: &str) -> Result<FleetBuilder, FleetError> {
        let store = Store::new(url).map_err(FleetError::Address)?;
        Ok(FleetBuilder {
            store,
            nodes: None,
            timeout: Duration::from_millis(50),
        })
    }

    /// Waits until the store can be reached.
    ///
    /// This never ends if it cannot.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn ready(&self) {
        self.0.link.up().await;
    }

    /// Returns a builder for the limit `name`. All processes that use this name share it, and state the same quota.
    pub fn limit(&self, name: impl Into<String>, quota: Quota) -> FleetLimitBuilder<'_> {
        FleetLimitBuilder {
            fleet: self,
            name: name.into(),
            quota,
            cut_off: None,
            clock: Clock::system(),
        }
    }
}

impl Shared {
    pub(crate) fn is_down(&self) -> bool {
        self.link.state() == LinkState::Down
    }

    pub(crate) fn announce(&self, limit: &Arc<Strict>) {
        // The thread ends after everybody who could announce something.
        let _ = self.ready.send(Arc::clone(limit));
    }
}

impl FleetBuilder {
    /// Sets how many processes share the limits.
    ///
    /// A process that cannot reach the store then admits its share of each limit: [`CutOff::Share`]`(1, nodes)`.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Sets how long the store may take for an answer (default: 50 ms).
    ///
    /// After that, the connection is replaced, and this process decides alone. Set it to at least four round trips.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts to connect, and returns the fleet. It does not wait.
    ///
    /// # Errors
    ///
    /// Returns [`FleetError::NoNodes`] if the number of nodes is 0, and [`FleetError::Thread`] if the system starts no thread.
    pub fn open(self) -> Result<Fleet, FleetError> {
        if self.nodes == Some(0) {
            return Err(FleetError::NoNodes);
        }
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(FleetError::Thread)?;
        let link = Arc::new(Link::new(self.store, self.timeout));
        let (ready, announced) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            link: Arc::clone(&link),
            ready: ready.clone(),
            nodes: self.nodes,
        });
        let again = ready.downgrade();
        thread::Builder::new()
            .name("flowgate-fleet".to_owned())
            .spawn(move || runtime.block_on(serve(link, announced, again)))
            .map_err(FleetError::Thread)?;
        Ok(Fleet(shared))
    }
}

/// How many limits ask in one write.
const MOST_CALLS: usize = 1_000;

/// Sends the calls of all limits that have announced one, in one write. Ends when no caller can announce any.
async fn serve(
    link: Arc<Link>,
    mut announced: mpsc::UnboundedReceiver<Arc<Strict>>,
    again: mpsc::WeakUnboundedSender<Arc<Strict>>,
) {
    tokio::spawn(Arc::clone(&link).connect());
    let mut limits = Vec::new();
    while announced.recv_many(&mut limits, MOST_CALLS).await > 0 {
        link.tried().await;
        let mut calls = Vec::with_capacity(limits.len());
        let mut asking = Vec::with_capacity(limits.len());
        for limit in limits.drain(..) {
            if let Some((call, askers)) = limit.call() {
                calls.push(call);
                asking.push((limit, askers));
            }
        }
        let (link, again) = (Arc::clone(&link), again.clone());
        tokio::spawn(async move {
            let outcomes = link.call(&calls).await;
            for ((limit, askers), outcome) in asking.into_iter().zip(outcomes) {
                let others_wait = limit.answer(askers, outcome);
                if others_wait && let Some(again) = again.upgrade() {
                    let _ = again.send(limit);
                }
            }
        });
    }
}

impl FleetLimitBuilder<'_> {
    /// Sets what this process decides by while the store cannot be reached.
    ///
    /// The default is this process's share of the limit, if the fleet knows its [number of nodes](FleetBuilder::nodes).
    #[must_use]
    pub fn when_cut_off(mut self, cut_off: CutOff) -> Self {
        self.cut_off = Some(cut_off);
        self
    }

    /// Sets the clock (default: [`Clock::system`]).
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Builds a strict limit: the store decides on each request, and this process holds nothing.
    ///
    /// # Errors
    ///
    /// - [`FleetError::NoCutOff`] if neither [`nodes`](FleetBuilder::nodes) nor [`when_cut_off`](Self::when_cut_off) was called;
    /// - [`FleetError::Share`] if the share of this process is none, or more than everything;
    /// - [`FleetError::Quota`] if no limiter can keep that share;
    /// - [`FleetError::Burst`] if the store cannot count the burst exactly.
    pub fn build(self) -> Result<FleetLimit, FleetError> {
        let shared = &self.fleet.0;
        let share = |nodes| CutOff::Share(1, nodes);
        let cut_off = self.cut_off.or(shared.nodes.map(share));
        let cut_off = cut_off.ok_or(FleetError::NoCutOff)?;
        let alone = Alone::new(cut_off, self.quota, &self.clock)?;
        let terms = Terms::of(self.quota).map_err(|most| FleetError::Burst { most })?;
        let record = record::name(&self.name, b"");
        let limit = Strict::new(record, terms, self.clock, alone);
        Ok(FleetLimit::new(Arc::clone(shared), limit))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("state", &self.0.link.state())
            .field("nodes", &self.0.nodes)
            .finish_non_exhaustive()
    }
}
