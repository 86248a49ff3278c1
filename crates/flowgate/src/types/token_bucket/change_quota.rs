//! Replacing the quota, or the way of refilling.

use super::Refill;
use super::bucket::{Bucket, Mode};
use super::carry::{Carry, restated};
use super::refund_log::{Ledger, RefundLog, seen};
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::store::word::Parameters;

impl<M: Mode> Bucket<M> {
    /// Replaces the quota by the result of `change` for the current one, as of `now_ns()`.
    pub(super) fn change_quota(
        &self,
        change: impl FnOnce(Quota) -> Result<Quota, QuotaError>,
        carry: Carry,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        self.change(|ledger| change(ledger.quota), carry, now_ns)
    }

    /// Replaces the way of refilling, as of `now_ns()`.
    pub(super) fn change_refill(&self, refill: Refill, now_ns: impl Fn() -> u64) {
        let change = |ledger: &mut Ledger| {
            ledger.refill = refill;
            Ok(ledger.quota)
        };
        // An infallible change.
        let _: Result<(), QuotaError> = self.change(change, Carry::Kept, now_ns);
    }

    /// Replaces the quota by the result of `change`, together with what `change` sets in the ledger, as of `now_ns()`.
    fn change(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<Quota, QuotaError>,
        carry: Carry,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let log = self.log();
        let mut ledger = log.ledger.lock();
        let quota = change(&mut ledger)?.with_default_burst(ledger.default_burst);
        let ((now_ns, last_told_ns), before, after) = self.word.reconfigure(|old, tat| {
            // Read after the state that is settled, so that it is not older than the decisions in it.
            let now_ns = self.settled_ns(now_ns(), old, tat);
            let mut new = ledger.parameters(&quota, now_ns);
            new.epoch = old.epoch + 1;
            new.since_ns = now_ns;
            // Before any thread can reserve in the new epoch.
            log.largest_told(new.epoch).store(0, Ordering::Release);
            if new.interval_ns == old.interval_ns {
                // The interval that has begun goes on.
                (new.grid_ns, new.credited_ns) = (old.grid_ns, old.credited_ns);
            }
            let mut new_tat = restated(old, &new, tat, now_ns, carry);
            // Reservations keep their times, and new requests come after the last of them. At that time, the bucket
            // holds what the change adds, and no more.
            let last_told_ns = seen(&log.last_told_ns);
            if now_ns < last_told_ns {
                let empty = new.latest_ticks(last_told_ns) + new.burst_ticks();
                let mut told = empty - carry.gift(old, &new);
                if M::PAYS_AFTER {
                    let paid = old.latest_ticks(last_told_ns) + old.burst_ticks();
                    let owed = new.tokens_up(old, tat.saturating_sub(paid));
                    told = Parameters::saturated(told.saturating_add(owed));
                }
                new_tat = new_tat.max(told);
            }
            new.layout = new.layout_for(now_ns, new_tat);
            (
                new,
                new_tat,
                ((now_ns, last_told_ns), (*old, tat), (new, new_tat)),
            )
        });
        log.restate_largest_told(&before.0, &after.0);
        let given_back = log.given_back.load(Ordering::Acquire);
        let is_comparable = matches!(carry, Carry::Kept | Carry::Additive);
        ledger.note_change(now_ns, before, after, given_back, is_comparable);
        if carry == Carry::Additive && now_ns < last_told_ns {
            // New requests can use the growth at the very time of the last reservation.
            let gift = carry.gift(&before.0, &after.0);
            ledger.leave_hole(now_ns, gift, last_told_ns);
        }
        ledger.quota = quota;
        drop(ledger);
        Ok(())
    }
}

impl RefundLog {
    /// Restates the largest reservation of the old epoch in the units of the new one. Threads that reserve in the meantime do
    /// so in the new epoch, or fail.
    fn restate_largest_told(&self, old: &Parameters, new: &Parameters) {
        let told = u128::from(seen(self.largest_told(old.epoch)));
        let told =
            (told * u128::from(new.units_per_token)).div_ceil(u128::from(old.units_per_token));
        let told = u64::try_from(told).unwrap_or(u64::MAX);
        self.largest_told(new.epoch)
            .fetch_max(told, Ordering::AcqRel);
    }
}
