//! Callers of a keyed gate who try, wait, time out, give up, hold on and let go at random, while keys are used without the gate and
//! quotas are replaced. What they got is judged for each key and for all together, and nothing is lost or minted.

use flowgate::{
    Acquire, ConcurrencyLimit, Gate, Hashed, Keyed, KeyedGate, KeyedTurn, LeakyBucket, ManualClock,
    OwnedPermit, Quota, TokenBucket,
};
use flowgate_testkit::history::{Change, Event, check_changing};
use flowgate_testkit::task::Task;
use std::sync::Arc;
use std::time::Duration;

const KEYS: usize = 4;
const MOST_SLOTS: u32 = 5;

/// What somebody waits for, and since when.
struct Wait {
    task: Task<Acquire<KeyedTurn<TokenBucket, Hashed>>>,
    key: usize,
    since_ns: u64,
}

/// A limit, the quotas that it may have, and what was granted of it.
struct Member {
    quotas: [Quota; 2],
    now: usize,
    changes: Vec<Change>,
    events: Vec<Event>,
}

impl Member {
    fn new(quotas: [&str; 2]) -> Self {
        Self {
            quotas: quotas.map(|quota| quota.parse().unwrap()),
            now: 0,
            changes: Vec::new(),
            events: Vec::new(),
        }
    }

    fn quota(&self) -> Quota {
        self.quotas[self.now]
    }

    /// The other quota, from `now_ns` on.
    fn turn(&mut self, now_ns: u64) -> Quota {
        self.now = 1 - self.now;
        let quota = self.quota();
        self.changes.push(Change {
            invoked_ns: now_ns,
            returned_ns: now_ns,
            quota,
        });
        quota
    }

    fn grant(&mut self, from_ns: u64, to_ns: u64, n: u64) {
        self.events.push(Event {
            invoked_ns: from_ns,
            returned_ns: to_ns,
            n,
            admitted: true,
        });
    }

    fn granted(&self) -> u64 {
        self.events.iter().map(|event| event.n).sum()
    }
}

struct Adversary {
    gate: KeyedGate<TokenBucket>,
    time: ManualClock,
    rng: fastrand::Rng,
    waits: Vec<Wait>,
    held: Vec<OwnedPermit<Gate>>,
    /// All keys have the quotas of the first.
    keys: Vec<Member>,
    site: Member,
    longest_step_ns: u64,
}

impl Adversary {
    fn new(seed: u64, of_keys: [&str; 2], of_site: [&str; 2], longest_step_ns: u64) -> Self {
        let time = ManualClock::new();
        let (keys, site) = (Member::new(of_keys), Member::new(of_site));
        let table = Keyed::token_bucket(keys.quota()).clock(&time).seed([1, 2]);
        let bucket = TokenBucket::builder(site.quota()).clock(&time);
        let slots = ConcurrencyLimit::builder(MOST_SLOTS).clock(&time);
        let gate = Gate::builder()
            .limit("site", bucket.build().unwrap())
            .limit("slots", slots.build().unwrap())
            .keyed("key", table.capacity(100).unwrap());
        Self {
            gate: gate.build().unwrap(),
            time,
            rng: fastrand::Rng::with_seed(seed),
            waits: Vec::new(),
            held: Vec::new(),
            keys: (0..KEYS).map(|_| Member::new(of_keys)).collect(),
            site,
            longest_step_ns,
        }
    }

    fn now_ns(&self) -> u64 {
        self.time.now().as_nanos()
    }

    fn in_flight(&self) -> u64 {
        let slots = self
            .gate
            .shared()
            .inspect("slots", ConcurrencyLimit::in_flight);
        slots.unwrap()
    }

    fn admit(&mut self, permit: OwnedPermit<Gate>, key: usize, since_ns: u64) {
        let (now_ns, n) = (self.now_ns(), permit.units());
        // The token of the key is taken when the permit is; those of the site as of when its turn came.
        self.keys[key].grant(now_ns, now_ns, n);
        self.site.grant(since_ns, now_ns, n);
        self.held.push(permit);
    }

