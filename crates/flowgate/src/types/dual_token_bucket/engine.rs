//! Two token buckets as an engine.

use super::parameters::{Parameters, WORDS};
use crate::algorithm::dual_token_bucket::{self as algorithm, State};
use crate::clock::Clock;
use crate::limiter::builder::Build;
use crate::limiter::engine::{Amount, Capabilities, Engine, Refunds, Request, Reserves, Times};
use crate::limiter::reservation::{Booked, Booking};
use crate::limiter::{QuotaState, Snapshot};
use crate::primitive::{AtomicU64, Lock, Ordering, const_unless_loom};
use crate::queue::Receipt;
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError, Quotas};
use crate::store::cell::Cell;
use crate::store::cell::MovingBase as _;
use crate::verdict::{Verdict, duration_from_nanos};
use core::fmt;

/// Two token buckets that are decided together.
#[derive(Debug)]
pub struct Dual {
    pub(super) cell: Cell<Parameters, WORDS>,
    /// The latest time that a caller has supplied. Raised before the decision.
    newest_ns: AtomicU64,
    /// The latest start time of a reservation that has to wait. It is raised before the reservation is made.
    last_told_ns: AtomicU64,
    pub(super) quotas: Lock<Quotas>,
}

impl Dual {
    const_unless_loom! {
        /// Two full buckets.
        pub(super) const fn new(quotas: Quotas) -> Self {
            Self {
                // Full buckets have an arrival time of 0.
                cell: Cell::new(Parameters::new(&quotas).words(), 0),
                newest_ns: AtomicU64::new(0),
                last_told_ns: AtomicU64::new(0),
                quotas: Lock::new(quotas),
            }
        }
    }

    /// The time at which a change of `state` is computed at `now_ns`. It is no earlier than decisions at supplied times.
    ///
    /// Every grant leaves arrival times that are later than its own time. So nothing has been granted at a supplied time beyond
    /// both, and such a time does not count.
    fn settled_ns(&self, now_ns: u64, parameters: &Parameters, state: State) -> u64 {
        let now_ns = now_ns.max(parameters.since_ns);
        let newest_ns = self.newest_ns.load(Ordering::Acquire);
        if newest_ns <= now_ns {
            return now_ns;
        }
        let full_ns = algorithm::full_at_ns(&parameters.buckets, state);
        // At most the newest.
        now_ns.max(full_ns.min(newest_ns.into()) as u64)
    }

    /// Whether a reservation starts at or after `now_ns`. Then only an exact undo returns units: the reservation keeps its
    /// time, and it is not known what it leaves at that time.
    fn has_told(&self, now_ns: u64) -> bool {
        // Not a load: the cell moves without publishing what was written before. See `Bucket::seen`.
        let last_told_ns = self.last_told_ns.fetch_max(0, Ordering::AcqRel);
        last_told_ns >= now_ns && last_told_ns > 0
    }

    /// Replaces the quotas: each bucket keeps its tokens, up to its new burst.
    pub(super) fn replace_quotas(&self, quotas: Quotas, times: &dyn Times) {
        let mut current = self.quotas.lock();
        self.cell.reconfigure_state(|old, state| {
            // Read after the state that is settled, so that it is not older than the decisions in it.
            let now_ns = self.settled_ns(times.now_ns(), old, state);
            let new = Parameters::new(&quotas);
            let (old_scale, new_scale) = (old.units_per_token, new.units_per_token);
            let restated = algorithm::restated(
                (&old.buckets, old_scale),
                (&new.buckets, new_scale),
                state,
                now_ns,
            );
            let new = Parameters {
                since_ns: now_ns,
                epoch: old.epoch + 1,
                ..new
            };
            (new, restated, ())
        });
        *current = quotas;
    }

    /// Undoes the grant or reservation of `n` units that `receipt` describes. Returns how many came back in the bucket that got
    /// more.
    ///
    /// If nothing was taken since, the earlier state is restored. Otherwise each bucket gets back what it would have now,
    /// unless it may have been full in between. The receipts of other grants since are then worthless, so these grants cannot
    /// be undone anymore.
    fn undo(&self, receipt: &Receipt, n: u64, times: &dyn Times) -> u64 {
        if n == 0 {
            return 0;
        }
        self.cell.reconfigure_state(|parameters, state| {
            if parameters.epoch != receipt.epoch {
                return (*parameters, state, 0);
            }
            let (before, made_ns) = (states(receipt), receipt.told_before_ns);
            let (after, _) = algorithm::reserve(&parameters.buckets, before, made_ns, n);
            let after = parameters.stored(after);
            if state == after {
                return (*parameters, before, n);
            }
            let now_ns = self.settled_ns(times.latest_ns(), parameters, state);
            let (undone, back) = match self.has_told(now_ns) {
                true => (state, 0),
                false => algorithm::undo(&parameters.buckets, state, (before, after), now_ns, n),
            };
            (parameters.after_giving(back), undone, back)
        })
    }
}

/// The receipt of a grant: the arrival times before it, and the time of the request.
fn receipt(parameters: &Parameters, before: State, now_ns: u64) -> Receipt {
    Receipt {
        units_per_token: parameters.units_per_token,
        state: before.0[0],
        given_back: before.0[1],
        epoch: parameters.epoch,
        told_before_ns: now_ns,
    }
}

