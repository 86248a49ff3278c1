//! One sending thread: opens its connections, sends its share of the requests, and waits for the responses.

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hyper::Version;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout_at};

use crate::connection::{Connection, Connector, Peer, Stamp, Trunk};
use crate::decoder::Bodies;
use crate::dispatcher::{Dispatcher, Writes};
use crate::engine::RunError;
use crate::event::{Batch, Event, Journal, Outcome};
use crate::failure::Failure;
use crate::pacer::Pacer;
use crate::plan::{Pace, Plan};
use crate::pool::Pool;
use crate::prepared::{Prepared, Server};
use crate::session::Session;
use crate::slice::Slice;
use crate::stop::Stop;
use crate::worker::{Shared, Worker};

/// Maximum number of connections that open concurrently while warming up. More could overflow a server's accept queue.
const OPENED_AT_ONCE: usize = 32;
/// How long a stopped run waits for responses.
const STOPPED_DRAIN: Duration = Duration::from_secs(1);
/// Maximum age of an event before it is handed over.
const HAND_OVER_EVERY: Duration = Duration::from_millis(50);

/// The server of a place, where it gets its connections, and its current one.
type Supply = (usize, Rc<Trunk>, Option<Connection>);

/// The share of one thread.
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    pub(crate) prepared: Arc<Prepared>,
    /// This thread is number `shard` of `shards`.
    pub(crate) shard: usize,
    pub(crate) shards: usize,
    /// Maximum number of connections that it opens to each server.
    pub(crate) connections: usize,
    /// Its number of requests, or a larger number: a bound on the requests in flight.
    pub(crate) requests: usize,
    /// Remaining requests of an unpaced run.
    pub(crate) left: Arc<AtomicU64>,
    /// Where compressed bodies are decoded, if they are.
    pub(crate) bodies: Option<Bodies>,
    pub(crate) stop: Stop,
}

/// Result of warming up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Warmth {
    /// Connections, open or to be opened later.
    pub(crate) connections: usize,
    /// Maximum number of requests in flight on these connections.
    pub(crate) places: usize,
    /// Connections that could not be opened.
    pub(crate) missing: u64,
    pub(crate) why_missing: Option<Failure>,
}

/// Channels for reporting that the thread is warm, and for receiving the start of the run.
pub(crate) struct Link {
    pub(crate) ready: mpsc::Sender<Result<Warmth, RunError>>,
    pub(crate) start: oneshot::Receiver<Start>,
}

/// The start of the run, and the receiver of its events.
pub(crate) struct Start {
    pub(crate) at: Instant,
    pub(crate) reader: mpsc::Sender<Batch>,
}

