//! Whether an event may be heard, and how many like it were not; what filter and layer share.
//!
//! | field | read by | written by | ordering |
//! |---|---|---|---|
//! | `Site::untold`, cells of `Values` | who is heard again, and takes all of it | each event that is left out adds one | relaxed: only its own value matters |
//!
//! An event that is left out is counted by one addition, and taken out by one exchange, so that what was said, and
//! what is still to be said, add up to the events that were left out, on every schedule.

mod by_callsite;
mod value;
mod values;

pub(crate) use values::Values;

use crate::summary::Summary;
use by_callsite::ByCallsite;
use flowgate::{Clock, Quota, TokenBucket};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::{Event, Level, Metadata};

/// See the module.
pub(crate) struct Limits {
    quota: Quota,
    clock: Clock,
    exempt: Option<Level>,
    sites: ByCallsite<Site>,
    values: Option<Values>,
    summaries: ByCallsite<&'static Summary>,
}

/// A callsite's limit.
struct Site {
    limiter: TokenBucket,
    untold: AtomicU64,
}

impl Limits {
    pub(crate) fn new(
        quota: Quota,
        clock: Clock,
        exempt: Option<Level>,
        values: Option<Values>,
    ) -> Self {
        Self {
            quota,
            clock,
            exempt,
            sites: ByCallsite::new(),
            values,
            summaries: ByCallsite::new(),
        }
    }

    /// Whether the event may be heard; if not, it is counted.
    pub(crate) fn admits(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        if self.is_exempt(metadata) {
            return true;
        }
        if let Some((values, value)) = self.value_of(event) {
            return values.admits(value);
        }
        let site = self.sites.get_or_insert(metadata, || self.new_site());
        let admitted = site.limiter.try_acquire().is_ok();
        if !admitted {
            site.untold.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Has `tell` say how many like this one, which is heard, were not, if there were any.
    pub(crate) fn told(&self, event: &Event<'_>, tell: impl FnOnce(&Event<'_>)) {
        let metadata = event.metadata();
        if self.is_exempt(metadata) {
            return;
        }
        let by_value = self.value_of(event);
        let untold = match by_value {
            Some((values, value)) => values.cell(value),
            None => match self.sites.get(metadata) {
                Some(site) => &site.untold,
                None => return,
            },
        };
        // Mostly there are none, and the line stays with whoever has it.
        if untold.load(Ordering::Relaxed) == 0 {
            return;
        }
        let suppressed = untold.swap(0, Ordering::Relaxed);
        if suppressed == 0 {
            return;
        }
        // Kept for all of this callsite: those with a value, and those without.
        let field = self.values.as_ref().map(Values::field);
        let text = field.and_then(|field| value::text(event, field));
        let summary = self
            .summaries
            .get_or_insert(metadata, || Summary::new(metadata, field));
        summary.say(suppressed, text.as_deref(), event, tell);
    }

    /// Events that were left out, and that nobody has been told of.
    pub(crate) fn suppressed(&self) -> u64 {
        let sites = self.sites.iter();
        let by_site: u64 = sites.map(|site| site.untold.load(Ordering::Relaxed)).sum();
        by_site + self.values.as_ref().map_or(0, Values::suppressed)
    }

    fn is_exempt(&self, metadata: &Metadata<'_>) -> bool {
        // The more severe, the less.
        self.exempt.is_some_and(|level| *metadata.level() <= level)
    }

    fn value_of(&self, event: &Event<'_>) -> Option<(&Values, u64)> {
        let values = self.values.as_ref()?;
        Some((values, values.value_of(event)?))
    }

    fn new_site(&self) -> Site {
        let limiter = TokenBucket::builder(self.quota).clock(&self.clock).build();
        Site {
            // With no other setting there is no error.
            limiter: limiter.unwrap_or_else(|_| TokenBucket::new(self.quota)),
            untold: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("quota", &self.quota)
            .field("exempt", &self.exempt)
            .field("by_field", &self.values.as_ref().map(Values::field))
            .field("suppressed", &self.suppressed())
            .finish_non_exhaustive()
    }
}
