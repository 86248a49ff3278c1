//! The gate, seen from its line: all of its limits at once.

use super::Gate;
use crate::clock::{Clock, Timestamp};
use crate::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

impl Supply for Gate {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let _deciding = self.deciding.lock();
        self.ask_all(|supply, units| supply.peek(at, units), n)?;
        for (index, member) in self.members.iter().enumerate() {
            let supply = member.limit.supply();
            let Err(denied) = supply.grant(at, n.saturating_mul(supply.token())) else {
                continue;
            };
            // Nobody else can take from a limit of ours, unless `configure` was used for it.
            for member in &self.members[..index] {
                let supply = member.limit.supply();
                supply.take_back(at, n.saturating_mul(supply.token()), &Receipt::default());
            }
            return Err(denied.by_limit(index));
        }
        Ok(())
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let _deciding = self.deciding.lock();
        self.ask_all(|supply, units| supply.peek(at, units), n)
    }

    fn take_back(&self, at: Timestamp, n: u64, _: &Receipt) {
        for member in &self.members {
            let supply = member.limit.supply();
            supply.take_back(at, n.saturating_mul(supply.token()), &Receipt::default());
        }
        self.room.changed(self);
    }

    fn end(&self, n: u64) {
        for member in &self.members {
            let supply = member.limit.supply();
            supply.end(n.saturating_mul(supply.token()));
        }
        self.room.changed(self);
    }

    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.ask_all(
            |supply, units| {
                let ahead = ahead.saturating_mul(supply.token().into());
                supply.delay(at, ahead, units)
            },
            n,
        )
    }
}

impl Gate {
    /// What the hardest of its limits answers.
    fn ask_all(
        &self,
        ask: impl Fn(&dyn Supply, u64) -> Result<(), Denied>,
        n: u64,
    ) -> Result<(), Denied> {
        let mut hardest: Option<Denied> = None;
        for (index, member) in self.members.iter().enumerate() {
            let supply = member.limit.supply();
            let Err(denied) = ask(supply, n.saturating_mul(supply.token())) else {
                continue;
            };
            if hardest.is_none_or(|hardest| hardness(&denied) > hardness(&hardest)) {
                hardest = Some(denied.by_limit(index));
            }
        }
        hardest.map_or(Ok(()), Err)
    }
}

/// Never, not known, or how long.
fn hardness(denied: &Denied) -> (u8, core::time::Duration) {
    match denied.retry_after() {
        Some(wait) => (0, wait),
        None if denied.is_busy() => (1, core::time::Duration::MAX),
        None => (2, core::time::Duration::MAX),
    }
}
