//! Envoys as its source of 1.40 has them, on a network that delays, against one limit.

use super::division::{Assignment, Division, TIME_TO_LIVE, Usage};
use fastrand::Rng;
use flowgate::{Quota, Timestamp};
use std::collections::{BTreeMap, VecDeque};

const MS: u64 = 1_000_000;

/// Envoy's bucket of tokens. It is filled continuously.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    max: u32,
    per_fill: u32,
    interval_s: u64,
    tokens: f64,
}

impl Bucket {
    /// As Envoy does: without parts of a second, and divided by zero if nothing is left.
    fn rate(&self) -> f64 {
        f64::from(self.per_fill) / self.interval_s as f64
    }
}

/// One Envoy.
#[derive(Debug)]
struct Envoy {
    bucket: Option<Bucket>,
    expires_ms: u64,
    next_report_ms: u64,
    usage: Usage,
    /// Requests in a second.
    demand: f64,
    /// When they arrive, and what to do.
    inbox: VecDeque<(u64, Assignment)>,
    /// When they arrive at the server.
    outbox: VecDeque<(u64, Usage)>,
    leaves_ms: u64,
    has_left: bool,
    admitted: u64,
}

impl Envoy {
    fn receive(&mut self, now_ms: u64, assignment: Assignment) {
        self.expires_ms = now_ms + TIME_TO_LIVE.as_secs() * 1000;
        let Assignment::Bucket {
            max_tokens: max,
            tokens_per_fill: per_fill,
            interval_s,
        } = assignment
        else {
            self.bucket = None;
            return;
        };
        let tokens = match self.bucket {
            // A change of seconds alone is not seen.
            Some(old) if (old.max, old.per_fill) == (max, per_fill) => return,
            Some(old) => old.tokens / f64::from(old.max) * f64::from(max),
            None => f64::from(max),
        };
        self.bucket = Some(Bucket {
            max,
            per_fill,
            interval_s,
            tokens,
        });
    }

    /// A request. Returns whether it is admitted by an assignment.
    fn request(&mut self) -> bool {
        let is_allowed = match &mut self.bucket {
            Some(bucket) if bucket.tokens >= 1.0 => {
                bucket.tokens -= 1.0;
                true
            }
            _ => false,
        };
        match is_allowed {
            true => self.usage.allowed += 1,
            false => self.usage.denied += 1,
        }
        self.admitted += u64::from(is_allowed);
        is_allowed
    }
}

/// The bucket that all Envoys together must fit into.
#[derive(Debug)]
struct Reference {
    rate: f64,
    burst: f64,
    tokens: f64,
}

/// A limit, and all Envoys.
struct World {
    rng: Rng,
    quota: Quota,
    division: Division,
    envoys: BTreeMap<u64, Envoy>,
    reference: Reference,
    now_ms: u64,
    next: u64,
    beyond: u64,
    /// The longest time on the way.
    delay_ms: u64,
}

const STEP_MS: u64 = 50;

impl World {
    fn new(seed: u64, quota: &str, delay_ms: u64) -> Self {
        let quota: Quota = quota.parse().unwrap();
        let rate = quota.count() as f64 / quota.period().as_secs_f64();
        let burst = quota.max_burst() as f64;
        Self {
            rng: Rng::with_seed(seed),
            division: Division::new(quota, Timestamp::ORIGIN),
            quota,
            envoys: BTreeMap::new(),
            reference: Reference {
                rate,
                burst,
                tokens: burst,
            },
            now_ms: 0,
            next: 0,
            beyond: 0,
            delay_ms,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now_ms * MS)
    }

    fn join(&mut self, demand: f64, stays_ms: u64) -> u64 {
        self.next += 1;
        let mut envoy = Envoy {
            bucket: None,
            expires_ms: 0,
            next_report_ms: self.now_ms + 5000,
            usage: Usage::default(),
            demand,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            leaves_ms: self.now_ms + stays_ms,
            has_left: false,
            admitted: 0,
        };
        let denied = Usage {
            allowed: 0,
            denied: 1,
        };
        envoy.outbox.push_back((self.now_ms + self.delay(), denied));
        self.envoys.insert(self.next, envoy);
        self.next
    }

    fn delay(&mut self) -> u64 {
        self.rng.u64(0..=self.delay_ms)
    }

    /// A message arrives after those before it.
    fn send<T>(to: &mut VecDeque<(u64, T)>, at: u64, message: T) {
        let at = to.back().map_or(at, |(last, _)| at.max(*last));
        to.push_back((at, message));
    }

