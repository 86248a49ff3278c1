//! Envoys as its source of 1.40 has them, on a network that delays, against one limit. Then single reports, and streams.

use super::division::{Assignment, Division, TIME_TO_LIVE, Usage};
use super::{Answer, QuotaStream};
use crate::bounds::MAX_QUOTA_STREAMS;
use crate::{Config, DecideLimits, DecisionTime};
use fastrand::Rng;
use flowgate::{ManualClock, Quota, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

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
    /// The stream's name for its bucket. Another stream has another one.
    holder: u64,
    /// When they arrive at the server.
    outbox: VecDeque<(u64, Usage)>,
    leaves_ms: u64,
    has_left: bool,
    admitted: u64,
}

impl Envoy {
    fn receive(&mut self, now_ms: u64, assignment: Assignment) {
        if assignment == Assignment::Keep {
            return;
        }
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
    /// How often a stream breaks in a step.
    breaks: f64,
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
            breaks: 0.0,
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
            holder: self.next,
            outbox: VecDeque::new(),
            leaves_ms: self.now_ms + stays_ms,
            has_left: false,
            admitted: 0,
        };
        let denied = Usage {
            allowed: 0,
            denied: 1,
            is_new: true,
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
                self.division.end(envoy.holder);
            } else if !envoy.has_left && self.rng.f64() < self.breaks {
                // The stream breaks. With the next report, there is another one.
                self.division.end(envoy.holder);
                envoy.outbox.clear();
                self.next += 1;
                envoy.holder = self.next;
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
                let holder = envoy.holder;
                let (assignment, beyond) = self.division.report(now, holder, usage, self.quota, 1);
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
        world.breaks = 0.001;
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

#[test]
fn c6_nobody_starves() {
    let mut world = World::new(2, "10/s burst 20", 100);
    let ids: Vec<_> = (0..8).map(|_| world.join(5.0, FOREVER)).collect();
    // One that wants a hundred times as much, and one that wants little.
    let greedy = world.join(500.0, FOREVER);
    let modest = world.join(0.5, FOREVER);
    world.run(90);
    let before: Vec<_> = ids.iter().map(|id| world.admitted(*id)).collect();
    let (greedy_before, modest_before) = (world.admitted(greedy), world.admitted(modest));
    world.run(60);
    for (id, before) in ids.iter().zip(before) {
        let gained = world.admitted(*id) - before;
        assert!((55..=70).contains(&gained), "{gained}");
    }
    let gained = world.admitted(greedy) - greedy_before;
    assert!((55..=70).contains(&gained), "{gained}");
    // It has what it wants: 30, give or take what chance does.
    let gained = world.admitted(modest) - modest_before;
    assert!(gained >= 12, "{gained}");
}

#[test]
fn c6_more_envoys_than_tokens_take_turns() {
    let mut world = World::new(3, "1/s burst 1", 100);
    let ids: Vec<_> = (0..3).map(|_| world.join(2.0, FOREVER)).collect();
    world.run(600);
    for id in ids {
        assert!(world.admitted(id) > 50, "{}", world.admitted(id));
    }
}

/// A limit, asked at times in milliseconds.
struct Bench {
    quota: Quota,
    division: Division,
}

impl Bench {
    fn new(quota: &str) -> Self {
        let quota = quota.parse().unwrap();
        let division = Division::new(quota, Timestamp::ORIGIN);
        Self { quota, division }
    }

    fn report(&mut self, at_ms: u64, holder: u64, allowed: u64, denied: u64) -> (Assignment, u64) {
        let now = Timestamp::from_nanos(at_ms * MS);
        let usage = Usage {
            allowed,
            denied,
            is_new: true,
        };
        self.division.report(now, holder, usage, self.quota, 1)
    }

    /// Returns tokens in an interval, and the size of the bucket.
    fn part(&mut self, at_ms: u64, holder: u64, allowed: u64, denied: u64) -> (u32, u32) {
        match self.report(at_ms, holder, allowed, denied).0 {
            Assignment::DenyAll | Assignment::Keep => (0, 0),
            Assignment::Bucket {
                max_tokens,
                tokens_per_fill,
                ..
            } => (tokens_per_fill, max_tokens),
        }
    }
}

/// An interval of less than a second divides Envoy by zero, and it drops the rest of a second.
#[test]
fn c8_the_interval_is_whole_seconds_and_the_rate_at_most_the_limits() {
    for count in [1_u64, 3, 7, 10, 999, 1000, 1001, 123_457, 4_000_000_000] {
        for unit in ["s", "min", "h", "100ms", "7s"] {
            let Ok(quota) = format!("{count}/{unit}").parse::<Quota>() else {
                panic!("{count}/{unit}");
            };
            let now = Timestamp::ORIGIN;
            let usage = Usage::default();
            let (assignment, _) = Division::new(quota, now).report(now, 1, usage, quota, 1);
            let Assignment::Bucket {
                tokens_per_fill,
                interval_s,
                ..
            } = assignment
            else {
                panic!("{quota}");
            };
            assert!(interval_s >= 1, "{quota}");
            let given = u128::from(tokens_per_fill) * quota.period().as_nanos();
            let limit = u128::from(count) * u128::from(interval_s) * 1_000_000_000;
            assert!(given <= limit, "{quota}: {assignment:?}");
            // A bucket of Envoy has 32 bits.
            let most = limit.min(u128::from(u32::MAX) * quota.period().as_nanos());
            assert!(given * 1001 >= most * 1000, "{quota}: {assignment:?}");
        }
    }
}

/// Envoy does not see that only the seconds of an interval have changed.
#[test]
fn another_interval_comes_only_after_deny_all() {
    let mut bench = Bench::new("1000/s");
    let mut last = bench.report(0, 1, 0, 1).0;
    bench.quota = "1/min burst 10".parse().unwrap();
    let interval = |assignment| match assignment {
        Assignment::DenyAll | Assignment::Keep => None,
        Assignment::Bucket { interval_s, .. } => Some(interval_s),
    };
    let mut seen = vec![interval(last)];
    for report in 1..40 {
        let next = bench.report(report * 5000, 1, 0, 100).0;
        if interval(next) != interval(last) {
            seen.push(interval(next));
        }
        last = next;
    }
    assert_eq!(seen, [Some(1), None, Some(60_000)]);
}

/// Between the end of an assignment and the next one, Envoy forgets its bucket, and fills another.
#[test]
fn c1_an_assignment_that_may_be_gone_is_not_given_again() {
    let mut bench = Bench::new("10/s burst 20");
    assert_eq!(bench.part(0, 1, 0, 1), (1000, 20));
    assert_eq!(bench.part(12_000, 1, 120, 100), (1000, 20), "it is there");
    // The next report is late. Envoy may have a new bucket when the answer arrives.
    assert_eq!(bench.part(24_001, 1, 120, 100), (0, 0));
    // When the old one is certainly gone, the new one is filled from what has come since.
    assert_eq!(bench.part(29_000, 1, 0, 100), (0, 0));
    assert_eq!(
        bench.part(32_000, 1, 0, 100),
        (0, 0),
        "known to be free from now on"
    );
    assert_eq!(bench.part(32_500, 1, 0, 100), (750, 5));
}

/// Envoy lets the first request of a bucket pass before there is an assignment, unless its configuration says otherwise.
#[test]
fn what_is_allowed_beyond_assignments_is_charged() {
    let mut bench = Bench::new("10/s burst 20");
    let (assignment, beyond) = bench.report(0, 1, 1, 0);
    assert_eq!(beyond, 1);
    let expected = Assignment::Bucket {
        max_tokens: 19,
        tokens_per_fill: 980,
        interval_s: 100,
    };
    assert_eq!(assignment, expected);
    // What the assignment allows is not beyond it: 19 and 49.
    let (_, beyond) = bench.report(5000, 1, 68, 0);
    assert_eq!(beyond, 0);
    let (_, beyond) = bench.report(10_000, 1, 500, 0);
    assert!((430..=452).contains(&beyond), "{beyond}");
    // The debt is at most a burst, whatever a client reports. It is paid with a quarter of the rate.
    let (assignment, beyond) = bench.report(15_000, 1, u64::MAX, u64::MAX);
    assert!(beyond > 1 << 31, "{beyond}");
    assert!(
        matches!(
            assignment,
            Assignment::Bucket {
                tokens_per_fill: 750,
                ..
            }
        ),
        "{assignment:?}"
    );
    let mut last = (0, 0);
    for report in 4..12 {
        last = bench.part(report * 5000, 1, 35, 100);
    }
    assert_eq!(last, (1000, 20));
}

#[test]
fn c1_a_part_is_given_away_when_two_reports_have_come_since() {
    let mut bench = Bench::new("10/s burst 20");
    assert_eq!(bench.part(0, 1, 0, 1), (1000, 20));
    assert_eq!(bench.part(1000, 2, 0, 1), (0, 0), "all is taken");
    assert_eq!(bench.part(5000, 1, 50, 100), (500, 10), "it is cut");
    assert_eq!(
        bench.part(6000, 2, 0, 100),
        (0, 0),
        "the cut may not have arrived"
    );
    assert_eq!(bench.part(10_000, 1, 25, 100), (500, 10));
    assert_eq!(bench.part(11_000, 2, 0, 100), (0, 0), "one report");
    assert_eq!(bench.part(15_000, 1, 25, 100), (500, 10));
    // Two. The bucket is filled from what has come since, and the rest is paid with a fifth of the rate.
    assert_eq!(bench.part(16_000, 2, 0, 100), (400, 5));
    assert_eq!(bench.part(17_000, 2, 9, 100), (420, 6), "one more has come");
    assert_eq!(bench.part(20_000, 1, 25, 100), (500, 10));
    assert_eq!(bench.part(21_000, 2, 18, 100), (480, 9));
    assert_eq!(bench.part(26_000, 2, 24, 100), (500, 10));
}

/// A stream that breaks is no reason to deny.
#[test]
fn an_envoy_that_comes_back_goes_on_with_what_it_has() {
    let mut bench = Bench::new("10/s burst 20");
    assert_eq!(bench.part(0, 1, 0, 1), (1000, 20));
    bench.division.end(1);
    let mut back = |at_ms, allowed| {
        let now = Timestamp::from_nanos(at_ms * MS);
        let usage = Usage {
            allowed,
            denied: 10,
            is_new: false,
        };
        bench.division.report(now, 2, usage, bench.quota, 1)
    };
    // The assignment of before is good for 16 s. Nothing is charged again.
    assert_eq!(back(5000, 68), (Assignment::Keep, 68));
    assert_eq!(back(15_000, 0).0, Assignment::Keep);
    assert_eq!(back(20_000, 0).0, Assignment::Keep);
    let expected = Assignment::Bucket {
        max_tokens: 10,
        tokens_per_fill: 800,
        interval_s: 100,
    };
    assert_eq!(back(21_000, 0).0, expected);
}

#[test]
fn c1_who_is_gone_keeps_its_part_until_that_expires() {
    let mut bench = Bench::new("10/s burst 20");
    assert_eq!(bench.part(0, 1, 0, 1), (1000, 20));
    bench.division.end(1);
    assert_eq!(bench.part(1000, 2, 0, 1), (0, 0));
    assert_eq!(bench.part(11_000, 2, 0, 1), (0, 0));
    assert_eq!(bench.part(19_999, 2, 0, 1), (0, 0));
    assert_eq!(
        bench.part(21_000, 2, 0, 1),
        (0, 0),
        "known to be free from now on"
    );
    assert_eq!(bench.part(22_000, 2, 0, 1), (800, 10));
    bench.division.end(2);
    // The reserve fills when it is known that nobody has a part.
    let times = [22_000, 42_000, 42_900, 43_100].map(|ms| Timestamp::from_nanos(ms * MS));
    let idle = times.map(|now| bench.division.is_idle(now));
    assert_eq!(idle, [false, false, false, true]);
}

#[test]
fn room_is_left_for_those_of_before_a_restart() {
    let quota: Quota = "10/s burst 20".parse().unwrap();
    let mut division = Division::new(quota, Timestamp::ORIGIN);
    let busy = Usage {
        allowed: 0,
        denied: 100,
        is_new: true,
    };
    let parts: Vec<_> = (1..=4)
        .map(|holder| division.report(Timestamp::ORIGIN, holder, busy, quota, 4).0)
        .collect();
    let quarter = Assignment::Bucket {
        max_tokens: 5,
        tokens_per_fill: 250,
        interval_s: 100,
    };
    assert_eq!(parts, [quarter; 4]);
}

const LIMITS: &str = "{domain: edge, descriptors: [{key: user, quota: 10/s burst 20, rlqs: true}]}";

fn limits(text: &str, clock: &ManualClock) -> DecideLimits {
    let config = Config::parse("test.yaml", text).unwrap();
    DecideLimits::new(&config, &DecisionTime::from_epoch(clock)).unwrap()
}

fn ask(stream: &mut QuotaStream, limits: &DecideLimits, user: &str, denied: u64) -> Option<Answer> {
    let bucket = super::Bucket::from([("user".to_owned(), user.as_bytes().to_vec())]);
    let usage = Usage {
        allowed: 0,
        denied,
        is_new: true,
    };
    stream.report(limits, "edge", &bucket, usage)
}

/// Returns the size of the bucket that is assigned.
fn size(answer: Option<Answer>) -> u32 {
    match answer {
        Some(Answer::Assign(Assignment::Bucket { max_tokens, .. })) => max_tokens,
        Some(Answer::Assign(Assignment::DenyAll)) => 0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bucket_without_requests_is_abandoned() {
    let clock = ManualClock::new();
    let limits = limits(LIMITS, &clock);
    let mut stream = limits.quotas().open().unwrap();
    assert_eq!(size(ask(&mut stream, &limits, "a", 1)), 20);
    let mut answers = Vec::new();
    for _ in 0..13 {
        clock.advance(Duration::from_secs(5));
        answers.push(ask(&mut stream, &limits, "a", 0));
    }
    assert_eq!(
        answers.iter().position(|one| *one == Some(Answer::Abandon)),
        Some(11)
    );
    // It was in use until a moment ago, so it is full for nobody.
    assert_eq!(size(answers[12]), 0);
    // Others are not concerned.
    assert_eq!(size(ask(&mut stream, &limits, "b", 1)), 20);
}

#[test]
fn c9_streams_are_bounded() {
    let limits = limits(LIMITS, &ManualClock::new());
    let mut streams: Vec<_> = (0..MAX_QUOTA_STREAMS)
        .map(|_| limits.quotas().open().unwrap())
        .collect();
    assert!(limits.quotas().open().is_none());
    streams.pop();
    assert!(limits.quotas().open().is_some());
}

#[test]
fn a_reload_keeps_the_parts() {
    let clock = ManualClock::new();
    let before = limits(LIMITS, &clock);
    let mut stream = before.quotas().open().unwrap();
    assert_eq!(size(ask(&mut stream, &before, "a", 1)), 20);
    let config = Config::parse("test.yaml", &LIMITS.replace("burst 20", "burst 8")).unwrap();
    let after = before.reloaded(&config).unwrap();
    clock.advance(Duration::from_secs(5));
    let mut other = after.quotas().open().unwrap();
    assert_eq!(size(ask(&mut other, &after, "a", 1)), 0);
    assert_eq!(size(ask(&mut stream, &after, "a", 50)), 4);
}

#[test]
fn a_planned_restart_leaves_room_for_all_envoys_of_before() {
    let clock = ManualClock::new();
    let before = limits(LIMITS, &clock);
    let mut streams: Vec<_> = (0..4).map(|_| before.quotas().open().unwrap()).collect();
    for report in 0..8 {
        for stream in &mut streams {
            ask(stream, &before, "a", 50);
        }
        clock.advance(Duration::from_secs(if report < 7 { 5 } else { 1 }));
    }
    drop(streams);
    let state = before.state();
    let time = DecisionTime::from_epoch(&clock);
    let after = DecideLimits::restored(before.config(), &time, "state", &state).unwrap();
    let mut stream = after.quotas().open().unwrap();
    assert_eq!(size(ask(&mut stream, &after, "a", 50)), 5);
    clock.advance(Duration::from_secs(11));
    assert_eq!(size(ask(&mut stream, &after, "a", 50)), 5);
    clock.advance(Duration::from_secs(6));
    assert_eq!(size(ask(&mut stream, &after, "a", 50)), 20);
}
