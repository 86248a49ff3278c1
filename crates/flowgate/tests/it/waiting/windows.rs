//! Waiting for a window: turns and dates are those that an ideal line would give, on a clock that only moves when
//! told to.

use flowgate::{
    Acquire, Denied, FixedWindow, Limiter, ManualClock, Order, Quota, SegmentedWindow,
    SlidingWindow, Spacing, Timestamp,
};
use flowgate_testkit::task::Task;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn per(limit: u64, window_ns: u64) -> Quota {
    Quota::new(limit, ns(window_ns)).unwrap()
}

/// The windows that are waited for here.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Fixed,
    /// Aligned to 3 ns.
    Aligned,
    Sliding,
    /// So many segments.
    Segmented(u64),
}

const KINDS: [Kind; 5] = [
    Kind::Fixed,
    Kind::Aligned,
    Kind::Sliding,
    Kind::Segmented(1),
    Kind::Segmented(4),
];

/// Limits of up to this can be set.
const MAX_LIMIT: u64 = 8;

#[derive(Debug)]
enum Window {
    Fixed(Box<FixedWindow>),
    Sliding(SlidingWindow),
    Segmented(SegmentedWindow),
}

impl Window {
    fn new(kind: Kind, quota: Quota, time: &ManualClock) -> Self {
        let fixed = FixedWindow::builder(quota).clock(time);
        match kind {
            Kind::Fixed => Self::Fixed(Box::new(fixed.build().unwrap())),
            Kind::Aligned => Self::Fixed(Box::new(fixed.align(at(3)).build().unwrap())),
            Kind::Sliding => {
                let sliding = SlidingWindow::builder(quota).clock(time);
                Self::Sliding(sliding.max_limit(MAX_LIMIT).build().unwrap())
            }
            Kind::Segmented(segments) => {
                let segmented = SegmentedWindow::builder(quota).clock(time);
                Self::Segmented(segmented.segments(segments).build().unwrap())
            }
        }
    }

    fn limiter(&self) -> &dyn Limiter {
        match self {
            Self::Fixed(window) => &**window,
            Self::Sliding(window) => window,
            Self::Segmented(window) => window,
        }
    }

    fn acquire(&self, n: u64) -> Acquire<&dyn Limiter> {
        self.limiter().acquire().n(n)
    }

    fn try_at(&self, at_ns: u64, n: u64) -> Result<(), Denied> {
        self.limiter().try_acquire_n_at(at(at_ns), n)
    }

    /// When there is room for one more.
    fn next_ns(&self, now_ns: u64) -> u64 {
        let denied = self.try_at(now_ns, 1).unwrap_err();
        now_ns + denied.retry_after().unwrap().as_nanos() as u64
    }

    fn take_up_to(&self, n: u64) -> u64 {
        match self {
            Self::Fixed(window) => window.take_up_to(n),
            Self::Sliding(window) => window.take_up_to(n),
            Self::Segmented(window) => window.take_up_to(n),
        }
    }

    fn refund_at(&self, at_ns: u64, n: u64) -> u64 {
        match self {
            Self::Fixed(window) => window.at(at(at_ns)).refund(n),
            Self::Sliding(window) => window.at(at(at_ns)).refund(n),
            Self::Segmented(window) => window.at(at(at_ns)).refund(n),
        }
    }

    fn set_quota_at(&self, at_ns: u64, quota: Quota) {
        match self {
            Self::Fixed(window) => window.at(at(at_ns)).set_quota(quota).unwrap(),
            Self::Sliding(window) => window.set_quota(quota).unwrap(),
            Self::Segmented(window) => window.at(at(at_ns)).set_quota(quota).unwrap(),
        }
    }
}

/// Calls `test` with a window of each kind, and the clock that it goes by.
fn each(limit: u64, window_ns: u64, test: impl Fn(Kind, &ManualClock, &Window)) {
    for kind in KINDS {
        let time = ManualClock::new();
        // No window begins before this, or has to be remembered.
        time.set(at(1003));
        test(
            kind,
            &time,
            &Window::new(kind, per(limit, window_ns), &time),
        );
    }
}

/// What has been done to a window, of what there is still to see.
#[derive(Clone, Copy, Debug)]
enum Done {
    Took { at_ns: u64, n: u64 },
    Refunded { at_ns: u64, n: u64 },
    Set { at_ns: u64, quota: Quota },
}

