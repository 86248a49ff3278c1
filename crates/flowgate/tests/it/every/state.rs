//! What was taken survives a restart, at every type.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    ApproximateWindow, Clock, ConcurrencyLimit, DecayingBucket, Denied, DualTokenBucket,
    FixedWindow, Gate, Keyed, LeakyBucket, Limiter, LimiterState, ManualClock, Observed, Quota,
    Refill, SegmentedWindow, SlidingWindow, Snapshot, Timestamp, TokenBucket, Unlimited, WarmUp,
};
use proptest::prelude::*;

const WINDOW: Duration = Duration::from_nanos(1_000);
/// The wall time of exports.
const EXPORTED: Duration = Duration::from_secs(1_800_000_000);

/// One of each type, four in a window.
fn every_type(time: &ManualClock) -> Vec<Box<dyn Limiter>> {
    let quota = Quota::new(4, WINDOW).unwrap();
    let odd = Quota::new(7, Duration::from_nanos(1_009)).unwrap();
    let aligned = Timestamp::from_nanos(250);
    let bucket = |quota: Quota| TokenBucket::builder(quota).clock(time);
    let fixed = |quota| FixedWindow::builder(quota).clock(time);
    let dual = |text: &str| DualTokenBucket::builder(text.parse().unwrap()).clock(time);
    let segmented = |segments| {
        SegmentedWindow::builder(quota)
            .clock(time)
            .segments(segments)
    };
    let warm_up = |quota, warm_up| WarmUp::builder(quota).warm_up(warm_up).clock(time);
    vec![
        Box::new(bucket(quota).build().unwrap()),
        Box::new(bucket(odd.burst(3)).build().unwrap()),
        Box::new(bucket(quota).build().unwrap().pay_after()),
        // Aligned, so that intervals end when they would have ended.
        Box::new(
            bucket(quota)
                .refill(Refill::Interval)
                .align(aligned)
                .build()
                .unwrap(),
        ),
        Box::new(LeakyBucket::builder(quota).clock(time).build().unwrap()),
        Box::new(dual("4/1us; 9/6us").build().unwrap()),
        Box::new(dual("4/1us").build().unwrap()),
        Box::new(fixed(quota).build().unwrap()),
        Box::new(fixed(odd).build().unwrap()),
        Box::new(fixed(quota).align(aligned).build().unwrap()),
        Box::new(SlidingWindow::builder(quota).clock(time).build().unwrap()),
        Box::new(segmented(10).build().unwrap()),
        Box::new(segmented(1).build().unwrap()),
        Box::new(
            ApproximateWindow::builder(quota)
                .clock(time)
                .build()
                .unwrap(),
        ),
        Box::new(warm_up(quota, WINDOW).build().unwrap()),
        Box::new(warm_up(odd, Duration::ZERO).build().unwrap()),
        Box::new(
            DecayingBucket::builder(4, WINDOW)
                .clock(time)
                .build()
                .unwrap(),
        ),
        Box::new(Unlimited::with_clock(time)),
        Box::new(bucket(quota.burst(128)).build().unwrap().striped()),
        Box::new(Observed::new(bucket(quota).build().unwrap())),
    ]
}

const TYPES: usize = 20;
/// The place of the one that is refilled in intervals.
const INTERVAL: usize = 3;
/// The places of those whose windows, segments or intervals are counted from an instant of their clock.
const ALIGNED: [usize; 5] = [INTERVAL, 9, 11, 12, 13];

/// What a program does before a restart, and how long after what came before.
type Step = (u64, u8, u64);

fn steps(length: Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..400_u64, 0..8_u8, 0..6_u64), length)
}

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Everything but waiting.
fn use_up(limiter: &dyn Limiter, time: &ManualClock, steps: &[Step]) {
    for &(pause_ns, what, n) in steps {
        time.advance(ns(pause_ns));
        match what {
            0 => limiter.charge(n),
            1 => drop(limiter.refund(n)),
            // Dropped, it stays reserved.
            2 => drop(limiter.try_reserve_n(n)),
            3 => drop(limiter.take_up_to(n)),
            _ => drop(limiter.try_acquire_n(n)),
        }
    }
}

/// All that a caller can see.
fn told(limiter: &dyn Limiter, n: u64) -> (Option<(Option<Duration>, String)>, u64, Snapshot) {
    let seen = |denied: Denied| (denied.retry_after(), denied.to_string());
    let answer = limiter.try_acquire_n(n).err().map(seen);
    (answer, limiter.available(), limiter.snapshot())
}

