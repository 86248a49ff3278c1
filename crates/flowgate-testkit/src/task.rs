//! Futures that a test polls by hand, in a chosen order.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use flowgate::{Denied, Grant};

/// A future that is polled by hand and records wake-ups.
///
/// ```
/// use flowgate::{LeakyBucket, ManualClock};
/// use flowgate_testkit::task::Task;
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = LeakyBucket::builder("10/s".parse()?).clock(&time).build()?;
/// let mut tasks = [(); 2].map(|()| Task::start(limiter.acquire()));
/// assert_eq!(tasks.each_mut().map(Task::run), [true, false]);
/// time.advance(Duration::from_millis(100));
/// assert_eq!(tasks.each_mut().map(Task::run), [true, true]);
/// assert_eq!(tasks[1].granted_ns(), Some(100_000_000));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub struct Task<F: Future> {
    /// `None` once it is ready or cancelled.
    future: Option<Pin<Box<F>>>,
    woken: Arc<Woken>,
    /// Its output, once it is ready.
    pub output: Option<F::Output>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<F: Future> Task<F> {
    /// Creates a task and polls it once.
    ///
    /// ```
    /// use flowgate_testkit::task::Task;
    ///
    /// let task = Task::start(async { 17 });
    /// assert_eq!(task.output, Some(17));
    /// assert!(!Task::start(std::future::pending::<()>()).run());
    /// ```
    pub fn start(future: F) -> Self {
        let mut task = Self {
            future: Some(Box::pin(future)),
            woken: Arc::default(),
            output: None,
        };
        task.poll();
        task
    }

    /// Polls the future. Returns whether it is ready.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Denied};
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(1);
    /// let first = limit.try_acquire()?;
    /// let mut second = Task::start(limit.acquire());
    /// assert!(!second.poll());
    /// drop(first);
    /// assert!(second.poll());
    /// # Ok::<(), Denied>(())
    /// ```
    pub fn poll(&mut self) -> bool {
        self.woken.0.store(false, Ordering::SeqCst);
        if let Some(future) = &mut self.future {
            let waker = Waker::from(Arc::clone(&self.woken));
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.output = Some(output);
                self.future = None;
            }
        }
        self.output.is_some()
    }

    /// Returns whether it was woken since the last poll.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Denied};
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(1);
    /// let first = limit.try_acquire()?;
    /// let [second, third] = [(); 2].map(|()| Task::start(limit.acquire()));
    /// drop(first);
    /// assert!(second.was_woken());
    /// assert!(!third.was_woken()); // its turn has not come
    /// # Ok::<(), Denied>(())
    /// ```
    pub fn was_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }

    /// Returns whether it waits: not ready, and not [cancelled](Self::cancel).
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(1);
    /// let [first, second] = [(); 2].map(|()| Task::start(limit.acquire()));
    /// assert_eq!((first.is_waiting(), second.is_waiting()), (false, true));
    /// ```
    pub fn is_waiting(&self) -> bool {
        self.future.is_some()
    }

    /// Drops the future, like a caller that gives up.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(1);
    /// let [first, mut second, mut third] = [(); 3].map(|()| Task::start(limit.acquire()));
    /// second.cancel();
    /// drop(first.into_granted());
    /// assert!(third.run()); // its turn, as the second has left the line
    /// assert!(!second.is_waiting());
    /// ```
    pub fn cancel(&mut self) {
        self.future = None;
    }

    /// Polls the future if it was woken, like a runtime. Returns whether it is ready.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Denied};
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(1);
    /// let first = limit.try_acquire()?;
    /// let mut tasks = [(); 3].map(|()| Task::start(limit.acquire()));
    /// drop(first);
    /// assert_eq!(tasks.each_mut().map(Task::run), [true, false, false]);
    /// # Ok::<(), Denied>(())
    /// ```
    pub fn run(&mut self) -> bool {
        if self.was_woken() {
            self.poll();
        }
        self.output.is_some()
    }
}

impl<T, F: Future<Output = Result<T, Denied>>> Task<F> {
    /// Returns the grant; `None` if it waits or was refused.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(5);
    /// let task = Task::start(limit.acquire().n(3));
    /// assert_eq!(task.granted().map(|permit| permit.units()), Some(3));
    /// ```
    pub fn granted(&self) -> Option<&T> {
        self.output.as_ref()?.as_ref().ok()
    }

    /// Returns the refusal; `None` if it waits or was granted.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, ManualClock};
    /// use flowgate_testkit::task::Task;
    /// use std::time::Duration;
    ///
    /// let limiter = LeakyBucket::builder("1/s".parse()?).clock(ManualClock::new()).build()?;
    /// let first = Task::start(limiter.acquire());
    /// assert_eq!(first.denied(), None);
    /// let second = Task::start(limiter.acquire().within(Duration::from_millis(300)));
    /// assert!(second.denied().is_some()); // at once: a second is too long
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn denied(&self) -> Option<Denied> {
        self.output.as_ref()?.as_ref().err().copied()
    }

    /// Returns the grant by value.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_testkit::task::Task;
    ///
    /// let limit = ConcurrencyLimit::new(1);
    /// let permit = Task::start(limit.acquire()).into_granted();
    /// assert_eq!(limit.in_flight(), 1);
    /// drop(permit);
    /// assert_eq!(limit.in_flight(), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if it waits or was refused.
    #[track_caller]
    pub fn into_granted(self) -> T {
        let output = self.output.expect("it is ready");
        output.unwrap_or_else(|denied| panic!("it was refused: {denied}"))
    }
}

impl<F: Future<Output = Result<Grant, Denied>>> Task<F> {
    /// Returns the time of the grant in nanoseconds; `None` if it waits or was refused.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, ManualClock};
    /// use flowgate_testkit::task::Task;
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let limiter = LeakyBucket::builder("10/s".parse()?).clock(&time).build()?;
    /// let [_first, mut second] = [(); 2].map(|()| Task::start(limiter.acquire()));
    /// assert_eq!(second.granted_ns(), None);
    /// time.advance(Duration::from_millis(100));
    /// second.run();
    /// assert_eq!(second.granted_ns(), Some(100_000_000));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn granted_ns(&self) -> Option<u64> {
        Some(self.granted()?.at().as_nanos())
    }

    /// Returns the time of the grant in milliseconds.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, ManualClock};
    /// use flowgate_testkit::task::Task;
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let limiter = LeakyBucket::builder("400/s".parse()?).clock(&time).build()?;
    /// let mut tasks = [(); 3].map(|()| Task::start(limiter.acquire()));
    /// time.advance(Duration::from_millis(5));
    /// tasks.each_mut().map(Task::run);
    /// assert_eq!(tasks.map(|task| task.granted_ms()), [Some(0.0), Some(2.5), Some(5.0)]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn granted_ms(&self) -> Option<f64> {
        Some(self.granted_ns()? as f64 / 1e6)
    }
}

impl<F: Future> fmt::Debug for Task<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("is_ready", &self.output.is_some())
            .finish_non_exhaustive()
    }
}
