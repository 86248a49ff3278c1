//! Processes that ask as often as they may, and a ledger of what they were admitted.

use super::until;
use flowgate::Quota;
use flowgate_fleet::{Admitted, CutOff, Fleet};
use flowgate_testkit::allowance::{Allowance, Tightest};
use flowgate_testkit::ledger::{self, LedgerEntry};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What all processes were admitted, in the order of the answers.
pub struct Ledger {
    ledger: ledger::Ledger,
    quota: Quota,
    is_over: AtomicBool,
}

impl Ledger {
    /// Lets each fleet be a process that asks for one unit after the other, while `during` runs.
    pub fn of(
        fleets: &[Fleet],
        quota: &str,
        cut_off: CutOff,
        during: impl FnOnce(&Ledger),
    ) -> Ledger {
        let during = |ledgers: &[Self]| during(&ledgers[0]);
        let mut ledgers = Self::of_keys(fleets, quota, cut_off, &[""], during);
        ledgers.pop().expect("a key")
    }

    /// The same with a ledger for each key.
    pub fn of_keys(
        fleets: &[Fleet],
        quota: &str,
        cut_off: CutOff,
        keys: &[&str],
        during: impl FnOnce(&[Ledger]),
    ) -> Vec<Ledger> {
        let start = Instant::now();
        let quota: Quota = quota.parse().expect("a quota");
        let ledger = |_: &&str| Self::from(start, quota);
        let ledgers: Vec<Self> = keys.iter().map(ledger).collect();
        thread::scope(|scope| {
            for (node, fleet) in fleets.iter().enumerate() {
                let ledgers = &ledgers;
                scope.spawn(move || {
                    let builder = fleet.keyed("api.user", quota).when_cut_off(cut_off);
                    let limit = builder.build().expect("a limit");
                    while !ledgers[0].is_over.load(Ordering::Relaxed) {
                        let mut refused = 0;
                        for (key, ledger) in keys.iter().zip(ledgers) {
                            let answer = ledger.note_of(node, 1, || limit.ask(key).block());
                            refused += u64::from(answer.is_err());
                        }
                        if refused > 0 {
                            thread::sleep(Duration::from_micros(fastrand::u64(500..1_500)));
                        }
                    }
                });
            }
            // The others end even if this panics.
            let end = End(&ledgers[0]);
            during(&ledgers);
            drop(end);
        });
        ledgers
    }

    /// Begins an empty one.
    pub fn new(quota: Quota) -> Self {
        Self::from(Instant::now(), quota)
    }

    fn from(start: Instant, quota: Quota) -> Self {
        Self {
            ledger: ledger::Ledger::since(start),
            quota,
            is_over: AtomicBool::new(false),
        }
    }

    /// Makes a request for `units`, and notes it if it is admitted.
    pub fn note<E>(
        &self,
        units: u64,
        ask: impl FnOnce() -> Result<Admitted, E>,
    ) -> Result<Admitted, E> {
        self.note_of(0, units, ask)
    }

    fn note_of<E>(
        &self,
        node: usize,
        units: u64,
        ask: impl FnOnce() -> Result<Admitted, E>,
    ) -> Result<Admitted, E> {
        let is_alone = |admitted: &Admitted| admitted.is_degraded();
        self.ledger.note(node, units, is_alone, ask)
    }

    pub fn now_ns(&self) -> u64 {
        self.ledger.now_ns()
    }

    pub fn admissions(&self) -> Vec<LedgerEntry> {
        self.ledger.admissions()
    }

    /// Returns when the store's admissions that were asked for after `from_ns` were answered.
    pub fn by_store(&self, from_ns: u64) -> Vec<u64> {
        let admissions = self.admissions();
        let by_store = admissions
            .iter()
            .filter(|one| !one.is_alone && one.asked_ns >= from_ns);
        by_store.map(|one| one.answered_ns).collect()
    }

    /// Waits until the store has admitted `units` that were asked for from now on. Returns when the first of them was answered.
    pub fn progress(&self, units: usize) -> u64 {
        let from_ns = self.now_ns();
        until("the store admits nothing", || {
            self.by_store(from_ns).len() >= units
        });
        self.by_store(from_ns)[0]
    }

    /// Waits until a process decides alone.
    pub fn alone(&self) {
        let alone = || self.admissions().iter().filter(|one| one.is_alone).count();
        let before = alone();
        until("no process decides alone", || alone() > before);
    }

    /// Returns the largest excess over `burst + rate × t` of all intervals, in units, rounded down. Only what was asked for and answered
    /// within an interval counts.
    pub fn excess(&self) -> i64 {
        let quota = self.quota;
        let mut admitted = self.admissions();
        admitted.sort_by_key(|one| one.answered_ns);
        let per_ns = quota.count() as f64 / quota.period().as_nanos() as f64;
        let mut worst = -(quota.max_burst() as f64);
        let mut begins: Vec<u64> = admitted.iter().map(|one| one.asked_ns).collect();
        begins.sort_unstable();
        // In every interval that begins with a request and ends with an answer.
        for begin in begins {
            let mut units = 0;
            for one in &admitted {
                if one.asked_ns >= begin {
                    units += one.units;
                    let passed = one.answered_ns - begin;
                    let allowed = quota.max_burst() as f64 + per_ns * passed as f64;
                    worst = worst.max(units as f64 - allowed);
                }
            }
        }
        worst.floor() as i64
    }

    /// Checks every interval against burst + rate × length, `amnesias` bursts, and what `allow` adds. Prints how much was admitted, of what
    /// was possible without a fault.
    pub fn check(&self, what: &str, amnesias: u64, allow: impl Fn(Allowance) -> Allowance) {
        check_all(std::slice::from_ref(self), what, amnesias, allow);
    }

    fn tightest(&self, amnesias: u64, allow: impl Fn(Allowance) -> Allowance) -> Tightest {
        let allowance = Allowance::new(self.quota).plus(amnesias * self.quota.max_burst());
        let tightest = self.ledger.tightest(self.quota, allow(allowance));
        tightest.expect("there are some")
    }

    /// Adds what each of `nodes` processes may admit alone, with a share of one `nodes`th.
    pub fn shares(&self, allowance: Allowance, nodes: u32) -> Allowance {
        self.ledger.shares(allowance, self.quota, nodes)
    }
}

/// Checks the ledger of each key, and prints the sum and the tightest interval of all.
pub fn check_all(
    ledgers: &[Ledger],
    what: &str,
    amnesias: u64,
    allow: impl Fn(Allowance) -> Allowance,
) {
    let (mut admitted, mut alone, mut possible) = (0, 0, 0);
    for ledger in ledgers {
        let admissions = ledger.admissions();
        admitted += admissions.len() as u64;
        alone += admissions.iter().filter(|one| one.is_alone).count();
        possible += ledger.ledger.possible(ledger.quota);
    }
    let tightest = ledgers
        .iter()
        .map(|ledger| ledger.tightest(amnesias, &allow));
    let tightest = tightest.max_by_key(Tightest::over).expect("there are keys");
    println!(
        "{what}: {admitted} admitted ({alone} alone), {} % of b + r·t; tightest: {tightest}",
        100 * admitted / possible
    );
    assert!(tightest.over() <= 0, "{what}: {tightest}");
}

struct End<'a>(&'a Ledger);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
