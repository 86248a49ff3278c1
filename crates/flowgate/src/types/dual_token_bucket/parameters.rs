//! The integers that are computed from two quotas, and the bits of the state.
//!
//! ```text
//!  111 ························· s s-1 ····················· 0
//!  first arrival time, in grains     second one, in grains
//! ```
//!
//! Both count from `base_ns`, so that each takes hardly more bits than its burst in ticks; see [`Quotas::shares`] for *s*. If
//! one gets too far from the base for that, the base moves after it. That is a change of parameters like any other. It happens
//! once in the time that the shares leave as room: hours for usual quotas, and at least 17 ms.
//!
//! A grain is one tick, and nothing is rounded, unless the two bursts in ticks take more than 112 bits together. Then a grain
//! is a power of two of ticks, and the stored times are rounded up, toward refusing.

use crate::algorithm::dual_token_bucket::{self as algorithm, Bucket, Buckets, Shortage, State};
use crate::limiter::QuotaState;
use crate::quota::{Quota, Quotas, STATE_BITS, Share};
use crate::store::cell;
use crate::store::cell::MovingBase as _;
use crate::verdict::{Denied, Verdict, duration_from_nanos};

/// The number of words for the parameters.
pub(super) const WORDS: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) buckets: Buckets,
    pub(super) shares: [Share; 2],
    /// 1 to 2³².
    pub(super) units_per_token: u64,
    /// The base from which the arrival times are counted.
    pub(super) base_ns: u64,
    /// The time of the last change of quotas; 0: none.
    pub(super) since_ns: u64,
    /// Counts the changes that make older receipts worthless.
    pub(super) epoch: u64,
}

const fn bucket(quota: &Quota) -> Bucket {
    let ratio = quota.ratio();
    Bucket {
        ticks_per_ns: ratio.units,
        unit_ticks: ratio.nanos,
        burst_units: quota.burst_units(),
    }
}

const _: () = assert!(cell::STATE_MAX >> (STATE_BITS - 1) == 1);

/// Where the fields of the sixth word begin.
const SECOND_BITS_AT: u32 = 33;
const SECOND_GRAIN_AT: u32 = SECOND_BITS_AT + 7;
const FIRST_GRAIN_AT: u32 = SECOND_GRAIN_AT + 7;
const SMALL_FIELD: u64 = (1 << 7) - 1;

impl cell::Parameters<WORDS> for Parameters {
    fn to_words(&self) -> [u64; WORDS] {
        self.words()
    }

    #[inline(always)]
    fn from_words(words: [u64; WORDS]) -> Self {
        let [
            first_unit,
            second_unit,
            first_burst,
            second_burst,
            ticks_per_ns,
            layout,
            base_ns,
            since_ns,
            epoch,
        ] = words;
        let second_bits = (layout >> SECOND_BITS_AT & SMALL_FIELD) as u32;
        Self {
            buckets: [
                Bucket {
                    ticks_per_ns: ticks_per_ns >> 32,
                    unit_ticks: first_unit,
                    burst_units: first_burst,
                },
                Bucket {
                    ticks_per_ns: ticks_per_ns & 0xffff_ffff,
                    unit_ticks: second_unit,
                    burst_units: second_burst,
                },
            ],
            shares: [
                Share {
                    bits: STATE_BITS - second_bits,
                    grain: (layout >> FIRST_GRAIN_AT & SMALL_FIELD) as u32,
                },
                Share {
                    bits: second_bits,
                    grain: (layout >> SECOND_GRAIN_AT & SMALL_FIELD) as u32,
                },
            ],
            units_per_token: layout & ((1 << SECOND_BITS_AT) - 1),
            base_ns,
            since_ns,
            epoch,
        }
    }
}

impl cell::MovingBase<WORDS> for Parameters {
    type State = State;

    #[inline(always)]
    fn unpack(&self, word: u128) -> State {
        let second_bits = self.shares[1].bits;
        let grains = [word >> second_bits, word & ((1 << second_bits) - 1)];
        let tat = |index: usize| {
            let ticks = match self.shares[index].grain {
                0 => grains[index],
                grain => grains[index] << grain,
            };
            self.base(index) + ticks
        };
        State([tat(0), tat(1)])
    }

