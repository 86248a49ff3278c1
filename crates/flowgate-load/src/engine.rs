//! The run itself: warm up, send what is due when it is due, wait for the rest.
//!
//! Everything happens on one thread. The dispatcher sleeps until the next request is due and hands
//! it to a free connection, whose own task then writes it. When all are busy, the request waits,
//! and with it those after it; each keeps its own due time, so that the wait shows as lag and in
//! the response times.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::pin::pin;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::lookup_host;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::connection::{Connection, SentAt};
use crate::failure::Failure;
use crate::measurement::Measurement;
use crate::pacer::Pacer;
use crate::plan::{MAX_CONNECTIONS, Plan};
use crate::pool::{Job, Pool};
use crate::report::{Connections, Report};
use crate::schedule::Schedule;
use crate::stop::Stop;
use crate::target::Target;
use crate::worker::{Shared, serve};

/// Connections opened at the same time while warming up; more could overflow a server's accept
/// queue.
const OPENED_AT_ONCE: usize = 32;
/// From the end of warming up to the first request: time for every task to be at its place.
const LEAD_IN: Duration = Duration::from_millis(5);
/// How long after the end of the schedule late requests may still be sent. Without an end, a server
/// that never answers would keep the run going for as long as all requests together take to time
/// out.
const LATE_SENDS: Duration = Duration::from_secs(1);
/// How long a stopped run waits for answers.
const STOPPED_DRAIN: Duration = Duration::from_secs(1);

/// Why a run could not begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The host's name has no address, or asking for it failed.
    Resolve {
        /// The host.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// No connection could be opened.
    Connect {
        /// The address that was tried last.
        address: SocketAddr,
        /// How it failed.
        failure: Failure,
    },
    /// The operating system granted no thread or timer.
    System(io::Error),
    /// The run was stopped before the first request was due.
    Stopped,
}

/// Carries out a plan and returns when its last request is answered or given up. Blocks; all work
/// is done on one new thread.
///
/// Sending ends with the schedule; requests that are late by then are still sent for up to one
/// second. After that the run waits for answers for at most [`Plan::timeout`]. Once begun, a run
/// always ends with a report, whatever the server does.
///
/// # Errors
///
/// When the run could not begin: see [`RunError`].
pub fn run(plan: Plan, stop: &Stop) -> Result<Report, RunError> {
    let stop = stop.clone();
    let thread = thread::Builder::new()
        .name("flowgate-load".to_owned())
        .spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
                .map_err(RunError::System)?;
            runtime.block_on(drive(plan, stop))
        })
        .map_err(RunError::System)?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

async fn drive(plan: Plan, stop: Stop) -> Result<Report, RunError> {
    let pacer = Pacer::new().map_err(RunError::System)?;
    let (shared, warmth) = tokio::select! {
        biased;
        () = stop.stopped() => return Err(RunError::Stopped),
        warm = warm_up(&plan) => warm?,
    };

    // A task of its own, as waking the runtime's root future takes a system call and waking a task
    // none.
    let start = Instant::now() + LEAD_IN;
    shared
        .measurement
        .borrow_mut()
        .begin(start, plan.schedule.span());
    let schedule = plan.schedule.clone();
    let dispatcher = dispatch(shared.clone(), schedule, pacer, start, stop.clone());
    if let Err(error) = tokio::task::spawn_local(dispatcher).await
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
    drain(&shared, &stop).await;

    let mut measurement = shared.measurement.borrow_mut();
    for slot in shared.pool.slots() {
        if let Some((job, sent)) = slot.abandon() {
            measurement.abandoned(job.due, sent);
        }
    }
    Ok(Report {
        target: plan.target.to_string(),
        own_origin: plan.own_origin,
        schedule: plan.schedule.clone(),
        counts: measurement.counts.clone(),
        timeline: measurement.timeline.clone(),
        span: measurement.span(),
        lag: measurement.lag(),
        response: measurement.response(),
        service: measurement.service(),
        connections: Connections {
            allowed: count(plan.connections.get().min(MAX_CONNECTIONS)),
            most_busy: count(shared.pool.peak_busy()),
            longest_wait: measurement.longest_queued,
            missing: warmth.missing,
            why_missing: warmth.why_missing,
        },
        is_interrupted: stop.is_stopped(),
    })
}

/// How warming up went, when not every connection opened.
#[derive(Default)]
struct Warmth {
    missing: u64,
    why_missing: Option<Failure>,
}

