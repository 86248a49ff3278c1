//! A flood: very many keys, each once, into a limiter for few of them. Does it grow, does a call ever take
//! long, and does who was limited before stay limited?
//!
//! **Long calls.** The clock is read after each call, so nothing between two readings is missed. A thread is
//! set aside now and then, by the kernel or by the host, and then a call seems to take long that did not. Two
//! things tell these apart. A loop that does nothing but read the clock takes turns with the flood and runs as
//! long: it shows how often the machine does that. And the flood is run three times, with the same seed and the
//! same keys: what a limiter does slowly of itself it does at the same call again, while the machine comes at
//! another.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::keys::{Key, Kind};
use crate::ours::{self, Ours, Policy};
use crate::process::{self, Alone, Job, Resident, Task};
use crate::shared::outcome::Verdict;
use crate::subject::{
    FLOWGATE, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES, Limit, Limits, NOBODY, Subject, is_chosen,
};

/// Minimum time of a long call.
const LONG: Duration = Duration::from_micros(50);

/// Ours is flooded so often.
const RUNS: usize = 3;

/// Calls over this are noted, to be compared with the other runs'.
const NOTED: Duration = Duration::from_micros(5);

/// The most that are noted.
const MOST_NOTED: usize = 1 << 20;

/// Number of calls per turn of flooding and watching.
const TURN: u64 = 1 << 16;

/// The most that a limiter's memory may grow once it has as many keys as it is for: what a kernel's count
/// of pages may be off by.
const GROWTH: f64 = 0.5;

/// No token refills meanwhile.
const LIMIT: Limit = Limit {
    count: 1,
    period: Duration::from_secs(3_600),
    burst: 2,
};

/// How many are asked again during each turn, of those that were limited before.
const ASKED: usize = 64;

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Number of new keys.
    pub keys: u64,
    /// Capacity of the limiter.
    pub capacity: usize,
    /// Number of keys that were limited before.
    pub limited: usize,
    /// A flood that takes longer is ended.
    pub patience: Duration,
}

/// What one run found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flooded {
    pub keys: u64,
    pub admitted: u64,
    pub seconds: f64,
    /// Bytes of the process before the limiter was created.
    ///
    /// The other fields are with twice as many keys as the capacity, and at the end.
    pub before: u64,
    pub full: u64,
    pub after: u64,
    pub told: Option<usize>,
    /// Of those that had been limited before: asked again, and let in.
    pub limited_asked: u64,
    pub limited_admitted: u64,
    /// Calls over [`NOTED`]: which, and ns.
    pub noted: Vec<(u64, u64)>,
    pub longest_ns: u64,
    pub long: u64,
    /// The loop that only reads the clock.
    pub watch_seconds: f64,
    pub watch_longest_ns: u64,
    pub watch_long: u64,
    /// Turns with more long calls than the loop then had gaps, and with fewer. These are of the same moment,
    /// so that it does not matter if there are more of both at another.
    pub turns_worse: u64,
    pub turns_better: u64,
    /// The kernel's own count.
    pub preemptions: u64,
}

/// Floods `L`.
pub fn flood<K: Key, L: Limits<K>>(plan: &Plan) -> Result<Flooded, String> {
    // Written to, so that its pages are there.
    let mut noted = vec![(u64::MAX, u64::MAX); MOST_NOTED];
    noted.clear();
    let mut key = K::blank();
    key.become_nth(0);
    let before = Resident::read()?.now;
    let limits = L::build(LIMIT, plan.capacity);

    // From the far end, so that they are not among the new ones.
    let limited: Vec<K> = (0..plan.limited as u64)
        .map(|n| K::nth(u64::MAX / 2 + n))
        .collect();
    for key in &limited {
        for _ in 0..LIMIT.burst {
            limits.admit(key);
        }
    }
    let mut found = Flooded {
        before,
        full: before,
        after: before,
        told: limits.told_bytes(),
        ..Flooded::default()
    };
    let preempted_before = process::preemptions();
    let mut asking = (0..limited.len()).cycle();
    while found.keys < plan.keys && found.seconds < plan.patience.as_secs_f64() {
        let started = Instant::now();
        let (mut last, mut long) = (started, 0);
        for n in found.keys..plan.keys.min(found.keys + TURN) {
            key.become_nth(n);
            found.admitted += u64::from(limits.admit(&key));
            let now = Instant::now();
            let took = now - last;
            last = now;
            if took <= NOTED {
                continue;
            }
            long += u64::from(took > LONG);
            if noted.len() < MOST_NOTED {
                noted.push((n, took.as_nanos() as u64));
            }
        }
        found.keys = plan.keys.min(found.keys + TURN);
        let elapsed = last - started;
        found.seconds += elapsed.as_secs_f64();

        let (watched, longest_ns, watch_long) = watch(elapsed);
        found.watch_seconds += watched.as_secs_f64();
        found.watch_longest_ns = found.watch_longest_ns.max(longest_ns);
        found.watch_long += watch_long;
        found.long += long;
        found.turns_worse += u64::from(long > watch_long);
        found.turns_better += u64::from(long < watch_long);

        for index in asking.by_ref().take(ASKED.min(limited.len())) {
            found.limited_asked += 1;
            found.limited_admitted += u64::from(limits.admit(&limited[index]));
        }
        if found.keys <= TURN.max(2 * plan.capacity as u64) {
            found.full = Resident::read()?.now;
        }
    }
    found.after = Resident::read()?.now;
    found.preemptions = process::preemptions().saturating_sub(preempted_before);
    found.longest_ns = noted.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    found.noted = noted;
    Ok(found)
}

