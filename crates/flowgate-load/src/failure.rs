//! The ways in which a request can fail.

use std::fmt;
use std::io;

use h2::Reason;
use tokio_rustls::rustls;
use tokio_rustls::rustls::{AlertDescription, CertificateError};

/// Reason why a request has no usable response.
///
/// A response with a status such as 404 or 500 is not a failure.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// use flowgate_load::{RequestCounts, Failure};
///
/// let failures = BTreeMap::from([(Failure::Refused, 2), (Failure::Timeout, 40)]);
/// let counts = RequestCounts { failures, ..RequestCounts::default() };
/// let commonest = counts.failures.iter().max_by_key(|(_, count)| **count);
/// let (failure, count) = commonest.expect("there are two kinds");
/// assert_eq!(format!("{count} {failure}"), "40 timed out");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Nothing listens at the address.
    Refused,
    /// The network or the host cannot be reached.
    Unreachable,
    /// The process has too many open files or local ports.
    Exhausted,
    /// Connecting failed in another way.
    Connect,
    /// The proxy refused a connection to the server.
    Proxy,
    /// The proxy asks for a password, or refused the given one.
    ProxyPassword,
    /// TLS failed to connect, or ended.
    Tls(TlsFault),
    /// No complete response within the timeout.
    Timeout,
    /// The server closed the connection before its response was complete.
    Closed,
    /// The server reset the connection.
    Reset,
    /// The server reset this request's stream and no other: HTTP/2 only.
    StreamReset,
    /// The server accepts no more requests on the connection: HTTP/2 only.
    GoAway,
    /// The response is not HTTP/1.1.
    NotHttp,
    /// The server does not support HTTP/2, or not for this request.
    NotHttp2,
    /// Any other end of the exchange.
    Broken,
}

/// Reason why TLS failed.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Failure, TlsFault};
///
/// let failure = Failure::Tls(TlsFault::Expired);
/// assert_eq!(failure.to_string(), "certificate has expired");
/// assert_eq!(failure.advice(), Some("--insecure accepts any certificate"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TlsFault {
    /// No trusted authority issued the server's certificate.
    UnknownIssuer,
    /// The server's certificate is no longer valid.
    Expired,
    /// The server's certificate is not valid yet.
    NotYetValid,
    /// The server's certificate is for other hosts.
    WrongName,
    /// The server's certificate is that of an authority, which may only issue others.
    Authority,
    /// The server's certificate is unacceptable in another way.
    Certificate,
    /// The response is not TLS.
    NotTls,
    /// The server does not offer the required HTTP version.
    NoCommonProtocol,
    /// The server requires a client certificate.
    WantsCertificate,
    /// The server refused the handshake, or offers only insecure options.
    Refused,
    /// Any other TLS failure.
    Broken,
}

impl Failure {
    /// Every kind, in the order of a report.
    pub(crate) const ALL: [Failure; 25] = [
        Failure::Refused,
        Failure::Unreachable,
        Failure::Exhausted,
        Failure::Connect,
        Failure::Proxy,
        Failure::ProxyPassword,
        Failure::Tls(TlsFault::UnknownIssuer),
        Failure::Tls(TlsFault::Expired),
        Failure::Tls(TlsFault::NotYetValid),
        Failure::Tls(TlsFault::WrongName),
        Failure::Tls(TlsFault::Authority),
        Failure::Tls(TlsFault::Certificate),
        Failure::Tls(TlsFault::NotTls),
        Failure::Tls(TlsFault::NoCommonProtocol),
        Failure::Tls(TlsFault::WantsCertificate),
        Failure::Tls(TlsFault::Refused),
        Failure::Tls(TlsFault::Broken),
        Failure::Timeout,
        Failure::Closed,
        Failure::Reset,
        Failure::StreamReset,
        Failure::GoAway,
        Failure::NotHttp,
        Failure::NotHttp2,
        Failure::Broken,
    ];

