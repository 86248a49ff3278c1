//! `flowgate completions`: scripts that complete arguments in a shell.

use clap::{Arg, Args, CommandFactory, ValueHint};
use clap_complete::{Shell, generate};

use crate::exit::{Exit, print};
use crate::subcommand::Command;

/// Print a script that completes arguments in a shell
///
/// For example: source <(flowgate completions bash)
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Write the script for this shell
    shell: Shell,
}

/// Adds what a shell may offer as a value: files only where a file is expected.
fn hinted(argument: Arg) -> Arg {
    let name = argument.get_value_names().and_then(|names| names.first());
    let hint = match name.map(|name| name.as_str()) {
        Some("FILE") => ValueHint::FilePath,
        Some("DIRECTORY") => ValueHint::DirPath,
        Some("URL") => ValueHint::Url,
        Some(_) if argument.get_action().takes_values() => ValueHint::Other,
        _ => return argument,
    };
    argument.value_hint(hint)
}

/// Makes bash offer files after subcommands that take files. bash does so if the script offers nothing; clap offers flags.
fn offer_files(script: &mut String, command: &clap::Command) {
    for subcommand in command.get_subcommands() {
        let takes_files = subcommand.get_positionals().any(|argument| {
            matches!(
                argument.get_value_hint(),
                ValueHint::FilePath | ValueHint::DirPath
            )
        });
        let block = format!("\n        flowgate__subcmd__{})\n", subcommand.get_name());
        if let (true, Some(begin)) = (takes_files, script.find(&block)) {
            let files = "            [[ ${cur} == -* ]] || { COMPREPLY=(); return 0; }\n";
            script.insert_str(begin + block.len(), files);
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(completions: Completions) -> Exit {
    let mut script = Vec::new();
    let mut command = Command::command();
    for subcommand in command.get_subcommands_mut() {
        *subcommand = subcommand.clone().mut_args(hinted);
    }
    generate(completions.shell, &mut command, "flowgate", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if completions.shell == Shell::Bash {
        offer_files(&mut script, &command);
    }
    match print(&script) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}
