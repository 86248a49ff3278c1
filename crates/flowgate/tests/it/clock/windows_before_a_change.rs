//! Windows at a time before a change of quota: both quotas have to admit it, the one before the change at that time, and the
//! current one at the change.

use core::time::Duration;

use flowgate::{
    Denied, FixedWindow, Keyed, KeyedAlgorithm, KeyedBuilder, Limiter, ManualClock, Quota,
    SegmentedWindow, SlidingWindow, Timestamp,
};

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn second(second: u64) -> Timestamp {
    ms(second * 1_000)
}

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn fixed(text: &str) -> FixedWindow {
    let builder = FixedWindow::builder(quota(text)).clock(ManualClock::new());
    builder.build().unwrap()
}

fn aligned(text: &str, begins: Timestamp) -> FixedWindow {
    let builder = FixedWindow::builder(quota(text)).clock(ManualClock::new());
    builder.align(begins).build().unwrap()
}

fn segmented(text: &str, segments: u64) -> SegmentedWindow {
    let builder = SegmentedWindow::builder(quota(text)).clock(ManualClock::new());
    builder.segments(segments).build().unwrap()
}

fn sliding(text: &str) -> SlidingWindow {
    let builder = SlidingWindow::builder(quota(text)).clock(ManualClock::new());
    builder.max_limit(100).build().unwrap()
}

fn wait<T: core::fmt::Debug>(answer: Result<T, Denied>) -> Duration {
    let denied = answer.expect_err("it has to be refused");
    denied.retry_after().expect("a time is known")
}

/// `limiter` refuses `n` at `at`, and until `due`.
fn refused_until(limiter: &dyn Limiter, at: Timestamp, n: u64, due: Timestamp) {
    let told = wait(limiter.try_acquire_n_at(at, n));
    assert_eq!(at + told, due);
    let early = Timestamp::from_nanos(due.as_nanos() - 1);
    let answer = limiter.try_acquire_n_at(early, n);
    assert!(answer.is_err(), "a nanosecond before {due:?}");
    assert_eq!(limiter.try_acquire_n_at(due, n), Ok(()), "at {due:?}");
}

/// The shortest history that the conformance suite found.
#[test]
fn c1_c4_an_aligned_fixed_window_is_as_long_as_before_until_the_change() {
    let window = aligned("7/day", Timestamp::from_nanos(1_234_567_891));
    window.at(second(0)).try_acquire().unwrap();
    window.at(second(50_000)).set_quota(quota("7/s")).unwrap();
    window.at(second(40_000)).try_acquire_n(7).unwrap();
    assert!(window.at(second(43_000)).try_acquire().is_err());
}

#[test]
fn c1_c4_a_fixed_window_is_as_long_as_before_until_the_change() {
    let window = fixed("3/h");
    window.at(second(5_000)).set_quota(quota("3/s")).unwrap();
    assert_eq!(window.at(second(4_000)).take_up_to(9), 3);
    assert_eq!(window.at(second(4_900)).take_up_to(9), 0);
    // By the current quota they count at the change, and only there.
    assert_eq!(window.at(second(5_000)).available(), 0);
    assert_eq!(window.at(second(5_001)).available(), 3);
}

#[test]
fn c1_c4_a_fixed_window_has_its_smaller_limit_until_the_change() {
    let window = fixed("3/h");
    window.at(second(1)).try_acquire_n(2).unwrap();
    window.at(second(9)).set_quota(quota("8/h")).unwrap();
    assert_eq!(window.at(second(5)).available(), 1);
    assert_eq!(window.at(second(5)).take_up_to(9), 1);
    assert_eq!(window.at(second(9)).take_up_to(9), 5);
}

#[test]
fn c1_c4_a_fixed_window_has_its_smaller_limit_from_the_change_on() {
    let window = fixed("8/s");
    window.at(ms(9_500)).set_quota(quota("3/s")).unwrap();
    assert_eq!(window.at(ms(9_200)).take_up_to(9), 3);
    let due = ms(10_500);
    assert_eq!(
        wait(window.at(ms(9_200)).try_acquire()),
        Duration::from_millis(1_300)
    );
    assert_eq!(window.at(ms(10_499)).available(), 0);
    assert_eq!(window.at(due).available(), 3);
}

