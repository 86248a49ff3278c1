//! The doors of HTTP/1.1 and HTTP/2: for clients, and for operators.

mod admin;
mod ask;
mod auth;
mod json;
mod limits;
mod query;
mod streams;
mod timed;

#[doc(hidden)]
pub use json::json_answer;
pub(crate) use streams::{Arrived, Streams};
pub(crate) use timed::{Activity, Late, Request as Running, Timed, Watch};

use crate::bounds::{MAX_MESSAGE, ServerBounds};
use crate::compare::Comparer;
use crate::counts::ServerCounts;
use crate::decision::Undecided;
use crate::limits::{DecideLimits, Unknown};
use crate::reload::Current;
use crate::server::Door;
use crate::token::Token;
use crate::trace::{Operation, Traced, Tracer, parent};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::Mutex;
use tokio::time::timeout;

type Reply = Response<Full<Bytes>>;

/// What a request is answered from.
pub(crate) struct Site {
    pub(crate) current: Arc<Current>,
    pub(crate) token: Option<Token>,
    pub(crate) bounds: ServerBounds,
    pub(crate) counts: Arc<ServerCounts>,
    pub(crate) other: Option<Comparer>,
    pub(crate) tracer: Option<Tracer>,
    /// The page of metrics that is being made.
    pub(crate) page: Mutex<()>,
    /// Connections are no longer accepted.
    pub(crate) is_ending: AtomicBool,
}

impl Site {
    /// Answers a request of a client that is on this machine, or not. Everything that can be wrong with it is an answer, too.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        door: Door,
        is_near: bool,
        request: Request<Incoming>,
        running: &Running,
    ) -> Reply {
        let (head, body) = request.into_parts();
        if door == Door::Admin {
            // In memory of its own, so that the future of a decision is small.
            return Box::pin(self.administer(is_near, &head)).await;
        }
        let mut traced = self.trace(&head);
        let answer = self.route(&head, body, running, &mut traced).await;
        let reply = answer.unwrap_or_else(Wrong::reply);
        traced.status(reply.status().as_u16());
        reply
    }

    /// Begins the span of a request for a decision.
    fn trace(&self, head: &Parts) -> Traced {
        let Some(tracer) = &self.tracer else {
            return Traced::not_sampled();
        };
        let (method, path) = match (&head.method, head.uri.path()) {
            (&Method::POST, "/json") => ("POST", "/json"),
            (&Method::POST, "/v1/ask") => ("POST", "/v1/ask"),
            (&Method::GET, "/auth") => ("GET", "/auth"),
            (&Method::HEAD, "/auth") => ("HEAD", "/auth"),
            _ => return Traced::not_sampled(),
        };
        tracer.begin(Operation::Http { method, path }, parent(&head.headers))
    }

    async fn route(
        &self,
        head: &Parts,
        body: Incoming,
        running: &Running,
        traced: &mut Traced,
    ) -> Result<Reply, Wrong> {
        let is_get = head.method == Method::GET || head.method == Method::HEAD;
        let is_post = head.method == Method::POST;
        match head.uri.path() {
            "/healthz" if is_get => Ok(text(StatusCode::OK, "ok\n")),
            "/readyz" if is_get => Ok(self.readiness()),
            "/json" if is_post => {
                self.check(head)?;
                let body = self.body(body, running).await?;
                json::answer(&self.limits(), self.other.as_ref(), &body, traced).await
            }
            "/v1/ask" if is_post => {
                self.check(head)?;
                let body = self.body(body, running).await?;
                ask::answer(&self.limits(), &body, traced).await
            }
            "/auth" if is_get => {
                self.check(head)?;
                let query = head.uri.query().unwrap_or_default();
                auth::answer(&self.limits(), query, &head.headers, traced).await
            }
            "/healthz" | "/readyz" | "/auth" => Err(not_allowed("GET")),
            "/json" | "/v1/ask" => Err(not_allowed("POST")),
            "/metrics" | "/config" | "/limits" => Err(problem(
                StatusCode::NOT_FOUND,
                "this path is at the door of operators: write the address of --admin, which the server prints after `admin on`",
            )),
            _ => Err(problem(
                StatusCode::NOT_FOUND,
                "no such path: write /json, /v1/ask, /auth, /healthz or /readyz",
            )),
        }
    }

    /// Checks the token of the client.
    fn check(&self, head: &Parts) -> Result<(), Wrong> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        if token.is_borne_by(head.headers.get(AUTHORIZATION)) {
            return Ok(());
        }
        let wrong = problem(
            StatusCode::UNAUTHORIZED,
            "write `Authorization: Bearer TOKEN`",
        );
        Err(wrong.with(WWW_AUTHENTICATE, "Bearer"))
    }

    async fn body(&self, body: Incoming, running: &Running) -> Result<Bytes, Wrong> {
        let length = body.size_hint();
        let most = length.upper().unwrap_or(u64::MAX).min(MAX_MESSAGE as u64);
        let receive = async {
            if length.lower() > most {
                return None;
            }
            // The bodies of a connection together are bounded: more wait, and are not read. It is never closed.
            let _place = running.activity().bodies.acquire_many(most as u32).await;
            whole(body).await
        };
        match timeout(self.bounds.command_time, receive).await {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(problem(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body ends early, or is larger than 64 KiB",
            )),
            Err(_) => {
                running.activity().note_late_body();
                let what = "the body did not arrive in time";
                Err(problem(StatusCode::REQUEST_TIMEOUT, what))
            }
        }
    }
}

