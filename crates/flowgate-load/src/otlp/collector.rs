//! An OpenTelemetry collector, over HTTP.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::timeout;

use crate::connection::{ConnectOptions, Connection, Connector, Peer, Stamp};
use crate::engine::{RunError, resolve};
use crate::plan::Template;
use crate::stop::Stop;
use crate::target::Target;

/// The kind of data in a request of OTLP, and its usual path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtlpSignal {
    /// `/v1/metrics`
    Metrics,
    /// `/v1/traces`
    Traces,
}

impl OtlpSignal {
    const fn path(self) -> &'static str {
        match self {
            OtlpSignal::Metrics => "v1/metrics",
            OtlpSignal::Traces => "v1/traces",
        }
    }
}

/// An OpenTelemetry collector that takes OTLP over HTTP, as JSON.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::{Origin, OtlpCollector, OtlpSignal, Target};
///
/// // A server that answers all requests; usually a collector.
/// let origin = Origin::start()?;
/// let target = Target::parse(&origin.url())?;
/// let collector = OtlpCollector::new(target, OtlpSignal::Traces, Vec::new(), Duration::from_secs(5))?;
/// collector.sender().send(r#"{"resourceSpans": []}"#.into())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OtlpCollector {
    target: Target,
    connector: Connector,
    options: ConnectOptions,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Sends requests to an [`OtlpCollector`], one after the other on one connection.
///
/// Its thread waits for each answer, so it needs a thread of its own.
pub struct OtlpSender {
    collector: OtlpCollector,
    addresses: Vec<Peer>,
    runtime: io::Result<LocalRuntime>,
    connection: Option<Connection>,
}

/// Error of starting a push. `Display` writes one line.
#[derive(Debug)]
pub struct PushError(pub(super) String);

impl OtlpCollector {
    /// Prepares to send. A URL without a path gets that of `signal`. Each request has to be complete within `limit`.
    ///
    /// # Errors
    ///
    /// Returns an error if TLS cannot be set up. A collector that cannot be reached is no error.
    pub fn new(
        target: Target,
        signal: OtlpSignal,
        headers: Vec<(HeaderName, HeaderValue)>,
        limit: Duration,
    ) -> Result<OtlpCollector, PushError> {
        let target = match target.path().as_str() {
            "/" => Target::parse(&format!("{target}{}", signal.path()))
                .map_err(|error| PushError(error.to_string()))?,
            _ => target,
        };
        let options = ConnectOptions {
            timeout: limit,
            ..ConnectOptions::default()
        };
        let connector = Connector::new(&target, &options);
        Ok(OtlpCollector {
            connector: connector.map_err(|error| PushError(error.to_string()))?,
            target,
            options,
            headers,
        })
    }

    /// Returns what sends, on this thread. It connects when it sends first, and again after a failure.
    pub fn sender(self) -> OtlpSender {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(LocalOptions::default());
        OtlpSender {
            collector: self,
            addresses: Vec::new(),
            runtime,
            connection: None,
        }
    }
}

impl OtlpSender {
    /// Sends a body. Blocks until it is answered, for at most the limit of a request.
    ///
    /// # Errors
    ///
    /// Returns in one line why the collector did not take it.
    pub fn send(&mut self, body: Bytes) -> Result<(), String> {
        let OtlpCollector {
            target,
            connector,
            options,
            headers: more,
        } = &self.collector;
        let runtime = self.runtime.as_ref().map_err(ToString::to_string)?;
        if self.addresses.is_empty() {
            let found = resolve(target, options, &Stop::new());
            self.addresses = found.map_err(|error: RunError| error.to_string())?;
        }
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        headers.extend(more.iter().cloned());
        let template = Template {
            method: Method::POST,
            headers,
            body,
        };
        let message = template.message(target, true, None);
        let (connection, addresses) = (&mut self.connection, &self.addresses);
        let exchange = async {
            if let Some(open) = connection.as_mut()
                && !open.is_open().await
            {
                *connection = None;
            }
            let mut open = match connection.take() {
                Some(open) => open,
                None => connect(connector, addresses).await?,
            };
            let answer = open.round_trip(&message, &Stamp::default()).await;
            let answer = answer.map_err(|failure| failure.to_string())?;
            *connection = Some(open);
            match answer.status.is_success() {
                true => Ok(()),
                false => Err(format!("answered {}", answer.status.as_u16())),
            }
        };
        let limit = options.timeout;
        let exchanged = runtime.block_on(async { timeout(limit, exchange).await });
        exchanged.unwrap_or_else(|_| Err("timed out".to_owned()))
    }
}

async fn connect(connector: &Connector, addresses: &[Peer]) -> Result<Connection, String> {
    let mut failure = String::new();
    for address in addresses {
        match connector.open(address.clone()).await {
            Ok(open) => return Ok(open),
            Err(why) => failure = why.to_string(),
        }
    }
    Err(failure)
}

/// It shows no header, which may have a secret.
impl fmt::Debug for OtlpCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpCollector")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OtlpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSender")
            .field("collector", &self.collector)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PushError {}