    #[inline(always)]
    fn pack(&self, state: State) -> Option<u128> {
        let grains = |index: usize| {
            let ticks = state.0[index].checked_sub(self.base(index))?;
            let grains = match self.shares[index].grain {
                0 => ticks,
                grain => (ticks + ((1 << grain) - 1)) >> grain,
            };
            (grains >> self.shares[index].bits == 0).then_some(grains)
        };
        Some(grains(0)? << self.shares[1].bits | grains(1)?)
    }

    /// Nothing is known of the time before the last change of quotas. A caller that has read the clock before it is refused
    /// until the change, and then as long as necessary.
    #[inline(always)]
    fn take(&self, state: State, now_ns: u64, n: u64) -> Result<Option<State>, Denied> {
        if n == 0 {
            return Ok(None);
        }
        let smaller = algorithm::smaller(&self.buckets);
        if n > self.buckets[smaller].burst_units {
            return Err(self.never(n));
        }
        if now_ns < self.since_ns {
            return Err(self.before_the_change(state, now_ns, n));
        }
        match algorithm::take(&self.buckets, state, now_ns, n) {
            Ok(state) => Ok(Some(state)),
            Err(shortage) => Err(denied(shortage)),
        }
    }

    fn rebased(&self, state: State) -> (Self, u128) {
        let horizon_ns = algorithm::horizon_ns(&self.buckets, state);
        let rebased = Self {
            base_ns: horizon_ns.saturating_sub(self.lead_ns()),
            ..*self
        };
        // Nothing looks back beyond the horizon, so neither beyond the base.
        let reached = |index: usize| state.0[index].max(rebased.base(index));
        let bits = rebased.pack(State([reached(0), reached(1)]));
        debug_assert!(bits.is_some(), "the base was laid for {state:?}");
        (rebased, bits.unwrap_or(cell::STATE_MAX))
    }
}

impl Parameters {
    pub(super) const fn new(quotas: &Quotas) -> Self {
        let (first, buckets) = match quotas.as_slice() {
            [first] => (first, [bucket(first), Bucket::NONE]),
            [first, second, ..] => (first, [bucket(first), bucket(second)]),
            [] => panic!("there is always one"),
        };
        Self {
            buckets,
            shares: quotas.shares(),
            units_per_token: first.scale(),
            base_ns: 0,
            since_ns: 0,
            epoch: 0,
        }
    }

    pub(super) const fn words(&self) -> [u64; WORDS] {
        let [first, second] = &self.buckets;
        let [first_share, second_share] = &self.shares;
        [
            first.unit_ticks,
            second.unit_ticks,
            first.burst_units,
            second.burst_units,
            // At most 2³¹ each.
            first.ticks_per_ns << 32 | second.ticks_per_ns,
            (first_share.grain as u64) << FIRST_GRAIN_AT
                | (second_share.grain as u64) << SECOND_GRAIN_AT
                | (second_share.bits as u64) << SECOND_BITS_AT
                | self.units_per_token,
            self.base_ns,
            self.since_ns,
            self.epoch,
        ]
    }

    /// How far before the horizon a base is set. It is a part of the room, so that an undone grant finds its state there.
    fn lead_ns(&self) -> u64 {
        let room_ns = |index: usize| {
            let (bucket, share) = (&self.buckets[index], self.shares[index]);
            let end = 1_u128 << (share.bits + share.grain);
            let room = end.saturating_sub(bucket.burst_ticks());
            room.checked_div(bucket.ticks_per_ns.into())
                .unwrap_or(u128::MAX)
        };
        let room_ns = room_ns(0).min(room_ns(1));
        u64::try_from(room_ns / 8).unwrap_or(u64::MAX)
    }

    /// A whole number of grains, so that a state is rounded in the same way from any base.
    #[inline(always)]
    fn base(&self, index: usize) -> u128 {
        let base = self.buckets[index].ticks_in(self.base_ns.into());
        match self.shares[index].grain {
            0 => base,
            grain => base >> grain << grain,
        }
    }

    /// `state` as it is stored: in whole grains.
    pub(super) fn stored(&self, state: State) -> State {
        let stored = |index: usize| state.0[index].next_multiple_of(1 << self.shares[index].grain);
        State([stored(0), stored(1)])
    }

