//! Keys that are many, change their quota, wait, move to another process, and are alike.

use flowgate::{
    Clock, Exact, Keyed, KeyedAlgorithm, KeyedBuilder, KeyedConcurrencyLimit, LeakyBucket,
    ManualClock, Quota, Source, Timestamp, TokenBucket, WhenFull,
};
use std::collections::HashMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn buckets(quota: &str, clock: &ManualClock) -> KeyedBuilder<TokenBucket> {
    Keyed::token_bucket(quota.parse().unwrap())
        .clock(clock)
        .seed([3, 4])
}

/// Takes all it can, one by one.
fn taken(limits: &Keyed<TokenBucket>, key: u64) -> usize {
    (0..100)
        .take_while(|_| limits.try_acquire(&key).is_ok())
        .count()
}

#[test]
fn c7_a_flood_of_keys_resets_no_limit_and_takes_no_memory() {
    let clock = ManualClock::new();
    let limits = buckets("10/h burst 10", &clock).capacity(1_000).unwrap();
    let bytes = limits.bytes();
    // Some that have taken all, and some that have taken a little.
    for key in 0..100 {
        limits
            .try_acquire_n(&key, if key < 50 { 10 } else { 3 })
            .unwrap();
    }
    for key in 1_000..200_000_u64 {
        let _ = limits.try_acquire(&key);
    }
    assert!(limits.counts().evicted > 1_000, "{:?}", limits.counts());
    assert!((0..50).all(|key| taken(&limits, key) == 0));
    assert!((50..100).all(|key| taken(&limits, key) <= 7));
    assert_eq!(limits.bytes(), bytes);
    // Six minutes bring one token back, however often they make way.
    clock.advance(Duration::from_secs(360));
    assert!((0..50).all(|key| taken(&limits, key) <= 1));
}

#[test]
fn c1_c7_whatever_makes_way_for_whom_no_key_gets_more_than_by_itself() {
    let clock = ManualClock::new();
    let keyed = |quota: &str| buckets(quota, &clock).capacity(48).unwrap();
    for (round, limits) in [keyed("10/s burst 4"), keyed("1/s burst 2")]
        .iter()
        .enumerate()
    {
        let mut random = fastrand::Rng::with_seed(round as u64);
        let mut singles: HashMap<u64, TokenBucket> = HashMap::new();
        let quota = limits.quota();
        let (mut admitted, mut refused_in_vain) = (0_u32, 0_u32);
        for _ in 0..200_000 {
            clock.advance(Duration::from_nanos(random.u64(..2_000_000)));
            let key = random.u64(..1_000);
            let n = random.u64(1..=2);
            let single = singles
                .entry(key)
                .or_insert_with(|| TokenBucket::builder(quota).clock(&clock).build().unwrap());
            match limits.try_acquire_n(&key, n) {
                // What it lets through, one by itself lets through as well.
                Ok(()) => {
                    single.try_acquire_n(n).unwrap();
                    admitted += 1;
                }
                Err(_) => refused_in_vain += u32::from(single.available() >= n),
            }
        }
        assert!(limits.counts().evicted > 1_000, "{:?}", limits.counts());
        // Far more keys matter than there is room for.
        assert!(
            admitted > 50_000,
            "{admitted} admitted, {refused_in_vain} refused in vain"
        );
    }
}

