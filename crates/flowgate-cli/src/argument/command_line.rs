//! The command line, as reports contain it: ready to be pasted into a shell, and without secrets.

use clap::{Arg, Command};

use super::url;

/// Long names of the flags whose values can contain secrets, beside headers.
const SECRET: [&str; 3] = ["basic-auth", "body", "form"];
/// Stands for what is left out.
const HIDDEN: &str = "…";

/// Returns the command line of `subcommand` with these arguments, of which the first is the program.
pub(crate) fn without_secrets(arguments: &[String], subcommand: &Command) -> String {
    let mut words = vec!["flowgate".to_owned()];
    // The flag whose value is the next argument.
    let mut before: Option<&Arg> = None;
    let mut has_ended = false;
    for argument in arguments.iter().skip(1) {
        let word = match before.take() {
            Some(flag) => shown(flag, argument),
            None if has_ended || !argument.starts_with('-') => argument.clone(),
            None if argument == "--" => {
                has_ended = true;
                argument.clone()
            }
            None => match argument.strip_prefix("--") {
                Some(long) => {
                    let (name, value) = match long.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (long, None),
                    };
                    let named = |flag: &&Arg| flag.get_long() == Some(name);
                    let flag = with_value(subcommand).find(named);
                    match (flag, value) {
                        (Some(flag), Some(value)) => format!("--{name}={}", shown(flag, value)),
                        _ => {
                            before = flag;
                            argument.clone()
                        }
                    }
                }
                None => {
                    // Short flags can be joined; the first that has a value is the last.
                    let found = argument.char_indices().skip(1).find_map(|(index, letter)| {
                        let is_it = |flag: &&Arg| {
                            let aliases = flag.get_all_short_aliases().unwrap_or_default();
                            flag.get_short() == Some(letter) || aliases.contains(&letter)
                        };
                        let flag = with_value(subcommand).find(is_it)?;
                        Some((flag, argument.split_at(index + letter.len_utf8())))
                    });
                    match found {
                        Some((flag, (_, ""))) => {
                            before = Some(flag);
                            argument.clone()
                        }
                        Some((flag, (begin, value))) => format!("{begin}{}", shown(flag, value)),
                        None => argument.clone(),
                    }
                }
            },
        };
        words.push(quoted(&word));
    }
    words.join(" ")
}

fn with_value(subcommand: &Command) -> impl Iterator<Item = &Arg> {
    let flags = subcommand.get_arguments();
    flags.filter(|flag| flag.get_action().takes_values())
}

/// Returns the value of a flag. Of a header, only the name is shown.
fn shown(flag: &Arg, value: &str) -> String {
    match flag.get_long() {
        Some("header" | "otlp-header") => match value.split_once(':') {
            Some((name, _)) => format!("{name}: {HIDDEN}"),
            None => HIDDEN.to_owned(),
        },
        Some("proxy") => url::without_credentials(value).into_owned(),
        Some(name) if SECRET.contains(&name) => HIDDEN.to_owned(),
        _ => value.to_owned(),
    }
}

/// Quotes a word for a shell, if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+…".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn of(arguments: &[&str]) -> String {
        let mut command = crate::subcommand::Command::command();
        command.build();
        let load = command.find_subcommand("load").expect("it exists");
        let arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        without_secrets(&arguments, load)
    }

    #[test]
    fn what_may_be_secret_is_left_out() {
        for (arguments, expected) in [
            (
                &["/usr/bin/flowgate", "load", "-q", "5", "http://h/?a=1&b=2"][..],
                "flowgate load -q 5 'http://h/?a=1&b=2'",
            ),
            (
                &[
                    "x",
                    "load",
                    "-H",
                    "X-Key: sesame",
                    "-Hcookie: sesame",
                    "--header=a: sesame",
                    "--otlp-header",
                    "b: sesame",
                    "--proxy",
                    "http://me:sesame@h:1",
                ],
                "flowgate load -H 'X-Key: …' '-Hcookie: …' '--header=a: …' --otlp-header 'b: …' --proxy http://…@h:1",
            ),
            (
                &[
                    "x",
                    "load",
                    "-a",
                    "me:sesame",
                    "--basic-auth",
                    "me:sesame",
                    "-kame:sesame",
                ],
                "flowgate load -a … --basic-auth … -ka…",
            ),
            (
                &[
                    "x",
                    "load",
                    "-d",
                    "sesame",
                    "--body=sesame",
                    "-mPOST",
                    "-X",
                    "-d",
                    "-d",
                    "it's",
                ],
                "flowgate load -d … --body=… -mPOST -X -d -d …",
            ),
            (
                &["x", "load", "--limiter", "token 5/s", "--", "-d", ""],
                "flowgate load --limiter 'token 5/s' -- -d ''",
            ),
        ] {
            assert_eq!(of(arguments), expected);
        }
    }
}
