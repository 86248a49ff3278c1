//! The verdicts that were recorded, so that every change of one is noticed: all versions are exact, and all that is
//! random has its seed.

use std::collections::BTreeSet;

const EXPECTED: &str = include_str!("../expected.txt");

/// What differs from the recorded verdicts, a line each.
pub fn differences(verdicts: &[String]) -> Vec<String> {
    between(EXPECTED, verdicts)
}

fn between(expected: &str, verdicts: &[String]) -> Vec<String> {
    let expected: BTreeSet<_> = expected.lines().collect();
    let seen: BTreeSet<_> = verdicts.iter().map(String::as_str).collect();
    let gone = expected
        .difference(&seen)
        .map(|line| format!("was expected:  {line}"));
    let new = seen
        .difference(&expected)
        .map(|line| format!("was seen:      {line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_changes_is_told_both_ways() {
        let same = ["a | kept".to_owned(), "b | BROKEN".to_owned()];
        assert_eq!(between("a | kept\nb | BROKEN\n", &same), [""; 0]);
        assert_eq!(
            between("a | BROKEN\nb | BROKEN\n", &same),
            ["was expected:  a | BROKEN", "was seen:      a | kept"],
        );
    }
}