/// Reads the clock for `span`: the span it was, its longest gap in ns, and how many gaps were long.
fn watch(span: Duration) -> (Duration, u64, u64) {
    let started = Instant::now();
    let (mut last, mut longest, mut long) = (started, Duration::ZERO, 0);
    while last - started < span {
        let now = Instant::now();
        let gap = now - last;
        last = now;
        longest = longest.max(gap);
        long += u64::from(gap > LONG);
    }
    (last - started, longest.as_nanos() as u64, long)
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub keys: u64,
    pub ns_per_call: f64,
    pub admitted_share: f64,
    /// Growth in MiB with twice as many keys as the capacity.
    ///
    /// The next field is the growth after that.
    pub full_mib: f64,
    pub grown_mib: f64,
    pub told_mib: Option<f64>,
    pub longest_us: f64,
    pub long: u64,
    pub watch_longest_us: f64,
    pub watch_long: u64,
    pub turns_worse: u64,
    pub turns_better: u64,
    pub preemptions: u64,
    /// The longest that a call took in every run; below [`NOTED`], that. None where there was one run.
    pub longest_always_us: Option<f64>,
    pub limited_asked: u64,
    pub limited_admitted: u64,
    /// Is it ours? What the goals are about.
    pub ours: bool,
}

/// Measures every subject, each in a separate process.
///
/// flowgate runs with every policy, several times.
///
/// # Errors
///
/// Returns a message if a process cannot be started.
pub fn measure(quick: bool, only: Option<&str>) -> Result<Vec<Row>, String> {
    let ours = if quick {
        Plan {
            keys: 1_000_000,
            capacity: 20_000,
            limited: 1_000,
            patience: Duration::from_secs(10),
        }
    } else {
        Plan {
            keys: 100_000_000,
            capacity: 1_000_000,
            limited: 1_000,
            patience: Duration::from_secs(300),
        }
    };
    // What grows shall not take all memory.
    let peers = Plan {
        keys: ours.keys / 5,
        patience: Duration::from_secs(if quick { 1 } else { 20 }),
        ..ours
    };
    let mut rows = Vec::new();
    for subject in subjects() {
        if !is_chosen(subject.name, only) {
            continue;
        }
        let is_ours = subject.name.starts_with(FLOWGATE);
        let job = Job {
            subject: subject.name.to_owned(),
            keys: Kind::U64,
            task: Task::Flood(if is_ours { ours } else { peers }),
        };
        let runs = (0..if is_ours { RUNS } else { 1 }).map(|_| Alone::start(&job)?.answer());
        rows.push(row(subject.name, &runs.collect::<Result<Vec<_>, _>>()?));
    }
    Ok(rows)
}

/// Those that can be flooded: `u64` keys, and ours with every policy.
pub fn subjects() -> Vec<Subject<u64>> {
    let mut subjects = u64::subjects();
    let left_out = [NOBODY, FLOWGATE, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES];
    subjects.retain(|subject| !left_out.contains(&subject.name));
    subjects.extend([
        Subject::of::<Ours<ours::Evict>>(ours::Evict::NAME),
        Subject::of::<Ours<ours::Deny>>(ours::Deny::NAME),
        Subject::of::<Ours<ours::Share>>(ours::Share::NAME),
    ]);
    subjects
}

fn row(subject: &'static str, runs: &[Flooded]) -> Row {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let us = |ns: u64| ns as f64 / 1e3;
    let sum = |count: fn(&Flooded) -> u64| runs.iter().map(count).sum::<u64>();
    let most = |number: fn(&Flooded) -> u64| runs.iter().map(number).max().unwrap_or(0);
    let keys = sum(|run| run.keys) as f64;
    Row {
        subject,
        keys: most(|run| run.keys),
        ns_per_call: 1e9 * runs.iter().map(|run| run.seconds).sum::<f64>() / keys,
        admitted_share: sum(|run| run.admitted) as f64 / keys,
        full_mib: mib(most(|run| run.full.saturating_sub(run.before))),
        grown_mib: mib(most(|run| run.after.saturating_sub(run.full))),
        told_mib: runs[0].told.map(|bytes| mib(bytes as u64)),
        longest_us: us(most(|run| run.longest_ns)),
        long: sum(|run| run.long),
        watch_longest_us: us(most(|run| run.watch_longest_ns)),
        watch_long: sum(|run| run.watch_long),
        turns_worse: sum(|run| run.turns_worse),
        turns_better: sum(|run| run.turns_better),
        preemptions: sum(|run| run.preemptions),
        longest_always_us: (runs.len() > 1).then(|| us(longest_always(runs))),
        limited_asked: sum(|run| run.limited_asked),
        limited_admitted: sum(|run| run.limited_admitted),
        ours: subject.starts_with(FLOWGATE),
    }
}

