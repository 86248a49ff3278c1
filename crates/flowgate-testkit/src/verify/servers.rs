//! Limiters as servers of others have them, and networks and machines as they are between a client and a server.
//!
//! Each is written down from its source or its documentation, with its clock. [`Network`] adds what a client sees beside the
//! limiter: jitter, slow responses, and a process that stands still.

use core::time::Duration;
use std::collections::VecDeque;

use fastrand::Rng;

use flowgate_verify::Simulated;

use super::{Answer, BlockStart, Estimate, Findings, Investigation, Question};

/// Decides whether a request at a time in nanoseconds may be admitted, and whether it then counts.
trait Rule {
    fn admits(&self, at_ns: u64) -> bool;
    fn count(&mut self, at_ns: u64);
}

/// Limiter of a server. It decides one request after the other, at times that do not go back.
///
/// ```
/// use flowgate_testkit::verify::servers::ServerLimit;
///
/// // Two requests per second, and three per minute.
/// let mut limit = ServerLimit::bucket(2, 1_000_000_000, 2).and(ServerLimit::fixed(3, 60_000_000_000));
/// let admitted = (0..10).filter(|second| limit.admits(second * 1_000_000_000)).count();
/// assert_eq!(admitted, 3);
/// ```
#[allow(missing_debug_implementations)]
pub struct ServerLimit {
    rules: Vec<Box<dyn Rule>>,
    tick_ns: u64,
}

impl ServerLimit {
    fn of(rule: impl Rule + 'static) -> Self {
        Self {
            rules: vec![Box::new(rule)],
            tick_ns: 1,
        }
    }

    /// A token bucket or GCRA: `n` per `period_ns`, and `burst`.
    pub fn bucket(n: u64, period_ns: u64, burst: u64) -> Self {
        Self::of(Bucket {
            // In units of 1/n nanosecond.
            n: u128::from(n),
            interval: u128::from(period_ns),
            burst: u128::from(burst),
            full_at: 0,
        })
    }

    /// A window that begins with the first request after the previous one, as in express-rate-limit.
    pub fn fixed(limit: u64, window_ns: u64) -> Self {
        Self::of(Fixed {
            limit,
            window_ns,
            ends_ns: 0,
            admitted: 0,
        })
    }

    /// A window on the clock, as with a key of Redis per second.
    pub fn aligned(limit: u64, window_ns: u64) -> Self {
        Self::of(Aligned {
            limit,
            window_ns,
            index: 0,
            admitted: 0,
        })
    }

    /// A window that remembers every admission.
    pub fn sliding(limit: usize, window_ns: u64) -> Self {
        Self::of(Sliding {
            limit,
            window_ns,
            admitted: VecDeque::new(),
        })
    }

    /// Two counters, on the clock: the previous window counts in proportion to its overlap.
    pub fn two_counters(limit: u64, window_ns: u64) -> Self {
        Self::of(TwoCounters {
            limit,
            window_ns,
            index: 0,
            before: 0,
            current: 0,
        })
    }

    /// Adds limits that also apply. A request is admitted if all admit it, and only then counts.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self
    }

    /// Reads a clock that advances only every `tick`.
    #[must_use]
    pub fn tick(self, tick: Duration) -> Self {
        Self {
            tick_ns: tick.as_nanos() as u64,
            ..self
        }
    }

    /// Decides a request.
    pub fn admits(&mut self, at_ns: u64) -> bool {
        let at_ns = at_ns / self.tick_ns * self.tick_ns;
        let admits = self.rules.iter().all(|rule| rule.admits(at_ns));
        if admits {
            for rule in &mut self.rules {
                rule.count(at_ns);
            }
        }
        admits
    }
}

/// Middleware that delays requests instead of refusing them, as express-slow-down.
///
/// It delays the requests of a window after the first ones. A window begins with the first request after the previous one. Every request counts.
///
/// ```
/// use core::time::Duration;
/// use flowgate_testkit::verify::Question;
/// use flowgate_testkit::verify::servers::SlowDown;
///
/// // Two requests per second are free. The third one waits 30 ms, the fourth one 40 ms.
/// let mut limit = SlowDown::new(2, 1_000_000_000, |used| Duration::from_millis(10 * used));
/// let mut at = |at_ns| limit.answer(Question { at_ns, connection: 0, key: 0 }).held.as_millis();
/// assert_eq!([0, 1, 2, 3, 1_000_000_000].map(|at_ns| at(at_ns)), [0, 0, 30, 40, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct SlowDown {
    after: u64,
    window_ns: u64,
    delay: fn(u64) -> Duration,
    ends_ns: u64,
    used: u64,
}