/// The limiter of that number, and one in another process that has taken its place: its clock shows what the other does, and
/// `later_ns` more. The restart took `pause_ns`.
fn restarted(
    number: usize,
    before: &[Step],
    pause_ns: u64,
    later_ns: impl Fn(u64) -> u64,
) -> [(Box<dyn Limiter>, ManualClock); 2] {
    let one = |time: &ManualClock| every_type(time).swap_remove(number);
    let time = ManualClock::new();
    let uninterrupted = one(&time);
    use_up(&*uninterrupted, &time, before);
    let state = uninterrupted.export_at(EXPORTED).unwrap();
    // As text, and back.
    let state: LimiterState = state.to_string().parse().unwrap();

    time.advance(ns(pause_ns));
    let new_time = ManualClock::new();
    let restarted = one(&new_time);
    new_time.advance(ns(later_ns(time.now().as_nanos())));
    let imported = restarted.import_at(&state, EXPORTED + ns(pause_ns));
    imported.unwrap_or_else(|error| panic!("{error}: {state}"));
    [(uninterrupted, time), (restarted, new_time)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// The clock of the new process is at another time, but as far in its window or interval.
    #[test]
    fn c1_c2_c3_after_a_restart_a_limiter_answers_as_if_there_had_been_none(
        number in 0..TYPES,
        before in steps(0..24),
        pause_ns in 0..2_500_u64,
        after in steps(1..24),
        windows in 1..9_u64,
    ) {
        let [(old, old_time), (new, new_time)] =
            restarted(number, &before, pause_ns, |now_ns| now_ns + 2_000 * windows);
        for (pause_ns, _, n) in after {
            old_time.advance(ns(pause_ns));
            new_time.advance(ns(pause_ns));
            prop_assert_eq!(told(&*old, n), told(&*new, n), "{} of {:?}", n, old);
        }
    }

    /// Its clock has only begun, and is somewhere in a window: what it cannot tell exactly counts for longer.
    #[test]
    fn c1_after_a_restart_a_limiter_on_a_new_clock_admits_nothing_that_it_would_not_have(
        number in 0..TYPES,
        before in steps(0..24),
        pause_ns in 0..2_500_u64,
        after in steps(1..24),
        up_ns in 0..3_000_u64,
    ) {
        // What is aligned has to be so on both clocks.
        let begun = |now_ns| if ALIGNED.contains(&number) { now_ns % 1_000 } else { up_ns };
        let [(old, old_time), (new, new_time)] = restarted(number, &before, pause_ns, begun);
        for (pause_ns, _, n) in after {
            old_time.advance(ns(pause_ns));
            new_time.advance(ns(pause_ns));
            if new.try_acquire_n(n).is_ok() {
                prop_assert_eq!(old.try_acquire_n(n), Ok(()), "{} of {:?}, not {:?}", n, old, new);
            }
        }
    }

    /// Into a limiter that has been used: both uses count.
    #[test]
    fn c1_an_import_comes_on_top_of_what_was_taken_here(
        number in 0..TYPES,
        there in steps(0..24),
        here in steps(0..24),
    ) {
        // There, tokens flow in at other times than here.
        prop_assume!(number != INTERVAL);
        let one = |time: &ManualClock| every_type(time).swap_remove(number);
        let (time, other_time) = (ManualClock::new(), ManualClock::new());
        let (limiter, other) = (one(&time), one(&other_time));
        use_up(&*limiter, &time, &here);
        use_up(&*other, &other_time, &there);
        let most = limiter.snapshot().limit;
        let taken = |limiter: &dyn Limiter| most - limiter.available();
        let (taken_here, taken_there) = (taken(&*limiter), taken(&*other));
        let state = other.export_at(EXPORTED).unwrap();
        limiter.import_at(&state, EXPORTED).unwrap();
        let both = (taken_here + taken_there).min(most);
        // A limiter of which nothing is known but whether it is free.
        let both = if state.kind() == "WarmUp" { taken_here.max(taken_there) } else { both };
        // Two parts of a token make one.
        let is_whole = ["FixedWindow", "SlidingWindow", "SegmentedWindow"].contains(&state.kind());
        let slack = u64::from(!is_whole);
        prop_assert!(taken(&*limiter) + slack >= both, "{} and {} in {:?}", taken_here, taken_there, limiter);
    }
}

#[test]
fn c1_a_restart_an_hour_later_counts_that_hour() {
    let hour = Duration::from_secs(3_600);
    let quota = Quota::per_day(24);
    let after = |build: &dyn Fn(&ManualClock) -> Box<dyn Limiter>, hours: u32| {
        let (time, new_time) = (ManualClock::new(), ManualClock::new());
        let before = build(&time);
        before.try_acquire_n(10).unwrap();
        time.advance(10 * hour);
        before.try_acquire_n(14).unwrap();
        let state = before.export_at(EXPORTED).unwrap();
        new_time.advance(100 * 24 * hour);
        let restarted = build(&new_time);
        restarted
            .import_at(&state, EXPORTED + hours * hour)
            .unwrap();
        restarted.available()
    };
    let token = |time: &ManualClock| -> Box<dyn Limiter> {
        Box::new(TokenBucket::builder(quota).clock(time).build().unwrap())
    };
    // 14 are missing at the export, as 10 have flowed in.
    assert_eq!(
        [0, 1, 13, 100].map(|hours| after(&token, hours)),
        [10, 11, 23, 24]
    );
    let fixed = |time: &ManualClock| -> Box<dyn Limiter> {
        Box::new(FixedWindow::builder(quota).clock(time).build().unwrap())
    };
    assert_eq!([0, 13, 14].map(|hours| after(&fixed, hours)), [0, 0, 24]);
    let sliding = |time: &ManualClock| -> Box<dyn Limiter> {
        Box::new(SlidingWindow::builder(quota).clock(time).build().unwrap())
    };
    assert_eq!(
        [13, 14, 23, 24].map(|hours| after(&sliding, hours)),
        [0, 10, 10, 24]
    );
}

#[test]
fn c4_a_wall_clock_that_was_set_back_mints_nothing() {
    let time = ManualClock::new();
    for (number, limiter) in every_type(&time).into_iter().enumerate() {
        limiter.charge(4);
        let state = limiter.export_at(EXPORTED).unwrap();
        let available = |unix_time| {
            let restarted = every_type(&time).swap_remove(number);
            restarted.import_at(&state, unix_time).unwrap();
            restarted.available()
        };
        assert_eq!(available(EXPORTED), limiter.available(), "{limiter:?}");
        for unix_time in [Duration::ZERO, EXPORTED - Duration::from_secs(3_600)] {
            assert_eq!(available(unix_time), limiter.available(), "{limiter:?}");
        }
        // And one that was set forward beyond all bounds lets everything flow in.
        let limit = limiter.snapshot().limit;
        assert_eq!(available(Duration::MAX), limit, "{limiter:?}");
    }
}

/// Tokens stay what they are, whatever the rate and the units; windows may be shorter.
#[test]
fn c1_what_was_taken_by_one_quota_counts_by_another() {
    let import = |from: &dyn Limiter, to: &dyn Limiter| {
        to.import_at(&from.export_at(EXPORTED).unwrap(), EXPORTED)
            .map(|()| to.available())
            .map_err(|error| error.to_string())
    };
    let time = ManualClock::new();
    let token = |text: &str| {
        let quota: Quota = text.parse().unwrap();
        TokenBucket::builder(quota).clock(&time).build().unwrap()
    };
    let taken = |limiter: TokenBucket| {
        limiter.try_acquire_n(7).unwrap();
        limiter
    };
    assert_eq!(import(&taken(token("10/h")), &token("12/s")), Ok(5));
    assert_eq!(import(&taken(token("10/h")), &token("5/s")), Ok(0));
    let in_thousandths = Quota::per_hour(10).units_per_token(1_000).unwrap();
    let in_thousandths = TokenBucket::builder(in_thousandths)
        .clock(&time)
        .build()
        .unwrap();
    assert_eq!(import(&taken(token("10/h")), &in_thousandths), Ok(3_000));

    let fixed = |text: &str| {
        let quota: Quota = text.parse().unwrap();
        FixedWindow::builder(quota).clock(&time).build().unwrap()
    };
    let before = fixed("10/min");
    before.try_acquire_n(7).unwrap();
    assert_eq!(import(&before, &fixed("12/h")), Ok(5));
    let sliding = |text: &str| {
        let quota: Quota = text.parse().unwrap();
        SlidingWindow::builder(quota).clock(&time).build().unwrap()
    };
    let before = sliding("10/min");
    before.try_acquire_n(7).unwrap();
    assert_eq!(import(&before, &sliding("12/s")), Ok(5));
    assert_eq!(import(&before, &sliding("4/s")), Ok(0));
    assert_eq!(
        import(&before, &sliding("10/h")),
        Err("cannot be imported: a window in nanoseconds is 60000000000 there, and has to be at least 3600000000000".to_owned())
    );
    let segmented = |text: &str, segments| {
        let quota: Quota = text.parse().unwrap();
        let builder = SegmentedWindow::builder(quota).clock(&time);
        builder.segments(segments).build().unwrap()
    };
    let before = segmented("10/min", 6);
    before.try_acquire_n(7).unwrap();
    assert_eq!(import(&before, &segmented("10/min", 60)), Ok(3));
    let warm_up = |seconds| {
        let builder = WarmUp::builder(Quota::per_second(10)).clock(&time);
        builder
            .warm_up(Duration::from_secs(seconds))
            .build()
            .unwrap()
    };
    assert_eq!(
        import(&warm_up(1), &warm_up(2)),
        Err("cannot be imported: a warm-up in nanoseconds is 1000000000 there, and has to be 2000000000".to_owned())
    );
}

/// More admissions than the importer's ring has room for.
#[test]
fn c1_a_smaller_ring_forgets_nothing_that_counts() {
    let time = ManualClock::new();
    let sliding = |count| {
        let quota = Quota::new(count, WINDOW).unwrap();
        SlidingWindow::builder(quota).clock(&time).build().unwrap()
    };
    let before = sliding(40);
    for _ in 0..40 {
        before.try_acquire().unwrap();
        time.advance(ns(10));
    }
    let after = sliding(3);
    after
        .import_at(&before.export_at(EXPORTED).unwrap(), EXPORTED)
        .unwrap();
    // The last were at 370, 380 and 390 ns.
    let available = [1_369, 1_370, 1_380, 1_390].map(|ns| {
        time.set(Timestamp::from_nanos(ns));
        after.available()
    });
    assert_eq!(available, [0, 1, 2, 3]);
}

/// `body` with its checksum.
fn sealed(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    format!("{body} {:016x}", hasher.finish())
}

#[test]
fn an_export_that_is_cut_or_changed_or_of_another_kind_is_refused_by_name() {
    let text = TokenBucket::new(Quota::per_second(10)).export().to_string();
    let parsed: LimiterState = text.parse().unwrap();
    assert_eq!(parsed.to_string(), text);
    let body = text.rsplit_once(' ').unwrap().0;
    assert_eq!(sealed(body), text, "the checksum is computed as there");

    let error = |text: &str| match text.parse::<LimiterState>() {
        Err(error) => error.to_string(),
        Ok(state) => {
            let limiter = TokenBucket::new(Quota::per_second(10));
            let untouched = limiter.available();
            let error = limiter.import(&state).unwrap_err();
            assert_eq!(limiter.available(), untouched);
            error.to_string()
        }
    };
    for length in 0..text.len() {
        error(&text[..length]);
    }
    for place in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[place] ^= 1;
        error(&String::from_utf8(changed).unwrap());
    }
    let cases = [
        ("", "it does not begin with `flowgate-state/`"),
        (
            "flowgate-state/2 Later 1 2",
            "it is of another version than 1",
        ),
        (
            &text[..40],
            "its checksum does not fit, so it is cut off or changed",
        ),
        (
            &sealed("flowgate-state/1 TokenBucket"),
            "it has not five parts",
        ),
        (
            &sealed("flowgate-state/1 TokenBucket -1 1,1,1"),
            "its time is not a number of nanoseconds",
        ),
        (
            &sealed("flowgate-state/1 TokenBucket 1 1,x,1"),
            "one of its numbers is none",
        ),
        (
            &sealed("flowgate-state/1 TokenBucket 1 1,1"),
            "it has no number 3",
        ),
        (
            &sealed("flowgate-state/1 TokenBucket 1 1,1,1,1"),
            "it has 4 numbers, and 3 are known",
        ),
        (
            &sealed("flowgate-state/1 TokenBucket 1 0,1,1"),
            "number 1 of 0 is out of range: 1 to 4294967296",
        ),
        (
            &sealed("flowgate-state/1 WarmUp 1 1"),
            "it is of a WarmUp, not of a TokenBucket",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(
            error(text),
            format!("cannot be imported: {expected}"),
            "{text}"
        );
    }
}

#[test]
fn a_gate_keeps_its_limiters_by_name() {
    let time = ManualClock::new();
    let token = |quota| TokenBucket::builder(quota).clock(&time).build().unwrap();
    let gate = || {
        let site = Gate::builder().limit("all", token(Quota::per_day(100)));
        Gate::builder()
            .limit("pace", token(Quota::per_second(10)))
            .limit(
                "slots",
                ConcurrencyLimit::builder(3).clock(&time).build().unwrap(),
            )
            .limit("site", site.build().unwrap())
            .build()
            .unwrap()
    };
    let before = gate();
    drop(before.try_acquire_n(3).unwrap());
    let states = before.export_at(EXPORTED);
    let names: Vec<&str> = states.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["pace", "site/all"]);

    let after = gate();
    let states = || states.iter().map(|(name, state)| (&**name, state));
    after
        .import_at(states(), EXPORTED + Duration::from_millis(100))
        .unwrap();
    assert_eq!(after.inspect("pace", TokenBucket::available), Some(8));
    let site = |site: &Gate| site.inspect("all", TokenBucket::available);
    assert_eq!(after.inspect("site", site), Some(Some(97)));

    let error = |name: &'static str, state| {
        let imported = after.import_at([(name, state)], EXPORTED);
        imported.unwrap_err().to_string()
    };
    let state = states().next().unwrap().1;
    for name in ["slots", "other", "site", "site/other", "pace/all"] {
        let expected = format!("cannot be imported: the gate has no rate limiter named '{name}'");
        assert_eq!(error(name, state), expected);
    }
    let window = FixedWindow::new(Quota::per_second(1)).unwrap().export();
    assert_eq!(
        error("pace", &window),
        "cannot be imported: of the limit 'pace', it is of a FixedWindow, not of a TokenBucket"
    );
}

