//! Tries every order in which threads can run.
//!
//! A race is written as a machine whose steps are single atomic accesses. Each schedule is a list of thread numbers.
//! The module tries all of them, shortest first, so finding a race does not depend on luck. For code with real atomics,
//! use loom; this module illustrates known races.

use crate::promise::{Promise, TimedGrant};

/// Threads that work on shared state, with one atomic access per step.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::{Machine, explore};
/// use flowgate_testkit::promise::{TimedGrant, Kind, Promise};
///
/// /// A limit of one per hour: two threads that first check and then count.
/// #[derive(Clone, Default)]
/// struct LookThenCount {
///     count: u64,
///     seen: [Option<u64>; 2],
///     has_counted: [bool; 2],
///     grants: Vec<TimedGrant>,
/// }
///
/// impl Machine for LookThenCount {
///     fn threads(&self) -> usize {
///         2
///     }
///
///     fn step(&mut self, thread: usize) -> Option<String> {
///         match self.seen[thread] {
///             None => {
///                 self.seen[thread] = Some(self.count);
///                 Some(format!("thread {thread} sees {}", self.count))
///             }
///             Some(0) if !self.has_counted[thread] => {
///                 self.has_counted[thread] = true;
///                 self.count += 1;
///                 self.grants.push(TimedGrant::new(0, 1));
///                 Some(format!("thread {thread} counts, and goes ahead"))
///             }
///             Some(_) => None,
///         }
///     }
///
///     fn grants(&self) -> &[TimedGrant] {
///         &self.grants
///     }
/// }
///
/// let promise = Promise::new(Kind::Sliding, Quota::per_hour(1));
/// let race = explore(&LookThenCount::default(), &promise, 4).unwrap_err();
/// assert_eq!(race.steps.len(), 4); // both look before either counts
/// ```
pub trait Machine: Clone {
    /// Returns the number of threads; the clock may be one of them.
    fn threads(&self) -> usize;

    /// Performs the next access of `thread`, and describes it. `None` if the thread is done.
    fn step(&mut self, thread: usize) -> Option<String>;

    /// Returns the grants so far.
    fn grants(&self) -> &[TimedGrant];
}

/// Schedule that leads to a violation.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::explore;
/// use flowgate_testkit::promise::Promise;
/// use flowgate_testkit::broken::subtract_below_zero::SubtractBelowZero;
///
/// let quota = Quota::per_second(1);
/// let bucket = SubtractBelowZero::new(quota, 2);
/// let race = explore(&bucket, &Promise::bucket(quota), 8).unwrap_err();
/// assert_eq!(race.what, "at 0s 2 were admitted, 1 allowed");
/// println!("{race}"); // the violation, and the steps that lead to it
/// ```
#[derive(Clone, Debug)]
pub struct Race {
    /// The steps, one line per access.
    pub steps: Vec<String>,
    /// The violation.
    pub what: String,
}

impl core::fmt::Display for Race {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        writeln!(f, "{}", self.what)?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// Tries every schedule of up to `most` steps. Returns their number.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::explore;
/// use flowgate_testkit::promise::Promise;
/// use flowgate_testkit::broken::subtract_below_zero::SubtractBelowZero;
///
/// let quota = Quota::per_second(1);
/// let promise = Promise::bucket(quota);
/// // One thread has only one schedule, and it is correct.
/// assert!(explore(&SubtractBelowZero::new(quota, 1), &promise, 8).is_ok_and(|tried| tried > 0));
/// assert!(explore(&SubtractBelowZero::new(quota, 2), &promise, 8).is_err());
/// ```
///
/// # Errors
///
/// Returns a shortest schedule that violates the bound.
pub fn explore<M: Machine>(machine: &M, promise: &Promise, most: usize) -> Result<u64, Box<Race>> {
    explore_for(machine, most, |machine| {
        let broken = promise.check(machine.grants()).err();
        broken.map(|broken| broken.to_string())
    })
}

/// Tries every schedule of up to `most` steps in search of a `wrong` state. Returns their number.
///
/// ```
/// use flowgate_testkit::interleave::explore_for;
/// use flowgate_testkit::broken::double_clamp::DoubleClamp;
///
/// // Two threads that each check and subtract lose one of the subtractions.
/// let race = explore_for(&DoubleClamp::new(2, 1, 2), 8, DoubleClamp::lost).unwrap_err();
/// assert_eq!(race.steps.len(), 4);
/// ```
///
/// # Errors
///
/// Returns a shortest schedule that leads to a wrong state.
pub fn explore_for<M: Machine>(
    machine: &M,
    most: usize,
    wrong: impl Fn(&M) -> Option<String>,
) -> Result<u64, Box<Race>> {
    let mut schedules = 0;
    let mut reached = vec![(machine.clone(), Vec::<String>::new())];
    for _ in 0..most {
        let mut next = Vec::new();
        for (machine, steps) in reached {
            for thread in 0..machine.threads() {
                let mut machine = machine.clone();
                let Some(done) = machine.step(thread) else {
                    continue;
                };
                schedules += 1;
                let mut steps = steps.clone();
                steps.push(done);
                if let Some(what) = wrong(&machine) {
                    return Err(Box::new(Race { steps, what }));
                }
                next.push((machine, steps));
            }
        }
        reached = next;
    }
    Ok(schedules)
}