/// Receives a body. `None`: it is too large, or ends early.
async fn whole(mut body: Incoming) -> Option<Bytes> {
    // Most bodies are one frame.
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else {
            continue;
        };
        if first.len().max(all.len()) + data.len() > MAX_MESSAGE {
            return None;
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
    match all.is_empty() {
        true => Some(first),
        false => Some(all.into()),
    }
}

fn text(status: StatusCode, text: &'static str) -> Reply {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    with_body(status, plain, Bytes::from_static(text.as_bytes()))
}

fn with_body(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

fn json_reply(status: StatusCode, value: &impl Serialize) -> Reply {
    let json = HeaderValue::from_static("application/json");
    // Numbers and texts can be written, whatever they are.
    let text = serde_json::to_vec(value).unwrap_or_default();
    with_body(status, json, text.into())
}

/// A request that cannot be answered, and what to write instead.
struct Wrong {
    status: StatusCode,
    detail: String,
    header: Option<(HeaderName, &'static str)>,
}

fn problem(status: StatusCode, detail: impl Into<String>) -> Wrong {
    Wrong {
        status,
        detail: detail.into(),
        header: None,
    }
}

/// An outage is not a refusal: the request was not decided.
fn undecided(undecided: Undecided) -> Wrong {
    let status = match undecided {
        Undecided::Unknown(Unknown::Name) => StatusCode::NOT_FOUND,
        Undecided::Unknown(_) => StatusCode::BAD_REQUEST,
        Undecided::Outage | Undecided::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Undecided::Refund | Undecided::Assigned => StatusCode::NOT_IMPLEMENTED,
    };
    problem(status, undecided.to_string())
}

fn not_allowed(method: &'static str) -> Wrong {
    let wrong = problem(StatusCode::METHOD_NOT_ALLOWED, format!("write {method}"));
    wrong.with(ALLOW, method)
}

impl Wrong {
    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Problem details (RFC 9457).
    fn reply(self) -> Reply {
        let value = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let json = HeaderValue::from_static("application/problem+json");
        let mut reply = with_body(self.status, json, value.to_string().into());
        if let Some((name, value)) = self.header {
            reply
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        reply
    }
}

/// A question about one limit: `/v1/ask` and `/auth`.
struct Question<'a> {
    limit: &'a str,
    key: &'a [u8],
    n: u64,
    /// The status of a refusal.
    deny: StatusCode,
}

impl Question<'_> {
    /// Decides. The reply has the fields of the limit, and `body` if the request is admitted.
    async fn answer(
        &self,
        limits: &DecideLimits,
        traced: &mut Traced,
        body: impl FnOnce(&crate::Status<'_>) -> Reply,
    ) -> Result<Reply, Wrong> {
        let Self {
            limit,
            key,
            n,
            deny,
        } = *self;
        let asked = limits.ask(limit, key, n).await;
        traced.asked(&asked);
        let status = asked.map_err(undecided)?;
        let mut reply = match status.is_over {
            false => body(&status),
            true => refusal(&status, deny),
        };
        let headers = reply.headers_mut();
        if let Some(rule) = status.rule
            && let Ok(key) = rule.key_of_value(key)
        {
            status.describe(&key, headers);
        }
        if let Some(wait) = status.retry_after.filter(|_| status.is_over) {
            // Rounded up, and never 0, which would mean "now".
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, seconds.max(1).into());
        }
        Ok(reply)
    }
}

/// A refusal as problem details of the draft on RateLimit fields.
fn refusal(status: &crate::Status<'_>, deny: StatusCode) -> Reply {
    let name = status.rule.map_or("", |rule| rule.name());
    let value = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": format!("over the limit `{name}`"),
        "status": deny.as_u16(),
        "violated-policies": [name],
    });
    let json = HeaderValue::from_static("application/problem+json");
    with_body(deny, json, value.to_string().into())
}

/// Milliseconds, rounded up.
fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
