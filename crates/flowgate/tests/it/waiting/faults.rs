//! Faults of the waiting line that somebody found who had not written it.

use flowgate::*;
use flowgate_testkit::task::Task;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
fn t(n: u64) -> Timestamp {
    Timestamp::from_nanos(n * 1_000_000)
}
fn bucket(q: &str, time: impl Into<Clock>) -> TokenBucket {
    TokenBucket::builder(q.parse().unwrap())
        .clock(time)
        .initial_tokens(0)
        .build()
        .unwrap()
}

/// 1a: a deadline's alarm that rings early is never asked for again.
#[test]
fn deadline_alarm_is_rearmed_after_a_backward_clock() {
    let time = ManualClock::new();
    let l = bucket("1/h burst 2", &time);
    let mut head = Task::start(l.acquire());
    let mut w = Task::start(l.acquire().within(Duration::from_secs(3 * 3600)));
    let end = Timestamp::from_nanos(3 * 3600 * 1_000_000_000);
    assert!(w.output.is_none());
    l.set_quota("1/d burst 2".parse().unwrap()).unwrap();
    time.set(end);
    assert!(w.was_woken());
    time.set(Timestamp::ORIGIN);
    assert!(!w.poll());
    time.set(end);
    assert!(w.was_woken(), "deadline passed, nobody woke it");
    assert!(w.poll());
    head.poll();
}

/// 1b: A source that lags behind real time (docs: "looks at it again, and so on").
struct Half(std::time::Instant);
impl Source for Half {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64 / 2
    }
}
#[test]
fn deadline_under_a_lagging_source() {
    let l = Arc::new(
        ConcurrencyLimit::builder(1)
            .clock(Clock::custom(Half(std::time::Instant::now())))
            .build()
            .unwrap(),
    );
    let _p = l.try_acquire().unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    let l2 = l.clone();
    std::thread::spawn(move || {
        let r = l2.acquire().within(ms(20)).block();
        let _ = tx.send(r.is_err());
    });
    assert_eq!(
        rx.recv_timeout(Duration::from_secs(3)),
        Ok(true),
        "within(20 ms) hangs"
    );
}

/// 3: a token waited for becomes a thousandth when the quota is counted in other units.
#[test]
fn a_token_stays_a_token_when_units_change() {
    let time = ManualClock::new();
    let l = bucket("10/s burst 2", &time);
    let mut w: Vec<_> = (0..5).map(|_| Task::start(l.acquire())).collect();
    l.set_quota(
        "10/s burst 2"
            .parse::<Quota>()
            .unwrap()
            .units_per_token(1000)
            .unwrap(),
    )
    .unwrap();
    time.advance(ms(100));
    let n = w
        .iter_mut()
        .filter_map(|w| w.poll().then(|| w.output.unwrap().is_ok()))
        .filter(|x| *x)
        .count();
    assert!(
        n <= 1,
        "{n} waiters for a token each granted in 100 ms at 10/s"
    );
}

/// 4: AtLeast with since on the fast path dates in the past.
#[test]
fn at_least_is_not_dated_in_the_past() {
    let time = ManualClock::new();
    let l = LeakyBucket::builder("100/s".parse().unwrap())
        .clock(&time)
        .build()
        .unwrap();
    time.set(t(100));
    let g = Task::start(l.acquire().since(t(50)).spacing(Spacing::AtLeast))
        .output
        .unwrap()
        .unwrap();
    let h = l.try_acquire();
    assert!(
        g.at() >= t(100) && h.is_err(),
        "dated {:?} at 100 ms, next {h:?}",
        g.at()
    );
}

