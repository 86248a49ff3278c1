//! Whatever Envoys report, and whenever, their assignments never sum to more than the limit. What they take by them is no more
//! than one token bucket would admit.
//!
//! `cargo +nightly fuzz run rlqs`
#![no_main]

use flowgate::ManualClock;
use flowgate_server::{Config, DecideLimits, DecisionTime, RlqsStream};
use libfuzzer_sys::fuzz_target;
use prost::{Message, Oneof};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

const LIMITS: &str = "
domain: edge
descriptors:
  - { key: service, value: search, quota: 10/s burst 20, rlqs: true }
  - { key: user, quota: 7/min burst 3, rlqs: true }
  - { key: asked, quota: 10/s, capacity: 100 }
  - { key: free, rate_limit: { unlimited: true } }
";
/// Envoys that are connected.
const STREAMS: usize = 4;

/// Limits, which take more time to make than an input to run.
static FULL: LazyLock<(DecideLimits, ManualClock)> = LazyLock::new(|| {
    let config = Config::parse("limits.yaml", LIMITS).expect("it is well formed");
    let clock = ManualClock::new();
    let limits = DecideLimits::new(&config, &DecisionTime::from_epoch(&clock));
    (limits.expect("there is room"), clock)
});

// Each step is its kind, an Envoy, and what is below.
fuzz_target!(|input: &[u8]| {
    let (limits, clock) = &*FULL;
    // All streams of the input before have ended, and all limits are full again.
    clock.advance(Duration::from_secs(3600));
    let mut world = World {
        limits,
        streams: [const { None }; STREAMS],
        next: 0,
        held: BTreeMap::new(),
        references: BTreeMap::new(),
    };
    let mut rest = Rest(input);
    while let (Some(kind), Some(envoy)) = (rest.byte(), rest.byte()) {
        let envoy = usize::from(envoy) % STREAMS;
        match kind % 10 {
            // Up to 64 s pass.
            0..=2 => {
                let time = Duration::from_millis(250) * rest.byte().unwrap_or(1).into();
                clock.advance(time);
                world.pass(time.as_secs_f64());
            }
            // The stream breaks. Its Envoy goes on with what it has.
            3 => world.streams[envoy] = None,
            4 => world.spend(envoy),
            // Any bytes.
            5 => {
                let length = rest.byte().unwrap_or(0);
                let report = rest.bytes(length.into()).to_vec();
                world.report(envoy, &report);
            }
            _ => {
                let buckets = rest.byte().unwrap_or(1) % 4;
                let usages = (0..buckets).map(|_| rest.usage());
                let report = Reports {
                    domain: "edge".to_owned(),
                    usages: usages.collect(),
                };
                world.report(envoy, &report.encode_to_vec());
            }
        }
    }
});

/// The rest of the input.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// A report about one bucket, which may be true or not.
    fn usage(&mut self) -> BucketUsage {
        let [bucket, elapsed_s, allowed, denied] =
            [(); 4].map(|()| self.byte().unwrap_or_default());
        let (key, value) = match bucket % 8 {
            0..=3 => ("service", "search"),
            4 => ("user", "alice"),
            5 => ("user", "bob"),
            6 => ("asked", "x"),
            _ => ("free", "x"),
        };
        // From 0 to more than any limit.
        let number = |byte: u8| u64::from(byte) << (byte / 16);
        BucketUsage {
            id: Some(bucket_of(key, value)),
            elapsed: Some(Seconds {
                seconds: (elapsed_s % 8).into(),
            }),
            allowed: number(allowed),
            denied: number(denied),
        }
    }
}

fn bucket_of(key: &str, value: &str) -> BucketId {
    BucketId {
        bucket: BTreeMap::from([(key.to_owned(), value.as_bytes().to_vec())]),
    }
}

