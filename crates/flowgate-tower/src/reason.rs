//! What a rejection of the layer and a refusal of a handler have in common.

use crate::by::NoKey;
use crate::grpc::{
    GRPC_MESSAGE, GRPC_PUSHBACK, GRPC_STATUS, GrpcCode, percent_encoded, whole_millis,
};
use crate::headers::{escaped, retry_after_seconds};
use crate::limits::Cause;
use bytes::Bytes;
use flowgate::Denied;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use std::fmt::{self, Write as _};
use std::time::Duration;

/// The reason why a request is refused, and the limit that refused it.
#[derive(Clone, Copy)]
pub(crate) struct Reason<'a> {
    pub(crate) cause: &'a Cause,
    /// The name of the limit.
    pub(crate) name: &'a str,
    /// Whether the limit belongs to this client, and is not shared with others.
    pub(crate) is_the_clients: bool,
}

impl<'a> Reason<'a> {
    pub(crate) fn denied(&self) -> Option<&'a Denied> {
        match self.cause {
            Cause::Denied(denied) => Some(denied),
            Cause::NoKey(_) | Cause::Quota(_) => None,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.denied()?.retry_after()
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(retry_after_seconds)
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.cause {
            Cause::Denied(denied) => {
                let is_servers = denied.is_busy() || denied.is_queue_full() || denied.is_shed();
                if denied.is_table_full()
                    || denied.is_closed()
                    || denied.is_outage()
                    || denied.is_throttled()
                    || denied.is_low_priority()
                    || is_servers && !self.is_the_clients
                {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::TOO_MANY_REQUESTS
                }
            }
            Cause::NoKey(NoKey::Missing | NoKey::Malformed) => StatusCode::BAD_REQUEST,
            Cause::NoKey(_) | Cause::Quota(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn grpc_code(&self) -> GrpcCode {
        match self.status() {
            StatusCode::TOO_MANY_REQUESTS => GrpcCode::ResourceExhausted,
            StatusCode::SERVICE_UNAVAILABLE => GrpcCode::Unavailable,
            StatusCode::BAD_REQUEST => GrpcCode::InvalidArgument,
            _ => GrpcCode::Internal,
        }
    }

    /// A line of text.
    pub(crate) fn text_response(&self) -> Response<Bytes> {
        // Most lines fit, so that the text does not grow step by step.
        let mut text = String::with_capacity(96);
        writeln!(text, "{self}").expect("a string takes any text");
        let plain = const { HeaderValue::from_static("text/plain; charset=utf-8") };
        self.with_body(plain, text.into())
    }

    pub(crate) fn problem_details(&self) -> Response<Bytes> {
        let status = self.status();
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => {
                "https://iana.org/assignments/http-problem-types#quota-exceeded"
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
            _ => "about:blank",
        };
        let mut text = format!("{{\"type\":\"{kind}\",\"title\":\"");
        text.push_str(&escaped(&self.to_string()));
        text.push_str(&format!("\",\"status\":{}", status.as_u16()));
        if self.denied().is_some() {
            text.push_str(",\"violated-policies\":[\"");
            text.push_str(&escaped(self.name));
            text.push_str("\"]");
        }
        text.push('}');
        let json = const { HeaderValue::from_static("application/problem+json") };
        self.with_body(json, text.into())
    }

    fn with_body(&self, content_type: HeaderValue, body: Bytes) -> Response<Bytes> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    /// A response of trailers only, which are then headers (gRPC over HTTP/2, "Responses").
    pub(crate) fn grpc_response(
        &self,
        code: GrpcCode,
        content_type: HeaderValue,
    ) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(GRPC_STATUS, u16::from(code.number()).into());
        if let Some(message) = self.grpc_message() {
            headers.insert(GRPC_MESSAGE, message);
        }
        if let Some(pushback) = self.pushback() {
            headers.insert(GRPC_PUSHBACK, pushback);
        }
        response
    }

    fn grpc_message(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(percent_encoded(&self.to_string())).ok()
    }

    /// `grpc-retry-pushback-ms`, if there is anything to say.
    pub(crate) fn pushback(&self) -> Option<HeaderValue> {
        let denied = self.denied()?;
        if denied.is_never() || denied.is_closed() {
            // Negative: not to be retried.
            return Some(HeaderValue::from_static("-1"));
        }
        denied.retry_after().map(|after| whole_millis(after).into())
    }

    /// Makes `response` one of gRPC, unless it has a `grpc-status`. Its header fields stay; its status and its body, for
    /// which gRPC has no place, go.
    pub(crate) fn completed(
        &self,
        code: GrpcCode,
        content_type: HeaderValue,
        response: Response<Bytes>,
    ) -> Response<Bytes> {
        if response.headers().contains_key(GRPC_STATUS) {
            return response;
        }
        let grpc = self.grpc_response(code, content_type);
        let (mut parts, _) = response.into_parts();
        parts.status = StatusCode::OK;
        for of_body in [
            http::header::CONTENT_LENGTH,
            http::header::CONTENT_ENCODING,
            http::header::TRANSFER_ENCODING,
            CONTENT_TYPE,
        ] {
            parts.headers.remove(of_body);
        }
        for (name, value) in grpc.headers() {
            if !parts.headers.contains_key(name) {
                parts.headers.insert(name, value.clone());
            }
        }
        Response::from_parts(parts, Bytes::new())
    }

    /// `Retry-After`, unless whoever made the response has put one there.
    pub(crate) fn put_retry_after(&self, headers: &mut HeaderMap) {
        if let Some(seconds) = self.retry_after_seconds() {
            headers.entry(RETRY_AFTER).or_insert_with(|| seconds.into());
        }
    }
}

/// The line of text that the client receives.
impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.cause {
            Cause::NoKey(no_key) => no_key.fmt(f),
            Cause::Quota(error) => {
                write!(
                    f,
                    "the limit `{name}` cannot keep the quota that `quota_of` gave this key: {error}"
                )
            }
            Cause::Denied(denied) if denied.is_never() => {
                write!(f, "it takes more than the limit `{name}` ever allows")
            }
            Cause::Denied(denied) => {
                if denied.is_outage() {
                    write!(f, "the limit `{name}` could not be checked")?;
                } else if denied.is_closed() {
                    write!(f, "the limit `{name}` is closed")?;
                } else if denied.is_throttled() {
                    write!(f, "the backend of `{name}` refuses too many requests")?;
                } else if denied.is_low_priority() {
                    write!(f, "more important requests go first at `{name}`")?;
                } else if denied.is_busy() {
                    write!(f, "all permits of the limit `{name}` are in use")?;
                } else if denied.is_queue_full() {
                    write!(f, "too many wait for the limit `{name}`")?;
                } else if denied.is_shed() {
                    write!(f, "the request waited too long for the limit `{name}`")?;
                } else if denied.is_table_full() {
                    write!(f, "the limit `{name}` has no room for anybody new")?;
                } else {
                    write!(f, "over the limit `{name}`")?;
                }
                match self.retry_after_seconds() {
                    Some(seconds) => write!(f, "; retry after {seconds} s"),
                    None => Ok(()),
                }
            }
        }
    }
}