/// A queue as it should be: all are there the very moment that they are due.
struct Ideal {
    kind: Kind,
    quota: Quota,
    done: Vec<Done>,
    window: Window,
    line: VecDeque<Waiter>,
    floor_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    id: usize,
    n: u64,
    since_ns: u64,
    deadline_ns: u64,
}

impl Ideal {
    fn new(kind: Kind, quota: Quota) -> Self {
        Self {
            kind,
            quota,
            done: Vec::new(),
            window: Window::new(kind, quota, &ManualClock::new()),
            line: VecDeque::new(),
            floor_ns: 0,
        }
    }

    fn take(&mut self, at_ns: u64, n: u64) -> Result<(), Denied> {
        self.window.try_at(at_ns, n)?;
        self.done.push(Done::Took { at_ns, n });
        Ok(())
    }

    fn refund(&mut self, at_ns: u64, n: u64) -> u64 {
        self.note_change(at_ns);
        self.done.push(Done::Refunded { at_ns, n });
        self.window.refund_at(at_ns, n)
    }

    fn set_quota(&mut self, at_ns: u64, quota: Quota) {
        self.note_change(at_ns);
        self.done.push(Done::Set { at_ns, quota });
        self.window.set_quota_at(at_ns, quota);
    }

    /// What has become possible now was not before.
    fn note_change(&mut self, at_ns: u64) {
        if !self.line.is_empty() {
            self.floor_ns = self.floor_ns.max(at_ns);
        }
    }

    /// Serves whoever is due: who is granted, and dated when; or refused.
    fn serve(&mut self, now_ns: u64) -> Vec<(usize, Option<u64>)> {
        let mut told = Vec::new();
        while let Some(&next) = self.line.front() {
            let date = self.date(&next, now_ns);
            if date.is_some_and(|date_ns| date_ns > now_ns && date_ns <= next.deadline_ns) {
                break;
            }
            let date = date.filter(|&date_ns| date_ns <= next.deadline_ns);
            self.floor_ns = self.floor_ns.max(date.unwrap_or(0));
            self.line.pop_front();
            told.push((next.id, date));
        }
        let late = |waiter: &&Waiter| waiter.deadline_ns <= now_ns;
        told.extend(self.line.iter().filter(late).map(|late| (late.id, None)));
        self.line.retain(|waiter| waiter.deadline_ns > now_ns);
        told
    }

    /// When the next in the queue is granted, taken up to `until_ns`; none if never.
    fn date(&mut self, next: &Waiter, until_ns: u64) -> Option<u64> {
        let mut date_ns = self.floor_ns.max(next.since_ns);
        while date_ns <= until_ns.min(next.deadline_ns) {
            match self.take(date_ns, next.n) {
                Ok(()) => return Some(date_ns),
                Err(denied) => date_ns += denied.retry_after()?.as_nanos() as u64,
            }
        }
        Some(date_ns)
    }

    /// When somebody who comes at `now_ns` and wants `n` would be granted, if all those in the queue are first, none of
    /// whom gives up.
    fn forecast(&self, now_ns: u64, n: u64) -> Option<u64> {
        let mut ideal = Self::new(self.kind, self.quota);
        for &done in &self.done {
            match done {
                Done::Took { at_ns, n } => ideal.window.try_at(at_ns, n).unwrap(),
                Done::Refunded { at_ns, n } => drop(ideal.window.refund_at(at_ns, n)),
                Done::Set { at_ns, quota } => ideal.window.set_quota_at(at_ns, quota),
            }
        }
        ideal.floor_ns = self.floor_ns;
        let newcomer = Waiter {
            id: 0,
            n,
            since_ns: now_ns,
            deadline_ns: u64::MAX,
        };
        let mut last = None;
        for &waiter in self.line.iter().chain([&newcomer]) {
            let patient = Waiter {
                deadline_ns: u64::MAX,
                ..waiter
            };
            last = ideal.date(&patient, u64::MAX - 1);
            ideal.floor_ns = ideal.floor_ns.max(last.unwrap_or(0));
        }
        last
    }
}

/// What a random line has been through: how often each of these was seen.
#[derive(Debug, Default)]
struct Seen {
    waited: usize,
    hopeless: usize,
    held_back: usize,
    cancelled: usize,
}

/// A window and its queue, beside an ideal one.
struct Line<'a> {
    time: &'a ManualClock,
    window: &'a Window,
    ideal: Ideal,
    tasks: Vec<Option<Task<Acquire<&'a dyn Limiter>>>>,
    /// What each has to be told in the end.
    expected: Vec<Option<Option<u64>>>,
    /// All ask for single units, so that forecasts are exact.
    single: bool,
    seen: Seen,
}

