use crate::FleetBuilder;
use crate::bucket::Bucket;
use crate::call::{Call, Reply, Request};
use crate::record::Record;
use flowgate::Clock;
use redis::{ErrorKind, RedisResult};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records of paid debts are removed when there are twice as many records as after the last time, and at least this many.
const FEW: usize = 1_000;

/// A store in this process, for tests of several processes and of outages.
///
/// It decides exactly as Redis or Valkey with the script does. [`Fleet::local`](crate::Fleet::local) is enough for one process without
/// outages.
///
/// ```
/// use flowgate::ManualClock;
/// use flowgate_fleet::LocalStore;
///
/// let time = ManualClock::new();
/// let store = LocalStore::new(&time);
/// let process = || store.fleet().nodes(2).open();
/// let (one, other) = (process()?, process()?);
/// let [one, other] = [one, other].map(|fleet| fleet.limit("api", "4/day".parse().unwrap()).build());
/// let (one, other) = (one?, other?);
///
/// assert!(one.ask().n(4).block().is_ok());
/// assert!(other.ask().block().is_err());
/// store.stop();
/// time.advance(std::time::Duration::from_secs(86_400 / 2)); // half of it flows back
/// assert!(other.ask().n(2).block()?.is_degraded()); // its share
/// assert!(other.ask().n(1).block().unwrap_err().is_outage());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LocalStore {
    clock: Clock,
    records: Arc<Mutex<Records>>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Records {
    buckets: HashMap<Record, Bucket>,
    /// How many there were after the paid ones were removed.
    unpaid: usize,
}

impl LocalStore {
    /// Creates a store without records.
    ///
    /// `clock` is the store's. Its fleets have it too, unless [`FleetBuilder::clock`] is called.
    pub fn new(clock: impl Into<Clock>) -> Self {
        Self {
            clock: clock.into(),
            records: Arc::default(),
            is_stopped: Arc::default(),
        }
    }

    /// Returns a builder for a fleet whose limits are kept in this store.
    ///
    /// Each fleet stands for one process.
    pub fn fleet(&self) -> FleetBuilder {
        FleetBuilder::in_process(self.clone())
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Lets no process reach the store.
    ///
    /// A process notices it with its next call, which ends without an answer and takes nothing.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Lets processes reach the store again.
    ///
    /// They try to connect at intervals of 100 ms of real time, or less: wait for [`Fleet::ready`](crate::Fleet::ready).
    pub fn start(&self) {
        self.is_stopped.store(false, Ordering::SeqCst);
    }

    /// Loses all records, as a restart without persistence does.
    pub fn forget(&self) {
        *self.records() = Records::default();
    }

    /// # Errors
    ///
    /// The store was stopped.
    pub(crate) fn reach(&self) -> RedisResult<()> {
        if self.is_stopped.load(Ordering::SeqCst) {
            return Err((ErrorKind::Io, "the store was stopped").into());
        }
        Ok(())
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a request. Returns a reply for each record.
    pub(crate) fn replies(&self, request: &Request) -> Vec<Reply> {
        let now_us = self.clock.now().as_nanos() / 1_000;
        let mut records = self.records();
        match request {
            Request::Take(call) => {
                let taken = Bucket::take(records.get(call.record), now_us, call);
                vec![records.keep(call.record, now_us, taken)]
            }
            Request::TakeAll(calls) => {
                let stored: Vec<_> = calls.iter().map(|call| records.get(call.record)).collect();
                let taken = Bucket::take_all(&stored, now_us, calls);
                let keep = |(call, taken): (&Call, _)| records.keep(call.record, now_us, taken);
                calls.iter().zip(taken).map(keep).collect()
            }
            Request::GiveBack(back) => {
                let given = Bucket::give_back(records.get(back.record), now_us, back);
                vec![records.keep(back.record, now_us, given)]
            }
        }
    }
}

impl Records {
    fn get(&self, record: Record) -> Option<Bucket> {
        self.buckets.get(&record).copied()
    }

    /// Stores what a request has changed, and returns the reply.
    fn keep(
        &mut self,
        record: Record,
        now_us: u64,
        (reply, bucket): (Reply, Option<Bucket>),
    ) -> Reply {
        if let Some(bucket) = bucket {
            self.buckets.insert(record, bucket);
        }
        if self.buckets.len() > 2 * self.unpaid.max(FEW) {
            self.buckets.retain(|_, bucket| !bucket.is_paid(now_us));
            self.unpaid = self.buckets.len();
        }
        reply
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Run, Seen};
    use crate::terms::Terms;
    use flowgate::ManualClock;
    use std::time::Duration;

    #[test]
    fn records_of_paid_debts_do_not_pile_up() {
        let time = ManualClock::new();
        let local = LocalStore::new(&time);
        let terms = Terms::of("1/s".parse().expect("a quota")).expect("it is exact");
        for key in 0..100_000_u32 {
            let call = Call {
                record: Record::of("keys", &key.to_le_bytes()),
                terms,
                seen: Seen::default(),
                runs: vec![Run::of(1, 1)],
            };
            assert_eq!(local.replies(&Request::Take(call))[0].taken, [1]);
            time.advance(Duration::from_millis(1));
        }
        // 1,000 keys have debt at a time.
        assert!(local.records.lock().expect("unharmed").buckets.len() <= 2 * 1_002);
    }
}
