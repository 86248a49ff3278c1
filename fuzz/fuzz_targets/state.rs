//! Whatever the state of a limiter says, with a checksum that fits, it is refused or makes a limiter that works.
//!
//! `cargo +nightly fuzz run state`
#![no_main]

use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use flowgate::{
    ApproximateWindow, DecayingBucket, DualTokenBucket, FixedWindow, LeakyBucket, Limiter,
    LimiterState, ManualClock, Quota, Refill, SegmentedWindow, SlidingWindow, TokenBucket, WarmUp,
};
use libfuzzer_sys::fuzz_target;

/// The wall time of exports.
const EXPORTED: Duration = Duration::from_secs(1_800_000_000);

// First of what kind, and when; then which numbers of a genuine export become others. Or all of it is the text.
fuzz_target!(|written: &[u8]| {
    if let Ok(text) = std::str::from_utf8(written)
        && let Ok(state) = text.parse::<LimiterState>()
    {
        assert_eq!(state.to_string().parse(), Ok(state));
    }
    let Some(([kind, way, pause], changes)) = written.split_first_chunk() else {
        return;
    };
    let time = ManualClock::new();
    let limiter = limiter(*kind, &time);
    time.advance(instant(*way));
    limiter.charge(u64::from(way >> 4));
    time.advance(Duration::from_nanos((*pause).into()));
    limiter.charge(u64::from(way >> 4));
    let genuine = limiter.export_at(EXPORTED).expect("it has a state");

    let time = ManualClock::new();
    time.advance(instant(way >> 2));
    let limiter = self::limiter(*kind, &time);
    let state: LimiterState = forged(&genuine, changes)
        .parse()
        .expect("it is well formed");
    let imported = limiter.import_at(&state, EXPORTED + instant(way >> 4));
    assert!(
        imported.is_ok() || !changes.is_empty(),
        "{imported:?}: {genuine}"
    );
    works(&*limiter, &time);
    let again = limiter.export_at(EXPORTED).expect("it has a state");
    let same = self::limiter(*kind, &time);
    same.import_at(&again, EXPORTED)
        .expect("what comes out goes in");
    works(&*same, &time);
});

fn limiter(kind: u8, time: &ManualClock) -> Box<dyn Limiter> {
    let quota = Quota::per_minute(10);
    let fits = "the quota is of its kind";
    match kind % 9 {
        0 => Box::new(TokenBucket::builder(quota).clock(time).build().expect(fits)),
        1 => {
            let bucket = TokenBucket::builder(quota)
                .clock(time)
                .refill(Refill::Interval);
            Box::new(bucket.build().expect(fits).pay_after())
        }
        2 => Box::new(LeakyBucket::builder(quota).clock(time).build().expect(fits)),
        3 => {
            let quotas = "10/min; 1000/day".parse().expect("it is well formed");
            Box::new(
                DualTokenBucket::builder(quotas)
                    .clock(time)
                    .build()
                    .expect(fits),
            )
        }
        4 => Box::new(FixedWindow::builder(quota).clock(time).build().expect(fits)),
        5 => Box::new(
            SlidingWindow::builder(quota)
                .clock(time)
                .build()
                .expect(fits),
        ),
        6 => Box::new(
            SegmentedWindow::builder(quota)
                .clock(time)
                .build()
                .expect(fits),
        ),
        7 => Box::new(
            ApproximateWindow::builder(quota)
                .clock(time)
                .build()
                .expect(fits),
        ),
        _ => match kind / 9 % 2 {
            0 => Box::new(WarmUp::builder(quota).clock(time).build().expect(fits)),
            _ => {
                let half_life = Duration::from_secs(60);
                Box::new(
                    DecayingBucket::builder(10, half_life)
                        .clock(time)
                        .build()
                        .expect(fits),
                )
            }
        },
    }
}

fn instant(which: u8) -> Duration {
    match which % 4 {
        0 => Duration::ZERO,
        1 => Duration::from_secs(7),
        2 => Duration::from_secs(1 << 33),
        _ => Duration::from_nanos(u64::MAX),
    }
}

/// At now and later: what it says it holds can be had, and no more.
fn works(limiter: &dyn Limiter, time: &ManualClock) {
    for pause_s in [0, 1, 60, 100_000] {
        time.advance(Duration::from_secs(pause_s));
        let seen = limiter.snapshot();
        assert!(seen.remaining <= seen.limit, "{seen:?}");
        assert!(limiter.peek().is_ok() || seen.remaining == 0, "{seen:?}");
        let taken = limiter.take_up_to(2);
        assert_eq!(taken, seen.remaining.min(2), "{seen:?}");
        let _ = limiter.try_acquire();
        assert!(limiter.refund(1) <= 1);
    }
}

/// The state in which each seventeen bytes put a number in a place, or after the last one.
fn forged(genuine: &LimiterState, changes: &[u8]) -> String {
    let text = genuine.to_string();
    let (body, _) = text.rsplit_once(' ').expect("it has a checksum");
    let (head, numbers) = body.rsplit_once(' ').expect("it has numbers");
    let mut numbers: Vec<i128> = numbers
        .split(',')
        .filter_map(|number| number.parse().ok())
        .collect();
    for change in changes.chunks_exact(17) {
        let number = i128::from_le_bytes(change[1..].try_into().expect("there are sixteen"));
        // Mostly small ones, as most are.
        let number = number >> (change[0] & 0x78);
        match usize::from(change[0] & 7) {
            place if place < numbers.len() => numbers[place] = number,
            _ => numbers.push(number),
        }
    }
    let numbers: Vec<String> = numbers.iter().map(i128::to_string).collect();
    let body = format!("{head} {}", numbers.join(","));
    // SipHash-1-3 too, with no key.
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    format!("{body} {:016x}", hasher.finish())
}
