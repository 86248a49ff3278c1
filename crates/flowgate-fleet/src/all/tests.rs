//! Requests of two limits in two places, their calls interleaved at random: against buckets that only see what was admitted.

use super::together::Together;
use super::*;
use crate::bucket::Bucket;
use crate::call::{Failure, Reply, Request, Run};
use crate::link::Outcome;
use crate::record::Record;
use crate::terms::Terms;
use crate::{CutOff, Fleet, FleetLimit};
use fastrand::Rng;
use flowgate::ManualClock;
use std::collections::HashMap;
use std::time::Duration;

const NAMES: [&str; 2] = ["api", "tenant"];

/// What may happen beside the calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Hardly anything flows back.
    Slow,
    Moving,
    /// And messages are lost.
    Lossy,
    /// And the store loses each record, once.
    Forgetful,
}

/// A request on its way.
struct Flight {
    together: Together,
    /// `None`: the caller has gone.
    receiver: Option<oneshot::Receiver<Answer>>,
    units: [u64; 2],
    /// When the store took the units.
    taken_us: [u64; 2],
    requests: Vec<(Request, Option<Outcome>)>,
    is_lossy: bool,
}

struct World {
    random: Rng,
    mode: Mode,
    time: ManualClock,
    terms: [Terms; 2],
    stored: HashMap<Record, Bucket>,
    processes: Vec<[FleetLimit; 2]>,
    flights: Vec<Flight>,
    /// Of each limit: when and how many.
    admitted: [Vec<(u64, u64)>; 2],
    /// Whether the store has lost the record of each limit.
    is_forgotten: [bool; 2],
    /// Requests that a store has refused after another one had granted.
    undone: u64,
}

impl World {
    fn new(mode: Mode, quotas: [&str; 2], seed: u64) -> Self {
        let time = ManualClock::new();
        time.advance(Duration::from_secs(1));
        let quotas = quotas.map(|quota| quota.parse().expect("a quota"));
        let process = |_| {
            let fleet = Fleet::local().clock(&time).open().expect("a fleet");
            [0, 1].map(|at| {
                let limit = fleet.limit(NAMES[at], quotas[at]);
                limit.when_cut_off(CutOff::Deny).build().expect("a limit")
            })
        };
        Self {
            random: Rng::with_seed(seed),
            mode,
            terms: quotas.map(|quota| Terms::of(quota).expect("it is exact")),
            stored: HashMap::new(),
            processes: (0..3).map(process).collect(),
            flights: Vec::new(),
            admitted: Default::default(),
            is_forgotten: [false; 2],
            undone: 0,
            time,
        }
    }

    fn now_us(&self) -> u64 {
        self.time.now().as_nanos() / 1_000
    }

    fn begin(&mut self) {
        let units = self
            .terms
            .map(|terms| self.random.u64(1..=1 + terms.burst / 4));
        let limits = self.random.choice(&self.processes).expect("three");
        let mut asks = vec![limits[0].ask().n(units[0]), limits[1].ask().n(units[1])];
        self.random.shuffle(&mut asks);
        let parts = Ask::all(asks).parts;
        let place = |of: &Question| usize::from(of.record == Record::of(NAMES[0], b""));
        match Together::new(parts, Held::default(), place) {
            Ok((together, receiver)) => {
                let flight = Flight {
                    together,
                    receiver: Some(receiver),
                    units,
                    taken_us: [0; 2],
                    requests: Vec::new(),
                    is_lossy: false,
                };
                self.go_on(flight);
            }
            Err(answer) => assert!(answer.is_err_and(|denied| denied.retry_after().is_some())),
        }
    }

