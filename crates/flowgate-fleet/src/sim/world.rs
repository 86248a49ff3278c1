//! The run: events in the order of their times.

use super::facts::{Amnesia, Facts, Failover, StoreCall};
use super::lease::Lease;
use super::plan::{Fault, Flaw, Plan, stream};
use super::process::{ATTEMPT, Asking, Batch, Caller, PAUSES_NS, Process, record};
use super::store::{Store, key_of};
use crate::call::{Call, Failure, Reply};
use crate::delivery::Answer;
use crate::link::LinkState;
use crate::strict::Asked;
use crate::terms::Kind;
use fastrand::Rng;
use flowgate_testkit::promise::TimedGrant;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot::error::TryRecvError;

/// A process at a place, and which one it is.
type Who = (usize, u32);

#[derive(Clone, Debug)]
enum Event {
    Begin(usize),
    End(Who),
    Ask(Who),
    Crowd(Who, [u64; 2]),
    Hoard(Who, u64),
    Serve(Who),
    Arrive(Message),
    /// A reply, or the end of the connection.
    Answer(Who, u64, Option<Vec<Result<Reply, Failure>>>),
    Timeout(Who, u64),
    Attempt(Who),
    Pong(Who, u64, usize),
    AttemptEnds(Who, u64),
    Fault(usize),
    /// A store that was replaced answers no more.
    Close(usize),
}

#[derive(Clone, Debug)]
struct Message {
    from: Who,
    store: usize,
    what: What,
    sent_ns: u64,
    /// The last hang that has kept it waiting began then.
    held_by: Option<u64>,
    is_copy: bool,
}

#[derive(Clone, Debug)]
enum What {
    Calls(u64, Vec<Call>),
    Ping(u64),
}

pub(super) struct World<'a> {
    plan: &'a Plan,
    now_ns: u64,
    agenda: BTreeMap<(u64, u64), Event>,
    entered: u64,
    batches: u64,
    network: Rng,
    stores: Vec<Store>,
    nodes: Vec<Process>,
    /// After which call a store has made a statement: its key, debt and time.
    statements: BTreeMap<(u64, u64, u64), (usize, usize)>,
    facts: Facts,
}

/// Runs a plan to its end.
pub(super) fn run(plan: &Plan) -> Facts {
    let nodes = (0..plan.nodes.len()).map(|node| Process::new(plan, node, 0));
    let mut world = World {
        plan,
        now_ns: 0,
        agenda: BTreeMap::new(),
        entered: 0,
        batches: 0,
        network: stream(plan.seed, 1),
        stores: vec![Store::new()],
        nodes: nodes.collect(),
        statements: BTreeMap::new(),
        facts: Facts::default(),
    };
    for (node, of) in plan.nodes.iter().enumerate() {
        world.enter(of.begins_ns, Event::Begin(node));
        world.enter(of.ends_ns, Event::End((node, 0)));
    }
    for (fault, (at_ns, _)) in plan.faults.iter().enumerate() {
        world.enter(*at_ns, Event::Fault(fault));
    }
    while let Some(((at_ns, _), event)) = world.agenda.pop_first()
        && at_ns <= plan.end_ns
    {
        world.now_ns = at_ns;
        world.happen(event);
    }
    world.facts
}