impl SlowDown {
    /// Creates a middleware whose window has `after` prompt requests.
    ///
    /// Each further one is delayed by `delay` of its number in the window.
    pub fn new(after: u64, window_ns: u64, delay: fn(u64) -> Duration) -> Self {
        Self {
            after,
            window_ns,
            delay,
            ends_ns: 0,
            used: 0,
        }
    }

    /// Admits a request, and responds after its delay.
    pub fn answer(&mut self, question: Question) -> Answer {
        if question.at_ns >= self.ends_ns {
            (self.ends_ns, self.used) = (question.at_ns + self.window_ns, 0);
        }
        self.used += 1;
        let is_free = self.used <= self.after;
        Answer {
            held: if is_free {
                Duration::ZERO
            } else {
                (self.delay)(self.used)
            },
            ..true.into()
        }
    }
}

/// Middleware that admits nothing for a time once its limit is used up.
///
/// The limit holds in a window that begins with the first request after the previous one, or after a block.
///
/// - rate-limiter-flexible with `blockDuration` counts the block from the first refusal.
/// - Fastify with `continueExceeding` counts it from the last one. The block is as long as the window.
///
/// ```
/// use flowgate_testkit::verify::BlockStart;
/// use flowgate_testkit::verify::servers::BlockAfter;
///
/// let admitted = |counted_from, times: &[u64]| -> Vec<bool> {
///     let mut limit = BlockAfter::new(2, 10, 5, counted_from);
///     times.iter().map(|at_ns| limit.admits(*at_ns)).collect()
/// };
/// let times = [0, 1, 3, 6, 8, 11];
/// assert_eq!(admitted(BlockStart::LastAdmission, &times), [true, true, false, true, true, false]);
/// assert_eq!(admitted(BlockStart::FirstRefusal, &times), [true, true, false, false, true, true]);
/// assert_eq!(admitted(BlockStart::LastRefusal, &times), [true, true, false, false, false, false]);
/// ```
#[derive(Clone, Debug)]
pub struct BlockAfter {
    window: Fixed,
    block_ns: u64,
    counted_from: BlockStart,
    until_ns: Option<u64>,
}

impl BlockAfter {
    /// Creates a middleware that blocks for `block_ns` once `limit` requests were admitted in a window.
    pub fn new(limit: u64, window_ns: u64, block_ns: u64, counted_from: BlockStart) -> Self {
        Self {
            window: Fixed {
                limit,
                window_ns,
                ends_ns: 0,
                admitted: 0,
            },
            block_ns,
            counted_from,
            until_ns: None,
        }
    }

    /// Decides a request.
    pub fn admits(&mut self, at_ns: u64) -> bool {
        let is_blocked = self.until_ns.is_some_and(|until_ns| at_ns < until_ns);
        if self
            .until_ns
            .take_if(|until_ns| at_ns >= *until_ns)
            .is_some()
        {
            self.window.ends_ns = 0;
        }
        let admits = !is_blocked && self.window.admits(at_ns);
        if admits {
            self.window.count(at_ns);
        }
        let starts = match self.counted_from {
            BlockStart::LastAdmission => admits && self.window.admitted == self.window.limit,
            BlockStart::FirstRefusal => !admits && !is_blocked,
            BlockStart::LastRefusal => !admits,
        };
        if starts {
            self.until_ns = Some(at_ns + self.block_ns);
        }
        admits
    }
}

/// Two counters of a stick table of HAProxy.
///
/// The requests of the previous period count in proportion to its overlap with the last period, and those of the current one entirely.
///
/// `http_req_rate` counts every request, `gpc0_rate` only those that the configuration adds: the admitted ones. A period begins when
/// the previous one ends, or with the first counted request after a period without any. The clock has whole milliseconds, and a period
/// begins at an even one.
///
/// ```
/// use flowgate_testkit::verify::servers::StickTable;
///
/// let admitted = |mut table: StickTable, times_ms: &[u64]| -> Vec<bool> {
///     times_ms.iter().map(|ms| table.admits(ms * 1_000_000)).collect()
/// };
/// // At 120 ms the refused request keeps the counter of all requests above 2, but not that of admissions.
/// let times = [0, 10, 50, 120];
/// assert_eq!(admitted(StickTable::of_requests(2, 100), &times), [true, true, false, false]);
/// assert_eq!(admitted(StickTable::of_admissions(2, 100), &times), [true, true, false, true]);
/// ```
#[derive(Clone, Debug)]
pub struct StickTable {
    limit: u64,
    period_ms: u64,
    counts_refused: bool,
    /// Begin of the current period, once there was one.
    began_ms: Option<u64>,
    before: u64,
    current: u64,
}