impl Line<'_> {
    fn now_ns(&self) -> u64 {
        self.time.now().as_nanos()
    }

    /// The ideal line takes notice of the time.
    fn follow(&mut self) {
        for (id, told) in self.ideal.serve(self.now_ns()) {
            self.expected[id] = Some(told);
        }
    }

    /// Runs all tasks that have been woken, until none is.
    fn run(&mut self) {
        let mut was_woken = true;
        while was_woken {
            was_woken = false;
            for task in self.tasks.iter_mut().flatten() {
                was_woken |= task.output.is_none() && task.was_woken();
                task.run();
            }
        }
    }

    fn join(&mut self, n: u64, patience_ns: Option<u64>) {
        self.follow();
        let now_ns = self.now_ns();
        let forecast = self.ideal.forecast(now_ns, n);
        let mut wait = self.window.acquire(n);
        let mut deadline_ns = u64::MAX;
        if let Some(patience_ns) = patience_ns {
            wait = wait.within(ns(patience_ns));
            deadline_ns = now_ns + patience_ns;
        }
        let task = Task::start(wait);
        let id = self.tasks.len();
        self.expected.push(None);
        match (task.denied(), forecast) {
            (Some(denied), None) => {
                assert!(denied.is_never());
                self.expected[id] = Some(None);
            }
            (Some(denied), Some(date_ns)) => {
                let told_ns = denied.retry_after().expect("a time").as_nanos() as u64;
                let needed_ns = date_ns.saturating_sub(deadline_ns);
                assert!(needed_ns > 0, "refused, and would have had it at {date_ns}");
                // With no patience at all, what is told may be no more than when the next in the queue is due.
                assert!(told_ns <= needed_ns, "{told_ns} ns, not {needed_ns}");
                assert!(
                    !self.single || told_ns == needed_ns,
                    "{told_ns} ns, not {needed_ns}"
                );
                self.expected[id] = Some(None);
                self.seen.hopeless += 1;
            }
            (None, None) => panic!("waits for what is never granted"),
            (None, Some(date_ns)) => {
                assert!(
                    !self.single || date_ns <= deadline_ns,
                    "hopeless, and not told"
                );
                self.ideal.line.push_back(Waiter {
                    id,
                    n,
                    since_ns: now_ns,
                    deadline_ns,
                });
            }
        }
        self.tasks.push(Some(task));
        self.follow();
    }

    fn try_acquire(&mut self, n: u64) {
        self.follow();
        let now_ns = self.now_ns();
        let forecast = self.ideal.forecast(now_ns, n);
        let told = self.window.limiter().try_acquire_n(n);
        if self.ideal.line.is_empty() {
            let ideal = self.ideal.take(now_ns, n);
            assert_eq!(told.is_ok(), ideal.is_ok());
            let wait = |denied: Denied| denied.retry_after();
            assert_eq!(told.map_err(wait), ideal.map_err(wait));
            return;
        }
        self.seen.held_back += 1;
        let denied = told.expect_err("others wait");
        assert_eq!(denied.is_never(), forecast.is_none());
        assert_eq!(self.window.limiter().available(), 0);
        let snapshot = self.window.limiter().snapshot();
        assert_eq!(snapshot.remaining, 0);
        let whole_ns = self.ideal.forecast(now_ns, snapshot.limit).unwrap() - now_ns;
        assert!(snapshot.reset_after <= ns(whole_ns));
        if let Some(date_ns) = forecast {
            let told = denied.retry_after().unwrap();
            assert!(told <= ns(date_ns - now_ns), "{told:?} up to {date_ns}");
            assert!(
                !self.single || told == ns(date_ns - now_ns),
                "{told:?} up to {date_ns}"
            );
        }
    }

    /// Somebody leaves who still waits.
    fn cancel(&mut self, which: usize) {
        self.follow();
        let Some(&Waiter { id, .. }) = self.ideal.line.get(which) else {
            return;
        };
        self.ideal.line.remove(which);
        self.tasks[id] = None;
        if which == 0 {
            // Only now can the one behind it go.
            self.ideal.note_change(self.now_ns());
        }
        self.seen.cancelled += 1;
        self.follow();
    }

    fn refund(&mut self, n: u64) {
        self.follow();
        let now_ns = self.now_ns();
        let told = self.window.refund_at(now_ns, n);
        assert_eq!(told, self.ideal.refund(now_ns, n));
        self.follow();
    }

    fn set_quota(&mut self, quota: Quota) {
        self.follow();
        self.window.set_quota_at(self.now_ns(), quota);
        self.ideal.set_quota(self.now_ns(), quota);
        self.follow();
    }

    /// All that have been told by now what the ideal line tells.
    fn check(&mut self, all: bool) {
        self.follow();
        for (id, task) in self.tasks.iter().enumerate() {
            let Some(task) = task else { continue };
            let Some(output) = &task.output else {
                assert!(
                    !all || self.expected[id].is_none(),
                    "{id} has not been told"
                );
                continue;
            };
            let told = output.as_ref().ok().map(|grant| grant.at().as_nanos());
            assert_eq!(Some(told), self.expected[id], "task {id}");
        }
    }

    fn count(&mut self) {
        let outputs = self.tasks.iter().flatten().flat_map(|task| task.output);
        let waited = outputs.flatten().filter(|grant| !grant.waited().is_zero());
        self.seen.waited += waited.count();
    }
}

