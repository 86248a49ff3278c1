//! [`WarmUp`]: the public face over [`algorithm::warm_up`](crate::algorithm::warm_up).

mod at;
mod builder;
mod parameters;
mod supply;
#[cfg(all(test, not(flowgate_loom)))]
mod tests;

pub use builder::WarmUpBuilder;

use crate::algorithm::warm_up::State;
use crate::cell::{Cell, Step};
use crate::clock::{Clock, Timestamp};
use crate::limiter::At;
use crate::limiter::reservation::{Booking, Reservation, Revoke};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::policy::Policy;
use crate::primitive::{AtomicU64, Lock, Ordering};
use crate::quota::{Quota, QuotaError};
use crate::room::{Room, waits_in_line};
use crate::verdict::Denied;
use core::fmt;
use core::time::Duration;
use parameters::{Parameters, WORDS};
use supply::Turn;

/// Ramps up from cold: the costs of all grants in any span but the last are at most the span, and a grant costs
/// more the longer the limiter has been idle.
///
/// For what must not be hit at full rate after a rest: an empty cache, a pool without connections, code not yet
/// compiled. While idle the limiter cools. The first operation then costs *cold factor* times the stable interval,
/// and each one after it less, until after a *warm-up* under load they cost the stable interval.
///
/// ```text
///   rate
/// stable ┤               ╭──────────────╮           ╭──────
///        │           ╭───╯              │       ╭───╯
///        │      ╭────╯                  │  ╭────╯
///  stable│──────╯                       │──╯         after a short rest
///  / cold┤                              │            it is half warm
///        └──────┬───────────────────────┴───────────────────▶ time
///               ╰ warm-up ╯              idle
/// ```
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use std::time::Duration;
///
/// // 2 per second, ramping up over 4 seconds from a third of that.
/// let limiter = WarmUp::builder("2/s".parse()?)
///     .warm_up(Duration::from_secs(4))
///     .clock(&ManualClock::new()) // a real program leaves the clock out
///     .build()?;
/// let starts = [0; 6].map(|_| limiter.reserve().unwrap().at().as_nanos() / 1_000_000);
/// assert_eq!(starts, [0, 1375, 2500, 3375, 4000, 4500]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What it promises
///
/// - **Never over** (contract C1). Of the grants in any interval \[s, e\] of limiter time, all but the last cost,
///   together, at most e − s. What a grant costs is the integral that Guava's `SmoothWarmingUp` defines, drawn
///   [below](#the-curve), never less.
/// - **The next caller pays.** A grant does not wait for its own cost: it goes at once if what came before is
///   paid, and its cost delays the next one. So a large `n` after a rest goes at once, and up to the quota's burst
///   may.
/// - **Nothing wasted** (C2). A refusal means that the last grant is not paid yet.
/// - **Exact** (C8). The stable rate is a fraction and never drifts. See [precision](#precision).
/// - **Any clock** (C4). A `now` that is older than one before it sees no less debt, and stores nothing.
/// - **Honest waits** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond. While others wait in
///   [line](Self::line), it is short of that by what is rounded up for each of them.
///
/// # The curve
///
/// Idle time is stored, and stored permits cost more, the more there are:
///
/// ```text
///  cost of a permit
///   cold ┤                     ╱   cold = cold factor × stable
///        │                  ╱  ┆
///        │               ╱     ┆   area under the slope: the warm-up
///  stable┤────────────╱        ┆
///        │     area  ┆         ┆   after a rest of one warm-up, the store is full again
///        │     warm-up/2       ┆
///        └───────────┴─────────┴─▶ stored permits
///        0        threshold   full
/// ```
///
/// A limiter starts full, which is cold. With a cold factor of 1, or no warm-up, every permit costs the stable
/// interval.
///
/// # Choosing it
///
/// One that is polled at intervals that do not fit its costs cools a little after each grant and may not get to
/// the stable rate: 10 per second with a warm-up of 500 ms, asked every 120 ms, admits every third time and stays
/// cold. [`reserve`](Self::reserve), which leaves no pause, warms it up. Use [`TokenBucket`](crate::TokenBucket)
/// where a rest should be rewarded and not made up for.
///
/// # Amounts
///
/// `n` counts units, which are tokens unless the quota divides them ([`Quota::units_per_token`]). `n` = 0 succeeds
/// and changes nothing. The quota's burst, by default its count, bounds only how many units one request may take:
/// more are refused with [`Denied::is_never`]. It lets nobody through earlier.
///
/// # Precision
///
/// The next free time is kept in ticks of which a nanosecond and a unit are both whole numbers. The cost of units
/// above the threshold is rounded up, once for each grant, by less than a tick, which is at most 1 ns. What is
/// stored is exact for most quotas, and otherwise rounded up by less than 1/1024 of a unit for each grant;
/// warm-ups for which that would not do are refused. Both make a grant cost more, never less, than the integral from
/// what is stored. As being late leaves less time to cool in, over a history the next free time is within 2 × cold
/// factor ticks for each grant of what exact arithmetic gives, on either side.
///
/// # Memory ordering
///
/// None is promised: an admission does not make one thread's writes visible to another.
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap, and takes no lock and no memory; a grant above
/// the threshold divides once. [`is_lock_free`](Self::is_lock_free) tells whether the target has that instruction.
///
/// # Source
///
/// Guava's `RateLimiter.create(permitsPerSecond, warmupPeriod)`. What differs: any cold factor, no microseconds
/// that costs are cut to, no division of zero by zero when the warm-up is 0 or tiny, a bound on `n`, and a way to
/// [cancel](Reservation::cancel) and [`refund`](Self::refund).
pub struct WarmUp {
    cell: Cell<Parameters, WORDS>,
    clock: Clock,
    /// The latest time that a caller has supplied; nothing is taken back as if it were before it.
    newest_ns: AtomicU64,
    /// The latest time that a reservation has been told to wait for. Raised before it is made.
    last_told_ns: AtomicU64,
    settings: Lock<Settings>,
    /// Nothing that a decision by `try_acquire` or `reserve` looks at.
    last_turn: Lock<Option<Turn>>,
    room: Room,
}

