//! A run as a whole: sending threads that share nothing, and one thread that reads their events.
//!
//! ```text
//!   run ──▶ shard 0: requests 0, 2, 4, …  ──╮ events, in batches
//!       ──▶ shard 1: requests 1, 3, 5, …  ──┴──▶ Measurement (on a thread of its own) ──▶ Report
//!                                                      ╰─ ten times a second ──▶ Progress, to who called run
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::io;
use std::iter::{Peekable, Skip, StepBy};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::net::lookup_host;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::connection::{ConnectOptions, HostAddress, Peer, TlsError, Via};
use crate::decoder::{Bodies, Decoder};
use crate::event::Batch;
use crate::failure::Failure;
use crate::find::blocks::Blocks;
use crate::measurement::Measurement;
use crate::plan::{MAX_CONNECTIONS, Pace, Plan};
use crate::prepared::Prepared;
use crate::progress::Progress;
use crate::report::{Connections, Provenance, Report};
use crate::request_log::RequestLog;
use crate::shard::{Link, Part, Start, Warmth};
use crate::slice::Slice;
use crate::stop::Stop;
use crate::target::Target;
use flowgate_schedule::Times;

/// Time between the end of warming up and the first request, in which every task gets ready.
const LEAD_IN: Duration = Duration::from_millis(5);
/// Rate that one thread paces easily.
const REQUESTS_A_THREAD: f64 = 20_000.0;
/// Interval of progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
const LOOKS_A_SECOND: usize = 10;

/// Error that prevents a run from starting.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Plan, RunError, Schedule, Stop, Target};
///
/// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
/// let mut plan = Plan::new(Target::parse("http://127.0.0.1:8080/")?, schedule);
/// plan.targets.push(Target::parse("http://127.0.0.1:9090/")?);
/// match flowgate_load::run(plan, &Stop::new()) {
///     Err(RunError::Targets(reason)) => println!("{reason}"), // two hosts, so nothing was sent
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The host name has no address, or the lookup failed.
    Resolve {
        /// The host.
        host: String,
        /// Message of the resolver.
        reason: String,
    },
    /// No connection could be opened.
    Connect {
        /// Last address that was tried.
        address: Peer,
        /// How the connection failed.
        failure: Failure,
    },
    /// TLS could not be set up.
    Tls(TlsError),
    /// There is no target, or two targets differ in host or port, or there are too many servers.
    Targets(String),
    /// The start of the [slice](crate::Plan::slice) has passed, or there is no time left to get ready for it.
    TooLate,
    /// The operating system refused a thread or a timer.
    System(io::Error),
    /// The run was stopped before the scheduled time of the first request.
    Stopped,
}

/// Runs a plan, and returns the report when its last request is complete or abandoned. Blocks.
///
/// Sending ends with the schedule. Late requests are still sent for up to one second. The run then waits for responses
/// for at most [`Plan::timeout`]. A run that has started always ends with a report, whatever the server does.
///
/// # Errors
///
/// Returns a [`RunError`] if the run could not start.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!((report.counts.sent, report.counts.statuses.success), (3, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(plan: Plan, stop: &Stop) -> Result<Report, RunError> {
    run_watched(plan, stop, |_| {})
}

/// Runs a plan like [`run`], and calls `watch` about ten times per second.
///
/// `watch` runs on the calling thread, which neither sends nor counts. If `watch` is slow, requests are still sent on
/// time, but `watch` misses some progress reports.
///
/// # Errors
///
/// Returns a [`RunError`] if the run could not start.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, Progress, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let mut last = Progress::default();
/// let report = flowgate_load::run_watched(plan, &Stop::new(), |progress| last = progress.clone())?;
/// assert_eq!(last.sent, report.counts.sent); // how it ended is seen in any case
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_watched(
    plan: Plan,
    stop: &Stop,
    watch: impl FnMut(&Progress),
) -> Result<Report, RunError> {
    carry_out(plan, stop, None, None, watch).map(|(report, _)| report)
}

/// Runs a plan like [`run_watched`], and passes each request to `log`.
///
/// The run never waits for the log. [`RequestLog::finish`] does.
///
/// # Errors
///
/// Returns a [`RunError`] if the run could not start.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, RequestLog, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let log = RequestLog::new(std::io::sink())?;
/// let report = flowgate_load::run_logged(plan, &Stop::new(), |_| {}, &log)?;
/// assert_eq!((report.counts.sent, log.finish()?), (3, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_logged(
    plan: Plan,
    stop: &Stop,
    watch: impl FnMut(&Progress),
    log: &RequestLog,
) -> Result<Report, RunError> {
    carry_out(plan, stop, None, Some(log), watch).map(|(report, _)| report)
}