    fn step(&mut self) {
        self.now_ms += STEP_MS;
        let (now_ms, now) = (self.now_ms, self.now());
        let span = STEP_MS as f64 / 1000.0;
        let Reference {
            rate,
            burst,
            tokens,
        } = &mut self.reference;
        *tokens = (*tokens + *rate * span).min(*burst);
        let ids: Vec<_> = self.envoys.keys().copied().collect();
        for id in ids {
            let delays = (self.delay(), self.delay());
            let envoy = self.envoys.get_mut(&id).unwrap();
            if let Some(bucket) = &mut envoy.bucket {
                let max = f64::from(bucket.max);
                bucket.tokens = (bucket.tokens + bucket.rate() * span).min(max);
            }
            if !envoy.has_left && now_ms >= envoy.leaves_ms {
                // The stream is gone, and the Envoy goes on with what it has.
                envoy.has_left = true;
                envoy.outbox.clear();
                self.division.end(id);
            }
            while envoy.inbox.front().is_some_and(|(at, _)| *at <= now_ms) {
                let (_, assignment) = envoy.inbox.pop_front().unwrap();
                envoy.receive(now_ms, assignment);
            }
            if envoy.bucket.is_some() && now_ms >= envoy.expires_ms {
                envoy.bucket = None;
            }
            if envoy.has_left && envoy.bucket.is_none() && envoy.inbox.is_empty() {
                self.envoys.remove(&id);
                continue;
            }
            let mut requests = envoy.demand * span;
            while requests >= 1.0 || self.rng.f64() < requests {
                requests -= 1.0;
                if envoy.request() {
                    self.reference.tokens -= 1.0;
                }
            }
            assert!(
                self.reference.tokens > -1e-6,
                "{} at {now_ms} ms",
                self.reference.tokens
            );
            if now_ms >= envoy.next_report_ms && !envoy.has_left {
                envoy.next_report_ms += 5000;
                let usage = std::mem::take(&mut envoy.usage);
                Self::send(&mut envoy.outbox, now_ms + delays.0, usage);
            }
            while envoy.outbox.front().is_some_and(|(at, _)| *at <= now_ms) {
                let (_, usage) = envoy.outbox.pop_front().unwrap();
                let (assignment, beyond) = self.division.report(now, id, usage, self.quota, 1);
                self.beyond += beyond;
                Self::send(&mut envoy.inbox, now_ms + delays.1, assignment);
            }
        }
        self.check();
    }

    /// What Envoys have, together, is within the limit.
    fn check(&self) {
        let buckets = || self.envoys.values().filter_map(|envoy| envoy.bucket);
        let rate: f64 = buckets().map(|bucket| bucket.rate()).sum();
        let max: u64 = buckets().map(|bucket| u64::from(bucket.max)).sum();
        assert!(rate <= self.reference.rate * (1.0 + 1e-9), "{rate}");
        assert!(max <= self.quota.max_burst(), "{max}");
    }

    fn run(&mut self, seconds: u64) {
        (0..seconds * 1000 / STEP_MS).for_each(|_| self.step());
    }

    fn admitted(&self, id: u64) -> u64 {
        self.envoys[&id].admitted
    }
}

const FOREVER: u64 = u64::MAX / 2;

#[test]
fn c1_a_thousand_joins_and_leaves_never_have_more_than_the_limit() {
    for (seed, quota) in (0..).zip([
        "10/s burst 20",
        "1000/s burst 300",
        "7/min burst 3",
        "1/s burst 1",
    ]) {
        let mut world = World::new(seed, quota, 2000);
        for _ in 0..250 {
            let rate = world.reference.rate;
            let demand = world.rng.f64() * rate;
            let stays = world.rng.u64(0..60_000);
            world.join(demand, stays);
            (0..world.rng.u64(0..100)).for_each(|_| world.step());
        }
    }
}

#[test]
fn c2_two_busy_envoys_get_the_whole_rate() {
    let mut world = World::new(1, "10/s burst 20", 20);
    let ids = [world.join(20.0, FOREVER), world.join(20.0, FOREVER)];
    world.run(60);
    let before = ids.map(|id| world.admitted(id));
    world.run(60);
    let gained: Vec<_> = (0..2)
        .map(|place| world.admitted(ids[place]) - before[place])
        .collect();
    let all: u64 = gained.iter().sum();
    assert!((588..=600).contains(&all), "{gained:?}");
    assert!(gained.iter().all(|one| *one >= 280), "{gained:?}");
    assert_eq!(world.beyond, 0);
}