/// 5: close keeps the queue's alarm: the queue, its clock and the timer thread outlive the limiter
struct Marked(#[expect(dead_code, reason = "it is counted")] Arc<()>);
impl Source for Marked {
    fn now_ns(&self) -> u64 {
        0
    }
}
#[test]
fn close_leaks_until_the_alarm_rings() {
    let mark = Arc::new(());
    let l = bucket("1/d burst 1", Clock::custom(Marked(mark.clone())));
    let mut w = Task::start(l.acquire());
    l.queue().close();
    assert!(w.poll());
    drop(w);
    drop(l);
    assert_eq!(
        Arc::strong_count(&mark),
        1,
        "the line lives on in the timer for a day"
    );
}

/// 8: adaptive lifo: nobody is woken when the order turns
#[test]
fn adaptive_turn_wakes() {
    let time = ManualClock::new();
    let l = bucket("100/s burst 10", &time);
    l.queue().set_order(Order::AdaptiveLifo { after: ms(15) });
    let mut a = Task::start(l.acquire().n(10));
    let mut b = Task::start(l.acquire());
    let mut served = None;
    for k in 1..=100 {
        time.set(t(k));
        for x in [&mut a, &mut b] {
            if x.was_woken() {
                x.poll();
            }
        }
        if b.output.is_some() && served.is_none() {
            served = Some((k, b.granted_ns()));
        }
    }
    assert!(
        served.unwrap().0 <= 17,
        "the newest is next from 15 ms on and a token is there; served {served:?}"
    );
}

/// 9: AtLeast: a waker that looks at the limiter
struct Reenter(&'static TokenBucket, AtomicUsize);
impl Wake for Reenter {
    fn wake(self: Arc<Self>) {
        if self.1.fetch_add(1, Ordering::SeqCst) < 50 {
            self.0.available();
        }
    }
}
#[test]
fn a_waker_that_looks_recurses() {
    let time = ManualClock::new();
    let l: &'static TokenBucket = Box::leak(Box::new(bucket("100/s burst 1", &time)));
    let w = Arc::new(Reenter(l, AtomicUsize::new(0)));
    let mut f = Box::pin(l.acquire().spacing(Spacing::AtLeast));
    assert!(
        f.as_mut()
            .poll(&mut Context::from_waker(&Waker::from(w.clone())))
            .is_pending()
    );
    time.set(t(10));
    assert!(
        w.1.load(Ordering::SeqCst) < 50,
        "woken within its own waking without end"
    );
}

/// 10: C1: a poll between the change of the word and the raising of the floor
struct Gated {
    now: AtomicU64,
    armed: AtomicU64,
    tx: std::sync::Mutex<Option<std::sync::mpsc::Sender<()>>>,
    rx: std::sync::Mutex<Option<std::sync::mpsc::Receiver<()>>>,
}
struct G(Arc<Gated>);
impl Source for G {
    fn now_ns(&self) -> u64 {
        if std::thread::current().name() == Some("changer")
            && self.0.armed.fetch_sub(1, Ordering::SeqCst) == 1
        {
            self.0.tx.lock().unwrap().take().unwrap().send(()).unwrap();
            self.0.rx.lock().unwrap().take().unwrap().recv().unwrap();
        }
        self.0.now.load(Ordering::SeqCst)
    }
    fn wake_at(&self, _: Timestamp, _: &Waker) -> bool {
        true
    }
}
#[test]
fn c1_poll_during_set_quota() {
    let sec = 1_000_000_000u64;
    for calls in 1..7 {
        let (tx, ready) = std::sync::mpsc::channel();
        let (go, rx) = std::sync::mpsc::channel();
        let g = Arc::new(Gated {
            now: AtomicU64::new(0),
            armed: AtomicU64::new(calls),
            tx: Some(tx).into(),
            rx: Some(rx).into(),
        });
        let l = TokenBucket::builder("1/10s burst 10".parse().unwrap())
            .clock(Clock::custom(G(g.clone())))
            .build()
            .unwrap();
        l.try_acquire_n(10).unwrap(); // at 0
        g.now.store(50 * sec, Ordering::SeqCst);
        let mut w = Task::start(l.acquire().n(9)); // due at 90
        g.now.store(100 * sec, Ordering::SeqCst);
        let mut date = None;
        std::thread::scope(|s| {
            std::thread::Builder::new()
                .name("changer".into())
                .spawn_scoped(s, || l.set_quota("1/1000s burst 10".parse().unwrap()))
                .unwrap();
            if ready.recv_timeout(ms(500)).is_ok() {
                // Not while the ledger is locked: polling needs none.
                let (done, polled) = std::sync::mpsc::channel();
                let w = &mut w;
                let date = &mut date;
                s.spawn(move || {
                    w.poll();
                    *date = w.granted_ns();
                    let _ = done.send(());
                });
                let _ = polled.recv_timeout(ms(500));
                go.send(()).unwrap();
            }
        });
        w.poll();
        println!(
            "calls {calls}: dated {:?} s, finally {:?}",
            date.map(|d| d as f64 / 1e9),
            w.granted_ns().map(|d| d as f64 / 1e9)
        );
        if let Some(d) = w.granted_ns() {
            assert!(
                10 + 9 <= 10 + d / sec / 10,
                "19 admitted in [0, {} s] of burst 10 + t/10 s (gate {calls})",
                d / sec
            );
        }
    }
}

/// 11: who is due and has not looked loses its slot when somebody gives back, changes the quota, or leaves
fn three(l: &TokenBucket) -> Vec<Task<Acquire<&TokenBucket>>> {
    (0..3).map(|_| Task::start(l.acquire())).collect()
}
fn dates(time: &ManualClock, w: &mut [Task<Acquire<&TokenBucket>>]) -> Vec<Option<u64>> {
    time.set(t(1000));
    w.iter_mut()
        .map(|w| {
            w.poll();
            w.granted_ns().map(|a| a / 1_000_000)
        })
        .collect()
}
#[test]
fn c6_a_cancelled_one_costs_the_others_nothing_late() {
    let time = ManualClock::new();
    let l = bucket("100/s burst 1", &time);
    let mut w = three(&l);
    time.set(t(29)); // nobody has looked since 0; due 10, 20, 30
    w.remove(0);
    assert_eq!(dates(&time, &mut w), [Some(20), Some(30)]);
}
#[test]
fn c5_refund_late() {
    let time = ManualClock::new();
    let l = bucket("100/s burst 1", &time);
    let mut w = three(&l);
    time.set(t(29));
    let back = l.refund(1);
    println!("back {back}");
    assert_eq!(dates(&time, &mut w)[..2], [Some(10), Some(20)]);
}
#[test]
fn c2_set_quota_late() {
    let time = ManualClock::new();
    let l = bucket("100/s burst 1", &time);
    let mut w = three(&l);
    time.set(t(29));
    l.set_quota("100/s burst 1".parse().unwrap()).unwrap(); // the very same
    assert_eq!(dates(&time, &mut w), [Some(10), Some(20), Some(30)]);
}
/// 12: `denied` by closing while cancelled etc.
#[test]
fn forgotten_at_least() {
    let time = ManualClock::new();
    let l = bucket("100/s burst 1", &time);
    let mut f = Box::pin(l.acquire().n(1));
    assert!(
        f.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    std::mem::forget(f);
    let mut w = Task::start(l.acquire());
    for k in 1..100 {
        time.set(t(k));
        if w.was_woken() {
            w.poll();
        }
    }
    assert_eq!(w.granted_ns(), Some(20_000_000));
    assert!(l.queue().is_empty());
}

/// Done once, by whoever wakes.
#[derive(Default)]
struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);
impl Hook {
    fn set(&self, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(act));
    }
}
impl Wake for Hook {
    fn wake(self: Arc<Self>) {
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

/// An alarm goes off while it is set, the clock goes back, and whoever looks then sets another for the same time.
#[test]
fn c4_an_alarm_that_has_gone_off_does_not_replace_one_for_the_same_time() {
    let time = ManualClock::new();
    let l = Arc::new(bucket("100/s burst 2", &time));
    let task = || {
        let l = l.clone();
        Arc::new(Mutex::new(Box::pin(async move { l.acquire().await })))
    };
    let (first, next) = (task(), task());
    let hooks = [Arc::<Hook>::default(), Arc::<Hook>::default()];
    let wakers = hooks.clone().map(Waker::from);
    fn is_pending<F: Future>(task: &Mutex<Pin<Box<F>>>, waker: &Waker) -> bool {
        let mut context = Context::from_waker(waker);
        task.lock()
            .unwrap()
            .as_mut()
            .poll(&mut context)
            .is_pending()
    }
    assert!(is_pending(&first, &wakers[0]) && is_pending(&next, &wakers[1]));
    // The first does not look, nor does the next.
    time.set(t(15));
    time.set(t(17));
    hooks[0].set({
        let time = time.clone();
        move || time.set(t(20))
    });
    hooks[1].set({
        let (time, next, waker) = (time.clone(), next.clone(), wakers[1].clone());
        move || {
            time.set(t(15));
            assert!(is_pending(&next, &waker));
        }
    });
    // Serves the first, and sets an alarm for the next.
    assert!(l.try_acquire().is_err());
    assert_eq!(time.now(), t(15), "it looked meanwhile");
    let woken = Arc::new(AtomicUsize::new(0));
    hooks[1].set({
        let woken = woken.clone();
        move || woken.store(1, Ordering::SeqCst)
    });
    time.set(t(20));
    assert_eq!(woken.load(Ordering::SeqCst), 1, "its turn has come");
}

/// A source that wakes whoever it is told to wake when its owner says so, and not by the time.
#[derive(Clone, Default)]
struct Rings(Arc<Mutex<(u64, Vec<Waker>)>>);
impl Rings {
    fn set(&self, now: Timestamp) {
        self.0.lock().unwrap().0 = now.as_nanos();
    }
    fn ring(&self) {
        let asked = std::mem::take(&mut self.0.lock().unwrap().1);
        asked.into_iter().for_each(Waker::wake);
    }
}
impl Source for Rings {
    fn now_ns(&self) -> u64 {
        self.0.lock().unwrap().0
    }
    fn wake_at(&self, _: Timestamp, waker: &Waker) -> bool {
        self.0.lock().unwrap().1.push(waker.clone());
        true
    }
}

/// It is asked again by whoever was woken too early, and need not be by the next in the queue, which may not look.
#[test]
fn c6_a_source_that_wakes_too_early_is_asked_again_though_the_next_in_line_does_not_look() {
    let rings = Rings::default();
    let l = bucket("100/s burst 2", Clock::custom(rings.clone()));
    let _stuck = Task::start(l.acquire());
    let mut next = Task::start(l.acquire());
    for early in [3, 5, 9] {
        rings.set(t(early));
        rings.ring();
    }
    rings.set(t(10));
    rings.ring();
    rings.set(t(20));
    rings.ring();
    assert!(next.run(), "nobody has woken it");
    assert_eq!(next.granted_ns(), Some(20_000_000));
}

/// A source that also wakes those who are due when it is asked.
#[derive(Clone, Default)]
struct Prompt(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    now_ns: u64,
    /// Whom to wake at which time.
    wakers: Vec<(u64, Waker)>,
}

impl Prompt {
    fn set(&self, now: Timestamp) {
        self.0.lock().unwrap().now_ns = now.as_nanos();
    }

    fn ring(&self) {
        let due: Vec<_> = {
            let Asked { now_ns, wakers } = &mut *self.0.lock().unwrap();
            wakers.extract_if(.., |(at, _)| *at <= *now_ns).collect()
        };
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Source for Prompt {
    fn now_ns(&self) -> u64 {
        self.0.lock().unwrap().now_ns
    }

    fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        let asked = (at.as_nanos(), waker.clone());
        self.0.lock().unwrap().wakers.push(asked);
        self.ring();
        true
    }
}

/// The alarm of the turn before rings while one for the next is asked for, who does not look.
#[test]
fn c6_a_source_that_wakes_when_it_is_asked_loses_no_turn() {
    let source = Prompt::default();
    let l = bucket("100/s burst 2", Clock::custom(source.clone()));
    let _first = Task::start(l.acquire());
    let _stuck = Task::start(l.acquire());
    let mut last = Task::start(l.acquire());
    source.set(t(10));
    // Serves the first, and asks to be woken for the next.
    assert!(l.try_acquire().is_err());
    for k in 11..100 {
        source.set(t(k));
        source.ring();
        last.run();
    }
    assert_eq!(last.granted_ns(), Some(30_000_000));
}
