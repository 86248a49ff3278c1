//! `flowgate completions`: what a shell needs to complete arguments.

use clap::{Arg, Args, CommandFactory, ValueHint};
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

/// With what a shell may offer for its value: files only where one is meant.
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

/// Makes bash offer files behind verbs that take them, which it does where nothing else is offered. clap offers flags.
fn offer_files(script: &mut String, command: &clap::Command) {
    for verb in command.get_subcommands() {
        let takes_files = verb.get_positionals().any(|argument| {
            matches!(
                argument.get_value_hint(),
                ValueHint::FilePath | ValueHint::DirPath
            )
        });
        let block = format!("\n        flowgate__subcmd__{})\n", verb.get_name());
        if let (true, Some(begin)) = (takes_files, script.find(&block)) {
            let files = "            [[ ${cur} == -* ]] || { COMPREPLY=(); return 0; }\n";
            script.insert_str(begin + block.len(), files);
        }
    }
}

/// Runs the verb.
pub(crate) fn run(completions: Completions) -> Exit {
    let mut script = Vec::new();
    let mut command = Command::command();
    for verb in command.get_subcommands_mut() {
        *verb = verb.clone().mut_args(hinted);
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
