//! [`LimiterState`]: what was taken from a limiter, as text, so that it survives the process.
//!
//! ```text
//!  flowgate-state/1 TokenBucket 1795442000000000000 1,100000000,250000000 5f1c0c3e2a9b7d44
//!  form             kind        Unix time, in ns    numbers               checksum
//! ```
//!
//! Each engine defines the meaning of its numbers. Times among them are counted from the export, so that they mean the same on
//! the clock of another process. The importer adds the wall time that has passed since.

use crate::clock::saturating_nanos;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher;
use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;
use siphasher::sip::SipHasher13;

/// What was taken from a limiter, for the limiter that replaces it after a restart.
///
/// [`RateLimiter::export`](crate::RateLimiter::export) creates it, and [`RateLimiter::import`](crate::RateLimiter::import)
/// reads it. The page of `export` has an example.
///
/// A state is text ([`Display`](fmt::Display) and [`FromStr`]). With the feature `serde` it can be stored in any format. It
/// holds no secret. The checksum detects accidental changes. It does not stop a writer of the file from writing another state.
///
/// ```
/// use flowgate::{LimiterState, TokenBucket};
///
/// let text = TokenBucket::new("10/h".parse()?).export().to_string();
/// let state: LimiterState = text.parse()?;
/// assert_eq!(state.kind(), "TokenBucket");
///
/// let error = text[..text.len() - 1].parse::<LimiterState>().unwrap_err();
/// assert_eq!(error.to_string(), "cannot be imported: its checksum does not fit, so it is cut off or changed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterState {
    kind: Box<str>,
    unix_ns: u64,
    numbers: Box<[i128]>,
}

const FORM: &str = "flowgate-state/";
const VERSION: &str = "1";

impl LimiterState {
    /// Returns the name of the limiter's type, such as `TokenBucket`. Only a limiter of the same type can import the state.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The export of an engine of type `kind`.
    pub(super) fn new(kind: &'static str, numbers: Vec<i128>, unix_time: Duration) -> Self {
        Self {
            kind: kind.into(),
            unix_ns: saturating_nanos(unix_time),
            numbers: numbers.into(),
        }
    }

    /// The numbers, for an engine of type `kind`.
    pub(super) fn numbers(
        &self,
        kind: &'static str,
        unix_time: Duration,
    ) -> Result<Numbers<'_>, LimiterStateError> {
        if *self.kind != *kind {
            return Err(LimiterStateError::new(Reason::Kind {
                found: self.kind.clone(),
                expected: kind,
            }));
        }
        Ok(Numbers {
            all: &self.numbers,
            // A clock that was set back adds no tokens.
            elapsed_ns: saturating_nanos(unix_time).saturating_sub(self.unix_ns),
        })
    }

    /// Everything except the checksum.
    fn body(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(i128::to_string).collect();
        let (kind, unix_ns, numbers) = (&self.kind, self.unix_ns, numbers.join(","));
        format!("{FORM}{VERSION} {kind} {unix_ns} {numbers}")
    }
}

impl fmt::Display for LimiterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body();
        write!(f, "{body} {:016x}", checksum(&body))
    }
}

impl FromStr for LimiterState {
    type Err = LimiterStateError;

