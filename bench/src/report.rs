//! What came out: a table per traffic and thread count, ratios first, and the goals with their
//! verdicts.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cases::{BASELINE, Case, SUBJECT, Traffic};
use crate::harness::{Plan, Samples};

/// The most that a median ratio to the baseline may be.
const GOALS: [Goal; 6] = [
    Goal {
        traffic: Traffic::AdmitFull,
        threads: 1,
        most: 1.05,
    },
    Goal {
        traffic: Traffic::AdmitDraining,
        threads: 1,
        most: 1.05,
    },
    Goal {
        traffic: Traffic::Refuse,
        threads: 1,
        most: 1.08,
    },
    Goal {
        traffic: Traffic::AdmitFull,
        threads: 2,
        most: 1.10,
    },
    Goal {
        traffic: Traffic::AdmitDraining,
        threads: 2,
        most: 1.10,
    },
    Goal {
        traffic: Traffic::Refuse,
        threads: 2,
        most: 1.10,
    },
];

/// How far the admitted share may be from what the traffic's title says.
const SHARE_TOLERANCE: f64 = 0.001;

struct Goal {
    traffic: Traffic,
    threads: usize,
    most: f64,
}

/// Median, 10th and 90th percentile.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
}

impl Spread {
    /// The spread of `values`: the nearest rank, so each number is one that was measured.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let rank = |q: f64| sorted[(q * last as f64).round() as usize];
        Some(Spread {
            p10: rank(0.1),
            p50: rank(0.5),
            p90: rank(0.9),
        })
    }
}

/// One case, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub traffic: Traffic,
    pub threads: usize,
    /// ns per operation, as one thread sees it.
    pub ns_per_op: Spread,
    /// This case over the baseline of the same traffic, round by round; none for a clock.
    pub ratio: Option<Spread>,
    pub admitted_share: f64,
    pub allocations_per_op: f64,
}

impl Row {
    /// Did the limiter answer as the traffic's title says? If not, something else was measured.
    fn is_as_titled(&self) -> bool {
        let wanted = self.traffic.admitted_share();
        wanted.is_none_or(|share| (share - self.admitted_share).abs() <= SHARE_TOLERANCE)
    }
}

/// Rows for one plan's samples, `allocations` and `samples` being in the order of `cases`.
pub fn rows(cases: &[Case], samples: &[Samples], allocations: &[f64], plan: Plan) -> Vec<Row> {
    let baseline = |traffic: Traffic| {
        let index = cases
            .iter()
            .position(|c| c.subject == BASELINE && c.traffic == traffic)?;
        Some(&samples[index].ns_per_op)
    };
    let measured = cases.iter().zip(samples).zip(allocations);
    measured
        .filter_map(|((case, samples), &allocations_per_op)| {
            let ratio = baseline(case.traffic).and_then(|base| {
                let pairs = samples.ns_per_op.iter().zip(base);
                Spread::of(&pairs.map(|(ours, base)| ours / base).collect::<Vec<_>>())
            });
            Some(Row {
                subject: case.subject,
                traffic: case.traffic,
                threads: plan.threads,
                ns_per_op: Spread::of(&samples.ns_per_op)?,
                ratio,
                admitted_share: samples.admitted as f64 / samples.operations as f64,
                allocations_per_op,
            })
        })
        .collect()
}

fn threads(count: usize) -> &'static str {
    if count == 1 {
        "1 thread"
    } else {
        "2 threads on one object"
    }
}

