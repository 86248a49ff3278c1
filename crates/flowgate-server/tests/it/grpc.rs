//! The door of gRPC.

use crate::rpc::{Client, DEFINITIONS, SHOULD_RATE_LIMIT, bytes, framed, json};
use crate::support::{Bench, Running, connect};
use flowgate_server::ServerBounds;
use proptest::prelude::*;
use serde_json::{Value, json as value};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/day, name: users, capacity: 100 }
  - { key: site, value: a, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: free, rate_limit: { unlimited: true, name: free } }
  - { key: shadow, quota: 1/day, shadow_mode: true, name: watched, capacity: 100 }
  - { key: own, rate_limit: { unit: hour, requests_per_unit: 1 }, allow_override: true, capacity: 100 }
  - { key: closed, rate_limit: { unit: second, requests_per_unit: 0 } }
";

/// A descriptor, as `user=alice path=/a`.
fn descriptor(text: &str) -> Value {
    let entries = text.split(' ').map(|entry| {
        let (key, text) = entry.split_once('=').unwrap();
        value!({ "key": key, "value": text })
    });
    value!({ "entries": entries.collect::<Vec<_>>() })
}

fn request(descriptors: &[&str]) -> Value {
    let descriptors: Vec<_> = descriptors.iter().map(|text| descriptor(text)).collect();
    value!({ "domain": "api", "descriptors": descriptors })
}

/// Each field of Envoy's definition that has a meaning here.
#[test]
fn c3_the_answer_has_limit_remaining_and_time() {
    let bench = Bench::new(LIMITS);
    let ask = || {
        bench
            .envoy(request(&["user=alice", "site=a", "none=x"]))
            .unwrap()
    };
    let answer = |users: u32, site: u32, reset: &str, headers: [&str; 2]| {
        let limit = |limit: Value, left: u32, reset: &str| {
            let mut status =
                value!({ "code": "OK", "currentLimit": limit, "durationUntilReset": reset });
            if left > 0 {
                status["limitRemaining"] = left.into();
            }
            status
        };
        value!({
            "overallCode": "OK",
            "statuses": [
                limit(value!({ "name": "users", "requestsPerUnit": 3, "unit": "DAY" }), users, reset),
                limit(value!({ "requestsPerUnit": 2, "unit": "MINUTE" }), site, "60s"),
                { "code": "OK" },
            ],
            "responseHeadersToAdd": [
                { "key": "ratelimit-policy", "value": headers[0] },
                { "key": "ratelimit", "value": headers[1] },
            ],
        })
    };
    let policy = r#""users";q=3;w=86400, "api.site_a";q=2;w=60"#;
    let left = r#""users";r=2;t=28800, "api.site_a";r=1;t=60"#;
    assert_eq!(ask(), answer(2, 1, "28800s", [policy, left]));
    let left = r#""users";r=1;t=28800, "api.site_a";r=0;t=60;t_us=60000000"#;
    assert_eq!(ask(), answer(1, 0, "57600s", [policy, left]));

    // Parts of a second are rounded up.
    bench.clock.advance(Duration::from_millis(58_999));
    let refused = ask();
    assert_eq!(refused["overallCode"], "OVER_LIMIT");
    let codes = ["OK", "OVER_LIMIT", "OK"];
    for (place, code) in codes.into_iter().enumerate() {
        assert_eq!(refused["statuses"][place]["code"], code, "{refused}");
    }
    assert_eq!(refused["statuses"][1]["durationUntilReset"], "2s");
    // Nothing was taken from the limit that had room.
    assert_eq!(refused["statuses"][0]["limitRemaining"], 1);
    let fields = refused["responseHeadersToAdd"].as_array().unwrap();
    let retry = value!({ "key": "retry-after", "value": "2" });
    assert!(fields.contains(&retry), "{refused}");
    assert_eq!(
        refused["dynamicMetadata"],
        value!({ "over_limit": ["api.site_a"] })
    );
}