/// The clock stands still, so each key can have its burst, and nothing more.
#[test]
fn c1_c7_threads_that_crowd_each_other_out_get_no_more_than_the_burst_of_each_key() {
    let clock = ManualClock::new();
    let hashed = buckets("1/h burst 5", &clock).capacity(48).unwrap();
    let exact = buckets("1/h burst 5", &clock)
        .exact::<u64>()
        .capacity(48)
        .unwrap();
    const KEYS: usize = 700;
    let admitted: Vec<AtomicU64> = (0..2 * KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|threads| {
        for seed in 0..4 {
            let (hashed, exact, admitted) = (&hashed, &exact, &admitted);
            threads.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..20_000 {
                    let key = random.usize(..KEYS);
                    let n = random.u64(1..=2);
                    if hashed.try_acquire_n(&(key as u64), n).is_ok() {
                        admitted[key].fetch_add(n, Ordering::Relaxed);
                    }
                    if exact.try_acquire_n(&(key as u64), n).is_ok() {
                        admitted[KEYS + key].fetch_add(n, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(admitted.iter().all(|n| n.load(Ordering::Relaxed) <= 5));
    assert!(hashed.counts().evicted > 100 && exact.counts().evicted > 100);
}

/// A key that is kept holds the lock of its slot while it is decided on; one that comes, that of its lines.
#[test]
fn threads_that_change_between_quotas_do_not_wait_for_each_other_for_ever() {
    let clock = ManualClock::new();
    let limits = buckets("1000/s burst 5", &clock)
        .exact::<Alike>()
        .capacity(48)
        .unwrap();
    let own = limits.with("2000/s burst 9".parse().unwrap()).unwrap();
    std::thread::scope(|threads| {
        for seed in 0..4 {
            let (limits, clock) = (&limits, &clock);
            threads.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..20_000 {
                    let key = Alike(random.u64(..20));
                    let _ = match random.bool() {
                        true => own.try_acquire(&key),
                        false => limits.try_acquire(&key),
                    };
                    clock.advance(Duration::from_micros(random.u64(..300)));
                }
            });
        }
    });
    assert!(limits.counts().evicted > 100, "{:?}", limits.counts());
}

#[test]
fn c3_c7_where_new_keys_are_denied_they_are_told_until_when() {
    let clock = ManualClock::new();
    let limits = buckets("1/s burst 5", &clock)
        .when_full(WhenFull::Deny)
        .capacity(48)
        .unwrap();
    let denied = (0..).find_map(|key: u64| Some((key, limits.try_acquire(&key).err()?)));
    let (key, denied) = denied.unwrap();
    assert!((100..=256).contains(&key), "{key}");
    assert!(denied.is_table_full() && !denied.is_never());
    assert_eq!(
        denied.to_string(),
        "no room for another key; retry after 1s"
    );
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(limits.counts().refused_for_room, 1);
    assert_eq!((limits.available(&key), limits.take_up_to(&key, 3)), (5, 0));
    // Those who have a slot go on as ever.
    assert_eq!(limits.available(&0_u64), 4);
    clock.advance(Duration::from_nanos(999_999_999));
    assert!(limits.try_acquire(&key).is_err());
    clock.advance(Duration::from_nanos(1));
    assert!(limits.try_acquire(&key).is_ok());
}

#[test]
fn c7_where_new_keys_share_they_share_one_quota() {
    let clock = ManualClock::new();
    let share = WhenFull::Share("3/s".parse().unwrap());
    let limits = buckets("1/s burst 5", &clock)
        .when_full(share)
        .capacity(48)
        .unwrap();
    let admitted = (0..1_000_u64)
        .filter(|key| limits.try_acquire(key).is_ok())
        .count();
    let counts = limits.counts();
    let seated = 1_000 - counts.shared as usize;
    assert!((100..=256).contains(&seated), "{counts:?}");
    assert_eq!(admitted, seated + 3);
    assert!(limits.try_acquire_n(&5_000, 4).unwrap_err().is_never());
    assert_eq!(limits.take_up_to(&5_000, 4), 0);
    // What there is of what they share is less than their own.
    clock.advance(Duration::from_millis(999));
    assert_eq!(limits.available(&5_000), 5);
    // Or more.
    let own = limits.with("1/h".parse().unwrap()).unwrap();
    assert_eq!(own.take_up_to(&5_001, 5), 1);
    assert_eq!([5, 5].map(|n| limits.take_up_to(&5_000, n)), [1, 0]);
}

/// Stands still, and another caller is faster each time that somebody looks.
#[derive(Default)]
struct Crowded {
    looks: AtomicU64,
    limits: Arc<OnceLock<Keyed<TokenBucket>>>,
}

impl Source for Crowded {
    fn now_ns(&self) -> u64 {
        const TOKEN_NS: u64 = 1_000_000_000;
        let Some(limits) = self.limits.get() else {
            return 0;
        };
        // The other takes the one token at every second look, as of then, and by the next one another has flowed in.
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        let now_ns = TOKEN_NS * (looks / 2);
        if looks % 2 == 1 {
            let _ = limits.at(Timestamp::from_nanos(now_ns)).try_acquire("key");
        }
        now_ns
    }
}

#[test]
fn c2_who_takes_what_there_is_decides_once() {
    let crowd = Crowded::default();
    let seen = Arc::clone(&crowd.limits);
    let limits = Keyed::token_bucket("1/s burst 1".parse().unwrap()).clock(Clock::custom(crowd));
    let limits = seen.get_or_init(|| limits.capacity(10).unwrap());
    assert_eq!(limits.take_up_to("key", 5), 1);
}

#[test]
fn c2_whoever_takes_what_there_is_of_many_kinds_gets_all_of_it() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_millis(1_500));
    let quota: Quota = "7/s".parse().unwrap();
    let (fixed, segmented) = (Keyed::fixed_window(quota), Keyed::segmented_window(quota));
    let fixed = fixed.clock(&clock).capacity(10).unwrap();
    let segmented = segmented.clock(&clock).capacity(10).unwrap();
    let exact = buckets("7/s", &clock).exact::<str>().capacity(10).unwrap();
    let own = exact.with("9/s".parse().unwrap()).unwrap();
    let ns = [0, 3, 5, 1, 0];
    assert_eq!(ns.map(|n| fixed.take_up_to("key", n)), [0, 3, 4, 0, 0]);
    assert_eq!(ns.map(|n| segmented.take_up_to("key", n)), [0, 3, 4, 0, 0]);
    assert_eq!(ns.map(|n| exact.take_up_to("key", n)), [0, 3, 4, 0, 0]);
    assert_eq!(own.take_up_to("key", u64::MAX), 2);
    // Nobody overtakes those who wait.
    clock.advance(Duration::from_secs(1));
    assert_eq!(exact.take_up_to("key", 4), 4);
    let mut wait = pin!(exact.acquire("key").n(7));
    assert!(poll(wait.as_mut()).is_pending());
    assert_eq!(
        (exact.take_up_to("key", 2), exact.take_up_to("key", 0)),
        (0, 0)
    );
}

#[test]
fn c1_what_a_key_has_taken_stays_taken_when_the_quota_changes() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock).capacity(100).unwrap();
    limits.try_acquire_n("a", 10).unwrap();
    limits.try_acquire_n("b", 4).unwrap();

    // Slower: nothing comes back by that.
    limits.set_quota("1/s burst 10".parse().unwrap()).unwrap();
    assert_eq!((limits.available("a"), limits.available("b")), (0, 6));
    clock.advance(Duration::from_secs(3));
    assert_eq!(
        (
            limits.available("a"),
            limits.available("b"),
            limits.available("c")
        ),
        (3, 9, 10)
    );

    // Faster, and larger.
    limits.set_quota("100/s burst 12".parse().unwrap()).unwrap();
    assert_eq!((limits.available("a"), limits.available("b")), (5, 11));
    clock.advance(Duration::from_millis(10));
    assert_eq!((limits.available("a"), limits.available("b")), (6, 12));

    // Back and forth: no key gains.
    for _ in 0..5 {
        limits.set_quota("100/s burst 3".parse().unwrap()).unwrap();
        limits.set_quota("100/s burst 12".parse().unwrap()).unwrap();
    }
    assert_eq!(limits.available("a"), 6);
    let error = limits
        .set_quota(
            Quota::spacing(Duration::from_secs(1 << 33))
                .unwrap()
                .burst(3),
        )
        .unwrap_err();
    assert!(error.to_string().contains("is out of range"), "{error}");
    assert_eq!(limits.quota().to_string(), "100/s burst 12");
}

