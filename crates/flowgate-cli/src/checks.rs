//! What a run is judged by: its verdict, and each condition. As lines, as JUnit XML, and as Markdown.

use std::fmt::Write;

use flowgate_chart::Escaped;
use flowgate_load::{Report, RunComparison, Verdict};

use crate::argument::gate::{Checked, Gate};
use crate::figure;

/// A check, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    name: String,
    result: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// Passed, with the measured change if there is one.
    Passed(Option<String>),
    Failed(String),
    /// Not checked, because the run was stopped.
    Skipped,
}

/// Checks the conditions. `baseline` is the earlier run, if there is one.
pub(crate) fn conditions(report: &Report, baseline: Option<&Report>, gates: &[Gate]) -> Vec<Check> {
    let check = |gate: &Gate| {
        let result = match baseline {
            _ if report.is_interrupted => Outcome::Skipped,
            Some(baseline) if gate.needs_baseline() => match gate.against(baseline, report) {
                Checked::Failed(text) => Outcome::Failed(text),
                Checked::Passed(text) => Outcome::Passed(Some(text)),
            },
            _ => match gate.failure(report) {
                Some(text) => Outcome::Failed(text),
                None => Outcome::Passed(None),
            },
        };
        Check {
            name: format!("--fail-if {}", gate.text()),
            result,
        }
    };
    gates.iter().map(check).collect()
}

impl Check {
    /// Returns the reason if the check failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.result {
            Outcome::Failed(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the measured change if the check passed against an earlier run.
    pub(crate) fn note(&self) -> Option<&str> {
        match &self.result {
            Outcome::Passed(text) => text.as_deref(),
            _ => None,
        }
    }
}

/// Returns the check of the verdict.
fn verdict(report: &Report) -> Check {
    let verdict = report.verdict();
    let result = match &verdict {
        Verdict::RateHeld | Verdict::RateLimitKept | Verdict::Unpaced => Outcome::Passed(None),
        verdict => {
            let causes: Vec<_> = verdict.causes().iter().map(ToString::to_string).collect();
            Outcome::Failed(format!("{verdict}: {}", causes.join("; ")))
        }
    };
    Check {
        name: format!("load as requested: {}", report.asked.text),
        result,
    }
}

/// Returns a test suite in the format of JUnit, as CI systems read it.
pub(crate) fn junit(report: &Report, conditions: &[Check]) -> String {
    let all: Vec<Check> = [verdict(report)]
        .into_iter()
        .chain(conditions.iter().cloned())
        .collect();
    let count = |is: fn(&Outcome) -> bool| all.iter().filter(|check| is(&check.result)).count();
    let failures = count(|result| matches!(result, Outcome::Failed(_)));
    let skipped = count(|result| *result == Outcome::Skipped);
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
         <testsuite name=\"flowgate load {}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" \
         skipped=\"{skipped}\" time=\"{:.3}\">\n",
        Escaped(&report.target),
        all.len(),
        report.span.as_secs_f64()
    );
    for check in &all {
        let name = Escaped(&check.name);
        let inner = match &check.result {
            Outcome::Passed(None) => String::new(),
            Outcome::Passed(Some(text)) => {
                format!("<system-out>{}</system-out>", Escaped(text))
            }
            Outcome::Failed(text) => format!("<failure message=\"{}\"/>", Escaped(text)),
            Outcome::Skipped => "<skipped/>".to_owned(),
        };
        let _ = writeln!(
            xml,
            "<testcase classname=\"flowgate.load\" name=\"{name}\">{inner}</testcase>"
        );
    }
    xml + "</testsuite>\n</testsuites>\n"
}

/// Returns a summary in Markdown, for a page of a CI system.
pub(crate) fn summary(
    report: &Report,
    comparison: Option<&RunComparison>,
    conditions: &[Check],
) -> String {
    let mut text = format!(
        "### flowgate load: {}\n\n`{}`, asked {}\n\n",
        report.verdict(),
        cell(&report.target).replace('`', ""),
        cell(&report.asked.text)
    );
    text += "| sent | errors | p50 | p99 | max |\n|---|---|---|---|---|\n";
    let errors = report.counts.error_share().unwrap_or(0.0);
    let time = figure::time;
    let response = &report.response;
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} |\n",
        report.counts.sent,
        figure::percent(errors),
        time(response.p50),
        time(response.p99),
        time(response.max)
    );
    text += "| check | result |\n|---|---|\n";
    for check in [verdict(report)].iter().chain(conditions) {
        let result = match &check.result {
            Outcome::Passed(None) => "passed".to_owned(),
            Outcome::Passed(Some(text)) => format!("passed: {text}"),
            Outcome::Failed(text) => format!("**failed**: {text}"),
            Outcome::Skipped => "not checked".to_owned(),
        };
        let _ = writeln!(text, "| {} | {} |", cell(&check.name), cell(&result));
    }
    if let Some(comparison) = comparison {
        let _ = write!(text, "\n```text\n{comparison}```\n");
    }
    text + "\n"
}

/// Returns text as one cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\r', '\n'], " ")
}
