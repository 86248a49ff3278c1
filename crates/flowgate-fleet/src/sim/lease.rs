//! The leased limit of a process, and what the fleet's loop does with it.

use super::plan::{Flaw, NodePlan, Plan};
use super::process::record;
use crate::call::{Call, Failure, Reply};
use crate::cut_off::Alone;
use crate::leaser::Leaser;
use crate::overshoot::Lending;
use crate::terms::Terms;
use flowgate::{Clock, Leased, ManualClock, Quota, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) leased: Arc<Leased>,
    lending: Lending,
    leaser: Leaser,
    woken: Arc<Woken>,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Lease {
    /// Creates that of a node, if the plan's limit is leased.
    pub(super) fn new(plan: &Plan, node: &NodePlan, time: &ManualClock, seed: u64) -> Option<Self> {
        let lending = plan.lending().filter(|_| plan.is_leased_whole())?;
        let clock = Clock::from(time);
        let leased = Leased::builder(lending.most).clock(clock.clone()).build();
        let leased = Arc::new(leased.expect("a limiter"));
        let alone = Alone::new(node.cut_off, plan.quota, &clock, 1).expect("a share");
        let weak = Arc::downgrade(&leased);
        let leaser = Leaser::new(weak, record(0), lending, alone, seed);
        Some(Self {
            leased,
            lending,
            leaser,
            woken: Arc::default(),
        })
    }

    pub(super) fn set_quota(&mut self, plan: &Plan, quota: Quota) {
        let terms = Terms::of(quota).expect("the store can count it");
        let lending = plan.lender().expect("leases").lending(quota, terms);
        let lending = lending.expect("an overshoot that can be kept");
        let set = self.leaser.set_quota(quota, lending, &self.leased);
        set.expect("a quota that can be kept");
    }

    pub(super) fn is_woken(&self) -> bool {
        self.woken.0.swap(false, Ordering::Relaxed)
    }

    fn held(&self) -> u64 {
        self.leased.filler().held().units
    }

    /// Passes on what was reserved, which is no part of the share.
    pub(super) fn release(&mut self, now: Timestamp) {
        self.leaser.release(&self.leased, now);
    }

    /// Returns the call to send, and the units that came from the share.
    pub(super) fn call(&mut self, now: Timestamp) -> (Option<Call>, u64) {
        self.release(now);
        let before = self.held();
        let call = self.leaser.call(now);
        (call, self.held().saturating_sub(before))
    }

    /// Passes on what has become of a call. Returns the units that came from the share.
    pub(super) fn answer(
        &mut self,
        sent: Timestamp,
        now: Timestamp,
        outcome: Result<Reply, Failure>,
        flaw: Option<Flaw>,
    ) -> u64 {
        let sent = if flaw == Some(Flaw::FromReply) {
            now
        } else {
            sent
        };
        let is_ok = outcome.is_ok();
        if flaw == Some(Flaw::Merge) && is_ok {
            let units = self.leased.take_up_to(u64::MAX);
            self.grant(units, sent);
        }
        let before = self.held();
        self.leaser.answer(sent, now, outcome);
        if flaw == Some(Flaw::EarlyTurn) {
            self.leaser
                .release(&self.leased, now + 2 * self.lending.length);
        }
        if is_ok {
            0
        } else {
            self.held().saturating_sub(before)
        }
    }

    /// What only the leaser must do.
    pub(super) fn grant(&self, units: u64, sent: Timestamp) {
        let until = sent + self.lending.spent_for;
        self.leased.filler().grant(units, until);
    }

    /// Waits to be woken. Returns when to look in any case.
    pub(super) fn sleep(&self) -> Option<Timestamp> {
        if let Some(low) = self.leaser.low() {
            let waker = Waker::from(Arc::clone(&self.woken));
            self.leased.filler().wake_below(low, &waker);
        }
        self.leaser.wake_at()
    }
}
