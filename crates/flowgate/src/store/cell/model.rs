//! loom models of the cell: every interleaving of decisions, changes of parameters and the clock.
//!
//! Run by `ci/loom.sh`. The limiter in it is the smallest whose state means something else under other
//! parameters: tokens are counted in parts, of which `parts_per_token` make a token, and one token flows
//! in when the clock, an atomic that moves while the others decide, strikes 1.

use super::{Cell, Parameters, Step};
use crate::primitive::const_unless_loom;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

#[derive(Clone, Copy)]
struct Parts {
    parts_per_token: u64,
    /// One more than `parts_per_token`, which tells a torn pair.
    check: u64,
}

impl Parts {
    const fn new(parts_per_token: u64) -> Self {
        Self {
            parts_per_token,
            check: parts_per_token + 1,
        }
    }

    fn per_token(&self) -> u128 {
        assert_eq!(self.check, self.parts_per_token + 1, "torn parameters");
        u128::from(self.parts_per_token)
    }
}

impl Parameters<2> for Parts {
    fn to_words(&self) -> [u64; 2] {
        [self.parts_per_token, self.check]
    }

    fn from_words([parts_per_token, check]: [u64; 2]) -> Self {
        Self {
            parts_per_token,
            check,
        }
    }
}

struct Model {
    cell: Cell<Parts, 2>,
    now: AtomicU64,
}

/// Twice the parts that are left, and in the lowest bit whether the token of the stroke has flowed in.
const fn state(parts: u128, struck: u128) -> u128 {
    parts << 1 | struck
}

/// The parts at `now`.
fn settled(parameters: &Parts, state: u128, now: u64) -> (u128, u128) {
    let (parts, struck) = (state >> 1, state & 1);
    if struck == 0 && now > 0 {
        (parts + parameters.per_token(), 1)
    } else {
        (parts, struck)
    }
}

impl Model {
    const_unless_loom! {
        const fn new(tokens: u64, parts_per_token: u64) -> Self {
            let parameters = Parts::new(parts_per_token);
            Self {
                cell: Cell::new(
                    [parameters.parts_per_token, parameters.check],
                    state(tokens as u128 * parts_per_token as u128, 0),
                ),
                now: AtomicU64::new(0),
            }
        }
    }

    fn take(&self) -> u64 {
        let now = self.now.load(Ordering::SeqCst);
        let taken = self.cell.decide(|parameters, seen| {
            let (parts, struck) = settled(parameters, seen, now);
            match parts.checked_sub(parameters.per_token()) {
                Some(parts) => Ok(state(parts, struck)),
                None => Err(()),
            }
        });
        u64::from(taken.is_ok())
    }

    /// The same through `update`.
    fn take_up_to_one(&self) -> u64 {
        let now = self.now.load(Ordering::SeqCst);
        self.cell.update(|parameters, seen| {
            let (parts, struck) = settled(parameters, seen, now);
            match parts.checked_sub(parameters.per_token()) {
                Some(parts) => Step::Move(state(parts, struck), 1),
                None => Step::Stay(0),
            }
        })
    }

    fn change(&self, parts_per_token: u64) {
        self.cell.reconfigure(|old, seen| {
            let (parts, struck) = settled(old, seen, self.now.load(Ordering::SeqCst));
            assert_eq!(parts % old.per_token(), 0, "a state of other parameters");
            let tokens = parts / old.per_token();
            let new = Parts::new(parts_per_token);
            (new, state(tokens * new.per_token(), struck), ())
        });
    }
}

/// Two takers, `other` beside them, and the clock: of 2 tokens and the one that flows in, 3 are taken.
fn explore(preemptions: usize, takers: usize, other: fn(&Model)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Arc::new(Model::new(2, 1));
        let takers: Vec<_> = (0..takers)
            .map(|taker| {
                let model = Arc::clone(&model);
                thread::spawn(move || match taker {
                    0 => model.take(),
                    _ => model.take_up_to_one(),
                })
            })
            .collect();
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || other(&model))
        };
        model.now.store(1, Ordering::SeqCst);
        let taken: u64 = takers
            .into_iter()
            .map(|taker| taker.join().expect("no panic"))
            .sum();
        other.join().expect("no panic");
        let (parameters, left) = model.cell.view();
        let (parts, _) = settled(&parameters, left, 1);
        assert_eq!(
            parts % parameters.per_token(),
            0,
            "state and parameters do not belong together"
        );
        let left = parts / parameters.per_token();
        assert_eq!(u128::from(taken) + left, 3, "took {taken}, left {left}");
    });
}

#[test]
fn c1_takers_race_a_change_of_parameters_and_the_clock() {
    explore(2, 2, |model| model.change(3));
}

#[test]
fn c1_a_taker_races_two_changes_of_parameters_and_the_clock() {
    explore(3, 1, |model| {
        model.change(3);
        model.change(2);
    });
}
