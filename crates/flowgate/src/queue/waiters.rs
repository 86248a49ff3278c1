//! The waiters in the queue, in the order in which they came.

use super::settings::Spacing;
use super::supply::Receipt;
use crate::verdict::Denied;
use alloc::vec::Vec;
use core::task::Waker;

/// What a waiter asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) units: u64,
    /// Whether `units` are one token, however it is divided.
    pub(super) is_token: bool,
    /// The earliest timestamp that the grant may have.
    pub(super) since_ns: u64,
    /// The latest timestamp that the grant may have.
    pub(super) deadline_ns: u64,
    pub(super) spacing: Spacing,
    /// Whether the waiter has to be told the time of its grant.
    pub(super) wants_date: bool,
}

impl Request {
    /// Whether a clock has to be read for it.
    fn needs_time(&self) -> bool {
        self.deadline_ns != u64::MAX || self.wants_date
    }
}

/// An answer that a waiter has been given, and has not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted {
        at_ns: u64,
        units: u64,
    },
    Refused(Denied),
    /// The waiter did not come to take its grant: it has to enter again.
    PassedOver,
}

/// The identity of a waiter: its place in the slab, which another waiter may have later, and its number in the order of
/// arrival, which is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) place: u32,
    pub(super) number: u64,
}

/// The progress of a waiter that got a ticket, and has not taken its entry away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    InLine,
    /// There is an answer for it.
    Told,
    /// It has what it asked for, and no longer has an entry.
    Served,
}

/// A list through a slab: entering, leaving from anywhere, and going next cost the same however long it is.
///
/// A waiter keeps its place in the slab until it takes its entry away itself; or until it is served, if it does not have to
/// be told more than that.
///
/// The order of the fields in memory matters: first what every grant writes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Waiters {
    /// The number of waiters that have ever come.
    came: u64,
    /// The units that all waiters ask for together.
    units: Sum,
    oldest: u32,
    newest: u32,
    /// The first of the vacant entries, [`NONE`] if there are none.
    vacant: u32,
    /// The number of waiters in the queue.
    waiters: u32,
    slab: Vec<Entry>,
    /// The number of waiters that have an answer, and have not read it yet.
    told: u32,
    /// The number of waiters in the queue that have a deadline, or want to know the time of their grant.
    timed: u32,
    /// The receipts of the waiters that have been granted something, if the limiter gives receipts: `receipts_each` for each
    /// entry. They are kept beside the slab, so that the slab is smaller.
    receipts: Vec<Receipt>,
    receipts_each: usize,
}

/// A `u128` that does not ask for an address which leaves a gap before it.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(8))]
struct Sum(u128);

/// An entry takes a cache line of its own, so that two threads that work on two entries do not delay each other.
#[derive(Debug)]
#[repr(align(64))]
struct Entry {
    /// The waker of a waiter in the queue.
    waker: Option<Waker>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    InLine(Waiter),
    Told { number: u64, answer: Answer },
    Vacant { next: u32 },
}

/// A waiter. The fields of the request are inlined, so that it fits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    number: u64,
    units: u64,
    since_ns: u64,
    deadline_ns: u64,
    /// The waiter that came last before it; for the oldest waiter, any former one.
    ahead: u32,
    behind: u32,
    is_token: bool,
    spacing: Spacing,
    wants_date: bool,
    /// Whether it still asks for as many units as when it came.
    is_as_it_came: bool,
}

impl Waiter {
    fn request(&self) -> Request {
        Request {
            units: self.units,
            is_token: self.is_token,
            since_ns: self.since_ns,
            deadline_ns: self.deadline_ns,
            spacing: self.spacing,
            wants_date: self.wants_date,
        }
    }
}

const NONE: u32 = u32::MAX;

/// The largest number of waiters in a queue.
pub(super) const MOST_WAITERS: u32 = u32::MAX - 1;

/// A slab of at most this number of entries is kept when all waiters have left.
const KEPT: usize = 64;

