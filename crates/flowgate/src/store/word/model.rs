//! loom models of the word: every interleaving of decisions, changes of parameters and the clock.
//!
//! Run by `ci/loom.sh`. The clock is an atomic that moves while the others decide, because a model with
//! a clock that stands still cannot see a decision made with a stale reading.
//!
//! A change overwrites what 64-bit decisions read, word by word, and each load may see either. So beside a change there is one
//! taker: with two, the exploration takes too long.
//!
//! Each ends by draining the bucket, so that what is counted is everything that could ever be admitted
//! by the last instant: a token that was minted or lost is found even if no thread of the model used it.

use super::{FixedWindow, Layout, Lazy, Parameters, TokenBucket, Word};
use crate::quota::Quota;
use crate::verdict::Denied;
use core::time::Duration;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const INTERVAL_NS: u64 = 10;

/// One token per 10 ns.
fn narrow(burst: u64) -> Parameters {
    let quota = Quota::new(1, Duration::from_nanos(INTERVAL_NS))
        .and_then(|quota| quota.try_burst(burst))
        .expect("a quota within range");
    Parameters::new(&quota, burst)
}

fn wide(burst: u64) -> Parameters {
    Parameters {
        layout: Layout::Wide,
        narrow_span_ns: 0,
        ..narrow(burst)
    }
}

/// Narrow, and past its span as soon as the clock moves.
fn brief(burst: u64) -> Parameters {
    Parameters {
        narrow_span_ns: INTERVAL_NS,
        ..narrow(burst)
    }
}

struct Model {
    word: Word<TokenBucket>,
    now_ns: AtomicU64,
}

impl Model {
    fn take(&self) -> u64 {
        let admitted = self
            .word
            .take_token(self.now_ns.load(Ordering::SeqCst), || Ok(()));
        u64::from(admitted.is_ok())
    }

    fn drain(&self) -> u64 {
        (0..100)
            .map(|_| self.take())
            .take_while(|&admitted| admitted == 1)
            .sum()
    }

    /// Another burst, with the tokens kept: what `TokenBucket::set_burst` does to the word.
    fn change(&self, to: impl Fn() -> Parameters) {
        self.word.reconfigure(|old, state| {
            let new = to();
            let now = old.now_ticks(self.now_ns.load(Ordering::SeqCst));
            let level = (now + old.burst_ticks()).saturating_sub(state.max(now));
            (
                new,
                now + new.burst_ticks() - level.min(new.burst_ticks()),
                (),
            )
        });
    }
}

/// `takers` threads of `each` decisions, `other` beside them, and the clock moving on by one token.
/// All that is ever admitted must be the burst and that token.
fn explore(
    preemptions: Option<usize>,
    first: fn() -> Parameters,
    takers: (usize, usize),
    other: Option<fn(&Model)>,
) {
    explore_from(preemptions, Word::new, first, takers, other);
}

fn explore_from(
    preemptions: Option<usize>,
    new: fn(Parameters) -> Word<TokenBucket>,
    first: fn() -> Parameters,
    (takers, each): (usize, usize),
    other: Option<fn(&Model)>,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let model = Arc::new(Model {
            word: new(first()),
            now_ns: AtomicU64::new(0),
        });
        let mut threads: Vec<_> = (0..takers)
            .map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || (0..each).map(|_| model.take()).sum::<u64>())
            })
            .collect();
        if let Some(other) = other {
            let model = Arc::clone(&model);
            threads.push(thread::spawn(move || {
                other(&model);
                0
            }));
        }
        model.now_ns.store(INTERVAL_NS, Ordering::SeqCst);
        let admitted: u64 = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum();
        let total = admitted + model.drain();
        let narrow = model.word.narrow.load(Ordering::Acquire);
        assert!(
            super::Narrow::is_of(narrow, model.word.hot.tag()),
            "decisions stay on the slow path"
        );
        // A full bucket has no room for what flows in, so the token of the interval may be lost; no
        // more than it may be gained.
        let burst = first().burst_units;
        assert!(
            total <= burst + 1,
            "admitted {total} with a burst of {burst}"
        );
        assert!(
            total >= burst,
            "lost tokens: admitted {total} with a burst of {burst}"
        );
    });
}

#[test]
fn c1_takers_race_each_other_and_the_clock() {
    explore(None, || narrow(2), (2, 1), None);
    explore(Some(3), || narrow(2), (2, 2), None);
    explore(Some(2), || narrow(2), (3, 1), None);
}

#[test]
fn c1_takers_race_each_other_and_the_clock_in_the_wide_layout() {
    explore(Some(3), || wide(2), (2, 1), None);
}

#[test]
fn c1_a_taker_races_a_change_of_quota_and_the_clock() {
    explore(
        Some(2),
        || narrow(2),
        (1, 1),
        Some(|model| model.change(|| narrow(5))),
    );
}

