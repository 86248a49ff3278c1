//! What a decision costs, by how many keys there are, in which order they come, and what the answer is.
//!
//! First all limiters in one process, as `flowgate-bench` measures: of a million keys each then finds the
//! caches and the translation of addresses full of the others'. So for very many keys once more with each
//! [alone](Alone) in a process; these still take turns.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use flowgate_bench::cases::{Case, Traffic as Answer};
use serde::{Deserialize, Serialize};

use crate::keys::{Key, Kind, Order, Walk};
use crate::process::{self, Alone, Task};
use crate::shared::harness::{self, Plan, Samples};
use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;
use crate::subject::{
    FLOWGATE, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES, GOVERNOR, Limit, Limits, NOBODY, Subject,
    is_chosen,
};

/// How far the admitted share may be from what the traffic's title says.
const SHARE_TOLERANCE: f64 = 0.001;

/// The most that the baseline's 90th percentile may be of its 10th, on a calm machine.
const CALM: f64 = 1.25;

/// What a limiter is asked while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Buckets with tokens that were not full before: a decision starts from what the last one left.
    Drain,
    /// Buckets that are full again whenever they are asked.
    Rested,
    /// Empty buckets.
    Refuse,
}

impl Traffic {
    const ALL: [Traffic; 3] = [Traffic::Drain, Traffic::Rested, Traffic::Refuse];

    fn title(self) -> &'static str {
        match self {
            Traffic::Drain => "admit, buckets draining (6/min, burst 1e8)",
            Traffic::Rested => "admit, buckets full again (1e9/s, burst 1e6)",
            Traffic::Refuse => "refuse, buckets empty (1/h, burst 2)",
        }
    }

    fn limit(self) -> Limit {
        let (count, period_s, burst) = match self {
            Traffic::Drain => (6, 60, 100_000_000),
            Traffic::Rested => (1_000_000_000, 1, 1_000_000),
            // throttlecrab never refuses at a burst of 1.
            Traffic::Refuse => (1, 3_600, 2),
        };
        Limit {
            count,
            period: Duration::from_secs(period_s),
            burst,
        }
    }

    fn admitted_share(self) -> f64 {
        match self {
            Traffic::Drain | Traffic::Rested => 1.0,
            Traffic::Refuse => 0.0,
        }
    }
}

/// One table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Situation {
    pub keys: usize,
    pub order: Order,
    pub traffic: Traffic,
    /// The order is 2 to this long.
    log_steps: u32,
}

/// `L` with its keys in the state that the traffic's title speaks of.
pub fn case<K: Key, L: Limits<K>>(
    name: &'static str,
    walk: Arc<Walk<K>>,
    traffic: Traffic,
) -> Case {
    let limits = CachePadded::new(L::build(traffic.limit(), walk.keys().len()));
    for key in walk.keys() {
        let asked = match traffic {
            Traffic::Refuse => 3,
            Traffic::Drain | Traffic::Rested => 1,
        };
        for _ in 0..asked {
            limits.admit(key);
        }
    }
    // Threads share the walk: whoever comes takes the next stretch.
    let next = CachePadded::new(AtomicUsize::new(0));
    Case {
        subject: name,
        traffic: match traffic {
            Traffic::Drain | Traffic::Rested => Answer::Admit,
            Traffic::Refuse => Answer::RefuseFull,
        },
        batch: Box::new(move |operations| {
            let first = next.fetch_add(operations as usize, Ordering::Relaxed);
            let steps = first..first + operations as usize;
            let mut admitted = 0;
            if L::TOGETHER == 1 {
                for step in steps {
                    admitted += u64::from(black_box(&*limits).admit(walk.key(step)));
                }
                return admitted;
            }
            let mut together = Vec::with_capacity(L::TOGETHER);
            for first in steps.clone().step_by(L::TOGETHER) {
                together.clear();
                let until = steps.end.min(first + L::TOGETHER);
                together.extend((first..until).map(|step| walk.key(step)));
                admitted += black_box(&*limits).admit_each(&together);
            }
            admitted
        }),
        prepare: None,
        bytes: None,
    }
}

/// One limiter in one situation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub keys: Kind,
    pub situation: Situation,
    /// In a process of its own?
    pub alone: bool,
    pub threads: usize,
    /// Over governor's in the same round.
    pub ratio: Spread,
    /// As one thread sees it.
    pub ns_per_op: Spread,
    /// Of all threads together, millions a second.
    pub mega_per_s: f64,
    pub admitted_share: f64,
    pub allocations_per_op: f64,
}