#[test]
fn hits_are_those_of_the_descriptor_or_of_the_request() {
    let bench = Bench::new(LIMITS);
    let left = |hits: Value, own: Value| {
        let mut request = request(&["user=alice"]);
        request["hitsAddend"] = hits;
        let fields = request["descriptors"][0].as_object_mut().unwrap();
        fields.extend(own.as_object().unwrap().clone());
        let answer = bench.envoy(request).unwrap();
        let left = answer["statuses"][0]["limitRemaining"].as_u64();
        (answer["overallCode"] == "OK").then(|| left.unwrap_or(0))
    };
    let nothing = || value!({});
    assert_eq!(
        left(value!(2), value!({ "hitsAddend": "0" })),
        Some(3),
        "a look"
    );
    assert_eq!(
        left(value!(2), value!({ "hitsAddend": "1" })),
        Some(2),
        "its own"
    );
    assert_eq!(left(value!(2), nothing()), Some(0), "that of the request");
    assert_eq!(
        left(value!(0), nothing()),
        None,
        "0 is what is absent, which is 1"
    );
    assert_eq!(
        left(value!(0), value!({ "hitsAddend": "0" })),
        Some(0),
        "a look"
    );
    let back = value!({ "hitsAddend": "2", "isNegativeHits": true });
    assert_eq!(left(value!(0), back), Some(2), "given back");
    assert_eq!(left(value!(9), nothing()), None, "never");
}

/// What a refused request would give back, it does not.
#[test]
fn c5_a_refund_beside_a_refusal_gives_nothing_back() {
    let bench = Bench::new(LIMITS);
    bench.envoy(request(&["user=alice"])).unwrap();
    let mut both = request(&["user=alice", "closed=x"]);
    both["descriptors"][0]["isNegativeHits"] = true.into();
    let answer = bench.envoy(both).unwrap();
    assert_eq!(answer["overallCode"], "OVER_LIMIT");
    assert_eq!(answer["statuses"][0]["limitRemaining"], 2);
}

#[test]
fn rules_without_a_limit_shadows_and_overrides_are_told() {
    let bench = Bench::new(LIMITS);
    let ask = |text: &str| bench.envoy(request(&[text])).unwrap();
    let free = value!({ "overallCode": "OK", "statuses": [{ "code": "OK" }] });
    assert_eq!(ask("none=x"), free);
    let mut unlimited = free.clone();
    unlimited["statuses"][0]["limitRemaining"] = u32::MAX.into();
    assert_eq!(ask("free=x"), unlimited);

    assert_eq!(ask("shadow=x").get("dynamicMetadata"), None);
    let over = ask("shadow=x");
    assert_eq!(over["overallCode"], "OK");
    assert_eq!(
        over["dynamicMetadata"],
        value!({ "shadow_over_limit": ["watched"] })
    );
    assert_eq!(over.get("responseHeadersToAdd"), None);

    let closed = ask("closed=x");
    let status = value!({ "code": "OVER_LIMIT", "currentLimit": { "unit": "SECOND" } });
    assert_eq!(closed["statuses"], value!([status]));

    let with = |text: &str| {
        let mut request = request(&[text]);
        request["descriptors"][0]["limit"] = value!({ "requestsPerUnit": 5, "unit": "YEAR" });
        bench.envoy(request).unwrap()["statuses"][0].clone()
    };
    let own = with("own=x");
    assert_eq!(
        own["currentLimit"],
        value!({ "requestsPerUnit": 5, "unit": "YEAR" })
    );
    assert_eq!(own["limitRemaining"], 4);
    let not_allowed = with("user=bob");
    assert_eq!(not_allowed["currentLimit"]["requestsPerUnit"], 3);
    assert_eq!(not_allowed["limitRemaining"], 2);
}

#[test]
fn a_value_need_not_be_text() {
    let bench = Bench::new(LIMITS);
    let mut bytes = bytes(
        "envoy.service.ratelimit.v3.RateLimitRequest",
        request(&["user=alice"]),
    );
    let place = bytes.len() - 1;
    bytes[place] = 0xff;
    assert!(flowgate_server::rls_answer(&bench.limits, &bytes).is_some());
}

#[test]
fn c1_the_door_shares_its_limits_with_the_others() {
    let server = Running::new(LIMITS, |server| server);
    let mut client = Client::new(server.grpc);
    let mut codes = Vec::new();
    for _ in 0..2 {
        let answer = client.ask(request(&["user=alice"])).unwrap();
        codes.push(answer["overallCode"].clone());
    }
    assert!(
        server
            .resp(b"FG.ASK users alice\r\n")
            .starts_with("*5\r\n:0\r\n:3\r\n:0\r\n")
    );
    codes.push(client.ask(request(&["user=alice"])).unwrap()["overallCode"].clone());
    assert_eq!(codes, ["OK", "OK", "OVER_LIMIT"]);
}

