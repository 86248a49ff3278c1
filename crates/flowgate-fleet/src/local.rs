use crate::bucket::Bucket;
use crate::call::{Call, Failure, Reply, Request};
use crate::kept::{Foreign, Kept};
use crate::record::Record;
use crate::redis::{Answer, Unanswered, foreign};
use crate::{FleetBuilder, FleetError};
use flowgate::{Clock, Timestamp};
use redis::{ErrorKind, RedisResult};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// Records of paid debts are removed when there are twice as many records as after the last time, and at least this many.
const FEW: usize = 1_000;
/// A store that is full is looked through for paid debts this often.
const LOOKED_THROUGH_US: u64 = 1_000_000;

/// The first line of an export, and the last one.
const EXPORT: &str = "flowgate local store 1\n";
const END: &str = "end\n";

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
    is_paused: watch::Sender<bool>,
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
            is_paused: watch::Sender::new(false),
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

    /// Returns the records of limits that are not full, for [`import`](Self::import).
    ///
    /// They take about 100 bytes each. No name of a limit or a key is among them. Calls that are carried out meanwhile may be missing.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::LocalStore;
    ///
    /// let time = ManualClock::new();
    /// let store = LocalStore::new(&time);
    /// let api = store.fleet().nodes(1).open()?.limit("api", "2/day".parse()?).build()?;
    /// api.ask().n(2).block()?;
    ///
    /// let restarted = LocalStore::new(&time).import(&store.export())?;
    /// let api = restarted.fleet().nodes(1).open()?.limit("api", "2/day".parse()?).build()?;
    /// assert!(api.ask().block().is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(&self) -> String {
        let now_us = self.now_us();
        let mut text = EXPORT.to_owned();
        for (record, kept) in &self.records().kept {
            if !kept.is_paid(now_us) {
                let ([high, low], limit) = (record.key(), record.limit());
                let _ = writeln!(text, "{high:016x} {low:016x} {limit:016x} {kept}");
            }
        }
        text.push_str(END);
        text
    }

    /// Adds the records that another store has exported. What was taken stays taken.
    ///
    /// Records have the other store's time. So both stores are [aligned](Self::align_to_wall), or have the same clock. The time between the
    /// export and now counts as passed.
    ///
    /// # Errors
    ///
    /// Returns [`FleetError::Export`] if `export` is damaged, or of another version.
    pub fn import(self, export: &str) -> Result<Self, FleetError> {
        let lines = export.strip_prefix(EXPORT);
        let lines = lines.and_then(|lines| lines.strip_suffix(END));
        let kept = lines.and_then(|lines| lines.lines().map(line).collect::<Option<Vec<_>>>());
        self.records().kept.extend(kept.ok_or(FleetError::Export)?);
        Ok(self)
    }

    fn now_us(&self) -> u64 {
        self.clock.now().as_nanos() / 1_000 + self.origin.as_micros() as u64
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

    /// Lets calls wait until [`resume`](Self::resume), as a slow store does.
    ///
    /// A call that waits longer than the fleet's [timeout](FleetBuilder::timeout) takes nothing.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{CutOff, LocalStore};
    /// use std::time::Duration;
    ///
    /// let store = LocalStore::new(ManualClock::new());
    /// let fleet = store.fleet().timeout(Duration::from_secs(60)).open()?;
    /// let api = fleet.limit("api", "2/day".parse()?).when_cut_off(CutOff::Admit).build()?;
    /// store.pause();
    /// assert!(api.ask().within(Duration::ZERO).block()?.is_degraded());
    /// store.resume();
    /// assert!(!api.ask().block()?.is_degraded());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self) {
        self.is_paused.send_replace(true);
    }

    /// Lets the store carry out the calls that wait, and later ones.
    pub fn resume(&self) {
        self.is_paused.send_replace(false);
    }

    /// Waits until the store is not paused.
    pub(crate) async fn resumed(&self) {
        // The store has a sender, too.
        let _ = self.is_paused.subscribe().wait_for(|paused| !paused).await;
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
        let now_us = self.now_us();
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

/// Reads a record of an export.
fn line(line: &str) -> Option<(Record, Kept)> {
    let mut words = line.splitn(4, ' ');
    let mut hash = || u64::from_str_radix(words.next()?, 16).ok();
    let (key, limit) = ([hash()?, hash()?], hash()?);
    Some((Record::from_parts(key, limit), Kept::parse(words.next()?)?))
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
    #[test]
    fn c1_what_was_taken_stays_taken_in_another_store() {
        let time = ManualClock::new();
        let [bucket, window] = ["2/h", "2/day"].map(|quota| quota.parse().expect("a quota"));
        let limits = |store: &LocalStore| {
            let fleet = store.fleet().nodes(1).open().expect("a fleet");
            let bucket = fleet.keyed("bucket", bucket).build().expect("a bucket");
            let windows = fleet.keyed_window("window", window).build();
            [bucket, windows.expect("a window")]
        };
        let before = LocalStore::new(&time);
        for limit in limits(&before) {
            assert!(limit.ask("alice").n(2).block().is_ok());
            assert!(limit.ask("bob").block().is_ok());
        }
        time.advance(Duration::from_secs(1));
        let after = LocalStore::new(&time).import(&before.export());
        let after = after.expect("it is whole");
        for limit in limits(&after) {
            assert!(limit.ask("alice").block().is_err());
            assert!(limit.ask("bob").n(2).block().is_err());
            assert!(limit.ask("bob").block().is_ok());
            assert!(limit.ask("carol").n(2).block().is_ok());
        }
        // The time in between counts.
        time.advance(Duration::from_secs(86_400));
        let later = LocalStore::new(&time).import(&after.export());
        assert!(later.expect("it is whole").records().kept.is_empty());
    }

    #[test]
    fn an_export_that_is_not_whole_is_refused() {
        let store = LocalStore::new(ManualClock::new());
        let fleet = store.fleet().nodes(1).open().expect("a fleet");
        let limit = fleet.limit("api", "2/day".parse().expect("a quota"));
        let limit = limit.build().expect("a limit");
        assert!(limit.ask().block().is_ok());
        let export = store.export();
        let read = |text: &str| LocalStore::new(ManualClock::new()).import(text);
        assert!(read(&export).is_ok());
        for length in 0..export.len() {
            assert!(read(&export[..length]).is_err(), "{length}");
        }
        for (from, to) in [("store 1", "store 2"), (" ", ""), (":", "x")] {
            assert!(read(&export.replace(from, to)).is_err(), "{from}");
        }
    }
}
