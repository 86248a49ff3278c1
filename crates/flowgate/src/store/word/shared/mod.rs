//! The word of a limiter with stripes: the centre that they are filled from.
//!
//! A *stripe* holds tokens that have been taken from the centre, for some of the threads. They take from it without a
//! clock and without a line that others write. The centre is the wide word, and is asked when the stripe is empty.
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
//! # One at a time, and anybody finishes it
//!
//! What the centre does to a stripe it says in the same swap by which it changes its state: an [`Act`] and a new
//! version. The act is done when the stripe has that version. Whoever wants to change the centre next does it first
//! if need be, so nobody waits for somebody else, and no token is ever on its way between two words where others do
//! not find it: it is in the state, or in a stripe, or about to be put into one by whoever looks. A stripe alone can
//! only fall.
//!
//! To take back what a stripe has, its centre has it *frozen*, which fixes the number, then adds that to the
//! state and has the stripe cleared.
//!
//! # When it was spent
//!
//! Nobody reads a clock to take from a stripe, so nobody knows when that was: at some time between the fill and now.
//! A full bucket loses what flows in while it is full, and whether it was depends on that time. So there are two
//! histories that look the same, and after one of them a token may be granted that after the other may not. The
//! promise is kept for the worse: what has been issued counts as not spent until the stripe is found empty by
//! somebody who reads the clock after that ([`Rule::settle`]). What is lost by that is at most what was issued, and
//! only where the bucket has been full meanwhile; so little is issued, and only to who asks again soon
//! ([`Stripe::wants`]).
//!
//! # Refusals
//!
//! With nothing issued, there is nothing in any stripe, and the state is all there is: a refusal is as exact as that
//! of a limiter without stripes. Otherwise the tokens are taken where they are, and if no stripe has enough of them,
//! all come back before anything is decided. So a token that is anywhere is found.
//!
//! Until when there is nothing, each stripe then keeps in mind ([`Stripe::is_dry_for`]), so that the next refusal
//! costs a clock reading. Once the clock has reached that instant, the note is void, even if the clock is set back: other
//! stripes may have taken what came. Whatever else changes the centre has it forgotten: afterwards, so that who has read the
//! centre before either comes too late to note it, or has it forgotten again.
//!
//! Everything but taking from a stripe, a reservation, a refund, a change of quota, begins with that too: see
//! [`Word::view`]. While newcomers are held, no stripe is filled.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `wide` | who fills, takes back or decides at the centre | the same (CAS) | version; generation |
//! | `Stripe::word` | those who take; who looks for tokens | those who take (CAS, falls); acts (CAS) | version and turn |
//!
//! A version is told by 12 bits, and a stripe's turn by 26: a swap that is delayed while exactly a multiple of 4096
//! changes leave the very same state, or of 2²⁶ fills the same units, would be taken for one that was not.

#[cfg(all(test, flowgate_loom))]
mod model;
mod stripe;

pub(crate) use stripe::Stripe;
pub(super) use stripe::Stripes;

use super::layout::{Act, Narrow, Shared};
use super::{Layout, Parameters, Raw, Rule, View, Word};
use crate::clock::Clock;
use crate::primitive::Ordering;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::any::Any;
use stripe::Held;

/// The centre as somebody saw it, with the act that it names done.
struct Seen {
    word: u128,
    shared: Shared,
    generation: u64,
    parameters: Parameters,
}

/// Where stripes are filled, whatever its limiter decides by.
pub trait Centre {
    /// Takes `units` (none: one token), from the stripe of this number or from the centre, and with it as many more as the stripe
    /// may need soon; `None` if that is to be decided without stripes.
    fn draw(&self, stripe: usize, units: Option<u64>) -> Option<Result<(), Denied>>;

    /// Whether stripes are ever filled.
    fn is_shared(&self) -> bool;
}

