//! Moves the start of the next window, and then replaces the count.
//!
//! A call that finds the window over moves the start of the next one by a compare-and-swap. The winner sets the count
//! to 1 and is admitted. What others are admitted in between, on the old count, is overwritten. The winner is admitted
//! without a check of the limit, so with a limit of 0 one is admitted in each window.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead:
//! [`flowgate::FixedWindow`], in which start and count change together in one word.

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Threads, and a clock as the last one, which advances by one window per step.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::next_window::NextWindow;
///
/// // One in each window of 10 ns, two threads, and a clock.
/// let mut window = NextWindow::new(1, 10, 2);
/// let (mover, other, clock) = (0, 1, 2);
/// for thread in [clock, mover, other, mover] {
///     println!("{}", window.step(thread).expect("it has something to do"));
/// }
/// assert_eq!(window.grants().len(), 2); // in one window
/// ```
#[derive(Clone, Debug)]
pub struct NextWindow {
    limit: u64,
    window_ns: u64,
    now_ns: u64,
    next_ns: u64,
    count: u64,
    /// The time that a winning thread has read before it sets the count.
    threads: Vec<Option<u64>>,
    grants: Vec<TimedGrant>,
}

impl NextWindow {
    /// Creates a limit of `limit` in each window of `window_ns`, called repeatedly by `threads` threads.
    pub fn new(limit: u64, window_ns: u64, threads: usize) -> Self {
        Self {
            limit,
            window_ns,
            now_ns: 0,
            next_ns: window_ns,
            count: 0,
            threads: vec![None; threads],
            grants: Vec::new(),
        }
    }
}

impl Machine for NextWindow {
    fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        let now_ns = self.now_ns;
        let Some(won) = self.threads.get(thread).copied() else {
            self.now_ns += self.window_ns;
            return Some(format!("clock: {}ns", self.now_ns));
        };
        let mut at_ns = now_ns;
        let done = if let Some(read_ns) = won {
            // The mistake: others have been counted since.
            self.count = 1;
            self.threads[thread] = None;
            at_ns = read_ns;
            "exchanges the count for 1, admits".into()
        } else if now_ns >= self.next_ns {
            self.next_ns = now_ns + self.window_ns;
            self.threads[thread] = Some(now_ns);
            return Some(format!(
                "thread {thread}: moves the next window to {}ns",
                self.next_ns
            ));
        } else if self.count < self.limit {
            self.count += 1;
            format!("adds 1 to the count, {} now, admits", self.count)
        } else {
            return None;
        };
        self.grants.push(TimedGrant::new(at_ns, 1));
        Some(format!("thread {thread}: {done}"))
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
