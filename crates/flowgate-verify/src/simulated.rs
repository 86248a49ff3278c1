use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use fastrand::Rng;

use crate::{Advertised, Observation, Probe, ProbeBatch, ProbeOutcome, ProbeSubject};

/// Request that arrives at a simulated limiter.
///
/// ```
/// use flowgate_verify::{Investigation, Question, Simulated};
///
/// // Each connection reaches a different node, and each node has a separate limit.
/// let mut nodes = std::collections::HashSet::new();
/// let mut subject = Simulated::new(|Question { connection, .. }| {
///     nodes.insert(connection);
///     true.into()
/// });
/// let Ok(_) = Investigation::new().connections(8).run(&mut subject, &mut |_| ());
/// drop(subject);
/// assert!(nodes.len() <= 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Time of the decision on the subject's timeline, in nanoseconds. Never decreases.
    pub at_ns: u64,
    /// Connection of the request.
    pub connection: u32,
    /// Key of the request.
    pub key: u32,
}

/// Response of a simulated limiter.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use flowgate_verify::{Answer, Defect, Investigation, Question, Simulated, Advertised};
/// use std::time::Duration;
///
/// // Reports 1 ms although a token takes 10 ms.
/// let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
/// let advertised = Advertised { retry_after: Some(Duration::from_millis(1)), ..Advertised::default() };
/// let mut subject = Simulated::new(|asked| Answer { advertised, ..decide(asked).into() });
/// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
/// assert!(matches!(findings.defects[..], [Defect::EarlyRetryAfter { .. }]));
/// assert!(findings.headers.too_early > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the request is admitted.
    pub outcome: ProbeOutcome,
    /// Limit that the response advertises.
    pub advertised: Advertised,
    /// Time from the decision to the response, as in a queue.
    pub held: Duration,
}

impl From<bool> for Answer {
    fn from(admitted: bool) -> Self {
        Self {
            outcome: if admitted {
                ProbeOutcome::Admitted
            } else {
                ProbeOutcome::Refused
            },
            advertised: Advertised::default(),
            held: Duration::ZERO,
        }
    }
}

/// Subject with simulated time.
///
/// The decision falls somewhere between request and response, as in a server. Responses take up to
/// [`service`](Simulated::service).
///
/// # Examples
///
/// ```
/// use flowgate_verify::{Investigation, DetectedKind, Simulated};
///
/// let mut subject = Simulated::new(|_| true.into());
/// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
/// assert_eq!(findings.detected.kind, DetectedKind::Unlimited);
/// ```
#[derive(Debug)]
pub struct Simulated<D> {
    decide: D,
    service_ns: u64,
    rng: Rng,
    now_ns: u64,
    end_ns: u64,
    free_ns: Vec<u64>,
}

impl<D: FnMut(Question) -> Answer> Simulated<D> {
    /// Creates a subject whose responses come from `decide`, without delay.
    pub fn new(decide: D) -> Self {
        Self {
            decide,
            service_ns: 0,
            rng: Rng::with_seed(0),
            now_ns: 0,
            end_ns: u64::MAX,
            free_ns: Vec::new(),
        }
    }

    /// Sets the maximum response time. Each response takes a random time up to it, drawn from `seed`.
    #[must_use]
    pub fn service(mut self, most: Duration, seed: u64) -> Self {
        self.service_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.rng = Rng::with_seed(seed);
        self
    }

    /// Sends the probe as early as possible. Returns the times of sending, decision and response; `None` after the end.
    fn departure(&mut self, probe: Probe) -> Option<[u64; 3]> {
        let connection = probe.connection as usize;
        if self.free_ns.len() <= connection {
            self.free_ns.resize(connection + 1, 0);
        }
        let sent_ns = probe.at_ns.max(self.now_ns).max(self.free_ns[connection]);
        if sent_ns >= self.end_ns {
            return None;
        }
        let took_ns = self.rng.u64(0..=self.service_ns);
        Some([
            sent_ns,
            sent_ns + self.rng.u64(0..=took_ns),
            sent_ns + took_ns,
        ])
    }
}

impl<D: FnMut(Question) -> Answer> ProbeSubject for Simulated<D> {
    type Error = Infallible;

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn end_at(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    fn send(&mut self, batch: &ProbeBatch) -> Result<Vec<Observation>, Infallible> {
        let probes = &batch.probes;
        let connections = probes
            .iter()
            .map(|probe| probe.connection as usize + 1)
            .max();
        let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); connections.unwrap_or(0)];
        for (index, probe) in probes.iter().enumerate() {
            waiting[probe.connection as usize].push_back(index);
        }
        // One request per connection is in flight; the earliest decision comes first.
        let mut under_way = BinaryHeap::new();
        for queue in &mut waiting {
            if let Some(index) = queue.pop_front()
                && let Some([sent_ns, decided_ns, answered_ns]) = self.departure(probes[index])
            {
                under_way.push(Reverse((decided_ns, index, sent_ns, answered_ns)));
            }
        }
        let mut seen: Vec<Option<Observation>> = vec![None; probes.len()];
        let mut last_ns = self.now_ns;
        while let Some(Reverse((at_ns, index, sent_ns, answered_ns))) = under_way.pop() {
            let Probe {
                connection, key, ..
            } = probes[index];
            let answer = (self.decide)(Question {
                at_ns,
                connection,
                key,
            });
            let held_ns = u64::try_from(answer.held.as_nanos()).unwrap_or(u64::MAX);
            let answered_ns = answered_ns.max(at_ns.saturating_add(held_ns));
            seen[index] = Some(Observation {
                sent_ns,
                answered_ns,
                connection,
                key,
                outcome: answer.outcome,
                advertised: answer.advertised,
            });
            self.free_ns[connection as usize] = answered_ns;
            last_ns = last_ns.max(answered_ns);
            if let Some(next) = waiting[connection as usize].pop_front()
                && let Some([sent_ns, decided_ns, answered_ns]) = self.departure(probes[next])
            {
                under_way.push(Reverse((decided_ns, next, sent_ns, answered_ns)));
            }
        }
        self.now_ns = last_ns;
        let mut seen: Vec<Observation> = seen.into_iter().flatten().collect();
        seen.sort_by_key(|one| one.sent_ns);
        Ok(seen)
    }
}
