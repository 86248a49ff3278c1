//! The event that reports how many were suppressed.
//!
//! An event needs a callsite, and a callsite lives as long as the program; so a summary's is made when it is first
//! needed, and stays.

use std::sync::OnceLock;
use tracing_core::callsite::Identifier;
use tracing_core::field::{FieldSet, Value};
use tracing_core::metadata::Kind;
use tracing_core::{Callsite, Event, Interest, Metadata, span};

const MESSAGE: &str = "message";
const SUPPRESSED: &str = "suppressed";

/// The callsite of what is said of another.
pub(crate) struct Summary {
    of: &'static Metadata<'static>,
    /// Set as soon as it has an address, which is what it is known by.
    own: OnceLock<Metadata<'static>>,
}

/// Which span a summary is said in.
enum Within {
    Span(span::Id),
    Current,
    None,
}

impl Summary {
    /// Of this callsite; with a field that says which value of it is meant, if there is one.
    pub(crate) fn new(
        of: &'static Metadata<'static>,
        field: Option<&'static str>,
    ) -> &'static Self {
        let summary: &'static Self = Box::leak(Box::new(Self {
            of,
            own: OnceLock::new(),
        }));
        // The message and the number have their names already.
        let field = field.filter(|field| ![MESSAGE, SUPPRESSED].contains(field));
        let names: &'static [&'static str] = match field {
            Some(field) => Box::leak(Box::new([MESSAGE, SUPPRESSED, field])),
            None => &[MESSAGE, SUPPRESSED],
        };
        summary.own.get_or_init(|| {
            Metadata::new(
                of.name(),
                of.target(),
                *of.level(),
                of.file(),
                of.line(),
                of.module_path(),
                FieldSet::new(names, Identifier(summary)),
                Kind::EVENT,
            )
        });
        summary
    }

    /// What layers and filters know it by.
    pub(crate) fn own_metadata(&'static self) -> &'static Metadata<'static> {
        self.own.get().unwrap_or(self.of)
    }

    /// Says it, as if it had happened where `next` does. `value` is that of the field.
    pub(crate) fn say(
        &'static self,
        suppressed: u64,
        value: Option<&str>,
        next: &Event<'_>,
        tell: impl FnOnce(&Event<'_>),
    ) {
        let within = match next.parent() {
            Some(parent) => Within::Span(parent.clone()),
            None if next.is_root() => Within::None,
            None => Within::Current,
        };
        self.say_within(&within, suppressed, value, tell);
    }

    /// Says it, in no span.
    pub(crate) fn say_alone(&'static self, suppressed: u64, tell: impl FnOnce(&Event<'_>)) {
        self.say_within(&Within::None, suppressed, None, tell);
    }

    fn say_within(
        &'static self,
        within: &Within,
        suppressed: u64,
        value: Option<&str>,
        tell: impl FnOnce(&Event<'_>),
    ) {
        let own = self.own_metadata();
        let message = format_args!("similar events were suppressed");
        let fields = own.fields();
        let mut names = fields.iter();
        let (Some(text), Some(number)) = (names.next(), names.next()) else {
            return;
        };
        let mut values = [
            (&text, Some(&message as &dyn Value)),
            (&number, Some(&suppressed as &dyn Value)),
            // Nothing, if there is no third field.
            (&text, None),
        ];
        let third = names.next();
        if let (Some(field), Some(value)) = (&third, &value) {
            values[2] = (field, Some(value as &dyn Value));
        }
        let values = fields.value_set(&values);
        let event = match within {
            Within::Span(parent) => Event::new_child_of(parent.clone(), own, &values),
            Within::None => Event::new_child_of(None, own, &values),
            Within::Current => Event::new(own, &values),
        };
        tell(&event);
    }
}

impl Callsite for Summary {
    /// Does nothing: a summary is only passed to one layer.
    fn set_interest(&self, _interest: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.own.get().unwrap_or(self.of)
    }
}
