//! flowgate's buckets, as a user gets them: `acquire().await`.

use flowgate::{LeakyBucket, Quota, TokenBucket};

use super::releases::Ask;
use super::subject::{Pacer, Subject, run};

pub fn all() -> Vec<Subject> {
    let one = |_: Ask| 1;
    vec![
        Subject {
            name: "flowgate LeakyBucket",
            burst: one,
            turn: |ask| Box::pin(run(ask, LeakyBucket::new(quota(ask)))),
        },
        Subject {
            name: "flowgate TokenBucket",
            burst: one,
            turn: |ask| Box::pin(run(ask, TokenBucket::new(quota(ask).burst(1)))),
        },
    ]
}

fn quota(ask: Ask) -> Quota {
    Quota::per_second(u64::from(ask.rate))
}

impl Pacer for LeakyBucket {
    async fn next(&mut self) -> Option<u64> {
        let grant = self.acquire().await.expect("one can be had");
        Some(grant.at().as_nanos())
    }
}

impl Pacer for TokenBucket {
    async fn next(&mut self) -> Option<u64> {
        let grant = self.acquire().await.expect("one can be had");
        Some(grant.at().as_nanos())
    }
}
