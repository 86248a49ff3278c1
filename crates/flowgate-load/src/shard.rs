//! One sending thread: it warms up its connections, sends what is its part when that is due, and waits for the rest.
//!
//! The dispatcher sleeps until the next request is due and hands it to a free slot, whose own task then writes it. When
//! all are busy, the request waits, and with it those after it; each keeps its own due time, so that the wait shows as
//! lag and in the response times.

use std::cell::Cell;
use std::future::pending;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout_at};

use crate::connection::{Connection, Connector, Stamp, Trunk};
use crate::driver::{Driver, Margin};
use crate::engine::RunError;
use crate::event::{Batch, Event, Journal, Outcome};
use crate::failure::Failure;
use crate::pacer::Pacer;
use crate::plan::{Late, Pace, Plan};
use crate::pool::{Job, Pool};
use crate::report::nanos;
use crate::schedule::{Extent, Schedule};
use crate::stop::Stop;
use crate::worker::{Shared, Worker};

/// Connections opened at the same time while warming up; more could overflow a server's accept
/// queue.
const OPENED_AT_ONCE: usize = 32;
/// How long after the end of the schedule late requests may still be sent. Without an end, a server
/// that never answers would keep the run going for as long as all requests together take to time
/// out.
const LATE_SENDS: Duration = Duration::from_secs(1);
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
    /// Requests on their way at once, on this thread.
    pub(crate) slots: usize,
    /// Requests that are left, of an unpaced run.
    pub(crate) left: Arc<AtomicU64>,
    pub(crate) stop: Stop,
}

/// How warming up went, when not every connection opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Warmth {
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
    /// Does it all, on the calling thread. Returns the most requests that were on their way at once; none if the run did
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
        let streams = self.plan.streams();
        let turns = Rc::new(Semaphore::new(OPENED_AT_ONCE));
        let mut opening = JoinSet::new();
        // Those that take longer are opened when a request needs them.
        let deadline = tokio::time::Instant::now() + self.plan.connect.timeout;
        let mut first = Some(first);
        for bunch in 0..self.slots.div_ceil(streams) {
            let (turns, connector) = (turns.clone(), self.connector.clone());
            let trunk = Rc::new(match first.take() {
                Some(first) => Trunk::beginning_with(first, connector, address),
                None => Trunk::new(connector, address),
            });
            let slots = streams.min(self.slots - bunch * streams);
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
        let mut places: Vec<_> = opening.join_all().await.into_iter().flatten().collect();
        // Those that did not open are used last.
        places.sort_by_key(|(_, connection)| connection.is_err());
        let mut warmth = Warmth::default();
        let places = places.into_iter().map(|(trunk, connection)| {
            if let Err(failure) = connection {
                warmth.missing += 1;
                warmth.why_missing = Some(failure);
            }
            (trunk, connection.ok())
        });
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
        let pool = Rc::new(Pool::new(self.slots));
        let shared = Rc::new(Shared {
            messages: plan
                .targets
                .iter()
                .map(|target| plan.template.message(target, plan))
                .collect(),
            timeout: plan.timeout,
            keep_alive: plan.keep_alive,
            may_resend: !matches!(plan.pace, Pace::Under(..)),
            pool: pool.clone(),
            journal: journal.clone(),
        });
        let writes = Rc::new(Writes::default());
        let stamps: Vec<_> = (0..self.slots)
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
                    due_ns: journal.offset_ns(job.due),
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
            due_ns: journal.offset_ns(job.due),
            sent_ns,
        });
        // A limiter counts from the end of the write: what holds this thread up within it would bring the next closer.
        writes.happened(journal.offset_ns(Instant::now()));
    })
}

/// The last write, for a dispatcher that waits for it.
#[derive(Default)]
struct Writes {
    last_ns: Cell<Option<u64>>,
    changed: Notify,
}

impl Writes {
    fn happened(&self, at_ns: u64) {
        self.last_ns.set(Some(at_ns));
        self.changed.notify_one();
    }

    /// When the next write happens. Cancel safe.
    async fn next(&self) -> u64 {
        loop {
            if let Some(at_ns) = self.last_ns.take() {
                return at_ns;
            }
            self.changed.notified().await;
        }
    }
}

