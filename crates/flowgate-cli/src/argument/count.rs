//! A whole number, from 1.

use std::num::NonZeroUsize;

/// Parses a number from 1 to `most`. An error shows `example`.
pub(crate) fn parse(text: &str, most: usize, example: usize) -> Result<NonZeroUsize, String> {
    match text.trim().parse::<usize>() {
        Ok(count) if count <= most => NonZeroUsize::new(count),
        _ => None,
    }
    .ok_or_else(|| format!("not a whole number from 1 to {most}: write {example}"))
}
