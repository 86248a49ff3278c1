//! The door of gRPC: Envoy's rate limit services.

mod codec;
mod health;
mod leases;
mod messages;
mod quota_messages;
mod reflection;
mod rlqs;
mod rls;

#[doc(hidden)]
pub use rlqs::RlqsStream;

use crate::bounds::{MAX_LEASE_MESSAGE, MAX_MESSAGE, MAX_REPORT};
use crate::http::{Running, Site};
use crate::limits::DecideLimits;
use crate::trace::{Traced, parent};
use codec::Protobuf;
use flowgate_fleet::LEASE_METHOD;
use futures_util::future::{FutureExt, MapOk, TryFutureExt};
use futures_util::stream::{Stream, StreamExt};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::{Request, Response, StatusCode};
use prost::Message;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Code, Status, Streaming};

/// The largest message of the services that are not asked for decisions, in bytes.
const MAX_SMALL_MESSAGE: usize = 4 << 10;

/// The part of a client's time that is for the ways: a tenth, within these bounds, and never more than half of the time.
const WAYS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// The services of one connection.
pub(crate) struct Services {
    site: Arc<Site>,
    /// Its sender is dropped when the server ends.
    ending: watch::Receiver<()>,
}

impl Services {
    pub(crate) fn new(site: &Arc<Site>, ending: &watch::Receiver<()>) -> Self {
        Self {
            site: Arc::clone(site),
            ending: ending.clone(),
        }
    }

