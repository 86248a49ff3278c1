//! Spans of requests, as a collector receives them.

use crate::rpc::{Client, SHOULD_RATE_LIMIT, bytes, framed};
use crate::support::Running;
use flowgate_server::DecideTraces;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/day, name: users }
  - { key: service, value: search, quota: 10/s, rlqs: true }
";
const QUOTAS: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A server whose spans are delivered here. Deliveries have this result.
fn traced(share: f64, result: Result<(), String>) -> (Running, Receiver<Value>) {
    let (delivered, bodies) = channel();
    let traces = DecideTraces::new(move || {
        move |body: String| {
            let _ = delivered.send(serde_json::from_str(&body).unwrap());
            result.clone()
        }
    });
    let server = Running::new(LIMITS, |server| server.trace(traces.share(share)));
    (server, bodies)
}

/// Ends the server, and returns all spans.
fn spans(mut server: Running, bodies: &Receiver<Value>) -> Vec<Value> {
    server.end();
    let mut spans = Vec::new();
    // The thread that delivers ends with the server.
    while let Ok(mut body) = bodies.recv_timeout(Duration::from_secs(60)) {
        let spans_of = body.pointer_mut("/resourceSpans/0/scopeSpans/0/spans");
        match spans_of.unwrap().take() {
            Value::Array(more) => spans.extend(more),
            other => panic!("{other}"),
        }
    }
    spans
}

/// The attributes of a span, by name.
fn attributes(span: &Value) -> Value {
    let mut all = serde_json::Map::new();
    for attribute in span["attributes"].as_array().unwrap() {
        let value = &attribute["value"];
        let value = match (value.get("stringValue"), value.get("intValue")) {
            (Some(text), _) => text.clone(),
            (_, Some(number)) => number.as_str().unwrap().parse::<u64>().unwrap().into(),
            _ => value["arrayValue"]["values"].clone(),
        };
        all.insert(attribute["key"].as_str().unwrap().to_owned(), value);
    }
    all.into()
}

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

fn get(parent: &str, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{parent}\r\n")
}

#[test]
fn each_door_has_a_span_for_each_request_for_a_decision() {
    let (server, bodies) = traced(1.0, Ok(()));
    server.resp(b"PING\r\nFG.ASK users secret-key 3\r\nCL.THROTTLE secret-key 1 1 60\r\n");
    server.http(&get("", "/healthz"));
    server.http(&get("", "/auth?limit=users&key=secret-key&deny=403"));
    server.http(&get("", "/auth?limit=secret-key"));
    let entry = json!({ "key": "user", "value": "secret-key" });
    let question = json!({ "domain": "api", "descriptors": [{ "entries": [entry] }] });
    let request = bytes("envoy.service.ratelimit.v3.RateLimitRequest", question);
    let mut client = Client::new(server.grpc);
    client.call(SHOULD_RATE_LIMIT, &[], &framed(&request));
    client.call(SHOULD_RATE_LIMIT, &[], &framed(b"\xff"));
    let bucket = json!({ "bucketId": { "bucket": { "service": "search" } }, "timeElapsed": "0s" });
    let report = json!({ "domain": "api", "bucketQuotaUsages": [bucket] });
    let name = "envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports";
    client.call(QUOTAS, &[], &framed(&bytes(name, report)));
    drop(client);

    let spans = spans(server, &bodies);
    let mut seen: Vec<_> = spans
        .iter()
        .map(|span| (span["name"].as_str().unwrap(), attributes(span)))
        .collect();
    seen.sort_by_key(|(name, attributes)| (*name, attributes.to_string()));
    let users = json!([{ "stringValue": "api.user" }]);
    let rls = "envoy.service.ratelimit.v3.RateLimitService";
    let rlqs = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService";
    let (of_rls, of_rlqs) = (
        format!("{rls}/ShouldRateLimit"),
        format!("{rlqs}/StreamRateLimitQuotas"),
    );
    let http = |status: u64| {
        json!({
            "http.request.method": "GET",
            "http.route": "/auth",
            "url.path": "/auth",
            "http.response.status_code": status,
        })
    };
    let grpc = |service: &str, method: &str, status: u64| {
        json!({
            "rpc.system": "grpc",
            "rpc.service": service,
            "rpc.method": method,
            "rpc.grpc.status_code": status,
        })
    };
    let resp = |command: &str| json!({ "network.protocol.name": "resp", "rpc.method": command });
    let decided = |mut attributes: Value, decision: &str, limits: Option<&Value>| {
        attributes["flowgate.decision"] = decision.into();
        if let Some(limits) = limits {
            attributes["flowgate.limits"] = limits.clone();
        }
        attributes
    };
    let mut expected = vec![
        ("CL.THROTTLE", decided(resp("CL.THROTTLE"), "ok", None)),
        ("FG.ASK", decided(resp("FG.ASK"), "ok", Some(&users))),
        ("GET /auth", decided(http(403), "over_limit", Some(&users))),
        ("GET /auth", http(404)),
        (&of_rlqs, grpc(rlqs, "StreamRateLimitQuotas", 0)),
        (
            &of_rls,
            decided(grpc(rls, "ShouldRateLimit", 0), "over_limit", Some(&users)),
        ),
        // What cannot be read is no question, and the fault of the client.
        (&of_rls, grpc(rls, "ShouldRateLimit", 3)),
    ];
    expected.sort_by_key(|(name, attributes)| (*name, attributes.to_string()));
    assert_eq!(seen, expected);
    for span in &spans {
        assert!(!span.to_string().contains("secret-key"), "{span}");
        assert_eq!((&span["kind"], span.get("status")), (&2.into(), None));
        let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
        assert_eq!(span.get("parentSpanId"), None);
    }
}