    /// As a runtime would, until nobody is woken any more.
    fn run(&mut self) {
        while let Some(index) = self.waits.iter().position(|wait| wait.task.was_woken()) {
            if self.waits[index].task.run() {
                let wait = self.waits.swap_remove(index);
                if let Some(Ok(permit)) = wait.task.output {
                    self.admit(permit, wait.key, wait.since_ns);
                }
            }
        }
        let held: u64 = self.held.iter().map(OwnedPermit::units).sum();
        assert_eq!(self.in_flight(), held, "slots that nobody holds");
    }

    fn wait(&mut self, key: usize) {
        let (n, since_ns) = (self.rng.u64(1..=3), self.now_ns());
        let mut wait = self.gate.acquire(&key).n(n);
        if self.rng.bool() {
            let patience_ns = self.rng.u64(0..=8 * self.longest_step_ns);
            wait = wait.within(Duration::from_nanos(patience_ns));
        }
        let task = Task::start(wait);
        match task.output {
            Some(Ok(permit)) => self.admit(permit, key, since_ns),
            Some(Err(_)) => {}
            None => self.waits.push(Wait {
                task,
                key,
                since_ns,
            }),
        }
    }

    fn reload_keys(&mut self) {
        let now_ns = self.now_ns();
        for key in &mut self.keys {
            key.turn(now_ns);
        }
        self.gate.keys().set_quota(self.keys[0].quota()).unwrap();
    }

    fn reload_site(&mut self) {
        let quota = self.site.turn(self.time.now().as_nanos());
        let set = |site: &TokenBucket| site.set_quota(quota);
        self.gate.shared().configure("site", set).unwrap().unwrap();
    }

    fn resize(&mut self, slots: u32) {
        let set = |limit: &ConcurrencyLimit| limit.set_limit(slots);
        self.gate.shared().configure("slots", set).unwrap().unwrap();
    }

    fn step(&mut self) {
        let (key, now_ns) = (self.rng.usize(..KEYS), self.now_ns());
        match self.rng.u8(..100) {
            0..30 => self.wait(key),
            30..40 => {
                let n = self.rng.u64(1..=2);
                if let Ok(permit) = self.gate.try_acquire_n(&key, n) {
                    self.admit(permit, key, now_ns);
                }
            }
            // The key is used elsewhere, too.
            40..43 if self.gate.keys().try_acquire(&key).is_ok() => {
                self.keys[key].grant(now_ns, now_ns, 1);
            }
            43..58 if !self.waits.is_empty() => {
                // Perhaps granted, unseen.
                drop(self.waits.swap_remove(self.rng.usize(..self.waits.len())));
            }
            58..75 if !self.held.is_empty() => {
                drop(self.held.swap_remove(self.rng.usize(..self.held.len())));
            }
            75..88 => {
                let step_ns = self.rng.u64(1..=self.longest_step_ns);
                self.time.advance(Duration::from_nanos(step_ns));
            }
            88..90 => self.reload_keys(),
            90..92 => self.reload_site(),
            92..94 => {
                let slots = self.rng.u32(..=MOST_SLOTS);
                self.resize(slots);
            }
            _ => self.run(),
        }
    }

    /// Each by itself, and all together.
    fn judge(&self) {
        for (key, member) in self.keys.iter().enumerate() {
            let judged = check_changing(member.quotas[0], &member.changes, &member.events);
            judged.unwrap_or_else(|broken| panic!("key {key}: {broken}"));
        }
        let Member {
            quotas,
            changes,
            events,
            ..
        } = &self.site;
        check_changing(quotas[0], changes, events)
            .unwrap_or_else(|broken| panic!("site: {broken}"));
    }

    /// Everybody who still waits is served once all is let go: no wake-up is lost.
    fn settle(&mut self) {
        self.resize(MOST_SLOTS);
        for _ in 0..10_000 {
            self.run();
            self.held.clear();
            if self.waits.is_empty() {
                break;
            }
            let step_ns = self.longest_step_ns;
            self.time.advance(Duration::from_nanos(step_ns));
        }
        self.run();
        self.held.clear();
        assert_eq!(self.waits.len(), 0, "somebody still waits");
        assert_eq!(self.in_flight(), 0);
        assert!(self.gate.shared().queue().is_empty());
    }
}

