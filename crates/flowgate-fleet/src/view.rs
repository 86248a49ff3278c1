use crate::CutOff;
use crate::tally::Trouble;
use crate::terms::Terms;
use std::time::Duration;

/// The bounds of [`FleetCounts::calls_within`]. The last one has no end.
pub(crate) const CALL_BOUNDS: [Duration; 11] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_micros(1_000),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::MAX,
];

/// The state of a limit, as far as this process knows it.
///
/// [`FleetLimit::inspect`](crate::FleetLimit::inspect) and [`FleetLeased::inspect`](crate::FleetLeased::inspect) return it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FleetView {
    /// What this process has counted.
    pub counts: FleetCounts,
    /// How much the limit may have been exceeded.
    pub bound: FleetBound,
    /// Whether there is a connection to the store.
    pub is_connected: bool,
    /// The part of the limit that this process admits alone, from 0 to 1.
    pub share: f64,
}

/// What this process has counted of a limit since it was built.
///
/// Of a [leased](crate::FleetLeased) limit, units are counted in place of requests. A request whose future was dropped is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetCounts {
    /// Requests that the store admitted.
    pub admitted: u64,
    /// Requests that were refused because of the limit.
    pub denied: u64,
    /// Requests that this process admitted alone.
    pub degraded: u64,
    /// Requests that this process refused because the store did not answer.
    pub cut_off: u64,
    /// Units that this process admitted alone.
    pub degraded_units: u64,
    /// Calls in which all callers were admitted.
    pub calls_granted: u64,
    /// Calls in which at least one caller was denied.
    pub calls_denied: u64,
    /// Calls without an answer: a time-out, or a connection that ended.
    pub calls_lost: u64,
    /// Calls that the store refused, for example because its memory is full.
    pub calls_refused: u64,
    /// Answers that took at most each of [`call_bounds`](Self::call_bounds).
    pub calls_within: [u64; CALL_BOUNDS.len()],
    /// Units that the store had forgotten, and that this process has reminded it of.
    pub healed_units: u64,
    /// How often the store may have lost its records.
    ///
    /// It was reminded, or this process was connected to it again. Of a limit for each key, this number and the next two are the most of any
    /// key.
    pub amnesias: u64,
    /// How often an operator has set the limit back to full.
    ///
    /// A reset of a limit of which this process remembers no debt is not counted.
    pub resets: u64,
    /// How often this process was cut off from the store.
    ///
    /// It is also if the store answers later than a caller [waits](crate::Ask::within).
    pub outages: u64,
}

/// How much a limit may have exceeded `burst + rate × t` by now, at most, in units.
///
/// In no interval of any length t until now, all processes together were admitted more than `burst + rate × t` and
/// [`total`](Self::total). For [windows](crate::Fleet::window), it is `2 × count + count / period × t` in place of `burst + rate × t`, and a
/// burst is the count. This is what **this process** can know. It assumes that the others state the same quota and the same timeout,
/// and that they were cut off from the store for as long as this one. It does not include:
///
/// - a loss of records that this process could not notice: its connection was not lost, and other processes have taken what it remembers;
/// - a clock of the store that was set ahead;
/// - an old primary that goes on admitting after a failover.
///
/// The numbers count from when the limit was built, and never go down. Of a limit for each key, each number is the most of any key.
///
/// ```
/// use flowgate_fleet::{CutOff, Fleet};
///
/// let fleet = Fleet::local().open()?;
/// let api = fleet.limit("api", "100/s burst 20".parse()?).when_cut_off(CutOff::Deny).build()?;
/// assert!(api.ask().block().is_ok());
/// assert_eq!(api.bound().total(), Some(5)); // what flows back within the timeout of 50 ms
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetBound {
    /// What flows back within the fleet's [timeout](crate::FleetBuilder::timeout).
    ///
    /// The store decides up to that time before a caller learns of it. Counted from when the store decides, this is 0. With
    /// [`Ask::all`](crate::Ask::all) in a cluster, it is one timeout per limit.
    pub in_flight: u64,
    /// What all processes may hold in advance: the [overshoot](crate::Overshoot). A strict limit holds nothing.
    pub leased: u64,
    /// One burst for each time that the store may have lost its records.
    ///
    /// Of a leased limit, it is a burst and what processes may have reserved: as much as the overshoot, at most.
    pub forgotten: u64,
    /// The same for each time that an operator has set the limit back to full.
    pub reset: u64,
    /// What this process has admitted alone.
    pub alone: u64,
    /// What the other processes may have admitted alone.
    ///
    /// `None`: without end, because they [admit everything](CutOff::Admit).
    pub others_alone: Option<u64>,
}

