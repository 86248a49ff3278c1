//! Where a limiter's state lives: one atomic word, changed by compare-and-swap.
//!
//! # Two layouts
//!
//! Exactness for every quota takes 128 bits: a day in steps of 10⁻⁹ ns does not fit into less. But nearly every quota in real
//! use fits into 64 bits, and a decision is faster there than with any 128-bit atomic. So the state is kept in the 64-bit word
//! if it fits ([`Layout::Narrow`]), counted from a base, and otherwise in the 128-bit word. All layouts run the same step.
//!
//! The clock can get too far past the base: after 208 days at 1,000 per second, after 5 hours at 999 per second. The next
//! decision then moves the base, together with the state that it leaves. Moving the base is a change of parameters like any
//! other, and so is moving between the two words. Neither loses anything.
//!
//! # Changing the parameters
//!
//! The word contains the generation of the current parameters ([`versioned`](crate::primitive::versioned)). A change holds
//! `config`, stores the parameters of the next generation, and swaps the word for one of that generation, with the state
//! re-expressed. A decision commits only if its parameters are still current. A refusal commits nothing; it only needs
//! parameters of one generation.
//!
//! The parameters of the 64-bit step are in `hot`, next to the word, and in one version. From the time when a change overwrites
//! them until it swaps the word, decisions find another tag, and use `take_slowly` instead. That method reads `cold`, which has
//! two versions, so that the parameters of the current generation are always complete.
//!
//! If the layout before or after the change is wide, there are two words to change. A change from the narrow layout fills the
//! wide word first, which no thread reads yet. A change from the wide layout changes the wide word first, which ends all
//! decisions of the old generation. A decision that finds the two words in disagreement waits for `config`, that is, for the
//! end of the change.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `narrow` | every decision | decisions (CAS); changes; threads that hold new requests | generation in the word |
//! | `wide` | decisions in the wide layout | those decisions (CAS); changes | generation in the word |
//! | `hot` | 64-bit decisions | changes | `config`; readers: the tag |
//! | `first` | other decisions, until `changes` are made | no thread | generation 0 |
//! | `changes` | changes; other decisions | the first thread that changes something | made once |
//! | `Changes::cold`, version g | other decisions of generation g | the change to generation g | `config`; readers: the tag |
//! | `Changes::config` | changes | changes | itself |
//!
//! A generation has 7 bits in the narrow word and 14 bits in the wide one. A decision can be suspended between its last check
//! of the tag and its swap. If exactly a multiple of 128 changes happens in that time, the decision commits with its old
//! parameters: one operation.
//!
//! # Memory
//!
//! Most limiters keep the parameters that they were built with. So a word has these parameters in `first`, in a few bytes.
//! [`Changes`] are made at the first change of the quota, of the layout, or of the base. A decision makes them only if it makes
//! such a change itself.

mod changes;
mod cold;
mod first;
mod hot;
mod intervals;
mod layout;
#[cfg(all(test, flowgate_loom))]
mod model;
mod parameters;
mod past;
mod rule;
mod shared;
mod windows_behind;

pub(crate) use crate::algorithm::Step;
use crate::algorithm::token_bucket;
pub(crate) use intervals::BEFORE_ORIGIN;
pub(crate) use parameters::{Layout, Parameters};
pub(crate) use rule::{FixedWindow, Rule, TokenBucket};
use shared::Stripes;
pub(crate) use shared::{Centre, Stripe};

use crate::primitive::backoff;
use crate::primitive::{AtomicU64, AtomicU128, Lazy, Ordering, const_unless_loom};
use crate::verdict::{Denied, Verdict};
use alloc::boxed::Box;
use changes::{Changes, Config};
use core::marker::PhantomData;
use first::First;
use layout::{Narrow, Shared, Wide};
use past::{Behind, Past};

/// The state of a limiter with the rule `R`; see the module.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Word<R> {
    narrow: AtomicU64,
    /// Up to here it is one cache line.
    hot: hot::Version,
    wide: AtomicU128,
    first: First,
    changes: Lazy<Box<Changes>>,
    rule: PhantomData<R>,
}

