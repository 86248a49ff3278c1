//! Random quotas, costs and times where limiters fail: at both ends of every range, and at and next to scheduled times.

use core::time::Duration;

use fastrand::Rng;
use flowgate::{Carry, Quota, Refill};

use crate::oracle::Oracle;
use crate::promise::{self, Kind};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Retry, Setup, Step};
use crate::subject::Capabilities;

const SECOND: u64 = 1_000_000_000;
/// Maximum count and burst of a small quota, and of a changed one.
pub(crate) const LARGEST_CHANGED: u64 = 10;
/// s, min, h, day.
const PERIODS: [u64; 4] = [SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND];
/// The range of every quota, and numbers in it that have broken limiters.
const MOST: u64 = 1_000_000_000;
const NOTED_COUNTS: [u64; 10] = [
    1,
    2,
    3,
    7,
    1_000,
    80_000,
    600_000_000,
    999_999_937,
    MOST - 1,
    MOST,
];

/// Returns a number from 1 to `most`. Each number of digits is equally likely.
pub(crate) fn any_size(rng: &mut Rng, most: u64) -> u64 {
    let bits = rng.u32(1..=64 - most.leading_zeros());
    let below = if bits == 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    rng.u64(1 << (bits - 1)..=below).min(most)
}

/// Draws a quota from the whole accepted range.
///
/// ```
/// use fastrand::Rng;
/// use flowgate::TokenBucket;
/// use flowgate_testkit::draw;
///
/// let mut rng = Rng::with_seed(7);
/// let quota = draw::quota(&mut rng);
/// assert_eq!(TokenBucket::new(quota).quota(), quota); // whatever it is, it can be kept
/// assert_eq!(draw::quota(&mut Rng::with_seed(7)), quota);
/// ```
pub fn quota(rng: &mut Rng) -> Quota {
    loop {
        if let Some(quota) = perhaps_quota(rng) {
            return quota;
        }
    }
}

fn perhaps_quota(rng: &mut Rng) -> Option<Quota> {
    let count = match rng.u8(..4) {
        0 => NOTED_COUNTS[rng.usize(..NOTED_COUNTS.len())],
        _ => any_size(rng, MOST),
    };
    let period_ns = match rng.u8(..8) {
        0 => any_size(rng, u64::MAX),
        _ => PERIODS[rng.usize(..PERIODS.len())],
    };
    let burst = match rng.u8(..8) {
        0 => 1,
        1 => rng.u64(1..=8),
        2 => MOST,
        3 => count,
        4 => any_size(rng, u64::MAX),
        _ => any_size(rng, MOST),
    };
    let quota = Quota::new(count, Duration::from_nanos(period_ns))
        .ok()?
        .try_burst(burst)
        .ok()?;
    match rng.u8(..6) {
        0 => quota.units_per_token([2, 4, 1000][rng.usize(..3)]).ok(),
        1 => quota.units_per_token(any_size(rng, 1 << 32)).ok(),
        _ => Some(quota),
    }
}

/// Draws a small quota, for readable histories.
///
/// ```
/// use fastrand::Rng;
/// use flowgate_testkit::draw;
///
/// let quota = draw::small_quota(&mut Rng::with_seed(7));
/// assert!((1..=10).contains(&quota.count()) && (1..=10).contains(&quota.max_burst()));
/// ```
pub fn small_quota(rng: &mut Rng) -> Quota {
    Quota::per_second(rng.u64(1..=10)).burst(rng.u64(1..=10))
}

