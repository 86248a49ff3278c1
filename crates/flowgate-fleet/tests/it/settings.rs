//! What is said about a store whose settings let a limit forget.

use crate::support::{Engine, until};
use flowgate_fleet::Fleet;
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

fn warnings_with(word: &str) -> usize {
    let lines = LINES.lock().unwrap();
    lines.iter().filter(|line| line.contains(word)).count()
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn one_warning_is_given_for_each_dangerous_setting_and_each_limit_that_lasts() {
    ONCE.call_once(|| tracing::subscriber::set_global_default(Warnings).expect("the only one"));
    // No other test has this policy.
    let settings = ["--maxmemory-policy", "volatile-ttl", "--maxmemory", "100mb"];
    let engine = Engine::start_with(&settings);
    let fleet = Fleet::redis(&engine.url())
        .unwrap()
        .nodes(2)
        .open()
        .unwrap();
    let _early = fleet
        .limit("early limit", "3/day".parse().unwrap())
        .build()
        .unwrap();
    until("no warning of an eviction", || {
        warnings_with("volatile-ttl") > 0
    });
    until("no warning of a limit", || warnings_with("early limit") > 0);
    let _late = fleet
        .limit("late limit", "3/day".parse().unwrap())
        .build()
        .unwrap();
    let _short = fleet
        .limit("short limit", "3/min".parse().unwrap())
        .build()
        .unwrap();
    let counts = ["volatile-ttl", "early limit", "late limit", "short limit"].map(warnings_with);
    assert_eq!(counts, [1, 1, 1, 0]);
}