    /// Has the next requests of a flight asked, or takes its answer.
    fn go_on(&mut self, mut flight: Flight) {
        if flight.together.advance() {
            let mut requests = Vec::new();
            flight.together.ask(&mut requests);
            assert!(!requests.is_empty());
            flight.requests = requests
                .into_iter()
                .map(|request| (request, None))
                .collect();
            self.flights.push(flight);
            return;
        }
        match flight.receiver.map(|mut receiver| receiver.try_recv()) {
            None => {}
            Some(Ok(Ok(admitted))) => {
                assert!(!admitted.is_degraded());
                for at in [0, 1] {
                    self.admitted[at].push((flight.taken_us[at], flight.units[at]));
                }
            }
            Some(Ok(Err(denied))) => {
                assert!(
                    denied.retry_after().is_some() || flight.is_lossy,
                    "{denied}"
                );
                self.undone += u64::from(flight.taken_us != [0; 2]);
            }
            Some(Err(_)) => panic!("it is not answered"),
        }
    }

    /// Carries out a request in the store.
    fn carry_out(&mut self, request: &Request) -> Vec<Reply> {
        // A server does one thing after the other.
        self.time.advance(Duration::from_micros(1));
        let now_us = self.now_us();
        let stored = |record: Record| self.stored.get(&record).copied();
        let (record, (reply, after)) = match request {
            Request::Take(call) => {
                let taken = Bucket::take(stored(call.record), now_us, call);
                (call.record, taken)
            }
            Request::TakeAll(calls) => {
                let [call] = &calls[..] else {
                    panic!("one place each")
                };
                let mut taken = Bucket::take_all(&[stored(call.record)], now_us, calls);
                (call.record, taken.remove(0))
            }
            Request::GiveBack(back) => (
                back.record,
                Bucket::give_back(stored(back.record), now_us, back),
            ),
        };
        if self.is_forgotten == [false; 2] {
            assert_eq!(reply.healed, 0, "the store has forgotten nothing");
        }
        self.stored.extend(after.map(|after| (record, after)));
        vec![reply]
    }

    /// Lets something happen to one of the flights.
    fn step(&mut self) {
        let at = self.random.usize(0..self.flights.len());
        let mut flight = self.flights.swap_remove(at);
        match self.random.u32(0..100) {
            0 => flight.receiver = None,
            1 if flight.receiver.is_some() => {
                if let Some(late) = flight.together.late() {
                    // It is the store's refusal, if that is only being undone.
                    let denied = late.expect_err("nothing is admitted alone");
                    assert!(denied.is_outage() || denied.retry_after().is_some());
                    flight.receiver = None;
                }
            }
            _ => {}
        }
        let open = flight
            .requests
            .iter()
            .position(|(_, outcome)| outcome.is_none());
        let Some(open) = open else {
            let outcomes = flight.requests.drain(..).filter_map(|(_, outcome)| outcome);
            flight.together.note(outcomes.collect());
            return self.go_on(flight);
        };
        let fate = match self.mode {
            Mode::Lossy | Mode::Forgetful => self.random.u32(0..30),
            _ => 100,
        };
        flight.is_lossy |= fate < 3;
        let request = flight.requests[open].0.clone();
        let outcome = match fate {
            0 => Err(Failure::Lost),
            1 => Err(Failure::Unreachable),
            _ => {
                let replies = self.carry_out(&request);
                if let Request::TakeAll(calls) = &request
                    && replies[0].taken == [1]
                {
                    let is_first = calls[0].record == Record::of(NAMES[0], b"");
                    flight.taken_us[usize::from(!is_first)] = self.now_us();
                }
                match fate {
                    2 => Err(Failure::Lost),
                    _ => Ok(replies),
                }
            }
        };
        flight.requests[open].1 = Some(outcome);
        self.flights.push(flight);
    }

    /// A process that asks for one limit, and remembers what another one has seen.
    fn ask_one(&mut self) {
        let at = self.random.usize(0..2);
        let limits = self.random.choice(&self.processes).expect("three");
        let Question { strict, record, .. } = &limits[at].0;
        let (strict, record) = (Arc::clone(strict), *record);
        let units = self.random.u64(1..=1 + self.terms[at].burst / 4);
        let call = strict.call_of(record, vec![Run::of(1, units)]);
        let (sent, terms) = (strict.now(), call.terms);
        let reply = self.carry_out(&Request::Take(call)).remove(0);
        let taken = if reply.taken == [1] { units } else { 0 };
        if taken > 0 {
            self.admitted[at].push((self.now_us(), units));
        }
        strict.learn_of(record, sent, (&terms, taken), &reply);
    }

