//! The number in a limiter's text with which a run keeps a wish.

use std::fmt::Write;
use std::time::Duration;

use flowgate_sim::{
    LimitConfig, Scenario, ScenarioError, Search, StopReason, TextError, Wish, suggest,
};

use super::report::SuggestionReport;
use super::{Reports, Session, usage};
use crate::exit::{Exit, Refusal, complain};

/// The largest number that is tried.
const LARGEST: u64 = 1_000_000;

/// The text of a limiter with an `N` in place of a number: `token N/s burst 20`.
#[derive(Clone, Debug)]
pub(crate) struct LimiterTemplate(String);

impl LimiterTemplate {
    /// Returns the template, if the text has an `N` that is not part of a word.
    pub(crate) fn new(text: &str) -> Option<LimiterTemplate> {
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        let has_number = words.filter(|word| *word == "N").count() > 0;
        has_number.then(|| LimiterTemplate(text.to_owned()))
    }

    /// Returns the limit with this number.
    pub(crate) fn with(&self, number: u64) -> Result<LimitConfig, TextError> {
        let mut text = String::new();
        let mut word = String::new();
        for letter in self.0.chars().chain([' ']) {
            if letter.is_alphanumeric() {
                word.push(letter);
                continue;
            }
            match word.as_str() {
                "N" => _ = write!(text, "{number}"),
                word => text.push_str(word),
            }
            word.clear();
            text.push(letter);
        }
        text.trim_end().parse()
    }
}

/// Why there is no suggestion.
enum Failure {
    Error(ScenarioError),
    Interrupted,
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::Error(error)
    }
}

/// Reports the number that keeps the wish, and the numbers that were tried.
pub(crate) fn show(
    scenario: &Scenario,
    wish: Wish,
    template: LimiterTemplate,
    reports: Reports,
) -> Result<Exit, Refusal> {
    let limit = |number| template.with(number).map_err(ScenarioError::from);
    let mut scenario = scenario.clone();
    // A limit for each key names the field of the log that is the key.
    scenario.limits = vec![limit(1).map_err(usage)?];
    let session = Session::new(&scenario, reports.is_quiet)?;
    // A larger limit admits more, and lets latency grow.
    let search = match wish {
        Wish::LatencyAtMost { .. } => Search::largest(1..=LARGEST),
        _ => Search::smallest(1..=LARGEST),
    };
    let mut duration = Duration::ZERO;
    let found = suggest(&wish, &search, |number| {
        let outcome = session.run(&limit(number)?)?;
        duration = outcome.duration;
        match outcome.stopped {
            Some(StopReason::Interrupted) => Err(Failure::Interrupted),
            _ => Ok(outcome),
        }
    });
    let found = match found {
        Ok(found) => found,
        Err(Failure::Error(error)) => return Err(usage(error)),
        Err(Failure::Interrupted) => {
            complain(&"stopped before a number was found");
            return Ok(Exit::Interrupted);
        }
    };
    let limits = found.value.map(limit).transpose().map_err(usage)?;
    scenario.limits = limits.into_iter().collect();
    let description = super::description(&scenario);
    let report = SuggestionReport::new(description, duration, template.0, wish, &found);
    reports.write(&report)?;
    Ok(session.exit(match found.value {
        Some(_) => Exit::Success,
        None => Exit::GateFailed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_a_number_that_is_not_part_of_a_word() {
        let template = LimiterTemplate::new("token N/s burst 20").unwrap();
        assert_eq!(template.with(5).unwrap().title(), "token 5/s burst 20");
        let template = LimiterTemplate::new("concurrency N").unwrap();
        assert_eq!(template.with(40).unwrap().title(), "concurrency 40");
        assert!(LimiterTemplate::new("keyed token 5/s by Name").is_none());
    }
}
