//! The messages of the decision server, against those that are generated from Envoy's definitions.
//!
//! A message is drawn with all fields that the server knows, and perhaps others. The server reads its bytes and writes them again: they are the
//! same, except for the fields that it does not know.

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use envoy_types::pb::envoy::r#type::v3::{RateLimitStrategy, RateLimitUnit, TokenBucket};
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Action, QuotaAssignmentAction,
};
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, Quota, RateLimit, rate_limit::Unit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{
    Duration, ListValue, Struct, UInt32Value, UInt64Value, Value,
};
use fastrand::Rng;
use flowgate_server::{Config, DecideLimits, DecisionTime, read_and_written, rls_answer};
use prost::Message;
use std::fmt::Debug;

/// Draws of each message.
const DRAWS: u64 = 2_000;

/// Numbers at which the length of their bytes changes, and others.
fn number(random: &mut Rng) -> u64 {
    match random.u32(0..4) {
        0 => random.u64(0..3),
        1 => u64::MAX,
        _ => random.u64(..) >> random.u32(0..64),
    }
}

fn text(random: &mut Rng) -> String {
    let words = ["", "user", "a_b", "Grüße", "\u{0}", "/search?q=1"];
    random.choice(words).expect("some").to_owned()
}

fn some<T>(random: &mut Rng, draw: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    random.bool().then(|| draw(random))
}

fn list<T>(random: &mut Rng, draw: impl Fn(&mut Rng) -> T) -> Vec<T> {
    (0..random.usize(0..4)).map(|_| draw(random)).collect()
}

/// A time in whole seconds, as both sides send it.
fn seconds(random: &mut Rng) -> Duration {
    Duration {
        seconds: number(random) as i64,
        nanos: 0,
    }
}

fn one_of<T: Into<i32>, const N: usize>(random: &mut Rng, of: [T; N]) -> i32 {
    random.choice(of).expect("some").into()
}

