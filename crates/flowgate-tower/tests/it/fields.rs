//! What is told agrees with what then happens.

use crate::support::{Answer, call, done, field, from_tenant, get};
use fastrand::Rng;
use flowgate::{
    FixedWindow, Gate, Keyed, LeakyBucket, Limiter, ManualClock, Quota, Refill, SlidingWindow,
    Snapshot, TokenBucket,
};
use flowgate_tower::{AnyLimit, Headers, LimitLayer, Missing, Reset, by};
use http::StatusCode;
use sfv::{BareItem, ListEntry, Parser};
use std::sync::Arc;
use std::time::Duration;
use tower::Layer;

/// A field's only item: its name, and its parameters that are integers.
fn item(text: &str) -> (String, Vec<(String, i64)>) {
    let list: sfv::List = Parser::new(text).parse().expect("a structured field");
    let [ListEntry::Item(item)] = &list[..] else {
        panic!("one item: {text}")
    };
    let BareItem::String(name) = &item.bare_item else {
        panic!("a string: {text}")
    };
    let parameters = item.params.iter().map(|(name, value)| match value {
        BareItem::Integer(value) => (name.as_str().to_owned(), i64::from(*value)),
        value => panic!("an integer: {value:?}"),
    });
    (name.as_str().to_owned(), parameters.collect())
}

fn parameter(parameters: &[(String, i64)], name: &str) -> Option<u64> {
    let found = parameters.iter().find(|(other, _)| other == name)?;
    Some(u64::try_from(found.1).expect("not negative"))
}

fn a_quota(random: &mut Rng) -> Quota {
    let count = random.u64(1..40);
    let period = Duration::from_nanos(random.u64(1_000_000..90_000_000_000));
    Quota::new(count, period).expect("a quota")
}

type Look = Box<dyn Fn() -> Snapshot>;

/// A limit, and a look at it.
fn a_limit(random: &mut Rng, time: &ManualClock) -> (AnyLimit, Look) {
    fn shared<L: Limiter + 'static>(limiter: L) -> (Arc<L>, Look)
    where
        Arc<L>: Into<AnyLimit>,
    {
        let limiter = Arc::new(limiter);
        let look = Arc::clone(&limiter);
        (limiter, Box::new(move || look.snapshot()))
    }
    let quota = a_quota(random);
    match random.u8(0..5) {
        0 => {
            let burst = random.u64(1..60);
            let bucket = TokenBucket::builder(quota.burst(burst)).clock(time).build();
            let (limit, look) = shared(bucket.expect("a bucket"));
            (limit.into(), look)
        }
        1 => {
            let bucket = TokenBucket::builder(quota)
                .refill(Refill::Interval)
                .clock(time)
                .build();
            let (limit, look) = shared(bucket.expect("a bucket"));
            (limit.into(), look)
        }
        2 => {
            let (limit, look) = shared(
                LeakyBucket::builder(quota)
                    .clock(time)
                    .build()
                    .expect("a bucket"),
            );
            (limit.into(), look)
        }
        3 => {
            let (limit, look) = shared(
                FixedWindow::builder(quota)
                    .clock(time)
                    .build()
                    .expect("a window"),
            );
            (limit.into(), look)
        }
        _ => {
            let (limit, look) = shared(
                SlidingWindow::builder(quota)
                    .clock(time)
                    .build()
                    .expect("a window"),
            );
            (limit.into(), look)
        }
    }
}