/// What is in force, for those who change it.
#[derive(Debug)]
struct Settings {
    quota: Quota,
    warm_up: Duration,
    cold_factor: u32,
    /// When everything that was taken at an earlier rate has been paid: none of that is refunded.
    earlier_rates_until_ns: u64,
}

impl WarmUp {
    /// A cold limiter on [`Clock::system`], with a cold factor of 3.
    ///
    /// ```
    /// # use flowgate::WarmUp;
    /// # use std::time::Duration;
    /// let limiter = WarmUp::new("100/s".parse()?, Duration::from_secs(10))?;
    /// assert!(limiter.try_acquire().is_ok());
    /// assert!(limiter.try_acquire().is_err()); // until 30 ms later
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`WarmUpBuilder::build`].
    #[cfg(feature = "std")]
    pub fn new(quota: Quota, warm_up: Duration) -> Result<Self, QuotaError> {
        Self::builder(quota).warm_up(warm_up).build()
    }

    /// A limiter with another clock or cold factor.
    pub fn builder(quota: Quota) -> WarmUpBuilder {
        WarmUpBuilder::new(quota)
    }

    /// Takes one token, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the grants before are not paid yet; nothing is then taken.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Takes `n` units, all or none. They go at once if the grants before are paid, and the next caller pays for them.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// # use std::time::Duration;
    /// let limiter = WarmUp::builder("5/s burst 1000".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(1000)?;
    /// let denied = limiter.try_acquire().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(200)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the grants before are not paid yet; [`is_never`](Denied::is_never) if `n` is above the
    /// quota's burst. Nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Takes one token now, to be used when [`Reservation::at`] says.
    ///
    /// # Errors
    ///
    /// As [`reserve_n`](Self::reserve_n).
    pub fn reserve(&self) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve()
    }

    /// Takes `n` units now, to be used when [`Reservation::at`] says: when the grants before are paid. Later
    /// callers come after it, and pay for it.
    ///
    /// The grants before are paid at an exact instant, which may lie between two nanoseconds; the next reservation is
    /// counted from that, so that a line of them never drifts, while the time told is rounded up. Intervals that
    /// begin at a time told can so hold what costs that fraction of a nanosecond more.
    ///
    /// [`cancel`](Reservation::cancel) undoes it wholly if nothing has been granted since, and the quota has
    /// not been changed nor anything refunded; otherwise nothing comes back.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// let limiter = WarmUp::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
    /// assert_eq!(limiter.reserve_n(4)?.at().as_nanos(), 0);
    /// let second = limiter.reserve_n(2)?;
    /// assert_eq!(second.at().as_nanos(), 400_000_000);
    /// assert_eq!(second.cancel(), 2);
    /// assert_eq!(limiter.reserve()?.at().as_nanos(), 400_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied::is_never`] if `n` is above the quota's burst, or if its turn would come after
    /// [`Timestamp::MAX`]; nothing is then taken.
    pub fn reserve_n(&self, n: u64) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n(n)
    }

    /// [`reserve`](Self::reserve), unless that would mean waiting for longer than `max_wait`.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// # use std::time::Duration;
    /// let limiter = WarmUp::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(5)?; // paid for in 500 ms
    /// assert!(limiter.reserve_within(Duration::from_millis(499)).is_err());
    /// assert!(limiter.reserve_within(Duration::from_millis(500)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reserve_n_within`](Self::reserve_n_within).
    pub fn reserve_within(&self, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_within(max_wait)
    }

    /// [`reserve_n`](Self::reserve_n), unless that would mean waiting for longer than `max_wait`.
    ///
    /// # Errors
    ///
    /// As [`reserve_n`](Self::reserve_n), and [`Denied`] if the wait would be longer, with the time after which the
    /// same call would succeed. Nothing is then taken.
    pub fn reserve_n_within(&self, n: u64, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n_within(n, max_wait)
    }

    /// Takes up to `n` units and says how many: none while the grants before are not paid, otherwise as many as go at
    /// once, which is up to the quota's burst.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// let limiter = WarmUp::builder("5/s burst 8".parse()?).clock(ManualClock::new()).build()?;
    /// assert_eq!([limiter.take_up_to(100), limiter.take_up_to(100)], [8, 0]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.at_now().take_up_to(n)
    }

    /// Gives back `n` units that were taken and not used, and says how many came back.
    ///
    /// They count as never taken, and so does nobody else's: of the grant that is being paid, the last `n` units.
    /// They come back as far as their cost lies ahead, with the cold that they took out. Nothing comes back while a
    /// reservation waits for its time, nor, if it was cancelled, before that time has passed; of what was taken
    /// before a change of quota; or, with a warm-up, when the store is empty, as it then is not known how cold they
    /// found it.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// # use std::time::Duration;
    /// let limiter = WarmUp::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(8)?;
    /// assert_eq!(limiter.refund(3), 3);
    /// let denied = limiter.try_acquire().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64) -> u64 {
        self.refund_at(n, || self.clock.latest().as_nanos())
    }

    /// How many units would go at once: none while the grants before are not paid or others wait in line, otherwise the
    /// quota's burst.
    ///
    /// It is not how much is stored: stored units do not bound what goes, they make it cost more.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// The most at once, what of it would go now, and when the grants before are paid, seen at one instant.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// # use std::time::Duration;
    /// let limiter = WarmUp::builder("5/s burst 8".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(2)?;
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining, limiter.available()), (8, 0, 0));
    /// assert_eq!(seen.reset_after, Duration::from_millis(400));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.settings.lock().quota
    }

    /// Puts another quota in force, with the same warm-up and cold factor.
    ///
    /// As in Guava, the limiter stays as cold as it was, that is, as full by the part of its store; and what was
    /// taken is paid at the rate at which it was taken: the next caller waits no less and no more than it would
    /// have.
    ///
    /// Threads that decide meanwhile decide wholly by the old quota or wholly by the new one. Times that
    /// reservations were told do not move.
    ///
    /// ```
    /// # use flowgate::{ManualClock, WarmUp};
    /// let limiter = WarmUp::builder("2/s".parse()?).clock(ManualClock::new()).build()?;
    /// let at_ms = || limiter.reserve().map(|reserved| reserved.at().as_nanos() / 1_000_000);
    /// assert_eq!((at_ms()?, at_ms()?), (0, 500));
    /// limiter.set_quota("10/s".parse()?)?;
    /// assert_eq!((at_ms()?, at_ms()?), (1000, 1100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the warm-up cannot be kept at this rate; nothing is then changed.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        let mut settings = self.settings.lock();
        let new = Parameters::new(&quota, settings.warm_up, settings.cold_factor)?;
        settings.earlier_rates_until_ns = self.cell.reconfigure(|old, word| {
            let state = new.restated(old, old.unpack(word));
            let paid_ns = u64::try_from(new.ns(state.next_free)).unwrap_or(u64::MAX);
            let (mut new, word) = new.rebased(state);
            new.epoch = old.epoch + 1;
            (new, word, paid_ns)
        });
        settings.quota = quota;
        drop(settings);
        Ok(())
    }

    /// The same verbs at a time of your own.
    ///
    /// For simulations, for several decisions at one instant, and for callers that have read the clock
    /// already. Use one kind of time with one limiter, the clock's or yours.
    pub fn at(&self, now: Timestamp) -> At<'_, WarmUp> {
        self.newest_ns.fetch_max(now.as_nanos(), Ordering::AcqRel);
        At::new(self, now.as_nanos())
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether decisions take no lock on this machine; `false` where the processor has no 128-bit
    /// compare-and-swap.
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    #[inline]
    fn at_now(&self) -> At<'_, WarmUp> {
        At::new(self, self.clock.now().as_nanos())
    }

    /// The decision, with what moves the base left to `take_slowly`.
    #[inline(always)]
    fn take(&self, now_ns: u64, units: impl Fn(&Parameters) -> u64) -> Result<(), Denied> {
        let decided = self.cell.decide(|parameters, word| {
            let state = parameters.unpack(word);
            let taken = parameters.take(state, now_ns, units(parameters));
            match taken {
                // A state that the word has no room for is for `take_slowly`, and so is none.
                Ok(Some(state)) => parameters.pack(state).ok_or(None),
                Ok(None) => Err(None),
                Err(denied) => Err(Some(denied)),
            }
        });
        match decided {
            Ok(()) => Ok(()),
            Err(Some(denied)) => Err(denied),
            Err(None) => self.take_slowly(now_ns, units),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_slowly(&self, now_ns: u64, units: impl Fn(&Parameters) -> u64) -> Result<(), Denied> {
        self.update(
            |parameters, state| match parameters.take(state, now_ns, units(parameters)) {
                Ok(state) => (state, Ok(())),
                Err(denied) => (None, Err(denied)),
            },
        )
    }

    /// Puts the state that `step` names in place, if any, wherever its base has to be, and tells what it tells.
    /// It may run several times.
    fn update<R>(&self, step: impl Fn(&Parameters, State) -> (Option<State>, R)) -> R {
        let in_place =
            self.cell.update(
                |parameters, word| match step(parameters, parameters.unpack(word)) {
                    (None, told) => Step::Stay(Some(told)),
                    (Some(state), told) => match parameters.pack(state) {
                        Some(word) => Step::Move(word, Some(told)),
                        None => Step::Stay(None),
                    },
                },
            );
        in_place.unwrap_or_else(|| {
            self.cell.reconfigure(|parameters, word| {
                let state = parameters.unpack(word);
                let (moved, told) = step(parameters, state);
                let (rebased, word) = parameters.rebased(moved.unwrap_or(state));
                (rebased, word, told)
            })
        })
    }
}

waits_in_line!(WarmUp, |limiter| limiter);
limiter_by_its_verbs!(WarmUp as WarmUp, reserve_n;
    policy: |bucket| Policy::new(bucket.quota(), false), refund: WarmUp::refund,
    charge: WarmUp::take_up_to);

impl Revoke for WarmUp {
    fn revoke(&self, booking: &Booking, _: Option<Timestamp>) -> u64 {
        let all = booking.units;
        self.undo(&booking.receipt, all, all)
    }
}

impl fmt::Debug for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmUp")
            .field("quota", &self.quota())
            .field("available", &self.available())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
