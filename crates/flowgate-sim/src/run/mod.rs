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

mod calendar;
mod operations;
mod source;
mod wakers;

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use flowgate::{ManualClock, Timestamp};

use crate::key_table::KeyTable;
use crate::outcome::{Latency, OutcomeCounts, RunHash, RunOutcome, StopReason, TimeSlot};
use crate::policy::{AdmissionDecision, AdmissionPolicy, Held};
use crate::random::{Entity, Random};
use crate::server::{Done, Job, Offered, Running};
use crate::simulation::{RunProgress, Simulation};
use crate::time::{earlier, nanos};
use crate::traffic::Arrivals;
use crate::windows::Windows;
use calendar::Calendar;
use operations::{Operation, Operations, Ticket};
use source::Source;
use wakers::Wakers;

/// How many slots the time of the arrivals has.
const SLOTS: u64 = 200;
/// The most slots; the last one has the rest of the time.
const MOST_SLOTS: u64 = 20 * SLOTS;
/// After this many events, the run reports, and looks whether it is to end.
const PAUSE: u64 = 4_096;

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next request of a source.
    Arrival(u32),
    /// An operation asks again.
    Attempt(Ticket),
    /// The client of an operation gives up.
    Deadline(Ticket),
    /// The client of an operation gives up this attempt.
    Timeout { ticket: Ticket, attempt: u32 },
    /// The answer to an operation is back, after the delay.
    Answer(Ticket),
    /// A user of a source has thought.
    Thought(u32),
}

pub(crate) struct Run<'a, P> {
    simulation: &'a Simulation,
    time: ManualClock,
    policy: P,
    calendar: Calendar<Event>,
    server: Option<Running>,
    delay_ns: u64,
    sources: Vec<Source<'a>>,
    operations: Operations,
    wakers: Wakers,
    /// How many operations wait for the policy.
    waiting: usize,
    now_ns: u64,
    duration_ns: u64,
    /// The counts of the slot of now, its number and its end.
    slot: TimeSlot,
    slot_index: usize,
    slot_end_ns: u64,
    slot_ns: u64,
    /// The slots before that, up to the last one with counts.
    slots: Vec<TimeSlot>,
    keys: KeyTable,
    windows: Windows,
    hash: RunHash,
    events: u64,
    /// The number of events at which the run looks whether it is to end.
    pause: u64,
    stopped: Option<StopReason>,
    /// Kept for their memory.
    done: Done,
    woken: Vec<u32>,
}

impl<'a, P: AdmissionPolicy> Run<'a, P> {
    pub(crate) fn new(simulation: &'a Simulation, time: ManualClock, policy: P) -> Self {
        let sources = (0..).zip(&simulation.traffic);
        let sources = sources.map(|(index, traffic)| Source::new(simulation.seed, index, traffic));
        let server = simulation.server.as_ref();
        let slot_ns = nanos(simulation.duration).div_ceil(SLOTS).max(1);
        let keys = simulation
            .traffic
            .iter()
            .map(|traffic| match &traffic.arrivals {
                Arrivals::Recorded(recorded) => traffic.keys.first() + recorded.len() as u64,
                _ => traffic.keys.end(),
            });
        Self {
            simulation,
            time,
            calendar: Calendar::new(),
            server: server.map(|server| Running::new(server, &simulation.faults)),
            delay_ns: server.map_or(0, |server| nanos(server.delay)),
            sources: sources.collect(),
            operations: Operations::default(),
            wakers: Wakers::default(),
            waiting: 0,
            now_ns: 0,
            duration_ns: nanos(simulation.duration),
            slot: TimeSlot::default(),
            slot_index: 0,
            slot_end_ns: slot_ns,
            slot_ns,
            slots: Vec::new(),
            keys: KeyTable::new(keys.max().unwrap_or(0)),
            windows: Windows::new(&simulation.windows, |window| policy.bound(window)),
            policy,
            hash: RunHash::new(),
            events: 0,
            pause: PAUSE.min(simulation.max_events),
            stopped: None,
            done: Done::default(),
            woken: Vec::new(),
        }
    }

