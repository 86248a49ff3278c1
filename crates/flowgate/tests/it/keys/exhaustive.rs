//! All short histories of keyed limiters, and long random ones, judged by what each key was let through.
//!
//! Keys are crowded out, ask by the table's quota and by their own, wait for a moment and give up. The table's quota goes down and
//! up, clocks are set back, and what is known goes over to another limiter. Whatever happens, no key gets more in any interval of
//! limiter time than the largest burst in force for it and what flowed in meanwhile; in windows, not more than the largest limit.
//!
//! `FLOWGATE_OPS` sets how many random operations there are for each kind of limiter, `FLOWGATE_SEED` where to begin.

use crate::effort::{number, rounds};
use fastrand::Rng;
use flowgate::{
    Denied, FixedWindow, Grant, Keyed, KeyedAlgorithm, KeyedBuilder, ManualClock, Quota,
    SegmentedWindow, Timestamp, TokenBucket,
};
use flowgate_testkit::task::Task;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

/// Keys that are judged, and the first of those that crowd them out.
const KEYS: u64 = 3;
const CROWD: u64 = 1_000;

/// The largest admitted of a kind of limiter.
#[derive(Clone, Copy)]
enum Promise {
    /// Burst, and what flows in.
    Bucket,
    /// Limit in every window, times this, less one if more than one.
    Window(u64),
}

struct Setup<A: KeyedAlgorithm<Quota = Quota>> {
    promise: Promise,
    builder: fn(Quota) -> KeyedBuilder<A>,
    /// What the table's quota may be. It begins with the first.
    tables: Vec<Quota>,
    /// What a key's own may be.
    owns: Vec<Quota>,
    /// By which the crowd owes more, for longer, than any key.
    crowd: Quota,
    /// Those of the crowd that find a vacant slot each, and take all there are.
    others: Vec<u64>,
    step_ns: u64,
}

/// What a key was let through, and by what.
#[derive(Default)]
struct Judged {
    /// When, and how much.
    admitted: Vec<(u64, u64)>,
    /// The largest burst by which it has asked.
    burst: u64,
    /// The highest rate of its own, in units in 2³² ns.
    own_rate: u128,
    /// The latest that anything was admitted at.
    latest_ns: u64,
}

struct World<'a, A: KeyedAlgorithm<Quota = Quota>> {
    setup: &'a Setup<A>,
    clock: ManualClock,
    limits: Keyed<A>,
    table: usize,
    /// Rates of the table, each from an instant on.
    rates: Vec<(u64, u128)>,
    newest_ns: u64,
    largest: u64,
    keys: [Judged; KEYS as usize],
    did: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A key takes up to so many by the table's quota, or by its own of this number.
    Take(u64, u64, Option<usize>),
    /// The same, at an explicit time so much before or after the clock's.
    At(i64, u64, u64, Option<usize>),
    Back(u64, u64),
    Crowd,
    SetQuota(usize),
    Clock(i64),
    /// Somebody waits for a key for a moment, and another by another quota.
    Wait(u64, u64, [Option<usize>; 2]),
    Export,
}

fn rate(quota: Quota) -> u128 {
    (u128::from(quota.count()) << 32).div_ceil(quota.period().as_nanos())
}

fn limit(quota: Quota) -> u64 {
    quota.max_burst()
}

impl<A: KeyedAlgorithm<Quota = Quota>> Setup<A> {
    fn new(
        promise: Promise,
        builder: fn(Quota) -> KeyedBuilder<A>,
        tables: &[&str],
        owns: &[&str],
        crowd: &str,
        step_ns: u64,
    ) -> Self {
        let quotas = |texts: &[&str]| texts.iter().map(|text| quota(text)).collect();
        let mut setup = Self {
            promise,
            builder,
            tables: quotas(tables),
            owns: quotas(owns),
            crowd: quota(crowd),
            others: Vec::new(),
            step_ns,
        };
        let (limits, _) = setup.limits();
        let crowd = limits.with(setup.crowd).expect("a quota of this kind");
        let others = (CROWD..CROWD + 5_000).filter(|other| {
            let evicted = limits.counts().evicted;
            let before = limits.len();
            if before < 256 {
                crowd.take_up_to(other, u64::MAX);
            }
            limits.counts().evicted == evicted && limits.len() > before
        });
        setup.others = others.collect();
        assert!(setup.others.len() > 200, "{}", setup.others.len());
        setup
    }

