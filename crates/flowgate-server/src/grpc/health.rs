//! `grpc.health.v1.Health`.

use super::{rlqs, rls};
use futures_util::stream::{Stream, StreamExt, iter, once};
use prost::Message;
use tokio::sync::watch;
use tonic::Status;

pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
pub(super) const WATCH: &str = "/grpc.health.v1.Health/Watch";

#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;
/// An answer to `Watch` alone: the service may come later.
const SERVICE_UNKNOWN: i32 = 3;

/// The services with a health. The empty name is the server.
const SERVICES: [&str; 3] = ["", rls::SERVICE, rlqs::SERVICE];

fn is_known(request: &HealthCheckRequest) -> bool {
    SERVICES.contains(&&*request.service)
}

/// Answers `Check`. The server ends when the sender of `ending` is dropped.
pub(super) fn check(
    request: &HealthCheckRequest,
    ending: &watch::Receiver<()>,
) -> Result<HealthCheckResponse, Status> {
    match is_known(request) {
        false => Err(Status::not_found("no such service")),
        true if ending.has_changed().is_err() => Ok(HealthCheckResponse {
            status: NOT_SERVING,
        }),
        true => Ok(HealthCheckResponse { status: SERVING }),
    }
}

/// Answers `Watch`: the status now, and that of the end, which also ends the stream.
pub(super) fn watch(
    request: &HealthCheckRequest,
    ending: watch::Receiver<()>,
) -> impl Stream<Item = Result<HealthCheckResponse, Status>> + Send + use<> {
    let (now, at_end) = match is_known(request) {
        true => (SERVING, Some(NOT_SERVING)),
        false => (SERVICE_UNKNOWN, None),
    };
    let end = once(ended(ending)).flat_map(move |()| iter(at_end));
    let statuses = iter([now]).chain(end);
    statuses.map(|status| Ok(HealthCheckResponse { status }))
}

/// Completes when the server ends.
pub(super) async fn ended(mut ending: watch::Receiver<()>) {
    // An error: the sender is gone.
    while ending.changed().await.is_ok() {}
}