    pub(crate) fn complete(mut self, name: &str) -> RunOutcome {
        self.begin();
        let simulation = self.simulation;
        let end_ns = nanos(simulation.duration.saturating_add(simulation.drain));
        let mut ended_ns = 0;
        while self.stopped.is_none() {
            let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= end_ns) else {
                break;
            };
            self.advance(at_ns);
            self.poll_woken();
            self.run_server();
            while self.stopped.is_none()
                && let Some(event) = self.calendar.pop_at(at_ns)
            {
                if !matches!(event, Event::Deadline(_) | Event::Timeout { .. }) {
                    ended_ns = at_ns;
                }
                self.count_event();
                self.handle(event);
                self.poll_woken();
            }
        }
        self.outcome(name, ended_ns)
    }

    fn outcome(mut self, name: &str, ended_ns: u64) -> RunOutcome {
        self.end_slot();
        for operation in self.operations.unfinished() {
            self.sources[operation.source as usize].counts.unfinished += 1;
        }
        let (mut counts, mut latency, mut wait) =
            (OutcomeCounts::default(), Latency::new(), Latency::new());
        for source in &self.sources {
            counts += source.counts;
            latency.add(&source.latency);
            wait.add(&source.wait);
        }
        let duration = self.simulation.duration;
        RunOutcome {
            policy: name.to_owned(),
            duration: match self.stopped {
                Some(_) => duration.min(Duration::from_nanos(self.now_ns)),
                None => duration,
            },
            ended: Duration::from_nanos(ended_ns),
            stopped: self.stopped,
            counts,
            latency,
            wait,
            sources: self.sources.into_iter().map(Source::outcome).collect(),
            slots: self.slots,
            slot: Duration::from_nanos(self.slot_ns),
            keys: self.keys,
            windows: self.windows.worst(),
            events: self.events,
            hash: self.hash.finish(),
        }
    }

    /// The first event of each source.
    fn begin(&mut self) {
        for index in 0..self.sources.len() as u32 {
            let source = &mut self.sources[index as usize];
            let Arrivals::Closed { users, think } = &source.traffic.arrivals else {
                self.expect_arrival(index);
                continue;
            };
            for _ in 0..*users {
                if self.calendar.len() >= self.simulation.max_pending {
                    self.stopped = Some(StopReason::Pending);
                    return;
                }
                let think_ns = think.draw(&mut source.clients);
                self.calendar.enter(think_ns, Event::Thought(index));
            }
        }
    }

    /// The next time at which anything happens.
    fn next_ns(&self) -> Option<u64> {
        // No one else asks the clock to be woken.
        let woken_ns = match self.waiting {
            0 => None,
            _ => self.time.next_wake().map(Timestamp::as_nanos),
        };
        let served_ns = self.server.as_ref().and_then(Running::next_ns);
        earlier(self.calendar.next_ns(), earlier(woken_ns, served_ns))
            .map(|at_ns| at_ns.max(self.now_ns))
    }

    fn advance(&mut self, at_ns: u64) {
        if at_ns == self.now_ns {
            return;
        }
        self.now_ns = at_ns;
        self.time.set(Timestamp::from_nanos(at_ns));
        if at_ns >= self.slot_end_ns {
            self.end_slot();
            let slot = (at_ns / self.slot_ns).min(MOST_SLOTS - 1);
            self.slot_index = slot as usize;
            self.slot_end_ns = match slot {
                slot if slot < MOST_SLOTS - 1 => (slot + 1).saturating_mul(self.slot_ns),
                _ => u64::MAX,
            };
        }
    }

    /// Enters the counts of the slot of now, if it has any.
    #[cold]
    fn end_slot(&mut self) {
        let slot = std::mem::take(&mut self.slot);
        if slot != TimeSlot::default() {
            self.slots.resize(self.slot_index + 1, TimeSlot::default());
            self.slots[self.slot_index] = slot;
        }
    }

    fn count_event(&mut self) {
        self.events += 1;
        if self.events >= self.pause {
            self.pause();
        }
    }

    /// Reports, and looks whether the run is to end.
    #[cold]
    fn pause(&mut self) {
        let simulation = self.simulation;
        self.pause = (self.events + PAUSE).min(simulation.max_events);
        if let Some(progress) = &simulation.progress {
            progress.call(RunProgress {
                events: self.events,
                now: Duration::from_nanos(self.now_ns),
            });
        }
        let interrupt = simulation.interrupt.as_ref();
        if self.events >= simulation.max_events {
            self.stopped = Some(StopReason::Events);
        } else if interrupt.is_some_and(|interrupt| interrupt.load(Ordering::Relaxed)) {
            self.stopped = Some(StopReason::Interrupted);
        } else if self.calendar.len() > simulation.max_pending {
            self.stopped = Some(StopReason::Pending);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(source) => {
                self.begin_operation(source);
                self.expect_arrival(source);
            }
            Event::Thought(source) => {
                if self.now_ns < self.duration_ns {
                    self.begin_operation(source);
                }
            }
            Event::Attempt(ticket) => self.retry(ticket),
            Event::Deadline(ticket) => self.give_up(ticket),
            Event::Timeout { ticket, attempt } => self.give_up_attempt(ticket, attempt),
            Event::Answer(ticket) => self.answer(ticket.slot),
        }
    }

    /// Enters the next arrival of a source, if there is one.
    fn expect_arrival(&mut self, source: u32) {
        let at_ns = self.sources[source as usize].next_at().map(nanos);
        if let Some(at_ns) = at_ns.filter(|at_ns| *at_ns < self.duration_ns) {
            // Records may go backward; the run does not.
            let at_ns = at_ns.max(self.now_ns);
            self.calendar.enter(at_ns, Event::Arrival(source));
        }
    }

    fn begin_operation(&mut self, index: u32) {
        if self.operations.len() >= self.simulation.max_pending {
            self.stopped = Some(StopReason::Pending);
            return;
        }
        let source = &mut self.sources[index as usize];
        if let Some(keys) = source.look_ahead() {
            self.keys.prefetch(keys);
            self.policy.expect(keys);
        }
        let begun = source.begin();
        source.counts.operations += 1;
        let deadline_ns = match source.traffic.deadline {
            Some(deadline) => self.now_ns.saturating_add(nanos(deadline)),
            None => u64::MAX,
        };
        let ticket = self.operations.begin(Operation::new(
            index,
            begun.number,
            begun.key,
            begun.cost,
            self.now_ns,
            deadline_ns,
        ));
        if deadline_ns < u64::MAX {
            self.calendar.enter(deadline_ns, Event::Deadline(ticket));
        }
        self.attempt(ticket);
    }

    /// An operation asks again, unless it is over.
    fn retry(&mut self, ticket: Ticket) {
        let operation = self.operations.get(ticket);
        if operation.is_some_and(|operation| !operation.is_over) {
            self.attempt(ticket);
        }
    }

    /// The operation of `ticket`, which is in flight and not over, asks.
    fn attempt(&mut self, ticket: Ticket) {
        let now_ns = self.now_ns;
        let operation = self.operations.of(ticket.slot);
        operation.attempt += 1;
        operation.asked_ns = now_ns;
        let source = &mut self.sources[operation.source as usize];
        if let Some(timeout) = source.traffic.attempt_timeout {
            let ends_ns = now_ns.saturating_add(nanos(timeout));
            operation.attempt_ends_ns = ends_ns.min(operation.deadline_ns);
            if ends_ns < operation.deadline_ns {
                let attempt = operation.attempt;
                let timeout = Event::Timeout { ticket, attempt };
                self.calendar.enter(ends_ns, timeout);
            }
        }
        let request = operation.request(now_ns);
        source.counts.attempts += 1;
        self.slot.attempts += 1;
        self.keys.entry(request.key).attempts += 1;
        match self.policy.decide(&request) {
            AdmissionDecision::Admit(held) => self.admitted(ticket.slot, held),
            AdmissionDecision::Refuse { retry_after } => self.refused(ticket.slot, retry_after),
            AdmissionDecision::Wait(wait) => {
                self.operations.wait(ticket.slot, wait);
                self.waiting += 1;
                self.poll(ticket.slot, true);
            }
        }
    }

    /// Polls the wait of the operation in `slot`, if it waits.
    fn poll(&mut self, slot: u32, is_first: bool) {
        let Some(wait) = self.operations.wait_of(slot) else {
            return;
        };
        let mut context = Context::from_waker(self.wakers.of(slot));
        let answer = wait.as_mut().poll(&mut context);
        let operation = self.operations.of(slot);
        let source = &mut self.sources[operation.source as usize];
        let Poll::Ready(answer) = answer else {
            if is_first {
                source.counts.waited += 1;
            }
            return;
        };
        if answer.is_ok() && !is_first {
            source.wait.record(self.now_ns - operation.asked_ns);
        }
        self.waiting -= 1;
        self.operations.end_wait(slot);
        match answer {
            Ok(held) => self.admitted(slot, held),
            Err(denied) => self.refused(slot, denied.retry_after()),
        }
    }

    /// Polls the operations whose wakers were woken.
    #[inline(always)]
    fn poll_woken(&mut self) {
        if self.wakers.are_any_woken() {
            self.poll_all_woken();
        }
    }

    #[inline(never)]
    fn poll_all_woken(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        while self.stopped.is_none() && self.wakers.take(&mut woken) {
            for slot in woken.drain(..) {
                self.count_event();
                self.poll(slot, false);
            }
        }
        self.woken = woken;
    }

    fn admitted(&mut self, slot: u32, held: Held) {
        let now_ns = self.now_ns;
        let operation = self.operations.of(slot);
        operation.admitted_ns = now_ns;
        let (key, cost, number) = (operation.key, operation.cost, operation.number);
        let (source, attempt) = (operation.source, operation.attempt);
        let deadline_ns = operation.attempt_ends_ns;
        self.sources[source as usize].counts.admitted += 1;
        let of_key = self.keys.entry(key);
        of_key.admitted += 1;
        of_key.cost += cost;
        self.windows.admit(now_ns, key, cost);
        self.hash.note(b'a', now_ns, number);
        self.slot.admitted += 1;
        let (Some(server), Some(running)) = (&self.simulation.server, &mut self.server) else {
            self.served(slot, held);
            return;
        };
        self.operations.of(slot).is_served = true;
        self.operations.hold(slot, held);
        // The same whatever happened before.
        let entity = u64::from(source) << 32 | u64::from(attempt);
        let mut random = Random::of(self.simulation.seed, Entity::Work, entity, number);
        let job = Job {
            slot,
            work_ns: server.service.draw(&mut random),
            deadline_ns,
        };
        let counts = &mut self.sources[source as usize].counts;
        match running.offer(now_ns, job) {
            Offered::Taken => {}
            Offered::Full => {
                counts.queue_full += 1;
                self.failed(slot);
            }
            Offered::Down => {
                counts.down += 1;
                self.failed(slot);
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
        let mut done = std::mem::take(&mut self.done);
        server.run(now_ns, &mut done);
        for slot in done.served.drain(..) {
            self.count_event();
            match self.delay_ns {
                0 => self.answer(slot),
                delay_ns => {
                    let answer = Event::Answer(self.operations.ticket(slot));
                    self.calendar.enter(now_ns.saturating_add(delay_ns), answer);
                }
            }
        }
        for slot in done.expired.drain(..) {
            self.counts_of(slot).expired += 1;
            self.failed(slot);
        }
        for slot in done.lost.drain(..) {
            self.counts_of(slot).down += 1;
            self.failed(slot);
        }
        self.done = done;
        self.poll_woken();
    }

    /// The request of an operation that was admitted is over, served or not.
    fn release(&mut self, slot: u32, held: Held, is_served: bool) {
        let now_ns = self.now_ns;
        let operation = self.operations.of(slot);
        operation.is_served = false;
        let request = operation.request(now_ns);
        let took = Duration::from_nanos(now_ns - operation.admitted_ns);
        self.policy.finished(&request, held, took, is_served);
    }

    /// The answer of the server has come back to the client.
    fn answer(&mut self, slot: u32) {
        let held = self.operations.take_held(slot);
        self.served(slot, held);
    }

    /// An operation that was admitted has its answer.
    fn served(&mut self, slot: u32, held: Held) {
        self.release(slot, held, true);
        let now_ns = self.now_ns;
        let operation = self.operations.of(slot);
        let latency_ns = now_ns - operation.begun_ns;
        let is_late = now_ns > operation.deadline_ns;
        self.hash.note(b's', now_ns, operation.number);
        let source = &mut self.sources[operation.source as usize];
        if operation.is_abandoned {
            source.counts.wasted += 1;
            self.operations.end(slot);
            return;
        }
        source.latency.record(latency_ns);
        if is_late {
            source.counts.late += 1;
        } else {
            source.counts.in_time += 1;
            self.slot.in_time += 1;
            self.slot.longest = self.slot.longest.max(Duration::from_nanos(latency_ns));
        }
        self.end(slot);
        self.operations.end(slot);
    }

    fn refused(&mut self, slot: u32, retry_after: Option<Duration>) {
        let operation = self.operations.of(slot);
        self.hash.note(b'r', self.now_ns, operation.number);
        self.sources[operation.source as usize].counts.refused += 1;
        self.keys.entry(operation.key).refused += 1;
        self.slot.refused += 1;
        self.retry_or_fail(slot, retry_after);
    }

    /// The server has not served it.
    fn failed(&mut self, slot: u32) {
        let held = self.operations.take_held(slot);
        self.release(slot, held, false);
        let number = self.operations.of(slot).number;
        self.hash.note(b'f', self.now_ns, number);
        self.retry_or_fail(slot, None);
    }

    fn retry_or_fail(&mut self, slot: u32, retry_after: Option<Duration>) {
        let ticket = self.operations.ticket(slot);
        let operation = self.operations.of(slot);
        if !operation.is_over {
            let source = &mut self.sources[operation.source as usize];
            let retry_after_ns = retry_after.map_or(0, nanos);
            if let Some(backoff_ns) = source.backoff_ns(operation.attempt, retry_after_ns) {
                let again_ns = self.now_ns.saturating_add(backoff_ns);
                if again_ns < operation.deadline_ns {
                    source.spend();
                    self.calendar.enter(again_ns, Event::Attempt(ticket));
                    return;
                }
            }
            source.counts.failed += 1;
            self.end(slot);
        }
        self.operations.end(slot);
    }

    /// The client gives up: what the server does with the request makes no difference any longer.
    fn give_up(&mut self, ticket: Ticket) {
        let is_in_flight = self.operations.get(ticket).is_some();
        // A wait decides about itself at this instant.
        if is_in_flight && self.operations.wait_of(ticket.slot).is_none() {
            self.end(ticket.slot);
        }
    }

    /// The client gives up an attempt that is at the server, and perhaps tries again. The server still serves it.
    fn give_up_attempt(&mut self, ticket: Ticket, attempt: u32) {
        let Some(operation) = self.operations.get(ticket) else {
            return;
        };
        if operation.attempt != attempt || operation.is_over || !operation.is_served {
            return;
        }
        if self.operations.len() >= self.simulation.max_pending {
            self.stopped = Some(StopReason::Pending);
            return;
        }
        let operation = self.operations.of(ticket.slot);
        let next = operation.after_this_attempt();
        operation.is_over = true;
        operation.is_abandoned = true;
        self.sources[next.source as usize].counts.timed_out += 1;
        self.hash.note(b't', self.now_ns, next.number);
        let deadline_ns = next.deadline_ns;
        let next = self.operations.begin(next);
        if deadline_ns < u64::MAX {
            self.calendar.enter(deadline_ns, Event::Deadline(next));
        }
        self.retry_or_fail(next.slot, None);
    }

    /// The client goes on, unless it has done so: it has an answer, or has given up.
    fn end(&mut self, slot: u32) {
        let operation = self.operations.of(slot);
        if std::mem::replace(&mut operation.is_over, true) {
            return;
        }
        let index = operation.source;
        let source = &mut self.sources[index as usize];
        if let Arrivals::Closed { think, .. } = &source.traffic.arrivals {
            let think_ns = think.draw(&mut source.clients);
            let at_ns = self.now_ns.saturating_add(think_ns);
            self.calendar.enter(at_ns, Event::Thought(index));
        }
    }

    fn counts_of(&mut self, slot: u32) -> &mut OutcomeCounts {
        let source = self.operations.of(slot).source;
        &mut self.sources[source as usize].counts
    }
}
