//! One caller's releases, and what they say about its pace. Pure: no clock is read here.

use std::time::Duration;

use flowgate::Quota;
use flowgate_testkit::history::{Event, check};
use serde::Serialize;

use crate::spread::Tail;

/// What a limiter is asked: `rate` a second, one at a time, for `span`.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub rate: u32,
    pub span: Duration,
}

impl Ask {
    pub fn period(self) -> Duration {
        Duration::from_secs(1) / self.rate
    }

    fn period_ns(self) -> f64 {
        self.period().as_nanos() as f64
    }

    /// The slots in `span`.
    pub fn slots(self) -> u64 {
        u64::from(self.rate) * self.span.as_millis() as u64 / 1_000
    }

    /// The most that may be let go, by burst + rate · t.
    fn quota(self, burst: u64) -> Quota {
        Quota::new(u64::from(self.rate), Duration::from_secs(1))
            .and_then(|quota| quota.try_burst(burst))
            .expect("the limits fit")
    }
}

/// One call that waited, in ns since the turn began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub joined_ns: u64,
    pub returned_ns: u64,
    /// Time of the grant by the limiter's own clock, if the grant has one.
    pub dated_ns: Option<u64>,
}

/// Everything that one caller was let go for, in order. The last may be past the end of the span; it
/// is there for its interval and is not counted.
#[derive(Clone, Debug)]
pub struct Releases {
    pub ask: Ask,
    pub calls: Vec<Call>,
}

/// Minimum excess of an interval that counts as a preemption.
///
/// The limiter did not cause it: the thread, or the whole virtual CPU, was suspended.
pub const PREEMPTED_US: f64 = 50.0;

/// How far two clocks may differ over one turn. The stopwatch reads the system's clock. The limiter's own clock is steered to that
/// once a second, and runs a little faster or slower meanwhile.
const CLOCKS_NS: u64 = 10_000;

/// What the releases come to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    pub slots: u64,
    pub granted: u64,
    /// Intervals of two periods or more.
    pub stalls: u64,
    /// The slots that the stalls lost: see [`Releases::pace`].
    pub lost_to_stalls: f64,
    /// |interval − period|.
    pub error_us: Tail,
    /// The most in any second, or in the span where that is shorter.
    pub most_in_a_second: u64,
}

impl Pace {
    /// Granted of asked.
    pub fn raw(&self) -> f64 {
        self.granted as f64 / self.slots as f64
    }

    /// Granted of those slots that no stall lost.
    pub fn kept(&self) -> f64 {
        // Who catches up after a stall has lost nothing in it.
        let left = self.slots as f64 - self.lost_to_stalls;
        (self.granted as f64 / left).min(1.0)
    }
}

impl Releases {
    /// What they come to.
    ///
    /// A stall is an interval of two periods or more. By itself a late release loses nothing, if it is
    /// late by less than a period: the next slot is due at its own time. So a stall loses what the
    /// schedule slipped by over it *and the interval after it*, beyond the two periods that these should
    /// have taken. An interval after it that is a stall too counts for itself only.
    pub fn pace(&self) -> Pace {
        let period = self.ask.period_ns();
        let intervals = self.intervals_ns();
        let (mut stalls, mut lost_ns) = (0, 0.0);
        for (index, &interval) in intervals.iter().enumerate() {
            if interval < 2.0 * period {
                continue;
            }
            stalls += 1;
            let after = intervals.get(index + 1).copied().unwrap_or_default();
            let after = if after < 2.0 * period {
                after.min(period)
            } else {
                0.0
            };
            lost_ns += interval + after - 2.0 * period;
        }
        let errors = intervals.iter().map(|interval| (interval - period).abs());
        Pace {
            slots: self.ask.slots(),
            granted: self.granted(),
            stalls,
            lost_to_stalls: lost_ns / period,
            error_us: Tail::of(errors.map(|ns| ns / 1_000.0).collect()),
            most_in_a_second: self.most_in_a_second(),
        }
    }

    /// Returns |interval − period| without preemptions, and the number of preemptions.
    ///
    /// A preemption is an interval that exceeds the period by more than [`PREEMPTED_US`]. The next interval is skipped
    /// too, because it is too short by the same time.
    pub fn errors_without_preemptions(&self) -> (Tail, u64) {
        let period = self.ask.period_ns();
        let intervals = self.intervals_ns();
        let (mut kept, mut preemptions, mut after_one) = (Vec::new(), 0, false);
        for late_us in intervals.iter().map(|ns| (ns - period) / 1_000.0) {
            let preempted = late_us > PREEMPTED_US;
            preemptions += u64::from(preempted);
            if !preempted && !after_one {
                kept.push(late_us.abs());
            }
            after_one = preempted;
        }
        (Tail::of(kept), preemptions)
    }