#[test]
fn c1_a_key_keeps_its_debt_from_one_quota_of_its_own_to_another() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock).capacity(100).unwrap();
    let gold = limits.with("1000/s burst 100".parse().unwrap()).unwrap();
    let lead = limits.with("1/min burst 10".parse().unwrap()).unwrap();
    gold.try_acquire_n("a", 5).unwrap();
    // Rounded against it, by a sixteenth at the most.
    assert!(
        (4..=5).contains(&lead.available("a")),
        "{}",
        lead.available("a")
    );
    assert!(lead.try_acquire_n("a", 6).is_err());
    lead.try_acquire_n("a", 4).unwrap();
    assert!(
        (90..=91).contains(&gold.available("a")),
        "{}",
        gold.available("a")
    );
    // What is everybody's is another matter.
    assert_eq!(limits.available("b"), 10);
    assert!(
        limits
            .with("10/s burst 10000000000000000".parse().unwrap())
            .is_err()
    );
}

#[test]
fn c1_windows_keep_their_counts_when_limits_change() {
    let clock = ManualClock::new();
    let quota = |text: &str| -> Quota { text.parse().unwrap() };
    let fixed = Keyed::fixed_window(quota("10/s"))
        .clock(&clock)
        .capacity(100)
        .unwrap();
    let segmented = Keyed::segmented_window(quota("10/s"))
        .clock(&clock)
        .capacity(100)
        .unwrap();
    fixed.try_acquire_n("a", 7).unwrap();
    segmented.try_acquire_n("a", 7).unwrap();
    for limit in ["8/s", "100000/s", "10/s"] {
        fixed.set_quota(quota(limit)).unwrap();
        segmented.set_quota(quota(limit)).unwrap();
        let left = quota(limit).count() - 7;
        assert_eq!(
            (fixed.available("a"), segmented.available("a")),
            (left, left)
        );
        let own = quota("1000/s");
        assert_eq!(fixed.with(own).unwrap().available("a"), 993);
        assert_eq!(segmented.with(own).unwrap().available("a"), 993);
    }
    let error = segmented.set_quota(quota("10/min")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the window of a key of this limiter, in nanoseconds, of 60000000000 is out of range: 1000000000 to 1000000000"
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!((fixed.available("a"), segmented.available("a")), (10, 3));
}

#[test]
fn c5_what_is_given_back_and_forgotten() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock).capacity(100).unwrap();
    assert_eq!(limits.refund("a", 3), 0);
    limits.try_acquire_n("a", 8).unwrap();
    assert_eq!(limits.refund("a", 3), 3);
    assert_eq!(limits.refund("a", 30), 5);
    assert_eq!(limits.take_up_to("a", 100), 10);
    limits.reset("a");
    assert_eq!((limits.available("a"), limits.len()), (10, 0));
    assert!(limits.try_acquire_n("a", 11).unwrap_err().is_never());
    assert!(limits.try_acquire_n("a", 0).is_ok() && limits.is_empty());
}

