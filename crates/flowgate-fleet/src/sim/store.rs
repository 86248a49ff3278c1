//! A primary: the records, as the real function keeps them, and a clock that can be set.

use super::plan::Flaw;
use super::process::record;
use crate::call::{Call, Reply, Seen};
use crate::kept::Kept;
use crate::record::Record;
use std::collections::BTreeMap;

/// The store's clock at the beginning of a run, in microseconds.
const EPOCH_US: i64 = 1_700_000_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Store {
    records: BTreeMap<u64, Kept>,
    /// Each change of a record: when, which, and to what.
    log: Vec<(u64, u64, Kept)>,
    /// When it last became what it was before, and when that was.
    restored: (u64, u64),
    begins_ns: u64,
    clock_us: i64,
    /// From when it hangs, and until when.
    pub(super) hangs_ns: [u64; 2],
    /// It refuses all calls until then.
    pub(super) refuses_until_ns: u64,
    pub(super) is_closed: bool,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            records: BTreeMap::new(),
            log: Vec::new(),
            restored: (0, 0),
            begins_ns: 0,
            clock_us: EPOCH_US,
            hangs_ns: [0; 2],
            refuses_until_ns: 0,
            is_closed: false,
        }
    }

    fn now_us(&self, now_ns: u64) -> u64 {
        (now_ns / 1_000)
            .checked_add_signed(self.clock_us)
            .expect("after 1970")
    }

    pub(super) fn leap(&mut self, us: i64) {
        self.clock_us += us;
    }

    pub(super) fn take(&mut self, now_ns: u64, key: u64, call: &Call, flaw: Option<Flaw>) -> Reply {
        let mut stored = self.records.get(&key).copied();
        if let Some(Flaw::ShortTtl(us)) = flaw {
            let written = self.log.iter().rev().find(|(_, of, _)| *of == key);
            if written.is_some_and(|(at_ns, ..)| at_ns + 1_000 * us < now_ns) {
                stored = None;
            }
        }
        let mut call = call.clone();
        if flaw == Some(Flaw::NoReminder) || matches!(flaw, Some(Flaw::ShortTtl(_))) {
            call.seen = Seen::default();
        }
        let carried_out = Kept::take(stored, self.now_us(now_ns), &call);
        let (reply, changed) = carried_out.expect("limits of one kind");
        if let Some(kept) = changed {
            self.records.insert(key, kept);
            self.log.push((now_ns, key, kept));
        }
        reply
    }

    /// Goes back to the records of `then_ns`, or of an earlier time, or to none. Returns to which, if they are its own.
    pub(super) fn restore(&mut self, now_ns: u64, then_ns: Option<u64>) -> Option<u64> {
        let (restored_ns, to_ns) = self.restored;
        let then_ns = match then_ns {
            Some(then_ns) if then_ns < restored_ns => then_ns.min(to_ns),
            Some(then_ns) => then_ns,
            None => 0,
        };
        self.log.retain(|(at_ns, ..)| *at_ns <= then_ns);
        self.records = self
            .log
            .iter()
            .map(|(_, key, kept)| (*key, *kept))
            .collect();
        if then_ns == 0 {
            (self.log, self.records) = Default::default();
        }
        self.restored = (now_ns, then_ns);
        (then_ns >= self.begins_ns).then_some(then_ns)
    }

    /// The replica that becomes primary.
    pub(super) fn replica(&self, now_ns: u64, lag_ns: u64) -> Self {
        let mut replica = self.clone();
        replica.restore(now_ns, Some(now_ns.saturating_sub(lag_ns)));
        replica.begins_ns = now_ns;
        (replica.hangs_ns, replica.refuses_until_ns) = ([0; 2], 0);
        replica
    }
}

/// Returns the key of a record.
pub(super) fn key_of(of: Record, keys: u64) -> u64 {
    (0..keys)
        .find(|key| record(*key) == of)
        .expect("a key of the plan")
}
