//! The gate, as its queue sees it: all of its limits as one.

use super::{Gate, Member, Taking};
use crate::clock::{Clock, Timestamp};
use crate::limiter::sealed::{Identity, Plumbing, Sealed};
use crate::queue::{Asker, Facts, Grantee, Queue, Receipt, Supply, own_queue};
use crate::verdict::Denied;
use core::time::Duration;

/// A gate is a limit of another one.
impl Sealed for Gate {
    fn supply(&self) -> Plumbing<'_> {
        Plumbing(self)
    }

    fn each_limiter(&self, visit: &mut dyn FnMut(Identity)) {
        for member in &self.members {
            member.limit.each_limiter(visit);
        }
    }
}

impl Supply for Gate {
    own_queue!();

    fn facts(&self) -> Facts {
        Facts::timed(1, self.receipts)
    }

    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        // The next waiter must not see what has been taken from some of the limits and not yet from the others.
        let _taking = (asker.ahead() == 0).then(|| self.taking.lock());
        match asker {
            Asker::Waiter { .. } => self.ask_all(longest, at, n, asker),
            Asker::Caller { .. } => self.ask_all(hardest, at, n, asker),
        }
    }

    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        let (level, receipts) = match to {
            Grantee::Caller => (n.into(), &mut [][..]),
            Grantee::Waiter { level, receipts } => (level, receipts),
        };
        let mut taking = self.taking.lock();
        self.ask_all(longest, at, n, Asker::HEAD)?;
        self.take_from_all(&mut taking, at, n, level)?;
        for (receipt, taken) in receipts.iter_mut().zip(&taking.receipts) {
            *receipt = *taken;
        }
        Ok(())
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        let _change = self.queue.change(self);
        give_back(&self.members, at, n, receipts);
    }

    fn end(&self, n: u64) {
        let _change = self.queue.change(self);
        for member in &self.members {
            let units = n.saturating_mul(member.facts().token);
            member.supply().end(units);
        }
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
            let (supply, facts) = (member.supply(), member.facts());
            let end = begin + facts.receipts;
            let to = Grantee::Waiter {
                level: level.saturating_mul(facts.token.into()),
                receipts: &mut taking.receipts[begin..end],
            };
            if let Err(denied) = supply.grant(at, n.saturating_mul(facts.token), to) {
                // No other caller can take from a limit of ours, unless `inspect` or `configure` was used for it.
                give_back(&self.members[..index], at, n, &taking.receipts);
                return Err(denied.by_limit(index));
            }
            begin = end;
        }
        taking.latest_ns = at.as_nanos().max(taking.latest_ns);
        Ok(())
    }

    /// Asks all limits for what `n` operations take. Of several refusals, returns the one that `rank` puts highest.
    pub(super) fn ask_all<R: Ord>(
        &self,
        rank: impl Fn(&Denied) -> R,
        at: Timestamp,
        n: u64,
        asker: Asker,
    ) -> Result<(), Denied> {
        let mut refusal: Option<Denied> = None;
        for (index, member) in self.members.iter().enumerate() {
            let (supply, token) = (member.supply(), member.facts().token);
            let asker = asker.in_units(token);
            let answer = match n.checked_mul(token) {
                Some(units) => (supply.queue().stay_behind(supply, at, units))
                    .and_then(|()| supply.ask(at, units, asker)),
                // More units than a `u64` counts: ask for as many as it does.
                None => match supply.ask(at, u64::MAX, asker) {
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
    fn supply(&self) -> &dyn Supply {
        self.limit.supply().0
    }

    fn facts(&self) -> Facts {
        self.supply().facts()
    }
}

/// Gives back to `members` what they granted at `at`; the receipts are theirs, in order, and perhaps those of others.
fn give_back(members: &[Member], at: Timestamp, n: u64, receipts: &[Receipt]) {
    let mut rest = receipts;
    for member in members {
        let facts = member.facts();
        let (own, others) = rest.split_at(facts.receipts.min(rest.len()));
        (member.supply()).take_back(at, n.saturating_mul(facts.token), own);
        rest = others;
    }
}

/// Ranks the refusals for a caller that does not wait: never, then without a known time, then the longest wait.
pub(super) fn hardest(denied: &Denied) -> (bool, bool, Option<Duration>) {
    let wait = denied.retry_after();
    (denied.is_never(), wait.is_none(), wait)
}

/// Ranks the refusals for a waiter by what is certain: never, then the longest known wait. Limits without a known time can
/// only make the wait longer.
fn longest(denied: &Denied) -> (bool, Option<Duration>) {
    (denied.is_never(), denied.retry_after())
}
