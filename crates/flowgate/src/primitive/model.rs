//! loom models of parameters that change while other threads read them. Run by `ci/loom.sh`.
//!
//! The reader races a writer that makes as many changes as it takes to overwrite the version that is
//! being read. In every interleaving, the words that a reader accepts belong to one generation.

use super::seqlock::Seqlock;
use super::versioned::{Version, Versioned};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Three words, so that a mix can be found whichever word differs.
fn words(generation: u64) -> [u64; 3] {
    [generation, generation + 100, generation + 200]
}

/// Bits below the generation, of which the lowest is a flag.
const SHIFT: u32 = 1;
const TAG: u64 = 0xff & !FLAG;
const FLAG: u64 = 1;
/// What the announcing word counts above its 8 bits of generation and flag.
const COUNTED: u64 = 1 << 8;

struct Model {
    announced: AtomicU64,
    parameters: Versioned<3, SHIFT>,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            announced: AtomicU64::new(0),
            parameters: Versioned::new(&words(0)),
        })
    }

    /// Changes to generation `to`, as a limiter does: the rest of the announcing word stays as it is.
    fn change(&self, to: u64) {
        self.parameters.fill(to << SHIFT, &words(to));
        self.announce(to);
    }

    fn announce(&self, generation: u64) {
        loop {
            let word = self.announced.load(Ordering::Acquire);
            let new = word & !TAG | generation << SHIFT;
            let swapped =
                self.announced
                    .compare_exchange(word, new, Ordering::Release, Ordering::Relaxed);
            if swapped.is_ok() {
                return;
            }
        }
    }

    /// Reads as a limiter does that computes with the words before it loads the tag.
    fn read(&self) -> Option<u64> {
        let word = self.announced.load(Ordering::Acquire);
        let version = self.parameters.of(word);
        let read = [version.word(0), version.word(1), version.word(2)];
        if version.tag() & TAG != word & TAG {
            // Only a version that is no longer current is overwritten.
            assert_ne!(self.announced.load(Ordering::Relaxed) & TAG, word & TAG);
            return None;
        }
        let generation = (word & TAG) >> SHIFT;
        assert_eq!(read, words(generation), "mixed words");
        Some(generation)
    }
}

/// `reader` beside `writer`, in every interleaving.
fn explore<T>(
    new: fn() -> Arc<T>,
    reader: impl Fn(&T) + Send + Sync + Copy + 'static,
    writer: impl Fn(&T) + Send + Sync + Copy + 'static,
) where
    T: Send + Sync + 'static,
{
    loom::model(move || {
        let model = new();
        let reading = {
            let model = Arc::clone(&model);
            thread::spawn(move || reader(&model))
        };
        writer(&model);
        reading.join().expect("no panic");
    });
}

/// One version, which is overwritten while its generation is still current.
struct Alone {
    announced: AtomicU64,
    parameters: Version<3>,
}

impl Alone {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            announced: AtomicU64::new(0),
            parameters: Version::new(0, &words(0)),
        })
    }

    fn change(&self, to: u64) {
        self.parameters.fill(to << SHIFT, &words(to));
        self.announced.store(to << SHIFT, Ordering::Release);
    }

    fn read(&self) {
        let announced = self.announced.load(Ordering::Acquire);
        let read = self.parameters.all_words();
        if self.parameters.tag() == announced {
            assert_eq!(read, words(announced >> SHIFT), "mixed words");
        }
    }
}

fn change_twice(model: &Model) {
    model.change(1);
    model.change(2);
}

#[test]
fn c1_c2_accepted_words_belong_to_the_announced_generation() {
    explore(
        Model::new,
        |model| {
            model.read();
        },
        change_twice,
    );
}

/// The reader learns the generation from a word that a third thread has changed, without Release.
#[test]
fn c1_c2_an_announcement_passes_through_relaxed_swaps() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Model::new();
        let deciding = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                let word = model.announced.load(Ordering::Relaxed);
                let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                let counted = word + COUNTED;
                let _ = model
                    .announced
                    .compare_exchange(word, counted, success, failure);
            })
        };
        let reading = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                model.read();
            })
        };
        change_twice(&model);
        deciding.join().expect("no panic");
        reading.join().expect("no panic");
        assert_eq!(model.read(), Some(2));
    });
}

/// The version before the current one, and the current one: accepted only together.
#[test]
fn the_last_change_is_read_whole() {
    explore(
        Model::new,
        |model| {
            let tag = model.announced.load(Ordering::Acquire);
            let before = tag.wrapping_sub(1 << SHIFT);
            let from = model.parameters.load(before);
            let to = model.parameters.load(tag);
            if let (Some(from), Some(to)) = (from, to) {
                let generation = tag >> SHIFT;
                assert_eq!(from, words(generation.saturating_sub(1)), "mixed words");
                assert_eq!(to, words(generation), "mixed words");
            }
        },
        change_twice,
    );
}

#[test]
fn a_seqlock_returns_words_that_were_stored_together() {
    explore(
        || Arc::new(Seqlock::new(&words(0))),
        |lock| {
            if let Some(read) = lock.read(|read| read) {
                assert_eq!(read, words(read[0]), "mixed words");
            }
        },
        |lock| {
            for generation in 1..=2 {
                lock.store(&words(generation));
                let stored = lock.read(|read| read);
                assert_eq!(stored, Some(words(generation)), "no other thread writes");
            }
        },
    );
}

#[test]
fn c1_c2_words_in_one_version_are_accepted_only_if_they_belong_to_the_announced_generation() {
    explore(Alone::new, Alone::read, |model| {
        model.change(1);
        model.change(2);
    });
}

/// The canary: the same exploration finds a writer that gives up a change by putting back the words that are current.
#[test]
#[should_panic(expected = "mixed words")]
fn a_tag_that_comes_back_is_caught() {
    explore(Alone::new, Alone::read, |model| {
        model.parameters.fill(1 << SHIFT, &words(1));
        model.parameters.fill(0, &words(0));
    });
}

/// The canary: the same exploration finds a reader that looks at the tag first.
#[test]
#[should_panic(expected = "mixed words")]
fn a_tag_that_is_loaded_before_the_words_is_caught() {
    explore(
        Model::new,
        |model| {
            let tag = model.announced.load(Ordering::Acquire);
            let version: &Version<3> = model.parameters.of(tag);
            if version.tag() == tag {
                assert_eq!(version.all_words(), words(tag >> SHIFT), "mixed words");
            }
        },
        change_twice,
    );
}

/// The canary: the same exploration finds a writer that announces a generation before it is stored.
#[test]
#[should_panic(expected = "tag")]
fn a_generation_that_is_announced_too_early_is_caught() {
    explore(
        Model::new,
        |model| {
            let tag = model.announced.load(Ordering::Acquire);
            assert!(
                model.parameters.load(tag).is_some() || {
                    let now = model.announced.load(Ordering::Acquire);
                    now != tag
                },
                "the tag of the current version is another"
            );
        },
        |model| {
            model.announce(1);
            model.parameters.fill(1 << SHIFT, &words(1));
        },
    );
}
