//! The `flowgate` command. Each verb is a file in [`verb`].

mod argument;
mod descriptors;
mod exit;
mod figure;
mod interrupt;
mod reports;
mod serve;
mod usage;
mod verb;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::exit::Exit;
use crate::verb::{Command, Verb};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(refusal) = usage::misread(&arguments) {
        return refusal.say().into();
    }
    let command = match Command::try_parse_from(&arguments) {
        Ok(command) => command,
        Err(error) => return usage::explain(&error, &arguments).into(),
    };
    match command.verb {
        Some(Verb::Load(load)) => verb::load::run(*load),
        Some(Verb::Pace(pace)) => verb::pace::run(pace),
        Some(Verb::Report(report)) => verb::report::run(report),
        Some(Verb::Verify(verify)) => verb::verify::run(*verify),
        Some(Verb::Serve(serve)) => verb::serve::run(serve),
        Some(Verb::Completions(completions)) => verb::completions::run(completions),
        Some(Verb::Man(man)) => verb::man::run(man),
        // Who types the name alone wants to know what it can do.
        None => {
            let _ = Command::command().print_help();
            Exit::Success
        }
    }
    .into()
}
