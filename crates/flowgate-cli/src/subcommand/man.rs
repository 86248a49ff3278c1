//! `flowgate man`: manual pages, from the same source as the help.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::exit::{Exit, Refusal, print};
use crate::subcommand;

/// Print the manual page, or write one per subcommand
///
/// For example: flowgate man | man -l -
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write flowgate.1, flowgate-load.1, … to this directory, created if missing
    directory: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(man: Man) -> Exit {
    let mut command = subcommand::Command::command();
    // Sets the display names of the subcommands: flowgate-load.
    command.build();
    let written = match &man.directory {
        Some(directory) => write(&command, directory).map_err(|error| {
            Refusal::could_not_run(format!("cannot write to {}: {error}", directory.display()))
        }),
        None => page(&command)
            .map_err(|error| Refusal::could_not_run(error.to_string()))
            .and_then(|page| print(&page)),
    };
    match written {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}

/// One page for the command, and one for each subcommand.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    let mut subcommands = command.get_subcommands();
    subcommands.try_for_each(|subcommand| write(subcommand, directory))
}

fn page(command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    Page::new(command.clone()).render(&mut page)?;
    // Keeps the line breaks of the text after the flags.
    Ok(String::from_utf8_lossy(&page).replacen(".SH EXTRA\n", ".SH NOTES\n.nf\n", 1))
}