impl<R: Rule> Centre for Word<R> {
    fn draw(&self, stripe: usize, units: Option<u64>) -> Option<Result<(), Denied>> {
        let stripes = self.stripes()?;
        let own = stripe & (stripes.len() - 1);
        if stripes.get(own).take_some(|| self.cost(units)) {
            return Some(Ok(()));
        }
        let mut wanted = None;
        loop {
            let dry = stripes.get(own).dry();
            let seen = self.seen(stripes)?;
            // After the centre: who raises the flag changes that afterwards.
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
            // One that is spent has been so before the clock is read.
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
                    // It may have been there before there is a whole token, which then comes later.
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
    /// Shares with about so many stripes from now on, if there is enough for that.
    pub(crate) fn share(&mut self, stripes: usize, clock: Clock) -> Arc<[Stripe]> {
        let count = stripes.clamp(1, Shared::MOST_STRIPES).next_power_of_two();
        let stripes = Stripes::new(count, clock, self.units_per_token(), Self::take_all_back);
        let each = Arc::clone(stripes.each());
        self.set_stripes(Some(stripes));
        self.reconfigure(|parameters, state| (*parameters, state, ()));
        each
    }

    /// Takes back what stripes have, which are not filled any longer.
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

    /// So many units, or a token as it is now.
    fn cost(&self, units: Option<u64>) -> u64 {
        units.unwrap_or_else(|| self.units_per_token())
    }

    /// The state after `n` units and so many handfuls, if that leaves as much as all stripes could be issued.
    fn filled(&self, view: &View<'_>, stripes: &Stripes, n: u64, handfuls: u64) -> Option<u128> {
        let parameters = &view.parameters;
        let most = Shared::MOST_HANDFULS * stripes.len() as u64;
        let units = |handfuls: u64| handfuls.checked_mul(parameters.handful_units);
        let cost = n.checked_add(units(handfuls)?)?;
        let and_left = cost.checked_add(units(most)?)?;
        // A step is not asked for more than could ever be granted.
        if handfuls == 0 || and_left > parameters.burst_units {
            return None;
        }
        R::take(view, parameters.ticks(and_left)).ok()?;
        R::take(view, parameters.ticks(cost)).ok()
    }

    /// The word of the generation that `tag` stands for, when nothing is issued, which it brings about; none if that
    /// is not in force any longer. What does that is found through the stripes: a program without any has no code for it.
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
            // All of what is issued to it comes back.
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

    /// After newcomers are held: no stripe is filled by somebody who does not know that, and none has anything.
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

    /// The centre, with the act that it names done, and nothing frozen; `None` if stripes are not shared with.
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

    /// Does the act that the centre names; not if the centre has gone on meanwhile.
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
            // Otherwise this may have been done, and another since.
            if self.wide.load(Ordering::Acquire) != seen.word {
                return false;
            }
            let handful_units = seen.parameters.handful_units;
            if stripe.swap(held, held.after(act, handful_units, version)) {
                return true;
            }
        }
    }

    /// Adds what is frozen to the state.
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

    /// Puts `state` in place of what `centre` saw, and does `act` to a stripe that had this.
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
            // More than was issued at all has been issued since: the centre has gone on.
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

    /// The commit of somebody who found nothing issued.
    pub(super) fn commit_shared(&self, word: u128, generation: u64, state: u128) -> bool {
        self.swap_shared(word, generation, Shared::of(word).at_rest(state)) && self.has_changed()
    }

    fn swap_shared(&self, word: u128, generation: u64, next: Shared) -> bool {
        debug_assert!(
            next.state < Shared::STATE_END,
            "a step left a state of over 88 bits"
        );
        let next = next.pack(generation);
        // Release: who finds the act knows what the stripe was seen to have.
        self.wide
            .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Seen {
    /// Now, with the state settled.
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
            // Not before it was spent, even if the clock has run backward since, or is read ahead of what was seen.
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
    /// The next one, with nothing issued and nothing to be done.
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
