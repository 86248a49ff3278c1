//! Waiting in the queue where a turn takes longer or shorter than the one before: at approximate windows, limiters that warm
//! up, and buckets that decay. On a clock that only moves when told to.

use flowgate::{
    Acquirable, Acquire, ApproximateWindow, DecayingBucket, Grant, Limiter, ManualClock, Timestamp,
    Unlimited, WarmUp,
};
use flowgate_testkit::task::Task;
use std::collections::VecDeque;
use std::time::Duration;

/// Until nobody is woken any more.
fn run_all(tasks: &mut [Task<Acquire<impl Acquirable>>]) {
    let run = |task: &mut Task<_>| {
        let was_woken = task.was_woken();
        task.run();
        was_woken
    };
    while tasks.iter_mut().fold(false, |any, task| run(task) | any) {}
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn ns(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// A way to make a limiter, and what is to be known of it.
struct Kind {
    name: &'static str,
    make: fn(&ManualClock) -> Box<dyn Limiter>,
    /// The most at once.
    most: u64,
    /// What a unit takes, about.
    unit_ns: u64,
}

fn window(quota: &str, align_ns: u64, time: &ManualClock) -> ApproximateWindow {
    let builder = ApproximateWindow::builder(quota.parse().unwrap());
    builder.clock(time).align(ns(align_ns)).build().unwrap()
}

fn warm_up(quota: &str, warm_up: Duration, time: &ManualClock) -> WarmUp {
    let builder = WarmUp::builder(quota.parse().unwrap());
    builder.warm_up(warm_up).clock(time).build().unwrap()
}

fn decaying(capacity: u64, half_life: Duration, time: &ManualClock) -> DecayingBucket {
    let builder = DecayingBucket::builder(capacity, half_life);
    builder.clock(time).build().unwrap()
}

const KINDS: [Kind; 9] = [
    Kind {
        name: "window",
        make: |time| Box::new(window("10/s", 0, time)),
        most: 10,
        unit_ns: 100_000_000,
    },
    Kind {
        name: "window of one",
        make: |time| Box::new(window("1/s", 300_000_000, time)),
        most: 1,
        unit_ns: 2_000_000_000,
    },
    Kind {
        name: "window of few nanoseconds",
        make: |time| Box::new(window("7/13ns", 5, time)),
        most: 7,
        unit_ns: 2,
    },
    Kind {
        name: "warm-up",
        make: |time| Box::new(warm_up("10/s burst 8", ms(1300), time)),
        most: 8,
        unit_ns: 100_000_000,
    },
    Kind {
        name: "warm-up by fractions",
        make: |time| Box::new(warm_up("7/s burst 5", ms(3333), time)),
        most: 5,
        unit_ns: 142_857_142,
    },
    Kind {
        name: "always warm",
        make: |time| Box::new(warm_up("300M/s burst 50", ms(0), time)),
        most: 50,
        unit_ns: 3,
    },
    Kind {
        name: "decay",
        make: |time| Box::new(decaying(20, ms(1000), time)),
        most: 20,
        unit_ns: 72_000_000,
    },
    Kind {
        name: "decay of one",
        make: |time| Box::new(decaying(1, ms(1), time)),
        most: 1,
        unit_ns: 32_000_000,
    },
    Kind {
        name: "fast decay",
        make: |time| Box::new(decaying(1000, Duration::from_nanos(97), time)),
        most: 1000,
        unit_ns: 1,
    },
];

/// A queue served at the earliest instants, by a limiter of the same kind that is asked at explicit times.
struct Ideal {
    kind: &'static Kind,
    limiter: Box<dyn Limiter>,
    /// All that it has granted.
    grants: Vec<(u64, u64)>,
    line: VecDeque<Wait>,
    floor_ns: u64,
}

#[derive(Clone, Copy)]
struct Wait {
    id: usize,
    since_ns: u64,
    deadline_ns: u64,
    units: u64,
}

impl Ideal {
    fn new(kind: &'static Kind) -> Self {
        Self {
            kind,
            limiter: (kind.make)(&ManualClock::new()),
            grants: Vec::new(),
            line: VecDeque::new(),
            floor_ns: 0,
        }
    }

    /// Another one with the same past, so that it can be seen what would come.
    fn again(&self) -> Self {
        let mut again = Self::new(self.kind);
        for &(at_ns, units) in &self.grants {
            assert_eq!(again.limiter.try_acquire_n_at(ns(at_ns), units), Ok(()));
        }
        again.grants.clone_from(&self.grants);
        again.line.clone_from(&self.line);
        again.floor_ns = self.floor_ns;
        again
    }

    /// Tells `tell` whose turn has come by `now_ns`, and when; or that it will not in time.
    fn serve(&mut self, now_ns: u64, mut tell: impl FnMut(usize, Option<u64>)) {
        let mut at_ns = 0;
        while let Some(&wait) = self.line.front() {
            at_ns = at_ns.max(self.floor_ns).max(wait.since_ns);
            if at_ns > wait.deadline_ns {
                self.line.pop_front();
                tell(wait.id, None);
                at_ns = 0;
                continue;
            }
            if at_ns > now_ns {
                return;
            }
            match self.limiter.try_acquire_n_at(ns(at_ns), wait.units) {
                Ok(()) => {
                    self.line.pop_front();
                    self.floor_ns = at_ns;
                    self.grants.push((at_ns, wait.units));
                    tell(wait.id, Some(at_ns));
                }
                Err(denied) => {
                    let wait_ns = denied.retry_after().expect("it fits").as_nanos();
                    at_ns += u64::try_from(wait_ns).expect("soon");
                }
            }
        }
    }

    /// When `wait` would have its turn if all that are in the queue took theirs.
    fn date_behind_all(&self, wait: Wait) -> u64 {
        let mut again = self.again();
        again.line.push_back(wait);
        for wait in &mut again.line {
            wait.deadline_ns = u64::MAX;
        }
        let mut date = None;
        again.serve(u64::MAX, |id, at_ns| {
            if id == wait.id {
                date = at_ns;
            }
        });
        date.expect("there is no deadline")
    }
}

/// What a random line has shown.
#[derive(Debug, Default)]
struct Seen {
    waited: usize,
    refused_at_once: usize,
    refused_later: usize,
}

/// Joins, newcomers, cancellations and late polls at random times: every date is that of the ideal line, nobody
/// is refused at once who would have been in time, and whoever is not told to go is granted or refused as it should be.
fn random_line(kind: &'static Kind, seed: u64, seen: &mut Seen) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let time = ManualClock::new();
    let limiter = (kind.make)(&time);
    let mut ideal = Ideal::new(kind);
    let mut tasks: Vec<Task<Acquire<_>>> = Vec::new();
    let mut expected: Vec<Option<Option<u64>>> = Vec::new();
    let largest = if rng.bool() { 1 } else { kind.most };
    let pause_ns = kind.unit_ns * if rng.bool() { 3 } else { 1 };
    let context = |what: &str, id: usize| format!("{}, seed {seed}, {what} {id}", kind.name);
    for _ in 0..rng.usize(1..40) {
        time.advance(Duration::from_nanos(rng.u64(0..=pause_ns)));
        let now_ns = time.now().as_nanos();
        ideal.serve(now_ns, |id, at_ns| expected[id] = Some(at_ns));
        if rng.bool() {
            run_all(&mut tasks);
        }
        let id = tasks.len();
        let units = rng.u64(1..=largest);
        match rng.u32(0..8) {
            0 => {
                // Those go whose time is over, and somebody whose turn has not come.
                run_all(&mut tasks);
                let first = ideal.line.front().map(|wait| wait.id);
                ideal.line.retain(|wait| {
                    let stays = wait.deadline_ns > now_ns;
                    if !stays {
                        expected[wait.id] = Some(None);
                    }
                    stays
                });
                if let Some(at) = rng.choice(0..ideal.line.len()) {
                    let wait = ideal.line.remove(at).expect("it is one of them");
                    tasks[wait.id].cancel();
                }
                if ideal
                    .line
                    .front()
                    .is_some_and(|wait| first != Some(wait.id))
                {
                    // Only now can the one behind it go.
                    ideal.floor_ns = ideal.floor_ns.max(now_ns);
                }
            }
            1 => {
                let newcomer = Wait {
                    id,
                    since_ns: now_ns,
                    deadline_ns: u64::MAX,
                    units,
                };
                let (is_alone, date_ns) = (ideal.line.is_empty(), ideal.date_behind_all(newcomer));
                match limiter.try_acquire_n(units) {
                    Ok(()) => {
                        assert!(is_alone && date_ns == now_ns, "{}", context("try", id));
                        ideal.line.push_back(newcomer);
                        ideal.serve(now_ns, |_, _| ());
                    }
                    Err(denied) => {
                        let wait = denied.retry_after().expect("it fits").as_nanos() as u64;
                        assert!(
                            wait > 0 && now_ns + wait <= date_ns,
                            "{}",
                            context("try", id)
                        );
                        if is_alone {
                            assert_eq!(now_ns + wait, date_ns, "{}", context("try", id));
                        } else {
                            assert_eq!((limiter.available(), limiter.snapshot().remaining), (0, 0));
                        }
                    }
                }
            }
            _ => {
                let patience_ns = if rng.bool() {
                    rng.u64(0..=12 * kind.unit_ns)
                } else {
                    u64::MAX
                };
                let wait = Wait {
                    id,
                    since_ns: now_ns,
                    deadline_ns: now_ns.saturating_add(patience_ns),
                    units,
                };
                let patience = Duration::from_nanos(patience_ns);
                let task = Task::start(limiter.acquire().n(units).within(patience));
                let is_alone = ideal.line.is_empty();
                if let Some(denied) = task.denied() {
                    let date_ns = ideal.date_behind_all(wait);
                    assert!(date_ns > wait.deadline_ns, "{}", context("hopeless", id));
                    let excess = denied.retry_after().expect("it fits").as_nanos() as u64;
                    assert!(
                        excess <= date_ns - wait.deadline_ns,
                        "{}",
                        context("hopeless", id)
                    );
                    expected.push(Some(None));
                    seen.refused_at_once += 1;
                } else {
                    if is_alone {
                        let date_ns = ideal.date_behind_all(wait);
                        assert!(date_ns <= wait.deadline_ns, "{}", context("late", id));
                    }
                    expected.push(None);
                    ideal.line.push_back(wait);
                    ideal.serve(now_ns, |id, at_ns| {
                        expected[id] = Some(at_ns);
                        seen.refused_later += usize::from(at_ns.is_none());
                    });
                }
                tasks.push(task);
            }
        }
    }
    seen.waited += ideal.line.len();
    while !ideal.line.is_empty() {
        time.advance(Duration::from_nanos(rng.u64(0..=20 * kind.unit_ns)));
        run_all(&mut tasks);
        ideal.serve(time.now().as_nanos(), |id, at_ns| {
            expected[id] = Some(at_ns);
            seen.refused_later += usize::from(at_ns.is_none());
        });
    }
    run_all(&mut tasks);
    for (id, (task, expected)) in tasks.iter().zip(expected).enumerate() {
        match expected {
            Some(date_ns) => {
                let output = task.granted_ns();
                assert_eq!(output, date_ns, "{}", context("turn", id));
            }
            None => assert!(!task.is_waiting(), "{}", context("cancelled", id)),
        }
    }
    assert!(limiter.queue().is_empty());
}

#[test]
fn c6_dates_are_those_of_an_ideal_line_and_nobody_is_refused_too_soon() {
    for kind in &KINDS {
        let mut seen = Seen::default();
        for seed in 0..300 {
            random_line(kind, seed, &mut seen);
        }
        println!("{}: {seen:?}", kind.name);
        assert!(seen.waited > 300, "{}: {seen:?}", kind.name);
        assert!(
            seen.refused_at_once > 4 * seen.refused_later,
            "{}: {seen:?}",
            kind.name
        );
    }
}

/// Runs the clock by `step` until the last has had its turn, and tells the dates in milliseconds.
fn dates_ms(
    tasks: &mut [Task<Acquire<impl Acquirable<Granted = Grant>>>],
    time: &ManualClock,
    step: Duration,
) -> Vec<f64> {
    for _ in 0..1000 {
        run_all(tasks);
        time.advance(step);
    }
    let dates = tasks.iter().map(|task| task.granted_ms());
    dates.map(|date| date.expect("it was granted")).collect()
}

#[test]
fn c6_turns_at_an_approximate_window() {
    let time = ManualClock::new();
    let limiter = window("10/s", 0, &time);
    limiter.try_acquire_n(10).unwrap();
    let mut tasks = [5, 1, 4, 1].map(|n| Task::start(limiter.acquire().n(n)));
    assert_eq!((limiter.queue().len(), limiter.queue().units()), (4, 11));
    // 10 · (1 − x) + 5 = 10, and so on; in the next window, 6 · (1 − x) + 5 = 10.
    let dates = dates_ms(&mut tasks, &time, ms(7));
    assert_eq!(dates, [1500.0, 1600.0, 2000.0, 2166.666667]);
}

#[test]
fn c6_turns_at_a_limiter_that_warms_up_are_those_of_its_reservations() {
    let time = ManualClock::new();
    let limiter = warm_up("2/s", Duration::from_secs(4), &time);
    let mut tasks: Vec<_> = (0..6).map(|_| Task::start(limiter.acquire())).collect();
    let dates = dates_ms(&mut tasks, &time, ms(10));
    assert_eq!(dates, [0.0, 1375.0, 2500.0, 3375.0, 4000.0, 4500.0]);
}

#[test]
fn c6_turns_at_a_decaying_bucket() {
    let time = ManualClock::new();
    let limiter = decaying(4, ms(1000), &time);
    limiter.try_acquire_n(4).unwrap();
    let mut tasks = [2, 2, 3].map(|n| Task::start(limiter.acquire().n(n)));
    let dates = dates_ms(&mut tasks, &time, ms(7));
    // Half, half, and a quarter of it is left.
    assert_eq!(dates, [1000.0, 2000.0, 4000.0]);
}

#[test]
fn c6_no_verb_overtakes() {
    let time = ManualClock::new();
    let limiter = warm_up("10/s burst 5", ms(0), &time);
    limiter.try_acquire_n(5).unwrap();
    let mut first = Task::start(limiter.acquire().n(3));
    assert_eq!(
        limiter.try_acquire().unwrap_err().retry_after(),
        Some(ms(800))
    );
    assert_eq!(
        limiter.reserve_n(2).unwrap_err().retry_after(),
        Some(ms(800))
    );
    assert!(limiter.reserve_n(6).unwrap_err().is_never());
    assert_eq!(limiter.reserve_n(0).unwrap().units(), 0);
    assert_eq!((limiter.take_up_to(1), limiter.take_up_to(0)), (0, 0));
    assert_eq!(limiter.snapshot().reset_after, ms(800));
    assert_eq!(limiter.try_acquire_n(0), Ok(()));
    time.advance(ms(500));
    // Whoever comes has those served who are due.
    assert_eq!(
        limiter.try_acquire().unwrap_err().retry_after(),
        Some(ms(300))
    );
    assert!(first.run());
    assert_eq!(first.granted_ms(), Some(500.0));

    let limiter = window("10/s", 0, &time);
    limiter.try_acquire_n(8).unwrap();
    let _first = Task::start(limiter.acquire().n(10));
    assert_eq!((limiter.available(), limiter.take_up_to(2)), (0, 0));
    assert!(limiter.try_acquire().is_err());
    assert_eq!(limiter.try_acquire_n(0), Ok(()));

    let limiter = decaying(10, ms(1000), &time);
    limiter.try_acquire_n(8).unwrap();
    let _first = Task::start(limiter.acquire().n(4));
    assert_eq!((limiter.available(), limiter.take_up_to(2)), (0, 0));
    assert!(limiter.try_acquire().is_err());
    assert_eq!(limiter.try_acquire_n(0), Ok(()));
}

/// One whose turn comes leaves without having looked, at once or later; for who is behind it is as if it had never
/// been there.
#[test]
fn c5_a_grant_that_nobody_saw_comes_back_whole() {
    for (kind, later_ns) in KINDS
        .iter()
        .flat_map(|kind| [(kind, 0), (kind, kind.unit_ns / 3)])
    {
        for seed in 0..100 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let time = ManualClock::new();
            let limiter = (kind.make)(&time);
            let mut ideal = Ideal::new(kind);
            let wait = |ideal: &mut Ideal, since_ns, units| {
                ideal.line.push_back(Wait {
                    id: 0,
                    since_ns,
                    deadline_ns: u64::MAX,
                    units,
                });
                ideal.serve(u64::MAX, |_, _| ());
                ideal.floor_ns
            };
            for _ in 0..rng.usize(1..4) {
                time.advance(Duration::from_nanos(rng.u64(0..=3 * kind.unit_ns)));
                let n = rng.u64(1..=kind.most);
                let now_ns = time.now().as_nanos();
                if limiter.try_acquire_n(n).is_ok() {
                    wait(&mut ideal, now_ns, n);
                }
            }
            let now_ns = time.now().as_nanos();
            let (gone_n, then_n) = (rng.u64(1..=kind.most), rng.u64(1..=kind.most));
            let gone = Task::start(limiter.acquire().n(gone_n));
            if gone.output.is_some() {
                continue;
            }
            let mut then = Task::start(limiter.acquire().n(then_n));
            let gone_ns = wait(&mut ideal.again(), now_ns, gone_n);
            time.set(ns(gone_ns + later_ns));
            assert_eq!(limiter.try_acquire_n(kind.most).err().map(|_| ()), Some(()));
            then.poll();
            if then.output.is_some() {
                continue;
            }
            assert!(gone.was_woken());
            assert_eq!(limiter.queue().units(), then_n.into());
            drop(gone);

            ideal.floor_ns = gone_ns + later_ns;
            let then_ns = wait(&mut ideal, now_ns, then_n);
            // What decays is rounded up to ticks on the way, which the whole capacity has to wait for.
            let is_rounded = kind.name.contains("decay");
            if is_rounded && then_n == kind.most {
                continue;
            }
            let late_ns = u64::from(is_rounded) * (kind.unit_ns / 1_000_000 + 1);
            time.set(ns(then_ns + late_ns));
            then.run();
            let date_ns = then.granted_ns();
            assert!(
                date_ns.is_some_and(|date_ns| (then_ns..=then_ns + late_ns).contains(&date_ns)),
                "{}, seed {seed}: {date_ns:?} instead of {then_ns}",
                kind.name
            );
        }
    }
}

#[test]
fn c5_what_others_took_since_does_not_come_back() {
    // In another window.
    let time = ManualClock::new();
    let limiter = window("10/s", 0, &time);
    limiter.try_acquire_n(10).unwrap();
    let gone = Task::start(limiter.acquire().n(2));
    time.advance(ms(1500));
    assert_eq!(limiter.available(), 3);
    time.advance(ms(600));
    assert_eq!(
        limiter.available(),
        8,
        "of the two in the window before, 1.8 count"
    );
    limiter.try_acquire_n(6).unwrap();
    drop(gone);
    assert_eq!(limiter.available(), 4, "the six stay");
    assert_eq!(limiter.refund(10), 6);

    // Before another grant that is not paid yet.
    let time = ManualClock::new();
    let limiter = warm_up("10/s burst 5", ms(0), &time);
    limiter.try_acquire().unwrap();
    let gone = Task::start(limiter.acquire().n(2));
    let mut then = Task::start(limiter.acquire().n(5));
    time.advance(ms(300));
    assert!(limiter.try_acquire().is_err());
    assert!(then.run());
    assert_eq!(then.granted_ms(), Some(300.0));
    drop(gone);
    assert_eq!(
        limiter.try_acquire().unwrap_err().retry_after(),
        Some(ms(500))
    );

    let limiter = warm_up("10/s burst 5", ms(0), &time);
    limiter.try_acquire().unwrap();
    let gone = Task::start(limiter.acquire().n(2));
    time.advance(ms(300));
    assert_eq!(
        limiter.try_acquire_n(5),
        Ok(()),
        "whoever comes serves the line"
    );
    drop(gone);
    assert_eq!(
        limiter.try_acquire().unwrap_err().retry_after(),
        Some(ms(500))
    );

    // The last one comes back, whoever else has left before.
    let limiter = warm_up("10/s burst 5", ms(0), &time);
    limiter.try_acquire().unwrap();
    let [first, second] = [2, 5].map(|n| Task::start(limiter.acquire().n(n)));
    time.advance(ms(300));
    assert!(limiter.try_acquire().is_err());
    drop(first);
    assert_eq!(limiter.available(), 0);
    drop(second);
    assert_eq!(limiter.available(), 5);

    // What has decayed.
    let time = ManualClock::new();
    let limiter = decaying(8, ms(1000), &time);
    limiter.try_acquire_n(8).unwrap();
    let gone = Task::start(limiter.acquire().n(4));
    time.advance(ms(1000));
    assert_eq!(limiter.available(), 0);
    time.advance(ms(1000));
    drop(gone);
    assert_eq!(limiter.available(), 6, "of the first eight, two are left");
}

#[test]
fn c5_what_was_granted_in_other_units_or_windows_does_not_come_back() {
    for quota in ["10/s", "10/2s"] {
        let time = ManualClock::new();
        let limiter = window("10/s", 0, &time);
        let thousandths = "10/s".parse::<flowgate::Quota>().unwrap();
        limiter
            .set_quota(thousandths.units_per_token(1000).unwrap())
            .unwrap();
        limiter.try_acquire_n(10_000).unwrap();
        let gone = Task::start(limiter.acquire().n(1000));
        time.advance(ms(1100));
        assert!(limiter.try_acquire_n(10_000).is_err());
        assert!(gone.was_woken());
        limiter.set_quota(quota.parse().unwrap()).unwrap();
        let before = limiter.available();
        drop(gone);
        assert_eq!(limiter.available(), before);
    }
}

#[test]
fn refunds_and_other_settings_retime_the_line() {
    let time = ManualClock::new();
    let limiter = window("10/s", 0, &time);
    limiter.try_acquire_n(10).unwrap();
    let mut tasks = [2, 3].map(|n| Task::start(limiter.acquire().n(n)));
    time.advance(ms(5));
    assert_eq!(limiter.refund(2), 2);
    run_all(&mut tasks);
    assert_eq!(tasks[0].granted_ms(), Some(5.0));
    time.advance(ms(5));
    limiter.set_quota("13/s".parse().unwrap()).unwrap();
    run_all(&mut tasks);
    assert_eq!(tasks[1].granted_ms(), Some(10.0));
    let mut large = Task::start(limiter.acquire().n(12));
    limiter.set_quota("11/s".parse().unwrap()).unwrap();
    assert!(large.run());
    assert!(large.denied().unwrap().is_never());

    let time = ManualClock::new();
    let limiter = warm_up("10/s burst 10", ms(0), &time);
    limiter.try_acquire_n(10).unwrap();
    let reservation = limiter.reserve_n(10).unwrap();
    let mut tasks = [2, 3, 8].map(|n| Task::start(limiter.acquire().n(n)));
    time.advance(ms(100));
    assert_eq!(reservation.cancel(), 10);
    time.advance(ms(900));
    run_all(&mut tasks);
    assert_eq!(tasks[0].granted_ms(), Some(1000.0));
    time.advance(ms(50));
    assert_eq!(limiter.refund(1), 1);
    time.advance(ms(50));
    run_all(&mut tasks);
    assert_eq!(tasks[1].granted_ms(), Some(1100.0));
    limiter.set_quota("10/s burst 7".parse().unwrap()).unwrap();
    assert!(tasks[2].run());
    assert!(tasks[2].denied().unwrap().is_never());

    let time = ManualClock::new();
    let limiter = decaying(10, ms(1000), &time);
    limiter.try_acquire_n(10).unwrap();
    let mut tasks = [2, 3].map(|n| Task::start(limiter.acquire().n(n)));
    assert_eq!(limiter.refund(2, time.now()), 2);
    run_all(&mut tasks);
    assert_eq!(tasks[0].granted_ms(), Some(0.0));
    time.advance(ms(1));
    limiter.set(13, ms(1000)).unwrap();
    run_all(&mut tasks);
    assert_eq!(tasks[1].granted_ms(), Some(1.0));
    let mut large = Task::start(limiter.acquire().n(13));
    limiter.set(12, ms(1000)).unwrap();
    assert!(large.run());
    assert!(large.denied().unwrap().is_never());
}

#[test]
fn a_hopeless_deadline_is_refused_at_once() {
    let time = ManualClock::new();
    let limiter = window("10/s", 0, &time);
    limiter.try_acquire_n(10).unwrap();
    let _first = Task::start(limiter.acquire().n(5));
    // 9 of the next window's: 10 · (1 − x) + 9 ≤ 10 from 900 ms on.
    let hopeless = Task::start(limiter.acquire().n(4).within(ms(1899)));
    assert_eq!(hopeless.denied().unwrap().retry_after(), Some(ms(1)));
    let mut just = Task::start(limiter.acquire().n(4).within(ms(1900)));
    time.advance(ms(1900));
    just.run();
    assert_eq!(just.granted_ms(), Some(1900.0));

    let time = ManualClock::new();
    let limiter = warm_up("2/s", Duration::from_secs(4), &time);
    limiter.try_acquire().unwrap();
    let _first = Task::start(limiter.acquire());
    let hopeless = Task::start(limiter.acquire().within(ms(2499)));
    assert_eq!(hopeless.denied().unwrap().retry_after(), Some(ms(1)));
    let mut just = Task::start(limiter.acquire().within(ms(2500)));
    time.advance(ms(2500));
    just.run();
    assert_eq!(just.granted_ms(), Some(2500.0));

    let time = ManualClock::new();
    let limiter = decaying(1, ms(1), &time);
    limiter.try_acquire().unwrap();
    let each = limiter.try_acquire().unwrap_err().retry_after().unwrap();
    let _first = Task::start(limiter.acquire());
    let hopeless = Task::start(limiter.acquire().within(2 * each - ms(1)));
    assert_eq!(hopeless.denied().unwrap().retry_after(), Some(ms(1)));
    assert!(
        Task::start(limiter.acquire().within(2 * each))
            .denied()
            .is_none()
    );
}

/// As a time that a grant is told to be of is one at which it was possible.
#[test]
fn c1_a_grant_is_not_dated_where_it_would_have_been_too_much() {
    let time = ManualClock::new();
    let limiter = window("10/s", 300_000_000, &time);
    let early = Task::start(limiter.acquire().n(10));
    assert_eq!(
        early.granted_ms(),
        Some(0.0),
        "the first window begins late"
    );
    time.advance(ms(2400));
    limiter.try_acquire().unwrap();
    let mut late = Task::start(limiter.acquire().since(ns(0)));
    late.run();
    assert_eq!(late.granted_ms(), Some(2300.0));

    let time = ManualClock::new();
    let limiter = decaying(10, ms(1000), &time);
    limiter.try_acquire_n(10).unwrap();
    time.advance(ms(1000));
    limiter.try_acquire_n(4).unwrap();
    let mut late = Task::start(limiter.acquire().since(ns(0)));
    late.run();
    assert_eq!(late.granted_ms(), Some(1000.0));
}

#[test]
fn c4_a_line_that_lasts_for_ever_is_told_so() {
    let time = ManualClock::new();
    let century = Duration::from_secs(100 * 365 * 86_400);
    let limiters: [Box<dyn Limiter>; 4] = [
        Box::new(window("2/100y", 0, &time)),
        Box::new(window("1/100y", 0, &time)),
        Box::new(warm_up("1/100y burst 9", ms(0), &time)),
        Box::new(decaying(2, century, &time)),
    ];
    for limiter in &limiters {
        limiter.try_acquire().unwrap();
        let _ = limiter.try_acquire();
        let mut tasks = Vec::new();
        while tasks.len() < 20 {
            let task = Task::start(limiter.acquire());
            if let Some(denied) = task.denied() {
                assert!(denied.is_never(), "{limiter:?}: {denied}");
                break;
            }
            tasks.push(task);
        }
        assert!(
            (2..20).contains(&tasks.len()),
            "{limiter:?}: {}",
            tasks.len()
        );
        assert!(limiter.try_acquire().unwrap_err().is_never());
        assert_eq!(limiter.snapshot().remaining, 0);
    }
}

#[test]
fn closing_refuses_all_and_everything() {
    let time = ManualClock::new();
    for kind in &KINDS {
        let limiter = (kind.make)(&time);
        limiter.try_acquire_n(kind.most).unwrap();
        let mut task = Task::start(limiter.acquire().n(kind.most));
        limiter.queue().close();
        assert!(task.run());
        assert!(task.denied().unwrap().is_closed());
        assert!(limiter.try_acquire().unwrap_err().is_closed());
        assert!(Task::start(limiter.acquire()).denied().unwrap().is_closed());
        assert_eq!(limiter.available(), 0);
        assert_eq!(limiter.snapshot().reset_after, Duration::MAX);
        assert_eq!(limiter.try_acquire_n(0), Ok(()));
        if let Some(reserved) = limiter.try_reserve_n(1) {
            assert!(reserved.unwrap_err().is_closed());
        }
    }
}

#[test]
fn nobody_waits_at_an_unlimited_one_but_it_closes() {
    let time = ManualClock::new();
    let limiter = Unlimited::with_clock(&time);
    time.advance(ms(3));
    assert_eq!(
        Task::start(limiter.acquire().n(u64::MAX)).granted_ms(),
        Some(3.0)
    );
    assert!(limiter.queue().is_empty());
    limiter.queue().close();
    assert!(limiter.try_acquire().unwrap_err().is_closed());
    assert!(limiter.at(ns(9)).try_acquire_n(2).unwrap_err().is_closed());
    assert!(limiter.reserve().unwrap_err().is_closed());
    assert_eq!(limiter.at(ns(9)).reserve_n(0).unwrap().at(), ns(9));
    assert_eq!((limiter.take_up_to(5), limiter.available()), (0, 0));
    let seen = limiter.snapshot();
    assert_eq!((seen.remaining, seen.reset_after), (0, Duration::MAX));
    assert!(Task::start(limiter.acquire()).denied().unwrap().is_closed());
    assert_eq!(limiter.try_acquire_n(0), Ok(()));
}
