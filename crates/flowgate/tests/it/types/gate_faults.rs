//! Faults of gates that somebody found who had not written them.

use flowgate::*;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as O};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
fn bucket(time: &ManualClock, quota: &str) -> TokenBucket {
    TokenBucket::builder(quota.parse().unwrap())
        .clock(time)
        .build()
        .unwrap()
}
fn slots(time: &ManualClock, limit: u32) -> ConcurrencyLimit {
    ConcurrencyLimit::builder(limit)
        .clock(time)
        .build()
        .unwrap()
}
fn gate(time: &ManualClock, quota: &str, n: u32) -> Gate {
    Gate::builder()
        .limit("rate", bucket(time, quota))
        .limit("slots", slots(time, n))
        .build()
        .unwrap()
}
fn tokens(gate: &Gate) -> u64 {
    gate.inspect("rate", TokenBucket::available).unwrap()
}
fn poll<F: Future>(f: Pin<&mut F>) -> Poll<F::Output> {
    f.poll(&mut Context::from_waker(Waker::noop()))
}

#[test] // A
fn hopeless_by_rate_is_refused_at_once_though_slots_are_busy_too() {
    let time = ManualClock::new();
    let gate = gate(&time, "1/10s burst 1", 1);
    let _held = gate.try_acquire().unwrap();
    let mut wait = pin!(gate.acquire().within(ms(1000)));
    assert!(
        poll(wait.as_mut()).is_ready(),
        "10 s by the rate, whatever becomes of the slot"
    );
}

#[test] // A2
fn max_wait_counts_the_rate_though_slots_are_busy() {
    let time = ManualClock::new();
    let gate = gate(&time, "1/10s burst 1", 1);
    gate.queue().set_max_wait(ms(1000));
    let _held = gate.try_acquire().unwrap();
    let mut wait = pin!(gate.acquire());
    assert!(poll(wait.as_mut()).is_ready(), "10 s by the rate");
}

#[test] // B
fn retry_after_behind_the_line_is_true() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s burst 2", 3);
    let _held = gate.try_acquire_n(2).unwrap();
    let mut head = pin!(gate.acquire());
    assert!(poll(head.as_mut()).is_pending());
    let denied = gate.try_acquire().unwrap_err();
    if let Some(wait) = denied.retry_after() {
        time.advance(wait);
        let _heads = poll(head.as_mut());
        assert!(matches!(_heads, Poll::Ready(Ok(_))));
        let again = gate.try_acquire();
        assert!(again.is_ok(), "told {wait:?}, and then {:?}", again.err());
    }
}

#[test] // C
fn refused_waits_name_the_member() {
    let time = ManualClock::new();
    let gate = gate(&time, "1/10s burst 1", 2);
    let _held = gate.try_acquire().unwrap();
    let mut wait = pin!(gate.acquire().within(ms(1000)));
    let Poll::Ready(Err(denied)) = poll(wait.as_mut()) else {
        panic!()
    };
    assert_eq!(gate.name_of(&denied), Some("rate"));
}
#[test] // C2
fn waits_that_end_busy_name_the_member() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s", 1);
    let _held = gate.try_acquire().unwrap();
    let mut wait = pin!(gate.acquire().within(ms(1000)));
    assert!(poll(wait.as_mut()).is_pending());
    time.advance(ms(1000));
    let Poll::Ready(Err(denied)) = poll(wait.as_mut()) else {
        panic!()
    };
    assert!(denied.is_busy());
    assert_eq!(gate.name_of(&denied), Some("slots"));
}

#[test] // G
fn c5_a_gate_gives_back_as_much_as_its_limits_would() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s burst 3", 2);
    let plain = bucket(&time, "100/s burst 3");
    let held = gate.try_acquire_n(2).unwrap();
    plain.try_acquire_n(3).unwrap();
    {
        let mut plain_wait = pin!(plain.acquire().n(1));
        assert!(poll(plain_wait.as_mut()).is_pending());
        let mut wait = pin!(gate.acquire());
        assert!(poll(wait.as_mut()).is_pending());
        drop(held); // granted at 0, unseen
        assert_eq!(tokens(&gate), 0);
        time.advance(ms(15)); // plain's granted at 10
    }
    // gate: 3 taken, 1.5 flowed in, 1 given back: 2.5
    assert_eq!(tokens(&gate), 2);
    let _ = plain;
}