/// A consistent snapshot of the state and the current parameters.
pub(crate) struct View<'a> {
    pub(crate) parameters: Parameters,
    /// The state as the rule interprets it.
    pub(crate) state: u128,
    /// Limiter time.
    pub(crate) now: u128,
    now_ns: u64,
    /// If this is a time before the last change of quota. Then `state` is what is seen at that time. `now` is the change,
    /// except in windows.
    behind: Option<&'a Behind>,
    raw: Raw,
}

/// The bits that a commit has to find unchanged.
#[derive(Clone, Copy)]
enum Raw {
    Narrow {
        word: u64,
        generation: u64,
    },
    Wide {
        word: u128,
        generation: u64,
    },
    /// No units are issued to stripes.
    Shared {
        word: u128,
        generation: u64,
    },
}

/// What the 64-bit step uses, as long as the word has these flags.
struct Terms {
    flags: u64,
    now: u64,
    cost: u64,
    burst: u64,
    ticks_per_ns: u64,
}

impl Terms {
    #[inline(always)]
    fn take<R: Rule>(&self, word: u64) -> Option<Result<u64, u64>> {
        let state = word & !Narrow::FLAGS;
        R::take_plain(state, self.now, self.cost, self.burst, self.ticks_per_ns)
    }

    fn denied(&self, missing: u64) -> Denied {
        Denied::later(u128::from(missing), self.ticks_per_ns)
    }
}

impl<R: Rule> Word<R> {
    const_unless_loom! {
        /// A limiter that is always full; a window without counts. The parameters are plain ([`First`]).
        pub(crate) const fn new(parameters: Parameters) -> Self {
            let word = Self {
                narrow: AtomicU64::new(Narrow::pack(0, 0, false)),
                hot: hot::Version::new(0, &hot::words(&parameters)),
                wide: AtomicU128::new(Wide::pack(0, 0)),
                first: First::new(&parameters),
                changes: Lazy::new(),
                rule: PhantomData,
            };
            // One model explores the making of the changes; it would slow down all other models.
            #[cfg(flowgate_loom)]
            word.changes();
            word
        }
    }

    /// In `state`, with any parameters.
    pub(crate) fn built(parameters: Parameters, state: u128) -> Self {
        let word = Self::new(parameters);
        if !First::is_all_of(&parameters) {
            word.reconfigure(|_, _| (parameters, state, ()));
            return word;
        }
        // No other thread has it yet.
        let narrow = match parameters.layout {
            Layout::Narrow { .. } => Narrow::pack(state, 0, false),
            Layout::Wide | Layout::Shared => Narrow::pack(0, 0, false),
        };
        word.narrow.store(narrow, Ordering::Relaxed);
        word.wide.store(Wide::pack(state, 0), Ordering::Relaxed);
        word
    }

    /// Returns what a change of the parameters needs.
    fn changes(&self) -> &Changes {
        let make = || Box::new(Changes::new(self.first.parameters::<R>()));
        self.changes.get_or_make(make)
    }

    fn stripes(&self) -> Option<&Stripes> {
        self.changes.get()?.stripes.as_ref()
    }

    /// Takes one token; asks at the `door` while new requests are held.
    #[inline]
    pub(crate) fn take_token(&self, now_ns: u64, door: impl Fn() -> Verdict) -> Verdict {
        self.take(
            now_ns,
            |hot| Some(hot.word(hot::TOKEN_TICKS)),
            |parameters| parameters.units_per_token,
            door,
        )
    }

    /// Takes `n` units; asks at the `door` while new requests are held.
    #[inline]
    pub(crate) fn take_units(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        if n == 0 {
            return Ok(());
        }
        self.take(
            now_ns,
            |hot| n.checked_mul(hot.word(hot::UNIT_TICKS)),
            |_| n,
            door,
        )
    }

    /// Makes new requests ask at the door from now on, or ends that.
    pub(crate) fn hold(&self, held: bool) {
        if held {
            self.narrow.fetch_or(Narrow::HELD, Ordering::AcqRel);
        } else {
            self.narrow.fetch_and(!Narrow::HELD, Ordering::AcqRel);
        }
        if held {
            self.close_stripes();
        }
    }