#[test]
fn c1_c5_c6_no_key_and_no_shared_limit_is_overrun_and_nobody_is_left() {
    let mut granted = 0;
    for seed in 0..300 {
        // A few tokens in each step of the clock.
        let keys = ["100/s burst 4", "300/s burst 6"];
        let site = ["400/s burst 8", "150/s burst 5"];
        let mut adversary = Adversary::new(seed, keys, site, 20_000_000);
        for _ in 0..300 {
            adversary.step();
        }
        adversary.settle();
        adversary.judge();
        granted += adversary.keys.iter().map(Member::granted).sum::<u64>();
    }
    assert!(granted > 6_000, "{granted} granted");
}

/// Nothing flows in while it lasts, so that what is left tells what was taken.
#[test]
fn c5_no_token_and_no_slot_is_lost_or_minted() {
    for seed in 0..300 {
        let keys = ["1/h burst 80", "2/h burst 60"];
        let site = ["1/h burst 200", "3/h burst 200"];
        let mut adversary = Adversary::new(1_000 + seed, keys, site, 1_000_000);
        for _ in 0..300 {
            adversary.step();
        }
        // Granted and unseen, some of them.
        adversary.waits.clear();
        adversary.run();
        adversary.held.clear();
        assert_eq!(adversary.in_flight(), 0);
        for (key, member) in adversary.keys.iter().enumerate() {
            let burst = member.quota().explicit_burst().unwrap();
            let left = burst.saturating_sub(member.granted());
            assert_eq!(
                adversary.gate.keys().available(&key),
                left,
                "seed {seed}, key {key}"
            );
        }
        let left = adversary
            .gate
            .shared()
            .inspect("site", TokenBucket::available);
        assert_eq!(left, Some(200 - adversary.site.granted()), "seed {seed}");
    }
}

/// The first few polls of a wait, each of which may be the last.
#[test]
fn c5_a_wait_that_is_dropped_after_any_number_of_polls_takes_nothing() {
    let second = Duration::from_secs(1);
    for polls in 0..12 {
        for seen in [false, true] {
            let time = ManualClock::new();
            let hosts = Keyed::leaky_bucket("1/2s".parse().unwrap()).clock(&time);
            let hosts: Arc<Keyed<LeakyBucket>> = Arc::new(hosts.capacity(10).unwrap());
            let site = TokenBucket::builder("1/h burst 9".parse().unwrap()).clock(&time);
            let slots = ConcurrencyLimit::builder(1).clock(&time);
            let gate = Gate::builder()
                .limit("site", site.build().unwrap())
                .limit("slots", slots.build().unwrap())
                .keyed("host", Arc::clone(&hosts))
                .build()
                .unwrap();
            // Behind another of its key, for the key, for a slot: a stage each second.
            let mut held = Some(gate.try_acquire("b").unwrap());
            let mut ahead = Some(Task::start(gate.acquire("a")));
            let mut wait = Task::start(gate.acquire("a"));
            for poll in 0..polls {
                time.advance(second / 2);
                if poll == 2 {
                    held = None;
                }
                if let Some(Ok(permit)) = ahead.as_mut().and_then(|ahead| {
                    ahead.poll();
                    ahead.output.take()
                }) {
                    (held, ahead) = (Some(permit), None);
                }
                if poll == 9 {
                    held = None;
                }
                if seen || poll + 1 < polls {
                    wait.poll();
                }
            }
            let granted = wait.output.take().map(|answer| answer.map(drop).unwrap());
            drop(wait);
            let taken = 2 - u64::from(ahead.is_some()) + u64::from(granted.is_some());
            drop((held, ahead));
            let left = gate.shared().inspect("site", TokenBucket::available);
            assert_eq!(left, Some(9 - taken), "{polls} polls");
            let in_flight = gate.shared().inspect("slots", ConcurrencyLimit::in_flight);
            assert_eq!(in_flight, Some(0), "{polls} polls");
            time.advance(2 * second);
            assert!(gate.try_acquire("a").is_ok(), "{polls} polls");
        }
    }
}
