//! Fields that are taken out of lines: which ones are wanted, and the names that they usually have.

use crate::log::access::AccessFields;
use crate::log::csv::CsvFields;
use crate::log::error::{Flaw, LogError};
use crate::log::format::LogFormat;
use crate::log::json::JsonFields;

/// The usual names of times, those with fractions of a second first.
pub(crate) const TIME_NAMES: [&str; 11] = [
    "msec",
    "StartUTC",
    "@timestamp",
    "timestamp",
    "time",
    "ts",
    "time_iso8601",
    "time_local",
    "datetime",
    "date",
    "at",
];

/// The usual names of what a service took, in seconds.
const DURATION_NAMES: [&str; 7] = [
    "duration",
    "request_time",
    "service_time",
    "latency",
    "took",
    "elapsed",
    "seconds",
];

/// The fields of nginx, Apache, Caddy, Traefik and the Elastic Common Schema that a short name stands for.
const SYNONYMS: [&[&str]; 5] = [
    &[
        "ip",
        "remote_addr",
        "remote_ip",
        "client_ip",
        "clientip",
        "ClientHost",
        "request.client_ip",
        "request.remote_ip",
        "client.ip",
        "source.ip",
    ],
    &[
        "user",
        "remote_user",
        "user_id",
        "user.name",
        "user.id",
        "ClientUsername",
    ],
    &[
        "path",
        "uri",
        "request_uri",
        "url",
        "request.uri",
        "url.path",
        "RequestPath",
    ],
    &[
        "method",
        "request_method",
        "request.method",
        "http.request.method",
        "RequestMethod",
    ],
    &[
        "host",
        "http_host",
        "server_name",
        "request.host",
        "RequestHost",
    ],
];

/// What a field is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Time,
    Key,
    Cost,
    Duration,
}

impl Use {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Key => "key",
            Self::Cost => "cost",
            Self::Duration => "duration",
        }
    }

    /// A log without it cannot be read.
    pub(crate) fn is_required(self) -> bool {
        matches!(self, Self::Time | Self::Duration)
    }

    /// The names that it may have where the user gave none, the best first.
    fn usual(self) -> Vec<&'static str> {
        match self {
            Self::Time => TIME_NAMES.to_vec(),
            Self::Key => [&["key"], SYNONYMS[0]].concat(),
            Self::Cost => vec!["cost"],
            Self::Duration => DURATION_NAMES.to_vec(),
        }
    }
}

/// A field that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) what: Use,
    /// The name that the user gave.
    pub(crate) name: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// The names that the field may have, the best first.
    pub(crate) fn names(&self) -> Vec<&'a str> {
        let Some(name) = self.name else {
            return self.what.usual();
        };
        let synonyms = SYNONYMS.iter().find(|names| names[0] == name);
        let others = synonyms.map_or(&[][..], |names| &names[1..]);
        std::iter::once(name)
            .chain(others.iter().copied())
            .collect()
    }
}

/// Takes `N` fields out of a line.
pub(crate) trait Extract<const N: usize> {
    /// The texts of the fields, of those that the line has.
    fn extract<'a>(&'a mut self, line: &'a [u8]) -> Result<[Option<&'a [u8]>; N], Flaw>;

    /// The name of a field in this log, if it has the field.
    fn name(&self, index: usize) -> Option<String>;

    /// Whether the first line has the names of the fields.
    fn has_header(&self) -> bool {
        false
    }
}

/// Looks up the fields in the first lines of a log.
pub(crate) fn extractor<const N: usize>(
    format: LogFormat,
    wanted: &[Wanted<'_>; N],
    head: &[u8],
) -> Result<Box<dyn Extract<N>>, LogError> {
    Ok(match format {
        LogFormat::Access => Box::new(AccessFields::new(wanted)?),
        LogFormat::JsonLines => Box::new(JsonFields::new(wanted, head)?),
        LogFormat::Csv => Box::new(CsvFields::new(wanted, head)?),
    })
}
