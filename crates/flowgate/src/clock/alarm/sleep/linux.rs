use rustix::io::{Errno, read};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the kernel's monotonic clock.
pub(in crate::clock::alarm) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Never negative, and 584 years fit.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * NS_PER_SECOND + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// A timer descriptor: the thread blocks in reading it.
///
/// The kernel's timer slack (50 µs by default) delays every other kind of sleep, but not the timer of a descriptor. And setting
/// the timer is enough to bring forward a sleep that has begun.
#[derive(Debug)]
pub(in crate::clock::alarm) struct Descriptor(OwnedFd);

impl Descriptor {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        // If setting it is forbidden, this reports it early.
        set(&timer, u64::MAX)?;
        Ok(Self(timer))
    }

    pub(super) fn arm(&self, at_ns: u64) {
        // The timer has been set before, and any time is valid.
        let _ = set(&self.0, at_ns);
    }

    pub(super) fn sleep(&self) {
        match read(&self.0, &mut [0; 8]) {
            Ok(_) | Err(Errno::INTR) => {}
            // Other code has closed this descriptor. The thread still reads its table from time to time.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn set(timer: &OwnedFd, at_ns: u64) -> io::Result<()> {
    // 0 would be never.
    let at_ns = at_ns.max(1);
    // Both fit: at most 2⁶⁴ ns, 1.8 · 10¹⁰ seconds; and a time of less than a second.
    let value = Timespec {
        tv_sec: (at_ns / NS_PER_SECOND) as _,
        tv_nsec: (at_ns % NS_PER_SECOND) as _,
    };
    let timer_value = Itimerspec {
        it_interval: Timespec::default(),
        it_value: value,
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &timer_value)?;
    Ok(())
}
