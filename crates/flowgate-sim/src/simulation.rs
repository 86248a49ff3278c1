//! The run: events in the order of their times, on a clock that stands still between them.
//!
//! ```text
//!  traffic ──▶ attempt ──▶ policy ──▶ server ──▶ answer
//!                ▲           │ refused / failed     │
//!                └─ backoff ◀┴──────────────────────┘
//! ```
//!
//! The clock is moved to the next time at which anything happens: an event, the end of a service, or a waiter of a limiter that
//! asked to be woken. Waiters come first, in the order in which their wakers were woken; then the server; then the events.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use flowgate::{Denied, ManualClock, Timestamp};
use flowgate_schedule::Times;

use crate::agenda::Agenda;
use crate::outcome::{KeyCounts, Latency, OutcomeCounts, RunHash, RunOutcome, TimeSlot};
use crate::policy::{AdmissionPolicy, Decision, Held, Request, Wait};
use crate::random::{Entity, Random};
use crate::server::{Done, Fault, Faults, Job, Offered, Running, Server};
use crate::traffic::{Arrivals, Recorded, Traffic};

/// How many slots the course of a run has.
const SLOTS: u64 = 200;

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
    seed: u64,
    duration: Duration,
    drain: Duration,
    traffic: Vec<Traffic>,
    server: Option<Server>,
    faults: Vec<Fault>,
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

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next request of a source.
    Arrival(usize),
    /// An operation asks, for the first time or again.
    Attempt(Ticket),
    /// The client of an operation gives up.
    Deadline(Ticket),
    /// The client of an operation gives up the attempt of this number.
    Timeout(Ticket, u32),
    /// The answer to an operation is back, after the delay.
    Answer(Ticket),
    /// A user has thought.
    Thought { source: usize },
}

/// An operation in flight. The slot is used again, with another turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket {
    slot: usize,
    turn: u32,
}

struct Operation {
    turn: u32,
    source: usize,
    /// Of all operations of the source.
    number: u64,
    key: u64,
    cost: u64,
    begun_ns: u64,
    deadline_ns: u64,
    attempt: u32,
    admitted_ns: u64,
    asked_ns: u64,
    held: Held,
    wait: Option<Wait>,
    /// The server has it.
    is_in_flight: bool,
    /// Its client goes on without the answer to this attempt.
    is_abandoned: bool,
    /// Its client has an answer, or has given up; what is left is wasted work.
    is_over: bool,
}

/// Where the next request of a source comes from.
enum Feed<'a> {
    Scheduled(Times<'a>),
    Recorded(std::slice::Iter<'a, Recorded>),
    Closed,
}

struct Source<'a> {
    traffic: &'a Traffic,
    feed: Feed<'a>,
    keys: Random,
    clients: Random,
    begun: u64,
    /// Retries that the budget has left.
    budget: f64,
}

/// The most retries that a budget saves up.
const MOST_SAVED: f64 = 10.0;

struct Run<'a, P> {
    simulation: &'a Simulation,
    time: ManualClock,
    policy: P,
    agenda: Agenda<Event>,
    server: Option<Running>,
    sources: Vec<Source<'a>>,
    operations: Vec<Operation>,
    free: Vec<usize>,
    woken: Arc<Mutex<VecDeque<Ticket>>>,
    now_ns: u64,
    counts: OutcomeCounts,
    latency: Latency,
    wait: Latency,
    slots: Vec<TimeSlot>,
    slot_ns: u64,
    keys: BTreeMap<u64, KeyCounts>,
    hash: RunHash,
    events: u64,
}

impl<'a, P: AdmissionPolicy> Run<'a, P> {
    fn new(simulation: &'a Simulation, time: ManualClock, policy: P) -> Self {
        let faults = Faults::new(&simulation.faults);
        let seed = simulation.seed;
        let sources = simulation
            .traffic
            .iter()
            .enumerate()
            .map(|(index, traffic)| Source {
                traffic,
                feed: match &traffic.arrivals {
                    Arrivals::Scheduled(schedule) => Feed::Scheduled(schedule.times()),
                    Arrivals::Recorded(recorded) => Feed::Recorded(recorded.iter()),
                    Arrivals::Closed { .. } => Feed::Closed,
                },
                keys: Random::new(seed, Entity::Keys, index as u64),
                clients: Random::new(seed, Entity::Clients, index as u64),
                begun: 0,
                budget: MOST_SAVED,
            });
        let duration_ns = nanos(simulation.duration);
        Self {
            simulation,
            time,
            policy,
            agenda: Agenda::new(),
            server: simulation
                .server
                .as_ref()
                .map(|server| Running::new(server, &faults)),
            sources: sources.collect(),
            operations: Vec::new(),
            free: Vec::new(),
            woken: Arc::default(),
            now_ns: 0,
            counts: OutcomeCounts::default(),
            latency: Latency::new(),
            wait: Latency::new(),
            slots: Vec::new(),
            slot_ns: duration_ns.div_ceil(SLOTS).max(1),
            keys: BTreeMap::new(),
            hash: RunHash::new(),
            events: 0,
        }
    }

