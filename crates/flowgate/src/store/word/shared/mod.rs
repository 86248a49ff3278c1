//! The word of a limiter with stripes: the shared state that the stripes are filled from (the *centre* in the code).
//!
//! A *stripe* is a local reserve: tokens that have been taken from the shared state for some of the threads. Threads take
//! tokens from it without reading a clock, and without a cache line that the threads of other stripes write. The shared state
//! is in the wide word, and is asked when the stripe is empty.
//!
//! ```text
//!   threads   ┊  ╎ ┊     ┊ ╎      ┊        take: the stripe falls
//!            ┌─────┐  ┌─────┐  ┌─────┐
//!   stripes  │ 37  │  │  0  │  │ 64  │     rise only by an act that the centre names
//!            └─────┘  └──▲──┘  └─────┘
//!                        │ fill
//!   centre    state · issued: 2 · act: fill the 2nd with 64 · version 71
//! ```
//!
//! # One change at a time, which every thread can finish
//!
//! Each swap of the shared state also stores the command for a stripe (an [`Act`]) and a new version. The command is done when
//! the stripe has that version. A thread that wants to change the shared state next does the pending command first. So no
//! thread waits for another. And no token is ever between two words, where other threads do not find it. It is in the state, or
//! in a stripe, or the next thread that reads the command puts it into a stripe. Without a command, a stripe can only fall.
//!
//! To take back the tokens of a stripe, a command *freezes* the stripe, which fixes their number. The next swap adds this
//! number to the state, and its command clears the stripe.
//!
//! # When a token was spent
//!
//! Taking from a stripe does not read a clock, so the time of the spending is unknown: it is between the fill and now. A full
//! bucket loses what flows in while it is full, and whether it was full depends on that time. So there are two histories that
//! look the same. After one of them a token may be granted, and after the other it may not.
//!
//! The guarantee must hold for the worse history. So issued tokens count as not spent until a thread finds the stripe empty and
//! reads the clock after that ([`Rule::settle`]). The loss is at most the issued tokens, and occurs only if the bucket was full
//! in between. So few tokens are issued, and only to stripes that ask again soon ([`Stripe::wants`]).
//!
//! # Refusals
//!
//! If nothing is issued, all stripes are empty, and the state is complete. A refusal is then as exact as that of a limiter
//! without stripes. Otherwise the tokens are taken from the stripe that has them. If no stripe has enough, all stripes return
//! their tokens before anything is decided. So every token is found, wherever it is.
//!
//! Each stripe then stores until when no token is available ([`Stripe::is_dry_for`]), so that the next refusal costs only a
//! clock reading. Once the clock has reached that instant, the note is void, even if the clock is set back: other stripes may
//! have taken the new tokens.
//!
//! Every other change of the shared state makes the stripes forget their notes, after the change. So a thread that has read the
//! shared state before the change either stores its note too late to succeed, or the note is forgotten again.
//!
//! Every operation except taking from a stripe also begins with taking back the tokens: a reservation, a refund, a change of
//! quota. See [`Word::view`]. While new requests are held, no stripe is filled.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `wide` | threads that fill, take back, or decide by the shared state | the same (CAS) | version; generation |
//! | `Stripe::word` | threads that take or look for tokens | threads that take (CAS, falls); acts (CAS) | version and turn |
//!
//! A version has 12 bits, and the turn of a stripe has 26 bits. So a delayed swap is mistaken for a current one in two cases:
//!
//! - Exactly a multiple of 4096 changes leaves the very same state.
//! - Exactly a multiple of 2²⁶ fills leaves the same units in the stripe.

#[cfg(all(test, flowgate_loom))]
mod model;
mod stripe;

pub(crate) use stripe::Stripe;
pub(super) use stripe::Stripes;

use super::layout::{Act, Narrow, Shared};
use super::{Layout, Parameters, Raw, Rule, View, Word};
use crate::clock::Clock;
use crate::primitive::Ordering;
use crate::verdict::{Denied, Verdict};
use alloc::sync::Arc;
use core::any::Any;
use stripe::Held;

/// The shared state as a thread saw it, after the command in it is done.
struct Seen {
    word: u128,
    shared: Shared,
    generation: u64,
    parameters: Parameters,
}