    fn from_str(text: &str) -> Result<Self, LimiterStateError> {
        let form = |why| LimiterStateError::new(Reason::Form(why));
        let text = text.trim();
        let Some(rest) = text.strip_prefix(FORM) else {
            return Err(form("it does not begin with `flowgate-state/`"));
        };
        let version = rest.split(' ').next().unwrap_or_default();
        if version != VERSION {
            return Err(form("it is of another version than 1"));
        }
        let Some((body, _)) = text
            .rsplit_once(' ')
            .filter(|(body, sum)| format!("{:016x}", checksum(body)) == *sum)
        else {
            return Err(form(
                "its checksum does not fit, so it is cut off or changed",
            ));
        };
        // A writer that computes the checksum can write anything before it.
        let mut words = body.split(' ').skip(1);
        let (Some(kind), Some(unix_ns), Some(numbers), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(form("it has not five parts"));
        };
        let unix_ns = unix_ns
            .parse()
            .map_err(|_| form("its time is not a number of nanoseconds"))?;
        let numbers = numbers.split(',').filter(|number| !number.is_empty());
        let numbers = numbers
            .map(|number| {
                number
                    .parse()
                    .map_err(|_| form("one of its numbers is none"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            kind: kind.into(),
            unix_ns,
            numbers,
        })
    }
}

/// Detects accidental changes. Every writer can compute it.
fn checksum(body: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(body.as_bytes());
    hasher.finish()
}

/// The reason why a state cannot be read or imported.
///
/// The limiter is then unchanged.
///
/// ```
/// use flowgate::{LeakyBucket, SlidingWindow, TokenBucket};
///
/// let state = TokenBucket::new("10/s".parse()?).export();
/// let error = LeakyBucket::new("10/s".parse()?).import(&state).unwrap_err();
/// assert_eq!(error.to_string(), "cannot be imported: it is of a TokenBucket, not of a LeakyBucket");
///
/// let state = SlidingWindow::new("10/min".parse()?)?.export();
/// let error = SlidingWindow::new("99/h".parse()?)?.import(&state).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot be imported: a window in nanoseconds is 60000000000 there, and has to be at least 3600000000000",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterStateError(Box<Reason>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Form(&'static str),
    Kind {
        found: Box<str>,
        expected: &'static str,
    },
    Missing {
        number: usize,
    },
    TooMany {
        numbers: usize,
        most: usize,
    },
    Range {
        number: usize,
        is: i128,
        range: RangeInclusive<i128>,
    },
    /// A setting of the exporter that does not fit the importer's.
    Setting {
        name: &'static str,
        there: u64,
        needed: Needed,
    },
    /// This type of limiter has no state of its own.
    NotALimiter,
    /// The reason of a limit of a gate.
    Member {
        name: Box<str>,
        error: Option<LimiterStateError>,
    },
}

/// The value that a setting must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    Exactly(u64),
    AtLeast(u64),
}

impl LimiterStateError {
    pub(super) fn new(reason: Reason) -> Self {
        Self(Box::new(reason))
    }

    /// A setting of the exporter that does not fit the importer's.
    pub(crate) fn setting(name: &'static str, there: u64, needed: Needed) -> Self {
        Self::new(Reason::Setting {
            name,
            there,
            needed,
        })
    }

    /// A gate has no rate limiter of that `name`.
    pub(crate) fn no_member(name: &str) -> Self {
        let (name, error) = (name.into(), None);
        Self::new(Reason::Member { name, error })
    }

    /// The same error, for the limit `name` of a gate.
    pub(crate) fn of_member(self, name: &str) -> Self {
        let (name, error) = (name.into(), Some(self));
        Self::new(Reason::Member { name, error })
    }
}

impl fmt::Display for LimiterStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot be imported: {}", self.0)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(why) => f.write_str(why),
            Self::Kind { found, expected } => {
                write!(f, "it is of a {found}, not of a {expected}")
            }
            Self::Missing { number } => write!(f, "it has no number {number}"),
            Self::TooMany { numbers, most } => {
                write!(f, "it has {numbers} numbers, and {most} are known")
            }
            Self::Range { number, is, range } => {
                let (least, most) = (range.start(), range.end());
                write!(
                    f,
                    "number {number} of {is} is out of range: {least} to {most}"
                )
            }
            Self::Setting {
                name,
                there,
                needed,
            } => {
                write!(f, "{name} is {there} there, and has to be ")?;
                match needed {
                    Needed::Exactly(here) => write!(f, "{here}"),
                    Needed::AtLeast(here) => write!(f, "at least {here}"),
                }
            }
            Self::NotALimiter => f.write_str("this type of limiter has no state of its own"),
            Self::Member { name, error: None } => {
                write!(f, "the gate has no rate limiter named '{name}'")
            }
            Self::Member {
                name,
                error: Some(error),
            } => write!(f, "of the limit '{name}', {}", error.0),
        }
    }
}

