//! The task behind each slot: wait for a request, exchange it, say that the slot is free.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::connection::{Answer, Connection, Message, Stamp, Trunk};
use crate::event::{Event, Journal, Outcome};
use crate::failure::Failure;
use crate::pool::{Job, Pool};

/// What all workers of a thread share.
pub(crate) struct Shared {
    /// Sent in turn.
    pub(crate) messages: Vec<Message>,
    pub(crate) timeout: Duration,
    pub(crate) keep_alive: bool,
    /// Whether a request may be sent once more if the server has not looked at it.
    pub(crate) may_resend: bool,
    pub(crate) pool: Rc<Pool>,
    pub(crate) journal: Rc<Journal>,
}

/// One worker: its slot, and how it gets a connection.
pub(crate) struct Worker {
    pub(crate) shared: Rc<Shared>,
    pub(crate) id: usize,
    pub(crate) stamp: Stamp,
    /// Where it gets connections.
    pub(crate) trunk: Rc<Trunk>,
}

impl Worker {
    /// Serves the slot for as long as the run lasts, from `connection` on if it is already open.
    pub(crate) async fn serve(self, mut connection: Option<Connection>) {
        let (shared, slot) = (&self.shared, self.shared.pool.slot(self.id));
        // A server that hangs up on connections that have not served anything is left alone until a
        // request needs one: otherwise this would be a loop of connecting and being refused.
        let mut has_served = false;
        loop {
            if connection.is_none() && has_served {
                has_served = false;
                connection = self.reopen().await;
            }
            shared.pool.free(self.id, connection.is_some());
            let job = match &mut connection {
                None => slot.next().await,
                Some(open) => tokio::select! {
                    biased;
                    job = slot.next() => job,
                    () = open.closed() => {
                        connection = None;
                        if shared.pool.withdraw(self.id) {
                            continue;
                        }
                        slot.next().await
                    }
                },
            };
            let outcome = self.answer(job, &mut connection).await;
            self.take_down(job, outcome);
            has_served = outcome.is_ok();
            shared.pool.finish(self.id);
            if let Some(open) = &mut connection
                && !(shared.keep_alive && open.is_open().await)
            {
                connection = None;
            }
        }
    }

    /// Notes that a request is over.
    fn take_down(&self, job: Job, outcome: Result<Answer, Failure>) {
        let journal = &self.shared.journal;
        journal.note(Event::Over {
            scheduled_ns: journal.offset_ns(job.scheduled),
            sent_ns: self.stamp.sent().map(|sent| journal.offset_ns(sent)),
            done_ns: journal.offset_ns(Instant::now()),
            outcome: match outcome {
                Ok(Answer { status, bytes }) => Outcome::Answered { status, bytes },
                Err(failure) => Outcome::Failed(failure),
            },
        });
    }

    /// Sends the request and waits for its answer; leaves the connection only if it can be used again.
    async fn answer(
        &self,
        job: Job,
        connection: &mut Option<Connection>,
    ) -> Result<Answer, Failure> {
        self.stamp.arm();
        let message = &self.shared.messages[job.message];
        let exchange = async {
            let mut may_resend = self.shared.may_resend;
            loop {
                let is_reused = connection.is_some();
                let open = match connection {
                    Some(open) => open,
                    None => connection.insert(self.trunk.connect().await?),
                };
                match open.round_trip(message, &self.stamp).await {
                    // The server had closed the connection while it was idle, before a byte of this was
                    // written.
                    Err(_) if is_reused && self.stamp.sent().is_none() => *connection = None,
                    // It came after the last that the server will look at (RFC 9113, section 6.8).
                    Err(Failure::GoAway) if may_resend => {
                        may_resend = false;
                        *connection = None;
                        // While it waits for a stream, there is nothing yet to be sent once more.
                        if self.stamp.sent().is_some() {
                            self.stamp.again();
                            self.shared.journal.note(Event::Resent);
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

    /// Opens the connection again, ahead of need; gives up at the first failure.
    async fn reopen(&self) -> Option<Connection> {
        self.trunk.connect().await.ok()
    }
}
