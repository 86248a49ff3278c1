use crate::quota::QuotaError;
use core::fmt;

/// An error that names why a keyed limiter cannot be built or changed.
///
/// Its message names the value and, if there is one, the accepted range.
///
/// ```
/// use flowgate::Keyed;
///
/// let error = Keyed::token_bucket("5/s".parse()?).capacity(0).unwrap_err();
/// assert_eq!(error.to_string(), "a capacity in keys of 0 is out of range: 1 to 12884901888");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedError(pub(super) Reason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Quota(QuotaError),
    Capacity {
        keys: usize,
        most: u64,
    },
    /// More than the table supports.
    Size {
        keys: usize,
        bytes: u128,
        most: u64,
    },
    /// More than the memory that is available.
    Memory {
        keys: usize,
        bytes: u128,
    },
    #[cfg(not(feature = "std"))]
    NoSeed,
    Export(&'static str),
}

impl From<QuotaError> for KeyedError {
    fn from(error: QuotaError) -> Self {
        Self(Reason::Quota(error))
    }
}

impl fmt::Display for KeyedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Quota(error) => error.fmt(f),
            Reason::Capacity { keys, most } => write!(
                f,
                "a capacity in keys of {keys} is out of range: 1 to {most}"
            ),
            Reason::Size { keys, bytes, most } => write!(
                f,
                "a capacity of {keys} keys would take {bytes} bytes of memory, and at most {most} keys can be told apart"
            ),
            Reason::Memory { keys, bytes } => write!(
                f,
                "a capacity of {keys} keys takes {bytes} bytes of memory, which are not to be had"
            ),
            #[cfg(not(feature = "std"))]
            Reason::NoSeed => f.write_str(
                "a secret seed has to be set where there is no operating system to give one",
            ),
            Reason::Export(why) => write!(f, "cannot be imported: {why}"),
        }
    }
}

impl core::error::Error for KeyedError {}
