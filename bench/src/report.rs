//! What came out: a table per traffic and thread count, ratios first, the bytes of each limiter, and
//! the goals with their verdicts.

use std::fmt::Write as _;

use serde::Serialize;

use crate::harness::{Plan, Samples};
use crate::section::{Goal, Section};
use flowgate_bench::cases::{Bytes, Case, Traffic};

/// How far the admitted share may be from what the traffic's title says.
const SHARE_TOLERANCE: f64 = 0.001;

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
    /// Ratio to the baseline of the same traffic, round by round; `None` for a clock.
    pub ratio: Option<Spread>,
    /// The median of what the slowest thread did, of an equal share.
    pub slowest_share: f64,
    pub admitted_share: f64,
    pub allocations_per_op: f64,
    pub bytes: Option<Bytes>,
    /// Of which the rest is made.
    #[serde(skip)]
    ns_by_round: Vec<f64>,
}

impl Row {
    /// Did the limiter answer as the traffic's title says? If not, something else was measured.
    fn is_as_titled(&self) -> bool {
        let wanted = self.traffic.admitted_share();
        wanted.is_none_or(|share| (share - self.admitted_share).abs() <= SHARE_TOLERANCE)
    }

    fn is(&self, subject: &str, traffic: Traffic, threads: usize) -> bool {
        self.subject == subject && self.traffic == traffic && self.threads == threads
    }
}

/// Each round's `ours` divided by the same round's `base`.
fn ratio(ours: &[f64], base: &[f64]) -> Option<Spread> {
    let pairs = ours.iter().zip(base);
    Spread::of(&pairs.map(|(ours, base)| ours / base).collect::<Vec<_>>())
}

/// Rows for one plan's samples, `allocations` and `samples` being in the order of `cases`.
pub fn rows(
    section: &Section,
    cases: &[Case],
    samples: &[Samples],
    allocations: &[f64],
    plan: Plan,
) -> Vec<Row> {
    let baseline = |traffic: Traffic| {
        let index = cases
            .iter()
            .position(|c| c.subject == section.baseline && c.traffic == traffic)?;
        Some(&samples[index].ns_per_op)
    };
    let measured = cases.iter().zip(samples).zip(allocations);
    measured
        .filter_map(|((case, samples), &allocations_per_op)| {
            Some(Row {
                subject: case.subject,
                traffic: case.traffic,
                threads: plan.threads,
                ns_per_op: Spread::of(&samples.ns_per_op)?,
                ratio: baseline(case.traffic).and_then(|base| ratio(&samples.ns_per_op, base)),
                slowest_share: Spread::of(&samples.slowest_share)?.p50,
                admitted_share: samples.admitted as f64 / samples.operations as f64,
                allocations_per_op,
                bytes: case.bytes,
                ns_by_round: samples.ns_per_op.clone(),
            })
        })
        .collect()
}

fn threads(count: usize) -> String {
    match count {
        1 => "1 thread".to_owned(),
        _ => format!("{count} threads on one object"),
    }
}

