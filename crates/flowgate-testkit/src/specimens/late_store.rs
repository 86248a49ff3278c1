//! A reset in two stores, of which the second comes late.
//!
//! A window limiter with a count and a start time: whoever finds the window over wins the right to
//! reset it by a compare-and-swap on the start time, and *then* stores 1 into the count. Suspended
//! in between, it wakes up in a later window and wipes that one's count. Limit 5 admits 10. The
//! same hides in "exchange the count, then the time", and in every reset of two words, whatever the
//! memory ordering.
//!
//! Every schedule of a few steps is tried by [`interleave`](crate::interleave), which finds it.
//! Instead: flowgate's limiters keep their state in one word.

use crate::interleave::Machine;
use crate::promise::Grant;

/// Some threads, and last a clock that goes on by one window at each of its steps.
#[derive(Clone, Debug)]
pub struct LateStore {
    limit: u64,
    window_ns: u64,
    now_ns: u64,
    start_ns: u64,
    count: u64,
    threads: Vec<At>,
    grants: Vec<Grant>,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum At {
    Add,
    Won,
}

impl LateStore {
    /// `limit` in each window of `window_ns`, asked by so many threads, again and again.
    pub fn new(limit: u64, window_ns: u64, threads: usize) -> Self {
        Self {
            limit,
            window_ns,
            now_ns: window_ns,
            start_ns: 0,
            count: u64::MAX,
            threads: vec![At::Add; threads],
            grants: Vec::new(),
        }
    }
}

impl Machine for LateStore {
    fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    fn step(&mut self, thread: usize) -> Option<String> {
        let now_ns = self.now_ns;
        let Some(at) = self.threads.get(thread).copied() else {
            self.now_ns += self.window_ns;
            return Some(format!("clock: {} ns", self.now_ns));
        };
        match at {
            At::Add if self.count < self.limit => {
                self.count += 1;
                self.grants.push(Grant::new(now_ns, 1));
                Some(format!(
                    "thread {thread}: adds 1 to the count, {} now, admits",
                    self.count
                ))
            }
            At::Add if now_ns - self.start_ns >= self.window_ns => {
                self.start_ns = now_ns;
                self.threads[thread] = At::Won;
                Some(format!("thread {thread}: begins the window of {now_ns} ns"))
            }
            // Refused; nothing that others see.
            At::Add => None,
            At::Won => {
                // The mistake: perhaps this is no longer the window that it began.
                self.count = 1;
                self.threads[thread] = At::Add;
                self.grants.push(Grant::new(now_ns, 1));
                Some(format!("thread {thread}: stores 1 into the count, admits"))
            }
        }
    }

    fn grants(&self) -> &[Grant] {
        &self.grants
    }
}