/// The shared state that fills the stripes, whatever the algorithm of its limiter.
pub trait Centre {
    /// Takes `units` (`None`: one token), from the stripe of this number or from the shared state, and fills the stripe with as
    /// many more as it may need soon. Returns `None` if the request must be decided without stripes.
    fn draw(&self, stripe: usize, units: Option<u64>) -> Option<Verdict>;

    /// Returns whether stripes are ever filled.
    fn is_shared(&self) -> bool;
}

impl<R: Rule> Centre for Word<R> {
    fn draw(&self, stripe: usize, units: Option<u64>) -> Option<Verdict> {
        let stripes = self.stripes()?;
        let own = stripe & (stripes.len() - 1);
        if stripes.get(own).take_some(|| self.cost(units)) {
            return Some(Ok(()));
        }
        let mut wanted = None;
        loop {
            let dry = stripes.get(own).dry();
            let seen = self.seen(stripes)?;
            // After the shared state is read: a thread that raises the flag changes the shared state afterward.
            if Narrow::is_held(self.narrow.load(Ordering::Acquire)) {
                return None;
            }
            let parameters = &seen.parameters;
            let n = units.unwrap_or(parameters.units_per_token);
            if n > parameters.burst_units {
                return Some(Err(Denied::never(n, parameters.burst_units)));
            }
            let held = stripes.get(own).held();
            if held.units >= n && stripes.get(own).take_some(|| self.cost(units)) {
                return Some(Ok(()));
            }
            // A stripe that is spent was spent before the clock is read.
            let spent = match (seen.shared.issued, held.is_spent()) {
                (0, _) => None,
                (_, true) => Some((own, held)),
                (_, false) => stripes.find(Held::is_spent),
            };
            let behind;
            let mut view = seen.view::<R>(&stripes.clock);
            let now_ns = view.now_ns;
            if now_ns < parameters.since_ns {
                if R::HAS_WINDOWS {
                    return None;
                }
                behind = self.behind(now_ns, view.generation());
                let Some(behind) = &behind else { continue };
                view.step_behind(behind);
            }
            let state = match R::take(&view, parameters.ticks(n)) {
                Ok(state) => state,
                Err(missing) if seen.shared.issued == 0 => {
                    let denied = view.denied(missing);
                    if n == parameters.units_per_token {
                        stripes.get(own).note_dry(dry, denied.until_ns(now_ns));
                    }
                    return Some(Err(denied));
                }
                Err(_) if stripes.take_from_any(|| self.cost(units)) => {
                    return Some(Ok(()));
                }
                // Together they may have enough.
                Err(_) => return None,
            };
            let wanted = match held.units {
                0 => *wanted.get_or_insert_with(|| stripes.get(own).wants(held.issued, now_ns)),
                _ => 0,
            };
            let (state, act, of) = match self.filled(&view, stripes, n, wanted) {
                Some(state) => (state, Act::Fill(wanted), Some((own, held))),
                None if spent.is_some() => (state, Act::Clear, spent),
                None => (state, Act::None, None),
            };
            if self.go_on(stripes, &seen, view.stored(state), act, of) {
                if n < parameters.units_per_token {
                    // The note may have been stored before a whole token was there, and the token then comes later.
                    stripes.forget_dryness();
                }
                return Some(Ok(()));
            }
        }
    }

    fn is_shared(&self) -> bool {
        self.stripes()
            .is_some_and(|stripes| self.seen(stripes).is_some())
    }
}

impl<R: Rule> Word<R> {
    /// Shares with about `stripes` stripes from now on, if there is enough to share.
    pub(crate) fn share(&mut self, stripes: usize, clock: Clock) -> Arc<[Stripe]> {
        let count = stripes.clamp(1, Shared::MOST_STRIPES).next_power_of_two();
        let stripes = Stripes::new(count, clock, self.units_per_token(), Self::take_all_back);
        let each = Arc::clone(stripes.each());
        self.set_stripes(Some(stripes));
        self.reconfigure(|parameters, state| (*parameters, state, ()));
        each
    }

