//! A keyed limiter against one limiter of its kind for each key, answer by answer.
//!
//! `FLOWGATE_OPS` sets how many operations, 10⁶ together unless it is set (10⁷ with `FLOWGATE_LONG`),
//! `FLOWGATE_SEED` where to begin.

use crate::effort::{number, rounds};
use fastrand::Rng;
use flowgate::{
    Denied, FixedWindow, Keyed, KeyedAlgorithm, KeyedBuilder, KeyedView, LeakyBucket, ManualClock,
    Quota, SegmentedWindow, Snapshot, Timestamp, TokenBucket,
};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How many operations a test does that does `share` of a hundred of them.
fn operations(share: u64) -> u64 {
    let all = rounds(1_000_000, 10_000_000);
    number("FLOWGATE_OPS", all) * share / 100
}

fn rng(of: u64) -> Rng {
    Rng::with_seed(number("FLOWGATE_SEED", 1).wrapping_mul(1000) + of)
}

/// A limiter for one key.
trait Single: KeyedAlgorithm<Quota = Quota> {
    /// Whether it says exactly when it is whole again, also after a refund.
    const KNOWS_WHEN: bool;
    fn alone(quota: Quota) -> Self;
    fn keyed(quota: Quota) -> KeyedBuilder<Self>;
    fn take(&self, at: Timestamp, n: u64) -> Result<(), Denied>;
    fn put_back(&self, at: Timestamp, n: u64) -> u64;
    fn left(&self, at: Timestamp) -> u64;
    fn seen(&self, at: Timestamp) -> Snapshot;
}

macro_rules! single {
    ($type:ty, $keyed:ident, $knows_when:expr, |$builder:ident| $build:expr) => {
        impl Single for $type {
            const KNOWS_WHEN: bool = $knows_when;
            fn alone(quota: Quota) -> Self {
                let $builder = <$type>::builder(quota).clock(ManualClock::new());
                $build.build().expect("a quota of this kind")
            }
            fn keyed(quota: Quota) -> KeyedBuilder<Self> {
                Keyed::$keyed(quota)
            }
            fn take(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
                self.at(at).try_acquire_n(n)
            }
            fn put_back(&self, at: Timestamp, n: u64) -> u64 {
                self.at(at).refund(n)
            }
            fn left(&self, at: Timestamp) -> u64 {
                self.at(at).available()
            }
            fn seen(&self, at: Timestamp) -> Snapshot {
                self.at(at).snapshot()
            }
        }
    };
}
single!(TokenBucket, token_bucket, true, |builder| builder);
single!(LeakyBucket, leaky_bucket, true, |builder| builder);
single!(FixedWindow, fixed_window, true, |builder| builder);
single!(SegmentedWindow, segmented_window, false, |builder| builder
    .segments(1));

/// What a refusal says, whatever it was computed from.
fn told(answer: Result<(), Denied>) -> Result<(), (bool, Option<Duration>)> {
    answer.map_err(|denied| (denied.is_never(), denied.retry_after()))
}

/// One that stalls, goes on, jumps and, if it may, runs backward.
struct Time {
    now_ns: u64,
    newest_ns: u64,
    /// What one token takes, and all of them.
    token_ns: u64,
    whole_ns: u64,
    backward: bool,
}

impl Time {
    fn new(quota: Quota, burst: u64, from_ns: u64, backward: bool) -> Self {
        let period_ns = u64::try_from(quota.period().as_nanos()).expect("less than 584 years");
        let token_ns = (period_ns / quota.count()).max(1);
        Self {
            now_ns: from_ns,
            newest_ns: from_ns,
            token_ns,
            whole_ns: token_ns.saturating_mul(burst).max(period_ns),
            backward,
        }
    }

    fn next(&mut self, rng: &mut Rng) -> Timestamp {
        let forward_ns = match rng.u32(..100) {
            0..50 => 0,
            50..58 => 1,
            58..85 => rng.u64(..=self.token_ns.saturating_mul(2)),
            85..92 => rng.u64(..=self.token_ns) * rng.u64(..=8),
            92..95 => self.token_ns - 1,
            95..96 => rng.u64(..=self.whole_ns.saturating_mul(2)),
            _ if self.backward => {
                let most_ns = rng.u64(1..=self.whole_ns.saturating_mul(2));
                let back_ns = rng.u64(..=most_ns);
                self.now_ns = self.now_ns.saturating_sub(back_ns);
                return Timestamp::from_nanos(self.now_ns);
            }
            _ => 0,
        };
        self.now_ns = self.now_ns.saturating_add(forward_ns);
        self.newest_ns = self.newest_ns.max(self.now_ns);
        Timestamp::from_nanos(self.now_ns)
    }
}