impl Row {
    /// Did the limiter answer as the traffic's title says? If not, something else was measured.
    fn is_as_titled(&self) -> bool {
        let wanted = self.situation.traffic.admitted_share();
        self.subject == NOBODY || (wanted - self.admitted_share).abs() <= SHARE_TOLERANCE
    }
}

/// How much is measured.
struct Extent {
    few: usize,
    many: usize,
    /// With the traffic of the goals only, of ours and the baseline.
    very_many: usize,
    together: [Plan; 2],
    alone: [Plan; 2],
}

impl Extent {
    fn new(quick: bool) -> Extent {
        let plan = |threads, rounds, window_ms| Plan {
            threads,
            rounds,
            window: Duration::from_millis(window_ms),
        };
        if quick {
            Extent {
                few: 1_000,
                many: 20_000,
                very_many: 200_000,
                together: [plan(1, 3, 1), plan(2, 3, 1)],
                alone: [plan(1, 3, 2), plan(2, 3, 2)],
            }
        } else {
            Extent {
                few: 1_000,
                many: 1_000_000,
                very_many: 10_000_000,
                together: [plan(1, 15, 10), plan(2, 9, 20)],
                alone: [plan(1, 15, 40), plan(2, 9, 40)],
            }
        }
    }

    fn situation(&self, keys: usize, order: Order, traffic: Traffic) -> Situation {
        Situation {
            keys,
            order,
            traffic,
            log_steps: if keys > 100_000 { 22 } else { 16 },
        }
    }

    fn together(&self) -> Vec<Situation> {
        let mut all = Vec::new();
        for keys in [1, self.few, self.many] {
            for order in Order::ALL {
                if keys == 1 && order != Order::Uniform {
                    continue;
                }
                all.extend(Traffic::ALL.map(|traffic| self.situation(keys, order, traffic)));
            }
        }
        all
    }

    fn alone(&self) -> Vec<Situation> {
        let mut all = Vec::new();
        for order in Order::ALL {
            all.extend(Traffic::ALL.map(|traffic| self.situation(self.many, order, traffic)));
        }
        all
    }
}

/// Measures every subject in every situation.
///
/// # Errors
///
/// Returns a message if a thread cannot be pinned or a process cannot be started.
pub fn measure(quick: bool, only: Option<&str>) -> Result<Vec<Row>, String> {
    let extent = Extent::new(quick);
    // On a thread of its own, which it pins: the processes started later shall have both cores.
    let mut rows = thread::scope(|scope| {
        let together = scope.spawn(|| {
            let mut rows = Vec::new();
            let cores = harness::pinned_cores()?;
            for situation in extent.together() {
                let plans = &extent.together;
                rows.extend(together::<u64>(situation, plans, &cores, only));
                rows.extend(together::<String>(situation, plans, &cores, only));
            }
            Ok(rows)
        });
        let rows: Result<Vec<Row>, String> =
            together.join().map_err(|_| "a comparison panicked")?;
        rows
    })?;
    let is_chosen = |subject: &str| is_chosen(subject, only);
    for situation in extent.alone() {
        rows.extend(alone::<u64>(situation, &extent.alone, is_chosen)?);
        rows.extend(alone::<String>(situation, &extent.alone, is_chosen)?);
    }
    let very_many = extent.situation(extent.very_many, Order::Uniform, Traffic::Drain);
    let some = [GOVERNOR, FLOWGATE, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES];
    let is_one = |subject: &str| some.contains(&subject) && is_chosen(subject);
    rows.extend(alone::<u64>(very_many, &extent.alone, is_one)?);
    Ok(rows)
}

/// All in this process.
fn together<K: Key>(
    situation: Situation,
    plans: &[Plan],
    cores: &[core_affinity::CoreId],
    only: Option<&str>,
) -> Vec<Row> {
    let walk = Arc::new(Walk::new(
        situation.keys,
        situation.order,
        situation.log_steps,
    ));
    let mut subjects = K::subjects();
    subjects
        .retain(|subject| subject.name != FLOWGATE_SMALL_PAGES && is_chosen(subject.name, only));
    let case = |subject: &Subject<K>| (subject.case)(subject.name, walk.clone(), situation.traffic);
    let cases: Vec<Case> = subjects.iter().map(case).collect();
    let names: Vec<_> = cases.iter().map(|case| case.subject).collect();
    let allocations: Vec<f64> = cases.iter().map(harness::allocations_per_op).collect();
    let mut rows = Vec::new();
    for plan in plans.iter().filter(|plan| plan.threads <= cores.len()) {
        let samples = harness::measure(&cases, *plan, cores);
        let told = Told {
            keys: K::KIND,
            situation,
            alone: false,
            threads: plan.threads,
        };
        rows.extend(told.rows(&names, &samples, &allocations));
    }
    rows
}