/// Draws a bucket of any kind.
///
/// ```
/// use fastrand::Rng;
/// use flowgate_testkit::draw;
///
/// let mut rng = Rng::with_seed(7);
/// for _ in 0..100 {
///     assert!(draw::setup(&mut rng).token_bucket().is_ok());
/// }
/// ```
pub fn setup(rng: &mut Rng) -> Setup {
    let quota = quota(rng);
    let burst_units = quota.max_burst().saturating_mul(quota.scale());
    let most_debt =
        (1_u128 << 93) / u128::from(u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX));
    let most_debt = u64::try_from(most_debt)
        .unwrap_or(u64::MAX)
        .saturating_sub(1);
    let refill = any_refill(rng);
    Setup {
        kind: Kind::Bucket,
        quota,
        initial_tokens: match rng.u8(..4) {
            0 => Some(0),
            1 => Some(any_size(rng, burst_units)),
            _ => None,
        },
        refill,
        aligned_ns: (refill == Refill::Interval && rng.bool()).then(|| any_size(rng, u64::MAX)),
        max_debt: match rng.u8(..4) {
            0 => Some(0),
            1 => Some(any_size(rng, most_debt.max(1)).min(most_debt)),
            _ => None,
        },
        built_ns: match rng.u8(..4) {
            0 => any_size(rng, u64::MAX),
            1 => any_size(rng, PERIODS[3]),
            _ => 0,
        },
    }
}

fn any_refill(rng: &mut Rng) -> Refill {
    match rng.u8(..4) {
        0 => Refill::Interval,
        _ => Refill::Continuous,
    }
}

/// Draws a quota for a limiter of this kind: small and readable, or any.
///
/// ```
/// use fastrand::Rng;
/// use flowgate::SlidingWindow;
/// use flowgate_testkit::draw;
/// use flowgate_testkit::promise::Kind;
///
/// let quota = draw::quota_for(Kind::Sliding, &mut Rng::with_seed(7), false);
/// assert_eq!(quota.explicit_burst(), None); // a window has none
/// assert!(SlidingWindow::builder(quota).build().is_ok());
/// ```
pub fn quota_for(kind: Kind, rng: &mut Rng, small: bool) -> Quota {
    match (kind.has_burst(), small) {
        (true, true) => small_quota(rng),
        (true, false) => quota(rng),
        (false, true) => Quota::per_second(rng.u64(1..=10)),
        (false, false) => loop {
            if let Some(quota) = perhaps_window(rng) {
                return quota;
            }
        },
    }
}

/// Maximum limit of a window that stores every grant.
const MOST_IN_WINDOW: u64 = 1 << 12;

fn perhaps_window(rng: &mut Rng) -> Option<Quota> {
    let period_ns = match rng.u8(..4) {
        0 => any_size(rng, PERIODS[3]),
        1 => rng.u64(1..=20),
        _ => PERIODS[rng.usize(..PERIODS.len())],
    };
    let count = any_size(rng, MOST_IN_WINDOW);
    let quota = Quota::new(count, Duration::from_nanos(period_ns)).ok()?;
    match rng.u8(..6) {
        0 => quota.units_per_token([2, 4, 10][rng.usize(..3)]).ok(),
        _ => Some(quota),
    }
}

/// Estimate of a limiter's capacity, so that costs and times are drawn near its bounds.
///
/// ```
/// use flowgate_testkit::draw::Guide;
///
/// /// A limiter that always has three units, with one per second.
/// struct Three;
///
/// impl Guide for Three {
///     fn most(&self) -> u64 {
///         3
///     }
///
///     fn pace_ns(&self) -> u64 {
///         1_000_000_000
///     }
///
///     fn there(&self, _at_ns: u64) -> u64 {
///         3
///     }
/// }
///
/// use fastrand::Rng;
/// use flowgate_testkit::draw::{Steps, Time};
/// use flowgate_testkit::subject::Capabilities;
///
/// let mut rng = Rng::with_seed(7);
/// let mut steps = Steps::new(&mut rng, Capabilities::ALL, Time::Forward, true, 0);
/// let (first, second) = (steps.next(&Three), steps.next(&Three));
/// assert!(first.at_ns <= second.at_ns);
/// ```
pub trait Guide {
    /// Returns the maximum burst, in units.
    fn most(&self) -> u64;

    /// Returns the approximate time in which something refills, in nanoseconds.
    fn pace_ns(&self) -> u64;

    /// Returns the approximate number of available units at `at_ns`.
    fn there(&self, at_ns: u64) -> u64;
}

