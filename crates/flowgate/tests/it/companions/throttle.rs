//! What a backend receives through a throttle, on a clock that is moved by hand; and against the definition, with and without
//! its parts.

use fastrand::Rng;
use flowgate::{ManualClock, Throttle, ThrottleBuilder, Timestamp};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// Of the backend, in requests per second.
const CAPACITY: u64 = 100;
const SEEDS: u64 = 20;

/// What decides whether a request is sent, and learns what became of it.
trait Decides {
    fn is_sent(&mut self, now_ns: u64) -> bool;
    fn record(&mut self, now_ns: u64, is_accepted: bool);
}

struct Ours {
    time: ManualClock,
    throttle: Throttle,
}

impl Ours {
    fn new(builder: ThrottleBuilder) -> Self {
        let time = ManualClock::new();
        let throttle = builder.clock(&time).build().expect("settings");
        Self { time, throttle }
    }
}

impl Decides for Ours {
    fn is_sent(&mut self, now_ns: u64) -> bool {
        self.time.set(Timestamp::from_nanos(now_ns));
        self.throttle.try_begin().is_ok()
    }

    fn record(&mut self, now_ns: u64, is_accepted: bool) {
        self.time.set(Timestamp::from_nanos(now_ns));
        self.throttle.record(is_accepted);
    }
}

/// The definition, and what it would be without a part of it: a list of outcomes, which is counted anew in each bucket.
struct Definition {
    settings: Settings,
    counts_local: bool,
    has_recent: bool,
    dice: Option<Rng>,
    /// Bucket, requests and accepted ones.
    outcomes: Vec<(u64, u64, u64)>,
    judged: (u64, u64),
    sum: u128,
}

#[derive(Clone, Copy)]
struct Settings {
    bucket_ns: u64,
    buckets: u64,
    multiplier_permille: u64,
    probe_permille: u64,
    min_requests: u64,
}

const DEFAULT: Settings = Settings {
    bucket_ns: SECOND_NS / 5,
    buckets: 50,
    multiplier_permille: 2000,
    probe_permille: 50,
    min_requests: 20,
};

impl Settings {
    fn builder(self) -> ThrottleBuilder {
        Throttle::builder()
            .window(Duration::from_nanos(self.bucket_ns * self.buckets))
            .buckets(self.buckets)
            .multiplier_permille(self.multiplier_permille as u32)
            .probe_permille(self.probe_permille as u32)
            .min_requests(self.min_requests)
    }

    fn window_ns(self) -> u64 {
        self.bucket_ns * self.buckets
    }

    fn multiplier(self) -> f64 {
        self.multiplier_permille as f64 / 1000.0
    }

    fn probes(self) -> f64 {
        self.probe_permille as f64 / 1000.0
    }

    fn recent(self) -> u64 {
        self.buckets.div_ceil(10)
    }

    /// As the documentation of `Throttle` has it.
    fn recovery_ns(self) -> u64 {
        let steps = (1.0 / self.probes()).ln() / self.multiplier().ln();
        let recent_ns = self.recent() * self.bucket_ns;
        recent_ns * (1 + steps.ceil() as u64) + 2 * self.bucket_ns
    }
}

impl Definition {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            counts_local: true,
            has_recent: true,
            dice: None,
            outcomes: Vec::new(),
            judged: (0, 1 << 32),
            sum: 0,
        }
    }

    fn share(&mut self, bucket: u64) -> u64 {
        let Settings {
            buckets,
            multiplier_permille,
            probe_permille,
            min_requests,
            ..
        } = self.settings;
        if bucket > self.judged.0 {
            self.outcomes.retain(|(of, ..)| of + buckets >= bucket);
            let share_of = |buckets: u64| {
                let in_it = self.outcomes.iter().filter(|it| it.0 + buckets >= bucket);
                let (requests, accepted) =
                    in_it.fold((0, 0), |sum, it| (sum.0 + it.1, sum.1 + it.2));
                let backed = u128::from(accepted) * u128::from(multiplier_permille);
                let whole = u128::from(requests) * 1000;
                (requests >= min_requests).then(|| (backed << 32).div_ceil(whole))
            };
            let probes = (u128::from(probe_permille) << 32).div_ceil(1000);
            let recent = share_of(self.settings.recent()).filter(|_| self.has_recent);
            let share = match share_of(buckets) {
                Some(share) => share.max(recent.unwrap_or(0)).max(probes).min(1 << 32),
                None => 1 << 32,
            } as u64;
            self.judged = (bucket, share);
        }
        self.judged.1
    }

    fn note(&mut self, bucket: u64, is_accepted: bool) {
        let accepted = u64::from(is_accepted);
        match self.outcomes.last_mut().filter(|last| last.0 == bucket) {
            Some(last) => (last.1, last.2) = (last.1 + 1, last.2 + accepted),
            None => self.outcomes.push((bucket, 1, accepted)),
        }
    }
}

