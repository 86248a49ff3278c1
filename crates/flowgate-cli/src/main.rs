//! The `flowgate` command. Each subcommand is a file in [`subcommand`].

mod argument;
mod checks;
mod csv;
mod descriptors;
mod exit;
mod figure;
mod interrupt;
mod reports;
mod serve;
mod simulate;
mod subcommand;
mod usage;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::exit::Exit;
use crate::subcommand::{Command, Subcommand};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(refusal) = usage::misread(&arguments) {
        return refusal.say().into();
    }
    let command = match Command::try_parse_from(&arguments) {
        Ok(command) => command,
        Err(error) => return usage::explain(&error, &arguments).into(),
    };
    match command.subcommand {
        Some(Subcommand::Load(load)) => subcommand::load::run(*load),
        Some(Subcommand::Pace(pace)) => subcommand::pace::run(pace),
        Some(Subcommand::Report(report)) => subcommand::report::run(report),
        Some(Subcommand::Find(find)) => subcommand::find::run(*find),
        Some(Subcommand::Verify(verify)) => subcommand::verify::run(*verify),
        Some(Subcommand::Simulate(simulate)) => subcommand::simulate::run(*simulate),
        #[cfg(feature = "decide")]
        Some(Subcommand::Decide(decide)) => subcommand::decide::run(*decide),
        Some(Subcommand::Serve(serve)) => subcommand::serve::run(serve),
        #[cfg(feature = "fleet")]
        Some(Subcommand::Fleet(fleet)) => subcommand::fleet::run(fleet),
        Some(Subcommand::Completions(completions)) => subcommand::completions::run(completions),
        Some(Subcommand::Man(man)) => subcommand::man::run(man),
        // Without arguments, show the help.
        None => {
            let _ = Command::command().print_help();
            Exit::Success
        }
    }
    .into()
}
