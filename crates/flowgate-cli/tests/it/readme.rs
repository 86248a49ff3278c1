//! The commands that the README shows.

use crate::support::run;

/// The words of a line, of which one in single quotes may have spaces.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect()
}

#[test]
fn each_command_is_one_that_flowgate_accepts() {
    let readme = include_str!("../../README.md");
    let commands = readme
        .lines()
        .filter_map(|line| line.strip_prefix("flowgate "));
    let mut seen = 0;
    for command in commands {
        // What is wrong is found before the help is shown.
        let mut arguments = words(command);
        arguments.push("--help");
        let (code, _, stderr) = run(&arguments);
        assert_eq!(code, 0, "flowgate {command}: {stderr}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} commands");
}

#[test]
fn a_flag_that_does_not_exist_is_found_before_the_help_is_shown() {
    let (code, _, _) = run(&["load", "--no-such-flag", "--help"]);
    assert_ne!(code, 0);
}

#[test]
fn its_first_command_holds_its_rate() {
    let (code, stdout, stderr) = run(&["load", "--rate", "100/s", "--duration", "200ms"]);
    // On a machine that stands still meanwhile, the rate is not held, and 4 is the answer.
    assert!(code == 0 || code == 4, "{stderr}");
    assert!(stdout.contains("RATE "), "{stdout}");
}
