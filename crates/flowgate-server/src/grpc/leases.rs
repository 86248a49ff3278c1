//! `Leases/Lease`: requests of processes that lease the server's limits.

use super::next;
use crate::bounds::MAX_LEASE_CALLS;
use crate::counts::Leasing;
use crate::http::Site;
use flowgate_fleet::{LeaseAnswers, LeaseRequests};
use futures_util::stream::{Stream, TryStreamExt, try_unfold};
use std::sync::Arc;
use tonic::{Status, Streaming};

/// Lets a process in: it counts until the returned value is dropped.
pub(super) fn enter(site: &Site) -> Result<Leasing, Status> {
    let leasing = site.counts.leasing();
    let leasing = leasing.ok_or_else(|| Status::resource_exhausted("too many processes lease"))?;
    match site.limits().has_store() {
        true => Ok(leasing),
        false => Err(Status::failed_precondition(
            "its limits are in tables that cannot be leased: start the server with --store local, or with a store",
        )),
    }
}

/// Answers the messages of one process, each when its requests have been carried out.
pub(super) fn answers(
    site: Arc<Site>,
    leasing: Arc<Leasing>,
    requests: Streaming<LeaseRequests>,
) -> impl Stream<Item = Result<LeaseAnswers, Status>> + Send {
    let idle_time = site.bounds.idle_time;
    let messages = try_unfold(requests, move |mut requests| async move {
        let message = next(&mut requests, idle_time, "no message").await?;
        Ok(message.map(|message| (message, requests)))
    });
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
