//! What needs a look inside: that the two layouts of the word are one limiter.

use super::{Carry, TokenBucket};
use crate::clock::{ManualClock, Timestamp};
use crate::quota::Quota;
use crate::word::{Layout, Parameters};
use core::time::Duration;
use proptest::prelude::*;

/// A full bucket that was made to use the 128-bit word.
fn widened(quota: Quota) -> TokenBucket {
    let bucket = TokenBucket::with(quota, ManualClock::new().into());
    bucket.word.reconfigure(|old, tat| {
        (
            Parameters {
                layout: Layout::Wide,
                ..*old
            },
            tat,
            (),
        )
    });
    bucket
}

fn layout(bucket: &TokenBucket, now_ns: u64) -> Layout {
    bucket.word.view(now_ns).parameters.layout
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Try(u64),
    TakeUpTo(u64),
    Overdraw(u64),
    Refund(u64),
    Reserve {
        n: u64,
        cancelled: bool,
    },
    Look,
    SetQuota {
        count: u64,
        burst: u64,
        carry: Carry,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let carry = prop_oneof![
        Just(Carry::Kept),
        Just(Carry::Proportional),
        Just(Carry::Reset)
    ];
    prop_oneof![
        4 => (0_u64..20).prop_map(Operation::Try),
        1 => any::<u64>().prop_map(Operation::Try),
        2 => (0_u64..20).prop_map(Operation::TakeUpTo),
        2 => (0_u64..30).prop_map(Operation::Overdraw),
        2 => (0_u64..20).prop_map(Operation::Refund),
        2 => (0_u64..12, any::<bool>())
            .prop_map(|(n, cancelled)| Operation::Reserve { n, cancelled }),
        1 => Just(Operation::Look),
        1 => (1_u64..2_000, 1_u64..15, carry)
            .prop_map(|(count, burst, carry)| Operation::SetQuota { count, burst, carry }),
    ]
}

/// Everything that a caller can see of the operation.
fn run(bucket: &TokenBucket, now_ns: u64, operation: Operation) -> String {
    let at = bucket.at(Timestamp::from_nanos(now_ns));
    match operation {
        Operation::Try(n) => format!("{:?}", at.try_acquire_n(n)),
        Operation::TakeUpTo(n) => format!("{}", at.take_up_to(n)),
        Operation::Overdraw(n) => format!("{:?}", at.overdraw(n)),
        Operation::Refund(n) => format!("{}", at.refund(n)),
        Operation::Reserve { n, cancelled } => match at.reserve_n(n) {
            Ok(reservation) if cancelled => {
                let told = reservation.at();
                let back = reservation.cancel_at(Timestamp::from_nanos(now_ns));
                format!("{told:?}, {back} back")
            }
            told => format!("{told:?}"),
        },
        Operation::Look => format!("{:?}", at.snapshot()),
        Operation::SetQuota {
            count,
            burst,
            carry,
        } => {
            let quota = Quota::new(count, Duration::from_secs(1)).and_then(|q| q.try_burst(burst));
            at.set_quota_with(quota.expect("a quota within range"), carry);
            String::new()
        }
    }
}

proptest! {
    #[test]
    fn c1_c8_both_layouts_decide_alike(
        count in 1_u64..2_000,
        burst in 1_u64..12,
        script in prop::collection::vec((0_u64..20_000_000, operation()), 1..60),
    ) {
        let quota = Quota::new(count, Duration::from_secs(1)).and_then(|q| q.try_burst(burst));
        let quota = quota.expect("a quota within range");
        let narrow = TokenBucket::with(quota, ManualClock::new().into());
        let wide = widened(quota);
        let mut now_ns = 0;
        for (step_ns, operation) in script {
            now_ns += step_ns;
            prop_assert_eq!(
                run(&narrow, now_ns, operation),
                run(&wide, now_ns, operation),
                "{:?} at {} ns", operation, now_ns
            );
            if matches!(operation, Operation::SetQuota { .. }) {
                wide.word.reconfigure(|old, tat| {
                    (Parameters { layout: Layout::Wide, ..*old }, tat, ())
                });
            }
        }
        prop_assert_eq!(layout(&wide, now_ns), Layout::Wide);
    }
}

#[test]
fn c4_a_narrow_bucket_outlives_its_word() {
    let bucket = TokenBucket::with(Quota::per_second(1000).burst(3), ManualClock::new().into());
    let Layout::Narrow { until_ns } = layout(&bucket, 0) else {
        panic!("1000/s fits in 64 bits");
    };
    let at = |ns| bucket.at(Timestamp::from_nanos(ns));
    assert_eq!(at(until_ns - 1).take_up_to(10), 3);
    assert_eq!(at(until_ns).try_acquire().map_err(|d| d.retry_after()), {
        Err(Some(Duration::from_nanos(999_999)))
    });
    assert_eq!(layout(&bucket, until_ns), Layout::Wide);
    // And a thread that read the clock before is still decided by the same state.
    assert!(at(until_ns - 1).try_acquire().is_err());
    assert!(at(until_ns + 999_999).try_acquire().is_ok());
    assert_eq!(at(u64::MAX).take_up_to(10), 3);
}

#[test]
fn c8_a_reservation_far_ahead_leaves_the_narrow_word() {
    let bucket = TokenBucket::with(Quota::per_day(1).burst(100), ManualClock::new().into());
    assert!(matches!(layout(&bucket, 0), Layout::Narrow { .. }));
    let at = bucket.at(Timestamp::ORIGIN);
    let day = 86_400_000_000_000_u64;
    for hundred in 0..10 {
        let told = at.reserve_n(100).expect("the clock has 584 years").at();
        assert_eq!(told.as_nanos(), hundred * 100 * day);
    }
    assert_eq!(layout(&bucket, 0), Layout::Wide);
}