fn request(random: &mut Rng) -> RateLimitRequest {
    let unit = |random: &mut Rng| {
        use RateLimitUnit::{Day, Hour, Minute, Month, Second, Unknown, Year};
        one_of(random, [Unknown, Second, Minute, Hour, Day, Month, Year])
    };
    RateLimitRequest {
        domain: text(random),
        descriptors: list(random, |random| RateLimitDescriptor {
            entries: list(random, |random| Entry {
                key: text(random),
                value: text(random),
            }),
            limit: some(random, |random| RateLimitOverride {
                requests_per_unit: number(random) as u32,
                unit: unit(random),
            }),
            hits_addend: some(random, |random| UInt64Value {
                value: number(random),
            }),
            is_negative_hits: random.bool(),
        }),
        hits_addend: number(random) as u32,
    }
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

/// Metadata as the server writes it. A map has one field: the order of several is not determined.
fn metadata(random: &mut Rng) -> Struct {
    let field = |text: String, value: Value| Struct {
        fields: [(text, value)].into(),
    };
    let words = list(random, |random| value(Kind::StringValue(text(random))));
    let list = Kind::ListValue(ListValue { values: words });
    let mode = value(Kind::StringValue(text(random)));
    let name = text(random);
    match random.bool() {
        true => field(name, value(list)),
        false => field(name.clone(), value(Kind::StructValue(field(name, mode)))),
    }
}

fn response(random: &mut Rng) -> RateLimitResponse {
    use Unit::{Day, Hour, Minute, Month, Second, Unknown, Week, Year};
    let codes = [Code::Unknown, Code::Ok, Code::OverLimit];
    RateLimitResponse {
        overall_code: one_of(random, codes),
        statuses: list(random, |random| DescriptorStatus {
            code: one_of(random, codes),
            current_limit: some(random, |random| RateLimit {
                name: text(random),
                requests_per_unit: number(random) as u32,
                unit: one_of(
                    random,
                    [Unknown, Second, Minute, Hour, Day, Week, Month, Year],
                ),
            }),
            limit_remaining: number(random) as u32,
            duration_until_reset: some(random, seconds),
            quota: None,
        }),
        response_headers_to_add: list(random, |random| HeaderValue {
            key: text(random),
            value: text(random),
            ..HeaderValue::default()
        }),
        dynamic_metadata: some(random, metadata),
        ..RateLimitResponse::default()
    }
}

fn bucket(random: &mut Rng) -> BucketId {
    let entry = some(random, |random| (text(random), text(random)));
    BucketId {
        bucket: entry.into_iter().collect(),
    }
}

fn reports(random: &mut Rng) -> RateLimitQuotaUsageReports {
    RateLimitQuotaUsageReports {
        domain: text(random),
        bucket_quota_usages: list(random, |random| BucketQuotaUsage {
            bucket_id: some(random, bucket),
            time_elapsed: some(random, seconds),
            num_requests_allowed: number(random),
            num_requests_denied: number(random),
        }),
    }
}

fn strategy(random: &mut Rng) -> RateLimitStrategy {
    let blanket = one_of(random, [BlanketRule::AllowAll, BlanketRule::DenyAll]);
    let bucket = TokenBucket {
        max_tokens: number(random) as u32,
        tokens_per_fill: some(random, |random| UInt32Value {
            value: number(random) as u32,
        }),
        fill_interval: some(random, seconds),
    };
    let strategy = match random.bool() {
        true => Strategy::BlanketRule(blanket),
        false => Strategy::TokenBucket(bucket),
    };
    RateLimitStrategy {
        strategy: some(random, |_| strategy),
    }
}

fn assignments(random: &mut Rng) -> RateLimitQuotaResponse {
    RateLimitQuotaResponse {
        bucket_action: list(random, |random| {
            let assigned = QuotaAssignmentAction {
                assignment_time_to_live: some(random, seconds),
                rate_limit_strategy: some(random, strategy),
            };
            let action = match random.bool() {
                true => Action::QuotaAssignmentAction(assigned),
                false => Action::AbandonAction(AbandonAction {}),
            };
            BucketAction {
                bucket_id: some(random, bucket),
                bucket_action: some(random, |_| action),
            }
        }),
    }
}

/// Checks that the server reads every field of a message and writes it as it was.
fn check<M: Message + Default + PartialEq + Debug>(name: &str, draw: impl Fn(&mut Rng) -> M) {
    for seed in 0..DRAWS {
        let message = draw(&mut Rng::with_seed(seed));
        let bytes = message.encode_to_vec();
        let again = read_and_written(name, &bytes).expect("it is such a message");
        assert_eq!(M::decode(&*again), Ok(message), "{name}, seed {seed}");
        assert_eq!(again, bytes, "{name}, seed {seed}");
    }
}

#[test]
fn every_message_is_that_of_envoys_definitions() {
    check("RateLimitRequest", request);
    check("RateLimitResponse", response);
    check("RateLimitQuotaUsageReports", reports);
    check("RateLimitQuotaResponse", assignments);
    assert_eq!(read_and_written("Other", b""), None);
}

/// What Envoy's definitions have and the server has not.
#[test]
fn fields_that_the_server_does_not_know_are_skipped() {
    let known = response(&mut Rng::with_seed(1));
    let mut more = known.clone();
    more.raw_body = b"busy".to_vec();
    more.request_headers_to_add = vec![HeaderValue::default()];
    more.quota = Some(Quota::default());
    let again = read_and_written("RateLimitResponse", &more.encode_to_vec());
    assert_eq!(again, Some(known.encode_to_vec()));
}

/// A request and its response as Envoy's definitions write and read them.
#[test]
fn a_request_is_answered() {
    let text = "{domain: api, descriptors: [{key: user, quota: 2/min, name: users}]}";
    let config = Config::parse("test.yaml", text).expect("a configuration");
    let limits = DecideLimits::new(&config, &DecisionTime::system()).expect("limits");
    let request = RateLimitRequest {
        domain: "api".to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![Entry {
                key: "user".to_owned(),
                value: "alice".to_owned(),
            }],
            hits_addend: Some(UInt64Value { value: 2 }),
            ..RateLimitDescriptor::default()
        }],
        hits_addend: 0,
    };
    let ask = || {
        let response = rls_answer(&limits, &request.encode_to_vec()).expect("a decision");
        RateLimitResponse::decode(&*response).expect("a response")
    };
    let admitted = ask();
    assert_eq!(admitted.overall_code(), Code::Ok);
    let [status] = &admitted.statuses[..] else {
        panic!("{admitted:?}");
    };
    let limit = status.current_limit.as_ref().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Minute));
    assert_eq!((&*limit.name, status.limit_remaining), ("users", 0));
    let refused = ask();
    assert_eq!(refused.overall_code(), Code::OverLimit);
    let metadata = refused.dynamic_metadata.expect("the limit that refuses");
    let names = ListValue {
        values: vec![value(Kind::StringValue("users".to_owned()))],
    };
    assert_eq!(metadata.fields["over_limit"], value(Kind::ListValue(names)));
}
