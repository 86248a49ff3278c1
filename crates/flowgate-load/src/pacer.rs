//! Sleeping until an instant, to within microseconds.

use std::io;
use std::time::Instant;

/// Sleeps until absolute instants, inside a tokio runtime that has its I/O and time drivers
/// enabled.
///
/// On Linux it is a `timerfd` on the monotonic clock: tokio's own timer counts in milliseconds, and
/// other kernel waits are held back by timer slack (50 µs by default), but a `timerfd` is not. A
/// wake-up comes typically about 5 µs after its instant on an idle machine. Elsewhere it is tokio's
/// timer, which is about 1 ms late.
///
/// It never returns early.
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
pub struct Pacer(timer::Timer);

impl Pacer {
    /// A pacer on the current runtime.
    ///
    /// # Errors
    ///
    /// When the operating system grants no timer (too many open files).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, or in one without an I/O driver.
    pub fn new() -> io::Result<Pacer> {
        Ok(Pacer(timer::Timer::new()?))
    }

    /// Completes at `deadline` or just after it; at once, without yielding, when it has passed.
    /// Cancel safe: dropping the future forgets the deadline and nothing else.
    ///
    /// Should the operating system refuse to set the timer, tokio's takes its place.
    pub async fn sleep_until(&mut self, deadline: Instant) {
        if Instant::now() < deadline && self.0.sleep_until(deadline).await.is_err() {
            tokio::time::sleep_until(deadline.into()).await;
        }
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

    /// A timer descriptor, and one instant known on both the standard library's and the kernel's
    /// scale.
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
            // `OwnedFd` cannot, so the promise it asks for is kept here, without unsafe code.
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
