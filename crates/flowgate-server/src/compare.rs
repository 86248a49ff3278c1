//! Another server that is asked the same questions, to see where the two differ.

use crate::bounds::MAX_MESSAGE;
use crate::decision::{Descriptor, LimitDecision, Status};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout, timeout_at};

/// Questions that wait for the other server. More are skipped.
const MOST_WAITING: usize = 1_024;
/// The most time for an answer of the other server.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// A server that speaks envoyproxy/ratelimit's `POST /json`, and is asked each question of Envoy, too.
///
/// Clients do not wait for it. Its answers change nothing.
///
/// ```
/// use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime, OtherServer};
///
/// let config = Config::parse("api", "{domain: api, descriptors: [{key: user, quota: 2/min}]}")?;
/// let other = OtherServer::new("http://127.0.0.1:8080", |comparison| println!("{comparison}"))?;
/// let limits = DecideLimits::new(&config, &DecisionTime::system())?;
/// let server = DecideServer::new(limits).compare_with(other);
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OtherServer {
    /// `host:port`
    authority: String,
    report: Box<dyn Fn(&Comparison) + Send + Sync>,
}

/// What was compared until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Requests that both servers answered.
    pub compared: u64,
    /// Those of them that they answered differently.
    pub different: u64,
    /// Requests that the other server did not answer.
    pub unanswered: u64,
    /// Requests that the other server was not asked, because it was slower.
    pub skipped: u64,
    /// One difference, or the cause of a missing answer, since the report before. It has no value of a request.
    pub example: Option<String>,
}

impl OtherServer {
    /// Creates a server from its address, such as `http://old:8080`. `report` is called at most once per second, when there is something
    /// new.
    ///
    /// # Errors
    ///
    /// Returns what to write instead, if `url` is not such an address.
    pub fn new(
        url: &str,
        report: impl Fn(&Comparison) + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let what = || format!("`{url}` is not the address of a server: write http://HOST:PORT");
        let uri: Uri = url.parse().map_err(|_| what())?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("http"));
        let host = host.filter(|_| matches!(uri.path(), "" | "/" | "/json"));
        Ok(Self {
            authority: format!(
                "{}:{}",
                host.ok_or_else(what)?,
                uri.port_u16().unwrap_or(80)
            ),
            report: Box::new(report),
        })
    }

    /// Begins to ask. The task ends when the last [`Comparer`] is dropped.
    pub(crate) fn begin(self) -> Comparer {
        let (sender, questions) = channel(MOST_WAITING);
        let skipped = Arc::new(AtomicU64::new(0));
        let asker = Asker {
            other: self,
            skipped: Arc::clone(&skipped),
            comparison: Comparison::default(),
            connection: None,
        };
        tokio::spawn(asker.ask_all(questions));
        Comparer { sender, skipped }
    }
}

impl Comparison {
    /// The first comparison is news, and then everything but what is alike.
    fn is_news_after(&self, before: &Self) -> bool {
        let all_but_compared = |of: &Self| (of.different, of.unanswered, of.skipped);
        all_but_compared(self) != all_but_compared(before)
            || (self.compared > 0 && before.compared == 0)
    }
}

impl fmt::Debug for OtherServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherServer")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            compared,
            different,
            unanswered,
            skipped,
            example,
        } = self;
        write!(
            f,
            "{compared} compared, {different} different, {unanswered} without an answer, {skipped} skipped"
        )?;
        match example {
            Some(example) => write!(f, "; {example}"),
            None => Ok(()),
        }
    }
}

/// Where questions are put, with the answers that they got here.
#[derive(Debug)]
pub(crate) struct Comparer {
    sender: Sender<Answered>,
    skipped: Arc<AtomicU64>,
}

/// A question, and the answer to it.
#[derive(Debug)]
struct Answered {
    body: Bytes,
    is_over: bool,
    /// For each descriptor, the rule, and whether it refused.
    rules: Vec<(String, bool)>,
}

impl Answered {
    /// Returns the first difference from the answer of the other server.
    fn difference(&self, theirs: &TheirAnswer) -> Option<String> {
        let here = self
            .rules
            .iter()
            .map(|(rule, is_over)| (rule.as_str(), *is_over));
        let there = theirs.statuses.iter().map(|status| is_over(&status.code));
        let all = (("the request", self.is_over), is_over(&theirs.overall_code));
        let mut pairs = here.zip(there).chain([all]);
        let ((rule, here), there) = pairs.find(|((_, here), there)| here != there)?;
        let name = |is_over| if is_over { "OVER_LIMIT" } else { "OK" };
        Some(format!(
            "{rule}: here {}, there {}",
            name(here),
            name(there)
        ))
    }
}

