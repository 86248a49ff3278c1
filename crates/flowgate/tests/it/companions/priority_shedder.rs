//! Which requests a shedder admits, in front of a limit with a queue; on a clock that the tests move.

use flowgate::{
    Acquire, ConcurrencyLimit, ManualClock, Permit, Permits, PriorityShedder, Timestamp,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);

/// What became of the requests of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    arrived: u64,
    shed: u64,
    served: u64,
    timed_out: u64,
}

impl Fate {
    fn served_permille(&self) -> u64 {
        self.served * 1000 / self.arrived
    }
}

type Wait<'a> = Pin<Box<Acquire<Permits<&'a ConcurrencyLimit>>>>;

/// 20 workers, each busy for 10 ms on average, behind a limit whose queue lasts for 50 ms.
struct Plant<'a> {
    time: ManualClock,
    limit: &'a ConcurrencyLimit,
    random: fastrand::Rng,
    working: BinaryHeap<Reverse<Timestamp>>,
    permits: Vec<Permit<&'a ConcurrencyLimit>>,
    waiting: VecDeque<(usize, Wait<'a>)>,
    fates: [Fate; 3],
}

impl<'a> Plant<'a> {
    /// An exponential time with this mean.
    fn draw(&mut self, mean_ns: f64) -> Duration {
        Duration::from_nanos((-(1.0 - self.random.f64()).ln() * mean_ns) as u64)
    }

    fn begin(&mut self, permit: Permit<&'a ConcurrencyLimit>) {
        let took = self.draw(10e6);
        self.permits.push(permit);
        self.working.push(Reverse(self.time.now() + took));
    }

    /// Lets the time pass until `then`: calls end, and waits with them.
    fn run_until(&mut self, then: Timestamp) {
        while let Some(Reverse(ends)) = self.working.peek().copied().filter(|ends| ends.0 <= then) {
            self.working.pop();
            self.time.set(ends);
            self.permits.pop();
            self.serve();
        }
        self.time.set(then);
        self.serve();
    }

    /// The queue is in order, and all wait for the same time: so it ends from the front.
    fn serve(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while let Some((level, wait)) = self.waiting.front_mut() {
            let (level, Poll::Ready(answer)) = (*level, wait.as_mut().poll(&mut context)) else {
                return;
            };
            self.waiting.pop_front();
            match answer {
                Ok(permit) => {
                    self.fates[level].served += 1;
                    self.begin(permit);
                }
                Err(_) => self.fates[level].timed_out += 1,
            }
        }
    }

    fn arrive(&mut self, level: usize, shedder: Option<&PriorityShedder>) {
        self.fates[level].arrived += 1;
        if let Some(shedder) = shedder {
            let is_shed = shedder.try_admit(level as u32).is_err();
            let lowest = shedder.lowest_admitted() as usize;
            // No inversion: nothing below the threshold is admitted, and nothing above it is shed.
            assert!(if is_shed {
                level <= lowest
            } else {
                level >= lowest
            });
            if is_shed {
                self.fates[level].shed += 1;
                return;
            }
        }
        if let Ok(permit) = self.limit.try_acquire() {
            self.fates[level].served += 1;
            self.begin(permit);
            return;
        }
        if let Some(shedder) = shedder {
            shedder.note_excess();
        }
        let wait = self.limit.acquire().within(Duration::from_millis(50));
        let mut wait = Box::pin(wait);
        let mut context = Context::from_waker(Waker::noop());
        match wait.as_mut().poll(&mut context) {
            Poll::Ready(_) => self.fates[level].timed_out += 1,
            Poll::Pending => self.waiting.push_back((level, wait)),
        }
    }
}

/// What becomes of `times` the capacity for 10 s: 50 % of level 0, 30 % of level 1, 20 % of level 2.
fn overload(times: f64, has_shedder: bool, seed: u64) -> [Fate; 3] {
    let time = ManualClock::new();
    let shedder = PriorityShedder::builder(3)
        .clock(&time)
        .build()
        .expect("a shedder");
    let limit = ConcurrencyLimit::builder(20)
        .clock(&time)
        .build()
        .expect("a limit");
    let mut plant = Plant {
        time: time.clone(),
        limit: &limit,
        random: fastrand::Rng::with_seed(seed),
        working: BinaryHeap::new(),
        permits: Vec::new(),
        waiting: VecDeque::new(),
        fates: [Fate::default(); 3],
    };
    let mut is_warm = false;
    while time.now() < Timestamp::ORIGIN + Duration::from_secs(12) {
        let next = time.now() + plant.draw(0.5e6 / times);
        plant.run_until(next);
        if !is_warm && time.now() > Timestamp::ORIGIN + Duration::from_secs(2) {
            is_warm = true;
            plant.fates = [Fate::default(); 3];
        }
        let level = match plant.random.u32(0..10) {
            0..5 => 0,
            5..8 => 1,
            _ => 2,
        };
        plant.arrive(level, has_shedder.then_some(&shedder));
    }
    plant.fates
}

