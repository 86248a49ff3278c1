//! A source of requests at work: when the next one comes, its key and cost, and what its clients still do.

use std::time::Duration;

use flowgate_schedule::Times;

use crate::outcome::{Latency, OutcomeCounts, SourceOutcome};
use crate::random::{Entity, Random};
use crate::traffic::{Arrivals, Recorded, Traffic};

/// How many keys a source looks ahead: about as many lines as a processor core can request together.
const AHEAD: usize = 16;
/// The most retries that a budget saves up.
const MOST_SAVED: f64 = 10.0;

pub(super) struct Source<'a> {
    pub(super) traffic: &'a Traffic,
    feed: Feed<'a>,
    keys: Random,
    /// The keys of the next requests, as far as they have been looked at, the next one last.
    ahead: Vec<u64>,
    pub(super) clients: Random,
    begun: u64,
    /// Retries that the budget has left.
    budget: f64,
    pub(super) counts: OutcomeCounts,
    pub(super) latency: Latency,
    pub(super) wait: Latency,
}

/// Where the next request comes from.
enum Feed<'a> {
    Scheduled(Times<'a>),
    Recorded(std::slice::Iter<'a, Recorded>),
    Closed,
}

/// The next operation of a source.
pub(super) struct Begun {
    pub(super) number: u64,
    pub(super) key: u64,
    pub(super) cost: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(seed: u64, index: u64, traffic: &'a Traffic) -> Self {
        Self {
            traffic,
            feed: match &traffic.arrivals {
                Arrivals::Scheduled(schedule) => Feed::Scheduled(schedule.times()),
                Arrivals::Recorded(recorded) => Feed::Recorded(recorded.iter()),
                Arrivals::Closed { .. } => Feed::Closed,
            },
            keys: Random::new(seed, Entity::Keys, index),
            ahead: Vec::with_capacity(AHEAD),
            clients: Random::new(seed, Entity::Clients, index),
            begun: 0,
            budget: MOST_SAVED,
            counts: OutcomeCounts::default(),
            latency: Latency::new(),
            wait: Latency::new(),
        }
    }

    /// When the next request comes, if that does not depend on answers.
    pub(super) fn next_at(&mut self) -> Option<Duration> {
        match &mut self.feed {
            Feed::Scheduled(times) => times.next(),
            Feed::Recorded(recorded) => recorded.as_slice().first().map(|next| next.at),
            Feed::Closed => None,
        }
    }

    /// Looks at the keys of the next requests, if there is more than one key, and those that were seen before are used up.
    pub(super) fn look_ahead(&mut self) -> Option<&[u64]> {
        if !self.ahead.is_empty() {
            return None;
        }
        match &self.feed {
            Feed::Recorded(recorded) => {
                let next = recorded.as_slice().iter().take(AHEAD);
                self.ahead.extend(next.map(|next| next.key));
            }
            _ if self.traffic.keys.is_one() => return None,
            _ => {
                let keys = std::iter::repeat_with(|| self.traffic.keys.draw(&mut self.keys));
                self.ahead.extend(keys.take(AHEAD));
            }
        }
        self.ahead.reverse();
        Some(&self.ahead)
    }

    pub(super) fn begin(&mut self) -> Begun {
        let number = self.begun;
        self.begun += 1;
        if let Some(share) = self.traffic.retries.and_then(|retries| retries.budget) {
            self.budget = (self.budget + share.get()).min(MOST_SAVED);
        }
        let recorded = match &mut self.feed {
            Feed::Recorded(recorded) => recorded.next(),
            _ => None,
        };
        let ahead = self.ahead.pop();
        let (key, cost) = match recorded {
            Some(next) => (next.key, next.cost),
            None => {
                let key = ahead.unwrap_or_else(|| self.traffic.keys.draw(&mut self.keys));
                (key, self.traffic.cost)
            }
        };
        Begun { number, key, cost }
    }

    /// How long a client waits before it tries again, in nanoseconds, if it does.
    pub(super) fn backoff_ns(&mut self, attempt: u32, retry_after_ns: u64) -> Option<u64> {
        let retries = self.traffic.retries.as_ref()?;
        if attempt >= retries.attempts || (retries.budget.is_some() && self.budget < 1.0) {
            return None;
        }
        let backoff_ns = retries.backoff_ns(attempt + 1, self.clients.share());
        Some(match retries.heeds_retry_after {
            true => backoff_ns.max(retry_after_ns),
            false => backoff_ns,
        })
    }

    /// A retry is made.
    pub(super) fn spend(&mut self) {
        if self
            .traffic
            .retries
            .is_some_and(|retries| retries.budget.is_some())
        {
            self.budget -= 1.0;
        }
    }

    pub(super) fn outcome(self) -> SourceOutcome {
        SourceOutcome {
            name: self.traffic.name.clone(),
            counts: self.counts,
            latency: self.latency,
            wait: self.wait,
        }
    }
}