#[test]
fn c3_c4_a_fixed_window_tells_the_least_wait_from_before_a_change() {
    // Until the window before the change ends.
    let window = fixed("3/s");
    window.at(ms(5_200)).try_acquire_n(3).unwrap();
    window.at(second(9)).set_quota(quota("8/s")).unwrap();
    refused_until(&window, ms(5_100), 1, ms(6_200));
    // Until the change: more than the limit before, or a window that lasts longer.
    let window = fixed("3/h");
    window.at(ms(5_200)).try_acquire_n(3).unwrap();
    window.at(second(9)).set_quota(quota("8/s")).unwrap();
    refused_until(&window, ms(5_100), 1, second(9));
    let window = fixed("3/s");
    window.at(second(9)).set_quota(quota("8/s")).unwrap();
    refused_until(&window, second(5), 4, second(9));
    assert!(
        window
            .at(second(5))
            .try_acquire_n(9)
            .unwrap_err()
            .is_never()
    );
    // Until the window at the change ends.
    let window = fixed("8/s");
    window.at(ms(8_500)).try_acquire_n(3).unwrap();
    window.at(second(9)).set_quota(quota("3/s")).unwrap();
    refused_until(&window, ms(8_600), 1, ms(9_500));
}

/// A refusal is until the change before, and no longer than that needs.
#[test]
fn c3_c4_before_two_changes_a_fixed_window_has_nothing() {
    let window = fixed("3/s");
    window.at(second(5)).set_quota(quota("3/min")).unwrap();
    window.at(second(9)).set_quota(quota("3/h")).unwrap();
    assert_eq!(window.at(ms(4_999)).available(), 0);
    assert_eq!(
        window.at(ms(4_999)).snapshot().reset_after,
        Duration::from_millis(1)
    );
    refused_until(&window, second(4), 2, second(5));
    assert_eq!(window.at(second(5)).available(), 1);
}

#[test]
fn c4_a_fixed_window_counts_in_the_units_of_before_until_the_change() {
    let whole = |text: &str, units| quota(text).units_per_token(units).unwrap();
    let builder = FixedWindow::builder(whole("3/h", 10)).clock(ManualClock::new());
    let window = builder.build().unwrap();
    window.at(second(1)).try_acquire_n(15).unwrap();
    window.at(second(9)).set_quota(whole("5/h", 4)).unwrap();
    // 15 tenths are left of before, which are 6 quarters; 14 quarters of now.
    assert_eq!(window.at(second(5)).available(), 6);
    window.at(second(5)).try_acquire_n(1).unwrap();
    assert_eq!(window.at(second(5)).available(), 4);
    assert_eq!(window.at(second(9)).available(), 13);
}

#[test]
fn c4_a_fixed_window_that_is_aligned_anew_is_not_opened_twice_before() {
    let window = aligned("3/h", second(0));
    window.at(second(1_000)).try_acquire_n(3).unwrap();
    assert_eq!(window.at(second(4_000)).take_up_to(9), 3);
    let time = ManualClock::new();
    let window = FixedWindow::builder(quota("3/h")).clock(&time);
    let window = window.align(second(0)).build().unwrap();
    time.set(second(5_000));
    window.align(second(4_500));
    time.set(second(4_000));
    assert_eq!(window.take_up_to(9), 3);
    time.set(second(4_800));
    assert_eq!(window.take_up_to(9), 0);
}

/// On a clock that is set back, a change is not before what was decided.
#[test]
fn c1_c4_a_change_of_a_fixed_window_is_at_the_latest_time_of_the_clock() {
    let time = ManualClock::new();
    let window = FixedWindow::builder(quota("3/h")).clock(&time);
    let window = window.build().unwrap();
    time.set(second(100));
    window.try_acquire_n(2).unwrap();
    time.set(second(1_000));
    assert_eq!(window.available(), 1);
    time.set(second(10));
    window.set_quota(quota("8/h")).unwrap();
    time.set(second(900));
    assert_eq!(window.take_up_to(9), 1);
}

