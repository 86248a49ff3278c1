//! loom models of stripes: every interleaving of filling, taking, taking back, changes and the clock.
//!
//! Run by `ci/loom.sh`. What is counted in the end is everything that was admitted and everything that is left, so
//! that a token which was minted or lost is found although nobody took it.

use super::{Centre, Shared};
use crate::clock::ManualClock;
use crate::quota::Quota;
use crate::store::word::{Parameters, Step, TokenBucket, Word};
use core::time::Duration;
use loom::sync::Arc;
use loom::thread;

const INTERVAL: Duration = Duration::from_nanos(10);

/// Two stripes, filled by single tokens to begin with.
const STRIPES: usize = 2;
const BURST: u64 = 128 * STRIPES as u64;
/// What has to be left for a stripe to be filled.
const RESERVE: u64 = Shared::MOST_HANDFULS * STRIPES as u64;

/// One token per 10 ns.
fn parameters(burst: u64) -> Parameters {
    let quota = Quota::new(1, INTERVAL)
        .and_then(|quota| quota.try_burst(burst))
        .expect("a quota within range");
    Parameters::new(&quota, burst)
}

struct Model {
    word: Word<TokenBucket>,
    time: ManualClock,
}

impl Model {
    /// With so many tokens, at an instant that is not the first.
    fn with(tokens: u64) -> Self {
        let time = ManualClock::new();
        time.advance(INTERVAL * 10_000);
        let mut word = Word::new(parameters(BURST));
        word.share(STRIPES, (&time).into());
        let model = Self { word, time };
        assert!(model.word.is_shared());
        model.leave(tokens);
        model
    }

    fn leave(&self, tokens: u64) {
        self.word.update(self.now_ns(), |view| {
            let missing = view.parameters.ticks(BURST - tokens);
            Step::Move(view.now + missing, ())
        });
    }

    fn now_ns(&self) -> u64 {
        self.time.now().as_nanos()
    }

    /// As a striped limiter does it.
    fn take(&self, stripe: usize, n: u64) -> u64 {
        let answer = match self.word.draw(stripe, Some(n)) {
            Some(answer) => answer,
            None => self.word.take_units(self.now_ns(), n, || Ok(())),
        };
        if answer.is_ok() { n } else { 0 }
    }

    /// One token, however many units that is.
    fn take_token(&self, stripe: usize) -> u64 {
        let own = self.stripes().get(stripe);
        let is_taken = own.take_token()
            || match self.word.draw(stripe, None) {
                Some(answer) => answer.is_ok(),
                None => self.word.take_token(self.now_ns(), || Ok(())).is_ok(),
            };
        u64::from(is_taken)
    }

    /// As everything else does it.
    fn take_at_centre(&self, n: u64) -> u64 {
        let answer = self.word.take_units(self.now_ns(), n, || Ok(()));
        if answer.is_ok() { n } else { 0 }
    }

    /// Asks until the stripe has got something.
    fn fill(&self, stripe: usize) -> u64 {
        (0..3).map(|_| self.take(stripe, 1)).sum()
    }

    fn stripes(&self) -> &super::Stripes {
        self.word.stripes().expect("it is shared")
    }

    fn in_stripes(&self) -> u64 {
        (0..STRIPES)
            .map(|at| self.stripes().get(at).held().units)
            .sum()
    }

    /// What is left when the stripes have been emptied.
    fn left(&self) -> u64 {
        let view = self.word.view(self.now_ns());
        assert_eq!(self.in_stripes(), 0, "after everything has been taken back");
        let level =
            (view.now + view.parameters.burst_ticks()).saturating_sub(view.state.max(view.now));
        (level / u128::from(view.parameters.unit_ticks)) as u64
    }
}

type Threads = &'static [fn(&Model) -> u64];

