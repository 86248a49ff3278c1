use super::*;
use crate::client::advice::Rest;
use flowgate::ManualClock;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn stop(time: Option<Duration>) -> Advice {
    Advice::Stop(Stop { time, each: None })
}

fn rest(certain: Duration, full: Duration) -> Advice {
    Advice::Rest(Rest {
        certain,
        full,
        most: full,
        each: None,
    })
}

/// A response to what was sent just now, to a client with 10 requests per second.
fn heed(pauses: &Pauses, host: &str, advice: Advice) {
    let heard = Heard::default();
    pauses.heed(host, advice, heard, pauses.clock.now(), || Some(100 * MS));
}

#[test]
fn what_is_kept_is_bounded() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    for n in 0..MAX_HOSTS + 100 {
        let rest = Duration::from_secs(10 + n as u64);
        heed(&pauses, &n.to_string(), stop(Some(rest)));
    }
    assert_eq!(pauses.len(), MAX_HOSTS);
    assert_eq!(pauses.until("0"), None);
    assert!(pauses.until("10099").is_some());
}

#[test]
fn pauses_double_up_to_a_bound_and_begin_small_again() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    let pauses = pauses.with_backoff(SECOND, Duration::from_secs(10));
    for most in [1, 2, 4, 8, 10, 10, 10] {
        heed(&pauses, "host", stop(None));
        // Of those that had been sent before.
        heed(&pauses, "host", stop(None));
        heed(&pauses, "host", Advice::Fine);
        let until = pauses.until("host").expect("a pause");
        let rest = until.saturating_duration_since(time.now());
        let most = Duration::from_secs(most);
        assert!(most / 2 <= rest && rest <= most, "{rest:?} of {most:?}");
        time.set(until);
        assert_eq!(pauses.until("host"), None);
    }
    heed(&pauses, "host", Advice::Fine);
    assert_eq!(pauses.len(), 0);
    heed(&pauses, "host", stop(None));
    let until = pauses.until("host").expect("a pause");
    let rest = until.saturating_duration_since(time.now());
    assert!(rest <= SECOND);
}

#[test]
fn no_host_stops_requests_forever() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    heed(&pauses, "host", stop(Some(Duration::MAX)));
    let hour = Timestamp::from_nanos(3_600_000_000_000);
    assert_eq!(pauses.until("host"), Some(hour));
    // A shorter one does not shorten it.
    heed(&pauses, "host", stop(Some(SECOND)));
    assert_eq!(pauses.until("host"), Some(hour));
}

/// Requests that waited for the end of a pause get times one after the other, and requests that come meanwhile get later
/// ones.
#[test]
fn c1_after_a_pause_requests_go_on_one_by_one() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    heed(&pauses, "host", stop(Some(SECOND)));
    let end = time.now() + SECOND;
    assert_eq!(pauses.enter("host", Waited::No), Entry::Paused(end));
    time.advance(SECOND);
    assert_eq!(pauses.enter("host", Waited::Paused), Entry::Open);
    assert_eq!(
        pauses.enter("host", Waited::Paused),
        Entry::At(end + 100 * MS)
    );
    assert_eq!(pauses.enter("host", Waited::No), Entry::At(end + 200 * MS));
    time.advance(100 * MS);
    assert_eq!(pauses.enter("host", Waited::InTurn), Entry::Open);
    time.advance(100 * MS);
    assert_eq!(pauses.enter("host", Waited::InTurn), Entry::Open);
    // All are gone, so there is nothing left to wait for.
    time.advance(100 * MS);
    for _ in 0..3 {
        assert_eq!(pauses.enter("host", Waited::No), Entry::Open);
    }
}

/// A quota of one per day does not keep requests for days that waited for a second.
#[test]
fn the_distance_after_a_pause_is_at_most_the_pause() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    let day = Duration::from_secs(86_400);
    pauses.heed(
        "host",
        stop(Some(SECOND)),
        Heard::default(),
        time.now(),
        || Some(day),
    );
    time.advance(SECOND);
    assert_eq!(pauses.enter("host", Waited::Paused), Entry::Open);
    let at = time.now() + SECOND;
    assert_eq!(pauses.enter("host", Waited::Paused), Entry::At(at));
}

/// `t` is rounded up, so its last second is not waited for, until a refusal shows that it is needed.
#[test]
fn a_host_is_trusted_as_far_as_it_must_and_further_after_a_refusal() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    let told = rest(4 * SECOND, 5 * SECOND);
    let waited = |advice| {
        time.advance(10 * SECOND);
        heed(&pauses, "host", advice);
        let until = pauses.until("host").expect("a pause");
        let waited = until.saturating_duration_since(time.now());
        time.set(until + MS);
        waited
    };
    assert_eq!(waited(told), 4 * SECOND);
    // A refusal after the whole time shows nothing.
    time.advance(SECOND);
    heed(&pauses, "host", stop(Some(MS)));
    assert_eq!(waited(told), 4 * SECOND);
    // A refusal before it does.
    heed(&pauses, "host", stop(Some(MS)));
    for _ in 0..WARY_FIRST {
        assert_eq!(waited(told), 5 * SECOND);
        heed(&pauses, "host", Advice::Fine);
    }
    assert_eq!(waited(told), 4 * SECOND);
    // And for longer each time.
    heed(&pauses, "host", stop(Some(MS)));
    for _ in 0..2 * WARY_FIRST {
        assert_eq!(waited(told), 5 * SECOND);
    }
    assert_eq!(waited(told), 4 * SECOND);
}

/// The end of a burst is waited for longer after each refusal, up to the whole time.
#[test]
fn refusals_after_a_burst_make_the_next_wait_longer() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    let told = Advice::Rest(Rest {
        certain: Duration::ZERO,
        full: 100 * MS,
        most: SECOND,
        each: Some(100 * MS),
    });
    for expected in [100, 200, 400, 800, 1000, 1000] {
        time.advance(SECOND);
        heed(&pauses, "host", told);
        let until = pauses.until("host").expect("a pause");
        let waited = until.saturating_duration_since(time.now());
        assert_eq!(waited, expected * MS);
        time.advance(MS);
        heed(&pauses, "host", stop(Some(MS)));
        time.advance(SECOND);
        heed(&pauses, "host", Advice::Fine);
    }
}

/// The server counted from some time after the request was sent. Where each response says that nothing is left, the time
/// on the way would be lost each time.
#[test]
fn rests_in_a_row_count_from_when_the_request_was_sent() {
    let time = ManualClock::new();
    let pauses = Pauses::new(time.clone().into());
    let waited = || {
        let sent = time.now();
        time.advance(8 * MS);
        pauses.heed(
            "host",
            rest(10 * MS, 10 * MS),
            Heard::default(),
            sent,
            || None,
        );
        let until = pauses.until("host").expect("a pause");
        time.set(until);
        until.saturating_duration_since(sent)
    };
    assert_eq!(waited(), 18 * MS);
    assert_eq!(waited(), 10 * MS);
    assert_eq!(waited(), 10 * MS);
    heed(&pauses, "host", Advice::Fine);
    assert_eq!(waited(), 18 * MS);
}