impl Part {
    /// Runs the whole share on the calling thread. Returns the maximum number of requests that were in flight; `None`
    /// if the run did not start.
    pub(crate) fn run(self, link: Link) -> Option<usize> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => runtime.block_on(self.drive(link)),
            Err(error) => {
                let _ = link.ready.send(Err(RunError::System(error)));
                None
            }
        }
    }

    async fn drive(self, link: Link) -> Option<usize> {
        let stop = self.stop.clone();
        let warm = async {
            let pacers = self.pacers().map_err(RunError::System)?;
            let (supplies, warmth) = self.warm_up().await?;
            Ok((pacers, supplies, warmth))
        };
        let warm = tokio::select! {
            biased;
            () = stop.stopped() => Err(RunError::Stopped),
            warm = warm => warm,
        };
        let (pacers, supplies, warmth) = match warm {
            Ok(warm) => warm,
            Err(error) => {
                let _ = link.ready.send(Err(error));
                return None;
            }
        };
        let Link { ready, start } = link;
        let _ = ready.send(Ok(warmth));
        // It is waited for until all are dropped.
        drop(ready);
        // The starter of the run may have given up.
        let start = start.await.ok()?;
        let journal = Rc::new(Journal::new(self.shard, start.at, start.reader));
        Some(self.send(pacers, supplies, journal).await)
    }

    /// Opens the connections to all servers.
    async fn warm_up(&self) -> Result<(Vec<Supply>, Warmth), RunError> {
        let (mut supplies, mut warmth) = (Vec::new(), Warmth::default());
        for server in 0..self.prepared.servers.len() {
            let (more, warm) = self.warm_up_server(server).await?;
            supplies.extend(more);
            warmth.add(warm);
        }
        Ok((supplies, warmth))
    }

    /// Opens the connections to one server, and assigns one or a share of one to each place. At least one must open.
    async fn warm_up_server(&self, server: usize) -> Result<(Vec<Supply>, Warmth), RunError> {
        let Server {
            connector,
            addresses,
            ..
        } = &self.prepared.servers[server];
        let (address, first) = reach(connector, addresses).await?;
        // A protocol that a server negotiated once is assumed for later connections.
        let streams = match first.version() {
            Version::HTTP_2 => self.plan.streams(),
            _ => 1,
        };
        let places = self.connections.saturating_mul(streams).min(self.requests);
        let turns = Rc::new(Semaphore::new(OPENED_AT_ONCE));
        let mut opening = JoinSet::new();
        // Slower connections are opened when a request needs them.
        let deadline = tokio::time::Instant::now() + self.plan.connect.timeout;
        let mut first = Some(first);
        for bunch in 0..places.div_ceil(streams) {
            let (turns, connector) = (turns.clone(), connector.clone());
            let trunk = Rc::new(match first.take() {
                Some(first) => Trunk::beginning_with(first, connector, address.clone()),
                None => Trunk::new(connector, address.clone()),
            });
            let places = streams.min(places - bunch * streams);
            opening.spawn_local(async move {
                // The semaphore is never closed.
                let turn = timeout_at(deadline, turns.acquire()).await;
                let mut supplies = Vec::with_capacity(places);
                for _ in 0..places {
                    let connection = match &turn {
                        Ok(_) => timeout_at(deadline, trunk.connect()).await,
                        Err(_) => Ok(Err(Failure::Timeout)),
                    };
                    let connection = connection.unwrap_or(Err(Failure::Timeout));
                    supplies.push((trunk.clone(), connection));
                }
                supplies
            });
        }
        let bunches = opening.join_all().await;
        let mut warmth = Warmth {
            connections: bunches.len(),
            places,
            ..Warmth::default()
        };
        for bunch in &bunches {
            let mut failures = bunch
                .iter()
                .map(|(_, connection)| connection.as_ref().err());
            // The connection is open if any of its places got a share in it.
            if let Some(&failure) = failures.next().flatten()
                && failures.all(|failure| failure.is_some())
            {
                warmth.missing += 1;
                warmth.why_missing = Some(failure);
            }
        }
        let mut supplies: Vec<_> = bunches.into_iter().flatten().collect();
        // Places without an open connection are used last.
        supplies.sort_by_key(|(_, connection)| connection.is_err());
        let supplies = supplies
            .into_iter()
            .map(|(trunk, connection)| (server, trunk, connection.ok()));
        Ok((supplies.collect(), warmth))
    }

    /// Returns a pacer for each dispatcher, with the server whose requests it sends.
    ///
    /// With a schedule, a server whose connections are all busy does not delay the requests to others.
    fn pacers(&self) -> io::Result<Vec<(Option<usize>, Pacer)>> {
        let servers = self.prepared.servers.len();
        match self.plan.pace {
            Pace::Hold(_) if servers > 1 => (0..servers)
                .map(|server| Ok((Some(server), Pacer::new()?)))
                .collect(),
            _ => Ok(vec![(None, Pacer::new()?)]),
        }
    }

    async fn send(
        self,
        pacers: Vec<(Option<usize>, Pacer)>,
        supplies: Vec<Supply>,
        journal: Rc<Journal>,
    ) -> usize {
        let plan = &self.plan;
        let servers: Vec<_> = supplies.iter().map(|(server, ..)| *server).collect();
        let pool = Rc::new(Pool::new(&servers));
        let shared = Rc::new(Shared {
            prepared: self.prepared.clone(),
            timeout: plan.timeout,
            keep_alive: plan.keep_alive,
            may_resend: !matches!(plan.pace, Pace::Under(..)),
            pool: pool.clone(),
            journal: journal.clone(),
            bodies: self.bodies.clone(),
        });
        let began = journal.start().checked_sub(plan.warm_up);
        let writes = Rc::new(Writes::since(began.unwrap_or(journal.start())));
        let stamps: Vec<_> = (0..supplies.len())
            .map(|id| stamp(id, &pool, &journal, &writes))
            .collect();
        let workers = supplies.into_iter().zip(&stamps).enumerate();
        // The stack of free places then begins with the first.
        for (id, ((_, trunk, connection), stamp)) in workers.rev() {
            let worker = Worker {
                session: Session::new(plan.follow, plan.cookies),
                shared: shared.clone(),
                id,
                stamp: stamp.clone(),
                trunk,
            };
            tokio::task::spawn_local(worker.serve(connection));
        }

        // Separate tasks, because waking the root future of the runtime needs a system call, and waking a task does not.
        let mut dispatching = JoinSet::new();
        let (first, step) = Slice::indices(plan.slice, self.shard, self.shards);
        for (server, pacer) in pacers {
            if server.is_some_and(|server| !self.prepared.is_for(server, first, step)) {
                continue;
            }
            let dispatcher = Dispatcher {
                plan: plan.clone(),
                first,
                step,
                server,
                left: self.left.clone(),
                shared: shared.clone(),
                pacer,
                writes: writes.clone(),
                stop: self.stop.clone(),
                busy: Cell::new((writes.began, writes.began)),
            };
            dispatching.spawn_local(dispatcher.run());
        }
        let bearer = journal.clone();
        tokio::task::spawn_local(async move {
            loop {
                sleep(HAND_OVER_EVERY).await;
                bearer.hand_over();
            }
        });
        while let Some(ended) = dispatching.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                resume_unwind(error.into_panic());
            }
        }
        drain(&pool, &self.stop).await;

        for (place, stamp) in pool.places().iter().zip(&stamps) {
            if let Some(job) = place.abandon()
                && journal.counts(job.scheduled)
            {
                journal.note(Event::Over {
                    scheduled_ns: journal.offset_ns(job.scheduled),
                    sent_ns: stamp.sent().map(|sent| journal.offset_ns(sent)),
                    done_ns: journal.offset_ns(Instant::now()),
                    outcome: Outcome::Abandoned,
                });
            }
        }
        journal.hand_over();
        pool.peak_busy()
    }
}