const OK: u32 = 0;
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const NOT_FOUND: u32 = 5;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNAUTHENTICATED: u32 = 16;

#[test]
fn a_wrong_request_is_told_what_is_wrong() {
    let server = Running::new(LIMITS, |server| server);
    let mut client = Client::new(server.grpc);
    let of = |request| {
        framed(&bytes(
            "envoy.service.ratelimit.v3.RateLimitRequest",
            request,
        ))
    };
    let long = format!("a={}", "x".repeat(5000));
    let entries = vec!["a=b"; 33].join(" ");
    let mut no_unit = request(&["own=x"]);
    no_unit["descriptors"][0]["limit"] = value!({ "requestsPerUnit": 5 });
    let mut no_requests = request(&["own=x"]);
    no_requests["descriptors"][0]["limit"] = value!({ "unit": "DAY" });
    for (body, status, what) in [
        (
            of(value!({ "descriptors": [{}] })),
            INVALID_ARGUMENT,
            "domain must not be empty",
        ),
        (
            of(value!({ "domain": "api" })),
            INVALID_ARGUMENT,
            "descriptor list must not be empty",
        ),
        (
            of(request(&["a=b"; 65])),
            INVALID_ARGUMENT,
            "more than 64 descriptors",
        ),
        (
            of(request(&[&*entries])),
            INVALID_ARGUMENT,
            "more than 32 entries",
        ),
        (
            of(request(&[&*long])),
            INVALID_ARGUMENT,
            "longer than 4 KiB",
        ),
        (of(no_unit), INVALID_ARGUMENT, "unit"),
        (of(no_requests), INVALID_ARGUMENT, ""),
        (framed(b"\xff"), INVALID_ARGUMENT, "decode"),
        (framed(b"\x0a\x02\xff\xff"), INVALID_ARGUMENT, "UTF-8"),
        (framed(&[0; 65_537]), RESOURCE_EXHAUSTED, "too large"),
        (
            b"\x00\xff\xff\xff\xff".to_vec(),
            RESOURCE_EXHAUSTED,
            "too large",
        ),
        (b"".to_vec(), INTERNAL, "Missing"),
        (b"\x00\x00\x00\x00\x05ab".to_vec(), INTERNAL, "EOF"),
        (
            b"\x07\x00\x00\x00\x00".to_vec(),
            INTERNAL,
            "compression flag",
        ),
    ] {
        let reply = client.call(SHOULD_RATE_LIMIT, &[], &body);
        assert_eq!((reply.http, reply.status), (200, Some(status)), "{reply:?}");
        assert!(reply.what.contains(what), "{what}: {reply:?}");
    }
    let good = of(request(&["user=alice"]));
    for path in [
        "/",
        "/envoy.service.ratelimit.v3.RateLimitService/Other",
        "/a.b/c",
    ] {
        assert_eq!(
            client.call(path, &[], &good).status,
            Some(UNIMPLEMENTED),
            "{path}"
        );
    }
    let gzip = [("grpc-encoding", "gzip")];
    assert_eq!(
        client.call(SHOULD_RATE_LIMIT, &gzip, &good).status,
        Some(UNIMPLEMENTED)
    );
    let other = client.call(SHOULD_RATE_LIMIT, &[("content-type", "text/plain")], &good);
    assert_eq!((other.http, other.status), (415, None));
    // The connection is kept.
    assert_eq!(client.call(SHOULD_RATE_LIMIT, &[], &good).status, Some(OK));
}

#[test]
fn the_time_of_the_client_is_kept() {
    let server = Running::new(LIMITS, |server| server);
    let mut client = Client::new(server.grpc);
    let good = framed(&bytes(
        "envoy.service.ratelimit.v3.RateLimitRequest",
        request(&["user=alice"]),
    ));
    // What is decided without a wait is in time.
    for time in ["60000m", "1H", "nonsense"] {
        let reply = client.call(SHOULD_RATE_LIMIT, &[("grpc-timeout", time)], &good);
        assert_eq!(reply.status, Some(OK), "{time}");
    }
    // A message that never ends is not waited for any longer.
    let reply = client.endless(SHOULD_RATE_LIMIT, &[("grpc-timeout", "1m")], &good[..7]);
    assert_eq!(reply.status, Some(DEADLINE_EXCEEDED), "{reply:?}");
    assert!(
        reply.what.contains("the message has not arrived"),
        "{reply:?}"
    );
    let bounds = ServerBounds {
        command_time: Duration::from_millis(50),
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds));
    let mut client = Client::new(server.grpc);
    let reply = client.endless(SHOULD_RATE_LIMIT, &[("grpc-timeout", "1H")], &good[..7]);
    assert_eq!(reply.status, Some(DEADLINE_EXCEEDED), "{reply:?}");
}