/// `before`, then `threads` at once, the last of which is this one, then `after` with what was admitted.
fn explore(
    tokens: u64,
    before: fn(&Model) -> u64,
    threads: Threads,
    after: fn(&Model, admitted: u64),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 100_000;
    builder.check(move || {
        let model = Arc::new(Model::with(tokens));
        let before = before(&model);
        let (last, others) = threads.split_last().expect("at least one");
        let others: Vec<_> = others
            .iter()
            .map(|&other| {
                let model = Arc::clone(&model);
                thread::spawn(move || other(&model))
            })
            .collect();
        let admitted = last(&model);
        let others = others
            .into_iter()
            .map(|other| other.join().expect("no panic"));
        after(&model, before + admitted + others.sum::<u64>());
    });
}

fn nothing(_: &Model) -> u64 {
    0
}

/// Neither minted nor lost, where no time passes.
fn all_are_there(tokens: u64) -> impl Fn(&Model, u64) {
    move |model, admitted| {
        let total = admitted + model.left();
        assert_eq!(total, tokens, "{admitted} were admitted");
    }
}

#[test]
fn c1_c2_fills_of_two_stripes_race() {
    explore(
        RESERVE + 20,
        |model| model.fill(0) + model.fill(1),
        &[|model| model.take(0, 1), |model| model.take(1, 2)],
        |model, admitted| all_are_there(RESERVE + 20)(model, admitted),
    );
}

#[test]
fn c1_c2_two_threads_fill_one_stripe() {
    explore(
        RESERVE + 20,
        |model| model.fill(0),
        &[
            |model| model.take(0, 1) + model.take(0, 1),
            |model| model.take(0, 1) + model.take(0, 1),
        ],
        |model, admitted| all_are_there(RESERVE + 20)(model, admitted),
    );
}

/// One looks at the centre before anything is issued, and at the stripe when that has been filled and spent.
#[test]
fn c1_c2_a_stripe_is_filled_and_spent_behind_who_looks_at_it() {
    explore(
        RESERVE + 20,
        nothing,
        &[
            |model| model.take(0, 1) + model.take(0, 1),
            |model| model.take(0, 1),
        ],
        |model, admitted| all_are_there(RESERVE + 20)(model, admitted),
    );
}

#[test]
fn c1_c2_a_fill_races_who_takes_everything_back() {
    explore(
        RESERVE + 20,
        |model| model.fill(0),
        &[
            |model| model.take(0, 1) + model.take(0, 1),
            |model| model.take_at_centre(3),
        ],
        |model, admitted| all_are_there(RESERVE + 20)(model, admitted),
    );
}

/// The last tokens are in a stripe, and three want one each.
#[test]
fn c2_a_token_that_is_in_a_stripe_is_found() {
    explore(
        RESERVE + 10,
        |model| {
            let taken = model.fill(1);
            let left = RESERVE + 10 - taken - model.in_stripes();
            taken + model.take(0, left)
        },
        &[|model| model.take(0, 1), |model| model.take_at_centre(1)],
        |model, admitted| {
            assert!(admitted == RESERVE + 10 || model.left() + admitted == RESERVE + 10);
            assert!(model.left() == 0 || admitted == RESERVE + 10 - model.left());
        },
    );
}

/// Three are left, one of them in a stripe: who wants two of them finds them, whatever another does meanwhile.
#[test]
fn c2_tokens_in_several_places_are_found() {
    explore(
        RESERVE + 10,
        |model| {
            let taken = model.fill(1);
            let left = RESERVE + 10 - taken - model.in_stripes();
            taken + model.take(0, left - 2)
        },
        &[|model| model.take(1, 1), |model| model.take(0, 2)],
        |model, admitted| {
            assert!(model.left() + admitted == RESERVE + 10);
            assert!(
                model.left() < 2,
                "refused although {} were left",
                model.left()
            );
        },
    );
}

