//! Faults of a server, and when they happen.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::TextError;
use crate::share::Share;
use crate::text::{as_text, duration, in_words, number, serde_by_text};

/// Something that is wrong with a server for a while.
///
/// As text, it is a kind, when it begins and how long it lasts: `capacity 25% at 20s for 10s`. The kinds are `capacity SHARE`,
/// `service FACTORx`, `pause` and `outage`.
///
/// ```
/// use flowgate_sim::{Fault, FaultKind, Share};
/// use std::time::Duration;
///
/// let half = FaultKind::Capacity(Share::new(0.5));
/// let half = Fault::new(half, Duration::from_secs(20), Duration::from_secs(10));
/// assert_eq!(half.until(), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    kind: FaultKind,
    #[serde(rename = "at", with = "as_text")]
    from: Duration,
    #[serde(with = "as_text")]
    lasts: Duration,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// This share of the workers works, rounded up.
    Capacity(Share),
    /// Service takes this many times as long.
    Service(f64),
    /// Nothing goes on, as in a pause of a garbage collector.
    Pause,
    /// Each request fails immediately, and what was begun is lost.
    Outage,
}

impl Fault {
    /// Creates a fault from `from` on, since the start of the run, for `lasts`.
    pub fn new(kind: FaultKind, from: Duration, lasts: Duration) -> Self {
        Self { kind, from, lasts }
    }

    /// Returns the kind.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Returns when the fault begins, since the start of the run.
    pub fn from(&self) -> Duration {
        self.from
    }

    /// Returns when the fault is over, since the start of the run.
    pub fn until(&self) -> Duration {
        self.from.saturating_add(self.lasts)
    }
}

impl FromStr for Fault {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [ref kind @ .., "at", from, "for", lasts] = words[..] else {
            return Err(TextError::new(
                text,
                "not a fault; write 'capacity 25% at 20s for 10s'",
            ));
        };
        Ok(Self::new(
            kind.join(" ").parse()?,
            duration(from)?,
            duration(lasts)?,
        ))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {} for {}",
            self.kind,
            in_words(self.from),
            in_words(self.lasts)
        )
    }
}

/// The largest factor of a slower service.
const MAX_FACTOR: f64 = 1e6;

impl FromStr for FaultKind {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["capacity", share] => match share.parse()? {
                none if none == Share::new(0.0) => Err(TextError::new(
                    text,
                    "no capacity is left; write 'outage' or 'pause'",
                )),
                share => Ok(Self::Capacity(share)),
            },
            ["service", factor] if factor.ends_with('x') => Ok(Self::Service(number(
                factor.trim_end_matches('x'),
                0.0..=MAX_FACTOR,
            )?)),
            ["pause"] => Ok(Self::Pause),
            ["outage"] => Ok(Self::Outage),
            _ => Err(TextError::new(
                text,
                "not a kind of fault; write 'capacity 25%', 'service 3x', 'pause' or 'outage'",
            )),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(share) => write!(f, "capacity {share}"),
            Self::Service(factor) => write!(f, "service {factor}x"),
            Self::Pause => f.write_str("pause"),
            Self::Outage => f.write_str("outage"),
        }
    }
}

serde_by_text!(FaultKind);

/// All faults of a run.
#[derive(Debug)]
pub(super) struct Faults(Vec<Fault>);

/// How a server is at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Health {
    pub(super) capacity: f64,
    pub(super) slowness: f64,
    pub(super) is_paused: bool,
    pub(super) is_down: bool,
}

impl Health {
    pub(super) const GOOD: Self = Self {
        capacity: 1.0,
        slowness: 1.0,
        is_paused: false,
        is_down: false,
    };
}

impl Faults {
    pub(super) fn new(faults: &[Fault]) -> Self {
        Self(faults.to_vec())
    }

    /// How the server is from `now_ns` on. Of two faults of a kind, the worse one.
    pub(super) fn health(&self, now_ns: u64) -> Health {
        let now = Duration::from_nanos(now_ns);
        let current = self
            .0
            .iter()
            .filter(|fault| (fault.from..fault.until()).contains(&now));
        current.fold(Health::GOOD, |health, fault| match fault.kind {
            FaultKind::Capacity(share) => Health {
                capacity: health.capacity.min(share.get()),
                ..health
            },
            FaultKind::Service(times) => Health {
                slowness: health.slowness.max(times),
                ..health
            },
            FaultKind::Pause => Health {
                is_paused: true,
                ..health
            },
            FaultKind::Outage => Health {
                is_down: true,
                ..health
            },
        })
    }

    /// The first time after `now_ns` at which a fault begins or ends.
    pub(super) fn next_change_ns(&self, now_ns: u64) -> Option<u64> {
        let ends = self.0.iter().flat_map(|fault| [fault.from, fault.until()]);
        let ends = ends.filter_map(|end| u64::try_from(end.as_nanos()).ok());
        ends.filter(|end| *end > now_ns).min()
    }

    /// When `work_ns` that are begun at `start_ns` are done, with the pauses between.
    pub(super) fn done_ns(&self, start_ns: u64, work_ns: u64) -> u64 {
        let (mut now_ns, mut left_ns) = (start_ns, work_ns);
        loop {
            let change_ns = self.next_change_ns(now_ns).unwrap_or(u64::MAX);
            let is_paused = self.health(now_ns).is_paused;
            let passes_ns = if is_paused { 0 } else { change_ns - now_ns };
            if left_ns <= passes_ns && (!is_paused || left_ns == 0) {
                return now_ns.saturating_add(left_ns);
            }
            if change_ns == u64::MAX {
                return u64::MAX;
            }
            left_ns -= passes_ns;
            now_ns = change_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn work_stands_still_in_a_pause() {
        let faults = Faults::new(&[
            Fault::new(FaultKind::Pause, seconds(10), seconds(2)),
            Fault::new(FaultKind::Pause, seconds(13), seconds(1)),
            Fault::new(FaultKind::Capacity(Share::new(0.5)), seconds(9), seconds(9)),
        ]);
        let done = |start, work| faults.done_ns(start * SECOND, work * SECOND) / SECOND;
        assert_eq!(done(1, 3), 4);
        assert_eq!(done(9, 1), 10);
        assert_eq!(done(9, 2), 13);
        assert_eq!(done(9, 3), 15);
        assert_eq!(done(10, 1), 13);
        assert_eq!(done(12, 1), 13);
        assert_eq!(done(20, 7), 27);
    }

    #[test]
    fn health_is_the_worst_of_all() {
        let faults = Faults::new(&[
            Fault::new(FaultKind::Capacity(Share::new(0.5)), seconds(1), seconds(4)),
            Fault::new(
                FaultKind::Capacity(Share::new(0.25)),
                seconds(2),
                seconds(1),
            ),
            Fault::new(FaultKind::Outage, seconds(4), seconds(1)),
        ]);
        let at = |s: u64| faults.health(s * SECOND);
        assert_eq!(at(0), Health::GOOD);
        assert_eq!(
            [at(1), at(2), at(3)].map(|health| health.capacity),
            [0.5, 0.25, 0.5]
        );
        assert!(at(4).is_down && !at(5).is_down);
        assert_eq!(faults.next_change_ns(2 * SECOND), Some(3 * SECOND));
    }
}
