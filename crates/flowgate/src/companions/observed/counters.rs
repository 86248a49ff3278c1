//! The counters, in stripes.

use super::histogram::Histogram;
use super::{ObservedCounts, Refusals, Waits};
use crate::clock::saturating_nanos;
use crate::primitive::thread_number::thread_number;
use crate::primitive::{AtomicU64, Lazy, Ordering, const_unless_loom};
use crate::verdict::Denied;
use alloc::boxed::Box;
use core::time::Duration;

/// A power of two. Threads that share a stripe slow each other down by less than the limiter's state does, which all threads
/// share.
#[cfg(all(feature = "std", not(flowgate_loom)))]
const STRIPES: usize = 16;
/// Nothing distinguishes the threads.
#[cfg(not(all(feature = "std", not(flowgate_loom))))]
const STRIPES: usize = 1;

/// Decisions counted so far.
#[derive(Debug)]
pub struct Counters {
    stripes: [Stripe; STRIPES],
    /// Waits that took time. They come one at a time, from a queue with a lock, so all threads share one histogram.
    histogram: Lazy<Box<Histogram>>,
}

/// Decisions that some of the threads received. Two cache lines, because they are fetched in pairs.
///
/// Every counter wraps around after 2⁶⁴.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    /// Operations of at least one unit.
    admitted: AtomicU64,
    /// Their units, less one unit for each operation.
    more_units: AtomicU64,
    /// Operations of no unit.
    empty: AtomicU64,
    /// Waits, among the admitted, that were over immediately.
    at_once: AtomicU64,
    /// Waits, among the admitted, that took time.
    waited: AtomicU64,
    over_limit: AtomicU64,
    busy: AtomicU64,
    never: AtomicU64,
    queue_full: AtomicU64,
    shed: AtomicU64,
    closed: AtomicU64,
    deadline: AtomicU64,
    cancelled: AtomicU64,
    abandoned: AtomicU64,
    table_full: AtomicU64,
    /// Waits that began less waits that ended, if no queue counts them. The value of a single stripe means nothing: a wait ends
    /// in the stripe of any thread.
    waiting: AtomicU64,
}