/// Each in a process of its own; they take turns.
fn alone<K: Key>(
    situation: Situation,
    plans: &[Plan],
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Vec<Row>, String> {
    let mut subjects = K::subjects();
    subjects.retain(|subject| is_chosen(subject.name));
    let names: Vec<_> = subjects.iter().map(|subject| subject.name).collect();
    let start = |name: &&str| {
        Alone::start(&process::Job {
            subject: (*name).to_owned(),
            keys: K::KIND,
            task: Task::Decide(situation),
        })
    };
    let mut processes = names.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let ready = processes.iter_mut().map(Alone::answer::<Ready>);
    let ready = ready.collect::<Result<Vec<_>, _>>()?;
    let allocations: Vec<f64> = ready.iter().map(|ready| ready.allocations_per_op).collect();
    let cores = ready.iter().map(|ready| ready.cores).min().unwrap_or(0);
    let mut rows = Vec::new();
    for plan in plans.iter().filter(|plan| plan.threads <= cores) {
        let mut samples = vec![Samples::default(); names.len()];
        for round in 0..plan.rounds {
            for step in 0..names.len() {
                let index = (round + step) % names.len();
                let turn = Turn {
                    threads: plan.threads,
                    window: plan.window,
                };
                let done: Done = processes[index].ask(&turn)?;
                samples[index].ns_per_op.push(done.ns_per_op);
                samples[index].operations += done.operations;
                samples[index].admitted += done.admitted;
            }
        }
        let told = Told {
            keys: K::KIND,
            situation,
            alone: true,
            threads: plan.threads,
        };
        rows.extend(told.rows(&names, &samples, &allocations));
    }
    Ok(rows)
}

/// A process can be asked.
#[derive(Serialize, Deserialize)]
struct Ready {
    cores: usize,
    allocations_per_op: f64,
}

/// What a process is asked for.
#[derive(Serialize, Deserialize)]
struct Turn {
    threads: usize,
    window: Duration,
}

/// What it did.
#[derive(Serialize, Deserialize)]
struct Done {
    ns_per_op: f64,
    operations: u64,
    admitted: u64,
}

/// Decides on request, until the starting process closes its end.
///
/// # Errors
///
/// Returns a message if this thread cannot be pinned, or the starting process no longer reads.
pub fn serve<K: Key>(subject: &Subject<K>, situation: Situation) -> Result<(), String> {
    let cores = harness::pinned_cores()?;
    let walk = Arc::new(Walk::new(
        situation.keys,
        situation.order,
        situation.log_steps,
    ));
    let case = (subject.case)(subject.name, walk, situation.traffic);
    process::say(&Ok(Ready {
        cores: cores.len(),
        allocations_per_op: harness::allocations_per_op(&case),
    }))?;
    for question in io::stdin().lines() {
        let question = question.map_err(|error| error.to_string())?;
        let turn: Turn = serde_json::from_str(&question).map_err(|error| error.to_string())?;
        let plan = Plan {
            threads: turn.threads,
            rounds: 1,
            window: turn.window,
        };
        let samples = harness::measure(slice::from_ref(&case), plan, &cores);
        process::say(&Ok(Done {
            ns_per_op: samples[0].ns_per_op[0],
            operations: samples[0].operations,
            admitted: samples[0].admitted,
        }))?;
    }
    Ok(())
}

/// What the rows of one table have in common.
struct Told {
    keys: Kind,
    situation: Situation,
    alone: bool,
    threads: usize,
}

impl Told {
    fn rows(&self, names: &[&'static str], samples: &[Samples], allocations: &[f64]) -> Vec<Row> {
        let base = names.iter().position(|&name| name == GOVERNOR);
        let base = &samples[base.expect("the baseline is always chosen")].ns_per_op;
        let measured = names.iter().zip(samples).zip(allocations);
        let row = |((&subject, samples), &allocations_per_op): ((_, &Samples), _)| {
            let pairs = samples.ns_per_op.iter().zip(base);
            let ns_per_op = Spread::of(samples.ns_per_op.clone());
            Row {
                subject,
                keys: self.keys,
                situation: self.situation,
                alone: self.alone,
                threads: self.threads,
                ratio: Spread::of(pairs.map(|(ours, base)| ours / base).collect()),
                ns_per_op,
                mega_per_s: 1e3 * self.threads as f64 / ns_per_op.p50,
                admitted_share: samples.admitted as f64 / samples.operations as f64,
                allocations_per_op,
            }
        };
        measured.map(row).collect()
    }
}

pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        let (situation, threads) = (row.situation, row.threads);
        if heading != Some((row.keys, situation, row.alone, threads)) {
            heading = Some((row.keys, situation, row.alone, threads));
            let _ = writeln!(
                text,
                "\n{} {} key{}, {}, {}{}: {}\n  {:<30} {:>9} {:>14} {:>9} {:>18} {:>8} {:>9} {:>10}",
                situation.keys,
                row.keys.name(),
                if situation.keys == 1 { "" } else { "s" },
                situation.order.name(),
                if threads == 1 {
                    "1 thread"
                } else {
                    "2 threads"
                },
                if row.alone { ", each alone" } else { "" },
                situation.traffic.title(),
                "",
                "/governor",
                "p10..p90",
                "ns/op",
                "p10..p90",
                "M/s",
                "admitted",
                "allocs/op",
            );
        }
        let (ratio, ns) = (row.ratio, row.ns_per_op);
        let _ = writeln!(
            text,
            "  {:<30} {:>9.3} {:>14} {:>9.1} {:>18} {:>8.2} {:>7.1} % {:>10.2}{}",
            row.subject,
            ratio.p50,
            format!("{:.3}..{:.3}", ratio.p10, ratio.p90),
            ns.p50,
            format!("{:.1}..{:.1}", ns.p10, ns.p90),
            row.mega_per_s,
            100.0 * row.admitted_share,
            row.allocations_per_op,
            if row.is_as_titled() {
                ""
            } else {
                "  NOT AS TITLED"
            },
        );
    }
    text
}

