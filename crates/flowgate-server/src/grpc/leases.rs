//! `Leases/Lease`: requests of processes that lease the server's limits.

use crate::bounds::MAX_LEASE_CALLS;
use crate::http::Site;
use flowgate_fleet::{LeaseAnswers, LeaseRequests};
use futures_util::stream::{Stream, TryStreamExt, try_unfold};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

/// Answers the messages of one process, each when its requests have been carried out.
pub(super) fn answers(
    site: Arc<Site>,
    requests: Streaming<LeaseRequests>,
) -> impl Stream<Item = Result<LeaseAnswers, Status>> + Send {
    let leasing = site.counts.leasing();
    let refused = match (&leasing, site.limits().has_store()) {
        (None, _) => Some(Status::resource_exhausted("too many processes lease")),
        (_, false) => Some(Status::failed_precondition(
            "its limits are in tables that cannot be leased: start the server with --store local, or with a store",
        )),
        _ => None,
    };
    let idle_time = site.bounds.idle_time;
    let messages = try_unfold(
        (requests, refused),
        move |(mut requests, refused)| async move {
            match refused {
                Some(refused) => Err(refused),
                None => Ok(next(&mut requests, idle_time)
                    .await?
                    .map(|message| (message, (requests, None)))),
            }
        },
    );
    let carried_out = messages.map_ok(move |message| {
        // Until the last message, the process counts.
        let _ = &leasing;
        let answer = site.limits().lend(&message);
        async move {
            match answer {
                Some(answer) => Ok(answer.await),
                None => Err(Status::unavailable(
                    "its limits cannot be leased any longer",
                )),
            }
        }
    });
    carried_out.try_buffer_unordered(MAX_LEASE_CALLS)
}

/// Returns the next message. `None`: the process has ended the stream.
async fn next(
    requests: &mut Streaming<LeaseRequests>,
    idle_time: Duration,
) -> Result<Option<LeaseRequests>, Status> {
    let message = timeout(idle_time, requests.message()).await;
    let message = message.map_err(|_| Status::deadline_exceeded("no message"))?;
    message.map_err(|status| match status.code() {
        // tonic's status for a message that is too large.
        Code::OutOfRange => Status::resource_exhausted("the message is too large"),
        _ => status,
    })
}