/// Many random lines of `kind`, each step of which `step` chooses.
fn explore(kind: Kind, single: bool, step: fn(&mut Line<'_>, &mut fastrand::Rng)) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..250 {
        let mut random = fastrand::Rng::with_seed(seed);
        let time = ManualClock::new();
        time.set(at(random.u64(0..200)));
        let quota = per(random.u64(1..=5), random.u64(8..60));
        let window = Window::new(kind, quota, &time);
        let mut line = Line {
            time: &time,
            window: &window,
            ideal: Ideal::new(kind, quota),
            tasks: Vec::new(),
            expected: Vec::new(),
            single,
            seen,
        };
        for _ in 0..50 {
            step(&mut line, &mut random);
        }
        time.advance(ns(100_000));
        line.run();
        for task in line.tasks.iter_mut().flatten() {
            task.poll();
        }
        line.check(true);
        line.count();
        assert!(window.limiter().queue().is_empty());
        seen = line.seen;
    }
    seen
}

/// All run as soon as they are woken, so that anything may happen in between.
fn prompt_step(line: &mut Line<'_>, random: &mut fastrand::Rng) {
    let n = if line.single { 1 } else { random.u64(1..=6) };
    match random.u32(0..20) {
        0..5 => line.join(n, None),
        5..8 => line.join(n, Some(random.u64(0..150))),
        8..10 => line.try_acquire(n),
        10 => line.cancel(random.usize(0..4)),
        11 => line.refund(random.u64(1..4)),
        // So that those who wait still fit: that others are in the way until their turn comes is another matter.
        12 => {
            let most = line.ideal.line.iter().map(|waiter| waiter.n).max();
            let limit = random.u64(most.unwrap_or(1)..=MAX_LIMIT);
            line.set_quota(per(limit, random.u64(8..60)));
        }
        _ => line.time.advance(ns(random.u64(1..25))),
    }
    line.run();
    line.check(true);
}

/// Nobody looks before it occurs to them.
fn lazy_step(line: &mut Line<'_>, random: &mut fastrand::Rng) {
    let n = if line.single { 1 } else { random.u64(1..=5) };
    match random.u32(0..20) {
        0..6 => line.join(n, None),
        6..8 => line.try_acquire(n),
        8..12 if !line.tasks.is_empty() => {
            let one = random.usize(0..line.tasks.len());
            let task = line.tasks[one].as_mut().expect("nobody gives up");
            task.poll();
        }
        _ => line.time.advance(ns(random.u64(1..80))),
    }
    line.check(false);
}

#[test]
fn c6_turns_and_dates_are_those_of_an_ideal_line() {
    for kind in KINDS {
        for single in [true, false] {
            let seen = explore(kind, single, prompt_step);
            assert!(seen.waited > 500, "{kind:?}: {seen:?}");
            assert!(
                seen.hopeless > 200 && seen.held_back > 200,
                "{kind:?}: {seen:?}"
            );
            assert!(seen.cancelled > 100, "{kind:?}: {seen:?}");
        }
    }
}

#[test]
fn c6_dates_are_those_of_an_ideal_line_however_late_anybody_looks() {
    for kind in KINDS {
        for single in [true, false] {
            let seen = explore(kind, single, lazy_step);
            assert!(seen.waited > 500, "{kind:?}: {seen:?}");
        }
    }
}