    fn limits(&self) -> (Keyed<A>, ManualClock) {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(20 * self.step_ns));
        let builder = (self.builder)(self.tables[0]).clock(&clock).seed([3, 4]);
        (builder.capacity(4).expect("a quota of this kind"), clock)
    }

    fn run(&self, steps: impl IntoIterator<Item = Step>) -> World<'_, A> {
        let mut world = World::new(self);
        steps.into_iter().for_each(|step| world.step(step));
        world
    }
}

impl<'a, A: KeyedAlgorithm<Quota = Quota>> World<'a, A> {
    fn new(setup: &'a Setup<A>) -> Self {
        let (limits, clock) = setup.limits();
        Self {
            setup,
            limits,
            newest_ns: clock.now().as_nanos(),
            clock,
            table: 0,
            rates: vec![(0, rate(setup.tables[0]))],
            largest: limit(setup.tables[0]),
            keys: Default::default(),
            did: Vec::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn quota_of(&self, own: Option<usize>) -> Quota {
        own.map_or(self.setup.tables[self.table], |own| self.setup.owns[own])
    }

    fn step(&mut self, step: Step) {
        self.did.push(format!("{step:?} at {}", self.now_ns()));
        match step {
            Step::Take(key, n, own) => self.take(None, key, n, own),
            Step::At(by_ns, key, n, own) => {
                let at_ns = self.now_ns().saturating_add_signed(by_ns);
                self.take(Some(at_ns), key, n, own);
            }
            // A window keeps its place when all in it was given back, and this judge does not know that.
            Step::Back(..) if matches!(self.setup.promise, Promise::Window(_)) => {}
            Step::Back(key, n) => {
                let back = self.limits.refund(&key, n);
                self.keys[key as usize].refund(back);
            }
            Step::Crowd => {
                let crowd = self.limits.with(self.setup.crowd).expect("a quota");
                for other in &self.setup.others {
                    crowd.take_up_to(other, u64::MAX);
                }
            }
            Step::SetQuota(table) => {
                self.table = table;
                let quota = self.setup.tables[table];
                self.limits.set_quota(quota).expect("a quota");
                self.largest = self.largest.max(limit(quota));
                self.rates.push((self.newest_ns, rate(quota)));
            }
            Step::Clock(by_ns) => {
                let now_ns = self.now_ns().saturating_add_signed(by_ns);
                self.clock.set(Timestamp::from_nanos(now_ns));
                self.newest_ns = self.newest_ns.max(now_ns);
            }
            Step::Wait(key, n, owns) => {
                let n = owns
                    .map(|own| limit(self.quota_of(own)))
                    .into_iter()
                    .fold(n, u64::min);
                let limits = &self.limits;
                let views = owns.map(|own| {
                    let own = own.map(|own| self.setup.owns[own]);
                    own.map(|own| limits.with(own).expect("a quota"))
                });
                let wait = |view: &Option<_>| match view {
                    None => Task::start(limits.acquire(&key).n(n)),
                    Some(view) => Task::start(flowgate::KeyedView::acquire(view, &key).n(n)),
                };
                let mut tasks = [wait(&views[0]), wait(&views[1])];
                let seen = tasks.each_mut().map(|task| {
                    task.run();
                    granted(task)
                });
                drop(tasks);
                // The queue goes by the quota of whoever came last, and so does the key.
                owns.iter().for_each(|own| self.goes_by(key, *own));
                for (own, seen) in owns.into_iter().zip(seen) {
                    if let Some((at_ns, n)) = seen {
                        self.admit(at_ns, key, n, own);
                    }
                }
            }
            Step::Export => {
                let file = self.limits.export();
                let quota = self.setup.tables[self.table];
                let builder = (self.setup.builder)(quota).clock(&self.clock);
                self.limits = builder.import(&file).expect("it goes over");
                // From then on, what goes over counts in windows that reach there.
                let now_ns = self.now_ns();
                for key in &mut self.keys {
                    key.latest_ns = key.latest_ns.max(now_ns);
                }
            }
        }
    }

    fn take(&mut self, at_ns: Option<u64>, key: u64, n: u64, own: Option<usize>) {
        let limits = &self.limits;
        let now_ns = at_ns.unwrap_or(self.now_ns());
        let mut view = limits.at(Timestamp::from_nanos(now_ns));
        if let Some(own) = own {
            view = view.with(self.setup.owns[own]).expect("a quota");
        }
        let n = match (at_ns, own) {
            (None, None) if n == 1 => u64::from(limits.try_acquire(&key).is_ok()),
            (None, None) => limits.take_up_to(&key, n),
            (None, Some(own)) => {
                let view = limits.with(self.setup.owns[own]).expect("a quota");
                view.take_up_to(&key, n)
            }
            _ => {
                let left = view.available(&key);
                let taken = view.take_up_to(&key, n);
                assert_eq!(taken, left.min(n), "what is left is told: {:#?}", self.did);
                taken
            }
        };
        if n > 0 {
            self.admit(now_ns, key, n, own);
        }
    }

    fn admit(&mut self, at_ns: u64, key: u64, n: u64, own: Option<usize>) {
        self.newest_ns = self.newest_ns.max(at_ns);
        self.goes_by(key, own);
        let judged = &mut self.keys[key as usize];
        judged.latest_ns = judged.latest_ns.max(at_ns);
        let at_ns = match self.setup.promise {
            Promise::Bucket => at_ns,
            // At an earlier time it counts in the newest window.
            Promise::Window(_) => judged.latest_ns,
        };
        judged.admitted.push((at_ns, n));
        if let Some((from_ns, to_ns, sum, most)) = self.worst(key, at_ns) {
            let admitted = &self.keys[key as usize].admitted;
            panic!(
                "key {key} had {sum} of {most} from {from_ns} to {to_ns} ns: {admitted:?} after {:#?}",
                self.did
            );
        }
    }

    fn goes_by(&mut self, key: u64, own: Option<usize>) {
        let quota = self.quota_of(own);
        let judged = &mut self.keys[key as usize];
        judged.burst = judged.burst.max(limit(quota));
        if own.is_some() {
            judged.own_rate = judged.own_rate.max(rate(quota));
        }
    }

    /// An interval with `at_ns` in which too much was admitted: what, and how much might have been.
    fn worst(&self, key: u64, at_ns: u64) -> Option<(u64, u64, u64, u64)> {
        let judged = &self.keys[key as usize];
        let burst = judged.burst.max(self.largest);
        let froms = judged
            .admitted
            .iter()
            .map(|(ns, _)| *ns)
            .filter(|ns| *ns <= at_ns);
        froms
            .flat_map(|from_ns| {
                let tos = judged.admitted.iter().map(|(ns, _)| *ns);
                tos.filter(|ns| *ns >= at_ns)
                    .map(move |to_ns| (from_ns, to_ns))
            })
            .find_map(|(from_ns, to_ns)| {
                let most = match self.setup.promise {
                    Promise::Bucket => burst + self.flows_in(judged.own_rate, from_ns, to_ns),
                    Promise::Window(_) if from_ns == to_ns => burst,
                    Promise::Window(times) => {
                        let windows = self.setup.tables.iter().chain(&self.setup.owns);
                        let least = windows.map(|quota| quota.period().as_nanos()).min();
                        if u128::from(to_ns - from_ns) >= least.expect("there is a table") {
                            return None;
                        }
                        burst * times - u64::from(times > 1)
                    }
                };
                let within = judged
                    .admitted
                    .iter()
                    .filter(|(ns, _)| (from_ns..=to_ns).contains(ns));
                let sum = within.map(|(_, n)| n).sum::<u64>();
                (sum > most).then_some((from_ns, to_ns, sum, most))
            })
    }

    /// The units that the table's quotas, or a key's own, let flow in.
    fn flows_in(&self, own_rate: u128, from_ns: u64, to_ns: u64) -> u64 {
        let ends = self
            .rates
            .iter()
            .skip(1)
            .map(|(ns, _)| *ns)
            .chain([u64::MAX]);
        let all = self
            .rates
            .iter()
            .zip(ends)
            .map(|(&(begin_ns, rate), end_ns)| {
                let ns = to_ns.min(end_ns).saturating_sub(from_ns.max(begin_ns));
                u128::from(ns) * rate.max(own_rate)
            });
        (all.sum::<u128>() >> 32) as u64
    }
}

impl Judged {
    /// What was given back counts as never admitted: the newest.
    fn refund(&mut self, mut n: u64) {
        // What others have left in the sketch may come back too.
        while n > 0
            && let Some(last) = self.admitted.last_mut()
        {
            let part = n.min(last.1);
            last.1 -= part;
            n -= part;
            if last.1 == 0 {
                self.admitted.pop();
            }
        }
    }
}

fn granted<F: Future<Output = Result<Grant, Denied>>>(task: &Task<F>) -> Option<(u64, u64)> {
    Some((task.granted_ns()?, task.granted()?.units()))
}

fn bucket() -> Setup<TokenBucket> {
    Setup::new(
        Promise::Bucket,
        Keyed::token_bucket,
        &["1/100ns burst 4", "1/1000ns burst 2"],
        &["1/300ns burst 3"],
        "1/day burst 9",
        150,
    )
}

fn fast_own_bucket() -> Setup<TokenBucket> {
    Setup::new(
        Promise::Bucket,
        Keyed::token_bucket,
        &["1/1000ns burst 3", "1/100ns burst 3"],
        &["1/30ns burst 4"],
        "1/day burst 9",
        150,
    )
}

fn fixed() -> Setup<FixedWindow> {
    Setup::new(
        Promise::Window(2),
        Keyed::fixed_window,
        &["5/1000ns", "2/1000ns"],
        &["3/1000ns"],
        "90/day",
        400,
    )
}

fn segmented() -> Setup<SegmentedWindow> {
    Setup::new(
        Promise::Window(1),
        Keyed::segmented_window,
        &["5/1000ns", "2/1000ns"],
        &["3/1000ns"],
        "31/1000ns",
        400,
    )
}

/// Everything of this many steps that can be made of these.
fn exhaust<A: KeyedAlgorithm<Quota = Quota>>(setup: &Setup<A>, steps: &[Step]) {
    let length = rounds(4, 6) as u32;
    let all = (steps.len() as u64).pow(length);
    let mut admitted = 0_u64;
    for number in 0..all {
        let mut rest = number;
        let history = (0..length).map(|_| {
            let step = steps[(rest % steps.len() as u64) as usize];
            rest /= steps.len() as u64;
            step
        });
        let world = setup.run(history);
        admitted += world
            .keys
            .iter()
            .map(|key| key.admitted.len() as u64)
            .sum::<u64>();
    }
    assert!(admitted > all / 2, "{admitted} in {all} histories");
}

fn steps<A: KeyedAlgorithm<Quota = Quota>>(setup: &Setup<A>) -> [Step; 9] {
    let step_ns = setup.step_ns as i64;
    [
        Step::Take(0, 9, None),
        Step::Take(0, 1, None),
        Step::Take(0, 2, Some(0)),
        Step::At(-2 * step_ns, 0, 9, None),
        Step::Crowd,
        Step::SetQuota(1),
        Step::SetQuota(0),
        Step::Clock(3 * step_ns),
        Step::Wait(0, 9, [None, Some(0)]),
    ]
}

#[test]
fn c1_c4_c7_all_short_histories_of_a_bucket_keep_its_bound() {
    let setup = bucket();
    exhaust(&setup, &steps(&setup));
}

#[test]
fn c1_c4_c7_all_short_histories_of_a_bucket_with_a_fast_quota_of_its_own_keep_its_bound() {
    let setup = fast_own_bucket();
    let mut steps = steps(&setup);
    steps[3] = Step::At(-2 * setup.step_ns as i64, 0, 9, Some(0));
    steps[1] = Step::Take(1, 9, None);
    exhaust(&setup, &steps);
}

#[test]
fn c1_c4_c7_all_short_histories_of_a_fixed_window_keep_its_bound() {
    let setup = fixed();
    exhaust(&setup, &steps(&setup));
}

#[test]
fn c1_c4_c7_all_short_histories_of_a_segmented_window_keep_its_bound() {
    let setup = segmented();
    exhaust(&setup, &steps(&setup));
}

fn random_step<A: KeyedAlgorithm<Quota = Quota>>(setup: &Setup<A>, rng: &mut Rng) -> Step {
    let own = |rng: &mut Rng| match rng.u32(..10) {
        0..5 => None,
        _ => Some(rng.usize(..setup.owns.len())),
    };
    let by_ns = |rng: &mut Rng| {
        let most = setup.step_ns * [1, 3, 30][rng.usize(..3)];
        let ns = rng.u64(..=most) as i64;
        match rng.u32(..4) {
            0 => 0,
            1 => -ns,
            _ => ns,
        }
    };
    let key = rng.u64(..KEYS);
    let n = [1, 1, 2, 9, u64::MAX][rng.usize(..5)];
    match rng.u32(..100) {
        0..35 => Step::Take(key, n, own(rng)),
        35..55 => Step::At(by_ns(rng), key, n, own(rng)),
        55..60 => Step::Back(key, rng.u64(1..4)),
        60..66 => Step::Crowd,
        66..78 => Step::SetQuota(rng.usize(..setup.tables.len())),
        78..92 => Step::Clock(by_ns(rng)),
        92..98 => {
            let owns = [own(rng), own(rng)];
            Step::Wait(key, rng.u64(1..5), owns)
        }
        _ => Step::Export,
    }
}

/// Each history is short enough to begin anew often, and to be read.
fn random<A: KeyedAlgorithm<Quota = Quota>>(setup: &Setup<A>, share: u64) {
    let all = rounds(40_000, 400_000);
    let mut rng = Rng::with_seed(number("FLOWGATE_SEED", 1).wrapping_mul(1000) + share);
    let mut left = number("FLOWGATE_OPS", all) as i64;
    while left > 0 {
        let length = rng.u64(4..40);
        let steps = (0..length).map(|_| random_step(setup, &mut rng));
        let steps: Vec<_> = steps.collect();
        setup.run(steps);
        left -= length as i64;
    }
}

#[test]
fn c1_c4_c5_c7_random_histories_of_buckets_keep_their_bound() {
    random(&bucket(), 1);
    random(&fast_own_bucket(), 2);
    let several = Setup::new(
        Promise::Bucket,
        Keyed::token_bucket,
        &[
            "1/100ns burst 4",
            "1/1000ns burst 2",
            "1/us burst 20",
            "1/10ns burst 9",
        ],
        &["1/300ns burst 3", "1/7us burst 30", "1/20ns burst 5"],
        "1/day burst 99",
        700,
    );
    random(&several, 3);
}

#[test]
fn c1_c4_c5_c7_random_histories_of_fixed_windows_keep_their_bound() {
    random(&fixed(), 4);
    let several = Setup::new(
        Promise::Window(2),
        Keyed::fixed_window,
        &["5000/1000us", "2/1000us", "300/1000us"],
        &["3/1000us", "9000/1000us"],
        "90000/day",
        400_000,
    );
    random(&several, 5);
}

#[test]
fn c1_c4_c5_c7_random_histories_of_segmented_windows_keep_their_bound() {
    random(&segmented(), 6);
    let several = Setup::new(
        Promise::Window(1),
        Keyed::segmented_window,
        &["5000/1000us", "2/1000us", "300/1000us"],
        &["3/1000us", "9000/1000us"],
        "32000/1000us",
        400_000,
    );
    random(&several, 7);
}
