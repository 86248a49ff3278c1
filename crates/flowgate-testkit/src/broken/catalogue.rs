//! The catalogue of known-broken limiters.

use core::time::Duration;

use flowgate::{Quota, Refill};

use super::*;
use crate::conformance::Contract;
use crate::interleave::{explore, explore_for};
use crate::promise::{Anchor, Kind, Promise};

/// Returns the bound: at most `limit` in each window of `window_ns` from a first grant. With a limit of 1 that is every
/// window.
///
/// # Panics
///
/// Panics if there is no such quota.
fn in_window(limit: u64, window_ns: u64) -> Promise {
    let quota = Quota::new(limit, Duration::from_nanos(window_ns)).expect("a small quota");
    Promise::new(Kind::Window(Anchor::FirstGrant), quota)
}

/// Returns every known-broken limiter: windows, buckets and queues, wrong reports, and limits in databases.
///
/// ```
/// use flowgate_testkit::broken::broken_limiters;
///
/// for limiter in broken_limiters() {
/// println!("{}: {} (use {})", limiter.name, limiter.defect, limiter.instead);
/// }
/// assert!(broken_limiters().len() > 30);
/// ```
pub fn broken_limiters() -> Vec<BrokenLimiter> {
    [windows(), buckets_and_queues(), reports(), in_databases()].concat()
}

