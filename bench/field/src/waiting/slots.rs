//! Semaphores: slots in use, and callers who wait for one to come back. There is no time in it.

use std::pin::pin;

use flowgate::{ConcurrencyLimit, Permit};
use throttle_net::{AdaptiveLimiter, AdaptivePermit, Aimd, SystemClock};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Row, order, polled};
use crate::paused;
use crate::seen::Seen;

/// The experiments, each with a short name.
pub const EXPERIMENTS: [(&str, &str); 4] = [
    (
        "order",
        "A, B and C wait for 1 each, slots come back one by one: who is served, in which order",
    ),
    (
        "large",
        "A waits for all 3, which others hold, let go one by one and try to have again, 1000 times: how often they do",
    ),
    (
        "cancelled",
        "A waits for all it may, B behind it for 1; A gives up, a slot comes back: does another get it who tries",
    ),
    (
        "let go",
        "B waits for the only slot; its holder lets go and tries to have it again, 1000 times: how often it does",
    ),
];

/// A semaphore.
pub trait Slots {
    /// A held permit.
    type Held<'a>
    where
        Self: 'a;
    /// Maximum request.
    const MOST: u32 = 3;

    /// Waits for `n`.
    async fn acquire(&self, n: u32) -> Self::Held<'_>;

    /// Takes one now, or not.
    fn try_acquire(&self) -> Option<Self::Held<'_>>;
}

/// All of them, in all experiments.
pub fn rows() -> Vec<Row> {
    vec![
        row("flowgate ConcurrencyLimit", |slots| {
            ConcurrencyLimit::new(slots)
        }),
        row("tokio 1.54.1 Semaphore", |slots| {
            Semaphore::new(usize::try_from(slots).unwrap_or(usize::MAX))
        }),
        row("throttle-net 2.0.0 AdaptiveLimiter, n = 1", adaptive),
    ]
}

fn row<S: Slots>(name: &'static str, new: fn(u32) -> S) -> Row {
    let cells = vec![
        Some(in_order(&new(3))),
        (S::MOST > 1).then(|| let_go_one_by_one(&new(3))),
        Some(cancelled_head(&new(3))),
        Some(let_go_and_retaken(&new(1))),
    ];
    Row { name, cells }
}

/// How often slots change hands before it is enough.
const ROUNDS: u32 = 1_000;

fn in_order<S: Slots>(slots: &S) -> Seen {
    paused::runtime().block_on(async {
        let mut held: Vec<_> = (0..3).map_while(|_| slots.try_acquire()).collect();
        let mut line = [
            ('A', pin!(slots.acquire(1))),
            ('B', pin!(slots.acquire(1))),
            ('C', pin!(slots.acquire(1))),
        ];
        for (_, wait) in &mut line {
            if polled(wait.as_mut()).await.is_some() {
                return Seen::new(false, "one does not wait");
            }
        }
        let (mut served, mut theirs) = (Vec::new(), Vec::new());
        while held.pop().is_some() {
            // The last one looks first: whoever is served in turn does not mind.
            for (name, wait) in line.iter_mut().rev() {
                if !served.contains(name)
                    && let Some(permit) = polled(wait.as_mut()).await
                {
                    served.push(*name);
                    theirs.push(permit);
                }
            }
        }
        order(&served)
    })
}

fn let_go_one_by_one<S: Slots>(slots: &S) -> Seen {
    paused::runtime().block_on(async {
        let mut held: Vec<_> = (0..3).map_while(|_| slots.try_acquire()).collect();
        let mut a = pin!(slots.acquire(3));
        let mut waits = polled(a.as_mut()).await.is_none();
        let mut retaken = 0;
        for _ in 0..ROUNDS {
            held.pop();
            if let Some(permit) = slots.try_acquire() {
                held.push(permit);
                retaken += 1;
            }
            waits &= held.is_empty() || polled(a.as_mut()).await.is_none();
        }
        drop(held);
        let served = polled(a.as_mut()).await.is_some();
        let then = if served {
            "then A is served"
        } else {
            "then A is not served"
        };
        Seen::new(
            waits && retaken == 0 && served,
            format!("{retaken} of {ROUNDS}, {then}"),
        )
    })
}

fn cancelled_head<S: Slots>(slots: &S) -> Seen {
    paused::runtime().block_on(async {
        let mut held: Vec<_> = (0..3).map_while(|_| slots.try_acquire()).collect();
        let mut b = pin!(slots.acquire(1));
        let waited = {
            let mut a = pin!(slots.acquire(S::MOST));
            polled(a.as_mut()).await.is_none() && polled(b.as_mut()).await.is_none()
        };
        held.pop();
        let other = slots.try_acquire();
        let served = polled(b.as_mut()).await.is_some();
        let what = match (&other, served) {
            (None, true) => "no, B has it",
            (None, false) => "no, and B has nothing either",
            (Some(_), _) => "yes, before B",
        };
        Seen::new(waited && other.is_none() && served, what)
    })
}

/// One slot, whose holder lets go and tries to have it again while another waits.
pub fn let_go_and_retaken<S: Slots>(slots: &S) -> Seen {
    paused::runtime().block_on(async {
        let mut held = slots.try_acquire();
        let mut b = pin!(slots.acquire(1));
        let mut waits = held.is_some() && polled(b.as_mut()).await.is_none();
        let mut retaken = 0;
        for _ in 0..ROUNDS {
            drop(held.take());
            held = slots.try_acquire();
            let served = polled(b.as_mut()).await.is_some();
            if held.is_none() {
                waits &= served;
                break;
            }
            retaken += 1;
        }
        Seen::new(waits && retaken == 0, format!("{retaken} of {ROUNDS}"))
    })
}

impl Slots for ConcurrencyLimit {
    type Held<'a> = Permit<&'a Self>;

    async fn acquire(&self, n: u32) -> Permit<&Self> {
        let granted = self.acquire().n(n.into()).await;
        granted.expect("it has no deadline, and the line has room")
    }

    fn try_acquire(&self) -> Option<Permit<&Self>> {
        self.try_acquire().ok()
    }
}

impl Slots for Semaphore {
    type Held<'a> = SemaphorePermit<'a>;

    async fn acquire(&self, n: u32) -> SemaphorePermit<'_> {
        self.acquire_many(n).await.expect("nobody closes it")
    }

    fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire().ok()
    }
}

/// throttle-net's, with a limit that stays.
pub fn adaptive(slots: u32) -> AdaptiveLimiter<Aimd> {
    let builder = AdaptiveLimiter::builder().floor(slots).ceiling(slots);
    builder.initial(slots).build(Aimd::default())
}

impl Slots for AdaptiveLimiter<Aimd> {
    type Held<'a> = AdaptivePermit<'a, Aimd, SystemClock>;
    const MOST: u32 = 1;

    async fn acquire(&self, _one: u32) -> AdaptivePermit<'_, Aimd, SystemClock> {
        self.acquire().await
    }

    fn try_acquire(&self) -> Option<AdaptivePermit<'_, Aimd, SystemClock>> {
        self.try_acquire()
    }
}
