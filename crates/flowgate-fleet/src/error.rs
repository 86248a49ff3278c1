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
    /// No limiter can keep the share of a process.
    Quota(Box<QuotaError>),
    /// No table can keep the shares of this many keys.
    Keys(Box<KeyedError>),
    /// The store cannot count a burst this large exactly at this rate.
    Burst {
        /// The largest burst that it can count.
        most: u64,
    },
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(
                f,
                "the address of the store cannot be read: {error}; write redis://HOST:PORT"
            ),
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
            Self::Quota(error) => write!(f, "the share of a process: {error}"),
            Self::Keys(error) => write!(f, "the shares of the keys: {error}"),
            Self::Burst { most } => write!(
                f,
                "the store cannot count this burst exactly at this rate: the largest is {most}"
            ),
        }
    }
}

impl std::error::Error for FleetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Quota(error) => Some(error),
            Self::Keys(error) => Some(error),
            _ => None,
        }
    }
}
