//! Reads a log into recorded arrivals.

use std::io::Read;
use std::ops::ControlFlow;
use std::time::Duration;

use memchr::memchr;

use crate::log::error::{Flaw, LogError, MalformedLines};
use crate::log::fields::{Use, Wanted, extractor};
use crate::log::format::{LogFormat, head_of_text};
use crate::log::lines::{Lines, content};
use crate::log::moment::MomentReader;
use crate::log::recording::{RecordedLog, Recording, Request};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How many bytes are read between two reports of progress.
const PROGRESS_BYTES: u64 = 1 << 20;
/// The fields of a request, in the order in which they are taken out of a line.
const USES: [Use; 3] = [Use::Time, Use::Key, Use::Cost];

/// A reader of logs, which makes [`Arrivals::Recorded`](crate::Arrivals::Recorded).
///
/// # Formats
///
/// Unless [`format`](Self::format) sets it, the first line that has the shape of a [`LogFormat`] decides.
///
/// - Blank lines, and lines that begin with `#`, are skipped.
/// - A malformed line is counted and skipped, unless the reader is [`strict`](Self::strict).
/// - A line has at most 64 KiB.
/// - A CSV has the names of its columns in the first line, or has no names. Then they are time, key and cost, or any others
///   that are given by their numbers, from 1.
/// - In JSON, a point leads into an object: `request.remote_ip`.
///
/// # Times
///
/// - `10/Oct/2000:13:55:36 -0700`, also with a fraction of a second;
/// - RFC 3339, such as `2000-10-10T13:55:36.25-07:00`; without an offset, it is taken for UTC;
/// - numbers: seconds, with or without a fraction. Numbers from 10¹¹ are milliseconds since 1970, from 10¹⁴ microseconds, and
///   from 10¹⁷ nanoseconds.
///
/// The first request is at time 0 of a simulation. Servers write a line when a request ends, so a line may be older than the one
/// before it; the requests are sorted by time.
///
/// # Memory
///
/// While it reads, it needs about 64 bytes for each request, and then 32. Each key's name is kept once.
///
/// # Examples
///
/// ```
/// use flowgate_sim::LogReader;
/// use std::ops::ControlFlow;
///
/// let log = r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326
/// 192.0.2.2 - - [10/Oct/2000:13:55:37 -0700] "GET /b HTTP/1.1" 200 512
/// 192.0.2.1 - - [10/Oct/2000:13:55:37 -0700] "GET /b HTTP/1.1" 200 512
/// "#;
/// let recorded = LogReader::new().read(log.as_bytes(), |_| ControlFlow::Continue(()))?;
/// assert_eq!(recorded.keys.name(0).as_deref(), Some("192.0.2.1"));
/// let times = recorded.requests.iter().map(|request| request.at.as_millis());
/// assert_eq!(times.collect::<Vec<_>>(), [0, 1_000, 1_500]); // two requests in one second are spread
/// # Ok::<(), flowgate_sim::LogError>(())
/// ```
///
/// JSON lines, with the names of fields:
///
/// ```
/// use flowgate_sim::LogReader;
/// use std::ops::ControlFlow;
///
/// let log = r#"{"ts": 1700000000.25, "tenant": "a", "tokens": 3}
/// {"ts": 1700000000.75, "tenant": "b", "tokens": 1}
/// "#;
/// let reader = LogReader::new().key("tenant").cost("tokens");
/// let recorded = reader.read(log.as_bytes(), |_| ControlFlow::Continue(()))?;
/// assert_eq!(recorded.span().as_millis(), 500);
/// assert_eq!(recorded.requests[0].cost, 3);
/// # Ok::<(), flowgate_sim::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogReader {
    format: Option<LogFormat>,
    time: Option<String>,
    key: Option<String>,
    cost: Option<String>,
    is_strict: bool,
    spreads_seconds: bool,
    max_backward: Duration,
    max_requests: usize,
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogProgress {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of lines.
    pub lines: u64,
    /// The number of requests.
    pub requests: u64,
}

impl Default for LogReader {
    fn default() -> Self {
        Self {
            format: None,
            time: None,
            key: None,
            cost: None,
            is_strict: false,
            spreads_seconds: true,
            max_backward: DAY,
            max_requests: 20_000_000,
        }
    }
}

impl LogReader {
    /// Creates a reader that detects the format and the fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format (default: detected from the first lines).
    pub fn format(mut self, format: LogFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Sets the field that has the time (default: a usual name).
    ///
    /// Usual names are `time`, `ts`, `timestamp`, `@timestamp`, `msec`, `time_iso8601`, `time_local`, `datetime`, `date`, `at` and
    /// `StartUTC`.
    pub fn time(mut self, field: impl Into<String>) -> Self {
        self.time = Some(field.into());
        self
    }

    /// Sets the field that is the key.
    ///
    /// - An access log has `ip` (default), `user`, `host`, `method`, `path`, `status` and `bytes`. It has `host` only if the virtual
    ///   host is in front.
    /// - In the other formats, any field can be the key. The first five names also stand for usual names of such fields, such as
    ///   `remote_addr` for `ip`. The default is `key`, then `ip`, and then one key for all requests.
    ///
    /// The query of a `path` is left out. All requests without a user have the user `-`.
    pub fn key(mut self, field: impl Into<String>) -> Self {
        self.key = Some(field.into());
        self
    }

    /// Sets the field that has the cost (default: `cost`, but none in access logs).
    ///
    /// A request without it costs 1 token. The cost is a whole number. In an access log it can be `bytes`.
    pub fn cost(mut self, field: impl Into<String>) -> Self {
        self.cost = Some(field.into());
        self
    }

    /// Sets whether a malformed line is an error (default: it is skipped).
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.is_strict = is_strict;
        self
    }

