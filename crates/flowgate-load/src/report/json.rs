//! A report as JSON, for programs and later comparison.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::{Report, nanos};

/// Version of the layout that [`Report::to_json`] documents.
const SCHEMA: u64 = 1;

/// The fields that decide whether the rest can be read.
#[derive(Deserialize)]
struct Header {
    schema: u64,
}

/// The report, and derived values for readers that would have to compute them.
#[derive(Serialize)]
struct Written<'a> {
    schema: u64,
    flowgate: &'static str,
    verdict: Judged,
    achieved_per_second: Option<f64>,
    rate_error: Option<f64>,
    #[serde(flatten)]
    report: &'a Report,
}

#[derive(Serialize)]
struct Judged {
    word: String,
    causes: Vec<String>,
    thresholds: Limits,
}

#[derive(Serialize)]
struct Limits {
    rate_error: f64,
    lag_p99_ns: u64,
    error_share: f64,
}

impl Report {
    /// Returns the report as indented JSON with a final line end.
    ///
    /// - Whole numbers are counts of up to 2⁶⁴ − 1.
    /// - `_ns` and `ns` are whole nanoseconds.
    /// - `per_second` is in requests per second.
    /// - `rate_error` and `share` are fractions of 1.
    /// - No number is infinite or NaN.
    /// - `?` marks fields that can be `null`.
    ///
    /// ```text
    /// {
    ///   "schema": 1,                  version of this layout; increases when a field is removed or changed
    ///   "flowgate": "0.1.0",          version of flowgate
    ///   "verdict": {                  see Verdict
    ///     "word": "RATE NOT HELD",    or RATE HELD, RATE LIMIT KEPT, RATE LIMIT NOT KEPT, UNPACED, TOO MANY ERRORS
    ///     "causes": ["…"],            reasons, the most important first
    ///     "thresholds": {             thresholds of the verdict
    ///       "rate_error": 0.001,      a fraction of the target
    ///       "lag_p99_ns": 1000000,
    ///       "error_share": 0.01
    ///   } },
    ///   "achieved_per_second": 999.9, ? mean rate from the first to the last send
    ///   "rate_error": -0.0001,        ? signed fraction of the target
    ///   "target": "http://…/",
    ///   "own_origin": false,          whether that is the built-in test server
    ///   "asked": {                    see Asked
    ///     "mode": "hold",             or under, unpaced
    ///     "text": "1000/s",
    ///     "per_second": 1000.0,       ? the mean
    ///     "is_constant": true,
    ///     "interval_ns": 1000000,     the shortest
    ///     "highest_per_second": 1e3,  ?
    ///     "burst": 1,
    ///     "guarantee": {              ? at most burst + per_second × w sends in any w seconds
    ///       "burst": 1, "per_second": 1000.0
    ///     },
    ///     "window": {                 ? at most `sends` sends in any interval shorter than `span_ns`
    ///       "sends": 100, "span_ns": 60000000000
    ///     },
    ///     "max_error_share": 0.01,
    ///     "slice": {                  see Slice; left out without slices
    ///       "index": 3, "count": 8, "start_at": "2026-12-01T12:00:00.000Z"
    ///     }
    ///   },
    ///   "counts": {                   see RequestCounts
    ///     "scheduled": 5000,          ?
    ///     "sent", "unsent", "skipped", "unanswered", "resent", "queued", "body_bytes": 0,
    ///     "encoded_bytes": {"gzip": 9000},   of these, by Content-Encoding; left out without any
    ///     "decoded": {                see Decoded; left out if nothing was to be decoded
    ///       "bodies", "wire_bytes", "bytes", "broken", "skipped": 0
    ///     },
    ///     "statuses": {               see Statuses
    ///       "informational", "success", "redirection", "client_error", "server_error", "limited", "other": 0
    ///     },
    ///     "codes": {"200": 4990},     by status
    ///     "failures": {"timed-out": 1}   by kind
    ///   },
    ///   "span_ns": 4999000000,        from the first send to the last
    ///   "pacing": {                   see Pacing
    ///     "gap_error": SPREAD,
    ///     "smallest_gap_ns": 998000,  ?
    ///     "busiest": [{"window_ns": 100000000, "sent": 101}],
    ///     "envelope": [{"sends": 2, "within_ns": 998000}]
    ///   },
    ///   "lag": SPREAD, "response": SPREAD, "service": SPREAD,
    ///   "curves": {                   a share of the durations, and the value that it does not exceed
    ///     "lag", "response", "service": [{"share": 0.5, "ns": 6000}]
    ///   },
    ///   "timeline": {                 slot i begins i · width_ns after the start
    ///     "width_ns": 1000000000,
    ///     "slots": [{                 see Slot; durations are 0 without samples
    ///       "scheduled", "sent", "admitted", "limited", "failed": 1000,
    ///       "response_p50_ns", "response_p99_ns", "response_max_ns", "lag_p99_ns": 110000
    ///   }] },
    ///   "detail": {                   see Detail; left out in a report of an older version
    ///     "lag", "response", "service": "6000 6010*3",   nanoseconds, and how many
    ///     "first_sent_ns", "last_sent_ns": 120000,   after the start
    ///     "server_clock": {           its clock minus ours, between these; left out without slices
    ///       "from_ns": -1200000, "to_ns": 400000
    ///     },
    ///     "block_ns": 200000000,      length of a block
    ///     "blocks": [{"sent", "done", "limited", "failed": 200, "response": "6000 6010*3"}]
    ///   },
    ///   "connections": {              see Connections
    ///     "connections", "allowed", "most_busy", "longest_wait_ns", "missing": 0,
    ///     "why_missing": "timed-out"  ?
    ///   },
    ///   "is_interrupted": false       whether the run was stopped early
    /// }
    ///
    /// SPREAD                          see Spread; all 0 without samples
    ///   {"samples", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"}
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::{Extent, Origin, Pace, Plan, Stop, Target};
    ///
    /// let origin = Origin::start()?;
    /// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
    /// let report = flowgate_load::run(plan, &Stop::new())?;
    /// let json: serde_json::Value = serde_json::from_str(&report.to_json())?;
    /// assert_eq!((&json["schema"], &json["counts"]["sent"]), (&1.into(), &3.into()));
    /// assert_eq!(json["verdict"]["word"], "UNPACED");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_json(&self) -> String {
        let verdict = self.verdict();
        let causes = verdict.causes().iter().map(ToString::to_string).collect();
        let thresholds = self.thresholds();
        let written = Written {
            schema: SCHEMA,
            flowgate: env!("CARGO_PKG_VERSION"),
            verdict: Judged {
                word: verdict.to_string(),
                causes,
                thresholds: Limits {
                    rate_error: thresholds.rate_error,
                    lag_p99_ns: nanos::of(thresholds.lag_p99),
                    error_share: thresholds.error_share,
                },
            },
            achieved_per_second: self.achieved(),
            rate_error: self.rate_error(),
            report: self,
        };
        let mut json = serde_json::to_string_pretty(&written)
            .expect("maps with text as keys, written to memory, cannot fail");
        json.push('\n');
        json
    }

    /// Reads a report that [`to_json`](Report::to_json) wrote.
    ///
    /// Derived values are ignored and computed again. Unknown fields are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, not a report, or a report of a newer schema.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::{Extent, Origin, Pace, Plan, Report, Stop, Target};
    ///
    /// let origin = Origin::start()?;
    /// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
    /// let report = flowgate_load::run(plan, &Stop::new())?;
    /// assert_eq!(Report::from_json(&report.to_json())?, report);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_json(json: &str) -> Result<Report, ReportError> {
        // Check the schema first: a newer report may lack required fields.
        let header: Header = serde_json::from_str(json).map_err(ReportError::of)?;
        if header.schema != SCHEMA {
            return Err(ReportError(Kind::Schema(header.schema)));
        }
        serde_json::from_str(json).map_err(ReportError::of)
    }
}