#[test]
fn c4_a_clock_that_runs_back_finds_no_key_better_off() {
    let clock = ManualClock::new();
    let limits = buckets("1/s burst 3", &clock)
        .when_full(WhenFull::Deny)
        .capacity(48)
        .unwrap();
    let at = |second: u64| limits.at(Timestamp::from_nanos(second * 1_000_000_000));
    (0..40_u64).for_each(|key| at(100).try_acquire_n(&key, 3).unwrap());
    // All of them are whole again, and others take their slots.
    (1_000..1_040_u64).for_each(|key| at(200).try_acquire(&key).unwrap());
    assert!((0..40_u64).all(|key| at(100).try_acquire(&key).is_err()));
    assert!((0..40_u64).all(|key| at(102).available(&key) <= 2));
    assert!((0..10_u64).all(|key| at(103).try_acquire_n(&key, 3).is_ok()));
}

#[test]
fn what_was_taken_goes_over_to_another_process() {
    let (before, clock) = (ManualClock::new(), ManualClock::new());
    before.advance(Duration::from_secs(1_000));
    let before = buckets("10/min burst 10", &before).capacity(1_000).unwrap();
    // Before the sketch is full of what the others owe, which may be as much of this key's own quota.
    let own: Quota = "10/h".parse().unwrap();
    before.with(own).unwrap().try_acquire_n("own", 7).unwrap();
    for key in 0..3_000_u64 {
        let _ = before.try_acquire_n(&key, 1 + key % 10);
    }
    let file = before.export();
    clock.advance(Duration::from_secs(5));
    let import = |file: &[u8]| {
        Keyed::token_bucket("10/min burst 10".parse().unwrap())
            .clock(&clock)
            .import(file)
    };
    let after = import(&file).unwrap();
    assert_eq!(after.capacity(), 1_000);
    for key in 0..3_000_u64 {
        let [there, here] = [&after, &before].map(|limits| limits.snapshot(&key));
        // An instant in the sketch is rounded up on either clock, and so the last token comes somewhat later.
        let less = here.remaining.checked_sub(there.remaining);
        assert!(less <= Some(1), "{key}: {less:?}");
        let later = there.reset_after.checked_sub(here.reset_after);
        assert!(later < Some(Duration::from_micros(9)), "{key}: {later:?}");
        assert!(there.reset_after >= here.reset_after, "{key}");
    }
    let [there, here] = [&after, &before].map(|limits| limits.with(own).unwrap().snapshot("own"));
    assert_eq!(there, here);

    // With another quota, what was taken stays taken.
    let smaller = Keyed::token_bucket("6/min burst 12".parse().unwrap()).clock(&clock);
    let smaller = smaller.import(&file).unwrap();
    assert!((0..3_000_u64).all(|key| smaller.available(&key) <= before.available(&key) + 2));

    for (broken, why) in [
        (&file[..file.len() - 1], "it has been cut off or changed"),
        (
            &file[8..],
            "it does not begin as an export of this version does",
        ),
        (&[], "it does not begin as an export of this version does"),
        (&file[..8], "it has been cut off or changed"),
    ] {
        let error = import(broken).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot be imported: {why}"));
    }
    let other = Keyed::leaky_bucket("10/min".parse().unwrap())
        .import(&file)
        .unwrap_err();
    assert_eq!(
        other.to_string(),
        "cannot be imported: it is of another kind of limiter"
    );
    let deny = Keyed::token_bucket("10/min".parse().unwrap()).when_full(WhenFull::Deny);
    assert!(
        deny.import(&file)
            .unwrap_err()
            .to_string()
            .contains("made way")
    );
}