impl World<'_> {
    fn enter(&mut self, at_ns: u64, event: Event) {
        self.agenda.insert((at_ns, self.entered), event);
        self.entered += 1;
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.enter(self.now_ns + ns, event);
    }

    /// By the clock of a node.
    fn after_local(&mut self, who: Who, ns: u64, event: Event) {
        let at_ns = self.nodes[who.0].after(self.now_ns, ns);
        self.enter(at_ns, event);
    }

    fn happen(&mut self, event: Event) {
        let who = match event {
            Event::Begin(node) => (node, self.nodes[node].life),
            Event::Ask(who)
            | Event::Crowd(who, _)
            | Event::Hoard(who, _)
            | Event::Serve(who)
            | Event::Answer(who, ..)
            | Event::Timeout(who, _)
            | Event::Attempt(who)
            | Event::Pong(who, ..)
            | Event::AttemptEnds(who, _) => who,
            Event::End(who) => {
                self.nodes[who.0].is_gone = true;
                return;
            }
            Event::Arrive(message) => return self.arrive(message),
            Event::Fault(fault) => return self.fault(fault),
            Event::Close(store) => {
                self.stores[store].is_closed = true;
                return;
            }
        };
        let node = &self.nodes[who.0];
        if node.is_gone || node.life != who.1 {
            return;
        }
        if node.asleep_until_ns > self.now_ns {
            // A reply that is there when it goes on comes before the time-out, as in tokio, even if it is late.
            let is_timeout = matches!(event, Event::Timeout(..));
            let at_ns = node.asleep_until_ns + u64::from(is_timeout);
            return self.enter(at_ns, event);
        }
        node.wind(self.now_ns);
        match event {
            Event::Begin(_) => {
                self.after(0, Event::Attempt(who));
                self.after(0, Event::Ask(who));
                for (at_ns, crowd) in self.plan.nodes[who.0].demand.crowds.clone() {
                    self.enter(at_ns.max(self.now_ns), Event::Crowd(who, crowd));
                }
                for (at_ns, units) in self.plan.nodes[who.0].demand.hoards.clone() {
                    self.enter(at_ns.max(self.now_ns), Event::Hoard(who, units));
                }
            }
            Event::Ask(_) => self.come(who),
            Event::Crowd(_, [callers, n]) => self.ask(who, callers, &(n..=n)),
            Event::Hoard(_, units) => self.hoard(who, units),
            Event::Serve(_) => self.serve(who),
            Event::Answer(_, batch, replies) => self.answer(who, batch, replies),
            Event::Timeout(_, batch) => match self.plan.flaw {
                Some(Flaw::LateReply) => {}
                Some(Flaw::Repeat) => self.repeat(who, batch),
                _ => self.answer(who, batch, None),
            },
            Event::Attempt(_) => self.attempt(who),
            Event::Pong(_, attempt, store) => self.pong(who, attempt, store),
            Event::AttemptEnds(_, attempt) => self.attempt_ends(who, attempt),
            Event::End(_) | Event::Arrive(_) | Event::Fault(_) | Event::Close(_) => {
                unreachable!("none of a node")
            }
        }
    }

    fn come(&mut self, who: Who) {
        let node = &mut self.nodes[who.0];
        let demand = node.plan.demand.clone();
        let callers = node.random.u64(demand.callers.clone());
        let pause_ns = node.random.u64(demand.every_ns.clone());
        self.after(pause_ns, Event::Ask(who));
        self.ask(who, callers, &demand.units);
    }

    fn ask(&mut self, who: Who, callers: u64, units: &RangeInclusive<u64>) {
        for _ in 0..callers {
            let node = &mut self.nodes[who.0];
            let give_up = node.plan.demand.give_up;
            let key = node.random.u64(..self.plan.keys);
            let n = node.random.u64(units.clone());
            let gives_up = node.random.u64(..1_000) < give_up;
            if let Some(lease) = &node.lease {
                match lease.leased.try_acquire_n(n) {
                    Ok(()) => self
                        .facts
                        .key(key)
                        .told
                        .push(TimedGrant::new(self.now_ns, n)),
                    Err(denied) if denied.is_outage() => self.facts.outages += 1,
                    Err(_) => self.facts.refused += 1,
                }
                continue;
            }
            let is_down = node.link.state == LinkState::Down;
            match node.strict.ask(record(key), n, is_down) {
                Asked::Now(answer) => {
                    let is_held = answer.is_ok_and(|admitted| !admitted.is_degraded());
                    self.facts.held_ahead += u64::from(is_held);
                    self.told(who, key, n, answer);
                }
                Asked::Ahead(answer) => {
                    self.told(who, key, n, answer);
                    self.announce(who, key);
                }
                Asked::Later { answer, is_first } => {
                    if is_first {
                        self.announce(who, key);
                    }
                    if !gives_up {
                        let caller = Caller { key, n, answer };
                        self.nodes[who.0].callers.push(caller);
                    }
                }
            }
        }
        let node = &mut self.nodes[who.0];
        if node.lease.as_ref().is_some_and(Lease::is_woken) {
            let ns = node.random.u64(..20_000);
            self.after(ns, Event::Serve(who));
        }
    }

    /// A caller waits until the store has been asked, and then gives up.
    fn hoard(&mut self, who: Who, units: u64) {
        let node = &mut self.nodes[who.0];
        let now = node.now();
        let Some(lease) = &mut node.lease else { return };
        lease.release(now);
        let is_known = node.link.state != LinkState::Connecting;
        let leased = Arc::clone(&lease.leased);
        let mut wait = Box::pin(leased.acquire().n(units));
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = wait.as_mut().poll(&mut context) {
            if answer.is_ok() {
                let grant = TimedGrant::new(self.now_ns, units);
                self.facts.key(0).told.push(grant);
            }
        } else if is_known {
            let before = leased.filler().held().units;
            let noted = self.of_share(who);
            self.lease(who);
            let noted = self.of_share(who) - noted;
            // What the share gave to this caller goes back.
            drop(wait);
            let after = leased.filler().held().units;
            self.fill_alone(who, after.saturating_sub(before + noted));
        }
    }

    fn announce(&mut self, who: Who, key: u64) {
        let node = &mut self.nodes[who.0];
        node.announced.push(key);
        let ns = node.random.u64(..20_000);
        self.after(ns, Event::Serve(who));
    }

    /// The loop in `fleet.rs`.
    fn serve(&mut self, who: Who) {
        let node = &mut self.nodes[who.0];
        if node.link.state == LinkState::Connecting {
            return;
        }
        if node.lease.is_some() {
            return self.lease(who);
        }
        let (mut calls, mut asking) = (Vec::new(), Vec::new());
        for key in std::mem::take(&mut node.announced) {
            if let Some((call, askers)) = node.strict.call(record(key)) {
                asking.push((key, Asking::Callers(askers, call.terms)));
                calls.push(call);
            }
        }
        // Some are answered by what came before.
        self.collect(who);
        self.call(who, calls, asking);
    }

    /// Lets the leaser of a process look.
    fn lease(&mut self, who: Who) {
        let node = &mut self.nodes[who.0];
        let now = node.now();
        let lease = node.lease.as_mut().expect("a leased limit");
        let (call, of_share) = lease.call(now);
        self.fill_alone(who, of_share);
        if let Some(call) = call {
            if self.plan.flaw == Some(Flaw::TwoCalls) {
                let second = vec![(0, Asking::SecondLease(now))];
                self.call(who, vec![call.clone()], second);
            }
            self.call(who, vec![call], vec![(0, Asking::Lease(now))]);
        }
        let now_ns = self.now_ns;
        let node = &mut self.nodes[who.0];
        let lease = node.lease.as_mut().expect("a leased limit");
        let looks_at = lease.sleep();
        let is_woken = lease.is_woken();
        let wait = looks_at.map(|at| at.saturating_duration_since(now));
        let wait = if is_woken { Some(Duration::ZERO) } else { wait };
        if node.looks_at_ns <= now_ns {
            node.looks_at_ns = u64::MAX;
        }
        if let Some(wait) = wait {
            // It cannot look more often than this.
            let at_ns = node.after(now_ns, nanos(wait)).max(now_ns + 1_000);
            if at_ns < node.looks_at_ns {
                node.looks_at_ns = at_ns;
                self.enter(at_ns, Event::Serve(who));
            }
        }
    }

    /// Returns what a process is known to have taken from its share.
    fn of_share(&mut self, who: Who) -> u64 {
        let alone = self.facts.key(0).alone.get(&who);
        let grants = alone.into_iter().flatten();
        grants.map(|[local, _]| local.n).sum()
    }

    /// Notes what a process has taken from its share.
    fn fill_alone(&mut self, who: Who, units: u64) {
        if units > 0 {
            let local_ns = self.nodes[who.0].local_ns(self.now_ns);
            let grants = [local_ns, self.now_ns].map(|at_ns| TimedGrant::new(at_ns, units));
            let alone = &mut self.facts.key(0).alone;
            alone.entry(who).or_default().push(grants);
        }
    }

    fn call(&mut self, who: Who, calls: Vec<Call>, asking: Vec<(u64, Asking)>) {
        if calls.is_empty() {
            return;
        }
        let node = &mut self.nodes[who.0];
        if node.link.state == LinkState::Down {
            for (key, asking) in asking {
                self.decided(who, key, asking, Err(Failure::Unreachable));
            }
            return;
        }
        let batch = self.batches;
        self.batches += 1;
        let link_number = node.link.number;
        let (store, is_closed) = (node.link.store, node.link.is_closed);
        node.in_flight.insert(
            batch,
            Batch {
                link_number,
                asking,
                calls: calls.clone(),
            },
        );
        if is_closed {
            return self.answer(who, batch, None);
        }
        self.after_local(who, self.plan.timeout_ns, Event::Timeout(who, batch));
        self.send(who, store, What::Calls(batch, calls));
    }

    /// What no node must do.
    fn repeat(&mut self, who: Who, batch: u64) {
        let node = &self.nodes[who.0];
        if let Some(sent) = node.in_flight.get(&batch) {
            let (store, calls) = (node.link.store, sent.calls.clone());
            self.after_local(who, self.plan.timeout_ns, Event::Timeout(who, batch));
            self.send(who, store, What::Calls(batch, calls));
        }
    }

    fn send(&mut self, from: Who, store: usize, what: What) {
        let message = Message {
            from,
            store,
            what,
            sent_ns: self.now_ns,
            held_by: None,
            is_copy: false,
        };
        let is_cut = self.nodes[from.0].cut_until_ns[0] > self.now_ns;
        for copy in 0..self.copies() {
            let ns = self.delay();
            let is_copy = copy > 0;
            if !is_cut {
                self.after(
                    ns,
                    Event::Arrive(Message {
                        is_copy,
                        ..message.clone()
                    }),
                );
            }
        }
    }

    /// How often a message arrives.
    fn copies(&mut self) -> u64 {
        let network = &self.plan.network;
        let drawn = self.network.u64(..1_000);
        if drawn < network.lost {
            0
        } else if drawn < network.lost + network.doubled {
            2
        } else {
            1
        }
    }

    fn delay(&mut self) -> u64 {
        let network = &self.plan.network;
        if self.network.u64(..1_000) < network.slow {
            self.network.u64(..=network.slow_ns)
        } else {
            self.network.u64(network.delay_ns.clone())
        }
    }

    /// Sends something to a node.
    fn reply(&mut self, to: Who, event: Event) {
        let is_cut = self.nodes[to.0].cut_until_ns[1] > self.now_ns;
        for _ in 0..self.copies() {
            let mut at_ns = self.now_ns + self.delay();
            let network = &self.plan.network;
            if let Some(gathers_ns) = network.gathers_ns
                && at_ns < network.gathers_until_ns
            {
                at_ns = at_ns.next_multiple_of(gathers_ns);
            }
            if !is_cut {
                self.enter(at_ns, event.clone());
            }
        }
    }

    fn arrive(&mut self, mut message: Message) {
        let store = &self.stores[message.store];
        let [began_ns, until_ns] = store.hangs_ns;
        if until_ns > self.now_ns {
            message.held_by = Some(began_ns);
            return self.enter(until_ns, Event::Arrive(message));
        }
        let Message {
            from,
            store,
            sent_ns,
            ..
        } = message;
        let is_closed = self.stores[store].is_closed;
        match message.what {
            What::Ping(attempt) => {
                if is_closed {
                    self.reply(from, Event::AttemptEnds(from, attempt));
                } else {
                    self.reply(from, Event::Pong(from, attempt, store));
                }
            }
            What::Calls(batch, _) if is_closed => {
                self.reply(from, Event::Answer(from, batch, None))
            }
            What::Calls(batch, calls) => {
                if let Some(hang) = message.held_by
                    && sent_ns >= hang
                    && !message.is_copy
                {
                    for call in &calls {
                        let key = key_of(call.record, self.plan.keys);
                        let counted = (hang, from.0, from.1, key);
                        *self.facts.held.entry(counted).or_default() += 1;
                    }
                }
                let refuses = self.stores[store].refuses_until_ns > self.now_ns;
                let replies = calls.iter().map(|call| match refuses {
                    true => Err(Failure::Refused("OOM".to_owned())),
                    false => Ok(self.carry_out(store, call)),
                });
                let replies = replies.collect();
                self.reply(from, Event::Answer(from, batch, Some(replies)));
            }
        }
    }

    fn carry_out(&mut self, store: usize, call: &Call) -> Reply {
        let key = key_of(call.record, self.plan.keys);
        let is_joined = self.plan.flaw == Some(Flaw::JoinedKeys);
        let kept = if is_joined { 0 } else { key };
        let reply = self.stores[store].take(self.now_ns, kept, call, self.plan.flaw);
        let lending = self.plan.lending();
        let late_us = lending.map_or(0, |lending| lending.terms.wait_us(reply.seen.debt, 0));
        let units = call
            .runs
            .iter()
            .zip(&reply.taken)
            .map(|(run, taken)| run.units * taken);
        let seen = (key, call.seen.debt, call.seen.at_us);
        let knows = self.statements.get(&seen).filter(|(by, _)| *by == store);
        let facts = self.facts.keys.entry(key).or_default();
        let number = facts.calls.len();
        let is_full = facts.calls.iter().all(|call| call.units == 0);
        let is_refused = reply.taken.first() == Some(&0);
        self.facts.starved += u64::from(is_full && is_refused);
        facts.calls.push(StoreCall {
            store,
            at_ns: self.now_ns,
            units: units.sum(),
            flowed_ns: self.now_ns + 1_000 * late_us,
            healed: match call.terms.kind {
                Kind::Bucket => reply.healed.div_ceil(call.terms.period),
                _ => reply.healed,
            },
            number,
            knows: knows.map(|(_, number)| *number),
        });
        self.facts.healed += u64::from(reply.healed > 0);
        let stated = (key, reply.seen.debt, reply.seen.at_us);
        self.statements.insert(stated, (store, number));
        reply
    }

    /// What becomes of calls: `None` without a reply in time, or over a connection that has ended.
    fn answer(&mut self, who: Who, batch: u64, replies: Option<Vec<Result<Reply, Failure>>>) {
        let node = &mut self.nodes[who.0];
        let Some(Batch {
            link_number,
            asking,
            ..
        }) = node.in_flight.remove(&batch)
        else {
            return;
        };
        let is_current = node.link.number == link_number;
        if is_current && replies.is_none() {
            self.replace(who);
        }
        let replies = replies.filter(|_| is_current);
        for (at, (key, asking)) in asking.into_iter().enumerate() {
            let outcome = replies.as_ref().map(|replies| replies[at].clone());
            self.facts.lost += u64::from(outcome.is_none());
            let outcome = outcome.unwrap_or(Err(Failure::Lost));
            self.decided(who, key, asking, outcome);
        }
        if self.nodes[who.0].lease.is_some() {
            self.lease(who);
        }
        let node = &mut self.nodes[who.0];
        if self.plan.flaw == Some(Flaw::FreshShare) && node.callers.is_empty() {
            node.renew(self.plan);
        }
    }

    fn decided(&mut self, who: Who, key: u64, asking: Asking, outcome: Result<Reply, Failure>) {
        let node = &mut self.nodes[who.0];
        let (askers, terms) = match asking {
            Asking::Callers(askers, terms) => (askers, terms),
            Asking::SecondLease(sent) => {
                let lease = node.lease.as_ref().expect("a leased limit");
                let taken = outcome.map_or(0, |reply| reply.taken.iter().sum());
                return lease.grant(taken, sent);
            }
            Asking::Lease(sent) => {
                let now = node.now();
                let lease = node.lease.as_mut().expect("a leased limit");
                let of_share = lease.answer(sent, now, outcome, self.plan.flaw);
                return self.fill_alone(who, of_share);
            }
        };
        if let Ok(reply) = &outcome {
            node.note(key, terms, reply, self.now_ns);
        }
        let answered = node.strict.answer(record(key), askers, outcome);
        if answered.at_once() {
            self.announce(who, key);
        }
        let told = self.collect(who);
        let facts = self.facts.key(key);
        facts.most_in_a_call = facts.most_in_a_call.max(told);
    }

    /// Notes what callers were told. Returns the units that a store has debited for them.
    fn collect(&mut self, who: Who) -> u64 {
        let node = &mut self.nodes[who.0];
        let (mut answered, mut told) = (Vec::new(), 0);
        node.callers
            .retain_mut(|caller| match caller.answer.try_recv() {
                Ok(delivery) => {
                    answered.push((caller.key, caller.n, delivery.answer));
                    false
                }
                Err(TryRecvError::Empty) => true,
                Err(TryRecvError::Closed) => panic!("a caller gets no answer"),
            });
        for (key, n, answer) in answered {
            told += self.told(who, key, n, answer);
        }
        told
    }

    /// Notes what a caller was told. Returns the units that a store has debited for it.
    fn told(&mut self, who: Who, key: u64, n: u64, answer: Answer) -> u64 {
        let node = &self.nodes[who.0];
        match answer {
            Ok(admitted) if admitted.is_degraded() => {
                let local_ns = node.local_ns(self.now_ns);
                let grants = [local_ns, self.now_ns].map(|at_ns| TimedGrant::new(at_ns, n));
                self.facts
                    .key(key)
                    .alone
                    .entry(who)
                    .or_default()
                    .push(grants);
                0
            }
            Ok(_) => {
                let grant = TimedGrant::new(self.now_ns, n);
                self.facts.key(key).told.push(grant);
                n
            }
            Err(denied) => {
                let refuses = self.plan.flaw == Some(Flaw::OutageRefuses);
                if denied.is_outage() && !refuses {
                    self.facts.outages += 1;
                } else {
                    self.facts.refused += 1;
                    // A busy key also waits for its turn.
                    let is_founded = denied.is_never()
                        || self.plan.busy.is_some()
                        || node.is_founded(key, n, self.now_ns);
                    self.facts.unfounded += u64::from(!is_founded);
                }
                0
            }
        }
    }

    /// Gives up the connection, and has another one made.
    fn replace(&mut self, who: Who) {
        let node = &mut self.nodes[who.0];
        node.link.state = LinkState::Down;
        node.link.number += 1;
        node.link.attempt += 1;
        node.link.is_closed = false;
        node.link.pause_ns = PAUSES_NS[0];
        self.after(0, Event::Attempt(who));
    }

    fn attempt(&mut self, who: Who) {
        let stores = self.stores.len();
        let node = &mut self.nodes[who.0];
        node.link.attempt += 1;
        let attempt = node.link.attempt;
        // While two primaries answer, either may be found.
        let found = match stores {
            1 => 0,
            _ => stores - 1 - node.random.usize(..2),
        };
        let ns = self.plan.timeout_ns * ATTEMPT;
        self.after_local(who, ns, Event::AttemptEnds(who, attempt));
        self.send(who, found, What::Ping(attempt));
    }

    fn pong(&mut self, who: Who, attempt: u64, store: usize) {
        let link = &mut self.nodes[who.0].link;
        if link.attempt == attempt && link.state != LinkState::Up {
            link.state = LinkState::Up;
            link.store = store;
            self.after(0, Event::Serve(who));
        }
    }

    fn attempt_ends(&mut self, who: Who, attempt: u64) {
        let link = &mut self.nodes[who.0].link;
        if link.attempt != attempt || link.state == LinkState::Up {
            return;
        }
        link.state = LinkState::Down;
        // A PONG that comes now is late.
        link.attempt += 1;
        let pause_ns = link.pause_ns.max(PAUSES_NS[0]);
        link.pause_ns = (2 * pause_ns).min(PAUSES_NS[1]);
        self.after_local(who, pause_ns, Event::Attempt(who));
        self.after(0, Event::Serve(who));
    }

    fn fault(&mut self, fault: usize) {
        let now_ns = self.now_ns;
        let last = self.stores.len() - 1;
        match self.plan.faults[fault].1 {
            Fault::Amnesia { age_ns } => {
                let then_ns = age_ns.map(|age_ns| now_ns.saturating_sub(age_ns));
                let keeps_ns = self.stores[last].restore(now_ns, then_ns);
                let calls = self.facts.keys.iter();
                let after = calls.map(|(key, facts)| (*key, facts.calls.len()));
                let amnesia = Amnesia {
                    store: last,
                    at_ns: now_ns,
                    keeps_ns,
                    after: after.collect(),
                };
                self.facts.amnesias.push(amnesia);
            }
            Fault::Hang { for_ns } => {
                self.stores[last].hangs_ns = [now_ns, now_ns + for_ns];
            }
            Fault::Refuse { for_ns } => self.stores[last].refuses_until_ns = now_ns + for_ns,
            Fault::Promote { lag_ns, both_ns } => {
                let replica = self.stores[last].replica(now_ns, lag_ns);
                self.stores.push(replica);
                self.facts.failovers.push(Failover {
                    old: last,
                    at_ns: now_ns,
                });
                self.after(both_ns, Event::Close(last));
            }
            Fault::Leap { us } => {
                self.stores[last].leap(us);
                if us > 0 {
                    self.facts.leaps.push((now_ns, us.unsigned_abs()));
                }
            }
            Fault::Sleep { node, for_ns } => {
                self.nodes[node].asleep_until_ns = now_ns + for_ns;
                self.facts.slept_ns += for_ns;
            }
            Fault::Cut { node, for_ns, ways } => {
                let until_ns = ways.map(|is_cut| if is_cut { now_ns + for_ns } else { 0 });
                self.nodes[node].cut_until_ns = until_ns;
            }
            Fault::Restart { node } => {
                let life = self.nodes[node].life + 1;
                self.nodes[node] = Process::new(self.plan, node, life);
                let ends_ns = self.plan.nodes[node].ends_ns;
                self.after(0, Event::Begin(node));
                self.enter(ends_ns.max(now_ns), Event::End((node, life)));
            }
            Fault::SetQuota { node, quota } => {
                let node = &mut self.nodes[node];
                node.wind(now_ns);
                node.quota = quota;
                if let Some(lease) = &mut node.lease {
                    return lease.set_quota(self.plan, quota);
                }
                let set = node.strict.set_quota(quota);
                set.expect("a quota that can be kept");
            }
            Fault::Reset => {
                for node in 0..self.nodes.len() {
                    let who = (node, self.nodes[node].life);
                    self.nodes[node].link.is_closed = true;
                    let batches: Vec<u64> = self.nodes[node].in_flight.keys().copied().collect();
                    for batch in batches {
                        self.after(0, Event::Answer(who, batch, None));
                    }
                }
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a short time")
}
