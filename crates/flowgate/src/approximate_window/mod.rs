//! [`ApproximateWindow`]: the public face over
//! [`algorithm::approximate_window`](crate::algorithm::approximate_window).

mod at;
mod builder;
mod parameters;
mod supply;

pub use builder::ApproximateWindowBuilder;

use crate::algorithm::approximate_window::{State, Window};
use crate::cell::Cell;
use crate::clock::{Clock, Timestamp};
use crate::limiter::At;
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::policy::Policy;
use crate::primitive::{AtomicU64, Lock, Ordering, const_unless_loom};
use crate::quota::{Quota, QuotaError};
use crate::room::{Room, waits_in_line};
use crate::verdict::Denied;
use core::fmt;
use parameters::{LIMIT_END, Parameters};

/// At most **2 · limit − 1** in any window, and about the limit if operations come evenly: a sliding window
/// estimated from two counters.
///
/// Time is cut into windows. What was admitted in the one before the current is taken to have been spread evenly
/// over it, so of its count that part counts which a window that ends now would still cover:
///
/// ```text
///  count    42 in the last minute   18 in this one
///           ├──────────────────────┼──────┬──────────┤
///                  ├───────────────╫──────┤ 60 s that end now
///           0:00   0:15           1:00   1:15
///
///           estimate = 42 · 45/60 + 18 = 49.5;   n more are admitted if that leaves at most the limit
/// ```
///
/// ```
/// use flowgate::{ApproximateWindow, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: ApproximateWindow::new(quota)?
/// let limiter = ApproximateWindow::builder("50/min".parse()?).clock(&time).build()?;
/// limiter.try_acquire_n(42)?;
/// time.advance(Duration::from_secs(60));
/// limiter.try_acquire_n(8)?;
/// time.advance(Duration::from_secs(15));
/// assert_eq!(limiter.available(), 10); // 50 − (42 · 45/60 + 8), rounded down
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What it promises
///
/// - **Never over** (contract C1) 2 · limit − 1 in any span of one window's length, and never over the limit in
///   a window of its own. Across changes of quota, the limit is the largest in force, and a span is as long as
///   the shortest window.
/// - **Not wasteful by much** (C2). It refuses exactly when the estimate, in integers, without rounding, would
///   exceed the limit. The estimate is off by at most the previous window's count: what was admitted at the
///   beginning of a window counts for too long, what was admitted at its end not for long enough.
/// - **Any clock** (C4). A `now` before the current window counts as its start, where the estimate is greatest.
/// - **Honest waits** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond. While others wait in
///   [line](Self::line), how long those take hangs on how much each of them asks for, and it is the least that this
///   can be.
///
/// # Choosing it
///
/// It is for those who need the decisions that Cloudflare and HAProxy make. Take a
/// [`TokenBucket`](crate::TokenBucket) for the same worst case, without windows. A limit that must hold in
/// *every* window takes a sliding window that remembers when.
///
/// # Windows
///
/// The quota's count is the limit and its period the window; it must set no burst. The first window begins at
/// the clock's origin, unless [`align`](ApproximateWindowBuilder::align) says otherwise. A limit is at most
/// 16,777,215 units.
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on one 128-bit word, and takes no lock and no
/// memory. On targets without a 128-bit compare-and-swap, where it [is not lock-free](Self::is_lock_free), it is as
/// exact, under a lock.
pub struct ApproximateWindow {
    cell: Cell<Parameters, 3>,
    clock: Clock,
    /// The latest time that a caller has supplied; a change of quota is not settled before it.
    newest_ns: AtomicU64,
    /// From when on a unit and a window are what they are; what was granted before is not taken back. Raised before
    /// the change is made.
    restated_ns: AtomicU64,
    quota: Lock<Quota>,
    room: Room,
}

impl ApproximateWindow {
    /// With windows aligned to the origin of [`Clock::system`].
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if `quota` sets a burst, or its count is over 16,777,215 units.
    ///
    /// ```
    /// # use flowgate::ApproximateWindow;
    /// let error = ApproximateWindow::new("20M/s".parse()?).unwrap_err();
    /// assert_eq!(error.to_string(), "a window's limit of 20000000 is out of range: 1 to 16777215");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// With another clock than the default one, or windows aligned otherwise.
    pub fn builder(quota: Quota) -> ApproximateWindowBuilder {
        ApproximateWindowBuilder::new(quota)
    }

    const_unless_loom! {
        const fn with(quota: Quota, parameters: Parameters, state: State, clock: Clock) -> Self {
            Self {
                cell: Cell::new(parameters.words(), parameters::pack(state)),
                clock,
                newest_ns: AtomicU64::new(0),
                restated_ns: AtomicU64::new(0),
                quota: Lock::new(quota),
                room: Room::new(),
            }
        }
    }