    /// Loses the record of a limit, unless one has been lost. Not each time.
    fn forget(&mut self) {
        let at = self.random.usize(0..2);
        if !self.is_forgotten[at] && self.random.u32(0..8) == 0 {
            self.stored.remove(&Record::of(NAMES[at], b""));
            self.is_forgotten[at] = true;
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.random.u32(0..20) {
                0 | 1 if self.flights.len() < 12 => self.begin(),
                2 => self.ask_one(),
                4 if self.mode == Mode::Forgetful => self.forget(),
                3 if self.mode != Mode::Slow => {
                    let passed = Duration::from_micros(self.random.u64(0..4_000));
                    self.time.advance(passed);
                }
                _ if !self.flights.is_empty() => self.step(),
                _ => {}
            }
        }
        while !self.flights.is_empty() {
            self.step();
        }
    }

    /// Checks each limit against a bucket that has seen nothing but what was admitted. Returns the units that are not there any more.
    fn check(&mut self) -> u64 {
        let now_us = self.now_us();
        let mut lost = 0;
        for at in [0, 1] {
            let Terms {
                count,
                period,
                burst,
                ..
            } = self.terms[at];
            // A loss of records adds a burst, and no more: whatever was given back around it.
            let most = burst * period * if self.is_forgotten[at] { 2 } else { 1 };
            let (mut debt, mut then_us) = (0_u64, 0);
            self.admitted[at].sort_unstable();
            for &(taken_us, units) in &self.admitted[at] {
                debt = debt.saturating_sub((taken_us - then_us).saturating_mul(count));
                debt += units * period;
                then_us = taken_us;
                assert!(debt <= most, "{}: over the limit", NAMES[at]);
            }
            if self.is_forgotten[at] {
                continue;
            }
            let debt = debt.saturating_sub((now_us - then_us).saturating_mul(count));
            let stored = self.stored.get(&Record::of(NAMES[at], b""));
            let stored = stored.map_or(0, |bucket| bucket.debt_at(now_us));
            assert!(stored >= debt, "{}: {stored} of {debt}", NAMES[at]);
            lost += (stored - debt) / period;
        }
        lost
    }
}

/// Runs many histories. Returns how many requests were undone, and how many units were lost.
fn run(mode: Mode, quotas: [&str; 2]) -> (u64, u64) {
    let (mut undone, mut lost) = (0, 0);
    for seed in 0..1_000 {
        let mut world = World::new(mode, quotas, seed);
        world.run(300);
        lost += world.check();
        undone += world.undone;
        for limit in world.processes.iter().flatten() {
            let counts = limit.inspect().counts;
            assert_eq!(counts.resets, 0);
            let is_faulty = matches!(mode, Mode::Lossy | Mode::Forgetful);
            assert!(counts.amnesias == 0 || is_faulty);
        }
    }
    (undone, lost)
}

const SLOW: [&str; 2] = ["50/day burst 50", "40/day burst 40"];
const FAST: [&str; 2] = ["1000/s burst 20", "700/s burst 11"];

#[test]
fn c1_what_a_refused_request_had_taken_is_given_back_to_the_last_unit() {
    let (undone, lost) = run(Mode::Slow, SLOW);
    println!("{undone} undone, {lost} units lost");
    assert!(undone > 500);
    assert_eq!(lost, 0);
}

#[test]
fn c1_no_limit_is_exceeded_while_units_flow_back_and_are_given_back() {
    let (undone, lost) = run(Mode::Moving, FAST);
    println!("{undone} undone, {lost} units less than there could be");
    assert!(undone > 500);
}

