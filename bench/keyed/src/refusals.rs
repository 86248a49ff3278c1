//! False refusals: what becomes of keys when more of them are live than the table has room for.
//!
//! Beside the table stand two `TokenBucket`s for each key. One decides by itself: where the table refuses what
//! it admits, the refusal is false. The other takes exactly what the table admitted: if it has not got that,
//! the table has broken the promise of the key's limit.

use std::fmt::Write as _;
use std::thread;

use flowgate::{Quota, Timestamp, TokenBucket};
use serde::Serialize;

use crate::ours::{self, Ours, Policy};
use crate::random::{Random, nth};
use crate::shared::outcome::Verdict;

/// Live keys, as multiples of the capacity.
const LOADS: [f64; 5] = [1.0, 1.25, 1.5, 2.0, 4.0];

/// Limit of each key: 1/s with this burst.
const BURST: u64 = 10;

/// Calls of each key a second, at random times. A key is live while its bucket is not full, which at this
/// rate is so for as large a share of the time.
const CALLS_PER_S: f64 = 0.8;

const SECOND_NS: u64 = 1_000_000_000;

/// Simulated seconds: until keys come and go evenly, and then while calls are counted.
const SETTLE_S: u64 = 20;
const COUNT_S: u64 = 20;

/// One policy at one load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    /// Live keys over capacity: meant, and found at the end.
    pub load: f64,
    pub live: f64,
    pub capacity: usize,
    pub keys: usize,
    pub calls: u64,
    pub refused: u64,
    pub falsely_refused: u64,
    /// Of all keys, those that were refused falsely at least once.
    pub keys_affected: u64,
    /// More than the key's own limit allows; also while settling.
    pub wrongly_admitted: u64,
    /// May it let in more than a key's own limit? If all that find no slot share one, it does.
    pub shares: bool,
}

/// Every policy at every load. The times are simulated, so it is the same in every run.
pub fn measure(quick: bool) -> Vec<Row> {
    let capacity = if quick { 2_000 } else { 100_000 };
    let loads = || LOADS.into_iter();
    // Nothing is timed, so one thread for each policy.
    thread::scope(|scope| {
        let policies = [
            scope.spawn(move || {
                loads()
                    .map(|load| row::<ours::Evict>(load, capacity))
                    .collect()
            }),
            scope.spawn(move || {
                loads()
                    .map(|load| row::<ours::Deny>(load, capacity))
                    .collect()
            }),
            scope.spawn(move || {
                loads()
                    .map(|load| row::<ours::Share>(load, capacity))
                    .collect()
            }),
        ];
        let rows = policies.map(|policy| -> Vec<Row> { policy.join().expect("a policy panicked") });
        rows.concat()
    })
}

fn row<P: Policy>(load: f64, capacity: usize) -> Row {
    let quota = Quota::per_second(1).burst(BURST);
    let table = Ours::<P>::new(quota, capacity);
    let capacity = table.capacity();
    let keys = (load * capacity as f64 / CALLS_PER_S) as usize;
    let buckets = || (0..keys).map(|_| TokenBucket::new(quota)).collect();
    let (exact, granted): (Vec<TokenBucket>, Vec<TokenBucket>) = (buckets(), buckets());
    let mut affected = vec![false; keys];

    let calls_per_s = (keys as f64 * CALLS_PER_S) as u64;
    let mut random = Random::new(keys as u64);
    let mut row = Row {
        policy: P::NAME,
        load,
        live: 0.0,
        capacity,
        keys,
        calls: 0,
        refused: 0,
        falsely_refused: 0,
        keys_affected: 0,
        wrongly_admitted: 0,
        shares: P::SHARES,
    };
    let start_ns = 1_000 * SECOND_NS;
    let mut now = Timestamp::from_nanos(start_ns);
    for call in 0..(SETTLE_S + COUNT_S) * calls_per_s {
        let since_ns = u128::from(call) * u128::from(SECOND_NS) / u128::from(calls_per_s);
        now = Timestamp::from_nanos(start_ns + since_ns as u64);
        let at = random.below(keys);
        let would_admit = exact[at].at(now).try_acquire().is_ok();
        let admitted = table.try_acquire_at(&nth(at as u64), now).is_ok();
        if admitted && granted[at].at(now).try_acquire().is_err() {
            row.wrongly_admitted += 1;
        }
        if call >= SETTLE_S * calls_per_s {
            row.calls += 1;
            row.refused += u64::from(!admitted);
            if would_admit && !admitted {
                row.falsely_refused += 1;
                affected[at] = true;
            }
        }
    }
    let live = exact
        .iter()
        .filter(|bucket| bucket.at(now).available() < BURST);
    row.live = live.count() as f64 / capacity as f64;
    row.keys_affected = affected.iter().map(|&affected| u64::from(affected)).sum();
    row
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\nfalse refusals: each key 1/s, burst {BURST}, called {CALLS_PER_S} times a second at random; simulated \
         time\n  {:<20} {:>10} {:>10} {:>10} {:>10} {:>16} {:>14} {:>16}\n",
        "",
        "live/cap.",
        "found",
        "keys",
        "refused",
        "falsely refused",
        "keys affected",
        "wrongly let in"
    );
    for row in rows {
        let percent = |count: u64, of: u64| 100.0 * count as f64 / of.max(1) as f64;
        let _ = writeln!(
            text,
            "  {:<20} {:>10.2} {:>10.3} {:>10} {:>8.2} % {:>14.4} % {:>12.3} % {:>16}",
            row.policy,
            row.load,
            row.live,
            row.keys,
            percent(row.refused, row.calls),
            percent(row.falsely_refused, row.calls),
            percent(row.keys_affected, row.keys as u64),
            row.wrongly_admitted,
        );
    }
    text
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let keeping = rows.iter().filter(|row| !row.shares);
    let wrongly = keeping.map(|row| row.wrongly_admitted).reduce(u64::max);
    let goal =
        "false refusals: nobody gets more than an exact limiter gives (unless keys share a limit)";
    Verdict::at_most(
        goal.to_owned(),
        wrongly.map(|count| count as f64),
        0.0,
        " let in",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_room_for_twice_as_many_nobody_is_refused_without_need() {
        let row = row::<ours::Evict>(0.5, 1_000);
        assert!((row.live - 0.5).abs() < 0.05, "{}", row.live);
        assert_eq!((row.falsely_refused, row.wrongly_admitted), (0, 0));
        assert!(row.refused > 0);
    }

    #[test]
    fn without_room_some_are_and_the_numbers_are_the_same_again() {
        let numbers = || {
            let row = row::<ours::Evict>(4.0, 500);
            (
                row.refused,
                row.falsely_refused,
                row.keys_affected,
                row.wrongly_admitted,
            )
        };
        let (_, falsely_refused, _, wrongly_admitted) = numbers();
        assert!(falsely_refused > 0);
        assert_eq!(wrongly_admitted, 0);
        assert_eq!(numbers(), numbers());
    }
}
