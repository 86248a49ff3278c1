//! How much of the processors something took.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of every thread of this process since it began, user and kernel.
pub fn of_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (s, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(s) + Duration::from_nanos(ns)
}

/// What `work` gives, and the processor time that the process took meanwhile.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = of_process();
    let result = work();
    (result, of_process() - before)
}
