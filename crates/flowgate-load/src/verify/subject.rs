use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flowgate_verify::{Observation, Outcome, Phase, Shot, Subject, Volley};
use hyper::header::{HeaderName, HeaderValue};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::lane::{self, Asked, Lane, Way};
use super::{Neither, StatusRanges, VerifyError};
use crate::connection::{ConnectOptions, Connector, HttpVersion};
use crate::engine::{RunError, resolve};
use crate::failure::Failure;
use crate::plan::Template;
use crate::report::nanos;
use crate::stop::Stop;
use crate::target::Target;

/// The most connections that a subject is asked over.
pub const MAX_LANES: u32 = 1000;
/// So many requests in a row without an answer are enough, once there have been answers.
const TOO_MANY_UNANSWERED: usize = 100;
/// So many requests of a volley over one connection without an answer in time are enough: each takes all of that time.
const TOO_MANY_TIMEOUTS: usize = 3;

/// How a server is asked, and how its answers are read.
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
/// // Whether keys are apart can then be found out, too.
/// let keys = ["k-17", "k-18"].map(HeaderValue::from_static);
/// asking.keys = Some((HeaderName::from_static("x-api-key"), keys.to_vec()));
/// asking.refused = "403,429".parse()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Asking {
    /// Where.
    pub target: Target,
    /// What each request says.
    pub template: Template,
    /// A header that says whose request it is, and its values: one for each key.
    pub keys: Option<(HeaderName, Vec<HeaderValue>)>,
    /// Answers with these statuses were let through. Default 200 to 299.
    pub admitted: StatusRanges,
    /// Answers with these statuses are refusals. Default 429 and 503. All others are failures.
    pub refused: StatusRanges,
    /// How connections are made; always HTTP/1.1, as a connection then has one request at a time.
    pub connect: ConnectOptions,
    /// How long an answer may take before it counts as failed. Default 10 s.
    pub timeout: Duration,
}

impl Asking {
    /// With the defaults: `GET`, one key.
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

/// A rate limiter on the other side of HTTP. Blocks while it asks.
///
/// Each lane is a connection that is kept alive; it is opened when it is first used, and opened anew when it has
/// broken.
/// An investigation ends early, with an error, if the first answer is neither yes nor no, or none comes any longer.
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
    // Before the runtime, which they need when they are dropped.
    lanes: BTreeMap<u32, Lane>,
    local: LocalSet,
    runtime: Runtime,
    way: Rc<Way>,
    target: Target,
    /// From then on nothing is sent.
    end_ns: u64,
    stop: Stop,
    has_answered: bool,
    unanswered: usize,
    neither: BTreeMap<Neither, u64>,
}

