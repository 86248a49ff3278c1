//! better-bucket 1.1.0: the instant of emptiness in one `AtomicU64` of token fractions.

use better_bucket::Bucket;

use super::{Case, Limit};

pub fn case(limit: Limit) -> Case {
    let bucket = Bucket::builder()
        .capacity(limit.burst)
        .refill(limit.count, limit.period)
        .initial(limit.burst)
        .build()
        .expect("the limits fit");
    Case::new("better-bucket 1.1.0", limit.traffic, bucket, |bucket| {
        bucket.try_acquire(1)
    })
}