/// By the dates that were told, nothing was promised too much.
fn assert_kept(kind: Kind, limit: u64, window_ns: u64, mut dates: Vec<(u64, u64)>) {
    dates.sort_unstable();
    let held = |from_ns: u64| -> u64 {
        let is_in = |date_ns| (from_ns..from_ns + window_ns).contains(&date_ns);
        let held = dates.iter().filter(|&&(date_ns, _)| is_in(date_ns));
        held.map(|&(_, n)| n).sum()
    };
    for &(date_ns, _) in &dates {
        let (from_ns, most) = match kind {
            Kind::Sliding | Kind::Segmented(_) => (date_ns, limit),
            Kind::Aligned => ((date_ns - 3) / window_ns * window_ns + 3, limit),
            // Where windows begin is not told.
            Kind::Fixed => (date_ns, 2 * limit - 1),
        };
        let held = held(from_ns);
        assert!(
            held <= most,
            "{kind:?}: {held} of {most} from {from_ns} on: {dates:?}"
        );
    }
}

#[test]
fn c1_a_grant_is_not_dated_before_others_who_came_in_between() {
    each(2, 20, |kind, time, window| {
        window.limiter().queue().set_order(Order::Barging);
        window.try_at(1005, 2).unwrap();
        time.set(at(1006));
        let mut task = Task::start(window.acquire(1));
        assert!(task.output.is_none());
        // The time has come for it, and another is faster.
        let next_ns = window.next_ns(1006);
        time.set(at(next_ns + 1));
        window.limiter().try_acquire().unwrap();
        time.advance(ns(1));
        assert!(task.poll());
        let date_ns = task.granted_ns().unwrap();
        assert!(date_ns >= next_ns, "{kind:?}: {date_ns}");
        assert_kept(kind, 2, 20, vec![(1005, 2), (next_ns + 1, 1), (date_ns, 1)]);
    });
}

#[test]
fn c1_dates_keep_the_promise_while_newcomers_barge_in() {
    for kind in KINDS {
        let mut granted = 0;
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let time = ManualClock::new();
            time.set(at(1000 + random.u64(0..100)));
            let (limit, window_ns) = (random.u64(1..=5), random.u64(8..60));
            let window = Window::new(kind, per(limit, window_ns), &time);
            window.limiter().queue().set_order(Order::Barging);
            let mut tasks: Vec<Task<Acquire<&dyn Limiter>>> = Vec::new();
            let mut dates = Vec::new();
            for _ in 0..80 {
                let n = random.u64(1..=limit);
                match random.u32(0..6) {
                    0 => {
                        let earlier = at(time.now().as_nanos() - random.u64(0..20));
                        tasks.push(Task::start(window.acquire(n).since(earlier)));
                    }
                    1 if window.limiter().try_acquire_n(n).is_ok() => {
                        dates.push((time.now().as_nanos(), n));
                    }
                    2 => {
                        if let Some(task) = random.choice(&mut tasks) {
                            task.poll();
                        }
                    }
                    _ => time.advance(ns(random.u64(1..15))),
                }
            }
            for task in &mut tasks {
                task.poll();
            }
            let grants = tasks.iter().flat_map(|task| task.output).flatten();
            let grants: Vec<_> = grants
                .map(|grant| (grant.at().as_nanos(), grant.units()))
                .collect();
            granted += grants.len();
            dates.extend(grants);
            assert_kept(kind, limit, window_ns, dates);
        }
        assert!(granted > 1000, "{kind:?}: {granted}");
    }
}

#[test]
fn c6_no_verb_overtakes() {
    each(4, 20, |kind, time, window| {
        assert_eq!(window.take_up_to(3), 3);
        let mut task = Task::start(window.acquire(4));
        time.advance(ns(1));
        assert_eq!(window.take_up_to(1), 0, "{kind:?}");
        assert_eq!(window.try_at(1004, 0), Ok(()));
        assert!(window.try_at(1004, 1).is_err());
        assert!(window.try_at(1004, 5).unwrap_err().is_never());
        assert_eq!(window.limiter().available(), 0);
        assert!(format!("{window:?}").contains("available: 0"));
        time.advance(ns(100));
        // Whoever comes serves those who are due.
        let late = window.try_at(1104, 1);
        assert_eq!(
            late.is_ok(),
            !matches!(kind, Kind::Fixed) || task.granted_ns().is_none()
        );
        assert!(task.run());
        assert!(task.granted_ns().unwrap() < 1060);
    });
}

