//! One sending thread: it warms up its connections, has its part of the requests sent, and waits for the rest.

use std::cell::Cell;
use std::net::SocketAddr;
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

use crate::connection::{Connection, Connector, Stamp, Trunk};
use crate::dispatcher::{Dispatcher, Writes};
use crate::engine::RunError;
use crate::event::{Batch, Event, Journal, Outcome};
use crate::failure::Failure;
use crate::pacer::Pacer;
use crate::plan::{Pace, Plan};
use crate::pool::Pool;
use crate::stop::Stop;
use crate::worker::{Shared, Worker};

/// Connections opened at the same time while warming up; more could overflow a server's accept
/// queue.
const OPENED_AT_ONCE: usize = 32;
/// How long a stopped run waits for answers.
const STOPPED_DRAIN: Duration = Duration::from_secs(1);
/// How old an event can get before it is handed over.
const HAND_OVER_EVERY: Duration = Duration::from_millis(50);

/// Where a slot gets connections, and the one that it has.
type Place = (Rc<Trunk>, Option<Connection>);

/// What a thread needs to know.
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    pub(crate) connector: Connector,
    pub(crate) addresses: Vec<SocketAddr>,
    /// This thread is the `shard`-th of `shards`.
    pub(crate) shard: usize,
    pub(crate) shards: usize,
    /// The most connections that it opens.
    pub(crate) connections: usize,
    /// Its part of the requests, or more than can be: so many may be in flight concurrently.
    pub(crate) requests: usize,
    /// Requests that are left, of an unpaced run.
    pub(crate) left: Arc<AtomicU64>,
    pub(crate) stop: Stop,
}

/// How warming up went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Warmth {
    /// Connections, open or yet to be opened.
    pub(crate) connections: usize,
    /// Requests that may be in flight on these concurrently.
    pub(crate) slots: usize,
    /// Connections that did not open.
    pub(crate) missing: u64,
    pub(crate) why_missing: Option<Failure>,
}

/// Where to say that it is warm, and where to learn when the run starts.
pub(crate) struct Line {
    pub(crate) ready: mpsc::Sender<Result<Warmth, RunError>>,
    pub(crate) start: oneshot::Receiver<Start>,
}

/// When the run starts, and who reads what happens.
pub(crate) struct Start {
    pub(crate) at: Instant,
    pub(crate) reader: mpsc::Sender<Batch>,
}

