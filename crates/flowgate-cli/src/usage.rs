//! Wrong arguments, answered in one line.

use clap::error::{Error, ErrorKind};

use crate::exit::{Exit, complain};

/// Prints the help or version that was asked for, or else says in one line what is wrong.
pub(crate) fn explain(error: &Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // In colour only on a terminal. A reader that has gone away is no failure.
            let _ = error.print();
            Exit::Success
        }
        _ => {
            complain(&one_line(&error.to_string()));
            Exit::Usage
        }
    }
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