impl HttpSubject {
    /// Finds the host. Nothing is sent yet. When `stop` is stopped, asking ends with an error.
    ///
    /// # Errors
    ///
    /// When the host is not found within the time limit for connecting, or what is needed for TLS cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::{Asking, HttpSubject};
    /// use flowgate_load::{Origin, Stop, Target};
    ///
    /// let origin = Origin::start()?;
    /// let subject = HttpSubject::new(Asking::new(Target::parse(&origin.url())?), &Stop::new())?;
    /// assert!(subject.neither().is_empty()); // nothing has been sent yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(asking: Asking, stop: &Stop) -> Result<HttpSubject, VerifyError> {
        let connect = ConnectOptions {
            version: HttpVersion::Http1,
            ..asking.connect
        };
        let connector = Connector::new(&asking.target, &connect).map_err(RunError::Tls)?;
        let addresses = resolve(&asking.target, connect.timeout, stop)?;
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
            .map(|template| template.message(&asking.target, true))
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
            lanes: BTreeMap::new(),
            local: LocalSet::new(),
            runtime,
            way: Rc::new(way),
            target: asking.target,
            end_ns: u64::MAX,
            stop: stop.clone(),
            has_answered: false,
            unanswered: 0,
            neither: BTreeMap::new(),
        })
    }

    /// Whether it is on this machine, by each of its addresses.
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
        addresses.all(|address| address.ip().to_canonical().is_loopback())
    }

    /// What came that was neither yes nor no, and how often.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::{Asking, HttpSubject, Neither};
    /// use flowgate_load::{Origin, Stop, Target};
    /// use flowgate_verify::Investigation;
    /// use hyper::StatusCode;
    ///
    /// let origin = Origin::start()?; // answers 200
    /// let mut asking = Asking::new(Target::parse(&origin.url())?);
    /// asking.admitted = "204".parse()?;
    /// let mut subject = HttpSubject::new(asking, &Stop::new())?;
    /// let ended = Investigation::new().run(&mut subject, &mut |_| {});
    /// assert!(ended.is_err() && subject.neither().contains_key(&Neither::Answer(StatusCode::OK)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn neither(&self) -> &BTreeMap<Neither, u64> {
        &self.neither
    }

    /// Carries out a volley. Whether one of the connections was given up, too.
    fn fire(&mut self, shots: &[Shot]) -> Result<(Vec<Asked>, bool), VerifyError> {
        let mut parts: BTreeMap<u32, Vec<Shot>> = BTreeMap::new();
        for shot in shots {
            parts.entry(shot.lane % MAX_LANES).or_default().push(*shot);
        }
        let mut lanes = Vec::with_capacity(parts.len());
        {
            let _inside = self.runtime.enter();
            for (number, shots) in parts {
                let lane = match self.lanes.remove(&number) {
                    Some(lane) => lane,
                    None => Lane::new(number).map_err(RunError::System)?,
                };
                lanes.push((lane, shots));
            }
        }
        let (way, stop, end_ns) = (self.way.clone(), self.stop.clone(), self.end_ns);
        let fired = self.local.block_on(&self.runtime, async move {
            tokio::select! {
                biased;
                () = stop.stopped() => None,
                fired = fire(way, lanes, end_ns) => Some(fired),
            }
        });
        let (mut all, mut is_given_up) = (Vec::new(), false);
        for fired in fired.ok_or(VerifyError::Stopped)? {
            self.lanes.insert(fired.lane.number(), fired.lane);
            all.extend(fired.asked);
            is_given_up |= fired.timeouts == TOO_MANY_TIMEOUTS;
        }
        all.sort_by_key(|asked| asked.observation.sent_ns);
        Ok((all, is_given_up))
    }

    /// Whether it makes sense to go on.
    fn judge(&mut self, phase: Phase, asked: &[Asked]) -> Result<(), VerifyError> {
        for asked in asked {
            let has_failed = asked.observation.outcome == Outcome::Failed;
            if has_failed {
                *self.neither.entry(asked.neither()).or_default() += 1;
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
                        return Err(match *failure {
                            lane::Asking::Connecting(address, failure) => {
                                RunError::Connect { address, failure }.into()
                            }
                            lane::Asking::Exchanging(failure) => VerifyError::NoAnswer(failure),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn useless(&self, answered: &lane::Status) -> VerifyError {
        let status = answered.code;
        if !status.is_redirection() {
            return VerifyError::Neither {
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

/// A `Location` as a URL that can be typed, if it is one or begins at the root.
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

/// What became of the shots of a lane.
struct Fired {
    lane: Lane,
    asked: Vec<Asked>,
    timeouts: usize,
}

/// All lanes concurrently, each with those of its shots that go out before the end. All connections are open before the first is
/// asked.
async fn fire(way: Rc<Way>, lanes: Vec<(Lane, Vec<Shot>)>, end_ns: u64) -> Vec<Fired> {
    // What the servers did since the last volley, such as closing connections, is known after this.
    yield_now().await;
    let mut opening = Vec::with_capacity(lanes.len());
    for (mut lane, shots) in lanes {
        let way = way.clone();
        opening.push(spawn_local(async move {
            // Whoever asks over it finds out if it is not.
            let _ = lane.open(&way).await;
            (lane, shots)
        }));
    }
    let mut asking = Vec::with_capacity(opening.len());
    for opened in opening {
        let (mut lane, shots) = joined(opened.await);
        let way = way.clone();
        asking.push(async move {
            let mut asked = Vec::with_capacity(shots.len());
            let mut timeouts = 0;
            for shot in shots {
                let Some(one) = lane.ask(&way, shot, end_ns).await else {
                    break;
                };
                timeouts += usize::from(one.has_timed_out());
                asked.push(one);
                if timeouts == TOO_MANY_TIMEOUTS {
                    break;
                }
            }
            Fired {
                lane,
                asked,
                timeouts,
            }
        });
    }
    let asking: Vec<_> = asking.into_iter().map(spawn_local).collect();
    let mut fired = Vec::with_capacity(asking.len());
    for task in asking {
        fired.push(joined(task.await));
    }
    fired
}

/// What a task has made. None is aborted while it is waited for, and one that panics has its panic handed on.
fn joined<T>(outcome: Result<T, tokio::task::JoinError>) -> T {
    match outcome {
        Ok(made) => made,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl Subject for HttpSubject {
    type Error = VerifyError;

    fn now_ns(&self) -> u64 {
        nanos::of(self.way.began.elapsed())
    }

    fn end_at(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    fn send(&mut self, volley: &Volley) -> Result<Vec<Observation>, VerifyError> {
        let (asked, is_given_up) = self.fire(&volley.shots)?;
        self.judge(volley.phase, &asked)?;
        if is_given_up && asked.len() < volley.shots.len() {
            return Err(VerifyError::NoAnswer(Failure::Timeout));
        }
        Ok(asked.into_iter().map(|asked| asked.observation).collect())
    }
}

impl fmt::Debug for HttpSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSubject")
            .field("addresses", &self.way.addresses)
            .field("lanes", &self.lanes.len())
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
        // All are scheduled for the same time, and so many would take seconds.
        let volley = |count| Volley {
            phase: Phase::Burst,
            shots: (0..count)
                .map(|index| Shot {
                    at_ns: 0,
                    lane: index % 2,
                    key: 0,
                })
                .collect(),
        };
        let few = subject.send(&volley(10)).unwrap();
        assert_eq!(few.len(), 10);
        subject.end_at(subject.now_ns() + 200_000_000);
        let seen = subject.send(&volley(200_000)).unwrap();
        assert!((1..200_000).contains(&seen.len()), "{}", seen.len());
        assert_eq!(subject.send(&volley(10)).unwrap(), []);
    }
}