impl Decides for Definition {
    fn is_sent(&mut self, now_ns: u64) -> bool {
        let bucket = now_ns / self.settings.bucket_ns;
        let share = self.share(bucket);
        let is_sent = match &mut self.dice {
            Some(dice) => dice.u64(..1 << 32) < share,
            None if share == 1 << 32 => true,
            None => {
                let before = self.sum >> 32;
                self.sum += u128::from(share);
                self.sum >> 32 != before
            }
        };
        if !is_sent && self.counts_local {
            self.note(bucket, false);
        }
        is_sent
    }

    fn record(&mut self, now_ns: u64, is_accepted: bool) {
        let bucket = now_ns / self.settings.bucket_ns;
        self.share(bucket);
        self.note(bucket, is_accepted);
    }
}

/// A backend that serves so many requests per second, and refuses the others immediately.
struct Backend {
    /// When it has served what it has accepted.
    free_ns: u64,
}

impl Backend {
    fn accepts(&mut self, now_ns: u64, capacity: u64) -> bool {
        // It queues ten.
        let each_ns = SECOND_NS / capacity.max(1);
        let is_accepted = capacity > 0 && self.free_ns <= now_ns + 10 * each_ns;
        if is_accepted {
            self.free_ns = self.free_ns.max(now_ns) + each_ns;
        }
        is_accepted
    }
}

/// One interval of traffic.
#[derive(Clone, Copy)]
struct Phase {
    until_ns: u64,
    demand: u64,
    capacity: u64,
}

/// When a request was sent, or not, and whether it was accepted.
struct Seen {
    at_ns: u64,
    is_sent: bool,
    is_accepted: bool,
}

/// What becomes of the requests of these phases. With a seed, they come at random times.
fn run(decides: &mut impl Decides, seed: Option<u64>, phases: &[Phase]) -> Vec<Seen> {
    let mut random = seed.map(Rng::with_seed);
    let mut backend = Backend { free_ns: 0 };
    let mut now_ns = 0;
    let mut seen = Vec::new();
    for phase in phases {
        while now_ns < phase.until_ns {
            let is_sent = decides.is_sent(now_ns);
            let is_accepted = is_sent && backend.accepts(now_ns, phase.capacity);
            if is_sent {
                decides.record(now_ns, is_accepted);
            }
            seen.push(Seen {
                at_ns: now_ns,
                is_sent,
                is_accepted,
            });
            let gap = match &mut random {
                Some(random) => -(1.0 - random.f64()).ln(),
                None => 1.0,
            };
            now_ns += (gap * SECOND_NS as f64 / phase.demand as f64) as u64;
        }
    }
    seen
}

fn sent_between(seen: &[Seen], from_ns: u64, to_ns: u64) -> u64 {
    let is_in = |seen: &&Seen| (from_ns..to_ns).contains(&seen.at_ns) && seen.is_sent;
    seen.iter().filter(is_in).count() as u64
}

/// `seconds` at half the capacity, and then this demand.
fn jump(seconds: u64, until: u64, times: u64) -> [Phase; 2] {
    let phase = |until: u64, demand| Phase {
        until_ns: until * SECOND_NS,
        demand,
        capacity: CAPACITY,
    };
    [phase(seconds, CAPACITY / 2), phase(until, times * CAPACITY)]
}

#[test]
fn c1_at_ten_times_the_demand_the_backend_receives_the_multiplier_times_its_capacity() {
    for (multiplier_permille, probe_permille, times) in [
        (2000, 50, 10),  // 2 C
        (1500, 50, 10),  // 1.5 C
        (2000, 50, 40),  // probes and multiplier are the same
        (2000, 50, 100), // 5 C: probes
        (1100, 1, 10),
    ] {
        let settings = Settings {
            multiplier_permille,
            probe_permille,
            ..DEFAULT
        };
        let mut ours = Ours::new(settings.builder());
        let seen = run(&mut ours, None, &jump(20, 80, times));
        let most = settings.multiplier().max(settings.probes() * times as f64);
        for from in 31..70 {
            let sent = sent_between(&seen, from * SECOND_NS, (from + 1) * SECOND_NS);
            let most = most * CAPACITY as f64 + 5.0;
            assert!(
                sent as f64 <= most * 1.001,
                "{sent} of {most} in second {from}"
            );
        }
    }
}

