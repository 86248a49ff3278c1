//! Putting another quota in force.

use super::TokenBucket;
use super::carry::{Carry, restated};
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::word::Parameters;

impl TokenBucket {
    /// Puts the quota that `change` makes of the one in force in its place, settled at `now_ns()`.
    pub(super) fn change_quota(
        &self,
        change: impl FnOnce(Quota) -> Result<Quota, QuotaError>,
        carry: Carry,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        let mut ledger = self.ledger.lock();
        let quota = change(ledger.quota)?.with_default_burst(ledger.default_burst);
        let (now_ns, before, after) = self.word.reconfigure(|old, tat| {
            // Read after the state that is settled, so that it is not older than the decisions in it.
            let now_ns = self.settled_ns(now_ns(), old, tat);
            let mut new = ledger.parameters(&quota, now_ns);
            new.epoch = old.epoch + 1;
            new.since_ns = now_ns;
            // Before anybody can reserve in the new epoch.
            self.largest_told(new.epoch).store(0, Ordering::Release);
            if new.interval_ns == old.interval_ns {
                new.anchor_ns = old.anchor_ns;
            }
            let mut new_tat = restated(old, &new, tat, now_ns, carry);
            // Who was told a time keeps it, so nobody else comes before the last of them.
            let last_told_ns = Self::seen(&self.last_told_ns);
            if now_ns < last_told_ns {
                let burst = match carry {
                    Carry::Reset => 0,
                    Carry::Kept | Carry::Proportional => new.burst_ticks(),
                };
                let mut told = new.ticks_in(last_told_ns) + burst;
                if self.pays_after {
                    let paid = old.ticks_in(last_told_ns) + old.burst_ticks();
                    let owed = new.tokens_up(old, tat.saturating_sub(paid));
                    told = Parameters::saturated(told.saturating_add(owed));
                }
                new_tat = new_tat.max(told);
            }
            new.layout = new.layout_for(now_ns, new_tat);
            (new, new_tat, (now_ns, (*old, tat), (new, new_tat)))
        });
        self.restate_largest_told(&before.0, &after.0);
        let given_back = self.given_back.load(Ordering::Acquire);
        ledger.note_change(now_ns, before, after, given_back, carry == Carry::Kept);
        ledger.quota = quota;
        drop(ledger);
        Ok(())
    }

    /// Counts what reservations were told in the epoch that is over in the new one, in its units. Whoever reserves
    /// meanwhile does so in the new one, or fails.
    fn restate_largest_told(&self, old: &Parameters, new: &Parameters) {
        let told = u128::from(Self::seen(self.largest_told(old.epoch)));
        let told =
            (told * u128::from(new.units_per_token)).div_ceil(u128::from(old.units_per_token));
        let told = u64::try_from(told).unwrap_or(u64::MAX);
        self.largest_told(new.epoch)
            .fetch_max(told, Ordering::AcqRel);
    }
}
