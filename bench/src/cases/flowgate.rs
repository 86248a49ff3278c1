//! flowgate's `TokenBucket`: as a user gets it, over the operating system's clock, and with a quota
//! whose exact fraction does not fit the narrow layout.

use std::time::Duration;

use ::flowgate::{Clock, Quota, TokenBucket};

use super::{Case, FLOWGATE, Limit, Traffic, WIDE};

pub fn cases(limit: Limit) -> Vec<Case> {
    let quota = Quota::new(u64::from(limit.count), limit.period)
        .and_then(|quota| quota.try_burst(u64::from(limit.burst)))
        .expect("the limits fit");
    let mut cases = vec![
        case(FLOWGATE, limit.traffic, TokenBucket::new(quota)),
        case(
            "flowgate, OS clock",
            limit.traffic,
            over(quota, Clock::os()),
        ),
    ];
    cases.extend(wide(limit.traffic).map(|bucket| case(WIDE, limit.traffic, bucket)));
    cases
}

fn case(subject: &'static str, traffic: Traffic, bucket: TokenBucket) -> Case {
    Case::new(subject, traffic, bucket, |bucket| {
        bucket.try_acquire().is_ok()
    })
}

fn over(quota: Quota, clock: Clock) -> TokenBucket {
    TokenBucket::builder(quota)
        .clock(clock)
        .build()
        .expect("the limits fit")
}

/// A bucket that needs the wide layout: 999,999,937 (a prime) per day with burst 1e9. It refills
/// too slowly to stay full while it is measured, so there is no such case for
/// [`Traffic::AdmitFull`].
fn wide(traffic: Traffic) -> Option<TokenBucket> {
    let day = Duration::from_secs(86_400);
    let quota = Quota::new(999_999_937, day)
        .and_then(|quota| quota.try_burst(1_000_000_000))
        .expect("the limit fits");
    let bucket = over(quota, Clock::system());
    match traffic {
        Traffic::AdmitDraining => Some(bucket),
        Traffic::Refuse => {
            // Empty, and a whole burst in debt besides: nothing is admitted for a day.
            bucket.take_up_to(1_000_000_000);
            bucket.overdraw(1_000_000_000).expect("the debt fits");
            Some(bucket)
        }
        _ => None,
    }
}
