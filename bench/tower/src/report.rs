//! What came out: a table for each situation, and the goals.

use std::fmt::Write as _;

use serde::Serialize;

use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;
use crate::subject::{BARE, FLOWGATE, GOVERNOR, Situation};

/// The most that the overhead may be of tower_governor's.
fn most(situation: Situation) -> f64 {
    match situation {
        Situation { admits: false, .. } => 0.5,
        Situation {
            has_fields: true, ..
        } => 0.7,
        Situation { .. } => 0.9,
    }
}

/// How far the admitted share may be from what the situation says.
const SHARE_TOLERANCE: f64 = 0.001;

/// The most that the 90th percentile of the bare service's time may be of its 10th, on a calm machine.
const CALM: f64 = 1.15;

/// What the stopwatch says of one subject.
pub struct Measured {
    pub subject: &'static str,
    pub admitted_share: f64,
    /// By round.
    pub ns_per_op: Vec<f64>,
    pub allocations_per_op: f64,
}

/// One subject in one situation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub situation: Situation,
    /// Ratio of the added time to that of tower_governor; `None` for the bare service.
    pub ratio: Option<Spread>,
    /// What it adds to the bare service of the same round.
    pub added_ns: Spread,
    /// All of it: the request, the layer, the service, the response.
    pub ns_per_op: Spread,
    /// Beyond those of the bare service.
    pub allocations_added: f64,
    pub admitted_share: f64,
}

impl Row {
    /// Returns the rows of one situation, in the order of `measured`.
    ///
    /// `measured` includes the bare service and tower_governor.
    pub fn of(situation: Situation, measured: &[Measured]) -> Vec<Row> {
        let find = |subject| measured.iter().find(|measured| measured.subject == subject);
        let (Some(bare), Some(governor)) = (find(BARE), find(GOVERNOR)) else {
            return Vec::new();
        };
        let added = |measured: &Measured| -> Vec<f64> {
            let pairs = measured.ns_per_op.iter().zip(&bare.ns_per_op);
            pairs.map(|(all, bare)| all - bare).collect()
        };
        let added_by_governor = added(governor);
        let row = |measured: &Measured| {
            let added = added(measured);
            let pairs = added.iter().zip(&added_by_governor);
            let ratio = pairs.map(|(ours, governors)| ours / governors).collect();
            Row {
                subject: measured.subject,
                situation,
                ratio: (measured.subject != BARE).then(|| Spread::of(ratio)),
                added_ns: Spread::of(added),
                ns_per_op: Spread::of(measured.ns_per_op.clone()),
                allocations_added: measured.allocations_per_op - bare.allocations_per_op,
                admitted_share: measured.admitted_share,
            }
        };
        measured.iter().map(row).collect()
    }

    /// Was the answer the one that the title says? If not, something else was measured.
    fn is_as_titled(&self) -> bool {
        let wanted = if self.situation.admits { 1.0 } else { 0.0 };
        (wanted - self.admitted_share).abs() <= SHARE_TOLERANCE
    }
}

pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some(row.situation) {
            heading = Some(row.situation);
            let _ = writeln!(
                text,
                "\n{}\n  {:<28} {:>15} {:>15} {:>9} {:>15} {:>8} {:>9} {:>12}",
                row.situation.title(),
                "",
                "/tower_governor",
                "p10..p90",
                "ns added",
                "p10..p90",
                "ns all",
                "admitted",
                "allocs added",
            );
        }
        let (ratio, ratio_range) = match row.ratio {
            Some(ratio) => (
                format!("{:.3}", ratio.p50),
                format!("{:.3}..{:.3}", ratio.p10, ratio.p90),
            ),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let added = row.added_ns;
        let _ = writeln!(
            text,
            "  {:<28} {ratio:>15} {ratio_range:>15} {:>9.1} {:>15} {:>8.1} {:>7.1} % {:>12.2}{}",
            row.subject,
            added.p50,
            format!("{:.1}..{:.1}", added.p10, added.p90),
            row.ns_per_op.p50,
            100.0 * row.admitted_share,
            row.allocations_added,
            if row.is_as_titled() {
                ""
            } else {
                "  NOT AS TITLED"
            },
        );
    }
    text
}

/// One for each situation.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let ours = rows.iter().filter(|row| row.subject == FLOWGATE);
    let verdict = |ours: &Row| {
        let same = rows.iter().filter(|row| row.situation == ours.situation);
        let is_valid = same
            .filter(|row| [BARE, GOVERNOR, FLOWGATE].contains(&row.subject))
            .all(Row::is_as_titled);
        let ratio = ours.ratio.filter(|_| is_valid).map(|ratio| ratio.p50);
        let (title, most) = (ours.situation.title(), most(ours.situation));
        let goal = format!("at most {most:.2} x what {GOVERNOR} adds; {title}");
        Verdict::at_most(goal, ratio, most, " x")
    };
    ours.map(verdict).collect()
}

/// A line for each situation during which the machine did something else.
pub fn disturbances(rows: &[Row]) -> Vec<String> {
    let bare = rows.iter().filter(|row| row.subject == BARE);
    let disturbed = bare.filter(|row| row.ns_per_op.p90 > CALM * row.ns_per_op.p10);
    let line = |row: &Row| {
        let Spread { p10, p90, .. } = row.ns_per_op;
        format!(
            "{BARE} took {p10:.1}..{p90:.1} ns: {}",
            row.situation.title()
        )
    };
    disturbed.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine slows down twofold in the second round and threefold in the third.
    fn rows(admitted_share: f64) -> Vec<Row> {
        let situation = Situation::all()[0];
        let measured = |subject, ns| Measured {
            subject,
            admitted_share,
            ns_per_op: vec![ns, 2.0 * ns, 3.0 * ns],
            allocations_per_op: 5.0,
        };
        let of = [(BARE, 100.0), (GOVERNOR, 180.0), (FLOWGATE, 120.0)];
        Row::of(situation, &of.map(|(subject, ns)| measured(subject, ns)))
    }

    #[test]
    fn what_is_compared_is_what_is_added_in_the_same_round() {
        let rows = rows(1.0);
        let ratio = rows[2].ratio.expect("it is not the bare service");
        assert_eq!((ratio.p10, ratio.p50, ratio.p90), (0.25, 0.25, 0.25));
        assert_eq!(rows[2].added_ns.p50, 40.0);
        assert_eq!(rows[2].allocations_added, 0.0);
        let verdict = verdicts(&rows)[0].to_string();
        assert!(verdict.starts_with("goal MET: 0.250 x"), "{verdict}");
        assert_eq!(disturbances(&rows).len(), 1);
    }

    #[test]
    fn a_layer_that_refuses_what_it_should_admit_meets_no_goal() {
        let rows = rows(0.5);
        let verdict = verdicts(&rows)[0].to_string();
        assert!(verdict.starts_with("goal NOT MEASURED"), "{verdict}");
        assert!(tables(&rows).contains("NOT AS TITLED"));
    }
}