impl Guide for Oracle {
    fn most(&self) -> u64 {
        self.rate().burst_units
    }

    fn pace_ns(&self) -> u64 {
        let rate = self.rate();
        u64::try_from((rate.scale_price() / rate.accrual).max(1)).unwrap_or(u64::MAX)
    }

    fn there(&self, at_ns: u64) -> u64 {
        self.available(at_ns)
    }
}

/// [`Guide`] for windows: grants of the last window are unavailable.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::draw::{Guide, Recent};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
///
/// let mut recent = Recent::new(Quota::per_second(10));
/// assert_eq!((recent.most(), recent.there(0)), (10, 10));
/// recent.note(&[(Step { at_ns: 0, op: Op::Try { n: 4 } }, OperationOutcome::Admitted)]);
/// assert_eq!(recent.there(999_999_999), 6);
/// assert_eq!(recent.there(1_000_000_000), 10);
/// ```
#[derive(Clone, Debug)]
pub struct Recent {
    rate: Rate,
    grants: Vec<promise::TimedGrant>,
}

impl Recent {
    /// Creates a guide without grants.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            grants: Vec::new(),
        }
    }

    /// Records grants.
    pub fn note(&mut self, trace: &[(Step, OperationOutcome)]) {
        self.grants = promise::grants(trace);
    }
}

impl Guide for Recent {
    fn most(&self) -> u64 {
        u64::try_from(self.rate.limit_units).unwrap_or(u64::MAX)
    }

    fn pace_ns(&self) -> u64 {
        // Steps of up to four times this are drawn: a whole window.
        (self.rate.period_ns / 4).max(1)
    }

    fn there(&self, at_ns: u64) -> u64 {
        let since_ns = at_ns.saturating_sub(self.rate.period_ns - 1);
        let recent = self.grants.iter().filter(|grant| grant.at_ns >= since_ns);
        let used = recent.fold(0_u64, |sum, grant| sum.saturating_add(grant.n));
        self.most().saturating_sub(used)
    }
}

/// Behavior of the clock in a history.
///
/// ```
/// use fastrand::Rng;
/// use flowgate::Quota;
/// use flowgate_testkit::draw::{Recent, Steps, Time};
/// use flowgate_testkit::subject::Capabilities;
///
/// let guide = Recent::new(Quota::per_second(10));
/// for (time, goes_back) in [(Time::Forward, false), (Time::Any, true)] {
///     let mut rng = Rng::with_seed(7);
///     let mut steps = Steps::new(&mut rng, Capabilities::ALL, time, true, 0);
///     let times: Vec<u64> = (0..1000).map(|_| steps.next(&guide).at_ns).collect();
///     assert_eq!(!times.is_sorted(), goes_back);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Stands still or goes forward.
    Forward,
    /// Stalls, jumps as far as possible, and runs backward.
    Any,
    /// Stands still or goes forward. A third of the operations, but no change of quota, use an earlier time.
    Behind,
}

/// Theme of a history: what [`Steps`] draws more often.
///
/// ```
/// use fastrand::Rng;
/// use flowgate::Quota;
/// use flowgate_testkit::draw::{Recent, Steps, Theme, Time};
/// use flowgate_testkit::script::Op;
/// use flowgate_testkit::subject::Capabilities;
///
/// let guide = Recent::new(Quota::per_second(10));
/// let changes = |theme| {
///     let mut rng = Rng::with_seed(7);
///     let mut steps = Steps::new(&mut rng, Capabilities::ALL, Time::Forward, true, 0);
///     steps.theme = theme;
///     let drawn = (0..1000).map(|_| steps.next(&guide).op);
///     drawn.filter(|op| matches!(op, Op::SetQuota { .. })).count()
/// };
/// assert!(changes(Theme::Changes) > 2 * changes(Theme::Usual));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Theme {
    /// No theme.
    Usual,
    /// Changes of quota.
    Changes,
    /// Overdrafts, and changes that cancel debt, most of them to this quota.
    Debts(Quota),
    /// Waits that are dropped.
    Waits,
    /// Reads and refused operations at the end of time, and changes to this quota, which is the current one.
    FarAhead(Quota),
    /// Changes of quota, and exports that a new limiter imports.
    Handovers,
}

