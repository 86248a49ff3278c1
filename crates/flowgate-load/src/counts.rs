//! Counts of requests by outcome.

use std::collections::BTreeMap;
use std::fmt;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use crate::connection::ContentCoding;
use crate::decoder::Decoded;
use crate::failure::Failure;

/// Counts of requests by outcome.
///
/// With a schedule, `sent` + `unsent` + `skipped` never exceeds `scheduled`. The difference was abandoned when the run
/// ended.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// use flowgate_load::{RequestCounts, Failure, Statuses};
///
/// let counts = RequestCounts {
///     sent: 100,
///     unanswered: 1,
///     statuses: Statuses { success: 90, limited: 6, server_error: 2, ..Statuses::default() },
///     failures: BTreeMap::from([(Failure::Timeout, 1)]),
///     ..RequestCounts::default()
/// };
/// assert_eq!(counts.errors(), 4); // those that the server limited are none
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Requests in the schedule; `None` without a schedule.
    pub scheduled: Option<u64>,
    /// Requests whose first byte was written.
    pub sent: u64,
    /// Requests that failed before a byte could be written.
    pub unsent: u64,
    /// Requests skipped because they were too late ([`Late`](crate::Late)).
    pub skipped: u64,
    /// Requests that were sent, but neither answered nor failed when the run ended.
    pub unanswered: u64,
    /// Requests that were resent on another connection.
    ///
    /// That happens when the server reports that it has not processed them (HTTP/2 `GOAWAY`). Each counts once in
    /// `sent`, at the time of its first write.
    pub resent: u64,
    /// Requests that waited because every connection was busy.
    pub queued: u64,
    /// Total bytes of response bodies, as they were sent.
    pub body_bytes: u64,
    /// Of these, bytes of compressed bodies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub encoded_bytes: BTreeMap<ContentCoding, u64>,
    /// What came of decoding them, if [`Plan::decode`](crate::Plan::decode) is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded: Option<Decoded>,
    /// Responses by class of status.
    pub statuses: Statuses,
    /// Responses by status.
    pub codes: BTreeMap<u16, u64>,
    /// Requests without a usable response, by kind of failure. They may or may not have been sent.
    pub failures: BTreeMap<Failure, u64>,
}

/// Responses by class of status.
///
/// Responses with 429 or 503 count as `limited` and not in their class: the server limits the load, which is not an
/// error here.
///
/// # Examples
///
/// ```
/// use flowgate_load::Statuses;
///
/// let statuses =
///     Statuses { success: 90, redirection: 3, client_error: 1, limited: 6, ..Statuses::default() };
/// assert_eq!(statuses.total(), 100);
/// assert_eq!(statuses.admitted(), 93);
/// assert_eq!(statuses.errors(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statuses {
    /// 101, the only status of its class that ends an exchange.
    pub informational: u64,
    /// 200 to 299.
    pub success: u64,
    /// 300 to 399, if redirects are [not followed](crate::Plan::follow).
    pub redirection: u64,
    /// 400 to 499 except 429.
    pub client_error: u64,
    /// 500 to 599 except 503.
    pub server_error: u64,
    /// 429 Too Many Requests, and 503 Service Unavailable.
    pub limited: u64,
    /// 600 and above, which are not standardized.
    pub other: u64,
}

impl Statuses {
    pub(crate) fn count(&mut self, status: StatusCode) {
        let class = match status.as_u16() {
            429 | 503 => &mut self.limited,
            100..=199 => &mut self.informational,
            200..=299 => &mut self.success,
            300..=399 => &mut self.redirection,
            400..=499 => &mut self.client_error,
            500..=599 => &mut self.server_error,
            _ => &mut self.other,
        };
        *class += 1;
    }

    /// Returns the number of all responses.
    pub fn total(&self) -> u64 {
        self.admitted() + self.errors() + self.limited
    }

    /// Returns the number of responses to admitted requests without errors: 1xx, 2xx and 3xx.
    pub fn admitted(&self) -> u64 {
        self.informational + self.success + self.redirection
    }

