//! A clock over the time stamp counter, disciplined to the operating system's clock.
//!
//! A reading is `anchor + (ticks − anchor ticks) · rate`, valid for one second after the anchor. The first thread that reads
//! the clock after that compares it with the OS clock and sets a new anchor. It steers the rate so that the two clocks meet
//! again one second later. So there is no background thread, and no step in the time.
//!
//! A counter that is off by more than 1 ms per second is given up permanently, and every reading then comes from the OS clock.
//! The readings also come from the OS clock until 20 ms of both clocks have been seen. So nothing is calibrated at start-up.
//!
//! A counter can leap forward on one core, which makes a limiter refuse for the length of the leap. A leap of 1 s or more fails
//! the check immediately, and the caller gets the OS clock's time. A shorter leap is believed until the anchor's second is
//! over, and then fails.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `PUBLISHED` | every reading | the holder of `STATE` | [`Seqlock`]; a reading that meets a change goes to the second check |
//! | `REJECTED` | the second check | the holder of `STATE` | – |
//! | `STATE` | the second check | the second check | itself; other threads wait for the new anchor, or read the OS clock if there is none |

mod counter;

use super::os;
use crate::primitive::seqlock::Seqlock;
use crate::primitive::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How much of both clocks must have been seen before the first rate is used.
const WARM_UP_NS: u64 = 20_000_000;
/// How long an anchor is valid, and the largest disagreement for each such interval.
const SPAN_NS: u64 = 1_000_000_000;
const DISAGREEMENT_NS: u64 = 1_000_000;

/// The anchor's ticks, nanoseconds and rate, and for how many ticks it is valid: 0 if there is no anchor.
static PUBLISHED: Seqlock<4> = Seqlock::new(&[0; 4]);

/// 1: every reading comes from the OS clock, permanently.
static REJECTED: AtomicU64 = AtomicU64::new(0);

static STATE: Mutex<State> = Mutex::new(State::Unprobed);

#[derive(Clone, Copy, Debug)]
enum State {
    Unprobed,
    WarmingUp(Sample),
    Running(Anchor, Sample),
    Rejected,
}

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
struct Sample {
    os_ns: u64,
    ticks: u64,
}

/// A straight line through one instant: what a reading is computed from.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: u64,
    /// Nanoseconds per tick, in units of 2⁻⁶⁴: the counter ticks faster than 1 GHz.
    rate: u64,
}

#[inline]
pub(super) fn now_ns() -> u64 {
    read(counter::read)
}

/// Returns the time, read after everything that precedes it in the program.
pub(super) fn now_ns_in_order() -> u64 {
    read(counter::read_in_order)
}

#[inline(always)]
fn read(counter: impl Fn() -> u64) -> u64 {
    let published = PUBLISHED.read(|[anchor_ticks, ns, rate, valid_ticks]| {
        let anchor = Anchor {
            ticks: anchor_ticks,
            ns,
            rate,
        };
        (anchor, valid_ticks, counter())
    });
    match published {
        Some((anchor, valid_ticks, ticks)) if ticks.wrapping_sub(anchor.ticks) < valid_ticks => {
            anchor.read(ticks)
        }
        _ => check(counter),
    }
}

/// Reads the OS clock, and renews the anchor or waits for the thread that is renewing it.
#[cold]
#[inline(never)]
fn check(counter: impl Fn() -> u64) -> u64 {
    if REJECTED.load(Ordering::Relaxed) != 0 {
        return os::now_ns();
    }
    // While the fields change, there is an anchor, or there soon will be.
    let is_running = PUBLISHED.read(|[.., valid_ticks]| valid_ticks != 0) != Some(false);
    let mut state = match STATE.try_lock() {
        Ok(state) => state,
        // No thread holds it for longer than a few readings of the OS clock. Returning that clock's time instead would differ
        // from the other threads' readings, by the difference that the next anchor is going to correct.
        Err(_) if is_running => STATE.lock().unwrap_or_else(PoisonError::into_inner),
        Err(_) => return os::now_ns(),
    };
    let ticks = counter();
    if let State::Running(anchor, _) = *state
        && anchor.is_good_at(ticks)
    {
        // Another thread has renewed the anchor in the meantime. To renew it again would measure a rate over too short a time.
        return anchor.read(ticks);
    }
    let sample = Sample::take();
    *state = state.next(sample);
    match *state {
        State::Running(anchor, _) => {
            let valid_ticks = anchor.ticks_in(SPAN_NS);
            PUBLISHED.store(&[anchor.ticks, anchor.ns, anchor.rate, valid_ticks]);
            anchor.read(sample.ticks)
        }
        State::Rejected => {
            PUBLISHED.store(&[0; 4]);
            REJECTED.store(1, Ordering::Relaxed);
            sample.os_ns
        }
        State::Unprobed | State::WarmingUp(_) => sample.os_ns,
    }
}

