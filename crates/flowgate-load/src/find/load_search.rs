//! What a search is asked for.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::search::Range;
use super::slo::Slo;

/// The load that a search varies.
///
/// # Examples
///
/// ```
/// use flowgate_load::find::Varied;
///
/// assert_eq!(Varied::Rate.in_words(2340.0), "2340/s");
/// assert_eq!(Varied::Connections.in_words(48.0), "48 connections");
/// assert_eq!(Varied::Burst.in_words(400.0), "a burst of 400");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Varied {
    /// The rate of requests per second (open loop).
    #[default]
    Rate,
    /// The number of connections, each of which sends its next request when it has received a response (closed loop).
    Connections,
    /// The number of requests sent in one burst, after a pause.
    Burst,
}

/// What a search is asked for.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::find::{Condition, Slo, LoadSearch};
///
/// let slo = Slo::new([Condition::quantile(0.99, Duration::from_millis(50))?])?;
/// let wish = LoadSearch { within: Duration::from_secs(60), ..LoadSearch::new(slo) };
/// assert_eq!(wish.precision, 0.01);
/// # Ok::<(), flowgate_load::find::SloError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSearch {
    /// What the service promises.
    pub slo: Slo,
    /// The load that is varied.
    pub mode: Varied,
    /// The first level (default: 100/s, 1 connection, or a burst of 10).
    pub from: Option<f64>,
    /// Half of the interval of the result, as a share (default: 0.01; 0.001 to 0.5).
    pub precision: f64,
    /// Maximum time of the search (default: 3 min).
    pub within: Duration,
    /// Maximum number of requests (default: 10,000,000).
    pub max_requests: u64,
    /// Whether the statuses 429 and 503 count as errors (default: yes). Otherwise, the search ends at the first step in which
    /// more than 1 % of the responses have them.
    pub counts_limited: bool,
}

impl LoadSearch {
    /// Creates the wish with the defaults.
    pub fn new(slo: Slo) -> LoadSearch {
        LoadSearch {
            slo,
            mode: Varied::Rate,
            from: None,
            precision: 0.01,
            within: Duration::from_secs(180),
            max_requests: 10_000_000,
            counts_limited: true,
        }
    }

    pub(super) fn range(&self) -> Range {
        let (first, lowest, highest) = match self.mode {
            Varied::Rate => (100.0, 1.0, 1e6),
            Varied::Connections => (1.0, 1.0, 10_000.0),
            Varied::Burst => (10.0, 1.0, 1e5),
        };
        Range {
            first: self.from.unwrap_or(first),
            lowest,
            highest,
            precision: self.precision.clamp(0.001, 0.5),
            is_whole: self.mode != Varied::Rate,
        }
    }
}

impl Varied {
    /// Returns a level with its unit.
    pub fn in_words(self, level: f64) -> String {
        let number = match level < 100.0 && level.fract() > 0.0 {
            true => flowgate_chart::significant(level, 3),
            false => flowgate_chart::grouped(level.round() as u64),
        };
        match (self, number.as_str()) {
            (Varied::Rate, _) => format!("{number}/s"),
            (Varied::Connections, "1") => "1 connection".to_owned(),
            (Varied::Connections, _) => format!("{number} connections"),
            (Varied::Burst, _) => format!("a burst of {number}"),
        }
    }
}

impl fmt::Display for Varied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Varied::Rate => "rate",
            Varied::Connections => "connections",
            Varied::Burst => "burst",
        })
    }
}
