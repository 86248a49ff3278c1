//! The two runtimes that every asynchronous subject is measured under.

use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

/// A flavour of tokio's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// One thread, which runs the tasks and waits.
    CurrentThread,
    /// Two worker threads.
    MultiThread,
}

impl Flavour {
    pub const ALL: [Flavour; 2] = [Flavour::CurrentThread, Flavour::MultiThread];

    pub fn name(self) -> &'static str {
        match self {
            Flavour::CurrentThread => "tokio, current thread",
            Flavour::MultiThread => "tokio, 2 workers",
        }
    }

    /// # Errors
    ///
    /// A message if the operating system refuses the threads.
    pub fn build(self) -> Result<Runtime, String> {
        let mut builder = match self {
            Flavour::CurrentThread => Builder::new_current_thread(),
            Flavour::MultiThread => Builder::new_multi_thread(),
        };
        builder
            .worker_threads(2)
            .enable_time()
            .build()
            .map_err(|error| format!("{} cannot be started: {error}", self.name()))
    }
}
