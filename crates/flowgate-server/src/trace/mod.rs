//! Spans of sampled requests, for a collector of OpenTelemetry.
//!
//! ```text
//!  doors ── a span, if there is room ──▶ thread ── a batch each second ──▶ the program's `deliver`
//! ```

mod context;
mod span;

pub(crate) use context::Parent;
pub(crate) use span::Operation;

use crate::counts::SpanCounts;
use crate::decision::{LimitDecision, Status, Undecided};
use hyper::header::HeaderMap;
use span::{Span, export, unix_ns};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tonic::Code;

/// Spans that wait. More are skipped.
const MOST_WAITING: usize = 2_048;
/// Spans of one delivery, at most.
const BATCH: usize = 512;
/// The time that a span waits for others.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time for what is left when the server ends.
const LAST_DELIVERY: Duration = Duration::from_secs(2);

/// Spans of requests for decisions, delivered to a collector of OpenTelemetry.
///
/// A request is sampled if its `traceparent` says so: a header of HTTP, or metadata of gRPC. Of the requests without one, a share is
/// sampled. Each sampled request is a span of kind `SERVER`, with the ids of its limits and the decision. No key is in it.
///
/// Requests never wait for the collector. Up to 2,048 spans wait; more are skipped. What became of spans is in the server's metrics.
///
/// ```
/// use flowgate_server::{Config, DecideLimits, DecideServer, DecideTraces, DecisionTime};
///
/// let config = Config::parse("api", "{domain: api, descriptors: [{key: user, quota: 2/min}]}")?;
/// let limits = DecideLimits::new(&config, &DecisionTime::system())?;
/// let traces = DecideTraces::new(|| {
///     |request| {
///         println!("POST /v1/traces\n\n{request}");
///         Ok(())
///     }
/// });
/// let server = DecideServer::new(limits).trace(traces.share(0.1));
/// # drop(server);
/// # Ok::<(), flowgate_server::Problem>(())
/// ```
pub struct DecideTraces {
    share: f64,
    begin: Box<Begin>,
}

type Begin = dyn FnOnce() -> Box<Deliver> + Send;
type Deliver = dyn FnMut(String) -> Result<(), String>;

impl DecideTraces {
    /// Creates traces with a share of 0.01.
    ///
    /// `begin` is called on a thread of its own. It returns what delivers the body of an OTLP request in JSON, on that thread. That
    /// may block, and what it returns is counted.
    pub fn new<D>(begin: impl FnOnce() -> D + Send + 'static) -> Self
    where
        D: FnMut(String) -> Result<(), String> + 'static,
    {
        Self {
            share: 0.01,
            begin: Box::new(|| Box::new(begin())),
        }
    }

    /// Sets the share of the requests without a `traceparent` that is sampled: 0 to 1.
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// Begins to deliver.
    pub(crate) fn begin(self, counts: &Arc<SpanCounts>) -> io::Result<Tracer> {
        let (sender, receiver) = sync_channel(MOST_WAITING);
        let (begin, of_thread) = (self.begin, Arc::clone(counts));
        let thread = thread::Builder::new().name("flowgate-traces".to_owned());
        thread.spawn(move || {
            let mut delivery = Delivery {
                deliver: begin(),
                counts: of_thread,
                // Two servers are two instances, on whatever machines.
                instance: format!("{}-{}", std::process::id(), unix_ns(SystemTime::now())),
            };
            delivery.run(&receiver);
        })?;
        Ok(Tracer {
            share: self.share,
            sender,
            counts: Arc::clone(counts),
        })
    }
}

impl fmt::Debug for DecideTraces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecideTraces")
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

enum Message {
    Span(Box<Span>),
    /// Everything before it is delivered, and then the receiver learns of it.
    End(oneshot::Sender<()>),
}

/// Where spans begin.
#[derive(Debug)]
pub(crate) struct Tracer {
    share: f64,
    sender: SyncSender<Message>,
    counts: Arc<SpanCounts>,
}

/// A request that is sampled, or not. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Traced(Option<Box<Recorded>>);

#[derive(Debug)]
struct Recorded {
    span: Span,
    begun: Instant,
    sender: SyncSender<Message>,
    counts: Arc<SpanCounts>,
}

impl Tracer {
    /// Begins a span, if the request is sampled.
    pub(crate) fn begin(&self, operation: Operation, parent: Option<Parent>) -> Traced {
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => fastrand::f64() < self.share,
        };
        if !is_sampled {
            return Traced::not_sampled();
        }
        let span = Span {
            trace: parent.map_or_else(|| fastrand::u128(1..), |parent| parent.trace),
            id: fastrand::u64(1..),
            parent: parent.map(|parent| parent.span),
            begun: SystemTime::now(),
            length: Duration::ZERO,
            operation,
            verdict: None,
            rules: Vec::new(),
            status: None,
        };
        Traced(Some(Box::new(Recorded {
            span,
            begun: Instant::now(),
            sender: self.sender.clone(),
            counts: Arc::clone(&self.counts),
        })))
    }

