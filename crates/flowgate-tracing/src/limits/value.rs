//! The value of one field of an event, as it is printed.

use std::fmt::{self, Debug, Write};
use std::hash::Hasher;
use tracing_core::Event;
use tracing_core::field::{Field, Visit};

/// What the value hashes to, if the event has the field. Takes no memory but what the value's own printing does.
pub(super) fn hash(event: &Event<'_>, name: &str, hasher: impl Hasher) -> Option<u64> {
    let mut hashed = Hashed(hasher);
    print(event, name, &mut hashed).then(|| hashed.0.finish())
}

/// The value, if the event has the field.
pub(super) fn text(event: &Event<'_>, name: &str) -> Option<String> {
    let mut text = String::new();
    print(event, name, &mut text).then_some(text)
}

/// Prints the value, and returns whether there was one.
fn print(event: &Event<'_>, name: &str, to: &mut impl Write) -> bool {
    // Most callsites do not have the field, and need not be visited.
    let Some(field) = event.metadata().fields().field(name) else {
        return false;
    };
    let mut printer = Printer {
        field,
        to,
        is_there: false,
    };
    event.record(&mut printer);
    printer.is_there
}

struct Printer<'a, W> {
    field: Field,
    to: &'a mut W,
    is_there: bool,
}

/// Everything but text comes as `Debug`, which numbers print themselves with, and `%value` too.
impl<W: Write> Visit for Printer<'_, W> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if *field == self.field {
            // Where a value fails to print itself, what it has printed until then is its name.
            let _ = write!(self.to, "{value:?}");
            self.is_there = true;
        }
    }
}

struct Hashed<H>(H);

impl<H: Hasher> Write for Hashed<H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
