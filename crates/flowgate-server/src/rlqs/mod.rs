//! Limits that Envoys decide by themselves: all that are divided, and all streams.

mod division;
#[cfg(test)]
mod tests;

pub(crate) use division::{Assignment, TIME_TO_LIVE, Usage};

use crate::bounds::{MAX_ENTRIES, MAX_ENTRY, MAX_QUOTA_BUCKETS, MAX_QUOTA_STREAMS};
use crate::decision::DescriptorEntry;
use crate::limits::{DecideLimits, Key, Rule};
use division::{Division, Holder};
use flowgate::{Quota, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A bucket without requests is given up after this time.
const ABANDON_AFTER: Duration = Duration::from_secs(60);
/// The most limits that are divided.
const MAX_DIVISIONS: usize = MAX_QUOTA_STREAMS * MAX_QUOTA_BUCKETS;

/// A bucket of Envoy: keys and values, without an order.
pub(crate) type Bucket = BTreeMap<String, Vec<u8>>;

/// All limits that are divided among Envoys. A reload keeps them.
#[derive(Debug)]
pub(crate) struct Quotas {
    divided: Mutex<Divided>,
    streams: AtomicUsize,
    /// Reports about buckets that got no answer.
    unanswered: AtomicU64,
    /// The end of the time after a restart in which room is left for this number of clients.
    learning: (Timestamp, usize),
}

#[derive(Debug, Default)]
struct Divided {
    divisions: HashMap<Box<[u8]>, Division>,
    /// The number of divisions at which those that are idle are looked for.
    sweep_at: usize,
    next: Holder,
}

/// The answer about a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No limit matches.
    AllowAll,
    Assign(Assignment),
    /// The bucket is idle: its client can forget it.
    Abandon,
}

/// What Envoys hold of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Out {
    /// Keys that are divided.
    pub(crate) keys: usize,
    /// Buckets of Envoys that may have a part, of all keys.
    pub(crate) buckets: usize,
    /// What these buckets can have, and what fills them.
    pub(crate) tokens: u64,
    pub(crate) per_second: f64,
}

impl Quotas {
    /// Divides from now, after a restart that `before` clients may have outlived.
    pub(crate) fn new(now: Timestamp, before: usize) -> Self {
        Self {
            divided: Mutex::default(),
            streams: AtomicUsize::new(0),
            unanswered: AtomicU64::new(0),
            learning: (now + TIME_TO_LIVE, before),
        }
    }

    /// Opens a stream. `None`: there are too many.
    pub(crate) fn open(self: &Arc<Self>) -> Option<QuotaStream> {
        let more = |streams| (streams < MAX_QUOTA_STREAMS).then_some(streams + 1);
        self.streams.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(QuotaStream {
            quotas: Arc::clone(self),
            buckets: HashMap::new(),
        })
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Relaxed)
    }

    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Relaxed)
    }

    /// Returns the number of clients that share the limit with the most of them, or did until a moment ago.
    pub(crate) fn clients(&self, now: Timestamp) -> usize {
        let mut divided = self.divided();
        let divisions = divided.divisions.values_mut();
        divisions.map(|one| one.clients(now)).max().unwrap_or(0)
    }

    /// Returns the number of limits that are divided, each key of a limit by itself.
    pub(crate) fn len(&self) -> usize {
        self.divided().divisions.len()
    }

    /// Returns what Envoys hold of a limit: of one key, or of all.
    pub(crate) fn out(&self, rule: &Rule, key: Option<&Key<'_>>, now: Timestamp) -> Out {
        // A limit's own part of a key is where those of its keys begin.
        let sought = division_key(rule, key.unwrap_or(&Key::Nothing));
        let is_it = |at: &[u8]| match key {
            Some(_) => *at == *sought,
            None => at.starts_with(&sought),
        };
        let mut divided = self.divided();
        let mut out = Out::default();
        for (_, division) in divided.divisions.iter_mut().filter(|(at, _)| is_it(at)) {
            let (tokens, per_second) = division.out(now);
            out.keys += 1;
            out.buckets += division.clients(now);
            out.tokens += tokens;
            out.per_second += per_second;
        }
        out
    }

    fn divided(&self) -> MutexGuard<'_, Divided> {
        // A division that a panic left half changed holds back more than it must, and never less.
        self.divided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn least_clients(&self, now: Timestamp) -> usize {
        let (until, clients) = self.learning;
        if now < until { clients } else { 1 }
    }
}

impl Divided {
    /// Returns the division of a key. `None`: there are too many.
    fn of(&mut self, key: &[u8], quota: Quota, now: Timestamp) -> Option<&mut Division> {
        if !self.divisions.contains_key(key) {
            if self.divisions.len() >= self.sweep_at {
                self.divisions.retain(|_, division| !division.is_idle(now));
                self.sweep_at = (2 * self.divisions.len()).max(1024);
            }
            if self.divisions.len() >= MAX_DIVISIONS {
                return None;
            }
            self.divisions.insert(key.into(), Division::new(quota, now));
        }
        self.divisions.get_mut(key)
    }
}