    /// The decision: one clock reading, which the caller has made, and one compare-and-swap.
    ///
    /// `take_slowly` decides all unusual cases: a wide layout, new requests held at the door, limiter time that moves in
    /// intervals, a change in progress, more than the burst, and a new window.
    #[inline(always)]
    fn take(
        &self,
        now_ns: u64,
        cost: impl Fn(&hot::Version) -> Option<u64>,
        units: impl Fn(&Parameters) -> u64,
        door: impl Fn() -> Verdict,
    ) -> Verdict {
        // Acquire: pairs with the Release of the change that made this generation current, through the relaxed swaps of later
        // decisions, which continue its release sequence.
        let word = self.narrow.load(Ordering::Acquire);
        let Some(terms) = self.terms(word, now_ns, &cost) else {
            return self.take_slowly(now_ns, units, door);
        };
        match terms.take::<R>(word) {
            None => self.take_slowly(now_ns, units, door),
            Some(Err(missing)) => Err(terms.denied(missing)),
            Some(Ok(state)) if self.put(word, state | terms.flags) => Ok(()),
            Some(Ok(_)) => self.take_among_others(now_ns, cost, units, door),
        }
    }

    /// [`take`](Self::take), after another thread came first.
    #[cold]
    #[inline(never)]
    fn take_among_others(
        &self,
        now_ns: u64,
        cost: impl Fn(&hot::Version) -> Option<u64>,
        units: impl Fn(&Parameters) -> u64,
        door: impl Fn() -> Verdict,
    ) -> Verdict {
        let mut lost = 0;
        loop {
            backoff::pause(lost, now_ns);
            let word = self.narrow.load(Ordering::Acquire);
            let Some(terms) = self.terms(word, now_ns, &cost) else {
                return self.take_slowly(now_ns, units, door);
            };
            match terms.take::<R>(word) {
                None => return self.take_slowly(now_ns, units, door),
                Some(Err(missing)) => return Err(terms.denied(missing)),
                Some(Ok(state)) if self.put(word, state | terms.flags) => return Ok(()),
                Some(Ok(_)) => lost += 1,
            }
        }
    }

    /// Returns the terms that belong to `word`; `None` if the 64-bit step does not apply.
    #[inline(always)]
    fn terms(
        &self,
        word: u64,
        now_ns: u64,
        cost: impl Fn(&hot::Version) -> Option<u64>,
    ) -> Option<Terms> {
        let hot = &self.hot;
        let elapsed_ns = now_ns.wrapping_sub(hot.word(hot::BASE_NS));
        let span_ns = hot.word(hot::SPAN_NS);
        let burst = hot.word(hot::BURST_TICKS);
        let cost = cost(hot);
        let ticks_per_ns = hot.word(hot::TICKS_PER_NS);
        // Last, see `primitive::versioned`: equal flags mean that all values above are of the word's generation, and that new
        // requests are not held.
        let flags = word & Narrow::FLAGS;
        if hot.tag() & Narrow::FLAGS != flags || elapsed_ns >= span_ns {
            return None;
        }
        Some(Terms {
            flags,
            // Less than the span keeps the product, and every sum in the step, within 64 bits.
            now: elapsed_ns * ticks_per_ns,
            cost: cost.filter(|&cost| cost <= burst)?,
            burst,
            ticks_per_ns,
        })
    }

