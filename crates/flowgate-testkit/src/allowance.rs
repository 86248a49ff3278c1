//! What several processes may admit together, with allowances for faults, checked in every interval.
//!
//! A limit that processes share admits at most burst + rate × *t* in every interval of length *t*. A fault adds to that: a store that
//! loses its records, two primaries, processes that decide alone. [`Allowance`] adds them up, and finds the worst interval of a run.

use core::fmt;

use flowgate::Quota;

use crate::promise::{Broken, TimedGrant};
use crate::rate::{Rate, greatest_common_divisor};

/// Units that may be admitted in each interval: burst + rate × length, and more for faults.
///
/// All times are of one monotonic clock, in nanoseconds. The arithmetic is exact.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::allowance::Allowance;
/// use flowgate_testkit::promise::TimedGrant;
///
/// let second = 1_000_000_000;
/// let grants = [TimedGrant::new(0, 10), TimedGrant::new(3 * second, 10)];
/// // The store is emptied after 2 s.
/// let allowance = Allowance::new(Quota::per_second(1).burst(10)).once(10, 2 * second, 2 * second);
/// assert!(allowance.check(&grants).is_ok());
/// let tightest = allowance.tightest(&grants).expect("there are grants");
/// assert_eq!((tightest.admitted, tightest.allowed, tightest.over()), (10, 10, 0));
///
/// let broken = Allowance::new(Quota::per_second(1).burst(10)).check(&grants).unwrap_err();
/// assert_eq!(broken.to_string(), "from 0s to 3s 20 were admitted, 13 allowed");
/// ```
#[derive(Clone, Debug)]
pub struct Allowance {
    rate: Rate,
    always: u64,
    lead_ns: u64,
    once: Vec<Once>,
    flows: Vec<Flow>,
}

#[derive(Clone, Copy, Debug)]
struct Once {
    units: u64,
    from_ns: u64,
    to_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    part: [u32; 2],
    from_ns: u64,
    to_ns: u64,
}

/// The interval of a run that comes closest to an [`Allowance`], or exceeds it most.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::allowance::{Allowance, Tightest};
/// use flowgate_testkit::promise::TimedGrant;
///
/// let allowance = Allowance::new(Quota::per_second(1).burst(5));
/// let grants = [TimedGrant::new(0, 1), TimedGrant::new(2_500_000_000, 4)];
/// let tightest: Tightest = allowance.tightest(&grants).expect("there are grants");
/// assert_eq!(tightest.to_string(), "at 2.5s 4 were admitted, 5 allowed");
/// assert_eq!(tightest.over(), -1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tightest {
    /// Time of the first grant in the interval, in nanoseconds.
    pub from_ns: u64,
    /// Time of the last grant in the interval, in nanoseconds.
    pub to_ns: u64,
    /// Units admitted in the interval.
    pub admitted: u128,
    /// Units allowed in the interval, rounded down.
    pub allowed: u128,
}

impl Tightest {
    /// Returns the admitted units minus the allowed ones: positive if the bound does not hold.
    ///
    /// ```
    /// # use flowgate_testkit::allowance::Tightest;
    /// assert_eq!(Tightest { from_ns: 0, to_ns: 9, admitted: 4, allowed: 6 }.over(), -2);
    /// ```
    pub fn over(&self) -> i128 {
        let [admitted, allowed] =
            [self.admitted, self.allowed].map(|n| i128::try_from(n).unwrap_or(i128::MAX));
        admitted - allowed
    }
}

impl From<Tightest> for Broken {
    fn from(tightest: Tightest) -> Self {
        Self {
            from_ns: tightest.from_ns,
            to_ns: tightest.to_ns,
            admitted: tightest.admitted,
            allowed: tightest.allowed,
        }
    }
}

impl fmt::Display for Tightest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Broken::from(*self).fmt(f)
    }
}

impl Allowance {
    /// Creates the bound of `quota` without faults: burst + rate × length, in units.
    pub fn new(quota: Quota) -> Self {
        Self::of(Rate::of(quota))
    }

