//! The gate, seen from its line: all of its limits at once.

use super::{Gate, Member};
use crate::clock::{Clock, Timestamp};
use crate::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;
use core::time::Duration;

impl Supply for Gate {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        self.drain(at, n, n.into()).map(|_| ())
    }

    fn drain(&self, at: Timestamp, n: u64, level: u128) -> Result<Option<Receipt>, Denied> {
        let mut latest_ns = self.latest_ns.lock();
        self.ask_all(longest, n, |supply, units| supply.peek(at, units))?;
        self.take_from_all(&mut latest_ns, at, n, level)
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let _latest_ns = self.latest_ns.lock();
        self.ask_all(longest, n, |supply, units| supply.peek(at, units))
    }

    fn take_back(&self, at: Timestamp, n: u64, receipt: &Receipt) {
        let _change = self.room.change(self);
        for (index, member) in self.members.iter().enumerate() {
            self.take_back_from(member, index, at, n, receipt);
        }
    }

    fn end(&self, n: u64) {
        let _change = self.room.change(self);
        for member in &self.members {
            let supply = member.limit.supply();
            supply.end(n.saturating_mul(supply.token()));
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
    /// Takes from all, which have been asked; the receipt is that of the one whose receipts are kept.
    pub(super) fn take_from_all(
        &self,
        latest_ns: &mut u64,
        at: Timestamp,
        n: u64,
        level: u128,
    ) -> Result<Option<Receipt>, Denied> {
        let mut receipt = None;
        for (index, member) in self.members.iter().enumerate() {
            let supply = member.limit.supply();
            let level = level.saturating_mul(supply.token().into());
            match supply.drain(at, n.saturating_mul(supply.token()), level) {
                Ok(own) if self.receipts_of == Some(index) => receipt = own,
                Ok(_) => {}
                Err(denied) => {
                    // Nobody else can take from a limit of ours, unless `inspect` or `configure` was used for it.
                    for (index, member) in self.members[..index].iter().enumerate() {
                        self.take_back_from(member, index, at, n, &receipt.unwrap_or_default());
                    }
                    return Err(denied.by_limit(index));
                }
            }
        }
        *latest_ns = at.as_nanos().max(*latest_ns);
        Ok(receipt)
    }

    fn take_back_from(
        &self,
        member: &Member,
        index: usize,
        at: Timestamp,
        n: u64,
        receipt: &Receipt,
    ) {
        let supply = member.limit.supply();
        let receipt = match self.receipts_of {
            Some(kept) if kept == index => *receipt,
            _ => Receipt::default(),
        };
        supply.take_back(at, n.saturating_mul(supply.token()), &receipt);
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
            let supply = member.limit.supply();
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
