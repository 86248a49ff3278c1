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

/// Lines on a terminal that are drawn over the previous ones.
#[cfg(any(feature = "decide", feature = "fleet"))]
#[derive(Debug)]
pub(crate) struct Canvas(Screen);

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
        let Some(screen) = wants_view.then(terminal).flatten() else {
            return Watch::None;
        };
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

/// Returns the terminal of standard error, if it is one that can be drawn on.
fn terminal() -> Option<Screen> {
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    if is_dumb || !stderr().is_terminal() {
        return None;
    }
    let screen = Screen::new(Term::stderr());
    (screen.width() >= LEAST_WIDTH).then_some(screen)
}

#[cfg(any(feature = "decide", feature = "fleet"))]
impl Canvas {
    /// Returns `None` if there is no terminal.
    pub(crate) fn new() -> Option<Canvas> {
        terminal().map(Canvas)
    }

    /// Shows these lines in place of the previous ones, cut to the width of the terminal.
    pub(crate) fn show(&mut self, lines: Vec<String>) {
        let width = self.0.width();
        let cut = |line: String| console::truncate_str(&line, width, "…").into_owned();
        let lines: Vec<_> = lines.into_iter().map(cut).collect();
        self.0.show(&lines);
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
