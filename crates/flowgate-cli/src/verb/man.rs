//! `flowgate man`: manual pages, from the same table as the help.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::exit::{Exit, Refusal, print};
use crate::verb;

/// Print the manual page, or write one for each verb
///
/// For example: flowgate man | man -l -
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Where to write flowgate.1, flowgate-load.1 and so on; made if it is not there
    directory: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(man: Man) -> Exit {
    let mut command = verb::Command::command();
    // Gives the verbs their names: flowgate-load.
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

/// One page for the command, and one for each verb.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for command in [command].into_iter().chain(command.get_subcommands()) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    }
    Ok(())
}

fn page(command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    Page::new(command.clone()).render(&mut page)?;
    // What is behind the table of flags has its own lines, which are kept.
    Ok(String::from_utf8_lossy(&page).replacen(".SH EXTRA\n", ".SH NOTES\n.nf\n", 1))
}