#[test]
fn c1_requests_that_come_at_random_change_little() {
    for seed in 0..SEEDS {
        let mut ours = Ours::new(Throttle::builder());
        let seen = run(&mut ours, Some(seed), &jump(20, 120, 10));
        let sent = sent_between(&seen, 40 * SECOND_NS, 120 * SECOND_NS) / 80;
        let accepted = seen.iter().filter(|seen| seen.is_accepted).count();
        assert!(sent <= CAPACITY * 21 / 10, "seed {seed}: {sent} per second");
        // And the backend is not idle.
        assert!(sent >= CAPACITY * 19 / 10, "seed {seed}: {sent} per second");
        assert!(accepted as u64 >= CAPACITY * 108, "seed {seed}: {accepted}");
    }
}

#[test]
fn c1_a_jump_of_the_demand_costs_what_the_formula_says() {
    for times in [3, 10, 100] {
        for seconds in [20, 7, 1] {
            let mut ours = Ours::new(Throttle::builder());
            let until = seconds + 30;
            let seen = run(&mut ours, None, &jump(seconds, until, times));
            let from_ns = seconds * SECOND_NS;
            let sent = sent_between(&seen, from_ns, from_ns + DEFAULT.window_ns());
            let (k, m) = (DEFAULT.multiplier(), times as f64);
            let window = 10.0 * CAPACITY as f64;
            let late = 2.0 * m * CAPACITY as f64 * 0.2;
            let most = window * (k - 1.0 + k * (m / k).ln()) / (1.0 - 1.0 / m) + late;
            // The queue of ten of the backend is capacity, too.
            assert!(
                sent as f64 <= most + 20.0,
                "{times} times: {sent} of {most}"
            );
        }
    }
}

#[test]
fn c2_nothing_is_refused_below_the_capacity() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        // From a few requests to nine tenths of the capacity, and from there to anything.
        let phases: Vec<_> = (1..=30)
            .map(|phase| Phase {
                until_ns: phase * 3 * SECOND_NS,
                demand: random.u64(1..=CAPACITY * 9 / 10),
                capacity: CAPACITY,
            })
            .collect();
        let mut ours = Ours::new(Throttle::builder());
        let seen = run(&mut ours, None, &phases);
        assert!(seen.iter().all(|seen| seen.is_sent), "seed {seed}");
    }
}

/// A demand that grows faster than responses come back is no overload.
#[test]
fn c2_requests_in_flight_are_not_held_against_a_slow_backend() {
    let ours = Ours::new(Throttle::builder());
    let permits: Vec<_> = (0..10_000)
        .map(|request| {
            ours.time.set(Timestamp::from_nanos(request * 1_000_000));
            ours.throttle.try_begin().expect("sent")
        })
        .collect();
    permits.into_iter().for_each(|permit| permit.accepted());
    ours.time.advance(Duration::from_secs(1));
    assert_eq!(ours.throttle.share_permille(), 1000);
}

#[test]
fn c2_up_to_its_share_of_refusals_a_backend_is_not_throttled() {
    // Requests, refusals in them, and the share after that.
    for (multiplier, requests, refusals, permille) in [
        (2000, 1000, 500, 1000),
        (2000, 1000, 501, 998),
        (4000, 1000, 750, 1000),
        (4000, 1000, 751, 996),
        (1250, 1000, 200, 1000),
        (1250, 1000, 201, 998),
        (2000, 19, 19, 1000),
        (2000, 20, 20, 50),
        (2000, 20, 11, 900),
    ] {
        let ours = Ours::new(Throttle::builder().multiplier_permille(multiplier));
        for request in 0..requests {
            let permit = ours.throttle.try_begin().expect("sent");
            match request < refusals {
                true => permit.overloaded(),
                false => permit.accepted(),
            }
        }
        assert_eq!(ours.throttle.share_permille(), 1000, "in the same bucket");
        ours.time.advance(ours.throttle.bucket());
        let share = ours.throttle.share_permille();
        assert_eq!(share, permille, "{refusals} refusals of {requests}");
        // And when the window is over.
        ours.time.advance(50 * ours.throttle.bucket());
        assert_eq!(ours.throttle.share_permille(), 1000);
    }
}