/// Runs a plan like [`run_watched`], and also counts in `blocks`.
pub(crate) fn run_in_blocks(
    plan: Plan,
    stop: &Stop,
    blocks: Blocks,
    watch: impl FnMut(&Progress),
) -> Result<(Report, Blocks), RunError> {
    let (report, blocks) = carry_out(plan, stop, Some(blocks), None, watch)?;
    Ok((report, blocks.expect("a measurement keeps its blocks")))
}

fn carry_out(
    plan: Plan,
    stop: &Stop,
    blocks: Option<Blocks>,
    log: Option<&RequestLog>,
    watch: impl FnMut(&Progress),
) -> Result<(Report, Option<Blocks>), RunError> {
    let plan = Arc::new(plan);
    plan.check_slice()?;
    if let Some(slice) = plan.slice {
        wait(slice.wait(plan.warm_up), stop)?;
        slice.start(plan.warm_up)?;
    }
    let prepared = Arc::new(Prepared::new(&plan, stop)?);
    let threads = threads(&plan);
    let decoder = plan.decode.then(Decoder::start).transpose();
    let decoder = decoder.map_err(RunError::System)?;
    let bodies = decoder.as_ref().map(Decoder::bodies);
    let launched = launch(&plan, &prepared, threads, bodies, stop)?;

    let asked = plan.asked();
    let mut measurement = Measurement::new(&plan, &asked, threads);
    measurement.blocks = blocks;
    let (shards, warmth) = (launched.shards, launched.warmth);
    let provenance = Provenance::now();
    count_while_sending(&plan, launched.starts, &mut measurement, watch, log)?;
    let most_busy: usize = shards
        .into_iter()
        .map(|shard| shard.join().unwrap_or_else(|panic| resume_unwind(panic)))
        .map(Option::unwrap_or_default)
        .sum();

    measurement.counts.decoded = decoder.map(Decoder::finish);

    let [lag, response, service] = measurement.durations().map(|durations| durations.spread());
    let report = Report {
        target: prepared.target.clone(),
        own_origin: plan.own_origin,
        asked,
        span: measurement.span(),
        pacing: measurement.sends.pacing(),
        lag,
        response,
        service,
        curves: measurement.curves(),
        percentiles: measurement.percentiles(&plan.percentiles),
        timeline: measurement.timeline(),
        detail: measurement.detail(),
        connections: Connections {
            connections: count(warmth.connections),
            allowed: count(warmth.places),
            most_busy: count(most_busy),
            longest_wait: measurement.longest_queued,
            missing: warmth.missing,
            why_missing: warmth.why_missing,
        },
        counts: measurement.counts,
        is_interrupted: stop.is_stopped(),
        provenance,
    };
    Ok((report, measurement.blocks))
}

/// Threads that are warm and wait for the start.
struct Launched {
    shards: Vec<JoinHandle<Option<usize>>>,
    starts: Vec<oneshot::Sender<Start>>,
    warmth: Warmth,
}

/// Starts the sending threads, and waits until they have opened their connections.
fn launch(
    plan: &Arc<Plan>,
    prepared: &Arc<Prepared>,
    threads: usize,
    bodies: Option<Bodies>,
    stop: &Stop,
) -> Result<Launched, RunError> {
    let requests = plan.requests().unwrap_or(u64::MAX);
    let left = Arc::new(AtomicU64::new(requests));
    let requests = usize::try_from(requests).unwrap_or(usize::MAX);
    let (ready, is_ready) = mpsc::channel();
    let mut launched = Launched {
        shards: Vec::with_capacity(threads),
        starts: Vec::with_capacity(threads),
        warmth: Warmth::default(),
    };
    for shard in 0..threads {
        let (start, starting) = oneshot::channel();
        // If the division leaves a rest, the first threads have one more each.
        let share_of = |whole: usize| whole.saturating_sub(shard).div_ceil(threads);
        let part = Part {
            plan: plan.clone(),
            prepared: prepared.clone(),
            shard,
            shards: threads,
            // No thread uses another's connection.
            connections: share_of(connections(plan)),
            requests: share_of(requests),
            left: left.clone(),
            bodies: bodies.clone(),
            stop: stop.clone(),
        };
        let line = Link {
            ready: ready.clone(),
            start: starting,
        };
        let thread = thread::Builder::new().name(format!("flowgate-load-{shard}"));
        let thread = thread.spawn(move || part.run(line));
        launched.shards.push(thread.map_err(RunError::System)?);
        launched.starts.push(start);
    }
    drop(ready);
    for outcome in is_ready {
        // Dropping the starters ends the threads that wait for the start.
        let warmth = outcome?;
        launched.warmth.add(warmth);
    }
    Ok(launched)
}