#[test]
fn a_key_is_kept_with_its_table() {
    let keys = Keyed::token_bucket(Quota::per_hour(10))
        .capacity(10)
        .unwrap();
    let key = keys.key("a");
    let key: &dyn Limiter = &key;
    assert_eq!(key.export(), None);
    let state = TokenBucket::new(Quota::per_hour(10)).export();
    assert_eq!(
        key.import(&state).unwrap_err().to_string(),
        "cannot be imported: this type of limiter has no state of its own"
    );
}

/// Those who wait are served as if the units had been taken before them.
#[tokio::test(start_paused = true)]
async fn c6_an_import_delays_those_who_wait() {
    let time = ManualClock::new();
    let token = || {
        TokenBucket::builder(Quota::per_second(1))
            .clock(&time)
            .build()
            .unwrap()
    };
    let (before, after) = (token(), Arc::new(token()));
    before.try_acquire().unwrap();
    after.try_acquire().unwrap();
    let waiter = tokio::spawn(after.acquire_owned());
    tokio::task::yield_now().await;
    assert_eq!(after.queue().len(), 1);
    after
        .import_at(&before.export_at(EXPORTED).unwrap(), EXPORTED)
        .unwrap();
    time.advance(Duration::from_millis(1_999));
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    time.advance(Duration::from_millis(1));
    waiter.await.unwrap().unwrap();
}