    pub(crate) fn of(rate: Rate) -> Self {
        Self {
            rate,
            always: 0,
            lead_ns: 0,
            once: Vec::new(),
            flows: Vec::new(),
        }
    }

    /// Adds `units` to every interval.
    ///
    /// These are units that processes hold, or that were granted and not reported to callers yet.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::allowance::Allowance;
    /// # use flowgate_testkit::promise::TimedGrant;
    /// let allowance = Allowance::new(Quota::per_second(1).burst(5)).plus(2);
    /// assert!(allowance.check(&[TimedGrant::new(0, 7)]).is_ok());
    /// assert!(allowance.check(&[TimedGrant::new(0, 8)]).is_err());
    /// ```
    #[must_use]
    pub fn plus(mut self, units: u64) -> Self {
        self.always = self.always.saturating_add(units);
        self
    }

    /// Sets by how much an admission may come later than its debit (default: 0 ns).
    ///
    /// An interval is then allowed what the interval that begins `lead_ns` earlier is allowed.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::allowance::Allowance;
    /// # use flowgate_testkit::promise::TimedGrant;
    /// let second = 1_000_000_000;
    /// let allowance = Allowance::new(Quota::per_second(1).burst(5)).lead(3 * second);
    /// assert!(allowance.check(&[TimedGrant::new(0, 8)]).is_ok());
    /// assert!(allowance.check(&[TimedGrant::new(0, 9)]).is_err());
    /// ```
    #[must_use]
    pub fn lead(mut self, lead_ns: u64) -> Self {
        self.lead_ns = lead_ns;
        self
    }

    /// Adds `units` to each interval that has an instant in common with `from_ns..=to_ns`.
    ///
    /// A store that is emptied at an instant adds a burst at that instant. A process that decides alone adds the burst of its share, from
    /// its first decision to its last.
    ///
    /// # Panics
    ///
    /// Panics if `to_ns` is before `from_ns`.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::allowance::Allowance;
    /// # use flowgate_testkit::promise::TimedGrant;
    /// let allowance = Allowance::new(Quota::per_hour(1).burst(5)).once(5, 10, 20);
    /// assert!(allowance.check(&[TimedGrant::new(0, 5), TimedGrant::new(10, 5)]).is_ok());
    /// assert!(allowance.check(&[TimedGrant::new(20, 5), TimedGrant::new(30, 5)]).is_ok());
    /// assert!(allowance.check(&[TimedGrant::new(21, 5), TimedGrant::new(30, 5)]).is_err());
    /// ```
    #[must_use]
    pub fn once(mut self, units: u64, from_ns: u64, to_ns: u64) -> Self {
        assert!(from_ns <= to_ns, "it ends before it begins");
        self.once.push(Once {
            units,
            from_ns,
            to_ns,
        });
        self
    }

    /// Adds a part of the rate between `from_ns` and `to_ns`: `[1, 4]` is a quarter.
    ///
    /// Two primaries that both answer add the full rate once more, `[1, 1]`.
    ///
    /// # Panics
    ///
    /// Panics if the part is of 0, or if `to_ns` is before `from_ns`.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use flowgate_testkit::allowance::Allowance;
    /// # use flowgate_testkit::promise::TimedGrant;
    /// let second = 1_000_000_000;
    /// let allowance = Allowance::new(Quota::per_second(4).burst(1)).flow([1, 4], second, 3 * second);
    /// let grants = |units| [TimedGrant::new(0, 1), TimedGrant::new(4 * second, units)];
    /// assert!(allowance.check(&grants(18)).is_err());
    /// let bare = Allowance::new(Quota::per_second(4).burst(20));
    /// assert_eq!(bare.flow([1, 4], second, 3 * second).check(&grants(20)), Ok(()));
    /// ```
    #[must_use]
    pub fn flow(mut self, part: [u32; 2], from_ns: u64, to_ns: u64) -> Self {
        assert!(part[1] > 0, "a part of nothing");
        assert!(from_ns <= to_ns, "it ends before it begins");
        self.flows.push(Flow {
            part,
            from_ns,
            to_ns,
        });
        self
    }