    /// Returns proofs that burst + rate × t was exceeded.
    ///
    /// They follow from what the caller observed, whenever each release was decided between call and return, and from
    /// the timestamps of the grants.
    pub fn findings(&self, burst: u64) -> Vec<String> {
        let quota = self.ask.quota(burst);
        let seen = self.calls.iter().map(|call| Event {
            invoked_ns: call.joined_ns,
            returned_ns: call.returned_ns + CLOCKS_NS,
            n: 1,
            admitted: true,
        });
        let dates = self.calls.iter().filter_map(|call| call.dated_ns);
        let dated = dates.map(|at_ns| Event {
            invoked_ns: at_ns,
            returned_ns: at_ns,
            n: 1,
            admitted: true,
        });
        let histories = [("seen", Vec::from_iter(seen)), ("dated", dated.collect())];
        let broken = histories.iter().filter_map(|(as_what, events)| {
            let broken = check(quota, events).err()?;
            Some(format!("{as_what}: {broken}"))
        });
        broken.collect()
    }

    fn first_ns(&self) -> u64 {
        self.calls.first().map_or(0, |call| call.returned_ns)
    }

    /// One after another; the last ends with the span, which cuts off what a stall takes after it.
    fn intervals_ns(&self) -> Vec<f64> {
        let end = self.first_ns() + self.ask.span.as_nanos() as u64;
        let pairs = self.calls.windows(2);
        let ns = pairs.map(|pair| pair[1].returned_ns.min(end) - pair[0].returned_ns);
        let mut ns: Vec<f64> = ns.map(|ns| ns as f64).collect();
        if let Some(last) = ns.last_mut() {
            // Cut off short of a period it says nothing about the pace.
            *last = last.max(self.ask.period_ns());
        }
        ns
    }

    fn granted(&self) -> u64 {
        let end = self.first_ns() + self.ask.span.as_nanos() as u64;
        self.calls.partition_point(|call| call.returned_ns < end) as u64
    }

    fn most_in_a_second(&self) -> u64 {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut from = 0;
        let counts = self.calls.iter().enumerate().map(|(index, call)| {
            while self.calls[from].returned_ns + SECOND_NS <= call.returned_ns {
                from += 1;
            }
            (index + 1 - from) as u64
        });
        counts.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases at these µs, at 1,000/s over `span_ms` ms.
    fn releases(span_ms: u64, at_us: &[u64]) -> Releases {
        let mut joined_ns = 0;
        let calls = at_us.iter().map(|us| {
            let returned_ns = us * 1_000;
            let call = Call {
                joined_ns,
                returned_ns,
                dated_ns: None,
            };
            joined_ns = returned_ns;
            call
        });
        Releases {
            ask: Ask {
                rate: 1_000,
                span: Duration::from_millis(span_ms),
            },
            calls: calls.collect(),
        }
    }

    #[test]
    fn an_even_pace_keeps_every_slot() {
        let pace = releases(4, &[500, 1_500, 2_500, 3_500, 4_500]).pace();
        assert_eq!((pace.slots, pace.granted, pace.stalls), (4, 4, 0));
        assert_eq!((pace.raw(), pace.kept()), (1.0, 1.0));
        assert_eq!(pace.error_us.max, 0.0);
        assert_eq!(pace.most_in_a_second, 5);
    }

    #[test]
    fn a_stall_loses_what_the_schedule_slips_by() {
        // Late by 1.5 periods; the next follows at once, so one slot is made up and half of one lost.
        let pace = releases(
            8,
            &[0, 2_500, 2_500, 3_500, 4_500, 5_500, 6_500, 7_500, 8_500],
        )
        .pace();
        assert_eq!((pace.stalls, pace.lost_to_stalls), (1, 0.5));
        assert_eq!(pace.granted, 8);
        // The caller itself was away: the next slot is a period after its return.
        let pace = releases(8, &[0, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000]).pace();
        assert_eq!((pace.stalls, pace.lost_to_stalls), (1, 2.0));
        assert_eq!((pace.granted, pace.kept()), (6, 1.0));
    }

    #[test]
    fn a_limiter_that_always_sleeps_too_long_is_not_excused() {
        // Two periods and a bit, each time.
        let at_us: Vec<u64> = (0..49).map(|k| k * 2_100).collect();
        let pace = releases(100, &at_us).pace();
        assert_eq!(pace.stalls, 47);
        assert!(pace.kept() < 0.6, "{}", pace.kept());
    }

    #[test]
    fn who_catches_up_has_lost_nothing() {
        let pace = releases(6, &[0, 4_000, 4_000, 4_000, 4_000, 5_000, 6_000]).pace();
        assert_eq!((pace.raw(), pace.kept()), (1.0, 1.0));
    }

    #[test]
    fn a_preemption_and_the_interval_after_it_are_left_out() {
        let (errors, preemptions) = releases(9, &[0, 1_000, 2_200, 3_000, 4_001, 5_001, 6_001])
            .errors_without_preemptions();
        assert_eq!((preemptions, errors.max), (1, 1.0));
    }

    #[test]
    fn too_many_are_found() {
        let fine = releases(4, &[0, 1_000, 2_000]);
        assert_eq!(fine.findings(1), [""; 0]);
        // Three after 2 ms, in 1 ms: room for 1 + 1.
        let mut bad = releases(4, &[2_000, 2_500, 3_000]);
        assert_eq!(
            bad.findings(1),
            [""; 0],
            "the second may have been decided at 2 ms"
        );
        for call in &mut bad.calls {
            call.dated_ns = Some(call.returned_ns);
        }
        let findings = bad.findings(1);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("dated: "), "{findings:?}");
        assert_eq!(bad.findings(2), [""; 0]);
    }
}