/// The buckets of one Envoy. When it is dropped, they are no longer reported.
#[derive(Debug)]
pub(crate) struct QuotaStream {
    quotas: Arc<Quotas>,
    buckets: HashMap<Bucket, Held>,
}

/// A bucket that has a part of a limit.
#[derive(Debug)]
struct Held {
    division: Box<[u8]>,
    holder: Holder,
    /// When there was a request.
    busy_at: Timestamp,
}

impl QuotaStream {
    /// Takes what an Envoy reports about a bucket, and returns what it may do. `None`: Envoy goes on with what it has, or else with
    /// what its configuration says.
    pub(crate) fn report(
        &mut self,
        limits: &DecideLimits,
        domain: &str,
        bucket: &Bucket,
        usage: Usage,
    ) -> Option<Answer> {
        let mut entries: Vec<_> = bucket
            .iter()
            .map(|(key, value)| DescriptorEntry { key, value })
            .collect();
        let is_long = |entry: &DescriptorEntry<'_>| entry.key.len() + entry.value.len() > MAX_ENTRY;
        if entries.len() > MAX_ENTRIES || entries.iter().any(is_long) {
            return self.leave(bucket, true);
        }
        let Some(rule) = limits.find_in_any_order(domain, &mut entries) else {
            limits.counts().unmatched();
            self.leave(bucket, false);
            return Some(Answer::AllowAll);
        };
        if rule.is_unlimited() {
            self.leave(bucket, false);
            return Some(Answer::AllowAll);
        }
        if rule.admits_nothing() {
            self.leave(bucket, false);
            return Some(Answer::Assign(Assignment::DenyAll));
        }
        let Some(quota) = rule.assigned_quota() else {
            // The limit is decided by requests. Parts of it would come on top.
            return self.leave(bucket, true);
        };
        let key = division_key(rule, &rule.key(&entries));
        let now = limits.time().clock().now();
        self.held(rule, quota, bucket, key, usage, now)
    }

    fn held(
        &mut self,
        rule: &Rule,
        quota: Quota,
        bucket: &Bucket,
        key: Box<[u8]>,
        usage: Usage,
        now: Timestamp,
    ) -> Option<Answer> {
        let is_other = |held: &Held| held.division != key;
        if self.buckets.get(bucket).is_some_and(is_other) {
            self.leave(bucket, false);
        }
        let is_busy = usage.allowed > 0 || usage.denied > 0;
        let is_known = self.buckets.contains_key(bucket);
        if !is_known && self.buckets.len() >= MAX_QUOTA_BUCKETS {
            return self.leave(bucket, true);
        }
        let mut divided = self.quotas.divided();
        let holder = match self.buckets.get_mut(bucket) {
            Some(held) => {
                if is_busy {
                    held.busy_at = now;
                } else if now.saturating_duration_since(held.busy_at) >= ABANDON_AFTER {
                    drop(divided);
                    self.leave(bucket, false);
                    return Some(Answer::Abandon);
                }
                held.holder
            }
            None => {
                divided.next += 1;
                divided.next
            }
        };
        let least = self.quotas.least_clients(now);
        let Some(division) = divided.of(&key, quota, now) else {
            drop(divided);
            return self.leave(bucket, true);
        };
        let (assignment, beyond) = division.report(now, holder, usage, quota, least);
        if let Some(reports) = rule.reports() {
            reports.add(usage, beyond);
        }
        if !is_known {
            let held = Held {
                division: key,
                holder,
                busy_at: now,
            };
            self.buckets.insert(bucket.clone(), held);
        }
        Some(Answer::Assign(assignment)).filter(|_| assignment != Assignment::Keep)
    }

    /// Forgets a bucket. Returns no answer, which is counted if there should have been one.
    fn leave(&mut self, bucket: &Bucket, is_refused: bool) -> Option<Answer> {
        if let Some(held) = self.buckets.remove(bucket) {
            end(&mut self.quotas.divided(), &held);
        }
        if is_refused {
            self.quotas.unanswered.fetch_add(1, Relaxed);
        }
        None
    }
}

impl Drop for QuotaStream {
    fn drop(&mut self) {
        let mut divided = self.quotas.divided();
        for held in self.buckets.values() {
            end(&mut divided, held);
        }
        drop(divided);
        self.quotas.streams.fetch_sub(1, Relaxed);
    }
}

fn end(divided: &mut Divided, held: &Held) {
    if let Some(division) = divided.divisions.get_mut(&held.division) {
        division.end(held.holder);
    }
}

/// A limit and a key of it. No two are alike.
fn division_key(rule: &Rule, key: &Key<'_>) -> Box<[u8]> {
    let id = rule.id().as_bytes();
    let length = (id.len() as u64).to_be_bytes();
    [&length, id, &key.bytes()].concat().into()
}