    /// Replaces `word` by `new`, if no other thread has come first.
    #[inline(always)]
    fn put(&self, word: u64, new: u64) -> bool {
        self.narrow
            .compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// As [`put`](Self::put), in the 128-bit word.
    #[inline(always)]
    fn put_wide(&self, word: u128, new: u128) -> bool {
        self.wide
            .compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    // `inline`, so that each program compiles its own: called across crates, it takes 13 instructions more. `cold` keeps it
    // out of `take`.
    #[cold]
    #[inline]
    fn take_slowly(
        &self,
        now_ns: u64,
        units: impl Fn(&Parameters) -> u64,
        door: impl Fn() -> Verdict,
    ) -> Verdict {
        if Narrow::is_held(self.narrow.load(Ordering::Acquire)) {
            door()?;
        }
        if let Some(verdict) = self.take_wide(now_ns, &units) {
            return verdict;
        }
        self.update(now_ns, |view| {
            let (n, most) = (units(&view.parameters), view.parameters.burst_units);
            if n > most {
                return Step::Stay(Err(Denied::never(n, most)));
            }
            match R::take(view, view.parameters.ticks(n)) {
                Ok(state) => Step::Move(state, Ok(())),
                Err(missing) => Step::Stay(Err(view.denied(missing))),
            }
        })
    }

    /// Decides in the wide layout by the first parameters. Returns `None` if these do not suffice, or if another thread came first.
    #[inline(always)]
    fn take_wide(&self, now_ns: u64, units: impl Fn(&Parameters) -> u64) -> Option<Verdict> {
        let parameters = self.first.parameters::<R>();
        if self.changes.get().is_some() || !parameters.is_always_wide() {
            return None;
        }
        let (n, ticks_per_ns) = (units(&parameters), parameters.ticks_per_ns);
        let word = self.wide.load(Ordering::Acquire);
        if n > parameters.burst_units || !Wide::is_of(word, 0) {
            return None;
        }
        let taken = R::take_plain(
            Wide::state(word),
            parameters.ticks_in(now_ns),
            parameters.ticks(n),
            parameters.burst_ticks(),
            ticks_per_ns.into(),
        );
        match taken? {
            Ok(state) => self.put_wide(word, Wide::pack(state, 0)).then_some(Ok(())),
            Err(missing) => Some(Err(Denied::later(missing, ticks_per_ns))),
        }
    }

    /// Runs `step` on the state until its outcome can be committed; `step` may run several times.
    pub(crate) fn update<T>(&self, now_ns: u64, mut step: impl FnMut(&View<'_>) -> Step<T>) -> T {
        loop {
            let behind;
            let mut view = self.view(now_ns);
            if now_ns < view.parameters.since_ns {
                if R::HAS_WINDOWS {
                    match self.update_behind(now_ns, &mut step) {
                        Some(told) => return told,
                        None => continue,
                    }
                }
                behind = self.behind(now_ns, view.generation());
                let Some(behind) = &behind else { continue };
                view.step_behind(behind);
            }
            match step(&view) {
                Step::Stay(told) => return told,
                Step::Move(state, told) => {
                    if self.commit(&view, view.stored(state)) {
                        return told;
                    }
                }
            }
        }
    }

    /// [`update`](Self::update) at a time before the last change of quota, if the rule counts in windows; `None` if the state
    /// has changed.
    #[cold]
    #[inline(never)]
    fn update_behind<T>(
        &self,
        now_ns: u64,
        step: &mut impl FnMut(&View<'_>) -> Step<T>,
    ) -> Option<T> {
        let mut view = self.view(now_ns);
        let behind = self.behind(now_ns, view.generation())?;
        let stored = view.state;
        view.step_before_change(&behind);
        let (state, told) = match step(&view) {
            Step::Stay(told) => return Some(told),
            Step::Move(state, told) => (state, told),
        };
        let changes = self.changes();
        let mut config = changes.config.lock();
        // Each admission at such a time begins a generation, so no other admission of that kind has happened since.
        let is_seen = |current| current == stored;
        if config.generation != view.generation()
            || !self.relocate_in(changes, &mut config, &view, state, is_seen)
        {
            return None;
        }
        config.past = Some(behind.past_with(view.counted_in(state)));
        Some(told)
    }

    /// [`look`](Self::look) at a time before the last change of quota, likewise.
    #[cold]
    #[inline(never)]
    fn look_behind<T>(&self, now_ns: u64, read: &impl Fn(&View<'_>) -> T) -> Option<T> {
        let mut view = self.view(now_ns);
        let behind = self.behind(now_ns, view.generation())?;
        view.step_before_change(&behind);
        Some(read(&view))
    }

    /// [`update`](Self::update) of the stored state, for a step that decides by an explicit time. That time is not before the
    /// last change of quota.
    pub(crate) fn update_stored<T>(
        &self,
        now_ns: u64,
        mut step: impl FnMut(&View<'_>) -> Step<T>,
    ) -> T {
        loop {
            let view = self.view(now_ns);
            match step(&view) {
                Step::Stay(told) => return told,
                Step::Move(state, told) => {
                    if self.commit(&view, state) {
                        return told;
                    }
                }
            }
        }
    }

    /// Returns what `read` makes of the state and the parameters, as a caller at `now_ns` sees them.
    #[inline(always)]
    pub(crate) fn look<T>(&self, now_ns: u64, read: impl Fn(&View<'_>) -> T) -> T {
        loop {
            let behind;
            let mut view = self.view(now_ns);
            if now_ns < view.parameters.since_ns {
                if R::HAS_WINDOWS {
                    match self.look_behind(now_ns, &read) {
                        Some(told) => return told,
                        None => continue,
                    }
                }
                behind = self.behind(now_ns, view.generation());
                let Some(behind) = &behind else { continue };
                view.step_behind(behind);
            }
            return read(&view);
        }
    }

    /// Returns what a caller at `now_ns` sees, before the change to `generation`; `None` if that generation is no longer
    /// current.
    #[cold]
    #[inline(never)]
    fn behind(&self, now_ns: u64, generation: u64) -> Option<Behind> {
        let config = self.changes().config.lock();
        let past = config.past.filter(|_| config.generation == generation)?;
        Some(Behind::new::<R>(now_ns, past, config.parameters))
    }

    /// Returns the number of units in a token.
    pub(crate) fn units_per_token(&self) -> u64 {
        loop {
            let word = self.narrow.load(Ordering::Acquire);
            let Some(changes) = self.changes.get() else {
                return self.first.units_per_token();
            };
            let cold = changes.cold.of(word);
            let units = cold.word(cold::UNITS_PER_TOKEN);
            if Narrow::is_of(word, cold.tag()) {
                return units;
            }
        }
    }

    /// Returns the parameters of the generation of `word`, and its tag; `None` if the generation is no longer current.
    #[inline(always)]
    fn parameters(&self, word: u64) -> Option<(Parameters, u64)> {
        let Some(changes) = self.changes.get() else {
            // The changes are made before the word gets any other generation.
            return Some((self.first.parameters::<R>(), 0));
        };
        let cold = changes.cold.of(word);
        let parameters = cold::parameters::<R>(cold);
        let tag = cold.tag();
        Narrow::is_of(word, tag).then_some((parameters, tag))
    }

    /// Returns the state and the parameters of one generation. Do not decide by it at a time before the last change of quota.
    // If a function returned them, the parameters would be copied twice.
    #[inline(always)]
    pub(crate) fn view(&self, now_ns: u64) -> View<'static> {
        loop {
            let word = self.narrow.load(Ordering::Acquire);
            let Some((parameters, tag)) = self.parameters(word) else {
                continue;
            };
            let generation = tag >> 1;
            let (state, raw) = match parameters.layout {
                Layout::Narrow { base_ns } => {
                    let state = parameters.ticks_in(base_ns) + Narrow::state(word);
                    (state, Raw::Narrow { word, generation })
                }
                Layout::Wide => {
                    let word = self.wide.load(Ordering::Acquire);
                    if !Wide::is_of(word, tag) {
                        self.await_change();
                        continue;
                    }
                    (Wide::state(word), Raw::Wide { word, generation })
                }
                Layout::Shared => {
                    let Some(word) = self.word_with_nothing_issued(tag) else {
                        continue;
                    };
                    (Shared::of(word).state, Raw::Shared { word, generation })
                }
            };
            return View {
                now: parameters.now_ticks(now_ns),
                parameters,
                state,
                now_ns,
                behind: None,
                raw,
            };
        }
    }

    #[inline(always)]
    fn commit(&self, view: &View<'_>, state: u128) -> bool {
        let parameters = &view.parameters;
        match (view.raw, parameters.layout) {
            (Raw::Narrow { word, generation }, Layout::Narrow { base_ns })
                if parameters.holds(state) && parameters.reaches(base_ns, view.now_ns) =>
            {
                let from_base = state - parameters.ticks_in(base_ns);
                self.put(
                    word,
                    Narrow::pack(from_base, generation, Narrow::is_held(word)),
                )
            }
            (Raw::Wide { word, generation }, _)
                if parameters.is_always_wide()
                    || parameters.layout_for(view.now_ns, state) == Layout::Wide =>
            {
                debug_assert!(parameters.holds(state), "a step went past the end of time");
                self.put_wide(word, Wide::pack(state, generation))
            }
            _ => self.commit_elsewhere(view, state),
        }
    }

    #[cold]
    #[inline(never)]
    fn commit_elsewhere(&self, view: &View<'_>, state: u128) -> bool {
        match view.raw {
            Raw::Shared { word, generation } if view.parameters.holds(state) => {
                self.commit_shared(word, generation, state)
            }
            Raw::Narrow { generation, .. }
            | Raw::Wide { generation, .. }
            | Raw::Shared { generation, .. } => self.relocate(view, generation, state),
        }
    }

    /// Replaces the parameters and the state in one step.
    ///
    /// `change` receives the current ones, and may run several times.
    pub(crate) fn reconfigure<T>(
        &self,
        change: impl FnMut(&Parameters, u128) -> (Parameters, u128, T),
    ) -> T {
        let changes = self.changes();
        self.reconfigure_in(changes, &mut changes.config.lock(), change)
    }

    /// [`reconfigure`](Self::reconfigure), for a caller that holds the lock of `config`.
    fn reconfigure_in<T>(
        &self,
        changes: &Changes,
        config: &mut Config,
        mut change: impl FnMut(&Parameters, u128) -> (Parameters, u128, T),
    ) -> T {
        loop {
            let told = self.try_reconfigure(changes, config, |old, state| Some(change(old, state)));
            if let Some(told) = told {
                return told;
            }
        }
    }

    /// Stores `state` in the layout that suits it, if the state is still what `view` saw.
    fn relocate(&self, view: &View<'_>, generation: u64, state: u128) -> bool {
        let changes = self.changes();
        let mut config = changes.config.lock();
        if config.generation != generation {
            return false;
        }
        self.relocate_in(changes, &mut config, view, state, |current| {
            let seen = match view.behind {
                None => current,
                Some(behind) => behind.seen(current),
            };
            seen == view.state
        })
    }

    /// [`relocate`](Self::relocate) in the generation of `view`, if `is_seen` returns `true` for the current state.
    fn relocate_in(
        &self,
        changes: &Changes,
        config: &mut Config,
        view: &View<'_>,
        state: u128,
        is_seen: impl FnOnce(u128) -> bool,
    ) -> bool {
        let moved = self.try_reconfigure(changes, config, |old, current| {
            let layout = old.layout_for(view.now_ns, state);
            is_seen(current).then_some((Parameters { layout, ..*old }, state, ()))
        });
        if moved.is_none() && self.hot.tag() != config.generation << Narrow::GENERATION_SHIFT {
            // The hot words are of a generation that was not reached. It is reached now, with the current parameters.
            self.reconfigure_in(changes, config, |old, current| (*old, current, ()));
        }
        moved.is_some()
    }

    /// Replaces the parameters and the state by those that `change` returns. Returns `None` if `change` returns `None`, or if a
    /// decision came in between.
    fn try_reconfigure<T>(
        &self,
        changes: &Changes,
        config: &mut Config,
        change: impl FnOnce(&Parameters, u128) -> Option<(Parameters, u128, T)>,
    ) -> Option<T> {
        let generation = config.generation + 1;
        let old = &config.parameters;
        // Acquire on both: the following is computed from what the last decision left.
        let narrow = self.narrow.load(Ordering::Acquire);
        let mut wide = self.wide.load(Ordering::Acquire);
        let state = match old.layout {
            Layout::Narrow { base_ns } => old.ticks_in(base_ns) + Narrow::state(narrow),
            Layout::Wide => Wide::state(wide),
            Layout::Shared => {
                if changes.stripes.is_some() {
                    wide = self.word_with_nothing_issued(config.generation << 1)?;
                }
                Shared::of(wide).state
            }
        };
        let held = Narrow::is_held(narrow);
        let state_before = state;
        let (mut new, state, told) = change(old, state)?;
        if let Some(stripes) = &changes.stripes {
            new = new.shared(stripes.len(), state);
            stripes.tokens_may_be(new.units_per_token);
        }
        if !new.holds(state) {
            new.layout = Layout::Wide;
        }
        let tag = generation << Narrow::GENERATION_SHIFT;
        self.hot.fill(tag, &hot::words(&new));
        changes.cold.fill(tag, &cold::words(&new));

        let new_narrow = match new.layout {
            Layout::Narrow { base_ns } => {
                Narrow::pack(state - new.ticks_in(base_ns), generation, held)
            }
            Layout::Wide | Layout::Shared => Narrow::pack(0, generation, held),
        };
        let new_wide = match new.layout {
            Layout::Shared => Shared::of(wide).at_rest(state).pack(generation),
            Layout::Narrow { .. } | Layout::Wide => Wide::pack(state, generation),
        };
        // Release: pairs with the Acquire loads that then find the versions filled.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        match old.layout {
            Layout::Narrow { .. } => {
                // First, because no thread reads it yet.
                self.wide.store(new_wide, Ordering::Release);
                self.narrow
                    .compare_exchange_weak(narrow, new_narrow, success, failure)
                    .ok()?;
            }
            Layout::Wide | Layout::Shared => {
                self.wide
                    .compare_exchange_weak(wide, new_wide, success, failure)
                    .ok()?;
                self.put_narrow(narrow, new_narrow);
            }
        }
        let past = match new.since_ns {
            0 => None,
            _ if new.epoch == old.epoch => config.past.take(),
            _ => Some(Past::new::<R>(*old, state_before, &new)),
        };
        *config = Config {
            generation,
            parameters: new,
            past,
        };
        if let Some(stripes) = &changes.stripes {
            stripes.forget_dryness();
        }
        Some(told)
    }

    /// Replaces `word` by `new`. Only the flag that holds new requests may change in the meantime, and it is kept.
    fn put_narrow(&self, mut word: u64, new: u64) {
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        while let Err(current) = self.narrow.compare_exchange_weak(
            word,
            new & !Narrow::HELD | word & Narrow::HELD,
            success,
            failure,
        ) {
            word = current;
        }
    }

    /// Makes the stripes, if there are any, forget their notes about the shared state.
    fn has_changed(&self) -> bool {
        if let Some(stripes) = self.stripes() {
            stripes.forget_dryness();
        }
        true
    }

    /// Waits until the change in progress has ended.
    #[cold]
    fn await_change(&self) {
        drop(self.changes().config.lock());
    }
}

impl Word<TokenBucket> {
    /// Returns the whole units that the bucket holds at `now_ns`, if the 64-bit step applies.
    #[inline(always)]
    pub(crate) fn level(&self, now_ns: u64) -> Option<u64> {
        let word = self.narrow.load(Ordering::Acquire);
        let unit = |hot: &hot::Version| Some(hot.word(hot::UNIT_TICKS));
        let terms = self.terms(word, now_ns, unit)?;
        let level = token_bucket::level(word & !Narrow::FLAGS, terms.now, terms.burst);
        // A unit costs something.
        level.checked_div(terms.cost)
    }

    /// Takes up to `n` units, if the 64-bit step applies and no other thread is faster. Returns how many.
    #[inline(always)]
    pub(crate) fn take_up_to(&self, now_ns: u64, n: u64) -> Option<u64> {
        let word = self.narrow.load(Ordering::Acquire);
        let unit = |hot: &hot::Version| Some(hot.word(hot::UNIT_TICKS));
        let terms = self.terms(word, now_ns, unit)?;
        let tat = word & !Narrow::FLAGS;
        let level = token_bucket::level(tat, terms.now, terms.burst);
        // A unit costs something.
        let n = n.min(level.checked_div(terms.cost)?);
        if n > 0 {
            let next = tat.max(terms.now) + n * terms.cost;
            self.put(word, next | terms.flags).then_some(())?;
        }
        Some(n)
    }

    /// Takes `n` units, if the 64-bit step applies and no other thread is faster. Returns whether it did.
    #[inline(always)]
    pub(crate) fn takes(&self, now_ns: u64, n: u64) -> bool {
        self.takes_cost(now_ns, |hot| n.checked_mul(hot.word(hot::UNIT_TICKS)))
    }

    /// [`takes`](Self::takes) for one token.
    #[inline(always)]
    pub(crate) fn takes_token(&self, now_ns: u64) -> bool {
        self.takes_cost(now_ns, |hot| Some(hot.word(hot::TOKEN_TICKS)))
    }

    #[inline(always)]
    fn takes_cost(&self, now_ns: u64, cost: impl Fn(&hot::Version) -> Option<u64>) -> bool {
        let word = self.narrow.load(Ordering::Acquire);
        let Some(terms) = self.terms(word, now_ns, cost) else {
            return false;
        };
        match terms.take::<TokenBucket>(word) {
            Some(Ok(state)) => self.put(word, state | terms.flags),
            _ => false,
        }
    }
}

impl Word<FixedWindow> {
    /// Counts one token in the window that was opened last, if that window has room. The window may be over.
    #[inline]
    pub(crate) fn take_token_of_window(&self) -> bool {
        self.take_of_window(|hot| Some(hot.word(hot::TOKEN_TICKS)))
    }

    /// Counts `n` units in the window that was opened last, if that window has room. The window may be over.
    #[inline]
    pub(crate) fn take_units_of_window(&self, n: u64) -> bool {
        self.take_of_window(|hot| n.checked_mul(hot.word(hot::UNIT_TICKS)))
    }

    /// As [`Self::take`], but without reading a clock. Returns `false` if the decision needs one.
    #[inline(always)]
    fn take_of_window(&self, cost: impl Fn(&hot::Version) -> Option<u64>) -> bool {
        let mut word = self.narrow.load(Ordering::Acquire);
        loop {
            let hot = &self.hot;
            let limit = hot.word(hot::BURST_TICKS);
            let cost = cost(hot);
            let ticks_per_ns = hot.word(hot::TICKS_PER_NS);
            let flags = word & Narrow::FLAGS;
            if hot.tag() & Narrow::FLAGS != flags {
                return false;
            }
            // The digits below a nanosecond and above the flags. If none is set, no window has been opened, or this is the
            // wide layout.
            let count = word & ticks_per_ns.wrapping_sub(Narrow::UNIT);
            let Some(cost) = cost.filter(|&cost| count != 0 && cost <= limit.saturating_sub(count))
            else {
                return false;
            };
            match self.narrow.compare_exchange_weak(
                word,
                word + cost,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
    }
}

impl<'a> View<'a> {
    #[inline(always)]
    fn generation(&self) -> u64 {
        match self.raw {
            Raw::Narrow { generation, .. }
            | Raw::Wide { generation, .. }
            | Raw::Shared { generation, .. } => generation,
        }
    }

    /// Changes this view to what a caller sees at a time before the last change.
    fn step_behind(&mut self, behind: &'a Behind) {
        self.now = behind.change;
        self.state = behind.seen(self.state);
        self.behind = Some(behind);
    }

    /// Returns a refusal until `missing` ticks from now.
    pub(crate) fn denied(&self, missing: u128) -> Denied {
        if self.is_plain() || self.parameters.window_ns > 0 {
            return Denied::later(missing, self.parameters.ticks_per_ns);
        }
        let enough_ns = self.ns_of(self.now + missing);
        Denied::later(enough_ns.saturating_sub(u128::from(self.now_ns)), 1)
    }

    /// Returns whether limiter time is the clock's time.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.parameters.interval_ns == 0 && self.behind.is_none()
    }

    /// Returns when the clock reaches the limiter time `later`, which is later than now.
    pub(crate) fn ns_of(&self, later: u128) -> u128 {
        let parameters = &self.parameters;
        match self.behind {
            Some(behind) => behind.instant(later - self.now),
            None => parameters.next_move_ns(later.div_ceil(u128::from(parameters.ticks_per_ns))),
        }
    }

    /// Returns what is stored of `state`, which was derived from the state of this view.
    #[inline(always)]
    pub(crate) fn stored(&self, state: u128) -> u128 {
        match self.behind {
            None => state,
            Some(behind) => behind.stored(state),
        }
    }

    /// Returns the clock's time, which may be ahead of limiter time.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }
}