    /// Answers a request. Everything that can be wrong with it is an answer, too.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        running: &Running,
    ) -> Response<Body> {
        if !is_grpc(request.headers()) {
            let mut reply = Response::new(Body::empty());
            *reply.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return reply;
        }
        let most = self.site.bounds.command_time;
        let time = request_time(request.headers()).map_or(most, |time| time.min(most));
        let end = Instant::now() + time;
        let [shortest, longest] = WAYS;
        let decided_by = end - (time / 10).clamp(shortest, longest).min(time / 2);
        let reply = match timeout_at(end, self.route(request, running, decided_by)).await {
            Ok(reply) => reply,
            Err(_) => Status::deadline_exceeded("no answer in time: the message has not arrived")
                .into_http(),
        };
        match reply.extensions().get::<Status>() {
            Some(status) if code_of(status) != status.code() => {
                Status::resource_exhausted("the message is too large").into_http()
            }
            _ => reply,
        }
    }

    /// Answers a request. A decision waits for a store until `decided_by` at the latest.
    async fn route(
        &self,
        request: Request<Incoming>,
        running: &Running,
        decided_by: Instant,
    ) -> Response<Body> {
        let path = request.uri().path();
        // Programs that watch a server have no token.
        let is_open = matches!(path, health::CHECK | health::WATCH);
        if let Some(token) = self.site.token.as_ref().filter(|_| !is_open)
            && !token.is_borne_by(request.headers().get(AUTHORIZATION))
        {
            let what = "write the metadata `authorization: Bearer TOKEN`";
            return Status::unauthenticated(what).into_http();
        }
        match path {
            rls::SHOULD_RATE_LIMIT => {
                // The messages of a connection together are bounded: more wait, and are not read. It is never closed.
                let length = request.body().size_hint().upper().unwrap_or(u64::MAX);
                let length = length.min(MAX_MESSAGE as u64) as u32;
                let mut place = running.activity().bodies.acquire_many(length).await.ok();
                let limits = self.site.limits();
                let mut traced = Some(self.trace(request.headers()));
                let decide = |request| {
                    drop(place.take());
                    let (limits, other) = (Arc::clone(&limits), self.site.other.as_ref());
                    let mut traced = traced.take().unwrap_or(Traced::not_sampled());
                    async move {
                        let decided_by = Some(decided_by.into_std());
                        let answer =
                            rls::answer(&limits, decided_by, other, &request, &mut traced).await;
                        traced.status_of(&answer);
                        answer
                    }
                };
                let decide = Answer(decide);
                let reply = grpc(MAX_MESSAGE).unary(decide, request).await;
                // The message could not be read.
                if let Some(mut traced) = traced
                    && let Some(status) = reply.extensions().get::<Status>()
                {
                    traced.status(code_of(status) as u16);
                }
                reply
            }
            // In memory of its own, so that the future of a decision is small.
            _ => Box::pin(self.route_others(request)).await,
        }
    }

    /// Begins the span of a request for a decision.
    fn trace(&self, headers: &HeaderMap) -> Traced {
        match &self.site.tracer {
            Some(tracer) => tracer.begin(rls::OPERATION, parent(headers)),
            None => Traced::not_sampled(),
        }
    }

    /// Answers everything but requests for decisions.
    async fn route_others(&self, request: Request<Incoming>) -> Response<Body> {
        let ending = &self.ending;
        let parent = parent(request.headers());
        match request.uri().path() {
            rlqs::STREAM_RATE_LIMIT_QUOTAS => {
                let talk = |reports| {
                    let answers = rlqs::answers(Arc::clone(&self.site), reports, parent);
                    answers.take_until(Box::pin(health::ended(ending.clone())))
                };
                grpc(MAX_REPORT).streaming(Answers(talk), request).await
            }
            LEASE_METHOD => {
                let leasing = match leases::enter(&self.site) {
                    Ok(leasing) => Arc::new(leasing),
                    Err(status) => return status.into_http(),
                };
                let talk = |requests| {
                    let answers =
                        leases::answers(Arc::clone(&self.site), Arc::clone(&leasing), requests);
                    answers.take_until(Box::pin(health::ended(ending.clone())))
                };
                grpc(MAX_LEASE_MESSAGE)
                    .streaming(Answers(talk), request)
                    .await
            }
            health::CHECK => {
                let check = |request| ready(health::check(&request, ending));
                grpc(MAX_SMALL_MESSAGE).unary(Answer(check), request).await
            }
            health::WATCH => {
                let watch = |request| health::watch(&request, ending.clone());
                grpc(MAX_SMALL_MESSAGE)
                    .server_streaming(Answers(watch), request)
                    .await
            }
            reflection::V1 | reflection::V1_ALPHA => {
                let talk = |requests: Streaming<_>| {
                    let answers = requests.map(|request| Ok(reflection::answer(request?)));
                    answers.take_until(Box::pin(health::ended(ending.clone())))
                };
                grpc(MAX_SMALL_MESSAGE)
                    .streaming(Answers(talk), request)
                    .await
            }
            _ => Status::unimplemented("no such method").into_http(),
        }
    }
}

/// Answers a `RateLimitRequest` by limits in memory, for tests and fuzzing. `None`: it is refused without a decision.
#[doc(hidden)]
pub fn rls_answer(limits: &DecideLimits, request: &[u8]) -> Option<Vec<u8>> {
    let request = messages::RateLimitRequest::decode(request).ok()?;
    let response =
        rls::answer(limits, None, None, &request, &mut Traced::not_sampled()).now_or_never()?;
    Some(response.ok()?.encode_to_vec())
}

/// Reads a message of Envoy's rate limit services and writes it again, for tests. Fields that this server does not know are lost.
///
/// `None`: there is no message of that name, or these bytes are none.
#[doc(hidden)]
pub fn read_and_written(name: &str, message: &[u8]) -> Option<Vec<u8>> {
    fn again<M: Message + Default>(message: &[u8]) -> Option<Vec<u8>> {
        Some(M::decode(message).ok()?.encode_to_vec())
    }
    match name {
        "RateLimitRequest" => again::<messages::RateLimitRequest>(message),
        "RateLimitResponse" => again::<messages::RateLimitResponse>(message),
        "RateLimitQuotaUsageReports" => {
            again::<quota_messages::RateLimitQuotaUsageReports>(message)
        }
        "RateLimitQuotaResponse" => again::<quota_messages::RateLimitQuotaResponse>(message),
        _ => None,
    }
}