/// Of each call the shortest of what it took in the runs; of these the longest.
fn longest_always(runs: &[Flooded]) -> u64 {
    let noted = |run: &Flooded| run.noted.iter().copied().collect::<HashMap<u64, u64>>();
    let always = runs.iter().map(noted).reduce(|mut so_far, run| {
        so_far.retain(|call, ns| match run.get(call) {
            Some(other) => {
                *ns = (*ns).min(*other);
                true
            }
            None => false,
        });
        so_far
    });
    let longest = always.and_then(|always| always.into_values().max());
    longest.unwrap_or(NOTED.as_nanos() as u64)
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\nflood: new u64 keys, each once, 1/h, burst 2; each limiter alone in its process; long: over {} us\n  \
         {:<26} {:>10} {:>8} {:>9} {:>9} {:>10} {:>10} {:>6} {:>12} {:>11} {:>10} {:>18}\n",
        LONG.as_micros(),
        "",
        "keys",
        "ns/call",
        "admitted",
        "MiB full",
        "MiB grown",
        "longest us",
        "long",
        "clock only",
        "preemptions",
        "always us",
        "limited, let in"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "  {:<26} {:>10} {:>8.1} {:>7.1} % {:>9.1} {:>10.1} {:>10.1} {:>6} {:>12} {:>11} {:>10} {:>18}",
            row.subject,
            row.keys,
            row.ns_per_call,
            100.0 * row.admitted_share,
            row.full_mib,
            row.grown_mib,
            row.longest_us,
            row.long,
            format!("{} ({:.0})", row.watch_long, row.watch_longest_us),
            row.preemptions,
            row.longest_always_us
                .map_or("-".to_owned(), |us| format!("{us:.1}")),
            format!("{} of {}", row.limited_admitted, row.limited_asked),
        );
    }
    text
}

pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let worst = |number: fn(&Row) -> Option<f64>| {
        let ours = rows.iter().filter(|row| row.ours);
        ours.filter_map(number).reduce(f64::max)
    };
    let long_us = LONG.as_micros() as f64;
    vec![
        Verdict::at_most(
            format!("flood: memory does not move (by more than {GROWTH} MiB)"),
            worst(|row| Some(row.grown_mib)),
            GROWTH,
            " MiB",
        ),
        Verdict::at_most(
            format!("flood: no call takes over {long_us} us all {RUNS} times"),
            worst(|row| row.longest_always_us),
            long_us,
            " us",
        ),
        Verdict::at_most(
            "flood: calls seem long no more often than readings of the clock do, by 3 standard deviations"
                .to_owned(),
            worst(|row| Some(excess(row.turns_worse, row.turns_better))),
            3.0,
            " sigma",
        ),
        Verdict::at_most(
            "flood: who was limited before stays limited".to_owned(),
            worst(|row| Some(row.limited_admitted as f64)),
            0.0,
            " let in",
        ),
    ]
}

/// How many standard deviations there are more turns worse than better, if each is so with equal chance (the sign
/// test).
fn excess(worse: u64, better: u64) -> f64 {
    match worse + better {
        0 => 0.0,
        turns => (worse as f64 - better as f64) / (turns as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_long_of_itself_only_if_it_always_is() {
        let run = |noted: &[(u64, u64)]| Flooded {
            noted: noted.to_vec(),
            ..Flooded::default()
        };
        let first = run(&[(1, 80_000), (7, 9_000), (8, 60_000), (9, 99_000)]);
        let second = run(&[(2, 90_000), (7, 70_000), (8, 8_000), (9, 99_000)]);
        let third = run(&[(7, 70_000), (8, 7_000)]);
        let runs = [first, second, third];
        assert_eq!(longest_always(&runs), 9_000);
        assert_eq!(longest_always(&runs[..2]), 99_000);
        assert_eq!(
            longest_always(&[Flooded::default(), runs[0].clone()]),
            5_000
        );
    }

    #[test]
    fn as_many_turns_worse_as_better_are_no_excess() {
        assert_eq!((excess(0, 0), excess(50, 50)), (0.0, 0.0));
        assert_eq!(excess(75, 25), 5.0);
    }
}