/// Limits, with their Envoys.
struct World {
    limits: &'static DecideLimits,
    streams: [Option<Stream>; STREAMS],
    /// The number of the next stream.
    next: u64,
    /// What Envoys have, by the limit's bucket and the number of the stream that assigned it.
    held: BTreeMap<(Pairs, u64), Assigned>,
    /// For each bucket, the tokens that one bucket for all Envoys would have.
    references: BTreeMap<Pairs, f64>,
}

type Pairs = BTreeMap<String, Vec<u8>>;

struct Stream {
    number: u64,
    /// Whether its domain is the one with limits.
    is_limited: bool,
    stream: RlqsStream,
}

/// A bucket of an Envoy.
struct Assigned {
    max: f64,
    per_second: f64,
    tokens: f64,
    /// When it is forgotten.
    expires_s: f64,
    /// Whether the Envoy takes each token when it comes, or saves them.
    is_greedy: bool,
}

impl World {
    /// Fills all buckets. As no more flows out than in, tokens that are beyond the burst in between are beyond it at the end.
    fn pass(&mut self, seconds: f64) {
        for (pairs, tokens) in &mut self.references {
            let (rate, _) = limit(pairs).expect("it is limited");
            *tokens += rate * seconds;
        }
        for ((pairs, _), assigned) in &mut self.held {
            let filled = assigned.per_second * assigned.expires_s.min(seconds);
            match assigned.is_greedy {
                true => *self.references.get_mut(pairs).expect("it is there") -= filled,
                false => assigned.tokens = (assigned.tokens + filled).min(assigned.max),
            }
            assigned.expires_s -= seconds;
        }
        self.held.retain(|_, assigned| assigned.expires_s > 0.0);
        for (pairs, tokens) in &mut self.references {
            let (_, burst) = limit(pairs).expect("it is limited");
            *tokens = tokens.min(burst);
        }
        self.check();
    }

    /// An Envoy takes all that it has saved, also on streams of before.
    fn spend(&mut self, envoy: usize) {
        for ((pairs, number), assigned) in &mut self.held {
            if *number as usize % STREAMS == envoy {
                let taken = std::mem::take(&mut assigned.tokens);
                *self.references.get_mut(pairs).expect("it is there") -= taken;
            }
        }
        self.check();
    }

    fn report(&mut self, envoy: usize, report: &[u8]) {
        let number = self.next;
        let stream = self.streams[envoy].get_or_insert_with(|| Stream {
            number,
            is_limited: Reports::decode(report).is_ok_and(|first| first.domain == "edge"),
            stream: RlqsStream::open(self.limits).expect("there are few"),
        });
        self.next = self.next.max(stream.number + 1);
        let (number, is_limited) = (stream.number, stream.is_limited);
        let Some(answer) = stream.stream.answer_bytes(self.limits, report) else {
            // The server ends the stream.
            self.streams[envoy] = None;
            return;
        };
        let answer = Response::decode(&*answer).expect("it is well formed");
        for action in answer.actions.into_iter().filter(|_| is_limited) {
            let pairs = action.id.expect("a bucket has an id").bucket;
            self.obey(pairs, number, action.action.expect("it is known"));
        }
        self.check();
    }

    /// An Envoy does what it is told.
    fn obey(&mut self, pairs: Pairs, number: u64, action: Action) {
        let at = (pairs, number);
        let strategy = match action {
            Action::Assign(assign) => {
                assert_eq!(assign.time_to_live.map(|time| time.seconds), Some(16));
                assign.strategy.and_then(|strategy| strategy.strategy)
            }
            Action::Abandon(_) => None,
        };
        let bucket = match strategy {
            Some(Strategy::TokenBucket(bucket)) => bucket,
            Some(Strategy::BlanketRule(rule)) => {
                // 0: allow all, without a limit.
                assert!(rule == 1 || limit(&at.0).is_none());
                self.held.remove(&at);
                return;
            }
            None => {
                self.held.remove(&at);
                return;
            }
        };
        let (_, burst) = limit(&at.0).expect("a part of a limit");
        let interval_s = bucket.fill_interval.expect("it is filled").seconds;
        assert!(interval_s >= 1);
        let per_fill = bucket.tokens_per_fill.expect("it is filled");
        let max = f64::from(bucket.max_tokens);
        // A new bucket is full, and another one is filled in proportion.
        let mut tokens = match self.held.get(&at) {
            Some(before) => before.tokens / before.max * max,
            None => max,
        };
        let is_greedy = number.is_multiple_of(2);
        let reference = self.references.entry(at.0.clone()).or_insert(burst);
        if is_greedy {
            *reference -= std::mem::take(&mut tokens);
        }
        let assigned = Assigned {
            max,
            per_second: f64::from(per_fill) / interval_s as f64,
            tokens,
            expires_s: 16.0,
            is_greedy,
        };
        self.held.insert(at, assigned);
    }