    /// Checks every interval: one pass over the grants in the order of their times.
    ///
    /// # Errors
    ///
    /// Returns the interval with the largest excess.
    pub fn check(&self, grants: &[TimedGrant]) -> Result<(), Broken> {
        match self.tightest(grants) {
            Some(worst) if worst.over() > 0 => Err(worst.into()),
            _ => Ok(()),
        }
    }

    /// Returns the interval that comes closest to the bound, or exceeds it most.
    ///
    /// Of several such intervals, it is the one that ends first. Returns `None` if there are no grants.
    pub fn tightest(&self, grants: &[TimedGrant]) -> Option<Tightest> {
        let is_before = |pair: &[TimedGrant]| {
            let [at, next] = [pair[0], pair[1]].map(|grant| (grant.at_ns, !grant.rounded));
            at <= next
        };
        if grants.windows(2).all(is_before) {
            return self.tightest_of_sorted(grants);
        }
        let mut sorted = grants.to_vec();
        sorted.sort_by_key(|grant| (grant.at_ns, !grant.rounded));
        self.tightest_of_sorted(&sorted)
    }

    /// Kadane's algorithm. With P(j) for the units up to the grant j, the excess of the interval from i to j is
    /// P(j) - P(i - 1) - burst - (upper(j) - lower(i)), so one pass keeps the best i.
    fn tightest_of_sorted(&self, grants: &[TimedGrant]) -> Option<Tightest> {
        // Grains are divided further, so that each part of the rate has a whole number of them.
        let fine = self.flows.iter().fold(1, |fine: i128, flow| {
            let of = i128::from(flow.part[1]);
            fine / greatest_common_divisor(fine, of) * of
        });
        let grains = |units: u64| self.rate.cost(units) * fine;
        let accrual = self.rate.accrual * fine;
        let always = self.rate.full * fine + grains(self.always);
        let lead_ns = i128::from(self.lead_ns);
        let flows = || {
            self.flows.iter().flat_map(|flow| {
                let [of, all] = flow.part.map(i128::from);
                let slope = accrual / all * of;
                [(flow.from_ns, slope, 0), (flow.to_ns, -slope, 0)]
            })
        };
        let from = |once: &Once| (once.from_ns, 0, grains(once.units));
        let to = |once: &Once| (once.to_ns, 0, grains(once.units));
        let mut upper = Curve::new(accrual, flows().chain(self.once.iter().map(from)));
        let mut lower = Curve::new(accrual, flows().chain(self.once.iter().map(to)));

        let (mut used, mut units) = (0, 0);
        // The best start: its measure, the time, and the units before.
        let mut start: Option<(i128, u64, u128)> = None;
        let mut worst: Option<(i128, Tightest)> = None;
        for grant in grants {
            let at_ns = i128::from(grant.at_ns);
            let earlier = if grant.rounded { accrual - fine } else { 0 };
            let measure = lower.before(at_ns - lead_ns) - earlier - used;
            if start.is_none_or(|(best, ..)| measure >= best) {
                start = Some((measure, grant.at_ns, units));
            }
            used += grains(grant.n);
            units += u128::from(grant.n);
            let (best, from_ns, before) = start?;
            let excess = used - upper.until(at_ns) + best - always;
            if worst.as_ref().is_none_or(|(most, _)| excess > *most) {
                let admitted = units - before;
                let admitted_grains =
                    i128::try_from(admitted).unwrap_or(i128::MAX) * self.rate.price * fine;
                let allowed = (admitted_grains - excess).div_euclid(self.rate.price * fine);
                let tightest = Tightest {
                    from_ns,
                    to_ns: grant.at_ns,
                    admitted,
                    allowed: u128::try_from(allowed).unwrap_or(0),
                };
                worst = Some((excess, tightest));
            }
        }
        worst.map(|(_, tightest)| tightest)
    }
}

/// A sum of slopes that begin and end, and of jumps, at times that do not decrease.
struct Curve {
    /// Time, change of slope, and jump.
    changes: Vec<(i128, i128, i128)>,
    next: usize,
    slope: i128,
    value: i128,
    at_ns: i128,
}