    /// Waits until what has ended is delivered, for a bounded time.
    pub(crate) async fn end(&self) {
        let end = async {
            let (tell, told) = oneshot::channel();
            let mut message = Message::End(tell);
            while let Err(TrySendError::Full(unsent)) = self.sender.try_send(message) {
                message = unsent;
                sleep(Duration::from_millis(10)).await;
            }
            let _ = told.await;
        };
        let _ = timeout(LAST_DELIVERY, end).await;
    }
}

/// Returns the parent that a request names.
pub(crate) fn parent(headers: &HeaderMap) -> Option<Parent> {
    Parent::parse(headers.get("traceparent")?.as_bytes())
}

impl Traced {
    /// Nothing is noted of the request.
    pub(crate) const fn not_sampled() -> Self {
        Self(None)
    }

    fn span(&mut self) -> Option<&mut Span> {
        Some(&mut self.0.as_mut()?.span)
    }

    /// Notes what was decided.
    pub(crate) fn decided(&mut self, decided: &Result<LimitDecision<'_>, Undecided>) {
        if let Some(span) = self.span() {
            match decided {
                Ok(decision) => span.decide(decision.is_over, &decision.statuses),
                Err(undecided) => span.leave(undecided),
            }
        }
    }

    /// Notes what one limit decided.
    pub(crate) fn asked(&mut self, asked: &Result<Status<'_>, Undecided>) {
        if let Some(span) = self.span() {
            match asked {
                Ok(status) => span.decide(status.is_over, &[*status]),
                Err(undecided) => span.leave(undecided),
            }
        }
    }

    /// Notes what CL.THROTTLE answered, which has no rule.
    pub(crate) fn throttled(&mut self, is_over: bool) {
        if let Some(span) = self.span() {
            span.decide(is_over, &[]);
        }
    }

    /// Notes the status of an answer of gRPC.
    pub(crate) fn status_of<T>(&mut self, answer: &Result<T, tonic::Status>) {
        let code = answer
            .as_ref()
            .err()
            .map_or(Code::Ok, |status| status.code());
        // Codes are few, and not negative.
        self.status(code as u16);
    }

    /// Notes the status of HTTP.
    pub(crate) fn status(&mut self, status: u16) {
        if let Some(span) = self.span() {
            span.status = Some(status);
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let Some(recorded) = self.0.take() else {
            return;
        };
        let Recorded {
            mut span,
            begun,
            sender,
            counts,
        } = *recorded;
        span.length = begun.elapsed();
        if sender.try_send(Message::Span(Box::new(span))).is_err() {
            counts.skipped(1);
        }
    }
}

/// The thread that delivers.
struct Delivery {
    deliver: Box<Deliver>,
    counts: Arc<SpanCounts>,
    instance: String,
}

impl Delivery {
    fn run(&mut self, messages: &Receiver<Message>) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Ok(first) = messages.recv() {
            let until = Instant::now() + INTERVAL;
            let mut message = Ok(first);
            let ended = loop {
                match message {
                    Ok(Message::Span(span)) => batch.push(*span),
                    Ok(Message::End(tell)) => break Some(tell),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break None,
                }
                if batch.len() >= BATCH {
                    break None;
                }
                let left = until.saturating_duration_since(Instant::now());
                message = messages.recv_timeout(left);
            };
            self.deliver(&mut batch);
            if let Some(tell) = ended {
                let _ = tell.send(());
            }
        }
    }

    fn deliver(&mut self, batch: &mut Vec<Span>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        let body = export(batch, &self.instance);
        batch.clear();
        match (self.deliver)(body) {
            Ok(()) => self.counts.sent(count),
            Err(_) => self.counts.failed(count),
        }
    }
}
