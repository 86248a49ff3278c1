//! A client of gRPC that reads and writes by Envoy's own definitions, and can do things wrong.

use crate::support::Bench;
use flowgate_server::rls_answer;
use http_body_util::BodyExt;
use hyper::body::{Body, Buf, Bytes, Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const DESCRIPTORS: &[u8] = include_bytes!("../../src/grpc/descriptors.bin");
const PATIENCE: Duration = Duration::from_secs(60);

pub static DEFINITIONS: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).unwrap());

pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub const REQUEST: &str = "envoy.service.ratelimit.v3.RateLimitRequest";
pub const RESPONSE: &str = "envoy.service.ratelimit.v3.RateLimitResponse";

/// The bytes of a message, by its definition.
pub fn bytes(name: &str, json: Value) -> Vec<u8> {
    let definition = DEFINITIONS.get_message_by_name(name).expect(name);
    let message = DynamicMessage::deserialize(definition, json).unwrap();
    message.encode_to_vec()
}

/// A message as JSON. Every field has to be in the definition.
pub fn json(name: &str, bytes: &[u8]) -> Value {
    let definition = DEFINITIONS.get_message_by_name(name).expect(name);
    let message = DynamicMessage::decode(definition, bytes).unwrap();
    assert_eq!(message.unknown_fields().count(), 0, "{message:?}");
    let options = SerializeOptions::new();
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap()
}

impl Bench {
    /// Asks as Envoy does. `None`: it is refused without a decision.
    pub fn envoy(&self, request: Value) -> Option<Value> {
        let response = rls_answer(&self.limits, &bytes(REQUEST, request))?;
        Some(json(RESPONSE, &response))
    }
}

/// A connection.
pub struct Client {
    runtime: Runtime,
    send: SendRequest<Sent>,
}

/// The body of a request.
struct Sent {
    bytes: Option<Bytes>,
    /// Whether it ends after that. Otherwise, the server may wait.
    ends: bool,
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// What a method has answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub http: u16,
    /// The number of the status; `None`: there was none.
    pub status: Option<u32>,
    pub what: String,
    pub messages: Vec<Vec<u8>>,
}

/// A method whose answer has begun.
pub struct Call<'a> {
    runtime: &'a Runtime,
    response: Response<Incoming>,
    received: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let send = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(async move { _ = connection.await });
            send
        });
        Self { runtime, send }
    }

    /// Sends a request. `None`: the connection has ended.
    pub fn open(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Option<Call<'_>> {
        let bytes = Some(body.to_vec().into());
        self.send(path, fields, Sent { bytes, ends: true })
    }

    fn send(&mut self, path: &str, fields: &[(&str, &str)], body: Sent) -> Option<Call<'_>> {
        let mut request = Request::post(format!("http://test{path}")).header("te", "trailers");
        if !fields.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/grpc");
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(body).unwrap();
        let response = self.runtime.block_on(async {
            timeout(PATIENCE, self.send.ready()).await.unwrap().ok()?;
            let response = timeout(PATIENCE, self.send.send_request(request)).await;
            response.unwrap().ok()
        })?;
        Some(Call {
            runtime: &self.runtime,
            response,
            received: Vec::new(),
        })
    }

    /// Sends a request, and waits for all of the answer.
    pub fn call(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        self.open(path, fields, body).expect("an answer").rest()
    }

    /// Sends a request whose body does not end.
    pub fn endless(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let bytes = Some(body.to_vec().into());
        let call = self.send(path, fields, Sent { bytes, ends: false });
        call.expect("an answer").rest()
    }

    /// Asks as Envoy does.
    pub fn ask(&mut self, request: Value) -> Result<Value, Reply> {
        let reply = self.call(SHOULD_RATE_LIMIT, &[], &framed(&bytes(REQUEST, request)));
        match (reply.status, &*reply.messages) {
            (Some(0), [response]) => Ok(json(RESPONSE, response)),
            _ => Err(reply),
        }
    }
}

impl Call<'_> {
    /// The next message. `None`: there are no more.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(message) = taken(&mut self.received) {
                return Some(message);
            }
            let frame = self.response.body_mut().frame();
            let frame = self
                .runtime
                .block_on(async { timeout(PATIENCE, frame).await });
            let frame = frame.unwrap()?;
            if let Ok(data) = frame.unwrap().into_data() {
                self.received.extend_from_slice(&data);
            }
        }
    }

    fn rest(mut self) -> Reply {
        let http = self.response.status().as_u16();
        let head = self.response.headers().clone();
        let body = self.response.into_body().collect();
        let body = self
            .runtime
            .block_on(async { timeout(PATIENCE, body).await });
        let body = body.unwrap().unwrap();
        let end = body.trailers().cloned().unwrap_or(head);
        self.received.extend_from_slice(&body.to_bytes());
        let mut messages = Vec::new();
        while let Some(message) = taken(&mut self.received) {
            messages.push(message);
        }
        let field = |headers: &HeaderMap, name| {
            let value = headers.get(name)?.to_str().unwrap();
            Some(value.replace("%20", " "))
        };
        Reply {
            http,
            status: field(&end, "grpc-status").map(|status| status.parse().unwrap()),
            what: field(&end, "grpc-message").unwrap_or_default(),
            messages,
        }
    }
}

/// A message behind its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

fn taken(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut head = received.get(..5)?;
    assert_eq!(head.get_u8(), 0, "compressed");
    let length = head.get_u32() as usize;
    let message = received.get(5..5 + length)?.to_vec();
    received.drain(..5 + length);
    Some(message)
}