fn amount(rng: &mut Rng, most: u64) -> u64 {
    match rng.u32(..100) {
        0..60 => 1,
        60..63 => 0,
        63..90 => rng.u64(..=most.min(5)),
        90..97 => rng.u64(..=most),
        97..99 => most,
        _ => most.saturating_add(rng.u64(1..=9)),
    }
}

/// Both do the same, and say the same.
fn compare<L: Single>(
    quota: Quota,
    keyed: &KeyedView<'_, L>,
    single: &L,
    key: u64,
    time: &Time,
    rng: &mut Rng,
) {
    let at = Timestamp::from_nanos(time.now_ns);
    let context = |what: &str| format!("{what} by {quota} of key {key} at {at:?}");
    let most = single.seen(at).limit;
    let n = amount(rng, most);
    match rng.u32(..100) {
        0..70 => {
            let beforehand = keyed.peek_n(&key, n);
            let (mine, other) = (keyed.try_acquire_n(&key, n), single.take(at, n));
            assert_eq!(
                told(mine),
                told(other),
                "{}",
                context(&format!("{n} taken"))
            );
            assert_eq!(beforehand, mine, "{}", context(&format!("{n} peeked at")));
            // Some of it back at once: whatever the kind, that is the newest. (Where the clock has run backward, a
            // limiter alone also knows how late it has been already.)
            if mine.is_ok() && n > 0 && time.now_ns == time.newest_ns && rng.u32(..20) == 0 {
                let back = rng.u64(..=n);
                let (mine, other) = (keyed.refund(&key, back), single.put_back(at, back));
                assert_eq!(
                    mine,
                    other,
                    "{}",
                    context(&format!("{back} of {n} put back"))
                );
            }
        }
        70..85 => assert_eq!(
            keyed.available(&key),
            single.left(at),
            "{}",
            context("left")
        ),
        _ => {
            let (mine, other) = (keyed.snapshot(&key), single.seen(at));
            assert_eq!(mine.limit, other.limit, "{}", context("the limit"));
            assert_eq!(mine.remaining, other.remaining, "{}", context("left"));
            // A segmented window alone does not notice that a refund has emptied its newest segment.
            let (mine, other) = (mine.reset_after, other.reset_after);
            let is_right = if L::KNOWS_WHEN {
                mine == other
            } else {
                mine <= other
            };
            assert!(is_right, "{}: {mine:?} and {other:?}", context("whole"));
        }
    }
}

/// All keys have an entry, and keep it: then time may go anywhere.
fn few_keys<L: Single>(quotas: &[Quota], starts_ns: &[u64], share: u64) {
    let mut rng = rng(share);
    let runs = (quotas.len() * starts_ns.len()) as u64;
    for &quota in quotas {
        for &from_ns in starts_ns {
            let builder = L::keyed(quota).clock(ManualClock::new());
            let keyed = builder.capacity(1000).expect("a quota of this kind");
            let singles: Vec<L> = (0..100).map(|_| L::alone(quota)).collect();
            let at = Timestamp::from_nanos(from_ns);
            for (key, single) in (0_u64..).zip(&singles) {
                assert!(keyed.at(at).try_acquire_n(&key, 1).is_ok() && single.take(at, 1).is_ok());
            }
            let burst = singles[0].seen(at).limit;
            let mut time = Time::new(quota, burst, from_ns, true);
            for _ in 0..operations(share) / runs {
                let now = time.next(&mut rng);
                let key = rng.u64(..100);
                compare(
                    quota,
                    &keyed.at(now),
                    &singles[key as usize],
                    key,
                    &time,
                    &mut rng,
                );
            }
            assert_eq!(keyed.counts().evicted, 0);
        }
    }
}

/// Far more keys than slots, of which few matter at a time: entries are used again and again.
fn many_keys<L: Single>(quotas: &[Quota], share: u64) {
    let mut rng = rng(share + 100);
    for &quota in quotas {
        let builder = L::keyed(quota).clock(ManualClock::new());
        let keyed = builder.capacity(3_000).expect("a quota of this kind");
        let mut singles: HashMap<u64, L> = HashMap::new();
        let burst = L::alone(quota).seen(Timestamp::ORIGIN).limit;
        let mut time = Time::new(quota, burst, 1, false);
        // Some keys are asked for often; together they matter for some hundred steps each.
        time.token_ns = (time.whole_ns / 300).max(1);
        let mut most_len = 0;
        for step in 0..operations(share) / quotas.len() as u64 {
            let now = time.next(&mut rng);
            let key = match rng.bool() {
                true => rng.u64(..20_000),
                false => rng.u64(..100),
            };
            let single = singles.entry(key).or_insert_with(|| L::alone(quota));
            compare(quota, &keyed.at(now), single, key, &time, &mut rng);
            if step % 65_536 == 0 {
                most_len = most_len.max(keyed.most_used(usize::MAX).len());
            }
        }
        assert!(singles.len() > 10_000 || operations(100) < 10_000_000);
        assert_eq!(
            keyed.counts().evicted,
            0,
            "{most_len} keys mattered at the same time"
        );
    }
}

