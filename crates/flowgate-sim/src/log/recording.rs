//! The requests of a log, in the order of their times.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexSet;

use crate::log::error::{LogError, MalformedLines};
use crate::log::format::LogFormat;
use crate::log::moment::Moment;
use crate::traffic::{Arrivals, Recorded};

/// The most bytes that the names of keys may take, for each request of the limit.
const NAME_BYTES: usize = 32;
const SECOND_NS: u64 = 1_000_000_000;

/// What a log has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedLog {
    /// The requests, by time. There is at least one.
    pub requests: Arc<[Recorded]>,
    /// The names of their keys.
    pub keys: LogKeys,
    /// The field that is the key, or `None` if all requests have one key.
    pub key: Option<String>,
    /// The format.
    pub format: LogFormat,
    /// The number of lines, with blank lines, comments and a header.
    pub lines: u64,
    /// The lines that were skipped because they are malformed.
    pub malformed: MalformedLines,
    /// The number of requests that were older than one on a line before them.
    pub backward: u64,
    /// Whether the log has whole seconds, and the requests of each were spread in it.
    pub is_spread: bool,
}

impl RecordedLog {
    /// Returns the requests as arrivals of a simulation.
    ///
    /// To have all of them, the simulation must last longer than [`span`](Self::span).
    pub fn arrivals(&self) -> Arrivals {
        Arrivals::Recorded(Arc::clone(&self.requests))
    }

    /// Returns the time from the first request to the last.
    pub fn span(&self) -> Duration {
        self.requests.last().map_or(Duration::ZERO, |last| last.at)
    }
}

/// The names of the keys of a log.
///
/// Key number 0 is the first one in the log. A clone shares the names.
#[derive(Clone)]
pub struct LogKeys(Arc<IndexSet<Box<[u8]>>>);

impl LogKeys {
    /// Returns the name of a key. Bytes that are not UTF-8 are replaced.
    pub fn name(&self, key: u64) -> Option<Cow<'_, str>> {
        let name = self.0.get_index(usize::try_from(key).ok()?)?;
        Some(String::from_utf8_lossy(name))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for LogKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogKeys({})", self.len())
    }
}

/// A request, as a line has it.
pub(crate) struct Request<'a> {
    pub(crate) at: Moment,
    pub(crate) key: &'a [u8],
    pub(crate) cost: u64,
}

/// The requests that were read so far.
pub(crate) struct Recording {
    /// With times since 1970, or since the log's own zero.
    requests: Vec<Recorded>,
    keys: IndexSet<Box<[u8]>>,
    name_bytes: usize,
    newest: Duration,
    backward: u64,
    is_rounded: bool,
    max_requests: usize,
    max_backward: Duration,
}

impl Recording {
    pub(crate) fn new(max_requests: usize, max_backward: Duration) -> Self {
        Self {
            requests: Vec::new(),
            keys: IndexSet::new(),
            name_bytes: 0,
            newest: Duration::ZERO,
            backward: 0,
            is_rounded: true,
            max_requests,
            max_backward,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn backward(&self) -> u64 {
        self.backward
    }

    /// Whether every time is a whole second of a clock.
    pub(crate) fn is_rounded(&self) -> bool {
        self.is_rounded
    }

    /// Adds the request of line number `line`.
    pub(crate) fn add(&mut self, line: u64, request: Request<'_>) -> Result<(), LogError> {
        if self.requests.len() == self.max_requests {
            return Err(LogError::TooManyRequests {
                limit: self.max_requests,
            });
        }
        let at = Duration::from_nanos(request.at.ns);
        let back = self.newest.saturating_sub(at);
        if back > self.max_backward {
            return Err(LogError::Backward {
                line,
                by: back,
                limit: self.max_backward,
            });
        }
        self.backward += u64::from(back > Duration::ZERO);
        self.newest = self.newest.max(at);
        self.is_rounded &= request.at.is_rounded;
        let key = match self.keys.get_index_of(request.key) {
            Some(key) => key,
            None => {
                self.name_bytes += request.key.len();
                let limit = self.max_requests.saturating_mul(NAME_BYTES);
                if self.name_bytes > limit {
                    return Err(LogError::TooManyKeys { limit });
                }
                self.keys.insert_full(request.key.into()).0
            }
        };
        self.requests.push(Recorded {
            at,
            key: key as u64,
            cost: request.cost,
        });
        Ok(())
    }

    /// Sorts the requests, and spreads those of each second.
    pub(crate) fn complete(mut self, spreads: bool) -> (Arc<[Recorded]>, LogKeys) {
        let requests = &mut self.requests;
        if self.backward > 0 {
            // Those of one time stay as they are.
            requests.sort_by_key(|request| request.at);
        }
        let begin = requests.first().map_or(Duration::ZERO, |first| first.at);
        for together in requests.chunk_by_mut(|one, next| one.at == next.at) {
            let count = together.len() as u64;
            for (index, request) in together.iter_mut().enumerate() {
                request.at -= begin;
                if spreads {
                    request.at += Duration::from_nanos(SECOND_NS * index as u64 / count);
                }
            }
        }
        (self.requests.into(), LogKeys(Arc::new(self.keys)))
    }
}