/// Opens the connections, and starts the task behind each. At least one must open.
async fn warm_up(plan: &Plan) -> Result<(Rc<Shared>, Warmth), RunError> {
    let wanted = plan.connections.get().min(MAX_CONNECTIONS);
    // A connection that no request could use is not opened.
    let slots = usize::try_from(plan.schedule.len()).map_or(wanted, |len| len.min(wanted));
    let pool = Pool::new(slots);
    let first_sent_at = pool.slot(0).sent_at.clone();
    let (address, first) = reach(&plan.target, plan.timeout, first_sent_at).await?;
    let shared = Rc::new(Shared {
        address,
        request: plan.template.to_request(&plan.target),
        timeout: plan.timeout,
        pool,
        measurement: RefCell::new(Measurement::new(plan.schedule.len())),
    });

    let turns = Rc::new(Semaphore::new(OPENED_AT_ONCE));
    let mut opening = JoinSet::new();
    for id in 1..slots {
        let (turns, limit) = (turns.clone(), plan.timeout);
        let sent_at = shared.pool.slot(id).sent_at.clone();
        opening.spawn_local(async move {
            // Nobody closes the semaphore.
            let _turn = turns.acquire().await;
            (id, open(address, limit, sent_at).await)
        });
    }
    let mut opened = vec![(0, Ok(first))];
    opened.extend(opening.join_all().await);

    let mut warmth = Warmth::default();
    // The stack of free connections then begins with the first.
    opened.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    for (id, connection) in opened {
        if let Err(failure) = connection {
            warmth.missing += 1;
            warmth.why_missing = Some(failure);
        }
        tokio::task::spawn_local(serve(shared.clone(), id, connection.ok()));
    }
    Ok((shared, warmth))
}

/// The target's first address that accepts a connection, and the connection.
async fn reach(
    target: &Target,
    limit: Duration,
    sent_at: SentAt,
) -> Result<(SocketAddr, Connection), RunError> {
    let unresolved = |reason: String| RunError::Resolve {
        host: target.host().to_owned(),
        reason,
    };
    let addresses = timeout(limit, lookup_host((target.host(), target.port())))
        .await
        .map_err(|_| unresolved(format!("no answer within {limit:?}")))?
        .map_err(|error| unresolved(error.to_string()))?;
    let mut refusal = unresolved("it has no address".to_owned());
    for address in addresses {
        match open(address, limit, sent_at.clone()).await {
            Ok(connection) => return Ok((address, connection)),
            Err(failure) => refusal = RunError::Connect { address, failure },
        }
    }
    Err(refusal)
}

async fn open(
    address: SocketAddr,
    limit: Duration,
    sent_at: SentAt,
) -> Result<Connection, Failure> {
    timeout(limit, Connection::open(address, sent_at))
        .await
        .unwrap_or(Err(Failure::Timeout))
}

/// Hands every request to a connection when it is due, or as soon after as one is free.
async fn dispatch(
    shared: Rc<Shared>,
    schedule: Schedule,
    mut pacer: Pacer,
    start: Instant,
    stop: Stop,
) {
    let mut stopped = pin!(stop.stopped());
    let at = |offset: Option<Duration>| start.checked_add(offset?);
    let last_call = at(schedule.span().checked_add(LATE_SENDS));
    for offset in schedule.times() {
        let Some(due) = at(Some(offset)) else {
            return;
        };
        tokio::select! {
            biased;
            () = &mut stopped => return,
            () = pacer.sleep_until(due) => {}
        }
        if last_call.is_some_and(|last_call| Instant::now() > last_call) {
            return;
        }
        shared.measurement.borrow_mut().timeline.is_due(offset);
        let job = Job { due };
        if shared.pool.hand_over(job) {
            continue;
        }
        let was_handed_over = tokio::select! {
            biased;
            () = &mut stopped => false,
            () = sleep_past(last_call) => false,
            () = shared.pool.hand_over_when_free(job) => true,
        };
        shared.measurement.borrow_mut().queued(due.elapsed());
        if !was_handed_over {
            return;
        }
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
async fn drain(shared: &Shared, stop: &Stop) {
    tokio::select! {
        () = shared.pool.idle() => {}
        () = async {
            stop.stopped().await;
            sleep(STOPPED_DRAIN).await;
        } => {}
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Resolve { host, reason } => {
                write!(f, "cannot find the host {host:?}: {reason}")
            }
            RunError::Connect { address, failure } => {
                write!(f, "cannot connect to {address}: {failure}")
            }
            RunError::System(error) => write!(f, "cannot start: {error}"),
            RunError::Stopped => f.write_str("stopped before the first request"),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RunError::System(error) => Some(error),
            _ => None,
        }
    }
}