impl Curve {
    fn new(slope: i128, changes: impl Iterator<Item = (u64, i128, i128)>) -> Self {
        let changes = changes.map(|(at_ns, slope, jump)| (i128::from(at_ns), slope, jump));
        let mut changes: Vec<_> = changes.collect();
        changes.sort_unstable();
        Self {
            changes,
            next: 0,
            slope,
            value: 0,
            at_ns: 0,
        }
    }

    fn go(&mut self, at_ns: i128) {
        self.value += self.slope * (at_ns - self.at_ns);
        self.at_ns = at_ns;
    }

    fn pass(&mut self, at_ns: i128, is_passed: impl Fn(i128) -> bool) -> i128 {
        while let Some(&(change_ns, slope, jump)) = self.changes.get(self.next)
            && is_passed(change_ns)
        {
            self.go(change_ns);
            self.slope += slope;
            self.value += jump;
            self.next += 1;
        }
        self.go(at_ns);
        self.value
    }

    /// The value just before the changes at `at_ns`.
    fn before(&mut self, at_ns: i128) -> i128 {
        self.pass(at_ns, |change_ns| change_ns < at_ns)
    }

    /// The value just after the changes at `at_ns`.
    fn until(&mut self, at_ns: i128) -> i128 {
        self.pass(at_ns, |change_ns| change_ns <= at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of grants, by the words of the documentation.
    fn by_pairs(allowance: &Allowance, grants: &[TimedGrant]) -> f64 {
        let rate = &allowance.rate;
        let per_ns = rate.accrual as f64 / rate.price as f64;
        let mut most = f64::NEG_INFINITY;
        for (first, from) in grants.iter().enumerate() {
            for last in first..grants.len() {
                let (start, end) = (
                    from.at_ns as f64 - allowance.lead_ns as f64,
                    grants[last].at_ns as f64,
                );
                let units: u64 = grants[first..=last].iter().map(|grant| grant.n).sum();
                let mut allowed = (rate.burst_units + allowance.always) as f64;
                allowed += (end - start) * per_ns;
                for once in &allowance.once {
                    if once.from_ns as f64 <= end && once.to_ns as f64 >= start {
                        allowed += once.units as f64;
                    }
                }
                for flow in &allowance.flows {
                    let common = end.min(flow.to_ns as f64) - start.max(flow.from_ns as f64);
                    let part = f64::from(flow.part[0]) / f64::from(flow.part[1]);
                    allowed += common.max(0.0) * part * per_ns;
                }
                most = most.max(units as f64 - allowed);
            }
        }
        most
    }

    #[test]
    fn c1_one_pass_finds_what_all_pairs_of_grants_show() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut over, mut under) = (0, 0);
        for _ in 0..20_000 {
            let quota = Quota::new(random.u64(1..9), core::time::Duration::from_nanos(8))
                .and_then(|quota| quota.try_burst(random.u64(1..9)));
            let mut allowance = Allowance::new(quota.expect("a quota"))
                .plus(random.u64(..3))
                .lead(random.u64(..5));
            for _ in 0..random.u64(..4) {
                let (from, to) = (random.u64(..40), random.u64(..20));
                allowance = match random.bool() {
                    true => allowance.once(random.u64(1..9), from, from + to),
                    false => allowance.flow([random.u32(..4), random.u32(1..5)], from, from + to),
                };
            }
            let grants: Vec<_> = (0..random.usize(1..12))
                .map(|_| TimedGrant::new(random.u64(..60), random.u64(1..9)))
                .collect();
            let mut sorted = grants.clone();
            sorted.sort_by_key(|grant| grant.at_ns);
            let most = by_pairs(&allowance, &sorted);
            let found = allowance
                .tightest(&grants)
                .expect("there are grants")
                .over();
            // The allowed units are rounded down.
            let expected = (most - 1e-6).ceil() as i128;
            assert_eq!(found, expected, "{allowance:?} {sorted:?}");
            let is_over = allowance.check(&grants).is_err();
            assert_eq!(is_over, most > 1e-6);
            *(if is_over { &mut over } else { &mut under }) += 1;
        }
        assert!(over > 2_000 && under > 2_000, "{over} {under}");
    }
}
