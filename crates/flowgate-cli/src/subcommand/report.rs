//! `flowgate report`: shows saved reports as text, as a page or as a table.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use flowgate_load::{Merged, RunComparison, html};

use crate::argument::input;
use crate::argument::output::file;
use crate::csv::quoted;
use crate::exit::{Exit, Refusal, print};
use crate::reports::{self, Destinations};

/// Show saved reports of load: as text, as one page, or as one table
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// Read these files, written by flowgate load --json; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Join the reports of all slices of one run
    #[arg(long)]
    merge: bool,

    /// With --merge, write the joined report as JSON; - is standard output
    #[arg(long, value_name = "FILE", value_parser = file, requires = "merge")]
    json: Option<PathBuf>,

    /// Write a page whose charts show all runs; - is standard output
    #[arg(long, value_name = "FILE", value_parser = file)]
    html: Option<PathBuf>,

    /// Write counts and times per second as CSV; - is standard output
    #[arg(long, value_name = "FILE", value_parser = file)]
    csv: Option<PathBuf>,
}

/// A run with its label.
type Run = (String, flowgate_load::Report);

/// Runs the subcommand.
pub(crate) fn run(report: Report) -> Exit {
    match show(report) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}

fn show(report: Report) -> Result<(), Refusal> {
    input::one_stdin(&report.files)?;
    let labels = labels(&report.files);
    let runs: Vec<Run> = labels
        .into_iter()
        .zip(&report.files)
        .map(|(label, path)| Ok((label, reports::read("", path)?)))
        .collect::<Result<_, Refusal>>()?;
    let is_text = report.html.is_none() && report.csv.is_none() && report.json.is_none();
    let reports = Destinations {
        json: report.json,
        csv: report.csv,
        html: report.html,
        ..Destinations::default()
    }
    .open(&report.files)?;
    let (runs, text) = match report.merge {
        false => {
            let text = is_text.then(|| text(&runs));
            (runs, text)
        }
        true => {
            let merged =
                Merged::of(runs).map_err(|error| Refusal::usage(format!("--merge: {error}")))?;
            let text = is_text.then(|| merged.to_string());
            (vec![("merged".to_owned(), merged.report)], text)
        }
    };
    if let Some(text) = text {
        return print(&text);
    }
    if let (Some(sink), [(_, merged)]) = (reports.json, &runs[..]) {
        sink.write(merged.to_json())?;
    }
    if let Some(sink) = reports.csv {
        sink.write(table(&runs))?;
    }
    if let Some(sink) = reports.html {
        sink.write(html::page(&runs))?;
    }
    Ok(())
}

/// Returns the labels of the runs: file names if they are distinct, else paths.
fn labels(files: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| match path.file_stem() {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    };
    let stems: Vec<_> = files.iter().map(stem).collect();
    let distinct: BTreeSet<_> = stems.iter().collect();
    match distinct.len() == stems.len() {
        true => stems,
        false => files
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    }
}

fn text(runs: &[Run]) -> String {
    match runs {
        [(_, report)] => report.to_string(),
        runs => {
            let text = |(label, report): &Run| format!("{label}\n{report}");
            let texts: Vec<_> = runs.iter().map(text).collect();
            texts.join("\n") + &comparisons(runs)
        }
    }
}

/// Compares each run with the first.
fn comparisons(runs: &[Run]) -> String {
    let [(first, baseline), others @ ..] = runs else {
        return String::new();
    };
    let compared = others.iter().map(|(label, report)| {
        let comparison = RunComparison::of(baseline, report);
        format!("\n{label} compared with {first}\n{comparison}")
    });
    compared.collect()
}

/// Returns one table. With several runs, each line starts with the name of its run.
fn table(runs: &[Run]) -> String {
    if let [(_, report)] = runs {
        return report.to_csv();
    }
    let mut table = String::new();
    for (index, (label, report)) in runs.iter().enumerate() {
        let csv = report.to_csv();
        let mut lines = csv.lines();
        if let (Some(header), 0) = (lines.next(), index) {
            table += &format!("run,{header}\r\n");
        }
        let label = quoted(label);
        for line in lines {
            table += &format!("{label},{line}\r\n");
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_what_tells_them_apart() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(labels(&paths(&["x/a.json", "b.json"])), ["a", "b"]);
        assert_eq!(
            labels(&paths(&["x/a.json", "y/a.json"])),
            ["x/a.json", "y/a.json"]
        );
    }
}