impl StickTable {
    /// `http_req_rate(period)`, and `deny if { sc_http_req_rate(0) gt limit }`.
    pub fn of_requests(limit: u64, period_ms: u64) -> Self {
        Self {
            limit,
            period_ms,
            counts_refused: true,
            began_ms: None,
            before: 0,
            current: 0,
        }
    }

    /// `gpc0_rate(period)`, `deny if { sc0_gpc0_rate ge limit }`, and then `sc-inc-gpc0(0)`.
    pub fn of_admissions(limit: u64, period_ms: u64) -> Self {
        Self {
            counts_refused: false,
            ..Self::of_requests(limit, period_ms)
        }
    }

    /// Decides a request.
    pub fn admits(&mut self, at_ns: u64) -> bool {
        let now_ms = at_ns / 1_000_000;
        if self.counts_refused {
            self.count(now_ms);
            return self.usage(now_ms) <= self.limit;
        }
        let admits = self.usage(now_ms) < self.limit;
        if admits {
            self.count(now_ms);
        }
        admits
    }

    fn count(&mut self, now_ms: u64) {
        let period_ms = self.period_ms;
        let since_ms = |began_ms: u64| now_ms - began_ms;
        match self.began_ms {
            Some(began_ms) if since_ms(began_ms) < period_ms => {}
            Some(began_ms) if since_ms(began_ms) < 2 * period_ms => {
                (self.before, self.current) = (self.current, 0);
                self.began_ms = Some((began_ms + period_ms) & !1);
            }
            _ => {
                (self.before, self.current) = (0, 0);
                self.began_ms = Some(now_ms & !1);
            }
        }
        self.current += 1;
    }

    /// Returns the events of the last period, rounded down.
    fn usage(&self, now_ms: u64) -> u64 {
        let Some(began_ms) = self.began_ms else {
            return 0;
        };
        let ends_ms = began_ms + self.period_ms;
        if now_ms <= ends_ms {
            return self.current + self.before * (ends_ms - now_ms) / self.period_ms;
        }
        let left_ms = (ends_ms + self.period_ms).saturating_sub(now_ms);
        if self.current <= 1 && left_ms > 0 {
            // A low rate does not flap.
            return self.current;
        }
        self.current * left_ms / self.period_ms
    }
}

struct Bucket {
    n: u128,
    interval: u128,
    burst: u128,
    full_at: u128,
}

impl Rule for Bucket {
    fn admits(&self, at_ns: u64) -> bool {
        let now = u128::from(at_ns) * self.n;
        self.full_at.max(now) + self.interval <= now + self.burst * self.interval
    }

    fn count(&mut self, at_ns: u64) {
        let now = u128::from(at_ns) * self.n;
        self.full_at = self.full_at.max(now) + self.interval;
    }
}

#[derive(Clone, Debug)]
struct Fixed {
    limit: u64,
    window_ns: u64,
    ends_ns: u64,
    admitted: u64,
}

impl Rule for Fixed {
    fn admits(&self, at_ns: u64) -> bool {
        at_ns >= self.ends_ns || self.admitted < self.limit
    }

    fn count(&mut self, at_ns: u64) {
        if at_ns >= self.ends_ns {
            self.ends_ns = at_ns + self.window_ns;
            self.admitted = 0;
        }
        self.admitted += 1;
    }
}

struct Aligned {
    limit: u64,
    window_ns: u64,
    index: u64,
    admitted: u64,
}

impl Rule for Aligned {
    fn admits(&self, at_ns: u64) -> bool {
        at_ns / self.window_ns != self.index || self.admitted < self.limit
    }

    fn count(&mut self, at_ns: u64) {
        if at_ns / self.window_ns != self.index {
            self.index = at_ns / self.window_ns;
            self.admitted = 0;
        }
        self.admitted += 1;
    }
}

struct Sliding {
    limit: usize,
    window_ns: u64,
    admitted: VecDeque<u64>,
}

impl Rule for Sliding {
    fn admits(&self, at_ns: u64) -> bool {
        let begun = self
            .admitted
            .partition_point(|admitted| admitted + self.window_ns <= at_ns);
        self.admitted.len() - begun < self.limit
    }

    fn count(&mut self, at_ns: u64) {
        self.admitted.push_back(at_ns);
        if self.admitted.len() > self.limit {
            self.admitted.pop_front();
        }
    }
}