/// Draws the steps of one history, given the answers so far.
///
/// ```
/// use fastrand::Rng;
/// use flowgate::Quota;
/// use flowgate_testkit::draw::{Steps, Time};
/// use flowgate_testkit::oracle::Oracle;
/// use flowgate_testkit::script::Setup;
/// use flowgate_testkit::subject::{BucketSubject, Capabilities};
///
/// let setup = Setup::new(Quota::per_second(3).burst(5));
/// let mut oracle = Oracle::new(&setup);
/// let bucket = setup.token_bucket()?;
/// let mut subject = BucketSubject::new(&bucket);
///
/// let mut rng = Rng::with_seed(7);
/// let mut steps = Steps::new(&mut rng, Capabilities::ALL, Time::Forward, true, setup.built_ns);
/// for _ in 0..100 {
///     let step = steps.next(&oracle); // near where it matters, for a bucket in this state
///     let outcome = oracle.step(&step);
///     assert_eq!(subject.step(&step), outcome);
///     steps.note(&outcome);
/// }
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct Steps<'a> {
    /// Source of randomness.
    pub rng: &'a mut Rng,
    /// Operations that may be drawn.
    pub capabilities: Capabilities,
    /// Behavior of the clock.
    pub time: Time,
    /// Whether changed quotas stay small.
    pub small: bool,
    /// What changes of quota do with the tokens; `None` draws it.
    pub carry: Option<Carry>,
    /// Kind of limiter for changed quotas.
    pub kind: Kind,
    /// Theme of the history.
    pub theme: Theme,
    now_ns: u64,
    /// Times of the steps so far.
    asked_ns: Vec<u64>,
    /// A scheduled time.
    due_ns: Option<u64>,
}

impl<'a> Steps<'a> {
    /// Creates the steps for a limiter that was built at `built_ns`.
    pub fn new(
        rng: &'a mut Rng,
        capabilities: Capabilities,
        time: Time,
        small: bool,
        built_ns: u64,
    ) -> Self {
        Self {
            rng,
            capabilities,
            time,
            small,
            kind: Kind::Bucket,
            theme: Theme::Usual,
            now_ns: built_ns,
            asked_ns: Vec::new(),
            due_ns: None,
            carry: None,
        }
    }

    /// Draws the next step for a limiter in the state of `guide`.
    pub fn next(&mut self, guide: &dyn Guide) -> Step {
        self.move_clock(guide.pace_ns());
        let stale_ns = match self.time {
            Time::Behind if self.rng.u8(..3) == 0 => Some(self.stale_ns(guide.pace_ns())),
            _ => None,
        };
        let at_ns = stale_ns.unwrap_or(self.now_ns);
        loop {
            let step = self.themed(guide, at_ns).unwrap_or_else(|| Step {
                at_ns,
                op: self.op(guide, at_ns),
            });
            let changes = step.op.new_quota().is_some();
            if self.capabilities.allow(&step.op) && !(changes && stale_ns.is_some()) {
                if self.time == Time::Behind {
                    self.asked_ns.push(at_ns);
                }
                return step;
            }
        }
    }

    /// Draws a time that is not after the newest: near an earlier step, or any.
    fn stale_ns(&mut self, pace_ns: u64) -> u64 {
        let rng = &mut *self.rng;
        let before = match rng.u8(..4) {
            0 => self
                .now_ns
                .saturating_sub(any_size(rng, pace_ns.saturating_mul(8))),
            _ if self.asked_ns.is_empty() => 0,
            1 => {
                let near = self.asked_ns[rng.usize(..self.asked_ns.len())];
                near.saturating_add(rng.u64(..3)).saturating_sub(1)
            }
            _ => self.asked_ns[rng.usize(..self.asked_ns.len())],
        };
        before.min(self.now_ns)
    }

