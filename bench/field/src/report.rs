//! The report, as text and as `--json` writes it.

mod text;

use flowgate_testkit::conformance::{self, Contract};
use serde::Serialize;

use crate::matrix::{self, Cell};
use crate::peers::{self, Driven};
use crate::seen::Seen;
use crate::waiting::{self, rates, slots};
use crate::{defects, quiet};

/// Histories for each contract of each limiter.
const HISTORIES: u64 = 10_000;
const HISTORIES_QUICK: u64 = 1_000;

/// Everything that was found.
#[derive(Serialize)]
pub struct Report {
    quick: bool,
    histories: u64,
    matrix: Vec<Limiter>,
    defects: Vec<Defect>,
    rates: Waiting,
    slots: Waiting,
}

/// A row of the matrix.
#[derive(Serialize)]
struct Limiter {
    name: &'static str,
    ours: bool,
    promise: String,
    takes: &'static str,
    not_drivable: Option<&'static str>,
    cells: Vec<Judged>,
}

/// A cell of the matrix.
#[derive(Serialize)]
struct Judged {
    contract: String,
    title: &'static str,
    verdict: &'static str,
    /// Limiters that nothing was found of.
    limiters: Option<u64>,
    documented: Option<&'static str>,
    finding: Option<Finding>,
}

/// What shows it.
#[derive(Serialize)]
struct Finding {
    what: String,
    quota: String,
    history: Vec<String>,
}

/// A known defect.
#[derive(Serialize)]
struct Defect {
    number: u8,
    who: &'static str,
    experiment: &'static str,
    seen: String,
    verdict: &'static str,
    flowgate: Option<Observed>,
}

/// What was seen, and whether it is as it should be.
#[derive(Serialize)]
struct Observed {
    seen: String,
    right: bool,
}

/// A table about waiters.
#[derive(Serialize)]
struct Waiting {
    experiments: Vec<(&'static str, &'static str)>,
    rows: Vec<(&'static str, Vec<Option<Observed>>)>,
}

impl From<Seen> for Observed {
    fn from(seen: Seen) -> Self {
        Self {
            seen: seen.what,
            right: seen.right,
        }
    }
}

impl Observed {
    fn word(&self) -> &'static str {
        if self.right { "kept" } else { "BROKEN" }
    }
}

impl Report {
    /// Runs everything.
    pub fn of(quick: bool) -> Self {
        let histories = if quick { HISTORIES_QUICK } else { HISTORIES };
        let rows = quiet::quietly(|| {
            let peers = peers::all().into_iter();
            peers
                .map(|peer| matrix::judge(peer, histories))
                .collect::<Vec<_>>()
        });
        Self {
            quick,
            histories,
            matrix: rows.into_iter().map(Limiter::from).collect(),
            defects: defects::ALL.iter().map(Defect::from).collect(),
            rates: Waiting::new(&rates::EXPERIMENTS, rates::rows()),
            slots: Waiting::new(&slots::EXPERIMENTS, slots::rows()),
        }
    }

    /// Returns a line per table row, without values that differ from run to run.
    pub fn verdicts(&self) -> Vec<String> {
        let matrix = self.matrix.iter().map(|limiter| {
            let words: Vec<_> = limiter.cells.iter().map(|cell| cell.verdict).collect();
            format!("matrix | {} | {}", limiter.name, words.join(" | "))
        });
        let defects = self.defects.iter().map(|defect| {
            let ours = defect.flowgate.as_ref().map_or("–", Observed::word);
            format!(
                "defect | #{} {} | {} | {ours}",
                defect.number, defect.who, defect.verdict
            )
        });
        let waiting = self.rates.rows.iter().chain(&self.slots.rows);
        let waiting = waiting.map(|(name, cells)| {
            let words = cells
                .iter()
                .map(|cell| cell.as_ref().map_or("–", Observed::word));
            format!(
                "waiting | {name} | {}",
                words.collect::<Vec<_>>().join(" | ")
            )
        });
        matrix.chain(defects).chain(waiting).collect()
    }

    /// Whether nothing was found of ours.
    pub fn ours_are_right(&self) -> bool {
        let matrix = self.matrix.iter().filter(|limiter| limiter.ours);
        let mut cells = matrix.flat_map(|limiter| &limiter.cells);
        let mut defects = self
            .defects
            .iter()
            .filter_map(|defect| defect.flowgate.as_ref());
        let waiting = self.rates.rows.iter().chain(&self.slots.rows);
        let mut waiting = waiting
            .filter(|(name, _)| peers::is_ours(name))
            .flat_map(|(_, cells)| cells.iter().flatten());
        cells.all(|cell| cell.finding.is_none())
            && defects.all(|seen| seen.right)
            && waiting.all(|seen| seen.right)
    }
}

impl From<matrix::Row> for Limiter {
    fn from(row: matrix::Row) -> Self {
        let not_drivable = match row.peer.driven {
            Driven::Not(why) => Some(why),
            _ => None,
        };
        Self {
            name: row.peer.name,
            ours: peers::is_ours(row.peer.name),
            promise: row.peer.kind.to_string(),
            takes: row.peer.takes,
            not_drivable,
            cells: Contract::ALL
                .iter()
                .zip(&row.cells)
                .map(Judged::of)
                .collect(),
        }
    }
}

impl Judged {
    fn of((contract, cell): (&Contract, &Cell)) -> Self {
        let limiters = match cell {
            Cell::Kept { limiters } => Some(*limiters),
            _ => None,
        };
        let documented = match cell {
            Cell::Documented(_, says) => Some(*says),
            _ => None,
        };
        Self {
            contract: format!("{contract:?}"),
            title: contract.title(),
            verdict: cell.word(),
            limiters,
            documented,
            finding: cell.finding().map(Finding::from),
        }
    }
}

impl From<&conformance::Finding> for Finding {
    fn from(finding: &conformance::Finding) -> Self {
        let history = finding.trace.iter();
        Self {
            what: finding.what.clone(),
            quota: finding.setup.to_string(),
            history: history
                .map(|(step, outcome)| format!("{step} -> {outcome}"))
                .collect(),
        }
    }
}

impl From<&defects::Experiment> for Defect {
    fn from(experiment: &defects::Experiment) -> Self {
        let theirs = (experiment.theirs)();
        Self {
            number: experiment.number,
            who: experiment.who,
            experiment: experiment.what,
            seen: theirs.what,
            verdict: if theirs.right { "FIXED" } else { "STILL THERE" },
            flowgate: experiment.ours.map(|ours| ours().into()),
        }
    }
}

impl Waiting {
    fn new(experiments: &[(&'static str, &'static str)], rows: Vec<waiting::Row>) -> Self {
        let observed =
            |cells: Vec<Option<Seen>>| cells.into_iter().map(|cell| cell.map(Observed::from));
        let rows = rows
            .into_iter()
            .map(|row| (row.name, observed(row.cells).collect()));
        Self {
            experiments: experiments.to_vec(),
            rows: rows.collect(),
        }
    }
}
