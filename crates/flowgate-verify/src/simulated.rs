use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use fastrand::Rng;

use crate::{Observation, Outcome, Shot, Subject, Told, Volley};

/// A request that arrives at a simulated limiter.
///
/// ```
/// use flowgate_verify::{Investigation, Question, Simulated};
///
/// // A node for each connection, and each of them has the limit for itself.
/// let mut nodes = std::collections::HashSet::new();
/// let mut subject = Simulated::new(|Question { lane, .. }| {
///     nodes.insert(lane);
///     true.into()
/// });
/// let Ok(_) = Investigation::new().lanes(8).run(&mut subject, &mut |_| ());
/// drop(subject);
/// assert!(nodes.len() <= 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// When the limiter has to decide, on the subject's timeline. Never before the one asked last.
    pub at_ns: u64,
    /// Over which connection it came.
    pub lane: u32,
    /// Whose it is.
    pub key: u32,
}

/// What a simulated limiter answers.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use flowgate_verify::{Answer, Fault, Investigation, Question, Simulated, Told};
/// use std::time::Duration;
///
/// // It tells a millisecond where a token takes ten.
/// let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
/// let told = Told { retry_after: Some(Duration::from_millis(1)), ..Told::default() };
/// let mut subject = Simulated::new(|asked| Answer { told, ..decide(asked).into() });
/// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
/// assert!(matches!(findings.faults[..], [Fault::EarlyRetryAfter { .. }]));
/// assert!(findings.honesty.too_early > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Yes or no.
    pub outcome: Outcome,
    /// What it says of its limit.
    pub told: Told,
    /// How long the answer is held back after the decision, as by a queue.
    pub held: Duration,
}

impl From<bool> for Answer {
    fn from(admitted: bool) -> Self {
        Self {
            outcome: if admitted {
                Outcome::Admitted
            } else {
                Outcome::Refused
            },
            told: Told::default(),
            held: Duration::ZERO,
        }
    }
}

/// A subject in which no time passes but that of its own timeline.
///
/// It decides somewhere between question and answer, as a server does, whose answers take up to
/// [`service`](Simulated::service).
///
/// # Examples
///
/// ```
/// use flowgate_verify::{Investigation, Kind, Simulated};
///
/// let mut subject = Simulated::new(|_| true.into());
/// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
/// assert_eq!(findings.likeness.kind, Kind::Unlimited);
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
    /// A subject whose answers `decide` gives, without delay.
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

    /// How long an answer takes at most: each a time of its own up to that, drawn from `seed`.
    #[must_use]
    pub fn service(mut self, most: Duration, seed: u64) -> Self {
        self.service_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.rng = Rng::with_seed(seed);
        self
    }

    /// Sends the shot as soon as may be: when it goes, when it is decided, when it would be answered. `None` if that is
    /// after the end.
    fn departure(&mut self, shot: Shot) -> Option<[u64; 3]> {
        let lane = shot.lane as usize;
        if self.free_ns.len() <= lane {
            self.free_ns.resize(lane + 1, 0);
        }
        let sent_ns = shot.at_ns.max(self.now_ns).max(self.free_ns[lane]);
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

impl<D: FnMut(Question) -> Answer> Subject for Simulated<D> {
    type Error = Infallible;

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn end_at(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    fn send(&mut self, volley: &Volley) -> Result<Vec<Observation>, Infallible> {
        let shots = &volley.shots;
        let lanes = shots.iter().map(|shot| shot.lane as usize + 1).max();
        let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); lanes.unwrap_or(0)];
        for (index, shot) in shots.iter().enumerate() {
            waiting[shot.lane as usize].push_back(index);
        }
        // One of each lane is under way; the one that is decided first comes first.
        let mut under_way = BinaryHeap::new();
        for queue in &mut waiting {
            if let Some(index) = queue.pop_front()
                && let Some([sent_ns, decided_ns, answered_ns]) = self.departure(shots[index])
            {
                under_way.push(Reverse((decided_ns, index, sent_ns, answered_ns)));
            }
        }
        let mut seen: Vec<Option<Observation>> = vec![None; shots.len()];
        let mut last_ns = self.now_ns;
        while let Some(Reverse((at_ns, index, sent_ns, answered_ns))) = under_way.pop() {
            let Shot { lane, key, .. } = shots[index];
            let answer = (self.decide)(Question { at_ns, lane, key });
            let held_ns = u64::try_from(answer.held.as_nanos()).unwrap_or(u64::MAX);
            let answered_ns = answered_ns.max(at_ns.saturating_add(held_ns));
            seen[index] = Some(Observation {
                sent_ns,
                answered_ns,
                lane,
                key,
                outcome: answer.outcome,
                told: answer.told,
            });
            self.free_ns[lane as usize] = answered_ns;
            last_ns = last_ns.max(answered_ns);
            if let Some(next) = waiting[lane as usize].pop_front()
                && let Some([sent_ns, decided_ns, answered_ns]) = self.departure(shots[next])
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