impl Part {
    /// Does it all, on the calling thread. Returns the most requests that were in flight concurrently; none if the run did
    /// not start.
    pub(crate) fn run(self, line: Line) -> Option<usize> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => runtime.block_on(self.drive(line)),
            Err(error) => {
                let _ = line.ready.send(Err(RunError::System(error)));
                None
            }
        }
    }

    async fn drive(self, line: Line) -> Option<usize> {
        let stop = self.stop.clone();
        let warm = async {
            let pacer = Pacer::new().map_err(RunError::System)?;
            let (places, warmth) = self.warm_up().await?;
            Ok((pacer, places, warmth))
        };
        let warm = tokio::select! {
            biased;
            () = stop.stopped() => Err(RunError::Stopped),
            warm = warm => warm,
        };
        let (pacer, places, warmth) = match warm {
            Ok(warm) => warm,
            Err(error) => {
                let _ = line.ready.send(Err(error));
                return None;
            }
        };
        let Line { ready, start } = line;
        let _ = ready.send(Ok(warmth));
        // It is waited for until all are dropped.
        drop(ready);
        // Whoever starts the run may have given up.
        let start = start.await.ok()?;
        let journal = Rc::new(Journal::new(self.shard, start.at, start.reader));
        Some(self.send(pacer, places, journal).await)
    }

    /// Opens the connections, and gives every slot its own or a share in one. At least one must open.
    async fn warm_up(&self) -> Result<(Vec<Place>, Warmth), RunError> {
        let (address, first) = self.reach().await?;
        // What a server agreed to once, it is taken to agree to again.
        let streams = match first.version() {
            Version::HTTP_2 => self.plan.streams(),
            _ => 1,
        };
        let slots = self.connections.saturating_mul(streams).min(self.requests);
        let turns = Rc::new(Semaphore::new(OPENED_AT_ONCE));
        let mut opening = JoinSet::new();
        // Those that take longer are opened when a request needs them.
        let deadline = tokio::time::Instant::now() + self.plan.connect.timeout;
        let mut first = Some(first);
        for bunch in 0..slots.div_ceil(streams) {
            let (turns, connector) = (turns.clone(), self.connector.clone());
            let trunk = Rc::new(match first.take() {
                Some(first) => Trunk::beginning_with(first, connector, address),
                None => Trunk::new(connector, address),
            });
            let slots = streams.min(slots - bunch * streams);
            opening.spawn_local(async move {
                // Nobody closes the semaphore.
                let turn = timeout_at(deadline, turns.acquire()).await;
                let mut places = Vec::with_capacity(slots);
                for _ in 0..slots {
                    let connection = match &turn {
                        Ok(_) => timeout_at(deadline, trunk.connect()).await,
                        Err(_) => Ok(Err(Failure::Timeout)),
                    };
                    let connection = connection.unwrap_or(Err(Failure::Timeout));
                    places.push((trunk.clone(), connection));
                }
                places
            });
        }
        let bunches = opening.join_all().await;
        let mut warmth = Warmth {
            connections: bunches.len(),
            slots,
            ..Warmth::default()
        };
        for bunch in &bunches {
            let mut failures = bunch
                .iter()
                .map(|(_, connection)| connection.as_ref().err());
            // It is open if any of its slots got a share in it.
            if let Some(&failure) = failures.next().flatten()
                && failures.all(|failure| failure.is_some())
            {
                warmth.missing += 1;
                warmth.why_missing = Some(failure);
            }
        }
        let mut places: Vec<_> = bunches.into_iter().flatten().collect();
        // Those that did not open are used last.
        places.sort_by_key(|(_, connection)| connection.is_err());
        let places = places
            .into_iter()
            .map(|(trunk, connection)| (trunk, connection.ok()));
        Ok((places.collect(), warmth))
    }

    /// The target's first address that accepts a connection, and the connection.
    async fn reach(&self) -> Result<(SocketAddr, Connection), RunError> {
        let mut refusal = RunError::Stopped;
        for &address in &self.addresses {
            match self.connector.open(address).await {
                Ok(connection) => return Ok((address, connection)),
                Err(failure) => refusal = RunError::Connect { address, failure },
            }
        }
        Err(refusal)
    }

    async fn send(self, pacer: Pacer, places: Vec<Place>, journal: Rc<Journal>) -> usize {
        let plan = &self.plan;
        let pool = Rc::new(Pool::new(places.len()));
        let shared = Rc::new(Shared {
            messages: plan
                .targets
                .iter()
                .map(|target| plan.template.message(target, plan.keep_alive))
                .collect(),
            timeout: plan.timeout,
            keep_alive: plan.keep_alive,
            may_resend: !matches!(plan.pace, Pace::Under(..)),
            pool: pool.clone(),
            journal: journal.clone(),
        });
        let writes = Rc::new(Writes::default());
        let stamps: Vec<_> = (0..places.len())
            .map(|id| stamp(id, &pool, &journal, &writes))
            .collect();
        let workers = places.into_iter().zip(&stamps).enumerate();
        // The stack of free slots then begins with the first.
        for (id, ((trunk, connection), stamp)) in workers.rev() {
            let worker = Worker {
                shared: shared.clone(),
                id,
                stamp: stamp.clone(),
                trunk,
            };
            tokio::task::spawn_local(worker.serve(connection));
        }

        let dispatcher = Dispatcher {
            plan: plan.clone(),
            shard: self.shard,
            shards: self.shards,
            left: self.left.clone(),
            shared: shared.clone(),
            pacer,
            writes,
            stop: self.stop.clone(),
            busy: Cell::new((journal.start(), journal.start())),
        };
        // A task of its own, as waking the runtime's root future takes a system call and waking a task
        // none.
        let dispatching = tokio::task::spawn_local(dispatcher.run());
        let bearer = journal.clone();
        tokio::task::spawn_local(async move {
            loop {
                sleep(HAND_OVER_EVERY).await;
                bearer.hand_over();
            }
        });
        if let Err(error) = dispatching.await
            && error.is_panic()
        {
            resume_unwind(error.into_panic());
        }
        drain(&pool, &self.stop).await;

        for (slot, stamp) in pool.slots().iter().zip(&stamps) {
            if let Some(job) = slot.abandon() {
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

/// Notes each write, and tells the dispatcher.
fn stamp(id: usize, pool: &Rc<Pool>, journal: &Rc<Journal>, writes: &Rc<Writes>) -> Stamp {
    let (pool, journal, writes) = (pool.clone(), journal.clone(), writes.clone());
    Stamp::new(move |sent| {
        let Some(job) = pool.slot(id).current() else {
            return;
        };
        let sent_ns = journal.offset_ns(sent);
        journal.note(Event::Sent {
            scheduled_ns: journal.offset_ns(job.scheduled),
            sent_ns,
        });
        // A limiter counts from the end of the write: what holds this thread up within it would bring the next closer.
        writes.happened(journal.offset_ns(Instant::now()));
    })
}

/// Waits for the requests that are still in flight: each has a time limit of its own, a stopped
/// run less.
async fn drain(pool: &Pool, stop: &Stop) {
    tokio::select! {
        () = pool.idle() => {}
        () = async {
            stop.stopped().await;
            sleep(STOPPED_DRAIN).await;
        } => {}
    }
}
