//! Assignments for Envoys, at the door of gRPC.

use crate::rpc::{Client, Reply, bytes, framed, json};
use crate::support::Running;
use serde_json::{Value, json as value};

const LIMITS: &str = "
domain: edge
descriptors:
  - key: service
    value: search
    quota: 10/s burst 20
    rlqs: true
    descriptors:
      - { key: user, quota: 5/s burst 5, rlqs: true, name: users }
  - { key: asked, quota: 10/s }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: closed, rate_limit: { unit: second, requests_per_unit: 0 } }
";
const STREAM: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
const REPORTS: &str = "envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports";
const RESPONSE: &str = "envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse";

/// A report about buckets that are new.
fn report(domain: &str, buckets: &[Value]) -> Vec<u8> {
    report_after("0s", domain, buckets)
}

fn report_after(elapsed: &str, domain: &str, buckets: &[Value]) -> Vec<u8> {
    let usage = |bucket: &Value| {
        value!({
            "bucketId": { "bucket": bucket },
            "timeElapsed": elapsed,
            "numRequestsDenied": "7",
        })
    };
    let usages: Vec<_> = buckets.iter().map(usage).collect();
    let reports = value!({ "domain": domain, "bucketQuotaUsages": usages });
    framed(&bytes(REPORTS, reports))
}

/// Sends reports in one stream, which ends then.
fn stream(server: &Running, reports: &[Vec<u8>]) -> Reply {
    Client::new(server.grpc).call(STREAM, &[], &reports.concat())
}

/// What is answered about each bucket.
fn actions(reply: &Reply) -> Vec<Value> {
    let of = |message: &Vec<u8>| json(RESPONSE, message)["bucketAction"].take();
    let actions = reply.messages.iter().map(of);
    actions
        .flat_map(|actions| actions.as_array().unwrap().clone())
        .collect()
}

fn assigned(bucket: Value, strategy: Value) -> Value {
    let action = value!({ "assignmentTimeToLive": "16s", "rateLimitStrategy": strategy });
    value!({ "bucketId": { "bucket": bucket }, "quotaAssignmentAction": action })
}

#[test]
fn a_bucket_gets_the_part_of_the_limit_that_matches_it() {
    let server = Running::new(LIMITS, |server| server);
    let search = || value!({ "service": "search" });
    // In any order.
    let user = || value!({ "user": "alice", "service": "search" });
    let buckets = [
        search(),
        user(),
        value!({ "asked": "x" }),
        value!({ "free": "x" }),
        value!({ "closed": "x" }),
        value!({ "none": "x" }),
    ];
    let reply = stream(
        &server,
        &[report("edge", &buckets), report("", &[search()])],
    );
    assert_eq!(reply.status, Some(0), "{}", reply.what);
    let tokens = |max: u32, per_fill: u32, interval: &str| value!({ "tokenBucket": { "maxTokens": max, "tokensPerFill": per_fill, "fillInterval": interval } });
    let blanket = |rule: &str| value!({ "blanketRule": rule });
    let expected = [
        assigned(search(), tokens(20, 1000, "100s")),
        assigned(user(), tokens(5, 1000, "200s")),
        assigned(value!({ "free": "x" }), blanket("ALLOW_ALL")),
        assigned(value!({ "closed": "x" }), blanket("DENY_ALL")),
        assigned(value!({ "none": "x" }), blanket("ALLOW_ALL")),
        assigned(search(), tokens(20, 1000, "100s")),
    ];
    assert_eq!(actions(&reply), expected);
    // The parts are held until they expire, although the stream has ended.
    let other = stream(&server, &[report("edge", &[search()])]);
    assert_eq!(actions(&other), [assigned(search(), blanket("DENY_ALL"))]);
    // An Envoy that comes back goes on with its own.
    let back = stream(&server, &[report_after("5s", "edge", &[search()])]);
    assert_eq!((back.status, actions(&back)), (Some(0), Vec::new()));

    // What Envoys hold of a limit, and of a key.
    let out = |query: &str| {
        let page = server.admin(&format!("/limits?limit={query}"));
        let (_, body) = page.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(body).unwrap()["assigned"].take()
    };
    let held = |keys: u64, buckets: u64, tokens: u64, per_second: f64| value!({ "keys": keys, "buckets": buckets, "tokens": tokens, "per_second": per_second });
    assert_eq!(out("edge.service_search"), held(1, 1, 20, 10.0));
    assert_eq!(out("users"), held(1, 1, 5, 5.0));
    assert_eq!(out("users&key=alice"), held(1, 1, 5, 5.0));
    assert_eq!(out("users&key=bob"), held(0, 0, 0, 0.0));

    let page = server.admin("/metrics");
    for line in [
        "flowgate_rlqs_requests_total{rule=\"edge.service_search\",result=\"denied\"} 28",
        "flowgate_rlqs_requests_total{rule=\"edge.service_search\",result=\"allowed\"} 0",
        "flowgate_rlqs_unassigned_allowed_total{rule=\"edge.service_search.user\"} 0",
        "flowgate_rlqs_unanswered_buckets_total 1",
        "flowgate_rlqs_streams 0",
        "flowgate_rlqs_limits 2",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}: {page}");
    }
    assert!(!page.contains("alice"), "{page}");
}

