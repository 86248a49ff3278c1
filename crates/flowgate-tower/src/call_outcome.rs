//! How an adaptive limit counts a response: [`CallOutcome`], by its status or its gRPC code.

use crate::ResponseHead;
use crate::grpc::GRPC_STATUS;
use flowgate::CallOutcome;
use http::StatusCode;

/// The outcome of a call, by the head of its response; `None` is an error of the service or of the client.
pub(crate) type OutcomeOf = dyn Fn(Option<ResponseHead<'_>>) -> CallOutcome + Send + Sync;

/// The default rule of [`LimitLayer`](crate::LimitLayer).
pub(crate) fn of_server(answer: Option<ResponseHead<'_>>) -> CallOutcome {
    // A 429 is most often that of a limit of one client behind this one. It came without work.
    outcome(answer, CallOutcome::Ignore)
}

/// The default rule of [`ClientLayer`](crate::client::ClientLayer).
pub(crate) fn of_client(answer: Option<ResponseHead<'_>>) -> CallOutcome {
    // Both are how a shared service, or the way to it, reports that there are too many requests.
    outcome(answer, CallOutcome::Overload)
}

/// `refusal` is the outcome of a 429, and of an error.
fn outcome(answer: Option<ResponseHead<'_>>, refusal: CallOutcome) -> CallOutcome {
    let Some(head) = answer else {
        return refusal;
    };
    if let Some(code) = head.headers.get(GRPC_STATUS) {
        return of_grpc(code.as_bytes());
    }
    match head.status {
        StatusCode::TOO_MANY_REQUESTS => refusal,
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => CallOutcome::Overload,
        status if status.is_informational() || status.is_server_error() => CallOutcome::Ignore,
        _ => CallOutcome::Success,
    }
}

/// The outcome of a gRPC call, by its `grpc-status`.
fn of_grpc(code: &[u8]) -> CallOutcome {
    match code {
        // DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE.
        b"4" | b"8" | b"14" => CallOutcome::Overload,
        // OK, and the codes of a request that cannot succeed, such as NOT_FOUND.
        b"0" | b"3" | b"5" | b"6" | b"7" | b"9" | b"10" | b"11" | b"16" => CallOutcome::Success,
        _ => CallOutcome::Ignore,
    }
}
