//! Times before the last change of settings.
//!
//! A change leaves a state with its own time, because the level has decayed by the old half-life until then. A caller that
//! brings an earlier time finds the earlier level, by the old half-life, together with all units poured in since.

use crate::algorithm::decaying_bucket::{Bucket, State};

/// What a bucket keeps of the time before a change of settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// The state before the change, with the time of the last admission.
    before: State,
    /// The settings until the change.
    old: Bucket,
    /// What the change made of it.
    after: State,
    /// Whether there was no admission after the previous change. Then nothing more is known of times before that change.
    follows_a_change: bool,
}

/// The last change, and the one before it. While the last change is in progress, the state may still be that of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pasts {
    last: Option<Past>,
    previous: Option<Past>,
}

impl Pasts {
    pub(super) const NONE: Self = Self {
        last: None,
        previous: None,
    };

    /// Begins another change.
    pub(super) fn begin(&mut self) {
        self.previous = self.last;
    }

    /// Notes what the change that has begun makes of `before`, perhaps not for the first time.
    pub(super) fn note(&mut self, (old, before): (Bucket, State), after: State) {
        let follows = |previous: Past| previous.after.time_ns == before.time_ns;
        self.last = Some(Past {
            before,
            old,
            after,
            follows_a_change: self.previous.is_some_and(follows),
        });
    }

    /// The changes that nothing has been poured in since, if `state` is the state.
    fn of(&self, state: State) -> impl Iterator<Item = Past> {
        let all = [self.previous, self.last].into_iter().flatten();
        all.filter(move |past| past.after.time_ns == state.time_ns)
    }

    /// How much more there was at `now_ns` than in `state`, in ticks of `bucket`.
    pub(super) fn missing(&self, state: State, now_ns: u64, bucket: &Bucket) -> u64 {
        let missing = self.of(state).map(|past| past.missing(now_ns, bucket));
        missing.max().unwrap_or(0)
    }

    /// The first instant from `now_ns` on, up to the change, with at most `most` more than in `state`.
    pub(super) fn instant_ns(&self, state: State, now_ns: u64, most: u64, bucket: &Bucket) -> u64 {
        let instants = self
            .of(state)
            .map(|past| past.instant_ns(now_ns, most, bucket));
        instants.max().unwrap_or(now_ns)
    }
}

impl Past {
    /// Nothing of that is known before this.
    fn known_ns(&self) -> u64 {
        match self.follows_a_change {
            true => self.before.time_ns,
            false => 0,
        }
    }

    fn missing(&self, now_ns: u64, bucket: &Bucket) -> u64 {
        if now_ns >= self.after.time_ns {
            return 0;
        }
        if now_ns < self.known_ns() {
            return bucket.capacity_ticks;
        }
        let then = self.before.at(now_ns, &self.old);
        let then = then.in_ticks_of(bucket, &self.old);
        then.level.saturating_sub(self.after.level)
    }

    fn instant_ns(&self, now_ns: u64, most: u64, bucket: &Bucket) -> u64 {
        let known_ns = now_ns.max(self.known_ns());
        if self.missing(known_ns, bucket) <= most {
            return match self.missing(now_ns, bucket) <= most {
                true => now_ns,
                false => known_ns,
            };
        }
        let target = bucket.in_ticks_below(self.after.level + most, &self.old);
        let least_ns = self.old.half_life.least_ns(self.before.level, target);
        let instant_ns = u128::from(self.before.time_ns) + least_ns;
        // Less than that.
        instant_ns.min(self.after.time_ns.into()) as u64
    }
}