#[test]
fn windows_go_over_to_another_process() {
    let (here, there) = (ManualClock::new(), ManualClock::new());
    here.advance(Duration::from_millis(1_500));
    there.advance(Duration::from_millis(700));
    let quota: Quota = "10/s".parse().unwrap();
    let fixed = Keyed::fixed_window(quota)
        .clock(&here)
        .capacity(10)
        .unwrap();
    let segmented = Keyed::segmented_window(quota)
        .clock(&here)
        .capacity(10)
        .unwrap();
    fixed.try_acquire_n("a", 7).unwrap();
    segmented.try_acquire_n("a", 7).unwrap();
    here.advance(Duration::from_millis(400));
    let fixed = Keyed::fixed_window(quota)
        .clock(&there)
        .import(&fixed.export())
        .unwrap();
    let segmented = Keyed::segmented_window(quota)
        .clock(&there)
        .import(&segmented.export())
        .unwrap();
    assert_eq!((fixed.available("a"), segmented.available("a")), (3, 3));
    there.advance(Duration::from_millis(600));
    assert_eq!(fixed.available("a"), 10);
    // Until 1.1 s later it counted there; segments end where they do, and not earlier.
    there.advance(Duration::from_millis(499));
    assert_eq!(segmented.available("a"), 3);
    there.advance(Duration::from_secs(1));
    assert_eq!(segmented.available("a"), 10);
}