    /// Takes one token, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the estimate would exceed the limit; nothing is then taken.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Takes `n` units, all or none.
    ///
    /// ```
    /// # use flowgate::{ApproximateWindow, ManualClock};
    /// # use std::time::Duration;
    /// let limiter =
    ///     ApproximateWindow::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(10)?;
    /// // Of the 10, 9 must have faded, which takes a window and nine tenths of the next.
    /// let denied = limiter.try_acquire_n(9).unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(1900)));
    /// assert!(limiter.try_acquire_n(11).unwrap_err().is_never());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the estimate would exceed the limit; nothing is then taken.
    /// [`is_never`](Denied::is_never) if `n` is above the limit.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Takes what there is, up to `n` units, and says how much that was.
    ///
    /// ```
    /// # use flowgate::ApproximateWindow;
    /// let limiter = ApproximateWindow::new("10/h".parse()?)?;
    /// assert_eq!([limiter.take_up_to(7), limiter.take_up_to(7)], [7, 3]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.at_now().take_up_to(n)
    }

    /// Gives back `n` units that were taken in the current window and not used, and says how many came back: no
    /// more than were taken in it.
    ///
    /// They count as never admitted: of all that was admitted, the newest `n` units. What was taken in an earlier
    /// window does not come back.
    ///
    /// ```
    /// # use flowgate::{ApproximateWindow, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = ApproximateWindow::builder("10/s".parse()?).clock(&time).build()?;
    /// limiter.try_acquire_n(8)?;
    /// assert_eq!(limiter.refund(3), 3);
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(limiter.refund(3), 0); // another window by now
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64) -> u64 {
        self.at_now().refund(n)
    }

    /// How many units could be taken now; none while others wait in line.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// The limit, what remains of it, and when it is whole again, seen at one instant.
    ///
    /// ```
    /// # use flowgate::{ApproximateWindow, ManualClock};
    /// # use std::time::Duration;
    /// let limiter =
    ///     ApproximateWindow::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(4)?;
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (10, 6));
    /// assert!(seen.reset_after <= Duration::from_secs(2)); // two windows, and all has faded
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        *self.quota.lock()
    }

    /// Puts another quota in force. What was admitted stays counted.
    ///
    /// If the window keeps its length, both counters go on. If not, a new window begins now, and all that is remembered
    /// counts as admitted in it: for a time this may refuse more than it must.
    ///
    /// ```
    /// # use flowgate::{ApproximateWindow, ManualClock};
    /// let limiter =
    ///     ApproximateWindow::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(10)?;
    /// limiter.set_quota("15/min".parse()?)?;
    /// assert_eq!(limiter.available(), 5);
    /// assert!(limiter.set_quota("15/min burst 5".parse()?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] where [`new`](Self::new) has one; nothing is then changed.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.change_quota(quota, || {
            let now_ns = self.clock.now().as_nanos();
            (now_ns, self.clock.latest().as_nanos())
        })
    }

    /// The same verbs at a time of your own. Use one kind of time with one limiter, the clock's or yours.
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        self.newest_ns.fetch_max(now.as_nanos(), Ordering::AcqRel);
        At::new(self, now.as_nanos())
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether decisions take no lock on this machine.
    ///
    /// `false` where the processor has no 128-bit compare-and-swap: they are then made as exactly, under a lock.
    ///
    /// ```
    /// # use flowgate::ApproximateWindow;
    /// let limiter = ApproximateWindow::new("1000/min".parse()?)?;
    /// if !limiter.is_lock_free() {
    ///     eprintln!("decisions take a lock on this machine");
    /// }
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    #[inline]
    fn at_now(&self) -> At<'_, Self> {
        At::new(self, self.clock.now().as_nanos())
    }

    fn newest_ns(&self) -> u64 {
        self.newest_ns.load(Ordering::Acquire)
    }
}

/// The parameters of `quota`, if it is one for a window.
fn parameters_for(quota: &Quota) -> Result<Parameters, QuotaError> {
    let (limit, length_ns) = quota.window()?;
    if limit >= LIMIT_END {
        return Err(QuotaError::out_of_range(
            "a window's limit",
            limit,
            1,
            LIMIT_END - 1,
        ));
    }
    Ok(Parameters {
        window: Window { limit, length_ns },
        units_per_token: quota.scale(),
    })
}

/// `state` under other parameters, from `now_ns` on, with counts rounded up.
///
/// If lengths differ, everything that is remembered counts as admitted at the latest time that it may have been,
/// which is not after its window, nor after `latest_ns`, or now.
/// Then no span of either length holds more than it would by one of the two quotas alone.
fn carried(
    state: State,
    (now_ns, latest_ns): (u64, u64),
    old: &Parameters,
    new: &Parameters,
) -> State {
    let state = state.at(now_ns, old.window.length_ns);
    let units = |count: u64| {
        let units = u128::from(count) * u128::from(new.units_per_token);
        let units = units.div_ceil(u128::from(old.units_per_token));
        // No limit is above this, so that more than it is not less strict.
        units.min(u128::from(LIMIT_END - 1)) as u64
    };
    if new.window.length_ns == old.window.length_ns {
        State {
            previous: units(state.previous),
            current: units(state.current),
            ..state
        }
    } else {
        State {
            start_ns: latest_ns
                .min(state.start_ns.saturating_add(old.window.length_ns))
                .max(state.start_ns)
                .max(now_ns),
            previous: 0,
            current: units(state.previous + state.current),
        }
    }
}

waits_in_line!(ApproximateWindow, |limiter| limiter);
limiter_by_its_verbs!(ApproximateWindow as ApproximateWindow;
    policy: |window| Policy::new(window.quota(), false), refund: ApproximateWindow::refund,
    charge: ApproximateWindow::take_up_to);

impl fmt::Debug for ApproximateWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApproximateWindow")
            .field("quota", &self.quota())
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}