/// Hands every request to a slot when it is due, or as soon after as one is free.
struct Dispatcher {
    plan: Arc<Plan>,
    shard: usize,
    shards: usize,
    left: Arc<AtomicU64>,
    shared: Rc<Shared>,
    pacer: Pacer,
    writes: Rc<Writes>,
    stop: Stop,
    /// From when to when requests last waited for slots, one after the other.
    busy: Cell<(Instant, Instant)>,
}

/// Why nothing more is sent.
struct Ended;

impl Dispatcher {
    async fn run(mut self) {
        let plan = self.plan.clone();
        let stop = self.stop.clone();
        let mut stopped = pin!(stop.stopped());
        let _: Result<(), Ended> = match &plan.pace {
            Pace::Hold(schedule) => self.hold(schedule, stopped.as_mut()).await,
            Pace::Under(driver, extent) => self.stay_under(driver, *extent, stopped.as_mut()).await,
            Pace::Unpaced(extent) => self.hurry(*extent, stopped.as_mut()).await,
        };
    }

    /// Sends by a schedule.
    async fn hold(
        &mut self,
        schedule: &Schedule,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let last_call = self.at(schedule.span().checked_add(LATE_SENDS));
        let indices = (self.shard..).step_by(self.shards);
        let times = schedule.times().skip(self.shard).step_by(self.shards);
        for (index, offset) in indices.zip(times) {
            let due = self.at(Some(offset)).ok_or(Ended)?;
            tokio::select! {
                biased;
                () = &mut stopped => return Err(Ended),
                () = self.pacer.sleep_until(due) => {}
            }
            if last_call.is_some_and(|last_call| Instant::now() > last_call) {
                return Err(Ended);
            }
            let too_late = match self.plan.late {
                Late::Queue => None,
                Late::Within(patience) => due.checked_add(patience),
            };
            let due_ns = nanos::of(offset);
            let job = Job {
                due,
                message: index % self.shared.messages.len(),
            };
            if too_late.is_some_and(|too_late| Instant::now() > too_late) {
                self.note(Event::Skipped { due_ns });
                continue;
            }
            let end = match (too_late, last_call) {
                (Some(too_late), Some(last_call)) => Some(too_late.min(last_call)),
                (some, other) => some.or(other),
            };
            if self.hand_over(job, end, stopped.as_mut()).await?.is_some() {
                self.note(Event::Due { due_ns });
            } else if too_late.is_some() {
                self.note(Event::Skipped { due_ns });
            } else {
                self.note(Event::Due { due_ns });
                return Err(Ended);
            }
        }
        Ok(())
    }

    /// Sends when a limiter says, by when requests were really written.
    async fn stay_under(
        &mut self,
        driver: &Driver,
        extent: Extent,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let (most, end_ns) = ends(extent);
        let last_call = self.at(Duration::from_nanos(end_ns).checked_add(LATE_SENDS));
        let mut from_ns = 0;
        let mut before = None;
        for index in 0..most {
            let earliest_ns = driver.next_ns(from_ns).ok_or(Ended)?;
            let due_ns = match before {
                Some(id) if earliest_ns > from_ns => {
                    let distance = Duration::from_nanos(earliest_ns - from_ns);
                    let margin = tokio::select! {
                        biased;
                        () = &mut stopped => return Err(Ended),
                        margin = self.margin(driver.margin_asked(), distance, id, from_ns) => margin,
                    };
                    earliest_ns.saturating_add(nanos::of(margin))
                }
                _ => earliest_ns,
            };
            if due_ns >= end_ns {
                return Err(Ended);
            }
            let due = self.at(Some(Duration::from_nanos(due_ns))).ok_or(Ended)?;
            tokio::select! {
                biased;
                () = &mut stopped => return Err(Ended),
                () = self.pacer.sleep_until(due) => {}
            }
            self.note(Event::Due { due_ns });
            let job = Job {
                due,
                message: (index % self.shared.messages.len() as u64) as usize,
            };
            let id = self
                .hand_over(job, last_call, stopped.as_mut())
                .await?
                .ok_or(Ended)?;
            tokio::select! {
                biased;
                sent_ns = self.writes.next() => {
                    driver.sent(sent_ns);
                    from_ns = sent_ns;
                    before = Some(id);
                }
                // It could not be sent. Trying costs as much, or a server that is gone would be tried without a pause.
                () = self.shared.pool.slot(id).over() => {
                    from_ns = from_ns.max(self.now_ns());
                    driver.sent(from_ns);
                    before = None;
                }
                () = &mut stopped => return Err(Ended),
            }
        }
        Ok(())
    }