fn quotas(texts: &[&str]) -> Vec<Quota> {
    let parse = |text: &&str| text.parse().expect("a quota");
    texts.iter().map(parse).collect()
}

/// The origin; some time later; an age later; and near the end of time.
const STARTS_NS: [u64; 4] = [0, 1_000_000_007, 1 << 60, u64::MAX - 1_000_000_000_000];

/// A token takes a whole number of 1/4096 ns.
const WHOLE: [&str; 8] = [
    "1/s",
    "100/s burst 20",
    "1000/s",
    "1/day burst 3",
    "4096/us burst 7",
    "1000000/s burst 1000",
    "5/min units 1000",
    "8192/ns burst 8192",
];

#[test]
fn c1_c2_c3_c4_c7_keyed_token_buckets_agree_with_one_for_each_key() {
    // The last is more than one in each 1/4096 ns.
    few_keys::<TokenBucket>(&quotas(&WHOLE[..7]), &STARTS_NS, 30);
    many_keys::<TokenBucket>(&quotas(&WHOLE[..7]), 10);
}

#[test]
fn c1_c2_c3_c4_c7_keyed_leaky_buckets_agree_with_one_for_each_key() {
    few_keys::<LeakyBucket>(
        &quotas(&["2/s", "1000/s", "1000/s burst 5", "1/h"]),
        &STARTS_NS,
        10,
    );
    many_keys::<LeakyBucket>(&quotas(&["2/s", "1000/s burst 5"]), 5);
}

#[test]
fn c1_c2_c3_c4_c7_keyed_fixed_windows_agree_with_one_for_each_key() {
    let quotas = quotas(&[
        "1/s",
        "3/min",
        "100/s",
        "4094/h",
        "7/1ns",
        "5/min units 100",
    ]);
    few_keys::<FixedWindow>(&quotas, &STARTS_NS, 13);
    many_keys::<FixedWindow>(&quotas, 5);
}

#[test]
fn c1_c2_c3_c4_c7_keyed_segmented_windows_agree_with_one_for_each_key() {
    let quotas = quotas(&[
        "1/s",
        "3/min",
        "100/s",
        "5000/h",
        "1000000/h",
        "5/min units 100",
    ]);
    few_keys::<SegmentedWindow>(&quotas, &STARTS_NS, 13);
    many_keys::<SegmentedWindow>(&quotas, 5);
}

/// What a token costs is rounded up to 1/4096 ns, and nothing else is: the limiter is the bucket of that rate, exactly, and
/// so never lets through more than the quota.
#[test]
fn c1_c8_a_cost_that_is_not_whole_is_rounded_up_and_nothing_else_is() {
    let mut rng = rng(3);
    let quotas = quotas(&[
        "3/s",
        "7/s burst 3",
        "999999937/s burst 100",
        "13/min",
        "2.7/h",
        "300/us",
    ]);
    for &quota in &quotas {
        let period_ns = quota.period().as_nanos();
        let cost = (period_ns * 4096).div_ceil(u128::from(quota.count()));
        let cost_ns = Duration::from_nanos(u64::try_from(cost).expect("it is short"));
        let rounded = Quota::new(4096, cost_ns)
            .expect("whole")
            .burst(quota.max_burst());
        let keyed = Keyed::token_bucket(quota).clock(ManualClock::new());
        let keyed = keyed.capacity(1000).expect("a quota");
        let bucket = |quota| -> Vec<_> { (0..50).map(|_| TokenBucket::alone(quota)).collect() };
        let (same, exact) = (bucket(rounded), bucket(quota));
        let at = Timestamp::from_nanos(5);
        for key in 0..50_u64 {
            let one = [&same, &exact].map(|all| all[key as usize].take(at, 1).is_ok());
            assert!(keyed.at(at).try_acquire_n(&key, 1).is_ok() && one == [true; 2]);
        }
        let mut time = Time::new(quota, quota.max_burst(), 5, true);
        for _ in 0..operations(9) / quotas.len() as u64 {
            let at = time.next(&mut rng);
            let key = rng.u64(..50);
            let n = amount(&mut rng, quota.max_burst());
            let answer = keyed.at(at).try_acquire_n(&key, n);
            let context = || format!("{n} by {quota} of key {key} at {at:?}");
            assert_eq!(
                told(answer),
                told(same[key as usize].take(at, n)),
                "{}",
                context()
            );
            if answer.is_ok() {
                assert!(exact[key as usize].take(at, n).is_ok(), "{}", context());
            }
        }
    }
}