/// Of the quota with windows of a second, and 300,000 in each so that stripes are filled.
#[test]
fn c1_c4_a_striped_fixed_window_is_as_long_as_before_until_the_change() {
    let time = ManualClock::new();
    let window = FixedWindow::builder(quota("300000/h")).clock(&time);
    let striped = window.build().unwrap().striped();
    assert!(striped.is_shared());
    time.set(second(5_000));
    let window = striped.get_ref();
    window.set_quota(quota("300000/s")).unwrap();
    time.set(second(4_000));
    let admitted = (0..300_001)
        .filter(|_| striped.try_acquire().is_ok())
        .count();
    assert_eq!(admitted, 300_000);
    time.set(second(4_900));
    assert!(striped.try_acquire().is_err());
    time.set(second(5_001));
    assert_eq!(window.available(), 300_000);
}

/// What somebody is granted in the queue counts as any other admission.
#[test]
fn c3_c4_a_wait_at_a_fixed_window_before_a_change_is_until_the_quota_before_admits_it() {
    let time = ManualClock::new();
    let window = FixedWindow::builder(quota("3/s")).clock(&time);
    let window = window.build().unwrap();
    time.set(second(5));
    window.try_acquire_n(3).unwrap();
    time.set(second(9));
    window.set_quota(quota("8/s")).unwrap();
    time.set(ms(5_500));
    let wait = window
        .acquire()
        .n(2)
        .within(Duration::from_millis(499))
        .block();
    assert!(wait.is_err());
    time.set(second(6));
    window.acquire().n(2).block().unwrap();
    assert_eq!(window.available(), 1);
    assert_eq!(window.at(second(9)).available(), 6);
}

/// The shortest histories that the conformance suite found.
#[test]
fn c1_c4_a_segmented_window_has_what_it_counted_until_the_change() {
    let window = segmented("9/s", 10);
    window.at(second(0)).set_quota(quota("8/h")).unwrap();
    window.at(ms(4_319_800)).try_acquire().unwrap();
    window.at(second(4_320)).try_acquire_n(7).unwrap();
    window.at(second(5_000)).set_quota(quota("8/s")).unwrap();
    assert_eq!(window.at(ms(4_319_900)).take_up_to(1), 0);

    let window = segmented("9/s", 1);
    window.at(second(0)).set_quota(quota("8/h")).unwrap();
    window.at(ms(7_199_800)).try_acquire().unwrap();
    window.at(second(7_200)).try_acquire_n(7).unwrap();
    window.at(second(8_000)).set_quota(quota("8/s")).unwrap();
    assert_eq!(window.at(ms(7_199_900)).take_up_to(1), 0);
}

/// Another one.
#[test]
fn c1_c4_before_two_changes_a_segmented_window_has_nothing() {
    let window = segmented("9/s", 1);
    window.at(ms(1_400)).try_acquire().unwrap();
    window.at(ms(1_500)).try_acquire_n(5).unwrap();
    window.at(ms(2_000)).try_acquire().unwrap();
    window.at(ms(0)).try_acquire().unwrap();
    window.at(ms(2_100)).try_acquire().unwrap();
    window.at(second(5)).set_quota(quota("3/2s")).unwrap();
    window.at(second(10_000)).set_quota(quota("2/s")).unwrap();
    assert_eq!(window.at(ms(1_400)).available(), 0);
    refused_until(&window, ms(1_400), 1, second(5));
}

/// A caller between the last admission and the change, and one in the segment of the change.
#[test]
fn c1_c4_a_segmented_window_is_as_long_as_before_until_the_change() {
    for segments in [1, 7, 10] {
        let window = segmented("8/h", segments);
        window.at(second(4_000)).try_acquire_n(6).unwrap();
        window.at(second(5_000)).set_quota(quota("8/s")).unwrap();
        assert_eq!(window.at(second(4_500)).take_up_to(9), 2, "{segments}");
        assert_eq!(window.at(ms(4_999_999)).take_up_to(9), 0, "{segments}");
        // By the current quota those two count at the change, and only there. A segment of an hour still counts there.
        let left = if segments == 1 { 0 } else { 6 };
        assert_eq!(window.at(second(5_000)).available(), left, "{segments}");
        assert_eq!(window.at(second(5_003)).available(), 8, "{segments}");
    }
}