/// The tables, one per thread count and traffic.
pub fn tables(section: &Section, rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some((row.threads, row.traffic)) {
            heading = Some((row.threads, row.traffic));
            let _ = writeln!(text, "\n{}: {}", threads(row.threads), row.traffic.title());
            let _ = writeln!(
                text,
                "  {:<25} {:>12} {:>16} {:>9} {:>18} {:>10} {:>10}{}",
                "",
                section.column,
                "p10..p90",
                "ns/op",
                "p10..p90",
                "admitted",
                "allocs/op",
                if row.threads > 1 { "    slowest" } else { "" },
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
        let slowest = match row.threads {
            1 => String::new(),
            _ => format!("{:>9.0} %", 100.0 * row.slowest_share),
        };
        let admitted = match row.traffic.admitted_share() {
            Some(_) => format!("{:.1} %", 100.0 * row.admitted_share),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "  {:<28} {ratio:>9} {ratio_range:>16} {:>9.2} {:>18} {admitted:>10} {:>10}{slowest}{}",
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

/// Returns the bytes per limiter of each kind, where they were counted.
pub fn sizes(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut told: Vec<(&str, Bytes)> = Vec::new();
    for row in rows {
        let Some(bytes) = row.bytes else { continue };
        if told.contains(&(row.subject, bytes)) {
            continue;
        }
        if told.is_empty() {
            let _ = writeln!(
                text,
                "\n  {:<28} {:>9} {:>16}",
                "bytes per limiter", "size_of", "allocated"
            );
        }
        told.push((row.subject, bytes));
        let Bytes { inline, allocated } = bytes;
        let _ = writeln!(text, "  {:<28} {inline:>9} {allocated:>16}", row.subject);
    }
    text
}

/// The most that the baseline's 90th percentile may be of its 10th, on a calm machine.
const CALM: f64 = 1.15;

/// Returns a line for each thread count with a noisy run.
///
/// The baseline is the same code in every round, so its spread is that of the machine.
pub fn disturbances(section: &Section, rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.subject == section.baseline) {
        let ns = row.ns_per_op;
        // Two threads on one cache line vary by themselves, as the cores pass it to and fro.
        let allowed = if row.threads == 1 { CALM } else { CALM * CALM };
        if ns.p90 > allowed * ns.p10 {
            let _ = writeln!(
                text,
                "DISTURBED, do not quote: {} took {:.1}..{:.1} ns, {}: {}",
                section.baseline,
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
pub fn verdicts(section: &Section, rows: &[Row]) -> String {
    let mut text = String::from("\n");
    for goal in section.goals {
        let Goal {
            subject,
            over,
            most,
            ..
        } = goal;
        let (threads, title) = (threads(goal.threads), goal.traffic.title());
        let _ = writeln!(
            text,
            "goal {}, {subject} at most {most:.2} x {over}; {threads}: {title}",
            verdict(goal, rows)
        );
    }
    let ours = rows
        .iter()
        .filter(|row| row.subject.starts_with(section.allocation_free));
    let most = ours.map(|row| row.allocations_per_op).reduce(f64::max);
    let line = match most {
        None => "NOT MEASURED".to_owned(),
        Some(0.0) => "MET: 0".to_owned(),
        Some(most) => format!("MISSED: {most}"),
    };
    let _ = writeln!(text, "goal {line}, at most 0 allocations per decision");
    text
}

fn verdict(goal: &Goal, rows: &[Row]) -> String {
    let find = |subject| {
        let mut found = rows.iter();
        found.find(|row| row.is(subject, goal.traffic, goal.threads))
    };
    let (Some(row), Some(base)) = (find(goal.subject), find(goal.over)) else {
        return "NOT MEASURED".to_owned();
    };
    for row in [row, base] {
        if !row.is_as_titled() {
            let share = 100.0 * row.admitted_share;
            return format!("INVALID: {} admitted {share:.1} %", row.subject);
        }
    }
    let Some(ratio) = ratio(&row.ns_by_round, &base.ns_by_round) else {
        return "NOT MEASURED".to_owned();
    };
    let Spread { p10, p50, p90 } = ratio;
    let met = if p50 <= goal.most { "MET" } else { "MISSED" };
    format!("{met}: {p50:.3} ({p10:.3}..{p90:.3})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::{CAS, SINGLE, TOKEN_BUCKET, TYPES};
    use flowgate_bench::cases::{FLOWGATE, GOVERNOR};
    use std::time::Duration;

    #[test]
    fn a_spread_is_made_of_measured_values() {
        let values: Vec<f64> = (0..31).rev().map(f64::from).collect();
        let spread = Spread::of(&values).expect("31 values");
        assert_eq!((spread.p10, spread.p50, spread.p90), (3.0, 15.0, 27.0));
        assert!(Spread::of(&[]).is_none());
    }

    /// Returns rows of subjects with an admitted share of `admitted` and these ns per round.
    fn measured(
        section: &Section,
        traffic: Traffic,
        subjects: &[(&'static str, u64, [f64; 3])],
    ) -> Vec<Row> {
        let cases: Vec<Case> = subjects
            .iter()
            .map(|&(subject, ..)| Case {
                subject,
                traffic,
                batch: Box::new(|_| 0),
                prepare: None,
                bytes: Some(Bytes {
                    inline: 64,
                    allocated: 16,
                }),
            })
            .collect();
        let samples: Vec<Samples> = subjects
            .iter()
            .map(|&(_, admitted, ns_per_op)| Samples {
                ns_per_op: ns_per_op.to_vec(),
                slowest_share: vec![1.0; ns_per_op.len()],
                operations: 4,
                admitted,
            })
            .collect();
        let plan = Plan {
            threads: 1,
            rounds: 3,
            window: Duration::ZERO,
        };
        let allocations = vec![0.0; subjects.len()];
        rows(section, &cases, &samples, &allocations, plan)
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The machine slows down twofold in the second round and threefold in the third: the ratio
        // stays 2.
        let rows = measured(
            &SINGLE,
            Traffic::Refuse,
            &[
                (GOVERNOR, 0, [10.0, 20.0, 30.0]),
                (FLOWGATE, 0, [20.0, 40.0, 60.0]),
            ],
        );
        let ratio = rows[1].ratio.expect("there is a baseline");
        assert_eq!((ratio.p10, ratio.p50, ratio.p90), (2.0, 2.0, 2.0));
        assert!(verdicts(&SINGLE, &rows).contains("MISSED: 2.000"));
    }

    #[test]
    fn a_goal_is_over_its_own_base_whatever_the_table_is_over() {
        let rows = measured(
            &TYPES,
            Traffic::Admit,
            &[
                (TOKEN_BUCKET, 4, [20.0; 3]),
                (CAS, 4, [8.0, 8.0, 16.0]),
                ("FixedWindow, clock-free", 4, [10.0, 10.0, 20.0]),
            ],
        );
        assert_eq!(rows[2].ratio.expect("there is a baseline").p50, 0.5);
        let verdicts = verdicts(&TYPES, &rows);
        let line = "goal MET: 1.250 (1.250..1.250), FixedWindow, clock-free at most 1.45 x";
        assert!(verdicts.contains(line), "{verdicts}");
    }

    #[test]
    fn a_case_that_admits_what_it_should_refuse_is_invalid() {
        let both = [(GOVERNOR, 0, [1.0; 3]), (FLOWGATE, 2, [1.0; 3])];
        let rows = measured(&SINGLE, Traffic::Refuse, &both);
        assert!(verdicts(&SINGLE, &rows).contains("INVALID: flowgate admitted 50.0 %"));
        assert!(tables(&SINGLE, &rows).contains("NOT AS TITLED"));
        // Nor does anything follow from a base that does.
        let both = [(GOVERNOR, 1, [1.0; 3]), (FLOWGATE, 0, [1.0; 3])];
        let rows = measured(&SINGLE, Traffic::Refuse, &both);
        assert!(verdicts(&SINGLE, &rows).contains("INVALID: governor 0.10.4 admitted 25.0 %"));
    }

    #[test]
    fn bytes_are_told_once_for_each_kind() {
        let subjects = [(TOKEN_BUCKET, 4, [1.0; 3])];
        let mut rows = measured(&TYPES, Traffic::Admit, &subjects);
        rows.extend(measured(&TYPES, Traffic::Admit, &subjects));
        assert_eq!(sizes(&rows).matches(TOKEN_BUCKET).count(), 1);
    }
}
