//! Busy keys: they hold tokens in advance, as a leased limit does.
//!
//! ```text
//!            asked for 20 times within a second
//!   strict ────────────────────────────────────▶ leased
//!      ▲                                            │ fewer than 5 times, or another quota: what is held is lost
//!      ╰────────────────────────────────────────────┤
//!      ╰─────────── it is spent ◀── ending ◀────────╯ the store does not answer
//! ```
//!
//! A key has one call in flight, whichever of the two it is. No timer belongs to a key, and no task: the leaser looks when a request
//! comes. A busy key never waits long for one.

use crate::call::{Call, Reply};
use crate::leaser::{Leaser, Past};
use crate::overshoot::{Lender, Lending};
use crate::terms::Terms;
use flowgate::{Denied, Leased, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// A key that is asked for this many times within a second leases.
pub(crate) const BUSY: u32 = 20;
/// A key that is asked for fewer times within a second does not lease any more.
const COOL: u32 = 5;
const WITHIN: Duration = Duration::from_secs(1);
/// The demand of a key is measured over at least this time.
const MEASURED: Duration = Duration::from_millis(300);
/// More keys of a limit than this do not lease.
pub(crate) const MOST_LEASING: usize = 65_536;

/// How the keys of a limit lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leasing {
    pub(crate) lender: Lender,
    /// A key that is asked for this many times within a second leases.
    pub(crate) busy: u32,
    /// Makes processes differ in when they ask.
    pub(crate) seed: u64,
}

/// How often a key is asked for.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// Requests and their units since then.
    since: Timestamp,
    asked: u32,
    units: u64,
}

impl Heat {
    /// Counts a request. Returns whether the key has cooled down before it.
    pub(crate) fn note(&mut self, now: Timestamp, n: u64) -> bool {
        let is_over = now.saturating_duration_since(self.since) >= WITHIN;
        let has_cooled = is_over && (self.asked < COOL || self.is_idle(now));
        if is_over {
            (self.since, self.asked, self.units) = (now, 0, 0);
        }
        self.asked = self.asked.saturating_add(1);
        self.units = self.units.saturating_add(n);
        has_cooled
    }

    pub(crate) fn is_busy(&self, busy: u32) -> bool {
        self.asked >= busy
    }

    /// Returns whether no request has come lately.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        now.saturating_duration_since(self.since) >= 2 * WITHIN
    }

    fn units_per_second(&self, now: Timestamp) -> f64 {
        let passed = now.saturating_duration_since(self.since).max(MEASURED);
        self.units as f64 / passed.as_secs_f64()
    }
}

/// The keys of a limit that lease.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<AtomicUsize>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Places {
    /// Returns a place, unless `most` are taken.
    pub(crate) fn enter(&self, most: usize) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        // What is counted protects no other memory. If there are too many, the place is left when it is dropped.
        (self.0.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }

    pub(crate) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one key holds in advance.