#[test]
fn a_limit_that_envoys_decide_is_refused_to_requests() {
    let server = Running::new(LIMITS, |server| server);
    let descriptor = value!({ "entries": [{ "key": "service", "value": "search" }] });
    let request = value!({ "domain": "edge", "descriptors": [descriptor] });
    let refused = Client::new(server.grpc).ask(request).unwrap_err();
    let what = "Envoys decide about this limit; ask RateLimitQuotaService, or remove `rlqs`";
    let said = refused.what.replace("%60", "`");
    assert_eq!((refused.status, &*said), (Some(9), what));
    let resp = server.resp(b"FG.ASK users alice\r\n");
    assert!(
        resp.starts_with("-ERR this limit needs 1") || resp.starts_with(&format!("-ERR {what}")),
        "{resp}"
    );
    let body = r#"{"limit":"edge.service_search","key":"","n":1}"#;
    let length = body.len();
    let http = server.http(&format!(
        "POST /v1/ask HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    assert!(
        http.starts_with("HTTP/1.1 501 ") && http.contains(what),
        "{http}"
    );
}

#[test]
fn a_wrong_report_ends_the_stream_with_what_is_wrong() {
    let server = Running::new(LIMITS, |server| server);
    let search = &[value!({ "service": "search" })];
    let long = "x".repeat(256 << 10);
    for (reports, status, what) in [
        (
            vec![report("", search)],
            3,
            "the first report has no domain",
        ),
        (
            vec![report("edge", search), report("other", search)],
            3,
            "a stream has one domain; open another stream",
        ),
        (vec![report("edge", &[value!({})])], 3, "a bucket has no id"),
        (
            vec![report("edge", &[value!({ "service": long })])],
            8,
            "the message is too large",
        ),
        (vec![framed(b"\xff")], 3, ""),
    ] {
        let reply = stream(&server, &reports);
        assert_eq!(reply.status, Some(status), "{}", reply.what);
        assert!(reply.what.starts_with(what), "{}", reply.what);
    }
    // A value of an end user that is too long ends no stream.
    let long = value!({ "service": "x".repeat(5 << 10) });
    let reply = stream(&server, &[report("edge", &[long, search[0].clone()])]);
    assert_eq!((reply.status, actions(&reply).len()), (Some(0), 1));
}

#[test]
fn c9_an_envoy_has_a_thousand_buckets_at_most() {
    let server = Running::new(LIMITS, |server| server);
    let bucket = |user: usize| value!({ "service": "search", "user": user.to_string() });
    let buckets: Vec<_> = (0..1001).map(bucket).collect();
    let reply = stream(&server, &[report("edge", &buckets)]);
    assert_eq!((reply.status, actions(&reply).len()), (Some(0), 1000));
}