/// What a change needs is made by the change, while others decide by what the word was built with.
#[test]
fn c1_takers_race_the_making_of_what_the_first_change_needs() {
    fn unmade(parameters: Parameters) -> Word<TokenBucket> {
        let mut word = Word::new(parameters);
        word.changes = Lazy::explored();
        word
    }
    for first in [|| narrow(2), || wide(2)] {
        let change: fn(&Model) = |model| model.change(|| narrow(5));
        explore_from(Some(2), unmade, first, (1, 1), Some(change));
    }
    explore_from(Some(2), unmade, || brief(2), (2, 1), None);
}

#[test]
fn c1_takers_race_two_changes_of_quota_and_the_clock() {
    explore(
        Some(1),
        || narrow(2),
        (1, 1),
        Some(|model| {
            model.change(|| narrow(5));
            model.change(|| narrow(3));
        }),
    );
}

#[test]
fn c1_a_taker_races_a_change_to_the_wide_layout_and_the_clock() {
    explore(
        Some(2),
        || narrow(2),
        (1, 1),
        Some(|model| model.change(|| wide(5))),
    );
}

#[test]
fn c1_takers_race_each_other_while_the_base_moves() {
    explore(Some(2), || brief(2), (2, 1), None);
}

#[test]
fn c1_a_taker_races_a_change_from_the_wide_layout_and_the_clock() {
    explore(
        Some(2),
        || wide(2),
        (1, 1),
        Some(|model| model.change(|| narrow(5))),
    );
    explore(
        Some(2),
        || wide(2),
        (1, 1),
        Some(|model| model.change(|| wide(5))),
    );
}

/// A refusal commits nothing, so nothing but the tag tells it that what it read was torn. Here three
/// quotas follow each other, under each of which 3 units are there, but not if the time that the word
/// holds is compared with a clock that is counted in the ticks of the last.
#[test]
fn c2_a_refusal_is_never_computed_from_two_quotas() {
    const NOW_NS: u64 = 1_000;
    fn three_of_four(count: u64) -> (Parameters, u128) {
        let quota = Quota::new(count, Duration::from_nanos(INTERVAL_NS))
            .and_then(|quota| quota.try_burst(4))
            .expect("a quota within range");
        let parameters = Parameters::new(&quota, 4);
        (
            parameters,
            parameters.now_ticks(NOW_NS) + parameters.ticks(1),
        )
    }
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(1);
    builder.check(|| {
        let (parameters, state) = three_of_four(3);
        let word = Arc::new(Word::<TokenBucket>::new(parameters));
        word.update(NOW_NS, |_| super::Step::Move(state, ()));
        let taker = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.take_units(NOW_NS, 3, || Ok(())))
        };
        // Two changes, so that the slot that the taker may be reading is filled again.
        for count in [3, 1] {
            word.reconfigure(|_, _| {
                let (parameters, state) = three_of_four(count);
                (parameters, state, ())
            });
        }
        let taken: Result<(), Denied> = taker.join().expect("no panic");
        assert_eq!(taken, Ok(()), "3 of 3 were refused");
    });
}

/// At most 2 per 10 ns, and from 400 ns on 3. Callers whose time is the origin get 2 in all, before and after the change.
#[test]
fn c1_c4_a_taker_of_a_window_with_a_time_from_before_races_the_change() {
    const CHANGE_NS: u64 = 400;
    fn window(limit: u64) -> Parameters {
        Parameters::for_window(limit, 1, INTERVAL_NS, None, 2)
    }
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let word = Arc::new(Word::<FixedWindow>::new(window(2)));
        let take = |word: &Word<FixedWindow>| u64::from(word.take_token(0, || Ok(())).is_ok());
        assert_eq!(take(&word), 1);
        let taker = {
            let word = Arc::clone(&word);
            thread::spawn(move || take(&word))
        };
        word.reconfigure(|old, _| {
            let new = Parameters {
                epoch: old.epoch + 1,
                since_ns: CHANGE_NS,
                ..window(3)
            };
            let state = new.ticks_in(CHANGE_NS + INTERVAL_NS);
            let layout = new.layout_for(CHANGE_NS, state);
            (Parameters { layout, ..new }, state, ())
        });
        let taken = taker.join().expect("no panic");
        assert_eq!(1 + taken + take(&word) + take(&word), 2);
    });
}

/// The canary: the same exploration finds what is wrong with a limiter that looks first and writes after.
#[test]
#[should_panic(expected = "admitted")]
fn c1_a_check_then_act_is_caught() {
    loom::model(|| {
        let state = Arc::new(AtomicU64::new(0));
        let take = |state: &AtomicU64| {
            let seen = state.load(Ordering::SeqCst);
            if seen < 10 {
                state.store(seen + 10, Ordering::SeqCst);
            }
            u64::from(seen < 10)
        };
        let other = {
            let state = Arc::clone(&state);
            thread::spawn(move || take(&state))
        };
        let admitted = take(&state) + other.join().expect("no panic");
        assert!(admitted <= 1, "admitted {admitted} with a burst of 1");
    });
}