#[test]
fn the_next_is_retimed_by_a_refund_and_by_another_quota() {
    each(4, 20, |kind, time, window| {
        window.try_at(1003, 4).unwrap();
        let mut first = Task::start(window.acquire(2));
        let mut second = Task::start(window.acquire(3));
        time.advance(ns(2));
        assert_eq!(window.refund_at(1005, 1), 1);
        assert!(!first.run());
        assert_eq!(window.refund_at(1005, 1), 1);
        assert!(first.run() && !second.run());
        assert_eq!(first.granted_ns(), Some(1005), "{kind:?}");
        window.set_quota_at(1005, per(6, 20));
        assert!(!second.run());
        window.set_quota_at(1005, per(7, 20));
        assert!(second.run());
        assert_eq!(second.granted_ns(), Some(1005), "{kind:?}");

        let mut fits = Task::start(window.acquire(2));
        let mut does_not = Task::start(window.acquire(4));
        window.set_quota_at(1005, per(2, 20));
        fits.run();
        assert!(fits.output.is_none());
        time.advance(ns(100));
        assert!(fits.run() && does_not.run());
        assert!(does_not.denied().unwrap().is_never());
    });
}

#[test]
fn aligning_retimes_the_next() {
    let time = ManualClock::new();
    let window = FixedWindow::builder(per(2, 100))
        .clock(&time)
        .build()
        .unwrap();
    window.try_acquire_n(2).unwrap();
    let mut task = Task::start(window.acquire());
    time.advance(ns(10));
    // At 100 by its beginning, at 170 when it may begin only 70 past the hundred.
    window.align(at(70));
    time.advance(ns(90));
    assert!(!task.run());
    time.advance(ns(70));
    assert!(task.run());
    assert_eq!(task.granted_ns(), Some(170));
}

#[test]
fn closing_refuses_all_and_everything() {
    each(2, 20, |kind, time, window| {
        window.try_at(1003, 1).unwrap();
        let mut task = Task::start(window.acquire(2));
        window.limiter().queue().close();
        assert!(task.run());
        assert!(task.denied().unwrap().is_closed(), "{kind:?}");
        time.advance(ns(100));
        assert!(window.limiter().try_acquire().unwrap_err().is_closed());
        assert_eq!(window.take_up_to(1), 0);
        assert!(Task::start(window.acquire(1)).denied().unwrap().is_closed());
        assert_eq!(window.try_at(1103, 0), Ok(()));
        assert_eq!(window.limiter().available(), 0);
    });
}

#[test]
fn a_wait_is_for_a_whole_token_unless_it_is_told() {
    let time = ManualClock::new();
    let quota: Quota = "2/20ns units 10".parse().unwrap();
    for kind in KINDS {
        let window = match kind {
            // Takes more than 8 units.
            Kind::Sliding => {
                Window::Sliding(SlidingWindow::builder(quota).clock(&time).build().unwrap())
            }
            _ => Window::new(kind, quota, &time),
        };
        let grant = Task::start(window.limiter().acquire())
            .output
            .unwrap()
            .unwrap();
        assert_eq!((grant.units(), window.limiter().available()), (10, 10));
        let _first = Task::start(window.acquire(11));
        let behind = window.limiter().try_acquire().unwrap_err();
        let of_ten = window.limiter().try_acquire_n(10).unwrap_err();
        assert_eq!(behind.retry_after(), of_ten.retry_after());
    }
}

#[test]
fn a_window_that_is_not_asked_the_time_has_a_line_too() {
    let time = ManualClock::new();
    let builder = FixedWindow::builder(per(3, 20)).clock(&time).clock_free();
    let window = builder.build().unwrap();
    window.try_acquire_n(2).unwrap();
    let mut task = Task::start(window.acquire().n(2));
    assert!(window.try_acquire().is_err(), "that would overtake");
    time.advance(ns(20));
    assert!(task.run());
    assert_eq!(task.granted_ns(), Some(20));
    assert!(window.try_acquire().is_ok());
    time.advance(ns(100));
    let mut task = Task::start(window.acquire().n(1));
    assert!(task.poll());
    assert_eq!(task.granted_ns(), Some(120), "in a window of its own");
    assert_eq!(window.available(), 2);
}

#[test]
fn where_gaps_count_a_grant_is_dated_when_somebody_looks() {
    each(1, 20, |kind, time, window| {
        window.try_at(1003, 1).unwrap();
        let wait = || window.acquire(1).spacing(Spacing::AtLeast);
        let mut tasks = [wait(), wait()].map(Task::start);
        time.advance(ns(67));
        // Serves nobody, as the first has not looked.
        assert!(window.try_at(1070, 1).is_err());
        assert!(tasks[0].run() && !tasks[1].run(), "{kind:?}");
        assert_eq!(tasks[0].granted_ns(), Some(1070));
        time.advance(ns(67));
        assert!(tasks[1].run());
        assert_eq!(tasks[1].granted_ns(), Some(1137));
    });
}

