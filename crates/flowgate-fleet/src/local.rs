use crate::FleetBuilder;
use crate::bucket::Bucket;
use crate::call::{Call, Failure, Reply, Request};
use crate::kept::{Foreign, Kept};
use crate::record::Record;
use crate::redis::{Answer, Unanswered, foreign};
use flowgate::{Clock, Timestamp};
use redis::{ErrorKind, RedisResult};
use std::collections::HashMap;
use std::fmt;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Records of paid debts are removed when there are twice as many records as after the last time, and at least this many.
const FEW: usize = 1_000;
/// A store that is full is looked through for paid debts this often.
const LOOKED_THROUGH_US: u64 = 1_000_000;

/// A store in this process, for a decision server and for tests of outages.
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
    /// The Unix time at the origin of the clock.
    origin: Duration,
    most_records: usize,
    records: Arc<Mutex<Records>>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Records {
    kept: HashMap<Record, Kept>,
    /// How many there were after the paid ones were removed.
    unpaid: usize,
    /// It was full, and is not looked through again before this.
    full_until_us: u64,
}

impl LocalStore {
    /// Creates a store without records.
    ///
    /// `clock` is the store's. Its fleets have it too, unless [`FleetBuilder::clock`] is called.
    pub fn new(clock: impl Into<Clock>) -> Self {
        Self {
            clock: clock.into(),
            origin: Duration::ZERO,
            most_records: usize::MAX,
            records: Arc::default(),
            is_stopped: Arc::default(),
        }
    }

    /// Aligns windows to Unix time, as Redis does. Otherwise, they are aligned to the origin of the store's clock.
    ///
    /// The system's wall clock is read once, now. If it is set later, that changes nothing.
    #[must_use]
    pub fn align_to_wall(mut self) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let passed = self
            .clock
            .now()
            .saturating_duration_since(Timestamp::ORIGIN);
        self.origin = unix.unwrap_or_default().saturating_sub(passed);
        self
    }

    /// Sets how many records the store keeps at most (default: no bound).
    ///
    /// A record is a limit, or a key of one, that is not fully refilled. It takes about 500 bytes. Requests for more records are refused as
    /// by a store whose memory is full: processes decide them alone.
    ///
    /// ```
    /// use flowgate_fleet::{CutOff, LocalStore};
    ///
    /// let fleet = LocalStore::new(flowgate::Clock::system()).capacity(1).fleet().open()?;
    /// let users = fleet.keyed("user", "2/day".parse()?).when_cut_off(CutOff::Deny).build()?;
    /// assert!(users.ask("alice").block().is_ok());
    /// assert!(users.ask("bob").block().unwrap_err().is_outage());
    /// assert!(users.ask("alice").block().is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn capacity(mut self, records: usize) -> Self {
        self.most_records = records;
        self
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
        let now_us = self.clock.now().as_nanos() / 1_000 + self.origin.as_micros() as u64;
        let mut records = self.records();
        if !records.has_room(request, now_us, self.most_records) {
            let why = format!("it keeps {} records, and no more", self.most_records);
            return Err(Unanswered::Failed(Failure::Refused(why)));
        }
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

    /// Returns whether there is room for what the request may add.
    fn has_room(&mut self, request: &Request, now_us: u64, most: usize) -> bool {
        let calls = match request {
            Request::Take(call) => slice::from_ref(call),
            Request::TakeAll(calls) => calls,
            Request::GiveBack(_) => &[],
        };
        if calls.len() <= most.saturating_sub(self.kept.len()) {
            return true;
        }
        // A call that only looks adds none.
        let adds = |call: &Call| !call.runs.is_empty() || call.seen.debt > 0;
        let is_new = |call: &&Call| adds(call) && !self.kept.contains_key(&call.record);
        let more = calls.iter().filter(is_new).count();
        if more == 0 || self.kept.len() + more <= most {
            return true;
        }
        // Looking through all of them for each request would be too much.
        if now_us < self.full_until_us {
            return false;
        }
        self.remove_paid(now_us);
        self.full_until_us = now_us + LOOKED_THROUGH_US;
        self.kept.len() + more <= most
    }

    fn remove_paid(&mut self, now_us: u64) {
        self.kept.retain(|_, kept| !kept.is_paid(now_us));
        self.unpaid = self.kept.len();
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
            self.remove_paid(now_us);
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

    #[test]
    fn a_full_store_refuses_new_records_until_old_ones_are_paid() {
        let time = ManualClock::new();
        let local = LocalStore::new(&time).capacity(2);
        let terms = Terms::of("1/s".parse().expect("a quota")).expect("it is exact");
        let take = |key: u8| {
            let call = Call {
                record: Record::of("keys", &[key]),
                terms,
                seen: Seen::default(),
                runs: vec![Run::of(1, 1)],
            };
            local
                .answer(&Request::Take(call))
                .map(|replies| replies[0].taken[0])
        };
        assert_eq!((take(0), take(1)), (Ok(1), Ok(1)));
        assert!(take(2).is_err());
        assert_eq!(take(0), Ok(0));
        let look = Call {
            record: Record::of("keys", &[2]),
            terms,
            seen: Seen::default(),
            runs: Vec::new(),
        };
        assert!(local.answer(&Request::Take(look)).is_ok());
        time.advance(Duration::from_secs(1));
        assert_eq!(take(2), Ok(1));
    }
}
