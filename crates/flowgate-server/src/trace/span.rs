//! One request for a decision, and what it becomes in OTLP.

use crate::decision::{Status, Undecided};
use crate::limits::Rule;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Http {
        method: &'static str,
        /// Without the query, which has keys.
        path: &'static str,
    },
    Grpc {
        service: &'static str,
        method: &'static str,
    },
    Resp(&'static str),
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admitted,
    Refused,
    Undecided,
}

/// A request, from its beginning to its answer. No key is in it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) begun: SystemTime,
    pub(super) length: Duration,
    pub(super) operation: Operation,
    /// `None`: it was not a question.
    pub(super) verdict: Option<Verdict>,
    /// The ids of the rules, as the configuration has them.
    pub(super) rules: Vec<String>,
    /// The status of HTTP or gRPC.
    pub(super) status: Option<u16>,
}

impl Span {
    pub(super) fn add_rule(&mut self, rule: Option<&Rule>) {
        self.rules.extend(rule.map(|rule| rule.id().to_owned()));
    }

    pub(super) fn decide(&mut self, is_over: bool, statuses: &[Status<'_>]) {
        self.verdict = Some(match is_over {
            true => Verdict::Refused,
            false => Verdict::Admitted,
        });
        for status in statuses {
            self.add_rule(status.rule);
        }
    }

    pub(super) fn leave(&mut self, undecided: &Undecided) {
        if let Undecided::Outage | Undecided::Busy = undecided {
            self.verdict = Some(Verdict::Undecided);
        }
    }

    /// Returns the span in OTLP's JSON: ids in hexadecimal digits, 64-bit numbers as text.
    pub(super) fn to_json(&self) -> Value {
        let (name, mut attributes) = self.operation.describe();
        if let Some(status) = self.status {
            attributes.push(attribute(
                self.operation.status_name(),
                json!({ "intValue": status.to_string() }),
            ));
        }
        if let Some(verdict) = self.verdict {
            attributes.push(text("flowgate.decision", verdict.name()));
        }
        if !self.rules.is_empty() {
            let rules = self.rules.iter().map(|rule| json!({ "stringValue": rule }));
            let values = json!({ "values": rules.collect::<Vec<_>>() });
            let list = json!({ "arrayValue": values });
            attributes.push(attribute("flowgate.limits", list));
        }
        let mut span = json!({
            "traceId": format!("{:032x}", self.trace),
            "spanId": format!("{:016x}", self.id),
            "name": name,
            "kind": SERVER,
            "startTimeUnixNano": unix_ns(self.begun),
            "endTimeUnixNano": unix_ns(self.begun + self.length),
            "attributes": attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = format!("{parent:016x}").into();
        }
        if self.is_failure() {
            span["status"] = json!({ "code": ERROR });
        }
        span
    }

    /// Returns whether the server could not answer. A refusal, or a request with a mistake, is no failure of the server.
    fn is_failure(&self) -> bool {
        let is_failure = match self.operation {
            Operation::Http { .. } => self.status.is_some_and(|status| status >= 500),
            // UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
            Operation::Grpc { .. } => matches!(self.status, Some(2 | 4 | 12 | 13 | 14 | 15)),
            Operation::Resp(_) => false,
        };
        is_failure || self.verdict == Some(Verdict::Undecided)
    }
}

/// `SPAN_KIND_SERVER`
const SERVER: u8 = 2;
/// `STATUS_CODE_ERROR`
const ERROR: u8 = 2;

impl Operation {
    /// Returns the name of a span, and its attributes by the semantic conventions of OpenTelemetry.
    fn describe(self) -> (String, Vec<Value>) {
        match self {
            Self::Http { method, path } => (
                format!("{method} {path}"),
                vec![
                    text("http.request.method", method),
                    text("http.route", path),
                    text("url.path", path),
                ],
            ),
            Self::Grpc { service, method } => (
                format!("{service}/{method}"),
                vec![
                    text("rpc.system", "grpc"),
                    text("rpc.service", service),
                    text("rpc.method", method),
                ],
            ),
            Self::Resp(command) => (
                command.to_owned(),
                vec![
                    text("network.protocol.name", "resp"),
                    text("rpc.method", command),
                ],
            ),
        }
    }

    fn status_name(self) -> &'static str {
        match self {
            Self::Grpc { .. } => "rpc.grpc.status_code",
            _ => "http.response.status_code",
        }
    }
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Admitted => "ok",
            Self::Refused => "over_limit",
            Self::Undecided => "undecided",
        }
    }
}

/// Returns an `ExportTraceServiceRequest`, as JSON.
pub(super) fn export(spans: &[Span], instance: &str) -> String {
    let resource = [
        text("service.name", "flowgate-decide"),
        text("service.instance.id", instance),
        text("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let spans: Vec<_> = spans.iter().map(Span::to_json).collect();
    let export = json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": "flowgate-server", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]});
    export.to_string()
}

fn text(key: &str, value: &str) -> Value {
    attribute(key, json!({ "stringValue": value }))
}

fn attribute(key: &str, value: Value) -> Value {
    json!({ "key": key, "value": value })
}

/// Returns the time as text, as 64-bit numbers are in this protocol.
pub(super) fn unix_ns(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos().to_string()
}