/// An outage from 20 s on for `seconds`, and requests for `more_ns` after that.
fn outage(seconds: u64, more_ns: u64) -> [Phase; 3] {
    let phase = |until_ns, capacity| Phase {
        until_ns,
        demand: 1000,
        capacity,
    };
    let back_ns = (20 + seconds) * SECOND_NS;
    [
        phase(20 * SECOND_NS, 10_000),
        phase(back_ns, 0),
        phase(back_ns + more_ns, 10_000),
    ]
}

#[test]
fn c1_in_an_outage_the_probes_are_sent() {
    let mut ours = Ours::new(Throttle::builder());
    let seen = run(&mut ours, None, &outage(300, 0));
    for from in 31..319 {
        let sent = sent_between(&seen, from * SECOND_NS, (from + 1) * SECOND_NS);
        assert!((45..=55).contains(&sent), "{sent} in second {from}");
    }
}

/// How long requests are refused after an outage of so many seconds, of those that are sent in `more_ns`.
fn refused_for_ns(decides: &mut impl Decides, seconds: u64, more_ns: u64, seed: u64) -> u64 {
    let seen = run(decides, Some(seed), &outage(seconds, more_ns));
    let last = seen.iter().rfind(|seen| !seen.is_sent).expect("an outage");
    last.at_ns - (20 + seconds) * SECOND_NS
}

fn recovers_in_time(settings: Settings, seconds: u64, seed: u64) {
    let most_ns = settings.recovery_ns();
    let mut ours = Ours::new(settings.builder());
    let after_ns = refused_for_ns(&mut ours, seconds, most_ns + SECOND_NS, seed);
    assert!(
        after_ns <= most_ns,
        "seed {seed}: {after_ns} of {most_ns} ns"
    );
}

#[test]
fn c2_after_an_outage_everything_is_sent_within_the_stated_time() {
    assert!(DEFAULT.recovery_ns() < 10 * SECOND_NS);
    for seed in 0..SEEDS {
        recovers_in_time(DEFAULT, 300, seed);
    }
    for (multiplier_permille, probe_permille, window) in [
        (2000, 100, 10),
        (2000, 10, 2),
        (3000, 50, 10),
        (1500, 50, 4),
        (1100, 50, 2),
        (10_000, 50, 10),
    ] {
        let settings = Settings {
            bucket_ns: window * SECOND_NS / 50,
            multiplier_permille,
            probe_permille,
            ..DEFAULT
        };
        for seed in 0..3 {
            recovers_in_time(settings, 30, seed);
        }
    }
}

#[test]
fn decisions_are_those_of_the_definition() {
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let settings = Settings {
            bucket_ns: random.u64(1_000_000..SECOND_NS),
            buckets: random.u64(1..=128),
            multiplier_permille: random.u64(1100..=10_000),
            probe_permille: random.u64(1..=1000),
            min_requests: random.u64(1..=100),
        };
        let (mut ours, mut definition) = (Ours::new(settings.builder()), Definition::new(settings));
        let mut now_ns = 0;
        let mut accepted = 0.5;
        for request in 0..20_000 {
            if random.u32(..500) == 0 {
                accepted = random.f64();
                now_ns += random.u64(..settings.window_ns() * 2);
            }
            now_ns += random.u64(..settings.bucket_ns / 10);
            let is_sent = ours.is_sent(now_ns);
            assert_eq!(
                is_sent,
                definition.is_sent(now_ns),
                "seed {seed}, request {request}"
            );
            if is_sent && random.u32(..10) > 0 {
                let is_accepted = random.f64() < accepted;
                ours.record(now_ns, is_accepted);
                definition.record(now_ns, is_accepted);
            }
        }
    }
}

/// Without the requests that it refuses itself, a throttle sends the more, the larger the demand.
#[test]
fn the_definition_without_its_own_refusals_sends_too_much() {
    for (times, least) in [(10, 30), (40, 60)] {
        let mut definition = Definition::new(DEFAULT);
        definition.counts_local = false;
        let seen = run(&mut definition, Some(7), &jump(20, 120, times));
        let sent = sent_between(&seen, 40 * SECOND_NS, 120 * SECOND_NS) / 80;
        assert!(
            sent >= CAPACITY * least / 10,
            "{times} times: {sent} per second"
        );
    }
}