    /// Takes back the tokens of all stripes, which are no longer filled.
    pub(crate) fn unshare(&mut self) {
        // Whatever the time is.
        self.view(0);
        self.set_stripes(None);
        self.reconfigure(|parameters, state| {
            let alone = Parameters {
                handful_units: 0,
                layout: Layout::Wide,
                ..*parameters
            };
            (alone, state, ())
        });
    }

    fn set_stripes(&mut self, stripes: Option<Stripes>) {
        self.changes();
        if let Some(changes) = self.changes.get_mut() {
            changes.stripes = stripes;
        }
    }

    /// Returns `units`, or the units of a token now if `None`.
    fn cost(&self, units: Option<u64>) -> u64 {
        units.unwrap_or_else(|| self.units_per_token())
    }

    /// Returns the state after `n` units and `handfuls` portions for a stripe, if that leaves as much as all stripes could be
    /// issued.
    fn filled(&self, view: &View<'_>, stripes: &Stripes, n: u64, handfuls: u64) -> Option<u128> {
        let parameters = &view.parameters;
        let most = Shared::MOST_HANDFULS * stripes.len() as u64;
        let units = |handfuls: u64| handfuls.checked_mul(parameters.handful_units);
        let cost = n.checked_add(units(handfuls)?)?;
        let and_left = cost.checked_add(units(most)?)?;
        // The step is not asked for more than could ever be granted.
        if handfuls == 0 || and_left > parameters.burst_units {
            return None;
        }
        R::take(view, parameters.ticks(and_left)).ok()?;
        R::take(view, parameters.ticks(cost)).ok()
    }

    /// Takes back all issued tokens, and then returns the word of the generation that `tag` stands for; `None` if that
    /// generation is no longer current. The function is found through the stripes, so a program without stripes has no code for
    /// it.
    #[cold]
    #[inline(never)]
    pub(super) fn word_with_nothing_issued(&self, tag: u64) -> Option<u128> {
        let stripes = self.stripes()?;
        (stripes.take_all_back)(self, tag)
    }

    fn take_all_back(word: &dyn Any, tag: u64) -> Option<u128> {
        word.downcast_ref::<Self>()?.with_nothing_issued(tag)
    }

    fn with_nothing_issued(&self, tag: u64) -> Option<u128> {
        let stripes = self.stripes()?;
        loop {
            let seen = self.seen(stripes)?;
            if (seen.generation << 1) != tag {
                return None;
            }
            if seen.shared.issued == 0 {
                return Some(seen.word);
            }
            // All tokens issued to it are returned.
            let of = stripes.find(|held| held.issued > 0 && !held.is_frozen);
            let Some((_, held)) = of else {
                continue;
            };
            if held.is_spent() {
                let view = seen.view::<R>(&stripes.clock);
                self.go_on(stripes, &seen, view.state, Act::Clear, of);
            } else {
                self.go_on(stripes, &seen, seen.shared.state, Act::Freeze, of);
            }
        }
    }

    /// Called after new requests are held: then no thread fills a stripe without knowing that, and no stripe has tokens.
    pub(super) fn close_stripes(&self) {
        let Some(stripes) = self.stripes() else {
            return;
        };
        while let Some(seen) = self.seen(stripes) {
            if self.go_on(stripes, &seen, seen.shared.state, Act::None, None) {
                self.word_with_nothing_issued(seen.generation << 1);
                break;
            }
        }
        stripes.forget_dryness();
    }

    /// Returns the shared state, with its command done and no stripe frozen; `None` if no stripes are shared with.
    fn seen(&self, stripes: &Stripes) -> Option<Seen> {
        loop {
            let narrow = self.narrow.load(Ordering::Acquire);
            let Some((parameters, tag)) = self.parameters(narrow) else {
                continue;
            };
            if parameters.layout != Layout::Shared {
                return None;
            }
            let word = self.wide.load(Ordering::Acquire);
            if !Shared::is_of(word, tag) {
                self.await_change();
                continue;
            }
            let seen = Seen {
                word,
                shared: Shared::of(word),
                generation: tag >> 1,
                parameters,
            };
            if !self.has_done(stripes, &seen) {
                continue;
            }
            if seen.shared.act == Act::Freeze {
                self.take_back(stripes, &seen);
                continue;
            }
            return Some(seen);
        }
    }

