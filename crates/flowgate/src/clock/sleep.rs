//! Waiting for a time, and for nothing else.

use crate::clock::alarm::Alarm;
use crate::clock::{Clock, Timestamp};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// A wait until a clock shows a time: [`Clock::sleep`], [`Clock::sleep_until`].
///
/// It needs no runtime. It takes no lock and no memory until it is polled, and dropping it ends it.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Clock,
    until: Timestamp,
    /// None before the first poll, and after the last one.
    alarm: Option<Alarm>,
}

impl Clock {
    /// Waits for `wait`, counted from this call. It is ready on its first poll if that is zero.
    ///
    /// Use it where a program waits beside a limiter, such as for a pause between two attempts. On a [`ManualClock`] such a wait
    /// ends when a test moves the clock, and in production it is a wait in real time.
    ///
    /// It is ready when the clock shows the time, and never earlier. A wait beyond [`Timestamp::MAX`] ends there.
    ///
    /// [`ManualClock`]: crate::ManualClock
    ///
    /// ```
    /// use flowgate::{Clock, ManualClock};
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let mut pause = pin!(Clock::from(&time).sleep(Duration::from_secs(2)));
    /// let mut context = Context::from_waker(Waker::noop());
    /// time.advance(Duration::from_millis(1999));
    /// assert!(pause.as_mut().poll(&mut context).is_pending());
    /// time.advance(Duration::from_millis(1));
    /// assert!(pause.as_mut().poll(&mut context).is_ready());
    /// ```
    pub fn sleep(&self, wait: Duration) -> Sleep {
        self.sleep_until(self.now() + wait)
    }

    /// Waits until this clock shows `until`. It is ready on its first poll if the clock has been there, even if it was set back
    /// since.
    ///
    /// ```
    /// use flowgate::Clock;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let clock = Clock::system();
    /// let mut next = clock.now();
    /// for _ in 0..3 {
    ///     next = next + Duration::from_millis(1);
    ///     clock.sleep_until(next).await;
    ///     assert!(clock.now() >= next);
    /// }
    /// # });
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn sleep_until(&self, until: Timestamp) -> Sleep {
        Sleep {
            clock: self.clone(),
            until,
            alarm: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.clock.ns_until(this.until.as_nanos()) == 0 {
            this.alarm = None;
            return Poll::Ready(());
        }
        // Anew, since the last one may have gone off too early.
        this.alarm = Some(this.clock.alarm(this.until, context.waker().clone()));
        Poll::Pending
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::clock::alarm::tests::bell;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn poll(sleep: &mut Sleep, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(sleep).poll(context)
    }

    #[test]
    fn it_wakes_whoever_polled_last_when_the_time_has_come() {
        let time = ManualClock::new();
        let mut sleep = Clock::from(&time).sleep(ms(3));
        let [(first, first_rings), (last, last_rings)] = [bell(), bell()];
        for waker in [&first, &last] {
            assert!(poll(&mut sleep, &mut Context::from_waker(waker)).is_pending());
        }
        time.advance(ms(2));
        assert!(last_rings.try_recv().is_err(), "a millisecond too early");
        time.advance(ms(1));
        assert!(last_rings.try_recv().is_ok());
        assert!(first_rings.try_recv().is_err(), "another one polls it now");
        assert!(poll(&mut sleep, &mut Context::from_waker(&last)).is_ready());
    }

    #[test]
    fn c3_it_is_not_ready_a_nanosecond_early_asks_again_then_and_leaves_nothing_when_dropped() {
        let time = ManualClock::new();
        let mut sleep = Clock::from(&time).sleep_until(Timestamp::from_nanos(5));
        let (waker, rings) = bell();
        let mut context = Context::from_waker(&waker);
        for ns in [0, 4] {
            time.set(Timestamp::from_nanos(ns));
            assert!(poll(&mut sleep, &mut context).is_pending(), "at {ns} ns");
            assert_eq!(time.next_wake(), Some(Timestamp::from_nanos(5)));
        }
        time.set(Timestamp::from_nanos(5));
        assert!(rings.try_recv().is_ok());
        // Back before the woken task looks: the clock has been there.
        time.set(Timestamp::ORIGIN);
        assert!(poll(&mut sleep, &mut context).is_ready());
        let mut other = Clock::from(&time).sleep(ms(9));
        assert!(poll(&mut other, &mut context).is_pending());
        drop(other);
        assert_eq!(time.next_wake(), None);
    }

    #[test]
    fn c4_no_time_is_over_at_once_and_the_longest_one_at_the_last_instant() {
        let time = ManualClock::new();
        let clock = Clock::from(&time);
        let mut context = Context::from_waker(core::task::Waker::noop());
        assert!(poll(&mut clock.sleep(Duration::ZERO), &mut context).is_ready());
        time.set(Timestamp::from_nanos(1));
        let mut longest = clock.sleep(Duration::MAX);
        assert!(poll(&mut longest, &mut context).is_pending());
        time.set(Timestamp::MAX);
        assert!(poll(&mut longest, &mut context).is_ready());
    }
}
