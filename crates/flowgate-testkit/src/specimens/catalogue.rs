//! The museum's catalogue: every exhibit, in the order of a visit.

use core::time::Duration;

use flowgate::{Quota, Refill};

use super::*;
use crate::conformance::Contract;
use crate::interleave::{explore, explore_for};
use crate::promise::{Anchor, Kind, Promise};

/// At most `limit` in each window of so many nanoseconds from a first grant on; with a limit of 1 that
/// is every window.
///
/// # Panics
///
/// If there is no such quota.
fn in_window(limit: u64, window_ns: u64) -> Promise {
    let quota = Quota::new(limit, Duration::from_nanos(window_ns)).expect("a small quota");
    Promise::new(Kind::Window(Anchor::FirstGrant), quota)
}

/// Every exhibit, in the order of a visit: windows, buckets and queues, and what is told.
///
/// ```
/// use flowgate_testkit::specimens::exhibits;
///
/// for exhibit in exhibits() {
///     println!("{}: {} (take {})", exhibit.name, exhibit.fault, exhibit.instead);
/// }
/// assert!(exhibits().len() > 30);
/// ```
pub fn exhibits() -> Vec<Exhibit> {
    let rooms = [windows(), buckets_and_queues(), what_is_told()];
    rooms.concat()
}