#[test] // H
fn a_permit_that_comes_back_late_costs_the_rate_no_turn() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s burst 1", 5);
    let held = gate.try_acquire().unwrap();
    let mut a = pin!(gate.acquire());
    let mut b = pin!(gate.acquire());
    assert!(poll(a.as_mut()).is_pending());
    assert!(poll(b.as_mut()).is_pending());
    time.advance(ms(15)); // a was due at 10, nobody looked
    drop(held);
    time.advance(ms(5)); // b is due at 20
    assert!(poll(a.as_mut()).is_ready());
    assert!(poll(b.as_mut()).is_ready(), "b's turn is at 20 ms");
}
#[test] // H2
fn looking_at_a_member_costs_no_turn() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s burst 1", 5);
    let _held = gate.try_acquire().unwrap();
    let mut a = pin!(gate.acquire());
    let mut b = pin!(gate.acquire());
    assert!(poll(a.as_mut()).is_pending());
    assert!(poll(b.as_mut()).is_pending());
    time.advance(ms(15));
    tokens(&gate);
    time.advance(ms(5));
    assert!(poll(a.as_mut()).is_ready());
    assert!(poll(b.as_mut()).is_ready(), "b's turn is at 20 ms");
}
#[test] // H3: reference
fn the_same_by_looking_promptly() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s burst 1", 5);
    let _held = gate.try_acquire().unwrap();
    let mut a = pin!(gate.acquire());
    let mut b = pin!(gate.acquire());
    assert!(poll(a.as_mut()).is_pending());
    assert!(poll(b.as_mut()).is_pending());
    time.advance(ms(20));
    assert!(poll(a.as_mut()).is_ready());
    assert!(poll(b.as_mut()).is_ready(), "b's turn is at 20 ms");
}
#[test] // H4
fn a_refund_costs_no_turn() {
    let time = ManualClock::new();
    let bucket = bucket(&time, "100/s burst 1");
    bucket.try_acquire().unwrap();
    let mut a = pin!(bucket.acquire());
    let mut b = pin!(bucket.acquire());
    assert!(poll(a.as_mut()).is_pending());
    assert!(poll(b.as_mut()).is_pending());
    time.advance(ms(15));
    bucket.refund(0);
    time.advance(ms(5));
    assert!(poll(a.as_mut()).is_ready());
    assert!(poll(b.as_mut()).is_ready(), "b's turn is at 20 ms");
}

struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, O::SeqCst);
    }
}

#[test] // I
fn a_change_that_panics_later_loses_no_wake_up() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s", 1);
    let _held = gate.try_acquire().unwrap();
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut wait = pin!(gate.acquire());
    assert!(
        wait.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        gate.configure("slots", |s: &ConcurrencyLimit| {
            s.set_limit(2).unwrap();
            panic!()
        })
    }));
    assert!(flag.0.load(O::SeqCst), "there is a slot");
}

#[test] // M
fn a_gate_of_divided_tokens_says_never_for_any_amount() {
    let time = ManualClock::new();
    let quota = "1000000000/s burst 1000000000"
        .parse::<Quota>()
        .unwrap()
        .units_per_token(1000)
        .unwrap();
    let b = TokenBucket::builder(quota)
        .clock(&time)
        .max_debt(u64::MAX / 2)
        .build();
    println!("{b:?}");
    if let Ok(b) = b {
        let gate = Gate::builder()
            .limit("rate", b.pay_after())
            .build()
            .unwrap();
        for n in [
            1 << 50,
            1 << 54,
            1 << 55,
            u64::MAX / 1000,
            u64::MAX / 1000 + 1,
            1 << 60,
            u64::MAX,
        ] {
            println!("{n} {:?}", gate.try_acquire_n(n).map(|p| p.units()));
            time.advance(Duration::from_secs(1 << 33));
        }
    }
    let quota = "10/s burst 10"
        .parse::<Quota>()
        .unwrap()
        .units_per_token(10)
        .unwrap();
    let b = TokenBucket::builder(quota).clock(&time).build().unwrap();
    let gate = Gate::builder().limit("rate", b).build().unwrap();
    println!("{}", gate.try_acquire_n(11).unwrap_err());
}

#[test] // CC
fn looks_while_many_wait() {
    let time = ManualClock::new();
    let gate = gate(&time, "100/s", 1);
    let _held = gate.try_acquire().unwrap();
    let mut waits: Vec<_> = (0..100_000).map(|_| Box::pin(gate.acquire())).collect();
    for w in &mut waits {
        assert!(poll(w.as_mut()).is_pending());
    }
    let t = std::time::Instant::now();
    tokens(&gate);
    println!("one look with 100,000 waiting: {:?}", t.elapsed());
}