    /// Draws a step of the theme, or `None`.
    fn themed(&mut self, guide: &dyn Guide, at_ns: u64) -> Option<Step> {
        let here = |op| Some(Step { at_ns, op });
        match self.theme {
            Theme::Usual => None,
            Theme::Changes => match self.rng.u8(..6) {
                0 => here(self.change()),
                _ => None,
            },
            Theme::Debts(quota) => match self.rng.u8(..8) {
                0 => here(self.change()),
                1 | 2 => here(Op::SetQuota {
                    quota,
                    carry: self.carry.unwrap_or(Carry::Reset),
                }),
                3 | 4 => {
                    let n = guide
                        .most()
                        .saturating_add(any_size(self.rng, guide.most()));
                    here(Op::Overdraw { n })
                }
                _ => None,
            },
            Theme::Waits => match self.rng.u8(..8) {
                0 | 1 => here(Op::Wait {
                    n: any_size(self.rng, guide.most()),
                }),
                2 => here(Op::GiveUp {
                    pick: self.rng.usize(..8),
                }),
                _ => None,
            },
            Theme::FarAhead(quota) => {
                let ahead = |op| {
                    let at_ns = u64::MAX;
                    Some(Step { at_ns, op })
                };
                match self.rng.u8(..16) {
                    0 => ahead(Op::Available),
                    // More than a burst and a debt as large, so that it is refused.
                    1 if guide.most() < u64::MAX / 2 => ahead(Op::Try { n: u64::MAX }),
                    2 | 3 => here(Op::SetQuota {
                        quota,
                        carry: Carry::Kept,
                    }),
                    4 if self.capabilities.hand_over => here(Op::HandOver { quota: None }),
                    _ => None,
                }
            }
            Theme::Handovers => match self.rng.u8(..8) {
                0 | 1 => here(self.change()),
                2 => here(Op::HandOver { quota: None }),
                3 => here(Op::HandOver {
                    quota: Some(self.changed_quota()),
                }),
                _ => None,
            },
        }
    }

    fn change(&mut self) -> Op {
        Op::SetQuota {
            quota: self.changed_quota(),
            carry: self.carry.unwrap_or(Carry::Kept),
        }
    }

    /// Draws a changed quota; half of them have the same period.
    fn changed_quota(&mut self) -> Quota {
        const SECONDS: [u64; 4] = [1, 1, 2, 3_600];
        let rng = &mut *self.rng;
        let period = Duration::from_secs(SECONDS[rng.usize(..SECONDS.len())]);
        let (count, burst) = (rng.u64(1..=10), rng.u64(1..=10));
        let quota = Quota::new(count, period).unwrap_or(Quota::per_second(count));
        if self.kind.has_burst() {
            quota.burst(burst)
        } else {
            quota
        }
    }

    /// Records an answer.
    pub fn note(&mut self, outcome: &OperationOutcome) {
        let asked_ns = self.asked_ns.last().copied().unwrap_or(self.now_ns);
        self.due_ns = match outcome {
            OperationOutcome::Refused(Retry::After(wait)) => {
                let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
                Some(asked_ns.saturating_add(wait))
            }
            OperationOutcome::Promised { at_ns } => Some(*at_ns),
            _ => self.due_ns,
        };
    }

