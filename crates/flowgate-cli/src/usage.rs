//! Wrong arguments, answered in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory};

use crate::argument::habit;
use crate::exit::{Exit, Refusal, complain};
use crate::verb;

/// What `load` would take for something else than was surely meant.
pub(crate) fn misread(arguments: &[OsString]) -> Option<Refusal> {
    if !is_load(arguments) {
        return None;
    }
    let behind: Vec<_> = arguments
        .iter()
        .skip(2)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    habit::misread(&behind).map(Refusal::usage)
}

/// Prints the help or version that was asked for, or else says in one line what is wrong.
pub(crate) fn explain(error: &Error, arguments: &[OsString]) -> Exit {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // In colour only on a terminal. A reader that has gone away is no failure.
        let _ = match whole_help(error, arguments) {
            Some(mut verb) => verb.print_help(),
            None => error.print(),
        };
        return Exit::Success;
    }
    let message = known(error, arguments).unwrap_or_else(|| one_line(&error.to_string()));
    complain(&message);
    Exit::Usage
}

/// For `--help` behind a verb: the table that `-h` prints, a line for each flag, and then all explanations. clap would
/// take three lines for each flag.
fn whole_help(error: &Error, arguments: &[OsString]) -> Option<Command> {
    let is_whole = error.kind() == ErrorKind::DisplayHelp
        && arguments.iter().any(|argument| argument == "--help");
    let word = arguments.get(1)?.to_str().filter(|_| is_whole)?;
    let mut command = verb::Command::command();
    command.build();
    let mut verbs = command.get_subcommands();
    let verb = verbs
        .find(|verb| verb.get_name().starts_with(word))?
        .clone();
    let about = verb.get_long_about().cloned();
    let explanation = verb.get_after_long_help().cloned();
    Some(match (about, explanation) {
        (Some(about), Some(explanation)) => verb.about(about).after_help(explanation),
        (None, Some(explanation)) => verb.after_help(explanation),
        _ => verb,
    })
}

/// What is better said than clap can.
fn known(error: &Error, arguments: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            word.contains("://")
                .then(|| format!("what with {word}? type flowgate load {word}"))
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            if is_load(arguments) {
                if word.contains("://") {
                    return Some(format!(
                        "one URL more than can be: {word}; several go into a file, --urls FILE"
                    ));
                }
                return habit::instead_of(word);
            }
            let first = arguments.get(1)?.to_string_lossy();
            first
                .starts_with('-')
                .then(|| format!("{word} belongs behind a verb: type flowgate load {word} …"))
        }
        _ => None,
    }
}

/// Whether the verb is `load`, or the beginning of it.
fn is_load(arguments: &[OsString]) -> bool {
    arguments
        .get(1)
        .and_then(|verb| verb.to_str())
        .is_some_and(|verb| !verb.is_empty() && "load".starts_with(verb))
}

/// clap's message without its first word, its usage and its pointer to the help; its tips stay.
fn one_line(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let lines = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let mut text = String::new();
    for line in lines {
        if !text.is_empty() {
            text.push_str(if line.starts_with("tip:") { "; " } else { " " });
        }
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_message_of_several_paragraphs_becomes_one_line() {
        let message = "error: unexpected argument '--rat' found\n\n  \
                       tip: a similar argument exists: '--rate'\n\n\
                       Usage: flowgate load [OPTIONS] [URL]\n\n\
                       For more information, try '--help'.\n";
        assert_eq!(
            one_line(message),
            "unexpected argument '--rat' found; tip: a similar argument exists: '--rate'",
        );
    }
}
