//! The task of each place: waits for a request, exchanges it, and marks the place as free.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connection::{Answer, Connection, Stamp, Trunk};
use crate::decoder::Bodies;
use crate::event::{Event, Journal, Outcome};
use crate::failure::Failure;
use crate::pool::{Job, Pool};
use crate::prepared::Prepared;
use crate::session::Session;

/// State shared by all workers of a thread.
pub(crate) struct Shared {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) timeout: Duration,
    pub(crate) keep_alive: bool,
    /// Whether a request may be resent if the server has not processed it.
    pub(crate) may_resend: bool,
    pub(crate) pool: Rc<Pool>,
    pub(crate) journal: Rc<Journal>,
    /// Where compressed bodies are decoded, if they are.
    pub(crate) bodies: Option<Bodies>,
}

/// One worker: its place, and its source of connections.
pub(crate) struct Worker {
    pub(crate) shared: Rc<Shared>,
    /// Redirects and cookies, if they are asked for.
    pub(crate) session: Option<Session>,
    pub(crate) id: usize,
    pub(crate) stamp: Stamp,
    /// The source of its connections.
    pub(crate) trunk: Rc<Trunk>,
}

impl Worker {
    /// Serves the place until the run ends, starting with `connection` if it is already open.
    pub(crate) async fn serve(self, mut connection: Option<Connection>) {
        let (shared, place) = (&self.shared, self.shared.pool.place(self.id));
        // If a server closes unused connections, reconnect only when a request needs one. Otherwise this would be a
        // loop of connecting and being refused.
        let mut has_served = false;
        loop {
            if connection.is_none() && has_served {
                has_served = false;
                connection = self.reopen().await;
            }
            shared.pool.free(self.id, connection.is_some());
            let job = match &mut connection {
                None => place.next().await,
                Some(open) => tokio::select! {
                    biased;
                    job = place.next() => job,
                    () = open.closed() => {
                        connection = None;
                        if shared.pool.withdraw(self.id) {
                            continue;
                        }
                        place.next().await
                    }
                },
            };
            let outcome = self.answer(job, &mut connection).await;
            self.take_down(job, outcome);
            if let (Some(bodies), Some(open)) = (&shared.bodies, &mut connection)
                && let Some(body) = open.take_body()
                && shared.journal.counts(job.scheduled)
            {
                bodies.offer(body);
            }
            has_served = outcome.is_ok();
            shared.pool.finish(self.id);
            if let Some(open) = &mut connection
                && !(shared.keep_alive && open.is_open().await)
            {
                connection = None;
            }
        }
    }

    /// Records that a request is complete.
    fn take_down(&self, job: Job, outcome: Result<Answer, Failure>) {
        let journal = &self.shared.journal;
        if !journal.counts(job.scheduled) {
            return;
        }
        journal.note(Event::Over {
            scheduled_ns: journal.offset_ns(job.scheduled),
            sent_ns: self.stamp.sent().map(|sent| journal.offset_ns(sent)),
            done_ns: journal.offset_ns(Instant::now()),
            outcome: match outcome {
                Ok(answer) => Outcome::Answered(answer),
                Err(failure) => Outcome::Failed(failure),
            },
        });
    }

    /// Sends the request and waits for its response. Keeps the connection only if it can be reused.
    async fn answer(
        &self,
        job: Job,
        connection: &mut Option<Connection>,
    ) -> Result<Answer, Failure> {
        self.stamp.arm();
        let message = self.shared.prepared.message(job);
        let exchange = async {
            let mut may_resend = self.shared.may_resend;
            loop {
                let is_reused = connection.is_some();
                let open = match connection {
                    Some(open) => open,
                    None => connection.insert(self.trunk.connect().await?),
                };
                let answer = match &self.session {
                    None => open.round_trip(message, &self.stamp).await,
                    Some(session) => {
                        let server = &self.shared.prepared.servers[job.server].target;
                        let visit = session.visit(open, &self.trunk, message, &self.stamp, server);
                        visit.await
                    }
                };
                match answer {
                    // The server closed the idle connection before a byte of this request was written.
                    Err(_) if is_reused && self.stamp.sent().is_none() => *connection = None,
                    // The request came after the last one that the server will process (RFC 9113, section 6.8).
                    Err(Failure::GoAway) if may_resend => {
                        may_resend = false;
                        *connection = None;
                        // While the request waits for a stream, there is nothing to resend.
                        if self.stamp.sent().is_some() {
                            self.stamp.again();
                            if self.shared.journal.counts(job.scheduled) {
                                self.shared.journal.note(Event::Resent);
                            }
                        }
                    }
                    outcome => return outcome,
                }
            }
        };
        let outcome = tokio::time::timeout(self.shared.timeout, exchange)
            .await
            .unwrap_or(Err(Failure::Timeout));
        if outcome.is_err() {
            *connection = None;
        }
        outcome
    }

    /// Opens the connection again in advance; gives up at the first failure.
    async fn reopen(&self) -> Option<Connection> {
        self.trunk.connect().await.ok()
    }
}