    /// Returns advice for users of the command, if there is any.
    ///
    /// The advice is meant to follow the text of the failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Failure;
    ///
    /// assert_eq!(Failure::NotHttp2.advice(), Some("remove --http2"));
    /// assert_eq!(Failure::Refused.advice(), None);
    /// ```
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Failure::Tls(fault) => fault.advice(),
            Failure::NotHttp2 => Some("remove --http2"),
            Failure::ProxyPassword => Some("write --proxy http://USER:PASSWORD@HOST:PORT"),
            _ => None,
        }
    }

    /// Returns the kind of a connection error.
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
            // EMFILE (24) and ENFILE (23) have no stable `ErrorKind`; all Unix systems use these numbers.
            _ if matches!(error.raw_os_error(), Some(23 | 24)) && cfg!(unix) => Failure::Exhausted,
            _ => Failure::Connect,
        }
    }

    /// Returns the kind of a TLS handshake error.
    pub(crate) fn of_handshake(error: &io::Error) -> Failure {
        use io::ErrorKind as Kind;
        match (TlsFault::beneath(error), error.kind()) {
            (Some(fault), _) => Failure::Tls(fault),
            (None, Kind::ConnectionReset | Kind::BrokenPipe) => Failure::Reset,
            (None, Kind::TimedOut) => Failure::Timeout,
            (None, _) => Failure::Tls(TlsFault::Broken),
        }
    }

    /// Returns the kind of an error on an HTTP/2 connection or stream.
    pub(crate) fn of_http2(error: &h2::Error) -> Failure {
        use io::ErrorKind as Kind;
        if let Some(error) = error.get_io() {
            return match error.kind() {
                Kind::ConnectionReset => Failure::Reset,
                // The library returns this when it reads the end of the stream.
                Kind::BrokenPipe | Kind::UnexpectedEof => Failure::Closed,
                // Only TLS returns this; h2 keeps just the text of the error.
                Kind::InvalidData => {
                    Failure::Tls(TlsFault::beneath(error).unwrap_or(TlsFault::Refused))
                }
                _ => Failure::Broken,
            };
        }
        match error.reason() {
            Some(Reason::HTTP_1_1_REQUIRED) => Failure::NotHttp2,
            Some(_) if error.is_remote() && error.is_go_away() => Failure::GoAway,
            Some(_) if error.is_remote() => Failure::StreamReset,
            // This side reported an error in what the server had sent.
            Some(Reason::PROTOCOL_ERROR | Reason::FRAME_SIZE_ERROR | Reason::COMPRESSION_ERROR) => {
                Failure::NotHttp2
            }
            _ => Failure::Broken,
        }
    }

    /// Returns the kind of an error from reading or writing on an open connection.
    pub(crate) fn of_exchange(error: &io::Error) -> Failure {
        use io::ErrorKind as Kind;
        if let Some(fault) = TlsFault::beneath(error) {
            return Failure::Tls(fault);
        }
        match error.kind() {
            Kind::ConnectionReset | Kind::BrokenPipe => Failure::Reset,
            Kind::UnexpectedEof => Failure::Closed,
            _ => Failure::Broken,
        }
    }
}

impl TlsFault {
    /// Returns the kind of the TLS error that caused an I/O error, if one did.
    fn beneath(error: &io::Error) -> Option<TlsFault> {
        use rustls::Error as Tls;
        let error = error.get_ref()?.downcast_ref::<Tls>()?;
        Some(match error {
            Tls::InvalidCertificate(error) => TlsFault::of_certificate(error),
            Tls::InvalidMessage(_) => TlsFault::NotTls,
            Tls::NoApplicationProtocol
            | Tls::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                TlsFault::NoCommonProtocol
            }
            Tls::AlertReceived(AlertDescription::CertificateRequired) => TlsFault::WantsCertificate,
            Tls::AlertReceived(_) | Tls::PeerIncompatible(_) => TlsFault::Refused,
            _ => TlsFault::Broken,
        })
    }

    fn of_certificate(error: &CertificateError) -> TlsFault {
        use CertificateError as Fault;
        match error {
            // The certificate may name a trusted issuer that has not signed it.
            Fault::UnknownIssuer | Fault::BadSignature => TlsFault::UnknownIssuer,
            Fault::Expired | Fault::ExpiredContext { .. } => TlsFault::Expired,
            Fault::NotValidYet | Fault::NotValidYetContext { .. } => TlsFault::NotYetValid,
            Fault::NotValidForName | Fault::NotValidForNameContext { .. } => TlsFault::WrongName,
            // This is a certificate from `openssl req -x509`. rustls has no error kind for it.
            Fault::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
                TlsFault::Authority
            }
            _ => TlsFault::Certificate,
        }
    }

    fn advice(&self) -> Option<&'static str> {
        match self {
            TlsFault::UnknownIssuer => {
                Some("--cacert FILE trusts its issuer, --insecure accepts any certificate")
            }
            TlsFault::Expired
            | TlsFault::NotYetValid
            | TlsFault::WrongName
            | TlsFault::Authority
            | TlsFault::Certificate => Some("--insecure accepts any certificate"),
            TlsFault::NotTls => Some("check whether the URL should begin with http://"),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Refused => "connection refused",
            Failure::Unreachable => "host unreachable",
            Failure::Exhausted => "too many open files or ports",
            Failure::Connect => "could not connect",
            Failure::Proxy => "refused by the proxy",
            Failure::ProxyPassword => "password refused by the proxy",
            Failure::Tls(fault) => return fault.fmt(f),
            Failure::Timeout => "timed out",
            Failure::Closed => "closed without a full answer",
            Failure::Reset => "connection reset",
            Failure::StreamReset => "stream reset",
            Failure::GoAway => "connection given up by the server",
            Failure::NotHttp => "answer is not HTTP/1.1",
            Failure::NotHttp2 => "server does not speak HTTP/2",
            Failure::Broken => "exchange broken off",
        })
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsFault::UnknownIssuer => "certificate not trusted (unknown issuer)",
            TlsFault::Expired => "certificate has expired",
            TlsFault::NotYetValid => "certificate is not valid yet",
            TlsFault::WrongName => "certificate is for another host",
            TlsFault::Authority => "certificate is an authority's, not a server's",
            TlsFault::Certificate => "certificate is not acceptable",
            TlsFault::NotTls => "answer is not TLS",
            TlsFault::NoCommonProtocol => "HTTP version not offered over TLS",
            TlsFault::WantsCertificate => "server wants a client certificate",
            TlsFault::Refused => "TLS refused by the server",
            TlsFault::Broken => "TLS broken off",
        })
    }
}