impl FleetCounts {
    /// Returns the numbers of decisions, by their names.
    pub fn decisions(&self) -> [(&'static str, u64); 4] {
        [
            ("admitted", self.admitted),
            ("denied", self.denied),
            ("degraded", self.degraded),
            ("cut_off", self.cut_off),
        ]
    }

    /// Returns the numbers of calls, by the names of their results.
    pub fn calls(&self) -> [(&'static str, u64); 4] {
        [
            ("granted", self.calls_granted),
            ("denied", self.calls_denied),
            ("lost", self.calls_lost),
            ("refused", self.calls_refused),
        ]
    }

    /// Returns the times of [`calls_within`](Self::calls_within), from 100 µs to `Duration::MAX`.
    pub fn call_bounds() -> &'static [Duration] {
        &CALL_BOUNDS
    }
}

impl FleetBound {
    /// Returns the sum of all terms. Returns `None` if there is no bound.
    pub fn total(&self) -> Option<u64> {
        let Self {
            in_flight,
            leased,
            forgotten,
            reset,
            alone,
            others_alone,
        } = *self;
        let terms = [in_flight, leased, forgotten, reset, alone, others_alone?];
        Some(terms.into_iter().fold(0, u64::saturating_add))
    }
}

/// Returns what flows back within `time`, in units, rounded up.
pub(crate) fn flow(terms: &Terms, time: Duration) -> u128 {
    let parts = time.as_nanos().saturating_mul(terms.count.into());
    parts.div_ceil(u128::from(terms.period) * 1_000)
}

/// Returns what the other processes may have admitted alone, if they were cut off as often and for as long as this one.
pub(crate) fn others_alone(cut_off: CutOff, terms: &Terms, trouble: &Trouble) -> Option<u64> {
    if trouble.outages == 0 {
        return Some(0);
    }
    let (of, nodes) = match cut_off {
        CutOff::Deny => return Some(0),
        CutOff::Admit => return None,
        CutOff::Share(of, nodes) => (of, nodes),
    };
    // A share fills up between two outages, but only at its rate.
    let burst = u128::from(terms.burst);
    let by_outages = burst * u128::from(trouble.outages) + flow(terms, trouble.cut);
    let by_rate = burst + flow(terms, trouble.span);
    let all = by_outages.min(by_rate);
    let others = (all * u128::from(nodes - of)).div_ceil(nodes.into());
    Some(u64::try_from(others).unwrap_or(u64::MAX))
}

/// Returns the part of the limit that a process admits while it is cut off.
pub(crate) fn share(cut_off: CutOff) -> f64 {
    match cut_off {
        CutOff::Deny => 0.0,
        CutOff::Admit => 1.0,
        CutOff::Share(of, nodes) => f64::from(of) / f64::from(nodes),
    }
}

/// The rest of a key's limit, by the store's last answer to a process.
///
/// [`FleetKeyed::standing`](crate::FleetKeyed::standing) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetStanding {
    /// The most units that can be taken in one burst.
    pub limit: u64,
    /// The number of units that can be taken now.
    ///
    /// Another process may have taken some since.
    pub remaining: u64,
    /// The time until the key is full, if no process takes anything.
    pub reset_after: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn others(cut_off: CutOff, outages: u64, cut: Duration, span: Duration) -> Option<u64> {
        let terms = Terms::of("10/s burst 40".parse().expect("a quota")).expect("it is exact");
        let mut trouble = Trouble::default();
        (trouble.outages, trouble.cut, trouble.span) = (outages, cut, span);
        others_alone(cut_off, &terms, &trouble)
    }

    #[test]
    fn the_other_processes_have_the_rest_of_the_limit_for_as_long_as_this_one() {
        let share = CutOff::Share(1, 4);
        assert_eq!(others(share, 0, Duration::ZERO, Duration::ZERO), Some(0));
        assert_eq!(others(share, 1, 2 * SECOND, 2 * SECOND), Some(45));
        // Two outages, and the share was full in between.
        assert_eq!(others(share, 2, 2 * SECOND, 900 * SECOND), Some(75));
        // Many, of a store that flaps: no more than the share's rate.
        assert_eq!(others(share, 900, SECOND, 10 * SECOND), Some(105));
        assert_eq!(others(CutOff::Deny, 9, SECOND, SECOND), Some(0));
        assert_eq!(others(CutOff::Admit, 1, SECOND, SECOND), None);
        assert_eq!(others(CutOff::Admit, 0, SECOND, SECOND), Some(0));
    }
}