/// Starts the run, and reads its events on a separate thread. So a caller that blocks, such as a stopped terminal,
/// delays nothing.
fn count_while_sending(
    plan: &Plan,
    starts: Vec<oneshot::Sender<Start>>,
    measurement: &mut Measurement,
    mut watch: impl FnMut(&Progress),
    log: Option<&RequestLog>,
) -> Result<(), RunError> {
    let pace = &plan.pace;
    let (reader, batches) = mpsc::channel();
    let at = match plan.slice {
        None => Instant::now() + LEAD_IN + plan.warm_up,
        Some(slice) => slice.start(plan.warm_up)?,
    };
    for start in starts {
        let reader = reader.clone();
        // A thread that is gone has panicked, which `join` reports.
        let _ = start.send(Start { at, reader });
    }
    drop(reader);
    let (teller, told) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        let counting = thread::Builder::new().name("flowgate-load-count".to_owned());
        let counting = counting.spawn_scoped(scope, move || {
            let mut scheduled = ScheduledByNow::of(plan);
            read(&batches, measurement, log, |measurement, is_last| {
                let elapsed = at.elapsed();
                scheduled.look(elapsed);
                let mut progress = measurement.progress(elapsed, pace.span(), scheduled.by_ticks());
                progress.warm_up_left = at.saturating_duration_since(Instant::now());
                // The watcher may miss some progress reports, but not the last.
                match is_last {
                    true => drop(teller.send(progress)),
                    false => drop(teller.try_send(progress)),
                }
            });
        });
        let counting = counting.map_err(RunError::System)?;
        told.iter().for_each(|progress| watch(&progress));
        counting.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok(())
    })
}