impl State {
    fn next(self, sample: Sample) -> Self {
        match self {
            Self::Unprobed if counter::is_invariant() && kernel_trusts_the_counter() => {
                Self::WarmingUp(sample)
            }
            Self::Unprobed | Self::Rejected => Self::Rejected,
            Self::WarmingUp(first) if sample.os_ns.saturating_sub(first.os_ns) < WARM_UP_NS => self,
            Self::WarmingUp(first) => match first.rate_until(sample) {
                Some(rate) => {
                    let anchor = Anchor {
                        ticks: sample.ticks,
                        ns: sample.os_ns,
                        rate,
                    };
                    Self::Running(anchor, sample)
                }
                None => Self::Rejected,
            },
            Self::Running(anchor, last) => match anchor.steered(last, sample) {
                Some(anchor) => Self::Running(anchor, sample),
                None => Self::Rejected,
            },
        }
    }
}

impl Sample {
    /// Takes the narrowest of a few samples, in case the thread is interrupted between the two readings.
    fn take() -> Self {
        const TIGHT_TICKS: u64 = 2_000;
        let mut best: Option<(u64, Self)> = None;
        for _ in 0..4 {
            let before = counter::read();
            let os_ns = os::now_ns();
            let width = counter::read().wrapping_sub(before);
            let sample = Self {
                os_ns,
                ticks: before.wrapping_add(width / 2),
            };
            if best.is_none_or(|(narrowest, _)| width < narrowest) {
                best = Some((width, sample));
            }
            if width < TIGHT_TICKS {
                break;
            }
        }
        best.map_or(
            Self {
                os_ns: os::now_ns(),
                ticks: counter::read(),
            },
            |(_, sample)| sample,
        )
    }

    /// Returns the nanoseconds per tick from here to `later`; `None` if the counter stood still, ran backward, or is slower
    /// than 1 GHz.
    fn rate_until(self, later: Self) -> Option<u64> {
        let ns = later.os_ns.checked_sub(self.os_ns)?;
        let ticks = later.ticks.checked_sub(self.ticks)?;
        let rate = (u128::from(ns) << 64).checked_div(u128::from(ticks))?;
        u64::try_from(rate).ok().filter(|&rate| rate > 0)
    }
}

impl Anchor {
    #[inline(always)]
    fn read(self, ticks: u64) -> u64 {
        let elapsed = ticks.wrapping_sub(self.ticks);
        let elapsed_ns = (u128::from(elapsed) * u128::from(self.rate)) >> 64;
        self.ns + elapsed_ns as u64
    }

    fn ticks_in(self, span_ns: u64) -> u64 {
        let ticks = (u128::from(span_ns) << 64) / u128::from(self.rate.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    fn is_good_at(self, ticks: u64) -> bool {
        ticks.wrapping_sub(self.ticks) < self.ticks_in(SPAN_NS)
    }

    /// Returns the anchor for the next second; `None` if the counter is not reliable.
    ///
    /// `last` is the sample at which this anchor was set.
    fn steered(self, last: Sample, now: Sample) -> Option<Self> {
        let measured = last.rate_until(now)?;
        let predicted_ns = self.read(now.ticks);
        let elapsed_ns = now.os_ns - last.os_ns;
        let spans = (elapsed_ns / SPAN_NS).max(1);
        if predicted_ns.abs_diff(now.os_ns) > spans.saturating_mul(DISAGREEMENT_NS) {
            return None;
        }
        if spans > 1 {
            // No thread has read the clock since the anchor expired, so no thread sees a step.
            return Some(Self {
                ticks: now.ticks,
                ns: now.os_ns,
                rate: measured,
            });
        }
        // Meet the OS clock one span from now instead of stepping to it.
        let owed_ns = SPAN_NS + now.os_ns - predicted_ns.min(SPAN_NS + now.os_ns);
        let steered = u128::from(measured) * u128::from(owed_ns) / u128::from(SPAN_NS);
        Some(Self {
            ticks: now.ticks,
            ns: predicted_ns,
            rate: u64::try_from(steered).ok()?,
        })
    }
}

/// The kernel has watched the counter on every core and keeps its own time by it.
fn kernel_trusts_the_counter() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(test)]
mod tests {
    use super::{Anchor, DISAGREEMENT_NS, SPAN_NS, Sample};

