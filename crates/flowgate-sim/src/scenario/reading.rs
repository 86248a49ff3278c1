//! Reads TOML: an error has its line, and the known key that is closest to an unknown one.

use super::{Scenario, ScenarioError};

/// How similar two keys are at least, from 0 to 1, so that one may be a misspelling of the other.
const SIMILAR: f64 = 0.7;

pub(super) fn scenario(text: &str) -> Result<Scenario, ScenarioError> {
    toml::from_str(text).map_err(|error| {
        let message = in_one_line(error.message());
        let message = with_nearest(&message).unwrap_or(message);
        match error.span() {
            Some(span) => {
                let before = &text[..span.start.min(text.len())];
                let line = 1 + before.matches('\n').count();
                let message = match key_of_value(before) {
                    Some(key) => format!("{key}: {message}"),
                    None => message,
                };
                ScenarioError::new(format!("line {line}: {message}"))
            }
            None => ScenarioError::new(message),
        }
    })
}

/// The key of the value that begins after `before`.
fn key_of_value(before: &str) -> Option<&str> {
    let key = before.trim_end().strip_suffix('=')?.trim_end();
    let is_of_key = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    key.rsplit(|c| !is_of_key(c))
        .next()
        .filter(|key| !key.is_empty())
}

fn in_one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

/// Serde lists the known keys: ``unknown field `limter`, expected one of `limit`, `seed` ``.
fn with_nearest(message: &str) -> Option<String> {
    let names: Vec<&str> = message
        .strip_prefix("unknown field ")?
        .split('`')
        .skip(1)
        .step_by(2)
        .collect();
    let (unknown, known) = names.split_first()?;
    let similarity = |name: &&&str| strsim::jaro_winkler(unknown, name);
    let nearest = known
        .iter()
        .filter(|name| similarity(name) >= SIMILAR)
        .max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
    Some(match nearest {
        Some(nearest) => format!("unknown key '{unknown}'; write '{nearest}'"),
        None => format!("unknown key '{unknown}'; write one of {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_has_its_line_and_the_nearest_known_one() {
        for (text, expected) in [
            (
                "seed = 1\nduratoin = '1s'",
                "line 2: unknown key 'duratoin'; write 'duration'",
            ),
            (
                "[[limt]]\nlimiter = 'none'",
                "line 1: unknown key 'limt'; write 'limit'",
            ),
            (
                "[server]\nworkers = 1\nservice = '1ms'\nqueu = 3",
                "line 4: unknown key 'queu'; write 'queue'",
            ),
        ] {
            assert_eq!(scenario(text).expect_err(text).to_string(), expected);
        }
        let error = scenario("zzz = 1").expect_err("unknown").to_string();
        assert!(
            error.starts_with("line 1: unknown key 'zzz'; write one of name, "),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_value_has_its_line_and_what_to_write() {
        for (text, expected) in [
            ("seed = 1\nduration = 'long'", "line 2: duration: 'long'"),
            (
                "[[traffic]]\narrivals = 'poison 5/s'",
                "line 2: arrivals: 'poison 5/s'",
            ),
            (
                "[[limit]]\nlimiter = 'tokn 5/s'",
                "line 2: limiter: 'tokn 5/s'",
            ),
            (
                "[server]\nworkers = 0\nservice = '1ms'",
                "line 2: workers: 0 is too few; write 1 or more",
            ),
            (
                "[[traffic]]\narrivals = '5/s'\nretries = { backoff = '1s', attempts = 0 }",
                "line 3: attempts: 0 is too few; write 1 or more",
            ),
            (
                "[server]\nworkers = 1\nservice = 'slow'",
                "line 3: service: 'slow'",
            ),
            (
                "[[fault]]\nkind = 'capacity 0%'\nat = '1s'\nlasts = '1s'",
                "line 2: ",
            ),
        ] {
            let error = scenario(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