    /// Returns the number of errors: 4xx and 5xx except 429 and 503, and nonstandard statuses.
    pub fn errors(&self) -> u64 {
        self.client_error + self.server_error + self.other
    }
}

impl RequestCounts {
    /// Returns the number of requests with an error response, a failure, or no response.
    ///
    /// Limited and skipped requests are not errors.
    pub fn errors(&self) -> u64 {
        self.statuses.errors() + self.failures.values().sum::<u64>() + self.unanswered
    }

    /// Returns the share of [`errors`](RequestCounts::errors) among the requests.
    ///
    /// Skipped requests are not among them. `None` without requests.
    ///
    /// ```
    /// use flowgate_load::{RequestCounts, Statuses};
    ///
    /// let statuses = Statuses { success: 97, server_error: 2, limited: 1, ..Statuses::default() };
    /// let counts = RequestCounts { sent: 100, statuses, ..RequestCounts::default() };
    /// assert_eq!(counts.error_share(), Some(0.02));
    /// assert_eq!(RequestCounts::default().error_share(), None);
    /// ```
    pub fn error_share(&self) -> Option<f64> {
        let tried = self.tried();
        (tried > 0).then(|| self.errors() as f64 / tried as f64)
    }

    /// Returns the causes of errors that occurred, with their counts.
    ///
    /// They are in the order of a report.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use flowgate_load::{ErrorCause, Failure, RequestCounts};
    ///
    /// let failures = BTreeMap::from([(Failure::Timeout, 3)]);
    /// let counts = RequestCounts { sent: 100, failures, unanswered: 1, ..RequestCounts::default() };
    /// let causes = [(ErrorCause::Failed(Failure::Timeout), 3), (ErrorCause::Unanswered, 1)];
    /// assert_eq!(counts.errors_by_cause(), causes);
    /// ```
    pub fn errors_by_cause(&self) -> Vec<(ErrorCause, u64)> {
        let count = |cause| match cause {
            ErrorCause::ClientError => self.statuses.client_error,
            ErrorCause::ServerError => self.statuses.server_error,
            ErrorCause::OtherStatus => self.statuses.other,
            ErrorCause::Failed(failure) => self.failures.get(&failure).copied().unwrap_or(0),
            ErrorCause::Unanswered => self.unanswered,
        };
        let counted = ErrorCause::all().map(|cause| (cause, count(cause)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the number of requests that were sent, or failed before.
    pub(crate) fn tried(&self) -> u64 {
        self.sent + self.unsent
    }
}

/// Why a request counts as an error.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ErrorCause, Failure};
///
/// assert_eq!(ErrorCause::ServerError.to_string(), "answered 5xx");
/// assert_eq!(ErrorCause::Failed(Failure::Reset).to_string(), "connection reset");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCause {
    /// The response has a status 4xx except 429.
    ClientError,
    /// The response has a status 5xx except 503.
    ServerError,
    /// The response has a status of 600 or above.
    OtherStatus,
    /// There is no usable response.
    Failed(Failure),
    /// There was no response when the run ended.
    Unanswered,
}

impl ErrorCause {
    /// Returns every cause, in the order of a report.
    pub(crate) fn all() -> impl Iterator<Item = ErrorCause> {
        let statuses = [
            ErrorCause::ClientError,
            ErrorCause::ServerError,
            ErrorCause::OtherStatus,
        ];
        let failures = Failure::ALL.into_iter().map(ErrorCause::Failed);
        let unanswered = [ErrorCause::Unanswered];
        statuses.into_iter().chain(failures).chain(unanswered)
    }
}

impl fmt::Display for ErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorCause::ClientError => "answered 4xx",
            ErrorCause::ServerError => "answered 5xx",
            ErrorCause::OtherStatus => "answered with a nonstandard status",
            ErrorCause::Failed(failure) => return failure.fmt(f),
            ErrorCause::Unanswered => "unanswered at the end",
        })
    }
}