/// Error of reading a report. `Display` writes one line.
///
/// # Examples
///
/// ```
/// use flowgate_load::Report;
///
/// let error = Report::from_json(r#"{"schema": 2}"#).unwrap_err();
/// assert_eq!(error.to_string(), "a report of schema 2, but this version reads schema 1");
/// ```
#[derive(Debug)]
pub struct ReportError(Kind);

#[derive(Debug)]
enum Kind {
    NotJson(serde_json::Error),
    NotReport(serde_json::Error),
    Schema(u64),
}

impl ReportError {
    /// Returns whether the report has a schema that this version does not read.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Report;
    ///
    /// let of = |json| Report::from_json(json).unwrap_err();
    /// assert!(of(r#"{"schema": 2}"#).is_other_schema());
    /// assert!(!of(r#"{"name": "flowgate"}"#).is_other_schema());
    /// ```
    pub fn is_other_schema(&self) -> bool {
        matches!(self.0, Kind::Schema(_))
    }

    fn of(error: serde_json::Error) -> ReportError {
        ReportError(match error.is_data() {
            true => Kind::NotReport(error),
            false => Kind::NotJson(error),
        })
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::NotJson(error) => write!(f, "not JSON: {error}"),
            Kind::NotReport(error) => write!(f, "not a flowgate report: {error}"),
            Kind::Schema(schema) => write!(
                f,
                "a report of schema {schema}, but this version reads schema {SCHEMA}"
            ),
        }
    }
}

impl Error for ReportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::NotJson(error) | Kind::NotReport(error) => Some(error),
            Kind::Schema(_) => None,
        }
    }
}
