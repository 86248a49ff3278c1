use super::DecayingBucket;
use super::parameters::{Parameters, checked, pack, unpack};
use crate::algorithm::decaying_bucket::{Bucket, State};
use crate::cell::Step;
use crate::clock::Timestamp;
use crate::limiter::At;
use crate::limiter::Snapshot;
use crate::primitive::Ordering;
use crate::quota::QuotaError;
use crate::verdict::{Denied, duration_from_nanos};
use core::time::Duration;

impl At<'_, DecayingBucket> {
    /// [`DecayingBucket::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.try_acquire_n(1)
    }

    /// [`DecayingBucket::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.pass(Some(n))?;
        self.limiter.take_now(self.now_ns, n)
    }

    /// Unless others wait, whom that would overtake.
    #[inline(always)]
    fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// [`DecayingBucket::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        if self.pass(Some(n.min(1))).is_err() {
            return 0;
        }
        self.limiter.cell.update(|Parameters(bucket), bits| {
            let n = n.min(self.room(bucket, bits));
            match unpack(bits).take(self.now_ns, n, bucket) {
                Some(state) if n > 0 => Step::Move(pack(state), n),
                _ => Step::Stay(0),
            }
        })
    }

    /// [`DecayingBucket::refund`].
    pub fn refund(self, n: u64, taken: Timestamp) -> u64 {
        let _change = self.limiter.room.change(self.limiter);

        self.limiter.cell.update(|Parameters(bucket), bits| {
            // Read after the parameters, so that it is not older than they are.
            if taken.as_nanos() < self.limiter.changed_ns.load(Ordering::Acquire) {
                return Step::Stay(0);
            }
            let (state, units) = unpack(bits).give_back(self.now_ns, n, taken.as_nanos(), bucket);
            match units {
                0 => Step::Stay(0),
                _ => Step::Move(pack(state), units),
            }
        })
    }

    /// [`DecayingBucket::available`].
    pub fn available(self) -> u64 {
        if self.pass(None).is_err() {
            return 0;
        }
        let (Parameters(bucket), bits) = self.limiter.cell.view();
        self.room(&bucket, bits)
    }

    /// The whole units for which there is room.
    fn room(self, bucket: &Bucket, bits: u128) -> u64 {
        let state = unpack(bits);
        let missing = self.limiter.missing(state, self.now_ns, bucket);
        let State { time_ns, level } = state.at(self.now_ns, bucket);
        let level = level.saturating_add(missing);
        State { time_ns, level }.room(bucket)
    }

    /// [`DecayingBucket::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let limit = self.limiter.capacity();
        if let Err(denied) = self.pass(Some(limit)) {
            return Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            };
        }
        let (Parameters(bucket), bits) = self.limiter.cell.view();
        let state = unpack(bits);
        let limit = bucket.capacity();
        Snapshot {
            limit,
            remaining: self.room(&bucket, bits),
            reset_after: duration_from_nanos(self.limiter.wait_ns(
                state,
                self.now_ns,
                limit,
                &bucket,
            )),
        }
    }

    /// [`DecayingBucket::set`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set(self, capacity: u64, half_life: Duration) -> Result<(), QuotaError> {
        self.limiter.change(capacity, half_life, || self.now_ns)
    }
}

impl DecayingBucket {
    /// Pours in `n` units at `now_ns`, or counted as then if that is before the last admission.
    #[inline(always)]
    pub(super) fn take_now(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        let taken = self.cell.decide(|parameters, bits| {
            // Then it may also be before the last change.
            match now_ns < unpack(bits).time_ns {
                true => Err(None),
                false => parameters.take(bits, now_ns, n).map_err(Some),
            }
        });
        match taken {
            Ok(()) => Ok(()),
            Err(Some(denied)) => Err(denied),
            Err(None) => self.take_behind(now_ns, n),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_behind(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.cell
            .decide(|parameters, bits| self.taken(parameters, bits, now_ns, n))
    }

    /// The state with `n` units more.
    pub(super) fn taken(
        &self,
        parameters: &Parameters,
        bits: u128,
        now_ns: u64,
        n: u64,
    ) -> Result<u128, Denied> {
        let (state, bucket) = (unpack(bits), &parameters.0);
        if now_ns >= state.time_ns || n > bucket.capacity() {
            return parameters.take(bits, now_ns, n);
        }
        let missing = self.missing(state, now_ns, bucket);
        match state.take(now_ns, n, bucket) {
            Some(next) if next.level.saturating_add(missing) <= bucket.capacity_ticks => {
                Ok(pack(next))
            }
            _ => Err(Denied::later(self.wait_ns(state, now_ns, n, bucket), 1)),
        }
    }

    /// What had not yet decayed at `now_ns`, if that is before the last change.
    fn missing(&self, state: State, now_ns: u64, bucket: &Bucket) -> u64 {
        match now_ns < state.time_ns {
            true => self.pasts.lock().missing(state, now_ns, bucket),
            false => 0,
        }
    }

    /// How long after `now_ns` there is room for `n ≤ capacity` units.
    fn wait_ns(&self, state: State, now_ns: u64, n: u64, bucket: &Bucket) -> u128 {
        let room = bucket.capacity_ticks - (n << bucket.unit_shift);
        match room.checked_sub(state.level) {
            Some(most) if now_ns < state.time_ns => {
                let pasts = self.pasts.lock();
                u128::from(pasts.instant_ns(state, now_ns, most, bucket) - now_ns)
            }
            _ => state.wait_ns(now_ns, n, bucket),
        }
    }

    pub(super) fn change(
        &self,
        capacity: u64,
        half_life: Duration,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        let (capacity, half_life) = checked(capacity, half_life)?;
        let mut is_begun = false;
        self.cell.reconfigure(|Parameters(old), bits| {
            // The state has the time of the last admission, so that none decays by both.
            let before = unpack(bits);
            let state = before.at(now_ns(), old);
            self.changed_ns.fetch_max(state.time_ns, Ordering::AcqRel);
            let level_units = state.level.div_ceil(1 << old.unit_shift);
            let new = Bucket::new(capacity, half_life, level_units);
            let state = state.in_ticks_of(&new, old);
            let mut pasts = self.pasts.lock();
            if !is_begun {
                is_begun = true;
                pasts.begin();
            }
            pasts.note((*old, before), state);
            drop(pasts);
            (Parameters(new), pack(state), ())
        });
        Ok(())
    }
}

impl Parameters {
    /// Pours in `n` units at `now_ns`: the new state.
    #[inline(always)]
    pub(super) fn take(&self, bits: u128, now_ns: u64, n: u64) -> Result<u128, Denied> {
        let (state, bucket) = (unpack(bits), &self.0);
        if n > bucket.capacity() {
            return Err(Denied::never(n, bucket.capacity()));
        }
        match state.take(now_ns, n, bucket) {
            Some(state) => Ok(pack(state)),
            None => Err(denied(state, now_ns, n, bucket)),
        }
    }
}

#[cold]
fn denied(state: State, now_ns: u64, n: u64, bucket: &Bucket) -> Denied {
    Denied::later(state.wait_ns(now_ns, n, bucket), 1)
}
