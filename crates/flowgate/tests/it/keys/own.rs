//! Keys with quotas and limits of their own: those who wait for them, and times that are not in order.

use flowgate::{
    Denied, FixedWindow, Grant, Keyed, KeyedAlgorithm, KeyedConcurrencyLimit, ManualClock, Quota,
    SegmentedWindow, Timestamp, TokenBucket,
};
use flowgate_testkit::task::Task;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

fn buckets(text: &str, time: &ManualClock) -> Keyed<TokenBucket> {
    let builder = Keyed::token_bucket(quota(text)).clock(time).seed([1, 2]);
    builder.capacity(100).unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// One that has to wait.
#[track_caller]
fn wait<F: Future>(future: F) -> Task<F> {
    let task = Task::start(future);
    assert!(task.is_waiting(), "it need not wait");
    task
}

/// When it was granted, in milliseconds.
#[track_caller]
fn date<F: Future<Output = Result<Grant, Denied>>>(task: &mut Task<F>) -> u64 {
    assert!(task.poll(), "its turn has come");
    task.granted_ns().expect("in turn") / 1_000_000
}

// Those who wait.

#[test]
fn c1_c6_those_who_wait_go_by_the_quota_of_whoever_came_last() {
    let time = ManualClock::new();
    let limits = buckets("10/s burst 1", &time);
    let gold = limits.with(quota("100/s burst 1")).unwrap();
    limits.try_acquire("a").unwrap();
    // At 100, 200 and 300 ms, as things are.
    let mut first = wait(limits.acquire("a"));
    let mut second = wait(limits.acquire("a"));
    time.set(at_ms(50));
    // Half a token has come, and the other half comes in 5 ms; and then one each 10.
    let mut last = wait(gold.acquire("a"));
    time.set(at_ms(75));
    let dates = [&mut first, &mut second, &mut last].map(date);
    assert_eq!(dates, [55, 65, 75]);
    assert_eq!(limits.waiting_keys(), 0);
}

/// It is the queue's quota, not that of whoever happens to look after it.
#[test]
fn c1_c3_who_looks_by_another_quota_serves_nobody_by_it() {
    let time = ManualClock::new();
    let limits = buckets("1000/s burst 10", &time);
    let own = limits.with(quota("10/s burst 10")).unwrap();
    own.try_acquire_n("a", 10).unwrap();
    let mut task = wait(own.acquire("a"));
    time.set(at_ms(60));
    assert!(limits.try_acquire("a").is_err(), "it would overtake");
    assert!(limits.peek("a").is_err());
    assert_eq!(limits.available("a"), 0);
    assert_eq!(limits.refund("a", 0), 0);
    // Those who have none of their own wait no longer; this one does.
    limits.set_quota(quota("2000/s burst 10")).unwrap();
    assert!(!task.poll());
    time.set(at_ms(99));
    assert!(!task.poll());
    time.set(at_ms(100));
    assert_eq!(date(&mut task), 100);
}

/// A queue that goes by a small quota is no reason to tell somebody with a large one that it can never be.
#[test]
fn c3_who_comes_with_a_larger_quota_is_told_to_wait_and_not_never() {
    let time = ManualClock::new();
    let limits = buckets("10/s burst 2", &time);
    let gold = limits.with(quota("10/s burst 100")).unwrap();
    limits.try_acquire_n("a", 2).unwrap();
    let _task = wait(limits.acquire("a"));
    let denied = gold.try_acquire_n("a", 50).unwrap_err();
    assert!(
        !denied.is_never() && denied.retry_after() > Some(ms(100)),
        "{denied}"
    );
    assert_eq!(gold.peek_n("a", 50), Err(denied));
    assert!(gold.snapshot("a").reset_after > ms(100));
    assert!(gold.try_acquire_n("a", 101).unwrap_err().is_never());
}

#[test]
fn who_wants_more_than_the_quota_of_whoever_comes_last_ever_allows_is_refused() {
    let time = ManualClock::new();
    let limits = buckets("10/s burst 100", &time);
    let small = limits.with(quota("10/s burst 3")).unwrap();
    limits.try_acquire_n("a", 100).unwrap();
    let mut large = wait(limits.acquire("a").n(50));
    let mut other = wait(limits.acquire("a").n(2));
    let mut last = wait(small.acquire("a"));
    assert!(large.poll() && large.denied().unwrap().is_never());
    // A hundred tokens are owed, of which 97 have to come back before there is any.
    time.advance(ms(9_900));
    assert_eq!(date(&mut other), 9_900);
    assert!(!last.poll());
    time.advance(ms(100));
    assert_eq!(date(&mut last), 10_000);
}

/// Who asks for a token asks for one, however many units that is by now.
#[test]
fn a_token_is_as_many_units_as_the_line_s_quota_says() {
    let time = ManualClock::new();
    let limits = buckets("10/s burst 1", &time);
    let finer = limits.with(quota("10/s burst 1 units 1000")).unwrap();
    limits.try_acquire("a").unwrap();
    let mut first = wait(limits.acquire("a"));
    let mut last = wait(finer.acquire("a"));
    time.advance(ms(250));
    assert!(first.poll() && last.poll());
    let units = [first, last].map(|task| task.into_granted().units());
    assert_eq!(units, [1000, 1000]);
}

#[test]
fn c6_those_who_wait_for_a_key_go_by_the_limit_of_whoever_came_last() {
    let limits = KeyedConcurrencyLimit::builder(1).clock(ManualClock::new());
    let limits = limits.seed([1, 2]).capacity(100).unwrap();
    let (two, three) = (limits.with(2).unwrap(), limits.with(3).unwrap());
    let permit = limits.try_acquire("a").unwrap();
    let mut first = wait(limits.acquire("a"));
    // A newcomer does not overtake, and is not told that it can never be.
    assert!(three.try_acquire_n("a", 3).unwrap_err().is_busy());
    let mut second = wait(two.acquire("a"));
    assert!(first.poll(), "there is room for two");
    // By its own limit, whatever is in force for others.
    limits.set_limit(0).unwrap();
    limits.set_limit(9).unwrap();
    assert!(!second.poll());
    let mut whole = wait(three.acquire("a").n(3));
    assert!(second.poll(), "there is room for three");
    let mut last = wait(two.acquire("a"));
    assert!(whole.poll() && whole.denied().unwrap().is_never(), "3 of 2");
    drop((permit, first.into_granted()));
    assert!(last.poll(), "in turn");
    assert_eq!(last.into_granted().units(), 1);
    assert_eq!((limits.in_flight("a"), limits.waiting_keys()), (1, 0));
    drop(second.into_granted());
    assert!(limits.is_empty());
}

/// Real threads, each by its own limit, of which each is larger than what is in force.
#[test]
fn c1_threads_that_wait_by_different_limits_keep_the_largest() {
    let limits = KeyedConcurrencyLimit::new(1, 100).unwrap();
    let (in_flight, most) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let threads = [1, 2, 3, 3].map(|own| {
            let (limits, in_flight, most) = (&limits, &in_flight, &most);
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let permit = limits.with(own).unwrap().acquire("a").block().unwrap();
                    let now = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::yield_now();
                    in_flight.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            })
        });
        // Joined: ThreadSanitizer sees that, and not what a scope waits for by itself.
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    assert!(most.into_inner() <= 3);
    assert!(limits.is_empty() && limits.waiting_keys() == 0);
}