impl Warmth {
    pub(crate) fn add(&mut self, other: Warmth) {
        self.connections += other.connections;
        self.places += other.places;
        self.missing += other.missing;
        self.why_missing = other.why_missing.or(self.why_missing);
    }
}

/// Connects to the first address that accepts a connection.
async fn reach(connector: &Connector, addresses: &[Peer]) -> Result<(Peer, Connection), RunError> {
    let mut refusal = RunError::Stopped;
    for address in addresses {
        let address = address.clone();
        match connector.open(address.clone()).await {
            Ok(connection) => return Ok((address, connection)),
            Err(failure) => refusal = RunError::Connect { address, failure },
        }
    }
    Err(refusal)
}

/// Records each write, and informs the dispatcher.
fn stamp(id: usize, pool: &Rc<Pool>, journal: &Rc<Journal>, writes: &Rc<Writes>) -> Stamp {
    let (pool, journal, writes) = (pool.clone(), journal.clone(), writes.clone());
    Stamp::new(move |sent| {
        let Some(job) = pool.place(id).current() else {
            return;
        };
        if journal.counts(job.scheduled) {
            journal.note(Event::Sent {
                scheduled_ns: journal.offset_ns(job.scheduled),
                sent_ns: journal.offset_ns(sent),
            });
        }
        // A limiter counts from the end of the write. A delay of this thread during the write would otherwise shorten
        // the next gap.
        writes.happened(Instant::now());
    })
}

/// Waits for the requests that are still in flight. Each has its own timeout; a stopped run waits at most
/// [`STOPPED_DRAIN`].
async fn drain(pool: &Pool, stop: &Stop) {
    tokio::select! {
        () = pool.idle() => {}
        () = async {
            stop.stopped().await;
            sleep(STOPPED_DRAIN).await;
        } => {}
    }
}