/// On 100,000 random requests: `Retry-After` is never too early and never a second too late, what remains can be had,
/// and no more; and after `t` there is more.
#[test]
fn c3_retry_after_and_remaining_are_what_then_happens() {
    let mut random = Rng::with_seed(17);
    let mut requests = 0;
    while requests < 100_000 {
        let time = ManualClock::new();
        let (limit, look) = a_limit(&mut random, &time);
        let described = format!("{limit:?}");
        let layer = LimitLayer::new(limit).headers(Headers::draft().and_legacy(Reset::Delay));
        let mut service = layer.layer(done());
        for _ in 0..50 {
            requests += 1;
            let answer: Answer = call(&mut service, get("/"));
            let seen = look();
            let (name, policy) = item(field(&answer, "ratelimit-policy"));
            assert_eq!(name, "default");
            let told = (parameter(&policy, "q"), parameter(&policy, "w"));
            let (Some(q), Some(_)) = told else {
                panic!("{described}: {told:?}")
            };
            assert!(q >= seen.limit, "{described}: {q}");
            let (_, standing) = item(field(&answer, "ratelimit"));
            assert_eq!(
                parameter(&standing, "r"),
                Some(seen.remaining),
                "{described}"
            );
            assert_eq!(
                field(&answer, "x-ratelimit-remaining"),
                seen.remaining.to_string()
            );
            let reset: u64 = field(&answer, "x-ratelimit-reset")
                .parse()
                .expect("a number");
            assert_eq!(
                u128::from(reset),
                seen.reset_after.as_nanos().div_ceil(1_000_000_000)
            );

            let now = time.now();
            if let Some(more_after) = parameter(&standing, "t") {
                time.advance(Duration::from_secs(more_after));
                assert!(look().remaining > seen.remaining, "{described}");
                time.set(now);
            }
            // Exact to a microsecond, and there whenever nothing is left.
            let exactly = parameter(&standing, "t_us");
            assert_eq!(exactly.is_some(), seen.remaining == 0, "{described}");
            if let Some(exactly) = exactly {
                time.advance(Duration::from_micros(exactly - 1));
                assert_eq!(look().remaining, 0, "{described}: {exactly} µs is too late");
                time.advance(Duration::from_micros(1));
                assert!(
                    look().remaining >= 1,
                    "{described}: {exactly} µs is too early"
                );
                time.set(now);
                // What rounds up to a second would stop clients for longer than it takes.
                let seconds = (exactly >= 1_000_000).then(|| exactly.div_ceil(1_000_000));
                assert_eq!(parameter(&standing, "t"), seconds, "{described}");
            }
            if answer.status() == StatusCode::TOO_MANY_REQUESTS {
                let seconds: u64 = field(&answer, "retry-after").parse().expect("a number");
                assert!(seconds >= 1);
                time.advance(Duration::from_secs(seconds - 1));
                assert_eq!(look().remaining, 0, "{described}: a second too late");
                time.advance(Duration::from_secs(1));
                assert!(look().remaining >= 1, "{described}: too early");
                // The draft's §6: not before the end of the effective window.
                let told = parameter(&standing, "t");
                assert!(told == Some(seconds) || (told, seconds) == (None, 1));
                assert_eq!(
                    call(&mut service, get("/")).status(),
                    StatusCode::OK,
                    "{described}"
                );
                requests += 1;
            } else if random.u8(0..4) == 0 {
                time.advance(Duration::from_nanos(random.u64(0..5_000_000_000)));
            }
        }
    }
}

/// `q` in `w` is the quota: the burst and the time in which it flows in, if that is whole seconds.
#[test]
fn c1_a_policy_never_says_more_than_the_quota() {
    let table = [
        ("100/min", "\"default\";q=100;w=60"),
        ("100/s burst 1", "\"default\";q=100;w=1"),
        ("100/s burst 20", "\"default\";q=100;w=1"),
        ("100/s burst 101", "\"default\";q=200;w=2"),
        ("10/s burst 100", "\"default\";q=100;w=10"),
        ("3/s burst 10", "\"default\";q=12;w=4"),
        ("3/2s burst 1", "\"default\";q=3;w=2"),
        ("2/3s burst 1", "\"default\";q=2;w=3"),
        ("1/700ms", "\"default\";q=10;w=7"),
        ("7/h burst 1", "\"default\";q=1;w=515"),
        ("1/day", "\"default\";q=1;w=86400"),
        ("1/10s", "\"default\";q=1;w=10"),
        ("1000000000/ns", "\"default\";q=999999999999999;w=1"),
        (
            "1/3day burst 1000000000",
            "\"default\";q=1000000000;w=259200000000000",
        ),
    ];
    for (quota, expected) in table {
        let parsed: Quota = quota.parse().expect("a quota");
        let layer = LimitLayer::new(TokenBucket::new(parsed));
        let answer = call(&mut layer.layer(done()), get("/"));
        assert_eq!(field(&answer, "ratelimit-policy"), expected, "{quota}");
    }
}

