//! A run on the page: its name, and the look of its lines.

use flowgate_chart::Look;

use crate::report::Report;

/// Maximum length of a name. A whole URL would displace everything else.
const NAME: usize = 60;

/// A report with its name.
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