impl Counters {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self {
                #[cfg(all(feature = "std", not(flowgate_loom)))]
                stripes: [const { Stripe::new() }; STRIPES],
                #[cfg(not(all(feature = "std", not(flowgate_loom))))]
                stripes: [Stripe::new()],
                histogram: Lazy::new(),
            }
        }
    }

    #[inline]
    pub(super) fn admitted(&self, units: u64) {
        self.own().admitted(units);
    }

    /// Counts a refusal by a method that does not wait.
    #[inline]
    pub(super) fn refused(&self, denied: &Denied) {
        let stripe = self.own();
        add(stripe.refused(denied, &stripe.over_limit, &stripe.busy), 1);
    }

    /// Counts a wait that was granted.
    pub(super) fn waited(&self, units: u64, wait: Duration) {
        let stripe = self.own();
        stripe.admitted(units);
        // As much as a clock can count.
        match saturating_nanos(wait) {
            0 => add(&stripe.at_once, 1),
            wait_ns => {
                add(&stripe.waited, 1);
                let histogram = self.histogram.get_or_make(Histogram::new);
                histogram.record(wait_ns);
            }
        }
    }

    /// Counts a wait that was refused. A wait that would otherwise have gone on is refused only because of its deadline.
    pub(super) fn refused_in_line(&self, denied: &Denied) {
        let stripe = self.own();
        add(
            stripe.refused(denied, &stripe.deadline, &stripe.deadline),
            1,
        );
    }

    /// Counts a wait that was dropped before it was ready.
    pub(super) fn abandoned(&self) {
        add(&self.own().abandoned, 1);
    }

    /// Counts a wait that begins and that no queue counts.
    pub(super) fn begins_to_wait(&self) {
        add(&self.own().waiting, 1);
    }

    /// Counts the end of such a wait.
    pub(super) fn ends_to_wait(&self) {
        self.own().waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the waits that have begun and not ended, and that no queue counts.
    pub(super) fn waiting(&self) -> u64 {
        // Read one after the other, more may have been seen to end than to begin.
        let waiting = self.sum(|stripe| &stripe.waiting);
        waiting.cast_signed().max(0).cast_unsigned()
    }

    pub(super) fn counts(&self, waiting: u64) -> ObservedCounts {
        let ops = self.sum(|stripe| &stripe.admitted);
        ObservedCounts {
            admitted: ops.wrapping_add(self.sum(|stripe| &stripe.empty)),
            units: ops.wrapping_add(self.sum(|stripe| &stripe.more_units)),
            waited: self.sum(|stripe| &stripe.waited),
            refused: Refusals {
                over_limit: self.sum(|stripe| &stripe.over_limit),
                busy: self.sum(|stripe| &stripe.busy),
                never: self.sum(|stripe| &stripe.never),
                queue_full: self.sum(|stripe| &stripe.queue_full),
                shed: self.sum(|stripe| &stripe.shed),
                closed: self.sum(|stripe| &stripe.closed),
                deadline: self.sum(|stripe| &stripe.deadline),
                cancelled: self.sum(|stripe| &stripe.cancelled),
                table_full: self.sum(|stripe| &stripe.table_full),
            },
            abandoned: self.sum(|stripe| &stripe.abandoned),
            waiting,
        }
    }

    pub(super) fn waits(&self) -> Waits {
        let at_once = self.sum(|stripe| &stripe.at_once);
        Waits::of(self.histogram.get_or_make(Histogram::new), at_once)
    }

    fn sum(&self, counter: impl Fn(&Stripe) -> &AtomicU64) -> u64 {
        let counters = self.stripes.iter().map(counter);
        counters.fold(0, |sum, counter| {
            sum.wrapping_add(counter.load(Ordering::Relaxed))
        })
    }

    /// Returns the stripe of this thread.
    #[inline]
    fn own(&self) -> &Stripe {
        &self.stripes[thread_number() & (STRIPES - 1)]
    }
}

impl Stripe {
    const_unless_loom! {
        const fn new() -> Self {
            Self {
                admitted: AtomicU64::new(0),
                more_units: AtomicU64::new(0),
                empty: AtomicU64::new(0),
                at_once: AtomicU64::new(0),
                waited: AtomicU64::new(0),
                over_limit: AtomicU64::new(0),
                busy: AtomicU64::new(0),
                never: AtomicU64::new(0),
                queue_full: AtomicU64::new(0),
                shed: AtomicU64::new(0),
                closed: AtomicU64::new(0),
                deadline: AtomicU64::new(0),
                cancelled: AtomicU64::new(0),
                abandoned: AtomicU64::new(0),
                table_full: AtomicU64::new(0),
                waiting: AtomicU64::new(0),
            }
        }
    }

    #[inline]
    fn admitted(&self, units: u64) {
        match units {
            0 => add(&self.empty, 1),
            1 => add(&self.admitted, 1),
            _ => {
                add(&self.admitted, 1);
                add(&self.more_units, units - 1);
            }
        }
    }

    /// Returns the counter of this refusal: `later` if it was a matter of time, `busy` if the permits of other callers were the
    /// reason.
    #[inline]
    fn refused<'a>(
        &'a self,
        denied: &Denied,
        later: &'a AtomicU64,
        busy: &'a AtomicU64,
    ) -> &'a AtomicU64 {
        if denied.is_never() {
            &self.never
        } else if denied.is_busy() {
            busy
        } else if denied.is_queue_full() {
            &self.queue_full
        } else if denied.is_shed() {
            &self.shed
        } else if denied.is_closed() {
            &self.closed
        } else if denied.is_cancelled() {
            &self.cancelled
        } else if denied.is_table_full() {
            &self.table_full
        } else {
            later
        }
    }
}

/// No order is needed: nothing is concluded from one counter about another.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

const _: () = assert!(cfg!(flowgate_loom) || cfg!(flowgate_shuttle) || size_of::<Stripe>() == 128);