#[test]
fn c1_a_policy_is_at_most_one_percent_below_the_quota_and_never_above() {
    let mut random = Rng::with_seed(20);
    for _ in 0..10_000 {
        let quota = a_quota(&mut random).burst(random.u64(1..60));
        let layer = LimitLayer::new(TokenBucket::new(quota));
        let answer = call(&mut layer.layer(done()), get("/"));
        let (_, policy) = item(field(&answer, "ratelimit-policy"));
        let [Some(q), Some(w)] = ["q", "w"].map(|name| parameter(&policy, name)) else {
            panic!("{quota}: {policy:?}")
        };
        let flows_in = u128::from(quota.count()) * u128::from(w) * 1_000_000_000;
        let told = u128::from(q) * quota.period().as_nanos();
        assert!(told <= flows_in, "{quota}: {q} in {w} s");
        assert!(told * 100 >= flows_in * 99, "{quota}: {q} in {w} s");
    }
}

/// Units are told in tokens, rounded down.
#[test]
fn tokens_are_told_and_not_units() {
    let time = ManualClock::new();
    let quota = Quota::per_minute(10)
        .units_per_token(1000)
        .expect("a quota");
    let limits = Keyed::token_bucket(quota)
        .clock(&time)
        .capacity(100)
        .expect("a table");
    let layer = LimitLayer::keyed(limits, by::path()).cost(|request| match request.uri.path() {
        "/half" => 500,
        _ => 1000,
    });
    let mut service = layer.layer(done());
    let answer = call(&mut service, get("/half"));
    assert_eq!(field(&answer, "ratelimit-policy"), "\"default\";q=10;w=60");
    // 9.5, and half a token takes 3 s.
    assert_eq!(field(&answer, "ratelimit"), "\"default\";r=9;t=3");
    let answer = call(&mut service, get("/whole"));
    assert_eq!(field(&answer, "ratelimit"), "\"default\";r=9;t=6");
}

#[test]
fn the_policy_told_is_that_of_the_quota_in_force_however_often_it_changes() {
    let bucket = Arc::new(TokenBucket::new(Quota::per_second(10)));
    let mut service = LimitLayer::new(Arc::clone(&bucket)).layer(done());
    // More than are kept, and all of them again.
    for _ in 0..2 {
        for seconds in 1..20 {
            let quota = Quota::new(10, Duration::from_secs(seconds));
            bucket.set_quota(quota.expect("a quota")).unwrap();
            for _ in 0..2 {
                let answer = call(&mut service, get("/"));
                let policy = format!("\"default\";q=10;w={seconds}");
                assert_eq!(field(&answer, "ratelimit-policy"), policy);
            }
        }
    }
}

#[test]
fn limits_that_differ_by_their_names_alone_are_told_apart() {
    let quota = Quota::per_second(10);
    let keyed = Keyed::token_bucket(quota).capacity(10).expect("a table");
    let gate = Gate::builder().limit("a", TokenBucket::new(quota));
    let gate = gate.limit("b", TokenBucket::new(quota)).build();
    let mut service = LimitLayer::keyed(keyed, by::header("x-tenant"))
        .missing(Missing::Share(gate.expect("a gate").into()))
        .layer(done());
    for _ in 0..2 {
        let answer = call(&mut service, from_tenant("t"));
        assert_eq!(field(&answer, "ratelimit-policy"), "\"default\";q=10;w=1");
        let answer = call(&mut service, get("/"));
        let both = "\"a\";q=10;w=1, \"b\";q=10;w=1";
        assert_eq!(field(&answer, "ratelimit-policy"), both);
    }
}