#[test]
fn c5_a_grant_that_nobody_saw_comes_back() {
    each(3, 20, |kind, time, window| {
        window.try_at(1003, 3).unwrap();
        let unseen = Task::start(window.acquire(2));
        time.advance(ns(200));
        assert_eq!(
            window.limiter().available(),
            3,
            "{kind:?}: it has long left"
        );
        drop(unseen);
        assert_eq!(
            window.limiter().available(),
            3,
            "{kind:?}: it does not come back twice"
        );

        assert_eq!(window.take_up_to(3), 3);
        let first_ns = window.next_ns(1203);
        let unseen = Task::start(window.acquire(2));
        let mut behind = Task::start(window.acquire(2));
        time.set(at(first_ns));
        assert!(!behind.poll());
        assert_eq!(
            window.limiter().queue().units(),
            2,
            "{kind:?}: the first has been granted"
        );
        drop(unseen);
        assert!(behind.run(), "{kind:?}: it was the first's");
        assert_eq!(behind.granted_ns(), Some(first_ns));
        assert_eq!(window.limiter().available(), 1, "{kind:?}");
    });
}

/// A grant that was not seen, others after it, and then it is given back: what they took goes on counting.
#[test]
fn c1_c5_what_comes_back_is_not_what_others_took() {
    for kind in KINDS {
        let mut seen = 0;
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let time = ManualClock::new();
            time.set(at(1003));
            let (limit, window_ns) = (random.u64(2..=5), random.u64(8..60));
            let quota = per(limit, window_ns);
            let window = Window::new(kind, quota, &time);
            window.try_at(1003, limit).unwrap();
            // What there would be if those who leave had never come.
            let mut dates = vec![(1003, limit)];
            let mut tasks: Vec<Task<Acquire<&dyn Limiter>>> = Vec::new();
            for _ in 0..random.u32(1..8) {
                tasks.push(Task::start(window.acquire(random.u64(1..=limit))));
            }
            for _ in 0..40 {
                time.advance(ns(random.u64(1..15)));
                // All that are due are granted, and told by nobody.
                if window.limiter().try_acquire().is_ok() {
                    dates.push((time.now().as_nanos(), 1));
                }
                if !tasks.is_empty() && random.u32(0..4) == 0 {
                    let mut task = tasks.swap_remove(random.usize(0..tasks.len()));
                    if random.bool() {
                        task.poll();
                    }
                    if let Some(Ok(grant)) = task.output {
                        dates.push((grant.at().as_nanos(), grant.units()));
                        seen += 1;
                    }
                }
            }
            assert_kept(kind, limit, window_ns, dates.clone());
            drop(tasks);
            // What is left is what those have who stayed.
            let now_ns = time.now().as_nanos();
            let counts = |date_ns: u64| match kind {
                // When its window began is not told.
                Kind::Fixed => None,
                Kind::Aligned => Some((date_ns - 3) / window_ns == (now_ns - 3) / window_ns),
                Kind::Sliding => Some(date_ns + window_ns > now_ns),
                Kind::Segmented(count) => {
                    let segment_ns = window_ns.div_ceil(count);
                    Some(date_ns / segment_ns + count >= now_ns / segment_ns)
                }
            };
            let held = dates
                .iter()
                .map(|&(date_ns, n)| counts(date_ns).map(|counts| if counts { n } else { 0 }));
            if let Some(held) = held.sum::<Option<u64>>() {
                assert_eq!(
                    window.limiter().available(),
                    limit - held,
                    "{kind:?}: {dates:?} at {now_ns}"
                );
            }
        }
        assert!(seen > 100, "{kind:?}: {seen}");
    }
}

#[test]
fn c1_dates_keep_the_promise_while_threads_wait() {
    for (kind, order) in KINDS
        .iter()
        .flat_map(|&kind| [(kind, Order::Fifo), (kind, Order::Barging)])
    {
        let time = ManualClock::new();
        time.set(at(1003));
        let window = Window::new(kind, per(3, 30), &time);
        window.limiter().queue().set_order(order);
        let waiting = AtomicUsize::new(3);
        let dates: Vec<_> = std::thread::scope(|threads| {
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    threads.spawn(|| {
                        let take = |n| (window.acquire(n).block().unwrap().at().as_nanos(), n);
                        let dates: Vec<_> = (0..60).map(|turn| take(1 + turn % 2)).collect();
                        waiting.fetch_sub(1, Ordering::SeqCst);
                        dates
                    })
                })
                .collect();
            while waiting.load(Ordering::SeqCst) > 0 {
                time.advance(ns(1));
                std::thread::yield_now();
            }
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap())
                .collect()
        });
        assert_eq!(dates.len(), 180);
        assert_kept(kind, 3, 30, dates);
        assert!(window.limiter().queue().is_empty());
    }
}

