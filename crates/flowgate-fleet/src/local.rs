use crate::bucket::Bucket;
use crate::call::{Call, Reply};
use crate::record::Record;
use flowgate::Clock;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Records of paid debts are removed when there are twice as many records as after the last time, and at least this many.
const FEW: usize = 1_000;

/// A store in this process. It decides exactly as the script does.
#[derive(Clone)]
pub(crate) struct Local {
    clock: Clock,
    records: Arc<Mutex<Records>>,
}

#[derive(Default)]
struct Records {
    buckets: HashMap<Record, Bucket>,
    /// How many there were after the paid ones were removed.
    unpaid: usize,
}

impl Local {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            records: Arc::default(),
        }
    }

    pub(crate) fn call(&self, call: &Call) -> Reply {
        let now_us = self.clock.now().as_nanos() / 1_000;
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = records.buckets.get(&call.record).copied();
        let (reply, bucket) = Bucket::take(stored, now_us, call);
        if let Some(bucket) = bucket {
            records.buckets.insert(call.record, bucket);
        }
        if records.buckets.len() > 2 * records.unpaid.max(FEW) {
            records.buckets.retain(|_, bucket| !bucket.is_paid(now_us));
            records.unpaid = records.buckets.len();
        }
        reply
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Run, Seen};
    use crate::terms::Terms;
    use flowgate::ManualClock;
    use std::time::Duration;

    #[test]
    fn records_of_paid_debts_do_not_pile_up() {
        let time = ManualClock::new();
        let local = Local::new(Clock::from(&time));
        let terms = Terms::of("1/s".parse().expect("a quota")).expect("it is exact");
        for key in 0..100_000_u32 {
            let call = Call {
                record: Record::of("keys", &key.to_le_bytes()),
                terms,
                seen: Seen::default(),
                runs: vec![Run { times: 1, units: 1 }],
            };
            assert_eq!(local.call(&call).taken, [1]);
            time.advance(Duration::from_millis(1));
        }
        // 1,000 keys have debt at a time.
        assert!(local.records.lock().expect("unharmed").buckets.len() <= 2 * 1_002);
    }
}
