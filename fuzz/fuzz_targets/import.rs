//! Whatever an export says, with a checksum that fits, it is refused or makes a limiter that works.
//!
//! `cargo +nightly fuzz run import`
#![no_main]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use flowgate::{
    DualTokenBucket, Keyed, KeyedAlgorithm, KeyedBuilder, KeyedView, ManualClock, Quota, WhenFull,
};
use libfuzzer_sys::fuzz_target;

/// Those of the seed and of what comes before it, and the capacity: another one would only take another amount of memory.
const KEPT: usize = 5;
const KEYS: u64 = 400;

// First of what kind, then which numbers of a genuine export become others.
fuzz_target!(|written: &[u8]| {
    let Some(([kind, way], changes)) = written.split_first_chunk() else {
        return;
    };
    let quota = Quota::per_minute(10);
    match kind % 5 {
        0 => import(|| Keyed::token_bucket(quota), use_own, *way, changes),
        1 => import(
            || Keyed::leaky_bucket(quota.burst(10)),
            use_own,
            *way,
            changes,
        ),
        2 => import(|| Keyed::fixed_window(quota), use_own, *way, changes),
        3 => import(|| Keyed::segmented_window(quota), use_own, *way, changes),
        _ => {
            let quotas = "10/min; 1000/day".parse().expect("it is well formed");
            import(
                || Keyed::dual_token_bucket(quotas),
                |_: &Keyed<DualTokenBucket>| {},
                *way,
                changes,
            );
        }
    }
});

/// Imports what has been forged, and uses it; `use_own` is what can be done where each key has one quota.
fn import<A: KeyedAlgorithm>(
    builder: impl Fn() -> KeyedBuilder<A>,
    use_own: impl Fn(&Keyed<A>),
    way: u8,
    changes: &[u8],
) {
    let when_full = match way & 1 {
        0 => WhenFull::Evict,
        _ => WhenFull::Deny,
    };
    let at = |instant: u8| {
        let clock = ManualClock::new();
        clock.advance(match instant % 4 {
            0 => Duration::ZERO,
            1 => Duration::from_secs(7),
            2 => Duration::from_secs(1 << 33),
            _ => Duration::from_nanos(u64::MAX),
        });
        builder().clock(clock).seed([0, 0]).when_full(when_full)
    };
    let limits = at(way >> 1).capacity(100).expect("there is room");
    for key in 0..KEYS {
        let _ = limits.try_acquire_n(&key, 1 + key % 10);
    }
    use_own(&limits);
    let genuine = limits.export();
    assert_eq!(
        forged(&genuine, &[]),
        genuine,
        "the checksum is computed as there"
    );
    let Ok(limits) = at(way >> 3).import(&forged(&genuine, changes)) else {
        assert!(!changes.is_empty(), "a genuine export is refused");
        return;
    };
    assert_eq!(limits.capacity(), 100);
    let (first, last) = (limits.len(), limits.most_used(usize::MAX).len());
    assert_eq!(first, last, "who owes something is counted");
    for key in (0..KEYS + 4).rev().step_by(17) {
        works(limits.at(limits.clock().now()), key);
    }
    use_own(&limits);
    let again = at(way >> 5).import(&limits.export());
    again.expect("what comes out goes in");
}

/// Some keys by a quota of their own, and another quota for the others.
fn use_own<A: KeyedAlgorithm<Quota = Quota>>(limits: &Keyed<A>) {
    let own = limits.with(Quota::per_minute(4)).expect("it fits");
    for key in KEYS..KEYS + 4 {
        let _ = own.try_acquire_n(&key, 2);
    }
    for key in (0..KEYS + 4).rev().step_by(17) {
        works(own, key);
    }
    if limits.set_quota(Quota::per_minute(3).burst(3)).is_err() {
        limits.set_quota(Quota::per_minute(3)).expect("it fits");
    }
    works(own, 1);
}

fn works<A: KeyedAlgorithm>(limits: KeyedView<'_, A>, key: u64) {
    let seen = limits.snapshot(&key);
    assert!(seen.remaining <= seen.limit, "{seen:?}");
    let can = limits.peek(&key).is_ok();
    assert_eq!(can, seen.remaining > 0, "{seen:?}");
    let taken = limits.take_up_to(&key, 2);
    assert!(taken <= seen.remaining.min(2), "{taken} of {seen:?}");
    let _ = limits.try_acquire(&key);
    assert!(limits.refund(&key, 1) <= 1);
    limits.reset(&key);
}

/// `file` in which each nine bytes put a number in a place, and with the checksum that goes with that, as the seed is [0, 0].
fn forged(file: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut forged = file[..file.len() - 8].to_vec();
    let places = forged.len() / 8 - KEPT;
    for change in changes.chunks_exact(9) {
        let place = (KEPT + usize::from(change[0]) % places) * 8;
        forged[place..place + 8].copy_from_slice(&change[1..]);
    }
    // SipHash-1-3 too, with this key.
    let mut hasher = DefaultHasher::new();
    forged[..].hash(&mut hasher);
    forged.extend(hasher.finish().to_le_bytes());
    forged
}
