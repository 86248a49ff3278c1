//! One-line messages for invalid arguments.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory};

use crate::argument::{habit, rate, url};
use crate::exit::{Exit, Refusal, complain};
use crate::subcommand;

/// Names of subcommands.
const LOAD: &str = "load";
const FLEET: &str = "fleet";
const PACE: &str = "pace";
const SIMULATE: &str = "simulate";

/// Maximum edit distance of a suggested word.
const NEAR: usize = 2;

/// Returns a message for arguments that `load` or `pace` would accept but misinterpret.
pub(crate) fn misread(arguments: &[OsString]) -> Option<Refusal> {
    let answer = match () {
        () if is(LOAD, arguments) => habit::misread(&behind(arguments)),
        () if is(PACE, arguments) => habit::rate_of_pace(&behind(arguments)),
        () => None,
    };
    answer.map(Refusal::usage)
}

/// Prints the requested help or version, or else an error in one line.
pub(crate) fn explain(error: &Error, arguments: &[OsString]) -> Exit {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // In color only on a terminal. A reader that has exited is not an error.
        let _ = match whole_help(error, arguments) {
            Some(mut subcommand) => subcommand.print_help(),
            None => error.print(),
        };
        return Exit::Success;
    }
    let message = known(error, arguments).unwrap_or_else(|| one_line(&error.to_string()));
    complain(&without_credentials(message, arguments));
    Exit::Usage
}

/// Removes the passwords in arguments from the message.
fn without_credentials(message: String, arguments: &[OsString]) -> String {
    let texts = arguments.iter().filter_map(|argument| argument.to_str());
    let values = texts.map(|text| match text.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => value,
        _ => text,
    });
    values
        .filter(|value| value.contains("://"))
        .fold(message, |message, value| {
            match url::without_credentials(value) {
                Cow::Owned(shown) => message.replace(value, &shown),
                Cow::Borrowed(_) => message,
            }
        })
}

/// Returns the help of a subcommand: the compact table of `-h`, and then all explanations. clap's long help would print
/// three lines per flag.
fn whole_help(error: &Error, arguments: &[OsString]) -> Option<Command> {
    let is_whole = error.kind() == ErrorKind::DisplayHelp
        && arguments.iter().any(|argument| argument == "--help");
    let mut command = subcommand::Command::command();
    command.build();
    let mut words = arguments.iter().skip(1).filter(|_| is_whole);
    let mut subcommand = called(&command, words.next()?)?;
    if let Some(task) = words.next().and_then(|word| called(subcommand, word)) {
        subcommand = task;
    }
    let subcommand = subcommand.clone();
    let about = subcommand.get_long_about().cloned();
    let explanation = subcommand.get_after_long_help().cloned();
    Some(match (about, explanation) {
        (Some(about), Some(explanation)) => subcommand.about(about).after_help(explanation),
        (None, Some(explanation)) => subcommand.after_help(explanation),
        _ => subcommand,
    })
}

/// Returns the subcommand whose name begins with `word`.
fn called<'c>(command: &'c Command, word: &OsString) -> Option<&'c Command> {
    let word = word.to_str()?;
    let mut subcommands = command.get_subcommands();
    subcommands.find(|subcommand| subcommand.get_name().starts_with(word))
}

/// Returns a better message than that of clap, for known mistakes.
fn known(error: &Error, arguments: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            let is_known = |word: &&OsString| word.to_str().is_some_and(is_subcommand);
            match word {
                "help" => match arguments.get(2).filter(is_known) {
                    Some(word) => Some(format!("write flowgate {} --help", word.to_string_lossy())),
                    None => Some("write flowgate --help".to_owned()),
                },
                "version" => Some("write flowgate --version".to_owned()),
                url if url.contains("://") && is(FLEET, arguments) => Some(format!(
                    "{word} needs a subcommand: write flowgate fleet inspect {word} LIMIT"
                )),
                url if url.contains("://") => Some(format!(
                    "{word} needs a subcommand: write flowgate load {word}"
                )),
                _ => None,
            }
        }
        ErrorKind::ArgumentConflict => {
            let flag = text(ContextKind::InvalidArg)?;
            let others = match error.get(ContextKind::PriorArg)? {
                ContextValue::Strings(others) => others,
                // It is repeated.
                _ if flag.starts_with("--arrivals") => {
                    let why = "has one source of requests; write several into a scenario, which --print-scenario begins";
                    return Some(format!("--arrivals {why}"));
                }
                _ => return None,
            };
            let is_typed = |other: &&String| {
                let name = other.split([' ', '=']).next().unwrap_or_default();
                let is_it = |argument: &OsString| {
                    let argument = argument.to_string_lossy();
                    argument.split('=').next() == Some(name)
                };
                arguments.iter().any(is_it)
            };
            let typed: Vec<_> = others.iter().filter(is_typed).map(String::as_str).collect();
            if flag == "[SCENARIO]" && !typed.is_empty() {
                let flags = typed.join("', '");
                return Some(format!(
                    "'{flags}': a scenario has its own; write it into the file"
                ));
            }
            (!typed.is_empty()).then(|| {
                format!(
                    "the argument '{flag}' cannot be used with '{}'",
                    typed.join("' or '")
                )
            })
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if is(FLEET, arguments) => {
            let example = "write flowgate fleet inspect redis://127.0.0.1 api";
            Some(format!("no subcommand, or no limit: {example}"))
        }
        ErrorKind::MissingRequiredArgument if is(SIMULATE, arguments) => {
            // After the missing arguments comes the usage, which has all that are required.
            let message = error.to_string();
            let message = message.split("Usage:").next().unwrap_or_default();
            let is_missing = |flag| message.contains(flag);
            (is_missing("--limiter") || is_missing("--arrivals")).then(|| {
                "no limit, or no traffic: write flowgate simulate --limiter 'token 100/s burst 20' \
                 --arrivals 'poisson 150/s', or the path of a scenario"
                    .to_owned()
            })
        }
        ErrorKind::ValueValidation => {
            // A text of a scenario is in its own error, too.
            let repeated = format!("'{}': ", text(ContextKind::InvalidValue)?);
            let message = one_line(&error.to_string());
            let (flag, rest) = message.split_once(": ")?;
            Some(format!("{flag}: {}", rest.strip_prefix(&repeated)?))
        }
        ErrorKind::MissingRequiredArgument if is(PACE, arguments) => {
            Some("no rate: write flowgate pace 2/s".to_owned())
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            if is(LOAD, arguments) {
                if word.contains("://") {
                    return Some(format!(
                        "more than one URL: {word}; write several into a file and write --urls FILE"
                    ));
                }
                let behind = behind(arguments);
                return habit::instead_of(word, habit::value_among(word, &behind));
            }
            if is(PACE, arguments) && !word.starts_with('-') {
                return Some(rate_and_more(word, &behind(arguments)));
            }
            if word == "-v" {
                return Some("-v: write flowgate --version".to_owned());
            }
            let first = arguments.get(1)?.to_string_lossy();
            first
                .starts_with('-')
                .then(|| format!("{word} needs a subcommand: write flowgate load {word} …"))
        }
        _ => None,
    }
}