    fn move_clock(&mut self, token_ns: u64) {
        let rng = &mut *self.rng;
        let themed_ns = match (self.theme, self.theme != Theme::Usual && rng.bool()) {
            // Long enough for something to flow in.
            (Theme::Changes | Theme::Handovers, true) => {
                Some(any_size(rng, token_ns.saturating_mul(16)))
            }
            // Into the window of a wait, and to its edge.
            (Theme::Waits, true) => Some(rng.u64(..=token_ns.saturating_mul(4))),
            _ => None,
        };
        if let Some(forward_ns) = themed_ns {
            self.now_ns = self.now_ns.saturating_add(forward_ns);
            return;
        }
        let forward = match rng.u8(..16) {
            0..=5 => 0,
            6 => 1,
            7 => any_size(rng, 10),
            8 | 9 => any_size(rng, token_ns),
            10 => any_size(rng, token_ns.saturating_mul(4)),
            11 => any_size(rng, PERIODS[3]),
            12 if self.small => any_size(rng, SECOND),
            12 => any_size(rng, u64::MAX),
            _ => match self.due_ns {
                Some(due) => due
                    .saturating_add(rng.u64(..3))
                    .saturating_sub(1)
                    .saturating_sub(self.now_ns),
                None => 0,
            },
        };
        self.now_ns = match self.time {
            Time::Any if rng.u8(..8) == 0 => match rng.u8(..32) {
                0 => 0,
                1 => u64::MAX,
                2..=16 => self
                    .now_ns
                    .saturating_sub(any_size(rng, token_ns.saturating_mul(2))),
                _ => self.now_ns.saturating_sub(any_size(rng, u64::MAX)),
            },
            _ => self.now_ns.saturating_add(forward),
        };
    }

    fn op(&mut self, guide: &dyn Guide, at_ns: u64) -> Op {
        let n = self.cost(guide, at_ns);
        let rng = &mut *self.rng;
        match rng.u8(..64) {
            0..=27 => Op::Try { n },
            28..=31 => Op::TakeUpTo { n },
            32..=37 => Op::Overdraw { n },
            38..=45 => Op::Reserve { n, within_ns: None },
            46..=47 => Op::Reserve {
                n,
                within_ns: Some(any_size(rng, PERIODS[3])),
            },
            48..=52 => Op::Cancel {
                pick: rng.usize(..8),
            },
            53..=56 => Op::Refund { n },
            57..=60 => Op::Available,
            61 => Op::SetRefill {
                refill: any_refill(rng),
            },
            _ => Op::SetQuota {
                quota: match (self.theme, self.kind.has_burst(), self.small) {
                    (Theme::FarAhead(quota), ..) => quota,
                    (_, true, true) => small_quota(rng),
                    (_, true, false) => quota(rng),
                    (_, false, _) => quota_for(self.kind, rng, true),
                },
                carry: self.carry.unwrap_or_else(|| match rng.u8(..8) {
                    0 | 1 => Carry::Proportional,
                    2 | 3 => Carry::Reset,
                    4 | 5 => Carry::Additive,
                    _ => Carry::Kept,
                }),
            },
        }
    }

    fn cost(&mut self, guide: &dyn Guide, at_ns: u64) -> u64 {
        if !self.capabilities.costs {
            return 1;
        }
        let burst = guide.most();
        let there = guide.there(at_ns);
        let rng = &mut *self.rng;
        match rng.u8(..16) {
            0 => 0,
            1..=4 => 1,
            5 => there,
            6 => there.saturating_add(1),
            7 => there / 2,
            8 => burst,
            9 => burst.saturating_add(1),
            10 => any_size(rng, u64::MAX),
            11 => burst / 2 + 1,
            _ => any_size(rng, burst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket in pay-after mode admits up to twice its burst. Grants at the end of time count forever.
    #[test]
    fn c2_a_request_at_the_end_of_time_is_more_than_a_burst_and_a_debt() {
        for (most, is_drawn) in [(1 << 62, true), (1 << 63, false), (u64::MAX, false)] {
            let quota = Quota::per_second(1_000_000_000).burst(most);
            let guide = Oracle::new(&Setup::new(quota));
            let first = |seed| {
                let mut rng = Rng::with_seed(seed);
                let mut steps = Steps::new(&mut rng, Capabilities::ALL, Time::Forward, true, 0);
                steps.theme = Theme::FarAhead(quota);
                steps.next(&guide)
            };
            let requests = (0..300)
                .map(first)
                .filter(|step| step.at_ns == u64::MAX && matches!(step.op, Op::Try { .. }));
            assert_eq!(requests.count() > 0, is_drawn, "{most}");
        }
    }
}