// Times that are not in order.

/// A change is settled no earlier than a time at which somebody has been let through.
#[test]
fn c1_a_faster_quota_pays_nothing_for_the_time_before_it() {
    let limits = buckets("10/h burst 10", &ManualClock::new());
    let later = limits.at(at_ms(3_600_000));
    later.try_acquire_n("a", 10).unwrap();
    // Its clock stands still; only its callers know how late it is.
    limits.set_quota(quota("10/s burst 10")).unwrap();
    assert_eq!(later.available("a"), 0);
    assert_eq!(limits.at(at_ms(3_600_100)).available("a"), 1);
}

/// What a key took at a later time is owed from then on, by whatever quota it is asked for at an earlier one.
fn stale<A: KeyedAlgorithm<Quota = Quota>>(limits: &Keyed<A>, slow: &str, fast: &str) {
    let late = at_ms(7_200_000);
    let slow = limits.with(quota(slow)).unwrap();
    let fast = limits.with(quota(fast)).unwrap();
    let most = slow.available("a");
    slow.at(late).try_acquire_n("a", most / 2).unwrap();
    for back_ms in [7_200_000, 7_100_000, 3_600_000, 1, 0] {
        let early = fast.at(at_ms(7_200_000 - back_ms));
        // So that its entry is by that quota from then on.
        early.take_up_to("a", 1);
        let left = fast.at(late).available("a");
        let most = fast.available("b");
        assert!(
            left <= most - most.min(slow.available("b") / 2),
            "{left}, {back_ms} ms back"
        );
    }
}

#[test]
fn c4_a_quota_of_its_own_at_an_earlier_time_grants_nothing() {
    let time = ManualClock::new();
    stale(&buckets("1/s", &time), "10/h burst 10", "10/s burst 10");
    let fixed: Keyed<FixedWindow> = Keyed::fixed_window(quota("1/h")).capacity(100).unwrap();
    stale(&fixed, "10/h", "12/min");
    let segmented = Keyed::segmented_window(quota("1/h")).capacity(100);
    let segmented: Keyed<SegmentedWindow> = segmented.unwrap();
    stale(&segmented, "10/h", "20/h");
}