#[test]
fn a_span_is_a_part_of_the_trace_that_the_request_names() {
    // Of the requests without a parent, none is sampled.
    let (server, bodies) = traced(0.0, Ok(()));
    let ask = |parent: &str| server.http(&get(parent, "/auth?limit=users&key=a"));
    ask("");
    ask(&format!("traceparent: {}\r\n", parent("00")));
    ask("traceparent: nonsense\r\n");
    ask(&format!("traceparent: {}\r\n", parent("01")));
    let mut client = Client::new(server.grpc);
    let traceparent = parent("01");
    client.call(
        SHOULD_RATE_LIMIT,
        &[("traceparent", &traceparent)],
        &framed(b""),
    );
    drop(client);
    let spans = spans(server, &bodies);
    assert_eq!(spans.len(), 2);
    for span in &spans {
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"]),
            (&TRACE.into(), &SPAN.into())
        );
        assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
    }
    assert_ne!(spans[0]["spanId"], spans[1]["spanId"]);
}

#[test]
fn spans_that_a_collector_does_not_take_are_counted_and_delay_no_answer() {
    let (delivered, deliveries) = channel();
    // The collector takes nothing until it is told to.
    let (answer, answered) = channel::<Result<(), String>>();
    let traces = DecideTraces::new(move || {
        move |_: String| {
            let _ = delivered.send(());
            answered.recv().unwrap_or_else(|_| Err("gone".to_owned()))
        }
    });
    let server = Running::new(LIMITS, |server| server.trace(traces.share(1.0)));
    let counts = || {
        let page = server.admin("/metrics");
        ["sent", "failed", "skipped"].map(|result| {
            let line = format!("flowgate_spans_total{{result=\"{result}\"}} ");
            let count = page.lines().find_map(|of| of.strip_prefix(&line));
            count.unwrap().parse::<u64>().unwrap()
        })
    };
    let ask = |times: usize| {
        let asked = server.resp(&b"FG.ASK users a 0\r\n".repeat(times));
        assert_eq!(asked.matches("*5\r\n").count(), times);
    };
    ask(1);
    deliveries.recv_timeout(Duration::from_secs(60)).unwrap();
    // The queue has 2,048 places.
    ask(3_000);
    assert_eq!(counts(), [0, 0, 3_000 - 2_048]);
    answer.send(Ok(())).unwrap();
    deliveries.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(counts(), [1, 0, 952]);
    answer.send(Err("no".to_owned())).unwrap();
    deliveries.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(counts(), [1, 512, 952]);
}