#[test]
fn c1_c4_a_segmented_window_has_its_smaller_limit_before_and_after_the_change() {
    let window = segmented("3/h", 10);
    window.at(second(1)).try_acquire_n(2).unwrap();
    window.at(second(9)).set_quota(quota("8/h")).unwrap();
    assert_eq!(window.at(second(5)).take_up_to(9), 1);
    assert_eq!(window.at(second(9)).take_up_to(9), 5);

    let window = segmented("8/s", 10);
    window.at(ms(9_500)).set_quota(quota("3/s")).unwrap();
    assert_eq!(window.at(ms(9_200)).take_up_to(9), 3);
    refused_until(&window, ms(9_200), 1, ms(10_600));
}

/// Segment by segment, as before.
#[test]
fn c2_c3_c4_a_segmented_window_tells_the_least_wait_from_before_a_change() {
    let taken = || {
        let window = segmented("5/10s", 10);
        for at in [3, 5, 8] {
            window.at(second(at)).try_acquire().unwrap();
        }
        window.at(second(40)).set_quota(quota("8/20s")).unwrap();
        window
    };
    assert_eq!(taken().at(second(2)).available(), 2);
    assert_eq!(taken().at(second(8)).available(), 2);
    assert_eq!(taken().at(second(14)).available(), 3);
    assert_eq!(taken().at(ms(15_999)).available(), 3);
    assert_eq!(taken().at(second(16)).available(), 4);
    refused_until(&taken(), second(7), 3, second(14));
    refused_until(&taken(), second(7), 5, second(19));
    // More than the limit before.
    refused_until(&taken(), second(7), 6, second(40));
    assert!(
        taken()
            .at(second(7))
            .try_acquire_n(9)
            .unwrap_err()
            .is_never()
    );
    let reset_after = taken().at(second(7)).snapshot().reset_after;
    assert_eq!(reset_after, Duration::from_secs(33));

    // What such callers take leaves as anything else.
    let window = taken();
    window.at(second(20)).try_acquire_n(4).unwrap();
    window.at(second(22)).try_acquire().unwrap();
    refused_until(&window, second(21), 3, second(31));
    assert_eq!(window.at(second(32)).available(), 0);
}

#[test]
fn c1_c4_a_change_of_a_segmented_window_is_at_the_latest_time_of_the_clock() {
    let time = ManualClock::new();
    let window = SegmentedWindow::builder(quota("3/h")).clock(&time);
    let window = window.build().unwrap();
    time.set(second(100));
    window.try_acquire_n(2).unwrap();
    time.set(second(300));
    assert_eq!(window.available(), 1);
    time.set(second(10));
    window.set_quota(quota("8/h")).unwrap();
    time.set(second(200));
    assert_eq!(window.take_up_to(9), 1);
}

#[test]
fn c3_c4_a_wait_at_a_segmented_window_before_a_change_is_until_the_quota_before_admits_it() {
    let time = ManualClock::new();
    let window = SegmentedWindow::builder(quota("3/s")).clock(&time);
    let window = window.build().unwrap();
    time.set(second(5));
    window.try_acquire_n(3).unwrap();
    time.set(second(9));
    window.set_quota(quota("8/s")).unwrap();
    time.set(ms(5_500));
    let wait = window.acquire().n(2).within(Duration::from_millis(599));
    assert!(wait.block().is_err());
    time.set(ms(6_100));
    window.acquire().n(2).block().unwrap();
    assert_eq!(window.available(), 1);
    assert_eq!(window.at(second(9)).available(), 6);
}

/// A change to the same segments keeps all sums.
#[test]
fn c1_c2_c4_a_segmented_window_with_another_limit_has_its_segments_before_the_change() {
    let window = segmented("5/s", 10);
    window.at(ms(1_000)).try_acquire_n(2).unwrap();
    window.at(ms(1_500)).try_acquire_n(3).unwrap();
    window.at(ms(2_450)).set_quota(quota("9/s")).unwrap();
    assert_eq!(window.at(ms(2_050)).available(), 0);
    assert_eq!(window.at(ms(2_100)).available(), 2);
    window.at(ms(2_100)).try_acquire_n(2).unwrap();
    assert_eq!(window.at(ms(2_449)).available(), 0);
    assert_eq!(window.at(ms(2_450)).available(), 4);
    // Recorded at the change, in the segment from 2.4 s to 2.5 s.
    assert_eq!(window.at(ms(3_499)).available(), 7);
    assert_eq!(window.at(ms(3_500)).available(), 9);
}

