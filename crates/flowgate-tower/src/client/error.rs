use flowgate::Denied;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a request was not sent, or what became of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// It names no host.
    NoHost,
    /// Its host has asked for a pause that lasts for as long as this still, beyond the patience.
    Paused(Duration),
    /// Its turn would not have come within the patience, or too many wait.
    Denied(Denied),
    /// It was sent, and this is the client's error.
    Client(E),
}

impl<E: fmt::Display> fmt::Display for ClientError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("not sent: the request names no host"),
            Self::Paused(rest) => write!(f, "not sent: its host has asked for a pause of {rest:?}"),
            Self::Denied(denied) => write!(f, "not sent: {denied}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for ClientError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Client(error) => error.source(),
            Self::NoHost | Self::Paused(_) => None,
        }
    }
}