impl core::error::Error for LimiterStateError {}

/// Engines that keep what was taken over a restart. Sealed.
pub trait Exports {
    /// What was taken, as numbers that mean the same in another process: times are counted from `now_ns`.
    #[doc(hidden)]
    fn export(&self, now_ns: u64) -> Vec<i128>;

    /// Takes what an engine of this type has exported, in addition to what was taken here. `now_ns` is the time of this clock.
    #[doc(hidden)]
    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError>;
}

/// The numbers of a state, for an engine to read.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    all: &'a [i128],
    /// How long ago they were written, by the wall clock.
    pub(crate) elapsed_ns: u64,
}

impl Numbers<'_> {
    /// Returns the numbers, of which each has to be in its range.
    pub(crate) fn fields<const N: usize>(
        &self,
        ranges: [RangeInclusive<i128>; N],
    ) -> Result<[i128; N], LimiterStateError> {
        if self.all.len() > N {
            return Err(LimiterStateError::new(Reason::TooMany {
                numbers: self.all.len(),
                most: N,
            }));
        }
        let (fields, _) = self.fields_and_pairs(ranges, [0..=0, 0..=0])?;
        Ok(fields)
    }

    /// Returns the first numbers and, of those after them, pairs.
    pub(crate) fn fields_and_pairs<const N: usize>(
        &self,
        ranges: [RangeInclusive<i128>; N],
        pair: [RangeInclusive<i128>; 2],
    ) -> Result<([i128; N], Vec<[i128; 2]>), LimiterStateError> {
        let number = |index: usize, range: &RangeInclusive<i128>| match self.all.get(index) {
            None => Err(LimiterStateError::new(Reason::Missing {
                number: index + 1,
            })),
            Some(is) if range.contains(is) => Ok(*is),
            Some(&is) => Err(LimiterStateError::new(Reason::Range {
                number: index + 1,
                is,
                range: range.clone(),
            })),
        };
        let mut fields = [0; N];
        for (index, range) in ranges.iter().enumerate() {
            fields[index] = number(index, range)?;
        }
        let pairs = (N..self.all.len()).step_by(2);
        let pairs = pairs.map(|index| Ok([number(index, &pair[0])?, number(index + 1, &pair[1])?]));
        Ok((fields, pairs.collect::<Result<_, _>>()?))
    }

    /// The instant that was `ahead` after the export, on a clock that shows `now_ns`: perhaps before its origin.
    pub(crate) fn instant_ns(&self, ahead: i128, now_ns: u64) -> i128 {
        i128::from(now_ns) - i128::from(self.elapsed_ns) + ahead
    }
}

/// Ranges of numbers.
pub(crate) mod ranges {
    use core::ops::RangeInclusive;

    /// Any amount.
    pub(crate) const AMOUNT: RangeInclusive<i128> = 0..=u64::MAX as i128;
    /// What something is divided by.
    pub(crate) const DIVISOR: RangeInclusive<i128> = 1..=u64::MAX as i128;
    /// A difference of times of 64 bits, in nanoseconds.
    pub(crate) const TIME: RangeInclusive<i128> = -(1 << 66)..=1 << 66;
    /// The same in ticks, of which 2³² are a nanosecond, and a burst and a debt beyond.
    pub(crate) const TICKS: RangeInclusive<i128> = -(1 << 100)..=1 << 100;
}

/// The wall clock.
#[cfg(feature = "std")]
pub(crate) fn unix_now() -> Duration {
    use std::time::SystemTime;

    // Before 1970, it stands still.
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
