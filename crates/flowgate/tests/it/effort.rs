//! How much a test draws: less in `ci/test`, everything in `ci/long.sh`.

/// Returns `long` if the environment variable `FLOWGATE_LONG` is set (`ci/long.sh` sets it), and `short` otherwise.
pub fn rounds(short: u64, long: u64) -> u64 {
    if std::env::var_os("FLOWGATE_LONG").is_some() {
        long
    } else {
        short
    }
}

/// Returns the number in an environment variable, or `default` if it is not set.
///
/// # Panics
///
/// Panics if the variable holds anything else.
pub fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => default,
    }
}
