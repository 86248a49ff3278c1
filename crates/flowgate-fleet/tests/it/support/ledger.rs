//! What was admitted, and by how much that exceeds a quota in the worst interval.

use flowgate::Quota;
use std::sync::Mutex;
use std::time::Instant;

/// The admissions of all processes. Each happened between two moments.
pub struct Ledger {
    begin: Instant,
    /// When it was asked for and when it was answered, in nanoseconds, and its units.
    admitted: Mutex<Vec<(u64, u64, u64)>>,
}

impl Ledger {
    pub fn new() -> Self {
        Self {
            begin: Instant::now(),
            admitted: Mutex::default(),
        }
    }

    /// Makes a request for `units`, and notes it if it is admitted.
    pub fn note<T, E>(&self, units: u64, ask: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let asked = self.begin.elapsed().as_nanos() as u64;
        let answer = ask();
        let answered = self.begin.elapsed().as_nanos() as u64;
        if answer.is_ok() {
            self.admitted.lock().unwrap().push((asked, answered, units));
        }
        answer
    }

    /// Returns the largest excess over `burst + rate × t` of all intervals, in units, rounded down. Only what was asked for and answered
    /// within an interval counts.
    pub fn excess(&self, quota: Quota) -> i64 {
        let mut admitted = self.admitted.lock().unwrap().clone();
        admitted.sort_by_key(|&(_, answered, _)| answered);
        let per_ns = quota.count() as f64 / quota.period().as_nanos() as f64;
        let mut worst = -(quota.max_burst() as f64);
        let mut begins: Vec<u64> = admitted.iter().map(|&(asked, ..)| asked).collect();
        begins.sort_unstable();
        // In every interval that begins with a request and ends with an answer.
        for begin in begins {
            let mut units = 0;
            for &(asked, answered, n) in &admitted {
                if asked >= begin {
                    units += n;
                    let allowed = quota.max_burst() as f64 + per_ns * (answered - begin) as f64;
                    worst = worst.max(units as f64 - allowed);
                }
            }
        }
        worst.floor() as i64
    }
}