fn grpc<M, R>(max_message: usize) -> Grpc<Protobuf<M, R>>
where
    M: Message + Default + 'static,
    R: Message + 'static,
{
    Grpc::new(Protobuf::new()).max_decoding_message_size(max_message)
}

/// A function of a message, as tonic calls it.
struct Answer<F>(F);

impl<F, A, M, R> UnaryService<M> for Answer<F>
where
    F: FnMut(M) -> A,
    A: Future<Output = Result<R, Status>>,
{
    type Response = R;
    type Future = MapOk<A, fn(R) -> tonic::Response<R>>;

    fn call(&mut self, request: tonic::Request<M>) -> Self::Future {
        (self.0)(request.into_inner()).map_ok(tonic::Response::new)
    }
}

/// A function of a message, or of a stream of them, whose answers are a stream.
struct Answers<F>(F);

impl<F, A, M, R> ServerStreamingService<M> for Answers<F>
where
    F: FnMut(M) -> A,
    A: Stream<Item = Result<R, Status>>,
{
    type Response = R;
    type ResponseStream = A;
    type Future = Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<M>) -> Self::Future {
        ready(Ok(tonic::Response::new((self.0)(request.into_inner()))))
    }
}

impl<F, A, M, R> StreamingService<M> for Answers<F>
where
    F: FnMut(Streaming<M>) -> A,
    A: Stream<Item = Result<R, Status>>,
{
    type Response = R;
    type ResponseStream = A;
    type Future = Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, requests: tonic::Request<Streaming<M>>) -> Self::Future {
        ready(Ok(tonic::Response::new((self.0)(requests.into_inner()))))
    }
}

/// Returns the code that is answered.
fn code_of(status: &Status) -> Code {
    match status.code() {
        // tonic's status for a message that is too large, which nothing here uses otherwise.
        Code::OutOfRange => Code::ResourceExhausted,
        code => code,
    }
}

/// Returns whether the content is `application/grpc`, perhaps with the name of a format.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let rest = content.and_then(|content| content.strip_prefix(b"application/grpc"));
    rest.is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
}

/// Returns the next message of a stream. `None`: the client has ended the stream.
///
/// # Errors
///
/// There is none in time, for which the status says `late`, or it cannot be read.
async fn next<M>(
    messages: &mut Streaming<M>,
    idle_time: Duration,
    late: &'static str,
) -> Result<Option<M>, Status> {
    let message = timeout(idle_time, messages.message()).await;
    let message = message.map_err(|_| Status::deadline_exceeded(late))?;
    message.map_err(|status| match status.code() {
        // tonic's status for a message that is too large.
        Code::OutOfRange => Status::resource_exhausted("the message is too large"),
        _ => status,
    })
}

/// Returns the time that the client waits: `grpc-timeout`, such as `20m` for 20 ms. `None` if there is none, or it is malformed.
fn request_time(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_grpc, request_time};
    use hyper::header::{HeaderMap, HeaderValue};
    use std::time::Duration;

    #[test]
    fn times_of_clients_are_read() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_str(text).unwrap());
            request_time(&headers)
        };
        let nanos = Duration::from_nanos;
        for (text, time) in [
            ("20m", Some(nanos(20_000_000))),
            ("1S", Some(nanos(1_000_000_000))),
            ("2M", Some(nanos(120_000_000_000))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("7u", Some(nanos(7_000))),
            ("7n", Some(nanos(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("m", None),
            ("5", None),
            ("5s", None),
            ("-5m", None),
            ("+5m", None),
            ("123456789m", None),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
    }

    #[test]
    fn content_that_is_not_grpc_is_seen() {
        for (text, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_str(text).unwrap());
            assert_eq!(is_grpc(&headers), expected, "{text}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
