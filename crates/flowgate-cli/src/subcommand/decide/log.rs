//! What the server says while it runs: lines for people, JSON for programs, or the last line of a view.

use std::fmt::Display;
use std::io::{Write, stderr};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing::{info, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::complain;

/// The format of `--log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The level of `--log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Level {
    /// What an operator should look at
    Warn,
    /// What the server does, such as reading its files again
    Info,
    /// Each request, decision and call to the store, with its time
    Debug,
}

/// Where lines go.
#[derive(Clone, Debug)]
pub(super) enum Log {
    Text,
    Json,
    /// The last one is shown.
    View(Arc<Mutex<String>>),
}

impl Log {
    /// Writes JSON to standard error from now on, of this program's own parts.
    pub(super) fn json(level: Level) -> Log {
        let level = match level {
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
        };
        // The names of all crates here begin so.
        let own = Targets::new().with_target("flowgate", level);
        let lines = tracing_subscriber::fmt::layer()
            .json()
            .with_writer(stderr)
            .with_span_events(FmtSpan::CLOSE);
        let registry = tracing_subscriber::registry().with(lines.with_filter(own));
        // Another one can only be that of a test.
        let _ = registry.try_init();
        Log::Json
    }

    /// Reports something that was done.
    pub(super) fn say(&self, line: &str) {
        match self {
            // A closed standard error is not a failure.
            Log::Text => _ = writeln!(stderr(), "{line}"),
            Log::Json => info!("{line}"),
            Log::View(last) => set(last, line),
        }
    }

    /// Reports something that an operator should look at.
    pub(super) fn complain(&self, line: &dyn Display) {
        match self {
            Log::Text => complain(line),
            Log::Json => warn!("{line}"),
            Log::View(last) => set(last, &line.to_string()),
        }
    }
}

fn set(last: &Mutex<String>, line: &str) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    line.clone_into(&mut last);
}
