//! Operations in flight, in slots that are used again.

use std::time::Duration;

use crate::policy::{Held, Request, Wait};

/// An operation in flight. The slot is used again, with another turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) slot: u32,
    turn: u32,
}

/// What it holds and what it waits for are beside it, so that it is copied and has nothing to drop.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    turn: u32,
    /// Of the simulation.
    pub(super) source: u32,
    pub(super) attempt: u32,
    /// Its client has an answer, or has given up; what is left is wasted work.
    pub(super) is_over: bool,
    /// The client has given up this attempt, and goes on with the operation in another slot.
    pub(super) is_abandoned: bool,
    /// The attempt is at the server.
    pub(super) is_served: bool,
    /// Of all operations of the source.
    pub(super) number: u64,
    pub(super) key: u64,
    pub(super) cost: u64,
    pub(super) begun_ns: u64,
    pub(super) deadline_ns: u64,
    /// When the client gives up this attempt.
    pub(super) attempt_ends_ns: u64,
    pub(super) asked_ns: u64,
    pub(super) admitted_ns: u64,
}

impl Operation {
    /// An operation that has not asked yet.
    pub(super) fn new(
        source: u32,
        number: u64,
        key: u64,
        cost: u64,
        begun_ns: u64,
        deadline_ns: u64,
    ) -> Self {
        Self {
            turn: 0,
            source,
            attempt: 0,
            is_over: false,
            is_abandoned: false,
            is_served: false,
            number,
            key,
            cost,
            begun_ns,
            deadline_ns,
            attempt_ends_ns: deadline_ns,
            asked_ns: 0,
            admitted_ns: 0,
        }
    }

    /// The same operation, which goes on after this attempt.
    pub(super) fn after_this_attempt(&self) -> Self {
        Self {
            attempt: self.attempt,
            ..Self::new(
                self.source,
                self.number,
                self.key,
                self.cost,
                self.begun_ns,
                self.deadline_ns,
            )
        }
    }

    pub(super) fn request(&self, now_ns: u64) -> Request {
        let is_bounded = self.attempt_ends_ns < u64::MAX;
        Request {
            key: self.key,
            cost: self.cost,
            attempt: self.attempt,
            patience: is_bounded
                .then(|| Duration::from_nanos(self.attempt_ends_ns.saturating_sub(now_ns))),
        }
    }
}

#[derive(Default)]
pub(super) struct Operations {
    slots: Vec<Operation>,
    free: Vec<u32>,
    /// What the operations at the server hold, by slot.
    held: Vec<Held>,
    /// What the operations wait for, by slot.
    waits: Vec<Option<Wait>>,
}

impl Operations {
    pub(super) fn begin(&mut self, operation: Operation) -> Ticket {
        match self.free.pop() {
            Some(slot) => {
                let place = &mut self.slots[slot as usize];
                let turn = place.turn;
                *place = Operation { turn, ..operation };
                Ticket { slot, turn }
            }
            None => {
                // `Simulation::max_pending` is no more.
                let slot = self.slots.len() as u32;
                self.slots.push(operation);
                Ticket { slot, turn: 0 }
            }
        }
    }

    /// Ends an operation: its tickets are no longer good.
    pub(super) fn end(&mut self, slot: u32) {
        let operation = &mut self.slots[slot as usize];
        operation.turn = operation.turn.wrapping_add(1);
        operation.is_over = true;
        self.free.push(slot);
    }

    /// The operation of `ticket`, if it is in flight.
    pub(super) fn get(&mut self, ticket: Ticket) -> Option<&mut Operation> {
        let operation = &mut self.slots[ticket.slot as usize];
        (operation.turn == ticket.turn).then_some(operation)
    }

    pub(super) fn of(&mut self, slot: u32) -> &mut Operation {
        &mut self.slots[slot as usize]
    }

    pub(super) fn ticket(&self, slot: u32) -> Ticket {
        let turn = self.slots[slot as usize].turn;
        Ticket { slot, turn }
    }

    /// Keeps what the operation in `slot` holds, until it is [taken](Self::take_held).
    pub(super) fn hold(&mut self, slot: u32, held: Held) {
        if self.held.len() <= slot as usize {
            self.held.resize_with(self.slots.len(), Held::nothing);
        }
        self.held[slot as usize] = held;
    }

    pub(super) fn take_held(&mut self, slot: u32) -> Held {
        std::mem::take(&mut self.held[slot as usize])
    }

    /// Has the operation in `slot` wait, until it [does no longer](Self::end_wait).
    pub(super) fn wait(&mut self, slot: u32, wait: Wait) {
        if self.waits.len() <= slot as usize {
            self.waits.resize_with(self.slots.len(), || None);
        }
        self.waits[slot as usize] = Some(wait);
    }

    /// What the operation in `slot` waits for, if it waits.
    pub(super) fn wait_of(&mut self, slot: u32) -> Option<&mut Wait> {
        self.waits.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn end_wait(&mut self, slot: u32) {
        self.waits[slot as usize] = None;
    }

    /// How many are in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Those whose clients still wait.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Operation> {
        self.slots.iter().filter(|operation| !operation.is_over)
    }
}