    /// A counter of 2.5 GHz that is `ppm` fast, at `os_ns`.
    fn sample(os_ns: u64, ppm: i64) -> Sample {
        let ticks = i128::from(os_ns) * 5 / 2 * i128::from(1_000_000 + ppm) / 1_000_000;
        Sample {
            os_ns,
            ticks: u64::try_from(ticks).expect("a positive time"),
        }
    }

    fn start(ppm: i64) -> (Anchor, Sample) {
        let (first, second) = (sample(1_000, ppm), sample(20_001_000, ppm));
        let rate = first.rate_until(second).expect("a counter that runs");
        (
            Anchor {
                ticks: second.ticks,
                ns: second.os_ns,
                rate,
            },
            second,
        )
    }

    #[test]
    fn c4_a_steady_counter_is_followed_without_a_step() {
        let (mut anchor, mut last) = start(100);
        for second in 1..1_000 {
            let now = sample(last.os_ns + SPAN_NS + 137 * second, 100);
            let before = anchor.read(now.ticks);
            anchor = anchor.steered(last, now).expect("a good counter");
            assert_eq!(anchor.read(now.ticks), before, "the reading stepped");
            assert!(anchor.read(now.ticks).abs_diff(now.os_ns) < 1_000);
            last = now;
        }
    }

    #[test]
    fn c4_a_counter_that_drifts_is_steered_back() {
        let (mut anchor, mut last) = start(0);
        let mut ticks = last.ticks;
        for second in 0..60_u64 {
            // The OS clock is being slewed by up to 300 parts per million.
            let slew = 2_500_000_000 + (second % 7) * 750_000 / 7;
            ticks += slew;
            let now = Sample {
                os_ns: last.os_ns + SPAN_NS,
                ticks,
            };
            anchor = anchor
                .steered(last, now)
                .expect("within a millisecond a second");
            assert!(anchor.read(ticks).abs_diff(now.os_ns) < 600_000);
            last = now;
        }
    }

    #[test]
    fn c4_a_counter_that_is_a_millisecond_off_is_given_up() {
        let (anchor, last) = start(0);
        for leap in [DISAGREEMENT_NS + 1_000, 3_600 * SPAN_NS] {
            let now = sample(last.os_ns + SPAN_NS, 0);
            let ahead = Sample {
                ticks: now.ticks + leap * 5 / 2,
                ..now
            };
            assert!(anchor.steered(last, ahead).is_none(), "a leap of {leap} ns");
        }
        let stopped = Sample {
            os_ns: last.os_ns + SPAN_NS,
            ticks: last.ticks,
        };
        assert!(
            anchor.steered(last, stopped).is_none(),
            "a counter that stands still"
        );
        let backward = Sample {
            os_ns: last.os_ns + SPAN_NS,
            ticks: last.ticks - 5_000,
        };
        assert!(
            anchor.steered(last, backward).is_none(),
            "a counter that runs backward"
        );
    }

    #[test]
    fn c4_an_idle_hour_is_no_reason_to_give_up() {
        let (anchor, last) = start(50);
        let now = sample(last.os_ns + 3_600 * SPAN_NS, 51);
        let anchor = anchor.steered(last, now).expect("one part per million off");
        assert_eq!(anchor.read(now.ticks), now.os_ns);
    }
}