/// `file` with other `numbers` at their places, and with the checksum that goes with them if the seed is [0, 0].
fn forged(file: &[u8], numbers: &[(usize, u64)]) -> Vec<u8> {
    let mut forged = file[..file.len() - 8].to_vec();
    for (place, number) in numbers {
        forged[place * 8..][..8].copy_from_slice(&number.to_le_bytes());
    }
    // SipHash-1-3 too, with this key.
    let mut hasher = DefaultHasher::new();
    forged[..].hash(&mut hasher);
    forged.extend(hasher.finish().to_le_bytes());
    forged
}

/// Whose key "a" has taken 3, and "b" as many by a quota of its own.
fn refuses_what_no_limiter_writes<A: KeyedAlgorithm<Quota = Quota>>(
    builder: impl Fn() -> KeyedBuilder<A>,
    own: Quota,
    has_every_class: bool,
) {
    let clock = ManualClock::new();
    let builder = || builder().clock(&clock).seed([0, 0]);
    let limits = builder().capacity(100).unwrap();
    limits.try_acquire_n("a", 3).unwrap();
    limits.with(own).unwrap().try_acquire_n("b", 3).unwrap();
    let file = limits.export();
    assert_eq!(
        forged(&file, &[]),
        file,
        "the checksum is computed as there"
    );
    let number = |at: usize| u64::from_le_bytes(file[at * 8..][..8].try_into().unwrap());

    let [lines, unit, span, most, count_bits, entry] = [5, 7, 9, 11, 13, 17];
    let mut wrong = Vec::new();
    for (at, values) in [
        // Not what a table for so many keys has.
        (lines, &[0, 1, number(lines) + 1, u64::MAX][..]),
        // Of an aligned window it would be 1 and a whole number of nanoseconds.
        (unit, &[0, 2, 1 << 63, u64::MAX][..]),
        (unit + 1, &[1, 1 << 63, u64::MAX]),
        (span, &[0, 1, 127, u64::MAX]),
        (span + 1, &[1 << 32, u64::MAX]),
        (most, &[0, 1 << 32, u64::MAX]),
        (count_bits, &[0, 1, 11, 127, 128, 1 << 32, u64::MAX]),
    ] {
        let others = values.iter().filter(|value| **value != number(at));
        wrong.extend(others.map(|value| vec![(at, *value)]));
    }
    // All of them.
    wrong.push((unit..=count_bits).map(|at| (at, 0)).collect());
    wrong.push((unit..=count_bits).map(|at| (at, u64::MAX)).collect());
    // Of nobody, and one that somebody waits for.
    wrong.push(vec![(entry, number(entry) & ((1 << 26) - 1))]);
    wrong.push(vec![(entry, number(entry) | 1 << 25)]);
    // A quota of its own that there cannot be.
    let class = vec![(entry, number(entry) | 0xbff << 13)];
    match has_every_class {
        true => drop(builder().import(&forged(&file, &class)).unwrap()),
        false => wrong.push(class),
    }
    for numbers in wrong {
        let error = builder().import(&forged(&file, &numbers)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot be imported: it has been cut off or changed",
            "{numbers:?}"
        );
    }
    let again = builder().import(&forged(&file, &[])).unwrap();
    let own = again.with(own).unwrap();
    assert_eq!((again.available("a"), own.available("b")), (7, 5));
}

#[test]
fn an_import_refuses_what_no_limiter_writes() {
    let (quota, own) = (Quota::per_minute(10), Quota::per_minute(8));
    let bursts = (quota.burst(10), own.burst(8));
    refuses_what_no_limiter_writes(|| Keyed::token_bucket(quota), own, true);
    refuses_what_no_limiter_writes(|| Keyed::leaky_bucket(bursts.0), bursts.1, true);
    refuses_what_no_limiter_writes(|| Keyed::fixed_window(quota), own, false);
    refuses_what_no_limiter_writes(|| Keyed::segmented_window(quota), own, false);
}

