//! What a key takes: the growth of a process that does nothing but take in new keys.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::keys::{Key, Kind};
use crate::process::{Alone, Job, Resident, Task};
use crate::shared::outcome::Verdict;
use crate::subject::{
    FLOWGATE, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES, Limit, Limits, NOBODY, is_chosen,
};

/// A hash map that doubles stands worst just above a power of two, and best just below one.
const COUNTS: [usize; 2] = [1_000_000, 1_800_000];
const QUICK_COUNTS: [usize; 1] = [200_000];

/// The most that a key of ours may take.
const BYTES_PER_KEY: f64 = 24.0;

/// No key is forgotten meanwhile.
const LIMIT: Limit = Limit {
    count: 1,
    period: Duration::from_secs(3_600),
    burst: 2,
};

/// One limiter that has taken in its keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Filled {
    /// Bytes of the process before the limiter was made.
    pub before: u64,
    pub after: u64,
    /// The most in between: a hash map that doubles has two tables for a while.
    pub most: u64,
    /// What it says it occupies.
    pub told: Option<usize>,
    pub ns_per_insert: f64,
    /// Of the keys.
    pub admitted: u64,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub keys: Kind,
    pub count: usize,
    pub bytes_per_key: f64,
    pub most_bytes_per_key: f64,
    pub told_bytes_per_key: Option<f64>,
    pub ns_per_insert: f64,
    pub admitted_share: f64,
}

/// Takes in `count` keys, each once.
pub fn fill<K: Key, L: Limits<K>>(count: usize) -> Result<Filled, String> {
    let mut key = K::blank();
    // Once before, so that the pages of the program itself are there.
    let few = L::build(LIMIT, 64);
    for n in 0..64 {
        key.become_nth(n);
        few.admit(&key);
    }
    drop(few);
    let before = Resident::read()?;
    let limits = L::build(LIMIT, count);
    let started = Instant::now();
    let mut admitted = 0;
    for n in 0..count as u64 {
        key.become_nth(n);
        admitted += u64::from(limits.admit(&key));
    }
    let elapsed = started.elapsed();
    let after = Resident::read()?;
    Ok(Filled {
        before: before.now,
        after: after.now,
        most: after.most,
        told: limits.told_bytes(),
        ns_per_insert: elapsed.as_nanos() as f64 / count as f64,
        admitted,
    })
}

/// Measures every subject, each in a separate process.
pub fn measure(quick: bool, only: Option<&str>) -> Result<Vec<Row>, String> {
    let counts: &[usize] = if quick { &QUICK_COUNTS } else { &COUNTS };
    let mut rows = Vec::new();
    for keys in Kind::ALL {
        for &count in counts {
            match keys {
                Kind::U64 => rows.extend(measure_with::<u64>(count, only)?),
                Kind::String => rows.extend(measure_with::<String>(count, only)?),
            }
        }
    }
    Ok(rows)
}

fn measure_with<K: Key>(count: usize, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut subjects = K::subjects();
    subjects.retain(|subject| {
        ![NOBODY, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES].contains(&subject.name)
            && is_chosen(subject.name, only)
    });
    let rows = subjects.iter().map(|subject| {
        let job = Job {
            subject: subject.name.to_owned(),
            keys: K::KIND,
            task: Task::Fill { keys: count },
        };
        let filled: Filled = Alone::start(&job)?.answer()?;
        let per_key = |bytes: u64| bytes as f64 / count as f64;
        Ok(Row {
            subject: subject.name,
            keys: K::KIND,
            count,
            bytes_per_key: per_key(filled.after.saturating_sub(filled.before)),
            most_bytes_per_key: per_key(filled.most.saturating_sub(filled.before)),
            told_bytes_per_key: filled.told.map(|bytes| per_key(bytes as u64)),
            ns_per_insert: filled.ns_per_insert,
            admitted_share: filled.admitted as f64 / count as f64,
        })
    });
    rows.collect()
}

pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some((row.keys, row.count)) {
            heading = Some((row.keys, row.count));
            let _ = writeln!(
                text,
                "\nmemory: {} new {} keys, each limiter alone in its process: bytes per key\n  {:<30} {:>9} \
                 {:>9} {:>9} {:>10} {:>10}",
                row.count,
                row.keys.name(),
                "",
                "resident",
                "at most",
                "as told",
                "ns/insert",
                "admitted"
            );
        }
        let told = row.told_bytes_per_key;
        let _ = writeln!(
            text,
            "  {:<30} {:>9.1} {:>9.1} {:>9} {:>10.1} {:>8.1} %",
            row.subject,
            row.bytes_per_key,
            row.most_bytes_per_key,
            told.map_or("-".to_owned(), |told| format!("{told:.1}")),
            row.ns_per_insert,
            100.0 * row.admitted_share,
        );
    }
    text
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let ours = rows.iter().filter(|row| row.subject == FLOWGATE);
    let worst = ours.map(|row| row.most_bytes_per_key).reduce(f64::max);
    let goal =
        format!("memory: at most {BYTES_PER_KEY} bytes per key at capacity, whatever the keys");
    Verdict::at_most(goal, worst, BYTES_PER_KEY, "")
}
