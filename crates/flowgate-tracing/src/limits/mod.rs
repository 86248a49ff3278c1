//! Decides whether an event may be logged, and counts the others; filter and layer share it.
//!
//! | field | read by | written by | ordering |
//! |---|---|---|---|
//! | `untold` of a `Site`, of the cells of `Values` | the thread that reports, and takes all of it | each event that is left out adds one | relaxed: only its own value matters |
//! | `look_ns` | events that are logged; the thread that looks takes it | the first event that is left out; a thread that looks, and has found something that is not silent yet | released and acquired, so that the thread sees what it looks for |
//! | `seen`, `look_ns` of a `Site`; `of` of a cell | the thread that looks | the same thread, and the first event that is left out | relaxed: an old value makes a summary come early or late |
//!
//! An event that is left out is counted by one addition, and taken out by one exchange. So the reported events and the
//! unreported ones add up to the events that were left out, on every schedule.
//!
//! # Silence
//!
//! The first event of a callsite that is left out sets a time. After this time, an event that is logged, of any callsite,
//! looks how many have been left out by then. A second look that finds no more has found silence. The first event that was
//! left out of any callsite pays for a look at all callsites. Values are looked at in steps of bounded length.

mod by_callsite;
mod limit;
mod site;
mod value;
mod values;

pub(crate) use values::Values;

use crate::live::Live;
use by_callsite::ByCallsite;
use flowgate::{Clock, Denied, ImmediateLimit, KeyedError, Quota};
use limit::Limit;
use site::{Look, Site};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_core::dispatcher::{self, WeakDispatch};
use tracing_core::{Dispatch, Event, Level, Metadata};

/// See the module.
pub(crate) struct Limits {
    /// The quota of callsites; the lock is held while it changes.
    quota: Mutex<Quota>,
    clock: Clock,
    pub(crate) live: Live,
    silence_ns: u64,
    sites: ByCallsite<Arc<Site>>,
    /// By their numbers.
    numbered: Mutex<Vec<Arc<Site>>>,
    values: Option<Values>,
    limit_of: Option<Arc<LimitOf>>,
    /// When a callsite may have become silent; `u64::MAX`: nothing is unreported.
    look_ns: AtomicU64,
    /// The subscribers of layers that report.
    dispatches: Mutex<Vec<WeakDispatch>>,
    /// The number of threads that flush now.
    flushing: AtomicUsize,
}

/// Returns the limit of a callsite; `None`: one of the filter's quota.
pub(crate) type LimitOf =
    dyn Fn(&'static Metadata<'static>) -> Option<Arc<dyn ImmediateLimit>> + Send + Sync;

/// The suppressed events to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untold {
    All,
    /// Those of callsites that have become silent.
    OfSilent,
}

/// Whether `at_ns` has come. If so, the caller must look, and set another time.
fn is_time(at_ns: &AtomicU64, now_ns: u64) -> bool {
    if now_ns < at_ns.load(Ordering::Relaxed) {
        return false;
    }
    // Acquires what was released when it was set.
    let taken_ns = at_ns.swap(u64::MAX, Ordering::AcqRel);
    if taken_ns <= now_ns {
        return true;
    }
    // Another thread was faster, and has set this one.
    at_ns.fetch_min(taken_ns, Ordering::AcqRel);
    false
}

impl Limits {
    pub(crate) fn new(
        quota: Quota,
        clock: Clock,
        exempt: Option<Level>,
        values: Option<Values>,
        silence: Duration,
    ) -> Self {
        Self {
            quota: Mutex::new(quota),
            clock,
            live: Live::new(exempt),
            silence_ns: u64::try_from(silence.as_nanos()).unwrap_or(u64::MAX),
            sites: ByCallsite::new(),
            numbered: Mutex::default(),
            values,
            limit_of: None,
            look_ns: AtomicU64::new(u64::MAX),
            dispatches: Mutex::default(),
            flushing: AtomicUsize::new(0),
        }
    }

    pub(crate) fn with_limit_of(self, limit_of: Option<Arc<LimitOf>>) -> Self {
        Self { limit_of, ..self }
    }

