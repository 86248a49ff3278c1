//! Who stands in line, in the order of coming.

use super::settings::Spacing;
use crate::reservation::Receipt;
use crate::verdict::Denied;
use alloc::vec::Vec;
use core::task::Waker;

/// What somebody comes for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) units: u64,
    /// Whether that is a token, however it is divided.
    pub(super) is_token: bool,
    /// The earliest that the grant may be dated.
    pub(super) since_ns: u64,
    /// The latest that it may be.
    pub(super) deadline_ns: u64,
    pub(super) spacing: Spacing,
}

impl Request {
    fn has_deadline(&self) -> bool {
        self.deadline_ns != u64::MAX
    }
}

/// What somebody has been told, and has not heard yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted { at_ns: u64, units: u64 },
    Refused(Denied),
}

/// A list through a slab: entering, leaving from anywhere, and going next cost the same however long it is.
///
/// A waiter keeps its place in the slab, by which it is named, until it takes its entry away itself.
#[derive(Debug)]
pub(super) struct Queue {
    slab: Vec<Entry>,
    /// What those who have been granted something hold, if the limiter gives receipts. Beside the slab: that is
    /// smaller for it.
    receipts: Vec<Receipt>,
    /// The first of the vacant entries, [`NONE`] if there are none.
    vacant: u32,
    oldest: u32,
    newest: u32,
    /// How many are in line.
    waiters: u32,
    /// How many have an entry.
    present: u32,
    /// What those in line ask for together.
    units: u128,
    /// How many in line have a deadline.
    deadlines: u32,
}

/// A cache line each, so that two threads who work on two of them do not get into each other's way.
#[derive(Debug)]
#[repr(align(64))]
struct Entry {
    /// Of somebody in line.
    waker: Option<Waker>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    InLine(Waiter),
    Told(Answer),
    Vacant { next: u32 },
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    request: Request,
    ahead: u32,
    behind: u32,
}

const NONE: u32 = u32::MAX;

/// The most that a line can hold.
pub(super) const MOST_WAITERS: u32 = u32::MAX - 1;

