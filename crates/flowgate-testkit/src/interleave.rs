//! Every order in which threads can take turns.
//!
//! A race is written as a machine whose steps are single atomic accesses. Then each schedule is a
//! list of thread numbers, all of them are tried, shortest first, and the race is no longer a
//! matter of luck. For protocols of your own that use real atomics take loom; this is for telling a
//! story.

use crate::promise::{Grant, Promise};

/// Some threads at work on shared state, one atomic access a step.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::{Machine, explore};
/// use flowgate_testkit::promise::{Grant, Kind, Promise};
///
/// /// One an hour: two threads that look first and count afterwards.
/// #[derive(Clone, Default)]
/// struct LookThenCount {
///     count: u64,
///     seen: [Option<u64>; 2],
///     has_counted: [bool; 2],
///     grants: Vec<Grant>,
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
///                 self.grants.push(Grant::new(0, 1));
///                 Some(format!("thread {thread} counts, and goes ahead"))
///             }
///             Some(_) => None,
///         }
///     }
///
///     fn grants(&self) -> &[Grant] {
///         &self.grants
///     }
/// }
///
/// let promise = Promise::new(Kind::Sliding, Quota::per_hour(1));
/// let race = explore(&LookThenCount::default(), &promise, 4).unwrap_err();
/// assert_eq!(race.steps.len(), 4); // both look before either counts
/// ```
pub trait Machine: Clone {
    /// How many threads there are; the clock may be one of them.
    fn threads(&self) -> usize;

    /// Lets `thread` do its next access. `None` if it has nothing left to do; otherwise what it
    /// did, in words.
    fn step(&mut self, thread: usize) -> Option<String>;

    /// What has been granted so far.
    fn grants(&self) -> &[Grant];
}

/// A schedule that goes wrong.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::explore;
/// use flowgate_testkit::promise::Promise;
/// use flowgate_testkit::specimens::subtract_below_zero::SubtractBelowZero;
///
/// let quota = Quota::per_second(1);
/// let bucket = SubtractBelowZero::new(quota, 2);
/// let race = explore(&bucket, &Promise::bucket(quota), 8).unwrap_err();
/// assert_eq!(race.what, "at 0s 2 were admitted, 1 allowed");
/// println!("{race}"); // that, and who did what before
/// ```
#[derive(Clone, Debug)]
pub struct Race {
    /// What was done, one line an access.
    pub steps: Vec<String>,
    /// What is wrong then.
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

/// Tries every schedule of up to `most` steps against a promise; how many there were.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::explore;
/// use flowgate_testkit::promise::Promise;
/// use flowgate_testkit::specimens::subtract_below_zero::SubtractBelowZero;
///
/// let quota = Quota::per_second(1);
/// let promise = Promise::bucket(quota);
/// // By one thread there is only one schedule, and nothing is wrong with it.
/// assert!(explore(&SubtractBelowZero::new(quota, 1), &promise, 8).is_ok_and(|tried| tried > 0));
/// assert!(explore(&SubtractBelowZero::new(quota, 2), &promise, 8).is_err());
/// ```
///
/// # Errors
///
/// A shortest schedule that breaks the promise.
pub fn explore<M: Machine>(machine: &M, promise: &Promise, most: usize) -> Result<u64, Box<Race>> {
    explore_for(machine, most, |machine| {
        let broken = promise.check(machine.grants()).err();
        broken.map(|broken| broken.to_string())
    })
}

/// Tries every schedule of up to `most` steps in search of a state that is `wrong`; how many there
/// were.
///
/// ```
/// use flowgate_testkit::interleave::explore_for;
/// use flowgate_testkit::specimens::double_clamp::DoubleClamp;
///
/// // Two threads that each look and subtract: after that, what one of them has taken off is lost.
/// let race = explore_for(&DoubleClamp::new(2, 1, 2), 8, DoubleClamp::lost).unwrap_err();
/// assert_eq!(race.steps.len(), 4);
/// ```
///
/// # Errors
///
/// A shortest schedule that leads to one.
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