pub fn verdicts(rows: &[Row], quick: bool) -> Vec<Verdict> {
    let extent = Extent::new(quick);
    let mut verdicts = Vec::new();
    for (keys, most) in [(Kind::U64, 0.80), (Kind::String, 0.50)] {
        let rows = goal_rows(rows, true, extent.many).filter(|row| row.keys == keys);
        let rows = rows.filter(|row| row.situation.order == Order::Uniform);
        let rows: Vec<_> = rows.collect();
        let what = format!("{} {} keys, uniform, each alone", extent.many, keys.name());
        let over = [FLOWGATE, GOVERNOR];
        verdicts.push(at_most(what.clone(), &rows, over, most));
        verdicts.push(at_most(what, &rows, [FLOWGATE_EACH, FLOWGATE], 1.0 / 3.0));
    }
    for traffic in Traffic::ALL {
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| is_goal(row, false, extent.few, traffic) && row.keys == Kind::U64)
            .collect();
        let what = format!(
            "{} u64 keys, uniform and Zipf, {}",
            extent.few,
            traffic.title()
        );
        verdicts.push(at_most(what, &rows, [FLOWGATE, GOVERNOR], 0.95));
    }
    let ours = rows.iter().filter(|row| row.subject == FLOWGATE);
    let most = ours.map(|row| row.allocations_per_op).reduce(f64::max);
    let goal = "speed: at most 0 allocations per decision".to_owned();
    verdicts.push(Verdict::at_most(goal, most, 0.0, ""));
    verdicts
}

/// Those that a goal can be about, of ours and of the baseline, where buckets drain.
fn goal_rows(rows: &[Row], alone: bool, keys: usize) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(move |row| is_goal(row, alone, keys, Traffic::Drain))
}

fn is_goal(row: &Row, alone: bool, keys: usize, traffic: Traffic) -> bool {
    let situation = row.situation;
    row.alone == alone
        && row.threads == 1
        && situation.keys == keys
        && situation.traffic == traffic
        && [FLOWGATE, FLOWGATE_EACH, GOVERNOR].contains(&row.subject)
}