struct TwoCounters {
    limit: u64,
    window_ns: u64,
    index: u64,
    before: u64,
    current: u64,
}

impl TwoCounters {
    fn counts(&self, index: u64) -> (u64, u64) {
        match index - self.index {
            0 => (self.before, self.current),
            1 => (self.current, 0),
            _ => (0, 0),
        }
    }
}

impl Rule for TwoCounters {
    fn admits(&self, at_ns: u64) -> bool {
        let (before, current) = self.counts(at_ns / self.window_ns);
        let left_ns = self.window_ns - at_ns % self.window_ns;
        let [before, left, window] = [before, left_ns, self.window_ns].map(u128::from);
        before * left + u128::from(current + 1) * window <= u128::from(self.limit) * window
    }

    fn count(&mut self, at_ns: u64) {
        let index = at_ns / self.window_ns;
        (self.before, self.current) = self.counts(index);
        self.index = index;
        self.current += 1;
    }
}

/// Network between a client and a limiter, and the process of the limiter.
///
/// Most responses are 20 to 200 µs late. One in 100 takes up to 5 ms. The server stands still for 2 to 60 ms, every 3 s on
/// average: it then decides late.
#[derive(Clone, Debug)]
pub struct Network {
    rng: Rng,
    /// Each stall: from, to.
    stalls: Vec<(u64, u64)>,
}

/// Returns the findings about `limit` behind a [`Network`]. `seed` determines the requests, the network, and the server's time
/// at the start.
pub fn look(mut limit: ServerLimit, investigation: &Investigation, seed: u64) -> Findings {
    let began_ns = Rng::with_seed(seed).u64(0..LATEST_NS);
    look_at(investigation, seed, |question| {
        limit.admits(began_ns + question.at_ns).into()
    })
}

/// Returns the findings about anything that decides, behind a [`Network`].
pub fn look_at(
    investigation: &Investigation,
    seed: u64,
    mut decide: impl FnMut(Question) -> Answer,
) -> Findings {
    let mut network = Network::new(seed);
    let mut subject =
        Simulated::new(|question| network.ask(question, &mut decide)).service(TRANSIT, seed);
    let investigation = investigation.clone().seed(seed);
    let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
    findings
}

/// Returns whether an estimate, as it is printed with four digits, holds the truth.
///
/// ```
/// use flowgate_testkit::verify::{Estimate, servers::holds};
///
/// let estimate = Estimate { value: 9.98, plus_minus: 0.01 };
/// assert!(holds(estimate, 9.9904) && !holds(estimate, 10.0));
/// ```
pub fn holds(estimate: Estimate, truth: f64) -> bool {
    let before = estimate.value.abs().max(1e-9).log10().floor();
    let half_a_digit = 0.5 * 10_f64.powf((before - 3.0).min(0.0));
    (estimate.value - truth).abs() <= estimate.plus_minus + half_a_digit
}

/// Longest time from a request to its response, without jitter.
const TRANSIT: Duration = Duration::from_micros(400);

/// Investigations start before this time.
const LATEST_NS: u64 = 1_000_000_000_000;

/// Stalls are drawn for this long.
const LONGEST_NS: f64 = 1e12;

impl Network {
    /// Draws the network from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (mut stalls, mut at) = (Vec::new(), 0.0);
        while at < LONGEST_NS {
            at += -(1.0 - rng.f64()).ln() * 3e9;
            let until = at + 2e6 + rng.f64() * rng.f64() * 58e6;
            stalls.push((at as u64, until as u64));
            at = until;
        }
        Self { rng, stalls }
    }

    /// Asks `decide` as soon as the server runs, and responds late.
    pub fn ask(
        &mut self,
        question: Question,
        mut decide: impl FnMut(Question) -> Answer,
    ) -> Answer {
        let begun = self
            .stalls
            .partition_point(|(from, _)| *from <= question.at_ns);
        let until_ns = begun.checked_sub(1).map_or(0, |last| self.stalls[last].1);
        let late_ns = until_ns.saturating_sub(question.at_ns);
        let answer = decide(Question {
            at_ns: question.at_ns + late_ns,
            ..question
        });
        let slow_us = match self.rng.u8(0..100) {
            0 => self.rng.u64(500..5_000),
            _ => self.rng.u64(20..200),
        };
        let held_ns = late_ns + answer.held.as_nanos() as u64 + slow_us * 1_000;
        Answer {
            held: Duration::from_nanos(held_ns),
            ..answer
        }
    }
}