    /// What Envoys have together is within the limit, and so is what they have taken.
    fn check(&self) {
        for (pairs, tokens) in &self.references {
            let (rate, burst) = limit(pairs).expect("it is limited");
            let held = || self.held.iter().filter(|((at, _), _)| at == pairs);
            let per_second: f64 = held().map(|(_, assigned)| assigned.per_second).sum();
            let max: f64 = held().map(|(_, assigned)| assigned.max).sum();
            assert!(per_second <= rate * (1.0 + 1e-9), "{per_second} of {rate}");
            assert!(max <= burst, "{max} of {burst}");
            assert!(*tokens >= -1e-6, "{tokens}");
        }
    }
}

/// The rate and the burst of a bucket's limit.
fn limit(pairs: &Pairs) -> Option<(f64, f64)> {
    let mut pairs = pairs.iter();
    match (pairs.next(), pairs.next()) {
        (Some((key, value)), None) if key == "service" && value == b"search" => Some((10.0, 20.0)),
        (Some((key, _)), None) if key == "user" => Some((7.0 / 60.0, 3.0)),
        _ => None,
    }
}

#[derive(Clone, PartialEq, Message)]
struct Reports {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    usages: Vec<BucketUsage>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketUsage {
    #[prost(message, optional, tag = "1")]
    id: Option<BucketId>,
    #[prost(message, optional, tag = "2")]
    elapsed: Option<Seconds>,
    #[prost(uint64, tag = "3")]
    allowed: u64,
    #[prost(uint64, tag = "4")]
    denied: u64,
}

#[derive(Clone, PartialEq, Message)]
struct BucketId {
    #[prost(btree_map = "string, bytes", tag = "1")]
    bucket: Pairs,
}

#[derive(Clone, PartialEq, Message)]
struct Seconds {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, repeated, tag = "1")]
    actions: Vec<BucketAction>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketAction {
    #[prost(message, optional, tag = "1")]
    id: Option<BucketId>,
    #[prost(oneof = "Action", tags = "2, 3")]
    action: Option<Action>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Action {
    #[prost(message, tag = "2")]
    Assign(Assign),
    #[prost(message, tag = "3")]
    Abandon(Abandon),
}

#[derive(Clone, PartialEq, Message)]
struct Assign {
    #[prost(message, optional, tag = "2")]
    time_to_live: Option<Seconds>,
    #[prost(message, optional, tag = "3")]
    strategy: Option<RateLimitStrategy>,
}

#[derive(Clone, PartialEq, Message)]
struct Abandon {}

#[derive(Clone, PartialEq, Message)]
struct RateLimitStrategy {
    #[prost(oneof = "Strategy", tags = "1, 3")]
    strategy: Option<Strategy>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Strategy {
    #[prost(int32, tag = "1")]
    BlanketRule(i32),
    #[prost(message, tag = "3")]
    TokenBucket(TokenBucket),
}

#[derive(Clone, PartialEq, Message)]
struct TokenBucket {
    #[prost(uint32, tag = "1")]
    max_tokens: u32,
    #[prost(message, optional, tag = "2")]
    tokens_per_fill: Option<u32>,
    #[prost(message, optional, tag = "3")]
    fill_interval: Option<Seconds>,
}
