//! The subjects: one file each, with one case per kind of traffic.
//!
//! Every limiter has its own cache lines, and every operation is "acquire one token, yes or no". The limiter's address
//! passes through `black_box` each time. So no subject can keep its parameters in registers between two decisions,
//! which a real caller could not do either.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use serde::Serialize;

mod better_bucket;
mod clock;
mod flowgate;
mod governor;
#[cfg(target_arch = "x86_64")]
mod ideal;
mod leaky_bucket;
mod mutex;
mod ratelimit;

/// The subject that the others are divided by.
pub const GOVERNOR: &str = "governor 0.10.4";

/// The subject that the goals are about: `flowgate::TokenBucket` as a user gets it.
pub const FLOWGATE: &str = "flowgate";

/// The same with a quota that takes 128 bits.
pub const WIDE: &str = "flowgate, wide";

/// What a limiter is asked while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// No limiter: only the clock is read.
    Clock,
    /// The bucket is full at every call, so a decision starts from `now`.
    AdmitFull,
    /// The bucket drains, so a decision starts from the state the last one left.
    AdmitDraining,
    /// The bucket is empty and stays so.
    Refuse,
    /// A limiter of any type, with room at every call.
    Admit,
    /// A limiter of any type, full, and so for long.
    RefuseFull,
    /// A semaphore with permits to spare: one is taken and given back.
    Permit,
    /// A semaphore with none left.
    NoPermit,
}

impl Traffic {
    /// Those of a token bucket.
    const OF_ONE_LIMIT: [Traffic; 3] =
        [Traffic::AdmitFull, Traffic::AdmitDraining, Traffic::Refuse];

    /// The heading of this traffic's table.
    pub fn title(self) -> &'static str {
        match self {
            Traffic::Clock => "clock only",
            Traffic::AdmitFull => "admit, bucket always full (1e9/s, burst 1e9)",
            Traffic::AdmitDraining => "admit, bucket draining (1000/s, burst 1e9)",
            Traffic::Refuse => "refuse, bucket empty (1/h, burst 1)",
            Traffic::Admit => "admit, every type with room",
            Traffic::RefuseFull => "refuse, every type full",
            Traffic::Permit => "take a permit and give it back, 10 permits",
            Traffic::NoPermit => "refuse, no permit left",
        }
    }

    /// Returns the share of calls that must be admitted for a valid row.
    pub fn admitted_share(self) -> Option<f64> {
        match self {
            Traffic::Clock => None,
            Traffic::AdmitFull | Traffic::AdmitDraining | Traffic::Admit | Traffic::Permit => {
                Some(1.0)
            }
            Traffic::Refuse | Traffic::RefuseFull | Traffic::NoPermit => Some(0.0),
        }
    }

    /// The limit that gives this traffic to a token bucket; none for those that are not one limit's.
    fn limit(self) -> Option<Limit> {
        let second = Duration::from_secs(1);
        let (count, period, burst) = match self {
            Traffic::Clock
            | Traffic::Admit
            | Traffic::RefuseFull
            | Traffic::Permit
            | Traffic::NoPermit => return None,
            Traffic::AdmitFull => (1_000_000_000, second, 1_000_000_000),
            Traffic::AdmitDraining => (1_000, second, 1_000_000_000),
            Traffic::Refuse => (1, 3_600 * second, 1),
        };
        Some(Limit {
            traffic: self,
            count,
            period,
            burst,
        })
    }
}

/// Limit of `count` tokens per `period` with a burst of `burst`. The types of every crate can represent these numbers.
#[derive(Clone, Copy, Debug)]
struct Limit {
    traffic: Traffic,
    count: u32,
    period: Duration,
    burst: u32,
}

/// Runs a number of operations and returns how many were admitted.
pub type Batch = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// Brings what is measured into the state that the traffic's title speaks of.
pub type Prepare = Box<dyn Fn() + Send + Sync>;

