//! The report as it is printed.

use std::fmt::{self, Write as _};

use flowgate_testkit::conformance::Contract;

use super::{Defect, Finding, Judged, Limiter, Observed, Report, Waiting};

const MATRIX: &str = "  kept       nothing was found
  by design  it differs, by no more than its documentation says
  rounded    it differs, by no more than what comes back in a millisecond, and a hundred-thousandth of a token
  BROKEN°    only beyond ordinary limits: where units are not whole milliseconds apart, a burst takes over a year to
             come back, or the clock has run for a century
  BROKEN     with ordinary limits
  –          it has nothing that the contract is about, or promises no number (C8)
  ?          it cannot be given a time, or none that goes back (C4)

C4 is about clocks that stall, jump and go back, also where a crate asks for one that does not.
";

impl Report {
    /// All tables; with the histories behind the findings of limiters whose name contains `explain`.
    pub fn text(&self, explain: Option<&str>) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, explain);
        text
    }

    /// Whether all is well with ours, in a line.
    pub fn verdict_on_ours(&self) -> &'static str {
        if self.ours_are_right() {
            "flowgate: nothing was found"
        } else {
            "flowgate: SOMETHING WAS FOUND, see above"
        }
    }

    fn write(&self, f: &mut impl fmt::Write, explain: Option<&str>) -> fmt::Result {
        let Self {
            quick, histories, ..
        } = self;
        let quick = if *quick { ", quick" } else { "" };
        writeln!(
            f,
            "Matrix: contract by limiter, about {histories} histories each{quick}\n"
        )?;
        let titles = Contract::ALL.map(|contract| format!("{contract:?} {}", contract.title()));
        let rows = self.matrix.iter().map(|limiter| {
            let cells = limiter.cells.iter().map(|cell| cell.verdict.to_owned());
            (limiter.name, cells.collect())
        });
        table(f, &titles, rows)?;
        writeln!(
            f,
            "\n{MATRIX}\nWhat shows it, most briefly, and what each was asked to keep:\n"
        )?;
        for limiter in self.matrix.iter().filter(|limiter| !limiter.ours) {
            limiter.write(f, explain.is_some_and(|text| limiter.name.contains(text)))?;
        }
        writeln!(f, "\nKnown defects, repeated\n")?;
        self.defects.iter().try_for_each(|defect| defect.write(f))?;
        writeln!(f, "\nThose who wait for tokens; t is the time of one\n")?;
        self.rates.write(f)?;
        writeln!(
            f,
            "\nThose who wait for slots; AdaptiveLimiter documents no order\n"
        )?;
        self.slots.write(f)
    }
}

impl Limiter {
    fn write(&self, f: &mut impl fmt::Write, explain: bool) -> fmt::Result {
        let Self {
            name,
            promise,
            takes,
            ..
        } = self;
        if let Some(why) = self.not_drivable {
            return writeln!(f, "{name}: {why}");
        }
        writeln!(f, "{name}: {promise}; {takes}")?;
        let kept = self.cells.iter().filter_map(|cell| {
            let limiters = cell.limiters?;
            Some(format!("{} in {limiters}", cell.contract))
        });
        match kept.collect::<Vec<_>>() {
            kept if kept.is_empty() => {}
            kept => writeln!(f, "  kept: {} limiters", kept.join(", "))?,
        }
        for cell in &self.cells {
            cell.write(f, explain)?;
        }
        Ok(())
    }
}

impl Judged {
    fn write(&self, f: &mut impl fmt::Write, explain: bool) -> fmt::Result {
        let Some(Finding {
            what,
            quota,
            history,
        }) = &self.finding
        else {
            return Ok(());
        };
        let (contract, verdict) = (&self.contract, self.verdict);
        write!(f, "  {contract} {verdict}: {what} ({quota})")?;
        match self.documented {
            Some(says) => writeln!(f, "; {says}")?,
            None => writeln!(f)?,
        }
        let shown = if explain { history.as_slice() } else { &[] };
        shown
            .iter()
            .try_for_each(|step| writeln!(f, "       {step}"))
    }
}

impl Defect {
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let Self {
            number,
            who,
            experiment,
            seen,
            verdict,
            flowgate,
        } = self;
        writeln!(f, "#{number} {who}: {experiment}")?;
        writeln!(f, "     {verdict}: {seen}")?;
        match flowgate {
            Some(Observed { seen, right: true }) => writeln!(f, "     flowgate: {seen}"),
            Some(Observed { seen, right: false }) => writeln!(f, "     flowgate TOO: {seen}"),
            None => writeln!(f, "     flowgate has nothing of the kind"),
        }
    }
}

impl Waiting {
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let titles: Vec<_> = self
            .experiments
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let rows = self.rows.iter().map(|(name, cells)| {
            let cells = cells.iter().map(|cell| match cell {
                Some(Observed { seen, right: true }) => seen.clone(),
                Some(Observed { seen, right: false }) => format!("BROKEN: {seen}"),
                None => "–".to_owned(),
            });
            (*name, cells.collect())
        });
        table(f, &titles, rows)?;
        writeln!(f)?;
        let mut experiments = self.experiments.iter();
        experiments.try_for_each(|(name, what)| writeln!(f, "  {name:<10} {what}"))
    }
}

/// Writes a table with columns as wide as they have to be.
fn table<'a>(
    f: &mut impl fmt::Write,
    titles: &[String],
    rows: impl Iterator<Item = (&'a str, Vec<String>)>,
) -> fmt::Result {
    let head = ("", titles.to_vec());
    let rows: Vec<_> = [head].into_iter().chain(rows).collect();
    let names = rows.iter().map(|(name, _)| name.chars().count());
    let name_width = names.max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..titles.len()).map(width).collect();
    for (name, cells) in &rows {
        let mut line = format!("{name:<name_width$}");
        for (cell, width) in cells.iter().zip(&widths) {
            write!(line, "  {cell:<width$}")?;
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
