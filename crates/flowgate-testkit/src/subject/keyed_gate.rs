//! A [`KeyedGate`], of which the limit of one key or the shared limiter is judged. The other members always have room.

use flowgate::{
    ConcurrencyLimit, FixedWindow, Gate, Keyed, KeyedAlgorithm, KeyedBuilder, KeyedGate, Limiter,
    ManualClock, Quota, Timestamp, TokenBucket,
};

use super::{Capabilities, Subject, refusal};
use crate::promise::Kind;
use crate::script::{Op, OperationOutcome, Setup, Step};

type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);

/// The key that is judged. The others are smaller.
const KEY: u64 = 1_000;
const OTHERS: u64 = 20;
/// What the other members always have room for, several times.
const MOST: u64 = 1_000_000;
const CAPACITY: usize = 100;
/// So that each run is the same.
const SEED: [u64; 2] = [1, 2];

/// Builds a [`KeyedGate`] with the setup's limit for each key, and judges one key.
///
/// The limit is a token bucket or a fixed window. The function is a [`BuildSubject`](super::BuildSubject).
///
/// The subject is called at the time of its clock, and not at the end of time. The function builds nothing for a quota
/// whose tokens are divided, because a gate counts operations.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_gate;
///
/// let judged = check_contract(Kind::Bucket, &keyed_gate, Contract::C1, 20);
/// assert!(judged.is_ok());
/// ```
pub fn keyed_gate(setup: &Setup, test: Test<'_>) {
    match setup.kind {
        Kind::Bucket => of_key(Keyed::token_bucket(setup.quota), setup, test),
        Kind::Window(_) => of_key(Keyed::fixed_window(setup.quota), setup, test),
        _ => {}
    }
}

/// Builds a [`KeyedGate`] with the setup's limiter as a shared limit, and judges that.
///
/// The limiter is a token bucket or a fixed window, and many keys use it. The function is a
/// [`BuildSubject`](super::BuildSubject).
///
/// The subject is called at the time of its clock: not at the end of time, nor at a time before another. A gate's time is
/// the latest time at which it has granted anything. The function builds nothing for a quota whose tokens are divided, or
/// that allows more than 1,000,000 tokens at one instant.
///
/// ```
/// use flowgate_testkit::conformance::{Contract, check_contract};
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::subject::keyed_gate_shared;
///
/// let judged = check_contract(Kind::Bucket, &keyed_gate_shared, Contract::C1, 20);
/// assert!(judged.is_ok());
/// ```
///
/// # Panics
///
/// If the members that always have room cannot be built.
pub fn keyed_gate_shared(setup: &Setup, test: Test<'_>) {
    if setup.quota.scale() != 1 || setup.quota.max_burst() > MOST {
        return;
    }
    let time = ManualClock::new();
    let gate = Gate::builder();
    let gate = match setup.kind {
        Kind::Bucket => match TokenBucket::builder(setup.quota).clock(&time).build() {
            Ok(bucket) => gate.limit("judged", bucket),
            Err(_) => return,
        },
        Kind::Window(_) => match FixedWindow::builder(setup.quota).clock(&time).build() {
            Ok(window) => gate.limit("judged", window),
            Err(_) => return,
        },
        _ => return,
    };
    let ample = Quota::per_second(1_000_000_000);
    let keys = Keyed::token_bucket(ample)
        .clock(&time)
        .seed(SEED)
        .capacity(CAPACITY);
    let gate = gate.keyed("key", keys.expect("it fits")).build();
    test(&mut Judged::new(
        gate.expect("they go together"),
        time,
        false,
    ));
}

fn of_key<A: KeyedAlgorithm<Quota = Quota>>(keys: KeyedBuilder<A>, setup: &Setup, test: Test<'_>) {
    let time = ManualClock::new();
    let Ok(keys) = keys.clock(&time).seed(SEED).capacity(CAPACITY) else {
        return;
    };
    if setup.quota.scale() != 1 {
        return;
    }
    let slots = ConcurrencyLimit::builder(i32::MAX as u32).clock(&time);
    let gate = Gate::builder().limit("slots", slots.build().expect("it is in range"));
    let gate = gate.keyed("judged", keys).build();
    test(&mut Judged::new(
        gate.expect("they go together"),
        time,
        true,
    ));
}

struct Judged<A: KeyedAlgorithm> {
    gate: KeyedGate<A>,
    time: ManualClock,
    /// Whether the limit of a key is judged.
    is_of_key: bool,
    steps: u64,
}

impl<A: KeyedAlgorithm<Quota = Quota>> Judged<A> {
    fn new(gate: KeyedGate<A>, time: ManualClock, is_of_key: bool) -> Self {
        Self {
            gate,
            time,
            is_of_key,
            steps: 0,
        }
    }

    /// The key that is judged, or a key that has not made a request for a while.
    fn key(&self) -> u64 {
        match self.is_of_key {
            true => KEY,
            false => self.steps % OTHERS,
        }
    }

    fn set_quota(&self, quota: Quota) -> OperationOutcome {
        if !self.is_of_key && quota.max_burst() > MOST {
            return OperationOutcome::Skipped;
        }
        let is_changed = match self.is_of_key {
            true => self.gate.keys().set_quota(quota).is_ok(),
            false => {
                let set = |judged: &dyn Limiter| judged.set_quota(quota).is_ok();
                self.gate.shared().configure_limiter("judged", set) == Some(true)
            }
        };
        match is_changed {
            true => OperationOutcome::Changed,
            false => OperationOutcome::Skipped,
        }
    }

    fn available(&self) -> u64 {
        match self.is_of_key {
            true => self.gate.keys().available(&KEY),
            false => {
                let judged = |judged: &dyn Limiter| judged.available();
                let available = self.gate.shared().inspect_limiter("judged", judged);
                available.unwrap_or(0)
            }
        }
    }
}

impl<A: KeyedAlgorithm<Quota = Quota>> Subject for Judged<A> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            available: true,
            retry_after: true,
            set_quota: true,
            own_clock: true,
            ..Capabilities::NONE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = Timestamp::from_nanos(step.at_ns);
        let is_early = !self.is_of_key && now < self.time.now();
        if now == Timestamp::MAX || is_early {
            return OperationOutcome::Skipped;
        }
        self.time.set(now);
        self.steps += 1;
        if self.is_of_key {
            // Another key takes a token at every step; nobody asks what comes of it.
            drop(self.gate.try_acquire(&(self.steps % OTHERS)));
        }
        match step.op {
            Op::Try { n } => match self.gate.try_acquire_n(&self.key(), n) {
                Ok(_) => OperationOutcome::Admitted,
                Err(denied) => refusal(denied),
            },
            Op::Available => OperationOutcome::Holds(self.available()),
            Op::SetQuota { quota, .. } => self.set_quota(quota),
            _ => OperationOutcome::Skipped,
        }
    }
}
