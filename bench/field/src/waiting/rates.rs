//! Rate limiters with waiters: one token per unit of time, a burst of ten, initially used up.
//!
//! Their time is tokio's paused clock, and flowgate's manual clock. For a crate with a private clock the time is real,
//! and the unit is shorter.

use std::pin::{Pin, pin};
use std::time::Duration;

use flowgate::{ManualClock, Quota, TokenBucket};
use leaky_bucket::RateLimiter as LeakyBucket;
use throttle_net::{Throttle, TokioClock};
use tokio::time::{Instant, advance, sleep};

use super::{Row, order, polled};
use crate::paused;
use crate::seen::Seen;

/// The experiments, each with a short name.
pub const EXPERIMENTS: [(&str, &str); 4] = [
    (
        "order",
        "A waits for 3 tokens, B and C behind it for 1 each: who is served, in which order",
    ),
    (
        "large",
        "A waits for 10, others try for 1 ten times in the time of a token: how many they get before A, and when A is \
         served",
    ),
    (
        "cancelled",
        "A waits for 10, B behind it for 1, A gives up, others try: how many they get before B, and when B is served",
    ),
    (
        "gave up",
        "100 wait for 1 and give up at once: when the next one is served",
    ),
];

/// A limiter with no token left.
pub trait Waits {
    /// The time in which a token comes back.
    const UNIT: Duration = Duration::from_millis(100);
    /// Maximum request.
    const MOST: u32 = 10;
    /// Whether its time goes by itself.
    const REAL: bool = false;

    /// Waits for `n`.
    async fn acquire(&self, n: u32);

    /// Takes one now, or not.
    fn try_acquire(&self) -> bool;

    /// Waits for one, but not long.
    async fn give_up_at_once(&self) {
        polled(pin!(self.acquire(1))).await;
    }

    /// Lets time pass.
    async fn pass(&self, time: Duration) {
        advance(time).await;
    }
}

/// All of them, in all experiments.
pub fn rows() -> Vec<Row> {
    vec![
        row("flowgate TokenBucket", Ours::new),
        row("leaky-bucket 1.1.2", Leaky::new),
        row("throttle-net 2.0.0 Throttle", ThrottleNet::new),
        row("async-rate-limiter 1.1.0, real time, n = 1", RealTime::new),
    ]
}

fn row<W: Waits>(name: &'static str, new: fn() -> W) -> Row {
    let cells = vec![
        Some(run(new, async |limiter| in_order(limiter).await)),
        (W::MOST > 1).then(|| run(new, async |limiter| large_first(limiter).await)),
        Some(run(new, async |limiter| cancelled_head(limiter).await)),
        Some(run(new, async |limiter| gave_up(limiter).await)),
    ];
    Row { name, cells }
}

/// Runs an experiment with a fresh limiter.
pub fn run<W: Waits>(new: fn() -> W, experiment: impl AsyncFnOnce(&W) -> Seen) -> Seen {
    let runtime = if W::REAL {
        paused::not()
    } else {
        paused::runtime()
    };
    runtime.block_on(async { experiment(&new()).await })
}

/// Steps of time in which a token comes back.
const STEPS: u32 = 10;

/// Steps after which one is not waited for any more.
const LAST_STEP: u32 = 300;

async fn in_order<W: Waits>(limiter: &W) -> Seen {
    let mut line = [
        ('A', pin!(limiter.acquire(W::MOST.min(3)))),
        ('B', pin!(limiter.acquire(1))),
        ('C', pin!(limiter.acquire(1))),
    ];
    for (_, wait) in &mut line {
        if polled(wait.as_mut()).await.is_some() {
            return Seen::new(false, "one does not wait");
        }
    }
    // The last one looks first: whoever is served in turn does not mind. Time that is real may have passed for several.
    if !W::REAL {
        line.reverse();
    }
    let mut served = Vec::new();
    for _ in 0..LAST_STEP {
        limiter.pass(W::UNIT / STEPS).await;
        for (name, wait) in &mut line {
            if !served.contains(name) && polled(wait.as_mut()).await.is_some() {
                served.push(*name);
            }
        }
        if served.len() == line.len() {
            break;
        }
    }
    order(&served)
}

async fn large_first<W: Waits>(limiter: &W) -> Seen {
    let start = Instant::now();
    let mut a = pin!(limiter.acquire(W::MOST));
    let entered = polled(a.as_mut()).await;
    let overtaken = others_first(limiter, a, 'A', start).await;
    overtaken.seen(entered.is_none(), W::MOST)
}

/// A waits for the maximum, B behind it for one. A gives up, and others try.
pub async fn cancelled_head<W: Waits>(limiter: &W) -> Seen {
    let start = Instant::now();
    let mut b = pin!(limiter.acquire(1));
    let entered = {
        let mut a = pin!(limiter.acquire(W::MOST));
        let entered = (polled(a.as_mut()).await, polled(b.as_mut()).await);
        limiter.pass(W::UNIT / 2).await;
        entered
    };
    let overtaken = others_first(limiter, b, 'B', start).await;
    overtaken.seen(entered == (None, None), 1)
}