    /// What is added to a distance from a request on slot `id` that was sent at `sent_ns`, once that is known.
    async fn margin(
        &mut self,
        margin: Margin,
        distance: Duration,
        id: usize,
        sent_ns: u64,
    ) -> Duration {
        let shared = self.shared.clone();
        let answered = shared.pool.slot(id).over();
        if let Some(longest) = margin.longest(distance) {
            // If there is no answer by then, it takes as long as matters.
            let end = self.at(Some(Duration::from_nanos(sent_ns) + longest));
            tokio::select! {
                biased;
                () = answered => {}
                () = sleep_past(end) => return longest,
            }
        } else {
            answered.await;
        }
        let took = Duration::from_nanos(self.now_ns().saturating_sub(sent_ns));
        margin.after(distance, took)
    }

    /// Sends whenever a slot is free.
    async fn hurry(
        &mut self,
        extent: Extent,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Ended> {
        let (_, end_ns) = ends(extent);
        let end = self.at(Some(Duration::from_nanos(end_ns)));
        let start = self.shared.journal.start();
        tokio::select! {
            biased;
            () = &mut stopped => return Err(Ended),
            () = self.pacer.sleep_until(start) => {}
        }
        let mut index = self.shard;
        while self.take_one_of_those_left() {
            let job = |due| Job {
                due,
                message: index % self.shared.messages.len(),
            };
            loop {
                let now = Instant::now();
                if end.is_some_and(|end| now >= end) {
                    return Err(Ended);
                }
                if self.shared.pool.hand_over(job(now)).is_some() {
                    break;
                }
                tokio::select! {
                    biased;
                    () = self.shared.pool.freed() => {}
                    () = &mut stopped => return Err(Ended),
                    () = sleep_past(end) => return Err(Ended),
                }
            }
            index += self.shards;
        }
        Ok(())
    }

    fn take_one_of_those_left(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }

    /// To which slot the job was handed over, if one was free by `end`; if it had to wait, that is noted.
    async fn hand_over(
        &self,
        job: Job,
        end: Option<Instant>,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<usize>, Ended> {
        let pool = &self.shared.pool;
        let (began, ended) = self.busy.get();
        let was_due_before = job.due < ended;
        if let Some(id) = pool.hand_over(job) {
            if was_due_before {
                // Those before it waited, and it behind them.
                self.note_wait(job.due.max(began), ended);
            }
            return Ok(Some(id));
        }
        let began = if was_due_before {
            began
        } else {
            Instant::now()
        };
        let mut end = pin!(sleep_past(end));
        let handed_over = loop {
            tokio::select! {
                biased;
                () = &mut stopped => break Err(Ended),
                () = &mut end => break Ok(None),
                () = pool.freed() => {
                    if let Some(id) = pool.hand_over(job) {
                        break Ok(Some(id));
                    }
                }
            }
        };
        let now = Instant::now();
        self.busy.set((began, now));
        self.note_wait(job.due.max(began), now);
        handed_over
    }

    /// A client that is late by itself has not waited for a slot meanwhile.
    fn note_wait(&self, from: Instant, to: Instant) {
        let wait_ns = nanos::of(to.saturating_duration_since(from));
        self.note(Event::Queued { wait_ns });
    }

    fn at(&self, offset: Option<Duration>) -> Option<Instant> {
        self.shared.journal.start().checked_add(offset?)
    }

    fn now_ns(&self) -> u64 {
        self.shared.journal.offset_ns(Instant::now())
    }

    fn note(&self, event: Event) {
        self.shared.journal.note(event);
    }
}

/// How many requests at most, and when none is sent any longer.
fn ends(extent: Extent) -> (u64, u64) {
    match extent {
        Extent::Lasting(span) => (u64::MAX, nanos::of(span)),
        Extent::Requests(requests) => (requests.max(1), u64::MAX),
    }
}

/// Sleeps until the instant, or for ever when there is none.
async fn sleep_past(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant.into()).await,
        None => pending().await,
    }
}

/// Waits for the requests that are still on their way: each has a time limit of its own, a stopped
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
