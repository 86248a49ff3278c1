//! The `flowgate` command. Each verb is a file in [`verb`].

mod argument;
mod exit;
mod interrupt;
mod usage;
mod verb;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::exit::Exit;
use crate::verb::{Command, Verb};

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => return usage::explain(&error).into(),
    };
    match command.verb {
        Some(Verb::Load(load)) => verb::load::run(load).into(),
        Some(Verb::Pace(pace)) => verb::pace::run(pace).into(),
        // Who types the name alone wants to know what it can do.
        None => {
            let _ = Command::command().print_help();
            Exit::Success.into()
        }
    }
}
