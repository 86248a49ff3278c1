//! What needs a look inside: that the two layouts of the word are one limiter.

use super::{Bucket, Carry, TokenBucket};
use crate::clock::{ManualClock, Timestamp};
use crate::quota::Quota;
use crate::store::word::{Layout, Parameters};
use core::time::Duration;
use proptest::prelude::*;

/// A full bucket that was made to use the 128-bit word.
fn widened(quota: Quota) -> TokenBucket {
    let bucket = TokenBucket::over(Bucket::new(quota), ManualClock::new().into());
    widen(&bucket);
    bucket
}

fn widen(bucket: &TokenBucket) {
    bucket.engine.word.reconfigure(|old, tat| {
        (
            Parameters {
                layout: Layout::Wide,
                narrow_span_ns: 0,
                ..*old
            },
            tat,
            (),
        )
    });
}

fn layout(bucket: &TokenBucket, now_ns: u64) -> Layout {
    bucket.engine.word.view(now_ns).parameters.layout
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
        let narrow = TokenBucket::over(Bucket::new(quota), ManualClock::new().into());
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
                widen(&wide);
            }
        }
        prop_assert_eq!(layout(&wide, now_ns), Layout::Wide);
    }
}

#[test]
fn c4_the_base_moves_with_the_state() {
    for count in [1000, 999, 999_999] {
        let quota = Quota::per_second(count).burst(3);
        let bucket = TokenBucket::over(Bucket::new(quota), ManualClock::new().into());
        let at = |ns| bucket.at(Timestamp::from_nanos(ns));
        assert_eq!(layout(&bucket, 0), Layout::Narrow { base_ns: 0 });
        let span_ns = bucket.engine.word.view(0).parameters.narrow_span_ns;
        let mut now_ns = span_ns - 1;
        assert_eq!(at(now_ns).take_up_to(10), 3);
        assert_eq!(layout(&bucket, now_ns), Layout::Narrow { base_ns: 0 });
        for _ in 0..5 {
            now_ns += 1;
            assert!(at(now_ns).try_acquire().is_err());
            now_ns += span_ns;
            assert_eq!(at(now_ns).take_up_to(10), 3);
            let Layout::Narrow { base_ns } = layout(&bucket, now_ns) else {
                panic!("the narrow layout was left for good");
            };
            assert!(base_ns > now_ns - span_ns);
            // A thread that read the clock long ago is decided by the same state.
            assert!(at(base_ns / 2).try_acquire().is_err());
        }
        assert_eq!(at(u64::MAX).take_up_to(10), 3);
        assert!(at(0).try_acquire().is_err());
    }
}

#[test]
fn c8_a_reservation_far_ahead_leaves_the_narrow_word() {
    let bucket = TokenBucket::over(
        Bucket::new(Quota::per_day(1).burst(100)),
        ManualClock::new().into(),
    );
    assert!(matches!(layout(&bucket, 0), Layout::Narrow { .. }));
    let at = bucket.at(Timestamp::ORIGIN);
    let day = 86_400_000_000_000_u64;
    for hundred in 0..10 {
        let told = at.reserve_n(100).expect("the clock has 584 years").at();
        assert_eq!(told.as_nanos(), hundred * 100 * day);
    }
    assert_eq!(layout(&bucket, 0), Layout::Wide); // And comes back to it when the queue has been served.
    let served = Timestamp::from_nanos(1_000 * day);
    assert_eq!(bucket.at(served).take_up_to(1_000), 100);
    assert!(matches!(
        layout(&bucket, served.as_nanos()),
        Layout::Narrow { .. }
    ));
}
