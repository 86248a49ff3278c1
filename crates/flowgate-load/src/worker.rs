//! The task behind each connection: wait for a request, exchange it, say that the connection is
//! free.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::measurement::Measurement;
use crate::pool::{Job, Pool, Slot};

/// What all workers of a run share. They all run on one thread.
pub(crate) struct Shared {
    pub(crate) address: SocketAddr,
    pub(crate) request: Request<Full<Bytes>>,
    pub(crate) timeout: Duration,
    pub(crate) pool: Pool,
    pub(crate) measurement: RefCell<Measurement>,
}

/// Serves one slot for as long as the run lasts, from `connection` on if it is already open.
pub(crate) async fn serve(shared: Rc<Shared>, id: usize, mut connection: Option<Connection>) {
    let slot = shared.pool.slot(id);
    // A server that hangs up on connections that have not served anything is left alone until a
    // request needs one: otherwise this would be a loop of connecting and being refused.
    let mut has_served = false;
    loop {
        if connection.is_none() && has_served {
            has_served = false;
            connection = reopen(&shared, slot).await;
        }
        shared.pool.free(id, connection.is_some());
        let job = match &mut connection {
            None => slot.next().await,
            Some(open) => tokio::select! {
                biased;
                job = slot.next() => job,
                () = open.closed() => {
                    connection = None;
                    if shared.pool.withdraw(id) {
                        continue;
                    }
                    slot.next().await
                }
            },
        };
        let outcome = answer(&shared, slot, &mut connection).await;
        take_down(&shared, slot, job, outcome);
        has_served = outcome.is_ok();
        shared.pool.finish(id);
        if let Some(open) = &mut connection
            && !open.is_open().await
        {
            connection = None;
        }
    }
}

/// Counts and times a request that is over.
fn take_down(shared: &Shared, slot: &Slot, job: Job, outcome: Result<StatusCode, Failure>) {
    let (now, sent) = (Instant::now(), slot.sent_at.get());
    let mut measurement = shared.measurement.borrow_mut();
    match outcome {
        Ok(status) => measurement.answered(job.due, sent.unwrap_or(now), now, status),
        Err(failure) => measurement.failed(job.due, sent, now, failure),
    }
}

/// Sends the request and waits for its answer; leaves the connection only if it can be used again.
async fn answer(
    shared: &Shared,
    slot: &Slot,
    connection: &mut Option<Connection>,
) -> Result<StatusCode, Failure> {
    let exchange = async {
        loop {
            let is_reused = connection.is_some();
            if connection.is_none() {
                *connection = Some(Connection::open(shared.address, slot.sent_at.clone()).await?);
            }
            let Some(open) = connection.as_mut() else {
                return Err(Failure::Connect);
            };
            match open.exchange(shared.request.clone()).await {
                // The server had closed the connection while it was idle, before a byte of this was
                // written.
                Err(_) if is_reused && slot.sent_at.get().is_none() => *connection = None,
                outcome => return outcome,
            }
        }
    };
    let outcome = tokio::time::timeout(shared.timeout, exchange)
        .await
        .unwrap_or(Err(Failure::Timeout));
    if outcome.is_err() {
        *connection = None;
    }
    outcome
}

/// Opens the connection again, ahead of need; gives up at the first failure.
async fn reopen(shared: &Shared, slot: &Slot) -> Option<Connection> {
    let open = Connection::open(shared.address, slot.sent_at.clone());
    tokio::time::timeout(shared.timeout, open).await.ok()?.ok()
}
