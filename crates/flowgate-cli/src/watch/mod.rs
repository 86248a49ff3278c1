//! Saying how far a run is, on standard error, while it goes.
//!
//! On a terminal it is a view that is drawn in place, and gone when the report is printed; elsewhere nothing, as nobody
//! watches a log. `--progress` makes it plain lines, one each second.

mod frame;
mod screen;
mod spark;

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use console::Term;
use flowgate_load::{Progress, Stop};

pub(crate) use frame::Subject;

use crate::exit::complain;
use screen::Screen;

/// A terminal narrower than this is not drawn on at all.
const LEAST_WIDTH: usize = 20;

/// Who tells others how far a run is.
#[derive(Debug)]
pub(crate) enum Watch {
    Nobody,
    Lines(Lines),
    View(View),
}

/// A plain line each second.
#[derive(Debug)]
pub(crate) struct Lines {
    next: Duration,
}

/// A view that is drawn in place.
#[derive(Debug)]
pub(crate) struct View {
    subject: Subject,
    stop: Stop,
    screen: Screen,
}

impl Watch {
    /// Lines, if they are asked for; otherwise a view, unless it is not wanted or there is no terminal.
    pub(crate) fn new(wants_lines: bool, wants_view: bool, subject: Subject, stop: &Stop) -> Watch {
        if wants_lines {
            return Watch::Lines(Lines {
                next: Duration::from_secs(1),
            });
        }
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        if !wants_view || is_dumb || !stderr().is_terminal() {
            return Watch::Nobody;
        }
        let screen = Screen::new(Term::stderr());
        if screen.width() < LEAST_WIDTH {
            return Watch::Nobody;
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

    /// Whether it shows what is going on all the time, so that others need not say it.
    pub(crate) fn is_view(&self) -> bool {
        matches!(self, Watch::View(_))
    }

    /// Tells how far the run is.
    pub(crate) fn tell(&mut self, progress: &Progress) {
        match self {
            Watch::Nobody => {}
            Watch::Lines(lines) => lines.tell(progress),
            Watch::View(view) => view.draw(progress),
        }
    }

    /// Leaves nothing behind.
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