    /// Sets whether a log of whole seconds has its requests spread (default: yes).
    ///
    /// Such a log does not have the times within a second. Without spreading, all requests of a second arrive in one burst at its
    /// beginning, and a limiter refuses requests that it would have admitted. With it, the requests of a second have equal
    /// distances, which is smoother than real traffic.
    ///
    /// Numbers below 10⁸ are seconds since the start of a test. They are exact, and never spread.
    pub fn spread_seconds(mut self, spreads: bool) -> Self {
        self.spreads_seconds = spreads;
        self
    }

    /// Sets how much older than those before it a line may be (default: 24 hours).
    ///
    /// An older one is an error: parts of a log are in the wrong order.
    pub fn max_backward(mut self, limit: Duration) -> Self {
        self.max_backward = limit;
        self
    }

    /// Sets the maximum number of requests (default: 20,000,000).
    ///
    /// It also limits the names of keys, to 32 bytes per request on average.
    pub fn max_requests(mut self, limit: usize) -> Self {
        self.max_requests = limit;
        self
    }

    /// Reads a log. It calls `progress` after each MiB, and at the end.
    ///
    /// If `progress` returns [`ControlFlow::Break`], the reading ends with the requests so far. The log needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// Returns a [`LogError`] if
    ///
    /// - the log cannot be read, or no line of it is valid;
    /// - it does not have a field;
    /// - it has more requests or longer names than the limits, or its parts are in the wrong order;
    /// - a line is malformed, and the reader is strict.
    pub fn read(
        &self,
        log: impl Read,
        mut progress: impl FnMut(LogProgress) -> ControlFlow<()>,
    ) -> Result<RecordedLog, LogError> {
        let mut lines = Lines::new(log);
        let head = head_of_text(&mut lines)?;
        let format = match self.format {
            Some(format) => format,
            None => LogFormat::detect(&head, self.time.as_deref())?,
        };
        let wanted = [&self.time, &self.key, &self.cost];
        let wanted: [Wanted<'_>; 3] = std::array::from_fn(|index| Wanted {
            what: USES[index],
            name: wanted[index].as_deref(),
        });
        let mut extract = extractor(format, &wanted, &head)?;
        let mut reader = RequestReader {
            moments: MomentReader::default(),
            has_key: extract.name(1).is_some(),
            is_path: self.key.as_deref() == Some("path"),
        };
        let mut recording = Recording::new(self.max_requests, self.max_backward);
        let mut malformed = MalformedLines::default();
        let mut is_header = extract.has_header();
        let mut reported = 0;
        loop {
            if lines.bytes() - reported >= PROGRESS_BYTES {
                reported = lines.bytes();
                let is_ended = progress(LogProgress {
                    bytes: reported,
                    lines: lines.count(),
                    requests: recording.len() as u64,
                });
                if is_ended.is_break() {
                    break;
                }
            }
            let Some(line) = lines.next()? else { break };
            let Some(text) = content(line.text) else {
                continue;
            };
            if std::mem::take(&mut is_header) {
                continue;
            }
            let request = match line.is_too_long {
                true => Err(Flaw::TooLong),
                false => extract.extract(text).and_then(|fields| reader.read(fields)),
            };
            match request {
                Ok(request) => recording.add(line.number, request)?,
                Err(flaw) => {
                    let name = |what| extract.name(USES.iter().position(|each| *each == what)?);
                    let malformed_line = || flaw.of_line(line.number, text, name);
                    if self.is_strict {
                        return Err(LogError::Malformed(malformed_line()));
                    }
                    malformed.note(malformed_line);
                }
            }
        }
        // There is nothing left to end.
        let _ = progress(LogProgress {
            bytes: lines.bytes(),
            lines: lines.count(),
            requests: recording.len() as u64,
        });
        if recording.len() == 0 {
            return Err(match malformed.count {
                0 => LogError::Empty,
                _ => LogError::NothingValid(malformed),
            });
        }
        let (backward, is_spread) = (
            recording.backward(),
            recording.is_rounded() && self.spreads_seconds,
        );
        let (requests, keys) = recording.complete(is_spread);
        Ok(RecordedLog {
            requests,
            keys,
            key: extract.name(1),
            format,
            lines: lines.count(),
            malformed,
            backward,
            is_spread,
        })
    }
}

/// Reads the fields of a request.
struct RequestReader {
    moments: MomentReader,
    has_key: bool,
    is_path: bool,
}

impl RequestReader {
    fn read<'a>(&mut self, fields: [Option<&'a [u8]>; 3]) -> Result<Request<'a>, Flaw> {
        let [time, key, cost] = fields;
        let time = time.ok_or(Flaw::Missing(Use::Time))?;
        let at = self.moments.read(time).ok_or(Flaw::Not(Use::Time))?;
        let key = match key {
            Some(path) if self.is_path => &path[..memchr(b'?', path).unwrap_or(path.len())],
            Some(key) => key,
            None if self.has_key => return Err(Flaw::Missing(Use::Key)),
            None => b"all",
        };
        let cost = match cost {
            None | Some(b"") => 1,
            Some(cost) => std::str::from_utf8(cost)
                .ok()
                .and_then(|cost| cost.parse().ok())
                .ok_or(Flaw::Not(Use::Cost))?,
        };
        Ok(Request { at, key, cost })
    }
}