    /// Whether the event may be heard; if not, it is counted.
    pub(crate) fn admits(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        if self.live.exempts(metadata) {
            return true;
        }
        if let Some((values, value)) = self.value_of(event) {
            let Err(denied) = values.try_acquire(value) else {
                // Made by an event that is heard, so that those that are not take no memory.
                self.site(metadata);
                return true;
            };
            values.leave_out(value, || {
                let free_ns = self.allowed_ns(&denied);
                let silent_ns = free_ns.saturating_add(self.silence_ns);
                (self.site(metadata).number, silent_ns)
            });
            return false;
        }
        let site = self.site(metadata);
        if site.limit.try_acquire().is_ok() {
            return true;
        }
        if site.leave_out() {
            let look_ns = self.now_ns().saturating_add(self.silence_ns);
            site.look_at(look_ns);
            // Releases to the look that takes it.
            self.look_ns.fetch_min(look_ns, Ordering::AcqRel);
        }
        false
    }

    /// Calls `tell` with the number of suppressed events like this one, which is logged, if there are any.
    pub(crate) fn told(&self, event: &Event<'_>, tell: impl FnOnce(&Event<'_>)) {
        let metadata = event.metadata();
        if self.live.is_exempt_level(metadata) {
            return;
        }
        let suppressed = match self.value_of(event) {
            Some((values, value)) => values.take_untold(value),
            None => self
                .sites
                .get(metadata)
                .map_or(0, |site| site.take_untold()),
        };
        if suppressed == 0 {
            return;
        }
        let field = self.field();
        let text = field.and_then(|field| value::text(event, field));
        let summary = self.site(metadata).summary(field);
        summary.say(suppressed, text.as_deref(), event, tell);
    }

    /// Calls `tell` with the number of suppressed events of callsites that have become silent. Usually there are none,
    /// which costs one or two loads.
    #[inline]
    pub(crate) fn tell_silent(&self, mut tell: impl FnMut(&Event<'_>)) {
        self.look_at_values();
        if self.look_ns.load(Ordering::Relaxed) != u64::MAX {
            self.look_at_sites(|site, next_ns| site.tell_alone(self.field(), next_ns, &mut tell));
        }
    }

    fn look_at_values(&self) {
        if let Some(values) = &self.values {
            let now_ns = || self.now_ns();
            values.look(now_ns, |site, n| self.take_over(site, n));
        }
    }

    /// Passes the callsites that have become silent to `tell`, each with the time before which it is not to be reported
    /// again.
    #[cold]
    fn look_at_sites<'a>(&'a self, mut tell: impl FnMut(&'a Arc<Site>, u64)) {
        let now_ns = self.now_ns();
        if !is_time(&self.look_ns, now_ns) {
            return;
        }
        for site in self.sites.iter() {
            match site.look(now_ns, self.silence_ns) {
                Look::Nothing => {}
                Look::At(look_ns) => _ = self.look_ns.fetch_min(look_ns, Ordering::AcqRel),
                Look::Silent => tell(site, now_ns.saturating_add(self.silence_ns)),
            }
        }
    }

    /// Counts events of a callsite as left out by the callsite, and no longer by their values.
    fn take_over(&self, site: usize, n: u64) {
        let site = held(&self.numbered).get(site).map(Arc::clone);
        if let Some(site) = site {
            let look_ns = site.take_over(n, self.now_ns());
            self.look_ns.fetch_min(look_ns, Ordering::AcqRel);
        }
    }

    /// Has the layers that report do so now.
    ///
    /// A layer can be reached with the context that it needs only through its subscriber. So this method asks each
    /// subscriber whether the summary of a callsite would be enabled. Only a layer that reports handles this question, in
    /// [`tell_asked`](Self::tell_asked). It denies, which ends the question, and makes the subscriber forget what other
    /// filters have decided.
    pub(crate) fn flush(&self, untold: Untold) {
        let mut sites = Vec::new();
        match untold {
            Untold::All => {
                if let Some(values) = &self.values {
                    values.take_all(|site, n| self.take_over(site, n));
                }
                sites.extend(self.sites.iter().filter(|site| site.untold() != 0));
            }
            Untold::OfSilent => {
                self.look_at_values();
                self.look_at_sites(|site, _| sites.push(site));
            }
        }
        if sites.is_empty() {
            return;
        }
        let _flushing = Flushing::new(&self.flushing);
        let known = held(&self.dispatches).clone();
        let known: Vec<_> = known.iter().filter_map(WeakDispatch::upgrade).collect();
        for site in sites {
            let metadata = site.summary(self.field()).own_metadata();
            for dispatch in &known {
                dispatch.enabled(metadata);
            }
            // Some layers do not pass their dispatch on to the layers inside.
            dispatcher::get_default(|dispatch| dispatch.enabled(metadata));
            if site.untold() != 0 {
                let again_ns = self.now_ns().saturating_add(self.silence_ns);
                self.look_ns.fetch_min(again_ns, Ordering::AcqRel);
            }
        }
    }

    /// Whether this is the question for the summary of a callsite. If so, `tell` reports what is left to report.
    #[inline]
    pub(crate) fn tell_asked(
        &self,
        metadata: &Metadata<'_>,
        tell: impl FnOnce(&Event<'_>),
    ) -> bool {
        self.flushing.load(Ordering::Relaxed) != 0 && self.tell_if_asked(metadata, tell)
    }

    #[cold]
    fn tell_if_asked(&self, metadata: &Metadata<'_>, tell: impl FnOnce(&Event<'_>)) -> bool {
        let asked = metadata.callsite();
        let is_asked = |site: &&Arc<Site>| {
            let summary = site.known_summary();
            summary.is_some_and(|summary| summary.own_metadata().callsite() == asked)
        };
        let Some(site) = self.sites.iter().find(is_asked) else {
            return false;
        };
        let next_ns = self.now_ns().saturating_add(self.silence_ns);
        site.tell_alone(self.field(), next_ns, tell);
        true
    }

    /// Remembers the subscriber of a layer that reports.
    pub(crate) fn registered(&self, dispatch: &Dispatch) {
        let mut dispatches = held(&self.dispatches);
        dispatches.retain(|known| known.upgrade().is_some());
        dispatches.push(dispatch.downgrade());
    }

    /// The suppressed events that have not been reported yet.
    pub(crate) fn suppressed(&self) -> u64 {
        let by_site: u64 = self.sites.iter().map(|site| site.untold()).sum();
        by_site + self.values.as_ref().map_or(0, Values::suppressed)
    }

    pub(crate) fn quota(&self) -> Quota {
        *held(&self.quota)
    }

    /// Changes the quota of all callsites and values, or, if values cannot have it, of none.
    pub(crate) fn set_quota(&self, quota: Quota) -> Result<(), KeyedError> {
        let mut current = held(&self.quota);
        if let Some(values) = &self.values {
            values.set_quota(quota)?;
        }
        *current = quota;
        for site in self.sites.iter() {
            site.limit.set_quota(quota);
        }
        Ok(())
    }

    fn field(&self) -> Option<&'static str> {
        self.values.as_ref().map(Values::field)
    }

    fn value_of(&self, event: &Event<'_>) -> Option<(&Values, u64)> {
        let values = self.values.as_ref()?;
        Some((values, values.value_of(event)?))
    }

    fn now_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// The time at which a denied event would be allowed, or now if it is not known.
    fn allowed_ns(&self, denied: &Denied) -> u64 {
        let wait = denied.retry_after().unwrap_or_default();
        (self.clock.now() + wait).as_nanos()
    }

    fn site(&self, metadata: &'static Metadata<'static>) -> &Site {
        let made_with = Cell::new(None);
        let site = self.sites.get_or_insert(metadata, || {
            let quota = self.quota();
            made_with.set(Some(quota));
            // The program's code is called without the lock.
            let given = self.limit_of.as_ref().and_then(|of| of(metadata));
            let limit = given.map_or_else(|| Limit::own(quota, &self.clock), Limit::Given);
            let mut numbered = held(&self.numbered);
            let site = Site::new(metadata, numbered.len(), limit);
            let site = Arc::new(site);
            numbered.push(Arc::clone(&site));
            site
        });
        if let Some(made_with) = made_with.get() {
            // A concurrent change of the quota may not have found this callsite.
            let quota = held(&self.quota);
            if *quota != made_with {
                site.limit.set_quota(*quota);
            }
        }
        site
    }
}

/// A panic while one of these locks is held leaves the data complete.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a thread while it flushes.
struct Flushing<'a>(&'a AtomicUsize);

impl<'a> Flushing<'a> {
    fn new(flushing: &'a AtomicUsize) -> Self {
        flushing.fetch_add(1, Ordering::Relaxed);
        Self(flushing)
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("quota", &self.quota())
            .field("live", &self.live)
            .field("by_field", &self.field())
            .field("suppressed", &self.suppressed())
            .finish_non_exhaustive()
    }
}
