//! Progress of a run on standard error.
//!
//! On a terminal it is a live view, which is removed before the report is printed. Elsewhere there is none.
//! `--progress` prints one plain line per second instead.

mod frame;
mod screen;

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use console::Term;
use flowgate_load::{Progress, Stop};

pub(crate) use frame::Subject;

use crate::exit::complain;
use screen::Screen;

/// Minimum width of a terminal for the live view.
const LEAST_WIDTH: usize = 20;

/// How the progress is shown.
#[derive(Debug)]
pub(crate) enum Watch {
    None,
    Lines(Lines),
    View(View),
}

/// One plain line per second.
#[derive(Debug)]
pub(crate) struct Lines {
    next: Duration,
}

/// A live view.
#[derive(Debug)]
pub(crate) struct View {
    subject: Subject,
    stop: Stop,
    screen: Screen,
}

impl Watch {
    /// Returns lines if requested, otherwise a view, unless it is disabled or there is no terminal.
    pub(crate) fn new(wants_lines: bool, wants_view: bool, subject: Subject, stop: &Stop) -> Watch {
        if wants_lines {
            return Watch::Lines(Lines {
                next: Duration::from_secs(1),
            });
        }
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        if !wants_view || is_dumb || !stderr().is_terminal() {
            return Watch::None;
        }
        let screen = Screen::new(Term::stderr());
        if screen.width() < LEAST_WIDTH {
            return Watch::None;
        }
        let mut view = View {
            subject,
            stop: stop.clone(),
            screen,
        };
        let lines = frame::before(&view.subject, view.screen.width());
        view.screen.show(&lines);
        Watch::View(view)
    }

    /// Returns whether there is a live view, which makes other messages unnecessary.
    pub(crate) fn is_view(&self) -> bool {
        matches!(self, Watch::View(_))
    }

    /// Shows the progress.
    pub(crate) fn tell(&mut self, progress: &Progress) {
        match self {
            Watch::None => {}
            Watch::Lines(lines) => lines.tell(progress),
            Watch::View(view) => view.draw(progress),
        }
    }

    /// Removes the live view.
    pub(crate) fn end(self) {
        if let Watch::View(mut view) = self {
            view.screen.show(&[]);
        }
    }
}

impl Lines {
    fn tell(&mut self, progress: &Progress) {
        if progress.elapsed < self.next {
            return;
        }
        let second = progress.elapsed.as_secs();
        self.next = Duration::from_secs(second + 1);
        complain(&frame::line(progress));
    }
}

impl View {
    fn draw(&mut self, progress: &Progress) {
        let width = self.screen.width();
        let is_stopping = self.stop.is_stopped();
        let lines = frame::during(&self.subject, progress, is_stopping, width);
        self.screen.show(&lines);
    }
}