#[test]
fn c9_what_is_kept_for_earlier_times_is_taken_by_the_first_change() {
    let window = segmented("5/s", 10);
    let built = window.bytes();
    for limit in 1..9 {
        let quota = Quota::per_second(limit);
        window.at(second(limit)).set_quota(quota).unwrap();
        assert_eq!(window.bytes(), built + 12 * 16);
        window.at(second(limit)).try_acquire().unwrap();
    }
}

/// The shortest histories that the conformance suite found.
#[test]
fn c1_c4_a_sliding_window_is_as_long_as_before_until_the_change() {
    let window = sliding("88/s");
    window.at(second(0)).set_quota(quota("8/h")).unwrap();
    window.at(second(52_000)).try_acquire_n(5).unwrap();
    window.at(second(55_000)).try_acquire().unwrap();
    window.at(second(60_000)).set_quota(quota("4/s")).unwrap();
    assert_eq!(window.at(second(50_000)).take_up_to(3), 2);
    // Once something has been admitted since the change, that is the time.
    window.at(second(60_002)).try_acquire().unwrap();
    assert_eq!(window.at(second(50_000)).take_up_to(9), 3);
}

#[test]
fn c1_c4_a_sliding_window_has_its_smaller_limit_before_and_after_the_change() {
    let window = sliding("3/h");
    window.at(second(1)).try_acquire_n(2).unwrap();
    window.at(second(9)).set_quota(quota("8/h")).unwrap();
    assert_eq!(window.at(second(5)).take_up_to(9), 1);
    assert_eq!(window.at(second(9)).take_up_to(9), 5);

    let window = sliding("8/s");
    window.at(ms(9_500)).set_quota(quota("3/s")).unwrap();
    assert_eq!(window.at(ms(9_200)).take_up_to(9), 3);
    refused_until(&window, ms(9_200), 1, ms(10_200));
}

#[test]
fn c2_c3_c4_a_sliding_window_tells_the_least_wait_from_before_a_change() {
    let taken = || {
        let window = sliding("5/10s");
        for at in [3, 5, 8] {
            window.at(second(at)).try_acquire().unwrap();
        }
        window.at(second(40)).set_quota(quota("8/10s")).unwrap();
        window
    };
    assert_eq!(taken().at(second(2)).available(), 2);
    assert_eq!(taken().at(second(13)).available(), 3);
    refused_until(&taken(), second(7), 3, second(13));
    refused_until(&taken(), second(7), 5, second(18));
    refused_until(&taken(), second(7), 6, second(40));
    assert!(
        taken()
            .at(second(7))
            .try_acquire_n(9)
            .unwrap_err()
            .is_never()
    );
    let reset_after = taken().at(second(7)).snapshot().reset_after;
    assert_eq!(reset_after, Duration::from_secs(33));
}

#[test]
fn c1_c4_before_two_changes_a_sliding_window_has_nothing() {
    let window = sliding("3/s");
    window.at(second(5)).set_quota(quota("3/min")).unwrap();
    window.at(second(9)).set_quota(quota("3/h")).unwrap();
    assert_eq!(window.at(ms(4_999)).available(), 0);
    refused_until(&window, second(4), 2, second(5));
    assert_eq!(window.at(second(5)).available(), 1);
}

#[test]
fn c3_c4_a_wait_at_a_sliding_window_before_a_change_is_until_the_quota_before_admits_it() {
    let time = ManualClock::new();
    let window = SlidingWindow::builder(quota("3/s")).clock(&time);
    let window = window.max_limit(8).build().unwrap();
    time.set(second(5));
    window.try_acquire_n(3).unwrap();
    time.set(second(9));
    window.set_quota(quota("8/s")).unwrap();
    time.set(ms(5_500));
    let wait = window.acquire().n(2).within(Duration::from_millis(499));
    assert!(wait.block().is_err());
    time.set(second(6));
    window.acquire().n(2).block().unwrap();
    assert_eq!(window.available(), 1);
}

/// A table on a clock at `at`, with a quota that is replaced by `new` then.
fn keyed<A: KeyedAlgorithm<Quota = Quota>>(
    builder: KeyedBuilder<A>,
    at: u64,
    new: &str,
) -> (ManualClock, Keyed<A>) {
    let time = ManualClock::new();
    time.set(second(at));
    let limits = builder.clock(&time).seed([1, 2]).capacity(100).unwrap();
    limits.set_quota(quota(new)).unwrap();
    (time, limits)
}