impl Waiters {
    /// The number of bytes that every grant writes.
    #[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
    pub(super) const WRITTEN_BYTES: usize = core::mem::offset_of!(Self, slab);

    pub(super) const fn new() -> Self {
        Self {
            slab: Vec::new(),
            receipts: Vec::new(),
            receipts_each: 0,
            vacant: NONE,
            oldest: NONE,
            newest: NONE,
            waiters: 0,
            told: 0,
            came: 0,
            units: Sum(0),
            timed: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters == 0
    }

    pub(super) fn waiters(&self) -> u32 {
        self.waiters
    }

    pub(super) fn units(&self) -> u128 {
        self.units.0
    }

    /// Whether any waiter in the queue has a deadline, or wants to know the time of its grant.
    pub(super) fn needs_time(&self) -> bool {
        self.timed > 0
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    pub(super) fn newest(&self) -> Option<u32> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// Returns the waiter that came next after `index`, which is in the queue.
    pub(super) fn behind(&self, index: u32) -> Option<u32> {
        let behind = self.waiter(index).behind;
        (behind != NONE).then_some(behind)
    }

    /// Returns the waiter that came last before `index`, which is in the queue.
    pub(super) fn ahead(&self, index: u32) -> Option<u32> {
        let ahead = self.waiter(index).ahead;
        (index != self.oldest).then_some(ahead)
    }

    /// Returns what `index`, which is in the queue, asks for.
    pub(super) fn request(&self, index: u32) -> Request {
        self.waiter(index).request()
    }

    /// Returns the number of `index`, which is in the queue, if the number alone tells it all when it is granted. That is so
    /// if it gets what it asked for when it came, and does not want to know the time.
    pub(super) fn number_that_says_all(&self, index: u32) -> Option<u64> {
        let waiter = self.waiter(index);
        (waiter.is_as_it_came && !waiter.wants_date).then_some(waiter.number)
    }

    /// Whether any waiter has an answer, and has not read it yet.
    pub(super) fn has_told(&self) -> bool {
        self.told > 0
    }

    /// Returns the waker of `index`: always one, if it is in the queue.
    pub(super) fn waker(&self, index: u32) -> Option<Waker> {
        self.slab[index as usize].waker.clone()
    }

    /// Sets the waker of `index`, which is in the queue. Returns the one before, if that was another.
    pub(super) fn remember(&mut self, index: u32, waker: &Waker) -> Option<Waker> {
        let known = &mut self.slab[index as usize].waker;
        match known {
            Some(known) if known.will_wake(waker) => None,
            _ => known.replace(waker.clone()),
        }
    }

    /// Removes and returns the waker of the waiter with `ticket`, if that is in the queue.
    pub(super) fn forget_waker(&mut self, ticket: Ticket) -> Option<Waker> {
        if self.progress(ticket) != Progress::InLine {
            return None;
        }
        self.slab[ticket.place as usize].waker.take()
    }

    fn waiter(&self, index: u32) -> &Waiter {
        match &self.slab[index as usize].stage {
            Stage::InLine(waiter) => waiter,
            Stage::Told { .. } | Stage::Vacant { .. } => unreachable!("not in active"),
        }
    }

    fn waiter_mut(&mut self, index: u32) -> &mut Waiter {
        match &mut self.slab[index as usize].stage {
            Stage::InLine(waiter) => waiter,
            Stage::Told { .. } | Stage::Vacant { .. } => unreachable!("not in active"),
        }
    }

    /// Returns the progress of the waiter with `ticket`.
    pub(super) fn progress(&self, ticket: Ticket) -> Progress {
        match self
            .slab
            .get(ticket.place as usize)
            .map(|entry| &entry.stage)
        {
            Some(Stage::InLine(waiter)) if waiter.number == ticket.number => Progress::InLine,
            Some(Stage::Told { number, .. }) if *number == ticket.number => Progress::Told,
            _ => Progress::Served,
        }
    }

    /// Adds a waiter to the queue. Returns `None` if the queue has [`MOST_WAITERS`].
    pub(super) fn enter(&mut self, request: Request, waker: Waker) -> Option<Ticket> {
        if self.waiters + self.told == MOST_WAITERS {
            return None;
        }
        let number = self.came + 1;
        self.came = number;
        let stage = Stage::InLine(Waiter {
            number,
            units: request.units,
            since_ns: request.since_ns,
            deadline_ns: request.deadline_ns,
            ahead: self.newest,
            behind: NONE,
            is_token: request.is_token,
            spacing: request.spacing,
            wants_date: request.wants_date,
            is_as_it_came: true,
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
        self.units.0 += u128::from(request.units);
        self.timed += u32::from(request.needs_time());
        Some(Ticket {
            place: index,
            number,
        })
    }

    /// Has `index`, which is in the queue, ask for `units` units.
    pub(super) fn ask(&mut self, index: u32, units: u64) {
        let waiter = self.waiter_mut(index);
        let before = core::mem::replace(&mut waiter.units, units);
        waiter.is_as_it_came &= units == before;
        self.units.0 = self.units.0 - u128::from(before) + u128::from(units);
    }

    /// Whether the limiter gives receipts, as far as is known: whether there are any in this queue.
    pub(super) fn keeps_receipts(&self) -> bool {
        self.receipts_each > 0
    }

    /// Returns where the limiter, which gives `each` receipts, writes those for what it grants `index`.
    pub(super) fn receipts_to_keep(
        &mut self,
        index: u32,
        each: impl FnOnce() -> usize,
    ) -> &mut [Receipt] {
        if self.receipts_each == 0 {
            self.receipts_each = each();
        }
        if self.receipts_each == 0 {
            return &mut [];
        }
        let (begin, end) = self.receipts_of(index);
        if self.receipts.len() < end {
            self.receipts.resize(end, Receipt::default());
        }
        &mut self.receipts[begin..end]
    }

    /// Returns the receipts for what `index` was granted; none if the limiter gives none.
    pub(super) fn receipts(&self, index: u32) -> &[Receipt] {
        let (begin, end) = self.receipts_of(index);
        self.receipts.get(begin..end).unwrap_or_default()
    }

    fn receipts_of(&self, index: u32) -> (usize, usize) {
        let begin = index as usize * self.receipts_each;
        (begin, begin + self.receipts_each)
    }

    /// Takes `index` out of the queue and leaves an answer for it. Returns its waker.
    pub(super) fn tell(&mut self, index: u32, answer: Answer) -> Option<Waker> {
        let number = self.unlink(index);
        self.told += 1;
        let entry = &mut self.slab[index as usize];
        entry.stage = Stage::Told { number, answer };
        entry.waker.take()
    }

    /// Takes `index`, which has no answer, out of the queue and removes its entry. Returns its waker.
    pub(super) fn remove(&mut self, index: u32) -> Option<Waker> {
        self.unlink(index);
        let waker = self.slab[index as usize].waker.take();
        self.vacate(index);
        waker
    }

    /// Removes the entry of `index`, which is no longer in the queue, and returns its answer.
    pub(super) fn collect(&mut self, index: u32) -> Answer {
        let Stage::Told { answer, .. } = self.slab[index as usize].stage else {
            unreachable!("it has been told");
        };
        self.told -= 1;
        self.vacate(index);
        answer
    }

    fn vacate(&mut self, index: u32) {
        self.slab[index as usize].stage = Stage::Vacant { next: self.vacant };
        self.vacant = index;
        if self.waiters + self.told == 0 && self.slab.capacity() > KEPT {
            self.slab = Vec::new();
            self.receipts = Vec::new();
            self.receipts_each = 0;
            self.vacant = NONE;
        }
    }

    /// Takes `index` out of the queue, and returns its number.
    fn unlink(&mut self, index: u32) -> u64 {
        let waiter = self.waiter(index);
        let Waiter {
            number,
            ahead,
            behind,
            ..
        } = *waiter;
        let request = waiter.request();
        match (index == self.oldest, behind) {
            (true, NONE) => (self.oldest, self.newest) = (NONE, NONE),
            // The entry of the waiter is not touched: it may be in the cache of the thread that serves it.
            (true, behind) => self.oldest = behind,
            (false, NONE) => {
                self.newest = ahead;
                self.waiter_mut(ahead).behind = NONE;
            }
            (false, behind) => {
                self.waiter_mut(ahead).behind = behind;
                self.waiter_mut(behind).ahead = ahead;
            }
        }
        self.waiters -= 1;
        self.units.0 -= u128::from(request.units);
        self.timed -= u32::from(request.needs_time());
        number
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
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
            wants_date: false,
        }
    }

    fn enter(queue: &mut Waiters, units: u64) -> Ticket {
        let ticket = queue.enter(asking(units), Waker::noop().clone());
        ticket.expect("there is room")
    }

    fn in_line(queue: &Waiters) -> Vec<u64> {
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
        let mut queue = Waiters::new();
        let tickets: Vec<_> = (1..=5).map(|n| enter(&mut queue, n)).collect();
        let places: Vec<_> = tickets.iter().map(|ticket| ticket.place).collect();
        assert_eq!(in_line(&queue), [1, 2, 3, 4, 5]);
        queue.remove(places[2]);
        assert_eq!(in_line(&queue), [1, 2, 4, 5]);
        queue.tell(places[0], GRANTED);
        assert_eq!(in_line(&queue), [2, 4, 5]);
        assert!(queue.has_told());
        assert_eq!(queue.progress(tickets[0]), Progress::Told);
        assert_eq!(queue.progress(tickets[1]), Progress::InLine);
        let sixth = enter(&mut queue, 6).place;
        assert_eq!(sixth, places[2], "the vacant entry is used again");
        queue.remove(places[4]);
        assert_eq!(in_line(&queue), [2, 4, 6]);
        assert_eq!(queue.collect(places[0]), GRANTED);
        for index in [places[1], places[3], sixth] {
            queue.remove(index);
        }
        assert!(in_line(&queue).is_empty());
        assert!(queue.oldest().is_none() && queue.newest().is_none());
        assert!(!queue.has_told());
    }

    /// Another waiter may have its entry since.
    #[test]
    fn who_has_no_entry_any_longer_has_been_served() {
        let mut queue = Waiters::new();
        let first = enter(&mut queue, 1);
        queue.remove(first.place);
        assert_eq!(queue.progress(first), Progress::Served);
        let second = enter(&mut queue, 2);
        assert_eq!(second.place, first.place);
        assert!(second.number > first.number);
        let progress = |queue: &Waiters| (queue.progress(first), queue.progress(second));
        assert_eq!(progress(&queue), (Progress::Served, Progress::InLine));
        queue.tell(second.place, GRANTED);
        assert_eq!(progress(&queue), (Progress::Served, Progress::Told));
        queue.collect(second.place);
        // The slab is given back, and the place is none.
        let many: Vec<_> = (0..=KEPT).map(|_| enter(&mut queue, 3)).collect();
        for ticket in &many {
            queue.remove(ticket.place);
        }
        assert_eq!(queue.slab.capacity(), 0);
        assert_eq!(queue.progress(many[KEPT]), Progress::Served);
    }

    #[test]
    fn who_asks_for_something_else_than_when_it_came_has_to_be_told() {
        let mut queue = Waiters::new();
        let (one, other) = (enter(&mut queue, 1), enter(&mut queue, 2));
        queue.ask(one.place, 7);
        assert_eq!(in_line(&queue), [7, 2]);
        assert_eq!(queue.number_that_says_all(one.place), None);
        assert_eq!(queue.number_that_says_all(other.place), Some(other.number));
        queue.ask(other.place, 2);
        assert_eq!(queue.number_that_says_all(other.place), Some(other.number));
        queue.ask(one.place, 1);
        assert_eq!(queue.number_that_says_all(one.place), None);
    }

    /// The caller that serves the queue looks at a clock while there is such a waiter, and not after.
    #[test]
    fn a_line_needs_the_time_while_somebody_in_it_does() {
        let mut queue = Waiters::new();
        let timeless = Request {
            deadline_ns: u64::MAX,
            ..asking(1)
        };
        let wants_date = Request {
            wants_date: true,
            ..timeless
        };
        let needs_time = |queue: &mut Waiters, request| {
            let ticket = queue
                .enter(request, Waker::noop().clone())
                .expect("there is room");
            let needs_time = queue.needs_time();
            queue.remove(ticket.place);
            assert!(!queue.needs_time());
            needs_time
        };
        assert!(!needs_time(&mut queue, timeless));
        assert!(needs_time(&mut queue, wants_date));
        assert!(needs_time(&mut queue, asking(1)));
        // The first to leave is not the last who needs it.
        let tickets =
            [asking(1), asking(2)].map(|request| queue.enter(request, Waker::noop().clone()));
        let [one, other] = tickets.map(|ticket| ticket.expect("there is room").place);
        queue.tell(one, GRANTED);
        assert!(queue.needs_time());
        queue.remove(other);
        assert!(!queue.needs_time());
    }

    #[test]
    fn the_waker_that_was_given_last_is_woken() {
        struct Woken(core::sync::atomic::AtomicU32);
        impl alloc::task::Wake for Woken {
            fn wake(self: alloc::sync::Arc<Self>) {
                self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            }
        }
        let [first, second] = [0, 0].map(|n| alloc::sync::Arc::new(Woken(n.into())));
        let wakers = [&first, &second].map(|woken| Waker::from(woken.clone()));
        let count = |woken: &Woken| woken.0.load(core::sync::atomic::Ordering::Relaxed);
        let mut queue = Waiters::new();
        let ticket = queue
            .enter(asking(1), wakers[0].clone())
            .expect("there is room");
        assert!(
            queue.remember(ticket.place, &wakers[0]).is_none(),
            "it is the same"
        );
        let before = queue.remember(ticket.place, &wakers[1]).expect("another");
        assert!(before.will_wake(&wakers[0]));
        queue
            .tell(ticket.place, GRANTED)
            .expect("it has one")
            .wake();
        assert_eq!((count(&first), count(&second)), (0, 1));
    }

    #[test]
    fn receipts_are_those_that_were_kept_last() {
        let mut queue = Waiters::new();
        let places = [1, 2].map(|n| enter(&mut queue, n).place);
        assert!(queue.receipts_to_keep(places[1], || 0).is_empty());
        assert!(!queue.keeps_receipts());
        assert!(queue.receipts(places[1]).is_empty());
        let receipt = |epoch| Receipt {
            epoch,
            ..Receipt::default()
        };
        let keep = |queue: &mut Waiters, place, epochs: [u64; 2]| {
            let receipts = queue.receipts_to_keep(place, || 2);
            receipts.copy_from_slice(&epochs.map(receipt));
        };
        let kept = |queue: &Waiters, place: usize| {
            let receipts = queue.receipts(places[place]).iter();
            receipts.map(|receipt| receipt.epoch).collect::<Vec<_>>()
        };
        keep(&mut queue, places[1], [7, 8]);
        assert!(queue.keeps_receipts());
        assert_eq!([0, 1].map(|place| kept(&queue, place)), [[0, 0], [7, 8]]);
        keep(&mut queue, places[0], [5, 6]);
        keep(&mut queue, places[1], [9, 10]);
        assert_eq!([0, 1].map(|place| kept(&queue, place)), [[5, 6], [9, 10]]);
    }

    #[test]
    fn somebody_who_waits_takes_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    #[test]
    fn memory_of_a_long_line_is_given_back() {
        let mut queue = Waiters::new();
        let places: Vec<_> = (0..1_000).map(|n| enter(&mut queue, n).place).collect();
        for index in places {
            queue.receipts_to_keep(index, || 1);
            queue.remove(index);
        }
        assert_eq!((queue.slab.capacity(), queue.receipts.capacity()), (0, 0));
        assert_eq!(enter(&mut queue, 1).place, 0);
    }
}
