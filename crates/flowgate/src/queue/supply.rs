use super::Queue;
use super::turn::Granted;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::verdict::Denied;

/// What a queue grants: a limiter, as its queue sees it.
pub trait Supply: Send + Sync {
    /// Where those wait who want some.
    fn queue(&self) -> &Queue;

    /// [`queue`](Self::queue), for a caller that is about to wait there.
    fn open_queue(&self) -> Result<&Queue, Denied> {
        Ok(self.queue())
    }

    /// The clock by which grants are dated.
    fn clock(&self) -> &Clock;

    /// How many units one token is.
    fn token(&self) -> u64 {
        1
    }

    /// Takes `n` units at `at` for the next in the queue. A refusal says exactly when that can be repeated, or that it is
    /// busy, or never.
    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied>;

    /// Takes `n` units at `now` for somebody who comes while nobody waits. It need not be dated after what others have
    /// taken, as `now` may have been read before they did.
    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.grant(now, n)
    }

    /// [`grant`](Self::grant) to the next of those in the queue, who ask for `level` units together.
    ///
    /// Writes into `receipts`, which are as many as [`receipts`](Self::receipts) or none, what
    /// [`take_back`](Self::take_back) gets.
    fn drain(
        &self,
        at: Timestamp,
        n: u64,
        level: u128,
        receipts: &mut [Receipt],
    ) -> Result<(), Denied> {
        let _ = (level, receipts);
        self.grant(at, n)
    }

    /// What [`grant`](Self::grant) would answer. Takes nothing.
    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied>;

    /// What [`take`](Self::take) would answer. Takes nothing.
    fn look(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.peek(now, n)
    }

    /// Whether there may be something for the one behind, after a grant: if not, it need not ask before more is made
    /// possible.
    fn has_more(&self) -> bool {
        true
    }

    /// Gives back what was granted at `at` to somebody who had left before they knew. `receipts` are those of the grant,
    /// or none if it has none.
    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]);

    /// `n` units that were granted are not used any longer.
    fn end(&self, n: u64) {
        let _ = n;
    }

    /// How long, from `at`, a queue that asks for `ahead` units and then one that asks for `n` takes: exactly, or not as
    /// long as it really does.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let _ = ahead;
        self.peek(at, n)
    }

    /// What somebody is told who asks for `n` behind a queue that asks for `ahead`: [`delay`](Self::delay), unless that
    /// leaves out something of which no time is known.
    fn behind(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        self.delay(at, ahead, n)
    }

    /// Whether it is time that what is wanted comes with.
    fn is_timed(&self) -> bool {
        true
    }

    /// Whether anybody wants to know when grants are dated. If not, the clock is read only where somebody in the queue has a
    /// deadline, or the order depends on it.
    fn has_dates(&self) -> bool {
        true
    }

    /// How many receipts [`drain`](Self::drain) writes for each grant.
    fn receipts(&self) -> usize {
        0
    }

    /// The queue's flags have become these.
    fn announce(&self, flags: u64) {
        let _ = flags;
    }

    /// A turn has ended with this answer, which its owner now knows.
    fn answered(&self, answer: &Result<Granted, Denied>) {
        let _ = answer;
    }

    /// A turn in the queue was given up before its owner knew an answer.
    fn abandoned(&self) {}
}