fn windows() -> Vec<BrokenLimiter> {
    vec![
        BrokenLimiter {
            name: "two_atomics_1",
            origin: "a counter window that holds the rate of a load client, stage 1: two atomics, plain stores",
            defect: "two threads reset the window, and one of their admissions is not counted",
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
        BrokenLimiter {
            name: "two_atomics_2",
            origin: "a counter window that holds the rate of a load client, stage 2: a compare-and-swap on the time",
            defect: "the first call wraps the count to 0, and others are admitted before the reset",
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
        BrokenLimiter {
            name: "two_atomics_3",
            origin: "a counter window that holds the rate of a load client, stage 3: a special case for the first window",
            defect: "the winner stalls before it stores 1, and overwrites what is counted meanwhile",
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
        BrokenLimiter {
            name: "two_atomics_4",
            origin: "a counter window that holds the rate of a load client, stage 4: weaker orderings",
            defect: "two words are not atomic together: while the winner stalls, an empty window refuses every call",
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
        BrokenLimiter {
            name: "wrapping_refusals",
            origin: "a counter window that holds the rate of a load client",
            defect: "refused calls are counted too, until the counter wraps to 0 and admits",
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
        BrokenLimiter {
            name: "stale_anchor",
            origin: "a counter window that holds the rate of a load client, whose documented bound is wrong",
            defect: "the clock is read only when the count is used up, so two limits are admitted in one burst after a rest",
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
        BrokenLimiter {
            name: "next_window",
            origin: "a window for trace sampling: start of the next one, and a count",
            defect: "admissions between the swap of the start and the replacement of the count are lost",
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
        BrokenLimiter {
            name: "late_trimmer",
            origin: "a sliding window for trace sampling: a channel of times, and a task that trims it",
            defect: "calls are refused needlessly until a background task runs",
            checker: Checker::Conformance(Kind::Sliding, Contract::C2, |setup, test| {
                test(&mut late_trimmer::LateTrimmer::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "SlidingWindow",
        },
        BrokenLimiter {
            name: "old_timestamp",
            origin: "the same sliding window",
            defect: "a call records a time that it read long ago, and the window immediately forgets it",
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
        BrokenLimiter {
            name: "single_writer",
            origin: "the same sliding window",
            defect: "a single-writer channel loses entries when a hundred threads write",
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
        BrokenLimiter {
            name: "share_of_limit",
            origin: "a keyed window with a sketch of the keys that it evicted",
            defect: "the usage of an evicted key is stored as a share of the limit, and shrinks when the limit is lowered and raised",
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

fn buckets_and_queues() -> Vec<BrokenLimiter> {
    vec![
        BrokenLimiter {
            name: "double_balance",
            origin: "a bucket of credits under a lock, for trace reports",
            defect: "the balance is a double, and each addition rounds",
            checker: Checker::Conformance(Kind::Bucket, Contract::C8, |setup, test| {
                test(&mut double_balance::DoubleBalance::new(setup.quota));
            }),
            finding: "came through and",
            instead: "TokenBucket, with units_per_token for fractional costs",
        },
        BrokenLimiter {
            name: "whole_seconds",
            origin: "a bucket on a clock of whole seconds",
            defect: "tokens flow in once per second, as soon as the second changes",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut whole_seconds::WholeSeconds::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "double_time",
            origin: "a bucket stored as one time, a double of seconds since 1970",
            defect: "at high rates, adding the time of a token changes nothing",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut double_time::DoubleTime::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "microsecond_bucket",
            origin: "a bucket of microseconds, for an RPC framework",
            defect: "it starts empty, drops fractions of a token, and reduces rates above a million per second",
            checker: Checker::Conformance(Kind::Bucket, Contract::C2, |setup, test| {
                test(&mut microsecond_bucket::MicrosecondBucket::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "unbounded_slack",
            origin: "a queue of times, for a crawler that must not burst",
            defect: "unused times accumulate without bound",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut unbounded_slack::UnboundedSlack::new(setup.quota));
            }),
            finding: " allowed",
            instead: "LeakyBucket",
        },
        BrokenLimiter {
            name: "wrong_unit",
            origin: "the same queue, with a maximum wait",
            defect: "a timeout in milliseconds is compared with a wait in microseconds",
            checker: Checker::Conformance(Kind::Bucket, Contract::C3, |setup, test| {
                test(&mut wrong_unit::WrongUnit::new(setup.quota));
            }),
            finding: "it refuses to wait for up to",
            instead: "TokenBucket::reserve_n_within",
        },
        BrokenLimiter {
            name: "read_twice",
            origin: "the same queue, without a lock",
            defect: "the next free time is read twice in one attempt, and the wait belongs to the first reading",
            checker: Checker::Schedules(Contract::C1, || {
                explore(&read_twice::ReadTwice::new(10, 2), &in_window(1, 10), 8)
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "LeakyBucket::reserve",
        },
        BrokenLimiter {
            name: "wrapping_elapsed",
            origin: "an allowance counter, in front of a service",
            defect: "the elapsed time is unsigned, and a backward clock fills the allowance",
            checker: Checker::Conformance(Kind::Bucket, Contract::C4, |setup, test| {
                test(&mut wrapping_elapsed::WrappingElapsed::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "double_clamp",
            origin: "the same allowance counter",
            defect: "two callers clamp the same excess, and it is subtracted twice",
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
        BrokenLimiter {
            name: "subtract_below_zero",
            origin: "the same allowance counter",
            defect: "two callers find enough, both subtract, and the result wraps to a full bucket",
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
        BrokenLimiter {
            name: "interval_bucket",
            origin: "a bucket that is filled by whole intervals",
            defect: "the rest of an interval is forgotten; a new rate is applied to past time",
            checker: Checker::Oracle(Refill::Interval, |setup, test| {
                test(&mut interval_bucket::IntervalBucket::new(setup.quota));
            }),
            finding: "the oracle says: admitted",
            instead: "TokenBucket with Refill::Interval",
        },
        BrokenLimiter {
            name: "retroactive_rate",
            origin: "several buckets with a setter for the rate",
            defect: "a new rate is applied to past time",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut retroactive_rate::RetroactiveRate::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket::set_quota",
        },
        BrokenLimiter {
            name: "stale_refill",
            origin: "a bucket stored as one time, with a setter for the quota",
            defect: "a time before a change of quota sees the bucket as it was at the change",
            checker: Checker::Conformance(Kind::Bucket, Contract::C4, |setup, test| {
                test(&mut stale_refill::StaleRefill::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket::set_quota",
        },
        BrokenLimiter {
            name: "dropped_remainder",
            origin: "several buckets of whole tokens",
            defect: "fractions of a token are dropped at each refill",
            checker: Checker::Conformance(Kind::Bucket, Contract::C2, |setup, test| {
                test(&mut dropped_remainder::DroppedRemainder::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "starts_empty",
            origin: "several buckets that are documented to start full",
            defect: "the first caller is refused",
            checker: Checker::Conformance(Kind::Bucket, Contract::C2, |setup, test| {
                test(&mut starts_empty::StartsEmpty::new(setup.quota));
            }),
            finding: "were refused and would fit",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "minting_clock",
            origin: "a bucket whose clock is read before the lock is taken",
            defect: "a backward clock moves the refill time back, and the time is credited twice",
            checker: Checker::Conformance(Kind::Bucket, Contract::C4, |setup, test| {
                test(&mut minting_clock::MintingClock::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "whole_nanoseconds",
            origin: "several implementations of GCRA",
            defect: "the interval between tokens is truncated to whole nanoseconds",
            checker: Checker::Conformance(Kind::Bucket, Contract::C8, |setup, test| {
                test(&mut whole_nanoseconds::WholeNanoseconds::new(setup.quota));
            }),
            finding: "after the burst",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "wrapping_tolerance",
            origin: "an implementation of GCRA",
            defect: "interval × burst wraps in 64 bits",
            checker: Checker::Conformance(Kind::Bucket, Contract::C8, |setup, test| {
                test(&mut wrapping_tolerance::WrappingTolerance::new(setup.quota));
            }),
            finding: "the burst is not there",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "wrong_clamp",
            origin: "an implementation of GCRA",
            defect: "an idle bucket accumulates twice its burst",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut wrong_clamp::WrongClamp::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "double_credit",
            origin: "a bucket that reads the clock only when tokens run out",
            defect: "idle time is credited after the tokens were spent",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut double_credit::DoubleCredit::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
        BrokenLimiter {
            name: "oversize_resets",
            origin: "a bucket whose state is taken out to change it",
            defect: "a request that can never fit loses the state, and the bucket is full again",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut oversize_resets::OversizeResets::new(setup.quota));
            }),
            finding: " allowed",
            instead: "TokenBucket",
        },
    ]
}

fn reports() -> Vec<BrokenLimiter> {
    vec![
        BrokenLimiter {
            name: "late_retry",
            origin: "several implementations of GCRA",
            defect: "refusals report when the bucket is full, not when there are enough tokens",
            checker: Checker::Conformance(Kind::Bucket, Contract::C3, |setup, test| {
                test(&mut late_retry::LateRetry::new(setup.quota));
            }),
            finding: "a nanosecond earlier it is admitted",
            instead: "Denied::retry_after",
        },
        BrokenLimiter {
            name: "finite_never",
            origin: "an implementation of GCRA",
            defect: "a request that can never fit gets a retry time",
            checker: Checker::Conformance(Kind::Bucket, Contract::C3, |setup, test| {
                test(&mut finite_never::FiniteNever::new(setup.quota));
            }),
            finding: "in time it is refused",
            instead: "Denied::is_never",
        },
        BrokenLimiter {
            name: "timeout_keeps_slot",
            origin: "a limiter for asynchronous tasks",
            defect: "a call that gives up keeps its position, and later calls wait longer",
            checker: Checker::Oracle(Refill::Continuous, |setup, test| {
                test(&mut timeout_keeps_slot::TimeoutKeepsSlot::new(setup.quota));
            }),
            finding: "the oracle says",
            instead: "TokenBucket::reserve_n_within",
        },
        BrokenLimiter {
            name: "rising_remaining",
            origin: "a keyed limiter for web services",
            defect: "the used tokens are reported as the remaining ones",
            checker: Checker::Oracle(Refill::Continuous, |setup, test| {
                test(&mut rising_remaining::RisingRemaining::new(setup.quota));
            }),
            finding: "the oracle says: holds",
            instead: "TokenBucket::available, snapshot",
        },
        BrokenLimiter {
            name: "blind_cancel",
            origin: "several limiters with reservations",
            defect: "a cancelled reservation returns everything, although later ones exist",
            checker: Checker::Conformance(Kind::Bucket, Contract::C5, |setup, test| {
                test(&mut blind_cancel::BlindCancel::new(setup.quota));
            }),
            finding: " allowed",
            instead: "Reservation::cancel",
        },
    ]
}

fn in_databases() -> Vec<BrokenLimiter> {
    vec![
        BrokenLimiter {
            name: "check_then_increment",
            origin: "counters of several servers in one database",
            defect: "processes read a count, and then increment it",
            checker: Checker::Schedules(Contract::C1, || {
                explore(
                    &check_then_increment::CheckThenIncrement::new(1, 2),
                    &in_window(1, 10),
                    4,
                )
            }),
            finding: "2 were admitted, 1 allowed",
            instead: "flowgate_fleet::FleetLimit",
        },
        BrokenLimiter {
            name: "short_ttl",
            origin: "buckets in a database, with an expiry",
            defect: "a record expires before its debt is paid",
            checker: Checker::Conformance(Kind::Bucket, Contract::C1, |setup, test| {
                test(&mut short_ttl::ShortTtl::new(setup.quota));
            }),
            finding: " allowed",
            instead: "flowgate_fleet::FleetLimit",
        },
        BrokenLimiter {
            name: "truncated_expiry",
            origin: "windows in a database, with an expiry",
            defect: "a window is truncated to whole milliseconds",
            checker: Checker::Conformance(
                Kind::Window(Anchor::FirstGrant),
                Contract::C1,
                |setup, test| {
                    test(&mut truncated_expiry::TruncatedExpiry::new(setup.quota));
                },
            ),
            finding: " allowed",
            instead: "FixedWindow",
        },
        BrokenLimiter {
            name: "repeated_refund",
            origin: "clients of a bucket in a database",
            defect: "a refund is sent again, because its reply was lost",
            checker: Checker::Conformance(Kind::Bucket, Contract::C5, |setup, test| {
                test(&mut repeated_refund::RepeatedRefund::new(setup.quota));
            }),
            finding: " allowed",
            instead: "Leased::refund",
        },
    ]
}