#[derive(Debug)]
pub(crate) struct Lease {
    leased: Arc<Leased>,
    leaser: Leaser,
    /// Few units are left, or a request was refused.
    woken: Arc<Woken>,
    looks_at: Option<Timestamp>,
    /// It spends what it holds, and asks for no more.
    is_ending: bool,
    _place: Place,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Lease {
    /// Creates a lease without tokens. `leaser` makes what fills it, for a demand of this many units per second.
    pub(crate) fn new(
        heat: &Heat,
        now: Timestamp,
        place: Place,
        leased: Leased,
        leaser: impl FnOnce(&Arc<Leased>, f64) -> Leaser,
    ) -> Self {
        let leased = Arc::new(leased);
        Self {
            leaser: leaser(&leased, heat.units_per_second(now)),
            leased,
            woken: Arc::default(),
            looks_at: Some(Timestamp::ORIGIN),
            is_ending: false,
            _place: place,
        }
    }

    pub(crate) fn past(&self) -> Option<&Past> {
        (!self.is_ending).then(|| self.leaser.past())
    }

    pub(crate) fn past_mut(&mut self) -> Option<&mut Past> {
        (!self.is_ending).then(|| self.leaser.past_mut())
    }

    /// Returns what is known of the key. Without a store that answers, what is held is spent, and no more is asked for.
    pub(crate) fn end(&mut self) -> Past {
        self.is_ending = true;
        std::mem::take(self.leaser.past_mut())
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub(crate) fn is_of(&self, lending: &Arc<Lending>) -> bool {
        Arc::ptr_eq(self.leaser.lending(), lending)
    }

    /// Returns the terms of a strict call with the same quota.
    pub(crate) fn terms(&self) -> Terms {
        self.leaser.lending().terms
    }

    /// Returns the most units that a request can take. A larger one is decided by the store.
    pub(crate) fn most(&self) -> u64 {
        self.leaser.lending().most
    }

    pub(crate) fn held(&self) -> u64 {
        self.leased.filler().held().units
    }

    /// Takes `n` units of those that are held.
    pub(crate) fn take(&mut self, now: Timestamp, n: u64) -> Result<(), Denied> {
        if !self.is_ending && self.leaser.is_ripe(now) {
            self.leaser.release(&self.leased, now);
        }
        self.leased.try_acquire_n(n)
    }

    /// Returns `n` units that were taken, and not used.
    pub(crate) fn refund(&self, n: u64) {
        self.leased.refund(n);
    }

    /// Returns whether the leaser has something to ask, or to look at.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        !self.is_ending
            && (self.woken.0.load(Ordering::Relaxed) || self.looks_at.is_some_and(|at| at <= now))
    }

    /// Returns whether the store is known to have no more now.
    pub(crate) fn is_dry(&self, now: Timestamp) -> bool {
        self.leaser.is_dry(now)
    }

    /// Returns whether its call is in flight.
    pub(crate) fn is_asking(&self) -> bool {
        !self.is_ending && self.leaser.is_asking()
    }

    /// Returns the call to send now.
    pub(crate) fn call(&mut self, now: Timestamp) -> Option<Call> {
        self.leaser.call(now)
    }

    pub(crate) fn answer(&mut self, sent: Timestamp, now: Timestamp, reply: Reply) {
        self.leaser.answer(sent, now, Ok(reply));
    }

    /// Looks again when few units are left, or when it is time.
    pub(crate) fn rest(&mut self) {
        self.woken.0.store(false, Ordering::Relaxed);
        self.looks_at = self.leaser.wake_at();
        if let Some(low) = self.leaser.low() {
            let waker = Waker::from(Arc::clone(&self.woken));
            self.leased.filler().wake_below(low, &waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_busy_when_enough_requests_come_within_a_second_and_cools_down() {
        let mut heat = Heat::default();
        let at = |ms: u64| Timestamp::from_nanos(10_000_000_000 + ms * 1_000_000);
        // 19 in each second, however long.
        for second in 0..5 {
            for turn in 0..19 {
                assert!(!heat.note(at(1_000 * second + turn), 1) || second == 0);
                assert!(!heat.is_busy(BUSY));
            }
        }
        for turn in 0..20 {
            heat.note(at(6_000 + 49 * turn), 3);
        }
        assert!(heat.is_busy(BUSY));
        assert!((60.0..70.0).contains(&heat.units_per_second(at(6_931))));
        // Four in a second, and it is noticed with the next one.
        let cooled = (0..5).map(|turn| heat.note(at(7_000 + 250 * turn), 1));
        assert_eq!(cooled.filter(|cooled| *cooled).count(), 1);
        assert!(!heat.is_idle(at(9_999)) && heat.is_idle(at(10_000)));
        assert!(heat.note(at(10_000), 1), "nothing for two seconds");
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let places = Places::default();
        let taken: Vec<_> = (0..3).filter_map(|_| places.enter(2)).collect();
        assert_eq!((taken.len(), places.taken()), (2, 2));
        drop(taken);
        assert_eq!(places.taken(), 0);
        assert!(places.enter(1).is_some());
    }
}