/// The tables, one per thread count and traffic.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some((row.threads, row.traffic)) {
            heading = Some((row.threads, row.traffic));
            let _ = writeln!(text, "\n{}: {}", threads(row.threads), row.traffic.title());
            let _ = writeln!(
                text,
                "  {:<28} {:>9} {:>16} {:>9} {:>18} {:>10} {:>10}",
                "", "/governor", "p10..p90", "ns/op", "p10..p90", "admitted", "allocs/op"
            );
        }
        let (ratio, ratio_range) = match row.ratio {
            Some(r) => (
                format!("{:.3}", r.p50),
                format!("{:.3}..{:.3}", r.p10, r.p90),
            ),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let ns = row.ns_per_op;
        let admitted = match row.traffic.admitted_share() {
            Some(_) => format!("{:.1} %", 100.0 * row.admitted_share),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "  {:<28} {ratio:>9} {ratio_range:>16} {:>9.2} {:>18} {admitted:>10} {:>10}{}",
            row.subject,
            ns.p50,
            format!("{:.2}..{:.2}", ns.p10, ns.p90),
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

/// The most that the baseline's 90th percentile may be of its 10th, on a calm machine.
const CALM: f64 = 1.15;

/// A line for each thread count at which the machine was doing something else, or nothing.
///
/// The baseline is the same code in every round, so its spread is the machine's.
pub fn disturbances(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.subject == BASELINE) {
        let ns = row.ns_per_op;
        // Two threads on one cache line vary by themselves, as the cores pass it to and fro.
        let allowed = if row.threads == 1 { CALM } else { CALM * CALM };
        if ns.p90 > allowed * ns.p10 {
            let _ = writeln!(
                text,
                "DISTURBED, do not quote: {BASELINE} took {:.1}..{:.1} ns, {}: {}",
                ns.p10,
                ns.p90,
                threads(row.threads),
                row.traffic.title()
            );
        }
    }
    text
}

/// One line per goal: what was asked, what was measured, and whether it was met.
pub fn verdicts(rows: &[Row]) -> String {
    let mut text = String::from("\n");
    for goal in &GOALS {
        let row = rows.iter().find(|row| {
            row.subject == SUBJECT && row.traffic == goal.traffic && row.threads == goal.threads
        });
        let measured = row.and_then(|row| Some((row, row.ratio?)));
        let line = match measured {
            None => "NOT MEASURED".to_owned(),
            Some((row, _)) if !row.is_as_titled() => {
                format!("INVALID: {:.1} % admitted", 100.0 * row.admitted_share)
            }
            Some((_, ratio)) => format!(
                "{}: {:.3} ({:.3}..{:.3})",
                if ratio.p50 <= goal.most {
                    "MET"
                } else {
                    "MISSED"
                },
                ratio.p50,
                ratio.p10,
                ratio.p90
            ),
        };
        let (threads, title) = (threads(goal.threads), goal.traffic.title());
        let most = goal.most;
        let _ = writeln!(
            text,
            "goal {line}, at most {most:.2} x governor; {threads}: {title}"
        );
    }
    let ours = rows.iter().filter(|row| row.subject.starts_with(SUBJECT));
    let most = ours.map(|row| row.allocations_per_op).reduce(f64::max);
    let line = match most {
        None => "NOT MEASURED".to_owned(),
        Some(0.0) => "MET: 0".to_owned(),
        Some(most) => format!("MISSED: {most}"),
    };
    let _ = writeln!(text, "goal {line}, at most 0 allocations per decision");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_made_of_measured_values() {
        let values: Vec<f64> = (0..31).rev().map(f64::from).collect();
        let spread = Spread::of(&values).expect("31 values");
        assert_eq!((spread.p10, spread.p50, spread.p90), (3.0, 15.0, 27.0));
        assert!(Spread::of(&[]).is_none());
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let case = |subject| Case {
            subject,
            traffic: Traffic::Refuse,
            batch: Box::new(|_| 0),
        };
        // The machine slows down twofold in the second round and threefold in the third: the ratio
        // stays 2.
        let samples = |ns_per_op: [f64; 3]| Samples {
            ns_per_op: ns_per_op.to_vec(),
            operations: 3,
            admitted: 0,
        };
        let plan = Plan {
            threads: 1,
            rounds: 3,
            window: std::time::Duration::ZERO,
        };
        let rows = rows(
            &[case(BASELINE), case(SUBJECT)],
            &[samples([10.0, 20.0, 30.0]), samples([20.0, 40.0, 60.0])],
            &[0.0, 0.0],
            plan,
        );
        let ratio = rows[1].ratio.expect("there is a baseline");
        assert_eq!((ratio.p10, ratio.p50, ratio.p90), (2.0, 2.0, 2.0));
        assert!(verdicts(&rows).contains("MISSED: 2.000"));
    }

    #[test]
    fn a_case_that_admits_what_it_should_refuse_is_invalid() {
        let row = Row {
            subject: SUBJECT,
            traffic: Traffic::Refuse,
            threads: 1,
            ns_per_op: Spread {
                p10: 1.0,
                p50: 1.0,
                p90: 1.0,
            },
            ratio: Some(Spread {
                p10: 1.0,
                p50: 1.0,
                p90: 1.0,
            }),
            admitted_share: 0.5,
            allocations_per_op: 0.0,
        };
        assert!(verdicts(std::slice::from_ref(&row)).contains("INVALID: 50.0 %"));
        assert!(tables(&[row]).contains("NOT AS TITLED"));
    }
}