/// Returns what to write instead of a rate and a file, in either order, or of a flag that `pace` does not have.
fn rate_and_more(last: &str, behind: &[String]) -> String {
    let is_unknown = |word: &&String| {
        let is_flag = word.starts_with('-') && !word[1..].starts_with(|c: char| c.is_ascii_digit());
        is_flag && !["--", "--null", "--precise"].contains(&word.as_str())
    };
    match behind.iter().find(is_unknown).map(String::as_str) {
        Some("--burst") => return "--burst: write flowgate pace '2/s burst 5'".to_owned(),
        Some(flag) => return format!("unexpected argument '{flag}' found"),
        None => {}
    }
    let (rates, others): (Vec<_>, Vec<_>) = behind
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'))
        .partition(|word| rate::parse(word).is_ok());
    let file = others.first().unwrap_or(&last);
    let rate = rates.first().unwrap_or(&"2/s");
    format!("{file}: pace reads standard input: write flowgate pace {rate} < {file}")
}

/// Returns whether this is the name of a subcommand, or its beginning.
fn is_subcommand(word: &str) -> bool {
    let command = subcommand::Command::command();
    let mut subcommands = command.get_subcommands();
    !word.is_empty() && subcommands.any(|subcommand| subcommand.get_name().starts_with(word))
}

/// Returns whether the subcommand is `name`, or its beginning.
fn is(name: &str, arguments: &[OsString]) -> bool {
    arguments
        .get(1)
        .and_then(|subcommand| subcommand.to_str())
        .is_some_and(|subcommand| !subcommand.is_empty() && name.starts_with(subcommand))
}

/// Returns the arguments after the subcommand.
fn behind(arguments: &[OsString]) -> Vec<String> {
    let behind = arguments.iter().skip(2);
    behind
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

/// Shortens clap's message to one line. Keeps only tips about a word within [`NEAR`], because others are usually
/// misleading.
fn one_line(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let lines = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let (tips, words): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("tip:"));
    let text = words.join(" ");
    let typed = quoted(&text).next().unwrap_or_default();
    let near: Vec<_> = tips
        .into_iter()
        .flat_map(quoted)
        .filter(|word| (1..=NEAR).contains(&distance(typed, word)))
        .map(|word| format!("'{word}'"))
        .collect();
    match near.is_empty() {
        true => text,
        false => format!("{text}; did you mean {}?", near.join(" or ")),
    }
}

/// Returns the texts between single quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('\'').skip(1).step_by(2)
}

/// Returns the edit distance (Levenshtein) of two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().collect();
    // Distances from the read part of `one` to each beginning of `other`.
    let mut distances: Vec<_> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut diagonal = row;
        distances[0] = row + 1;
        for (column, &opposite) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != opposite);
            diagonal = distances[column + 1];
            let shorter = distances[column].min(diagonal) + 1;
            distances[column + 1] = exchanged.min(shorter);
        }
    }
    distances[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, one_line};

    #[test]
    fn a_message_of_several_paragraphs_becomes_one_line() {
        let message = "error: unexpected argument '--rat' found\n\n  \
                       tip: a similar argument exists: '--rate'\n\n\
                       Usage: flowgate load [OPTIONS] [URL]\n\n\
                       For more information, try '--help'.\n";
        assert_eq!(
            one_line(message),
            "unexpected argument '--rat' found; did you mean '--rate'?",
        );
    }

    #[test]
    fn tips_about_something_else_are_left_out() {
        for tip in [
            "a similar argument exists: '--streams'",
            "to pass '--stats' as a value, use '-- --stats'",
        ] {
            let message = format!("error: unexpected argument '--stats' found\n\n  tip: {tip}\n");
            assert_eq!(one_line(&message), "unexpected argument '--stats' found");
        }
        let several = "error: unrecognized subcommand 'lod'\n\n  \
                       tip: some similar subcommands exist: 'load', 'report', 'loud'\n";
        assert_eq!(
            one_line(several),
            "unrecognized subcommand 'lod'; did you mean 'load' or 'loud'?"
        );
    }

    #[test]
    fn a_distance_is_a_number_of_letters() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("load", "load", 0),
            ("laod", "load", 2),
            ("--rat", "--rate", 1),
            ("--stats", "--streams", 3),
            ("--latencies", "--late", 5),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }
}