/// What one limiter occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// `size_of` the type.
    pub inline: usize,
    /// What it took from the allocator and keeps.
    pub allocated: i64,
}

/// One subject under one traffic.
pub struct Case {
    pub subject: &'static str,
    pub traffic: Traffic,
    pub batch: Batch,
    /// Runs before every lap, outside the measured time.
    pub prepare: Option<Prepare>,
    /// None where it was not counted.
    pub bytes: Option<Bytes>,
}

impl Case {
    /// A case over a shared `state`. `admit` is called once here and inlined into the batch's loop,
    /// so the one indirect call is per batch, not per operation. A refusing case is emptied before
    /// it is measured.
    fn new<S, F>(subject: &'static str, traffic: Traffic, state: S, admit: F) -> Case
    where
        S: Send + Sync + 'static,
        F: Fn(&S) -> bool + Send + Sync + 'static,
    {
        Case::over(subject, traffic, CachePadded::new(state), admit)
    }

    /// A case over what `build` gives, of which the bytes are counted.
    pub fn built<S, F>(
        subject: &'static str,
        traffic: Traffic,
        build: impl FnOnce() -> S,
        admit: F,
    ) -> Case
    where
        S: Send + Sync + 'static,
        F: Fn(&S) -> bool + Send + Sync + 'static,
    {
        let (state, bytes) = counted(build);
        Case {
            bytes: Some(bytes),
            ..Case::new(subject, traffic, state, admit)
        }
    }

    /// The same, with `prepare` run before every lap.
    pub fn prepared<S, F>(
        subject: &'static str,
        traffic: Traffic,
        build: impl FnOnce() -> S,
        prepare: impl Fn(&S) + Send + Sync + 'static,
        admit: F,
    ) -> Case
    where
        S: Send + Sync + 'static,
        F: Fn(&S) -> bool + Send + Sync + 'static,
    {
        let (state, bytes) = counted(build);
        let state = Arc::new(CachePadded::new(state));
        let case = Case::over(
            subject,
            traffic,
            Arc::clone(&state),
            move |state: &CachePadded<S>| admit(state),
        );
        Case {
            prepare: Some(Box::new(move || prepare(&state))),
            bytes: Some(bytes),
            ..case
        }
    }

    fn over<P, F>(subject: &'static str, traffic: Traffic, state: P, admit: F) -> Case
    where
        P: Deref + Send + Sync + 'static,
        F: Fn(&P::Target) -> bool + Send + Sync + 'static,
    {
        let batch: Batch = Box::new(move |operations| {
            let mut admitted = 0;
            for _ in 0..operations {
                admitted += u64::from(admit(std::hint::black_box(&*state)));
            }
            admitted
        });
        if traffic == Traffic::Refuse {
            batch(2);
        }
        Case {
            subject,
            traffic,
            batch,
            prepare: None,
            bytes: None,
        }
    }
}

/// What `build` gives, and what that occupies.
fn counted<S>(build: impl FnOnce() -> S) -> (S, Bytes) {
    let mut state = None;
    let counted = allocation_counter::measure(|| state = Some(build()));
    let bytes = Bytes {
        inline: size_of::<S>(),
        allocated: counted.bytes_current,
    };
    (state.expect("it was just built"), bytes)
}

/// Returns every case, grouped by traffic.
///
/// A case and its baseline then run within a few ms of each other.
pub fn single() -> Vec<Case> {
    let mut cases = clock::cases();
    for limit in Traffic::OF_ONE_LIMIT.into_iter().filter_map(Traffic::limit) {
        #[cfg(target_arch = "x86_64")]
        cases.extend(ideal::cases(limit));
        cases.push(governor::case(limit));
        cases.extend(flowgate::cases(limit));
        cases.push(ratelimit::case(limit));
        cases.push(better_bucket::case(limit));
        cases.push(leaky_bucket::case(limit));
        cases.push(mutex::case(limit));
    }
    cases
}
