//! `flowgate completions`: what a shell needs to complete arguments.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::exit::{Exit, print};
use crate::verb::Command;

/// Print what a shell needs to complete arguments
///
/// For example: source <(flowgate completions bash)
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// For which shell
    shell: Shell,
}

/// Runs the verb.
pub(crate) fn run(completions: Completions) -> Exit {
    let mut script = Vec::new();
    generate(
        completions.shell,
        &mut Command::command(),
        "flowgate",
        &mut script,
    );
    match print(&String::from_utf8_lossy(&script)) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}
