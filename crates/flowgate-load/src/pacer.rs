//! Sleeps until an instant, to within microseconds.

use std::io;
use std::time::{Duration, Instant};

use tokio::task::yield_now;

/// Sleeps until absolute instants.
///
/// It needs a tokio runtime with I/O and time drivers.
///
/// On Linux it uses a `timerfd` on the monotonic clock. Tokio's own timer counts in milliseconds, and timer slack
/// delays other kernel waits by 50 µs by default; a `timerfd` has neither limit. On other systems it uses tokio's
/// timer, which is about 1 ms late.
///
/// Wake-ups are 5 to 100 µs late, depending on the machine. The pacer measures that delay, sets the timer earlier by
/// it, and yields to other tasks for the rest of the time. It never returns early.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use flowgate_load::Pacer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let mut pacer = Pacer::new()?;
/// let deadline = Instant::now() + Duration::from_micros(700);
/// pacer.sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pacer {
    timer: timer::Timer,
    /// Three of four wake-ups are at most this late.
    lead_ns: u64,
}

/// Maximum time that it yields instead of sleeping.
const MOST_LEAD_NS: u64 = 200_000;
/// Change of the estimate per wake-up. Steps up are three times as long as steps down, so the estimate converges to the
/// 75th percentile.
const STEP_NS: u64 = 500;

impl Pacer {
    /// Creates a pacer on the current runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a timer (too many open files).
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, or in one without an I/O driver.
    pub fn new() -> io::Result<Pacer> {
        Ok(Pacer {
            timer: timer::Timer::new()?,
            lead_ns: 0,
        })
    }

    /// Completes at `deadline` or just after it; immediately, without yielding, if it has passed.
    ///
    /// If the operating system refuses to set the timer, tokio's timer is used.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only forgets the deadline.
    pub async fn sleep_until(&mut self, deadline: Instant) {
        let lead = Duration::from_nanos(self.lead_ns);
        if let Some(wake) = deadline.checked_sub(lead)
            && Instant::now() < wake
        {
            if self.timer.sleep_until(wake).await.is_err() {
                tokio::time::sleep_until(wake.into()).await;
            }
            self.learn(Instant::now().saturating_duration_since(wake));
        }
        // Other tasks work meanwhile: they write requests and read responses.
        while Instant::now() < deadline {
            yield_now().await;
        }
    }

    fn learn(&mut self, late: Duration) {
        self.lead_ns = if late > Duration::from_nanos(self.lead_ns) {
            (self.lead_ns + 3 * STEP_NS).min(MOST_LEAD_NS)
        } else {
            self.lead_ns.saturating_sub(STEP_NS)
        };
    }
}

#[cfg(target_os = "linux")]
mod timer {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
        clock_gettime, timerfd_create, timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A timer descriptor, and one instant that is known both to the standard library's and the kernel's clock.
    #[derive(Debug)]
    pub(super) struct Timer {
        descriptor: AsyncFd<OwnedFd>,
        instant: Instant,
        monotonic: Duration,
    }

    impl Timer {
        pub(super) fn new() -> io::Result<Timer> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let instant = Instant::now();
            // `Instant` is this clock too. Read second, it is a few ns ahead, so the timer errs
            // toward late.
            let now = clock_gettime(ClockId::Monotonic);
            // tokio's replacement is `unsafe` because a type can lie about its descriptor;
            // `OwnedFd` cannot, so the guarantee it asks for is kept here, without unsafe code.
            #[expect(deprecated)]
            let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
            Ok(Timer {
                descriptor,
                instant,
                monotonic: Duration::new(
                    u64::try_from(now.tv_sec).unwrap_or(0),
                    u32::try_from(now.tv_nsec).unwrap_or(0),
                ),
            })
        }

        pub(super) async fn sleep_until(&mut self, deadline: Instant) -> io::Result<()> {
            let ahead = deadline.saturating_duration_since(self.instant);
            let at = self.monotonic.saturating_add(ahead);
            let timer = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: i64::from(at.subsec_nanos()),
                },
            };
            timerfd_settime(
                self.descriptor.get_ref(),
                TimerfdTimerFlags::ABSTIME,
                &timer,
            )?;
            loop {
                // Setting the timer again resets its expirations, so they need not be read away.
                // What is left of an earlier deadline's readiness costs one more turn of this loop.
                self.descriptor.readable().await?.clear_ready();
                if Instant::now() >= deadline {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod timer {
    use std::io;
    use std::time::Instant;

    #[derive(Debug)]
    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new() -> io::Result<Timer> {
            Ok(Timer)
        }

        pub(super) async fn sleep_until(&mut self, deadline: Instant) -> io::Result<()> {
            tokio::time::sleep_until(deadline.into()).await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_four_wake_ups_are_in_time() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let learnt = |late_us: &[u64]| {
            let mut pacer = Pacer::new().unwrap();
            for &late in late_us.iter().cycle().take(2_000) {
                pacer.learn(Duration::from_micros(late));
            }
            pacer.lead_ns
        };
        assert_eq!(learnt(&[0]), 0);
        assert!(learnt(&[40]).abs_diff(40_000) <= 3 * STEP_NS);
        let between = learnt(&[10, 20, 30, 80]);
        assert!((28_000..82_000).contains(&between), "{between}");
        assert_eq!(learnt(&[5_000]), MOST_LEAD_NS);
    }
}
