//! A window in two atomics, a count and a start, in four stages of its design.
//!
//! A call adds 1 to the count, and is admitted if the count was below the limit, without reading the clock. Otherwise,
//! if the window is over, it starts a new one: time := now, count := 1. The count starts at its maximum, so that the
//! first call starts a window as well.
//!
//! 1. Two plain stores. Two threads reset, and one of their admissions is not counted.
//! 2. A compare-and-swap on the time, so that one thread resets. The first call has wrapped the count to 0, and until
//!    the reset others are admitted too.
//! 3. A special case for the first window. The winner may stall before it stores 1; the late store overwrites what is
//!    counted meanwhile.
//! 4. Weaker orderings. They change nothing: no ordering makes two words atomic together. And while the winner stalls,
//!    a window without admissions refuses every call.
//!
//! Each stage is shown with its own defect alone. An admission counts at the window in which it is counted, so the
//! clock is not the cause.
//!
//! [`interleave`](crate::interleave) detects them by trying every schedule of a few steps. Use instead:
//! [`flowgate::FixedWindow`], in which start and count change together in one word.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Stage of the design.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::interleave::explore;
/// use flowgate_testkit::promise::{Anchor, Kind, Promise};
/// use flowgate_testkit::broken::two_atomics::{Stage, TwoAtomics};
/// use std::time::Duration;
///
/// let window = Quota::new(1, Duration::from_nanos(10))?;
/// let promise = Promise::new(Kind::Window(Anchor::FirstGrant), window);
/// let steps = |stage| explore(&TwoAtomics::new(stage, 1, 10, 2), &promise, 9).map_err(|race| race.steps.len());
/// assert_eq!(steps(Stage::Stores), Err(8));
/// assert_eq!(steps(Stage::Swap), Err(4));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Both fields atomic, plain stores.
    Stores,
    /// One thread wins the reset.
    Swap,
    /// The first window is a special case.
    First,
    /// Weaker memory orderings.
    Relaxed,
}

/// Threads, and a clock as the last one, which advances by one window per step.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::two_atomics::{Stage, TwoAtomics};
///
/// // One in each window of 10 ns, and two threads, which both find the first window over.
/// let mut window = TwoAtomics::new(Stage::Stores, 1, 10, 2);
/// for thread in [0, 0, 1, 1, 0, 0, 1, 1] {
///     println!("{}", window.step(thread).expect("it has something to do"));
/// }
/// assert_eq!(window.grants().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct TwoAtomics {
    stage: Stage,
    limit: u64,
    window_ns: u64,
    now_ns: u64,
    start_ns: u64,
    count: u64,
    threads: Vec<At>,
    grants: Vec<TimedGrant>,
    wasted: Option<String>,
}

/// The next step of a thread.
#[derive(Clone, Copy, Debug)]
enum At {
    Add,
    Look,
    StoreStart { read_ns: u64 },
    StoreCount { read_ns: u64 },
}

impl TwoAtomics {
    /// Creates a limit of `limit` in each window of `window_ns`, called repeatedly by `threads` threads.
    pub fn new(stage: Stage, limit: u64, window_ns: u64, threads: usize) -> Self {
        Self {
            stage,
            limit,
            window_ns,
            now_ns: window_ns,
            start_ns: 0,
            count: if stage == Stage::Swap {
                u64::MAX
            } else {
                limit
            },
            threads: vec![At::Add; threads],
            grants: Vec::new(),
            wasted: None,
        }
    }

    /// Returns the refusal of a call in a window without grants, if there was one.
    ///
    /// ```
    /// use flowgate_testkit::interleave::explore_for;
    /// use flowgate_testkit::broken::two_atomics::{Stage, TwoAtomics};
    ///
    /// let window = TwoAtomics::new(Stage::Relaxed, 1, 10, 2);
    /// assert_eq!(window.wasted(), None); // so far
    /// let race = explore_for(&window, 8, TwoAtomics::wasted).unwrap_err();
    /// println!("{race}"); // a schedule that leads to one
    /// ```
    pub fn wasted(&self) -> Option<String> {
        self.wasted.clone()
    }

    fn admit(&mut self, start_ns: u64) {
        self.grants.push(TimedGrant::new(start_ns, 1));
    }
}

impl Machine for TwoAtomics {
    fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        let now_ns = self.now_ns;
        let Some(at) = self.threads.get(thread).copied() else {
            self.now_ns += self.window_ns;
            return Some(format!("clock: {}ns", self.now_ns));
        };
        let (next, done) = match at {
            At::Add => {
                let before = self.count;
                self.count = before.wrapping_add(1);
                if before < self.limit {
                    self.admit(self.start_ns);
                    (
                        At::Add,
                        format!("adds 1 to the count, {} now, admits", self.count),
                    )
                } else {
                    (
                        At::Look,
                        format!("adds 1 to the count, {} now, full", self.count),
                    )
                }
            }
            At::Look if now_ns - self.start_ns < self.window_ns => {
                if self.grants.iter().all(|grant| grant.at_ns < self.start_ns) {
                    let start_ns = self.start_ns;
                    self.wasted = Some(format!(
                        "refused, and nothing was admitted in the window of {start_ns}ns"
                    ));
                }
                (At::Add, "finds the window not over, refuses".into())
            }
            At::Look if self.stage == Stage::Stores => (
                At::StoreStart { read_ns: now_ns },
                "finds the window over".into(),
            ),
            At::Look => {
                self.start_ns = now_ns;
                (
                    At::StoreCount { read_ns: now_ns },
                    format!("wins the window of {now_ns}ns"),
                )
            }
            At::StoreStart { read_ns } => {
                self.start_ns = read_ns;
                (
                    At::StoreCount { read_ns },
                    format!("stores its start, {read_ns}ns"),
                )
            }
            At::StoreCount { read_ns } => {
                // The mistake: perhaps this is no longer the window that it began.
                self.count = 1;
                self.admit(read_ns);
                (
                    At::Add,
                    format!("stores 1 into the count, admits in window {read_ns}ns"),
                )
            }
        };
        self.threads[thread] = next;
        Some(format!("thread {thread}: {done}"))
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