#[test]
fn a_connection_has_bounds() {
    let time = Duration::from_millis(50);
    let bounds = ServerBounds {
        head_time: time,
        idle_time: time,
        command_time: time,
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds));
    // Neither silence nor another protocol keeps a connection.
    for sent in [
        &b""[..],
        b"PRI * HTTP/2.0\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let mut stream = connect(server.grpc);
        stream.write_all(sent).unwrap();
        // It ends, and not by the time-out of this side.
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    }
    // The first frame has the settings: pairs of a number and a value.
    let mut stream = connect(server.grpc);
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[3], 4, "SETTINGS");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).unwrap();
    let max_concurrent_streams = [0, 3, 0, 0, 4, 0];
    assert!(
        settings
            .chunks(6)
            .any(|pair| pair == max_concurrent_streams),
        "{settings:?}"
    );
}

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

fn health_of(service: &str) -> Vec<u8> {
    framed(&bytes(
        "grpc.health.v1.HealthCheckRequest",
        value!({ "service": service }),
    ))
}

fn health(message: &[u8]) -> String {
    let health = json("grpc.health.v1.HealthCheckResponse", message);
    health["status"].as_str().unwrap().to_owned()
}

#[test]
fn health_is_that_of_the_server_and_ends_with_it() {
    let mut server = Running::new(LIMITS, |server| server.secret("s3cret"));
    let mut client = Client::new(server.grpc);
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        let reply = client.call(HEALTH, &[], &health_of(service));
        assert_eq!(reply.status, Some(OK));
        assert_eq!(health(&reply.messages[0]), "SERVING");
    }
    assert_eq!(
        client.call(HEALTH, &[], &health_of("other")).status,
        Some(NOT_FOUND)
    );

    let mut other = Client::new(server.grpc);
    let mut unknown = other.open(WATCH, &[], &health_of("other")).unwrap();
    assert_eq!(health(&unknown.message().unwrap()), "SERVICE_UNKNOWN");
    let mut watch = client.open(WATCH, &[], &health_of("")).unwrap();
    assert_eq!(health(&watch.message().unwrap()), "SERVING");
    server.end();
    assert_eq!(health(&watch.message().unwrap()), "NOT_SERVING");
    assert_eq!(watch.message(), None);
    assert_eq!(unknown.message(), None);
    // No request is lost: the connection says that it takes no more.
    assert!(client.open(HEALTH, &[], &health_of("")).is_none());
}

#[test]
fn a_secret_is_asked_for_except_of_health() {
    let server = Running::new(LIMITS, |server| server.secret("s3cret"));
    let mut client = Client::new(server.grpc);
    let good = framed(&bytes(
        "envoy.service.ratelimit.v3.RateLimitRequest",
        request(&["user=alice"]),
    ));
    for (value, status) in [
        ("Bearer s3cret", OK),
        ("bearer s3cret", OK),
        ("Bearer s3cre", UNAUTHENTICATED),
        ("s3cret", UNAUTHENTICATED),
    ] {
        let reply = client.call(SHOULD_RATE_LIMIT, &[("authorization", value)], &good);
        assert_eq!(reply.status, Some(status), "{value}");
    }
    assert_eq!(
        client.call(SHOULD_RATE_LIMIT, &[], &good).status,
        Some(UNAUTHENTICATED)
    );
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_eq!(
        client.call(reflection, &[], &[]).status,
        Some(UNAUTHENTICATED)
    );
}

