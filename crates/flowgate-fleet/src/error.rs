use flowgate::{KeyedError, QuotaError};
use std::fmt;
use std::time::Duration;

/// A fleet or a limit that cannot be built, and what would work.
///
/// ```
/// use flowgate_fleet::Fleet;
///
/// let fleet = Fleet::redis("redis://127.0.0.1:1")?.open()?;
/// let error = fleet.limit("api", "100/s".parse()?).build().unwrap_err();
/// assert!(error.to_string().contains("nodes"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FleetError {
    /// The address of the store cannot be read.
    Address(redis::RedisError),
    /// The address of a decision server cannot be read, for this reason.
    Server(String),
    /// A decision server refuses this limit: it has none of this name, or another quota, or its own store refuses it.
    Refused {
        /// The name of the limit.
        name: String,
        /// The server's reason, and what to do.
        why: String,
    },
    /// There is no address of a sentinel, or of a server of a cluster.
    NoAddress,
    /// An address with TLS, without the feature `tls` of this crate.
    NoTls,
    /// A certificate or its key cannot be read, or no address is one with TLS.
    Certificate(redis::RedisError),
    /// The thread that talks to the store cannot be started.
    Thread(std::io::Error),
    /// Nothing says what a limit does while the store cannot be reached.
    NoCutOff,
    /// A fleet of no nodes.
    NoNodes,
    /// The store may take less than 1 ms for an answer, or more than 1 min.
    Timeout(Duration),
    /// The share of a process is none, or more than everything.
    Share {
        /// The share's numerator.
        of: u32,
        /// The share's denominator.
        nodes: u32,
    },
    /// The export of a store cannot be read.
    Export,
    /// No limiter can keep the share of a process.
    Quota(Box<QuotaError>),
    /// No table can keep the shares of this many keys.
    Keys(Box<KeyedError>),
    /// The leases of a limit cannot keep an overshoot as small as this.
    Overshoot {
        /// The smallest overshoot that they can keep, in tokens.
        least: u64,
    },
    /// A burst is too small to be held in advance.
    NoOvershoot {
        /// The smallest burst with which leases exceed nothing, in tokens.
        burst: u64,
    },
    /// The store cannot count a burst this large exactly at this rate.
    Burst {
        /// The largest burst that it can count.
        most: u64,
    },
    /// The quota of a window has a burst.
    WindowBurst {
        /// The burst, in tokens.
        burst: u64,
    },
    /// The store cannot measure a window of this length: it is not in whole microseconds, or longer than 71 years.
    WindowPeriod(Duration),
    /// The store cannot count this many in a window.
    WindowCount {
        /// The largest number that it can count, in tokens.
        most: u64,
    },
    /// Another limit of this fleet has the same name, and another quota.
    OtherQuota {
        /// The name of both.
        name: String,
        /// What the other one states.
        stated: String,
    },
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(
                f,
                "the address of the store cannot be read: {error}; write redis://HOST:PORT"
            ),
            Self::Server(why) => write!(
                f,
                "the address of the server cannot be read: {why}; write http://HOST:PORT, or https://"
            ),
            Self::Refused { name, why } => {
                write!(f, "the limit `{name}` is refused: {why}")
            }
            Self::NoAddress => f.write_str("there is no address: give that of at least one server"),
            Self::NoTls => f.write_str(
                "TLS is a feature of this crate: `cargo add flowgate-fleet --features tls`",
            ),
            Self::Certificate(error) => {
                write!(f, "the certificates cannot be used: {error}")
            }
            Self::Thread(error) => {
                write!(f, "the fleet's thread cannot be started: {error}")
            }
            Self::NoCutOff => f.write_str(
                "nothing says what the limit does while the store cannot be reached: call `nodes(N)` of the fleet's builder, or \
                 `when_cut_off` of the limit's",
            ),
            Self::NoNodes => f.write_str("a fleet has at least 1 node, not 0"),
            Self::Timeout(timeout) => write!(
                f,
                "the store has between 1 ms and 1 min for an answer, not {timeout:?}"
            ),
            Self::Share { of, nodes } => {
                write!(f, "a share is between 1/N and 1, not {of}/{nodes}")
            }
            Self::Export => f.write_str("the export is damaged, or of another version"),
            Self::Quota(error) => write!(f, "the share of a process: {error}"),
            Self::Keys(error) => write!(f, "the shares of the keys: {error}"),
            Self::Overshoot { least } => write!(
                f,
                "leases cannot keep this overshoot: the smallest is `Overshoot::tokens({least})`; or leave out `leased`, for a strict \
                 limit"
            ),
            Self::NoOvershoot { burst } => write!(
                f,
                "without an overshoot, half of the burst is held in advance, and this one is too small: the smallest is {burst}; or \
                 leave out `leased`, for a strict limit"
            ),
            Self::Burst { most } => write!(
                f,
                "the store cannot count this burst exactly at this rate: the largest is {most}"
            ),
            Self::WindowBurst { burst } => write!(
                f,
                "a window has no burst: leave out `burst {burst}`, or use `limit` in place of `window`"
            ),
            Self::WindowPeriod(period) => write!(
                f,
                "a window lasts a whole number of microseconds, and 71 years at most, not {period:?}"
            ),
            Self::WindowCount { most } => write!(
                f,
                "the store cannot count this many in a window: the largest number is {most}"
            ),
            Self::OtherQuota { name, stated } => write!(
                f,
                "another limit of this fleet is named `{name}`, with {stated}: state the same, use another name, or call `set_quota` of \
                 that limit"
            ),
        }
    }
}

impl std::error::Error for FleetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error) | Self::Certificate(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Quota(error) => Some(error),
            Self::Keys(error) => Some(error),
            _ => None,
        }
    }
}
