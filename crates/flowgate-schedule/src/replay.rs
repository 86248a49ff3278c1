//! Times from a text.

use std::fmt;
use std::io::{BufRead, Read};
use std::time::Duration;

use crate::error::ReplayError;

/// Maximum number of times in a replay; each takes 8 bytes.
pub const MAX_REPLAYED: u64 = 10_000_000;

/// Maximum length of a line that is kept in memory.
const MAX_LINE: u64 = 256;
const SECOND_NS: u128 = 1_000_000_000;

/// Times in order, as they were read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    /// At least one; never decreasing.
    scheduled_ns: Vec<u64>,
    /// Maximum number of requests in any second.
    busiest_second: u64,
}

impl Replay {
    /// Reads at most `limit` times.
    pub(crate) fn read(mut text: impl BufRead, limit: u64) -> Result<Replay, ReplayError> {
        let mut scheduled_ns = Vec::new();
        let mut bytes = Vec::new();
        let mut before = 0;
        for number in 1.. {
            bytes.clear();
            let length = (&mut text)
                .take(MAX_LINE)
                .read_until(b'\n', &mut bytes)
                .map_err(ReplayError::Read)?;
            if length == 0 {
                break;
            }
            let is_cut = bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n");
            let line = bytes.trim_ascii();
            let is_comment = line.starts_with(b"#");
            if is_comment || (line.is_empty() && !is_cut) {
                if is_cut {
                    text.skip_until(b'\n').map_err(ReplayError::Read)?;
                }
                continue;
            }
            let Some(time) = seconds(line).filter(|_| !is_cut) else {
                const SHOWN: usize = 40;
                let text = shown(line).chars().take(SHOWN).collect();
                return Err(ReplayError::NotATime { line: number, text });
            };
            let Ok(time) = u64::try_from(time) else {
                let text = shown(line);
                return Err(ReplayError::TooLong { line: number, text });
            };
            if time < before {
                return Err(ReplayError::Unsorted {
                    line: number,
                    text: shown(line),
                    before: Duration::from_nanos(before),
                });
            }
            if scheduled_ns.len() as u64 == limit {
                return Err(ReplayError::TooMany);
            }
            scheduled_ns.push(time);
            before = time;
        }
        if scheduled_ns.is_empty() {
            return Err(ReplayError::Empty);
        }
        let busiest_second = busiest_second(&scheduled_ns);
        Ok(Replay {
            scheduled_ns,
            busiest_second,
        })
    }

    pub(crate) fn scheduled_ns(&self, index: u64) -> u64 {
        let scheduled = usize::try_from(index)
            .ok()
            .and_then(|at| self.scheduled_ns.get(at));
        scheduled.copied().unwrap_or(u64::MAX)
    }

    pub(crate) fn len(&self) -> u64 {
        self.scheduled_ns.len() as u64
    }

    pub(crate) fn busiest_second(&self) -> u64 {
        self.busiest_second
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replay of {} times", self.len())
    }
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Parses decimal seconds into nanoseconds, rounded up. `None` for any other text. Values above 64 bits stay above.
fn seconds(text: &[u8]) -> Option<u128> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, decimals) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let mut digits = whole.iter().chain(decimals);
    if whole.len() + decimals.len() == 0 || !digits.all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |byte: &u8| u128::from(byte - b'0');
    let whole = whole.iter().fold(0_u128, |sum, byte| {
        sum.saturating_mul(10).saturating_add(digit(byte))
    });
    let (kept, cut) = decimals.split_at(decimals.len().min(9));
    let nanos = kept
        .iter()
        .chain(std::iter::repeat(&b'0'))
        .take(9)
        .fold(0, |sum, byte| sum * 10 + digit(byte));
    let is_more = cut.iter().any(|byte| *byte != b'0');
    let seconds = whole.saturating_mul(SECOND_NS);
    Some(seconds.saturating_add(nanos + u128::from(is_more)))
}

/// Returns the maximum number of times within one second.
fn busiest_second(scheduled_ns: &[u64]) -> u64 {
    let mut first = 0;
    let mut most = 0;
    for (last, scheduled) in scheduled_ns.iter().enumerate() {
        while u128::from(scheduled - scheduled_ns[first]) >= SECOND_NS {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most as u64
}

#[cfg(test)]
mod tests {
    use super::{Replay, ReplayError};

    #[test]
    fn more_than_the_limit_is_refused() {
        let read = |limit| Replay::read("0\n1\n# a comment\n1\n".as_bytes(), limit);
        assert!(matches!(read(2), Err(ReplayError::TooMany)));
        assert_eq!(read(3).unwrap().len(), 3);
    }
}