/// Whatever becomes of the slots, and wherever the clock goes, no key is let through that should not be.
fn never_more<L: Single>(quotas: &[Quota], capacity: usize, backward: bool, share: u64) {
    let mut rng = rng(share + 200);
    for &quota in quotas {
        let builder = L::keyed(quota).clock(ManualClock::new());
        let keyed = builder.capacity(capacity).expect("a quota of this kind");
        let mut singles: HashMap<u64, L> = HashMap::new();
        let burst = L::alone(quota).seen(Timestamp::ORIGIN).limit;
        let mut time = Time::new(quota, burst, 1 << 40, backward);
        // So slowly that thousands of keys matter at the same time, but for a leap now and then.
        let whole_ns = time.whole_ns;
        time.token_ns = (time.token_ns / 5_000).max(1);
        time.whole_ns = 100 * time.token_ns;
        let mut admitted = 0_u64;
        for _ in 0..(operations(share) / quotas.len() as u64).max(30_000) {
            if rng.u32(..20_000) == 0 {
                time.now_ns = match backward && rng.bool() {
                    true => time.now_ns - rng.u64(..2 * whole_ns).min(time.now_ns),
                    false => time.now_ns + rng.u64(..2 * whole_ns),
                };
            }
            let at = time.next(&mut rng);
            let key = match rng.bool() {
                true => rng.u64(..5_000),
                false => rng.u64(..50),
            };
            let n = amount(&mut rng, burst);
            let single = singles.entry(key).or_insert_with(|| L::alone(quota));
            let told_left = keyed.at(at).available(&key);
            assert!(
                told_left <= single.left(at),
                "{told_left} left by {quota} of key {key} at {at:?}"
            );
            if keyed.at(at).try_acquire_n(&key, n).is_ok() {
                admitted += 1;
                let exact = single.take(at, n);
                assert!(
                    exact.is_ok(),
                    "{n} by {quota} of key {key} at {at:?}: {exact:?}"
                );
            }
        }
        let counts = keyed.counts();
        assert!(admitted > 500, "{admitted} admitted, {counts:?}");
        assert!(capacity > 5_000 || counts.evicted > 100, "{counts:?}");
    }
}

#[test]
fn c4_c7_a_clock_that_runs_backward_grants_nothing_to_keys_whose_slots_are_used_again() {
    never_more::<TokenBucket>(&quotas(&["100/s burst 20", "3/s"]), 6_000, true, 4);
    never_more::<FixedWindow>(&quotas(&["10/s", "5000/s"]), 6_000, true, 4);
    never_more::<SegmentedWindow>(&quotas(&["10/s", "5000/s"]), 6_000, true, 4);
}

#[test]
fn c7_eviction_never_grants_credit_wherever_the_clock_goes() {
    for backward in [false, true] {
        never_more::<TokenBucket>(&quotas(&["100/s burst 20", "3/s"]), 500, backward, 4);
        never_more::<LeakyBucket>(&quotas(&["10/s", "10/s burst 3"]), 500, backward, 2);
        never_more::<SegmentedWindow>(&quotas(&["10/s", "5000/s", "1/min"]), 500, backward, 4);
    }
}

/// A fixed window that comes back from the sketch ends later than the one that would have been open without it, and the
/// next begins later: not the same admissions, but the same bound.
#[test]
fn c1_c7_fixed_windows_that_make_way_keep_their_bound_in_every_span() {
    let mut rng = rng(7);
    for quota in quotas(&["10/s", "500/s", "2/min"]) {
        let limits = Keyed::fixed_window(quota).clock(ManualClock::new());
        let limits = limits.capacity(500).expect("a quota of this kind");
        let (limit, window_ns) = (quota.count(), quota.period().as_nanos() as u64);
        let mut admitted: HashMap<u64, VecDeque<(u64, u64)>> = HashMap::new();
        let mut now_ns = 1 << 40;
        for _ in 0..(operations(4) / 3).max(30_000) {
            now_ns += rng.u64(..window_ns / 2_000);
            let key = match rng.bool() {
                true => rng.u64(..5_000),
                false => rng.u64(..20),
            };
            let n = 1 + rng.u64(..limit) / (1 + rng.u64(..limit));
            if limits
                .at(Timestamp::from_nanos(now_ns))
                .try_acquire_n(&key, n)
                .is_err()
            {
                continue;
            }
            let span = admitted.entry(key).or_default();
            span.push_back((now_ns, n));
            while span
                .front()
                .is_some_and(|&(at_ns, _)| at_ns + window_ns <= now_ns)
            {
                span.pop_front();
            }
            let sum: u64 = span.iter().map(|(_, n)| n).sum();
            assert!(
                sum < 2 * limit,
                "{sum} of {quota} within a span, by key {key} at {now_ns}"
            );
        }
        assert!(limits.counts().evicted > 100, "{:?}", limits.counts());
    }
}