    /// The parameters after `back` units were returned. After that, receipts of earlier grants may match the new state by
    /// accident, or have a wrong time at which a bucket was full.
    pub(super) fn after_giving(&self, back: u64) -> Self {
        Self {
            epoch: self.epoch + u64::from(back > 0),
            ..*self
        }
    }

    /// The most units in one request.
    pub(super) fn limit(&self) -> u64 {
        self.buckets[algorithm::smaller(&self.buckets)].burst_units
    }

    pub(super) fn available(&self, state: State, now_ns: u64) -> u64 {
        match now_ns < self.since_ns {
            true => 0,
            false => algorithm::available(&self.buckets, state, now_ns),
        }
    }

    /// The state of the quota at `index`, which is `quota`, alone.
    pub(super) fn quota_state(
        &self,
        state: State,
        now_ns: u64,
        index: usize,
        quota: Quota,
    ) -> QuotaState {
        let (bucket, tat) = (&self.buckets[index], state.0[index]);
        let from_ns = now_ns.max(self.since_ns);
        let early_ns = u128::from(from_ns - now_ns);
        let units = match early_ns {
            0 => bucket.units_at(tat, now_ns),
            _ => 0,
        };
        QuotaState::new(quota, units, |n| {
            duration_from_nanos(early_ns + bucket.wait_ns(tat, from_ns, n))
        })
    }

    /// Takes `n` units at the first time that they can be used, unless that is more than `max_wait_ns` ahead. Returns the new
    /// state, if there is one, and that time.
    pub(super) fn reserve(
        &self,
        state: State,
        now_ns: u64,
        n: u64,
        max_wait_ns: Option<u128>,
    ) -> Result<(Option<State>, u64), Denied> {
        if n == 0 {
            return Ok((None, now_ns));
        }
        if n > self.limit() {
            return Err(self.never(n));
        }
        let from_ns = now_ns.max(self.since_ns);
        let (reserved, at_ns) = algorithm::reserve(&self.buckets, state, from_ns, n);
        let at_ns = u64::try_from(at_ns).map_err(|_| Denied::too_late())?;
        let wait_ns = at_ns - now_ns;
        match max_wait_ns.map(|max_wait_ns| u128::from(wait_ns).saturating_sub(max_wait_ns)) {
            None | Some(0) => Ok((Some(reserved), at_ns)),
            Some(longer_ns) => {
                let denied = self.delay(state, now_ns, 0, n).err();
                // Less than the wait.
                let longer = |denied: Denied| denied.for_ns(longer_ns as u64);
                Err(denied.map_or_else(Denied::too_late, longer))
            }
        }
    }

    /// How long a queue that asks for `ahead` units takes, and then `n` more. It is exact if no waiter is ahead.
    pub(super) fn delay(&self, state: State, now_ns: u64, ahead: u128, n: u64) -> Verdict {
        if ahead == 0 || n > self.limit() {
            return self.take(state, now_ns, n).map(|_| ());
        }
        let early_ns = self.since_ns.saturating_sub(now_ns);
        let from_ns = now_ns.max(self.since_ns);
        match algorithm::delay(&self.buckets, state, from_ns, ahead, n) {
            Ok(()) if early_ns == 0 => Ok(()),
            Ok(()) => Err(Denied::later(early_ns.into(), 1)),
            // In nanoseconds.
            Err(Shortage { ticks, quota, .. }) => {
                let ticks = ticks.saturating_add(early_ns.into());
                Err(Denied::later(ticks, 1).by_limit(quota))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn never(&self, n: u64) -> Denied {
        let smaller = algorithm::smaller(&self.buckets);
        Denied::never(n, self.buckets[smaller].burst_units).by_limit(smaller)
    }

    #[cold]
    #[inline(never)]
    fn before_the_change(&self, state: State, now_ns: u64, n: u64) -> Denied {
        let early_ns = self.since_ns - now_ns;
        match algorithm::take(&self.buckets, state, self.since_ns, n) {
            Ok(_) => Denied::later(early_ns.into(), 1),
            Err(shortage) => {
                let ticks = self.buckets[shortage.quota].ticks_in(early_ns.into()) + shortage.ticks;
                denied(Shortage { ticks, ..shortage })
            }
        }
    }
}

fn denied(shortage: Shortage) -> Denied {
    Denied::later_by(shortage.ticks, shortage.ticks_per_ns, shortage.quota)
}