/// Reads the events of the threads until all have ended.
fn read(
    batches: &mpsc::Receiver<Batch>,
    measurement: &mut Measurement,
    log: Option<&RequestLog>,
    mut tell: impl FnMut(&mut Measurement, bool),
) {
    let mut next = Instant::now() + PROGRESS_EVERY;
    loop {
        match batches.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(batch) => {
                measurement.take_down(&batch);
                if let Some(log) = log {
                    log.offer(batch.events);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= next {
            tell(measurement, false);
            next = Instant::now() + PROGRESS_EVERY;
        }
    }
    measurement.end();
    tell(measurement, true);
}

/// Number of requests scheduled until now. A sender reports each only when it is about to send it.
struct ScheduledByNow<'a> {
    times: Option<Peekable<StepBy<Skip<Times<'a>>>>>,
    /// Numbers at the last readings, the newest last.
    seen: VecDeque<u64>,
}

impl<'a> ScheduledByNow<'a> {
    /// Only a schedule has requests that are scheduled before they are sent.
    fn of(plan: &'a Plan) -> ScheduledByNow<'a> {
        let (first, step) = Slice::indices(plan.slice, 0, 1);
        ScheduledByNow {
            times: match &plan.pace {
                Pace::Hold(schedule) => Some(schedule.times().skip(first).step_by(step).peekable()),
                Pace::Under(..) | Pace::Unpaced(_) => None,
            },
            seen: VecDeque::from([0]),
        }
    }

    fn look(&mut self, elapsed: Duration) {
        let Some(times) = &mut self.times else {
            return;
        };
        let mut scheduled = self.seen.back().copied().unwrap_or(0);
        while times.next_if(|&time| time <= elapsed).is_some() {
            scheduled += 1;
        }
        self.seen.push_back(scheduled);
        if self.seen.len() > LOOKS_A_SECOND + 1 {
            self.seen.pop_front();
        }
    }

    /// Returns the number scheduled until now, and the rate over the last second; `None` without a schedule.
    fn by_ticks(&self) -> Option<(u64, f64)> {
        self.times.as_ref()?;
        let (first, last) = (*self.seen.front()?, *self.seen.back()?);
        let looks = (self.seen.len() - 1).max(1);
        Some((
            last,
            (last - first) as f64 * LOOKS_A_SECOND as f64 / looks as f64,
        ))
    }
}

/// Waits, unless the run is stopped. Blocks.
fn wait(time: Duration, stop: &Stop) -> Result<(), RunError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(RunError::System)?.block_on(async {
        tokio::select! {
            biased;
            () = stop.stopped() => Err(RunError::Stopped),
            () = tokio::time::sleep(time) => Ok(()),
        }
    })
}

/// Resolves the host to connect to, to at least one address.
pub(crate) fn resolve(
    target: &Target,
    options: &ConnectOptions,
    stop: &Stop,
) -> Result<Vec<Peer>, RunError> {
    let limit = options.timeout;
    let (host, port) = match (&options.proxy, &options.via) {
        (Some(proxy), _) => (proxy.host.as_str(), proxy.port),
        (None, None) => (target.host(), target.port()),
        (None, Some(Via::Host { host, port })) => (host.as_str(), *port),
        #[cfg(unix)]
        (None, Some(Via::Socket(path))) => return Ok(vec![Peer::Unix(path.clone())]),
    };
    let is_it = |known: &&HostAddress| known.port == port && known.host.eq_ignore_ascii_case(host);
    if let Some(known) = options.addresses.iter().find(is_it)
        && options.proxy.is_none()
    {
        return Ok(vec![Peer::Tcp((known.address, port).into())]);
    }
    let unresolved = |reason: String| RunError::Resolve {
        host: host.to_owned(),
        reason,
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::System)?;
    let looked_up = runtime.block_on(async {
        let looking_up = lookup_host((host, port));
        tokio::select! {
            biased;
            () = stop.stopped() => None,
            found = timeout(limit, looking_up) => Some(found.map(|found| found.map(Vec::from_iter))),
        }
    });
    // Do not wait for a resolver that does not respond.
    runtime.shutdown_background();
    let addresses = looked_up
        .ok_or(RunError::Stopped)?
        .map_err(|_| unresolved(format!("no response within {limit:?}")))?
        .map_err(|error| unresolved(error.to_string()))?;
    let addresses: Vec<Peer> = addresses.into_iter().map(Peer::from).collect();
    match addresses.is_empty() {
        true => Err(unresolved("the name has no address".to_owned())),
        false => Ok(addresses),
    }
}

/// Returns whether a server is on this machine, and a proxy to it as well.
pub(crate) fn is_local(
    target: &Target,
    options: &ConnectOptions,
    stop: &Stop,
) -> Result<bool, RunError> {
    let is_here = resolve(target, options, stop)?.iter().all(Peer::is_local);
    if options.proxy.is_none() || !is_here {
        return Ok(is_here);
    }
    let direct = ConnectOptions {
        proxy: None,
        via: None,
        addresses: Vec::new(),
        ..options.clone()
    };
    // A name that only the proxy knows is not that of this machine.
    Ok(resolve(target, &direct, stop).is_ok_and(|addresses| addresses.iter().all(Peer::is_local)))
}

/// Returns the maximum number of connections to each server.
pub(crate) fn connections(plan: &Plan) -> usize {
    plan.connections.get().min(MAX_CONNECTIONS)
}

/// Returns the number of sending threads: at most one per usable connection.
fn threads(plan: &Plan) -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let wanted = match &plan.pace {
        // Each send depends on the one before.
        Pace::Under(..) => return 1,
        _ if plan.threads.is_some() => plan.threads.map_or(1, usize::from),
        Pace::Hold(schedule) => {
            let slices = plan.slice.map_or(1, |slice| slice.count);
            let rate = schedule.highest_per_second().unwrap_or(0.0) / slices as f64;
            ((rate / REQUESTS_A_THREAD).ceil() as usize).clamp(1, processors)
        }
        Pace::Unpaced(_) => processors,
    };
    let useful = plan.requests().map_or(usize::MAX, |requests| {
        usize::try_from(requests).map_or(usize::MAX, |requests| requests.div_ceil(plan.streams()))
    });
    wanted.min(connections(plan)).min(useful)
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
                write!(f, "cannot connect to {address}: {failure}")?;
                match failure.advice() {
                    Some(advice) => write!(f, "; {advice}"),
                    None => Ok(()),
                }
            }
            RunError::Tls(error) => error.fmt(f),
            RunError::Targets(reason) => f.write_str(reason),
            RunError::TooLate => f.write_str(
                "the time of --start-at has passed: write a later one, at least 10 s from now",
            ),
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
