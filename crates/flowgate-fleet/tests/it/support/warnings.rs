//! What this process writes to its log.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ONCE: Once = Once::new();

/// Keeps all warnings of this process.
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        write!(self.0, "{value:?}").expect("a string takes it");
    }
}

/// Keeps warnings from now on.
pub fn listen() {
    ONCE.call_once(|| tracing::subscriber::set_global_default(Warnings).expect("the only one"));
}

/// Returns the warnings with this word.
pub fn with(word: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let with = lines.iter().filter(|line| line.contains(word));
    with.cloned().collect()
}