fn states(receipt: &Receipt) -> State {
    State([receipt.state, receipt.given_back])
}

impl Build for Dual {
    type Settings = Quotas;

    fn build(quotas: Quotas, _: &Clock) -> Result<Self, QuotaError> {
        Ok(Self::new(quotas))
    }
}

impl Engine for Dual {
    const NAME: &'static str = "DualTokenBucket";

    fn token(&self) -> u64 {
        self.cell.view().0.units_per_token
    }

    fn limit(&self) -> u64 {
        self.cell.view().0.limit()
    }

    #[inline(always)]
    fn supplied(&self, now_ns: u64, request: Request) {
        let is_possible = match request {
            Request::Any | Request::Token => true,
            Request::Units(n) | Request::Overdraft(n) => n <= self.limit(),
        };
        if is_possible {
            self.newest_ns.fetch_max(now_ns, Ordering::AcqRel);
        }
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        self.cell.update_state(|parameters, state| {
            let n = n.min(parameters.available(state, now_ns));
            match parameters.take(state, now_ns, n) {
                Ok(taken) => (taken, n),
                Err(_) => (None, 0),
            }
        })
    }

    #[inline(always)]
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        self.cell.take(now_ns, |parameters| {
            amount.units(|| parameters.units_per_token)
        })
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        let (parameters, state) = self.cell.view_state();
        let limit = parameters.limit();
        let reset_after = match parameters.take(state, now_ns, limit) {
            Ok(_) => duration_from_nanos(0),
            Err(denied) => denied.retry_after().unwrap_or_default(),
        };
        Snapshot {
            limit,
            remaining: parameters.available(state, now_ns),
            reset_after,
        }
    }

    fn policy(&self) -> Option<Policy> {
        let quota = self.quotas.lock().only().ok()?;
        Some(Policy::new(quota, true))
    }

    fn quota_states(&self, now_ns: u64) -> Option<[QuotaState; 2]> {
        // The lock is held, so that the state is not one of other quotas.
        let quotas = self.quotas.lock();
        let [first, second] = quotas.as_slice() else {
            return None;
        };
        let (parameters, state) = self.cell.view_state();
        let of = |index, quota: &Quota| parameters.quota_state(state, now_ns, index, *quota);
        Some([of(0, first), of(1, second)])
    }

    fn set_quotas(&self, quotas: Quotas, times: &dyn Times) -> Result<(), QuotaError> {
        self.replace_quotas(quotas, times);
        Ok(())
    }

    fn drain(&self, at_ns: u64, n: u64, _: u128, receipts: &mut [Receipt]) -> Verdict {
        let granted =
            self.cell
                .update_state(|parameters, state| match parameters.take(state, at_ns, n) {
                    Ok(taken) => (taken, Ok(receipt(parameters, state, at_ns))),
                    Err(denied) => (None, Err(denied)),
                })?;
        receipts.fill(granted);
        Ok(())
    }

    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        let (parameters, state) = self.cell.view_state();
        parameters.delay(state, at_ns, ahead, n)
    }

    fn take_back(&self, _: u64, n: u64, receipts: &[Receipt], times: &dyn Times) {
        // There is none for a grant to a caller that found no waiters, because that caller receives it immediately.
        if let Some(receipt) = receipts.first() {
            self.undo(receipt, n, times);
        }
    }

    fn receipts(&self) -> usize {
        1
    }

    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) {
        fields.field("quotas", &*self.quotas.lock());
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().reserves(self).refunds(self)
    }
}

impl Reserves for Dual {
    fn reserve(&self, now_ns: u64, n: Option<u64>, max_wait_ns: Option<u128>) -> Booked {
        self.cell.update_state(|parameters, state| {
            let n = n.unwrap_or(parameters.units_per_token);
            let booked = parameters.reserve(state, now_ns, n, max_wait_ns);
            let (reserved, at_ns) = match booked {
                Ok(booked) => booked,
                Err(denied) => return (None, Err(denied)),
            };
            if at_ns > now_ns {
                self.last_told_ns.fetch_max(at_ns, Ordering::AcqRel);
            }
            let booking = Booking {
                units: n,
                at_ns,
                receipt: receipt(parameters, state, now_ns.max(parameters.since_ns)),
            };
            (reserved, Ok(booking))
        })
    }

    fn revoke(&self, booking: &Booking, times: &dyn Times) -> u64 {
        self.undo(&booking.receipt, booking.units, times)
    }
}

impl Refunds for Dual {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        if n == 0 {
            return 0;
        }
        // No change of quotas comes in between.
        let quotas = self.quotas.lock();
        let back = self.cell.reconfigure_state(|parameters, state| {
            // Read after the state, so that it is not older than the grants in it.
            let now_ns = self.settled_ns(times.latest_ns(), parameters, state);
            let (state, back) = match self.has_told(now_ns) {
                true => (state, 0),
                false => algorithm::give_back(&parameters.buckets, state, now_ns, n),
            };
            (parameters.after_giving(back), state, back)
        });
        drop(quotas);
        back
    }
}
