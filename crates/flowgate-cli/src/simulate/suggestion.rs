//! The number in a limiter's text with which a run keeps a wish.

use std::fmt::Write;

use flowgate_sim::{
    LimitConfig, Scenario, ScenarioError, Search, Suggestion, TextError, Wish, suggest,
};

use crate::exit::{Exit, Refusal, print};

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

/// Prints the number that keeps the wish, and the numbers that were tried.
pub(crate) fn show(
    scenario: &Scenario,
    wish: &Wish,
    template: &LimiterTemplate,
) -> Result<Exit, Refusal> {
    let usage = |error: ScenarioError| Refusal::usage(error.to_string());
    let limit = |number| template.with(number).map_err(ScenarioError::from);
    let mut scenario = scenario.clone();
    // A limit for each key names the field of the log that is the key.
    scenario.limits = vec![limit(1).map_err(usage)?];
    let prepared = scenario.prepare(&mut |_| {}).map_err(usage)?;
    // A larger limit admits more, and lets latency grow.
    let search = match wish {
        Wish::LatencyAtMost { .. } => Search::largest(1..=LARGEST),
        _ => Search::smallest(1..=LARGEST),
    };
    let found = suggest(wish, &search, |number| prepared.run(&limit(number)?)).map_err(usage)?;
    print(&text(wish, template, &found))?;
    Ok(match found.value {
        Some(_) => Exit::Success,
        None => Exit::GateFailed,
    })
}

fn text(wish: &Wish, template: &LimiterTemplate, found: &Suggestion) -> String {
    let mut text = format!("{}\n{wish}\n\n", template.0);
    let which = match wish {
        Wish::LatencyAtMost { .. } => "largest",
        _ => "smallest",
    };
    let _ = match found.value {
        Some(value) => writeln!(text, "N = {value}, the {which} that keeps it"),
        None => writeln!(text, "no N from 1 to {LARGEST} keeps it"),
    };
    if !found.is_monotone {
        text.push_str("smaller and larger N keep it and fail in turns; look at the list\n");
    }
    if !found.is_settled && found.value.is_some() {
        text.push_str("the search was cut short: an N nearby may be better\n");
    }
    let _ = writeln!(text, "\n{:>9}   {:>12}", "N", subject(wish));
    for tried in &found.tried {
        let kept = if tried.is_kept { "   kept" } else { "" };
        let _ = writeln!(
            text,
            "{:>9}   {:>12}{kept}",
            tried.value,
            measured(wish, tried.measured)
        );
    }
    text
}

/// What the wish is about.
fn subject(wish: &Wish) -> String {
    let text = wish.to_string();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn measured(wish: &Wish, value: f64) -> String {
    match wish {
        Wish::LatencyAtMost { .. } => format!("{:.1} ms", value * 1e3),
        Wish::GoodputAtLeast(_) => format!("{value:.1}/s"),
        _ => format!("{:.2} %", value * 100.0),
    }
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
