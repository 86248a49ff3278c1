//! What gRPC calls a refusal, and how long its clients wait.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::time::Duration;

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// How long a client that retries by itself is to wait, in milliseconds (gRFC A6).
pub(crate) const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// A gRPC status code of a refused call.
///
/// The type does not need tonic. With this crate's feature `tonic`, it converts from and to `tonic::Code`. There is no
/// `OK`, because a refusal is an error; the conversion from `tonic::Code::Ok` is [`Unknown`](Self::Unknown).
///
/// # Examples
///
/// ```
/// use flowgate_tower::GrpcCode;
///
/// assert_eq!(GrpcCode::ResourceExhausted.number(), 8);
/// assert_eq!(GrpcCode::ResourceExhausted.to_string(), "RESOURCE_EXHAUSTED");
/// assert_eq!(tonic::Code::from(GrpcCode::Unavailable), tonic::Code::Unavailable);
/// assert_eq!(GrpcCode::from(tonic::Code::Aborted), GrpcCode::Aborted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GrpcCode {
    /// `CANCELLED`, 1.
    Cancelled = 1,
    /// `UNKNOWN`, 2.
    Unknown = 2,
    /// `INVALID_ARGUMENT`, 3: the default if the request has no key.
    InvalidArgument = 3,
    /// `DEADLINE_EXCEEDED`, 4.
    DeadlineExceeded = 4,
    /// `NOT_FOUND`, 5.
    NotFound = 5,
    /// `ALREADY_EXISTS`, 6.
    AlreadyExists = 6,
    /// `PERMISSION_DENIED`, 7.
    PermissionDenied = 7,
    /// `RESOURCE_EXHAUSTED`, 8: the default where HTTP has 429.
    ResourceExhausted = 8,
    /// `FAILED_PRECONDITION`, 9.
    FailedPrecondition = 9,
    /// `ABORTED`, 10.
    Aborted = 10,
    /// `OUT_OF_RANGE`, 11.
    OutOfRange = 11,
    /// `UNIMPLEMENTED`, 12.
    Unimplemented = 12,
    /// `INTERNAL`, 13: the default where HTTP has 500.
    Internal = 13,
    /// `UNAVAILABLE`, 14: the default where HTTP has 503.
    Unavailable = 14,
    /// `DATA_LOSS`, 15.
    DataLoss = 15,
    /// `UNAUTHENTICATED`, 16.
    Unauthenticated = 16,
}

impl GrpcCode {
    /// Returns the number that `grpc-status` has: 1 to 16.
    ///
    /// ```
    /// # use flowgate_tower::GrpcCode;
    /// assert_eq!(GrpcCode::Unavailable.number(), 14);
    /// ```
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The name in the gRPC specification, such as `RESOURCE_EXHAUSTED`.
impl fmt::Display for GrpcCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        })
    }
}

#[cfg(feature = "tonic")]
impl From<GrpcCode> for tonic::Code {
    fn from(code: GrpcCode) -> Self {
        Self::from_i32(code.number().into())
    }
}

/// `Ok`, which is no refusal, becomes [`GrpcCode::Unknown`].
#[cfg(feature = "tonic")]
impl From<tonic::Code> for GrpcCode {
    fn from(code: tonic::Code) -> Self {
        match code {
            tonic::Code::Cancelled => Self::Cancelled,
            tonic::Code::Ok | tonic::Code::Unknown => Self::Unknown,
            tonic::Code::InvalidArgument => Self::InvalidArgument,
            tonic::Code::DeadlineExceeded => Self::DeadlineExceeded,
            tonic::Code::NotFound => Self::NotFound,
            tonic::Code::AlreadyExists => Self::AlreadyExists,
            tonic::Code::PermissionDenied => Self::PermissionDenied,
            tonic::Code::ResourceExhausted => Self::ResourceExhausted,
            tonic::Code::FailedPrecondition => Self::FailedPrecondition,
            tonic::Code::Aborted => Self::Aborted,
            tonic::Code::OutOfRange => Self::OutOfRange,
            tonic::Code::Unimplemented => Self::Unimplemented,
            tonic::Code::Internal => Self::Internal,
            tonic::Code::Unavailable => Self::Unavailable,
            tonic::Code::DataLoss => Self::DataLoss,
            tonic::Code::Unauthenticated => Self::Unauthenticated,
        }
    }
}

/// The content type of a gRPC request: `application/grpc`, also with a suffix such as `+proto` or `-web`.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(CONTENT_TYPE)?;
    let (kind, rest) = value
        .as_bytes()
        .split_at_checked("application/grpc".len())?;
    let is_grpc = kind.eq_ignore_ascii_case(b"application/grpc")
        && matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' '));
    is_grpc.then_some(value)
}

/// How long the client of a gRPC request waits for the response: its `grpc-timeout`. `None` if there is none, or if it
/// is malformed: not one line of 1 to 8 digits and a unit.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let mut lines = headers.get_all(GRPC_TIMEOUT).iter();
    let (unit, digits) = lines.next()?.as_bytes().split_last()?;
    if lines.next().is_some() || !(1..=8).contains(&digits.len()) {
        return None;
    }
    let mut count = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        count = count * 10 + u64::from(digit - b'0');
    }
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// As gRPC writes `grpc-message`: printable ASCII, and the rest by its bytes.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            byte => encoded.push(char::from(byte)),
        }
    }
    encoded
}

/// Milliseconds, rounded up.
pub(crate) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_all_units_are_read_and_malformed_ones_are_none() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(GRPC_TIMEOUT, value.parse().expect("a value"));
            }
            timeout(&headers)
        };
        for (text, time) in [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("5S", Duration::from_secs(5)),
            ("250m", Duration::from_millis(250)),
            ("7u", Duration::from_micros(7)),
            ("9n", Duration::from_nanos(9)),
            ("0S", Duration::ZERO),
            ("00000001S", Duration::from_secs(1)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ] {
            assert_eq!(read(&[text]), Some(time), "{text}");
        }
        let malformed = [
            "",
            "5",
            "S",
            "5 S",
            "5s",
            "5h",
            "-5S",
            "+5S",
            "1.5S",
            "5Sx",
            "123456789S",
            "５S",
        ];
        for text in malformed {
            assert_eq!(read(&[text]), None, "{text}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&["5S", "6S"]), None);
    }
}