/// A window whose admissions were before the process began.
#[test]
fn c2_a_clock_with_an_earlier_origin_knows_what_was_before_the_process() {
    let quota = Quota::new(4, Duration::from_secs(1_000)).unwrap();
    let time = ManualClock::new();
    let before = SlidingWindow::builder(quota).clock(&time).build().unwrap();
    before.try_acquire_n(4).unwrap();
    let state = before.export_at(EXPORTED).unwrap();
    let clock = Clock::system_since(Duration::from_secs(1_000));
    let after = SlidingWindow::builder(quota).clock(clock).build().unwrap();
    let restarted = EXPORTED + Duration::from_secs(600);
    after.import_at(&state, restarted).unwrap();
    // By `Clock::system`, it would be up to 1,000 s.
    let wait = after.try_acquire().unwrap_err().retry_after().unwrap();
    assert!(wait <= Duration::from_secs(400), "{wait:?}");
}

#[cfg(feature = "serde")]
#[test]
fn serde_uses_the_text_form_of_a_state() {
    let state = TokenBucket::new(Quota::per_second(10)).export();
    let json = serde_json::to_string(&state).unwrap();
    assert_eq!(json, format!("\"{state}\""));
    assert_eq!(serde_json::from_str::<LimiterState>(&json).unwrap(), state);
    let error = serde_json::from_str::<LimiterState>("\"x\"").unwrap_err();
    let expected = "cannot be imported: it does not begin with `flowgate-state/`";
    assert!(error.to_string().starts_with(expected), "{error}");
}
