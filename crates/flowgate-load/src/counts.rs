//! How many requests went how far.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How many requests went how far.
///
/// Of a schedule, `sent` + `unsent` + `skipped` is never more than `scheduled`; what is missing was given up when the run
/// ended.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// use flowgate_load::{Counts, Failure, Statuses};
///
/// let counts = Counts {
///     sent: 100,
///     unanswered: 1,
///     statuses: Statuses { success: 90, limited: 6, server_error: 2, ..Statuses::default() },
///     failures: BTreeMap::from([(Failure::Timeout, 1)]),
///     ..Counts::default()
/// };
/// assert_eq!(counts.errors(), 4); // those that the server limited are none
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests in the schedule; none when there is no schedule, and as many are sent as can be.
    pub scheduled: Option<u64>,
    /// Requests whose first byte was written.
    pub sent: u64,
    /// Requests that were tried but of which no byte could be written.
    pub unsent: u64,
    /// Requests that were skipped because they would have been later than they may be ([`Late`](crate::Late)).
    pub skipped: u64,
    /// Requests that were sent and neither answered nor failed when the run ended.
    pub unanswered: u64,
    /// Requests that were sent once more, on another connection, because the server said that it had not looked at them
    /// (HTTP/2 `GOAWAY`). Each counts once in `sent`, and was sent when its first byte was first written.
    pub resent: u64,
    /// Requests that had to wait because every connection was busy.
    pub queued: u64,
    /// Bytes of the answers' bodies.
    pub body_bytes: u64,
    /// Answers by class of status.
    pub statuses: Statuses,
    /// Answers by status.
    pub codes: BTreeMap<u16, u64>,
    /// Requests that got no usable answer, sent or not, by kind.
    pub failures: BTreeMap<Failure, u64>,
}

/// Answers by status class. A server that limits the load says so with 429 or 503: these are
/// counted apart, as `limited`, and not in their class, because being refused is not an error here.
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
    /// 101, the only one of its class that ends an exchange.
    pub informational: u64,
    /// 200 to 299.
    pub success: u64,
    /// 300 to 399; redirects are not followed.
    pub redirection: u64,
    /// 400 to 499 but 429.
    pub client_error: u64,
    /// 500 to 599 but 503.
    pub server_error: u64,
    /// 429 Too Many Requests, and 503 Service Unavailable.
    pub limited: u64,
    /// 600 and above, which no standard describes.
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

    /// All answers.
    pub fn total(&self) -> u64 {
        self.admitted() + self.errors() + self.limited
    }

    /// Answers to requests that the server let through, and that are no errors: 1xx, 2xx and 3xx.
    pub fn admitted(&self) -> u64 {
        self.informational + self.success + self.redirection
    }

    /// Answers that are errors: 4xx and 5xx but for 429 and 503, and those that no standard describes.
    pub fn errors(&self) -> u64 {
        self.client_error + self.server_error + self.other
    }
}

impl Counts {
    /// Requests that ended badly: answered with an error, failed, or never answered. Those that the server limited, and
    /// those that were skipped, are not among them.
    pub fn errors(&self) -> u64 {
        self.statuses.errors() + self.failures.values().sum::<u64>() + self.unanswered
    }
}
