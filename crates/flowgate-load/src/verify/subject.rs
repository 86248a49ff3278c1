use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flowgate_verify::{Observation, Phase, Probe, ProbeBatch, ProbeOutcome, ProbeSubject};
use hyper::header::{HeaderName, HeaderValue};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::prober::{self, Asked, Prober, Way};
use super::{Inconclusive, StatusRanges, VerifyError};
use crate::connection::{ConnectOptions, Connector, HttpVersion, Peer};
use crate::engine::{RunError, resolve};
use crate::failure::Failure;
use crate::plan::Template;
use crate::report::nanos;
use crate::stop::Stop;
use crate::target::Target;

/// Maximum number of connections of an investigation.
pub const MAX_CONNECTIONS: u32 = 1000;
/// Number of consecutive requests without a response after which an investigation ends.
const TOO_MANY_UNANSWERED: usize = 100;
/// Number of timeouts of one batch on one connection after which an investigation ends: each takes the whole timeout.
const TOO_MANY_TIMEOUTS: usize = 3;

/// How an investigation sends requests to a server and reads its responses.
///
/// # Examples
///
/// ```
/// use flowgate_load::Target;
/// use flowgate_load::verify::Asking;
/// use hyper::header::{HeaderName, HeaderValue};
///
/// let mut asking = Asking::new(Target::parse("http://localhost:8080/")?);
/// assert_eq!(asking.refused.to_string(), "429,503");
/// // Two keys, to find out whether keys have separate limits.
/// let keys = ["k-17", "k-18"].map(HeaderValue::from_static);
/// asking.keys = Some((HeaderName::from_static("x-api-key"), keys.to_vec()));
/// asking.refused = "403,429".parse()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Asking {
    /// URL of the requests.
    pub target: Target,
    /// Method, headers and body of each request.
    pub template: Template,
    /// Header that names the key of a request, and its values: one per key.
    pub keys: Option<(HeaderName, Vec<HeaderValue>)>,
    /// Statuses of admitted requests (default: 200 to 299).
    pub admitted: StatusRanges,
    /// Statuses of refused requests (default: 429 and 503). All others are inconclusive.
    pub refused: StatusRanges,
    /// Options for opening connections.
    ///
    /// The version is always HTTP/1.1, because a connection then has one request at a time.
    pub connect: ConnectOptions,
    /// Maximum time of a request (default: 10 s).
    pub timeout: Duration,
}

impl Asking {
    /// Creates the configuration with the defaults: `GET`, one key.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate_load::Target;
    /// use flowgate_load::verify::Asking;
    ///
    /// let asking = Asking::new(Target::parse("http://localhost:8080/")?);
    /// assert_eq!(asking.template.method, "GET");
    /// assert_eq!((asking.keys, asking.timeout), (None, Duration::from_secs(10)));
    /// # Ok::<(), flowgate_load::TargetError>(())
    /// ```
    pub fn new(target: Target) -> Asking {
        Asking {
            target,
            template: Template::default(),
            keys: None,
            admitted: StatusRanges::success(),
            refused: StatusRanges::refusal(),
            connect: ConnectOptions::default(),
            timeout: Duration::from_secs(10),
        }
    }
}

/// A rate limiter behind HTTP. Blocks while it sends requests.
///
/// Each connection is kept alive. It is opened when it is first used, and again after it has closed.
///
/// An investigation ends with an error if the first response is inconclusive, or if the server stops responding.
///
/// ```no_run
/// use flowgate_load::verify::{Asking, HttpSubject};
/// use flowgate_load::{Stop, Target};
/// use flowgate_verify::Investigation;
///
/// let asking = Asking::new(Target::parse("http://127.0.0.1:8080/")?);
/// let mut subject = HttpSubject::new(asking, &Stop::new())?;
/// let findings = Investigation::new().run(&mut subject, &mut |_| {})?;
/// println!("{findings}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HttpSubject {
    // Declared before the runtime, because dropping them needs it.
    probers: BTreeMap<u32, Prober>,
    local: LocalSet,
    runtime: Runtime,
    way: Rc<Way>,
    target: Target,
    /// Nothing is sent from this time on.
    end_ns: u64,
    stop: Stop,
    has_answered: bool,
    unanswered: usize,
    inconclusive: BTreeMap<Inconclusive, u64>,
}

