//! The gate, seen from its queue: all of its limits at once.

use super::{Gate, Member, Taking};
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::queue::{Queue, Supply};
use crate::verdict::Denied;
use core::time::Duration;

impl Supply for Gate {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.drain(at, n, n.into(), &mut [])
    }

    fn drain(
        &self,
        at: Timestamp,
        n: u64,
        level: u128,
        receipts: &mut [Receipt],
    ) -> Result<(), Denied> {
        let mut taking = self.taking.lock();
        self.ask_all(longest, n, |supply, units| supply.peek(at, units))?;
        self.take_from_all(&mut taking, at, n, level)?;
        for (receipt, taken) in receipts.iter_mut().zip(&taking.receipts) {
            *receipt = *taken;
        }
        Ok(())
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let _taking = self.taking.lock();
        self.ask_all(longest, n, |supply, units| supply.peek(at, units))
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        let _change = self.queue.change(self);
        give_back(&self.members, at, n, receipts);
    }

    fn receipts(&self) -> usize {
        self.members.iter().map(Member::receipts).sum()
    }

    fn end(&self, n: u64) {
        let _change = self.queue.change(self);
        for member in &self.members {
            member.limit.supply().0.end(member.units(n));
        }
    }

    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.ask_all(longest, n, |supply, units| {
            let ahead = ahead.saturating_mul(supply.token().into());
            supply.delay(at, ahead, units)
        })
    }

    fn behind(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.ask_all(hardest, n, |supply, units| {
            let ahead = ahead.saturating_mul(supply.token().into());
            supply.behind(at, ahead, units)
        })
    }
}

impl Gate {
    /// Takes from all, which have been asked.
    pub(super) fn take_from_all(
        &self,
        taking: &mut Taking,
        at: Timestamp,
        n: u64,
        level: u128,
    ) -> Result<(), Denied> {
        let mut begin = 0;
        for (index, member) in self.members.iter().enumerate() {
            let supply = member.limit.supply().0;
            let level = level.saturating_mul(supply.token().into());
            let end = begin + member.receipts();
            let own = &mut taking.receipts[begin..end];
            if let Err(denied) = supply.drain(at, member.units(n), level, own) {
                // Nobody else can take from a limit of ours, unless `inspect` or `configure` was used for it.
                give_back(&self.members[..index], at, n, &taking.receipts);
                return Err(denied.by_limit(index));
            }
            begin = end;
        }
        taking.latest_ns = at.as_nanos().max(taking.latest_ns);
        Ok(())
    }

    /// Asks all of its limits for what `n` operations take; of several refusals, the one that `rank` puts highest.
    pub(super) fn ask_all<R: Ord>(
        &self,
        rank: impl Fn(&Denied) -> R,
        n: u64,
        ask: impl Fn(&dyn Supply, u64) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        let mut refusal: Option<Denied> = None;
        for (index, member) in self.members.iter().enumerate() {
            let supply = member.limit.supply().0;
            let token = supply.token();
            let answer = match n.checked_mul(token) {
                Some(units) => ask(supply, units),
                // More units than there are numbers for: as many as there are.
                None => match ask(supply, u64::MAX) {
                    Err(denied) if denied.is_never() => Err(denied),
                    _ => Err(Denied::never(u64::MAX, u64::MAX)),
                },
            };
            let Err(denied) = answer else {
                continue;
            };
            if refusal.is_none_or(|refusal| rank(&denied) > rank(&refusal)) {
                refusal = Some(denied.of_tokens(n, token).by_limit(index));
            }
        }
        refusal.map_or(Ok(()), Err)
    }
}

impl Member {
    /// How many units `n` operations are.
    fn units(&self, n: u64) -> u64 {
        n.saturating_mul(self.limit.supply().0.token())
    }

    /// How many receipts it gives for each grant.
    fn receipts(&self) -> usize {
        self.limit.supply().0.receipts()
    }
}

/// Gives back to `members` what they granted at `at`; the receipts are theirs, in order, and perhaps those of others.
fn give_back(members: &[Member], at: Timestamp, n: u64, receipts: &[Receipt]) {
    let mut rest = receipts;
    for member in members {
        let (own, others) = rest.split_at(member.receipts().min(rest.len()));
        member.limit.supply().0.take_back(at, member.units(n), own);
        rest = others;
    }
}

/// For whoever is told: never, or nobody knows when, or the longest wait.
pub(super) fn hardest(denied: &Denied) -> (bool, bool, Option<Duration>) {
    let wait = denied.retry_after();
    (denied.is_never(), wait.is_none(), wait)
}

/// For who has to wait anyway, what is certain: never, or the longest wait that is known, which what is not known can
/// only make longer.
fn longest(denied: &Denied) -> (bool, Option<Duration>) {
    (denied.is_never(), denied.retry_after())
}