/// Full, with a stripe that has been filled long ago: what is spent from it is not given twice.
#[test]
fn c1_who_hoards_and_then_spends_at_once_gets_no_more_than_a_burst() {
    explore(
        BURST,
        |model| {
            model.fill(0);
            model.fill(1);
            // Full again, as far as stripes leave room.
            model.time.advance(INTERVAL * 10_000);
            0
        },
        &[
            |model| model.take(0, 1) + model.take(0, 1),
            |model| model.take(1, 1) + model.take(1, 1),
            |model| {
                model.time.advance(INTERVAL);
                0
            },
        ],
        |model, admitted| {
            let total = admitted + model.left();
            assert!(
                total <= BURST + 1,
                "admitted {total} with a burst of {BURST}"
            );
            assert!(total + 2 * Shared::MOST_HANDFULS >= BURST, "lost: {total}");
        },
    );
}

#[test]
fn c1_c2_a_fill_races_a_change_of_quota() {
    explore(
        RESERVE + 20,
        |model| model.fill(0),
        &[
            |model| model.take(0, 1) + model.take(0, 1),
            |model| {
                // The same tokens, and a burst that is too small to share.
                model.word.reconfigure(|old, state| {
                    let new = parameters(BURST / 2);
                    let less = old.ticks(BURST - BURST / 2);
                    (new, state.saturating_sub(less), ())
                });
                0
            },
        ],
        |model, admitted| all_are_there(RESERVE + 20)(model, admitted),
    );
}

#[test]
fn c6_no_stripe_has_anything_while_newcomers_are_held() {
    explore(
        RESERVE + 20,
        |model| model.fill(0),
        &[
            |model| model.take(0, 1) + model.take(0, 1),
            |model| {
                model.word.hold(true);
                assert_eq!(model.in_stripes(), 0);
                0
            },
        ],
        |model, admitted| {
            assert_eq!(model.in_stripes(), 0, "filled behind those who wait");
            all_are_there(RESERVE + 20)(model, admitted);
        },
    );
}

/// Nothing is left; then something is given back while somebody notes that there is nothing.
#[test]
fn c2_what_is_given_back_is_not_taken_for_missing() {
    explore(
        0,
        nothing,
        &[
            |model| model.take(0, 1),
            |model| {
                model.leave(1);
                0
            },
        ],
        |model, admitted| {
            let stripe = model.stripes().get(0);
            let is_dry = stripe
                .is_dry_for(|at_ns| at_ns.saturating_sub(model.now_ns()))
                .is_some();
            assert!(
                !is_dry || admitted == 1,
                "there is one, and it says that there is none"
            );
        },
    );
}

/// A token becomes two units, of which a stripe gets a handful, while some want a token each.
#[test]
fn c1_c2_a_token_is_paid_for_as_what_it_is() {
    explore(
        BURST,
        |model| model.fill(0),
        &[
            |model| model.take_token(0) + model.take_token(0),
            |model| {
                model.word.reconfigure(|_, state| {
                    let quota = Quota::new(1, INTERVAL)
                        .and_then(|quota| quota.try_burst(2 * BURST))
                        .and_then(|quota| quota.units_per_token(2))
                        .expect("a quota within range");
                    let new = Parameters::new(&quota, 0);
                    // As many ticks to a token as before, in twice as many to a nanosecond.
                    (new, state * u128::from(new.ticks_per_ns), ())
                });
                model.take_token(0)
            },
        ],
        |model, admitted| {
            let view = model.word.view(model.now_ns());
            let taken = view.state.saturating_sub(view.now) / view.parameters.token_ticks();
            assert_eq!(taken, u128::from(admitted));
        },
    );
}

/// Two take back what one stripe has, while its owner spends it.
#[test]
fn c1_c2_what_is_frozen_is_taken_back_once() {
    explore(
        RESERVE + 20,
        |model| model.fill(0) + model.take(0, 1),
        &[
            |model| model.take_at_centre(1),
            |model| model.take_at_centre(1),
            |model| model.take(0, 1),
        ],
        |model, admitted| all_are_there(RESERVE + 20)(model, admitted),
    );
}
