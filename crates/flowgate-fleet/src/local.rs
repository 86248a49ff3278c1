use crate::FleetBuilder;
use crate::bucket::Bucket;
use crate::call::{Call, Failure, Reply, Request};
use crate::kept::{Foreign, Kept};
use crate::record::Record;
use crate::redis::{Answer, Unanswered, foreign};
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
    kept: HashMap<Record, Kept>,
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
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let now_us = self.clock.now().as_nanos() / 1_000;
        let mut records = self.records();
        match request {
            Request::Take(call) => {
                let stored = records.get(call.record);
                let taken =
                    Kept::take(stored, now_us, call).map_err(|Foreign| refused(call.record))?;
                Ok(vec![records.keep(call.record, now_us, taken)])
            }
            Request::TakeAll(calls) => {
                let stored = calls.iter().map(|call| records.bucket(call.record));
                let stored: Vec<_> = stored.collect::<Result<_, _>>()?;
                let taken = Bucket::take_all(&stored, now_us, calls);
                let keep = |(call, (reply, bucket)): (&Call, (_, Option<Bucket>))| {
                    records.keep(call.record, now_us, (reply, bucket.map(Kept::Bucket)))
                };
                Ok(calls.iter().zip(taken).map(keep).collect())
            }
            Request::GiveBack(back) => {
                let stored = records.bucket(back.record)?;
                let (reply, bucket) = Bucket::give_back(stored, now_us, back);
                Ok(vec![records.keep(
                    back.record,
                    now_us,
                    (reply, bucket.map(Kept::Bucket)),
                )])
            }
        }
    }
}

/// The store's refusal of a request, because of a record of another kind.
fn refused(record: Record) -> Unanswered {
    Unanswered::Failed(Failure::Refused(foreign(record)))
}

impl Records {
    fn get(&self, record: Record) -> Option<Kept> {
        self.kept.get(&record).copied()
    }

    fn bucket(&self, record: Record) -> Result<Option<Bucket>, Unanswered> {
        match self.get(record) {
            None => Ok(None),
            Some(Kept::Bucket(bucket)) => Ok(Some(bucket)),
            Some(Kept::Window(_)) => Err(refused(record)),
        }
    }

    /// Stores what a request has changed, and returns the reply.
    fn keep(&mut self, record: Record, now_us: u64, (reply, kept): (Reply, Option<Kept>)) -> Reply {
        if let Some(kept) = kept {
            self.kept.insert(record, kept);
        }
        if self.kept.len() > 2 * self.unpaid.max(FEW) {
            self.kept.retain(|_, kept| !kept.is_paid(now_us));
            self.unpaid = self.kept.len();
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
            let reply = local.answer(&Request::Take(call)).expect("a reply");
            assert_eq!(reply[0].taken, [1]);
            time.advance(Duration::from_millis(1));
        }
        // 1,000 keys have debt at a time.
        assert!(local.records.lock().expect("unharmed").kept.len() <= 2 * 1_002);
    }
}
