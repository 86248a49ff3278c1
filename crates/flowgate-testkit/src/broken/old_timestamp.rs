//! Records a timestamp that was read a while ago.
//!
//! A call reads the clock and then writes that time into the channel of admissions. If it is suspended in between, it
//! is admitted with an old time. Its entry is removed immediately: the window forgets it although it still counts.
//! Other calls may have entered later times before it, so the channel is not in order either.
//!
//! [`interleave`](crate::interleave) detects it by trying every schedule of a few steps. Use instead:
//! [`flowgate::SlidingWindow`], in which the time of an entry is never before that of the previous one.

use std::collections::VecDeque;

use crate::interleave::Machine;
use crate::promise::TimedGrant;

/// Threads, a trimming task, and a clock that advances by one window per step.
///
/// ```
/// use flowgate_testkit::interleave::Machine;
/// use flowgate_testkit::broken::old_timestamp::OldTimestamp;
///
/// // One in every window of 10 ns, two threads, the trimming task, and a clock.
/// let mut window = OldTimestamp::new(1, 10, 2);
/// let (one, other, trimmer, clock) = (0, 1, 2, 3);
/// for thread in [one, other, clock, one, trimmer, other] {
///     println!("{}", window.step(thread).expect("it has something to do"));
/// }
/// assert_eq!(window.grants().len(), 2); // at the same time
/// ```
#[derive(Clone, Debug)]
pub struct OldTimestamp {
    limit: usize,
    window_ns: u64,
    now_ns: u64,
    channel: VecDeque<u64>,
    /// The time that each thread has read.
    threads: Vec<Option<u64>>,
    grants: Vec<TimedGrant>,
}

impl OldTimestamp {
    /// Creates a limit of `limit` in every window of `window_ns`, called repeatedly by `threads` threads.
    pub fn new(limit: usize, window_ns: u64, threads: usize) -> Self {
        Self {
            limit,
            window_ns,
            now_ns: 0,
            channel: VecDeque::new(),
            threads: vec![None; threads],
            grants: Vec::new(),
        }
    }
}

impl Machine for OldTimestamp {
    fn threads(&self) -> usize {
        self.threads.len() + 2
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        let now_ns = self.now_ns;
        let Some(read_ns) = self.threads.get(thread).copied() else {
            if thread > self.threads.len() {
                self.now_ns += self.window_ns;
                return Some(format!("clock: {}ns", self.now_ns));
            }
            let oldest_ns = *self.channel.front()?;
            if now_ns - oldest_ns < self.window_ns {
                return None;
            }
            self.channel.pop_front();
            return Some(format!("trimmer: takes out the entry of {oldest_ns}ns"));
        };
        let Some(read_ns) = read_ns else {
            self.threads[thread] = Some(now_ns);
            return Some(format!("thread {thread}: reads the clock, {now_ns}ns"));
        };
        if self.channel.len() >= self.limit {
            return None;
        }
        // The mistake: that was then.
        self.channel.push_back(read_ns);
        self.threads[thread] = None;
        self.grants.push(TimedGrant::new(read_ns, 1));
        Some(format!("thread {thread}: enters {read_ns}ns, admits"))
    }

    fn grants(&self) -> &[TimedGrant] {
        &self.grants
    }
}
