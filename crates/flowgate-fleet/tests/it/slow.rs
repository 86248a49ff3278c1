//! A store that answers later than callers wait.

use crate::local::excess;
use flowgate::{ManualClock, Quota};
use flowgate_fleet::{Ask, CutOff, Fleet, FleetLimit, FleetView, LocalStore, Overshoot};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

const NEVER: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_nanos(1);

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn store() -> (ManualClock, LocalStore, Fleet) {
    let time = ManualClock::new();
    let store = LocalStore::new(&time);
    let fleet = store.fleet().nodes(4).timeout(NEVER).open().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(fleet.ready());
    (time, store, fleet)
}

/// Returns the output of a request that is decided exactly when `WAIT` has passed.
fn decided_in_time<F: Future>(time: &ManualClock, ask: F) -> F::Output {
    let mut ask = pin!(ask);
    let mut poll = || {
        let mut context = Context::from_waker(Waker::noop());
        match ask.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    };
    assert!(poll().is_none());
    time.advance(WAIT - TICK);
    assert!(poll().is_none(), "it is too early");
    time.advance(TICK);
    poll().expect("the time has passed")
}

#[test]
fn a_caller_that_waits_no_longer_is_decided_by_the_share() {
    let (time, store, fleet) = store();
    let api = fleet.limit("api", quota("8/day")).build().unwrap();
    let tenants = fleet.keyed("tenant", quota("8/day")).build().unwrap();
    let windows = fleet.window("window", quota("8/day")).build().unwrap();
    let leased = fleet.limit("leased", quota("100/day burst 400"));
    let leased = leased.leased(Overshoot::percent(50)).build().unwrap();
    store.pause();
    let asks: [(&dyn Fn() -> Ask, u64); 4] = [
        (&|| api.ask(), 2),
        (&|| tenants.ask("t-17"), 2),
        (&|| windows.ask(), 2),
        (&|| leased.ask(), 100),
    ];
    for (ask, share) in asks {
        let admitted = decided_in_time(&time, ask().n(share).within(WAIT));
        assert!(admitted.is_ok_and(|admitted| admitted.is_degraded()));
        let denied = decided_in_time(&time, ask().within(WAIT)).unwrap_err();
        assert!(denied.is_outage(), "{denied}");
    }
    for view in [api.inspect(), tenants.inspect(), leased.inspect()] {
        assert!(view.is_connected, "it is only slow");
        assert_eq!(view.counts.degraded_units, view.bound.alone);
        assert_eq!(view.bound.forgotten, 0);
    }
    // Neither the share nor a request is counted twice when the store answers.
    store.resume();
    assert!(api.ask().n(4).block().is_ok_and(|by| !by.is_degraded()));
    let FleetView { counts, bound, .. } = api.inspect();
    assert_eq!((counts.degraded, counts.cut_off), (1, 1));
    assert_eq!((counts.outages, counts.amnesias, bound.alone), (1, 0, 2));
}

#[test]
fn several_limits_are_decided_together_when_a_caller_waits_no_longer() {
    let (time, store, fleet) = store();
    let build = |name: &str, cut_off: CutOff| {
        let limit = fleet.limit(name, quota("8/day"));
        limit.when_cut_off(cut_off).build().unwrap()
    };
    let (open, share) = (
        build("open", CutOff::Admit),
        build("share", CutOff::Share(1, 4)),
    );
    let closed = build("closed", CutOff::Deny);
    store.pause();
    let both = |n| Ask::all([open.ask(), share.ask().n(n)]);
    let admitted = decided_in_time(&time, both(1).within(WAIT));
    assert!(admitted.is_ok_and(|admitted| admitted.is_degraded()));
    // The shortest time of a part holds for all.
    let parts = [
        open.ask().within(2 * WAIT),
        closed.ask().within(WAIT),
        share.ask(),
    ];
    let denied = decided_in_time(&time, Ask::all(parts)).unwrap_err();
    assert!(denied.is_outage() && denied.limits().len() == 1);
    assert_eq!(denied.limits()[0].0, 1);
    // What the refused one had taken alone is there again, and no more.
    assert!(both(1).within(Duration::ZERO).block().is_ok());
    assert!(both(1).within(Duration::ZERO).block().is_err());
    store.resume();
    assert!(both(1).block().is_ok_and(|by| !by.is_degraded()));
}

#[test]
fn an_answer_in_time_is_the_stores() {
    let (time, _store, fleet) = store();
    let api = fleet.limit("api", quota("8/day")).build().unwrap();
    let ask = || api.ask().within(WAIT).block();
    assert!((0..8).all(|_| ask().is_ok_and(|admitted| !admitted.is_degraded())));
    assert!(ask().unwrap_err().retry_after().is_some());
    let all = Ask::all([api.ask()]).within(WAIT).block();
    assert!(all.unwrap_err().retry_after().is_some());
    assert_eq!(
        time.next_wake(),
        None,
        "a caller that is answered needs no alarm"
    );
}

/// Processes that wait for a slow store, or decide without it, against the bound that they report.
#[test]
fn c1_the_bound_covers_every_interval_of_a_slow_store() {
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let time = ManualClock::new();
        let store = LocalStore::new(&time);
        let limits: Vec<FleetLimit> = (0..3)
            .map(|_| {
                let fleet = store.fleet().nodes(3).timeout(NEVER).open().unwrap();
                fleet.limit("api", quota("400/s burst 60")).build().unwrap()
            })
            .collect();
        let (mut admitted, mut left) = (Vec::new(), 0);
        for step in 0..600 {
            if step % 150 == 50 {
                store.pause();
                left = random.u32(1..90);
            }
            let is_slow = left > 0;
            left -= u32::from(is_slow);
            if is_slow && left == 0 {
                store.resume();
            }
            let mut units = 0;
            for limit in &limits {
                let n = random.u64(1..=3);
                let ask = limit.ask().n(n);
                let answer = match left {
                    0 => ask.block(),
                    _ => ask.within(Duration::ZERO).block(),
                };
                units += answer.map_or(0, |_| n);
            }
            admitted.push(units);
            time.advance(Duration::from_millis(5));
        }
        let excess = excess(&admitted);
        for limit in &limits {
            let FleetView { bound, counts, .. } = limit.inspect();
            let most = (bound.total().unwrap() - bound.in_flight) as i64;
            assert!(excess <= most, "{seed}: {excess} of {bound:?}");
            assert_eq!((bound.forgotten, counts.amnesias), (0, 0));
            assert!(counts.degraded > 0 && counts.cut_off > 0, "{counts:?}");
            assert!(counts.admitted > 0 && counts.denied > 0, "{counts:?}");
        }
    }
}
