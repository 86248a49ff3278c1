//! The ways in which a request can fail.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a request got no usable answer.
///
/// A status such as 404 or 500 is an answer, not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Nothing listens at the address.
    Refused,
    /// The network or the host cannot be reached.
    Unreachable,
    /// The operating system allows this process no further open files or local ports.
    Exhausted,
    /// Connecting failed in another way.
    Connect,
    /// No complete answer within the time limit.
    Timeout,
    /// The server closed the connection before its answer was complete.
    Closed,
    /// The server reset the connection.
    Reset,
    /// What came back is not HTTP/1.1.
    NotHttp,
    /// Anything else that ended the exchange.
    Broken,
}

impl Failure {
    /// Every kind, in the order in which a report lists them.
    pub(crate) const ALL: [Failure; 9] = [
        Failure::Refused,
        Failure::Unreachable,
        Failure::Exhausted,
        Failure::Connect,
        Failure::Timeout,
        Failure::Closed,
        Failure::Reset,
        Failure::NotHttp,
        Failure::Broken,
    ];

    /// The kind of an error from connecting.
    pub(crate) fn of_connecting(error: &io::Error) -> Failure {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ConnectionRefused => Failure::Refused,
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown => {
                Failure::Unreachable
            }
            Kind::TimedOut => Failure::Timeout,
            Kind::ConnectionReset => Failure::Reset,
            Kind::AddrNotAvailable => Failure::Exhausted,
            // No stable kind exists for EMFILE (24) and ENFILE (23), which every Unix numbers
            // alike.
            _ if matches!(error.raw_os_error(), Some(23 | 24)) && cfg!(unix) => Failure::Exhausted,
            _ => Failure::Connect,
        }
    }

    /// The kind of an error from exchanging a request for a response.
    pub(crate) fn of_exchange(error: &hyper::Error) -> Failure {
        if error.is_parse() {
            return Failure::NotHttp;
        }
        if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            return Failure::Closed;
        }
        match io_kind(error) {
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => Failure::Reset,
            Some(io::ErrorKind::UnexpectedEof) => Failure::Closed,
            Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => Failure::NotHttp,
            _ => Failure::Broken,
        }
    }
}

/// The kind of the I/O error that lies beneath a hyper error, if one does.
fn io_kind(error: &hyper::Error) -> Option<io::ErrorKind> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        source = error.source();
    }
    None
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Refused => "connection refused",
            Failure::Unreachable => "host unreachable",
            Failure::Exhausted => "too many open files or ports",
            Failure::Connect => "could not connect",
            Failure::Timeout => "timed out",
            Failure::Closed => "closed without a full answer",
            Failure::Reset => "connection reset",
            Failure::NotHttp => "answer is not HTTP/1.1",
            Failure::Broken => "exchange broken off",
        })
    }
}
