//! One connection of an investigation: opened when needed, one request at a time, at given times.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use flowgate_tower::client::Told as Fields;
use flowgate_verify::{Advertised, Observation, Probe, ProbeOutcome};
use hyper::StatusCode;
use hyper::header::LOCATION;
use tokio::time::timeout;

use super::{Inconclusive, StatusRanges};
use crate::connection::{Answer, Connection, Connector, Head, Message, Peer, Stamp};
use crate::failure::Failure;
use crate::pacer::Pacer;

/// State shared by all probers.
pub(super) struct Way {
    pub(super) connector: Connector,
    /// The first address that accepted a connection comes first.
    pub(super) addresses: Vec<Peer>,
    /// By key.
    pub(super) messages: Vec<Message>,
    pub(super) admitted: StatusRanges,
    pub(super) refused: StatusRanges,
    pub(super) timeout: Duration,
    /// Start of the timeline.
    pub(super) began: Instant,
}

pub(super) struct Prober {
    number: u32,
    pacer: Pacer,
    connection: Option<Connection>,
}

/// An observation, with more details of the response.
pub(super) struct Asked {
    pub(super) observation: Observation,
    pub(super) answer: Result<Status, Asking>,
}

/// Status of a response.
pub(super) struct Status {
    pub(super) code: StatusCode,
    pub(super) location: Option<String>,
}

/// The step that failed.
#[derive(Clone, Debug)]
pub(super) enum Asking {
    Connecting(Peer, Failure),
    Exchanging(Failure),
}

impl Asked {
    /// Returns the inconclusive result.
    pub(super) fn inconclusive(&self) -> Inconclusive {
        match &self.answer {
            Ok(status) => Inconclusive::Answer(status.code),
            Err(Asking::Connecting(_, failure) | Asking::Exchanging(failure)) => {
                Inconclusive::Failure(*failure)
            }
        }
    }

    /// Returns whether the request timed out.
    pub(super) fn has_timed_out(&self) -> bool {
        matches!(
            self.answer,
            Err(Asking::Connecting(_, Failure::Timeout) | Asking::Exchanging(Failure::Timeout))
        )
    }
}

impl Way {
    fn since_ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn outcome(&self, status: StatusCode) -> ProbeOutcome {
        match status {
            status if self.admitted.contains(status) => ProbeOutcome::Admitted,
            status if self.refused.contains(status) => ProbeOutcome::Refused,
            _ => ProbeOutcome::Failed,
        }
    }
}

impl Prober {
    /// Creates a prober without a connection. Requires a runtime.
    pub(super) fn new(number: u32) -> io::Result<Prober> {
        Ok(Prober {
            number,
            pacer: Pacer::new()?,
            connection: None,
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Opens the connection, unless it is open as far as is known.
    pub(super) async fn open(&mut self, way: &Way) -> Result<(), Asking> {
        if let Some(connection) = &mut self.connection
            && connection.is_open().await
        {
            return Ok(());
        }
        self.connection = None;
        let mut failure = None;
        for address in &way.addresses {
            match way.connector.open(address.clone()).await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    return Ok(());
                }
                Err(why) => failure = Some(Asking::Connecting(address.clone(), why)),
            }
        }
        // A host always has an address here.
        Err(failure.unwrap_or(Asking::Exchanging(Failure::Unreachable)))
    }

    /// Sends the probe at its time, or as soon as possible afterwards; not at all from `end_ns` on.
    pub(super) async fn ask(&mut self, way: &Way, probe: Probe, end_ns: u64) -> Option<Asked> {
        // Open it before the scheduled time, and again then, because the server may have closed it while it was idle.
        let _ = self.open(way).await;
        if let Some(scheduled) = way.began.checked_add(Duration::from_nanos(probe.at_ns)) {
            self.pacer.sleep_until(scheduled).await;
        }
        let tried = Instant::now();
        if way.since_ns(tried) >= end_ns {
            return None;
        }
        let stamp = Stamp::default();
        stamp.arm();
        let exchanged = match self.open(way).await {
            Ok(()) => self.exchange(way, probe.key, &stamp).await,
            Err(failure) => Err(failure),
        };
        let (answered, outcome, advertised, answer) = match exchanged {
            Ok((answer, head)) => {
                let location = head.headers.get(LOCATION);
                let location = location.and_then(|value| value.to_str().ok());
                let status = Status {
                    code: answer.status,
                    location: location.map(str::to_owned),
                };
                let advertised = advertised(Fields::of(&head.headers, SystemTime::now()));
                (head.at, way.outcome(answer.status), advertised, Ok(status))
            }
            Err(failure) => (
                Instant::now(),
                ProbeOutcome::Failed,
                Advertised::default(),
                Err(failure),
            ),
        };
        let observation = Observation {
            sent_ns: way.since_ns(stamp.sent().unwrap_or(tried)),
            answered_ns: way.since_ns(answered),
            connection: self.number,
            key: probe.key,
            outcome,
            advertised,
        };
        Some(Asked {
            observation,
            answer,
        })
    }

    async fn exchange(
        &mut self,
        way: &Way,
        key: u32,
        stamp: &Stamp,
    ) -> Result<(Answer, Head), Asking> {
        let key = usize::try_from(key).unwrap_or(usize::MAX);
        // There is at least one.
        let message = &way.messages[key % way.messages.len()];
        let Some(connection) = &mut self.connection else {
            return Err(Asking::Exchanging(Failure::Closed));
        };
        timeout(way.timeout, connection.ask(message, stamp))
            .await
            .unwrap_or(Err(Failure::Timeout))
            .map_err(Asking::Exchanging)
    }
}

fn advertised(fields: Fields) -> Advertised {
    Advertised {
        retry_after: fields.retry_after,
        remaining: fields.remaining,
        more_after: fields.more_after,
        limit: fields.limit,
        window: fields.window,
    }
}