#[test]
fn c1_no_limit_is_exceeded_when_messages_are_lost() {
    for quotas in [SLOW, FAST] {
        let (undone, lost) = run(Mode::Lossy, quotas);
        println!("{undone} undone, {lost} units lost");
        assert!(undone > 500 && lost > 0);
    }
}

#[test]
fn c1_a_store_that_forgets_adds_no_more_than_a_burst_whatever_is_given_back() {
    for quotas in [SLOW, FAST] {
        let (undone, _) = run(Mode::Forgetful, quotas);
        assert!(undone > 300, "{undone}");
    }
}

/// A request of two limits in two places: the store has granted the first, and has not answered about the second.
struct Half {
    world: World,
    together: Together,
    request: Request,
    _receiver: oneshot::Receiver<Answer>,
}

impl Half {
    /// Of three units each.
    fn new(cut_off: CutOff) -> Self {
        let mut world = World::new(Mode::Slow, SLOW, 7);
        let fleet = Fleet::local().clock(&world.time).open().expect("a fleet");
        let asks = [0, 1].map(|at| {
            let limit = fleet.limit(NAMES[at], SLOW[at].parse().expect("a quota"));
            let limit = limit.when_cut_off(cut_off).build().expect("a limit");
            limit.ask().n(3)
        });
        let place = |of: &Question| usize::from(of.record == Record::of(NAMES[0], b""));
        let parts = Ask::all(asks).parts;
        let begun = Together::new(parts, Held::default(), place);
        let (mut together, receiver) = begun.expect("the store decides");
        let mut requests = Vec::new();
        // It is looked at both, and one of them is taken from.
        for _ in 0..2 {
            assert!(together.advance());
            together.ask(&mut requests);
            let carried_out = requests.drain(..);
            let outcomes = carried_out.map(|request| Ok(world.carry_out(&request)));
            together.note(outcomes.collect());
        }
        assert!(together.advance());
        together.ask(&mut requests);
        Self {
            world,
            together,
            request: requests.remove(0),
            _receiver: receiver,
        }
    }

    /// Carries out what is left. Returns how many units each limit lacks then.
    fn end(mut self) -> [u64; 2] {
        let mut requests = vec![self.request];
        loop {
            let carried_out = requests.drain(..);
            let outcomes = carried_out.map(|request| Ok(self.world.carry_out(&request)));
            self.together.note(outcomes.collect());
            if !self.together.advance() {
                break;
            }
            self.together.ask(&mut requests);
        }
        let now_us = self.world.now_us();
        [0, 1].map(|at| {
            let stored = self.world.stored[&Record::of(NAMES[at], b"")];
            stored.debt_at(now_us).div_ceil(self.world.terms[at].period)
        })
    }
}

#[test]
fn c1_a_request_that_is_admitted_late_stays_taken_and_one_that_is_refused_late_is_given_back() {
    let mut half = Half::new(CutOff::Admit);
    let admitted = half.together.late().expect("it has not been answered");
    assert!(admitted.expect("everything is").is_degraded());
    assert!(half.together.late().is_none(), "it is decided once");
    assert_eq!(half.end(), [3, 3]);

    let mut half = Half::new(CutOff::Deny);
    let denied = half.together.late().expect("it has not been answered");
    let denied = denied.expect_err("nothing is");
    assert!(denied.is_outage());
    assert_eq!(denied.limits().len(), 1, "the store has granted the other");
    assert_eq!(half.end(), [0, 0]);
}

#[test]
fn a_late_request_takes_from_no_share_twice_when_its_call_is_lost() {
    let mut half = Half::new(CutOff::Share(1, 4));
    assert!(half.together.late().is_some_and(|late| late.is_ok()));
    let limits: Vec<_> = half.together.strict().collect();
    half.together.note(vec![Err(Failure::Lost)]);
    assert!(!half.together.advance());
    let alone = |strict: &Arc<crate::strict::Strict>| strict.counts().degraded_units;
    let units: Vec<_> = limits.iter().map(alone).collect();
    assert_eq!(units.iter().sum::<u64>(), 3, "{units:?}");
}