/// Without the last tenth of the window, the outage has to leave the window first.
#[test]
fn the_definition_without_the_recent_part_recovers_late() {
    for seed in 0..3 {
        let mut definition = Definition::new(DEFAULT);
        definition.has_recent = false;
        let after_ns = refused_for_ns(&mut definition, 60, 60 * SECOND_NS, seed);
        assert!(after_ns > 2 * DEFAULT.recovery_ns(), "{after_ns} ns");
    }
}

/// The number of requests that are sent in a second varies several times as much with dice.
#[test]
fn the_definition_with_dice_is_less_even() {
    let variance = |definition: &mut Definition| {
        let seen = run(definition, None, &jump(20, 220, 10));
        let sent: Vec<_> = (40..220)
            .map(|from| sent_between(&seen, from * SECOND_NS, (from + 1) * SECOND_NS) as f64)
            .collect();
        let mean = sent.iter().sum::<f64>() / sent.len() as f64;
        sent.iter().map(|sent| (sent - mean).powi(2)).sum::<f64>() / sent.len() as f64
    };
    let even = variance(&mut Definition::new(DEFAULT));
    for seed in 0..SEEDS {
        let mut definition = Definition::new(DEFAULT);
        definition.dice = Some(Rng::with_seed(seed));
        let dice = variance(&mut definition);
        assert!(dice > 10.0 * even, "{dice} with dice, {even} without");
    }
}

#[test]
fn a_request_without_an_outcome_does_not_count() {
    let ours = Ours::new(Throttle::builder());
    for _ in 0..100 {
        drop(ours.throttle.try_begin().expect("sent"));
    }
    ours.time.advance(ours.throttle.bucket());
    assert_eq!(ours.throttle.counts().requests, 0);
}

#[test]
fn c3_a_refusal_names_the_time_of_the_next_judgment() {
    let ours = Ours::new(Throttle::builder());
    (0..20).for_each(|_| ours.throttle.record(false));
    ours.time.advance(Duration::from_millis(250));
    let denied = ours.throttle.try_begin().expect_err("throttled");
    assert!(denied.is_throttled());
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(150)));
    assert_eq!(
        denied.to_string(),
        "not sent, because the backend refuses too many requests; retry after 150ms"
    );
}

#[test]
fn c4_a_clock_that_runs_backward_changes_nothing() {
    let ours = Ours::new(Throttle::builder());
    ours.time.set(Timestamp::from_nanos(100 * SECOND_NS));
    (0..100).for_each(|_| ours.throttle.record(false));
    ours.time.advance(ours.throttle.bucket());
    assert_eq!(ours.throttle.share_permille(), 50);
    for at in [Timestamp::ORIGIN, Timestamp::from_nanos(99 * SECOND_NS)] {
        ours.time.set(at);
        assert_eq!(ours.throttle.share_permille(), 50);
        let sent = (0..1000).filter(|_| ours.throttle.try_begin().is_ok());
        assert_eq!(sent.count(), 50);
    }
    ours.time.set(Timestamp::MAX);
    assert_eq!(ours.throttle.share_permille(), 1000);
    (0..100).for_each(|_| ours.throttle.record(false));
    assert!(ours.throttle.try_begin().is_ok());
}

#[test]
fn of_the_requests_of_a_bucket_exactly_the_share_is_sent_on_all_threads() {
    let ours = Ours::new(Throttle::builder());
    (0..300).for_each(|_| ours.throttle.record(true));
    (0..700).for_each(|_| ours.throttle.record(false));
    ours.time.advance(ours.throttle.bucket());
    let sent: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..2500)
                        .filter(|_| ours.throttle.try_begin().is_ok())
                        .count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    assert_eq!(sent, 6_000);
}

#[test]
fn settings_out_of_range_are_refused() {
    let wrong = [
        Throttle::builder().window(Duration::from_micros(999)),
        Throttle::builder().buckets(0),
        Throttle::builder().buckets(129),
        Throttle::builder().multiplier_permille(1099),
        Throttle::builder().multiplier_permille(10_001),
        Throttle::builder().probe_permille(0),
        Throttle::builder().probe_permille(1001),
        Throttle::builder().min_requests(0),
    ];
    for builder in wrong {
        let text = format!("{builder:?}");
        assert!(builder.build().is_err(), "{text}");
    }
    let extreme = Throttle::builder()
        .window(Duration::MAX)
        .buckets(1)
        .probe_permille(1000);
    assert!(extreme.build().is_ok());
}
