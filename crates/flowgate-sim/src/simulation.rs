//! Simulations: traffic, a server, its faults, and how long a run may take.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use flowgate::ManualClock;

use crate::outcome::RunOutcome;
use crate::policy::AdmissionPolicy;
use crate::run::Run;
use crate::server::{Fault, Server};
use crate::traffic::Traffic;

/// The most events of a run, unless set.
const MAX_EVENTS: u64 = 1_000_000_000;
/// The most operations in flight, and the most events to come, unless set.
const MAX_PENDING: usize = 4_000_000;

/// Traffic, a server, and the faults of the server.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use flowgate_schedule::Schedule;
/// use flowgate_sim::{Arrivals, LimiterPolicy, Simulation, Traffic};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let schedule = Schedule::lasting("150/s".parse()?, Duration::from_secs(30))?;
/// let simulation = Simulation::new(1, Duration::from_secs(30))
///     .traffic(Traffic::new("users", Arrivals::Scheduled(schedule)));
/// let outcome = simulation.run("100/s", |time| {
///     let limiter = TokenBucket::builder("100/s burst 20".parse()?).clock(time).build()?;
///     Ok::<_, flowgate::QuotaError>(LimiterPolicy::rate(Arc::new(limiter)))
/// })?;
/// assert_eq!(outcome.counts.operations, 4_500);
/// assert_eq!(outcome.counts.admitted, 3_019);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) drain: Duration,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) server: Option<Server>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) windows: Vec<Duration>,
    pub(crate) max_events: u64,
    pub(crate) max_pending: usize,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    pub(crate) progress: Option<OnProgress>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunProgress {
    /// How many events there were.
    pub events: u64,
    /// The time since the start of the run.
    pub now: Duration,
}

#[derive(Clone)]
pub(crate) struct OnProgress(Arc<dyn Fn(RunProgress) + Send + Sync>);

impl OnProgress {
    pub(crate) fn call(&self, progress: RunProgress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress")
    }
}

impl Simulation {
    /// Creates a simulation without traffic, in which requests arrive for `duration`.
    pub fn new(seed: u64, duration: Duration) -> Self {
        Self {
            seed,
            duration,
            drain: duration,
            traffic: Vec::new(),
            server: None,
            faults: Vec::new(),
            windows: Vec::new(),
            max_events: MAX_EVENTS,
            max_pending: MAX_PENDING,
            interrupt: None,
            progress: None,
        }
    }

    /// Adds a source of requests.
    pub fn traffic(mut self, traffic: Traffic) -> Self {
        self.traffic.push(traffic);
        self
    }

    /// Sets the server (default: none, and requests are served immediately).
    pub fn server(mut self, server: Server) -> Self {
        self.server = Some(server);
        self
    }

    /// Adds a fault of the server.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Sets how long the run goes on after the last arrival (default: the duration).
    ///
    /// Requests in flight end in this time, or count as unfinished.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Watches for the window of this length with the most tokens (default: none).
    ///
    /// The outcome compares it with what the policy guarantees for this length. The watch keeps up to four million admissions.
    pub fn watch_window(mut self, length: Duration) -> Self {
        self.windows.push(length);
        self
    }

    /// Ends each run after this many events (default: 10⁹). Its outcome reports that.
    pub fn max_events(mut self, events: u64) -> Self {
        self.max_events = events;
        self
    }

    /// Ends each run when this many operations or events are pending (default: 4,000,000).
    ///
    /// This bounds its memory. An operation takes about 200 bytes, and a wait for a limiter about as much again. The outcome
    /// reports that the run was ended.
    pub fn max_pending(mut self, operations: usize) -> Self {
        self.max_pending = operations.min(u32::MAX as usize);
        self
    }

    /// Ends each run soon after `is_interrupted` is set, with the outcome so far.
    pub fn interrupt(mut self, is_interrupted: Arc<AtomicBool>) -> Self {
        self.interrupt = Some(is_interrupted);
        self
    }

    /// Sets a function that each run calls every few thousand events.
    pub fn on_progress(mut self, call: impl Fn(RunProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(OnProgress(Arc::new(call)));
        self
    }

    /// Runs the simulation with the policy that `policy` makes for the clock it is given.
    ///
    /// The same simulation with another policy has the same requests, at the same times, with the same keys and the same work.
    ///
    /// # Errors
    ///
    /// That of `policy`.
    pub fn run<P: AdmissionPolicy, E>(
        &self,
        name: &str,
        policy: impl FnOnce(&ManualClock) -> Result<P, E>,
    ) -> Result<RunOutcome, E> {
        let time = ManualClock::new();
        let policy = policy(&time)?;
        Ok(Run::new(self, time, policy).complete(name))
    }
}