impl HttpSubject {
    /// Resolves the host. Nothing is sent yet.
    ///
    /// When `stop` is stopped, the investigation ends with what it knows, or with an error if no response has arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the host is not found within the connection timeout, or if TLS cannot be set up.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::{Asking, HttpSubject};
    /// use flowgate_load::{Origin, Stop, Target};
    ///
    /// let origin = Origin::start()?;
    /// let subject = HttpSubject::new(Asking::new(Target::parse(&origin.url())?), &Stop::new())?;
    /// assert!(subject.inconclusive().is_empty()); // nothing has been sent yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(asking: Asking, stop: &Stop) -> Result<HttpSubject, VerifyError> {
        let connect = ConnectOptions {
            version: HttpVersion::Http1,
            ..asking.connect
        };
        let connector = Connector::new(&asking.target, &connect).map_err(RunError::Tls)?;
        let addresses = resolve(&asking.target, &connect, stop)?;
        let templates = match asking.keys {
            Some((name, values)) if !values.is_empty() => values
                .into_iter()
                .map(|value| {
                    let mut template = asking.template.clone();
                    template.headers.push((name.clone(), value));
                    template
                })
                .collect(),
            _ => vec![asking.template],
        };
        let messages = templates
            .iter()
            .map(|template| template.message(&asking.target, true, None))
            .collect();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(RunError::System)?;
        let way = Way {
            connector,
            addresses,
            messages,
            admitted: asking.admitted,
            refused: asking.refused,
            timeout: asking.timeout,
            began: Instant::now(),
        };
        Ok(HttpSubject {
            probers: BTreeMap::new(),
            local: LocalSet::new(),
            runtime,
            way: Rc::new(way),
            target: asking.target,
            end_ns: u64::MAX,
            stop: stop.clone(),
            has_answered: false,
            unanswered: 0,
            inconclusive: BTreeMap::new(),
        })
    }

    /// Returns whether all addresses of the server are on this machine.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::{Asking, HttpSubject};
    /// use flowgate_load::{Stop, Target};
    ///
    /// let asking = Asking::new(Target::parse("http://127.0.0.1:8080/")?);
    /// assert!(HttpSubject::new(asking, &Stop::new())?.is_local());
    /// let asking = Asking::new(Target::parse("http://192.0.2.7/")?);
    /// assert!(!HttpSubject::new(asking, &Stop::new())?.is_local());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_local(&self) -> bool {
        let mut addresses = self.way.addresses.iter();
        addresses.all(Peer::is_local)
    }

    /// Returns the inconclusive results, with their counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::{Asking, HttpSubject, Inconclusive};
    /// use flowgate_load::{Origin, Stop, Target};
    /// use flowgate_verify::Investigation;
    /// use hyper::StatusCode;
    ///
    /// let origin = Origin::start()?; // answers 200
    /// let mut asking = Asking::new(Target::parse(&origin.url())?);
    /// asking.admitted = "204".parse()?;
    /// let mut subject = HttpSubject::new(asking, &Stop::new())?;
    /// let ended = Investigation::new().run(&mut subject, &mut |_| {});
    /// assert!(ended.is_err() && subject.inconclusive().contains_key(&Inconclusive::Answer(StatusCode::OK)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inconclusive(&self) -> &BTreeMap<Inconclusive, u64> {
        &self.inconclusive
    }

    /// Sends a batch. Also returns whether one of the connections was given up.
    fn send_probes(&mut self, probes: &[Probe]) -> Result<(Vec<Asked>, bool), VerifyError> {
        let mut parts: BTreeMap<u32, Vec<Probe>> = BTreeMap::new();
        for probe in probes {
            parts
                .entry(probe.connection % MAX_CONNECTIONS)
                .or_default()
                .push(*probe);
        }
        let mut probers = Vec::with_capacity(parts.len());
        {
            let _inside = self.runtime.enter();
            for (number, probes) in parts {
                let prober = match self.probers.remove(&number) {
                    Some(prober) => prober,
                    None => Prober::new(number).map_err(RunError::System)?,
                };
                probers.push((prober, probes));
            }
        }
        let (way, stop, end_ns) = (self.way.clone(), self.stop.clone(), self.end_ns);
        let sent = self.local.block_on(&self.runtime, async move {
            tokio::select! {
                biased;
                () = stop.stopped() => None,
                sent = send_probes(way, probers, end_ns) => Some(sent),
            }
        });
        let (mut all, mut is_given_up) = (Vec::new(), false);
        let sent = match sent {
            Some(sent) => sent,
            // Earlier responses remain valid, because nothing is sent after this batch.
            None if self.has_answered => Vec::new(),
            None => return Err(VerifyError::Stopped),
        };
        for sent in sent {
            self.probers.insert(sent.prober.number(), sent.prober);
            all.extend(sent.asked);
            is_given_up |= sent.timeouts == TOO_MANY_TIMEOUTS;
        }
        all.sort_by_key(|asked| asked.observation.sent_ns);
        Ok((all, is_given_up))
    }

    /// Returns an error if the investigation cannot continue.
    fn judge(&mut self, phase: Phase, asked: &[Asked]) -> Result<(), VerifyError> {
        for asked in asked {
            let has_failed = asked.observation.outcome == ProbeOutcome::Failed;
            if has_failed {
                *self.inconclusive.entry(asked.inconclusive()).or_default() += 1;
            }
            match &asked.answer {
                Ok(status) => {
                    let is_first = phase == Phase::Hello && !self.has_answered;
                    if is_first && has_failed {
                        return Err(self.useless(status));
                    }
                    self.has_answered = true;
                    self.unanswered = 0;
                }
                Err(failure) => {
                    self.unanswered += 1;
                    if !self.has_answered || self.unanswered >= TOO_MANY_UNANSWERED {
                        return Err(match failure.clone() {
                            prober::Asking::Connecting(address, failure) => {
                                RunError::Connect { address, failure }.into()
                            }
                            prober::Asking::Exchanging(failure) => VerifyError::NoAnswer(failure),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn useless(&self, answered: &prober::Status) -> VerifyError {
        let status = answered.code;
        if !status.is_redirection() {
            return VerifyError::Inconclusive {
                status,
                admitted: self.way.admitted.clone(),
                refused: self.way.refused.clone(),
            };
        }
        let location = answered.location.as_deref();
        let location = location.map(|location| absolute(location, &self.target));
        let leads_to = location.as_deref().map(Target::parse);
        match leads_to {
            Some(Ok(there)) if there == self.target => VerifyError::RedirectLoop { status },
            _ => VerifyError::Redirect { status, location },
        }
    }
}

/// Turns a `Location` into a URL that can be typed, if it is absolute or starts at the root.
fn absolute(location: &str, base: &Target) -> String {
    let scheme = if base.is_tls() { "https" } else { "http" };
    if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{}{location}", base.authority())
    } else {
        location.to_owned()
    }
}

/// Results of one prober's probes.
struct Sent {
    prober: Prober,
    asked: Vec<Asked>,
    timeouts: usize,
}

/// Runs all probers concurrently, each with its probes before the end. All connections are open before the first
/// request is sent.
async fn send_probes(way: Rc<Way>, probers: Vec<(Prober, Vec<Probe>)>, end_ns: u64) -> Vec<Sent> {
    // Processes events since the last batch, such as closed connections.
    yield_now().await;
    let mut opening = Vec::with_capacity(probers.len());
    for (mut prober, probes) in probers {
        let way = way.clone();
        opening.push(spawn_local(async move {
            // Requests over it report the failure.
            let _ = prober.open(&way).await;
            (prober, probes)
        }));
    }
    let mut asking = Vec::with_capacity(opening.len());
    for opened in opening {
        let (mut prober, probes) = joined(opened.await);
        let way = way.clone();
        asking.push(async move {
            let mut asked = Vec::with_capacity(probes.len());
            let mut timeouts = 0;
            for probe in probes {
                let Some(one) = prober.ask(&way, probe, end_ns).await else {
                    break;
                };
                timeouts += usize::from(one.has_timed_out());
                asked.push(one);
                if timeouts == TOO_MANY_TIMEOUTS {
                    break;
                }
            }
            Sent {
                prober,
                asked,
                timeouts,
            }
        });
    }
    let asking: Vec<_> = asking.into_iter().map(spawn_local).collect();
    let mut sent = Vec::with_capacity(asking.len());
    for task in asking {
        sent.push(joined(task.await));
    }
    sent
}

/// Returns the result of a task, and resumes its panic. Tasks are not aborted while they are awaited.
fn joined<T>(outcome: Result<T, tokio::task::JoinError>) -> T {
    match outcome {
        Ok(made) => made,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl ProbeSubject for HttpSubject {
    type Error = VerifyError;

    fn has_ended(&self) -> bool {
        self.has_answered && self.stop.is_stopped()
    }

    fn now_ns(&self) -> u64 {
        nanos::of(self.way.began.elapsed())
    }

    fn end_at(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    fn send(&mut self, batch: &ProbeBatch) -> Result<Vec<Observation>, VerifyError> {
        let (asked, is_given_up) = self.send_probes(&batch.probes)?;
        self.judge(batch.phase, &asked)?;
        if is_given_up && asked.len() < batch.probes.len() {
            return Err(VerifyError::NoAnswer(Failure::Timeout));
        }
        Ok(asked.into_iter().map(|asked| asked.observation).collect())
    }
}

impl fmt::Debug for HttpSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSubject")
            .field("addresses", &self.way.addresses)
            .field("probers", &self.probers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    #[test]
    fn what_is_late_at_the_end_is_not_sent() {
        let origin = Origin::start().unwrap();
        let asking = Asking::new(Target::parse(&origin.url()).unwrap());
        let mut subject = HttpSubject::new(asking, &Stop::new()).unwrap();
        // All have the same scheduled time; sending all of them would take seconds.
        let batch = |count| ProbeBatch {
            phase: Phase::Burst,
            probes: (0..count)
                .map(|index| Probe {
                    at_ns: 0,
                    connection: index % 2,
                    key: 0,
                })
                .collect(),
        };
        let few = subject.send(&batch(10)).unwrap();
        assert_eq!(few.len(), 10);
        subject.end_at(subject.now_ns() + 200_000_000);
        let seen = subject.send(&batch(200_000)).unwrap();
        assert!((1..200_000).contains(&seen.len()), "{}", seen.len());
        assert_eq!(subject.send(&batch(10)).unwrap(), []);
    }
}
