//! What was asked of a number, and whether it was reached.

use std::fmt;

use serde::Serialize;

/// One goal, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What has to hold, in words.
    pub goal: String,
    /// What was measured, in words; none if the subject was not.
    pub measured: Option<String>,
    pub met: bool,
}

impl Verdict {
    /// `value` has to be at most `most`.
    pub fn at_most(goal: String, value: Option<f64>, most: f64, unit: &str) -> Verdict {
        Verdict::of(goal, value, unit, |value| value <= most)
    }

    /// `value` has to be at least `least`.
    pub fn at_least(goal: String, value: Option<f64>, least: f64, unit: &str) -> Verdict {
        Verdict::of(goal, value, unit, |value| value >= least)
    }

    /// Nothing may be found: `findings` are told if there are any.
    pub fn nothing(goal: String, findings: &[String]) -> Verdict {
        Verdict {
            goal,
            measured: Some(match findings {
                [] => "nothing found".to_owned(),
                _ => findings.join("; "),
            }),
            met: findings.is_empty(),
        }
    }

    fn of(goal: String, value: Option<f64>, unit: &str, met: impl Fn(f64) -> bool) -> Verdict {
        Verdict {
            goal,
            measured: value.map(|value| format!("{value:.3}{unit}")),
            met: value.is_some_and(met),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            goal,
            measured,
            met,
        } = self;
        match measured {
            None => write!(f, "goal NOT MEASURED, {goal}"),
            Some(measured) if *met => write!(f, "goal MET: {measured}, {goal}"),
            Some(measured) => write!(f, "goal MISSED: {measured}, {goal}"),
        }
    }
}