/// The worst ratio of `ours` to `base` in the same order of keys; none where either did something else.
fn at_most(what: String, rows: &[&Row], [ours, base]: [&str; 2], most: f64) -> Verdict {
    let of = |subject| rows.iter().filter(move |row| row.subject == subject);
    let ratio = |row: &&Row| {
        let base = of(base).find(|base| base.situation.order == row.situation.order)?;
        // Both are ratios to governor, of the same rounds.
        Some(row.ratio.p50 / base.ratio.p50)
    };
    let ratios: Option<Vec<f64>> = of(ours).map(ratio).collect();
    let worst = ratios.and_then(|ratios| ratios.into_iter().reduce(f64::max));
    let worst = worst.filter(|_| of(ours).chain(of(base)).all(|row| row.is_as_titled()));
    let base = base.split_whitespace().next().unwrap_or(base);
    let goal = format!("speed: {ours} at most {most:.2} x {base}; {what}, 1 thread");
    Verdict::at_most(goal, worst, most, " x")
}

/// Returns a line for each noisy table that a goal refers to.
pub fn disturbances(rows: &[Row], quick: bool) -> Vec<String> {
    let extent = Extent::new(quick);
    let mut told = goal_rows(rows, true, extent.many).collect::<Vec<_>>();
    told.extend(goal_rows(rows, false, extent.few));
    let base = told.into_iter().filter(|row| row.subject == GOVERNOR);
    let disturbed = base.filter(|row| row.ns_per_op.p90 > CALM * row.ns_per_op.p10);
    disturbed
        .map(|row| {
            format!(
                "{GOVERNOR} took {:.1}..{:.1} ns of {} {} keys, {}",
                row.ns_per_op.p10,
                row.ns_per_op.p90,
                row.situation.keys,
                row.keys.name(),
                row.situation.order.name()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(admitted: u64, ns_per_op: [f64; 3]) -> Samples {
        Samples {
            ns_per_op: ns_per_op.to_vec(),
            slowest_share: vec![1.0; 3],
            operations: 4,
            admitted,
        }
    }

    /// A goal's rows: governor, which takes 100, 200 and 300 ns, and ours.
    fn rows(admitted: u64, ours: [f64; 3]) -> Vec<Row> {
        let extent = Extent::new(false);
        let told = Told {
            keys: Kind::U64,
            situation: extent.situation(extent.many, Order::Uniform, Traffic::Drain),
            alone: true,
            threads: 1,
        };
        let samples = [samples(4, [100.0, 200.0, 300.0]), samples(admitted, ours)];
        told.rows(&[GOVERNOR, FLOWGATE], &samples, &[0.0; 2])
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let rows = rows(4, [50.0, 100.0, 150.0]);
        let ratio = rows[1].ratio;
        assert_eq!((ratio.p10, ratio.p50, ratio.p90), (0.5, 0.5, 0.5));
        let verdict = verdicts(&rows, false)[0].to_string();
        assert!(verdict.starts_with("goal MET: 0.500 x"), "{verdict}");
        assert_eq!(disturbances(&rows, false).len(), 1);
    }

    #[test]
    fn a_goal_is_judged_by_the_median() {
        let verdict = verdicts(&rows(4, [50.0, 170.0, 270.0]), false)[0].to_string();
        assert!(verdict.starts_with("goal MISSED: 0.850 x"), "{verdict}");
    }

    #[test]
    fn a_limiter_that_refuses_what_it_should_admit_meets_no_goal() {
        let rows = rows(2, [50.0, 100.0, 150.0]);
        let verdict = verdicts(&rows, false)[0].to_string();
        assert!(verdict.starts_with("goal NOT MEASURED"), "{verdict}");
        assert!(tables(&rows).contains("NOT AS TITLED"));
    }

    #[test]
    fn every_subject_answers_as_the_traffic_says() {
        fn check<K: Key>() {
            let walk = Arc::new(Walk::new(100, Order::Zipf, 10));
            for subject in K::subjects() {
                for traffic in Traffic::ALL {
                    let case = (subject.case)(subject.name, walk.clone(), traffic);
                    let admitted = (case.batch)(1_000) as f64 / 1_000.0;
                    let is_right = admitted == traffic.admitted_share();
                    assert!(
                        is_right || subject.name == NOBODY,
                        "{}: {admitted}",
                        subject.name
                    );
                }
            }
        }
        check::<u64>();
        check::<String>();
    }
}
