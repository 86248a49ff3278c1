//! `flowgate report`: what runs wrote as JSON, in words, as a page or as a table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use flowgate_load::html;

use crate::argument::output::file;
use crate::exit::{Exit, Refusal, print};
use crate::reports::Destinations;

/// Show what runs wrote with --json: in words, one run below the other, or all on one page or in one table
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// What flowgate load --json has written
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write a page with charts, all runs in each; - for standard output
    #[arg(long, value_name = "FILE", value_parser = file)]
    html: Option<PathBuf>,

    /// Write what happened in each second, as CSV
    #[arg(long, value_name = "FILE", value_parser = file)]
    csv: Option<PathBuf>,
}

/// A run, and what it is called.
type Run = (String, flowgate_load::Report);

/// Runs the verb.
pub(crate) fn run(report: Report) -> Exit {
    match show(report) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}

fn show(report: Report) -> Result<(), Refusal> {
    let labels = labels(&report.files);
    let runs: Vec<Run> = labels
        .into_iter()
        .zip(&report.files)
        .map(|(label, path)| Ok((label, read(path)?)))
        .collect::<Result<_, Refusal>>()?;
    let is_text = report.html.is_none() && report.csv.is_none();
    let reports = Destinations {
        json: None,
        csv: report.csv,
        html: report.html,
    }
    .open(&report.files)?;
    if is_text {
        return print(&text(&runs));
    }
    if let Some(sink) = reports.csv {
        sink.write(&table(&runs))?;
    }
    if let Some(sink) = reports.html {
        sink.write(&html::page(&runs))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<flowgate_load::Report, Refusal> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Refusal::could_not_run(format!("cannot read {name}: {error}")))?;
    flowgate_load::Report::from_json(&text).map_err(|error| {
        // What a parser has to say about fields is of use to nobody who did not write them.
        let why = match error.is_other_schema() {
            true => error.to_string(),
            false => "not a report: type a file that flowgate load --json has written".to_owned(),
        };
        Refusal::usage(format!("{name}: {why}"))
    })
}

/// What the runs are called: their files' names, as far as these tell them apart.
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
        runs => runs
            .iter()
            .map(|(label, report)| format!("{label}\n{report}"))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// One table of all, each line with its run's name where there are several.
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

/// As RFC 4180 has it.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
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

    #[test]
    fn fields_that_hold_a_comma_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
