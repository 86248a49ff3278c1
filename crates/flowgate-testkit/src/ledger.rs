//! What several processes, or threads, were admitted in real time, and how close it came to a bound.

use crate::allowance::{Allowance, Tightest};
use crate::promise::TimedGrant;
use flowgate::Quota;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One admission, in nanoseconds since the ledger began.
///
/// The units were taken between the two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The number of the process that asked.
    pub node: usize,
    /// The units that it was admitted.
    pub units: u64,
    /// When it asked.
    pub asked_ns: u64,
    /// When it was answered.
    pub answered_ns: u64,
    /// Whether the process decided alone, without the store that all of them share.
    pub is_alone: bool,
}

/// All admissions of one limit, on one monotonic clock.
///
/// ```
/// use flowgate::{Quota, TokenBucket};
/// use flowgate_testkit::allowance::Allowance;
/// use flowgate_testkit::ledger::Ledger;
///
/// let quota: Quota = "1000/s burst 10".parse()?;
/// let (bucket, ledger) = (TokenBucket::new(quota), Ledger::new());
/// for _ in 0..100 {
///     let _ = ledger.note(0, 1, |_| false, || bucket.try_acquire());
/// }
/// assert!(ledger.admissions().len() >= 10);
/// let tightest = ledger.tightest(quota, Allowance::new(quota)).expect("admissions");
/// assert!(tightest.over() <= 0, "{tightest}");
/// # Ok::<_, flowgate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct Ledger {
    start: Instant,
    admissions: Mutex<Vec<LedgerEntry>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Begins an empty ledger.
    pub fn new() -> Self {
        Self::since(Instant::now())
    }

    /// Begins an empty ledger whose clock began at `start`. So the times of several ledgers can be compared.
    pub fn since(start: Instant) -> Self {
        Self {
            start,
            admissions: Mutex::default(),
        }
    }

    /// Asks for `units` in the name of a process, and notes the admission.
    ///
    /// `is_alone` returns whether the process has decided without the store.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub fn note<T, E>(
        &self,
        node: usize,
        units: u64,
        is_alone: impl FnOnce(&T) -> bool,
        ask: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let asked_ns = self.now_ns();
        let admitted = ask()?;
        let admission = LedgerEntry {
            node,
            units,
            asked_ns,
            answered_ns: self.now_ns(),
            is_alone: is_alone(&admitted),
        };
        self.noted().push(admission);
        Ok(admitted)
    }

    /// Returns the time since the ledger began.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns all admissions so far.
    pub fn admissions(&self) -> Vec<LedgerEntry> {
        self.noted().clone()
    }

    /// Returns the interval that comes closest to `allowance`, or exceeds it most.
    ///
    /// It is not known when units were taken: at the earliest when they were asked for. So the longest time that an answer has taken adds to
    /// each interval, and a thousandth of everything, because the clock of the store may run faster. Returns `None` if nothing was
    /// admitted.
    pub fn tightest(&self, quota: Quota, allowance: Allowance) -> Option<Tightest> {
        let mut admissions = self.admissions();
        admissions.sort_by_key(|one| one.answered_ns);
        let longest = admissions.iter().map(|one| one.answered_ns - one.asked_ns);
        let longest = longest.max()?;
        let grants = admissions.iter();
        let grants = grants.map(|one| TimedGrant::new(one.answered_ns, one.units));
        let drift = self.possible(quota).div_ceil(1_000);
        let allowance = allowance.lead(longest).plus(drift);
        allowance.tightest(&grants.collect::<Vec<_>>())
    }

    /// Returns the burst, and what flowed back until the last admission.
    pub fn possible(&self, quota: Quota) -> u64 {
        let last_ns = self.noted().iter().map(|one| one.answered_ns).max();
        let units = u128::from(last_ns.unwrap_or(0)) * u128::from(quota.count());
        let flowed = units / quota.period().as_nanos();
        let flowed = u64::try_from(flowed).unwrap_or(u64::MAX);
        quota.max_burst().saturating_add(flowed)
    }

    /// Adds what each of `nodes` processes may have admitted alone.
    ///
    /// The share of each is one `nodes`th of the quota.
    pub fn shares(&self, mut allowance: Allowance, quota: Quota, nodes: u32) -> Allowance {
        let burst = quota.max_burst() / u64::from(nodes);
        for node in 0..nodes as usize {
            let admissions = self.noted();
            let alone = |one: &&LedgerEntry| one.node == node && one.is_alone;
            let mut alone = admissions.iter().filter(alone);
            if let Some(first) = alone.next() {
                let last = alone.next_back().unwrap_or(first);
                let (from, to) = (first.asked_ns, last.answered_ns);
                allowance = allowance.once(burst, from, to).flow([1, nodes], from, to);
            }
        }
        allowance
    }

    fn noted(&self) -> MutexGuard<'_, Vec<LedgerEntry>> {
        self.admissions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