/// A client without definitions learns all of them.
#[test]
fn reflection_tells_services_and_files() {
    let server = Running::new(LIMITS, |server| server);
    let mut client = Client::new(server.grpc);
    for version in ["v1", "v1alpha"] {
        let package = format!("grpc.reflection.{version}");
        let path = format!("/{package}.ServerReflection/ServerReflectionInfo");
        let mut ask = |questions: &[Value]| {
            let request = format!("{package}.ServerReflectionRequest");
            let framed = questions
                .iter()
                .map(|question| framed(&bytes(&request, question.clone())));
            let reply = client.call(&path, &[], &framed.collect::<Vec<_>>().concat());
            assert_eq!(reply.status, Some(OK), "{reply:?}");
            let response = format!("{package}.ServerReflectionResponse");
            let read = |message: &Vec<u8>| json(&response, message);
            reply.messages.iter().map(read).collect::<Vec<_>>()
        };
        let list = value!({ "host": "h", "listServices": "" });
        let answer = &ask(std::slice::from_ref(&list))[0];
        assert_eq!(
            (&answer["validHost"], &answer["originalRequest"]),
            (&value!("h"), &list)
        );
        let services = answer["listServicesResponse"]["service"]
            .as_array()
            .unwrap();
        let services: Vec<_> = services
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        for service in [
            "envoy.service.ratelimit.v3.RateLimitService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ] {
            assert!(services.contains(&service), "{services:?}");
        }
        // Several questions in one stream.
        let names = [
            "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
            "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
            "envoy.service.ratelimit.v3.RateLimitResponse.Code",
        ];
        let of = |name: &str| value!({ "fileContainingSymbol": name });
        let answers = ask(&names.map(of));
        assert_eq!(answers.len(), 3);
        for (name, answer) in names.iter().zip(answers) {
            let files = answer["fileDescriptorResponse"]["fileDescriptorProto"].as_array();
            // Each is complete: a pool accepts no file before those that it needs.
            assert!(
                files.is_some_and(|files| files.len() > 1),
                "{name}: {answer}"
            );
        }
        for (question, code) in [
            (of("no.such.Symbol"), NOT_FOUND),
            (value!({ "fileByFilename": "no.proto" }), NOT_FOUND),
            (
                value!({ "allExtensionNumbersOfType": "no.such.Type" }),
                NOT_FOUND,
            ),
            (
                value!({ "fileContainingExtension": { "containingType": "x" } }),
                NOT_FOUND,
            ),
            (value!({}), INVALID_ARGUMENT),
        ] {
            let answer = &ask(&[question])[0];
            assert_eq!(answer["errorResponse"]["errorCode"], code, "{answer}");
        }
        let file = "envoy/service/ratelimit/v3/rls.proto";
        let answer = &ask(&[value!({ "fileByFilename": file })])[0];
        assert!(answer.get("fileDescriptorResponse").is_some());
        let name = "envoy.service.ratelimit.v3.RateLimitRequest";
        let answer = &ask(&[value!({ "allExtensionNumbersOfType": name })])[0];
        assert_eq!(answer["allExtensionNumbersResponse"]["baseTypeName"], name);
    }
    // Every name of the official definitions is found.
    assert!(DEFINITIONS.all_messages().count() > 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_bytes_are_answered_by_the_definition(request: Vec<u8>) {
        let bench = Bench::new(LIMITS);
        if let Some(response) = flowgate_server::rls_answer(&bench.limits, &request) {
            json("envoy.service.ratelimit.v3.RateLimitResponse", &response);
        }
    }

    /// All descriptors or none, whatever they are, and the answer says so.
    #[test]
    fn c1_a_request_takes_from_all_or_none(
        asked in prop::collection::vec((0usize..7, 0u64..4, any::<bool>()), 1..6),
        times in 1usize..6,
    ) {
        const TEXTS: [&str; 7] =
            ["user=a", "user=b", "site=a", "free=x", "shadow=x", "own=x", "none=x"];
        let bench = Bench::new(LIMITS);
        let left = |text: &str| {
            let mut request = request(&[text]);
            request["descriptors"][0]["hitsAddend"] = "0".into();
            bench.envoy(request).unwrap()["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0)
        };
        for _ in 0..times {
            let descriptors: Vec<_> = asked.iter().map(|&(place, hits, is_refund)| {
                let mut one = descriptor(TEXTS[place]);
                one["hitsAddend"] = hits.to_string().into();
                one["isNegativeHits"] = is_refund.into();
                one
            }).collect();
            let before = TEXTS.map(left);
            let answer = bench.envoy(value!({ "domain": "api", "descriptors": descriptors })).unwrap();
            let statuses = answer["statuses"].as_array().unwrap();
            prop_assert_eq!(statuses.len(), asked.len());
            let is_over = statuses.iter().any(|status| status["code"] == "OVER_LIMIT");
            prop_assert_eq!(answer["overallCode"] == "OVER_LIMIT", is_over);
            if is_over {
                prop_assert_eq!(TEXTS.map(left), before);
            }
        }
    }
}