#[test]
fn quotas_at_the_ends_of_their_ranges_go_over_to_another_process() {
    fn goes_over<A: KeyedAlgorithm<Quota = Quota>>(
        builder: impl Fn() -> KeyedBuilder<A>,
        own: Quota,
    ) {
        let clock = ManualClock::new();
        let limits = builder().clock(&clock).capacity(10).unwrap();
        limits.try_acquire_n("a", 2).unwrap();
        limits.with(own).unwrap().try_acquire_n("b", 2).unwrap();
        let after = builder().clock(&clock).import(&limits.export()).unwrap();
        assert_eq!(after.snapshot("a"), limits.snapshot("a"));
        let [there, here] = [&after, &limits].map(|limits| limits.with(own).unwrap());
        assert_eq!(there.snapshot("b"), here.snapshot("b"));
    }
    let in_ns = |count, ns| Quota::new(count, Duration::from_nanos(ns)).unwrap();
    let (fast, slow) = (in_ns(1 << 31, 1).burst(2), in_ns(2, 1 << 63).burst(2));
    for (quota, own) in [(fast, slow), (slow, fast)] {
        goes_over(|| Keyed::token_bucket(quota), own);
        goes_over(|| Keyed::leaky_bucket(quota), own);
    }
    let (much, little) = (in_ns(1 << 63, 1 << 63), in_ns(2, 1));
    for (quota, own) in [(much, little), (little, much)] {
        goes_over(|| Keyed::fixed_window(quota), own);
    }
    let (much, little) = (in_ns(1 << 36, 1 << 62), in_ns(2, 1 << 62));
    for (quota, own) in [(much, little), (little, much)] {
        goes_over(|| Keyed::segmented_window(quota), own);
    }
}

/// All of them have the same hash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Alike(u64);