#[test]
fn twice_the_capacity_is_shed_from_the_bottom() {
    for seed in 1..=3 {
        let [low, middle, top] = overload(2.0, true, seed);
        assert!(top.served * 1000 >= top.arrived * 999, "{top:?}");
        assert_eq!(top.shed, 0);
        assert!(middle.served_permille() > 600, "{middle:?}");
        assert!(low.served_permille() < 50, "{low:?}");
        let shed = low.shed + middle.shed;
        assert!(low.shed * 10 > shed * 8, "{low:?} of {shed}");
    }
}

#[test]
fn without_it_all_levels_lose_the_same() {
    let [low, middle, top] = overload(2.0, false, 1);
    for fate in [low, middle, top] {
        assert!((450..550).contains(&fate.served_permille()), "{fate:?}");
    }
}

#[test]
fn ten_times_the_capacity_leaves_the_top_what_there_is() {
    // The top alone is twice the capacity then.
    let [low, middle, top] = overload(10.0, true, 1);
    assert_eq!((low.served, middle.served, top.shed), (0, 0, 0));
    assert!(top.served_permille() > 480, "{top:?}");
}

#[test]
fn half_the_capacity_is_admitted() {
    let fates = overload(0.5, true, 1);
    assert_eq!(fates.map(|fate| (fate.shed, fate.timed_out)), [(0, 0); 3]);
}

fn shedder(time: &ManualClock) -> PriorityShedder {
    PriorityShedder::builder(2)
        .clock(time)
        .build()
        .expect("a shedder")
}

/// A window of 100 requests of level 0, all in excess.
fn window(time: &ManualClock, shedder: &PriorityShedder, is_excess: bool) -> usize {
    let admitted = (0..100).filter(|_| {
        let is_admitted = shedder.try_admit(0).is_ok();
        if is_admitted && is_excess {
            shedder.note_excess();
        }
        is_admitted
    });
    let admitted = admitted.count();
    time.advance(WINDOW);
    admitted
}

#[test]
fn the_share_falls_and_recovers_by_a_factor_for_each_window() {
    let time = ManualClock::new();
    let shedder = shedder(&time);
    let excess = [true, true, true, true, false, false, false];
    let admitted = excess.map(|is_excess| window(&time, &shedder, is_excess));
    // 1 − 0.7 / 4 after a window of excess, and 1 + 0.3 / 4 after one without.
    let expected: [usize; 7] = [100, 82, 68, 56, 46, 50, 54];
    for (admitted, expected) in admitted.into_iter().zip(expected) {
        assert!(
            admitted.abs_diff(expected) <= 1,
            "{admitted} for {expected}"
        );
    }
}

#[test]
fn a_refusal_reports_the_rest_of_the_window() {
    let time = ManualClock::new();
    let shedder = shedder(&time);
    window(&time, &shedder, true);
    let denied = loop {
        if let Err(denied) = shedder.try_admit(0) {
            break denied;
        }
    };
    assert!(denied.is_low_priority());
    assert_eq!(denied.retry_after(), Some(WINDOW));
    time.advance(WINDOW / 4);
    let denied = (0..10)
        .find_map(|_| shedder.try_admit(0).err())
        .expect("a part is shed");
    assert_eq!(denied.retry_after(), Some(WINDOW * 3 / 4));
}

#[test]
fn after_ten_quiet_windows_everything_is_admitted() {
    let time = ManualClock::new();
    let shedder = shedder(&time);
    for _ in 0..20 {
        window(&time, &shedder, true);
    }
    assert!(shedder.share_permille() < 30);
    time.advance(9 * WINDOW);
    assert_eq!(window(&time, &shedder, false), 2); // it is still judged by the windows before
    time.advance(11 * WINDOW);
    let _ = shedder.try_admit(0);
    time.advance(11 * WINDOW);
    assert_eq!(window(&time, &shedder, false), 100);
    assert_eq!(shedder.share_permille(), 1000);
}

#[test]
fn levels_above_the_highest_are_the_highest() {
    let time = ManualClock::new();
    let shedder = shedder(&time);
    for _ in 0..40 {
        window(&time, &shedder, true);
    }
    assert_eq!(
        (0..1000)
            .filter(|_| shedder.try_admit(u32::MAX).is_err())
            .count(),
        0
    );
}