/// A slab of no more entries than this is kept when all have left.
const KEPT: usize = 64;

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            slab: Vec::new(),
            receipts: Vec::new(),
            vacant: NONE,
            oldest: NONE,
            newest: NONE,
            waiters: 0,
            present: 0,
            units: 0,
            deadlines: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters == 0
    }

    pub(super) fn waiters(&self) -> u32 {
        self.waiters
    }

    pub(super) fn units(&self) -> u128 {
        self.units
    }

    /// Whether anybody in line has a deadline.
    pub(super) fn has_deadlines(&self) -> bool {
        self.deadlines > 0
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    pub(super) fn newest(&self) -> Option<u32> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// Who came next after `index`, which is in line.
    pub(super) fn behind(&self, index: u32) -> Option<u32> {
        let behind = self.waiter(index).behind;
        (behind != NONE).then_some(behind)
    }

    /// Who came last before `index`, which is in line.
    pub(super) fn ahead(&self, index: u32) -> Option<u32> {
        let ahead = self.waiter(index).ahead;
        (ahead != NONE).then_some(ahead)
    }

    /// What `index`, which is in line, asks for.
    pub(super) fn request(&self, index: u32) -> &Request {
        &self.waiter(index).request
    }

    /// Whom to wake for `index`: somebody, if it is in line.
    pub(super) fn waker(&self, index: u32) -> Option<Waker> {
        self.slab[index as usize].waker.clone()
    }

    /// From now on, `waker` is to be woken for `index`, which is in line. Returns who was until now, if somebody else.
    pub(super) fn remember(&mut self, index: u32, waker: &Waker) -> Option<Waker> {
        let known = &mut self.slab[index as usize].waker;
        match known {
            Some(known) if known.will_wake(waker) => None,
            _ => known.replace(waker.clone()),
        }
    }

    fn waiter(&self, index: u32) -> &Waiter {
        match &self.slab[index as usize].stage {
            Stage::InLine(waiter) => waiter,
            Stage::Told(_) | Stage::Vacant { .. } => unreachable!("not in line"),
        }
    }

    fn waiter_mut(&mut self, index: u32) -> &mut Waiter {
        match &mut self.slab[index as usize].stage {
            Stage::InLine(waiter) => waiter,
            Stage::Told(_) | Stage::Vacant { .. } => unreachable!("not in line"),
        }
    }

    /// Whether `index` has been told something, and is not in line any longer.
    pub(super) fn is_told(&self, index: u32) -> bool {
        match self.slab[index as usize].stage {
            Stage::InLine(_) => false,
            Stage::Told(_) => true,
            Stage::Vacant { .. } => unreachable!("one is named until one takes one's entry away"),
        }
    }

    /// Lets somebody stand in line; none if that has [`MOST_WAITERS`].
    pub(super) fn enter(&mut self, request: Request, waker: Waker) -> Option<u32> {
        if self.present == MOST_WAITERS {
            return None;
        }
        let stage = Stage::InLine(Waiter {
            request,
            ahead: self.newest,
            behind: NONE,
        });
        let waker = Some(waker);
        let index = match self.vacant {
            NONE => {
                self.slab.push(Entry { waker, stage });
                (self.slab.len() - 1) as u32
            }
            index => {
                let entry = &mut self.slab[index as usize];
                if let Stage::Vacant { next } = entry.stage {
                    self.vacant = next;
                }
                *entry = Entry { waker, stage };
                index
            }
        };
        match self.newest {
            NONE => self.oldest = index,
            newest => self.waiter_mut(newest).behind = index,
        }
        self.newest = index;
        self.waiters += 1;
        self.present += 1;
        self.units += u128::from(request.units);
        self.deadlines += u32::from(request.has_deadline());
        Some(index)
    }

    /// Has `index`, which is in line, ask for so many units.
    pub(super) fn ask(&mut self, index: u32, units: u64) {
        let asked = &mut self.waiter_mut(index).request.units;
        let before = core::mem::replace(asked, units);
        self.units = self.units - u128::from(before) + u128::from(units);
    }

    /// Keeps what it takes to take back what `index` is granted.
    pub(super) fn keep(&mut self, index: u32, receipt: Receipt) {
        let index = index as usize;
        if index >= self.receipts.len() {
            self.receipts.resize(index + 1, Receipt::default());
        }
        self.receipts[index] = receipt;
    }

    /// What was last [kept](Self::keep) for `index`; the default one if nothing ever was.
    pub(super) fn receipt(&self, index: u32) -> Receipt {
        let receipt = self.receipts.get(index as usize);
        receipt.copied().unwrap_or_default()
    }

    /// Takes `index` out of the line and leaves it an answer. What is to be woken is returned.
    pub(super) fn tell(&mut self, index: u32, answer: Answer) -> Option<Waker> {
        self.unlink(index);
        let entry = &mut self.slab[index as usize];
        entry.stage = Stage::Told(answer);
        entry.waker.take()
    }

    /// Takes `index`, which has been told nothing, out of the line and its entry away.
    pub(super) fn remove(&mut self, index: u32) -> Option<Waker> {
        self.unlink(index);
        let waker = self.slab[index as usize].waker.take();
        self.vacate(index);
        waker
    }

    /// Takes away the entry of `index`, which is not in line any longer, and what it has been told.
    pub(super) fn collect(&mut self, index: u32) -> Answer {
        let Stage::Told(answer) = self.slab[index as usize].stage else {
            unreachable!("it has been told");
        };
        self.vacate(index);
        answer
    }

    fn vacate(&mut self, index: u32) {
        self.slab[index as usize].stage = Stage::Vacant { next: self.vacant };
        self.vacant = index;
        self.present -= 1;
        if self.present == 0 && self.slab.capacity() > KEPT {
            self.slab = Vec::new();
            self.receipts = Vec::new();
            self.vacant = NONE;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Waiter {
            ahead,
            behind,
            request,
        } = *self.waiter(index);
        match ahead {
            NONE => self.oldest = behind,
            ahead => self.waiter_mut(ahead).behind = behind,
        }
        match behind {
            NONE => self.newest = ahead,
            behind => self.waiter_mut(behind).ahead = ahead,
        }
        self.waiters -= 1;
        self.units -= u128::from(request.units);
        self.deadlines -= u32::from(request.has_deadline());
    }
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::*;

    const GRANTED: Answer = Answer::Refused(Denied::closed());

    fn asking(units: u64) -> Request {
        Request {
            units,
            is_token: false,
            since_ns: 0,
            deadline_ns: 9,
            spacing: Spacing::Scheduled,
        }
    }

    fn in_line(queue: &Queue) -> Vec<u64> {
        let forward: Vec<_> = core::iter::successors(queue.oldest(), |&at| queue.behind(at))
            .map(|at| queue.request(at).units)
            .collect();
        let mut backward: Vec<_> = core::iter::successors(queue.newest(), |&at| queue.ahead(at))
            .map(|at| queue.request(at).units)
            .collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert_eq!(forward.len(), queue.waiters() as usize);
        assert_eq!(
            forward.iter().map(|&units| u128::from(units)).sum::<u128>(),
            queue.units()
        );
        forward
    }

    #[test]
    fn c6_the_order_is_that_of_coming_whoever_leaves() {
        let mut queue = Queue::new();
        let places: Vec<_> = (1..=5)
            .map(|n| queue.enter(asking(n), Waker::noop().clone()).unwrap())
            .collect();
        assert_eq!(in_line(&queue), [1, 2, 3, 4, 5]);
        queue.remove(places[2]);
        assert_eq!(in_line(&queue), [1, 2, 4, 5]);
        queue.tell(places[0], GRANTED);
        assert_eq!(in_line(&queue), [2, 4, 5]);
        assert!(queue.is_told(places[0]) && !queue.is_told(places[1]));
        let sixth = queue.enter(asking(6), Waker::noop().clone()).unwrap();
        assert_eq!(sixth, places[2], "the vacant entry is used again");
        queue.remove(places[4]);
        assert_eq!(in_line(&queue), [2, 4, 6]);
        assert_eq!(queue.collect(places[0]), GRANTED);
        for index in [places[1], places[3], sixth] {
            queue.remove(index);
        }
        assert!(in_line(&queue).is_empty());
        assert!(queue.oldest().is_none() && queue.newest().is_none());
    }

    #[test]
    fn somebody_who_waits_takes_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    #[test]
    fn memory_of_a_long_line_is_given_back() {
        let mut queue = Queue::new();
        let places: Vec<_> = (0..1_000)
            .map(|n| queue.enter(asking(n), Waker::noop().clone()).unwrap())
            .collect();
        for index in places {
            queue.keep(index, Receipt::default());
            queue.remove(index);
        }
        assert_eq!((queue.slab.capacity(), queue.receipts.capacity()), (0, 0));
        assert_eq!(queue.enter(asking(1), Waker::noop().clone()), Some(0));
    }
}