impl Hash for Alike {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[test]
fn c7_keys_that_are_kept_are_told_apart_where_hashes_are_not() {
    let clock = ManualClock::new();
    let hashed = buckets("10/h", &clock).capacity(100).unwrap();
    hashed.try_acquire_n(&Alike(1), 4).unwrap();
    assert_eq!(hashed.available(&Alike(2)), 6);

    let exact = buckets("10/h", &clock)
        .exact::<Alike>()
        .when_full(WhenFull::Deny)
        .capacity(100)
        .unwrap();
    for key in 0..8 {
        exact.try_acquire_n(&Alike(key), 1 + key).unwrap();
    }
    assert!((0..8).all(|key| exact.available(&Alike(key)) == 9 - key));
    assert!(exact.try_acquire(&Alike(8)).unwrap_err().is_table_full());
    assert!(
        exact
            .most_used(3)
            .iter()
            .map(|usage| usage.key.0)
            .eq([7, 6, 5])
    );
    assert!(exact.bytes() > hashed.bytes());
    assert!(!exact.is_lock_free(), "it takes the lock of a slot");
    let same_word = KeyedConcurrencyLimit::new(1, 1).unwrap();
    assert_eq!(hashed.is_lock_free(), same_word.is_lock_free());

    // The slot of the first that is whole goes to another.
    clock.advance(Duration::from_secs(360));
    exact.try_acquire(&Alike(8)).unwrap();
    assert_eq!(
        (exact.available(&Alike(8)), exact.available(&Alike(1))),
        (9, 9)
    );
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn c6_who_waits_for_a_key_is_served_in_turn_and_nobody_else_minds() {
    let clock = ManualClock::new();
    let limits = buckets("1/s burst 1", &clock).capacity(100).unwrap();
    limits.try_acquire("a").unwrap();
    let mut first = pin!(limits.acquire("a"));
    let mut second = pin!(limits.acquire("a"));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert_eq!(limits.waiting_keys(), 1);
    // Nobody overtakes, and nobody else waits.
    assert_eq!(
        limits.try_acquire("a").unwrap_err().retry_after(),
        Some(Duration::from_secs(3))
    );
    assert_eq!(
        limits.peek("a").unwrap_err().retry_after(),
        Some(Duration::from_secs(3))
    );
    assert_eq!(limits.snapshot("a").remaining, 0);
    assert!(limits.try_acquire("b").is_ok());

    clock.advance(Duration::from_secs(1));
    let grant = match poll(first.as_mut()) {
        Poll::Ready(grant) => grant.unwrap(),
        Poll::Pending => panic!("its turn has come"),
    };
    assert_eq!(grant.at(), Timestamp::from_nanos(1_000_000_000));
    assert!(poll(second.as_mut()).is_pending());
    // Half a second later somebody gives back what somebody has had.
    clock.advance(Duration::from_millis(500));
    assert_eq!(limits.refund("a", 1), 1);
    assert!(poll(second.as_mut()).is_ready());
    assert_eq!(limits.waiting_keys(), 0);
    assert!(limits.try_acquire("a").is_err());
}

#[test]
fn c5_c6_a_wait_that_is_dropped_leaves_no_trace() {
    let clock = ManualClock::new();
    let limits = Keyed::<LeakyBucket>::leaky_bucket("1/s".parse().unwrap()).clock(&clock);
    let limits = limits
        .max_waiting_keys(2)
        .max_waiters_per_key(2)
        .capacity(100)
        .unwrap();
    for key in ["a", "b", "c"] {
        limits.try_acquire(key).unwrap();
    }
    {
        let mut waits: Vec<_> = ["a", "a", "b"]
            .map(|key| Box::pin(limits.acquire(key)))
            .into();
        assert!(
            waits
                .iter_mut()
                .all(|wait| poll(wait.as_mut()).is_pending())
        );
        for key in ["a", "c"] {
            let Poll::Ready(Err(denied)) = poll(pin!(limits.acquire(key))) else {
                panic!("there are enough already");
            };
            assert!(denied.is_queue_full(), "{key}: {denied}");
        }
        assert_eq!(limits.waiting_keys(), 2);
        // Granted by now, and not seen.
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(limits.waiting_keys(), 0);
    assert!(limits.try_acquire("a").is_ok() && limits.try_acquire("b").is_ok());
}

/// A table that stores its keys, in which "a" has used up `quota`.
fn used_up(quota: &str, clock: &ManualClock) -> Keyed<TokenBucket, Exact<str>> {
    let limits = buckets(quota, clock).exact().capacity(100).unwrap();
    limits.try_acquire("a").unwrap();
    limits
}

#[test]
fn c6_a_faster_quota_wakes_those_who_wait() {
    let clock = ManualClock::new();
    let limits = used_up("1/h burst 1", &clock);
    let mut wait = pin!(limits.acquire("a"));
    assert!(poll(wait.as_mut()).is_pending());
    limits.set_quota("1/s burst 1".parse().unwrap()).unwrap();
    clock.advance(Duration::from_secs(1));
    assert!(poll(wait.as_mut()).is_ready());
}

/// The grant takes the lock of the key's slot, which the snapshot must not hold.
#[test]
fn c6_a_snapshot_of_a_stored_key_serves_the_waiter_that_is_due() {
    let clock = ManualClock::new();
    let limits = used_up("1/s burst 1", &clock);
    let mut wait = pin!(limits.acquire("a"));
    assert!(poll(wait.as_mut()).is_pending());
    clock.advance(Duration::from_secs(1));
    assert_eq!(limits.snapshot("a").remaining, 0);
    assert!(poll(wait.as_mut()).is_ready());
}

#[test]
fn what_cannot_be_made_is_refused_with_its_reason() {
    let buckets = || Keyed::token_bucket("10/s".parse().unwrap());
    let told = |error: flowgate::KeyedError| error.to_string();
    assert_eq!(
        told(buckets().capacity(0).unwrap_err()),
        "a capacity in keys of 0 is out of range: 1 to 12884901888"
    );
    let error = Keyed::fixed_window("10/s burst 5".parse().unwrap())
        .capacity(10)
        .unwrap_err();
    assert!(told(error).contains("burst"), "{error}");
    let error = Keyed::segmented_window("1000000/ms".parse().unwrap())
        .capacity(10)
        .unwrap_err();
    assert_eq!(
        told(error),
        "the limit of a keyed segmented window as long as this of 1000000 is out of range: 1 to 32767"
    );
}
