//! Fixed windows that begin with a request. The count restarts with each window.

use super::{Decide, GRAIN};
use crate::evidence::{Evidence, Span};

/// A window begins with the first request after the previous one has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OnRequest {
    pub(crate) limit: f64,
    pub(crate) window: f64,
}

/// State of the current window: its start, and its number of admissions.
#[derive(Clone, Copy, Debug)]
struct Open {
    began: Span,
    at_least: f64,
    at_most: f64,
}

impl Open {
    fn with(span: Span) -> Self {
        Self {
            began: span,
            at_least: 1.0,
            at_most: 1.0,
        }
    }
}

/// The latest window, the one before it (for refusals that were in flight meanwhile), and the number of wrong
/// admissions.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    open: Option<Open>,
    before: Option<Open>,
    over: u64,
}

impl OnRequest {
    /// Counts the admissions beyond the limit of a window that was certainly open.
    ///
    /// If it is uncertain whether an admission opened a new window, the knowledge about the window becomes vaguer.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let mut windows = Windows::default();
        for span in &evidence.possibly {
            self.admit(&mut windows, *span);
        }
        windows.over
    }

    /// Passes to `each` whether a refusal can be right: an open window can have reached its limit.
    pub(crate) fn judge_refusals(&self, evidence: &Evidence, each: impl FnMut(bool)) {
        evidence.judge_refusals(
            &mut Windows::default(),
            |windows, span| self.admit(windows, span),
            |windows, span| {
                let known = [windows.open, windows.before];
                known.into_iter().flatten().any(|known| {
                    let may_be_open = span.from < known.began.to + self.window + GRAIN;
                    may_be_open && known.at_most >= self.limit
                })
            },
            each,
        );
    }

    /// Processes an admission.
    fn admit(&self, windows: &mut Windows, span: Span) {
        let begin = |windows: &mut Windows| {
            windows.before = windows.open.replace(Open::with(span));
        };
        let Some(now) = &mut windows.open else {
            return begin(windows);
        };
        let surely_open = span.to < now.began.from + self.window - GRAIN;
        let surely_over = span.from >= now.began.to + self.window;
        if surely_over || (!surely_open && now.at_least >= self.limit) {
            return begin(windows);
        }
        now.at_most += 1.0;
        if surely_open {
            windows.over += u64::from(now.at_least >= self.limit);
            now.at_least = (now.at_least + 1.0).min(self.limit);
        } else {
            now.began.to = span.to;
            now.at_least = 1.0;
        }
    }

    pub(crate) fn start(self) -> Decide {
        let mut ends = f64::NEG_INFINITY;
        let mut count = 0.0;
        Box::new(move |now| {
            if now + GRAIN >= ends {
                ends = now + self.window;
                count = 0.0;
            }
            let admits = count < self.limit;
            if admits {
                count += 1.0;
            }
            admits
        })
    }
}