impl Comparer {
    /// Lets the other server answer the same. This does not wait.
    pub(crate) fn ask(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        hits: u64,
        decision: &LimitDecision<'_>,
    ) {
        let Ok(place) = self.sender.try_reserve() else {
            self.skipped.fetch_add(1, Relaxed);
            return;
        };
        let Some(body) = question(domain, descriptors, hits) else {
            self.skipped.fetch_add(1, Relaxed);
            return;
        };
        let rule = |(descriptor, status): (&Descriptor<'_>, &Status<'_>)| {
            let keys = descriptor.entries.iter().map(|entry| entry.key);
            let name = match status.rule {
                Some(rule) => rule.id().to_owned(),
                None => format!("{domain}.{}, no rule", keys.collect::<Vec<_>>().join(".")),
            };
            (name, status.is_over)
        };
        place.send(Answered {
            body: body.to_string().into(),
            is_over: decision.is_over,
            rules: descriptors
                .iter()
                .zip(&decision.statuses)
                .map(rule)
                .collect(),
        });
    }
}

/// Returns a `RateLimitRequest` as JSON. `None`: a value is not text.
fn question(domain: &str, descriptors: &[Descriptor<'_>], hits: u64) -> Option<Value> {
    let mut list = Vec::new();
    for descriptor in descriptors {
        let mut entries = Vec::new();
        for entry in descriptor.entries {
            let value = str::from_utf8(entry.value).ok()?;
            entries.push(json!({ "key": entry.key, "value": value }));
        }
        let mut fields = Map::new();
        fields.insert("entries".to_owned(), entries.into());
        if let Some(hits) = descriptor.hits {
            fields.insert("hitsAddend".to_owned(), hits.into());
        }
        if descriptor.is_refund {
            fields.insert("isNegativeHits".to_owned(), true.into());
        }
        list.push(Value::Object(fields));
    }
    Some(json!({ "domain": domain, "descriptors": list, "hitsAddend": hits }))
}

/// The answer of the other server, as far as it is compared.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TheirAnswer {
    overall_code: Option<String>,
    #[serde(default)]
    statuses: Vec<TheirStatus>,
}

#[derive(Debug, Deserialize)]
struct TheirStatus {
    code: Option<String>,
}

fn is_over(code: &Option<String>) -> bool {
    code.as_deref() == Some("OVER_LIMIT")
}

/// The task that asks one question after the other, on one connection.
struct Asker {
    other: OtherServer,
    skipped: Arc<AtomicU64>,
    comparison: Comparison,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Asker {
    async fn ask_all(mut self, mut questions: Receiver<Answered>) {
        let mut reported = Comparison::default();
        let mut next = Instant::now() + INTERVAL;
        loop {
            match timeout_at(next, questions.recv()).await {
                Ok(Some(answered)) => self.compare(answered).await,
                Ok(None) => return,
                Err(_) => {}
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + INTERVAL;
            self.comparison.skipped = self.skipped.load(Relaxed);
            if self.comparison.is_news_after(&reported) {
                (self.other.report)(&self.comparison);
                self.comparison.example = None;
                reported = self.comparison.clone();
            }
        }
    }

    async fn compare(&mut self, answered: Answered) {
        let asked = timeout(PATIENCE, self.ask(&answered.body)).await;
        match asked.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
            Ok(theirs) => {
                self.comparison.compared += 1;
                if let Some(difference) = answered.difference(&theirs) {
                    self.comparison.different += 1;
                    self.comparison.example = Some(difference);
                }
            }
            Err(why) => {
                self.connection = None;
                self.comparison.unanswered += 1;
                self.comparison.example = Some(format!("{}: {why}", self.other.authority));
            }
        }
    }

    async fn ask(&mut self, body: &Bytes) -> Result<TheirAnswer, String> {
        let text = |error: &dyn fmt::Display| error.to_string();
        let connection = match &mut self.connection {
            Some(connection) if !connection.is_closed() => connection,
            _ => {
                let stream = TcpStream::connect(&self.other.authority).await;
                let stream = stream.map_err(|error| text(&error))?;
                let begun = handshake(TokioIo::new(stream)).await;
                let (sender, connection) = begun.map_err(|error| text(&error))?;
                tokio::spawn(connection);
                self.connection.insert(sender)
            }
        };
        connection.ready().await.map_err(|error| text(&error))?;
        let request = Request::post("/json")
            .header(HOST, &self.other.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.clone()))
            .map_err(|error| text(&error))?;
        let reply = connection.send_request(request).await;
        let (head, body) = reply.map_err(|error| text(&error))?.into_parts();
        let body = Limited::new(body, MAX_MESSAGE).collect().await;
        let body = body.map_err(|error| text(&error))?.to_bytes();
        match head.status.as_u16() {
            200 | 429 => serde_json::from_slice(&body).map_err(|error| text(&error)),
            status => Err(format!("it answers with the status {status}")),
        }
    }
}