    /// Does the command in the shared state, unless the shared state has changed in the meantime.
    fn has_done(&self, stripes: &Stripes, seen: &Seen) -> bool {
        let Shared {
            act,
            stripe,
            version,
            ..
        } = seen.shared;
        if act == Act::None {
            return true;
        }
        let stripe = stripes.get(stripe);
        loop {
            let held = stripe.held();
            if held.version == version {
                return true;
            }
            // Otherwise this command may have been done, and another one since.
            if self.wide.load(Ordering::Acquire) != seen.word {
                return false;
            }
            let handful_units = seen.parameters.handful_units;
            if stripe.swap(held, held.after(act, handful_units, version)) {
                return true;
            }
        }
    }

    /// Adds the tokens of the frozen stripe to the state.
    fn take_back(&self, stripes: &Stripes, seen: &Seen) {
        let index = seen.shared.stripe;
        let held = stripes.get(index).held();
        if held.version != seen.shared.version {
            return;
        }
        let view = seen.view::<R>(&stripes.clock);
        let state = view.state - seen.parameters.ticks(held.units);
        self.go_on(stripes, seen, state, Act::Clear, Some((index, held)));
    }

    /// Replaces the shared state that `seen` contains by `state`, with the command `act` for the stripe `of`.
    fn go_on(
        &self,
        stripes: &Stripes,
        seen: &Seen,
        state: u128,
        act: Act,
        of: Option<(usize, Held)>,
    ) -> bool {
        let mut next = seen.shared.at_rest(state);
        next.issued = seen.shared.issued;
        next.act = act;
        if let Some((index, held)) = of {
            next.stripe = index;
            if next.version == held.version {
                next.version = (next.version + 1) % Shared::VERSIONS;
            }
            let (cleared, filled) = match act {
                Act::None | Act::Freeze => (0, 0),
                Act::Clear => (held.issued, 0),
                Act::Fill(handfuls) => (held.issued, handfuls),
            };
            // More tokens were issued since than were issued at all: the shared state has changed.
            let Some(others) = next.issued.checked_sub(cleared) else {
                return false;
            };
            next.issued = others + filled;
        }
        let is_swapped = self.swap_shared(seen.word, seen.generation, next);
        if is_swapped {
            let done = Seen {
                word: next.pack(seen.generation),
                shared: next,
                ..*seen
            };
            self.has_done(stripes, &done);
        }
        is_swapped
    }

    /// Commits for a thread that found nothing issued.
    pub(super) fn commit_shared(&self, word: u128, generation: u64, state: u128) -> bool {
        self.swap_shared(word, generation, Shared::of(word).at_rest(state)) && self.has_changed()
    }

    fn swap_shared(&self, word: u128, generation: u64, next: Shared) -> bool {
        debug_assert!(
            next.state < Shared::STATE_END,
            "a step left a state of over 88 bits"
        );
        let next = next.pack(generation);
        // Release: a thread that finds the command also sees what the stripe was seen to have.
        self.wide
            .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Seen {
    /// The view now, with the state settled.
    fn view<R: Rule>(&self, clock: &Clock) -> View<'static> {
        let parameters = self.parameters;
        let now_ns = clock.now().as_nanos();
        let mut view = View {
            now: parameters.now_ticks(now_ns),
            parameters,
            state: self.shared.state,
            now_ns,
            behind: None,
            raw: Raw::Shared {
                word: self.word,
                generation: self.generation,
            },
        };
        if self.shared.issued > 0 {
            // Not before it was spent, even if the clock has run backward since, or is read before the data that was seen.
            let latest_ns = clock.latest().as_nanos();
            let issued = u128::from(self.shared.issued);
            view.now_ns = latest_ns;
            view.now = parameters.now_ticks(latest_ns);
            view.state = R::settle(&view, issued * parameters.ticks(parameters.handful_units));
            view.now_ns = now_ns;
            view.now = parameters.now_ticks(now_ns);
        }
        view
    }
}

impl Shared {
    /// The next shared state, with nothing issued and no command.
    pub(super) fn at_rest(self, state: u128) -> Self {
        Self {
            state,
            issued: 0,
            act: Act::None,
            stripe: 0,
            version: (self.version + 1) % Self::VERSIONS,
        }
    }
}