async fn gave_up<W: Waits>(limiter: &W) -> Seen {
    let start = Instant::now();
    for _ in 0..100 {
        limiter.give_up_at_once().await;
    }
    let mut next = pin!(limiter.acquire(1));
    for _ in 0..LAST_STEP {
        if polled(next.as_mut()).await.is_some() {
            let units = units::<W>(start);
            return Seen::new(units < 1.5, format!("after {units:.1} t"));
        }
        limiter.pass(W::UNIT / STEPS).await;
    }
    Seen::new(false, format!("not within {} t", LAST_STEP / STEPS))
}

/// What others got before one who waits.
struct Overtaken {
    who: char,
    others: u32,
    /// When it was served, in units of time.
    served: Option<f64>,
}

impl Overtaken {
    /// Returns the observation. The right result is that no other was admitted, and that the waiter was granted at its
    /// scheduled time.
    fn seen(&self, had_to_wait: bool, due: u32) -> Seen {
        let Self {
            who,
            others,
            served,
        } = self;
        let in_time = served.is_some_and(|units| units < f64::from(due) + 0.5);
        let served = match served {
            Some(units) => format!("{who} after {units:.1} t"),
            None => format!("{who} not within {} t", LAST_STEP / STEPS),
        };
        Seen::new(
            had_to_wait && *others == 0 && in_time,
            format!("others {others}, {served}"),
        )
    }
}

/// Others try, in every step, before the one who waits looks again.
async fn others_first<W: Waits>(
    limiter: &W,
    mut wait: Pin<&mut impl Future>,
    who: char,
    start: Instant,
) -> Overtaken {
    let mut others = 0;
    for _ in 0..LAST_STEP {
        others += u32::from(limiter.try_acquire());
        if polled(wait.as_mut()).await.is_some() {
            let served = Some(units::<W>(start));
            return Overtaken {
                who,
                others,
                served,
            };
        }
        limiter.pass(W::UNIT / STEPS).await;
    }
    let served = None;
    Overtaken {
        who,
        others,
        served,
    }
}

fn units<W: Waits>(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() / W::UNIT.as_secs_f64()
}

/// flowgate's bucket.
pub struct Ours {
    bucket: TokenBucket,
    time: ManualClock,
}

impl Ours {
    /// On a clock of its own.
    pub fn new() -> Self {
        let time = ManualClock::new();
        let builder = TokenBucket::builder(Quota::per_second(10)).clock(&time);
        let bucket = builder.initial_tokens(0).build();
        Self {
            bucket: bucket.expect("the numbers are in range"),
            time,
        }
    }
}

impl Waits for Ours {
    async fn acquire(&self, n: u32) {
        let granted = self.bucket.acquire().n(n.into()).await;
        granted.expect("it has no deadline, and the line has room");
    }

    fn try_acquire(&self) -> bool {
        self.bucket.try_acquire().is_ok()
    }

    async fn pass(&self, time: Duration) {
        self.time.advance(time);
        advance(time).await;
    }
}

/// leaky-bucket's, which is fair unless it is told otherwise.
struct Leaky(LeakyBucket);

impl Leaky {
    fn new() -> Self {
        let mut builder = LeakyBucket::builder();
        let builder = builder.max(10).initial(0).refill(1);
        Self(builder.interval(Duration::from_millis(100)).build())
    }
}

impl Waits for Leaky {
    async fn acquire(&self, n: u32) {
        self.0
            .acquire(usize::try_from(n).unwrap_or(usize::MAX))
            .await;
    }

    fn try_acquire(&self) -> bool {
        self.0.try_acquire(1)
    }
}

/// throttle-net's bucket, over tokio's clock.
pub struct ThrottleNet(Throttle<TokioClock>);

impl ThrottleNet {
    /// Empty.
    pub fn new() -> Self {
        let builder = Throttle::builder().per_second(10).initial(0);
        Self(builder.clock(TokioClock::new()).build())
    }
}

impl Waits for ThrottleNet {
    async fn acquire(&self, n: u32) {
        let granted = self.0.acquire_with_cost(n).await;
        granted.expect("it is not more than the capacity");
    }

    fn try_acquire(&self) -> bool {
        self.0.try_acquire()
    }
}

/// async-rate-limiter's, which counts by a private `Instant` and sleeps on tokio's clock.
struct RealTime(async_rate_limiter::RateLimiter);

impl RealTime {
    fn new() -> Self {
        let limiter = async_rate_limiter::RateLimiter::new(100);
        limiter.burst(10);
        // It has one at the start.
        while limiter.try_acquire().is_ok() {}
        Self(limiter)
    }
}

impl Waits for RealTime {
    const UNIT: Duration = Duration::from_millis(10);
    const MOST: u32 = 1;
    const REAL: bool = true;

    async fn acquire(&self, _one: u32) {
        self.0.acquire().await;
    }

    async fn give_up_at_once(&self) {
        self.0.acquire_with_timeout(Duration::ZERO).await;
    }

    fn try_acquire(&self) -> bool {
        self.0.try_acquire().is_ok()
    }

    async fn pass(&self, time: Duration) {
        sleep(time).await;
    }
}