/// What `key` takes, up to 9, on a clock that is set back to `at`.
fn back_at<A: KeyedAlgorithm<Quota = Quota>>(
    time: &ManualClock,
    limits: &Keyed<A>,
    at: u64,
) -> u64 {
    time.set(second(at));
    limits.take_up_to("key", 9)
}

#[test]
fn c1_c4_c7_keyed_windows_have_their_smaller_limit_before_and_after_the_change() {
    for (old, new) in [("3/s", "9/s"), ("9/s", "3/s")] {
        let (time, limits) = keyed(Keyed::fixed_window(quota(old)), 5, new);
        assert_eq!(back_at(&time, &limits, 1), 3, "{old}");
        let (time, limits) = keyed(Keyed::segmented_window(quota(old)), 5, new);
        assert_eq!(back_at(&time, &limits, 1), 3, "{old}");
        assert_eq!(back_at(&time, &limits, 0), 0, "{old}");
    }
}

#[test]
fn c1_c4_c7_a_keyed_fixed_window_is_as_long_as_before_until_the_change() {
    let (time, limits) = keyed(Keyed::fixed_window(quota("7/day")), 50_000, "7/s");
    assert_eq!(back_at(&time, &limits, 40_000), 7);
    assert_eq!(back_at(&time, &limits, 43_000), 0);
}

#[test]
fn c3_c4_c7_keyed_windows_tell_the_least_wait_from_before_a_change() {
    fn told<A: KeyedAlgorithm<Quota = Quota>>(limits: &Keyed<A>, n: u64) -> u64 {
        wait(limits.try_acquire_n("key", n)).as_secs()
    }
    // Until the change, or until the window ends.
    for (change, due) in [(4, 4), (9, 8)] {
        let (time, limits) = keyed(Keyed::fixed_window(quota("3/5s")), change, "9/5s");
        assert_eq!(back_at(&time, &limits, 3), 3);
        assert_eq!(told(&limits, 2), due - 3);
        assert_eq!(told(&limits, 4), change - 3);
        time.set(Timestamp::from_nanos(second(due).as_nanos() - 1));
        assert!(limits.try_acquire_n("key", 2).is_err());
        time.set(second(due));
        assert_eq!(limits.try_acquire_n("key", 2), Ok(()));
    }
    // Segments from 0 s to 5 s, from 5 s to 10 s, …
    for (change, due) in [(4, 4), (19, 10)] {
        let (time, limits) = keyed(Keyed::segmented_window(quota("3/5s")), change, "9/5s");
        assert_eq!(back_at(&time, &limits, 3), 3);
        assert_eq!(told(&limits, 2), due - 3);
        assert_eq!(told(&limits, 4), change - 3);
        time.set(second(due));
        assert_eq!(limits.try_acquire_n("key", 2), Ok(()));
    }
}

#[test]
fn c3_c4_c7_before_two_changes_keyed_windows_have_nothing() {
    let (time, limits) = keyed(Keyed::fixed_window(quota("3/s")), 5, "3/min");
    time.set(second(9));
    limits.set_quota(quota("3/h")).unwrap();
    assert_eq!(back_at(&time, &limits, 4), 0);
    let denied = limits.try_acquire("key").unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(back_at(&time, &limits, 5), 3);
}

/// An import knows of no key before its own time. The change after it does not make that later.
#[test]
fn c3_c4_c7_a_keyed_window_that_was_imported_tells_the_least_wait_from_before_a_change() {
    let time = ManualClock::new();
    time.set(ms(9));
    let exported = Keyed::segmented_window(quota("3/s")).clock(&time);
    let exported = exported.capacity(100).unwrap().export();
    let limits = Keyed::segmented_window(quota("3/s")).clock(&time);
    let limits = limits.import(&exported).unwrap();
    time.set(ms(10));
    limits.set_quota(quota("8/s")).unwrap();
    time.set(ms(0));
    let due = ms(0) + wait(limits.try_acquire("key"));
    time.set(Timestamp::from_nanos(due.as_nanos() - 1));
    assert!(limits.try_acquire("key").is_err());
    time.set(due);
    assert_eq!(limits.try_acquire("key"), Ok(()));
}