    fn complete(mut self, name: &str) -> RunOutcome {
        self.begin();
        let end_ns = nanos(
            self.simulation
                .duration
                .saturating_add(self.simulation.drain),
        );
        let mut ended_ns = 0;
        while let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= end_ns) {
            self.now_ns = at_ns;
            self.time.set(Timestamp::from_nanos(at_ns));
            self.poll_woken();
            self.run_server();
            while self.agenda.next_ns() == Some(at_ns) {
                let Some((_, event)) = self.agenda.pop() else {
                    break;
                };
                self.events += 1;
                if !matches!(event, Event::Deadline(_) | Event::Timeout(..)) {
                    ended_ns = at_ns;
                }
                self.handle(event);
                self.poll_woken();
            }
        }
        self.counts.unfinished = self
            .operations
            .iter()
            .filter(|operation| !operation.is_over)
            .count() as u64;
        RunOutcome {
            policy: name.to_owned(),
            duration: self.simulation.duration,
            ended: Duration::from_nanos(ended_ns),
            counts: self.counts,
            latency: self.latency,
            wait: self.wait,
            slots: self.slots,
            slot: Duration::from_nanos(self.slot_ns),
            keys: self.keys,
            events: self.events,
            hash: self.hash.finish(),
        }
    }

    /// The first event of each source.
    fn begin(&mut self) {
        for source in 0..self.sources.len() {
            match &self.sources[source].traffic.arrivals {
                Arrivals::Closed { users, think } => {
                    for _ in 0..*users {
                        let think_ns = think.draw(&mut self.sources[source].clients);
                        self.agenda.enter(think_ns, Event::Thought { source });
                    }
                }
                _ => self.expect_arrival(source),
            }
        }
    }

    /// The next time at which anything happens.
    fn next_ns(&self) -> Option<u64> {
        let woken_ns = self.time.next_wake().map(Timestamp::as_nanos);
        let served_ns = self.server.as_ref().and_then(Running::next_ns);
        [self.agenda.next_ns(), woken_ns, served_ns]
            .into_iter()
            .flatten()
            .min()
            .map(|at_ns| at_ns.max(self.now_ns))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(source) => {
                let (key, cost) = self.drawn(source);
                self.begin_operation(source, key, cost);
                self.expect_arrival(source);
            }
            Event::Thought { source } => {
                if self.now_ns < nanos(self.simulation.duration) {
                    let (key, cost) = self.drawn(source);
                    self.begin_operation(source, key, cost);
                }
            }
            Event::Attempt(ticket) => self.attempt(ticket),
            Event::Deadline(ticket) => self.give_up(ticket),
            Event::Timeout(ticket, attempt) => self.give_up_attempt(ticket, attempt),
            Event::Answer(ticket) => self.answer(ticket, true),
        }
    }

    /// Enters the next arrival of a source, if there is one.
    fn expect_arrival(&mut self, source: usize) {
        let at = match &mut self.sources[source].feed {
            Feed::Scheduled(times) => times.next(),
            Feed::Recorded(recorded) => recorded.as_slice().first().map(|next| next.at),
            Feed::Closed => None,
        };
        if let Some(at) = at.filter(|at| *at < self.simulation.duration) {
            self.agenda.enter(nanos(at), Event::Arrival(source));
        }
    }

    /// The key and the cost of the next operation.
    fn drawn(&mut self, source: usize) -> (u64, u64) {
        let source = &mut self.sources[source];
        if let Feed::Recorded(recorded) = &mut source.feed
            && let Some(next) = recorded.next()
        {
            return (next.key, next.cost);
        }
        (
            source.traffic.keys.draw(&mut source.keys),
            source.traffic.cost,
        )
    }

    fn begin_operation(&mut self, index: usize, key: u64, cost: u64) {
        let source = &mut self.sources[index];
        let number = source.begun;
        source.begun += 1;
        if let Some(share) = source.traffic.retries.and_then(|retries| retries.budget) {
            source.budget = (source.budget + share).min(MOST_SAVED);
        }
        let deadline = source.traffic.deadline;
        let deadline_ns = deadline.map_or(u64::MAX, |deadline| {
            self.now_ns.saturating_add(nanos(deadline))
        });
        let operation = Operation {
            turn: 0,
            source: index,
            number,
            key,
            cost,
            begun_ns: self.now_ns,
            deadline_ns,
            attempt: 0,
            admitted_ns: 0,
            asked_ns: 0,
            held: Held::nothing(),
            wait: None,
            is_in_flight: false,
            is_abandoned: false,
            is_over: false,
        };
        self.counts.operations += 1;
        let ticket = self.place(operation);
        self.attempt(ticket);
    }

    /// Gives an operation a slot, and enters its deadline.
    fn place(&mut self, operation: Operation) -> Ticket {
        let deadline_ns = operation.deadline_ns;
        let ticket = match self.free.pop() {
            Some(slot) => {
                let turn = self.operations[slot].turn.wrapping_add(1);
                self.operations[slot] = Operation { turn, ..operation };
                Ticket { slot, turn }
            }
            None => {
                self.operations.push(operation);
                Ticket {
                    slot: self.operations.len() - 1,
                    turn: 0,
                }
            }
        };
        if deadline_ns < u64::MAX {
            self.agenda.enter(deadline_ns, Event::Deadline(ticket));
        }
        ticket
    }

    /// The operation of `ticket`, if it is still in flight.
    fn operation(&mut self, ticket: Ticket) -> Option<&mut Operation> {
        let operation = &mut self.operations[ticket.slot];
        (operation.turn == ticket.turn).then_some(operation)
    }

    fn attempt(&mut self, ticket: Ticket) {
        let now_ns = self.now_ns;
        let Some(operation) = self
            .operation(ticket)
            .filter(|operation| !operation.is_over)
        else {
            return;
        };
        operation.attempt += 1;
        operation.asked_ns = now_ns;
        let request = request_of(operation, now_ns);
        self.counts.attempts += 1;
        self.slot().attempts += 1;
        self.keys.entry(request.key).or_default().attempts += 1;
        match self.policy.decide(&request) {
            Decision::Admit(held) => self.admitted(ticket, held),
            Decision::Refuse { retry_after } => self.refused(ticket, retry_after),
            Decision::Wait(wait) => {
                if let Some(operation) = self.operation(ticket) {
                    operation.wait = Some(wait);
                }
                self.poll(ticket, true);
            }
        }
    }

    /// Polls the wait of an operation.
    fn poll(&mut self, ticket: Ticket, is_first: bool) {
        let waker = Waker::from(Arc::new(WakeUp {
            ticket,
            woken: Arc::clone(&self.woken),
        }));
        let Some(operation) = self.operation(ticket) else {
            return;
        };
        let Some(mut wait) = operation.wait.take() else {
            return;
        };
        match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                operation.wait = Some(wait);
                if is_first {
                    self.counts.waited += 1;
                }
            }
            Poll::Ready(Ok(held)) => {
                let waited_ns = self.now_ns - self.operations[ticket.slot].asked_ns;
                if !is_first {
                    self.wait.record(waited_ns);
                }
                self.admitted(ticket, held);
            }
            Poll::Ready(Err(denied)) => {
                let retry_after = Denied::retry_after(&denied);
                self.refused(ticket, retry_after);
            }
        }
    }

    fn poll_woken(&mut self) {
        loop {
            let next = match self.woken.lock() {
                Ok(mut woken) => woken.pop_front(),
                Err(poisoned) => poisoned.into_inner().pop_front(),
            };
            let Some(ticket) = next else { return };
            self.events += 1;
            self.poll(ticket, false);
        }
    }

    fn admitted(&mut self, ticket: Ticket, held: Held) {
        let now_ns = self.now_ns;
        let seed = self.simulation.seed;
        let Some(operation) = self.operation(ticket) else {
            return;
        };
        operation.held = held;
        operation.admitted_ns = now_ns;
        operation.is_in_flight = true;
        let (key, deadline_ns) = (operation.key, operation.deadline_ns);
        let (source, number, attempt) = (operation.source, operation.number, operation.attempt);
        self.counts.admitted += 1;
        self.slot().admitted += 1;
        self.keys.entry(key).or_default().admitted += 1;
        self.hash.note(b'a', now_ns, number);
        let Some(server) = &self.simulation.server else {
            self.answer(ticket, true);
            return;
        };
        // The same whatever happened before.
        let entity = (source as u64) << 32 | u64::from(attempt);
        let mut random = Random::of(seed, Entity::Work, entity, number);
        let job = Job {
            request: ticket.slot,
            work_ns: server.service.draw(&mut random),
            deadline_ns,
        };
        let offered = match &mut self.server {
            Some(running) => running.offer(now_ns, job),
            None => Offered::Down,
        };
        match offered {
            Offered::Taken => {
                let retries = self.sources[source].traffic.retries;
                if let Some(timeout) = retries.and_then(|retries| retries.attempt_timeout) {
                    let at_ns = now_ns.saturating_add(nanos(timeout));
                    self.agenda.enter(at_ns, Event::Timeout(ticket, attempt));
                }
            }
            Offered::Full => {
                self.counts.queue_full += 1;
                self.failed(ticket);
            }
            Offered::Down => {
                self.counts.down += 1;
                self.failed(ticket);
            }
        }
    }

    fn run_server(&mut self) {
        let now_ns = self.now_ns;
        let Some(server) = &mut self.server else {
            return;
        };
        if server.next_ns().is_none_or(|next_ns| next_ns > now_ns) {
            return;
        }
        let mut done = Done::default();
        server.run(now_ns, &mut done);
        let delay_ns = self
            .simulation
            .server
            .as_ref()
            .map_or(0, |server| nanos(server.delay));
        for job in done.served {
            self.events += 1;
            let ticket = self.ticket_of(&job);
            match delay_ns {
                0 => self.answer(ticket, true),
                delay_ns => self
                    .agenda
                    .enter(now_ns.saturating_add(delay_ns), Event::Answer(ticket)),
            }
        }
        for job in done.expired {
            self.counts.expired += 1;
            self.failed(self.ticket_of(&job));
        }
        for job in done.lost {
            self.counts.down += 1;
            self.failed(self.ticket_of(&job));
        }
        self.poll_woken();
    }

    fn ticket_of(&self, job: &Job) -> Ticket {
        Ticket {
            slot: job.request,
            turn: self.operations[job.request].turn,
        }
    }

    /// The request of an operation that was admitted is over, served or not.
    fn release(&mut self, ticket: Ticket, is_served: bool) {
        let now_ns = self.now_ns;
        let operation = &mut self.operations[ticket.slot];
        let request = request_of(operation, now_ns);
        let took = Duration::from_nanos(now_ns - operation.admitted_ns);
        let held = std::mem::take(&mut operation.held);
        operation.is_in_flight = false;
        self.policy.finished(&request, took, is_served);
        drop(held);
    }

    /// The answer has come back to the client.
    fn answer(&mut self, ticket: Ticket, is_served: bool) {
        self.release(ticket, is_served);
        let now_ns = self.now_ns;
        let operation = &mut self.operations[ticket.slot];
        let (number, latency_ns) = (operation.number, now_ns - operation.begun_ns);
        let was_over = operation.is_over;
        let is_late = now_ns > operation.deadline_ns;
        let is_abandoned = operation.is_abandoned;
        self.hash.note(b's', now_ns, number);
        if is_abandoned {
            self.counts.abandoned += 1;
        } else if is_late {
            self.latency.record(latency_ns);
            self.counts.late += 1;
        } else {
            self.latency.record(latency_ns);
            self.counts.in_time += 1;
            let slot = self.slot();
            slot.in_time += 1;
            slot.longest = slot.longest.max(Duration::from_nanos(latency_ns));
        }
        if !was_over {
            self.end(ticket);
        }
        self.free.push(ticket.slot);
        self.operations[ticket.slot].turn = ticket.turn.wrapping_add(1);
    }

    fn refused(&mut self, ticket: Ticket, retry_after: Option<Duration>) {
        self.counts.refused += 1;
        self.slot().refused += 1;
        let number = self.operations[ticket.slot].number;
        self.hash.note(b'r', self.now_ns, number);
        self.retry_or_fail(ticket, retry_after);
    }

    /// The server has not served it.
    fn failed(&mut self, ticket: Ticket) {
        self.release(ticket, false);
        let number = self.operations[ticket.slot].number;
        self.hash.note(b'f', self.now_ns, number);
        self.retry_or_fail(ticket, None);
    }

    fn retry_or_fail(&mut self, ticket: Ticket, retry_after: Option<Duration>) {
        if let Some(again_ns) = self.again_ns(ticket, retry_after) {
            self.agenda.enter(again_ns, Event::Attempt(ticket));
            return;
        }
        let was_over = self.operations[ticket.slot].is_over;
        if !was_over {
            self.counts.failed += 1;
            self.end(ticket);
        }
        self.free.push(ticket.slot);
        self.operations[ticket.slot].turn = ticket.turn.wrapping_add(1);
    }

    /// When the client of an operation tries again, if it does. It then takes a retry from its budget.
    fn again_ns(&mut self, ticket: Ticket, retry_after: Option<Duration>) -> Option<u64> {
        let operation = &self.operations[ticket.slot];
        let source = &mut self.sources[operation.source];
        let retries = source.traffic.retries.as_ref()?;
        let is_spent = retries.budget.is_some() && source.budget < 1.0;
        if operation.is_over || operation.attempt >= retries.attempts || is_spent {
            return None;
        }
        let share = source.clients.share();
        let mut backoff_ns = retries.backoff_ns(operation.attempt + 1, share);
        if retries.heeds_retry_after {
            backoff_ns = backoff_ns.max(retry_after.map_or(0, nanos));
        }
        let again_ns = self.now_ns.saturating_add(backoff_ns);
        if again_ns >= operation.deadline_ns {
            return None;
        }
        if retries.budget.is_some() {
            source.budget -= 1.0;
        }
        Some(again_ns)
    }

    /// The client gives up an attempt that the server has. The operation goes on in another slot, and the server with the attempt.
    fn give_up_attempt(&mut self, ticket: Ticket, attempt: u32) {
        let is_it = |operation: &&mut Operation| {
            operation.attempt == attempt && operation.is_in_flight && !operation.is_over
        };
        if self.operation(ticket).filter(is_it).is_none() {
            return;
        }
        let again_ns = self.again_ns(ticket, None);
        self.operations[ticket.slot].is_abandoned = true;
        let Some(again_ns) = again_ns else {
            self.counts.failed += 1;
            self.end(ticket);
            return;
        };
        let old = &mut self.operations[ticket.slot];
        old.is_over = true;
        let operation = Operation {
            turn: 0,
            held: Held::nothing(),
            wait: None,
            is_in_flight: false,
            is_abandoned: false,
            is_over: false,
            ..*old
        };
        let next = self.place(operation);
        self.agenda.enter(again_ns, Event::Attempt(next));
    }

    /// The client gives up: a wait ends, and what the server does with the request makes no difference any longer.
    fn give_up(&mut self, ticket: Ticket) {
        let Some(operation) = self
            .operation(ticket)
            .filter(|operation| !operation.is_over)
        else {
            return;
        };
        // It decides about itself at this instant.
        if operation.wait.is_some() {
            return;
        }
        self.end(ticket);
    }

    /// The client goes on: it has an answer, or has given up.
    fn end(&mut self, ticket: Ticket) {
        let operation = &mut self.operations[ticket.slot];
        operation.is_over = true;
        let source = operation.source;
        if let Arrivals::Closed { think, .. } = &self.sources[source].traffic.arrivals {
            let think_ns = think.draw(&mut self.sources[source].clients);
            let at_ns = self.now_ns.saturating_add(think_ns);
            self.agenda.enter(at_ns, Event::Thought { source });
        }
    }

    /// The slot of this time.
    fn slot(&mut self) -> &mut TimeSlot {
        let index = (self.now_ns / self.slot_ns) as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, TimeSlot::default());
        }
        &mut self.slots[index]
    }
}

fn request_of(operation: &Operation, now_ns: u64) -> Request {
    let is_bounded = operation.deadline_ns < u64::MAX;
    Request {
        key: operation.key,
        cost: operation.cost,
        attempt: operation.attempt,
        patience: is_bounded
            .then(|| Duration::from_nanos(operation.deadline_ns.saturating_sub(now_ns))),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Notes which operation is to be polled.
struct WakeUp {
    ticket: Ticket,
    woken: Arc<Mutex<VecDeque<Ticket>>>,
}

impl Wake for WakeUp {
    fn wake(self: Arc<Self>) {
        if let Ok(mut woken) = self.woken.lock() {
            woken.push_back(self.ticket);
        }
    }
}