fn windows() -> Vec<Exhibit> {
    vec![
        Exhibit {
            name: "two_atomics_1",
            origin: "a counter window that holds the rate of a load client, stage 1: two atomics, plain stores",
            fault: "two threads reset the window, and one of their admissions is not counted",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &two_atomics::TwoAtomics::new(two_atomics::Stage::Stores, 1, 10, 2),
                    &in_window(1, 10),
                    9,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "FixedWindow",
        },
        Exhibit {
            name: "two_atomics_2",
            origin: "a counter window that holds the rate of a load client, stage 2: a compare-and-swap on the time",
            fault: "the first call wraps the count to 0, and others are admitted before it is reset",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &two_atomics::TwoAtomics::new(two_atomics::Stage::Swap, 1, 10, 2),
                    &in_window(1, 10),
                    8,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "FixedWindow",
        },
        Exhibit {
            name: "two_atomics_3",
            origin: "a counter window that holds the rate of a load client, stage 3: the first window apart",
            fault: "the winner stalls before it stores 1; what is counted meanwhile is wiped",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &two_atomics::TwoAtomics::new(two_atomics::Stage::First, 2, 10, 2),
                    &in_window(2, 10),
                    12,
                )
            }),
            finding: "3 were admitted, 2 allowed",
            instead: "FixedWindow",
        },
        Exhibit {
            name: "two_atomics_4",
            origin: "a counter window that holds the rate of a load client, stage 4: weaker orderings",
            fault: "no ordering makes two words one: while the winner stalls, an empty window refuses everybody",
            checker: Checker::Schedules(Contract::C2, || {
                explore_for(
                    &two_atomics::TwoAtomics::new(two_atomics::Stage::Relaxed, 1, 10, 2),
                    8,
                    two_atomics::TwoAtomics::wasted,
                )
            }),
            finding: "nothing was admitted in the window",
            instead: "FixedWindow",
        },
        Exhibit {
            name: "wrapping_refusals",
            origin: "a counter window that holds the rate of a load client",
            fault: "refused calls are counted too, until the counter wraps to 0 and admits",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &wrapping_refusals::WrappingRefusals::new(1, 2),
                    &in_window(1, 10),
                    8,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "FixedWindow",
        },
        Exhibit {
            name: "stale_anchor",
            origin: "a counter window that holds the rate of a load client, read as a promise",
            fault: "the clock is read only when the count is used up, so two limits go at once after a rest",
            checker: Checker::Conformance(
                Kind::Window(Anchor::FirstGrant),
                Contract::C1,
                |setup, test| {
                    test(&mut stale_anchor::StaleAnchor::new(setup.quota));
                },
            ),
            finding: " allowed",
            instead: "FixedWindow, which states the bound of its clock-free form",
        },
        Exhibit {
            name: "next_window",
            origin: "a window for trace sampling: start of the next one, and a count",
            fault: "what is admitted between the swap of the start and the exchange of the count is wiped",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &next_window::NextWindow::new(1, 10, 2),
                    &in_window(1, 10),
                    8,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "FixedWindow",
        },
        Exhibit {
            name: "late_trimmer",
            origin: "a sliding window for trace sampling: a channel of times, and a task that trims it",
            fault: "until the task gets round to it, calls are refused that would fit",
            checker: Checker::Conformance(Kind::Sliding, Contract::C2, |setup, test| {
                test(&mut late_trimmer::LateTrimmer::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "SlidingWindow",
        },
        Exhibit {
            name: "old_timestamp",
            origin: "the same sliding window",
            fault: "a call enters a time that it read long ago, and the window forgets it at once",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &old_timestamp::OldTimestamp::new(1, 10, 2),
                    &in_window(1, 10),
                    8,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "SlidingWindow",
        },
        Exhibit {
            name: "single_writer",
            origin: "the same sliding window",
            fault: "a channel declared to have a single writer loses entries when it has a hundred",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &single_writer::SingleWriter::new(1, 2),
                    &in_window(1, 10),
                    8,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "SlidingWindow",
        },
        Exhibit {
            name: "share_of_limit",
            origin: "a keyed window with a sketch of the keys that it evicted",
            fault: "what a key has used is kept as a share of the limit, and forgotten when that goes down and up",
            checker: Checker::Conformance(
                Kind::Segmented { segments: 1 },
                Contract::C1,
                |setup, test| {
                    test(&mut share_of_limit::ShareOfLimit::new(setup.quota));
                },
            ),
            finding: " allowed",
            instead: "Keyed",
        },
    ]
}

fn buckets_and_queues() -> Vec<Exhibit> {
    vec![
        Exhibit {
            name: "double_balance",
            origin: "a bucket of credits under a lock, for trace reports",
            fault: "the balance is a double, and each addition rounds",
            checker: Checker::Conformance(Kind::Bucket, Contract::C8, |setup, test| {
                test(&mut double_balance::DoubleBalance::new(setup.quota));
            }),
            finding: "came through and",
            instead: "TokenBucket, with units_per_token for fractional costs",
        },
        Exhibit {
            name: "whole_seconds",
            origin: "a bucket on a clock of whole seconds",
            fault: "what flows in comes in gulps, at once when the second changes",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut whole_seconds::WholeSeconds::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "double_time",
            origin: "a bucket kept as one time, a double of seconds since 1970",
            fault: "at high rates adding the time of a token changes nothing",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut double_time::DoubleTime::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "microsecond_bucket",
            origin: "a bucket of microseconds, for an RPC framework",
            fault: "it starts empty, drops fractions of a token, and cuts rates above a million per second",
            checker: Checker::Conformance(Kind::Bucket, Contract::C2, |setup, test| {
                test(&mut microsecond_bucket::MicrosecondBucket::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "unbounded_slack",
            origin: "a queue of slots, for a crawler that must not burst",
            fault: "slots that nobody used are saved up without bound",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut unbounded_slack::UnboundedSlack::new(setup.quota));
            }),
            finding: " allowed",
            instead: "LeakyBucket",
        },
        Exhibit {
            name: "wrong_unit",
            origin: "the same queue, with a longest wait",
            fault: "a timeout in milliseconds is compared with a wait in microseconds",
            checker: Checker::Conformance(Kind::Bucket, Contract::C3, |setup, test| {
                test(&mut wrong_unit::WrongUnit::new(setup.quota));
            }),
            finding: "it refuses to wait for up to",
            instead: "TokenBucket::reserve_n_within",
        },
        Exhibit {
            name: "read_twice",
            origin: "the same queue, without a lock",
            fault: "the next slot is read twice in one round, and the wait belongs to the first reading",
            checker: Checker::Schedules(Contract::C1, || {
                explore(&read_twice::ReadTwice::new(10, 2), &in_window(1, 10), 8)
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "LeakyBucket::reserve",
        },
        Exhibit {
            name: "wrapping_elapsed",
            origin: "an allowance counter, in front of a service",
            fault: "now minus last is unsigned, and a clock that goes back fills the allowance",
            checker: Checker::Conformance(Kind::Bucket, Contract::C4, |setup, test| {
                test(&mut wrapping_elapsed::WrappingElapsed::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "double_clamp",
            origin: "the same allowance counter",
            fault: "two callers clamp the same excess, and it is taken off twice",
            checker: Checker::Schedules(Contract::C2, || {
                explore_for(
                    &double_clamp::DoubleClamp::new(2, 1, 2),
                    8,
                    double_clamp::DoubleClamp::lost,
                )
            }),
            finding: "are lost",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "subtract_below_zero",
            origin: "the same allowance counter",
            fault: "two callers see enough, both subtract, and the rest wraps to a full bucket",
            checker: Checker::Schedules(Contract::C1, || {
                let quota = Quota::per_second(1);
                explore(
                    &subtract_below_zero::SubtractBelowZero::new(quota, 2),
                    &Promise::bucket(quota),
                    8,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "interval_bucket",
            origin: "a bucket that is filled by whole intervals",
            fault: "what remains of an interval is forgotten; a new rate is applied to time that has passed",
            checker: Checker::Oracle(Refill::Interval, |setup, test| {
                test(&mut interval_bucket::IntervalBucket::new(setup.quota));
            }),
            finding: "the oracle says: admitted",
            instead: "TokenBucket with Refill::Interval",
        },
        Exhibit {
            name: "retroactive_rate",
            origin: "several buckets with a setter for the rate",
            fault: "a new rate is applied to time that has passed",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut retroactive_rate::RetroactiveRate::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket::set_quota",
        },
        Exhibit {
            name: "stale_refill",
            origin: "a bucket kept as one time, with a setter for the quota",
            fault: "a time before a change of quota sees the bucket as the change found it",
            checker: Checker::Conformance(Kind::Bucket, Contract::C4, |setup, test| {
                test(&mut stale_refill::StaleRefill::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket::set_quota",
        },
        Exhibit {
            name: "dropped_remainder",
            origin: "several buckets of whole tokens",
            fault: "what is less than a token is thrown away at each refill",
            checker: Checker::Conformance(Kind::Bucket, Contract::C2, |setup, test| {
                test(&mut dropped_remainder::DroppedRemainder::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "starts_empty",
            origin: "several buckets that are said to start full",
            fault: "the first caller is refused",
            checker: Checker::Conformance(Kind::Bucket, Contract::C2, |setup, test| {
                test(&mut starts_empty::StartsEmpty::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "minting_clock",
            origin: "a bucket whose clock is read before the lock is taken",
            fault: "a backward clock moves the refill time back, and the time is paid twice",
            checker: Checker::Conformance(Kind::Bucket, Contract::C4, |setup, test| {
                test(&mut minting_clock::MintingClock::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "whole_nanoseconds",
            origin: "several implementations of the cell rate algorithm",
            fault: "the interval between tokens is cut to whole nanoseconds",
            checker: Checker::Conformance(Kind::Bucket, Contract::C8, |setup, test| {
                test(&mut whole_nanoseconds::WholeNanoseconds::new(setup.quota));
            }),
            finding: "after the burst",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "wrapping_tolerance",
            origin: "an implementation of the cell rate algorithm",
            fault: "interval times burst wraps in 64 bits",
            checker: Checker::Conformance(Kind::Bucket, Contract::C8, |setup, test| {
                test(&mut wrapping_tolerance::WrappingTolerance::new(setup.quota));
            }),
            finding: "the burst is not there",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "wrong_clamp",
            origin: "an implementation of the cell rate algorithm",
            fault: "an idle bucket saves up twice its burst",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut wrong_clamp::WrongClamp::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "double_credit",
            origin: "a bucket that reads the clock only in need",
            fault: "idle time is counted after the stock was spent",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut double_credit::DoubleCredit::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        Exhibit {
            name: "oversize_resets",
            origin: "a bucket whose state is taken out to change it",
            fault: "a request that can never fit loses the state, and the bucket is full again",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut oversize_resets::OversizeResets::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
    ]
}

fn what_is_told() -> Vec<Exhibit> {
    vec![
        Exhibit {
            name: "late_retry",
            origin: "several implementations of the cell rate algorithm",
            fault: "the time when the bucket is full is told, not when there is enough",
            checker: Checker::Conformance(Kind::Bucket, Contract::C3, |setup, test| {
                test(&mut late_retry::LateRetry::new(setup.quota));
            }),
            finding: "a nanosecond earlier it is admitted",
            instead: "Denied::retry_after",
        },
        Exhibit {
            name: "finite_never",
            origin: "an implementation of the cell rate algorithm",
            fault: "a request that can never fit is told a time to come back",
            checker: Checker::Conformance(Kind::Bucket, Contract::C3, |setup, test| {
                test(&mut finite_never::FiniteNever::new(setup.quota));
            }),
            finding: "in time it is refused",
            instead: "Denied::is_never",
        },
        Exhibit {
            name: "timeout_keeps_slot",
            origin: "a limiter for asynchronous tasks",
            fault: "who gives up waiting keeps the place, and the others wait behind nobody",
            checker: Checker::Oracle(Refill::Continuous, |setup, test| {
                test(&mut timeout_keeps_slot::TimeoutKeepsSlot::new(setup.quota));
            }),
            finding: "the oracle says",
            instead: "TokenBucket::reserve_n_within",
        },
        Exhibit {
            name: "rising_remaining",
            origin: "a keyed limiter for web services",
            fault: "what was used is told as what remains",
            checker: Checker::Oracle(Refill::Continuous, |setup, test| {
                test(&mut rising_remaining::RisingRemaining::new(setup.quota));
            }),
            finding: "the oracle says: holds",
            instead: "TokenBucket::available, snapshot",
        },
        Exhibit {
            name: "blind_cancel",
            origin: "several limiters with reservations",
            fault: "a cancelled reservation gives all back, though later grants stand",
            checker: Checker::Conformance(Kind::Bucket, Contract::C5, |setup, test| {
                test(&mut blind_cancel::BlindCancel::new(setup.quota));
            }),
            finding: " allowed",
            instead: "Reservation::cancel",
        },
    ]
}
