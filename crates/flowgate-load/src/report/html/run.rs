//! A run on the page: what it is called, and how its lines look.

use flowgate_chart::Look;

use crate::report::Report;

/// Characters of a name that are shown; a whole URL would push the rest aside.
const NAME: usize = 60;

/// A report under its name.
pub(super) struct Run<'a> {
    pub(super) name: String,
    pub(super) report: &'a Report,
    pub(super) look: Look,
}

impl<'a> Run<'a> {
    pub(super) fn new(index: usize, label: &str, report: &'a Report) -> Run<'a> {
        let number = format!("run {}", index + 1);
        let label = if label.trim().is_empty() {
            &number
        } else {
            label.trim()
        };
        let mut name: String = label.chars().take(NAME).collect();
        if label.chars().count() > NAME {
            name.push('…');
        }
        Run {
            name,
            report,
            look: Look::of(index),
        }
    }
}