#[test]
fn c4_a_turn_after_the_end_of_time_is_refused_at_once() {
    for kind in KINDS {
        let time = ManualClock::new();
        time.set(at(3));
        let window = Window::new(kind, per(1, 1 << 62), &time);
        window.limiter().try_acquire().unwrap();
        let waits: Vec<_> = (0..4).map(|_| Task::start(window.acquire(1))).collect();
        let refused: Vec<_> = waits.iter().filter_map(Task::denied).collect();
        // A segment is as long as the window, and two of them count.
        let fit = match kind {
            Kind::Segmented(1) => 1,
            Kind::Segmented(_) | Kind::Fixed | Kind::Aligned | Kind::Sliding => 3,
        };
        assert_eq!(refused.len(), 4 - fit, "{kind:?}");
        assert!(refused.iter().all(Denied::is_never), "{kind:?}");
        assert_eq!(window.limiter().queue().len(), fit);
        let behind = window.limiter().try_acquire().unwrap_err();
        assert!(behind.is_never(), "{kind:?}: {behind}");
        assert!(window.limiter().snapshot().reset_after > ns(u64::MAX));
    }
}

#[test]
fn c1_a_date_before_all_that_is_remembered_is_not_given() {
    let time = ManualClock::new();
    let window = Window::new(Kind::Segmented(1), per(5, 20), &time);
    // One segment and the one before it count; of all these, no more than four are remembered.
    let taken = [
        (1005, 4),
        (1021, 1),
        (1045, 4),
        (1061, 1),
        (1081, 1),
        (1101, 1),
        (1121, 1),
    ];
    for (at_ns, n) in taken {
        window.try_at(at_ns, n).unwrap();
    }
    time.set(at(1125));
    let task = Task::start(window.acquire(1).since(at(1003)));
    let date_ns = task.granted_ns().expect("there is room now");
    assert!(date_ns > 1065, "{date_ns}");
    let mut dates = taken.to_vec();
    dates.push((date_ns, 1));
    assert_kept(Kind::Segmented(1), 5, 20, dates);
}

#[test]
fn what_needs_a_whole_window_does_not_hope_for_half_of_one() {
    let time = ManualClock::new();
    let window = FixedWindow::builder(per(4, 20))
        .clock(&time)
        .build()
        .unwrap();
    window.try_acquire_n(4).unwrap();
    let _first = Task::start(window.acquire().n(1));
    let hopeless = Task::start(window.acquire().n(4).within(ns(39)));
    assert_eq!(hopeless.denied().unwrap().retry_after(), Some(ns(1)));
    let just = Task::start(window.acquire().n(4).within(ns(40)));
    assert!(just.output.is_none());
}

#[test]
fn c5_what_comes_back_after_more_than_a_thousand_others() {
    for (others, back) in [(1000, 1), (1024, 0)] {
        let time = ManualClock::new();
        let window = SlidingWindow::builder(per(3000, 10_000))
            .clock(&time)
            .build()
            .unwrap();
        window.try_acquire_n(3000).unwrap();
        let unseen = Task::start(window.acquire());
        time.advance(ns(10_000));
        for _ in 0..others {
            window.try_acquire().unwrap();
        }
        drop(unseen);
        assert_eq!(window.available(), 3000 - others - 1 + back);
        assert_eq!(window.take_up_to(3000), 3000 - others - 1 + back);
        time.advance(ns(10_000));
        assert_eq!(window.available(), 3000);
    }
}

#[test]
fn c5_what_was_counted_in_other_units_does_not_come_back() {
    for (changed, left) in [("4/20ns", 3), ("2/20ns units 10", 0)] {
        let time = ManualClock::new();
        // Of an aligned window all comes back, also what was counted first.
        let window = FixedWindow::builder(per(2, 20))
            .align(Timestamp::ORIGIN)
            .clock(&time)
            .build()
            .unwrap();
        window.try_acquire_n(2).unwrap();
        let unseen = Task::start(window.acquire());
        time.advance(ns(20));
        assert!(window.try_acquire().is_ok());
        window.set_quota(changed.parse().unwrap()).unwrap();
        drop(unseen);
        assert_eq!(window.available(), left, "{changed}");
    }
}
